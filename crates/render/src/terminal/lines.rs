//! Lines that contain our own escape sequences: their width, wrapping and cutting.
//!
//! For a program's own texts (notices, status lines). Other text goes through a
//! [`Document`](crate::Document) or is made visible first: these functions pass escapes on.

use crate::width::{characters, width};

/// A part of a line: text, or an escape sequence, which takes no columns.
enum Part<'l> {
    Text(&'l str),
    Escape(&'l str),
}

/// Columns a line takes. Escape sequences take none.
pub fn line_width(line: &str) -> usize {
    let columns = |part: Part<'_>| match part {
        Part::Text(text) => width(text),
        Part::Escape(_) => 0,
    };
    parts(line).into_iter().map(columns).sum()
}

/// The line, cut to so many columns; one that is cut ends with `…`. Escape sequences stay, so what
/// was switched on is switched off.
pub fn fit_line(line: &str, columns: usize) -> String {
    if line_width(line) <= columns {
        return line.to_owned();
    }
    let mut fitted = String::new();
    let mut left = columns.saturating_sub(1);
    let mut is_cut = columns == 0;
    for part in parts(line) {
        match part {
            Part::Escape(escape) => fitted.push_str(escape),
            Part::Text(_) if is_cut => {}
            Part::Text(text) => {
                for (character, wide) in characters(text) {
                    if wide > left {
                        fitted.push('…');
                        is_cut = true;
                        break;
                    }
                    fitted.push_str(character);
                    left -= wide;
                }
            }
        }
    }
    fitted
}

/// The line as lines of at most so many columns, broken at spaces where that is possible. The
/// further ones begin with `indent` spaces; a line that fits stays as it is.
pub fn wrap_line(line: &str, columns: usize, indent: usize) -> Vec<String> {
    if line_width(line) <= columns {
        return vec![line.to_owned()];
    }
    let indent = if indent * 2 > columns { 0 } else { indent };
    let mut lines = Vec::new();
    let (mut current, mut used) = (String::new(), 0);
    for word in words(line) {
        let bare = word.trim_end_matches(' ');
        if used + line_width(bare) > columns && used > indent {
            lines.push(current.trim_end_matches(' ').to_owned());
            (current, used) = (" ".repeat(indent), indent);
        }
        for part in parts(&word) {
            let text = match part {
                Part::Escape(escape) => {
                    current.push_str(escape);
                    continue;
                }
                Part::Text(text) => text,
            };
            for (character, wide) in characters(text) {
                if used + wide > columns && character != " " && used > indent {
                    lines.push(std::mem::take(&mut current));
                    (current, used) = (" ".repeat(indent), indent);
                }
                current.push_str(character);
                used += wide;
            }
        }
    }
    lines.push(current.trim_end_matches(' ').to_owned());
    lines
}

/// The words of a line, each with the spaces after it. Spaces at the start are a word.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_space = false;
    for part in parts(line) {
        let text = match part {
            Part::Escape(escape) => {
                words.last_mut().expect("there is always a word").push_str(escape);
                continue;
            }
            Part::Text(text) => text,
        };
        for c in text.chars() {
            if after_space && c != ' ' {
                words.push(String::new());
            }
            after_space = c == ' ';
            words.last_mut().expect("there is always a word").push(c);
        }
    }
    words
}

/// The line in parts. What is not a whole sequence is text.
fn parts(line: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find('\x1b') {
        if at > 0 {
            parts.push(Part::Text(&rest[..at]));
        }
        let length = escape_length(&rest[at..]);
        let (escape, after) = rest[at..].split_at(length);
        parts.push(Part::Escape(escape));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

/// Bytes of the sequence a text begins with.
fn escape_length(text: &str) -> usize {
    let end = match text.as_bytes().get(1) {
        Some(b'[') => text[2..].find(|c: char| ('@'..='~').contains(&c)).map(|at| at + 3),
        Some(b']') => text.find("\x1b\\").map(|at| at + 2).or(text.find('\x07').map(|at| at + 1)),
        _ => None,
    };
    end.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_take_no_columns() {
        assert_eq!(line_width("\x1b[1;32mYou:\x1b[0m 漢字"), 9);
        assert_eq!(line_width("\x1b]8;id=1;https://a.b\x1b\\text\x1b]8;;\x1b\\"), 4);
        assert_eq!(line_width("\x1b"), 0);
    }

    #[test]
    fn a_line_that_is_cut_says_so_and_switches_off_what_it_switched_on() {
        assert_eq!(fit_line("\x1b[2mabcdef\x1b[0m", 6), "\x1b[2mabcdef\x1b[0m");
        assert_eq!(fit_line("\x1b[2mabcdef\x1b[0m", 5), "\x1b[2mabcd…\x1b[0m");
        assert_eq!(fit_line("漢字", 3), "漢…");
        assert_eq!(fit_line("abc", 0), "");
    }

    #[test]
    fn words_move_whole_and_further_lines_are_indented() {
        assert_eq!(wrap_line("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(wrap_line("one two", 7, 2), ["one two"]);
        assert_eq!(wrap_line("  a  bcd ef", 8, 5), ["  a  bcd", "ef"]);
        assert_eq!(wrap_line("  a  bcd ef", 8, 3), ["  a  bcd", "   ef"]);
        assert_eq!(wrap_line("abcdefgh", 3, 0), ["abc", "def", "gh"]);
        assert_eq!(wrap_line("\x1b[2mone two\x1b[0m", 4, 0), ["\x1b[2mone", "two\x1b[0m"]);
    }
}
