//! The keys of the picker: selecting a session, typing a filter or a name, and verbs.

use rethread_core::Name;

use super::{Choice, Focus, Picker, PickerAction, Task, Verb};
use crate::chat::keys::Key;

/// Characters of a filter, and of a new name.
const TYPED_CHARS_MAX: usize = 200;

impl Picker {
    /// What a key does.
    pub(crate) fn key(&mut self, key: &Key) -> PickerAction {
        if let Key::Text(text) = key {
            return self.text(text);
        }
        let page = self.layout().list_rows.max(1);
        match key {
            Key::Suspend => return PickerAction::Suspend,
            Key::Escape => return self.escape(),
            Key::Enter => return self.enter(),
            Key::Tab => return self.text("\t"),
            Key::Paste(text) => self.type_text(text),
            Key::Backspace => self.edit(|typed| {
                typed.pop();
            }),
            Key::EraseLine => self.edit(String::clear),
            Key::EraseWord => self.edit(|typed| {
                let kept = typed.trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
                typed.truncate(kept);
            }),
            Key::Up => self.select(self.selected.saturating_sub(1)),
            Key::Down => self.select(self.selected + 1),
            Key::PageUp => self.select(self.selected.saturating_sub(page)),
            Key::PageDown => self.select(self.selected + page),
            Key::Home => self.select(0),
            Key::End => self.select(usize::MAX),
            _ => {}
        }
        PickerAction::Nothing
    }

    /// Typed letters; quick typing arrives as one text.
    fn text(&mut self, text: &str) -> PickerAction {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let typed = rest.find('\t').unwrap_or(rest.len());
            if matches!(self.focus, Focus::Filter | Focus::Name(_)) && typed > 0 {
                self.type_text(&rest[..typed]);
                rest = &rest[typed..];
                continue;
            }
            rest = &rest[c.len_utf8()..];
            let asked = self.letter(c);
            if asked != PickerAction::Nothing {
                return asked;
            }
        }
        PickerAction::Nothing
    }

    /// A letter that is a key.
    fn letter(&mut self, c: char) -> PickerAction {
        if c == '\t' {
            self.focus = match self.focus {
                Focus::Filter => Focus::Keys,
                _ => Focus::Filter,
            };
            return PickerAction::Nothing;
        }
        match self.focus {
            Focus::Filter | Focus::Name(_) => PickerAction::Nothing,
            Focus::Keys => self.command(c),
        }
    }

    fn command(&mut self, c: char) -> PickerAction {
        self.note.clear();
        let Some(row) = self.selected_row() else {
            return self.move_by(c);
        };
        let (id, title) = (row.id, row.title.clone());
        let title = if row.is_titled { title } else { String::new() };
        let verb = match c {
            's' => return PickerAction::Choice(Choice::Summary(id)),
            'r' => {
                self.focus = Focus::Name(title);
                return PickerAction::Nothing;
            }
            'c' => {
                match self.chain {
                    Some(_) => self.leave_chain(),
                    None => self.tasks.push(Task::Chain(id)),
                }
                return PickerAction::Nothing;
            }
            'f' => Verb::Fork,
            'd' => Verb::Delete,
            'a' if row.is_archived => Verb::Unarchive,
            'a' => Verb::Archive,
            c => return self.move_by(c),
        };
        PickerAction::Do(id, verb)
    }

    /// Keys that need no session.
    fn move_by(&mut self, c: char) -> PickerAction {
        match c {
            'q' => return PickerAction::Choice(Choice::Close),
            'u' => {
                // One that fails is not tried again, so that those before it can be undone.
                if let Some((id, verb)) = self.undo.pop() {
                    return PickerAction::Do(id, verb);
                }
                self.note = "No archive or delete to undo.".into();
            }
            '/' => self.focus = Focus::Filter,
            'j' => self.select(self.selected + 1),
            'k' => self.select(self.selected.saturating_sub(1)),
            'g' => self.select(0),
            'G' => self.select(usize::MAX),
            _ => {}
        }
        PickerAction::Nothing
    }

    fn escape(&mut self) -> PickerAction {
        self.note.clear();
        match self.focus {
            Focus::Filter if self.chain.is_some() => self.leave_chain(),
            Focus::Filter => return PickerAction::Choice(Choice::Close),
            Focus::Keys if self.chain.is_some() => self.leave_chain(),
            Focus::Keys => self.focus = Focus::Filter,
            Focus::Name(_) => self.focus = Focus::Keys,
        }
        PickerAction::Nothing
    }

    fn enter(&mut self) -> PickerAction {
        let Some(id) = self.selected_id() else { return PickerAction::Nothing };
        match &self.focus {
            Focus::Filter | Focus::Keys => PickerAction::Choice(Choice::Open(id)),
            Focus::Name(typed) => match Name::new(typed) {
                Ok(_) => {
                    let typed = typed.clone();
                    self.focus = Focus::Keys;
                    PickerAction::Do(id, Verb::Rename(typed))
                }
                Err(error) => {
                    self.note = error.to_string();
                    PickerAction::Nothing
                }
            },
        }
    }

    fn type_text(&mut self, text: &str) {
        let spaced = |c: char| if c.is_whitespace() { ' ' } else { c };
        self.edit(|typed| {
            let room = TYPED_CHARS_MAX.saturating_sub(typed.chars().count());
            typed.extend(text.chars().map(spaced).filter(|c| !c.is_control()).take(room));
        });
    }

    /// Edits the typed text: the new name, or the filter.
    fn edit(&mut self, change: impl FnOnce(&mut String)) {
        match &mut self.focus {
            Focus::Name(name) => {
                change(name);
                // What was wrong with it was about the name before.
                self.note.clear();
            }
            Focus::Filter | Focus::Keys => {
                let before = self.filter.clone();
                change(&mut self.filter);
                if self.filter == before {
                    return;
                }
                self.focus = Focus::Filter;
                self.chain = None;
                self.note.clear();
                self.said.clear();
                self.is_capped = false;
                self.searched.clear();
                self.selected = 0;
                self.show();
                self.want_search();
            }
        }
    }
}
