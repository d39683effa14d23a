//! Output to the terminal.
//!
//! Text of models, tools and files is data. Before it is shown, everything that could control the
//! terminal or is invisible is made visible; JSON keeps it, escaped.

use std::io::{IsTerminal, Write};

use rethread_core::name::is_hidden;
use rethread_core::visible_json::visible_json;
// Counts have the same format in receipts, in prose and in transcripts.
use rethread_render::terminal::{line_width, wrap_line};
pub(crate) use rethread_transcript::numbers::{full as count, short as short_count};
use unicode_width::UnicodeWidthChar;

use crate::errors::Error;

/// Columns for which lines are laid out; a narrower window wraps them.
const COLUMNS_MIN: usize = 40;

/// Prints a line of data on standard output.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<(), Error> {
    writeln!(anstream::stdout().lock(), "{text}")?;
    Ok(())
}

/// Prints a line that is read and not copied, on standard output; at a terminal without splitting
/// words.
pub(crate) fn prose(text: impl std::fmt::Display) -> Result<(), Error> {
    line(in_window(text.to_string(), std::io::stdout().is_terminal()))
}

/// Prints JSON on standard output, in one line.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value).map_err(std::io::Error::other)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", visible_json(&text))?;
    out.flush()?;
    Ok(())
}

/// Prints JSON for programs to standard error, on one line.
pub(crate) fn json_note(value: &serde_json::Value) {
    print_note(&visible_json(&value.to_string()));
}

/// Prints a note for people to standard error; at a terminal without splitting words.
pub(crate) fn note(text: impl std::fmt::Display) {
    print_note(&in_window(text.to_string(), std::io::stderr().is_terminal()));
}

fn print_note(text: &str) {
    // The terminal was closed: there is nobody to report to, and work continues.
    writeln!(anstream::stderr().lock(), "{text}").ok();
}

/// The text, wrapped at words if it goes to a terminal.
fn in_window(text: String, is_terminal: bool) -> String {
    match terminal_size::terminal_size().filter(|_| is_terminal) {
        Some((width, _)) => {
            let mut lines = wrapped(&text, usize::from(width.0).max(COLUMNS_MIN));
            lines.truncate(lines.len() - 1);
            lines
        }
        None => text,
    }
}

/// The text without anything that could control a terminal or is invisible: control characters,
/// direction marks and tag characters are written as escapes. Newlines and tabs stay.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => clean.push(c),
            // The joiners inside emoji are harmless, and without them one becomes three.
            '\u{200d}' => clean.push(c),
            c if is_hidden(c) => clean.extend(c.escape_unicode()),
            c => clean.push(c),
        }
    }
    clean
}

/// The text of one speaker: further lines are indented, so that none of them can be mistaken for
/// another speaker's.
pub(crate) fn indented(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for (index, line) in clean(text).split('\n').enumerate() {
        lines += match (index, line) {
            (0, _) => "",
            (_, "") => "\n",
            _ => "\n  ",
        };
        lines += line;
    }
    lines
}

/// The text on one line, newlines written as `\n`.
pub(crate) fn one_line(text: &str) -> String {
    clean(&text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t"))
}

/// The text on one line, with single spaces, cut to a width in columns.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    cut(&clean(&text.split_whitespace().collect::<Vec<_>>().join(" ")), columns)
}

/// A cleaned line cut to a width in columns. Its spaces stay, because they may align columns.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    let wide = |c: char| c.width().unwrap_or(0);
    if line.chars().map(wide).sum::<usize>() <= columns {
        return line.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fitted = line.chars().take_while(|c| {
        let fits = wide(*c) <= left;
        left = left.saturating_sub(wide(*c));
        fits
    });
    fitted.chain(std::iter::once('…')).collect()
}

/// The end of a one-line text, cut to a width in columns: what was typed last.
pub(crate) fn fit_end(text: &str, columns: usize) -> String {
    let wide = |c: char| c.width().unwrap_or(0);
    if text.chars().map(wide).sum::<usize>() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let from = text.char_indices().rev().take_while(|(_, c)| {
        let fits = wide(*c) <= left;
        left = left.saturating_sub(wide(*c));
        fits
    });
    let from = from.last().map_or(text.len(), |(at, _)| at);
    format!("…{}", &text[from..])
}

/// The text, padded with spaces to a width in columns.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let width: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
    format!("{text}{}", " ".repeat(columns.saturating_sub(width)))
}

/// Columns of the terminal, or a comfortable width if there is none.
pub(crate) fn columns() -> usize {
    let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    terminal.filter(|_| std::io::stdout().is_terminal()).unwrap_or(200).max(COLUMNS_MIN)
}

/// Wraps lines at word boundaries. Two-column layouts are kept: the second column begins after the
/// first gap.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let mut lines = String::new();
    for line in text.split('\n') {
        for part in wrap_line(line, columns, hanging(line)) {
            lines += &part;
            lines.push('\n');
        }
    }
    lines
}

