//! What else lies in a directory: reported, left alone, never followed out of it.

use rethread_core::store::FindingState;

use crate::fixture::{Fixture, add, all, findings, named, now, say, texts};

fn session(id: &str) -> String {
    let at = now();
    format!(
        r#"{{"metadata":{{"id":"{id}","name":"{id}","createdAt":"{at}","lastActivityAt":"{at}","messageCount":1,"firstMessage":"hi","provider":"p","model":"m"}},"messages":[{{"role":"user","content":"hi","id":"1","timestamp":"{at}"}}]}}"#
    )
}

#[test]
fn what_is_not_a_session_is_reported_and_left_alone() {
    let fixture = Fixture::new();
    say(&fixture.sessions(), "plan", &["one"]);
    let outside = tempfile::NamedTempFile::new().expect("a file elsewhere");
    std::fs::write(outside.path(), session("linked")).expect("written");
    let path = fixture.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).expect(name);
    write("empty.json", "");
    write("truncated.json", &session("truncated")[..90]);
    write("foreign.json", r#"{"name":"a package"}"#);
    write("copy.json", &session("plan"));
    write("spaces in it.json", &session("x"));
    write("metadata.json", &session("metadata"));
    write("notes.txt", "not a session");
    std::fs::create_dir(path.join("folder.json")).expect("a folder");
    #[cfg(unix)]
    std::os::unix::fs::symlink(outside.path(), path.join("linked.json")).expect("a link");
    let listing = || {
        let mut names: Vec<_> = std::fs::read_dir(&path)
            .expect("the directory")
            .map(|entry| entry.expect("an entry"))
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).ok()))
            .filter(|(name, _)| name != "index.json")
            .collect();
        names.sort();
        names
    };
    let before = listing();

    let sessions = fixture.sessions();
    assert_eq!(all(&sessions).len(), 1);
    let mut found = findings(&sessions);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let found: Vec<_> = found.iter().map(|(what, state)| (what.as_str(), *state)).collect();
    use FindingState::{Damaged, Noted};
    assert_eq!(
        found,
        [
            ("copy.json is left alone: its id is `plan`, which belongs to another file", Noted),
            ("empty.json is left alone: it is empty", Damaged),
            ("folder.json is left alone: it is not a file", Noted),
            ("foreign.json is left alone: it is not a session: it has no `metadata`", Noted),
            ("linked.json is left alone: it is a link, and links are not followed", Noted),
            ("metadata.json is left alone: its name is not a session id", Noted),
            ("spaces in it.json is left alone: its name is not a session id", Noted),
            (
                "truncated.json is left alone: it is not JSON, or not all of it is there: EOF while parsing a string at line 1 column 90",
                Damaged
            ),
        ]
    );
    drop(sessions);
    assert_eq!(listing(), before, "nothing was changed or removed");
}

#[test]
fn a_file_of_ours_that_was_broken_is_set_aside_and_written_again() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    drop(sessions);
    let file = fixture.path().join("plan.json");
    let whole = std::fs::read_to_string(&file).expect("its file");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("truncated");
    let sessions = fixture.sessions();
    assert_eq!(texts(&sessions, id), ["one", "two"], "the log is whole");
    assert!(
        findings(&sessions).iter().any(|(what, _)| what.starts_with("plan.json is left alone"))
    );
    add(&sessions, id, &["three"]);
    drop(sessions);
    assert_eq!(fixture.json("plan.json")["messages"].as_array().map(Vec::len), Some(3));
    let names = std::fs::read_dir(fixture.path()).expect("the directory").map(|e| e.expect("one"));
    let aside = names.filter(|e| e.file_name().to_string_lossy().contains(".unreadable-"));
    let aside: Vec<_> = aside.collect();
    assert_eq!(aside.len(), 1);
    let kept = std::fs::read_to_string(aside[0].path()).expect("what was there");
    assert_eq!(kept, whole[..whole.len() / 2]);
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_file_is_not_written_through() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one"]);
    drop(sessions);
    let outside = tempfile::NamedTempFile::new().expect("a file elsewhere");
    std::fs::write(outside.path(), "precious").expect("written");
    for name in ["plan.json", "index.json", "last_session"] {
        let path = fixture.path().join(name);
        std::fs::remove_file(&path).expect("there");
        std::os::unix::fs::symlink(outside.path(), &path).expect("a link");
    }
    let sessions = fixture.sessions();
    add(&sessions, id, &["two"]);
    drop(sessions);
    assert_eq!(std::fs::read_to_string(outside.path()).expect("there"), "precious");
    assert_eq!(fixture.seed2(&["check"]), "");
    assert_eq!(texts(&fixture.sessions(), id).len(), 2);
}

