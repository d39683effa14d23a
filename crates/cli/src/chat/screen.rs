//! The terminal's main screen while a turn runs.
//!
//! It is append-only: finished lines are written once and scroll away. Below them a small live
//! region (the open block, a status line, typed-ahead text) is redrawn when it changes, in a
//! synchronized update. It never gets higher than the window, so nothing that scrolled away is ever
//! touched.
//!
//! What happens to the live region when the window gets narrower depends on the terminal: some
//! rewrap lines that are too long, some cut them. An unknown terminal is assumed to cut: a piece of
//! an old live region may stay visible then, but nothing of the conversation is erased.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use rethread_render::terminal::{fit_line, line_width, wrap_line};
use unicode_width::UnicodeWidthChar;

/// Begins and ends a synchronized update: a terminal that supports it shows all of it at once.
const UPDATE: (&str, &str) = ("\x1b[?2026h", "\x1b[?2026l");

/// Switches automatic wrapping off for rows that are drawn again, and on again. Terminals disagree about
/// the width of some characters, such as emoji with a skin tone: a row that is wider for the terminal than
/// it is here is cut, and does not become two that were counted as one. Finished lines keep it: nobody
/// counts them, and all of their text stays.
const ROWS: (&str, &str) = ("\x1b[?7l", "\x1b[?7h");

/// Erases this row from its beginning, and everything below it. Not with one sequence from the first
/// column: at the top of its window, tmux takes that for a new page, and keeps the old one in its
/// history.
const ERASE_BELOW: &str = "\x1b[K\x1b[C\x1b[J\r";

/// How long after a resize nothing is drawn. When a window changes several times in a row, tmux says
/// so at most every 250 ms; what is drawn in between is for a size that the window does not have.
const SETTLE: Duration = Duration::from_millis(300);

/// How often a screen that keeps changing is waited for before something is drawn on it anyway.
const SETTLES_MAX: usize = 4;

/// The alternate screen, for the pager.
const OTHER: (&str, &str) = ("\x1b[?1049h", "\x1b[?1049l");

/// Columns and lines of a window that does not say how many it has, such as a serial line.
const SIZE: (usize, usize) = (80, 24);

/// Terminals that rewrap lines when the window gets narrower, by a variable they set.
const REFLOWING: [&str; 7] = [
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "WEZTERM_PANE",
    "ALACRITTY_WINDOW_ID",
    "KONSOLE_VERSION",
    "WT_SESSION",
    "TMUX",
];

/// The same, by what they call themselves in `TERM_PROGRAM` or `TERM`.
const REFLOWING_NAMES: [&str; 9] = [
    "iTerm",
    "Apple_Terminal",
    "WezTerm",
    "ghostty",
    "vscode",
    "tmux",
    "foot",
    "kitty",
    "alacritty",
];

/// The main screen.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) columns: usize,
    pub(super) rows: usize,
    reflows: bool,
    /// What the live region shows.
    live: Vec<String>,
    /// Where the cursor is in it: the line, and the columns before it.
    cursor: (usize, usize),
    /// Rows from the first of the live region to the cursor, in the window as it is now.
    down: usize,
    /// Live regions that were drawn over a moment ago: until when they were shown, the columns of each
    /// line, and the cursor.
    before: VecDeque<(Instant, Vec<usize>, (usize, usize))>,
    /// The window changed since the live region was drawn.
    stale: bool,
    /// When the window changed last.
    resized_at: Option<Instant>,
    /// The alternate screen is active.
    is_other: bool,
}

impl Screen {
    /// The screen of this terminal.
    pub(super) fn new() -> Screen {
        let (columns, rows) = size();
        let name = ["TERM_PROGRAM", "TERM"].map(|name| std::env::var(name).unwrap_or_default());
        let is_named = |known: &&str| name.iter().any(|name| name.contains(*known));
        let reflows = REFLOWING.iter().any(|name| std::env::var_os(name).is_some())
            || REFLOWING_NAMES.iter().any(is_named);
        Screen {
            columns,
            rows,
            reflows,
            live: Vec::new(),
            cursor: (0, 0),
            down: 0,
            before: VecDeque::new(),
            stale: false,
            resized_at: None,
            is_other: false,
        }
    }

    /// Removes the live region; the cursor is at the start of a line.
    pub(super) fn end(&mut self, done: &str) -> io::Result<()> {
        self.frame(done, Vec::new(), None).map_or(Ok(()), |frame| write(&frame))
    }

