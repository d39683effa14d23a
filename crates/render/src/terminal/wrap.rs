//! Wraps words into lines.
//!
//! A word moves to the next line whole, unless it is longer than a line. Chinese and Japanese have no
//! spaces: their lines break between any two characters, but never before a closing mark or after an
//! opening one. Korean has spaces, and is wrapped by them.

use std::sync::Arc;

use super::ansi::{Face, Line, Run, push};
use crate::width::{characters, width};

/// The runs as lines of at most so many columns. Spaces at the start and end of lines are dropped; a
/// line feed ends a line.
pub(crate) fn wrap(runs: &[Run], columns: usize) -> Vec<Line> {
    let mut wrapper = Wrapper { columns, ..Wrapper::default() };
    for run in runs {
        wrapper.add(run);
    }
    wrapper.end_word();
    if !wrapper.line.is_empty() || wrapper.lines.is_empty() {
        wrapper.end_line();
    }
    wrapper.lines
}

/// A line of code as lines of at most so many columns. Every space stays; where the line is continued,
/// `mark` begins the next one.
pub(crate) fn wrap_code(runs: &[Run], columns: usize, mark: &str) -> Vec<Line> {
    let total: usize = runs.iter().map(|run| width(&run.text)).sum();
    if total <= columns {
        return vec![runs.to_vec()];
    }
    let mark_width = width(mark);
    let mut lines = vec![Line::new()];
    let mut used = 0;
    for run in runs {
        for (character, wide) in characters(&run.text) {
            if used + wide > columns && used > mark_width {
                lines.push(vec![Run::mark(mark)]);
                used = mark_width;
            }
            let line = lines.last_mut().expect("there is always a line");
            push(line, character, run.face, run.link.as_ref());
            used += wide;
        }
    }
    lines
}

#[derive(Default)]
struct Wrapper {
    columns: usize,
    lines: Vec<Line>,
    line: Line,
    used: usize,
    word: Line,
    word_width: usize,
    /// The last character of the word, if another may be parted from it.
    last: Option<char>,
    /// The space before the word.
    space: Option<(Face, Option<Arc<str>>)>,
}

impl Wrapper {
    fn add(&mut self, run: &Run) {
        let mut rest = run.text.as_str();
        while let Some(at) = rest.find([' ', '\n']) {
            self.add_to_word(&rest[..at], run);
            self.end_word();
            match rest.as_bytes()[at] {
                b'\n' => self.end_line(),
                _ => self.space = Some((run.face, run.link.clone())),
            }
            rest = &rest[at + 1..];
        }
        self.add_to_word(rest, run);
    }

    fn add_to_word(&mut self, text: &str, run: &Run) {
        if text.is_ascii() {
            if let Some(first) = text.chars().next() {
                self.part_before(first);
                push(&mut self.word, text, run.face, run.link.as_ref());
                self.word_width += text.len();
                self.last = text.chars().next_back();
            }
            return;
        }
        for (character, columns) in characters(text) {
            self.part_before(character.chars().next().unwrap_or_default());
            push(&mut self.word, character, run.face, run.link.as_ref());
            self.word_width += columns;
            self.last = character.chars().next_back();
        }
    }

    /// Ends the word if a line may break between its last character and this one.
    fn part_before(&mut self, next: char) {
        if let Some(last) = self.last
            && (is_ideographic(last) || is_ideographic(next))
            && !closes(next)
            && !opens(last)
        {
            self.end_word();
        }
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        let word_width = std::mem::take(&mut self.word_width);
        self.last = None;
        if word.is_empty() {
            return;
        }
        let space = self.space.take().filter(|_| self.used > 0);
        if self.used > 0 && self.used + usize::from(space.is_some()) + word_width > self.columns {
            self.end_line();
        } else if let Some((face, link)) = space {
            push(&mut self.line, " ", face, link.as_ref());
            self.used += 1;
        }
        for run in &word {
            self.place(run, word_width <= self.columns);
        }
    }

