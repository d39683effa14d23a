//! The contract of a store.
//!
//! A store keeps logs, headers, keys and leases, and guarantees four things. What it acknowledged
//! is on disk. A log only grows, with one writer at a time. Appends are idempotent. Reading the end
//! of a log costs the same however long the log is.
//!
//! The calls block: they wait for the disk or the network, and return when it is done. Async
//! callers run them where blocking is allowed.
//!
//! The contract is a test suite in `conformance`, which every store has to pass; each store's own
//! tests show that its data survives the end of the process and a power cut. The verbs that people
//! use are in [`Sessions`](crate::Sessions), written once for all stores.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;

use crate::blob::{BlobId, BlobInfo};
use crate::entry::{Entry, EntryId, NewEntry};
use crate::name::{Key, Name, Owner, SessionId};
use crate::readable_id;
use crate::search::{Hit, Query};
use crate::session::{ExtraFields, Header, ProfileChange, Session, Trash};

/// The underlying error, kept as the cause.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a store's call.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why a store refused. Each variant is a decision for the caller: reload, wait, choose another
/// name, repair, give up.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum StoreError {
    /// This owner has no such session. Another owner's session is not found either.
    #[error("no session {id}")]
    NotFound {
        /// The requested id.
        id: SessionId,
    },
    /// Another session has this id.
    #[error("session {id} exists already, with different content")]
    Exists { id: SessionId },
    /// The writer has not seen the latest entry. Nothing was written; reload and decide again.
    #[error("session {id} has {actual} entries, not {expected}: someone else wrote to it")]
    Conflict {
        id: SessionId,
        /// The number of entries the writer has seen.
        expected: u64,
        /// The actual number of entries.
        actual: u64,
    },
    /// The id of an entry belongs to another body, or only some of the entries are stored. Nothing
    /// was written.
    #[error("the id `{}` is already used in session {id}, by another entry or in this batch", entry.as_str())]
    IdReused { id: SessionId, entry: EntryId },
    /// The owner has another session with this name.
    #[error("the name `{name}` is taken")]
    NameTaken { name: Name },
    /// A key no longer points where the caller saw it. Resolve it again.
    #[error("`{key}` points at {}", match .actual { Some(id) => id.to_string(), None => "nothing".into() })]
    KeyMoved {
        key: Key,
        /// Where it points now.
        actual: Option<SessionId>,
    },
    /// Another turn is running.
    #[error("session {id} is in use by {}", crate::lease::shown_holder(.holder))]
    Held {
        id: SessionId,
        /// The holder of the lease.
        holder: String,
        /// When it expires, unless renewed.
        until: Timestamp,
    },
    /// The writer's fence is not the latest: its lease expired and someone else took over. Nothing
    /// was written.
    #[error("another writer has taken over session {id} (fence {fence}, now {latest})")]
    StaleFence {
        id: SessionId,
        /// The writer's fence.
        fence: u64,
        /// The latest fence.
        latest: u64,
    },
    /// Stored data cannot be read. Other sessions are not affected.
    #[error("session {id} is damaged at entry {seq}: {what}")]
    Damaged { id: SessionId, seq: u64, what: String },
    /// The session has no such blob.
    #[error("session {id} has no blob {blob}")]
    NoBlob {
        id: SessionId,
        /// The requested blob.
        blob: BlobId,
    },
    /// The content of a blob has changed.
    #[error("blob {blob} of session {id} is damaged")]
    BadBlob { id: SessionId, blob: BlobId },
    /// The store was written by a newer version of this program.
    #[error("{place} has format {found}; this version reads up to {known}")]
    Newer {
        place: String,
        found: i64,
        /// The newest format this version knows.
        known: i64,
    },
    /// The store was written by an older version of this program, and cannot be migrated without
    /// write access.
    #[error("{place} has format {found}; this version reads {known}, and cannot write to it")]
    Older {
        place: String,
        found: i64,
        /// The format this version reads.
        known: i64,
    },
    /// It is not a store.
    #[error("{place} is not a Rethread store")]
    NotAStore { place: String },
    /// The whole file cannot be read.
    #[error("{place} is damaged")]
    Corrupt { place: String },
    /// The disk is full. Nothing was written.
    #[error("no space left for {place}")]
    Full { place: String },
    /// Write access is denied.
    #[error("{place} cannot be written to")]
    ReadOnly { place: String },
    /// Other writers kept the store locked for too long.
    #[error("{place} is locked by another program")]
    Busy { place: String },
    /// The server of a store cannot be reached, or refuses the login.
    #[error("{place} cannot be reached")]
    Unreachable {
        /// The database, without a password.
        place: String,
        source: BoxError,
    },
    /// The server of a store refused the operation, for lack of privileges. Nothing was written.
    #[error("{place} does not allow this role to {action}")]
    Denied {
        /// The database, without a password.
        place: String,
        action: &'static str,
        source: BoxError,
    },
    /// The server of a store cancelled the operation, because it took too long. Nothing was
    /// written.
    #[error("{place} could not {action} in time")]
    Slow {
        /// The database, without a password.
        place: String,
        action: &'static str,
        source: BoxError,
    },
    /// An invalid cursor for a list.
    #[error("`{cursor}` is not a cursor")]
    BadCursor { cursor: String },
    /// A query that the store cannot use.
    #[error("{what}")]
    BadQuery {
        /// What is wrong with it.
        what: String,
    },
    /// Any other error of the underlying storage.
    #[error("{store} could not {action}")]
    Backend { store: &'static str, action: &'static str, source: BoxError },
}

