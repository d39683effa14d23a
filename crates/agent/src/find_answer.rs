//! Finds the answer to a question in the log, after the client that asked it was interrupted.
//!
//! A client that was killed in the middle of a turn uses this when it comes back: if there is an
//! answer, it is delivered; otherwise the question is asked again with the same entry id, so
//! nothing is stored twice.

use rethread_core::{EntryId, Place, SessionId, Sessions, sessions};

use crate::step::cut_short;

/// The state of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionState {
    /// It is not in the log.
    NeverAsked,
    /// It is the latest one, and has no answer yet: running its turn again continues it.
    Open,
    /// Its turn is over; the answer, which may be empty.
    Answered(String),
}

impl QuestionState {
    /// The state of the question with this id, which is at `from` or after it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session,
    /// and [`StoreError::Damaged`](rethread_core::StoreError::Damaged) if an entry cannot be read.
    pub fn find(
        sessions: &Sessions,
        session: SessionId,
        question: &EntryId,
        from: u64,
    ) -> Result<QuestionState, sessions::Error> {
        let head = sessions.get(session)?.tally;
        let mut asked = None;
        for entry in sessions.entries(session, from..head.entries) {
            let entry = entry?;
            if entry.id == *question {
                asked = Some(entry.seq);
                break;
            }
        }
        let Some(seq) = asked else { return Ok(QuestionState::NeverAsked) };
        let turn = sessions.turn_at(Place { session, seq })?;
        // A reply without tool calls is the last one, whether or not its turn is marked as
        // finished; and someone may have asked something else since.
        if !turn.is_over() && !turn.has_answer() && head.turn == Some(seq) {
            return Ok(QuestionState::Open);
        }
        let (text, limit) = turn.answer();
        Ok(QuestionState::Answered(match limit {
            Some(limit) => cut_short(&text, limit),
            None => text,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::entry::{Body, Finished, RoundLimit};
    use rethread_core::{
        Block, Fixed, Incoming, Key, MemoryStore, Message, New, Owner, Raw, Role, Thread,
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

    fn find(sessions: &Sessions, thread: &Thread, id: &EntryId) -> QuestionState {
        QuestionState::find(sessions, thread.session().id(), id, 0).expect("read")
    }

    #[test]
    fn a_question_is_open_until_it_has_its_last_reply() {
        let (sessions, mut thread, id) = asked("q");
        let other = EntryId::new("other").expect("valid");
        assert_eq!(find(&sessions, &thread, &other), QuestionState::NeverAsked);
        assert_eq!(find(&sessions, &thread, &id), QuestionState::Open);
        let call = Block::tool_use("1", "grep", Raw::of(&serde_json::json!({})));
        let reply = Message::new(Role::Assistant, vec![Block::text("let me look"), call]);
        thread.append(reply).expect("appended");
        assert_eq!(find(&sessions, &thread, &id), QuestionState::Open, "its tools have not run");
        thread.append(Message::tool_result("1", "found")).expect("appended");
        assert_eq!(find(&sessions, &thread, &id), QuestionState::Open, "nothing was said about it");
        thread.append(Message::assistant("this")).expect("appended");
        let answered = QuestionState::Answered("this".into());
        assert_eq!(find(&sessions, &thread, &id), answered, "killed before it was noted");
        thread.note(Body::Finished(Finished::default())).expect("noted");
        assert_eq!(find(&sessions, &thread, &id), answered);
    }

    #[test]
    fn a_question_that_was_followed_by_another_is_over_with_what_was_said_until_then() {
        let (sessions, mut thread, id) = asked("q");
        thread.append(Message::user("another")).expect("appended");
        thread.append(Message::assistant("to the other")).expect("appended");
        assert_eq!(find(&sessions, &thread, &id), QuestionState::Answered(String::new()));
    }

    #[test]
    fn a_turn_at_its_limit_is_reported_with_the_notice() {
        let (sessions, mut thread, id) = asked("q");
        thread.append(Message::assistant("so far")).expect("appended");
        thread.note(Body::RoundLimit(RoundLimit::default())).expect("noted");
        thread.note(Body::Finished(Finished::default())).expect("noted");
        let told = "so far\n\n[Tool call limit reached]";
        assert_eq!(find(&sessions, &thread, &id), QuestionState::Answered(told.into()));
    }
}