    fn place(&mut self, run: &Run, fits: bool) {
        if fits {
            push(&mut self.line, &run.text, run.face, run.link.as_ref());
            self.used += width(&run.text);
            return;
        }
        for (character, columns) in characters(&run.text) {
            if self.used > 0 && self.used + columns > self.columns {
                self.end_line();
            }
            push(&mut self.line, character, run.face, run.link.as_ref());
            self.used += columns;
        }
    }

    fn end_line(&mut self) {
        self.lines.push(std::mem::take(&mut self.line));
        self.used = 0;
        self.space = None;
    }
}

/// Characters that are written without spaces.
fn is_ideographic(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{30ff}' | '\u{31f0}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}' | '\u{ff01}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

/// Marks that must not begin a line.
fn closes(c: char) -> bool {
    "、。，．：；？！）］｝」』】〉》〕〗ー々ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ,.:;?!)]}%”’…"
        .contains(c)
}

/// Marks that must not end a line.
fn opens(c: char) -> bool {
    "（［｛「『【〈《〔〖([{“‘".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, columns: usize) -> Vec<String> {
        let runs = [Run::new(text, Face::default())];
        let lines = wrap(&runs, columns);
        lines.iter().map(|line| line.iter().map(|run| run.text.as_str()).collect()).collect()
    }

    #[test]
    fn words_move_whole_and_only_longer_ones_are_split() {
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("one two three", 8), ["one two", "three"]);
        assert_eq!(lines("a abcdefghij b", 4), ["a", "abcd", "efgh", "ij b"]);
        assert_eq!(lines("", 4), [""]);
        assert_eq!(lines("  a   b  ", 9), ["a b"]);
        assert_eq!(lines("a\n\nb", 9), ["a", "", "b"]);
    }

    #[test]
    fn a_word_of_several_runs_stays_one_word() {
        let runs = [
            Run::new("an un", Face::default()),
            Run::new("believ", Face { bold: true, ..Face::default() }),
            Run::new("able", Face::default()),
        ];
        let lines = wrap(&runs, 12);
        let texts = lines.iter().map(|line| line.iter().map(|run| run.text.as_str()).collect());
        assert_eq!(texts.collect::<Vec<String>>(), ["an", "unbelievable"]);
    }

    #[test]
    fn chinese_and_japanese_break_anywhere_but_at_marks() {
        assert_eq!(lines("漢字漢字漢字", 5), ["漢字", "漢字", "漢字"]);
        assert_eq!(lines("今日は、晴れ。", 6), ["今日", "は、晴", "れ。"]);
        assert_eq!(lines("「漢」", 3), ["「", "漢", "」"]);
        assert_eq!(lines("use 漢字 now", 7), ["use 漢", "字 now"]);
        assert_eq!(lines("한국어 문장", 6), ["한국어", "문장"]);
    }

    #[test]
    fn emoji_are_never_cut() {
        assert_eq!(lines("👨‍👩‍👧‍👦👨‍👩‍👧‍👦👨‍👩‍👧‍👦", 4), ["👨‍👩‍👧‍👦👨‍👩‍👧‍👦", "👨‍👩‍👧‍👦"]);
    }

    #[test]
    fn code_keeps_its_spaces_and_says_where_it_is_continued() {
        let code = [Run::new("    let x = 1;", Face::default())];
        let lines = wrap_code(&code, 10, "> ");
        let texts = lines.iter().map(|line| line.iter().map(|run| run.text.as_str()).collect());
        assert_eq!(texts.collect::<Vec<String>>(), ["    let x ", "> = 1;"]);
        assert_eq!(wrap_code(&[Run::new("12345", Face::default())], 5, "> ").len(), 1);
        assert_eq!(wrap_code(&[Run::new("123456", Face::default())], 5, "> ").len(), 2);
    }
}
