//! Imports the sessions in a file for an owner.
//!
//! A reader reports what it finds; this module turns it into sessions and entries of a store. Ids
//! come from the source, so a second import adds only what is new. Entries are appended in batches,
//! so files of any size can be imported.

use std::path::Path;
use std::sync::mpsc;

use jiff::Timestamp;
use rethread_core::entry::Body;
use rethread_core::limits::{EXTRA_BYTES_MAX, FIELD_BYTES_MAX};
use rethread_core::name::NameError;
use rethread_core::session::Parent;
use rethread_core::sessions::{Arrival, ArrivingEntry, Import};
use rethread_core::store::BoxError;
use rethread_core::{
    EntryId, Key, Name, New, Owner, Raw, SessionId, SessionKind, Sessions, StoreError, readable_id,
    sessions,
};

use crate::message_growth::{self, Rest};
use crate::overlap::{Numbers, Overlap, names_of, now_says};
use crate::read::{
    self, Account, Format, FoundEntry, FoundSession, Link, Options, Sink, fingerprint,
};

/// The kind of the entry that says where a session came from.
pub const IMPORTED: &str = "imported";

/// Entries of one session that are appended at once.
const BATCH_ENTRIES: usize = 1_000;

/// Bytes of entries, about, that are held before they are appended.
const BATCH_BYTES: usize = 2 << 20;

/// Bytes of entries, about, that are passed from the reader to the writer at once.
const RELAY_BYTES: usize = 1 << 20;

/// Batches in flight between the reader and the writer. More would only use memory.
const RELAY_BATCHES: usize = 4;

/// Records that wait until it is known whether the message before them is new.
const HELD_MAX: usize = 1_000;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportReceipt {
    /// What became of the records of the file.
    pub account: Account,
    /// The sessions, in the order they were found.
    pub sessions: Vec<Imported>,
    /// Entries that were added.
    pub added: u64,
}

/// A session that was imported.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Imported {
    pub id: SessionId,
    pub owner: Owner,
    /// Its name, if the source gives one.
    pub name: Option<String>,
    /// Whether it was created by this import.
    pub created: bool,
    /// Entries that were added.
    pub added: u64,
    /// Keys in the file that were not requested, and so not bound.
    pub keys_left: Vec<String>,
    /// Messages whose text has changed since they were imported.
    pub changed: u64,
    /// When its newest entry happened.
    pub last_at: Timestamp,
}

/// Why a file was not imported. What was imported before the error stays; importing again
/// continues.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] read::ReadError),
    /// Records are missing from the account: a bug in the reader.
    #[error("{records} records were read, but {accounted} are accounted for")]
    Unbalanced {
        /// Records that were read.
        records: u64,
        /// Records that were stored, kept raw or reported.
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
) -> Result<ImportReceipt, ImportError> {
    let importer = Importer {
        sessions,
        format,
        source: path.display().to_string(),
        modified: options.modified,
        takes_keys: options.keys,
        open: Vec::new(),
        held: 0,
        held_bytes: 0,
    };
    let (mut account, sessions) = match sessions {
        Some(_) => {
            side_by_side(importer, |sink| read::read(format, path, options, sink, progress))?
        }
        None => {
            let mut importer = importer;
            let account = read::read(format, path, options, &mut importer, progress)?;
            (account, importer.imported())
        }
    };
    if !account.balances() {
        let accounted = account.stored + account.raw + account.unreadable;
        return Err(ImportError::Unbalanced { records: account.records, accounted });
    }
    let changed: u64 = sessions.iter().map(|session| session.changed).sum();
    if changed > 0 {
        account.notes.push(format!(
            "{changed} of the messages changed since they were imported: both versions are kept"
        ));
    }
    let added = sessions.iter().map(|session| session.added).sum();
    Ok(ImportReceipt { account, sessions, added })
}