impl StoreError {
    /// Whether something stored cannot be read. Other sessions can still be used.
    pub fn is_damage(&self) -> bool {
        matches!(self, StoreError::Damaged { .. } | StoreError::Corrupt { .. })
    }
}

/// The callback of an append.
pub type OnAppended = Box<dyn FnOnce(Result<Appended>) + Send>;

/// The result of an append.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// The positions of the entries.
    pub seqs: Vec<u64>,
    /// The lease that was taken with it, if requested.
    pub lease: Option<Lease>,
    /// The log already had all of them, and nothing was written.
    pub repeated: bool,
}

/// A key to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Bind {
    pub key: Key,
    /// Where the caller saw it point. If it points elsewhere by now, nothing happens.
    pub seen: Option<SessionId>,
}

/// Where an append goes, with which lease, and how the lease changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The number of entries the writer has seen; `None` appends at the end, wherever that is.
    pub head: Option<u64>,
    /// The fence of the writer's lease; `None` if it has none. The latest fence stays valid after
    /// its lease expired or was released, until someone else takes the lease.
    pub fence: Option<u64>,
    /// How the lease changes.
    pub lease: LeaseChange,
}

/// How the lease changes with an append: the first of a turn takes it, the last one releases it,
/// and neither costs a separate write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum LeaseChange {
    /// It does not change.
    #[default]
    Keep,
    /// It is taken, or renewed for the same holder, as by [`Store::lease`]. No fence is needed.
    Take {
        holder: String,
        /// The maximum duration.
        ttl: Duration,
    },
    /// It is released by the writer whose fence is given.
    GiveBack,
}

impl At {
    /// At the end of the log, without a lease.
    pub const END: At = At { head: None, fence: None, lease: LeaseChange::Keep };

    /// After exactly this many entries, without a lease.
    pub fn head(head: u64) -> At {
        At { head: Some(head), ..At::END }
    }
}

/// The right to write to a session, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Increases with each new holder; it is sent with every append.
    pub fence: u64,
    /// When it expires unless renewed, by the store's clock.
    pub until: Timestamp,
}

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Only sessions of this workspace.
    pub workspace: Option<String>,
    /// Whether to list archived sessions only, or none of them.
    pub archived: Option<bool>,
    /// Leave out sessions that another one continues.
    pub newest_of_chain: bool,
    /// Only sessions in the trash. They are left out otherwise.
    pub trashed: bool,
}

