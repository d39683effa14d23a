//! The text that is being typed, and the cursor in it.
//!
//! It is stored as grapheme clusters, so the cursor never stops inside one. A long paste is a
//! single element: it is shown as `[400 lines]`, and sent completely. Every element knows whether
//! it was pasted, because pasted text is data: it is never run as a command, and attaches no files.

use rethread_core::name::is_hidden;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::out::{clean, count, fit, plural};

/// Lines and characters of a paste that is still shown completely. More would push the conversation
/// out of the window.
const PASTE_LINES_SHOWN: usize = 10;
const PASTE_CHARS_SHOWN: usize = 2_000;

/// Columns of the beginning of a folded text, where nothing else says what it is.
const BEGIN_COLUMNS: usize = 40;

/// The text, when it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
    /// All of it.
    pub(super) text: String,
    /// As it was shown: long pastes folded.
    pub(super) shown: String,
    /// The line it comes from.
    parts: Vec<Part>,
}

/// A part of a line: typed, or pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    text: String,
    is_pasted: bool,
}

impl Typed {
    /// Text that was typed completely.
    pub(super) fn by_hand(text: impl Into<String>) -> Typed {
        Typed::of_one(text.into(), false)
    }

    /// Text that nobody typed here: it came through a pipe, or from a log.
    pub(super) fn data(text: impl Into<String>) -> Typed {
        Typed::of_one(text.into(), true)
    }

    fn of_one(text: String, is_pasted: bool) -> Typed {
        let parts = vec![Part { text: text.clone(), is_pasted }];
        Typed { shown: text.clone(), parts, text }
    }

    /// The same with another text, which was derived from this one.
    pub(super) fn saying(self, text: String) -> Typed {
        match self.parts.iter().any(|part| part.is_pasted) {
            true => Typed { text, ..self },
            false => Typed::by_hand(text),
        }
    }

    /// The parts that were typed.
    pub(super) fn parts_by_hand(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|part| !part.is_pasted).map(|part| part.text.as_str())
    }

    /// The parts that are data.
    pub(super) fn pasted_parts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|part| part.is_pasted).map(|part| part.text.as_str())
    }

    /// Whether its first character was typed.
    pub(super) fn begins_by_hand(&self) -> bool {
        self.parts.first().is_some_and(|part| !part.is_pasted)
    }
}

/// One grapheme cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glyph {
    /// What is sent.
    text: String,
    /// What is shown, if that differs.
    shown: Option<String>,
    is_pasted: bool,
    /// It represents more text than it shows.
    is_fold: bool,
}

impl Glyph {
    fn new(text: &str, is_pasted: bool) -> Glyph {
        let shown = match text {
            "\n" => None,
            "\t" => Some("    ".to_owned()),
            text => Some(clean(text)).filter(|shown| shown != text),
        };
        Glyph { text: text.to_owned(), shown, is_pasted, is_fold: false }
    }

    /// A long paste, as one character; with `begin`, it shows how the text begins.
    fn fold(text: &str, begin: Option<&str>) -> Glyph {
        let size = match text.lines().count() {
            0 | 1 => format!("{} characters", count(text.chars().count() as u64)),
            lines => plural(lines as u64, "line"),
        };
        let shown = match begin {
            Some(begin) => format!("[{size}: {}]", fit(begin, BEGIN_COLUMNS)),
            None => format!("[{size}]"),
        };
        Glyph { text: text.to_owned(), shown: Some(shown), is_pasted: true, is_fold: true }
    }

    pub(super) fn shown(&self) -> &str {
        self.shown.as_deref().unwrap_or(&self.text)
    }

    pub(super) fn is_line_feed(&self) -> bool {
        self.text == "\n"
    }

    /// Whether it represents more text than it shows.
    pub(super) fn is_fold(&self) -> bool {
        self.is_fold
    }

    pub(super) fn is_pasted(&self) -> bool {
        self.is_pasted
    }

    pub(super) fn width(&self) -> usize {
        self.shown().width()
    }

    fn is_space(&self) -> bool {
        self.text.chars().all(char::is_whitespace)
    }
}

/// What was erased, and can be put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Erased(Vec<Glyph>);

