//! Whose instructions hold in a turn.
//!
//! The log says so: the latest system message holds. An agent that answers once has its own
//! written down before its turn, with a note of which ones they replace; those hold again as soon
//! as the turn is over or, after a crash, before the next one begins.

use rethread_core::{Message, Place, Raw, Role, Thread, sessions};

use crate::leased_thread::LeasedThread;
use crate::runner::{Instructions, Runner};

/// The field of a system message that holds for one turn: the seq of the one it replaces.
const INSTEAD_OF: &str = "instead_of";

impl Runner {
    /// Sees to it that the right instructions hold.
    pub(crate) fn begin_instructions(&self, thread: &mut Thread) -> Result<(), sessions::Error> {
        restore_own(thread)?;
        if self.instructions == Instructions::Once {
            let mut message = Message::system(self.responder.instructions());
            let before = thread.session().tally.system;
            message.extra.push((INSTEAD_OF.into(), Raw::of(&before)));
            thread.append(message)?;
        }
        self.enforce_instructions(thread)
    }

    /// In a session that may have come with anyone's instructions, ours hold.
    pub(crate) fn enforce_instructions(&self, thread: &mut Thread) -> Result<(), sessions::Error> {
        if self.instructions != Instructions::Ours {
            return Ok(());
        }
        let ours = self.responder.instructions();
        let held = message_at(thread, thread.session().tally.system)?;
        if held.is_none_or(|held| held.plain_text() != ours) {
            thread.append(Message::system(ours))?;
        }
        Ok(())
    }

    /// The turn is over: the session's own instructions hold again.
    pub(crate) async fn end_instructions(
        &self,
        held: &LeasedThread,
    ) -> Result<(), sessions::Error> {
        match self.instructions {
            Instructions::Once => held.with(restore_own).await,
            _ => Ok(()),
        }
    }
}

/// Lets the session's own instructions hold, where those of one turn still do.
fn restore_own(thread: &mut Thread) -> Result<(), sessions::Error> {
    let Some(held) = message_at(thread, thread.session().tally.system)? else { return Ok(()) };
    let Some((_, before)) = held.extra.iter().find(|(name, _)| name == INSTEAD_OF) else {
        return Ok(());
    };
    let before = serde_json::from_str::<Option<u64>>(before.get()).unwrap_or_default();
    let own = message_at(thread, before)?.map(|message| message.content).unwrap_or_default();
    thread.append(Message::new(Role::System, own))?;
    Ok(())
}

/// A message of the log. The latest system message is in memory once a context was built.
fn message_at(thread: &Thread, seq: Option<u64>) -> Result<Option<Message>, sessions::Error> {
    let Some(seq) = seq else { return Ok(None) };
    if let Some(entry) = thread.log().get(seq) {
        return Ok(entry.body.message().cloned());
    }
    let place = Place { session: thread.session().id(), seq };
    Ok(thread.sessions().entry_at(place)?.body.message().cloned())
}
