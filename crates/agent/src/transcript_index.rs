//! The index of the transcripts, `.index.json`, which another program reads.
//!
//! It lists sessions, newest first, for a program that reads nothing else to show its list. Entries
//! of other programs are kept unchanged. The folder is locked while a writer reads and replaces the
//! index.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::Session;
use rethread_transcript::write::markdown::TranscriptTotals;
use serde_json::{Map, Value, json};

use crate::save::replace;

/// The name of the index.
const FILE: &str = ".index.json";

/// The largest index that is read.
const BYTES_MAX: u64 = 64 << 20;

/// Characters of a session's first message.
const PREVIEW_CHARS: usize = 100;

/// Adds a transcript to the index of its folder.
///
/// # Errors
///
/// I/O errors, and [`io::ErrorKind::InvalidData`] if the file is not an intact index; it is not
/// changed.
pub(crate) fn note(
    folder: &Path,
    session: &Session,
    agent: &str,
    totals: &TranscriptTotals,
) -> io::Result<()> {
    let lock = File::open(folder)?;
    // On a file system without locks, the last writer wins; every transcript is still there.
    drop(lock.lock());
    let path = folder.join(FILE);
    let mut index = read(&path)?;
    let sessions = index.entry("sessions").or_insert_with(|| json!([]));
    let sessions = sessions.as_array_mut().ok_or(io::ErrorKind::InvalidData)?;
    let entry = entry(session, agent, totals);
    sessions.retain(|other| other["session_id"] != entry["session_id"]);
    sessions.push(entry);
    // Local times without a zone sort as text; entries without a time come last.
    let newest = |entry: &Value| entry["last_updated"].as_str().unwrap_or_default().to_owned();
    sessions.sort_by_key(|entry| std::cmp::Reverse(newest(entry)));
    let updated = sessions.first().map(&newest).unwrap_or_default();
    index.insert("last_updated".into(), updated.into());
    replace(&path, |out| {
        serde_json::to_writer_pretty(&mut *out, &index)?;
        writeln!(out)
    })
}

fn read(path: &Path) -> io::Result<Map<String, Value>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        Ok(file) if file.is_file() && file.len() <= BYTES_MAX => {}
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn entry(session: &Session, agent: &str, totals: &TranscriptTotals) -> Value {
    let profile = &session.header.profile;
    let preview = session.first_message.split_whitespace().collect::<Vec<_>>().join(" ");
    json!({
        "session_id": session.shown_id(),
        "agent_name": agent,
        "agent_path": profile.agent_path.as_deref().unwrap_or(BUILT_IN),
        "created": local(session.header.created_at),
        "last_updated": local(session.last_activity_at),
        "query_count": totals.queries,
        "total_tokens": totals.session.total().saturating_add(totals.restoration.total()),
        "preview": preview.chars().take(PREVIEW_CHARS).collect::<String>(),
    })
}

/// The agent path of a built-in agent, as in the transcript.
const BUILT_IN: &str = "built-in";

fn local(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}
