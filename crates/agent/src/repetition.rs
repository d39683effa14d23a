//! Detects that a model repeats itself.
//!
//! A call that gave the same result before gives the model no new information. After three of those
//! the turn is ended, unless it got somewhere in between: after a successful call with a result that
//! is new in this turn, the count starts again. Running the tests, changing a file and running the
//! tests again is work, even if the tests fail in the same way; so is looking at a file again after
//! reading others. Doing the same few things in turns is not.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rethread_core::Message;
use rethread_core::message::Call;

use crate::limits::SAME_RESULTS_MAX;

/// A call with its result.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    tool: String,
    /// A hash of the call and its result.
    key: u64,
    succeeded: bool,
}

impl Answered {
    /// A call, and the message with its result.
    pub(crate) fn new(call: &Call, answer: &Message) -> Answered {
        let mut hasher = DefaultHasher::new();
        (&call.name, call.input.get()).hash(&mut hasher);
        let mut failed = false;
        for result in answer.results() {
            failed |= result.is_error;
            (result.is_error, result.text()).hash(&mut hasher);
        }
        let (tool, key) = (call.name.clone(), hasher.finish());
        Answered { tool, key, succeeded: !failed }
    }
}

/// The calls of a turn so far.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    /// Rounds with the same call and result, since the last new result.
    rounds: HashMap<u64, u32>,
    ever: HashSet<u64>,
}

impl Repetition {
    /// Counts a round. Returns the tool whose call gave the same result too often.
    pub(crate) fn count(&mut self, round: &[Answered]) -> Option<String> {
        // The same call twice in one reply counts once.
        let mut keys = HashSet::new();
        let new = |answered: &&Answered| !self.ever.contains(&answered.key);
        if round.iter().filter(new).any(|answered| answered.succeeded) {
            self.rounds.clear();
        }
        let mut repeated = None;
        for answered in round.iter().filter(|answered| keys.insert(answered.key)) {
            self.ever.insert(answered.key);
            let rounds = self.rounds.entry(answered.key).or_default();
            *rounds += 1;
            if *rounds >= SAME_RESULTS_MAX {
                repeated.get_or_insert(answered.tool.clone());
            }
        }
        repeated
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::{BlockKind, Raw};
    use serde_json::json;

    use super::*;

    fn answered(tool: &str, input: &str, result: &str) -> Answered {
        let input = Raw::of(&json!({ "path": input }));
        let call = Call { id: "1".into(), name: tool.into(), input };
        Answered::new(&call, &Message::tool_result("1", result))
    }

    fn read(path: &str, result: &str) -> Answered {
        answered("read_file", path, result)
    }

    #[test]
    fn the_third_time_is_one_too_many_even_with_other_repeated_calls_between() {
        let mut seen = Repetition::default();
        assert_eq!(seen.count(&[read("a", "x")]), None);
        assert_eq!(seen.count(&[read("b", "y")]), None, "new: a is counted again from here");
        assert_eq!(seen.count(&[read("a", "x")]), None);
        assert_eq!(seen.count(&[read("b", "y"), read("a", "x")]), None);
        assert_eq!(seen.count(&[read("a", "x")]), Some("read_file".into()));
    }

    #[test]
    fn looking_at_a_file_again_after_something_new_is_no_repetition() {
        let mut seen = Repetition::default();
        let mut rounds = "abcdefghabca".chars().map(|name| read(&name.to_string(), "text"));
        assert_eq!(rounds.find_map(|round| seen.count(&[round])), None);
        for n in 0..20 {
            assert_eq!(seen.count(&[read(&n.to_string(), "another")]), None, "{n}");
            assert_eq!(seen.count(&[read("a", "text")]), None, "{n}");
        }
        // A failure is nothing new.
        let mut failing = |n: u32| {
            let call = Call {
                id: "1".into(),
                name: "read_file".into(),
                input: Raw::of(&json!({ "path": format!("missing {n}") })),
            };
            let mut answer = Message::tool_result("1", "not there");
            for block in &mut answer.content {
                if let BlockKind::ToolResult(result) = &mut block.kind {
                    result.is_error = true;
                }
            }
            seen.count(&[Answered::new(&call, &answer), read("a", "text")])
        };
        assert_eq!(failing(1), None);
        assert_eq!(failing(2), Some("read_file".into()));
    }

    #[test]
    fn the_same_call_in_one_reply_is_counted_once() {
        let mut seen = Repetition::default();
        assert_eq!(seen.count(&[read("a", "x"), read("a", "x"), read("a", "x")]), None);
        assert_eq!(seen.count(&[read("a", "x")]), None);
        assert_eq!(seen.count(&[read("a", "x")]), Some("read_file".into()));
    }

    #[test]
    fn a_change_that_is_new_is_progress_and_one_that_is_repeated_is_not() {
        let mut seen = Repetition::default();
        for n in 0..20 {
            let edit = answered("edit_file", &n.to_string(), "replaced once");
            assert_eq!(seen.count(&[read("a", "x")]), None, "{n}");
            assert_eq!(seen.count(&[edit]), None, "{n}");
        }
        let edit = || answered("edit_file", "0", "replaced once");
        assert_eq!(seen.count(&[edit()]), None);
        assert_eq!(seen.count(&[edit()]), None);
        assert_eq!(seen.count(&[edit()]), Some("edit_file".into()));
    }
}
