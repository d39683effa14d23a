//! Searching a directory: by an index that follows the logs and never has the last word.

use rethread_core::Sessions;

use crate::desk::{Desk, add, findings, say};

fn found(sessions: &Sessions, query: &str) -> Vec<u64> {
    sessions.search(query, 0, 9).expect("searched").iter().map(|hit| hit.place.seq).collect()
}

fn index(desk: &Desk) -> rusqlite::Connection {
    let path = desk.path().join(".rethread/search.db");
    rusqlite::Connection::open(path).expect("an index")
}

#[test]
fn a_search_reads_only_what_was_appended_since() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "plan", &["the zebra", "the lion"]);
    assert_eq!(found(&sessions, "zebra"), [0]);
    // A word that stands in no log is found where the index says: the logs were not read again.
    let planted =
        "INSERT INTO search (rowid, terms) SELECT rid, 'planted' FROM places WHERE seq = 1";
    index(&desk).execute(planted, []).expect("planted");
    assert_eq!(found(&sessions, "planted"), [1]);
    add(&sessions, id, &["the gnu"]);
    assert_eq!(found(&sessions, "gnu"), [2]);
    assert_eq!(found(&sessions, "planted"), [1]);
    let all: i64 = index(&desk)
        .query_row("SELECT count(*) FROM places", [], |row| row.get(0))
        .expect("counted");
    assert_eq!(all, 3);
}

#[test]
fn an_index_that_is_lost_broken_or_ahead_is_made_anew() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "plan", &["the zebra"]);
    let path = desk.path().join(".rethread/search.db");
    let log = desk.path().join(format!(".rethread/logs/{id}.log"));
    assert_eq!(found(&sessions, "zebra"), [0]);
    let harms: [(&str, &dyn Fn()); 5] = [
        ("gone", &|| std::fs::remove_file(&path).expect("removed")),
        ("empty", &|| std::fs::write(&path, "").expect("written")),
        ("no database", &|| std::fs::write(&path, "x".repeat(9_000)).expect("written")),
        ("of another layout", &|| {
            index(&desk).execute_batch("PRAGMA user_version = 7").expect("set");
        }),
        ("further than the log", &|| {
            index(&desk).execute("UPDATE marks SET bytes = bytes + 1", []).expect("set");
        }),
    ];
    for (what, harm) in harms {
        harm();
        assert_eq!(found(&sessions, "zebra"), [0], "{what}");
        assert_eq!(found(&sessions, "zebra"), [0], "{what}, again");
        let places = index(&desk).query_row("SELECT count(*) FROM places", [], |row| row.get(0));
        assert_eq!(places.ok(), Some(1), "{what}");
    }
    // A place that is not where the index has it is no answer.
    index(&desk).execute("UPDATE places SET at = at + 3", []).expect("set");
    assert_eq!(found(&sessions, "zebra"), [0]);
    std::fs::write(&path, "x".repeat(9_000)).expect("written");
    let said = findings(&sessions);
    assert_eq!(said[0].1, rethread_core::store::FindingState::Repairable, "{said:?}");
    sessions.doctor(true, |_, _| {}).expect("repaired");
    assert!(said[0].0.starts_with("the search index is of no use"), "{said:?}");
    assert!(!path.exists());
    assert!(log.exists());
}

#[test]
fn the_words_of_a_deleted_session_leave_the_index() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    say(&sessions, "kept", &["the lion"]);
    let id = say(&sessions, "plan", &["the xylophonist", "a gnu"]);
    assert_eq!(found(&sessions, "xylophonist"), [0]);
    let path = desk.path().join(".rethread/search.db");
    let holds = |word: &str| {
        let bytes = std::fs::read(&path).expect("the index");
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    assert!(holds("ylophonist"));
    sessions.erase(id).expect("deleted");
    assert!(!holds("ylophonist"));
    assert!(found(&sessions, "gnu").is_empty());
    assert_eq!(found(&sessions, "lion"), [0]);
}
