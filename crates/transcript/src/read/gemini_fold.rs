//! Which lines of a Gemini file are messages, and in which order.
//!
//! The file is a journal of changes to a list. A line with an id adds a message or replaces an
//! earlier one, `$rewindTo` drops a message and everything after it, and `messages` (in `$set` or
//! in the header) replaces the list that the model knows. So the list is reconstructed in a first
//! pass, with a few bytes per message, before anything is emitted.

use std::collections::HashMap;
use std::path::Path;

use super::Result;
use super::fields::Fields;
use super::lines::{Line, Lines};

/// Messages that forks get as copies of what came before them, for all forks together. Beyond that,
/// forks hold their own part only.
const COPIES_MAX: usize = 200_000;

/// The position of a message: a line, and its index in the list of that line.
pub(super) type Spot = (u64, usize);

/// The result of a pass over a file.
#[derive(Default)]
pub(super) struct Fold {
    /// The last line that was read.
    pub(super) lines: u64,
    /// The session's metadata.
    pub(super) fields: SessionFields,
    nodes: Vec<Node>,
    /// The message that each position writes.
    spots: HashMap<Spot, usize>,
    /// The meaning of lists that replace the whole list.
    lists: HashMap<u64, List>,
    forks: Vec<Fork>,
    copies: usize,
    /// The current list, and the position of each id in it.
    now: Vec<usize>,
    ids: HashMap<String, usize>,
    names: HashMap<String, u32>,
}

/// The metadata of a session, from its header or later lines.
#[derive(Default)]
pub(super) struct SessionFields {
    pub(super) session: Option<String>,
    pub(super) begun: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) workspace: Option<String>,
    pub(super) is_helper: bool,
}

/// A message of the list.
pub(super) struct Node {
    id: String,
    /// The id of its entry.
    pub(super) name: String,
    /// Where it is written first, which determines its position.
    pub(super) first: Spot,
    /// Where it is written last, which determines its text.
    pub(super) last: Spot,
    /// The fork it was moved to.
    pub(super) fork: Option<usize>,
    /// It appeared before and is repeated here, because the context started again.
    pub(super) again: bool,
    /// Forks that branch off later.
    pub(super) copied: Vec<usize>,
}

/// Messages that were dropped together.
struct Fork {
    /// The first message that was dropped.
    name: String,
    /// The line that dropped them.
    line: u64,
    bare: bool,
}

/// What it means if a list is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// The same messages, with more at the end, or fewer.
    Same,
    /// The context starts again with it.
    Anew,
}

impl Fold {
    pub(super) fn of(path: &Path) -> Result<Fold> {
        let mut fold = Fold::default();
        let mut lines = Lines::open(path)?;
        // The second pass reports lines that cannot be read.
        while let Ok(Some((number, line))) = lines.next() {
            fold.lines = number;
            let Line::Text(line) = line else { continue };
            let Some(fields) = Fields::of(line) else { continue };
            fold.line(number, &fields);
        }
        Ok(fold)
    }

    fn line(&mut self, number: u64, fields: &Fields<'_>) {
        if let Some(id) = id_of(fields) {
            let spoken = is_spoken(fields);
            self.write(id, (number, 0), spoken);
            return;
        }
        if let Some(target) = fields.text("$rewindTo") {
            match self.ids.get(target.as_ref()).copied() {
                Some(node) => self.drop_from(number, node),
                // Gemini itself forgets everything then; nothing is dropped here.
                None => {
                    self.lists.insert(number, List::Anew);
                    self.forget();
                }
            }
            return;
        }
        let patch = fields.object("$set");
        let patch = patch.as_ref().unwrap_or(fields);
        self.fields.look(patch);
        if let Some(items) = patch.list("messages") {
            self.list(number, &items);
        }
    }

    /// A message is written, for the first time or again.
    fn write(&mut self, id: String, spot: Spot, spoken: bool) -> usize {
        if let Some(&node) = self.ids.get(&id) {
            self.nodes[node].last = spot;
            self.nodes[node].again = false;
            self.spots.insert(spot, node);
            return node;
        }
        let count = self.names.entry(id.clone()).or_default();
        *count += 1;
        let name = if *count == 1 { id.clone() } else { format!("{id}.{count}") };
        let node = self.nodes.len();
        self.ids.insert(id.clone(), node);
        let (first, last, copied) = (spot, spot, Vec::new());
        self.nodes.push(Node { id, name, first, last, fork: None, again: false, copied });
        self.spots.insert(spot, node);
        if spoken {
            self.now.push(node);
        }
        node
    }