#[test]
fn an_index_that_is_missing_broken_or_stale_is_written_again() {
    let fixture = Fixture::new();
    say(&fixture.sessions(), "plan", &["one"]);
    let index = fixture.path().join("index.json");
    for text in
        [None, Some(""), Some("{"), Some(r#"{"version":"1.0","sessions":{},"updatedAt":""}"#)]
    {
        match text {
            Some(text) => std::fs::write(&index, text).expect("written"),
            None => std::fs::remove_file(&index).expect("removed"),
        }
        drop(fixture.sessions());
        assert_eq!(fixture.seed2(&["check"]), "", "{text:?}");
    }
}

#[test]
fn damage_in_a_log_is_said_and_what_follows_it_can_be_read() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two", "three", "four"]);
    drop(sessions);
    let flip = "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'two', 'twn') AS BLOB)";
    fixture.database().execute_batch(flip).expect("damaged");
    let sessions = fixture.sessions();
    assert!(sessions.read(id, 0..9).is_err());
    assert_eq!(sessions.read(id, 2..4).expect("what is behind it").len(), 2);
    let found = findings(&sessions);
    assert!(found.iter().any(|(_, state)| *state == FindingState::Repairable), "{found:?}");
    add(&sessions, id, &["five"]);
    assert_eq!(sessions.read(id, 2..5).expect("what is behind it").len(), 3);
}

#[test]
fn what_was_the_end_of_a_log_is_missed() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two", "three"]);
    drop(sessions);
    for (rows, left) in [("seq > 1", 2), ("seq > 0", 1), ("1", 0)] {
        let cut = format!("DELETE FROM entries WHERE {rows}");
        fixture.database().execute(&cut, []).expect("damaged");
        let sessions = fixture.sessions();
        let more = vec![rethread_core::Incoming::from(rethread_core::Message::user("more"))];
        let error = sessions.append(id, more).expect_err("refused");
        assert!(error.to_string().contains("is damaged"), "{error}");
        let found = findings(&sessions);
        assert!(found.iter().any(|(_, state)| *state == FindingState::Repairable), "{found:?}");
        drop(sessions);
        let count =
            fixture.database().query_row("SELECT count(*) FROM entries", [], |row| row.get(0));
        assert_eq!(count, Ok(left), "nothing takes its place");
        assert_eq!(fixture.json("plan.json")["messages"].as_array().map(Vec::len), Some(3));
    }
}

#[test]
fn without_our_folder_the_sessions_are_there_with_their_tools() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["where?"]);
    sessions.append(id, crate::fixture::tool_round()).expect("appended");
    let bodies = |sessions: &rethread_core::Sessions, id| {
        let entries = sessions.read(id, 0..99).expect("read");
        entries.into_iter().map(|e| (e.id, e.at, e.body, e.measure)).collect::<Vec<_>>()
    };
    // Anyone could have written what the file says, so its tools are off.
    let imported = Some("files".to_owned());
    let before = bodies(&sessions, id);
    let header = rethread_core::Header { imported, ..sessions.get(id).expect("there").header };
    drop(sessions);
    std::fs::remove_dir_all(fixture.path().join(".rethread")).expect("removed");
    let sessions = fixture.sessions();
    assert_eq!(named(&sessions, "plan"), id, "its id is in its file");
    assert_eq!(sessions.get(id).expect("there").header, header);
    assert_eq!(bodies(&sessions, id), before);
}

#[test]
fn without_what_is_known_of_the_files_they_are_found_equal() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    drop(sessions);
    fixture.seed2(&["save", "theirs", "hello", "hi"]);
    drop(fixture.sessions());
    fixture.database().execute_batch("DROP TABLE mirror").expect("dropped");
    let sessions = fixture.sessions();
    assert_eq!(all(&sessions).len(), 2);
    assert_eq!(texts(&sessions, id), ["one", "two"]);
    assert_eq!(findings(&sessions), []);
    drop(sessions);
    assert_eq!(fixture.seed2(&["check"]), "");
}