/// Where a list continues: after this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Its last activity.
    pub at: Timestamp,
    /// Its identity.
    pub id: SessionId,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.at.as_millisecond(), self.id)
    }
}

impl std::str::FromStr for Cursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Cursor> {
        let parsed = text.split_once('.').and_then(|(at, id)| {
            let at = Timestamp::from_millisecond(at.parse().ok()?).ok()?;
            Some(Cursor { at, id: SessionId(id.parse().ok()?) })
        });
        parsed.ok_or_else(|| StoreError::BadCursor { cursor: text.chars().take(80).collect() })
    }
}

/// One page of a list, newest activity first.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Page {
    pub sessions: Vec<Session>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
    /// Sessions whose header cannot be read. `doctor` reports details.
    pub damaged: Vec<SessionId>,
}

impl Page {
    /// The page after a cursor, from all sessions of a list in any order.
    pub fn of(mut sessions: Vec<Session>, after: Option<Cursor>, limit: usize) -> Page {
        let place = |session: &Session| (session.last_activity_at, session.id());
        sessions.sort_by_key(|session| std::cmp::Reverse(place(session)));
        sessions.retain(|session| after.is_none_or(|after| place(session) < (after.at, after.id)));
        let more = sessions.len() > limit;
        sessions.truncate(limit);
        let last = sessions.last().filter(|_| more).map(place);
        let next = last.map(|(at, id)| Cursor { at, id });
        Page { sessions, next, damaged: Vec::new() }
    }
}

/// Changes to a header. `None` leaves a field unchanged; `Some(None)` empties it.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Change {
    /// A new name.
    pub name: Option<Name>,
    /// Other fields of its profile.
    pub profile: ProfileChange,
    pub archived: Option<bool>,
    /// Moves it to the trash, or back.
    pub trash: Option<Option<Trash>>,
    /// Other fields that only the store understands.
    pub extra: Option<ExtraFields>,
    /// Where its words come from, if from elsewhere.
    pub imported: Option<Option<String>>,
}

/// What a [`Change`] does to the keys of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Nothing.
    Keep,
    /// Releases all of them: the session moves to the trash.
    Release,
    /// Binds the unused ones among these to the session again: it is restored from the trash.
    Claim(Vec<Key>),
}

impl From<ProfileChange> for Change {
    fn from(profile: ProfileChange) -> Change {
        Change { profile, ..Change::default() }
    }
}

impl Change {
    /// Moves a session to the trash, with the keys that point at it and its readable id. Its name
    /// there is [`Name::in_trash`], by which stores may look for it.
    pub fn to_trash(session: &Session, at: Timestamp) -> Change {
        let readable_id = session.readable_id.iter().filter_map(|id| readable_id::key(id).ok());
        let keys = session.keys.iter().cloned().chain(readable_id).collect();
        let trash = Trash { at, name: Some(session.header.name.clone()), keys };
        let name = Some(Name::in_trash(session.id()));
        Change { name, trash: Some(Some(trash)), ..Change::default() }
    }

    /// The change from one header of a session to another, except into the trash and out of it.
    pub fn between(old: &Header, new: Header) -> Change {
        let profile = (new.profile != old.profile).then(|| new.profile.into());
        Change {
            name: (new.name != old.name).then_some(new.name),
            profile: profile.unwrap_or_default(),
            archived: (new.archived != old.archived).then_some(new.archived),
            extra: (new.extra != old.extra).then_some(new.extra),
            imported: (new.imported != old.imported).then_some(new.imported),
            trash: None,
        }
    }

    /// What the change does to the keys of the session with this header, before it is applied.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if the session is in the trash and the change leaves it there.
    pub fn keys(&self, header: &Header) -> Result<KeyChange> {
        match (&header.trash, &self.trash) {
            (Some(_), None) => Err(StoreError::NotFound { id: header.id }),
            (Some(trash), Some(None)) => Ok(KeyChange::Claim(trash.keys.clone())),
            (None, Some(Some(_))) => Ok(KeyChange::Release),
            _ => Ok(KeyChange::Keep),
        }
    }

