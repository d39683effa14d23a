//! The contract of a store: where sessions live.
//!
//! A store keeps logs, headers, keys and leases, and promises four things. What it acknowledged is
//! on disk. A log only ever grows, and by one writer at a time. A repeated append is harmless.
//! Reading the end of a log costs the same however long the log is.
//!
//! The calls block: they wait for the disk or the network, and return when it is done. Callers
//! that run many things on few threads call them where blocking is allowed.
//!
//! The contract is written down as a test suite in `conformance`, which every store has to pass;
//! that its data outlives the process and the power is for its own tests to show. The verbs people use are in [`Sessions`](crate::Sessions), written once over this.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;

use crate::blob::{BlobId, BlobInfo};
use crate::entry::{Entry, EntryId, NewEntry};
use crate::name::{Key, Name, Owner, SessionId};
use crate::search::{Hit, Query};
use crate::session::{Foreign, Header, ProfileChange, Session, Trash};

/// Anything that went wrong below a store, kept to be printed as the cause.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a store's call.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why a store refused. Each is a decision for the caller: reload, wait, choose another name,
/// repair, give up.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum StoreError {
    /// This owner has no such session. Another owner's session is not found either.
    #[error("no session {id}")]
    NotFound {
        /// The id that was asked for.
        id: SessionId,
    },
    /// Another session has this id.
    #[error("session {id} exists already, with different content")]
    Exists { id: SessionId },
    /// The writer had not seen the latest entry. Nothing was written; reload and decide again.
    #[error("session {id} has {actual} entries, not {expected}: someone else wrote to it")]
    Conflict {
        /// The session.
        id: SessionId,
        /// The entries the writer knew of.
        expected: u64,
        /// The entries there are.
        actual: u64,
    },
    /// The id of an entry belongs to another body already, or only some of the entries are
    /// stored. Nothing was written.
    #[error("the id `{}` is already used in session {id}, by another entry or in this batch", entry.as_str())]
    IdReused {
        /// The session.
        id: SessionId,
        /// The id.
        entry: EntryId,
    },
    /// The owner has another session of this name.
    #[error("the name `{name}` is taken")]
    NameTaken { name: Name },
    /// A key points elsewhere than the caller saw. Resolve it again.
    #[error("`{key}` points at {}", match .actual { Some(id) => id.to_string(), None => "nothing".into() })]
    KeyMoved {
        key: Key,
        /// Where it points.
        actual: Option<SessionId>,
    },
    /// Someone else is in the middle of a turn.
    #[error("session {id} is in use by {}", crate::lease::shown_holder(.holder))]
    Held {
        /// The session.
        id: SessionId,
        /// Who holds it.
        holder: String,
        /// Until when, unless renewed.
        until: Timestamp,
    },
    /// The writer's fence is not the latest: its lease ran out and someone else took over.
    /// Nothing was written.
    #[error("another writer has taken over session {id} (fence {fence}, now {latest})")]
    StaleFence {
        /// The session.
        id: SessionId,
        /// The writer's fence.
        fence: u64,
        /// The latest fence handed out.
        latest: u64,
    },
    /// What is stored cannot be read. Other sessions are not affected.
    #[error("session {id} is damaged at entry {seq}: {what}")]
    Damaged {
        /// The session.
        id: SessionId,
        seq: u64,
        /// What is wrong.
        what: String,
    },
    /// The session has no such blob.
    #[error("session {id} has no blob {blob}")]
    NoBlob {
        /// The session.
        id: SessionId,
        /// The blob that was asked for.
        blob: BlobId,
    },
    /// A blob is not what was stored.
    #[error("blob {blob} of session {id} is damaged")]
    BadBlob {
        /// The session.
        id: SessionId,
        blob: BlobId,
    },
    /// The store was written by a newer version of this program.
    #[error("{place} has format {found}; this version reads up to {known}")]
    Newer {
        /// The file or database.
        place: String,
        /// Its format.
        found: i64,
        /// The newest format this version knows.
        known: i64,
    },
    /// The store was written by an older version of this program, and cannot be brought up to date
    /// where it cannot be written to.
    #[error("{place} has format {found}; this version reads {known}, and cannot write to it")]
    Older {
        /// The file or database.
        place: String,
        /// Its format.
        found: i64,
        /// The format this version reads.
        known: i64,
    },
    /// The place holds something that is not a store.
    #[error("{place} is not a Rethread store")]
    NotAStore {
        /// The file or database.
        place: String,
    },
    /// The file as a whole cannot be read.
    #[error("{place} is damaged")]
    Corrupt {
        /// The file or database.
        place: String,
    },
    /// There is no room left. Nothing was written.
    #[error("no space left for {place}")]
    Full {
        /// The file or database.
        place: String,
    },
    /// The place may not be written to.
    #[error("{place} cannot be written to")]
    ReadOnly {
        /// The file or database.
        place: String,
    },
    /// Other writers kept the store locked for too long.
    #[error("{place} is locked by another program")]
    Busy {
        /// The file or database.
        place: String,
    },
    /// The server of a store cannot be reached, or does not let this program in.
    #[error("{place} cannot be reached")]
    Unreachable {
        /// The database, without a password.
        place: String,
        /// The cause.
        source: BoxError,
    },
    /// The server of a store knows this program, and does not let it do this. Nothing was written.
    #[error("{place} does not allow this role to {action}")]
    Denied {
        /// The database, without a password.
        place: String,
        /// What it was about to do.
        action: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// The server of a store gave up, because it took too long. Nothing was written.
    #[error("{place} could not {action} in time")]
    Slow {
        /// The database, without a password.
        place: String,
        /// What it was about to do.
        action: &'static str,
        /// The cause.
        source: BoxError,
    },
    /// A place in a list that no list gave.
    #[error("`{cursor}` is not a cursor")]
    BadCursor {
        /// What was given.
        cursor: String,
    },
    /// A query that means nothing to the store.
    #[error("{what}")]
    BadQuery {
        /// What is wrong with it.
        what: String,
    },
    /// Anything else that went wrong below.
    #[error("{store} could not {action}")]
    Backend {
        /// The kind of store.
        store: &'static str,
        /// What it was about to do.
        action: &'static str,
        /// The cause.
        source: BoxError,
    },
}

