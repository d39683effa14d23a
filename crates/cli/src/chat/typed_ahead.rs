//! Text that is typed while a turn runs: lines for later, and the beginning of one.

use super::buffer::{Buffer, Typed};
use super::keys::Key;
use super::paint::Paint;
use crate::out::{fit_end, one_line};

/// Lines that may be queued. People type a few; more than this is a paste without markers.
const LINES_MAX: usize = 1_000;

/// Lines that are shown while they wait.
const LINES_SHOWN: usize = 3;

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

    /// The latest lines, and the beginning of the next, as they are shown while something runs.
    pub(super) fn shown(&self, columns: usize, paint: Paint) -> Vec<String> {
        let latest = self.lines.len().saturating_sub(LINES_SHOWN);
        let mut shown: Vec<String> = self.lines[latest..]
            .iter()
            .map(|line| paint.dim(&format!("You: {}", one_line(&line.shown))))
            .collect();
        match latest {
            0 => {}
            1 => shown.insert(0, paint.dim("(1 more line is waiting)")),
            more => shown.insert(0, paint.dim(&format!("({more} more lines are waiting)"))),
        }
        if !self.part.is_empty() {
            // Where it is too long, its end is what someone is looking at.
            let room = columns.saturating_sub("You: ".len());
            let part = fit_end(&one_line(&self.part.typed().shown), room);
            shown.push(format!("{} {part}", paint.you("You:")));
        }
        shown
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
