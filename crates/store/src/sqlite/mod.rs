//! The default store: one SQLite file, shared by any number of processes.
//!
//! Durable means `synchronous=FULL` in WAL mode: an append costs one sync. All writes of a process
//! go through one connection; appends that arrive during a sync share the next transaction
//! ([`queue`]). Reads use separate connections and never wait.
//!
//! An append touches as few pages as possible: the row and two index leaves. Derived data (when a
//! session was last active, the search index) is updated later, up to a mark kept in `progress`;
//! readers also read the few entries after the mark.

mod append;
mod blobs;
mod column;
#[cfg(test)]
mod damage;
mod error;
#[cfg(test)]
mod faults;
mod migrate;
mod mirror;
mod queue;
mod read;
mod rebuild;
mod row;
mod schema;
mod search;
mod sessions;
mod upkeep;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
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
use rusqlite::Connection;

pub(crate) use mirror::{Location, Mirrored, Shown, Stamp};

use append::{Ends, Unfolded};
use error::OrStoreError;
use queue::Queue;
use schema::{Access, File};

use crate::progress::ProgressSink;

/// Idle connections kept for reading.
const READERS_MAX: usize = 8;

/// Sessions in one SQLite file.
pub struct SqliteStore {
    db: Arc<Db>,
    queue: Queue,
}

/// The connections.
pub(crate) struct Db {
    file: Mutex<File>,
    /// Where the file is.
    path: PathBuf,
    world: Arc<dyn World>,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    /// What was written after the mark up to which lists are current.
    unfolded: Mutex<Unfolded>,
    /// The ends of logs that were appended to recently.
    ends: Mutex<Ends>,
    /// Whether a check found that the search index lacks entries: this is reported once.
    lacking: AtomicBool,
}

/// The row up to which lists are up to date; the start if it is not known.
const FOLDED: &str = "coalesce((SELECT rid FROM progress WHERE what = 'folded'), 0)";

/// The row up to which the search index is up to date.
const INDEXED: &str = "coalesce((SELECT rid FROM progress WHERE what = 'searched'), 0)";

/// The cache of the writing connection, in KiB as a negative number, as SQLite expects it. When a
/// page is split, SQLite examines every cached page at the commit, so a large cache would cost
/// appends more than it saves.
const WRITER_CACHE: i32 = -4_096;

impl SqliteStore {
    /// Opens the file, and creates it if it does not exist: with mode 0600, in a folder with mode
    /// 0700.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotAStore`] if the file is something else, [`StoreError::Newer`] if a newer
    /// version wrote it; otherwise I/O errors.
    pub fn open(path: &Path, world: Arc<dyn World>) -> Result<SqliteStore> {
        SqliteStore::open_telling(path, world, None)
    }

    pub(crate) fn open_telling(
        path: &Path,
        world: Arc<dyn World>,
        tell: Option<&ProgressSink>,
    ) -> Result<SqliteStore> {
        let (file, connection) = schema::open(path, tell)?;
        let db = Arc::new(Db {
            path: file.path.clone(),
            file: Mutex::new(file),
            world,
            writer: Mutex::new(for_writing(path, connection)?),
            readers: Mutex::default(),
            unfolded: Mutex::default(),
            ends: Mutex::default(),
            lacking: AtomicBool::default(),
        });
        // Short-lived processes each leave a few entries after the mark, so they are counted here.
        // If that fails because of damage, the file must still open, for `doctor`.
        let lag = rebuild::unless_damaged(db.read(|snapshot| db.lag(snapshot)))?;
        *db.unfolded() = lag.unwrap_or_default();
        Ok(SqliteStore { queue: Queue::new(db.clone())?, db })
    }
}

