//! Logs that are damaged while their files are whole: reported, kept, and rebuilt from what is left.

use rethread_core::store::FindingState::{Damaged, Repairable, Repaired};
use rethread_core::store::{Filter, Finding, FindingState};
use rethread_core::{Body, New, Owner, SessionId, Sessions};

use crate::fixture::{Fixture, add, all, say, texts, tool_round};

/// What doctor says of one session.
fn checked(fixture: &Fixture, id: SessionId, repair: bool) -> Vec<(String, FindingState)> {
    let findings = fixture.store().check_session(&Owner::local(), id, repair).expect("checked");
    findings.into_iter().map(|finding| (finding.what, finding.state)).collect()
}

fn bodies(sessions: &Sessions, id: SessionId) -> Vec<(u64, String, String)> {
    let entries = sessions.read(id, 0..99).expect("read");
    let shown = |e: rethread_core::Entry| (e.seq, e.id.as_str().to_owned(), e.body.json());
    entries.into_iter().map(shown).collect()
}

/// Changes the body of an entry, but not its fingerprint.
fn flip(fixture: &Fixture, seq: u64) {
    let sql = "UPDATE entries SET body = CAST(body || x'00' AS BLOB) WHERE seq = ?1";
    assert_eq!(fixture.database().execute(sql, [seq as i64]), Ok(1));
}

/// The bodies in the damaged databases that were kept.
fn kept(fixture: &Fixture) -> Vec<Vec<Vec<u8>>> {
    let folder = std::fs::read_dir(fixture.path().join(".rethread/damaged")).into_iter().flatten();
    let bodies = |entry: std::io::Result<std::fs::DirEntry>| {
        let database = rusqlite::Connection::open(entry.expect("one").path()).expect("a database");
        rows(&database)
    };
    folder.map(bodies).collect()
}

fn rows(database: &rusqlite::Connection) -> Vec<Vec<u8>> {
    let mut bodies = database.prepare("SELECT body FROM entries ORDER BY seq").expect("a query");
    bodies.query_map([], |row| row.get(0)).expect("rows").map(|row| row.expect("a row")).collect()
}

#[test]
fn a_log_that_is_gone_cut_or_flipped_is_rebuilt_from_the_file() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["where?"]);
    sessions.append(id, tool_round()).expect("appended");
    let before = bodies(&sessions, id);
    let counts = sessions.get(id).expect("there").tally;
    drop(sessions);
    for damage in [
        "DELETE FROM entries",
        "DELETE FROM entries WHERE seq = 3",
        "DELETE FROM entries WHERE seq = 1",
        "UPDATE entries SET body = x'78787878'",
        "UPDATE entries SET body = CAST(body || x'00' AS BLOB) WHERE seq = 2",
        "UPDATE entries SET at = at + 1 WHERE seq = 2",
    ] {
        fixture.database().execute(damage, []).expect("damaged");
        let damaged = rows(&fixture.database());
        let error = fixture.sessions().read(id, 0..99).expect_err("it is damaged").to_string();
        assert!(error.contains("is damaged"), "{damage}: {error}");
        let found = checked(&fixture, id, false);
        let states: Vec<_> = found.iter().map(|(_, state)| *state).collect();
        assert_eq!(states, [Repairable], "{damage}: {found:?}");
        let found = checked(&fixture, id, true);
        let states: Vec<_> = found.iter().map(|(_, state)| *state).collect();
        assert_eq!(states, [Repaired], "{damage}: {found:?}");
        assert!(found[0].0.contains("lost: 0"), "{found:?}");
        assert_eq!(checked(&fixture, id, true), []);
        let sessions = fixture.sessions();
        assert_eq!(bodies(&sessions, id), before, "every message with its id and its blocks");
        assert_eq!(sessions.get(id).expect("there").tally, counts);
        assert_eq!(sessions.search("found", 0, 9).expect("searched").len(), 1, "{damage}");
        drop(sessions);
        assert!(kept(&fixture).contains(&damaged), "{damage}: the damaged one is kept");
        assert_eq!(fixture.seed2(&["check"]), "");
    }
}