    /// The header with these changes applied.
    pub fn apply(&self, header: &mut Header) {
        fn set<T: Clone>(field: &mut T, change: &Option<T>) {
            if let Some(value) = change {
                field.clone_from(value);
            }
        }
        set(&mut header.extra, &self.extra);
        set(&mut header.imported, &self.imported);
        set(&mut header.name, &self.name);
        self.profile.apply(&mut header.profile);
        set(&mut header.archived, &self.archived);
        set(&mut header.trash, &self.trash.clone().map(|trash| trash.map(Box::new)));
    }
}

/// A place where sessions are stored.
///
/// Every call names the owner, and does not see any other owner's data.
///
/// A session in the trash ([`Header::trash`]) is not found: no name, id prefix, key, list or search
/// leads to it, and it can be neither read, written, leased nor bound. Only the calls for the trash
/// see it: [`get`](Store::get) returns it with its `trash`, [`list`](Store::list) with
/// [`Filter::trashed`] lists it, [`update`](Store::update) restores it, and
/// [`delete`](Store::delete) removes it.
///
/// Every call can fail because of the disk or the network: [`StoreError::Full`],
/// [`ReadOnly`](StoreError::ReadOnly), [`Busy`](StoreError::Busy),
/// [`Unreachable`](StoreError::Unreachable), [`Denied`](StoreError::Denied),
/// [`Slow`](StoreError::Slow), [`Corrupt`](StoreError::Corrupt) or
/// [`Backend`](StoreError::Backend). An `# Errors` section names what else can be returned.
pub trait Store: Send + Sync {
    /// Creates a session with its first entries and binds keys to it, atomically.
    ///
    /// Creating the same session again changes nothing and returns it as it is now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Exists`] if the id belongs to another session, [`StoreError::NameTaken`],
    /// [`StoreError::KeyMoved`] if a key is not where its [`Bind`] saw it, [`StoreError::IdReused`]
    /// if two entries have the same id. If several apply, the store may report any of them.
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session>;

    /// The header, keys and counts of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session>;

    /// The session whose name folds to this ([`Name::folded`]).
    fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>>;

    /// The sessions whose id begins with these hexadecimal digits; at most `limit` of them.
    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>>;

    /// Sessions by last activity, newest first. Never reads a log.
    fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page>;

    /// Appends entries, all or none; they are on disk when this returns.
    ///
    /// The ids are checked first. If the log has all of them with these bodies, nothing is written,
    /// their positions are returned, and `at` is ignored. The lease is checked next, then the head;
    /// the first check that fails is reported. An append without entries is checked in the same
    /// way.
    ///
    /// `at.lease` is applied atomically with the append: a refused append neither takes nor
    /// releases a lease. A repeated one does both, and is refused with [`StoreError::Held`] if it
    /// asks for a lease that someone else holds.
    ///
    /// # Errors
    ///
    /// [`StoreError::IdReused`] if the log has only some of the ids, or one with another body, or
    /// if two of the entries share an id; [`StoreError::StaleFence`] if `at.fence` is not the
    /// latest fence, also if it is higher; [`StoreError::Held`] if someone holds a lease and
    /// `at.fence` is missing; [`StoreError::Conflict`] if `at.head` is not the end of the log. In
    /// each case nothing was written.
    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended>;

    /// Starts an append and returns. `then` gets the result once it is on disk, or refused; it runs
    /// on a thread of the store and must not block. This lets a server with few threads have many
    /// appends in flight. If there are too many, this blocks until there is room.
    fn append_then(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: Vec<NewEntry>,
        then: OnAppended,
    );

