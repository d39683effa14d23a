//! The verbs: operations on sessions, written once for all stores.
//!
//! Each interface (terminal, HTTP, chat bot, editor) calls these and adds nothing of its own. Verbs
//! that need a model are not here.

mod blobs;
mod copy;
mod economy;
mod entries;
mod identifiers_in_use;
mod import;
mod lineage;
mod listing;
mod naming;
mod restore;
mod select;
mod skip_damage;
mod stats;
mod survey;
mod thread;
mod trash;

pub use copy::Copied;
pub use economy::{Charged, Economy, Sent};
pub use entries::Entries;
pub use identifiers_in_use::identifiers_in_use;
pub use import::{Arrival, ArrivingEntry, Import};
pub use lineage::{Fork, Undone};
pub use restore::{carried, is_end_of_turn};
pub use select::SelectError;
pub use skip_damage::LOST;
pub use stats::{RUNNING_TOTAL, Stats, ThinnedStats, ToolStats};
pub use survey::{Group, GroupBy, Survey, Surveyed, Totals};
pub use thread::Thread;
pub use trash::{deleted_at, trash_kept};

use std::ops::Range;
use std::sync::Arc;

use crate::context::{Context, Model, Policy};
use crate::entry::{Body, Entry, EntryId, NewEntry, Origin, Started};
use crate::limits::{
    APPEND_TRIES_MAX, BATCH_ENTRIES_MAX, FIELD_BYTES_MAX, MESSAGE_BYTES_MAX, NAME_TRIES_MAX,
    PAGE_ROWS_MAX, READ_ENTRIES,
};
use crate::log::open_calls;
use crate::measure::measure;
use crate::message::Message;
use crate::name::{Key, Name, NameError, Owner, SessionId};
use crate::parallel;
use crate::readable_id::{self, IdCounters};
use crate::search::{Hit, Query};
use crate::session::{ExtraFields, Header, Parent, Profile, Session, SessionKind};
use crate::store::{At, Backend, Bind, Change, Finding, OnAppended, StoreError};
use crate::world::World;
use trash::Sweeps;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Error {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name, a key or an id is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A selector does not match exactly one session.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// A message, a field or a batch is too large. Nothing was written.
    #[error("{what} is {size} bytes long; at most {max} are allowed")]
    TooLarge { what: &'static str, size: usize, max: usize },
    /// The target store of a copy has something else under the same id.
    #[error("session {id} exists already, and differs from entry {seq} on")]
    Differs {
        id: SessionId,
        /// The first entry that differs.
        seq: u64,
    },
    /// Too many messages for one append. Nothing was written.
    #[error("{count} messages in one batch; at most {max} are allowed")]
    TooMany {
        /// How many.
        count: usize,
        max: usize,
    },
    /// There is nothing to undo.
    #[error("session {id} has no clear, fork, compact, resume or new to undo")]
    NothingToUndo { id: SessionId },
    /// The session was continued since it was started, and no key points at it that could be moved
    /// back.
    #[error("session {id} has been continued since it was started")]
    ContinuedSince { id: SessionId },
    /// Every name that was tried is taken.
    #[error("`{name}` is taken, and so are all numbered variants")]
    NoFreeName { name: Name },
    /// There is no such entry.
    #[error("session {id} has no entry {seq}; it has {entries}")]
    NoEntry {
        id: SessionId,
        /// The requested entry.
        seq: u64,
        /// The number of entries.
        entries: u64,
    },
}

/// Rejects a key that belongs permanently to one session.
fn movable(key: &Key) -> Result<()> {
    match readable_id::is_readable_id(key) {
        true => Err(NameError::Reserved { name: key.to_string() }.into()),
        false => Ok(()),
    }
}

/// A holder that never has a lease.
const NOBODY: &str = "(nobody)";

/// The result of a verb.
pub type Result<T> = std::result::Result<T, Error>;

/// A message to append.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Incoming {
    /// An id chosen by the writer, which makes it safe to send the message twice.
    pub id: Option<EntryId>,
    pub message: Message,
}

impl From<Message> for Incoming {
    fn from(message: Message) -> Incoming {
        Incoming { id: None, message }
    }
}

/// Something to append.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A message.
    Said(Incoming),
    /// Any other entry.
    Noted(Body),
}

