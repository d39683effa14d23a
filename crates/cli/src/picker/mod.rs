//! The session picker, on the alternate screen.
//!
//! [`Picker`] is a state machine without I/O: keys and results go in; lines, tasks and verbs come
//! out. `keys.rs` handles keys, `filter.rs` filters, `draw.rs` draws, `tasks.rs` reads the store in
//! the background. The chat owns the terminal and drives it (`chat/pick.rs`).
//!
//! Letters filter, until Tab switches to the keys: someone who types `server` must not trigger the
//! key `s`. One search of the store runs at a time; text typed in the meantime is searched next, so
//! nobody waits for outdated results.

mod draw;
mod filter;
mod keys;
mod row;
mod tasks;

use tasks::{PreviewSize, Said};
pub(crate) use tasks::{Task, TaskResult, run};

use std::collections::HashMap;

use jiff::Timestamp;
use rethread_core::{Session, SessionId};
use rethread_render::terminal::Style;

use crate::chat::paint::Paint;
use crate::out::clean;
use filter::WordFilter;
use row::Row;

/// Previews that are kept.
const PREVIEWS_MAX: usize = 64;

/// The user's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Continue this session.
    Open(SessionId),
    /// Start from the summary of this one.
    Summary(SessionId),
    /// Nothing.
    Close,
}

/// A verb for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// To what was typed.
    Rename(String),
    Fork,
    Archive,
    Unarchive,
    /// To the trash.
    Delete,
    /// Back from there.
    Restore,
}

/// What a key asks the chat to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PickerAction {
    Nothing,
    Choice(Choice),
    Do(SessionId, Verb),
    /// Ctrl-Z.
    Suspend,
}

/// The meaning of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Focus {
    /// Letters filter.
    Filter,
    /// Letters are keys.
    Keys,
    /// A new name is typed.
    Name(String),
}

/// The picker.
pub(crate) struct Picker {
    rows: Vec<Row>,
    /// Where each session is among them.
    places: HashMap<SessionId, usize>,
    /// The current session of the chat, which is not in the list.
    current: Option<SessionId>,
    /// The list is not complete yet.
    is_loading: bool,
    filter: String,
    words: WordFilter,
    /// The sessions in which the store found typed words.
    said: HashMap<SessionId, Said>,
    /// It found more than are listed.
    is_capped: bool,
    /// The search that is running.
    searching: Option<String>,
    /// The last search.
    searched: String,
    /// The members of a chain, if only those are shown: the newest first.
    chain: Option<Vec<Row>>,
    /// The rows that are shown.
    shown: Vec<usize>,
    selected: usize,
    focus: Focus,
    previews: HashMap<SessionId, Vec<String>>,
    previewing: Option<SessionId>,
    preview_size: PreviewSize,
    tasks: Vec<Task>,
    /// What `u` undoes: the archives and deletes, the last one first.
    undo: Vec<(SessionId, Verb)>,
    note: String,
    size: (usize, usize),
    style: Style,
    paint: Paint,
    home: String,
    now: Timestamp,
}

/// The environment of the picker.
pub(crate) struct Surroundings {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) style: Style,
    /// The home folder, shown as `~`.
    pub(crate) home: String,
    pub(crate) now: Timestamp,
}

impl Picker {
    /// A picker for someone who is in this session, or in none.
    pub(crate) fn new(current: Option<SessionId>, around: Surroundings) -> Picker {
        let Surroundings { columns, rows, style, home, now } = around;
        let mut picker = Picker {
            rows: Vec::new(),
            places: HashMap::new(),
            current,
            is_loading: true,
            filter: String::new(),
            words: WordFilter::new(),
            said: HashMap::new(),
            is_capped: false,
            searching: None,
            searched: String::new(),
            chain: None,
            shown: Vec::new(),
            selected: 0,
            focus: Focus::Filter,
            previews: HashMap::new(),
            previewing: None,
            preview_size: PreviewSize::default(),
            tasks: vec![Task::List(None)],
            undo: Vec::new(),
            note: String::new(),
            size: (columns, rows),
            paint: Paint::of(&style),
            style,
            home,
            now,
        };
        picker.preview_size = picker.layout().preview_size();
        picker
    }

