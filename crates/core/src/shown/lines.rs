//! A result split into lines that are shown or left out separately.

use std::borrow::Cow;

use super::LineRange;
use crate::limits::FOLD_CHARS;

/// A result as lines.
pub(crate) struct Lines<'a> {
    lines: Vec<Line<'a>>,
    /// The tool numbered the lines.
    gutter: bool,
    originals: u64,
}

/// One line, or a part of one that is very long.
pub(crate) struct Line<'a> {
    /// Its visible text: without line number, colours and trailing blanks.
    pub(crate) text: Cow<'a, str>,
    /// The line number that the tool added.
    number: Option<&'a str>,
    /// Its line in the original, counted from one.
    original: u32,
    /// Blank, like the previous one: it is left out without a note.
    pub(crate) blank_again: bool,
}

/// The first characters of terminal escape sequences.
const ESCAPE: u8 = 0x1b;

/// The interval at which line numbers are shown.
const NUMBER_EVERY: u32 = 10;

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Lines<'a> {
        let gutter = has_gutter(text);
        let has = |byte: u8| text.as_bytes().contains(&byte);
        let plain = !has(b'\r') && !has(ESCAPE);
        let mut lines = Vec::new();
        let mut originals = 0;
        let mut blank_before = false;
        for (index, line) in text.lines().enumerate() {
            originals += 1;
            let original = u32::try_from(index + 1).unwrap_or(u32::MAX);
            let (number, line) = match gutter.then(|| split_gutter(line)).flatten() {
                Some((number, rest)) => (Some(number), rest),
                None => (None, line),
            };
            let tidy = if plain { Cow::Borrowed(line.trim_end()) } else { tidy(line) };
            let blank = tidy.is_empty();
            if tidy.len() <= FOLD_CHARS {
                let blank_again = blank && blank_before;
                lines.push(Line { text: tidy, number, original, blank_again });
            } else {
                let mut number = number;
                for piece in folded(&tidy) {
                    let text = match &tidy {
                        Cow::Borrowed(whole) => Cow::Borrowed(&whole[piece]),
                        Cow::Owned(whole) => Cow::Owned(whole[piece].to_owned()),
                    };
                    lines.push(Line { text, number: number.take(), original, blank_again: false });
                }
            }
            blank_before = blank;
        }
        Lines { lines, gutter, originals }
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn originals(&self) -> u64 {
        self.originals
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Line<'a>> {
        self.lines.iter()
    }

    pub(crate) fn get(&self, index: usize) -> &Line<'a> {
        &self.lines[index]
    }

    /// The beginning of the first line that is not blank.
    pub(crate) fn first_words(&self, chars: usize) -> String {
        let first = self.lines.iter().find(|line| !line.text.trim().is_empty());
        first.map_or_else(String::new, |line| line.text.chars().take(chars).collect())
    }

    /// Writes these runs, with notes for what is left out.
    pub(crate) fn write(&self, parts: &[LineRange], reference: &str) -> Written {
        let mut out = Out { text: String::new(), reference, marked: false };
        let (mut refers_to, mut kept, mut last_kept) = (Vec::new(), 0, 0);
        // The first line that is neither shown nor covered by a note.
        let mut next = 0;
        for part in parts {
            let (start, end) = (part.start as usize, part.end as usize);
            self.gap(&mut out, next..start);
            match part.same_as {
                Some(seq) => {
                    let (first, last) = self.span(start..end);
                    out.line(&format!("[lines {first}-{last} as in result {seq} above]"));
                    refers_to.push(seq);
                }
                None => {
                    for (index, line) in self.lines[start..end].iter().enumerate() {
                        if line.blank_again {
                            continue;
                        }
                        match line.number.filter(|number| index == 0 || is_tenth(number)) {
                            Some(number) if self.gutter => {
                                out.line("");
                                out.text.push_str(number);
                                out.text.push('\t');
                                out.text.push_str(&line.text);
                            }
                            _ => out.line(&line.text),
                        }
                        kept += u64::from(line.original != last_kept);
                        last_kept = line.original;
                    }
                }
            }
            next = end;
        }
        self.gap(&mut out, next..self.lines.len());
        let text = out.text.strip_prefix('\n').map(str::to_owned).unwrap_or(out.text);
        Written { text, lines: kept, refers_to }
    }

    /// Writes a note for lines that are left out, unless they are blank.
    fn gap(&self, out: &mut Out<'_>, range: std::ops::Range<usize>) {
        let said = self.lines[range.clone()].iter().any(|line| !line.text.is_empty());
        if !said {
            return;
        }
        let (first, last) = self.span(range);
        let mark = match std::mem::replace(&mut out.marked, true) {
            false => format!("[lines {first}-{last} cut; recall {}]", out.reference),
            true => format!("[{first}-{last} cut]"),
        };
        out.line(&mark);
    }

    /// The first and the last line of the original in a run.
    fn span(&self, range: std::ops::Range<usize>) -> (u32, u32) {
        (self.lines[range.start].original, self.lines[range.end - 1].original)
    }
}