impl From<Incoming> for Item {
    fn from(incoming: Incoming) -> Item {
        Item::Said(incoming)
    }
}

impl From<Message> for Item {
    fn from(message: Message) -> Item {
        Item::Said(message.into())
    }
}

impl From<Body> for Item {
    fn from(body: Body) -> Item {
        Item::Noted(body)
    }
}

/// The fields of a new session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct New {
    /// Its name; a default name if none is given. A number is added if it is taken.
    pub name: Option<Name>,
    /// What it is about, and which agent answers in it.
    pub profile: Profile,
    /// The system message it begins with.
    pub system: Option<String>,
    /// The kind of conversation.
    pub kind: SessionKind,
    /// The program it comes from.
    pub source: Option<String>,
    /// The session it came from.
    pub parent: Option<Parent>,
    /// Its readable id, if it already has one; otherwise one is generated.
    pub readable_id: Option<String>,
    /// Extra fields of its header, if it has any.
    pub extra: ExtraFields,
}

/// The result of a purge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Sessions that were archived, moved to the trash, or erased.
    pub done: u64,
    /// Sessions that were skipped because a turn was running.
    pub in_use: u64,
}

/// The sessions of one owner.
#[derive(Clone)]
pub struct Sessions {
    store: Arc<dyn Backend>,
    owner: Owner,
    world: Arc<dyn World>,
    id_counters: Arc<IdCounters>,
    sweeps: Arc<Sweeps>,
}

impl Sessions {
    /// The sessions of `owner` in a store.
    pub fn new(store: Arc<dyn Backend>, owner: Owner, world: Arc<dyn World>) -> Sessions {
        Sessions { store, owner, world, id_counters: Arc::default(), sweeps: Arc::default() }
    }

    /// The sessions of another owner in the same store. The caller decides who may access them.
    #[must_use]
    pub fn of_owner(&self, owner: Owner) -> Sessions {
        Sessions { owner, ..self.clone() }
    }

    /// The owner of these sessions.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Opens the session a key points at, or starts one for it. The key is never moved: two
    /// programs that open a new key at once get the same session.
    ///
    /// # Errors
    ///
    /// As [`create`](Sessions::create) and [`thread`](Sessions::thread).
    pub fn open(&self, key: &Key, new: &New) -> Result<Thread> {
        let (id, _) = self.open_with(key, new, Vec::new())?;
        self.thread(id)
    }