    /// Adds finished lines, and shows this below them.
    pub(super) fn draw(&mut self, done: &str, live: Vec<String>) -> io::Result<()> {
        self.frame(done, live, None).map_or(Ok(()), |frame| write(&frame))
    }

    /// The same if the window is not just changing; what is finished is kept until then.
    pub(super) fn draw_if_settled(
        &mut self,
        done: &mut String,
        live: Vec<String>,
    ) -> io::Result<()> {
        self.resized();
        match self.settles_in() {
            Duration::ZERO => self.draw(&std::mem::take(done), live),
            _ => Ok(()),
        }
    }

    /// The same as `draw`, with the cursor at a place in it: a line, and the columns before it.
    pub(super) fn draw_at(&mut self, live: Vec<String>, cursor: (usize, usize)) -> io::Result<()> {
        self.frame("", live, Some(cursor)).map_or(Ok(()), |frame| write(&frame))
    }

    /// Empties the window; what is shown is drawn again at its top.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        (self.live, self.cursor, self.down) = (Vec::new(), (0, 0), 0);
        self.before.clear();
        write("\x1b[H\x1b[2J")
    }

    /// Runs something while the live region is hidden.
    pub(super) fn aside<T>(&mut self, act: impl FnOnce() -> T) -> io::Result<T> {
        let is_other = self.is_other;
        if is_other {
            self.show_other(false)?;
        }
        self.end("")?;
        let done = act();
        self.resized();
        if is_other {
            self.show_other(true)?;
        }
        Ok(done)
    }

    /// Shows lines on the other screen.
    pub(super) fn draw_other(&self, lines: &[String]) -> io::Result<()> {
        let rows = written_over(lines);
        write(&format!("{}{}\x1b[H{rows}{}{}", UPDATE.0, ROWS.0, ROWS.1, UPDATE.1))
    }

    /// Shows lines on the other screen, with the cursor at a line and column, or without one. What is
    /// there is written over and not erased first, so nothing flickers.
    pub(super) fn draw_over(
        &self,
        lines: &[String],
        cursor: Option<(usize, usize)>,
    ) -> io::Result<()> {
        let cursor = match cursor {
            Some((row, column)) => format!("\x1b[{};{}H\x1b[?25h", row + 1, column + 1),
            None => String::new(),
        };
        let rows = format!("{}\x1b[H{}{}", ROWS.0, written_over(lines), ROWS.1);
        write(&format!("{}\x1b[?25l{rows}{cursor}{}", UPDATE.0, UPDATE.1))
    }

    /// Changes to the other screen, or back.
    pub(super) fn show_other(&mut self, shown: bool) -> io::Result<()> {
        self.is_other = shown;
        write(if shown { OTHER.0 } else { OTHER.1 })
    }

    /// Checks whether the window was resized.
    pub(super) fn resized(&mut self) -> bool {
        let (columns, rows) = size();
        self.resize(columns, rows)
    }

    /// How long to wait before something is drawn: the window may be changing still.
    pub(super) fn settles_in(&self) -> Duration {
        self.resized_at.map_or(Duration::ZERO, |at| SETTLE.saturating_sub(at.elapsed()))
    }

    /// Waits until the window stays as it is, for a second at the most.
    pub(super) async fn settled(&mut self) {
        for _ in 0..SETTLES_MAX {
            self.resized();
            match self.settles_in() {
                Duration::ZERO => return,
                left => tokio::time::sleep(left).await,
            }
        }
    }

    fn resize(&mut self, columns: usize, rows: usize) -> bool {
        if (columns, rows) == (self.columns, self.rows) {
            return false;
        }
        (self.columns, self.rows) = (columns, rows);
        (self.stale, self.resized_at) = (true, Some(Instant::now()));
        if self.reflows {
            // Its last frames may have been drawn in the new window: tmux says late what it did at once.
            // Then their rows were cut, and the rows are those of the frame before, so many more or
            // fewer as the frames have. The smallest of all is taken: nothing above is erased.
            let widths: Vec<usize> = self.live.iter().map(|line| line_width(line)).collect();
            let recent = self.before.iter().filter(|(until, ..)| until.elapsed() < SETTLE);
            let late = recent.map(|(_, widths, cursor)| {
                (rows_above(widths, *cursor, columns) + self.cursor.0).saturating_sub(cursor.0)
            });
            let now = rows_above(&widths, self.cursor, columns);
            self.down = late.fold(now, usize::min);
        }
        true
    }

    /// Remembers the live region that is drawn over.
    fn remember(&mut self, has_done: bool) {
        let now = Instant::now();
        self.before.retain(|(until, ..)| now.duration_since(*until) < SETTLE);
        if has_done {
            // The live region begins anew below what is finished: where, is known.
            self.before.clear();
        } else if !self.live.is_empty() {
            let widths = self.live.iter().map(|line| line_width(line)).collect();
            self.before.push_back((now, widths, self.cursor));
        }
    }

    /// The bytes that update the screen to this; empty if nothing changed.
    fn frame(
        &mut self,
        done: &str,
        mut live: Vec<String>,
        cursor: Option<(usize, usize)>,
    ) -> Option<String> {
        let most = self.rows.saturating_sub(1).max(1);
        live.drain(..live.len().saturating_sub(most));
        for line in &mut live {
            *line = fit_line(line, self.columns);
        }
        let last = live.len().saturating_sub(1);
        let end = (last, live.last().map_or(0, |line| line_width(line)));
        let cursor = cursor.map_or(end, |(line, before)| (line.min(last), before));
        if done.is_empty() && live == self.live && cursor == self.cursor && !self.stale {
            return None;
        }
        self.remember(!done.is_empty() || self.stale);
        let mut frame = UPDATE.0.to_owned();
        // What stays as it is above the first change is not written again. The last row is, where rows
        // are added below it: a line feed makes room for them at the bottom of the window, and moving
        // the cursor down does not.
        let same = self.live.iter().zip(&live).take_while(|(old, new)| old == new).count();
        let most = last.min(self.live.len().saturating_sub(1));
        let kept = if done.is_empty() && !self.stale { same.min(most) } else { 0 };
        if !self.live.is_empty() {
            frame.push('\r');
            frame.push_str(&rows_between(self.down, kept));
        }
        let rows = if self.live.is_empty() {
            frame.push_str(done);
            live[kept..].join("\n")
        } else if self.stale {
            frame.push_str(ERASE_BELOW);
            // Lines that were finished for a wider window.
            frame.extend(done.lines().map(|line| rewrapped(line, self.columns)));
            live[kept..].join("\n")
        } else {
            // One that takes two rows is written over the next, too.
            let takes_two_rows = |line: &str| widest(line) > self.columns;
            if done.lines().any(takes_two_rows) {
                frame.push_str(ERASE_BELOW);
            }
            frame.extend(done.split_inclusive('\n').map(|line| format!("\x1b[K{line}")));
            match live.is_empty() {
                true => written_over([""]),
                false => written_over(&live[kept..]),
            }
        };
        if !rows.is_empty() {
            frame.push_str(&format!("{}{rows}{}", ROWS.0, ROWS.1));
        }
        if cursor != end {
            frame.push('\r');
            frame.push_str(&rows_between(last, cursor.0));
            if cursor.1 > 0 {
                frame.push_str(&format!("\x1b[{}C", cursor.1));
            }
        }
        frame.push_str(UPDATE.1);
        (self.live, self.cursor, self.down, self.stale) = (live, cursor, cursor.0, false);
        Some(frame)
    }
}

