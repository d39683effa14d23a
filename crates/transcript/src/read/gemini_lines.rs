//! Reads Gemini CLI's JSON lines: each message at its first position, with its latest text.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use jiff::Timestamp;
use rethread_core::Profile;
use rethread_core::entry::{Body, Origin};

use super::fields::Fields;
use super::gemini::{kind_of, meaning};
use super::gemini_fold::{Fold, List, Spot};
use super::output::{Out, Slot, fingerprint};
use super::sink::{FoundSession, Link};
use super::{Result, time};

/// Bytes that wait for an earlier message to be complete. A message that is rewritten after more
/// than this is placed where it was written last.
const HELD_BYTES_MAX: usize = 8 << 20;

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let fold = Fold::of(path)?;
    let lines = fold.lines;
    let mut reader = Reader {
        forks: Vec::new(),
        main: None,
        parent: parent(path, &fold),
        queue: VecDeque::new(),
        held: 0,
        answered: HashSet::new(),
        fold,
    };
    out.first_lines(path, lines, |out, number, line| reader.line(out, number, line))?;
    reader.flush(out, true)?;
    let (forks, bare) = (reader.fold.forks().count(), reader.fold.bare());
    if forks > 0 {
        out.note(format!("{forks} abandoned by going back, kept as forks"));
    }
    if bare > 0 {
        out.note(format!("{bare} of them contain only what came after going back"));
    }
    Ok(())
}

/// Subagents are in a folder named after the session that started them.
fn parent(path: &Path, fold: &Fold) -> Option<Link> {
    let folder = path.parent()?.file_name()?.to_str()?;
    let named = fold.fields.is_helper && folder != "chats";
    named.then(|| Link { identity: folder.to_owned(), origin: Origin::New })
}

struct Reader {
    fold: Fold,
    main: Option<usize>,
    forks: Vec<usize>,
    parent: Option<Link>,
    queue: VecDeque<Pending>,
    held: usize,
    answered: HashSet<String>,
}

/// Entries that wait for their turn.
enum Pending {
    /// A message that will be rewritten.
    Hole {
        node: usize,
    },
    Said {
        node: usize,
        text: String,
        records: u64,
    },
    Raw {
        id: String,
        kind: String,
        text: String,
    },
    Clear {
        id: String,
    },
}

impl Reader {
    fn line(&mut self, out: &mut Out<'_>, number: u64, line: &str) -> Result<()> {
        let Some(fields) = out.fields(number, line) else { return Ok(()) };
        self.begin(out, line)?;
        let id = out.id_of(line);
        if fields.word("id").is_some() {
            if !self.write((number, 0), line, 1) {
                self.push(Pending::Raw { id, kind: "replaced".into(), text: line.to_owned() });
            }
            return self.flush(out, false);
        }
        let patch = fields.object("$set");
        let kind = match (fields.has("projectHash"), fields.iter().next()) {
            (true, _) => "session".into(),
            (false, first) => first.map_or_else(|| "other".into(), |(key, _)| key.to_owned()),
        };
        self.push(Pending::Raw { id: id.clone(), kind, text: line.to_owned() });
        let list = self.fold.list_at(number);
        if list == Some(List::Anew) {
            self.push(Pending::Clear { id: format!("{id}:clear") });
        }
        let items = patch.as_ref().unwrap_or(&fields).list("messages");
        for (index, item) in items.unwrap_or_default().into_iter().enumerate() {
            self.write((number, index), item, 0);
        }
        self.flush(out, false)
    }

    /// Puts a message at its position; returns whether this is its final text.
    fn write(&mut self, spot: Spot, text: &str, records: u64) -> bool {
        let Some((node, told)) = self.fold.at(spot) else { return false };
        let (is_first, is_last) = (told.first == spot, told.last == spot);
        if !is_last {
            if is_first {
                self.push(Pending::Hole { node });
            }
            return false;
        }
        let said = Pending::Said { node, text: text.to_owned(), records };
        let is_hole =
            |pending: &Pending| matches!(pending, Pending::Hole { node: hole } if *hole == node);
        match self.queue.iter().position(is_hole) {
            Some(at) if !is_first => {
                self.held += text.len();
                self.queue[at] = said;
            }
            _ => self.push(said),
        }
        true
    }