/// The text, and the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffer {
    glyphs: Vec<Glyph>,
    /// How many are before the cursor.
    cursor: usize,
    /// It contains bytes that are not text.
    pub(super) is_damaged: bool,
}

impl Buffer {
    /// A text, with the cursor at its end.
    pub(super) fn of(text: &str) -> Buffer {
        let mut buffer = Buffer::default();
        buffer.insert(text);
        buffer
    }

    /// An earlier text, to be edited again. Its pasted parts stay data, and long ones are folded.
    pub(super) fn of_typed(typed: &Typed) -> Buffer {
        let mut buffer = Buffer::default();
        if let [part] = typed.parts.as_slice()
            && part.is_pasted
            && is_long(&part.text)
        {
            // Nothing beside the fold tells it from others.
            let begin = part.text.lines().find(|line| !line.trim().is_empty());
            buffer.put_glyph(Glyph::fold(&part.text, begin));
            return buffer;
        }
        for part in &typed.parts {
            match part.is_pasted {
                true => buffer.paste(&part.text),
                false => buffer.insert(&part.text),
            }
        }
        buffer
    }

    /// This text after someone has changed it to another, elsewhere. What is as it was, before and
    /// after the change, is still typed or pasted as it was.
    pub(super) fn changed_to(&self, text: &str) -> Buffer {
        let (mut from, mut to) = (0, self.glyphs.len());
        let mut changed = text;
        while let Some(rest) =
            self.glyphs.get(from).and_then(|glyph| changed.strip_prefix(glyph.text.as_str()))
        {
            (from, changed) = (from + 1, rest);
        }
        while to > from
            && let Some(rest) = changed.strip_suffix(self.glyphs[to - 1].text.as_str())
        {
            (to, changed) = (to - 1, rest);
        }
        let mut buffer = Buffer { glyphs: self.glyphs[..from].to_vec(), ..Buffer::default() };
        buffer.cursor = buffer.glyphs.len();
        buffer.insert(changed);
        buffer.glyphs.extend_from_slice(&self.glyphs[to..]);
        buffer.cursor = buffer.glyphs.len();
        buffer
    }

    /// Adds a line below this text, with the cursor at its end.
    pub(super) fn append_line(&mut self, line: Buffer) {
        if line.is_empty() {
            return;
        }
        if !self.is_empty() {
            self.glyphs.push(Glyph::new("\n", false));
        }
        self.glyphs.extend(line.glyphs);
        self.cursor = self.glyphs.len();
        self.is_damaged |= line.is_damaged;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.glyphs.is_empty()
    }

