//! Decides what comes after a reply.

use rethread_core::Message;
use rethread_core::entry::RoundLimit;
use rethread_core::message::Call;

/// What comes after a reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The turn is done.
    Done,
    /// Run these calls first.
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

/// The answer of a turn that was ended early: the last text followed by the notice, or just the
/// notice.
pub(crate) fn cut_short(text: &str, limit: &RoundLimit) -> String {
    match text.is_empty() {
        true => limit.notice(),
        false => format!("{text}\n\n{}", limit.notice()),
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
    fn a_turn_that_is_ended_early_says_why_after_its_last_text() {
        let used_up = RoundLimit::default();
        assert_eq!(cut_short("so far", &used_up), "so far\n\n[Tool call limit reached]");
        assert_eq!(cut_short("", &used_up), "[Tool call limit reached]");
        let repeated = RoundLimit { repeated: Some("grep".into()) };
        assert!(cut_short("so far", &repeated).ends_with("gave the same result three times]"));
    }
}