/// Lines of a result, with notes for what is left out.
pub(crate) struct Written {
    pub(crate) text: String,
    /// The number of original lines in it.
    pub(crate) lines: u64,
    /// The entries it refers to.
    pub(crate) refers_to: Vec<u64>,
}

/// An excerpt, while it is written.
struct Out<'a> {
    text: String,
    reference: &'a str,
    /// A note has already said how to fetch the rest.
    marked: bool,
}

impl Out<'_> {
    fn line(&mut self, text: &str) {
        self.text.push('\n');
        self.text.push_str(text);
    }
}

fn is_tenth(number: &str) -> bool {
    number.parse::<u32>().is_ok_and(|number| number.is_multiple_of(NUMBER_EVERY))
}

/// The line number that a tool added, and the line.
fn split_gutter(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches(' ');
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = line.split_at(digits);
    let rest = rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t'))?;
    (1..=7).contains(&digits).then_some((number, rest))
}

/// Whether a tool numbered the lines: the first ones have consecutive numbers.
fn has_gutter(text: &str) -> bool {
    let number = |line: &str| split_gutter(line).and_then(|(number, _)| number.parse::<u32>().ok());
    let mut first = text.lines().take(4).map(number);
    let Some(Some(begin)) = first.next() else { return false };
    let mut rest = first.enumerate().peekable();
    rest.peek().is_some()
        && rest.all(|(index, number)| number == begin.checked_add(1 + index as u32))
}

/// A line without colours, overwritten text, and trailing blanks.
fn tidy(line: &str) -> Cow<'_, str> {
    let line = line.trim_end();
    let line = line.rsplit('\r').next().unwrap_or(line);
    if !line.as_bytes().contains(&ESCAPE) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        match chars.next() {
            // A control sequence ends with a letter or one of `@[\]^_`{|}~`.
            Some('[') => drop(chars.find(|c| ('@'..='~').contains(c))),
            // An operating system command ends with BEL or ST.
            Some(']') => {
                while let Some(c) = chars.next() {
                    if c == '\u{7}' || c == '\u{1b}' && chars.next().is_some() {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    out.truncate(out.trim_end().len());
    Cow::Owned(out)
}

/// A long line in pieces, each ending at a natural boundary.
fn folded(line: &str) -> Vec<std::ops::Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    while line.len() - start > FOLD_CHARS {
        let limit = line.floor_char_boundary(start + FOLD_CHARS);
        let ends = |c: char| matches!(c, ' ' | ',' | ';' | '{' | '}' | '\\');
        let half = line.floor_char_boundary(start + FOLD_CHARS / 2);
        let end = line[half..limit].rfind(ends).map_or(limit, |at| half + at + 1);
        pieces.push(start..end);
        start = end;
    }
    pieces.push(start..line.len());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: u32, end: u32) -> LineRange {
        LineRange { start, end, same_as: None }
    }

    #[test]
    fn gaps_say_which_lines_and_how_to_get_them() {
        let text: String = (1..=30).map(|n| format!("line {n}\n")).collect();
        let lines = Lines::new(&text);
        let same = LineRange { start: 10, end: 20, same_as: Some(7) };
        let parts = [part(0, 2), part(4, 5), same];
        let shown = lines.write(&parts, "42");
        let expected = "line 1\nline 2\n[lines 3-4 cut; recall 42]\nline 5\n[6-10 cut]\n\
                        [lines 11-20 as in result 7 above]\n[21-30 cut]";
        assert_eq!(shown.text, expected);
        assert_eq!((shown.lines, shown.refers_to), (3, vec![7]));
    }

    #[test]
    fn numbers_of_a_tool_are_shown_where_a_run_begins_and_at_every_tenth_line() {
        let text: String = (98..=112).map(|n| format!("{n:>6}→    let x{n} = {n};\n")).collect();
        let lines = Lines::new(&text);
        let shown = lines.write(&[part(0, 4), part(12, 15)], "5");
        let expected = "98\t    let x98 = 98;\n    let x99 = 99;\n100\t    let x100 = 100;\n    \
                        let x101 = 101;\n[lines 5-12 cut; recall 5]\n110\t    let x110 = 110;\n    \
                        let x111 = 111;\n    let x112 = 112;";
        assert_eq!(shown.text, expected);
    }

    #[test]
    fn colours_blanks_and_what_was_written_over_go() {
        let text = "\u{1b}[32mok\u{1b}[0m   \n\n\n\n 10%\r 20%\r100%\n\u{1b}]0;title\u{7}done";
        let lines = Lines::new(text);
        let shown = lines.write(&[part(0, lines.len() as u32)], "5");
        assert_eq!(shown.text, "ok\n\n100%\ndone");
    }

    #[test]
    fn a_long_line_is_folded_where_something_ends() {
        let text = "name: value, ".repeat(100);
        let lines = Lines::new(&text);
        assert!(lines.len() > 4);
        assert!(lines.iter().all(|line| line.text.len() <= FOLD_CHARS));
        let joined: String = lines.iter().map(|line| line.text.as_ref()).collect();
        assert_eq!(joined, text.trim_end());
    }
}