    pub(super) fn glyphs(&self) -> &[Glyph] {
        &self.glyphs
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// All of the text.
    pub(super) fn text(&self) -> String {
        self.glyphs.iter().map(|glyph| glyph.text.as_str()).collect()
    }

    /// The text before the cursor, back to the beginning of its line.
    pub(super) fn line_before(&self) -> String {
        self.text_of(self.line_start(), self.cursor)
    }

    /// Whether the cursor is in the last line.
    fn is_in_last_line(&self) -> bool {
        self.line_end() == self.glyphs.len()
    }

    /// What is sent.
    pub(super) fn typed(&self) -> Typed {
        let mut typed = Typed::default();
        let mut after_fold = false;
        for glyph in &self.glyphs {
            typed.text.push_str(&glyph.text);
            match glyph.is_fold() {
                true => typed.shown.push_str(glyph.shown()),
                false => typed.shown.push_str(&glyph.text),
            }
            // A fold is a part of its own, so that it is one again when the text is recalled.
            let was_fold = std::mem::replace(&mut after_fold, glyph.is_fold());
            let is_apart = glyph.is_fold() || was_fold;
            match typed.parts.last_mut() {
                Some(part) if part.is_pasted == glyph.is_pasted && !is_apart => {
                    part.text.push_str(&glyph.text);
                }
                _ => {
                    typed.parts.push(Part { text: glyph.text.clone(), is_pasted: glyph.is_pasted })
                }
            }
        }
        typed
    }

    /// Puts what was erased back in at the cursor, as it was.
    pub(super) fn put_back(&mut self, erased: &Erased) {
        self.glyphs.splice(self.cursor..self.cursor, erased.0.iter().cloned());
        self.cursor += erased.0.len();
    }

    /// Puts text in at the cursor.
    pub(super) fn insert(&mut self, text: &str) {
        self.put(text, false);
    }

    /// Inserts pasted text; a long one as a single element.
    pub(super) fn paste(&mut self, text: &str) {
        match is_long(text) {
            true => self.put_glyph(Glyph::fold(text, None)),
            false => self.put(text, true),
        }
    }

    fn put_glyph(&mut self, glyph: Glyph) {
        self.glyphs.insert(self.cursor, glyph);
        self.cursor += 1;
    }

    fn put(&mut self, text: &str, is_pasted: bool) {
        let mut text = text.to_owned();
        // A combining mark that is typed separately belongs to the letter before it.
        let is_mark = text
            .chars()
            .next()
            .is_some_and(|c| UnicodeWidthChar::width(c) == Some(0) && !is_hidden(c));
        let mut is_letter_pasted = false;
        if is_mark
            && self.cursor > 0
            && !self.glyphs[self.cursor - 1].is_line_feed()
            && !self.glyphs[self.cursor - 1].is_fold()
        {
            self.cursor -= 1;
            let letter = self.glyphs.remove(self.cursor);
            text.insert_str(0, &letter.text);
            is_letter_pasted = letter.is_pasted;
        }
        let mut new: Vec<Glyph> =
            text.graphemes(true).map(|one| Glyph::new(one, is_pasted)).collect();
        if let Some(first) = new.first_mut() {
            first.is_pasted |= is_letter_pasted;
        }
        let added = new.len();
        self.glyphs.splice(self.cursor..self.cursor, new);
        self.cursor += added;
    }

    /// Replaces the last so many characters before the cursor.
    pub(super) fn replace_before(&mut self, glyphs: usize, text: &str) {
        let from = self.cursor.saturating_sub(glyphs);
        self.glyphs.drain(from..self.cursor);
        self.cursor = from;
        self.insert(text);
    }

    /// Moves by so many characters. Whether it could.
    pub(super) fn step(&mut self, forward: bool) -> bool {
        let to = match forward {
            true => (self.cursor + 1).min(self.glyphs.len()),
            false => self.cursor.saturating_sub(1),
        };
        std::mem::replace(&mut self.cursor, to) != to
    }

    pub(super) fn go_to_line_start(&mut self) {
        self.cursor = self.line_start();
    }

    pub(super) fn go_to_line_end(&mut self) {
        self.cursor = self.line_end();
    }

    /// Moves to the beginning of the word before the cursor.
    pub(super) fn word_left(&mut self) {
        self.cursor = self.word_start();
    }

    /// Moves to the end of the next word.
    pub(super) fn word_right(&mut self) {
        self.cursor = self.word_end();
    }

    /// Moves to the line above or below, in the same column. Whether there is one.
    pub(super) fn step_line(&mut self, down: bool) -> bool {
        let start = self.line_start();
        let column = self.cursor - start;
        let (from, to) = match down {
            true if self.is_in_last_line() => return false,
            true => {
                let from = self.line_end() + 1;
                let line = self.glyphs[from..].iter().position(Glyph::is_line_feed);
                (from, line.map_or(self.glyphs.len(), |length| from + length))
            }
            false if start == 0 => return false,
            false => {
                let line = self.glyphs[..start - 1].iter().rposition(Glyph::is_line_feed);
                (line.map_or(0, |at| at + 1), start - 1)
            }
        };
        self.cursor = (from + column).min(to);
        true
    }

    pub(super) fn backspace(&mut self) {
        if self.step(false) {
            self.glyphs.remove(self.cursor);
        }
    }

    /// Deletes what is under the cursor. Whether there was something.
    pub(super) fn delete(&mut self) -> bool {
        let is_there = self.cursor < self.glyphs.len();
        if is_there {
            self.glyphs.remove(self.cursor);
        }
        is_there
    }

    /// Erases up to the beginning of the line, and gives it back.
    pub(super) fn erase_to_start(&mut self) -> Erased {
        // At the beginning of a line this joins it with the one above.
        let from = match self.line_start() {
            start if start == self.cursor => start.saturating_sub(1),
            start => start,
        };
        self.erase(from, self.cursor)
    }

    /// Erases up to the end of the line, and gives it back.
    pub(super) fn erase_to_end(&mut self) -> Erased {
        let to = match self.line_end() {
            end if end == self.cursor => (end + 1).min(self.glyphs.len()),
            end => end,
        };
        self.erase(self.cursor, to)
    }

    /// Erases the word before the cursor, and gives it back.
    pub(super) fn erase_word(&mut self) -> Erased {
        // As in a shell, up to the space: a path is one word.
        let mut from = self.cursor;
        while from > 0 && self.glyphs[from - 1].is_space() {
            from -= 1;
        }
        while from > 0 && !self.glyphs[from - 1].is_space() {
            from -= 1;
        }
        self.erase(from, self.cursor)
    }

    /// Erases the next word, and gives it back.
    pub(super) fn erase_next_word(&mut self) -> Erased {
        self.erase(self.cursor, self.word_end())
    }

    fn erase(&mut self, from: usize, to: usize) -> Erased {
        self.cursor = from;
        Erased(self.glyphs.drain(from..to).collect())
    }

    fn text_of(&self, from: usize, to: usize) -> String {
        self.glyphs[from..to].iter().map(|glyph| glyph.text.as_str()).collect()
    }

    fn line_start(&self) -> usize {
        let before = self.glyphs[..self.cursor].iter();
        before.rev().position(Glyph::is_line_feed).map_or(0, |length| self.cursor - length)
    }

    fn line_end(&self) -> usize {
        let after = self.glyphs[self.cursor..].iter().position(Glyph::is_line_feed);
        after.map_or(self.glyphs.len(), |length| self.cursor + length)
    }

    fn is_word(&self, at: usize) -> bool {
        self.glyphs[at].is_fold() || self.glyphs[at].text.chars().any(char::is_alphanumeric)
    }

    fn word_start(&self) -> usize {
        let mut at = self.cursor;
        while at > 0 && !self.is_word(at - 1) {
            at -= 1;
        }
        while at > 0 && self.is_word(at - 1) {
            at -= 1;
        }
        at
    }

    fn word_end(&self) -> usize {
        let mut at = self.cursor;
        while at < self.glyphs.len() && !self.is_word(at) {
            at += 1;
        }
        while at < self.glyphs.len() && self.is_word(at) {
            at += 1;
        }
        at
    }
}

/// Whether a paste is folded.
fn is_long(text: &str) -> bool {
    text.lines().count() > PASTE_LINES_SHOWN || text.chars().nth(PASTE_CHARS_SHOWN).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_never_stops_inside_a_character() {
        let mut buffer = Buffer::of("e\u{301}👨‍👩‍👧漢");
        assert_eq!(buffer.glyphs().len(), 3);
        buffer.backspace();
        buffer.backspace();
        assert_eq!(buffer.text(), "e\u{301}");
        buffer.insert("o");
        buffer.insert("\u{308}");
        assert_eq!((buffer.text().as_str(), buffer.glyphs().len()), ("e\u{301}o\u{308}", 2));
    }

    #[test]
    fn a_long_paste_is_one_character_and_sent_as_it_is() {
        let line = |n: usize| (1..=n).map(|n| format!("{n}\n")).collect::<String>();
        for (pasted, shown) in [
            (line(10), None),
            (line(11), Some("[11 lines]")),
            (line(400), Some("[400 lines]")),
            ("x".repeat(2_000), None),
            ("x".repeat(2_001), Some("[2,001 characters]")),
        ] {
            let mut buffer = Buffer::of("why? ");
            buffer.paste(&pasted);
            let typed = buffer.typed();
            assert_eq!(typed.text, format!("why? {pasted}"));
            assert_eq!(typed.shown, format!("why? {}", shown.unwrap_or(&pasted)));
            assert_eq!(typed.parts_by_hand().collect::<Vec<_>>(), ["why? "]);
            if shown.is_some() {
                buffer.backspace();
                assert_eq!(buffer.text(), "why? ");
            }
        }
    }

    #[test]
    fn a_long_text_that_is_recalled_is_folded_and_says_how_it_begins() {
        let lines = |n: usize| format!("\n  why?\n{}", "line\n".repeat(n - 2));
        for (text, shown) in [
            (lines(10), lines(10)),
            (lines(11), "[11 lines: why?]".to_owned()),
            ("x".repeat(2_001), format!("[2,001 characters: {}…]", "x".repeat(39))),
        ] {
            let buffer = Buffer::of_typed(&Typed::data(&text));
            assert_eq!((buffer.typed().shown, buffer.text()), (shown, text));
        }
    }

    #[test]
    fn pasted_text_is_distinguished_from_typed_text() {
        let mut buffer = Buffer::default();
        buffer.paste("!rm @x");
        buffer.insert(" and @y");
        let typed = buffer.typed();
        assert_eq!(typed.text, "!rm @x and @y");
        assert_eq!(typed.parts_by_hand().collect::<Vec<_>>(), [" and @y"]);
        assert!(!typed.begins_by_hand());
        assert!(Typed::by_hand("!ls").begins_by_hand() && !Typed::data("!ls").begins_by_hand());
        // A typed character that the paste begins with changes nothing.
        for typed in ["!", "! and more", "\u{301}"] {
            let mut buffer = Buffer::default();
            buffer.paste("!");
            buffer.insert(typed);
            assert!(!buffer.typed().begins_by_hand(), "{typed}");
        }
    }

    #[test]
    fn what_comes_back_into_the_line_is_typed_and_pasted_where_it_was() {
        let log = "line\n".repeat(400);
        let mut buffer = Buffer::of("say ");
        buffer.paste("say @x");
        buffer.insert(" @y ");
        buffer.paste(&log);
        buffer.paste("!z");
        let whole = buffer.typed();
        assert_eq!(Buffer::of_typed(&whole), buffer);
        assert_eq!(whole.shown, "say say @x @y [400 lines]!z");
        let erased = buffer.erase_to_start();
        assert!(buffer.is_empty());
        buffer.put_back(&erased);
        assert_eq!(buffer.typed(), whole);
        // An editor shows all of it; what was not changed there is as it was.
        assert_eq!(buffer.changed_to(&whole.text), buffer);
        let changed = buffer.changed_to(&whole.text.replace(" @y", ", and @y")).typed();
        assert_eq!(changed.shown, "say say @x, and @y [400 lines]!z");
        assert_eq!(changed.parts_by_hand().collect::<Vec<_>>(), ["say ", ", and @y "]);
        assert_eq!(buffer.changed_to("").typed(), Typed::default());
    }

    #[test]
    fn words_and_lines_are_moved_over_and_erased() {
        let mut buffer = Buffer::of("look at src/a.rs\nnow, please");
        let text = |erased: Erased| Buffer { glyphs: erased.0, ..Buffer::default() }.text();
        assert_eq!(text(buffer.erase_word()), "please");
        buffer.word_left();
        assert_eq!(buffer.line_before(), "");
        assert!(buffer.step_line(false) && !buffer.step_line(false));
        buffer.go_to_line_end();
        assert_eq!(text(buffer.erase_word()), "src/a.rs");
        assert_eq!(text(buffer.erase_to_start()), "look at ");
        assert!(buffer.step_line(true));
        assert_eq!(text(buffer.erase_to_start()), "\n");
        buffer.word_right();
        assert_eq!(text(buffer.erase_to_end()), ", ");
        assert_eq!(buffer.text(), "now");
        assert!(!buffer.delete() && buffer.step(false) && buffer.delete());
        assert_eq!(buffer.text(), "no");
    }

    #[test]
    fn what_would_drive_the_terminal_is_shown_as_what_it_is() {
        let mut buffer = Buffer::default();
        buffer.paste("a\u{1b}[2J\u{202e}\tb");
        let shown: String = buffer.glyphs().iter().map(Glyph::shown).collect();
        assert_eq!(shown, "a\\u{1b}[2J\\u{202e}    b");
        assert_eq!(buffer.text(), "a\u{1b}[2J\u{202e}\tb");
    }
}
