//! The conversation of a session, as far back as it fits: the input of a summary.

use rethread_core::turn::TurnPart;
use rethread_core::{Body, Message, Place, Session, SessionId, Sessions, sessions, tokens};

use crate::limits::SUMMARY_TEXT_CHARS;
use crate::open_tasks::open_tasks;

/// The conversation since the last clear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// The turns, oldest first: the user's text, the model's text, the tools it called.
    pub(crate) turns: Vec<Exchange>,
    /// Turns that did not fit.
    pub(crate) left_out: u64,
    /// Tokens of what is included.
    pub(crate) tokens: u64,
    /// The open items of the latest to-do list.
    pub(crate) open_tasks: Vec<String>,
}

/// One turn, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) user: String,
    pub(crate) assistant: String,
    pub(crate) tools: Vec<String>,
}

impl Conversation {
    /// Reads a session from its end until there are this many tokens. A turn that does not fit is
    /// shortened to its question and its last replies.
    pub(crate) fn read(
        sessions: &Sessions,
        session: &Session,
        tokens_max: u64,
    ) -> Result<Conversation, sessions::Error> {
        let (id, begins) = (session.id(), session.tally.begins());
        let mut conversation = Conversation::default();
        // The turn being read, from its last reply back to its question.
        let mut turn = Backwards::default();
        let mut left_out: Vec<u64> = Vec::new();
        let mut open: Option<Vec<String>> = None;
        let entries = sessions.entries(id, begins..session.tally.entries).skip_damaged();
        for entry in entries.rev() {
            let entry = entry?;
            if let Body::LeftOut(mark) = &entry.body {
                // A turn that continued after its mark is shown again.
                let went_on = !turn.is_empty() && entry.tally.turn == Some(mark.turn);
                left_out.extend((!went_on).then_some(mark.turn));
            }
            let Some(message) = entry.body.message() else { continue };
            let text = shortened(&message.plain_text());
            conversation.tokens += u64::from(tokens::count(&text));
            match TurnPart::of(&entry.body) {
                TurnPart::Reply(message) => {
                    open = open.or_else(|| message.calls().find_map(open_tasks));
                    turn.add(text, message);
                }
                TurnPart::Question(_) if left_out.contains(&entry.seq) => {
                    turn = Backwards::default()
                }
                TurnPart::Question(_) => {
                    conversation.turns.push(std::mem::take(&mut turn).exchange(text));
                }
                _ => {}
            }
            if conversation.tokens < tokens_max {
                continue;
            }
            let before = match begins.checked_sub(1) {
                Some(last) => queries(sessions, id, last)?,
                None => 0,
            };
            // The included part begins with the turn of this entry.
            conversation.left_out = entry.tally.queries.saturating_sub(before + 1);
            if let (false, Some(asked)) = (turn.is_empty(), entry.tally.turn) {
                let question = sessions.entry_at(Place { session: id, seq: asked })?;
                let message = question.body.message();
                let text = message.map(|message| shortened(&message.plain_text()));
                turn.replies.push(EARLIER.into());
                conversation.turns.push(turn.exchange(text.unwrap_or_default()));
            }
            break;
        }
        conversation.turns.reverse();
        conversation.open_tasks = open.unwrap_or_default();
        Ok(conversation)
    }

    /// The conversation as Markdown, for the model that summarises it.
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
        if !self.open_tasks.is_empty() {
            text.push_str(&format!("*Open tasks: {}*\n", self.open_tasks.join("; ")));
        }
        text.trim_end().to_owned()
    }
}

/// The note in place of replies that did not fit.
const EARLIER: &str = "[… earlier replies …]";

/// The replies of a turn, the last one first.
#[derive(Default)]
struct Backwards {
    replies: Vec<String>,
    tools: Vec<String>,
}

impl Backwards {
    fn add(&mut self, text: String, message: &Message) {
        self.replies.extend(Some(text).filter(|text| !text.is_empty()));
        let from = self.tools.len();
        self.tools.extend(message.calls().map(|call| call.name.clone()));
        self.tools[from..].reverse();
    }

    fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.tools.is_empty()
    }

    fn exchange(mut self, user: String) -> Exchange {
        self.replies.reverse();
        self.tools.reverse();
        Exchange { user, assistant: self.replies.join("\n\n"), tools: self.tools }
    }
}

/// How many turns had begun at this entry.
fn queries(sessions: &Sessions, id: SessionId, seq: u64) -> Result<u64, sessions::Error> {
    Ok(sessions.read(id, seq..seq + 1)?.pop().map_or(0, |entry| entry.tally.queries))
}

