//! What was said in a session, as far back as there is room for: what a summary is made from.

use rethread_core::entry::Body;
use rethread_core::limits::READ_ENTRIES;
use rethread_core::{Entry, Role, Session, Sessions, sessions, tokens};

use crate::limits::SUMMARY_TEXT_CHARS;

/// What was said in a session since it was last cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// The turns, oldest first: what the person said, what the model said, the tools it called.
    pub(crate) turns: Vec<Exchange>,
    /// Turns there was no room for.
    pub(crate) left_out: u64,
    /// Tokens of what is here.
    pub(crate) tokens: u64,
}

/// One turn, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) user: String,
    pub(crate) assistant: String,
    pub(crate) tools: Vec<String>,
}

impl Conversation {
    /// Reads a session from its end until there are this many tokens.
    pub(crate) fn read(
        sessions: &Sessions,
        session: &Session,
        tokens_max: u64,
    ) -> Result<Conversation, sessions::Error> {
        let mut conversation = Conversation::default();
        let begins = session.tally.begins();
        let mut end = session.tally.entries;
        // The turn being read, from its last reply back to its question.
        let mut turn = Exchange::default();
        while end > begins && conversation.tokens < tokens_max {
            let start = end.saturating_sub(READ_ENTRIES).max(begins);
            for entry in sessions.read(session.id(), start..end)?.iter().rev() {
                conversation.add(&mut turn, entry);
                if conversation.tokens >= tokens_max {
                    conversation.left_out = entry.tally.queries.saturating_sub(1);
                    break;
                }
            }
            end = start;
        }
        conversation.turns.reverse();
        Ok(conversation)
    }

    fn add(&mut self, turn: &mut Exchange, entry: &Entry) {
        let Body::Message(message) = &entry.body else { return };
        let text = shortened(&message.plain_text());
        self.tokens += u64::from(tokens::count(&text));
        match message.role {
            Role::Assistant => {
                let calls: Vec<String> = message.calls().map(|call| call.name.clone()).collect();
                turn.tools.splice(0..0, calls);
                turn.assistant = match (text.is_empty(), turn.assistant.is_empty()) {
                    (true, _) => std::mem::take(&mut turn.assistant),
                    (false, true) => text,
                    (false, false) => format!("{text}\n\n{}", turn.assistant),
                };
            }
            Role::User if message.opens_turn() => {
                turn.user = text;
                self.turns.push(std::mem::take(turn));
            }
            _ => {}
        }
    }

    /// The conversation in Markdown, as a model is asked to summarise it.
    pub(crate) fn markdown(&self, agent: &str) -> String {
        let mut text = String::new();
        if self.left_out > 0 {
            text.push_str(&format!("[{} earlier queries are left out]\n\n", self.left_out));
        }
        for (number, turn) in (self.left_out + 1..).zip(&self.turns) {
            let Exchange { user, assistant, tools } = turn;
            text.push_str(&format!(
                "## Query {number}\n**You:** {user}\n\n**{agent}:** {assistant}\n"
            ));
            if !tools.is_empty() {
                text.push_str(&format!("*Tools: {}*\n", tools.join(", ")));
            }
            text.push('\n');
        }
        text.trim_end().to_owned()
    }
}

/// The text, its middle left out where it is long.
fn shortened(text: &str) -> String {
    let length = text.chars().count();
    if length <= SUMMARY_TEXT_CHARS {
        return text.to_owned();
    }
    let half = SUMMARY_TEXT_CHARS / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(length - half).collect();
    format!("{head}\n[… {} characters …]\n{tail}", length - 2 * half)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::{Fixed, Key, MemoryStore, Message, New, Owner};

    use super::*;

    fn told(turns: usize) -> (Sessions, Session) {
        let world = Arc::new(Fixed::default());
        let owner = Owner::new("local").expect("valid");
        let sessions = Sessions::new(Arc::new(MemoryStore::new(world.clone())), owner, world);
        let key = Key::new("k").expect("valid");
        let mut thread = sessions.open(&key, &New::default()).expect("opened");
        for turn in 0..turns {
            thread.append(Message::user(format!("question {turn}"))).expect("appended");
            thread.append(Message::assistant(format!("answer {turn}"))).expect("appended");
        }
        let session = thread.session().clone();
        (sessions, session)
    }

    #[test]
    fn a_conversation_is_read_whole_and_in_order() {
        let (sessions, session) = told(300);
        let all = Conversation::read(&sessions, &session, u64::MAX).expect("read");
        assert_eq!((all.turns.len(), all.left_out), (300, 0));
        assert_eq!(all.turns[299].assistant, "answer 299");
        assert!(
            all.markdown("build")
                .starts_with("## Query 1\n**You:** question 0\n\n**build:** answer 0\n")
        );
    }

    #[test]
    fn where_there_is_no_room_the_oldest_turns_are_left_out_and_counted() {
        let (sessions, session) = told(300);
        let some = Conversation::read(&sessions, &session, 100).expect("read");
        assert!(some.turns.len() < 30, "{}", some.turns.len());
        assert_eq!(some.turns.len() as u64 + some.left_out, 300);
        assert_eq!(some.turns.last().expect("a turn").user, "question 299");
        assert!(some.markdown("build").starts_with(&format!("[{} earlier", some.left_out)));
    }

    #[test]
    fn what_was_said_before_a_clear_is_not_summarised() {
        let (sessions, session) = told(3);
        sessions.clear(session.id()).expect("cleared");
        let session = sessions.get(session.id()).expect("read");
        assert!(Conversation::read(&sessions, &session, u64::MAX).expect("read").turns.is_empty());
    }
}
