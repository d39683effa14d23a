//! Imports a session, and adds to it when it is imported again.
//!
//! The ids of the session and its entries come from the source, so importing again adds only what
//! is new, and two concurrent imports write one log. Entries that the log already has are
//! recognised by their ids; entries of other writers stay where they are.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{Entries, Error, New, Result, Sessions, fits};
use crate::blob::BlobId;
use crate::entry::{Body, Entry, EntryId, NewEntry, Tally};
use crate::limits::{APPEND_TRIES_MAX, BATCH_ENTRIES_MAX, CALLS_OPEN_MAX, MESSAGE_BYTES_MAX};
use crate::measure::{Measure, measure};
use crate::message::{Block, BlockKind, Message, Role};
use crate::name::{Key, SessionId};
use crate::parallel;
use crate::readable_id;
use crate::session::{Header, Parent};
use crate::store::{self, Appended, At, Bind, Change, StoreError};

/// A session to import.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Its id, derived from its identity at the source.
    pub id: SessionId,
    /// Its fields. A system message is not imported: instructions come only from here.
    pub new: New,
    /// When it was started.
    pub created_at: Timestamp,
    /// The session it came from, which may be imported later or never.
    pub parent: Option<Parent>,
    /// Keys to bind to it, unless they are bound elsewhere.
    pub keys: Vec<Key>,
    /// Archived from the start.
    pub archived: bool,
    /// The format it came in; none for one of our own sessions.
    pub imported: Option<String>,
}

/// An entry to import.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivingEntry {
    /// Its id, the same each time it is imported.
    pub id: EntryId,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub body: Body,
}

/// A session that is being imported.
pub struct Import {
    sessions: Sessions,
    id: SessionId,
    created: bool,
    /// The format, while the header does not say that the session has imported text: it does as
    /// soon as something is added.
    unmarked: Option<String>,
    /// The tally and the ids of the log, including what was sent but is not stored yet.
    tally: Tally,
    known: HashMap<u64, Known>,
    /// Entries that were there when it began.
    begun: u64,
    /// How often each id of the log appears after a line number.
    numbered: HashMap<u64, u32>,
    calls: VecDeque<(String, String)>,
    sent: Option<Sent>,
    /// Entries that were stored and not reported yet.
    stored: u64,
}

/// An entry of the log.
#[derive(Clone, Copy)]
struct Known {
    seq: u64,
    /// A fingerprint of its text; none if it is not a message.
    words: Option<u64>,
}

/// Entries that were sent to the store.
struct Sent {
    entries: Vec<NewEntry>,
    /// The tally before them.
    before: Tally,
    outcome: mpsc::Receiver<store::Result<Appended>>,
}

impl Sessions {
    /// Starts importing a session: it is created, or found if it was imported before. If it was
    /// deleted since, it is restored from the trash.
    ///
    /// # Errors
    ///
    /// As [`create`](Sessions::create); [`StoreError::Exists`] if another owner has a session with
    /// this id.
    pub fn import(&self, arrival: &Arrival) -> Result<Import> {
        self.arrives_again(arrival.id)?;
        let (created, unmarked) = match self.get(arrival.id) {
            Ok(there) if there.header.imported.is_none() => (false, arrival.imported.clone()),
            Ok(_) => (false, None),
            Err(Error::Store(StoreError::NotFound { .. })) => (self.arrive(arrival)?, None),
            Err(error) => return Err(error),
        };
        let mut import = Import {
            sessions: self.clone(),
            id: arrival.id,
            created,
            unmarked,
            tally: Tally::default(),
            known: HashMap::new(),
            begun: 0,
            numbered: HashMap::new(),
            calls: VecDeque::new(),
            sent: None,
            stored: 0,
        };
        import.refresh()?;
        import.begun = import.tally.entries;
        Ok(import)
    }

