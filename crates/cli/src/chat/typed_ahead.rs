//! Text that is typed while a turn runs: lines for later, and the beginning of one.

use super::buffer::{Buffer, Typed};
use super::keys::Key;

/// Lines that may be queued. People type a few; more than this is a paste without markers.
const LINES_MAX: usize = 1_000;

/// What was typed ahead.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TypedAhead {
    /// Lines that are sent when their turn comes.
    pub(super) lines: Vec<Typed>,
    /// The beginning of the next one.
    pub(super) part: Buffer,
}

impl TypedAhead {
    /// Handles a key. Returns whether it was one for this.
    pub(super) fn key(&mut self, key: &Key) -> bool {
        match key {
            Key::Text(text) => self.part.insert(text),
            Key::Paste(text) => self.part.paste(text),
            Key::NotText => self.part.insert("\u{fffd}"),
            Key::Backspace => self.part.backspace(),
            Key::EraseLine => drop(self.part.erase_to_start()),
            Key::EraseWord => drop(self.part.erase_word()),
            Key::Enter => {
                let line = std::mem::take(&mut self.part).typed();
                if !line.text.trim().is_empty() && self.lines.len() < LINES_MAX {
                    self.lines.push(line);
                }
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_the_beginning_of_one_are_kept_and_can_be_changed() {
        let mut typed = TypedAhead::default();
        let text = |text: &str| Key::Text(text.into());
        for key in [
            text("frist"),
            Key::EraseLine,
            text("first"),
            Key::Enter,
            Key::Enter,
            Key::Paste("a\nb".into()),
            text(" c dd"),
            Key::EraseWord,
            text("ex"),
            Key::Backspace,
        ] {
            assert!(typed.key(&key));
        }
        assert!(!typed.key(&Key::Escape));
        assert_eq!(typed.lines, [Typed::by_hand("first")]);
        assert_eq!(typed.part.text(), "a\nb c e");
    }
}
