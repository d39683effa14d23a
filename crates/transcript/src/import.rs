//! What is in a file, taken into the sessions of an owner.
//!
//! A reader says what it finds; here it becomes sessions and entries of a store. Ids come from the
//! source, so a second import adds only what is new. Entries are appended in batches, so the size
//! of a file does not matter.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc;

use jiff::Timestamp;
use rethread_core::entry::Body;
use rethread_core::limits::FIELD_BYTES_MAX;
use rethread_core::name::NameError;
use rethread_core::session::Parent;
use rethread_core::sessions::{Arrival, Coming, Import};
use rethread_core::{
    EntryId, Key, Kind, Name, New, Owner, Raw, SessionId, Sessions, StoreError, readable_id,
    sessions,
};

use crate::read::{self, Account, BoxError, Format, Found, FoundEntry, Link, Options, Sink};

/// The kind of the entry that says where a session came from.
pub const IMPORTED: &str = "imported";

/// Entries of one session that are appended at once.
const BATCH_ENTRIES: usize = 1_000;

/// Bytes of entries, about, that are held before they are appended.
const BATCH_BYTES: usize = 2 << 20;

/// Bytes of entries, about, that go from the reader to the writer at once.
const RELAY_BYTES: usize = 1 << 20;

/// Batches on their way from the reader to the writer. More would only take memory.
const RELAY_BATCHES: usize = 4;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Receipt {
    /// What became of the records of the file.
    pub account: Account,
    /// The sessions, in the order they were found.
    pub sessions: Vec<Imported>,
    /// Entries that were not there before.
    pub added: u64,
}

/// A session that was imported.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub owner: Owner,
    /// What people call it, where the source says so.
    pub name: Option<String>,
    /// Whether it was not there before.
    pub created: bool,
    /// Entries that were not there before.
    pub added: u64,
    /// Keys the file names for it that were not asked for, and not taken.
    pub keys_left: Vec<String>,
}

/// Why a file was not imported. What was taken over until then stays; importing again goes on.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] read::Error),
    /// Records are missing from the account: a fault of the reader.
    #[error("{records} records were read, but {accounted} are accounted for")]
    Unbalanced {
        /// Records that were read.
        records: u64,
        /// Records that were stored, kept or reported.
        accounted: u64,
    },
}

/// Imports a file, or a folder where the format is one. Without `sessions` nothing is written.
///
/// # Errors
///
/// [`ImportError`].
pub fn import(
    sessions: Option<&Sessions>,
    format: Format,
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Receipt, ImportError> {
    let desk = Desk {
        sessions,
        format,
        source: path.display().to_string(),
        modified: options.modified,
        takes_keys: options.keys,
        open: Vec::new(),
        held: 0,
        held_bytes: 0,
    };
    let (account, sessions) = match sessions {
        Some(_) => side_by_side(desk, |sink| read::read(format, path, options, sink, progress))?,
        None => {
            let mut desk = desk;
            let account = read::read(format, path, options, &mut desk, progress)?;
            (account, desk.imported())
        }
    };
    if !account.balances() {
        let accounted = account.stored + account.raw + account.unreadable;
        return Err(ImportError::Unbalanced { records: account.records, accounted });
    }
    let added = sessions.iter().map(|session| session.added).sum();
    Ok(Receipt { account, sessions, added })
}

/// Reads on one thread and writes on another: counting tokens takes as long as reading does.
fn side_by_side(
    mut desk: Desk<'_>,
    read: impl FnOnce(&mut dyn Sink) -> read::Result<Account>,
) -> Result<(Account, Vec<Imported>), ImportError> {
    let (give, take) = mpsc::sync_channel::<Vec<Item>>(RELAY_BATCHES);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || -> Result<Vec<Imported>, BoxError> {
            for batch in take {
                for item in batch {
                    match item {
                        Item::Session(found) => desk.session(*found)?,
                        Item::Entry(session, entry) => desk.entry(session, entry)?,
                        Item::Blob(session, bytes) => desk.blob(session, bytes)?,
                    }
                }
            }
            desk.flush(true)?;
            Ok(desk.imported())
        });
        let mut relay = Relay { give, batch: Vec::new(), bytes: 0 };
        let account = read(&mut relay);
        let account = account.and_then(|account| match relay.pass_on() {
            Ok(()) => Ok(account),
            Err(error) => Err(read::Error::Sink(error)),
        });
        drop(relay);
        // What the writer says explains why the reader could not go on.
        let sessions =
            writer.join().expect("the writer does not panic").map_err(read::Error::Sink)?;
        Ok((account?, sessions))
    })
}