#[test]
fn what_was_in_the_log_alone_is_reported_as_lost_and_keeps_its_place() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    sessions.clear(id).expect("cleared");
    add(&sessions, id, &["three"]);
    drop(sessions);
    flip(&fixture, 2);
    let found = checked(&fixture, id, true);
    assert!(found[0].0.contains("lost: 1"), "{found:?}");
    let sessions = fixture.sessions();
    let entries = sessions.read(id, 0..9).expect("read");
    assert_eq!(texts(&sessions, id), ["one", "two", "three"]);
    assert!(matches!(&entries[2].body, Body::Unknown { kind, .. } if kind == "lost"));
    assert_eq!(entries[3].seq, 3, "what is behind it stays where it was");
    add(&sessions, id, &["four"]);
    assert_eq!(texts(&sessions, id).len(), 4);
}

#[test]
fn a_whole_file_is_not_written_over_from_a_damaged_log() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    drop(sessions);
    flip(&fixture, 0);
    let sessions = fixture.sessions();
    add(&sessions, id, &["three"]);
    drop(sessions);
    drop(fixture.sessions());
    let shown = fixture.json("plan.json");
    assert_eq!(shown["messages"][0]["content"], "one", "its last copy is there");
    checked(&fixture, id, true);
    assert_eq!(texts(&fixture.sessions(), id), ["one", "two", "three"]);
    assert_eq!(fixture.json("plan.json")["messages"].as_array().map(Vec::len), Some(3));
}

#[test]
fn what_another_program_writes_after_a_damaged_log_waits_and_stops_nothing() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    say(&sessions, "other", &["hello"]);
    drop(sessions);
    let session = "session = (SELECT n FROM sessions WHERE name = 'plan')";
    for damage in [
        format!("DELETE FROM entries WHERE {session}"),
        format!(
            "UPDATE entries SET body = CAST(body || x'00' AS BLOB) WHERE seq = 1 AND {session}"
        ),
    ] {
        fixture.database().execute(&damage, []).expect("damaged");
        fixture.seed2(&["continue", "plan", &damage, "noted"]);
        let sessions = fixture.sessions();
        assert!(all(&sessions).iter().any(|one| one.header.name.as_str() == "other"), "{damage}");
        drop(sessions);
        let before = fixture.json("plan.json");
        let found = checked(&fixture, id, true);
        assert_eq!(found[0].1, Repaired, "{found:?}");
        let after = texts(&fixture.sessions(), id);
        let theirs = before["messages"].as_array().expect("a list").iter();
        let theirs: Vec<&str> = theirs.filter_map(|said| said["content"].as_str()).collect();
        assert_eq!(after, theirs, "{damage}");
        assert_eq!(all(&fixture.sessions()).len(), 2, "{damage}: no fork");
    }
}

#[test]
fn a_damaged_header_hides_no_other_session_whatever_happened_to_its_file() {
    type Happened = fn(&Fixture);
    let happened: [Happened; 3] = [
        |_| {},
        |fixture| drop(fixture.seed2(&["continue", "plan", "and then?", "nothing"])),
        |fixture| std::fs::remove_file(fixture.path().join("plan.json")).expect("it was there"),
    ];
    for (n, happened) in happened.iter().enumerate() {
        for (from, to) in [("{", "["), ("\"plan\"", "\"other\"")] {
            let fixture = Fixture::new();
            let sessions = fixture.sessions();
            say(&sessions, "plan", &["one", "two"]);
            say(&sessions, "other", &["hello"]);
            drop(sessions);
            let sql = "UPDATE sessions SET header = replace(header, ?1, ?2) WHERE name = 'plan'";
            assert_eq!(fixture.database().execute(sql, [from, to]), Ok(1));
            happened(&fixture);
            let file = || std::fs::read(fixture.path().join("plan.json")).ok();
            let before = file();
            for _ in 0..2 {
                let page = fixture.sessions().list(&Filter::default(), None, 9).expect("a list");
                let names = page.sessions.iter().map(|one| one.header.name.as_str());
                assert!(names.into_iter().any(|name| name == "other"), "{n}, {to}");
                assert_eq!(page.damaged.len(), usize::from(to == "["), "{n}, {to}");
            }
            assert!(to != "[" || file() == before, "{n}: its file is not changed");
        }
    }
}

