//! A directory, a store on it, and another program that uses it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rethread_core::store::{Filter, FindingState};
use rethread_core::{
    Backend, Body, Incoming, Message, New, Owner, Session, SessionId, Sessions, World,
};
use rethread_store::{System, connect};

/// A temporary folder with a `files:` store in it.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("sessions")
    }

    pub(crate) fn url(&self) -> String {
        format!("files:{}", self.path().display())
    }

    /// A store on the directory; closing it writes the visible files.
    pub(crate) fn store(&self) -> Arc<dyn Backend> {
        connect(&self.url(), Arc::new(System)).expect("a store")
    }

    pub(crate) fn sessions(&self) -> Sessions {
        Sessions::new(self.store(), Owner::local(), Arc::new(System))
    }

    /// The database, opened with SQL.
    pub(crate) fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path().join(".rethread/sessions.db")).expect("a database")
    }

    /// Runs the other program.
    pub(crate) fn seed2(&self, arguments: &[&str]) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/seed2.py");
        let run = Command::new("python3").arg(script).arg(self.path()).args(arguments).output();
        let run = run.expect("python3 runs");
        let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        assert!(run.status.success(), "{arguments:?}: {}{}", told(&run.stdout), told(&run.stderr));
        told(&run.stdout)
    }

    pub(crate) fn json(&self, file: &str) -> serde_json::Value {
        let text = std::fs::read_to_string(self.path().join(file)).expect(file);
        serde_json::from_str(&text).expect(file)
    }
}

/// A session of this name in which these texts were said, the user first.
pub(crate) fn say(sessions: &Sessions, name: &str, texts: &[&str]) -> SessionId {
    let name = Some(rethread_core::Name::new(name).expect("a name"));
    let id = sessions.create(&New { name, ..New::default() }, None).expect("created").id();
    add(sessions, id, texts);
    id
}

/// Says more in a session, the user first.
pub(crate) fn add(sessions: &Sessions, id: SessionId, texts: &[&str]) {
    let messages = texts.iter().enumerate().map(|(index, text)| match index % 2 {
        0 => Incoming::from(Message::user(*text)),
        _ => Incoming::from(Message::assistant(*text)),
    });
    sessions.append(id, messages.collect()).expect("appended");
}

/// What was said in a session, as text.
pub(crate) fn texts(sessions: &Sessions, id: SessionId) -> Vec<String> {
    let entries = sessions.read(id, 0..u64::MAX).expect("read");
    entries.iter().filter_map(|entry| entry.body.message()).map(Message::plain_text).collect()
}

pub(crate) fn all(sessions: &Sessions) -> Vec<Session> {
    sessions.list(&Filter::default(), None, 1_000).expect("listed").sessions
}

pub(crate) fn named(sessions: &Sessions, name: &str) -> SessionId {
    let found = all(sessions).into_iter().find(|session| session.header.name.folded() == name);
    found.unwrap_or_else(|| panic!("no session `{name}`")).id()
}

/// What doctor says.
pub(crate) fn findings(sessions: &Sessions) -> Vec<(String, FindingState)> {
    let (_, findings) = sessions.doctor(false, |_, _| {}).expect("checked");
    findings.into_iter().map(|finding| (finding.what, finding.state)).collect()
}

pub(crate) fn tool_round() -> Vec<Incoming> {
    let read = |json: &str| match Body::parse("message", json).expect("a message") {
        Body::Message(message) => Incoming::from(message),
        _ => unreachable!("it is a message"),
    };
    vec![
        read(
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"grep","input":{"q":1.50}}]}"#,
        ),
        read(
            r#"{"role":"tool","content":[{"type":"tool_result","tool_use_id":"c1","content":"found it"}]}"#,
        ),
        Incoming::from(Message::assistant("It is in line 7.")),
    ]
}

/// The time now, by the store's clock.
pub(crate) fn now() -> jiff::Timestamp {
    System.now()
}
