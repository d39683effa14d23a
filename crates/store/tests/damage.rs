//! Entries that were changed on disk: none is read as if it were intact, and one of them does
//! not make the rest of its session unreadable.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::context::{Context, Model, Policy, Step};
use rethread_core::sessions::Error;
use rethread_core::store::{Finding, FindingState, StoreError};
use rethread_core::{Block, Message, New, Owner, Raw, Role, SessionId, Sessions, World};
use rethread_store::{System, connect};
use rusqlite::Connection;

fn open(url: &str, owner: &Owner) -> Sessions {
    let world: Arc<dyn World> = Arc::new(System);
    let store = connect(url, world.clone()).expect("a store");
    Sessions::new(store, owner.clone(), world)
}

fn call() -> Message {
    let call = Block::tool_use("c1", "grep", Raw::of(&serde_json::json!({ "pattern": "x" })));
    Message::new(Role::Assistant, vec![Block::text("let me look"), call])
}

/// The texts of the messages, all different.
fn said() -> Vec<Message> {
    vec![
        Message::system("be brief"),
        Message::user("one"),
        Message::assistant("first"),
        Message::user("two"),
        call(),
        Message::tool_result("c1", "found it"),
        Message::assistant("second"),
        Message::user("three"),
    ]
}

/// A store with one session, closed again.
fn filled(url: &str) -> SessionId {
    let sessions = open(url, &Owner::local());
    let id = sessions.create(&New::default(), None).expect("a session").id();
    sessions.append(id, said().into_iter().map(Into::into).collect()).expect("appended");
    id
}

fn context(sessions: &Sessions, id: SessionId) -> Context {
    let policy = Policy { stub_tools: false, ..Policy::cli() };
    sessions.context(id, &policy, &Model::new("openai", "m")).expect("a context")
}

fn shown(context: &Context) -> String {
    let text = |message: &Message| {
        let results: Vec<String> = message.results().map(|result| result.text()).collect();
        format!("{} {} {}\n", message.role.as_str(), message.plain_text(), results.join(" "))
    };
    context.messages.iter().map(text).collect()
}

/// The entries that are left out of a context because they are damaged.
fn left_out(context: &Context) -> Vec<u64> {
    context.cuts.iter().filter(|cut| cut.by == Step::DAMAGE).map(|cut| cut.seq).collect()
}

fn damaged(url: &str) -> Vec<Finding> {
    let (_, findings) = open(url, &Owner::local()).doctor(false, |_, _| {}).expect("checked");
    let bad = |finding: &Finding| {
        matches!(finding.state, FindingState::Damaged | FindingState::Repairable)
    };
    findings.into_iter().filter(bad).collect()
}

/// Checks what remains of a session with one damaged entry.
fn the_rest_is_usable(url: &str, id: SessionId, seq: u64) {
    let sessions = open(url, &Owner::local());
    let read = sessions.read(id, 0..99);
    let told =
        matches!(&read, Err(Error::Store(StoreError::Damaged { seq: at, .. })) if *at == seq);
    assert!(told, "{seq}: {read:?}");
    let context = context(&sessions, id);
    let text = shown(&context);
    for (place, word) in
        (0..).zip(["be brief", "one", "first", "two", "let me look", "found it", "second", "three"])
    {
        // No provider accepts a result without its call.
        let lost = place == seq || (seq == 4 && place == 5);
        assert_eq!(text.contains(word), !lost, "{seq}: {word}\n{text}");
    }
    let stands_in = text.contains("[this message is damaged and cannot be read]");
    assert_eq!(stands_in, [1, 3, 7].contains(&seq), "{seq}: {text}");
    let interrupted = text.contains("[interrupted");
    assert_eq!(interrupted, seq == 5, "{seq}: {text}");
    assert_eq!(left_out(&context), [seq], "{:?}", context.cuts);
    drop(sessions);
    let named = damaged(url);
    assert!(named.iter().any(|finding| finding.session == Some(id)), "{seq}: {named:?}");
}

fn copy_of(file: &Path, name: &str) -> PathBuf {
    let copy = file.with_file_name(name);
    std::fs::copy(file, &copy).expect("copied");
    copy
}

