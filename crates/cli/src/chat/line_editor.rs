//! The line editor: what each key does to the line, and what is shown below it.
//!
//! Keys go in; the result says what they mean for the caller (send the line, open the pager). The
//! view is computed when the screen is drawn, see `prompt_view.rs`. Nothing here reads a key,
//! writes to a terminal or looks up a file: [`Candidates`] provides completions.

use unicode_segmentation::UnicodeSegmentation;

use super::buffer::{Buffer, Erased, Typed};
use super::keys::Key;
use super::menu::{Choice, Menu};
use super::past_questions::PastQuestions;

/// The effect of a key beyond the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// Nothing.
    Goes,
    /// The line is sent.
    Sent(Typed),
    /// The line is discarded: Ctrl-C.
    Interrupted,
    /// End of input: Ctrl-D on an empty line.
    Over,
    /// The line contains bytes that are not text, and is discarded.
    NotText,
    /// What was pasted is too long.
    PasteTooLong,
    /// Something that is not about the line.
    Wanted(Key),
}

/// Provides completions.
pub(super) trait Candidates {
    /// Completions for a line that is typed up to here. `None` if nothing is completed.
    fn complete(&self, line: &str) -> Option<Completion>;
}

/// Completions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Completion {
    /// Characters before the cursor that a choice replaces.
    pub(super) replaces: usize,
    pub(super) choices: Vec<Choice>,
    /// There are more than these.
    pub(super) has_more: bool,
}

/// The query of a history search, and the line before it.
#[derive(Debug)]
struct Search {
    query: String,
    before: Buffer,
}

/// The line editor.
#[derive(Debug, Default)]
pub(super) struct LineEditor {
    pub(super) buffer: Buffer,
    pub(super) past: PastQuestions,
    menu: Option<(Menu, usize)>,
    search: Option<Search>,
    /// What was erased last.
    erased: Erased,
}

impl LineEditor {
    /// What a key does.
    pub(super) fn key(&mut self, key: &Key, candidates: &impl Candidates) -> Edited {
        if self.search.is_some() {
            return self.search_key(key, candidates);
        }
        if let Some(done) = self.menu_key(key, candidates) {
            return done;
        }
        let is_typing = matches!(key, Key::Text(_) | Key::Backspace | Key::EraseWord);
        match key {
            Key::Enter => return self.send(),
            Key::Interrupt => {
                self.leave();
                return Edited::Interrupted;
            }
            Key::EndOfInput if self.buffer.is_empty() => return Edited::Over,
            Key::PasteTooLong => return Edited::PasteTooLong,
            Key::Up if !self.buffer.step_line(false) => self.recall(true),
            Key::Down if !self.buffer.step_line(true) => self.recall(false),
            Key::Up | Key::Down => {}
            Key::Tab => self.open_menu(candidates, true),
            Key::Search => {
                let before = std::mem::take(&mut self.buffer);
                self.search = Some(Search { query: String::new(), before });
                self.show_matches();
            }
            key if !self.edit(key) => return Edited::Wanted(key.clone()),
            _ => {}
        }
        match is_typing {
            true => self.open_menu(candidates, false),
            false if !matches!(key, Key::Tab | Key::Search) => self.menu = None,
            false => {}
        }
        Edited::Goes
    }

    /// Changes the line. Whether the key is one for that.
    pub(super) fn edit(&mut self, key: &Key) -> bool {
        let buffer = &mut self.buffer;
        match key {
            Key::Text(text) => buffer.insert(text),
            Key::Paste(text) => buffer.paste(text),
            Key::NotText => buffer.is_damaged = true,
            Key::Backspace => buffer.backspace(),
            Key::Delete | Key::EndOfInput => drop(buffer.delete()),
            Key::EraseLine => self.erased = buffer.erase_to_start(),
            Key::EraseWord => self.erased = buffer.erase_word(),
            Key::EraseNextWord => self.erased = buffer.erase_next_word(),
            Key::EraseToEnd => self.erased = buffer.erase_to_end(),
            Key::Yank => buffer.put_back(&self.erased),
            Key::Left => drop(buffer.step(false)),
            Key::Right => drop(buffer.step(true)),
            Key::WordLeft => buffer.word_left(),
            Key::WordRight => buffer.word_right(),
            Key::Home => buffer.go_to_line_start(),
            Key::End => buffer.go_to_line_end(),
            _ => return false,
        }
        true
    }

    /// The menu, if one is open.
    pub(super) fn menu(&self) -> Option<&Menu> {
        self.menu.as_ref().map(|(menu, _)| menu)
    }

    /// The search, if one is active.
    pub(super) fn searched(&self) -> Option<&str> {
        self.search.as_ref().map(|search| search.query.as_str())
    }

    /// The questions of other sessions have been read; a search in progress finds them, too.
    pub(super) fn add_older(&mut self, older: Vec<String>) {
        self.past.add_older(older);
        self.show_matches();
    }

    /// There is more to complete than when the menu was opened.
    pub(super) fn refresh(&mut self, candidates: &impl Candidates) {
        if self.search.is_none() && self.menu.as_ref().is_none_or(|(menu, _)| !menu.is_chosen()) {
            self.open_menu(candidates, false);
        }
    }

