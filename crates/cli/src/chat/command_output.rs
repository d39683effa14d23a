//! The output of a running command, as shown to the user: its first and its latest lines.

use std::collections::VecDeque;

use crate::out::{clean, count};

/// Lines that are kept of the beginning and of the end.
const LINES_KEPT: usize = 8;

/// Characters of a line that are kept: more than a window is wide.
const LINE_CHARS_MAX: usize = 1_000;

/// The beginning and the end of a command's output.
#[derive(Debug, Default)]
pub(super) struct CommandOutput {
    head: Vec<String>,
    tail: VecDeque<String>,
    /// The number of complete lines.
    lines: usize,
    /// The line that is being written.
    part: String,
}

impl CommandOutput {
    /// Adds output.
    pub(super) fn push(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\n' => {
                    let line = std::mem::take(&mut self.part);
                    self.end_line(visible(&line));
                }
                c if self.part.len() < LINE_CHARS_MAX => self.part.push(c),
                // A progress bar rewrites one line repeatedly.
                '\r' => self.part = "\r".into(),
                _ => {}
            }
        }
    }

    fn end_line(&mut self, line: String) {
        self.lines += 1;
        match self.head.len() < LINES_KEPT {
            true => self.head.push(line),
            false => self.tail.push_back(line),
        }
        if self.tail.len() > LINES_KEPT {
            self.tail.pop_front();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines == 0 && visible(&self.part).is_empty()
    }

    /// The first and the last lines, and how many are between them.
    pub(super) fn lines(&self, first: usize, last: usize) -> Vec<String> {
        let part = Some(visible(&self.part)).filter(|part| !part.is_empty());
        let all = self.lines + usize::from(part.is_some());
        let kept: Vec<&String> = self.head.iter().chain(&self.tail).chain(&part).collect();
        // One line is shown rather than a note that it is left out.
        if all <= first + last + 1 && kept.len() == all {
            return kept.into_iter().cloned().collect();
        }
        let mut lines: Vec<String> = kept.iter().take(first).map(|line| (*line).clone()).collect();
        let left_out = count((all - first - last) as u64);
        lines.push(format!("… {left_out} more lines · Ctrl-O shows all"));
        lines.extend(kept[kept.len() - last..].iter().map(|line| (*line).clone()));
        lines
    }
}

/// A line as a terminal would show it: without colours, and with text after a carriage return
/// overwriting what was there.
pub(super) fn visible(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("\x1b[") {
        text.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after.find(|c: char| ('@'..='~').contains(&c));
        rest = end.map_or("", |end| &after[end + 1..]);
    }
    text.push_str(rest);
    clean(&text.replace('\t', "    ")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> CommandOutput {
        let mut output = CommandOutput::default();
        output.push(text);
        output
    }

    #[test]
    fn the_first_and_the_latest_lines_are_shown_and_the_others_counted() {
        assert!(of("").is_empty() && of("\x1b[0m").is_empty());
        assert_eq!(of("one\ntwo").lines(3, 3), ["one", "two"]);
        let seven: String = (1..=7).map(|n| format!("{n}\n")).collect();
        assert_eq!(of(&seven).lines(3, 3).len(), 7, "one line is not worth leaving out");
        let many: String = (1..=1_234).map(|n| format!("{n}\n")).collect();
        assert_eq!(
            of(&many).lines(3, 2),
            ["1", "2", "3", "… 1,229 more lines · Ctrl-O shows all", "1233", "1234"]
        );
        assert_eq!(of(&format!("{many}half")).lines(1, 1).last().unwrap(), "half");
    }

    #[test]
    fn a_line_is_shown_as_a_terminal_leaves_it() {
        assert_eq!(of("\x1b[32mok\x1b[0m\r\n").lines(3, 3), ["ok"]);
        assert_eq!(of("10 %\r20 %\r30 %").lines(3, 3), ["30 %"]);
        assert_eq!(of("a\tb\x1b]0;title\x07\n").lines(3, 3), ["a    b\\u{1b}]0;title\\u{7}"]);
        let long = of(&"x".repeat(5_000));
        assert_eq!(long.lines(3, 3)[0].len(), LINE_CHARS_MAX);
    }
}
