//! The current turn, as the context shows it: the question, and the results so far.

use rethread_core::Message;
use serde_json::Value;

use crate::tool::without_numbers;

/// The current turn.
pub(super) struct Turn<'a> {
    /// The user's last message.
    pub(super) question: &'a str,
    /// The messages before that.
    pub(super) earlier: &'a [Message],
    /// Replies with calls since.
    pub(super) rounds: usize,
    /// The results, in order.
    pub(super) answers: Vec<Answer<'a>>,
}

/// A result of a tool.
pub(super) struct Answer<'a> {
    /// The tool.
    pub(super) tool: &'a str,
    /// Its input.
    pub(super) input: Value,
    /// Its text, which may have been truncated.
    pub(super) text: String,
    /// It failed.
    pub(super) failed: bool,
}

impl<'a> Turn<'a> {
    /// The last turn of a conversation.
    pub(super) fn current(messages: &'a [Message]) -> Option<Turn<'a>> {
        let opened = messages.iter().rposition(Message::opens_turn)?;
        let (earlier, since) = (&messages[..opened], &messages[opened + 1..]);
        // If there are two messages of the user in a row, the last one is the question.
        let mut texts = messages[opened].content.iter().filter_map(|block| block.as_text());
        let calls: Vec<_> = since.iter().flat_map(Message::calls).collect();
        let mut answers = Vec::new();
        for result in since.iter().flat_map(Message::results) {
            let Some(call) = calls.iter().find(|call| call.id == result.tool_use_id) else {
                continue;
            };
            let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
            let text = match call.name.as_str() {
                "read_file" => {
                    without_numbers(&result.text(), input["offset"].as_u64().unwrap_or(1))
                }
                _ => result.text(),
            };
            answers.push(Answer { tool: &call.name, input, text, failed: result.is_error });
        }
        Some(Turn {
            question: texts.next_back().unwrap_or_default().trim(),
            earlier,
            rounds: since.iter().filter(|message| message.calls().next().is_some()).count(),
            answers,
        })
    }

    /// A result, if the tool did not fail.
    pub(super) fn of<'t>(&'t self, tool: &'t str) -> impl Iterator<Item = &'t Answer<'a>> {
        self.answers.iter().filter(move |answer| answer.tool == tool && !answer.failed)
    }
}

impl Answer<'_> {
    /// The items of its list that are complete.
    pub(super) fn found(&self) -> Vec<Value> {
        let list = self.text.split_once('[').map_or("", |(_, list)| list);
        let (mut found, mut rest) = (Vec::new(), list);
        loop {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter();
            let Some(Ok(value)) = values.next() else { return found };
            found.push(value);
            let after = rest[values.byte_offset()..].trim_start();
            let Some(next) = after.strip_prefix(',') else { return found };
            rest = next;
        }
    }

    /// The paths in a list of files.
    pub(super) fn paths(&self) -> Vec<String> {
        let paths = self.found().into_iter();
        paths.filter_map(|path| path.as_str().map(str::to_owned)).collect()
    }

    /// Whether it was truncated.
    pub(super) fn partial(&self) -> bool {
        serde_json::from_str::<Value>(&self.text)
            .map_or(true, |value| value["more"] == Value::Bool(true))
    }

    /// An argument of the call.
    pub(super) fn asked(&self, name: &str) -> &str {
        self.input[name].as_str().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer<'static> {
        Answer { tool: "grep", input: Value::Null, text: text.into(), failed: false }
    }

    #[test]
    fn of_a_truncated_list_everything_that_arrived_whole_is_kept() {
        let text = r#"{"matches":[{"path":"a","text":"} \" ]"},{"path":"b","before":["x"]},{"pa"#;
        let found = answer(&format!("{text}\n\n[truncated]")).found();
        let paths: Vec<_> = found.iter().map(|found| &found["path"]).collect();
        assert_eq!(paths, ["a", "b"]);
        assert!(answer(text).partial());
        let files = answer(r#"{"files":["a","b c"],"more":false}"#);
        assert_eq!(files.paths(), ["a", "b c"]);
        assert!(!files.partial());
        assert_eq!(answer(r#"{"files":["a","b"#).paths(), ["a"]);
        assert!(answer("no such thing").found().is_empty());
    }
}