/// Gets the outcome of an append.
pub type OnAppended = Box<dyn FnOnce(Result<Appended>) + Send>;

/// What came of an append.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// The places of the entries.
    pub seqs: Vec<u64>,
    /// The lease that was taken with it, where one was asked for.
    pub lease: Option<Lease>,
    /// The log held all of them already, and nothing was written.
    pub repeated: bool,
}

/// A key and where it is to point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The key.
    pub key: Key,
    /// Where the caller saw it point. If it points elsewhere by now, nothing happens.
    pub seen: Option<SessionId>,
}

/// Where an append goes, by what right, and what becomes of the lease with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The entries the writer has seen; `None` appends wherever the end is.
    pub head: Option<u64>,
    /// The fence of the writer's lease; `None` if it holds none. The latest fence stays good
    /// after its lease ran out or was given back, until someone else takes the lease.
    pub fence: Option<u64>,
    /// What becomes of the lease.
    pub lease: LeaseChange,
}

/// What becomes of the lease with an append: the first of a turn takes it, the last gives it back,
/// and neither costs a write of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LeaseChange {
    /// Nothing.
    #[default]
    Keep,
    /// It is taken, or renewed for the same holder, as by [`Store::lease`]. No fence is needed.
    Take {
        /// Who takes it.
        holder: String,
        /// For how long, at the most.
        ttl: Duration,
    },
    /// The writer, whose fence is given, needs it no longer.
    GiveBack,
}

impl At {
    /// Wherever the log ends, without a lease.
    pub const END: At = At { head: None, fence: None, lease: LeaseChange::Keep };

    /// After exactly this many entries, without a lease.
    pub fn head(head: u64) -> At {
        At { head: Some(head), ..At::END }
    }
}

/// The right to write to a session, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Higher for each new holder; goes with every append.
    pub fence: u64,
    /// When it ends unless renewed, on the store's clock.
    pub until: Timestamp,
}

/// What a list should show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Only sessions of this workspace.
    pub workspace: Option<String>,
    /// Archived sessions: left out, or nothing else.
    pub archived: Option<bool>,
    /// Leave out sessions that another one continues.
    pub newest_of_chain: bool,
    /// Sessions in the trash, and no others. They are left out otherwise.
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
pub struct Page {
    /// The sessions.
    pub sessions: Vec<Session>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
    /// Sessions whose header cannot be read. `doctor` says more.
    pub damaged: Vec<SessionId>,
}

/// Changes to a header. `None` leaves a field as it is; `Some(None)` empties it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Another name.
    pub name: Option<Name>,
    /// Other fields of its profile.
    pub profile: ProfileChange,
    /// Whether it is archived.
    pub archived: Option<bool>,
    /// Moved to the trash, or back.
    pub trash: Option<Option<Trash>>,
    /// What another program says about it.
    pub foreign: Option<Foreign>,
    /// Where its words come from, if from elsewhere.
    pub imported: Option<Option<String>>,
}