/// Reads on one thread and writes on another: counting tokens takes as long as reading does.
fn side_by_side(
    mut importer: Importer<'_>,
    read: impl FnOnce(&mut dyn Sink) -> read::Result<Account>,
) -> Result<(Account, Vec<Imported>), ImportError> {
    let (give, take) = mpsc::sync_channel::<Vec<Item>>(RELAY_BATCHES);
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || -> Result<Vec<Imported>, BoxError> {
            for batch in take {
                for item in batch {
                    match item {
                        Item::Session(found) => importer.session(*found)?,
                        Item::Entry(session, entry) => importer.entry(session, entry)?,
                        Item::Blob(session, bytes) => importer.blob(session, bytes)?,
                    }
                }
            }
            importer.flush(true)?;
            Ok(importer.imported())
        });
        let mut relay = Relay { give, batch: Vec::new(), bytes: 0 };
        let account = read(&mut relay);
        let account = account.and_then(|account| match relay.pass_on() {
            Ok(()) => Ok(account),
            Err(error) => Err(read::ReadError::Sink(error)),
        });
        drop(relay);
        // The writer's error explains why the reader could not continue.
        let sessions =
            writer.join().expect("the writer does not panic").map_err(read::ReadError::Sink)?;
        Ok((account?, sessions))
    })
}

/// What is sent from the reader to the writer.
enum Item {
    Session(Box<FoundSession>),
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
        self.give.send(batch).map_err(|_| "the store stopped accepting entries".into())
    }
}

impl Sink for Relay {
    fn session(&mut self, found: FoundSession) -> Result<(), BoxError> {
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
    // Our own sessions keep the id they had.
    if format == Format::Rethread
        && let Ok(id) = serde_json::from_value(identity.into())
    {
        return id;
    }
    SessionId::of_source(owner, &format!("{}:{identity}", format.name()))
}

struct Importer<'a> {
    sessions: Option<&'a Sessions>,
    format: Format,
    source: String,
    modified: Timestamp,
    takes_keys: bool,
    open: Vec<Open>,
    held: usize,
    held_bytes: usize,
}

/// A session that is being imported.
struct Open {
    import: Option<Import>,
    imported: Imported,
    batch: Vec<ArrivingEntry>,
    at: Timestamp,
    /// A window that may have been imported before. All of it has to be read before anything is
    /// stored: its content shows what is new and, if it has no name, which session it is.
    window: Option<Window>,
    /// A window that was not imported before. All of it is new, and is stored as it arrives.
    numbers: Option<Numbers>,
    /// Messages that may be the end of a message that is already stored.
    remnant: Remnant,
}

struct Window {
    found: Box<FoundSession>,
    owner: Owner,
    blobs: Vec<Vec<u8>>,
}

/// A file that lost its beginning may begin in the middle of a reply that is spread over several
/// records. What is left of the reply looks new until something known follows.
enum Remnant {
    /// Every message so far is known.
    Unseen,
    /// An unknown message, and after it records that contain no message.
    Held(Vec<ArrivingEntry>),
    /// Two messages were new, so everything after them is new too.
    Passed,
}