    /// Finds the session a key points at, or atomically starts one for it with its first messages.
    /// Returns it, and the positions of the messages if it was started here: a caller that loses
    /// the race gets the session that won, and has stored nothing yet.
    ///
    /// # Errors
    ///
    /// As [`create_with`](Sessions::create_with).
    pub fn open_with(
        &self,
        key: &Key,
        new: &New,
        messages: Vec<Incoming>,
    ) -> Result<(SessionId, Option<Vec<u64>>)> {
        movable(key)?;
        for _ in 0..APPEND_TRIES_MAX {
            if let Some(id) = self.store.resolve(&self.owner, key)? {
                return Ok((id, None));
            }
            let bind = Bind { key: key.clone(), seen: None };
            match self.create_bound(new, Some(bind), None, messages.clone()) {
                Ok((session, seqs)) => return Ok((session.id(), Some(seqs))),
                Err(Error::Store(StoreError::KeyMoved { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        let actual = self.store.resolve(&self.owner, key)?;
        Err(StoreError::KeyMoved { key: key.clone(), actual }.into())
    }

    /// Opens a session for reading and writing. An archived session is unarchived, unless it is a
    /// subagent's: those are never listed.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], and I/O errors.
    pub fn thread(&self, id: SessionId) -> Result<Thread> {
        self.sweep_trash();
        let mut session = self.get(id)?;
        if session.header.is_unarchived_when_opened() {
            session = self.unarchive(id)?;
        }
        Thread::new(self.clone(), session)
    }

    /// Starts a session; if a key is given, it points at this session from now on, wherever it
    /// pointed before.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::NoFreeName`], and errors of
    /// [`Store::create`](crate::store::Store::create).
    pub fn create(&self, new: &New, key: Option<&Key>) -> Result<Session> {
        Ok(self.create_with(new, key, Vec::new())?.0)
    }

    /// Starts a session with its first messages, atomically: both are on disk when this returns, or
    /// neither. Also returns the positions of the messages.
    ///
    /// # Errors
    ///
    /// As [`create`](Sessions::create) and [`append`](Sessions::append).
    pub fn create_with(
        &self,
        new: &New,
        key: Option<&Key>,
        messages: Vec<Incoming>,
    ) -> Result<(Session, Vec<u64>)> {
        let Some(key) = key else { return self.create_bound(new, None, None, messages) };
        self.move_key(key, |bind| {
            let from = bind.seen;
            self.create_bound(new, Some(bind), from, messages.clone())
        })
    }

    /// Starts a session and points this key at it, for someone who was in `from` before: that is
    /// where undoing it leads, wherever the key pointed. Several windows may share a key.
    ///
    /// # Errors
    ///
    /// As [`create`](Sessions::create).
    pub fn create_after(&self, new: &New, key: &Key, from: Option<SessionId>) -> Result<Session> {
        let (session, _) =
            self.move_key(key, |bind| self.create_bound(new, Some(bind), from, Vec::new()))?;
        Ok(session)
    }

    /// Moves a key from wherever it points. If others move it at the same time, the last one wins.
    fn move_key<T>(&self, key: &Key, act: impl Fn(Bind) -> Result<T>) -> Result<T> {
        movable(key)?;
        let bind = || -> Result<Bind> {
            Ok(Bind { key: key.clone(), seen: self.store.resolve(&self.owner, key)? })
        };
        for _ in 1..APPEND_TRIES_MAX {
            match act(bind()?) {
                Err(Error::Store(StoreError::KeyMoved { key: moved, .. })) if moved == *key => {}
                done => return done,
            }
        }
        act(bind()?)
    }

    /// Starts a session after `from`, and points a key at it if it still points where it did.
    fn create_bound(
        &self,
        new: &New,
        bind: Option<Bind>,
        from: Option<SessionId>,
        messages: Vec<Incoming>,
    ) -> Result<(Session, Vec<u64>)> {
        self.sweep_trash();
        let header = self.header(new)?;
        let said = self.prepare(messages.into_iter().map(Item::from).collect(), &[])?;
        let mut bodies = Vec::new();
        if let (Some(Bind { key, .. }), Some(_)) = (&bind, from) {
            let keys = vec![key.clone()];
            bodies.push(Body::Started(Started { origin: Origin::New, from, keys }));
        }
        let binds: Vec<Bind> = bind.into_iter().collect();
        bodies.extend(new.system.as_ref().map(|text| Body::Message(Message::system(text))));
        let mut entries: Vec<NewEntry> = bodies.into_iter().map(|body| self.entry(body)).collect();
        let first = entries.len() as u64;
        entries.extend(said);
        let session = self.create_named(header, new.readable_id.as_deref(), &entries, &binds)?;
        Ok((session, (first..entries.len() as u64).collect()))
    }

    /// The header of a new session.
    fn header(&self, new: &New) -> Result<Header> {
        for field in new.profile.texts() {
            fits("a field of the header", field, FIELD_BYTES_MAX)?;
        }
        let id = SessionId(self.world.uuid());
        let mut header = Header::new(id, self.owner.clone(), self.world.now());
        header.profile.clone_from(&new.profile);
        header.kind.clone_from(&new.kind);
        header.source.clone_from(&new.source);
        header.parent = new.parent;
        // A leftover of a crash must not be what someone continues by mistake.
        header.archived = new.kind == SessionKind::Subagent;
        header.extra.clone_from(&new.extra);
        if let Some(name) = &new.name {
            header.name = name.clone();
        }
        Ok(header)
    }

    /// Creates the session under the header's name and a readable id, each with a number if it is
    /// taken.
    fn create_named(
        &self,
        mut header: Header,
        readable_id: Option<&str>,
        entries: &[NewEntry],
        binds: &[Bind],
    ) -> Result<Session> {
        let name = header.name.clone();
        let wanted = match readable_id {
            Some(id) => id.to_owned(),
            None => self.readable_id_for(&header),
        };
        let mut binds = binds.to_vec();
        let last = binds.len();
        binds.push(Bind { key: readable_id::key(&wanted)?, seen: None });
        let (mut names, mut ids) = (1, 1);
        while names.max(ids) < 2 + NAME_TRIES_MAX {
            match self.store.create(&header, entries, &binds) {
                Err(StoreError::NameTaken { .. }) => {
                    names += 1;
                    header.name = name.numbered(names);
                }
                Err(StoreError::KeyMoved { key, .. }) if key == binds[last].key => {
                    ids += 1;
                    binds[last].key = readable_id::key(&format!("{wanted}_{ids}"))?;
                }
                other => return Ok(other?),
            }
        }
        Err(Error::NoFreeName { name })
    }

    /// The readable id of a session that is started here.
    fn readable_id_for(&self, header: &Header) -> String {
        let Header { profile, source, .. } = header;
        let by = profile.agent.as_deref().or(source.as_deref()).unwrap_or_default();
        let at = header.created_at.to_zoned(self.world.zone()).datetime();
        self.id_counters.next(&self.owner, &readable_id::made_of(by, at))
    }

    /// A new entry with the current time and a new id.
    fn entry(&self, body: Body) -> NewEntry {
        NewEntry::new(self.world.uuid().into(), self.world.now(), body)
    }

    /// Appends messages atomically: all of them, or none. Returns their positions once they are on
    /// disk.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::TooMany`], and errors of [`Store::append`].
    ///
    /// [`Store::append`]: crate::store::Store::append
    pub fn append(&self, id: SessionId, messages: Vec<Incoming>) -> Result<Vec<u64>> {
        self.append_at(id, At::END, messages)
    }

    /// Appends messages atomically, after the head that the writer has seen or with its lease.
    ///
    /// # Errors
    ///
    /// As [`append`](Sessions::append); [`StoreError::Conflict`] if `at` names another head.
    pub fn append_at(&self, id: SessionId, at: At, messages: Vec<Incoming>) -> Result<Vec<u64>> {
        self.sweep_trash();
        let tail = self.open_round(id, &messages)?;
        let entries = self.prepare(messages.into_iter().map(Item::from).collect(), &tail)?;
        Ok(self.store.append(&self.owner, id, at, &entries)?.seqs)
    }

    /// Starts an append and returns; `then` gets the result. See [`Store::append_then`].
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] and [`Error::TooMany`]; `then` is not called in that case.
    ///
    /// [`Store::append_then`]: crate::store::Store::append_then
    pub fn append_then(
        &self,
        id: SessionId,
        messages: Vec<Incoming>,
        then: OnAppended,
    ) -> Result<()> {
        let tail = self.open_round(id, &messages)?;
        let entries = self.prepare(messages.into_iter().map(Item::from).collect(), &tail)?;
        self.store.append_then(&self.owner, id, At::END, entries, then);
        Ok(())
    }

    /// Turns messages and notes into entries: ids, times, token counts and stubs. `before` is the
    /// end of the log, with the calls that they may answer.
    fn prepare(&self, items: Vec<Item>, before: &[Entry]) -> Result<Vec<NewEntry>> {
        if items.len() > BATCH_ENTRIES_MAX {
            return Err(Error::TooMany { count: items.len(), max: BATCH_ENTRIES_MAX });
        }
        let mut named = Vec::with_capacity(items.len());
        for (place, item) in items.into_iter().enumerate() {
            let (id, body) = match item {
                Item::Said(Incoming { id, mut message }) => {
                    message.forget_what_was_changed();
                    // Most messages are so short that they need not be measured.
                    if message.bytes_at_most() > MESSAGE_BYTES_MAX {
                        fits("a message", &message, MESSAGE_BYTES_MAX)?;
                    }
                    (id, Body::Message(message))
                }
                Item::Noted(body) => (None, body),
            };
            let id = id.unwrap_or_else(|| self.world.uuid().into());
            named.push((place, id, self.world.now(), body));
        }
        let measures = parallel::each(&named, |(place, _, _, body)| {
            measure(body, |call| {
                let said = before.iter().map(|entry| &entry.body);
                open_calls(said.chain(named[..*place].iter().map(|(.., body)| body)), call)
            })
        });
        let entries = named.into_iter().zip(measures);
        Ok(entries.map(|((_, id, at, body), measure)| NewEntry { id, at, body, measure }).collect())
    }

    /// The end of a log, back to the reply whose calls these messages may answer.
    fn open_round(&self, id: SessionId, messages: &[Incoming]) -> Result<Vec<Entry>> {
        if !messages.iter().any(|incoming| incoming.message.results().next().is_some()) {
            return Ok(Vec::new());
        }
        let tally = self.get(id)?.tally;
        let head = tally.entries;
        Ok(self.read_around(id, head.saturating_sub(READ_ENTRIES)..head, tally)?.entries)
    }

    /// The header, keys and counts of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also if it is in the trash; otherwise I/O errors.
    pub fn get(&self, id: SessionId) -> Result<Session> {
        let session = self.store.get(&self.owner, id)?;
        match session.header.trash {
            Some(_) => Err(StoreError::NotFound { id }.into()),
            None => Ok(session),
        }
    }

    /// The existing entries in a range of seqs.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such session; otherwise I/O errors.
    pub fn read(&self, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>> {
        Ok(self.store.read(&self.owner, id, range)?)
    }

    /// The session a key points at.
    pub fn resolve(&self, key: &Key) -> Result<Option<SessionId>> {
        Ok(self.store.resolve(&self.owner, key)?)
    }

    /// Unbinds a key. The session it pointed at stays.
    ///
    /// # Errors
    ///
    /// [`StoreError::KeyMoved`] if someone else moved it at the same time; otherwise I/O errors.
    pub fn unbind(&self, key: &Key) -> Result<Option<SessionId>> {
        movable(key)?;
        let seen = self.store.resolve(&self.owner, key)?;
        if seen.is_some() {
            self.store.bind(&self.owner, &Bind { key: key.clone(), seen }, None)?;
        }
        Ok(seen)
    }

    /// Points a key at a session, wherever it pointed before.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such session.
    pub fn bind(&self, key: &Key, to: SessionId) -> Result<()> {
        self.move_key(key, |bind| match bind.seen == Some(to) {
            true => Ok(()),
            false => Ok(self.store.bind(&self.owner, &bind, Some(to))?),
        })
    }

    /// Checks that no turn is running in a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] with the holder if one is.
    pub fn is_free(&self, id: SessionId) -> Result<()> {
        // Releasing a lease that one does not hold changes nothing.
        self.store.lease(&self.owner, id, NOBODY, std::time::Duration::ZERO)?;
        Ok(())
    }

    /// Ends the lease of a holder that is known to be dead.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such session; otherwise I/O errors.
    pub fn release(&self, id: SessionId, holder: &str) -> Result<()> {
        match self.store.lease(&self.owner, id, holder, std::time::Duration::ZERO) {
            // Someone else has it by now, or it expired: either way the dead holder no longer has
            // it.
            Ok(_) | Err(StoreError::Held { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The entries that match a query, best first: see [`Query::new`].
    ///
    /// # Errors
    ///
    /// [`StoreError::BadQuery`], and I/O errors.
    pub fn search(&self, text: &str, offset: usize, limit: usize) -> Result<Vec<Hit>> {
        self.find(&Query::new(text)?, offset, limit)
    }

    /// The entries that match a query, best first.
    pub fn find(&self, query: &Query, offset: usize, limit: usize) -> Result<Vec<Hit>> {
        Ok(self.store.search(&self.owner, query, offset, limit.clamp(1, PAGE_ROWS_MAX))?)
    }

    /// What a model would be sent for a session, with the session's own history length. Reads no
    /// more of the log than necessary.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such session; otherwise I/O errors.
    pub fn context(&self, id: SessionId, policy: &Policy, model: &Model) -> Result<Context> {
        let session = self.get(id)?;
        let policy = policy.clone().for_session(&session.header);
        self.build(session, &policy, model)
    }

    /// What a model would be sent for a session under exactly this policy: for the session as it
    /// is, or [as it was](Sessions::as_of) at an entry. Later decisions (a clear, or its undo) are
    /// ignored.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if an entry that is needed cannot be read; otherwise I/O errors.
    pub fn build(&self, session: Session, policy: &Policy, model: &Model) -> Result<Context> {
        let context = Thread::new(self.clone(), session)?.build(policy, model)?;
        Ok(Arc::unwrap_or_clone(context))
    }

    /// Changes fields of a header.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`StoreError::NotFound`], [`StoreError::NameTaken`], and I/O errors.
    pub fn update(&self, id: SessionId, change: &Change) -> Result<Session> {
        self.sweep_trash();
        let mut changed = Profile::default();
        change.profile.apply(&mut changed);
        for field in changed.texts() {
            fits("a field of the header", field, FIELD_BYTES_MAX)?;
        }
        Ok(self.store.update(&self.owner, id, change)?)
    }

    /// Archives a session. It keeps its keys, and search still finds it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such session; otherwise I/O errors.
    pub fn archive(&self, id: SessionId) -> Result<Session> {
        self.update(id, &Change { archived: Some(true), ..Change::default() })
    }

    /// Unarchives a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such session; otherwise I/O errors.
    pub fn unarchive(&self, id: SessionId) -> Result<Session> {
        self.update(id, &Change { archived: Some(false), ..Change::default() })
    }

    /// Checks whether the store can be written to now. It costs as much as an append.
    ///
    /// # Errors
    ///
    /// The errors of an append, such as [`StoreError::Full`].
    pub fn can_write(&self) -> Result<()> {
        Ok(self.store.can_write()?)
    }

    /// Checks every session in the store, of every owner, and the store itself. With `repair`, data
    /// that can be derived from the entries is corrected; an entry is never changed.
    pub fn doctor(
        &self,
        repair: bool,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<(usize, Vec<Finding>)> {
        let mut findings = self.store.check(repair)?;
        let all = self.store.everything()?;
        for (index, (owner, id)) in all.iter().enumerate() {
            progress(index, all.len());
            findings.extend(self.store.check_session(owner, *id, repair)?);
        }
        progress(all.len(), all.len());
        Ok((all.len(), findings))
    }
}

fn fits(what: &'static str, value: &impl serde::Serialize, max: usize) -> Result<()> {
    let mut size = Size(0);
    serde_json::to_writer(&mut size, value).expect("counting bytes cannot fail");
    match size.0 > max {
        true => Err(Error::TooLarge { what, size: size.0, max }),
        false => Ok(()),
    }
}

/// Counts what is written to it.
struct Size(usize);

impl std::io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Filter;
    use crate::{Fixed, MemoryStore};

    #[test]
    fn a_session_and_what_is_said_first_in_it_are_stored_as_one() {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let key = Key::new("file:plan.md").expect("valid");
        let said = |id: &str| Incoming {
            id: Some(EntryId::new(id).expect("valid")),
            message: Message::user("hello"),
        };
        let new = New { system: Some("Be brief.".into()), ..New::default() };
        let twice = sessions.create_with(&new, Some(&key), vec![said("a"), said("a")]);
        assert!(matches!(twice, Err(Error::Store(StoreError::IdReused { .. }))), "{twice:?}");
        assert_eq!(sessions.list(&Filter::default(), None, 9).expect("a page").sessions, []);
        assert_eq!(sessions.resolve(&key).expect("read"), None);
        let (session, seqs) =
            sessions.create_with(&new, Some(&key), vec![said("a"), said("b")]).expect("created");
        assert_eq!(seqs, [1, 2], "the system message is the first");
        assert_eq!(session.tally.entries, 3);
        assert_eq!(sessions.resolve(&key).expect("read"), Some(session.id()));
        let (_, seqs) = sessions.create_with(&new, Some(&key), vec![said("a")]).expect("created");
        assert_eq!(seqs, [2], "after the note about the key's origin");
    }

    #[test]
    fn a_key_that_several_move_at_once_is_moved_by_all_of_them() {
        const WINDOWS: usize = 8;
        const TIMES: usize = 50;
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let key = Key::new("project:/a").expect("valid");
        let barrier = std::sync::Barrier::new(WINDOWS);
        std::thread::scope(|scope| {
            for _ in 0..WINDOWS {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..TIMES {
                        let new = New::default();
                        let first = sessions.create_after(&new, &key, None).expect("created");
                        sessions.create(&new, Some(&key)).expect("created");
                        sessions.bind(&key, first.id()).expect("moved");
                    }
                });
            }
        });
        let kept = sessions.list(&Filter::default(), None, 1_000).expect("a page").sessions;
        assert_eq!(kept.len(), WINDOWS * TIMES * 2);
    }
}
