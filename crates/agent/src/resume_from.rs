//! What is known of a session that is to be continued: from the store, or from a file.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use rethread_core::{Header, Name, Session, SessionId, sessions};
use rethread_transcript::read::markdown;

use crate::blocking::blocking;
use crate::compact::Kept;
use crate::restore::PastSession;
use crate::runner::{Runner, TurnError};

/// The most a transcript file may hold. The summary is at its end, so it is read whole.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A transcript that is to be continued.
#[derive(Clone, Debug, PartialEq)]
pub struct FromFile {
    /// Its content.
    pub past: PastSession,
    /// Its summary, or what is wrong with it.
    pub summary: markdown::TranscriptSummary,
}

/// Why a transcript cannot be continued.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not there, or cannot be read.
    #[error("{} cannot be read: {what}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// It is not a transcript.
    #[error("{} is not a transcript: {what}", .path.display())]
    NotATranscript {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
}

impl Runner {
    /// What is known of a session in the store. Its transcript is written on the way, so that
    /// there is a file to point to.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session;
    /// otherwise I/O errors.
    pub async fn past(&self, id: SessionId) -> Result<PastSession, TurnError> {
        let runner = self.clone();
        Ok(blocking(move || {
            // A disk that is full for the transcript must not stop the conversation.
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
                name: given_name(session),
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

    /// The session another one continues, as people name it. It may be gone.
    fn shown_parent(&self, header: &Header) -> Option<String> {
        let parent = header.parent?.id;
        let known = self.sessions.get(parent).map(|session| session.shown_id());
        Some(known.unwrap_or_else(|_| parent.to_string()))
    }

    /// Reads a transcript that is to be continued.
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

/// The name of a session, if it is more than the time it was started.
fn given_name(session: &Session) -> Option<Name> {
    let header = &session.header;
    let made = Name::of_time(header.created_at, header.id);
    (header.name != made).then(|| base(&header.name))
}

/// The name without the number that distinguishes the members of a chain.
fn base(name: &Name) -> Name {
    let text = name.as_str();
    match text.rsplit_once('-') {
        Some((stem, number))
            if !stem.is_empty()
                && number.len() <= 3
                && number.chars().all(|c| c.is_ascii_digit()) =>
        {
            Name::new(stem).unwrap_or_else(|_| name.clone())
        }
        _ => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_chain_are_numbered_from_one_name() {
        for (name, stem) in [
            ("auth", "auth"),
            ("auth-2", "auth"),
            ("auth-17", "auth"),
            ("2", "2"),
            ("v-2025", "v-2025"),
        ] {
            assert_eq!(base(&Name::new(name).expect("valid")).as_str(), stem);
        }
    }
}