#[test]
fn a_damaged_header_is_restored_from_the_file_with_what_another_program_says() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    drop(sessions);
    let file = fixture.path().join("plan.json");
    let starred = |text: String| text.replace("\"metadata\": {", "\"metadata\": {\"stars\": 5, ");
    let text = std::fs::read_to_string(&file).expect("its file");
    std::fs::write(&file, starred(text)).expect("written");
    let before = fixture.sessions().get(id).expect("there").header;
    assert!(!before.extra.is_empty());
    for damaged in ["created_xt", "nwner"] {
        let sql = "UPDATE sessions SET header = replace(header, ?1, ?2)";
        let field = if damaged == "nwner" { "owner" } else { "created_at" };
        assert_eq!(fixture.database().execute(sql, [field, damaged]), Ok(1));
        assert_eq!(all(&fixture.sessions()).len(), 0, "{damaged}");
        let found = checked(&fixture, id, false);
        assert_eq!(found[0].1, Repairable, "{damaged}: {found:?}");
        let found = checked(&fixture, id, true);
        assert_eq!(found[0].1, Repaired, "{damaged}: {found:?}");
        assert_eq!(checked(&fixture, id, true), []);
        let sessions = fixture.sessions();
        assert_eq!(sessions.get(id).expect("there").header, before, "{damaged}");
        assert_eq!(texts(&sessions, id), ["one", "two"]);
        drop(sessions);
        assert_eq!(fixture.json("plan.json")["metadata"]["stars"], 5);
    }
}

#[test]
fn a_damaged_header_of_another_programs_session_is_made_from_its_file() {
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.path()).expect("the directory");
    fixture.seed2(&["save", "theirs", "one", "two"]);
    let sessions = fixture.sessions();
    let before = all(&sessions).remove(0);
    drop(sessions);
    let sql = "UPDATE sessions SET header = replace(header, 'created_at', 'created_xt')";
    assert_eq!(fixture.database().execute(sql, []), Ok(1));
    let found = checked(&fixture, before.id(), true);
    assert_eq!(found[0].1, Repaired, "{found:?}");
    let after = all(&fixture.sessions());
    assert_eq!(after.len(), 1, "{after:?}");
    assert_eq!(after[0].header, before.header, "its tools are off, as before");
}

#[test]
fn a_page_of_keys_is_rebuilt_from_their_indexes() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let key = |number: u64| rethread_core::Key::new(format!("file:{number}")).expect("a key");
    let ids: Vec<SessionId> = (0..20)
        .map(|number| sessions.create(&New::default(), Some(&key(number))).expect("created").id())
        .collect();
    drop(sessions);
    assert!(damage_pages_of(&fixture, "keys", "leaf", 1) > 0);
    let sessions = fixture.sessions();
    let (_, found) = sessions.doctor(false, |_, _| {}).expect("checked");
    assert!(found.iter().any(|it| it.state == Repairable), "{found:?}");
    sessions.doctor(true, |_, _| {}).expect("repaired");
    for (number, id) in (0..).zip(&ids) {
        assert_eq!(sessions.resolve(&key(number)).expect("read"), Some(*id));
        assert_eq!(sessions.get(*id).expect("there").keys, [key(number)]);
    }
    let (_, found) = sessions.doctor(false, |_, _| {}).expect("checked");
    assert!(found.iter().all(|it| it.state == FindingState::Noted), "{found:?}");
}

