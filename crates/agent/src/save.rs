//! Writes transcripts of sessions.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use rethread_core::entry::{Body, PreviousSession};
use rethread_core::readable_id::is_file_name;
use rethread_core::{Session, SessionId, Sessions, sessions};
use rethread_transcript::read::markdown;
use rethread_transcript::write::markdown::{Steps, TranscriptHeader, TranscriptTotals, WriteError};

use crate::runner::Runner;
use crate::transcript_index;

/// Bytes of a transcript that are buffered before they are written to a file.
const TRANSCRIPT_PART_BYTES: usize = 256 << 10;

/// Entries read at once for a transcript. All of them are in memory before their size is known, and
/// one may have 16 MiB.
const TRANSCRIPT_ENTRIES: u64 = 8;

impl Runner {
    /// Writes a session's transcript into the folder of transcripts, as `<Session ID>.md`, and adds
    /// it to the folder's index. Returns its path, or `None` if there is no such folder.
    ///
    /// # Errors
    ///
    /// I/O errors; an error of the store is wrapped in one. An existing transcript is replaced
    /// atomically.
    pub fn save_transcript(&self, id: SessionId) -> io::Result<Option<PathBuf>> {
        let Some(folder) = &self.transcripts else { return Ok(None) };
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let session = self.sessions.get(id).map_err(io::Error::other)?;
        let readable = session.readable_id.as_deref().filter(|id| is_file_name(id));
        let readable = readable.map(|readable| folder.join(format!("{readable}.md")));
        let path = match readable {
            Some(path) if is_free_for(&path, &session) => path,
            _ => {
                let path = folder.join(format!("{id}.md"));
                self.write_transcript(id, &path)?;
                return Ok(Some(path));
            }
        };
        let totals = self.write_transcript(id, &path)?;
        let agent = self.agent_of(&session);
        // The transcript is what people need; the index only helps another program find it.
        drop(transcript_index::note(folder, &session, agent, &totals));
        Ok(Some(path))
    }

    /// Writes a session's transcript to this file, readable by its owner only.
    ///
    /// # Errors
    ///
    /// As [`save_transcript`](Runner::save_transcript).
    pub fn write_transcript(&self, id: SessionId, path: &Path) -> io::Result<TranscriptTotals> {
        replace(path, |out| match self.transcript(id, out) {
            Ok(totals) => Ok(totals),
            Err(WriteError::Io(error)) => Err(error),
            Err(WriteError::Entries(error)) => Err(io::Error::other(error)),
        })
    }

    /// Writes a session's transcript as Markdown.
    ///
    /// # Errors
    ///
    /// [`WriteError::Entries`] if the log cannot be read, [`WriteError::Io`] if `out` fails.
    pub fn transcript(
        &self,
        id: SessionId,
        out: &mut dyn Write,
    ) -> Result<TranscriptTotals, WriteError<sessions::Error>> {
        let mut steps = self.transcript_steps(id)?;
        while let Some(part) = steps.part(TRANSCRIPT_PART_BYTES)? {
            out.write_all(&part)?;
        }
        out.flush()?;
        Ok(steps.totals)
    }

    /// A session's transcript in parts, for a slow reader.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session;
    /// otherwise I/O errors.
    pub fn transcript_steps(
        &self,
        id: SessionId,
    ) -> Result<TranscriptSteps, WriteError<sessions::Error>> {
        let session = self.sessions.get(id).map_err(WriteError::Entries)?;
        let previous = self.previous(&session).map_err(WriteError::Entries)?;
        let agent = self.agent_of(&session);
        let page =
            TranscriptHeader { session: &session, agent, previous, zone: TimeZone::system() };
        let steps = Some(Steps::begin(&page)?);
        Ok(TranscriptSteps {
            sessions: self.sessions.clone(),
            id,
            next: 0,
            end: session.tally.entries,
            steps,
            totals: TranscriptTotals::default(),
        })
    }

    /// The name of the agent in a session.
    fn agent_of<'a>(&'a self, session: &'a Session) -> &'a str {
        session.header.profile.agent.as_deref().unwrap_or(&self.responder.agent.name)
    }

    /// The session that this one continues, as recorded in it.
    fn previous(&self, session: &Session) -> Result<Option<PreviousSession>, sessions::Error> {
        let Some(seq) = session.tally.started else { return Ok(None) };
        let entry = self.sessions.read(session.id(), seq..seq + 1)?.pop();
        let Some(Body::Restored(restored)) = entry.map(|entry| entry.body) else {
            return Ok(None);
        };
        Ok(Some(restored.previous))
    }
}