impl Db {
    /// Runs `work` in one transaction on the writing connection: all of it is on disk when this
    /// returns, or nothing is.
    fn write<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let mut connection = self.writer();
        match self.access() {
            Access::All => {}
            Access::ReadOnly => {
                return Err(StoreError::ReadOnly { place: self.path.display().to_string() });
            }
            Access::Full => {
                // There may be free space by now.
                let (file, opened) = schema::open(&self.path, None)?;
                if file.access != Access::All {
                    return Err(StoreError::Full { place: self.path.display().to_string() });
                }
                *connection = for_writing(&self.path, opened)?;
                *self.file() = file;
            }
        }
        let connection = connection;
        let run =
            |sql| connection.prepare_cached(sql).and_then(|mut statement| statement.execute([]));
        run("BEGIN IMMEDIATE").or_store_error(&self.path, action)?;
        // Any early end, including a panic, rolls the transaction back.
        let open = Open(&connection);
        if action != append::ACTION {
            self.ends().forget();
        }
        let done = work(&connection)?;
        run("COMMIT").or_store_error(&self.path, action)?;
        std::mem::forget(open);
        Ok(done)
    }

    /// Empties the write-ahead log, which still contains what was deleted. That is not possible
    /// while another connection reads or writes, and there is no waiting for it: the log is emptied
    /// after the next deletion, overwritten after a later checkpoint, or removed when the last
    /// connection is closed. The deletion succeeds in any case.
    fn empty_log(&self) {
        let connection = self.writer();
        let done = connection
            .busy_timeout(Duration::ZERO)
            .and_then(|()| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
        drop(done);
        drop(connection.busy_timeout(schema::BUSY));
    }

    fn writer(&self) -> MutexGuard<'_, Connection> {
        // A panic in a transaction rolled it back, so the connection can be used.
        self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Runs `work` on one snapshot of the file.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let file = self.file().clone();
        let mut readers = self.readers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let reader = readers.pop();
        drop(readers);
        let connection = match reader {
            Some(connection) => connection,
            None => schema::connect(&file)?,
        };
        let snapshot = connection.unchecked_transaction().or_store_error(&self.path, "read")?;
        let done = work(&snapshot);
        drop(snapshot);
        // On a full disk, a connection may read the file as if nobody wrote to it. That is wrong as
        // soon as somebody can write, so the connection is used once.
        if file.access != Access::Full {
            let mut readers =
                self.readers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if readers.len() < READERS_MAX {
                readers.push(connection);
            }
        }
        done
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn access(&self) -> Access {
        self.file().access
    }

    /// Used only by the writer, so there is no contention.
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Used only by the writer, too.
    fn unfolded(&self) -> MutexGuard<'_, Unfolded> {
        self.unfolded.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn place(&self) -> &Path {
        &self.path
    }
}

/// Sets up the writing connection.
fn for_writing(path: &Path, connection: Connection) -> Result<Connection> {
    connection
        .pragma_update(None, "cache_size", WRITER_CACHE)
        .or_store_error(path, "open the file")?;
    Ok(connection)
}

/// A transaction that is not committed yet.
struct Open<'a>(&'a Connection);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // A failed commit may have ended it already.
        if !self.0.is_autocommit()
            && let Err(error) = self.0.execute_batch("ROLLBACK")
        {
            debug_assert!(false, "a transaction could not be rolled back: {error}");
        }
    }
}

impl Store for SqliteStore {
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session> {
        let new = append::Request::new(&header.owner, header.id, At::END, entries);
        self.db.write("create a session", |tx| self.db.create(tx, header, &new, binds))
    }

    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session> {
        self.db.read(|snapshot| self.db.session(snapshot, owner, id))
    }

    fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>> {
        self.db.read(|snapshot| self.db.named(snapshot, owner, name))
    }

    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>> {
        self.db.read(|snapshot| self.db.with_prefix(snapshot, owner, digits, limit))
    }

    fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.db.read(|snapshot| self.db.list(snapshot, owner, filter, after, limit))
    }

    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        self.queue.append(append::Request::new(owner, id, at, entries))
    }

    fn append_then(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: Vec<NewEntry>,
        then: OnAppended,
    ) {
        self.queue.append_then(append::Request::new(owner, id, at, &entries), then);
    }

    fn read(&self, owner: &Owner, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>> {
        self.db.read(|snapshot| self.db.entries(snapshot, owner, id, range))
    }

    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        self.db.read(|snapshot| self.db.resolve(snapshot, owner, key))
    }

    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        self.db.write("bind a key", |tx| self.db.bind(tx, owner, bind, to))
    }

    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session> {
        self.db.write("change a session", |tx| self.db.update(tx, owner, id, change))
    }

    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease> {
        self.db.write("take a lease", |tx| self.db.lease(tx, owner, id, holder, ttl))
    }

    fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        self.db.put_blob(owner, id, bytes)
    }

    fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        self.db.read(|snapshot| self.db.blob(snapshot, owner, id, blob))
    }

    fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>> {
        self.db.read(|snapshot| self.db.blobs(snapshot, owner, id))
    }

    fn delete(&self, owner: &Owner, id: SessionId, trashed_at: Option<Timestamp>) -> Result<()> {
        self.db.write("delete a session", |tx| self.db.delete(tx, owner, id, trashed_at))?;
        self.db.empty_log();
        Ok(())
    }
}

impl Search for SqliteStore {
    fn search(
        &self,
        owner: &Owner,
        query: &Query,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let filled = self.db.fill_search()?;
        self.db.read(|snapshot| self.db.search(snapshot, owner, query, filled, (offset, limit)))
    }

    fn index_lag(&self) -> Result<Option<u64>> {
        self.db.read(|snapshot| self.db.index_lag(snapshot)).map(Some)
    }
}

impl Upkeep for SqliteStore {
    fn can_write(&self) -> Result<()> {
        // As an append, so that the ends of logs stay cached.
        self.db.write(append::ACTION, |tx| self.db.mark_again(tx))
    }

    fn everything(&self) -> Result<Vec<(Owner, SessionId)>> {
        self.db.read(|snapshot| self.db.everything(snapshot))
    }

    fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        self.db.check(repair)
    }

    fn check_session(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>> {
        self.db.check_session(owner, id, repair)
    }
}