#[test]
fn rows_that_the_table_would_refuse_and_rows_out_of_order_do_not_stop_the_others() {
    // The header of the first leaf of `entries`, and of the first leaf of its index, bit by bit.
    for (name, every) in [("entries", 23), ("entries_seq", 31)] {
        let fixture = Fixture::new();
        let sessions = fixture.sessions();
        let texts: Vec<String> = (0..40).map(|n| format!("{n} {}", "x".repeat(n))).collect();
        let said: Vec<&str> = texts.iter().map(String::as_str).collect();
        let id = say(&sessions, "plan", &said);
        drop(sessions);
        let path = fixture.path().join(".rethread/sessions.db");
        let page = pages(&fixture, name, "leaf")[0];
        let whole = std::fs::read(&path).expect("read");
        for bit in (0..4_096 * 8).step_by(every * 8 + 1) {
            let mut bytes = whole.clone();
            bytes[(page - 1) * 4_096 + bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).expect("written");
            let sessions = fixture.sessions();
            let done = sessions.doctor(true, |_, _| {});
            let read = sessions.read(id, 0..u64::MAX);
            assert!(done.is_ok() && read.is_ok(), "{name}, bit {bit}: {done:?}, {read:?}");
            assert_eq!(crate::fixture::texts(&sessions, id), texts, "{name}, bit {bit}: {done:?}");
            drop(sessions);
            std::fs::remove_dir_all(fixture.path().join(".rethread/damaged")).ok();
        }
    }
}

#[test]
fn a_broken_file_of_a_whole_log_is_set_aside_and_written_again() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    drop(sessions);
    let file = fixture.path().join("plan.json");
    let whole = std::fs::read_to_string(&file).expect("its file");
    let store = fixture.store();
    for broken in [&whole[..whole.len() / 2], ""] {
        std::fs::write(&file, broken).expect("broken");
        let found = store.check(false).expect("checked");
        assert!(found.iter().any(|it| it.what.starts_with("plan.json is left alone")), "{found:?}");
        let found = store.check(true).expect("repaired");
        let repaired: Vec<_> = found.iter().filter(|it| it.state == Repaired).collect();
        assert!(repaired.iter().any(|it| it.what.starts_with("plan.json was broken")), "{found:?}");
        assert_eq!(std::fs::read_to_string(&file).expect("its file"), whole);
    }
    let aside = std::fs::read_dir(fixture.path()).expect("listed").flatten();
    let aside = aside.filter(|it| it.file_name().to_string_lossy().contains("unreadable"));
    assert_eq!(aside.count(), 2, "each is kept");
    // The only whole copy is not written over.
    flip(&fixture, 0);
    std::fs::write(&file, "").expect("broken");
    drop(store);
    fixture.store().check(true).expect("checked");
    assert_eq!(std::fs::read_to_string(&file).expect("its file"), "");
    assert_eq!(checked(&fixture, id, true)[0].1, Repaired);
}

/// The pages of a table or an index: leaves, overflow pages, or the inner page above the leaves.
fn pages(fixture: &Fixture, name: &str, kind: &str) -> Vec<usize> {
    let sql = "SELECT pageno FROM dbstat WHERE name = ?1 AND pagetype = ?2 ORDER BY pageno";
    let database = fixture.database();
    let mut pages = database.prepare(sql).expect("the pages");
    let pages = pages.query_map([name, kind], |row| row.get::<_, i64>(0)).expect("rows");
    pages.map(|page| page.expect("a row") as usize).collect()
}

/// Overwrites every n-th of these pages. Returns how many there were.
fn damage_pages_of(fixture: &Fixture, name: &str, kind: &str, every: usize) -> usize {
    let pages = pages(fixture, name, kind);
    let path = fixture.path().join(".rethread/sessions.db");
    let mut bytes = std::fs::read(&path).expect("read");
    for page in pages.iter().skip(every / 2).step_by(every) {
        bytes[(page - 1) * 4_096..page * 4_096].fill(0xa5);
    }
    std::fs::write(&path, bytes).expect("written");
    pages.len()
}

