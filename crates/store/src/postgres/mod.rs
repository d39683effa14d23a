//! The store for many machines: one PostgreSQL database, shared by any number of servers.
//!
//! The log is guarded by its primary key: each position is taken once, by one writer anywhere, and
//! each id is stored once. Leases use the clock of the database. Derived data (when a session was
//! last active, and the search index) is updated later, up to marks, as in the other stores.
//!
//! The statements ([`sql`]) keep to what PostgreSQL and the distributed engines that speak its
//! protocol have in common; search by `tsvector` ([`search`]) is PostgreSQL's own.
//!
//! Transactions that the server rolls back, and those whose outcome is unknown after a lost
//! connection, are retried as a whole ([`pool`]); everything the store does is idempotent.

pub(crate) mod address;
mod append;
mod blobs;
mod connection;
mod error;
#[cfg(test)]
mod lint;
mod pool;
mod queue;
mod read;
mod search;
mod sessions;
mod setup;
mod sql;
#[cfg(feature = "testing")]
pub(crate) mod testing;
mod tls;
mod upkeep;
mod wait;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rethread_core::search::{Hit, Query};
use rethread_core::store::{
    Appended, At, Bind, Change, Cursor, Filter, Finding, Lease, OnAppended, Page, Result, Search,
    Upkeep,
};
use rethread_core::{
    BlobId, BlobInfo, Entry, Header, Key, NewEntry, Owner, Session, SessionId, Store, StoreError,
    World,
};

use crate::progress::ProgressSink;
use crate::url::ConnectError;
use address::{Address, BadOption};
use append::{Ends, Request, Touched};
use pool::Pool;
use queue::Queue;

/// Sessions in a PostgreSQL database.
pub struct PostgresStore {
    // Dropped first, so that pending appends are finished while there are connections.
    queue: Queue,
    db: Arc<Db>,
}

pub(crate) struct Db {
    pool: Pool,
    ends: Ends,
    touched: Touched,
    /// The clock for leases: the server's or, in tests, one that can be set.
    clock: Option<Arc<dyn World>>,
}

impl PostgresStore {
    /// Opens the database at a `postgres://` URL, and creates the tables if there are none.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Option`] for an unknown option in the URL; otherwise
    /// [`StoreError::Unreachable`], [`StoreError::NotAStore`] if tables with these names belong to
    /// another program, and [`StoreError::Newer`] if a newer version created them.
    pub fn open(url: &str) -> std::result::Result<PostgresStore, ConnectError> {
        PostgresStore::open_with_progress(url, None)
    }

    pub(crate) fn open_with_progress(
        url: &str,
        progress: Option<&ProgressSink>,
    ) -> std::result::Result<PostgresStore, ConnectError> {
        PostgresStore::with_clock(url, None, progress)
    }

    /// The same, with another clock for leases than the server's.
    #[cfg(feature = "testing")]
    pub fn open_at(
        url: &str,
        clock: Arc<dyn World>,
    ) -> std::result::Result<PostgresStore, ConnectError> {
        PostgresStore::with_clock(url, Some(clock), None)
    }

    fn with_clock(
        url: &str,
        clock: Option<Arc<dyn World>>,
        progress: Option<&ProgressSink>,
    ) -> std::result::Result<PostgresStore, ConnectError> {
        let place = Address::new(url).map_err(|source| StoreError::Backend {
            store: "postgres",
            action: "set up encryption",
            source,
        })?;
        let place = place.map_err(|BadOption(option)| ConnectError::Option { option })?;
        let pool = Pool::new(place)?;
        let db = Db { pool, ends: Ends::default(), touched: Touched::default(), clock };
        db.set_up(progress)?;
        Ok(PostgresStore { queue: Queue::default(), db: Arc::new(db) })
    }

    /// Fault injection for tests.
    #[cfg(feature = "testing")]
    pub fn faults(&self) -> &testing::Faults {
        &self.db.pool.faults
    }
}

impl Db {
    /// The time parameter of a statement; `None` for the server's clock.
    fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_millisecond())
    }

    fn place(&self) -> &str {
        &self.pool.place.shown
    }
}

impl Store for PostgresStore {
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session> {
        self.db.create(header, entries, binds)
    }

    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session> {
        self.db.get(owner, id)
    }

    fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>> {
        self.db.named(owner, name)
    }

    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>> {
        self.db.with_prefix(owner, digits, limit)
    }

    fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.db.list(owner, filter, after, limit)
    }

    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        self.db.append(&Request::new(owner, id, at, entries))
    }

    fn append_then(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: Vec<NewEntry>,
        then: OnAppended,
    ) {
        self.queue.append_then(&self.db, Request::new(owner, id, at, &entries), then);
    }

    fn read(&self, owner: &Owner, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>> {
        self.db.entries(owner, id, range)
    }

    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        self.db.resolve(owner, key)
    }

    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        self.db.bind(owner, bind, to)
    }

    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session> {
        self.db.update(owner, id, change)
    }

    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease> {
        self.db.lease(owner, id, holder, ttl)
    }

    fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        self.db.put_blob(owner, id, bytes)
    }

    fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        self.db.blob(owner, id, blob)
    }

    fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>> {
        self.db.blobs(owner, id)
    }

    fn delete(&self, owner: &Owner, id: SessionId, trashed_at: Option<Timestamp>) -> Result<()> {
        self.db.delete(owner, id, trashed_at)
    }
}

impl Search for PostgresStore {
    fn search(
        &self,
        owner: &Owner,
        query: &Query,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        self.db.search(owner, query, offset, limit)
    }

    fn index_lag(&self) -> Result<Option<u64>> {
        self.db.index_lag().map(Some)
    }
}

impl Upkeep for PostgresStore {
    fn can_write(&self) -> Result<()> {
        self.db.can_write()
    }

    fn everything(&self) -> Result<Vec<(Owner, SessionId)>> {
        self.db.everything()
    }

    fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        self.db.check(repair)
    }

    fn check_session(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>> {
        self.db.check_session(owner, id, repair)
    }
}