/// The text, with its middle left out if it is long.
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

    use rethread_core::message::Block;
    use rethread_core::{Fixed, Key, MemoryStore, New, Owner, Raw, Role};

    use super::*;

    fn session_with(turns: usize) -> (Sessions, Session) {
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
        let (sessions, session) = session_with(300);
        let all = Conversation::read(&sessions, &session, u64::MAX).expect("read");
        assert_eq!((all.turns.len(), all.left_out), (300, 0));
        assert_eq!(all.turns[299].assistant, "answer 299");
        assert!(
            all.markdown("build")
                .starts_with("## Query 1\n**You:** question 0\n\n**build:** answer 0\n")
        );
    }

    #[test]
    fn the_oldest_turns_are_left_out_and_counted_if_they_do_not_fit() {
        let (sessions, session) = session_with(300);
        // Reading stops at a question, and at a reply.
        for room in 90..110 {
            let some = Conversation::read(&sessions, &session, room).expect("read");
            assert!(some.turns.len() < 30, "{}", some.turns.len());
            assert_eq!(some.turns.len() as u64 + some.left_out, 300);
            let numbers = some.left_out..300;
            for (turn, number) in some.turns.iter().zip(numbers) {
                assert_eq!(turn.user, format!("question {number}"));
                assert!(turn.assistant.ends_with(&format!("answer {number}")), "{turn:?}");
            }
            assert!(some.markdown("build").starts_with(&format!("[{} earlier", some.left_out)));
        }
    }

    #[test]
    fn of_a_turn_longer_than_the_room_the_question_and_the_last_replies_are_there() {
        let (sessions, session) = session_with(2);
        let mut thread = sessions.thread(session.id()).expect("opened");
        thread.append(Message::user("move the store to PostgreSQL")).expect("appended");
        for round in 0..600 {
            let said = Message::assistant(format!("table {round} is moved"));
            thread.append(said).expect("appended");
        }
        let session = sessions.get(session.id()).expect("read");
        let some = Conversation::read(&sessions, &session, 100).expect("read");
        assert_eq!((some.turns.len(), some.left_out), (1, 2));
        let turn = &some.turns[0];
        assert_eq!(turn.user, "move the store to PostgreSQL");
        assert!(turn.assistant.starts_with(EARLIER), "{turn:?}");
        assert!(turn.assistant.ends_with("table 599 is moved"), "{turn:?}");
        assert!(turn.assistant.len() < 1_000);
    }

    #[test]
    fn turns_before_a_clear_do_not_count_as_left_out() {
        let (sessions, session) = session_with(50);
        sessions.clear(session.id()).expect("cleared");
        let mut thread = sessions.thread(session.id()).expect("opened");
        for turn in 0..50 {
            thread.append(Message::user(format!("question {turn}"))).expect("appended");
        }
        let session = sessions.get(session.id()).expect("read");
        let some = Conversation::read(&sessions, &session, 20).expect("read");
        assert_eq!(some.turns.len() as u64 + some.left_out, 50);
    }

    #[test]
    fn tools_are_named_in_the_order_they_were_called() {
        let (sessions, session) = session_with(1);
        let mut thread = sessions.thread(session.id()).expect("opened");
        for names in [["glob", "grep"], ["read_file", "edit_file"]] {
            let call = |name| Block::tool_use(name, name, Raw::of(&serde_json::json!({})));
            let calls = names.map(call).to_vec();
            thread.append(Message::new(Role::Assistant, calls)).expect("appended");
        }
        let session = sessions.get(session.id()).expect("read");
        let all = Conversation::read(&sessions, &session, u64::MAX).expect("read");
        assert_eq!(all.turns[0].tools, ["glob", "grep", "read_file", "edit_file"]);
    }

    #[test]
    fn the_open_tasks_are_those_of_the_latest_list() {
        let (sessions, session) = session_with(1);
        let mut thread = sessions.thread(session.id()).expect("opened");
        for status in ["pending", "done"] {
            let items = serde_json::json!({ "items": [
                { "text": "write", "status": status }, { "text": "test", "status": "pending" },
            ] });
            let call = Block::tool_use(status, "todo", Raw::of(&items));
            thread.append(Message::new(Role::Assistant, vec![call])).expect("appended");
            thread.append(Message::tool_result(status, "noted")).expect("appended");
        }
        let session = sessions.get(session.id()).expect("read");
        let all = Conversation::read(&sessions, &session, u64::MAX).expect("read");
        assert_eq!(all.open_tasks, ["test"]);
        assert!(
            all.markdown("build").ends_with("\n*Open tasks: test*"),
            "{}",
            all.markdown("build")
        );
    }

    #[test]
    fn what_was_said_before_a_clear_is_not_summarised() {
        let (sessions, session) = session_with(3);
        sessions.clear(session.id()).expect("cleared");
        let session = sessions.get(session.id()).expect("read");
        assert!(Conversation::read(&sessions, &session, u64::MAX).expect("read").turns.is_empty());
    }
}
