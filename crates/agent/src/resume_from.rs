//! Collects what is needed to continue a session: from the store, or from a file.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use rethread_core::entry::Origin;
use rethread_core::session::Parent;
use rethread_core::{Header, Name, Session, SessionId, Sessions, StoreError, sessions};
use rethread_transcript::read::markdown;

use crate::blocking::blocking;
use crate::compact::Kept;
use crate::restore::PastSession;
use crate::runner::{Runner, TurnError};

/// The maximum size of a transcript file. The summary is at its end, so all of it is read.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A transcript to continue.
#[derive(Clone, Debug, PartialEq)]
pub struct FromFile {
    /// Its content.
    pub past: PastSession,
    /// Its summary, or why there is none.
    pub summary: markdown::TranscriptSummary,
}

/// Why a transcript cannot be continued.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum FileError {
    /// It does not exist, or cannot be read.
    #[error("{} cannot be read: {what}", .path.display())]
    Unreadable { path: PathBuf, what: String },
    /// It is not a transcript.
    #[error("{} is not a transcript: {what}", .path.display())]
    NotATranscript {
        path: PathBuf,
        /// What is missing.
        what: String,
    },
}

impl Runner {
    /// The session in the store. Its transcript is written first, so that there is a file to refer
    /// to.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such session; otherwise I/O errors.
    pub async fn past(&self, id: SessionId) -> Result<PastSession, TurnError> {
        let runner = self.clone();
        Ok(blocking(move || {
            // If the transcript cannot be written, for lack of space, the conversation still
            // continues.
            let file = runner.save_transcript(id).ok().flatten();
            let mut thread = runner.sessions.thread(id)?;
            let Kept { tail, names } = runner.kept(&mut thread)?;
            let session = thread.session();
            let stats = runner.sessions.stats(id)?;
            let header = &session.header;
            let last = session.last_activity_at.to_zoned(TimeZone::system()).datetime();
            Ok::<_, sessions::Error>(PastSession {
                id: session.shown_id(),
                session: Some(id),
                name: chain_name(&runner.sessions, session)?,
                agent: header.profile.agent.clone(),
                agent_path: header.profile.agent_path.clone(),
                date: last,
                queries: session.tally.queries,
                tokens: match stats.usage.total() {
                    0 => session.tally.tokens,
                    charged => charged,
                },
                resumed_from: runner.shown_parent(header),
                file: file.map(|path| path.display().to_string()),
                tail,
                names,
            })
        })
        .await?)
    }

    /// The session that another one continues, for display. It may have been deleted.
    fn shown_parent(&self, header: &Header) -> Option<String> {
        let parent = header.parent?.id;
        let known = self.sessions.get(parent).map(|session| session.shown_id());
        Some(known.unwrap_or_else(|_| parent.to_string()))
    }

    /// Reads a transcript to continue.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn past_of_file(&self, path: &Path) -> Result<FromFile, FileError> {
        let unreadable = |what: String| FileError::Unreadable { path: path.to_owned(), what };
        let file = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if !file.is_file() || file.len() > FILE_BYTES_MAX {
            return Err(unreadable("it is not a file of a reasonable size".into()));
        }
        let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let text = String::from_utf8_lossy(&bytes);
        let parsed = markdown::read(&text).map_err(|error| FileError::NotATranscript {
            path: path.to_owned(),
            what: error.to_string(),
        })?;
        let absolute = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let id = parsed.id.clone().or(stem).unwrap_or_else(|| "unknown".into());
        let past = PastSession {
            session: None,
            id,
            name: None,
            agent: Some(parsed.agent),
            agent_path: parsed.agent_path,
            date: parsed.date.unwrap_or_default(),
            queries: parsed.queries.unwrap_or(parsed.turns.len() as u64),
            tokens: parsed.tokens,
            resumed_from: parsed.resumed_from,
            file: Some(absolute.display().to_string()),
            tail: Vec::new(),
            names: Vec::new(),
        };
        Ok(FromFile { past, summary: parsed.summary })
    }
}

/// Sessions of a chain that are searched for the one that gave it its name.
const CHAIN_MAX: usize = 256;

/// The name of a chain: the name of its members without the number that distinguishes them. `None`
/// if nobody named it.
///
/// A number at the end of a name is part of the name, unless a session this one continues has the name
/// without it: `issue-100` is continued as `issue-100-2`, and that as `issue-100-3`.
fn chain_name(sessions: &Sessions, session: &Session) -> sessions::Result<Option<Name>> {
    let Header { name, created_at, id, mut parent, .. } = session.header.clone();
    if name == Name::of_time(created_at, id) {
        return Ok(None);
    }
    let number = name.as_str().rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    let Some(number) = number else { return Ok(Some(name)) };
    for _ in 0..CHAIN_MAX {
        let Some(Parent { id, origin: Origin::Compact | Origin::Resume }) = parent else { break };
        let earlier = match sessions.get(id) {
            Err(sessions::Error::Store(StoreError::NotFound { .. })) => break,
            earlier => earlier?.header,
        };
        if earlier.name.numbered(number) == name {
            return Ok(Some(earlier.name));
        }
        parent = earlier.parent;
    }
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::{Fixed, MemoryStore, New, Owner};

    use super::*;

    #[test]
    fn a_number_is_a_counter_only_where_the_chain_gave_it() {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let create = |name: &str, parent: Option<&Session>, origin| {
            let name = Some(Name::new(name).expect("valid"));
            let parent = parent.map(|session| Parent { id: session.id(), origin });
            sessions.create(&New { name, parent, ..New::default() }, None).expect("created")
        };
        let called = |session: &Session| {
            chain_name(&sessions, session).expect("read").expect("a name").to_string()
        };
        let first = create("issue-100", None, Origin::New);
        assert_eq!(called(&first), "issue-100");
        let second = create("issue-100-2", Some(&first), Origin::Compact);
        assert_eq!(called(&second), "issue-100");
        let third = create("issue-100-3", Some(&second), Origin::Resume);
        assert_eq!(called(&third), "issue-100");
        // A name that was chosen later is kept completely, and a fork is not a continuation.
        let renamed = create("issue-7", Some(&third), Origin::Compact);
        assert_eq!(called(&renamed), "issue-7");
        let fork = create("issue-100-4", Some(&first), Origin::Fork);
        assert_eq!(called(&fork), "issue-100-4");
    }

    #[test]
    fn a_session_that_nobody_named_gives_no_name() {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let session = sessions.create(&New::default(), None).expect("created");
        assert_eq!(chain_name(&sessions, &session).expect("read"), None);
    }
}