    /// The line as it is sent.
    fn send(&mut self) -> Edited {
        if self.buffer.is_damaged {
            self.leave();
            return Edited::NotText;
        }
        let typed = self.buffer.typed();
        self.past.add(&typed);
        self.leave();
        Edited::Sent(typed)
    }

    fn leave(&mut self) {
        self.buffer = Buffer::default();
        (self.menu, self.search) = (None, None);
        self.past.leave();
    }

    /// Puts an earlier question into the line, or a later one.
    fn recall(&mut self, older: bool) {
        if let Some(found) = self.past.step(older, &self.buffer) {
            self.buffer = found;
        }
    }

    /// Opens the menu if there is something to complete. With `tab`, an unambiguous completion is
    /// inserted.
    fn open_menu(&mut self, candidates: &impl Candidates, tab: bool) {
        self.menu = None;
        let Some(found) = candidates.complete(&self.buffer.line_before()) else { return };
        // What is there already is not worth a menu.
        let whole = |choice: &Choice| self.ends_with(&choice.text, found.replaces);
        match found.choices.as_slice() {
            [] => {}
            [only] if tab => {
                let only = only.clone();
                self.take(&only, found.replaces, candidates);
            }
            [only] if whole(only) => {}
            _ => {
                let mut menu = Menu::new(found.choices);
                menu.has_more = found.has_more;
                if tab {
                    menu.step(true);
                }
                self.menu = Some((menu, found.replaces));
            }
        }
    }

    fn ends_with(&self, text: &str, replaces: usize) -> bool {
        text.trim_end().graphemes(true).count() == replaces
            && self.buffer.line_before().ends_with(text.trim_end())
    }

    /// Puts a choice into the line. A folder leads to what is in it, a command to what it takes.
    fn take(&mut self, choice: &Choice, replaces: usize, candidates: &impl Candidates) {
        self.buffer.replace_before(replaces, &choice.text);
        self.menu = None;
        if choice.text.ends_with(['/', ' ']) {
            self.open_menu(candidates, false);
        }
    }

    /// What a key does while a menu is open; `None` if it has no special meaning.
    fn menu_key(&mut self, key: &Key, candidates: &impl Candidates) -> Option<Edited> {
        let (menu, replaces) = self.menu.as_mut()?;
        let replaces = *replaces;
        match key {
            Key::Down | Key::Up if menu.is_chosen() || *key == Key::Down => {
                menu.step(*key == Key::Down);
            }
            Key::BackTab => menu.step(false),
            Key::Tab | Key::Enter if menu.is_chosen() || *key == Key::Tab => {
                let choice = menu.choice().clone();
                self.take(&choice, replaces, candidates);
                if *key == Key::Enter && choice.is_whole {
                    return Some(self.send());
                }
            }
            Key::Escape => self.menu = None,
            _ => return None,
        }
        Some(Edited::Goes)
    }

    /// What a key does during a search.
    fn search_key(&mut self, key: &Key, candidates: &impl Candidates) -> Edited {
        let Some(search) = &mut self.search else { return Edited::Goes };
        match key {
            Key::Text(text) | Key::Paste(text) => {
                search.query.push_str(text.trim_end_matches('\n'))
            }
            Key::Backspace => drop(search.query.pop()),
            Key::EraseLine | Key::EraseWord => search.query.clear(),
            Key::Search | Key::Up | Key::Down | Key::Tab => {
                if let Some((menu, _)) = &mut self.menu {
                    menu.step(*key != Key::Up);
                }
                return Edited::Goes;
            }
            Key::Escape | Key::Interrupt => {
                self.buffer = std::mem::take(&mut search.before);
                (self.search, self.menu) = (None, None);
                return Edited::Goes;
            }
            Key::Focus(_) | Key::Background(_) => return Edited::Wanted(key.clone()),
            // Any other key accepts the match, which can then be edited.
            key => {
                let found = self.menu.take().map(|(menu, _)| menu.choice().text.clone());
                self.buffer = match found {
                    Some(found) => self.past.recall(&found),
                    None => std::mem::take(&mut search.before),
                };
                self.search = None;
                return match key {
                    Key::Enter => Edited::Goes,
                    key => self.key(key, candidates),
                };
            }
        }
        self.show_matches();
        Edited::Goes
    }

