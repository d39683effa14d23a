//! A session that is open in another window too.
//!
//! Turns of one session run one after the other, also from several windows, and a model sees all of
//! them. So does the user: new messages from elsewhere are shown before their own turn, or after it
//! if they were added while theirs waited.

use rethread_core::turn::{TurnPart, turns};
use rethread_core::{SessionId, StoreError, sessions};

use super::Chat;
use super::replay::{self, OpenCalls, RecordedChanges};
use crate::errors::Error;
use crate::out::plural;

/// Turns from another window that are shown; of more, the last ones.
const TURNS_SHOWN: usize = 3;

/// Entries that are read to find them.
const ENTRIES_MAX: u64 = 1_024;

impl Chat {
    /// Marks the whole session as seen.
    pub(super) fn have_seen_all(&mut self) {
        // A read error is reported by the verb that needs the entry.
        if let Some(session) = self.session.and_then(|id| self.handle.sessions().get(id).ok()) {
            self.seen = session.tally.entries;
        }
        self.is_elsewhere_running = false;
    }

    /// Shows what was added to this session in other windows since the user last looked.
    ///
    /// # Errors
    ///
    /// If the session was deleted there: nothing is sent, and the chat is in no session.
    pub(super) fn show_other_windows(&mut self) -> Result<(), Error> {
        let Some(id) = self.session else { return Ok(()) };
        let session = match self.handle.sessions().get(id) {
            Ok(session) => session,
            Err(sessions::Error::Store(StoreError::NotFound { .. })) => {
                self.session = None;
                self.deleted = Some(id);
                return Err(Error::Word {
                    what: "this session was deleted elsewhere; your message was not sent".into(),
                    hint: "`/undo` brings the session back, and Up recalls the message; sent again \
                           without that, it starts a new session",
                });
            }
            Err(error) => return Err(error.into()),
        };
        self.show_added(id, session.tally.entries)
    }

    /// Shows the turns up to an entry that the user has not seen.
    pub(super) fn show_added(&mut self, id: SessionId, end: u64) -> Result<(), Error> {
        let begin = self.seen.max(end.saturating_sub(ENTRIES_MAX));
        self.seen = self.seen.max(end);
        if begin >= end || self.voice.quiet {
            return Ok(());
        }
        let entries = self.handle.sessions().entries(id, begin..end).skip_damaged();
        let entries = entries.collect::<sessions::Result<Vec<_>>>()?;
        let changes = RecordedChanges::read(self.handle.sessions(), id, &entries);
        let mut added = turns(entries);
        added.retain(|turn| turn.parts().any(is_said));
        if added.is_empty() {
            return Ok(());
        }
        // A turn that had only begun when it was announced is not announced again.
        let is_rest = self.is_elsewhere_running && added[0].question().is_none();
        self.is_elsewhere_running = added.last().is_some_and(|turn| !turn.is_over());
        let (count, style) = ((added.len() - usize::from(is_rest)) as u64, self.voice.style());
        let were = if count == 1 { "was" } else { "were" };
        match (count, is_rest) {
            (0, _) => self.voice.notice("\x1b[33m(the rest of the turn from elsewhere)\x1b[0m"),
            _ => self.voice.notice(format_args!(
                "\x1b[33m({} {were} added to this session elsewhere)\x1b[0m",
                plural(count, "turn")
            )),
        }
        let agent = self.runner.responder.agent.name.clone();
        let last = added.last().map(|turn| OpenCalls::of(turn, self.handle.sessions(), id));
        let last = last.unwrap_or(OpenCalls::Interrupted);
        for (index, turn) in added.iter().enumerate().skip(added.len().saturating_sub(TURNS_SHOWN))
        {
            let open = if index + 1 == added.len() { last } else { OpenCalls::Interrupted };
            let lines = replay::turn(turn, &changes, &agent, &style, open);
            self.voice.rendered(&lines.lines().map(str::to_owned).collect::<Vec<_>>());
        }
        Ok(())
    }
}

/// Whether it is part of a conversation. A result alone may belong to a call that a crash left
/// open, which the own turn answered.
fn is_said(part: TurnPart<'_>) -> bool {
    matches!(part, TurnPart::Question(_) | TurnPart::Reply(_))
}
