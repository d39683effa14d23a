//! A directory of JSON files that other programs read and write as well.
//!
//! Users see one `<name>.json` for each session, `index.json` and `last_session`. The sessions
//! themselves are in a database in `.rethread/`, a [`SqliteStore`] that does everything a store has
//! to do. This module is the mirror between the two. Appends and reads go to the database only; a
//! background thread updates the files soon after, and closing the store does so too
//! ([`write_files`]). If a crash prevents that, the files are updated when the directory is opened
//! next. Changes by other programs are imported when they are noticed ([`import_edits`]).
//!
//! The files belong to the user of this machine, owner `local`. Sessions of other owners are in the
//! same database, and have no files.

pub(crate) mod disk;
#[cfg(all(test, unix))]
mod edit_race_tests;
#[cfg(all(test, unix))]
mod faults;
pub(crate) mod import_edits;
pub(crate) mod mirror;
pub(crate) mod repair;
pub(crate) mod visible;
mod write_files;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use rethread_core::search::{Hit, Query};
use rethread_core::store::{
    Appended, At, Bind, Change, Cursor, Filter, Lease, LeaseChange, OnAppended, Page, Result,
    Search,
};
use rethread_core::{
    BlobId, BlobInfo, Entry, Header, Key, NewEntry, Owner, Session, SessionId, Store, World,
    readable_id,
};

use disk::{Real, failed};
use mirror::{Mirror, OpenOptions};
use visible::{shown_name, stem_of};

use crate::journals;
use crate::progress::ProgressSink;
use crate::sqlite::{Mirrored, SqliteStore};

/// How many sessions a directory keeps, and what happens to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesLimit {
    /// Chats that are not archived; 0 for any number. When one more is created, the least recently
    /// active ones are removed. Sessions that were imported, recorded or written by another program
    /// do not count, nor do those of subagents.
    pub sessions: usize,
    /// Whether they are moved to the trash. Otherwise they are archived: moved into `archive/`,
    /// still found by search, and unarchived when opened.
    pub delete: bool,
}

impl Default for FilesLimit {
    /// Fifty, like programs that share such a directory; the others are archived.
    fn default() -> FilesLimit {
        FilesLimit { sessions: 50, delete: false }
    }
}

/// A number of sessions that no list has.
const ALL: usize = i64::MAX as usize / 2;

/// Sessions in a directory of JSON files.
pub struct FilesStore {
    mirror: Arc<Mirror>,
    /// Keeps the files up to date.
    thread: Option<JoinHandle<()>>,
}

impl FilesStore {
    /// Opens a directory, and creates it if it does not exist: mode 0700, its files 0600.
    ///
    /// Changes by other programs are imported, and files that a crash left out of date are written.
    /// A directory of an earlier version is migrated.
    ///
    /// # Errors
    ///
    /// [`NotAStore`] if the path is not a directory, [`Newer`] if a newer version wrote it, [`Busy`]
    /// if another process holds its lock for too long; otherwise I/O errors.
    ///
    /// [`NotAStore`]: rethread_core::StoreError::NotAStore
    /// [`Newer`]: rethread_core::StoreError::Newer
    /// [`Busy`]: rethread_core::StoreError::Busy
    pub fn open(path: &Path, limit: FilesLimit, world: Arc<dyn World>) -> Result<FilesStore> {
        FilesStore::open_telling(path, limit, world, None)
    }

    pub(crate) fn open_telling(
        path: &Path,
        limit: FilesLimit,
        world: Arc<dyn World>,
        tell: Option<&ProgressSink>,
    ) -> Result<FilesStore> {
        let options = OpenOptions { disk: Arc::new(Real), limit, world, tell: tell.cloned() };
        let mirror = Arc::new(Mirror::open(options, path)?);
        let (thread, kept_up) = (std::thread::Builder::new(), mirror.clone());
        let thread = thread.name("rethread-mirror".into()).spawn(move || kept_up.keep_up());
        let thread = Some(thread.map_err(failed(path, "start a thread"))?);
        Ok(FilesStore { mirror, thread })
    }