    /// The list is replaced by another one.
    fn list(&mut self, number: u64, items: &[&str]) {
        let read: Vec<(usize, String)> = (items.iter().enumerate())
            .filter_map(|(index, item)| {
                let fields = Fields::of(item)?;
                Some((index, id_of(&fields).filter(|_| is_spoken(&fields))?))
            })
            .collect();
        let known = read.iter().map_while(|(_, id)| self.ids.get(id).copied());
        let same = known.zip(&self.now).take_while(|(one, two)| one == *two).count();
        if same == self.now.len() {
            // Everything that is there, and perhaps more: text before the first question arrives
            // this way.
            self.lists.insert(number, List::Same);
            for (index, id) in read.into_iter().skip(same) {
                self.write(id, (number, index), true);
            }
        } else if same == read.len() {
            // Fewer messages: a turn was given up.
            self.lists.insert(number, List::Same);
            self.drop_from(number, self.now[same]);
        } else {
            self.lists.insert(number, List::Anew);
            self.forget();
            for (index, id) in read {
                let node = self.write(id, (number, index), true);
                self.nodes[node].again = true;
            }
        }
    }

    /// Drops a message and everything after it.
    fn drop_from(&mut self, number: u64, node: usize) {
        let at = self.now.partition_point(|other| *other < node);
        let dropped = self.now.split_off(at);
        if dropped.is_empty() {
            return;
        }
        let fork = self.forks.len();
        self.copies += self.now.len();
        let bare = self.copies > COPIES_MAX;
        let name = self.nodes[dropped[0]].name.clone();
        self.forks.push(Fork { name, line: number, bare });
        if !bare {
            for kept in &self.now {
                self.nodes[*kept].copied.push(fork);
            }
        }
        for gone in dropped {
            let gone = &mut self.nodes[gone];
            gone.fork = Some(fork);
            self.ids.remove(&gone.id);
        }
    }

    fn forget(&mut self) {
        self.now.clear();
        self.ids.clear();
    }

    /// A message, by its number.
    pub(super) fn node(&self, node: usize) -> &Node {
        &self.nodes[node]
    }

    /// The message that is written at a position, and its number.
    pub(super) fn at(&self, spot: Spot) -> Option<(usize, &Node)> {
        self.spots.get(&spot).map(|&node| (node, &self.nodes[node]))
    }

    /// What the list of a line means, if it has one.
    pub(super) fn list_at(&self, line: u64) -> Option<List> {
        self.lists.get(&line).copied()
    }

    /// The names of the forks, and the lines that created them.
    pub(super) fn forks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.forks.iter().map(|fork| (fork.name.as_str(), fork.line))
    }

    /// The id of the first message.
    pub(super) fn first(&self) -> Option<&str> {
        self.nodes.first().map(|node| node.id.as_str())
    }

    /// Forks that hold their own part only.
    pub(super) fn bare(&self) -> usize {
        self.forks.iter().filter(|fork| fork.bare).count()
    }
}

impl SessionFields {
    fn look(&mut self, fields: &Fields<'_>) {
        self.session = self.session.take().or_else(|| fields.word("sessionId"));
        self.begun = self.begun.take().or_else(|| fields.word("startTime"));
        self.summary = fields.word("summary").or_else(|| self.summary.take());
        let folders = fields.list("directories").unwrap_or_default();
        let folder = folders.first().and_then(|first| super::fields::string(first));
        self.workspace = self.workspace.take().or_else(|| folder.map(|text| text.into_owned()));
        self.is_helper |= fields.text("kind").as_deref() == Some("subagent");
    }
}

fn id_of(fields: &Fields<'_>) -> Option<String> {
    fields.word("id")
}

/// Whether it is a message: notes of the program are not part of the list.
fn is_spoken(fields: &Fields<'_>) -> bool {
    let kind = fields.text("type");
    matches!(kind.as_deref(), Some("user" | "gemini" | "model" | "assistant"))
}