#[cfg(unix)]
#[test]
fn links_in_the_place_of_our_folders_lead_nowhere_and_delete_nothing() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let (old, _) = (say(&sessions, "old", &["one"]), say(&sessions, "new", &["two"]));
    sessions.archive(old).expect("archived");
    drop(sessions);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let (archive, moved) = (fixture.path().join("archive"), elsewhere.path().join("archive"));
    std::fs::rename(&archive, &moved).expect("moved");
    std::os::unix::fs::symlink(&moved, &archive).expect("a link");
    let sessions = fixture.sessions();
    assert_eq!(texts(&sessions, old), ["one"], "it is not taken for deleted");
    assert!(findings(&sessions).iter().any(|(what, _)| what.starts_with("archive is left alone")));
    drop(sessions);
    let ours = fixture.path().join(".rethread");
    std::fs::rename(&ours, elsewhere.path().join("ours")).expect("moved");
    std::os::unix::fs::symlink(elsewhere.path().join("ours"), &ours).expect("a link");
    let opened =
        rethread_store::connect(&fixture.url(), std::sync::Arc::new(rethread_store::System));
    assert!(opened.is_err());
}

#[test]
fn a_stranger_in_the_archive_keeps_its_place() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one"]);
    drop(sessions);
    std::fs::create_dir(fixture.path().join("archive")).expect("a folder");
    std::fs::write(fixture.path().join("archive/plan.json"), "mine").expect("written");
    let sessions = fixture.sessions();
    sessions.archive(id).expect("archived");
    drop(sessions);
    let theirs = std::fs::read_to_string(fixture.path().join("archive/plan.json")).expect("there");
    assert_eq!(theirs, "mine");
    assert!(fixture.path().join("archive/plan-2.json").exists());
    assert!(!fixture.path().join("plan.json").exists());
    assert_eq!(texts(&fixture.sessions(), id), ["one"]);
}

#[test]
fn a_file_that_a_power_failure_left_in_two_places_is_one_session() {
    let fixture = Fixture::new();
    fixture.seed2(&["save", "theirs", "hello", "hi"]);
    drop(fixture.sessions());
    // It is archived: its new name is on disk, and its old one still is.
    let archived = r#"replace(header, '"archived":false', '"archived":true')"#;
    let archive = format!("UPDATE sessions SET archived = 1, header = {archived}");
    assert_eq!(fixture.database().execute(&archive, []), Ok(1));
    let [from, to] = ["theirs.json", "archive/theirs.json"].map(|name| fixture.path().join(name));
    std::fs::create_dir(fixture.path().join("archive")).expect("a folder");
    std::fs::copy(&from, &to).expect("copied");
    let sessions = fixture.sessions();
    assert_eq!(all(&sessions).len(), 1);
    assert!(all(&sessions)[0].header.archived);
    drop(sessions);
    assert!(!from.exists() && to.exists());
    assert_eq!(fixture.seed2(&["check"]), "");
}

#[test]
fn something_else_in_the_place_of_a_session_is_damage() {
    let fixture = Fixture::new();
    say(&fixture.sessions(), "plan", &["one"]);
    std::fs::write(fixture.path().join("plan.json"), "{}").expect("written");
    let found = findings(&fixture.sessions());
    assert!(
        found
            .iter()
            .any(|(what, state)| what.starts_with("plan.json") && *state == FindingState::Damaged),
        "{found:?}"
    );
}

#[test]
fn a_last_session_that_names_nothing_is_corrected() {
    let fixture = Fixture::new();
    let id = fixture.seed2(&["save", "", "where is the key?", "under the mat"]);
    let last = fixture.path().join("last_session");
    std::fs::write(fixture.path().join("package.json"), r#"{"name":"x"}"#).expect("written");
    drop(fixture.sessions());
    let huge = vec![b'x'; 1 << 20];
    for wrong in [
        &b"gone-long-ago"[..],
        b"",
        b"../../etc/passwd",
        b"\xff\xfe\0",
        b"package",
        b"index",
        &huge,
    ] {
        std::fs::write(&last, wrong).expect("written");
        drop(fixture.sessions());
        assert_eq!(
            std::fs::read_to_string(&last).expect("text"),
            id,
            "{:?}",
            &wrong[..wrong.len().min(20)]
        );
    }
    std::fs::remove_file(&last).expect("there");
    std::fs::create_dir(&last).expect("a folder");
    drop(fixture.sessions());
    assert_eq!(std::fs::read_to_string(&last).expect("text"), id);

    // A right one of another program stays, though another session is newer.
    fixture.seed2(&["save", "newer", "hello"]);
    std::fs::write(&last, &id).expect("written");
    drop(fixture.sessions());
    assert_eq!(std::fs::read_to_string(&last).expect("text"), id);

    // Where nothing is left to name, it goes, and a wrong one stops nothing.
    fixture.seed2(&["delete", "newer"]);
    std::fs::remove_file(fixture.path().join(format!("{id}.json"))).expect("there");
    drop(fixture.sessions());
    assert!(!last.exists());
    std::fs::write(&last, "nothing").expect("written");
    drop(fixture.sessions());
    assert!(!last.exists());
}
