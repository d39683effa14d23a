//! Reads a text as a file of some program, and keeps what was found.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use rethread_core::store::BoxError;
use rethread_core::{Body, Message, Role};
use rethread_transcript::read::{
    Account, Format, FoundEntry, FoundSession, Options, ReadError, Sink, read, recognise,
};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) sessions: Vec<(FoundSession, Vec<FoundEntry>)>,
    pub(crate) account: Account,
}

impl Sink for Collected {
    fn session(&mut self, found: FoundSession) -> Result<(), BoxError> {
        self.sessions.push((found, Vec::new()));
        Ok(())
    }

    fn entry(&mut self, session: usize, entry: FoundEntry) -> Result<(), BoxError> {
        self.sessions[session].1.push(entry);
        Ok(())
    }
}

impl Collected {
    /// The messages of a session: the role, and the text or a placeholder.
    pub(crate) fn said(&self, session: usize) -> Vec<String> {
        let entries = self.sessions[session].1.iter();
        entries.filter_map(|entry| entry.body.message()).map(shown).collect()
    }

    /// The same, after the last clear: what a model would be sent.
    pub(crate) fn after_the_clear(&self, session: usize) -> Vec<String> {
        let entries = &self.sessions[session].1;
        let is_clear = |entry: &FoundEntry| matches!(entry.body, Body::Cleared { .. });
        let from = entries.iter().rposition(is_clear).map_or(0, |at| at + 1);
        entries[from..].iter().filter_map(|entry| entry.body.message()).map(shown).collect()
    }

    /// The kinds of entries that are not messages.
    pub(crate) fn kinds(&self, session: usize) -> Vec<&str> {
        let bodies = self.sessions[session].1.iter().map(|entry| &entry.body);
        bodies.filter(|body| body.message().is_none()).map(Body::kind).collect()
    }

    pub(crate) fn found(&self, session: usize) -> &FoundSession {
        &self.sessions[session].0
    }
}

fn shown(message: &Message) -> String {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "SYSTEM",
    };
    let mut parts = vec![message.plain_text()];
    parts.extend(message.calls().map(|call| format!("{}({})", call.name, call.input.get())));
    parts.extend(message.results().map(|result| format!("= {}", result.text())));
    parts.retain(|part| !part.is_empty());
    format!("{role}: {}", parts.join(" "))
}

pub(crate) fn options() -> Options {
    Options {
        zone: TimeZone::fixed(jiff::tz::offset(-8)),
        modified: "2025-06-01T00:00:00Z".parse().expect("a time"),
        keys: true,
    }
}

/// Reads a file that must be of this format.
pub(crate) fn read_file(path: &Path, format: Format) -> Result<Collected, ReadError> {
    assert_eq!(recognise(path).expect("it can be looked at"), Some(format), "{path:?}");
    let mut collected = Collected::default();
    let account = read(format, path, &options(), &mut collected, &mut |_| {})?;
    assert!(account.balances(), "{account:?}");
    assert_eq!(account.calls, account.pairs + account.open + account.dropped, "{account:?}");
    collected.account = account;
    Ok(collected)
}

/// Writes a text to a file and reads it.
pub(crate) fn read_as(name: &str, text: impl AsRef<[u8]>, format: Format) -> Collected {
    let folder = tempfile::tempdir().expect("a folder");
    let path = written(folder.path(), name, text);
    read_file(&path, format).expect("it is read")
}

/// Writes a file.
pub(crate) fn written(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(&path, text).expect("written");
    path
}