/// What a [`Change`] does to the keys of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// They stay.
    Keep,
    /// All of them are released: the session goes to the trash.
    Release,
    /// The free ones among these point at the session again: it comes out of the trash.
    Claim(Vec<Key>),
}

impl From<ProfileChange> for Change {
    fn from(profile: ProfileChange) -> Change {
        Change { profile, ..Change::default() }
    }
}

impl Change {
    /// Moves a session to the trash, with the keys that point at it. There it is called
    /// [`Name::in_trash`], and stores may look for it by that.
    pub fn to_trash(header: &Header, keys: Vec<Key>, at: Timestamp) -> Change {
        let trash = Trash { at, name: Some(header.name.clone()), keys };
        let name = Some(Name::in_trash(header.id));
        Change { name, trash: Some(Some(trash)), ..Change::default() }
    }

    /// What the change does to the keys of the session that has this header, before it is applied.
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

    /// The header with these changes made.
    pub fn apply(&self, header: &mut Header) {
        fn set<T: Clone>(field: &mut T, change: &Option<T>) {
            if let Some(value) = change {
                field.clone_from(value);
            }
        }
        // A name that is only put aside in the trash is the session's still.
        if self.name.is_some() && self.trash.is_none() {
            // What another program called it was its name before.
            header.foreign.set("metadata.id", None);
            header.foreign.set("metadata.name", None);
        }
        set(&mut header.foreign, &self.foreign);
        set(&mut header.imported, &self.imported);
        set(&mut header.name, &self.name);
        self.profile.apply(&mut header.profile);
        set(&mut header.archived, &self.archived);
        set(&mut header.trash, &self.trash.clone().map(|trash| trash.map(Box::new)));
    }
}

/// Where sessions live.
///
/// Every call names the owner, and sees nothing of any other.
///
/// A session in the trash ([`Header::trash`]) is not found: no name, id prefix, key, list or search
/// leads to it, and it can neither be read nor written, leased nor bound. Only the calls that look
/// after the trash see it: [`get`](Store::get) returns it with its `trash`, [`list`](Store::list)
/// with [`Filter::trashed`] lists it, [`update`](Store::update) brings it back, and
/// [`delete`](Store::delete) removes it.
pub trait Store: Send + Sync {
    /// Creates a session with its first entries and points keys at it: all of it, or nothing.
    ///
    /// Creating the same session again changes nothing and returns it as it is now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Exists`] if the id belongs to another session, [`StoreError::NameTaken`],
    /// [`StoreError::KeyMoved`] if a key is not where its [`Bind`] saw it,
    /// [`StoreError::IdReused`] if two entries have one id. If several apply, which one is reported
    /// is up to the store.
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session>;

    /// The header, keys and counts of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session>;

    /// The session whose name folds to this ([`Name::folded`]).
    ///
    /// # Errors
    ///
    /// Only those of the disk.
    fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>>;

    /// The sessions whose id begins with these hexadecimal digits; `limit` of them at the most.
    ///
    /// # Errors
    ///
    /// Only those of the disk.
    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>>;

    /// Sessions by last activity, newest first. Never reads a log.
    ///
    /// # Errors
    ///
    /// Only those of the disk.
    fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page>;

    /// Appends entries, all or none; they are on disk when this returns.
    ///
    /// The ids are looked at first. If the log holds all of them with these bodies, nothing is
    /// written and the places they have are returned, and `at` is ignored. The lease comes next,
    /// then the head; the first that fails is the one reported. An append of nothing is checked in
    /// the same way.
    ///
    /// What `at.lease` asks for happens with the append or not at all: an append that is refused
    /// neither takes nor gives back a lease. A repeated one does both, and is refused with
    /// [`StoreError::Held`] where it asks for a lease that someone else has.
    ///
    /// # Errors
    ///
    /// [`StoreError::IdReused`] if the log holds some of the ids, or one with another body, or if
    /// two of the entries share an id; [`StoreError::StaleFence`] if `at.fence` is not the latest
    /// fence handed out, a higher one included; [`StoreError::Held`] if someone has a lease and
    /// `at.fence` is missing; [`StoreError::Conflict`] if `at.head` is not where the log ends. In
    /// each case nothing was written.
    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended>;

    /// Begins an append and returns. `then` gets the outcome once it is on disk, or refused;
    /// it runs on a thread of the store and must not wait. This is how a server with few threads
    /// keeps many appends on their way. While very many are, this waits until there is room.
    fn append_then(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: Vec<NewEntry>,
        then: OnAppended,
    );