/// What goes from the reader to the writer.
enum Item {
    Session(Box<Found>),
    Entry(usize, FoundEntry),
    Blob(usize, Vec<u8>),
}

/// The reader's end.
struct Relay {
    give: mpsc::SyncSender<Vec<Item>>,
    batch: Vec<Item>,
    bytes: usize,
}

impl Relay {
    fn pass_on(&mut self) -> Result<(), BoxError> {
        self.bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        self.give.send(batch).map_err(|_| "the store takes no more".into())
    }
}

impl Sink for Relay {
    fn session(&mut self, found: Found) -> Result<(), BoxError> {
        self.batch.push(Item::Session(Box::new(found)));
        Ok(())
    }

    fn entry(&mut self, session: usize, entry: FoundEntry) -> Result<(), BoxError> {
        self.bytes += weight(&entry.body);
        self.batch.push(Item::Entry(session, entry));
        match self.bytes > RELAY_BYTES {
            true => self.pass_on(),
            false => Ok(()),
        }
    }

    fn blob(&mut self, session: usize, bytes: Vec<u8>) -> Result<(), BoxError> {
        self.batch.push(Item::Blob(session, bytes));
        self.pass_on()
    }
}

/// The id a session of this format and identity gets.
pub fn session_id(owner: &Owner, format: Format, identity: &str) -> SessionId {
    // Our own sessions come home under the id they had.
    if format == Format::Rethread
        && let Ok(id) = serde_json::from_value(identity.into())
    {
        return id;
    }
    SessionId::of_source(owner, &format!("{}:{identity}", format.name()))
}

struct Desk<'a> {
    sessions: Option<&'a Sessions>,
    format: Format,
    source: String,
    modified: Timestamp,
    takes_keys: bool,
    open: Vec<Open>,
    held: usize,
    held_bytes: usize,
}

/// A session on its way in.
struct Open {
    import: Option<Import>,
    imported: Imported,
    batch: Vec<Coming>,
    at: Timestamp,
    windowed: bool,
}

impl Sink for Desk<'_> {
    fn session(&mut self, mut found: Found) -> Result<(), BoxError> {
        let keys_left = match self.takes_keys {
            true => Vec::new(),
            false => std::mem::take(&mut found.keys),
        };
        let owner = match (&found.owner, self.sessions) {
            (Some(owner), _) => Owner::new(owner)?,
            (None, Some(sessions)) => sessions.owner().clone(),
            (None, None) => Owner::local(),
        };
        let id = session_id(&owner, self.format, &found.identity);
        let at = found.created_at.unwrap_or(self.modified);
        let windowed = found.windowed;
        let name = found.name.clone();
        let (created, added) = (true, 0);
        let mut imported = Imported { id, owner: owner.clone(), name, created, added, keys_left };
        let mut mark = None;
        let import = match self.sessions {
            None => None,
            Some(sessions) => {
                let sessions = sessions.of_owner(owner.clone());
                let import = self.begin(&sessions, &owner, &found, at)?;
                imported.id = import.id();
                imported.created = import.created();
                mark = (self.format != Format::Rethread).then(|| self.mark(at)).transpose()?;
                Some(import)
            }
        };
        let batch: Vec<Coming> = mark.into_iter().collect();
        self.held += batch.len();
        self.open.push(Open { import, imported, batch, at, windowed });
        Ok(())
    }

    fn entry(&mut self, session: usize, entry: FoundEntry) -> Result<(), BoxError> {
        let FoundEntry { id, at, body } = entry;
        let open = self.open.get_mut(session).ok_or("an entry of no session")?;
        open.at = at.unwrap_or(open.at);
        let Some(import) = &open.import else {
            open.imported.added += 1;
            return Ok(());
        };
        let coming = Coming { id: EntryId::new(id)?, at: open.at, body };
        // What is known need not wait; but a window has to be seen whole.
        if !open.windowed && import.knows(&coming.id) && coming.body.message().is_none() {
            return Ok(());
        }
        self.held_bytes += weight(&coming.body);
        open.batch.push(coming);
        self.held += 1;
        if self.held_bytes > BATCH_BYTES || open.batch.len() >= BATCH_ENTRIES && !open.windowed {
            self.flush(false)?;
        }
        Ok(())
    }

    fn blob(&mut self, session: usize, bytes: Vec<u8>) -> Result<(), BoxError> {
        let open = self.open.get_mut(session).ok_or("an attachment of no session")?;
        if let Some(import) = &open.import {
            import.put_blob(&bytes)?;
        }
        Ok(())
    }
}