    /// Creates the session. Returns whether it was new.
    fn arrive(&self, arrival: &Arrival) -> Result<bool> {
        let made = self.header(&arrival.new)?;
        let name = match &arrival.new.name {
            Some(name) => name.clone(),
            None => crate::name::Name::of_time(arrival.created_at, arrival.id),
        };
        let header = Header {
            id: arrival.id,
            name,
            created_at: arrival.created_at,
            parent: arrival.parent,
            archived: arrival.archived,
            imported: arrival.imported.clone(),
            ..made
        };
        let mut binds = Vec::new();
        for key in arrival.keys.iter().filter(|key| !readable_id::is_readable_id(key)) {
            if self.resolve(key)?.is_none() {
                binds.push(Bind { key: key.clone(), seen: None });
            }
        }
        let readable_id = arrival.new.readable_id.as_deref();
        match self.create_named(header, readable_id, &[], &binds) {
            Ok(_) => Ok(true),
            // Another import was first, perhaps under another numbered name, or took the key.
            Err(error) => match self.get(arrival.id) {
                Ok(_) => Ok(false),
                Err(_) => Err(error),
            },
        }
    }
}

impl Import {
    /// The session.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Whether it was created by this import. If several imports start at once, the one that writes
    /// its first entry created it, which is known once that is [settled](Import::settle).
    pub fn created(&self) -> bool {
        self.created
    }

    /// Stores an attachment with it.
    ///
    /// # Errors
    ///
    /// As [`Sessions::put_blob`].
    pub fn put_blob(&self, bytes: &[u8]) -> Result<BlobId> {
        self.sessions.put_blob(self.id, bytes)
    }

    /// Whether the log has an entry with this id, including what was sent but is not stored yet.
    pub fn knows(&self, id: &EntryId) -> bool {
        self.known.contains_key(&hash(id.as_str()))
    }

    /// Whether, when this import began, the log had a message with this id and another text: the
    /// source has rewritten it since.
    pub fn has_changed(&self, id: &EntryId, message: &Message) -> bool {
        let known = self.known.get(&hash(id.as_str())).filter(|known| known.seq < self.begun);
        known.and_then(|known| known.words).is_some_and(|words| words != words_of(message))
    }

    /// The entry of the log with this id.
    ///
    /// # Errors
    ///
    /// As [`append`](Import::append), for a batch that was [sent](Import::send) and is not stored
    /// yet.
    pub fn stored(&mut self, id: &EntryId) -> Result<Option<Entry>> {
        match self.known.get(&hash(id.as_str())) {
            Some(&Known { seq, .. }) => self.stored_at(seq),
            None => Ok(None),
        }
    }

    /// The entry at this position of the log.
    ///
    /// # Errors
    ///
    /// As [`stored`](Import::stored).
    pub fn stored_at(&mut self, seq: u64) -> Result<Option<Entry>> {
        self.wait()?;
        self.sessions.entries(self.id, seq..seq + 1).next().transpose()
    }

    /// The last message of this role in the log before the entry with this id.
    ///
    /// # Errors
    ///
    /// As [`stored`](Import::stored).
    pub fn message_before(&mut self, id: &EntryId, role: Role) -> Result<Option<Entry>> {
        self.wait()?;
        let Some(&Known { seq, .. }) = self.known.get(&hash(id.as_str())) else { return Ok(None) };
        let mut before = self.sessions.entries(self.id, 0..seq);
        let is_it = |entry: &Result<Entry>| match entry {
            Ok(entry) => entry.body.message().is_some_and(|message| message.role == role),
            Err(_) => true,
        };
        before.rfind(is_it).transpose()
    }

