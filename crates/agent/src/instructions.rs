//! Which instructions apply in a turn.
//!
//! The log decides: the latest system message applies. If an agent answers a single turn, its
//! instructions are appended before the turn, with a note of which ones they replace; those apply
//! again as soon as the turn is over or, after a crash, before the next one begins. The project's
//! instructions, and the folder of the tools, as they were when a turn began, are part of each
//! system message.

use rethread_core::{Message, Place, Raw, Role, StoreError, Thread, sessions};

use crate::leased_thread::LeasedThread;
use crate::project_instructions::note_of;
use crate::responder::Responder;
use crate::runner::{Instructions, Runner};

/// The field of a system message for a single turn: the seq of the one it replaces.
const INSTEAD_OF: &str = "instead_of";

impl Runner {
    /// What has to be appended from `next` on so that the right instructions apply in a turn.
    pub(crate) fn instructions_first(
        &self,
        thread: &Thread,
        next: u64,
    ) -> Result<Vec<Message>, sessions::Error> {
        let own = own_again(thread)?;
        let held = own.as_ref().map(|_| next).or(thread.session().tally.system);
        let mut first = Vec::from_iter(own);
        if self.instructions == Instructions::Once {
            let mut message = self.ours();
            message.extra.push((INSTEAD_OF.into(), Raw::of(&held)));
            first.push(message);
        }
        let ours = self.enforced(thread, first.last())?;
        first.extend(ours);
        let held = match first.last() {
            Some(last) => Some(last.clone()),
            None => message_at(thread, thread.session().tally.system)?,
        };
        let Responder { project, workspace, .. } = &self.responder;
        first.extend(project.replacing(held.as_ref(), workspace.as_deref()));
        Ok(first)
    }

    /// The responder's instructions, with the project's.
    fn ours(&self) -> Message {
        self.responder.project.message(&self.responder.instructions())
    }

    /// Our instructions, if they have to be appended: in a session whose own may come from anyone.
    /// `last` are those that will apply, if they are not in the log yet.
    pub(crate) fn enforced(
        &self,
        thread: &Thread,
        last: Option<&Message>,
    ) -> Result<Option<Message>, sessions::Error> {
        if self.instructions != Instructions::Ours {
            return Ok(None);
        }
        let ours = self.ours();
        let held = match last {
            Some(last) => Some(last.clone()),
            None => message_at(thread, thread.session().tally.system)?,
        };
        let other = held.is_none_or(|held| held.plain_text() != ours.plain_text());
        Ok(other.then_some(ours))
    }

    /// The turn failed: the session's own instructions apply again.
    pub(crate) async fn end_instructions(
        &self,
        held: &LeasedThread,
    ) -> Result<(), sessions::Error> {
        if self.instructions != Instructions::Once {
            return Ok(());
        }
        let again = |thread: &mut Thread| match own_again(thread)? {
            Some(own) => thread.append(own).map(drop),
            None => Ok(()),
        };
        held.with(again).await
    }
}

/// The session's own instructions, if those of a single turn still apply.
pub(crate) fn own_again(thread: &Thread) -> Result<Option<Message>, sessions::Error> {
    let Some(held) = message_at(thread, thread.session().tally.system)? else { return Ok(None) };
    let Some((_, before)) = held.extra.iter().find(|(name, _)| name == INSTEAD_OF) else {
        return Ok(None);
    };
    let before = serde_json::from_str::<Option<u64>>(before.get()).unwrap_or_default();
    let before = message_at(thread, before)?;
    let mut own = Message::new(Role::System, Vec::new());
    if let Some(before) = before {
        own.extra.extend(note_of(&before));
        own.content = before.content;
    }
    Ok(Some(own))
}

/// A message of the log. The latest system message is in memory once a context was built.
fn message_at(thread: &Thread, seq: Option<u64>) -> Result<Option<Message>, sessions::Error> {
    let Some(seq) = seq else { return Ok(None) };
    if let Some(entry) = thread.log().get(seq) {
        return Ok(entry.body.message().cloned());
    }
    let place = Place { session: thread.session().id(), seq };
    match thread.sessions().entry_at(place) {
        // A message that cannot be read does not apply any more.
        Err(sessions::Error::Store(StoreError::Damaged { .. })) => Ok(None),
        entry => Ok(entry?.body.message().cloned()),
    }
}
