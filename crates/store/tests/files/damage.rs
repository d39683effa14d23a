//! Logs that were damaged behind a whole file: said, kept, and made anew from what is left.

use rethread_core::store::FindingState;
use rethread_core::store::FindingState::{Damaged, Repairable, Repaired};
use rethread_core::{Body, Owner, SessionId, Sessions};

use crate::desk::{Desk, add, all, say, texts, tool_round};

fn log_of(desk: &Desk, id: SessionId) -> std::path::PathBuf {
    desk.path().join(format!(".rethread/logs/{id}.log"))
}

/// What doctor says of one session.
fn checked(desk: &Desk, id: SessionId, repair: bool) -> Vec<(String, FindingState)> {
    let findings = desk.store().check_session(&Owner::local(), id, repair).expect("checked");
    findings.into_iter().map(|finding| (finding.what, finding.state)).collect()
}

fn bodies(sessions: &Sessions, id: SessionId) -> Vec<(u64, String, String)> {
    let entries = sessions.read(id, 0..99).expect("read");
    let shown = |e: rethread_core::Entry| (e.seq, e.id.as_str().to_owned(), e.body.json());
    entries.into_iter().map(shown).collect()
}

/// Flips one bit in the record that says this.
fn flip(path: &std::path::Path, text: &str) {
    let mut bytes = std::fs::read(path).expect("the log");
    let at = bytes.windows(text.len()).position(|there| there == text.as_bytes());
    bytes[at.expect("it was said")] ^= 1;
    std::fs::write(path, bytes).expect("damaged");
}

/// The damaged logs that were kept.
fn kept(desk: &Desk) -> Vec<Vec<u8>> {
    let folder = std::fs::read_dir(desk.path().join(".rethread/damaged")).into_iter().flatten();
    folder.map(|entry| std::fs::read(entry.expect("one").path()).expect("read")).collect()
}

#[test]
fn a_log_that_is_gone_empty_cut_or_flipped_is_made_anew_from_the_file() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "plan", &["where?"]);
    sessions.append(id, tool_round()).expect("appended");
    let before = bodies(&sessions, id);
    let counts = sessions.get(id).expect("there").tally;
    drop(sessions);
    let log = log_of(&desk, id);
    let whole = std::fs::read(&log).expect("the log");
    let flipped = {
        let mut bytes = whole.clone();
        let at = bytes.windows(8).position(|there| there == b"found it").expect("it was said");
        bytes[at] ^= 1;
        bytes
    };
    let cut = whole[..whole.len() - 9].to_vec();
    let garbage = vec![b'x'; whole.len()];
    for damaged in [None, Some(Vec::new()), Some(cut), Some(garbage), Some(flipped)] {
        match &damaged {
            Some(bytes) => std::fs::write(&log, bytes).expect("damaged"),
            None => std::fs::remove_file(&log).expect("removed"),
        }
        let kept_before = kept(&desk).len();
        let error = desk.sessions().read(id, 0..99).expect_err("it is damaged").to_string();
        assert!(error.contains("is damaged"), "{error}");
        let found = checked(&desk, id, false);
        assert_eq!(found.iter().map(|(_, state)| *state).collect::<Vec<_>>(), [Repairable]);
        let found = checked(&desk, id, true);
        assert_eq!(found.iter().map(|(_, state)| *state).collect::<Vec<_>>(), [Repaired]);
        assert!(found[0].0.contains("lost: 0"), "{found:?}");
        assert_eq!(checked(&desk, id, true), []);
        let sessions = desk.sessions();
        assert_eq!(bodies(&sessions, id), before, "every message with its id and its blocks");
        assert_eq!(sessions.get(id).expect("there").tally, counts);
        drop(sessions);
        let aside = kept(&desk);
        match damaged {
            Some(bytes) => assert!(aside.contains(&bytes), "the damaged one is kept"),
            None => assert_eq!(aside.len(), kept_before),
        }
        assert_eq!(desk.seed2(&["check"]), "");
    }
}

#[test]
fn what_stood_in_the_log_alone_is_told_as_lost_and_leaves_its_place() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    sessions.clear(id).expect("cleared");
    add(&sessions, id, &["three"]);
    drop(sessions);
    flip(&log_of(&desk, id), "cleared");
    let found = checked(&desk, id, true);
    assert!(found[0].0.contains("lost: 1"), "{found:?}");
    let sessions = desk.sessions();
    let entries = sessions.read(id, 0..9).expect("read");
    assert_eq!(texts(&sessions, id), ["one", "two", "three"]);
    assert!(matches!(&entries[2].body, Body::Unknown { kind, .. } if kind == "lost"));
    assert_eq!(entries[3].seq, 3, "what is behind it stays where it was");
    add(&sessions, id, &["four"]);
    assert_eq!(texts(&sessions, id).len(), 4);
}