    /// All entries of the log, in order.
    ///
    /// # Errors
    ///
    /// As [`stored`](Import::stored).
    pub fn entries(&mut self) -> Result<Entries<'_>> {
        self.wait()?;
        Ok(self.sessions.entries(self.id, 0..self.tally.entries))
    }

    /// Appends those of the entries that the log does not have yet, and retries if another writer
    /// is first. Returns their number, including those that were [sent](Import::send) before.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::TooMany`], and errors of
    /// [`Store::append`](crate::store::Store::append).
    pub fn append(&mut self, coming: Vec<ArrivingEntry>) -> Result<u64> {
        Ok(self.send(coming)? + self.settle()?)
    }

    /// The same without waiting for the disk: the next batch is measured while the store writes
    /// this one. Returns how many of those sent before are stored by now. Errors of earlier batches
    /// are reported here as well, or by [`settle`](Import::settle), which has to be called last.
    ///
    /// # Errors
    ///
    /// As [`append`](Import::append).
    pub fn send(&mut self, coming: Vec<ArrivingEntry>) -> Result<u64> {
        if coming.len() > BATCH_ENTRIES_MAX {
            return Err(Error::TooMany { count: coming.len(), max: BATCH_ENTRIES_MAX });
        }
        let mut fresh = Vec::with_capacity(coming.len());
        let mut ids = HashSet::new();
        for ArrivingEntry { id, at, body } in coming {
            if let Body::Message(message) = &body
                && message.bytes_at_most() > MESSAGE_BYTES_MAX
            {
                fits("a message", message, MESSAGE_BYTES_MAX)?;
            }
            let new = !self.knows(&id) && ids.insert(id.clone());
            // Calls are remembered even if they are already stored: new entries may contain their
            // results.
            let names = self.follow(&body);
            if new {
                fresh.push((NewEntry { id, at, body, measure: Measure::default() }, names));
            }
        }
        weigh(&mut fresh);
        // One at a time: after a batch that failed, entries of another writer could be where the
        // next one expects it, and the order would be lost.
        let stored = self.settle()?;
        self.begin(fresh.into_iter().map(|(entry, _)| entry).collect())?;
        Ok(stored)
    }

    /// Waits until what was sent is stored. Returns how many entries this import stored and did not
    /// report yet: if two imports send the same entry, one of them counts it.
    ///
    /// # Errors
    ///
    /// Those of [`Store::append`](crate::store::Store::append), for the batch that was sent last.
    pub fn settle(&mut self) -> Result<u64> {
        self.wait()?;
        Ok(std::mem::take(&mut self.stored))
    }

    fn wait(&mut self) -> Result<()> {
        let Some(Sent { entries, before, outcome }) = self.sent.take() else { return Ok(()) };
        if let Ok(Ok(Appended { seqs, repeated, .. })) = outcome.recv()
            && seqs.first() == Some(&before.entries)
        {
            self.stored += self.own(before.entries, entries.len() as u64, repeated);
            return Ok(());
        }
        // It is retried below, and any error is reported then.
        self.tally = before;
        for entry in &entries {
            self.known.remove(&hash(entry.id.as_str()));
        }
        self.stored += self.write(entries)?;
        Ok(())
    }

    fn begin(&mut self, mut entries: Vec<NewEntry>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        // A file may say more than the session it was exported from, and anyone may have said it.
        if let Some(format) = self.unmarked.take() {
            let change = Change { imported: Some(Some(format)), ..Change::default() };
            self.sessions.update(self.id, &change)?;
        }
        let before = self.tally;
        self.tally = place(&mut entries, before);
        self.learn(before.entries, &entries);
        let (tell, outcome) = mpsc::sync_channel(1);
        // The import may have been dropped in the meantime.
        let then = Box::new(move |outcome| drop(tell.send(outcome)));
        let Sessions { store, owner, .. } = &self.sessions;
        store.append_then(owner, self.id, At::head(before.entries), entries.clone(), then);
        self.sent = Some(Sent { entries, before, outcome });
        Ok(())
    }

    fn write(&mut self, mut entries: Vec<NewEntry>) -> Result<u64> {
        for _ in 0..APPEND_TRIES_MAX {
            entries.retain(|entry| !self.knows(&entry.id));
            if entries.is_empty() {
                return Ok(0);
            }
            let tally = place(&mut entries, self.tally);
            let Sessions { store, owner, .. } = &self.sessions;
            let head = self.tally.entries;
            match store.append(owner, self.id, At::head(head), &entries) {
                Ok(Appended { seqs, repeated, .. }) if seqs.first() == Some(&head) => {
                    self.tally = tally;
                    self.learn(head, &entries);
                    return Ok(self.own(head, seqs.len() as u64, repeated));
                }
                // Another writer was first; its entries may be the same.
                Ok(_) | Err(StoreError::Conflict { .. }) => self.refresh()?,
                Err(error @ StoreError::IdReused { .. }) => {
                    self.refresh()?;
                    if self.tally.entries == head {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let (expected, actual) = (self.tally.entries, self.sessions.get(self.id)?.tally.entries);
        Err(StoreError::Conflict { id: self.id, expected, actual }.into())
    }

    /// How many of the entries at these positions were written by this import: none if another
    /// import sent the same ones first.
    fn own(&mut self, first: u64, count: u64, repeated: bool) -> u64 {
        if first == 0 {
            self.created = !repeated;
        }
        if repeated { 0 } else { count }
    }

    /// Registers entries that were sent, from this position on.
    fn learn(&mut self, first: u64, entries: &[NewEntry]) {
        for (seq, entry) in (first..).zip(entries) {
            let words = entry.body.message().map(words_of);
            self.known.insert(hash(entry.id.as_str()), Known { seq, words });
        }
    }

    /// Reads what the log contains by now.
    fn refresh(&mut self) -> Result<()> {
        let session = self.sessions.get(self.id)?;
        let end = session.tally.entries;
        // Another writer wrote the first entry.
        self.created &= !(self.tally.entries == 0 && end > 0);
        for entry in self.sessions.entries(self.id, self.tally.entries..end) {
            let entry = entry?;
            self.tally = entry.tally;
            let known = Known { seq: entry.seq, words: entry.body.message().map(words_of) };
            self.known.insert(hash(entry.id.as_str()), known);
            if let Some(id) = without_number(entry.id.as_str()) {
                let count = self.numbered.entry(hash(id)).or_default();
                *count += 1;
                let id = if *count == 1 { id.to_owned() } else { format!("{id}.{count}") };
                self.known.entry(hash(&id)).or_insert(known);
            }
        }
        if self.tally.entries < end {
            let (seq, what) = (self.tally.entries, "it is missing".into());
            return Err(StoreError::Damaged { id: self.id, seq, what }.into());
        }
        Ok(())
    }

    /// The tools that the results of an entry came from. Its calls are remembered until they have
    /// results.
    fn follow(&mut self, body: &Body) -> Names {
        let Some(message) = body.message() else { return Names::new() };
        let mut names = Names::new();
        for result in message.results() {
            let called = self.calls.iter().rev().find(|(id, _)| *id == result.tool_use_id);
            names.extend(called.cloned());
        }
        self.calls.retain(|(id, _)| names.iter().all(|(answered, _)| answered != id));
        self.calls.extend(message.calls().map(|call| (call.id.clone(), call.name.clone())));
        while self.calls.len() > CALLS_OPEN_MAX {
            self.calls.pop_front();
        }
        names
    }
}

/// The tally after these entries. If the log was cleared, they get the tally from before.
fn place(entries: &mut [NewEntry], mut tally: Tally) -> Tally {
    for entry in entries {
        if let Body::Cleared { before } = &mut entry.body {
            *before = before.or(tally.boundary);
        }
        tally = entry.placed(&tally).tally;
    }
    tally
}

/// Ids of calls, and the tools that were called.
type Names = Vec<(String, String)>;

/// Measures entries. Counting tokens takes most of the time of an import.
fn weigh(entries: &mut [(NewEntry, Names)]) {
    let measures = parallel::each(entries, |(entry, names)| {
        let named =
            |id: &str| names.iter().find(|(call, _)| call == id).map(|(_, name)| name.clone());
        measure(&entry.body, named)
    });
    for ((entry, _), measure) in entries.iter_mut().zip(measures) {
        entry.measure = measure;
    }
}

/// Sixty-four bits of an id are enough to recognise it among the millions of one session.
fn hash(id: &str) -> u64 {
    let digest = Sha256::digest(id);
    digest[..8].iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// An id without the number of the line it was read from. Earlier versions prefixed it; but a file
/// that loses its beginning renumbers its lines, so ids no longer have it.
fn without_number(id: &str) -> Option<&str> {
    let (number, rest) = id.split_once(':')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !rest.is_empty()).then_some(rest)
}

/// A fingerprint of the text of a message, valid in this process.
fn words_of(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.role.as_str().hash(&mut hasher);
    message.content.iter().for_each(|block| mix(block, &mut hasher));
    hasher.finish()
}

fn mix(block: &Block, hasher: &mut DefaultHasher) {
    std::mem::discriminant(&block.kind).hash(hasher);
    match &block.kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => text.hash(hasher),
        BlockKind::Thinking(thinking) => thinking.text.hash(hasher),
        BlockKind::ToolUse(call) => (&call.id, &call.name, call.input.get()).hash(hasher),
        BlockKind::ToolResult(result) => {
            result.tool_use_id.hash(hasher);
            result.content.iter().for_each(|block| mix(block, hasher));
        }
        BlockKind::Image { source } => source.get().hash(hasher),
        BlockKind::Unknown => block.raw().map(|raw| raw.get()).hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Fixed, MemoryStore, Message, Owner};

    fn sessions() -> Sessions {
        let world = Arc::new(Fixed::default());
        Sessions::new(Arc::new(MemoryStore::new(world.clone())), Owner::local(), world)
    }

    fn arrival() -> Arrival {
        Arrival {
            id: SessionId::of_source(&Owner::local(), "test:1"),
            new: New::default(),
            created_at: "2025-01-04T14:32:15Z".parse().expect("a time"),
            parent: None,
            keys: vec![Key::new("telegram:1").expect("valid")],
            archived: false,
            imported: Some("test".into()),
        }
    }

    fn said(number: usize) -> ArrivingEntry {
        ArrivingEntry {
            id: EntryId::new(format!("m{number}")).expect("valid"),
            at: "2025-01-04T14:32:15Z".parse().expect("a time"),
            body: Body::Message(Message::user(format!("message {number}"))),
        }
    }

    fn ids(import: &mut Import) -> Vec<EntryId> {
        let entries = import.entries().expect("read");
        entries.map(|entry| entry.expect("an entry").id).collect()
    }

    #[test]
    fn importing_again_adds_only_what_is_new() {
        let sessions = sessions();
        let mut first = sessions.import(&arrival()).expect("imported");
        assert!(first.created());
        assert_eq!(first.append(vec![said(1), said(2)]).expect("appended"), 2);
        let mut again = sessions.import(&arrival()).expect("imported");
        assert!(!again.created());
        assert_eq!(again.append(vec![said(1), said(2), said(3)]).expect("appended"), 1);
        let session = sessions.get(arrival().id).expect("there");
        assert_eq!(session.tally.messages, 3);
        assert_eq!(session.header.imported.as_deref(), Some("test"));
    }

    #[test]
    fn two_importers_at_once_write_one_log() {
        let sessions = sessions();
        let mut one = sessions.import(&arrival()).expect("imported");
        let mut two = sessions.import(&arrival()).expect("imported");
        assert_eq!(one.append(vec![said(1), said(2)]).expect("appended"), 2);
        assert_eq!(two.append(vec![said(1), said(2), said(3)]).expect("appended"), 1);
        assert_eq!(one.append(vec![said(3), said(4)]).expect("appended"), 1);
        assert_eq!(sessions.get(arrival().id).expect("there").tally.messages, 4);
    }

    #[test]
    fn what_is_sent_is_stored_in_order_once_it_is_settled() {
        let sessions = sessions();
        let mut import = sessions.import(&arrival()).expect("imported");
        let mut stored = 0;
        for number in 0..5 {
            stored += import.send(vec![said(2 * number), said(2 * number + 1)]).expect("sent");
        }
        stored += import.settle().expect("stored");
        assert_eq!(stored, 10);
        let ids = ids(&mut import);
        let expected: Vec<EntryId> = (0..10).map(|number| said(number).id).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn someone_who_writes_while_entries_are_on_their_way_costs_none_of_them() {
        let sessions = sessions();
        let mut one = sessions.import(&arrival()).expect("imported");
        let mut two = sessions.import(&arrival()).expect("imported");
        let mut stored = one.send(vec![said(1), said(2)]).expect("sent");
        // As many as the next batch has, so that later entries do not get its position.
        assert_eq!(two.append(vec![said(1), said(3), said(4)]).expect("appended"), 2);
        stored += one.send(vec![said(4), said(5)]).expect("sent");
        stored += one.send(vec![said(6)]).expect("sent");
        stored += one.settle().expect("stored");
        assert_eq!(stored, 4, "1, 2, 5 and 6");
        let ids = ids(&mut one);
        let expected: Vec<EntryId> = [1, 2, 3, 4, 5, 6].map(|number| said(number).id).into();
        assert_eq!(ids, expected);
    }

    #[test]
    fn of_two_importers_that_send_the_same_one_counts_it() {
        let sessions = sessions();
        let mut one = sessions.import(&arrival()).expect("imported");
        let mut two = sessions.import(&arrival()).expect("imported");
        // Both saw an empty log, and neither is settled.
        let all: Vec<ArrivingEntry> = (0..5).map(said).collect();
        let mut counts = [one.send(all.clone()).expect("sent"), two.send(all).expect("sent")];
        counts[0] += one.settle().expect("stored");
        counts[1] += two.settle().expect("stored");
        assert_eq!(counts, [5, 0]);
        assert_eq!([one.created(), two.created()], [true, false]);
        // Reading what is there does not change the count.
        assert_eq!(one.send(vec![said(7)]).expect("sent"), 0);
        assert_eq!(ids(&mut one).len(), 6);
        assert_eq!(one.settle().expect("stored"), 1);
    }

    #[test]
    fn the_writer_of_the_first_entry_created_the_session() {
        let sessions = sessions();
        let mut one = sessions.import(&arrival()).expect("imported");
        // It finds the session, without entries.
        let mut two = sessions.import(&arrival()).expect("imported");
        assert_eq!(two.append(vec![said(1)]).expect("appended"), 1);
        assert_eq!(one.append(vec![said(1)]).expect("appended"), 0);
        assert_eq!([one.created(), two.created()], [false, true]);
    }

    #[test]
    fn entries_that_were_numbered_by_their_lines_are_known_without_the_number() {
        let sessions = sessions();
        let named = |id: &str| ArrivingEntry { id: EntryId::new(id).expect("valid"), ..said(1) };
        let mut before = sessions.import(&arrival()).expect("imported");
        let old = ["3:ab", "7:ab", "9:ab:clear", "uuid"].map(named);
        assert_eq!(before.append(old.into()).expect("appended"), 4);
        let mut now = sessions.import(&arrival()).expect("imported");
        let new = ["ab", "ab.2", "ab:clear", "uuid", "ab.3"].map(named);
        assert_eq!(now.append(new.into()).expect("appended"), 1, "the third");
    }

    #[test]
    fn a_message_that_says_more_by_now_has_changed() {
        let sessions = sessions();
        let mut import = sessions.import(&arrival()).expect("imported");
        import.append(vec![said(1)]).expect("appended");
        let mut again = sessions.import(&arrival()).expect("imported");
        let id = said(1).id;
        assert!(!again.has_changed(&id, &Message::user("message 1")));
        assert!(again.has_changed(&id, &Message::user("message 1, and more")));
        assert!(!again.has_changed(&said(2).id, &Message::user("never seen")));
        assert_eq!(again.stored(&id).expect("read").expect("there").body, said(1).body);
    }

    #[test]
    fn a_session_of_our_own_counts_as_imported_once_a_file_adds_to_it() {
        let sessions = sessions();
        let own = sessions.create(&New::default(), None).expect("created").header.id;
        sessions.append(own, vec![Message::user("mine").into()]).expect("appended");
        let known = sessions.read(own, 0..1).expect("read").remove(0);
        let known = ArrivingEntry { id: known.id, at: known.at, body: known.body };
        let mut import = sessions.import(&Arrival { id: own, ..arrival() }).expect("found");
        assert_eq!(import.append(vec![known.clone()]).expect("nothing new"), 0);
        assert_eq!(sessions.get(own).expect("there").header.imported, None);
        assert_eq!(import.append(vec![known, said(1)]).expect("grew"), 1);
        let imported = sessions.get(own).expect("there").header.imported;
        assert_eq!(imported.as_deref(), Some("test"), "tools are off until its owner agrees");
    }

    #[test]
    fn what_continues_an_imported_session_says_so() {
        use crate::sessions::Fork;
        let sessions = sessions();
        let mut import = sessions.import(&arrival()).expect("imported");
        import.append(vec![said(1)]).expect("appended");
        let fork = sessions.fork(import.id(), &Fork::default()).expect("forked");
        assert_eq!(fork.header.imported.as_deref(), Some("test"));
    }
}