impl Desk<'_> {
    fn begin(
        &self,
        sessions: &Sessions,
        owner: &Owner,
        found: &Found,
        at: Timestamp,
    ) -> Result<Import, BoxError> {
        let id = session_id(owner, self.format, &found.identity);
        let parent = found.parent.as_ref().map(|link| self.parent(owner, link));
        let ours = self.format == Format::Rethread;
        let source = found.source.clone().unwrap_or_else(|| self.came_from(found));
        let new = New {
            kind: found.kind.clone().filter(|_| ours).unwrap_or(Kind::Imported),
            source: Some(source.chars().filter(|c| !c.is_control()).take(100).collect()),
            ..new_of(found)
        };
        let mut arrival = Arrival {
            id,
            new,
            created_at: at,
            parent: parent.filter(|parent| parent.id != id),
            keys: found.keys.iter().filter_map(|key| Key::new(key).ok()).collect(),
            archived: found.archived,
            imported: Some(self.came_from(found)),
        };
        match sessions.import(&arrival) {
            // The id is another owner's: a copy for this one.
            Err(sessions::Error::Store(StoreError::Exists { .. })) => {
                let identity = format!("{}:{}", self.format.name(), found.identity);
                arrival.id = SessionId::of_source(owner, &identity);
                Ok(sessions.import(&arrival)?)
            }
            other => Ok(other?),
        }
    }

    /// The format a session came in. What was imported before it was exported stays so.
    fn came_from(&self, found: &Found) -> String {
        let known = |name: &&String| Format::ALL.iter().any(|format| format.name() == *name);
        let before = found.imported.as_ref().filter(known);
        before.cloned().unwrap_or_else(|| self.format.name().to_owned())
    }

    fn parent(&self, owner: &Owner, link: &Link) -> Parent {
        let id = session_id(owner, self.format, &link.identity);
        Parent { id, origin: link.origin }
    }

    /// The entry that says where a session came from.
    fn mark(&self, at: Timestamp) -> Result<Coming, NameError> {
        let told = serde_json::json!({ "format": self.format.name(), "source": self.source });
        let body = Body::Unknown { kind: IMPORTED.into(), raw: Raw::of(&told) };
        Ok(Coming { id: EntryId::new(IMPORTED)?, at, body })
    }

    /// Sends what is held on its way; all of it is stored when this was the last of it.
    fn flush(&mut self, all: bool) -> Result<(), BoxError> {
        let mut last = None;
        for (place, open) in self.open.iter_mut().enumerate() {
            if open.batch.is_empty() || open.windowed && !all {
                continue;
            }
            let Some(import) = &mut open.import else { continue };
            let batch = std::mem::take(&mut open.batch);
            let batch = if open.windowed { fresh(import, batch)? } else { batch };
            let mut batch = batch.into_iter().peekable();
            while batch.peek().is_some() {
                let part: Vec<Coming> = batch.by_ref().take(BATCH_ENTRIES).collect();
                open.imported.added += import.send(part)?;
            }
            last = Some(place);
        }
        // While one session goes on growing, the others have all they will have for a while.
        for (place, open) in self.open.iter_mut().enumerate() {
            if let Some(import) = &mut open.import
                && (all || last != Some(place))
            {
                open.imported.added += import.settle()?;
            }
        }
        self.held = self.open.iter().map(|open| open.batch.len()).sum();
        self.held_bytes = 0;
        Ok(())
    }

    fn imported(self) -> Vec<Imported> {
        self.open.into_iter().map(|open| open.imported).collect()
    }
}

/// What of a window is new: what stands behind the longest overlap with the end of the log. Ids
/// are fingerprints, and equal words may be said often, so each gets the number of its occurrence.
fn fresh(import: &mut Import, batch: Vec<Coming>) -> Result<Vec<Coming>, BoxError> {
    let stored: Vec<String> = import.ids()?.iter().map(|id| base(id.as_str()).to_owned()).collect();
    let (fixed, window): (Vec<Coming>, Vec<Coming>) =
        batch.into_iter().partition(|coming| is_fixed(coming.id.as_str()));
    let log: Vec<&str> = stored.iter().map(String::as_str).filter(|id| !is_fixed(id)).collect();
    let ids: Vec<&str> = window.iter().map(|coming| coming.id.as_str()).collect();
    let skip = overlap(&log, &ids);
    let mut counts: HashMap<String, u32> = HashMap::new();
    for id in &log {
        *counts.entry((*id).to_owned()).or_default() += 1;
    }
    let mut fresh = fixed;
    for coming in window.into_iter().skip(skip) {
        let count = counts.entry(coming.id.as_str().to_owned()).or_default();
        *count += 1;
        let id = match *count {
            1 => coming.id,
            count => EntryId::new(format!("{}.{count}", coming.id.as_str()))?,
        };
        fresh.push(Coming { id, ..coming });
    }
    Ok(fresh)
}

