//! Detects that a model repeats itself.
//!
//! A call that gave the same result before gives the model no new information. After three of those
//! in one turn, the turn is ended. Anything that may have changed the result counts as progress:
//! after a successful new call of a tool that changes something, the count starts again. Running
//! the tests, changing a file and running the tests again is work, even if the tests fail in the
//! same way.

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
    /// It may have changed something.
    progress: bool,
}

impl Answered {
    /// A call, the message with its result, and whether its tool changes something.
    pub(crate) fn new(call: &Call, answer: &Message, changes: bool) -> Answered {
        let mut hasher = DefaultHasher::new();
        (&call.name, call.input.get()).hash(&mut hasher);
        let mut failed = false;
        for result in answer.results() {
            failed |= result.is_error;
            (result.is_error, result.text()).hash(&mut hasher);
        }
        let (tool, key) = (call.name.clone(), hasher.finish());
        Answered { tool, key, progress: changes && !failed }
    }
}

/// The calls of a turn so far.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    /// Rounds with the same call and result, since something may have changed.
    rounds: HashMap<u64, u32>,
    ever: HashSet<u64>,
}

impl Repetition {
    /// Counts a round. Returns the tool whose call gave the same result too often.
    pub(crate) fn count(&mut self, round: &[Answered]) -> Option<String> {
        // The same call twice in one reply counts once.
        let mut keys = HashSet::new();
        let new = |answered: &&Answered| !self.ever.contains(&answered.key);
        if round.iter().filter(new).any(|answered| answered.progress) {
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
    use rethread_core::Raw;
    use serde_json::json;

    use super::*;

    fn answered(tool: &str, input: &str, result: &str) -> Answered {
        let input = Raw::of(&json!({ "path": input }));
        let call = Call { id: "1".into(), name: tool.into(), input };
        Answered::new(&call, &Message::tool_result("1", result), tool == "edit_file")
    }

    fn read(path: &str, result: &str) -> Answered {
        answered("read_file", path, result)
    }

    #[test]
    fn the_third_time_is_one_too_many_even_with_other_calls_between() {
        let mut seen = Repetition::default();
        assert_eq!(seen.count(&[read("a", "x")]), None);
        assert_eq!(seen.count(&[read("b", "y")]), None);
        assert_eq!(seen.count(&[read("a", "x"), read("b", "y")]), None);
        assert_eq!(seen.count(&[read("a", "another result")]), None);
        assert_eq!(seen.count(&[read("a", "x")]), Some("read_file".into()));
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
