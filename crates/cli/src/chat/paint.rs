//! How the chat's own words look: the label of a speaker, asides, warnings.
//!
//! What is said in a conversation is coloured by the renderer. Both follow the same style: without
//! colours there is no escape sequence at all.

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

    /// The name of who speaks.
    pub(crate) fn speaker(self, text: &str) -> String {
        self.sgr("1;36", text)
    }

    /// What is beside the conversation.
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

    /// What went wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.sgr("31", text)
    }

    /// What should be noticed.
    pub(crate) fn warning(self, text: &str) -> String {
        self.sgr("33", text)
    }

    /// What the person typed.
    pub(crate) fn you(self, text: &str) -> String {
        self.sgr("1;32", text)
    }
}