    /// How previews are rendered.
    pub(crate) fn style(&self) -> Style {
        self.style.clone()
    }

    /// The window was resized.
    pub(crate) fn resize(&mut self, columns: usize, rows: usize) {
        self.size = (columns, rows);
        let preview_size = self.layout().preview_size();
        if preview_size != self.preview_size {
            self.preview_size = preview_size;
            self.previews.clear();
        }
        self.want_preview();
    }

    /// The pending tasks. Each is answered with [`found`](Picker::found).
    pub(crate) fn take_tasks(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    /// Handles the result of a task.
    pub(crate) fn found(&mut self, found: TaskResult) {
        let selected = self.selected_id().filter(|_| self.selected > 0);
        match found {
            TaskResult::List { sessions, next } => {
                sessions.iter().for_each(|session| self.add(session, true));
                self.is_loading = next.is_some();
                if !self.is_loading && self.rows.iter().any(|row| !row.is_listed) {
                    // A search was faster than the list.
                    self.rows.sort_by_key(|row| std::cmp::Reverse(row.active_at));
                    self.find_places();
                }
                self.tasks.extend(next.map(|next| Task::List(Some(next))));
            }
            TaskResult::Said { query, hits, is_capped } => {
                self.searching = None;
                self.searched.clone_from(&query);
                if query == self.filter {
                    self.said.clear();
                    self.is_capped = is_capped;
                    for (session, said) in hits {
                        if Some(session.id()) != self.current {
                            self.add(&session, false);
                            self.said.insert(session.id(), said);
                        }
                    }
                }
                self.want_search();
            }
            TaskResult::Preview { id, size, lines } => {
                self.previewing = None;
                if size == self.preview_size {
                    if self.previews.len() == PREVIEWS_MAX {
                        self.previews.clear();
                    }
                    self.previews.insert(id, lines);
                }
            }
            TaskResult::Chain { of, sessions } => {
                if self.selected_id() == Some(of) {
                    let row = |session| Row::new(session, &self.home, true);
                    self.chain = Some(sessions.iter().map(row).collect());
                    self.selected = 0;
                }
            }
            // It was deleted while its preview was being read.
            TaskResult::Failed { task: Task::Preview { id, .. }, .. }
                if self.row_of(id).is_none() =>
            {
                self.previewing = None;
            }
            TaskResult::Failed { task, what } => {
                match task {
                    Task::Search(query) => {
                        self.searching = None;
                        self.searched = query;
                    }
                    Task::Preview { id, .. } => {
                        self.previewing = None;
                        self.previews.insert(id, vec![crate::out::clean(&what)]);
                    }
                    Task::List(_) => self.is_loading = false,
                    Task::Chain(_) => {}
                }
                self.note = crate::out::one_line(&what);
            }
        }
        self.show();
        self.select_id(selected);
    }

    /// Handles the result of a verb: the changed session.
    pub(crate) fn done(&mut self, id: SessionId, verb: &Verb, session: &Session) {
        let name = match verb {
            // In the trash, a name can be used by others.
            Verb::Delete => self.label_of(id),
            _ => clean(&session.label()),
        };
        self.note = match verb {
            Verb::Rename(_) => format!("Renamed to {name}."),
            Verb::Fork => format!("Forked into {name}; Enter opens it."),
            Verb::Archive => format!("Archived {name}; u brings it back."),
            Verb::Delete => format!("Moved {name} to the trash; u brings it back."),
            Verb::Unarchive | Verb::Restore => format!("{name} is back."),
        };
        match verb {
            Verb::Archive => self.undo.push((id, Verb::Unarchive)),
            Verb::Delete => self.undo.push((id, Verb::Restore)),
            // It may have been brought back without `u`.
            Verb::Unarchive => self.undo.retain(|undo| *undo != (id, Verb::Unarchive)),
            Verb::Restore | Verb::Rename(_) | Verb::Fork => {}
        }
        self.previews.remove(&id);
        let mut selected = None;
        match verb {
            Verb::Fork => {
                self.chain = None;
                self.rows.insert(0, Row::new(session, &self.home, true));
                selected = Some(session.id());
            }
            Verb::Archive | Verb::Delete => {
                self.rows.retain(|row| row.id != id);
                if let Some(chain) = &mut self.chain {
                    chain.retain(|row| row.id != id);
                }
            }
            Verb::Unarchive | Verb::Restore => {
                self.rows.retain(|row| row.id != id);
                self.rows.push(Row::new(session, &self.home, true));
                self.rows.sort_by_key(|row| std::cmp::Reverse(row.active_at));
                selected = Some(id);
            }
            Verb::Rename(_) => {
                let chain = self.chain.iter_mut().flatten();
                for row in self.rows.iter_mut().chain(chain).filter(|row| row.id == id) {
                    *row = Row::new(session, &self.home, row.is_listed);
                }
                selected = Some(id);
            }
        }
        self.find_places();
        self.show();
        self.select_id(selected);
    }

    /// A verb failed.
    pub(crate) fn failed(&mut self, what: &str) {
        self.note = crate::out::one_line(what);
    }

    fn label_of(&self, id: SessionId) -> String {
        self.row_of(id).map_or_else(|| id.to_string(), |row| row.label.clone())
    }

    fn row_of(&self, id: SessionId) -> Option<&Row> {
        self.rows.iter().chain(self.chain.iter().flatten()).find(|row| row.id == id)
    }

    fn find_places(&mut self) {
        self.places = self.rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    }

    fn add(&mut self, session: &Session, is_listed: bool) {
        if Some(session.id()) == self.current {
            return;
        }
        match self.places.get(&session.id()) {
            Some(at) => self.rows[*at].is_listed |= is_listed,
            None => {
                self.places.insert(session.id(), self.rows.len());
                self.rows.push(Row::new(session, &self.home, is_listed));
            }
        }
    }

    /// Recomputes what is shown.
    fn show(&mut self) {
        self.shown = match &self.chain {
            Some(chain) => (0..chain.len()).collect(),
            None => self.words.fitting(&self.rows, &self.filter, &self.said),
        };
        self.select(self.selected);
    }

    fn leave_chain(&mut self) {
        let of = self.chain.take().and_then(|chain| chain.first().map(|row| row.id));
        self.show();
        self.select_id(of);
    }

    fn select(&mut self, at: usize) {
        self.selected = at.min(self.shown.len().saturating_sub(1));
        self.want_preview();
    }

    fn select_id(&mut self, id: Option<SessionId>) {
        let Some(id) = id else { return };
        let rows = self.visible_rows();
        let at = self.shown.iter().position(|at| rows[*at].id == id);
        if let Some(at) = at {
            self.select(at);
        }
    }

    fn visible_rows(&self) -> &[Row] {
        self.chain.as_deref().unwrap_or(&self.rows)
    }

    fn selected_row(&self) -> Option<&Row> {
        self.shown.get(self.selected).map(|at| &self.visible_rows()[*at])
    }

    fn selected_id(&self) -> Option<SessionId> {
        self.selected_row().map(|row| row.id)
    }

    fn want_preview(&mut self) {
        let Some(id) = self.selected_id() else { return };
        if self.previewing.is_none() && !self.previews.contains_key(&id) {
            self.previewing = Some(id);
            self.tasks.push(Task::Preview { id, size: self.preview_size });
        }
    }

    fn want_search(&mut self) {
        let is_wanted = !self.filter.trim().is_empty() && self.filter != self.searched;
        if self.searching.is_none() && is_wanted {
            self.searching = Some(self.filter.clone());
            self.tasks.push(Task::Search(self.filter.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