    /// The database, with the changes of other programs, if this owner shares the directory with
    /// them.
    fn current(&self, owner: &Owner) -> Result<&SqliteStore> {
        if owner.is_local() {
            self.mirror.look()?;
        }
        Ok(&self.mirror.db)
    }

    /// The sessions with files that match, except those in the trash.
    fn with(&self, owner: &Owner, is_it: impl Fn(&Header) -> bool) -> Result<Vec<SessionId>> {
        let db = self.current(owner)?;
        let all = if owner.is_local() { db.mirrored(None)? } else { Vec::new() };
        let found = all.iter().filter_map(Mirrored::live).filter(|header| is_it(header));
        Ok(found.map(|header| header.id).collect())
    }

    /// Marks the file of a session as out of date, if it has one.
    fn follows(&self, owner: &Owner, id: SessionId) {
        if owner.is_local() {
            self.mirror.is_dirty(id);
        }
    }

    /// The database, if these entries can be appended.
    fn appendable(&self, owner: &Owner, id: SessionId, at: &At) -> Result<&SqliteStore> {
        let db = self.mirror.writable()?;
        if owner.is_local() {
            if matches!(at.lease, LeaseChange::Take { .. }) {
                // A turn begins with what another program wrote.
                self.mirror.look_at(id)?;
            }
            self.mirror.is_whole(id)?;
        }
        Ok(db)
    }

    /// Archives or deletes the least recently active sessions while there are too many.
    fn keep_to_limit(&self, newest: SessionId) -> Result<()> {
        let FilesLimit { sessions, delete } = self.mirror.options.limit;
        let filter = Filter { archived: Some(false), ..Filter::default() };
        let mut chats = self.list(&Owner::local(), &filter, None, ALL)?.sessions;
        chats.retain(|session| session.header.is_own_chat());
        let excess = chats.len().saturating_sub(sessions);
        let held =
            |id| matches!(self.mirror.db.mirrored(Some(id)).as_deref(), Ok([one]) if one.held);
        let free = chats.iter().rev().map(Session::id).filter(|id| *id != newest && !held(*id));
        for id in free.take(excess) {
            let away = Change { archived: Some(true), ..Change::default() };
            match delete {
                true => drop(self.mirror.throw_away(id)?),
                false => self.mirror.db.update(&Owner::local(), id, &away).map(drop)?,
            }
            // Starting a session does not wait until the file of another one is moved.
            self.mirror.is_dirty(id);
        }
        Ok(())
    }
}

impl Drop for FilesStore {
    /// Updates the visible files. What cannot be written now is written when the directory is
    /// opened next.
    fn drop(&mut self) {
        self.mirror.known().closed = true;
        self.mirror.woken.notify_all();
        // If the thread panicked, that was printed, and the files are written here.
        drop(self.thread.take().map(JoinHandle::join));
        self.mirror.fold_dirty();
    }
}

impl Store for FilesStore {
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session> {
        let mut header = journals::in_paths(header.clone());
        let local = header.owner.is_local();
        // The id that another program gave it elsewhere may be taken here: the copy says so.
        let is_new = || self.mirror.db.get(&header.owner, header.id).is_err();
        if local && self.mirror.is_taken(&stem_of(&header), None) && is_new() {
            header.extra.set(visible::ID, None);
        }
        let session = self.mirror.writable()?.create(&header, entries, binds)?;
        self.follows(&header.owner, header.id);
        let is_limited = self.mirror.options.limit.sessions > 0;
        if is_limited && local && header.is_own_chat() && !header.archived {
            self.keep_to_limit(header.id)?;
        }
        Ok(session)
    }

    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session> {
        mirror::if_possible(self.mirror.look_at(id))?;
        let mut session = self.mirror.db.get(owner, id)?;
        self.mirror.describe(&mut session);
        Ok(session)
    }

