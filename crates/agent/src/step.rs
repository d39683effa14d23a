//! What comes after a reply.

use rethread_core::Message;
use rethread_core::message::Call;

use crate::limits::ROUND_LIMIT_MARK;

/// What comes after a reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The model has said what it has to say.
    Done,
    /// It wants these tools to run first.
    RunTools(Vec<Call>),
}

/// Decides what comes after a reply.
pub(crate) fn next_step(reply: &Message) -> Step {
    let calls: Vec<Call> = reply.calls().cloned().collect();
    match calls.is_empty() {
        true => Step::Done,
        false => Step::RunTools(calls),
    }
}

/// The answer of a turn that was stopped at the limit: the last text with the notice behind it,
/// or just the notice.
pub(crate) fn cut_short(text: &str) -> String {
    match text.is_empty() {
        true => ROUND_LIMIT_MARK.into(),
        false => format!("{text}\n\n{ROUND_LIMIT_MARK}"),
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::{Block, Raw, Role};

    use super::*;

    #[test]
    fn a_reply_without_calls_ends_the_turn() {
        assert_eq!(next_step(&Message::assistant("hello")), Step::Done);
        let call = Block::tool_use("1", "grep", Raw::of(&serde_json::json!({})));
        let reply = Message::new(Role::Assistant, vec![Block::text("let me look"), call]);
        assert!(matches!(next_step(&reply), Step::RunTools(calls) if calls.len() == 1));
    }

    #[test]
    fn a_turn_at_the_limit_says_so_behind_its_last_text() {
        assert_eq!(cut_short("so far"), "so far\n\n[Tool call limit reached]");
        assert_eq!(cut_short(""), "[Tool call limit reached]");
    }
}