#[test]
fn a_whole_file_is_not_written_over_from_a_damaged_log() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    drop(sessions);
    flip(&log_of(&desk, id), "one");
    let sessions = desk.sessions();
    add(&sessions, id, &["three"]);
    drop(sessions);
    drop(desk.sessions());
    let shown = desk.json("plan.json");
    assert_eq!(shown["messages"][0]["content"], "one", "its last copy is there");
    checked(&desk, id, true);
    assert_eq!(texts(&desk.sessions(), id), ["one", "two", "three"]);
    assert_eq!(desk.json("plan.json")["messages"].as_array().map(Vec::len), Some(3));
}

#[test]
fn what_another_program_writes_behind_a_damaged_log_waits_and_stops_nobody() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    say(&sessions, "other", &["hello"]);
    drop(sessions);
    for damage in ["gone", "flipped"] {
        let log = log_of(&desk, id);
        match damage {
            "gone" => std::fs::remove_file(&log).expect("removed"),
            _ => flip(&log, "two"),
        }
        desk.seed2(&["continue", "plan", damage, "noted"]);
        let sessions = desk.sessions();
        assert!(all(&sessions).iter().any(|one| one.header.name.as_str() == "other"), "{damage}");
        drop(sessions);
        let before = desk.json("plan.json");
        let found = checked(&desk, id, true);
        assert_eq!(found[0].1, Repaired, "{found:?}");
        let after = texts(&desk.sessions(), id);
        let theirs = before["messages"].as_array().expect("a list").iter();
        let theirs: Vec<&str> = theirs.filter_map(|said| said["content"].as_str()).collect();
        assert_eq!(after, theirs, "{damage}");
        assert_eq!(all(&desk.sessions()).len(), 2, "{damage}: no fork");
    }
}

#[test]
fn with_neither_log_nor_file_it_says_so() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "plan", &["one"]);
    drop(sessions);
    std::fs::write(log_of(&desk, id), "").expect("emptied");
    std::fs::write(desk.path().join("plan.json"), "").expect("emptied");
    let found = checked(&desk, id, true);
    assert_eq!(found[0].1, Damaged, "{found:?}");
    assert!(found[0].0.contains("nothing is left"), "{found:?}");
}

#[test]
fn a_damaged_state_is_kept_when_it_is_written_anew() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "plan", &["one"]);
    drop(sessions);
    let state = desk.path().join(".rethread/state");
    flip(&state, "plan");
    let damaged = std::fs::read(&state).expect("the state");
    let store = desk.store();
    let findings = store.check(true).expect("checked");
    assert!(findings.iter().any(|finding| finding.what.contains("bytes of the state")));
    drop(store);
    assert!(kept(&desk).iter().any(|kept| kept.starts_with(&damaged)));
    assert_eq!(texts(&desk.sessions(), id), ["one"]);
}

#[test]
fn a_flipped_bit_in_the_last_record_of_the_state_costs_no_session() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "plan", &["where?"]);
    let before = bodies(&sessions, id);
    // As a process leaves it that is killed: nobody but the state knows the session.
    let left = tempfile::tempdir().expect("a folder");
    let ours = left.path().join(".rethread");
    std::fs::create_dir_all(ours.join("logs")).expect("made");
    for name in ["lock".to_owned(), "state".to_owned(), format!("logs/{id}.log")] {
        let from = desk.path().join(".rethread").join(&name);
        std::fs::copy(from, ours.join(name)).expect("copied");
    }
    let state = std::fs::read_to_string(ours.join("state")).expect("the state");
    let last = state.trim_end().rfind('\n').map_or(0, |at| at + 1);
    let mut bytes = state.into_bytes();
    let middle = (last + bytes.len()) / 2;
    bytes[middle] ^= 1;
    std::fs::write(ours.join("state"), bytes).expect("damaged");
    let world = std::sync::Arc::new(rethread_store::System);
    let url = format!("files:{}", left.path().display());
    let store = rethread_store::connect(&url, world.clone()).expect("a store");
    assert_eq!(bodies(&Sessions::new(store, Owner::local(), world), id), before);
}
