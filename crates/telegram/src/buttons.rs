//! Buttons below a message, and what pressing one means.

use std::hash::{DefaultHasher, Hash, Hasher};

use rethread_core::SessionId;
use rethread_core::store::Cursor;
use serde::{Deserialize, Serialize};

use crate::limits::BUTTON_BYTES_MAX;
use crate::wire::{InlineKeyboardButton, InlineKeyboardMarkup};

/// Characters of a button's text: more are cut off by a phone.
const TEXT_CHARS_MAX: usize = 48;

/// The action of a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Press {
    /// Open this session.
    Open(SessionId),
    /// Start from the summary of this session.
    Resume(SessionId),
    /// Ask whether to delete this session.
    AskDelete(SessionId),
    /// Delete this session.
    Delete(SessionId),
    /// Erase this session.
    Erase(SessionId),
    /// Restore this session from the trash.
    Undelete(SessionId),
    /// Show more sessions to open, resume or delete.
    More(Purpose, Cursor),
    /// Show the history before this entry; with cleared messages, or without.
    History { session: SessionId, before: u64, all: bool },
    /// Use the agent with this mark.
    Agent(u64),
    /// Work in the folder with this mark.
    Workspace(u64),
    /// Let the current agent continue this session.
    Accept(SessionId),
    /// Turn tools on in this imported session.
    Trust(SessionId),
    /// Change nothing.
    Nothing,
}

/// What a list of sessions is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To open one.
    Open,
    /// To start from the summary of one.
    Resume,
    /// To delete one.
    Delete,
}

impl Purpose {
    /// The action of a session's button in this list.
    pub(crate) fn press(self, session: SessionId) -> Press {
        match self {
            Purpose::Open => Press::Open(session),
            Purpose::Resume => Press::Resume(session),
            Purpose::Delete => Press::AskDelete(session),
        }
    }
}

impl Press {
    /// The data of the button, at most 64 bytes.
    pub(crate) fn data(self) -> String {
        let data = match self {
            Press::Open(id) => format!("o:{}", id.0.simple()),
            Press::Resume(id) => format!("r:{}", id.0.simple()),
            Press::AskDelete(id) => format!("d:{}", id.0.simple()),
            Press::Delete(id) => format!("D:{}", id.0.simple()),
            Press::Erase(id) => format!("E:{}", id.0.simple()),
            Press::Undelete(id) => format!("u:{}", id.0.simple()),
            Press::More(purpose, cursor) => {
                let purpose = match purpose {
                    Purpose::Open => 'o',
                    Purpose::Resume => 'r',
                    Purpose::Delete => 'd',
                };
                format!("m{purpose}:{cursor}")
            }
            Press::History { session, before, all } => {
                let kind = if all { 'H' } else { 'h' };
                format!("{kind}:{}:{before}", session.0.simple())
            }
            Press::Agent(mark) => format!("a:{mark}"),
            Press::Workspace(mark) => format!("w:{mark}"),
            Press::Accept(id) => format!("c:{}", id.0.simple()),
            Press::Trust(id) => format!("t:{}", id.0.simple()),
            Press::Nothing => "x:".into(),
        };
        debug_assert!(data.len() <= BUTTON_BYTES_MAX, "{data}");
        data
    }

    /// The action of a button. It is untrusted input: anything else is ignored.
    pub(crate) fn read(data: &str) -> Option<Press> {
        let (kind, rest) = data.split_once(':')?;
        let id = |text: &str| text.parse().ok().map(SessionId);
        match kind {
            "o" => id(rest).map(Press::Open),
            "r" => id(rest).map(Press::Resume),
            "d" => id(rest).map(Press::AskDelete),
            "D" => id(rest).map(Press::Delete),
            "E" => id(rest).map(Press::Erase),
            "u" => id(rest).map(Press::Undelete),
            "mo" => rest.parse().ok().map(|cursor| Press::More(Purpose::Open, cursor)),
            "mr" => rest.parse().ok().map(|cursor| Press::More(Purpose::Resume, cursor)),
            "md" => rest.parse().ok().map(|cursor| Press::More(Purpose::Delete, cursor)),
            "h" | "H" => {
                let (session, before) = rest.split_once(':')?;
                let (session, before) = (id(session)?, before.parse().ok()?);
                Some(Press::History { session, before, all: kind == "H" })
            }
            "a" => rest.parse().ok().map(Press::Agent),
            "w" => rest.parse().ok().map(Press::Workspace),
            "c" => id(rest).map(Press::Accept),
            "t" => id(rest).map(Press::Trust),
            "x" => Some(Press::Nothing),
            _ => None,
        }
    }
}

/// The button data for a name that may be too long for it.
pub(crate) fn mark(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Buttons below a message, in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Buttons(Vec<Vec<(String, String)>>);

impl Buttons {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a row with one button.
    pub(crate) fn row(self, text: &str, press: Press) -> Buttons {
        self.rows([(text.to_owned(), press)])
    }

    /// Adds a row.
    pub(crate) fn rows(mut self, row: impl IntoIterator<Item = (String, Press)>) -> Buttons {
        let row = row.into_iter().map(|(text, press)| (shown(&text), press.data()));
        self.0.push(row.collect());
        self
    }

    /// In Telegram's form.
    pub(crate) fn markup(&self) -> Option<InlineKeyboardMarkup<'_>> {
        if self.0.is_empty() {
            return None;
        }
        let rows = self.0.iter().map(|row| row.iter().map(button).collect());
        Some(InlineKeyboardMarkup { inline_keyboard: rows.collect() })
    }
}

fn button((text, data): &(String, String)) -> InlineKeyboardButton<'_> {
    InlineKeyboardButton { text, callback_data: data }
}

/// The text of a button: one line, never empty.
fn shown(text: &str) -> String {
    let seen = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    let clean: String = seen.filter(|c| !rethread_core::name::is_invisible(*c)).collect();
    let clean = clean.trim();
    match clean.chars().count() {
        0 => "…".into(),
        n if n <= TEXT_CHARS_MAX => clean.to_owned(),
        _ => clean.chars().take(TEXT_CHARS_MAX - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_button_fits_and_is_read_as_it_was_made() {
        let id = SessionId("ffffffff-ffff-7fff-bfff-ffffffffffff".parse().expect("an id"));
        let cursor: Cursor = format!("253402207200000.{id}").parse().expect("a cursor");
        for press in [
            Press::Open(id),
            Press::Resume(id),
            Press::AskDelete(id),
            Press::Delete(id),
            Press::Erase(id),
            Press::Undelete(id),
            Press::More(Purpose::Open, cursor),
            Press::More(Purpose::Resume, cursor),
            Press::More(Purpose::Delete, cursor),
            Press::History { session: id, before: u64::MAX, all: true },
            Press::History { session: id, before: 0, all: false },
            Press::Agent(u64::MAX),
            Press::Workspace(3),
            Press::Accept(id),
            Press::Trust(id),
            Press::Nothing,
        ] {
            let data = press.data();
            assert!(data.len() <= BUTTON_BYTES_MAX, "{data}");
            assert_eq!(Press::read(&data), Some(press));
        }
        for bad in ["", "o", "o:", "o:1", "q:1", "m:1", "h:1:2", "a:-1", "D:../x"] {
            assert_eq!(Press::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_text_of_a_button_is_one_short_line() {
        assert_eq!(shown("a\nb\u{202e}c"), "a bc");
        assert_eq!(shown(" \u{200b} "), "…");
        assert_eq!(shown(&"é".repeat(49)).chars().count(), 48);
    }
}