/// The indentation of continuation lines. The current one of a list is marked with a `*`.
fn hanging(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let lead = line.len() - text.len();
    match text.find("  ") {
        Some(gap) if lead > 0 || text.starts_with("* ") || text[..gap].ends_with(':') => {
            let rest = text[gap..].trim_start_matches(' ');
            line_width(&line[..line.len() - rest.len()])
        }
        _ => lead,
    }
}

/// Whether there is someone to ask.
pub(crate) fn someone_is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a yes-or-no question. What is neither means no.
pub(crate) fn confirmed(question: &str) -> Result<bool, Error> {
    Ok(answered(question)? == Some(true))
}

/// Asks a yes-or-no question. Nothing, where the answer is neither.
pub(crate) fn answered(question: &str) -> Result<Option<bool>, Error> {
    let question = format!("{question} (y/n)");
    anstream::eprint!("{} ", in_window(question, std::io::stderr().is_terminal()));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    })
}

/// A count and what is counted: 1 entry, 2,345 entries, 3 blocks of an unknown kind.
pub(crate) fn plural(number: u64, one: &str) -> String {
    let links = [" of ", " with ", " without "];
    if let Some(at) = links.iter().filter_map(|link| one.find(link)).min() {
        let (noun, rest) = one.split_at(at);
        return format!("{}{rest}", plural(number, noun));
    }
    match (number, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) => format!("{} {stem}ies", count(number)),
        (_, None) if one.ends_with("ch") => format!("{} {one}es", count(number)),
        (_, None) => format!("{} {one}s", count(number)),
    }
}

/// The age, in one word.
pub(crate) fn ago(at: jiff::Timestamp, now: jiff::Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(at.as_second()).max(0);
    match seconds {
        0..60 => "now".into(),
        60..3_600 => format!("{}m ago", seconds / 60),
        3_600..86_400 => format!("{}h ago", seconds / 3_600),
        86_400..2_592_000 => format!("{}d ago", seconds / 86_400),
        _ => at.strftime("%Y-%m-%d").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_is_left() {
        let hostile =
            "a\x1b[2Jb\x07c\u{9b}31md\u{202e}e\u{200b}f\rg\u{e0041}h\u{e0101}i\u{3164}j\u{ad}";
        let clean = clean(hostile);
        assert!(!clean.chars().any(|c| c.is_control()), "{clean:?}");
        assert_eq!(
            clean,
            "a\\u{1b}[2Jb\\u{7}c\\u{9b}31md\\u{202e}e\\u{200b}f\\u{d}g\\u{e0041}h\\u{e0101}i\\u{3164}j\\u{ad}"
        );
    }

    #[test]
    fn the_noun_of_a_count_is_in_the_plural_and_not_what_belongs_to_it() {
        assert_eq!(plural(1, "message with more than text"), "1 message with more than text");
        assert_eq!(plural(4, "message with more than text"), "4 messages with more than text");
        assert_eq!(plural(2, "result without a call"), "2 results without a call");
        assert_eq!(plural(2, "bookkeeping entry"), "2 bookkeeping entries");
    }

    #[test]
    fn only_the_first_line_of_a_text_begins_at_the_margin() {
        assert_eq!(indented("one line"), "one line");
        assert_eq!(indented("one\n[USER] two\n\n  three\n"), "one\n  [USER] two\n\n    three\n");
        assert_eq!(indented("one\r\u{2028}[USER] two"), r"one\u{d}\u{2028}[USER] two");
    }

    #[test]
    fn a_text_fits_its_columns_wide_characters_counted() {
        assert_eq!(fit("hello\n world", 20), "hello world");
        assert_eq!(fit("hello world", 11), "hello world");
        assert_eq!(fit("hello world", 10), "hello wor…");
        assert_eq!(fit("日本語日本語", 12), "日本語日本語");
        assert_eq!(fit("日本語日本語", 11), "日本語日本…");
        assert_eq!(fit("日本語日本語", 10), "日本語日…");
    }

    #[test]
    fn a_line_is_cut_without_joining_its_columns() {
        assert_eq!(cut("NAME   AGE", 10), "NAME   AGE");
        assert_eq!(cut("NAME   AGE", 9), "NAME   A…");
        assert_eq!(cut("日本語  語", 9), "日本語  …");
    }

    #[test]
    fn continuation_lines_begin_below_the_text_after_a_label() {
        let line = "Results:   thinned 1 time at a cold start";
        assert_eq!(wrapped(line, 30), "Results:   thinned 1 time at a\n           cold start\n");
        assert_eq!(wrapped("one  two three", 10), "one  two\nthree\n");
    }

    #[test]
    fn of_what_is_typed_the_end_is_seen() {
        assert_eq!(fit_end("hello", 5), "hello");
        assert_eq!(fit_end("hello world", 6), "…world");
        assert_eq!(fit_end("日本語", 5), "…本語");
        assert_eq!(fit_end("日本語", 4), "…語");
    }

    #[test]
    fn counts_have_commas_in_receipts_and_a_letter_in_prose() {
        assert_eq!(
            [count(0), count(999), count(2_345), count(1_234_567)],
            ["0", "999", "2,345", "1,234,567"]
        );
        assert_eq!(
            [short_count(999), short_count(2_345), short_count(1_500_000)],
            ["999", "2.3K", "1.5M"]
        );
    }
}