impl Sink for Importer<'_> {
    fn session(&mut self, mut found: FoundSession) -> Result<(), BoxError> {
        // The users of a bot are not invented by the file: they own these sessions.
        let keys_left = match self.takes_keys || self.format != Format::Rethread {
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
        let name = found.name.clone();
        let (created, added, changed, last_at) = (true, 0, 0, at);
        let mut imported = Imported {
            id,
            owner: owner.clone(),
            name,
            created,
            added,
            keys_left,
            changed,
            last_at,
        };
        let (mut import, mut window, mut batch) = (None, None, Vec::new());
        let mut numbers = None;
        if let Some(sessions) = self.sessions {
            if self.format != Format::Rethread {
                batch.push(self.mark(at)?);
            }
            let sessions = sessions.of_owner(owner.clone());
            let is_new = found.windowed && self.is_new(&sessions, &found)?;
            if !found.windowed || is_new {
                let begun = self.begin(&sessions, &owner, &found, at)?;
                (imported.id, imported.created) = (begun.id(), begun.created());
                // Another process may have created it in the meantime.
                import = (begun.created() || !found.windowed).then_some(begun);
            }
            if found.windowed {
                numbers = import.as_ref().map(|_| Numbers::default());
                let (found, owner, blobs) = (Box::new(found), owner, Vec::new());
                window = Some(Window { found, owner, blobs });
            }
        }
        self.held += batch.len();
        let remnant = Remnant::Unseen;
        self.open.push(Open { import, imported, batch, at, window, numbers, remnant });
        Ok(())
    }

    fn entry(&mut self, session: usize, entry: FoundEntry) -> Result<(), BoxError> {
        let FoundEntry { id, at, body } = entry;
        let ours = self.format == Format::Rethread;
        let open = self.open.get_mut(session).ok_or("an entry of no session")?;
        open.at = at.unwrap_or(open.at);
        open.imported.last_at = open.imported.last_at.max(open.at);
        let mut coming = ArrivingEntry { id: EntryId::new(id)?, at: open.at, body };
        let held = open.batch.len();
        match (&mut open.import, &open.window) {
            (None, None) => {
                open.imported.added += 1;
                return Ok(());
            }
            (Some(_), Some(_)) => {
                let numbers = open.numbers.get_or_insert_default();
                open.batch.push(numbers.number(coming)?);
            }
            (None, Some(_)) => {
                // There may be very many of them.
                if let Body::Message(message) = &mut coming.body {
                    message.content.shrink_to_fit();
                }
                open.batch.push(coming);
            }
            // Known messages need not wait.
            (Some(import), _) if coming.body.message().is_none() => {
                if import.knows(&coming.id) {
                    return Ok(());
                }
                open.keep(coming);
            }
            (Some(_), _) if ours => open.batch.push(coming),
            (Some(_), _) => open.say(coming, self.format)?,
        }
        let new = &open.batch[held..];
        self.held += new.len();
        self.held_bytes += new.iter().map(|coming| weight(&coming.body)).sum::<usize>();
        let is_full = open.batch.len() >= BATCH_ENTRIES && open.import.is_some();
        if self.held_bytes > BATCH_BYTES || is_full {
            self.flush(false)?;
        }
        Ok(())
    }

    fn blob(&mut self, session: usize, bytes: Vec<u8>) -> Result<(), BoxError> {
        let open = self.open.get_mut(session).ok_or("an attachment of no session")?;
        match (&open.import, &mut open.window) {
            (Some(import), _) => drop(import.put_blob(&bytes)?),
            (None, Some(window)) => window.blobs.push(bytes),
            (None, None) => {}
        }
        Ok(())
    }
}

impl Open {
    /// Handles a message. If it is known, only what is new in it is imported.
    fn say(&mut self, coming: ArrivingEntry, format: Format) -> Result<(), BoxError> {
        let Some(import) = &mut self.import else { return Ok(()) };
        let is_known = import.knows(&coming.id);
        match &mut self.remnant {
            Remnant::Unseen if !is_known && !import.created() => {
                self.remnant = Remnant::Held(vec![coming]);
                return Ok(());
            }
            Remnant::Held(held) => {
                let message = held.first().and_then(|held| held.body.message());
                if let (true, Some(message)) = (is_known, message) {
                    let before = import.message_before(&coming.id, message.role)?;
                    let before = before.as_ref().and_then(|entry| entry.body.message());
                    if before.is_some_and(|before| message_growth::is_part(message, before)) {
                        held.remove(0);
                    }
                }
                self.batch.append(held);
                self.remnant = if is_known { Remnant::Unseen } else { Remnant::Passed };
            }
            Remnant::Unseen | Remnant::Passed => {}
        }
        let Some(import) = &mut self.import else { return Ok(()) };
        let Some(message) = coming.body.message() else { return Ok(()) };
        if !import.has_changed(&coming.id, message) {
            self.batch.push(coming);
            return Ok(());
        }
        let (mut parts, mut number) = (Vec::new(), 0);
        let mut id = coming.id.clone();
        while let Some(entry) = import.stored(&id)? {
            parts.extend(entry.body.message().cloned());
            number += 1;
            id = part_id(&coming.id, number)?;
        }
        let (changed, rest) = match message_growth::rest(&parts, message) {
            Rest::Nothing => (None, None),
            Rest::More(more) => (None, Some(more)),
            Rest::Other(calls) => (Some(now_says(format, &coming.id, message)?), calls),
        };
        // Its calls are remembered, because the next messages may contain their results.
        let at = coming.at;
        self.batch.push(coming);
        if let Some((id, body)) = changed.filter(|(id, _)| !import.knows(id)) {
            self.imported.changed += 1;
            self.batch.push(ArrivingEntry { id, at, body });
        }
        self.batch.extend(rest.map(|rest| ArrivingEntry { id, at, body: Body::Message(rest) }));
        Ok(())
    }