    fn push(&mut self, pending: Pending) {
        self.held += pending.weight();
        self.queue.push_back(pending);
    }

    /// Emits the session and its forks, before the first entry.
    fn begin(&mut self, out: &mut Out<'_>, line: &str) -> Result<()> {
        if self.main.is_some() {
            return Ok(());
        }
        let told = &self.fold.fields;
        let first = || self.fold.first().map_or_else(|| fingerprint(&[line]), str::to_owned);
        let identity = told.session.clone().unwrap_or_else(first);
        let begun = told.begun.as_deref().and_then(|text| time::read(text, &out.options.zone));
        let main = FoundSession {
            identity: identity.clone(),
            profile: Profile {
                description: told.summary.clone(),
                agent: Some("gemini".into()),
                provider: Some("google".into()),
                workspace: told.workspace.clone(),
                ..Profile::default()
            },
            created_at: begun,
            parent: self.parent.clone(),
            ..FoundSession::default()
        };
        self.main = Some(out.session(main.clone())?);
        for (name, line) in self.fold.forks() {
            let parent = Some(Link { identity: identity.clone(), origin: Origin::Fork });
            let formerly = vec![format!("{identity}/back:{line}")];
            let identity = format!("{identity}/{name}");
            self.forks.push(out.session(FoundSession {
                identity,
                parent,
                formerly,
                ..main.clone()
            })?);
        }
        Ok(())
    }

    /// Emits what does not have to wait.
    fn flush(&mut self, out: &mut Out<'_>, all: bool) -> Result<()> {
        while let Some(first) = self.queue.front() {
            let is_hole = matches!(first, Pending::Hole { .. });
            if is_hole && !all && self.held <= HELD_BYTES_MAX {
                return Ok(());
            }
            let Some(pending) = self.queue.pop_front() else { return Ok(()) };
            self.held = self.held.saturating_sub(pending.weight());
            self.hand_over(out, pending)?;
        }
        Ok(())
    }

    fn hand_over(&mut self, out: &mut Out<'_>, pending: Pending) -> Result<()> {
        let Some(main) = self.main else { return Ok(()) };
        match pending {
            Pending::Hole { .. } => Ok(()),
            Pending::Raw { id, kind, text } => {
                out.raw(Slot { session: main, id, at: None }, &kind, &text)
            }
            Pending::Clear { id } => {
                out.entry(Slot { session: main, id, at: None }, Body::Cleared { before: None })
            }
            Pending::Said { node, text, records } => self.say(out, node, &text, records),
        }
    }

    fn say(&mut self, out: &mut Out<'_>, node: usize, text: &str, records: u64) -> Result<()> {
        let node = self.fold.node(node);
        let fields = Fields::of(text).unwrap_or_default();
        let at = fields.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone));
        let kind = kind_of(&fields);
        let session = node.fork.and_then(|fork| self.forks.get(fork).copied()).or(self.main);
        let Some(session) = session else { return Ok(()) };
        let slot = |end: &str| slot(session, at, &node.name, end);
        let Some(meant) = meaning(&fields, &mut self.answered) else {
            // What is in a list is kept with it.
            return if records == 0 { Ok(()) } else { out.raw(slot(""), &kind, text) };
        };
        let mut records = records;
        for (end, mut message) in meant {
            for fork in &node.copied {
                let copy = Body::Message(message.clone());
                out.entry(self::slot(self.forks[*fork], at, &node.name, end), copy)?;
            }
            if node.again {
                // The context starts again with it. Its cost was counted where it appeared first.
                message.usage = None;
                out.entry(slot(end), Body::Message(message))?;
            } else {
                out.message(slot(end), message, &kind, records)?;
            }
            records = 0;
        }
        Ok(())
    }
}

fn slot(session: usize, at: Option<Timestamp>, name: &str, end: &str) -> Slot {
    Slot { session, id: format!("{name}{end}"), at }
}

impl Pending {
    fn weight(&self) -> usize {
        match self {
            Pending::Said { text, .. } | Pending::Raw { text, .. } => text.len() + 100,
            Pending::Hole { .. } | Pending::Clear { .. } => 100,
        }
    }
}
