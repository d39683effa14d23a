//! A terminal window: the real binary in a pseudo-terminal of a certain size, and what a
//! terminal shows for the bytes it writes.

use std::num::NonZeroU16;
use std::process::Command;

use crate::home::Home;
use crate::terminal::{Terminal, kill, quoted};

/// Lines that scrolled away and are kept.
const SCROLLBACK_LINES: usize = 1_000;

/// A window.
pub(crate) struct Window {
    terminal: Terminal,
    /// The device of the terminal.
    device: String,
    pid: String,
    /// The size from a byte on: columns and rows.
    sizes: Vec<(usize, u16, u16)>,
}

impl Window {
    /// Opens a window and starts `rethread` in it.
    pub(crate) fn open(
        home: &Home,
        (columns, rows): (u16, u16),
        args: &[&str],
        variables: &[(&str, String)],
    ) -> Window {
        Window::open_after("", home, (columns, rows), args, variables)
    }

    /// The same in a window in which so many numbered lines were printed before.
    pub(crate) fn open_below(
        printed: usize,
        home: &Home,
        size: (u16, u16),
        args: &[&str],
        variables: &[(&str, String)],
    ) -> Window {
        Window::open_after(&format!("seq -f 'row %g.' {printed}; "), home, size, args, variables)
    }

    fn open_after(
        before: &str,
        home: &Home,
        (columns, rows): (u16, u16),
        args: &[&str],
        variables: &[(&str, String)],
    ) -> Window {
        let program = quoted(&[&[env!("CARGO_BIN_EXE_rethread")], args].concat());
        let line = format!(
            "stty cols {columns} rows {rows}; echo \"device $(tty) $$.\"; {before}exec {program}"
        );
        let mut terminal = Terminal::run(home, &line, variables);
        terminal.expect("device ");
        let device = terminal.expect(" ");
        let pid = terminal.expect(".");
        // The output of the shell is not part of the window.
        let begin = terminal.wait("the shell's line", |bytes| {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            end.map(|at| at + 1).ok_or_else(|| "nothing".to_owned())
        });
        Window { terminal, device, pid, sizes: vec![(begin, columns, rows)] }
    }

    /// Kills the program at once, as a crash would.
    pub(crate) fn kill(self) {
        kill(&self.pid);
    }

    /// Waits until the window matches `wanted`, and returns its content.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        self.terminal.wait(what, |bytes| {
            let shown = lines(self.emulated(whole_updates(bytes)).screen());
            if wanted(&shown) { Ok(shown) } else { Err(shown) }
        })
    }

    /// Waits until all of this is visible.
    pub(crate) fn shows(&self, texts: &[&str]) -> String {
        self.until(&format!("{texts:?}"), |shown| texts.iter().all(|text| shown.contains(text)))
    }

    /// Everything in the window, including the scrollback.
    pub(crate) fn everything(&self) -> String {
        self.terminal.wait("anything", |bytes| {
            let mut emulated = self.emulated(bytes);
            let mut all = Vec::new();
            let screen = emulated.screen_mut();
            for back in (1..=screen.scrollback_len()).rev() {
                screen.set_scrollback(back);
                let width = screen.size().1.get();
                all.push(screen.rows(0, width).next().unwrap_or_default().trim_end().to_owned());
            }
            screen.set_scrollback(0);
            all.push(lines(screen));
            Ok(all.join("\n"))
        })
    }

    /// Waits until the program has ended, and returns the terminal as it left it.
    pub(crate) fn ended(&self) -> vt100::Parser {
        self.emulated(&self.terminal.all_bytes())
    }

    /// Waits until the program has ended, and returns what the window shows then.
    pub(crate) fn at_the_end(&self) -> String {
        lines(self.ended().screen())
    }

    /// Resizes the window. Output for the narrower of two sizes fits both, so a frame that is being
    /// written meanwhile is interpreted with that size.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        let written = |window: &Window| window.terminal.wait("anything", |bytes| Ok(bytes.len()));
        let (before, is_wider) = (written(self), columns > self.sizes[self.sizes.len() - 1].1);
        let (text_columns, text_rows) = (columns.to_string(), rows.to_string());
        let args = ["-F", &self.device, "cols", &text_columns, "rows", &text_rows];
        assert!(Command::new("stty").args(args).status().expect("stty").success());
        let at = if is_wider { before } else { written(self) };
        self.sizes.push((at, columns, rows));
    }

    /// Types a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.terminal.press(format!("{line}\r"));
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: impl AsRef<[u8]>) {
        self.terminal.press(keys);
    }

    /// Every byte that was written.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.terminal.wait("anything", |bytes| Ok(bytes.to_vec()))
    }

    /// A terminal to which these bytes were written.
    pub(crate) fn emulated(&self, bytes: &[u8]) -> vt100::Parser {
        let size = |number: u16| NonZeroU16::new(number).expect("a window has a size");
        let (first, columns, rows) = self.sizes[0];
        let mut parser = vt100::Parser::new(size(rows), size(columns), SCROLLBACK_LINES);
        let mut from = first;
        for (at, columns, rows) in &self.sizes[1..] {
            let at = (*at).min(bytes.len());
            parser.process(&bytes[from..at]);
            parser.set_size(size(*rows), size(*columns));
            from = at;
        }
        parser.process(&bytes[from..]);
        parser
    }
}

/// The bytes up to a synchronized update that has not ended yet: until then a terminal shows none
/// of it.
fn whole_updates(bytes: &[u8]) -> &[u8] {
    let last = |mark: &[u8]| bytes.windows(mark.len()).rposition(|window| window == mark);
    match (last(b"\x1b[?2026h"), last(b"\x1b[?2026l")) {
        (Some(begin), end) if end.is_none_or(|end| end < begin) => &bytes[..begin],
        _ => bytes,
    }
}

/// The lines of a screen, without spaces and empty lines at the end.
fn lines(screen: &vt100::Screen) -> String {
    let width = screen.size().1.get();
    let lines: Vec<String> = screen.rows(0, width).map(|row| row.trim_end().to_owned()).collect();
    lines.join("\n").trim_end().to_owned()
}

/// What is shown, without how long it took: ` · 3 s`.
pub(crate) fn without_times(shown: &str) -> String {
    let mut parts = shown.split(" · ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(" s") {
            Some(after) if rest.len() < part.len() && !after.starts_with(char::is_alphanumeric) => {
                text += after;
            }
            _ => text = format!("{text} · {part}"),
        }
    }
    text
}