    /// The only session that is shown under exactly this name; otherwise the one whose name folds
    /// to it.
    fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>> {
        match self.with(owner, |header| shown_name(header) == name)?.as_slice() {
            [id] => Ok(Some(*id)),
            _ => self.mirror.db.named(owner, name),
        }
    }

    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>> {
        self.current(owner)?.with_prefix(owner, digits, limit)
    }

    fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let db = self.current(owner)?;
        // Other programs may say when a session was active, which the database does not know.
        let by_others = owner.is_local() && self.mirror.known().active;
        let (from, most) = if by_others { (None, ALL) } else { (after, limit) };
        let mut page = db.list(owner, filter, from, most)?;
        page.sessions.iter_mut().for_each(|session| self.mirror.describe(session));
        match by_others {
            true => Ok(Page { damaged: page.damaged, ..Page::of(page.sessions, after, limit) }),
            false => Ok(page),
        }
    }

    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        let appended = self.appendable(owner, id, &at)?.append(owner, id, at, entries)?;
        self.follows(owner, id);
        Ok(appended)
    }

    fn append_then(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: Vec<NewEntry>,
        then: OnAppended,
    ) {
        let db = match self.appendable(owner, id, &at) {
            Err(error) => return then(Err(error)),
            Ok(db) => db,
        };
        let (mirror, local) = (self.mirror.clone(), owner.is_local());
        let then = Box::new(move |outcome: Result<Appended>| {
            if local && outcome.is_ok() {
                mirror.is_dirty(id);
            }
            then(outcome);
        });
        db.append_then(owner, id, at, entries, then);
    }

    fn read(&self, owner: &Owner, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>> {
        let entries = self.mirror.db.read(owner, id, range.clone())?;
        // A reader that asks for more than there is must be told that there was more.
        if owner.is_local() && range.start + (entries.len() as u64) < range.end {
            self.mirror.is_whole(id)?;
        }
        Ok(entries)
    }

    /// A session is also known by the name of its file.
    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        if let Some(id) = readable_id::in_key(key)
            && let Some(id) = self.with(owner, |header| stem_of(header) == id)?.first()
        {
            return Ok(Some(*id));
        }
        self.mirror.db.resolve(owner, key)
    }

    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        self.mirror.writable()?.bind(owner, bind, to)
    }

    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session> {
        let db = self.mirror.writable()?;
        if owner.is_local() && change.archived == Some(true) {
            self.mirror.make_archive()?;
        }
        let mut change = change.clone();
        if let Some(Some(trash)) = &mut change.trash {
            // The name of its file is not a key that it gets back.
            trash.keys.retain(|key| matches!(db.resolve(owner, key), Ok(Some(_))));
        }
        let mut session = db.update(owner, id, &change)?;
        self.follows(owner, id);
        if change.name.is_some() || change.archived.is_some() || change.trash.is_some() {
            // A file that moves does so at once.
            self.mirror.fold_dirty();
        }
        self.mirror.describe(&mut session);
        Ok(session)
    }

    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease> {
        let db = self.mirror.writable()?;
        self.mirror.look_at(id)?;
        let lease = db.lease(owner, id, holder, ttl)?;
        if ttl.is_zero() {
            self.follows(owner, id);
        }
        Ok(lease)
    }

    fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        self.mirror.writable()?.put_blob(owner, id, bytes)
    }

    fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        self.mirror.db.blob(owner, id, blob)
    }

    fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>> {
        self.mirror.db.blobs(owner, id)
    }

    fn delete(&self, owner: &Owner, id: SessionId, trashed_at: Option<Timestamp>) -> Result<()> {
        let db = self.mirror.writable()?;
        if owner.is_local() {
            self.mirror.discard(id, trashed_at.is_some())?;
        }
        db.delete(owner, id, trashed_at)
    }
}

impl Search for FilesStore {
    fn search(
        &self,
        owner: &Owner,
        query: &Query,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        self.current(owner)?.search(owner, query, offset, limit)
    }

    fn index_lag(&self) -> Result<Option<u64>> {
        self.mirror.db.index_lag()
    }
}