/// Bytes of a transcript that contain its header.
const HEAD_BYTES: u64 = 64 << 10;

/// Whether a session's transcript may be written to this file: it does not exist, or belongs to
/// this session. A transcript of another program, or of a session in another store, may have the
/// same name; its date, to the millisecond, distinguishes it.
fn is_free_for(path: &Path, session: &Session) -> bool {
    let mut head = Vec::new();
    match File::open(path) {
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
        Ok(file) => match file.take(HEAD_BYTES).read_to_end(&mut head) {
            Ok(_) => {}
            Err(_) => return false,
        },
    }
    let Ok(parsed) = markdown::read(&String::from_utf8_lossy(&head)) else { return false };
    // In another time zone the hours differ, but the seconds do not.
    let seconds = |date: jiff::civil::DateTime| (date.second(), date.subsec_nanosecond());
    let begun = session.header.created_at.to_zoned(TimeZone::UTC).datetime();
    parsed.id == session.readable_id
        && parsed.date.is_some_and(|date| seconds(date) == seconds(begun))
}

/// A transcript that is generated as it is read. Between two parts it holds one turn of the log,
/// and nothing of the store.
pub struct TranscriptSteps {
    sessions: Sessions,
    id: SessionId,
    next: u64,
    end: u64,
    /// `None` at the end.
    steps: Option<Steps>,
    /// The totals of the transcript, at the end.
    totals: TranscriptTotals,
}

impl TranscriptSteps {
    /// The next part: this many bytes or a little more, or less at the end. `None` after it.
    ///
    /// # Errors
    ///
    /// I/O errors of the store. The transcript is incomplete then.
    pub fn part(&mut self, bytes: usize) -> Result<Option<Vec<u8>>, WriteError<sessions::Error>> {
        let Some(steps) = &mut self.steps else { return Ok(None) };
        while self.next < self.end && steps.ready() < bytes {
            let page = self.next..self.end.min(self.next + TRANSCRIPT_ENTRIES);
            let entries = self.sessions.read(self.id, page).map_err(WriteError::Entries)?;
            if entries.is_empty() {
                self.end = self.next;
            }
            for entry in entries {
                self.next = entry.seq + 1;
                steps.entry(entry)?;
            }
        }
        if self.next < self.end {
            return Ok(Some(steps.take()));
        }
        let Some(steps) = self.steps.take() else { return Ok(None) };
        let (rest, totals) = steps.finish()?;
        self.totals = totals;
        Ok(Some(rest))
    }
}

/// Writes a new file next to the old one, then renames it.
pub(crate) fn replace<T>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // The name cannot be guessed, and an existing file is never opened.
    let random = RandomState::new().build_hasher().finish();
    let beside = folder.join(format!(".{name}.tmp-{random:016x}"));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = (|| {
        let mut out = BufWriter::new(file);
        let filled = fill(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(folder)?.sync_all()?;
        Ok(filled)
    })();
    if written.is_err() {
        // An incomplete file is useless; the first error is the one to report.
        drop(fs::remove_file(&beside));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries.map(name).map(|n| n.to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_link_that_waits_beside_the_file_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("a.md"), folder.path().join("theirs"));
        fs::write(&other, "theirs").expect("written");
        let planted = format!(".a.md.tmp-{}", std::process::id());
        std::os::unix::fs::symlink(&other, folder.path().join(&planted)).expect("a link");
        replace(&path, |out| out.write_all(b"ours")).expect("written");
        assert_eq!(fs::read_to_string(&other).expect("read"), "theirs");
        assert_eq!(fs::read_to_string(&path).expect("read"), "ours");
        assert!(!path.symlink_metadata().expect("there").is_symlink());
        assert_eq!(names(folder.path()), [planted.as_str(), "a.md", "theirs"]);
    }

    #[test]
    fn what_fails_leaves_the_old_file_and_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.md");
        fs::write(&path, "old").expect("written");
        let failed = replace(&path, |_| Err::<(), _>(io::ErrorKind::Other.into()));
        failed.expect_err("it fails");
        assert_eq!(fs::read_to_string(&path).expect("read"), "old");
        assert_eq!(names(folder.path()), ["a.md"]);
    }
}