#[test]
fn one_damaged_entry_does_not_block_the_context_of_its_session_in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole.db");
    let id = filled(&format!("sqlite:{}", whole.display()));
    for seq in 0..said().len() as u64 {
        for sql in [
            "UPDATE entries SET body = x'0badf00d', size = 99 WHERE seq = ?1",
            "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'e', 'f') AS BLOB), \
             hash = zeroblob(24) WHERE seq = ?1",
            "UPDATE entries SET at = at + 1 WHERE seq = ?1",
        ] {
            let path = copy_of(&whole, "copy.db");
            let changed = Connection::open(&path).expect("the file").execute(sql, [seq as i64]);
            assert_eq!(changed.expect(sql), 1);
            let url = format!("sqlite:{}", path.display());
            the_rest_is_usable(&url, id, seq);
            // It continues after what is damaged.
            let sessions = open(&url, &Owner::local());
            let mut thread = sessions.thread(id).expect("opened");
            assert_eq!(thread.log().damage().keys().copied().collect::<Vec<_>>(), [seq]);
            assert_eq!(thread.append(Message::user("four")).expect("appended"), 8);
            assert!(shown(&context(&sessions, id)).contains("four"));
        }
    }
}

#[test]
fn one_damaged_entry_does_not_block_the_context_of_its_session_in_files() {
    for seq in 0..said().len() as u64 {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("files:{}", folder.path().display());
        let id = filled(&url);
        let database = folder.path().join(".rethread/sessions.db");
        let sql = "UPDATE entries SET body = x'0badf00d', size = 99 WHERE seq = ?1";
        let changed = Connection::open(&database).expect("the file").execute(sql, [seq as i64]);
        assert_eq!(changed.expect(sql), 1);
        the_rest_is_usable(&url, id, seq);
    }
}

#[test]
fn a_context_goes_around_damage_far_from_the_end_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rethread.db");
    let url = format!("sqlite:{}", path.display());
    let sessions = open(&url, &Owner::local());
    let id = sessions.create(&New::default(), None).expect("a session").id();
    let turn = |n: usize| [Message::user(format!("q{n}.")), Message::assistant(format!("a{n}."))];
    let all = [Message::system("be brief"), Message::user("go"), call()];
    let mut all: Vec<Message> = all.into_iter().chain((0..400).flat_map(turn)).collect();
    all.push(Message::user("and now?"));
    sessions.append(id, all.into_iter().map(Into::into).collect()).expect("appended");
    drop(sessions);
    // The system message, a question near the beginning, an answer, a question near the end.
    let bad = [0_u64, 13, 400, 801];
    for seq in bad {
        let sql = "UPDATE entries SET body = x'00' WHERE seq = ?1";
        Connection::open(&path).expect("the file").execute(sql, [seq as i64]).expect("damaged");
    }
    let sessions = open(&url, &Owner::local());
    let model = Model { window: 10_000_000, reply: 0, ..Model::new("openai", "m") };
    let context = sessions.context(id, &Policy::cli(), &model).expect("a context");
    assert_eq!(left_out(&context), bad);
    let text = shown(&context);
    for n in 0..400 {
        assert_eq!(text.contains(&format!("q{n}.")), n != 5 && n != 399, "q{n}");
        assert_eq!(text.contains(&format!("a{n}.")), n != 198, "a{n}");
    }
    // A small window needs only the end of the log, and reports only the damage it needed to read.
    let small = Model { window: 600, reply: 0, ..Model::new("openai", "m") };
    let context = sessions.context(id, &Policy::cli(), &small).expect("a context");
    assert_eq!(left_out(&context), [0, 801], "{:?}", context.cuts);
}

#[test]
fn a_log_with_more_damage_than_sense_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rethread.db");
    let url = format!("sqlite:{}", path.display());
    let sessions = open(&url, &Owner::local());
    let id = sessions.create(&New::default(), None).expect("a session").id();
    let all = (0..100).map(|n| Message::user(format!("q{n}")).into()).collect();
    sessions.append(id, all).expect("appended");
    drop(sessions);
    for (damaged, works) in [(64, true), (65, false)] {
        let sql = "UPDATE entries SET body = x'00' WHERE seq < ?1";
        Connection::open(&path).expect("the file").execute(sql, [damaged]).expect("damaged");
        let sessions = open(&url, &Owner::local());
        let context = sessions.context(id, &Policy::cli(), &Model::new("openai", "m"));
        assert_eq!(context.is_ok(), works, "{damaged}: {context:?}");
    }
}

