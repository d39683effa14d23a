//! The current turn, as the context shows it: the question, and the results so far.

use std::collections::{BTreeMap, HashMap};

use rethread_core::Message;
use rethread_core::limits::TRUNCATED_MARK;
use serde_json::Value;

use crate::STANDARD_INPUT;

/// The current turn.
pub(super) struct Turn<'a> {
    /// The user's last message.
    pub(super) question: &'a str,
    /// What was piped in with it.
    pub(super) attached: Option<&'a str>,
    /// The messages before that.
    pub(super) earlier: &'a [Message],
    /// Replies with calls since.
    pub(super) rounds: usize,
    /// The results, in order.
    pub(super) answers: Vec<Answer<'a>>,
}

/// A result of a tool.
pub(super) struct Answer<'a> {
    pub(super) tool: &'a str,
    pub(super) input: Value,
    /// Its text, which may have been truncated.
    pub(super) text: String,
    /// The lines of a file that it shows, by their numbers.
    pub(super) lines: BTreeMap<u64, String>,
    pub(super) failed: bool,
}

impl<'a> Turn<'a> {
    /// The last turn of a conversation.
    pub(super) fn current(messages: &'a [Message]) -> Option<Turn<'a>> {
        let opened = messages.iter().rposition(Message::opens_turn)?;
        let (earlier, since) = (&messages[..opened], &messages[opened + 1..]);
        let texts = messages[opened].content.iter().filter_map(|block| block.as_text());
        let (attached, mut texts): (Vec<&str>, Vec<&str>) =
            texts.partition(|text| text.starts_with(STANDARD_INPUT));
        let attached = attached.first().map(|text| &text[STANDARD_INPUT.len()..]);
        let mut calls = HashMap::new();
        let mut answers = Vec::new();
        // The lines of files that were shown so far: a context does not repeat them.
        let mut known: HashMap<String, BTreeMap<u64, String>> = HashMap::new();
        for (index, message) in messages.iter().enumerate() {
            calls.extend(message.calls().map(|call| (call.id.as_str(), call)));
            for result in message.results() {
                let Some(call) = calls.get(result.tool_use_id.as_str()) else { continue };
                let reads = call.name == "read_file" && !result.is_error;
                if !reads && index <= opened {
                    continue;
                }
                let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
                let text = result.text();
                let mut lines = BTreeMap::new();
                if reads {
                    let path = input["path"].as_str().unwrap_or_default().to_owned();
                    let first = input["offset"].as_u64().unwrap_or(1);
                    let known = known.entry(path).or_default();
                    lines = file_lines(&text, first, known);
                    known.extend(lines.clone());
                }
                if index > opened {
                    let failed = result.is_error;
                    answers.push(Answer { tool: &call.name, input, text, lines, failed });
                }
            }
        }
        Some(Turn {
            // If there are two messages of the user in a row, the last one is the question.
            question: texts.pop().unwrap_or_default().trim(),
            attached,
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

    /// The line that says what of a file was not read.
    pub(super) fn not_read(&self) -> Option<&str> {
        self.text.lines().next_back().filter(|line| matches!(Mark::parse(line), Some(Mark::Rest)))
    }

    /// An argument of the call.
    pub(super) fn asked(&self, name: &str) -> &str {
        self.input[name].as_str().unwrap_or_default()
    }
}

/// The lines that a result of `read_file` shows, from `first` on, by their numbers in the file.
/// Only some lines are numbered; those a context refers to as shown above are taken from what is
/// `known`.
fn file_lines(text: &str, first: u64, known: &BTreeMap<u64, String>) -> BTreeMap<u64, String> {
    /// Lines between two numbers: blank ones that a context leaves out, at most.
    const UNNUMBERED_MAX: u64 = 10;
    let text = text.strip_suffix(TRUNCATED_MARK).unwrap_or(text);
    let mut lines = BTreeMap::new();
    let mut next = first;
    for line in text.lines() {
        if let Some(mark) = Mark::parse(line) {
            let place = |line: u64| first.saturating_add(line).saturating_sub(1);
            match mark {
                Mark::SameAsAbove(from, to) => {
                    let range = place(from)..place(to).saturating_add(1);
                    next = range.end;
                    lines.extend(known.range(range).map(|(at, line)| (*at, line.clone())));
                }
                Mark::Cut(to) => next = place(to).saturating_add(1),
                Mark::Rest => {}
            }
            continue;
        }
        let numbered = line.split_once('\t').and_then(|(number, line)| {
            let number: u64 = number.parse().ok()?;
            (next..next.saturating_add(UNNUMBERED_MAX)).contains(&number).then_some((number, line))
        });
        let (number, line) = numbered.unwrap_or((next, line));
        lines.insert(number, line.to_owned());
        next = number + 1;
    }
    lines
}

/// A line that says what is not shown. Lines are counted from the first of the result.
enum Mark {
    /// These are in a result above.
    SameAsAbove(u64, u64),
    /// Those up to this one are left out.
    Cut(u64),
    /// What follows in the file was not read.
    Rest,
}

impl Mark {
    fn parse(line: &str) -> Option<Mark> {
        let inner = line.strip_prefix('[')?.strip_suffix(']')?;
        let (range, rest) = inner.strip_prefix("lines ").unwrap_or(inner).split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        match rest {
            _ if rest.starts_with("as in result ") && from <= to => {
                Some(Mark::SameAsAbove(from, to))
            }
            _ if rest.starts_with("cut") => Some(Mark::Cut(to)),
            _ if rest.starts_with("of ") => Some(Mark::Rest),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer<'static> {
        Answer {
            tool: "grep",
            input: Value::Null,
            text: text.into(),
            lines: BTreeMap::new(),
            failed: false,
        }
    }

    #[test]
    fn lines_keep_their_numbers_where_a_context_shows_only_some_of_them() {
        let first =
            "5\tfive\n6\tsix\n7\tseven\n8\teight\n[lines 5-8 of 99; continue with offset=9]";
        let known = file_lines(first, 5, &BTreeMap::new());
        assert_eq!(known.keys().copied().collect::<Vec<_>>(), [5, 6, 7, 8]);
        // The same file from line 4 on: 5 to 8 were shown, 9 is new, 10 and 11 are cut.
        let again = "4\tfour\n[lines 2-5 as in result 7 above]\n9\tnine\n\
                     [lines 7-8 cut; recall 9]\n12\ttwelve\nthirteen";
        let lines = file_lines(again, 4, &known);
        let shown: Vec<(u64, &str)> = lines.iter().map(|(at, line)| (*at, line.as_str())).collect();
        let expected = [
            (4, "four"),
            (5, "five"),
            (6, "six"),
            (7, "seven"),
            (8, "eight"),
            (9, "nine"),
            (12, "twelve"),
            (13, "thirteen"),
        ];
        assert_eq!(shown, expected);
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