/// Rows from the first of these lines to the cursor, in a window that has rewrapped them.
fn rows_above(widths: &[usize], (line, before): (usize, usize), columns: usize) -> usize {
    let columns = columns.max(1);
    let above: usize = widths.iter().take(line).map(|wide| wide.div_ceil(columns).max(1)).sum();
    // A cursor after the last column of a row is still in that row.
    above + before.saturating_sub(1) / columns
}

/// Rows that are written over others, with nothing left below. Each is erased when it is written, so
/// that none is blank in between. Not after it: at the end of a full row the cursor is still on its
/// last character.
fn written_over(rows: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut written = String::new();
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        match rows.peek() {
            Some(_) => written.push_str(&format!("\x1b[K{}\n", row.as_ref())),
            None => written.push_str(&format!("{ERASE_BELOW}{}", row.as_ref())),
        }
    }
    written
}

/// A finished line in a narrower window, whole rows. What it begins with is repeated: the spaces of an
/// indent, the bars of a quote.
fn rewrapped(line: &str, columns: usize) -> String {
    let mut text = 0;
    let mut rest = line;
    while let Some(first) = rest.chars().next().filter(|c| matches!(c, ' ' | '│' | '\x1b')) {
        let length = match first {
            '\x1b' => rest.find('m').map_or(rest.len(), |end| end + 1),
            first => first.len_utf8(),
        };
        rest = &rest[length..];
        let escape = &line[line.len() - rest.len() - length..line.len() - rest.len()];
        if first != '\x1b' || escape == "\x1b[0m" {
            text = line.len() - rest.len();
        }
    }
    let (margin, text) = line.split_at(text);
    let room = columns.saturating_sub(line_width(margin));
    let (margin, room) = if room * 2 > columns { (margin, room) } else { ("", columns) };
    wrap_line(text, room, 0).iter().map(|row| format!("{margin}{row}\n")).collect()
}