#[test]
fn a_row_that_was_changed_is_not_read_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole.db");
    let url = format!("sqlite:{}", whole.display());
    let (mine, theirs) = (Owner::local(), Owner::new("ada").expect("valid"));
    let mut ids = Vec::new();
    for owner in [&mine, &theirs] {
        let sessions = open(&url, owner);
        let id = sessions.create(&New::default(), None).expect("a session").id();
        for n in 0..3 {
            let long = format!("said {n} by {}, {}", owner.as_str(), "at length ".repeat(20));
            let said = [Message::user(format!("said {n}")), Message::assistant(long)];
            sessions.append(id, said.map(Into::into).to_vec()).expect("appended");
        }
        ids.push(id);
    }
    let plain = "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'said', 'paid') AS BLOB) \
                 WHERE session = 1 AND seq = 2";
    let cases = [
        (plain, 2),
        ("UPDATE entries SET kind = 'finished' WHERE session = 1 AND seq = 2", 2),
        ("UPDATE entries SET at = at + 1 WHERE session = 1 AND seq = 2", 2),
        (
            "UPDATE entries SET id = x'00112233445566778899aabbccddeeff' WHERE session = 1 AND seq = 2",
            2,
        ),
        ("UPDATE entries SET id = 'another' WHERE session = 1 AND seq = 2", 2),
        ("UPDATE entries SET seq = 1 - seq WHERE session = 1 AND seq = 0", 0),
        ("UPDATE entries SET hash = substr(hash, 1, 20) WHERE session = 1 AND seq = 2", 2),
        ("DELETE FROM entries WHERE session = 1 AND seq = 2", 2),
        ("DELETE FROM entries WHERE session = 1 AND seq < 3", 0),
        // What another owner said.
        ("UPDATE entries SET session = 1, seq = 6 WHERE session = 2 AND seq = 0", 6),
    ];
    for (sql, seq) in cases {
        let path = copy_of(&whole, "copy.db");
        let database = Connection::open(&path).expect("the file");
        if sql.contains("1 - seq") {
            database.execute_batch("DELETE FROM entries WHERE session = 1 AND seq = 1").expect(sql);
        }
        assert!(database.execute(sql, []).expect(sql) > 0, "{sql}");
        drop(database);
        let url = format!("sqlite:{}", path.display());
        let read = open(&url, &mine).read(ids[0], 0..99);
        let told =
            matches!(&read, Err(Error::Store(StoreError::Damaged { seq: at, .. })) if *at == seq);
        assert!(told, "{sql}: {read:?}");
        assert!(!damaged(&url).is_empty(), "{sql}");
    }
    // A missing row is noticed, too.
    let path = copy_of(&whole, "copy.db");
    let gap = "DELETE FROM entries WHERE session = 1 AND seq = 3";
    Connection::open(&path).expect("the file").execute(gap, []).expect(gap);
    let sessions = open(&format!("sqlite:{}", path.display()), &mine);
    for range in [2..4, 3..4, 3..9] {
        let read = sessions.read(ids[0], range.clone());
        assert!(read.is_err(), "{range:?}: {read:?}");
    }
    assert_eq!(sessions.read(ids[0], 4..9).expect("read").len(), 2);
    assert_eq!(sessions.read(ids[0], 6..9).expect("read").len(), 0);
}

#[test]
fn rows_from_before_there_were_seals_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rethread.db");
    let url = format!("sqlite:{}", path.display());
    let id = filled(&url);
    let before = open(&url, &Owner::local()).read(id, 0..99).expect("read");
    let sql = "UPDATE entries SET hash = substr(hash, 1, 16)";
    Connection::open(&path).expect("the file").execute(sql, []).expect(sql);
    let sessions = open(&url, &Owner::local());
    assert_eq!(sessions.read(id, 0..99).expect("read"), before);
    assert_eq!(damaged(&url), []);
    let again = rethread_core::Incoming {
        id: Some(before[1].id.clone()),
        message: before[1].body.message().expect("said").clone(),
    };
    assert_eq!(sessions.append(id, vec![again]).expect("repeated"), [1]);
}
