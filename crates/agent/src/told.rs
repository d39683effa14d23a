//! What became of a question whose asker went away, read from the log.
//!
//! A door that was killed in the middle of a turn asks here when it comes back: what was answered
//! is sent, what was not is asked again with the same entry id, which stores nothing twice.

use std::ops::ControlFlow;

use rethread_core::limits::READ_ENTRIES;
use rethread_core::{Body, Entry, EntryId, Role, SessionId, Sessions, sessions};

use crate::step::cut_short;

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is not in the log.
    Never,
    /// It is the latest one, and has no answer yet: running its turn again goes on with it.
    Open,
    /// Its turn is over; the answer, which is empty where none was given.
    Answered(String),
}

impl Told {
    /// What became of the question with this id, which stands at `from` or behind it.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn find(
        sessions: &Sessions,
        session: SessionId,
        question: &EntryId,
        from: u64,
    ) -> Result<Told, sessions::Error> {
        let head = sessions.get(session)?.tally.entries;
        let mut told = Told::Never;
        let mut text = String::new();
        // A reply that calls no tool is the last one, whether its turn was noted as finished or not.
        let mut replied = false;
        for start in (from..head).step_by(READ_ENTRIES as usize) {
            for entry in sessions.read(session, start..head.min(start + READ_ENTRIES))? {
                if told == Told::Never {
                    if entry.id == *question {
                        told = Told::Open;
                    }
                } else if follow(&entry, &mut text).is_break() {
                    return Ok(Told::Answered(text));
                } else if let Some(message) = entry.body.message() {
                    replied = message.role == Role::Assistant && message.calls().next().is_none();
                }
            }
        }
        Ok(if replied { Told::Answered(text) } else { told })
    }
}

/// Takes in what comes behind a question, until its turn is over.
fn follow(entry: &Entry, text: &mut String) -> ControlFlow<()> {
    match &entry.body {
        Body::Message(message) if message.role == Role::Assistant => {
            let said = message.plain_text();
            if !said.is_empty() {
                *text = said;
            }
            ControlFlow::Continue(())
        }
        // Someone went on from here: this question is not the latest any more.
        Body::Message(message) if message.opens_turn() => ControlFlow::Break(()),
        Body::RoundLimit => {
            *text = cut_short(text);
            ControlFlow::Continue(())
        }
        Body::Finished(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::entry::Finished;
    use rethread_core::{
        Block, Fixed, Incoming, Key, MemoryStore, Message, New, Owner, Raw, Thread,
    };

    use super::*;

    fn asked(id: &str) -> (Sessions, Thread, EntryId) {
        let world = Arc::new(Fixed::default());
        let sessions =
            Sessions::new(Arc::new(MemoryStore::new(world.clone())), Owner::local(), world);
        let mut thread =
            sessions.open(&Key::new("k").expect("valid"), &New::default()).expect("opened");
        thread.append(Message::user("earlier")).expect("appended");
        let id = EntryId::new(id).expect("valid");
        let message = Message::user("what?");
        thread.append(Incoming { id: Some(id.clone()), message }).expect("appended");
        (sessions, thread, id)
    }

    fn find(sessions: &Sessions, thread: &Thread, id: &EntryId) -> Told {
        Told::find(sessions, thread.session().id(), id, 0).expect("read")
    }

    #[test]
    fn a_question_is_open_until_it_has_its_last_reply() {
        let (sessions, mut thread, id) = asked("q");
        let other = EntryId::new("other").expect("valid");
        assert_eq!(find(&sessions, &thread, &other), Told::Never);
        assert_eq!(find(&sessions, &thread, &id), Told::Open);
        let call = Block::tool_use("1", "grep", Raw::of(&serde_json::json!({})));
        let reply = Message::new(Role::Assistant, vec![Block::text("let me look"), call]);
        thread.append(reply).expect("appended");
        assert_eq!(find(&sessions, &thread, &id), Told::Open, "its tools have not run");
        thread.append(Message::tool_result("1", "found")).expect("appended");
        assert_eq!(find(&sessions, &thread, &id), Told::Open, "nothing was said about it");
        thread.append(Message::assistant("this")).expect("appended");
        let answered = Told::Answered("this".into());
        assert_eq!(find(&sessions, &thread, &id), answered, "killed before it was noted");
        thread.note(Body::Finished(Finished::default())).expect("noted");
        assert_eq!(find(&sessions, &thread, &id), answered);
    }

    #[test]
    fn a_question_someone_went_on_from_is_over_with_what_was_said_until_then() {
        let (sessions, mut thread, id) = asked("q");
        thread.append(Message::user("another")).expect("appended");
        thread.append(Message::assistant("to the other")).expect("appended");
        assert_eq!(find(&sessions, &thread, &id), Told::Answered(String::new()));
    }

    #[test]
    fn a_turn_at_its_limit_is_told_with_the_notice() {
        let (sessions, mut thread, id) = asked("q");
        thread.append(Message::assistant("so far")).expect("appended");
        thread.note(Body::RoundLimit).expect("noted");
        thread.note(Body::Finished(Finished::default())).expect("noted");
        let told = "so far\n\n[Tool call limit reached]";
        assert_eq!(find(&sessions, &thread, &id), Told::Answered(told.into()));
    }
}