    /// The existing entries in a range of seqs, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::Damaged`] if an entry cannot be read.
    fn read(&self, owner: &Owner, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>>;

    /// The session a key points at.
    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>>;

    /// Binds a key to a session (`None`: unbinds it), if it still points where the caller saw it.
    ///
    /// # Errors
    ///
    /// [`StoreError::KeyMoved`]; otherwise [`StoreError::NotFound`] if `to` does not exist.
    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()>;

    /// Changes a header. Keys are part of the change: a session that moves to the trash releases
    /// them, including its readable id, and one that is restored claims those of its
    /// [`Trash::keys`] that are unused. All of this is atomic.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for a session in the trash that the change leaves there;
    /// [`StoreError::NameTaken`]; [`StoreError::Held`] if it should move to the trash while a turn
    /// runs.
    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session>;

    /// Takes the lease of a session, or renews it for the same holder, for at most
    /// [`LEASE_MAX`](crate::limits::LEASE_MAX). A `ttl` of zero releases it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] if someone else has it; [`StoreError::NotFound`].
    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease>;

    /// Stores a blob with a session; it is on disk when this returns. Equal blobs are stored once.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId>;

    /// A blob of a session, byte for byte.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::NoBlob`] if the session has no such blob;
    /// [`StoreError::BadBlob`] if its content has changed.
    fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>>;

    /// The blobs of a session, sorted by id.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>>;

    /// Erases a session: entries, blobs, keys, lease and search index. With `trashed_at`, only if
    /// it has been in the trash since then: one that was restored in the meantime stays.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::Held`] while a turn runs.
    fn delete(&self, owner: &Owner, id: SessionId, trashed_at: Option<Timestamp>) -> Result<()>;
}

/// Full-text search.
pub trait Search: Send + Sync {
    /// The entries that match, in the order of [`Rank`](crate::search::Rank). Everything
    /// acknowledged before the call is found, in archived sessions too, but not in the trash.
    /// `offset` skips the hits of earlier pages.
    fn search(&self, owner: &Owner, query: &Query, offset: usize, limit: usize)
    -> Result<Vec<Hit>>;

    /// How many entries of all owners are not in the search index yet; `None` if that could be
    /// found out only by reading the logs. The next search of their owner indexes them.
    ///
    /// The cost does not depend on the size of the store, so if very many sessions are not up to
    /// date, this is a lower bound.
    fn index_lag(&self) -> Result<Option<u64>>;
}

/// A problem found by a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Finding {
    /// The session, if it concerns one.
    pub session: Option<SessionId>,
    /// The entry, if it concerns one.
    pub seq: Option<u64>,
    /// What is wrong.
    pub what: String,
    pub state: FindingState,
}

/// The state of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingState {
    /// Nothing is wrong with the store; contexts handle it.
    Noted,
    /// It was recomputed from the entries, or would be with `repair`.
    Repaired,
    /// It can be recomputed, but a repair was not requested.
    Repairable,
    /// It cannot be recomputed.
    Damaged,
}

/// Maintenance of a store.
pub trait Upkeep: Send + Sync {
    /// Checks whether the store can be written to, with a write that changes nothing and is as
    /// durable as an append. It costs as much as an append.
    ///
    /// # Errors
    ///
    /// The errors of an append: [`StoreError::Full`], [`StoreError::ReadOnly`],
    /// [`StoreError::Unreachable`], and others of the disk or the network.
    fn can_write(&self) -> Result<()>;

    /// All sessions with their owners, including those that cannot be listed.
    fn everything(&self) -> Result<Vec<(Owner, SessionId)>>;

    /// Checks the store as a whole: the file, and what belongs to no session.
    fn check(&self, repair: bool) -> Result<Vec<Finding>>;

    /// Checks one session: order, fingerprints, pairs of calls and results, counts, and what lists
    /// show of it. With `repair`, data that can be derived from the entries is rewritten; the
    /// content of an entry is never changed or removed.
    fn check_session(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>>;
}

/// Everything a store can do.
pub trait Backend: Store + Search + Upkeep {}

impl<T: Store + Search + Upkeep> Backend for T {}
