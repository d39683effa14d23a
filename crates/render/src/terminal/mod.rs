//! Documents and diffs for a terminal.
//!
//! The text never reaches the terminal as anything but text: the only escape sequences are those
//! written in `ansi`. No line is wider than the window, so a caller that redraws lines can count
//! them. Nothing is read from the terminal and the cursor is not moved: the result is a string.

pub(crate) mod ansi;
mod diff;
mod lines;
pub(crate) mod pieces;
mod style;
mod table;
mod wrap;
pub(crate) mod write;

pub use lines::{fit_line, line_width, wrap_line};
pub use style::{Colour, Style};

pub use crate::palette::Background;

use crate::diff::Diff;
use crate::document::Document;

/// The document as lines, each with its line feed.
pub fn render(document: &Document, style: &Style) -> String {
    let mut out = String::new();
    let mut writer = write::Writer::default();
    for piece in pieces::pieces(&document.blocks, false) {
        writer.write(&piece, style, &mut out);
    }
    out
}

/// The diff as lines, each with its line feed: a line of counts, then the changes with their line
/// numbers.
pub fn render_diff(diff: &Diff, style: &Style) -> String {
    diff::render(diff, style)
}
