//! Searching a directory: the database's index, with what other programs wrote.

use crate::fixture::{Fixture, findings, say};

#[test]
fn what_another_program_writes_is_found_and_what_it_changes_is_found_in_the_fork() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    say(&sessions, "plan", &["the zebra", "the lion", "the gnu"]);
    let found = |query: &str| sessions.search(query, 0, 9).expect("searched").len();
    assert_eq!(found("zebra"), 1);
    drop(fixture.sessions());
    fixture.seed2(&["continue", "plan", "the okapi"]);
    assert_eq!(found("okapi"), 1);
    fixture.seed2(&["edit", "plan", "1", "the tiger"]);
    assert_eq!((found("tiger"), found("lion"), found("zebra")), (1, 1, 2));
    assert_eq!(findings(&sessions), []);
}

#[test]
fn the_words_of_a_deleted_session_leave_the_database() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    say(&sessions, "kept", &["the lion"]);
    let id = say(&sessions, "plan", &["the xylophonist", "a gnu"]);
    assert_eq!(sessions.search("xylophonist", 0, 9).expect("searched").len(), 1);
    sessions.erase(id).expect("deleted");
    assert_eq!(sessions.search("gnu", 0, 9).expect("searched"), []);
    drop(sessions);
    let bytes = std::fs::read(fixture.path().join(".rethread/sessions.db")).expect("the database");
    assert!(!bytes.windows(10).any(|window| window == b"ylophonist"));
    assert!(!fixture.path().join("plan.json").exists());
}
