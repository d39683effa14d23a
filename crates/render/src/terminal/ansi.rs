//! The only place that writes escape sequences.
//!
//! Two kinds are written, and no other: colours and styles (SGR), and links (OSC 8). Both are closed
//! before a line ends, so a line can be scrolled, cut or printed alone.

use std::fmt::Write;
use std::sync::Arc;

use super::style::{Colour, Style};
use crate::palette::{self, Background, Role};

/// How text looks on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Face {
    pub(crate) bold: bool,
    pub(crate) italic: bool,
    pub(crate) underline: bool,
    pub(crate) strike: bool,
    pub(crate) role: Option<Role>,
}

impl Face {
    pub(crate) fn of(role: Role) -> Face {
        Face { role: Some(role), ..Face::default() }
    }
}

/// A piece of a line that looks the same.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) text: String,
    pub(crate) face: Face,
    pub(crate) link: Option<Arc<str>>,
}

impl Run {
    pub(crate) fn new(text: impl Into<String>, face: Face) -> Run {
        Run { text: text.into(), face, link: None }
    }

    pub(crate) fn mark(text: impl Into<String>) -> Run {
        Run::new(text, Face::of(Role::Mark))
    }

    fn continues(&self, face: Face, link: Option<&Arc<str>>) -> bool {
        let same_link = match (&self.link, link) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_link && self.face == face
    }
}

/// The runs of one line.
pub(crate) type Line = Vec<Run>;

/// Appends text to a line, to its last run if that looks the same.
pub(crate) fn push(line: &mut Line, text: &str, face: Face, link: Option<&Arc<str>>) {
    match line.last_mut() {
        Some(last) if last.continues(face, link) => last.text.push_str(text),
        _ => line.push(Run { text: text.to_owned(), face, link: link.cloned() }),
    }
}

/// Writes one line and its line feed.
pub(crate) fn write_line(line: &[Run], style: &Style, out: &mut String) {
    let end = line.iter().rposition(|run| !run.text.trim_end_matches(' ').is_empty());
    let line = end.map_or(&[][..], |end| &line[..=end]);
    let mut open: Option<&Arc<str>> = None;
    for (index, run) in line.iter().enumerate() {
        let text = match index + 1 == line.len() {
            true => run.text.trim_end_matches(' '),
            false => &run.text,
        };
        let link = run.link.as_ref().filter(|link| style.links && !link.starts_with('#'));
        if link.map(Arc::as_ptr) != open.map(Arc::as_ptr) {
            close_link(open, out);
            if let Some(address) = link {
                open_link(address, out);
            }
            open = link;
        }
        write_text(text, run.face, style, out);
    }
    close_link(open, out);
    out.push('\n');
}

/// Links of the same id light up together, so a link that was wrapped stays one.
fn open_link(address: &str, out: &mut String) {
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let id = address.bytes().fold(0x811c_9dc5, hash);
    write!(out, "\x1b]8;id={id:x};{address}\x1b\\").expect("a string can be written to");
}

fn close_link(open: Option<&Arc<str>>, out: &mut String) {
    if open.is_some() {
        out.push_str("\x1b]8;;\x1b\\");
    }
}

fn write_text(text: &str, face: Face, style: &Style, out: &mut String) {
    if style.colour == Colour::None || face == Face::default() || text.is_empty() {
        out.push_str(text);
        return;
    }
    out.push_str("\x1b[");
    let mut separator = "";
    let styles = [(face.bold, '1'), (face.italic, '3'), (face.underline, '4'), (face.strike, '9')];
    for (_, code) in styles.into_iter().filter(|(is_on, _)| *is_on) {
        out.push_str(separator);
        out.push(code);
        separator = ";";
    }
    if let Some(role) = face.role {
        out.push_str(separator);
        let (red, green, blue) = role.rgb(style.background);
        let written = match style.colour {
            Colour::None => Ok(()),
            _ if style.background == Background::Unknown => {
                write!(out, "{}", role.ansi(style.background))
            }
            Colour::Ansi16 => write!(out, "{}", role.ansi(style.background)),
            Colour::Ansi256 => write!(out, "38;5;{}", palette::nearest_256((red, green, blue))),
            Colour::TrueColour => write!(out, "38;2;{red};{green};{blue}"),
        };
        written.expect("a string can be written to");
    }
    out.push('m');
    out.push_str(text);
    out.push_str("\x1b[0m");
}
