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

use std::io::{self, Write};

use rethread_render::terminal::{fit_line, line_width};

/// Begins and ends a synchronized update: a terminal that supports it shows all of it at once.
const UPDATE: (&str, &str) = ("\x1b[?2026h", "\x1b[?2026l");

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
    /// The window changed since the live region was drawn.
    stale: bool,
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
            stale: false,
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

    /// The same, with the cursor at a place in it: a line, and the columns before it.
    pub(super) fn draw_at(&mut self, live: Vec<String>, cursor: (usize, usize)) -> io::Result<()> {
        self.frame("", live, Some(cursor)).map_or(Ok(()), |frame| write(&frame))
    }

    /// Empties the window; what is shown is drawn again at its top.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        (self.live, self.cursor, self.down) = (Vec::new(), (0, 0), 0);
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
        write(&format!("{}\x1b[H\x1b[J{}{}", UPDATE.0, lines.join("\n"), UPDATE.1))
    }

    /// Shows lines on the other screen, with the cursor at a line and column, or without one. What is
    /// there is written over and not erased first, so nothing flickers.
    pub(super) fn draw_over(
        &self,
        lines: &[String],
        cursor: Option<(usize, usize)>,
    ) -> io::Result<()> {
        let lines = lines.join("\x1b[K\r\n");
        let cursor = match cursor {
            Some((row, column)) => format!("\x1b[{};{}H\x1b[?25h", row + 1, column + 1),
            None => String::new(),
        };
        write(&format!("{}\x1b[?25l\x1b[H{lines}\x1b[K\x1b[J{cursor}{}", UPDATE.0, UPDATE.1))
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

    fn resize(&mut self, columns: usize, rows: usize) -> bool {
        if (columns, rows) == (self.columns, self.rows) {
            return false;
        }
        (self.columns, self.rows) = (columns, rows);
        self.stale = true;
        if self.reflows {
            let columns = columns.max(1);
            let rows = |line: &String| line_width(line).div_ceil(columns).max(1);
            let (line, before) = self.cursor;
            let above: usize = self.live.iter().take(line).map(rows).sum();
            // A cursor after the last column of a row is still in that row.
            self.down = above + before.saturating_sub(1) / columns;
        }
        true
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
        let mut frame = UPDATE.0.to_owned();
        if !self.live.is_empty() {
            frame.push('\r');
            if self.down > 0 {
                frame.push_str(&format!("\x1b[{}A", self.down));
            }
            frame.push_str("\x1b[J");
        }
        frame.push_str(done);
        frame.push_str(&live.join("\n"));
        if cursor != end {
            frame.push('\r');
            if cursor.0 < last {
                frame.push_str(&format!("\x1b[{}A", last - cursor.0));
            }
            if cursor.1 > 0 {
                frame.push_str(&format!("\x1b[{}C", cursor.1));
            }
        }
        frame.push_str(UPDATE.1);
        (self.live, self.cursor, self.down, self.stale) = (live, cursor, cursor.0, false);
        Some(frame)
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
            stale: false,
            is_other: false,
        }
    }

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn bytes(frame: Option<String>) -> String {
        let frame = frame.expect("something changes");
        let inside = frame.strip_prefix(UPDATE.0).and_then(|rest| rest.strip_suffix(UPDATE.1));
        inside.expect("one synchronized update").to_owned()
    }

    #[test]
    fn finished_lines_are_written_once_and_the_live_region_is_drawn_below_them() {
        let mut screen = screen(false);
        assert_eq!(bytes(screen.frame("", lines(&["one", "status"]), None)), "one\nstatus");
        assert_eq!(screen.frame("", lines(&["one", "status"]), None), None, "nothing changed");
        assert_eq!(
            bytes(screen.frame("one\n", lines(&["status"]), None)),
            "\r\x1b[1A\x1b[Jone\nstatus"
        );
        assert_eq!(bytes(screen.frame("two\n", Vec::new(), None)), "\r\x1b[Jtwo\n");
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
    fn the_cursor_is_put_where_it_belongs_and_found_again() {
        let mut screen = screen(true);
        let shown = bytes(screen.frame("", lines(&["one", "two", "menu"]), Some((1, 2))));
        assert_eq!(shown, "one\ntwo\nmenu\r\x1b[1A\x1b[2C");
        assert_eq!(screen.frame("", lines(&["one", "two", "menu"]), Some((1, 2))), None);
        let moved = bytes(screen.frame("", lines(&["one", "two", "menu"]), Some((0, 0))));
        assert_eq!(moved, "\r\x1b[1A\x1b[Jone\ntwo\nmenu\r\x1b[2A");
        assert_eq!(bytes(screen.frame("", lines(&["x"]), None)), "\r\x1b[Jx");
    }
}