    /// Handles a record without a message, in order.
    fn keep(&mut self, coming: ArrivingEntry) {
        match &mut self.remnant {
            Remnant::Held(held) => {
                held.push(coming);
                if held.len() > HELD_MAX {
                    self.say_remnant();
                }
            }
            _ => self.batch.push(coming),
        }
    }

    /// Nothing follows that could show whether the held messages are new.
    fn say_remnant(&mut self) {
        if let Remnant::Held(held) = &mut self.remnant {
            self.batch.append(held);
            self.remnant = Remnant::Passed;
        }
    }
}

impl Importer<'_> {
    fn begin(
        &self,
        sessions: &Sessions,
        owner: &Owner,
        found: &FoundSession,
        at: Timestamp,
    ) -> Result<Import, BoxError> {
        let mut arrival = self.arrival(owner, found, at);
        let known = found.formerly.iter().map(|old| session_id(owner, self.format, old));
        if let Some(known) = known.into_iter().find(|id| sessions.get(*id).is_ok()) {
            arrival.id = known;
        }
        match sessions.import(&arrival) {
            // Another owner has this id: this owner gets a copy.
            Err(sessions::Error::Store(StoreError::Exists { .. })) => {
                let identity = format!("{}:{}", self.format.name(), found.identity);
                arrival.id = SessionId::of_source(owner, &identity);
                Ok(sessions.import(&arrival)?)
            }
            other => Ok(other?),
        }
    }

    fn arrival(&self, owner: &Owner, found: &FoundSession, at: Timestamp) -> Arrival {
        let id = session_id(owner, self.format, &found.identity);
        let parent = found.parent.as_ref().map(|link| self.parent(owner, link));
        let ours = self.format == Format::Rethread;
        let source = found.source.clone().unwrap_or_else(|| self.came_from(found));
        let new = New {
            kind: found.kind.clone().filter(|_| ours).unwrap_or(SessionKind::Imported),
            source: Some(source.chars().filter(|c| !c.is_control()).take(100).collect()),
            ..new_of(found)
        };
        Arrival {
            id,
            new,
            created_at: at,
            parent: parent.filter(|parent| parent.id != id),
            keys: found.keys.iter().filter_map(|key| Key::new(key).ok()).collect(),
            archived: found.archived,
            imported: Some(self.came_from(found)),
        }
    }

    /// The format a session came in. If it was imported before it was exported, it stays marked as
    /// imported.
    fn came_from(&self, found: &FoundSession) -> String {
        let known = |name: &&String| Format::ALL.iter().any(|format| format.name() == *name);
        let before = found.imported.as_ref().filter(known);
        before.cloned().unwrap_or_else(|| self.format.name().to_owned())
    }

    fn parent(&self, owner: &Owner, link: &Link) -> Parent {
        let id = session_id(owner, self.format, &link.identity);
        Parent { id, origin: link.origin }
    }

    /// The entry that says where a session came from.
    fn mark(&self, at: Timestamp) -> Result<ArrivingEntry, NameError> {
        let told = serde_json::json!({ "format": self.format.name(), "source": self.source });
        let body = Body::Unknown { kind: IMPORTED.into(), raw: Raw::of(&told) };
        Ok(ArrivingEntry { id: EntryId::new(IMPORTED)?, at, body })
    }

    /// Finds the session that a window belongs to, and what is new in the window.
    fn place(&mut self, place: usize) -> Result<(), BoxError> {
        let Some(sessions) = self.sessions else { return Ok(()) };
        let open = &mut self.open[place];
        let Some(Window { mut found, owner, blobs }) = open.window.take() else { return Ok(()) };
        if let Some(import) = &open.import {
            let (sessions, id) = (sessions.of_owner(owner), import.id());
            return self.bind(&sessions, &found, id);
        }
        let (batch, at) = (std::mem::take(&mut open.batch), found.created_at);
        let at = at.unwrap_or(self.modified);
        let sessions = sessions.of_owner(owner.clone());
        let (mut import, beside) = match self.of_this_file(&sessions, &found, &batch, at)? {
            Some(found) => found,
            None => {
                let mut import = self.begin(&sessions, &owner, &found, at)?;
                let mut beside = Overlap::of(&mut import, &batch, !found.nameless)?;
                let names = names_of(&found.identity, &batch).into_iter();
                for name in names.take_while(|_| found.nameless) {
                    if beside.is_one {
                        break;
                    }
                    found.identity = name;
                    found.formerly.clear();
                    import = self.begin(&sessions, &owner, &found, at)?;
                    beside = Overlap::of(&mut import, &batch, false)?;
                }
                (import, beside)
            }
        };
        self.bind(&sessions, &found, import.id())?;
        for bytes in blobs {
            import.put_blob(&bytes)?;
        }
        let open = &mut self.open[place];
        (open.imported.id, open.imported.created) = (import.id(), import.created());
        let (batch, changed) = beside.fresh(&mut import, batch, self.format)?;
        (open.batch, open.imported.changed) = (batch, changed);
        open.import = Some(import);
        Ok(())
    }

    /// The key of a file with one conversation that has no name. A file that lost its beginning can
    /// no longer be identified by it; then it is found by its path.
    fn key_of(&self, found: &FoundSession) -> Option<Key> {
        (self.open.len() == 1).then(|| self.key_of_file(found)).flatten()
    }

    fn key_of_file(&self, found: &FoundSession) -> Option<Key> {
        found.nameless.then(|| Key::new(format!("import:{}", self.source)).ok()).flatten()
    }

    /// Points the key of the file at its session.
    fn bind(
        &self,
        sessions: &Sessions,
        found: &FoundSession,
        id: SessionId,
    ) -> Result<(), BoxError> {
        if let Some(key) = self.key_of(found)
            && sessions.resolve(&key)? != Some(id)
        {
            sessions.bind(&key, id)?;
        }
        Ok(())
    }

    /// Whether no part of a window can have been imported before.
    fn is_new(&self, sessions: &Sessions, found: &FoundSession) -> Result<bool, BoxError> {
        if let Some(key) = self.key_of_file(found)
            && sessions.resolve(&key)?.is_some()
        {
            return Ok(false);
        }
        for identity in found.formerly.iter().chain([&found.identity]) {
            match sessions.get(session_id(sessions.owner(), self.format, identity)) {
                Err(sessions::Error::Store(StoreError::NotFound { .. })) => {}
                Ok(_) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// The session that this file was imported to earlier, if it is still the same conversation.
    fn of_this_file(
        &self,
        sessions: &Sessions,
        found: &FoundSession,
        batch: &[ArrivingEntry],
        at: Timestamp,
    ) -> Result<Option<(Import, Overlap)>, BoxError> {
        let Some(key) = self.key_of(found) else { return Ok(None) };
        let Some(id) = sessions.resolve(&key)? else { return Ok(None) };
        let arrival = Arrival { id, ..self.arrival(sessions.owner(), found, at) };
        let mut import = sessions.import(&arrival)?;
        let beside = Overlap::of(&mut import, batch, false)?;
        Ok((beside.is_one && beside.overlaps()).then_some((import, beside)))
    }

    /// Sends what is held; after the last batch, everything is stored.
    fn flush(&mut self, all: bool) -> Result<(), BoxError> {
        let mut last = None;
        for place in 0..self.open.len() {
            if all {
                self.open[place].say_remnant();
            }
            if self.send(place)? {
                last = Some(place);
            }
        }
        // While one session grows, nothing is added to the others for a while.
        for place in 0..self.open.len() {
            if all || last != Some(place) {
                self.settle(place)?;
            }
        }
        // A window is compared with everything stored, including earlier sessions of the same file.
        for place in 0..self.open.len() {
            if all && self.open[place].window.is_some() {
                self.place(place)?;
                self.send(place)?;
                self.settle(place)?;
            }
        }
        self.held = self.open.iter().map(|open| open.batch.len()).sum();
        self.held_bytes = 0;
        Ok(())
    }

    /// Sends what is held for a session. Returns whether there was anything.
    fn send(&mut self, place: usize) -> Result<bool, BoxError> {
        let open = &mut self.open[place];
        let Some(import) = &mut open.import else { return Ok(false) };
        let mut batch = std::mem::take(&mut open.batch).into_iter().peekable();
        let is_any = batch.peek().is_some();
        while batch.peek().is_some() {
            let part: Vec<ArrivingEntry> = batch.by_ref().take(BATCH_ENTRIES).collect();
            open.imported.added += import.send(part)?;
        }
        Ok(is_any)
    }

    /// Waits until what was sent of a session is stored.
    fn settle(&mut self, place: usize) -> Result<(), BoxError> {
        let open = &mut self.open[place];
        if let Some(import) = &mut open.import {
            open.imported.added += import.settle()?;
            open.imported.created = import.created();
        }
        Ok(())
    }

    fn imported(self) -> Vec<Imported> {
        self.open.into_iter().map(|open| open.imported).collect()
    }
}

/// The id for the new part of a message that was imported earlier.
fn part_id(id: &EntryId, number: usize) -> Result<EntryId, NameError> {
    EntryId::new(format!("{}+{number}", id.as_str()))
        .or_else(|_| EntryId::new(fingerprint(&[id.as_str(), &number.to_string()])))
}

/// Bytes of an entry, approximately. This only has to be right for large ones.
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

/// A description of a session, cut to what fits into a header.
fn new_of(found: &FoundSession) -> New {
    let mut profile = found.profile.clone();
    for text in profile.texts_mut() {
        let kept = text.chars().filter(|c| !c.is_control());
        // Each character may be escaped as six bytes.
        *text = kept.take(FIELD_BYTES_MAX / 8).collect();
    }
    let name = found.name.as_deref().and_then(name_of);
    let readable_id = found.readable_id.clone().filter(|id| is_new_id(id));
    let extra = Some(found.extra.clone());
    let extra = extra.filter(|extra| Raw::of(extra).get().len() <= EXTRA_BYTES_MAX);
    New { name, profile, readable_id, extra: extra.unwrap_or_default(), ..New::default() }
}

/// Whether a session can be found by the id in its file. A UUID is not readable, and an id that
/// looks like a position in a list would always be ambiguous.
fn is_new_id(id: &str) -> bool {
    let is_uuid = serde_json::from_value::<SessionId>(id.into()).is_ok();
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    !is_uuid && !is_number && id != "last" && readable_id::key(id).is_ok()
}

/// A name derived from any text, or none if no part of it is allowed in a name.
fn name_of(text: &str) -> Option<Name> {
    let plain: String = text
        .chars()
        .take(200)
        .map(|c| if matches!(c, '/' | '\\' | '\0') { ' ' } else { c })
        .collect();
    Name::new(&plain.replace("..", " ")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_title_becomes_a_name_or_none() {
        assert_eq!(
            name_of("Fix ../the/bug").map(|n| n.to_string()).as_deref(),
            Some("Fix the bug")
        );
        assert_eq!(name_of("…"), None);
        assert_eq!(name_of("index"), None);
    }
}