#[test]
fn damaged_pages_of_the_log_are_rebuilt_from_the_files() {
    for (kind, every) in [("leaf", 4), ("overflow", 3), ("internal", 1)] {
        let fixture = Fixture::new();
        let sessions = fixture.sessions();
        let mut ids = Vec::new();
        for number in 0..12 {
            // Noise does not pack, so some of it goes beyond one page.
            let noise = |seed: u64, words: u64| -> String {
                (0..words)
                    .map(|i| format!("{:x}", (i + seed) * (i * 7919 + seed) % 104_729))
                    .collect()
            };
            let words = |n: u64| if n == 3 { 3_000 } else { 40 };
            let texts: Vec<String> = (0..8).map(|n| noise(number * 8 + n, words(n))).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            ids.push(say(&sessions, &format!("plan-{number}"), &texts));
        }
        let trashed = ids[5];
        sessions.trash(trashed).expect("moved to the trash");
        ids.retain(|id| *id != trashed);
        let before: Vec<_> = ids.iter().map(|id| bodies(&sessions, *id)).collect();
        drop(sessions);
        assert!(damage_pages_of(&fixture, "entries", kind, every) >= every, "{kind}");
        let sessions = fixture.sessions();
        let page = sessions.list(&Filter::default(), None, 99).expect("listed");
        assert_eq!(page.sessions.len() + page.damaged.len(), 11, "{kind}: the list names them all");
        let (_, found) = sessions.doctor(false, |_, _| {}).expect("checked");
        assert!(found.iter().any(|finding| finding.state == Repairable), "{kind}: {found:?}");
        let (_, found) = sessions.doctor(true, |_, _| {}).expect("repaired");
        assert!(found.iter().any(|finding| finding.state == Repaired), "{kind}: {found:?}");
        let local = |id: Option<SessionId>| id.is_none_or(|id| id != trashed);
        let left = found.iter().filter(|f| f.state == Damaged && local(f.session));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<&Finding>::new(), "{kind}");
        let after: Vec<_> = ids.iter().map(|id| bodies(&sessions, *id)).collect();
        assert_eq!(after, before, "{kind}: every message with its id");
        let (_, found) = sessions.doctor(true, |_, _| {}).expect("checked");
        let left = found.iter().filter(|f| f.state != FindingState::Noted && local(f.session));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<&Finding>::new(), "{kind}");
        add(&sessions, ids[0], &["and on"]);
        drop(sessions);
        assert_eq!(fixture.seed2(&["check"]), "");
        assert!(
            fixture.path().join(".rethread/damaged").is_dir(),
            "{kind}: the damaged one is kept"
        );
    }
}

#[test]
fn a_database_that_cannot_be_opened_is_set_aside_and_rebuilt_from_the_files() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    let before = bodies(&sessions, id);
    drop(sessions);
    let url = rethread_store::StoreUrl::parse(&fixture.url()).expect("a URL");
    let aside = || url.set_damaged_aside(std::sync::Arc::new(rethread_store::System));
    assert_eq!(aside().expect("looked at"), None, "it can be read");
    let path = fixture.path().join(".rethread/sessions.db");
    let whole = std::fs::read(&path).expect("read");
    // The header, then the list of tables, then the rows of sessions.
    for damaged in [0..100, 100..4_096, 4_096..4_096 * 3] {
        let mut bytes = whole.clone();
        bytes[damaged].fill(0xa5);
        std::fs::write(&path, &bytes).expect("written");
        let kept = aside().expect("moved").expect("it cannot be read");
        assert_eq!(std::fs::read(kept).expect("kept"), bytes);
        assert_eq!(bodies(&fixture.sessions(), id), before, "as the file says");
    }
}

#[test]
fn with_neither_log_nor_file_it_says_so() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one"]);
    drop(sessions);
    fixture.database().execute("DELETE FROM entries", []).expect("emptied");
    std::fs::write(fixture.path().join("plan.json"), "").expect("emptied");
    let found = checked(&fixture, id, true);
    assert_eq!(found[0].1, Damaged, "{found:?}");
    assert!(found[0].0.contains("nothing is left"), "{found:?}");
}