    /// The entries in a range of seqs, those that exist, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::Damaged`] if an entry cannot be read.
    fn read(&self, owner: &Owner, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>>;

    /// The session a key points at.
    ///
    /// # Errors
    ///
    /// Only those of the disk.
    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>>;

    /// Points a key at a session (`None`: at nothing), if it still points where it was seen.
    ///
    /// # Errors
    ///
    /// [`StoreError::KeyMoved`], or else [`StoreError::NotFound`] if `to` does not exist.
    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()>;

    /// Changes what a header says. The keys go with it: a session that moves to the trash releases
    /// them, its readable id included, and one that comes back claims those of its
    /// [`Trash::keys`] that are free. All of it happens, or nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`], also for a session in the trash that the change leaves there;
    /// [`StoreError::NameTaken`]; [`StoreError::Held`] if it is to move to the trash while someone
    /// is in a turn.
    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session>;

    /// Takes the lease of a session, or renews it for the same holder, for
    /// [`LEASE_MAX`](crate::limits::LEASE_MAX) at the most. A `ttl` of zero gives it back.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] while someone else has it; [`StoreError::NotFound`].
    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease>;

    /// Keeps bytes with a session; they are on disk when this returns. The same bytes are kept once.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId>;

    /// Bytes that are kept with a session, exactly as they were given.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::NoBlob`] if the session has no such bytes;
    /// [`StoreError::BadBlob`] if they are not what they were.
    fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>>;

    /// What is kept with a session, in the order of the ids.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>>;

    /// Removes a session for good: entries, blobs, keys, lease and search index. With
    /// `trashed_at` only if it has been in the trash since then: one that was restored meanwhile
    /// stays.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::Held`] while someone is in a turn.
    fn delete(&self, owner: &Owner, id: SessionId, trashed_at: Option<Timestamp>) -> Result<()>;
}

/// Finding what was said.
pub trait Search: Send + Sync {
    /// The entries that match, in the order of [`Rank`](crate::search::Rank). Everything
    /// acknowledged before the call is found, in archived sessions too; what is in the trash is not.
    /// `offset` skips the hits of earlier pages.
    ///
    /// # Errors
    ///
    /// Only those of the disk.
    fn search(&self, owner: &Owner, query: &Query, offset: usize, limit: usize)
    -> Result<Vec<Hit>>;

    /// How many entries of all owners the index of words has not seen yet; nothing where only
    /// reading the logs would tell. The next search of their owner takes them in.
    ///
    /// The cost does not depend on the size of the store, so where very many sessions are behind it
    /// is a lower bound.
    ///
    /// # Errors
    ///
    /// Only those of the disk.
    fn index_lag(&self) -> Result<Option<u64>>;
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The session, where it is one session's matter.
    pub session: Option<SessionId>,
    /// The entry, where it is one entry's matter.
    pub seq: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What became of it.
    pub state: FindingState,
}

/// What became of something that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingState {
    /// Nothing is wrong with the store; contexts take care of it.
    Noted,
    /// It was recomputed from the entries, or would be with `repair`.
    Repaired,
    /// It can be recomputed, and was not, because nobody asked for it.
    Repairable,
    /// It cannot be worked out from what is left.
    Damaged,
}

/// Looking after a store.
pub trait Upkeep: Send + Sync {
    /// Says whether something small could be stored now, by writing what changes nothing as durably
    /// as an append is written. It costs what an append costs.
    ///
    /// # Errors
    ///
    /// Those an append would meet: [`StoreError::Full`], [`StoreError::ReadOnly`],
    /// [`StoreError::Unreachable`] and the others of the disk or the network.
    fn can_write(&self) -> Result<()>;

    /// All sessions with their owners, those that cannot be listed included.
    ///
    /// # Errors
    ///
    /// Only those of the disk.
    fn everything(&self) -> Result<Vec<(Owner, SessionId)>>;

    /// Checks the store as a whole: the file, and what belongs to no session.
    ///
    /// # Errors
    ///
    /// Only those of the disk.
    fn check(&self, repair: bool) -> Result<Vec<Finding>>;

    /// Checks one session: order, fingerprints, pairs, counts, and what lists show of it. With
    /// `repair`, what can be worked out from the entries is rewritten; what an entry says is
    /// never changed or removed.
    ///
    /// # Errors
    ///
    /// Only those of the disk.
    fn check_session(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>>;
}

/// Everything a place for sessions can do.
pub trait Backend: Store + Search + Upkeep {}

impl<T: Store + Search + Upkeep> Backend for T {}
