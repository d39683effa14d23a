//! Logs that are damaged while their files are whole: said, kept, and made anew from what is left.

use rethread_core::store::FindingState;
use rethread_core::store::FindingState::{Damaged, Repairable, Repaired};
use rethread_core::{Body, Owner, SessionId, Sessions};

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

/// Changes what an entry says behind its fingerprint.
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
fn a_log_that_is_gone_cut_or_flipped_is_made_anew_from_the_file() {
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
fn what_stood_in_the_log_alone_is_told_as_lost_and_leaves_its_place() {
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
fn what_another_program_writes_behind_a_damaged_log_waits_and_stops_nobody() {
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