    fn show_matches(&mut self) {
        let Some(search) = &self.search else { return };
        let choices: Vec<Choice> = self.past.find(&search.query).map(Choice::line).collect();
        self.menu = (!choices.is_empty()).then(|| {
            let mut menu = Menu::new(choices);
            menu.step(true);
            (menu, 0)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completes words that begin with a slash, and folders.
    struct Words(&'static [&'static str]);

    impl Candidates for Words {
        fn complete(&self, line: &str) -> Option<Completion> {
            if !line.starts_with('/') {
                return None;
            }
            let choice = |word: &&str| Choice {
                text: (*word).into(),
                label: (*word).into(),
                about: String::new(),
                is_whole: word.ends_with('e'),
            };
            let found = self.0.iter().filter(|word| word.starts_with(line));
            Some(Completion {
                replaces: line.chars().count(),
                choices: found.map(choice).collect(),
                has_more: false,
            })
        }
    }

    const WORDS: Words = Words(&["/cost ", "/clear ", "/archive", "/src/", "/src/a"]);

    fn press(editor: &mut LineEditor, keys: impl IntoIterator<Item = Key>) -> Edited {
        keys.into_iter().map(|key| editor.key(&key, &WORDS)).last().expect("a key")
    }

    fn text(text: &str) -> Key {
        Key::Text(text.into())
    }

    fn sent(text: &str) -> Edited {
        Edited::Sent(Typed::by_hand(text))
    }

    #[test]
    fn enter_sends_what_was_typed_and_never_what_a_menu_only_shows() {
        let mut editor = LineEditor::default();
        assert_eq!(press(&mut editor, [text("/c"), Key::Enter]), sent("/c"));
        assert_eq!(
            press(&mut editor, [text("/c"), Key::Down, Key::Down, Key::Enter]),
            Edited::Goes
        );
        assert_eq!(editor.buffer.text(), "/clear ");
        assert_eq!(press(&mut editor, [Key::Enter]), sent("/clear "));
        assert_eq!(press(&mut editor, [text("/a"), Key::Down, Key::Enter]), sent("/archive"));
    }

    #[test]
    fn tab_completes_what_is_certain_and_lets_one_choose_otherwise() {
        let mut editor = LineEditor::default();
        press(&mut editor, [text("/ar"), Key::Tab]);
        assert_eq!(editor.buffer.text(), "/archive");
        press(&mut editor, [Key::EraseLine, text("/c"), Key::Tab]);
        assert_eq!(editor.buffer.text(), "/cost ");
        press(&mut editor, [Key::EraseLine, text("/sr"), Key::Tab]);
        assert_eq!(editor.buffer.text(), "/src/");
        assert!(editor.menu().is_some(), "a folder leads to what is in it");
        press(&mut editor, [Key::Escape]);
        assert!(editor.menu().is_none());
        assert_eq!(press(&mut editor, [Key::Escape]), Edited::Wanted(Key::Escape));
    }

    #[test]
    fn earlier_questions_come_back_and_what_was_typed_is_not_lost() {
        let mut editor = LineEditor::default();
        for line in ["one", "two"] {
            press(&mut editor, [text(line), Key::Enter]);
        }
        press(&mut editor, [text("half"), Key::Up]);
        assert_eq!(editor.buffer.text(), "two");
        press(&mut editor, [Key::Up, Key::Up]);
        assert_eq!(editor.buffer.text(), "one");
        press(&mut editor, [Key::Down, Key::Down]);
        assert_eq!(editor.buffer.text(), "half");
        // In a text of several lines the arrows move the cursor first.
        press(&mut editor, [Key::EraseLine, text("a\nb"), Key::Up]);
        assert_eq!(editor.buffer.text(), "a\nb");
    }

    #[test]
    fn a_search_finds_the_newest_first_and_escape_brings_the_line_back() {
        let mut editor = LineEditor::default();
        for line in ["fix the test", "hello", "run the TEST again"] {
            press(&mut editor, [text(line), Key::Enter]);
        }
        press(&mut editor, [text("half"), Key::Search, text("test")]);
        assert_eq!(editor.searched(), Some("test"));
        assert_eq!(editor.menu().expect("found").choice().text, "run the TEST again");
        press(&mut editor, [Key::Search, Key::Enter]);
        assert_eq!((editor.buffer.text().as_str(), editor.searched()), ("fix the test", None));
        press(&mut editor, [Key::EraseLine, text("half"), Key::Search, text("x"), Key::Escape]);
        assert_eq!(editor.buffer.text(), "half");
        press(&mut editor, [Key::Search, text("nothing like it"), Key::Enter]);
        assert_eq!(editor.buffer.text(), "half", "nothing was found, and nothing is lost");
        // What other sessions asked may be read while someone searches.
        press(&mut editor, [Key::Search, text("like it")]);
        editor.add_older(vec!["nothing like it".into()]);
        press(&mut editor, [Key::Enter]);
        assert_eq!(editor.buffer.text(), "nothing like it");
    }

    #[test]
    fn what_was_erased_can_be_put_back() {
        let mut editor = LineEditor::default();
        press(&mut editor, [text("one two"), Key::EraseWord, Key::Home, Key::Yank]);
        assert_eq!(editor.buffer.text(), "twoone ");
    }

    #[test]
    fn bytes_that_are_not_text_cost_the_line() {
        let mut editor = LineEditor::default();
        assert_eq!(press(&mut editor, [text("caf"), Key::NotText, Key::Enter]), Edited::NotText);
        assert!(editor.buffer.is_empty());
        assert_eq!(press(&mut editor, [Key::EndOfInput]), Edited::Over);
        assert_eq!(press(&mut editor, [text("x"), Key::Interrupt]), Edited::Interrupted);
        assert!(editor.buffer.is_empty());
    }
}