/// The columns a line takes at a terminal that counts each part of an emoji.
fn widest(line: &str) -> usize {
    let ascii: String = line.chars().filter(char::is_ascii).collect();
    let others = line.chars().filter(|c| !c.is_ascii());
    line_width(&ascii) + others.map(|c| c.width().unwrap_or(0)).sum::<usize>()
}

/// Moves the cursor from one row to another, in its column.
fn rows_between(from: usize, to: usize) -> String {
    match from.cmp(&to) {
        std::cmp::Ordering::Greater => format!("\x1b[{}A", from - to),
        std::cmp::Ordering::Less => format!("\x1b[{}B", to - from),
        std::cmp::Ordering::Equal => String::new(),
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Columns and lines of the window.
fn size() -> (usize, usize) {
    let size = terminal_size::terminal_size();
    size.map_or(SIZE, |(columns, rows)| (usize::from(columns.0), usize::from(rows.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(reflows: bool) -> Screen {
        Screen {
            columns: 20,
            rows: 6,
            reflows,
            live: Vec::new(),
            cursor: (0, 0),
            down: 0,
            before: VecDeque::new(),
            stale: false,
            resized_at: None,
            is_other: false,
        }
    }

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn bytes(frame: Option<String>) -> String {
        let frame = frame.expect("something changes");
        let inside = frame.strip_prefix(UPDATE.0).and_then(|rest| rest.strip_suffix(UPDATE.1));
        inside.expect("one synchronized update").replace(ROWS.0, "").replace(ROWS.1, "")
    }

    #[test]
    fn finished_lines_are_written_once_and_the_live_region_is_drawn_below_them() {
        let mut screen = screen(false);
        assert_eq!(bytes(screen.frame("", lines(&["one", "status"]), None)), "one\nstatus");
        assert_eq!(screen.frame("", lines(&["one", "status"]), None), None, "nothing changed");
        assert_eq!(
            bytes(screen.frame("one\n", lines(&["status"]), None)),
            format!("\r\x1b[1A\x1b[Kone\n{ERASE_BELOW}status")
        );
        let ended = bytes(screen.frame("two\n", Vec::new(), None));
        assert_eq!(ended, format!("\r\x1b[Ktwo\n{ERASE_BELOW}"));
        assert_eq!(bytes(screen.frame("three\n", Vec::new(), None)), "three\n");
    }

    #[test]
    fn the_live_region_is_never_higher_than_the_window_nor_wider() {
        let mut screen = screen(false);
        let many: Vec<String> = (0..50).map(|n| format!("{n}").repeat(20)).collect();
        let shown = bytes(screen.frame("", many, None));
        assert_eq!(shown.split('\n').count(), 5);
        assert!(shown.ends_with("4949494949494949494…"), "{shown}");
    }

    #[test]
    fn in_a_narrower_window_as_many_lines_are_erased_as_the_terminal_made_of_them() {
        for (reflows, up) in [(true, "\x1b[3A"), (false, "\x1b[1A")] {
            let mut screen = screen(reflows);
            screen.frame("", lines(&["0123456789abcdefghi", "status"]), None);
            assert!(screen.resize(8, 6));
            assert!(bytes(screen.frame("", lines(&["status"]), None)).contains(up), "{reflows}");
        }
        let mut screen = screen(true);
        screen.frame("", lines(&["one", "status"]), None);
        assert!(screen.resize(40, 6) && !screen.resize(40, 6));
        assert!(bytes(screen.frame("", lines(&["one", "status"]), None)).contains("\x1b[1A"));
    }

    #[test]
    fn two_resizes_without_a_frame_between_erase_what_is_there_and_nothing_above() {
        let mut screen = screen(true);
        screen.frame("", lines(&["0123456789abcdefghij", "status"]), None);
        assert!(screen.resize(8, 6) && screen.resize(6, 6));
        assert!(bytes(screen.frame("", lines(&["status"]), None)).contains("\x1b[4A"));
        screen.frame("", lines(&["0123ab", "status"]), None);
        assert!(screen.resize(3, 6) && screen.resize(20, 6));
        assert!(bytes(screen.frame("", lines(&["status"]), None)).contains("\x1b[1A"));
    }

    #[test]
    fn a_frame_that_may_have_been_drawn_in_the_narrower_window_makes_nothing_above_it_erased() {
        let mut screen = screen(true);
        screen.frame("", lines(&["0123", "status"]), None);
        screen.frame("", lines(&["0123456789abcdefghij", "status"]), None);
        assert!(screen.resize(8, 6));
        let next = bytes(screen.frame("", lines(&["status"]), None));
        assert!(next.starts_with("\r\x1b[1A\x1b"), "it was cut to one row, perhaps: {next:?}");
        screen.frame("", lines(&["0123456789abcdefghij", "status"]), None);
        screen.frame("done\n", lines(&["01234567", "status"]), None);
        assert!(screen.resize(4, 6));
        assert!(bytes(screen.frame("", lines(&["status"]), None)).starts_with("\r\x1b[3A"));
    }

    #[test]
    fn rows_that_stay_as_they_are_are_not_written_again_and_none_is_blank_in_between() {
        let mut screen = screen(true);
        screen.frame("", lines(&["one", "two", "three", "status 1"]), None);
        let next = bytes(screen.frame("", lines(&["one", "two", "four", "status 2"]), None));
        assert_eq!(next, format!("\r\x1b[1A\x1b[Kfour\n{ERASE_BELOW}status 2"));
        let fewer = bytes(screen.frame("", lines(&["one", "two"]), None));
        assert_eq!(fewer, format!("\r\x1b[2A{ERASE_BELOW}two"));
        let more = bytes(screen.frame("", lines(&["one", "two", "three"]), None));
        assert_eq!(more, format!("\r\x1b[Ktwo\n{ERASE_BELOW}three"), "a line feed makes room");
    }

    #[test]
    fn after_a_resize_everything_is_erased_first_and_what_was_finished_fits() {
        let mut screen = screen(true);
        screen.frame("", lines(&["one", "status"]), None);
        assert!(screen.settles_in().is_zero());
        assert!(screen.resize(8, 6) && !screen.settles_in().is_zero());
        let next = bytes(screen.frame("seven words\n", lines(&["status"]), None));
        assert_eq!(next, format!("\r\x1b[1A{ERASE_BELOW}seven\nwords\nstatus"));
    }

    #[test]
    fn a_finished_line_keeps_its_margin_when_the_window_gets_narrower() {
        for (line, rows) in [
            ("│ one two", "│ one\n│ two\n"),
            ("\x1b[2m│ \x1b[0mone two", "\x1b[2m│ \x1b[0mone\n\x1b[2m│ \x1b[0mtwo\n"),
            ("  \x1b[2mone two\x1b[0m", "  \x1b[2mone\n  two\x1b[0m\n"),
            ("      one two", "      one two\n"),
        ] {
            let columns = if line.starts_with("      ") { 13 } else { 6 };
            assert_eq!(rewrapped(line, columns), rows);
        }
        assert_eq!(rewrapped("    one two", 6), "one\ntwo\n", "a margin of half the window");
        assert_eq!(rewrapped("", 6), "\n");
    }

    #[test]
    fn only_rows_that_are_drawn_again_are_cut_by_a_terminal_that_counts_more_columns() {
        let mut screen = screen(true);
        let live = || lines(&["👍🏽 one", "status"]);
        let first = screen.frame("done\n", live(), None).expect("a frame");
        let rows = format!("{}👍🏽 one\nstatus{}", ROWS.0, ROWS.1);
        assert_eq!(first, format!("{}done\n{rows}{}", UPDATE.0, UPDATE.1));
        let next = bytes(screen.frame("👍🏽 of nineteen colum\n", live(), None));
        assert!(next.starts_with(&format!("\r\x1b[1A{ERASE_BELOW}\x1b[K👍🏽 of")), "{next:?}");
    }

    #[test]
    fn the_cursor_is_put_where_it_belongs_and_found_again() {
        let mut screen = screen(true);
        let shown = bytes(screen.frame("", lines(&["one", "two", "menu"]), Some((1, 2))));
        assert_eq!(shown, "one\ntwo\nmenu\r\x1b[1A\x1b[2C");
        assert_eq!(screen.frame("", lines(&["one", "two", "menu"]), Some((1, 2))), None);
        let moved = bytes(screen.frame("", lines(&["one", "two", "menu"]), Some((0, 0))));
        assert_eq!(moved, format!("\r\x1b[1B{ERASE_BELOW}menu\r\x1b[2A"));
        let less = bytes(screen.frame("", lines(&["x"]), None));
        assert_eq!(less, format!("\r{ERASE_BELOW}x"));
    }
}
