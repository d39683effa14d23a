//! The style of the chat's own texts: labels, notes, warnings.
//!
//! The conversation is coloured by the renderer. Both use the same style: without colours, no
//! escape sequence is written.

use rethread_render::terminal::{Colour, Style};

/// How the chat's own words look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn of(style: &Style) -> Paint {
        Paint { on: style.colour != Colour::None }
    }

    fn sgr(self, code: &str, text: &str) -> String {
        match self.on && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    /// The label of a speaker.
    pub(crate) fn speaker(self, text: &str) -> String {
        self.sgr("1;36", text)
    }

    /// A note.
    pub(crate) fn dim(self, text: &str) -> String {
        self.sgr("2", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.sgr("1", text)
    }

    /// The row of a list that keys act on.
    pub(crate) fn selected(self, text: &str) -> String {
        self.sgr("7", text)
    }

    /// An error.
    pub(crate) fn bad(self, text: &str) -> String {
        self.sgr("31", text)
    }

    /// A warning.
    pub(crate) fn warning(self, text: &str) -> String {
        self.sgr("33", text)
    }

    /// Typed text.
    pub(crate) fn you(self, text: &str) -> String {
        self.sgr("1;32", text)
    }
}