/// An id that is no fingerprint of a message: marks, headers.
fn is_fixed(id: &str) -> bool {
    id == IMPORTED || id.contains(':') || id.contains('-')
}

/// An id without the number of its occurrence.
fn base(id: &str) -> &str {
    id.split_once('.').map_or(id, |(base, _)| base)
}

/// How many of `new` stand at the end of `log` already. All of a log may be at the beginning of
/// what grew; of a window, only the end of the log is.
fn overlap(log: &[&str], new: &[&str]) -> usize {
    // A file that became shorter says nothing new.
    if !new.is_empty() && log.windows(new.len()).any(|run| run == new) {
        return new.len();
    }
    let longest = log.len().min(new.len());
    (0..=longest).rev().find(|length| log.ends_with(&new[..*length])).unwrap_or(0)
}

/// Bytes of an entry, about. Only what is large has to be right.
fn weight(body: &Body) -> usize {
    match body {
        Body::Message(message) => {
            let blocks: usize = message
                .content
                .iter()
                .map(|block| match block.raw() {
                    Some(raw) => raw.get().len(),
                    None => text_weight(&block.kind),
                })
                .sum();
            let extra: usize = message.extra.iter().map(|(_, raw)| raw.get().len()).sum();
            blocks + extra + 200
        }
        Body::Unknown { raw, .. } => raw.get().len() + 200,
        _ => 400,
    }
}

fn text_weight(kind: &rethread_core::BlockKind) -> usize {
    use rethread_core::BlockKind;
    match kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => text.len(),
        BlockKind::Thinking(thinking) => thinking.text.len(),
        BlockKind::ToolUse(call) => call.input.get().len() + 100,
        BlockKind::ToolResult(result) => {
            result.content.iter().map(|block| text_weight(&block.kind)).sum::<usize>() + 100
        }
        BlockKind::Image { source } => source.get().len(),
        BlockKind::Unknown => 100,
    }
}

/// What is said about a session, as far as it fits a header.
fn new_of(found: &Found) -> New {
    let mut profile = found.profile.clone();
    for text in profile.texts_mut() {
        let kept = text.chars().filter(|c| !c.is_control());
        // Every character may be escaped in six bytes.
        *text = kept.take(FIELD_BYTES_MAX / 8).collect();
    }
    let name = found.name.as_deref().and_then(name_of);
    let readable_id = found.readable_id.clone().filter(|id| is_new_id(id));
    New { name, profile, readable_id, ..New::default() }
}

/// Whether a session may be known by the id that its file gives. A UUID is not readable, and what
/// is a position in a list would always be ambiguous.
fn is_new_id(id: &str) -> bool {
    let is_uuid = serde_json::from_value::<SessionId>(id.into()).is_ok();
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    !is_uuid && !is_number && id != "last" && readable_id::key(id).is_ok()
}

/// A name made from any text; none where nothing of it can be one.
fn name_of(text: &str) -> Option<Name> {
    let plain: String = text
        .chars()
        .take(200)
        .map(|c| if matches!(c, '/' | '\\' | '\0') { '-' } else { c })
        .collect();
    Name::new(&plain.replace("..", "-")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_goes_on_where_the_log_ends() {
        assert_eq!(overlap(&["a", "b", "c"], &["a", "b", "c", "d"]), 3);
        assert_eq!(overlap(&["a", "b", "c"], &["b", "c", "d"]), 2);
        assert_eq!(overlap(&["y", "n", "y"], &["y", "n", "y", "n", "y"]), 3);
        assert_eq!(overlap(&["a", "b"], &["c", "d"]), 0);
        assert_eq!(overlap(&["a", "b", "c"], &["a", "b"]), 2);
        assert_eq!(overlap(&[], &["a"]), 0);
    }

    #[test]
    fn any_title_becomes_a_name_or_none() {
        assert_eq!(
            name_of("Fix ../the/bug").map(|n| n.to_string()).as_deref(),
            Some("fix-the-bug")
        );
        assert_eq!(name_of("…"), None);
        assert_eq!(name_of("index"), None);
    }
}
