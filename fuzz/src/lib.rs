//! Shared code of the fuzz targets: arbitrary bytes go through a reader, and its output is checked.
//!
//! A reader may refuse a file. It must not panic, emit an entry that a log would refuse, or lose a
//! record. `cargo xtask fuzz` runs every target, after it has checked that a planted bug is found.
//! What the renderer must not do is in [`render`].

pub mod render;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::entry::{Body, Tally};
use rethread_core::measure::Measure;
use rethread_core::store::BoxError;
use rethread_core::{Entry, EntryId, Header, Session};
use rethread_transcript::read::{self, Format, FoundEntry, FoundSession, Options, Sink};
use rethread_transcript::write::writer;

/// Keeps what is found.
#[derive(Default)]
struct Collected {
    sessions: Vec<FoundSession>,
    entries: Vec<(usize, FoundEntry)>,
}

impl Sink for Collected {
    fn session(&mut self, found: FoundSession) -> Result<(), BoxError> {
        self.sessions.push(found);
        Ok(())
    }

    fn entry(&mut self, session: usize, entry: FoundEntry) -> Result<(), BoxError> {
        assert!(session < self.sessions.len(), "an entry of a session nobody found");
        self.entries.push((session, entry));
        Ok(())
    }
}

/// The bytes as a file of this format.
pub fn reads(format: &str, data: &[u8]) {
    let format = *Format::ALL.iter().find(|known| known.name() == format).expect("a format");
    let folder = Folder::new();
    let path = folder.file("input", data);
    check(format, &path);
    planted(data);
}

/// The bytes as the files of an opencode folder, a line each.
pub fn reads_folder(data: &[u8]) {
    let folder = Folder::new();
    let places = ["session/p/s.json", "message/s/m.json", "part/m/p.json"];
    for (line, place) in data.split(|byte| *byte == b'\n').zip(places) {
        folder.file(place, line);
    }
    check(Format::OpenCode, &folder.0);
}

/// The bytes in the format they are recognised as.
pub fn recognises(data: &[u8]) {
    let folder = Folder::new();
    let path = folder.file("input", data);
    if let Ok(Some(format)) = read::recognise(&path) {
        check(format, &path);
    }
}

/// The messages in the bytes, written in every format; ours is read again and must be the same.
pub fn comes_home(data: &[u8]) {
    let folder = Folder::new();
    let path = folder.file("input", data);
    let Some(collected) = check(Format::OpenAi, &path) else { return };
    let id = "01a1de60-51fe-70cd-b829-d63a8edcab9d";
    let header = serde_json::json!({ "id": id, "owner": "local", "name": "n", "created_at": "2025-01-01T00:00:00Z" });
    let header: Header = serde_json::from_value(header).expect("a header");
    let session = Session::new(header);
    let bodies: Vec<Body> = collected.entries.iter().map(|(_, entry)| entry.body.clone()).collect();
    let entries: Vec<Entry> = (0_u64..).zip(&bodies).map(|(seq, body)| entry(seq, body)).collect();
    for format in ["rethread", "openai", "anthropic", "magent", "agent", "telegram", "html"] {
        let mut text = Vec::new();
        let mut out = writer(format, &mut text, TimeZone::UTC).expect("a writer");
        out.begin(&session).expect("written");
        for entry in &entries {
            out.entry(entry).expect("written");
        }
        out.finish().expect("written");
        drop(out);
        if format != "rethread" {
            continue;
        }
        let path = folder.file("home", &text);
        let again = check(Format::Rethread, &path).expect("what was written is read");
        let again: Vec<Body> = again.entries.into_iter().map(|(_, entry)| entry.body).collect();
        let json = |bodies: &[Body]| bodies.iter().map(Body::json).collect::<Vec<_>>();
        assert_eq!(json(&again), json(&bodies));
    }
}

fn entry(seq: u64, body: &Body) -> Entry {
    let id = EntryId::new(format!("e{seq}")).expect("an id");
    let (at, body) = (Timestamp::UNIX_EPOCH, body.clone());
    Entry { seq, at, id, body, measure: Measure::default(), tally: Tally::default() }
}

/// Reads a file; nothing where the reader refuses it.
fn check(format: Format, path: &Path) -> Option<Collected> {
    let options = Options { zone: TimeZone::UTC, modified: Timestamp::UNIX_EPOCH, keys: true };
    let mut collected = Collected::default();
    let account = read::read(format, path, &options, &mut collected, &mut |_| {}).ok()?;
    assert!(account.balances(), "{account:?}");
    assert_eq!(account.calls, account.pairs + account.open + account.dropped, "{account:?}");
    for (_, entry) in &collected.entries {
        EntryId::new(entry.id.clone()).expect("an id a log takes");
        let json = entry.body.json();
        let again = Body::parse(entry.body.kind(), &json).expect("a body a log takes");
        assert_eq!(again.json(), json);
    }
    Some(collected)
}

/// A planted bug, to check that bugs are found. It comes after everything a reader does, so only a
/// search that learns from comparisons reaches it.
fn planted(data: &[u8]) {
    if !cfg!(feature = "planted") {
        return;
    }
    if let Some(first) = data.first_chunk::<4>() {
        assert!(u32::from_le_bytes(*first) != u32::from_le_bytes(*b"BUG!"), "the planted fault");
    }
}

/// A folder of its own, in memory where there is one, that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let path = base.join(format!("rethread-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, bytes).expect("written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} could not be removed: {error}", self.0.display());
        }
    }
}
