//! A directory of JSON files that other programs read and write as well.
//!
//! What people see is one `<name>.json` for each session, `index.json` and `last_session`. What
//! the engine needs is in `.rethread/` beside them: a log for each session ([`log`]), a journal of
//! which sessions there are ([`state`]), and a lock. An append writes to the log alone; the
//! visible files follow when a turn ends or the store is closed ([`fold`]), and what a crash left
//! behind is brought up to date by whoever opens the directory next. What other programs write is
//! taken in when it is noticed ([`foreign`]).
//!
//! Listing reads no log: the state says what each log added up to when it was last folded, and
//! the few entries behind that are read from there. Searching reads what was appended since the
//! search before ([`search`]).
//!
//! The directory is the one of the person at this machine. Any other owner has a directory of the
//! same kind within it ([`owners`]), which other programs do not see.

mod blobs;
mod check;
mod compare;
mod disk;
#[cfg(all(test, unix))]
mod faults;
mod fold;
mod folder;
mod foreign;
mod frame;
mod log;
#[cfg(test)]
mod meddling;
mod migrate;
mod owners;
mod read;
mod rebuild;
mod search;
mod state;
mod visible;
mod write;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::search::{Hit, Query};
use rethread_core::store::{
    Appended, At, Bind, Change, Cursor, Filter, Finding, Lease, Page, Result, Search, Then, Upkeep,
};
use rethread_core::{
    BlobId, BlobInfo, Entry, Header, Key, NewEntry, Owner, Session, SessionId, Store, StoreError,
    World,
};

#[cfg(all(test, unix))]
use disk::Disk;
use disk::Real;
use folder::{Dir, Way};
use owners::Owners;

use crate::progress::Tell;

/// How many sessions a directory keeps, and what becomes of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesLimit {
    /// Sessions that are not archived; 0 for any number. When one more is created, those that
    /// were active longest ago go.
    pub sessions: usize,
    /// Whether they are deleted, which is to say moved to the trash. Otherwise they are archived: moved into `archive/`, still found
    /// by search, and brought back when opened.
    pub delete: bool,
}

impl Default for FilesLimit {
    /// Fifty, as programs that share such a directory keep; the others are archived.
    fn default() -> FilesLimit {
        FilesLimit { sessions: 50, delete: false }
    }
}

/// Sessions in a directory of JSON files.
pub struct FilesStore {
    owners: Owners,
}

impl FilesStore {
    /// Opens a directory, making it if it is not there: mode 0700, its files 0600.
    ///
    /// What another program wrote since is taken in, and what a crash kept from being written to
    /// the visible files is written.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotAStore`] if the path is no directory, [`StoreError::Newer`] if a newer
    /// version wrote it, [`StoreError::Busy`] if another process does not let go of it, and those
    /// of the disk.
    pub fn open(path: &Path, limit: FilesLimit, world: Arc<dyn World>) -> Result<FilesStore> {
        FilesStore::open_telling(path, limit, world, None)
    }

    pub(crate) fn open_telling(
        path: &Path,
        limit: FilesLimit,
        world: Arc<dyn World>,
        tell: Option<&Tell>,
    ) -> Result<FilesStore> {
        let way = Way { disk: Arc::new(Real), limit, world, tell: tell.cloned() };
        Ok(FilesStore { owners: Owners::open(way, path)? })
    }

    #[cfg(all(test, unix))]
    fn open_on(
        disk: Arc<dyn Disk>,
        path: &Path,
        limit: FilesLimit,
        world: Arc<dyn World>,
    ) -> Result<FilesStore> {
        Ok(FilesStore { owners: Owners::open(Way { disk, limit, world, tell: None }, path)? })
    }

    /// Does something with a session in the directory of its owner.
    fn with<T>(
        &self,
        owner: &Owner,
        id: SessionId,
        work: impl FnOnce(&mut Dir) -> Result<T>,
    ) -> Result<T> {
        self.owners.find(owner)?.ok_or(StoreError::NotFound { id })?.with(work)
    }

    /// Changes something of a session in the directory of its owner.
    fn change<T>(
        &self,
        owner: &Owner,
        id: SessionId,
        work: impl FnOnce(&mut Dir) -> Result<T>,
    ) -> Result<T> {
        self.with(owner, id, |dir| dir.may_write().and_then(|()| work(dir)))
    }

    /// Looks something up in the directory of an owner; nothing, where there is none.
    fn look_up<T: Default>(
        &self,
        owner: &Owner,
        work: impl FnOnce(&mut Dir) -> Result<T>,
    ) -> Result<T> {
        match self.owners.find(owner)? {
            Some(folder) => folder.with(work),
            None => Ok(T::default()),
        }
    }
}

/// What was known before is still there to be read where there is no room to write down what
/// happened since.
fn unless_full(done: Result<()>) -> Result<()> {
    match done {
        Err(StoreError::Full { .. }) => Ok(()),
        done => done,
    }
}

impl Store for FilesStore {
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session> {
        let folder = self.owners.make(&header.owner)?;
        folder.with(|dir| dir.may_write().and_then(|()| dir.create(header, entries, binds)))
    }

    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session> {
        self.with(owner, id, |dir| {
            unless_full(dir.look_at(id))?;
            dir.session(id)
        })
    }

    fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>> {
        self.look_up(owner, |dir| {
            unless_full(dir.look())?;
            Ok(dir.named(name))
        })
    }

    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>> {
        self.look_up(owner, |dir| {
            unless_full(dir.look())?;
            let ids = dir.state.catalogue.all().map(|record| record.header.id);
            let fits = |id: &SessionId| id.0.simple().to_string().starts_with(digits);
            Ok(ids.filter(fits).take(limit).collect())
        })
    }

    fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.look_up(owner, |dir| {
            unless_full(dir.look())?;
            dir.list(filter, after, limit)
        })
    }

    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        self.change(owner, id, |dir| dir.is_there(id).and_then(|()| dir.append(id, at, entries)))
    }

    /// It is done before this returns: a directory has one writer at a time anyway.
    fn append_then(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: Vec<NewEntry>,
        then: Then,
    ) {
        then(self.append(owner, id, at, &entries));
    }

    fn read(&self, owner: &Owner, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>> {
        self.with(owner, id, |dir| dir.is_there(id).and_then(|()| dir.entries(id, range)))
    }

    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        self.look_up(owner, |dir| Ok(dir.state.catalogue.keys.get(key).copied()))
    }

    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        match to {
            Some(id) => self.change(owner, id, |dir| dir.bind(bind, to)),
            None => self.look_up(owner, |dir| dir.may_write().and_then(|()| dir.bind(bind, to))),
        }
    }

    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session> {
        self.change(owner, id, |dir| dir.update(id, change))
    }

    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease> {
        self.change(owner, id, |dir| dir.is_there(id).and_then(|()| dir.lease(id, holder, ttl)))
    }

    fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        self.change(owner, id, |dir| dir.is_there(id).and_then(|()| dir.put_blob(id, bytes)))
    }

    fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        self.with(owner, id, |dir| dir.is_there(id).and_then(|()| dir.blob(id, blob)))
    }

    fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>> {
        self.with(owner, id, |dir| dir.is_there(id).and_then(|()| dir.blobs(id)))
    }

    fn delete(&self, owner: &Owner, id: SessionId) -> Result<()> {
        self.change(owner, id, |dir| dir.delete(id))
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
        self.look_up(owner, |dir| {
            unless_full(dir.look())?;
            dir.search(query, offset, limit)
        })
    }

    /// How far the index has read a log is known in bytes, and entries are counted by reading them.
    fn behind(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

impl Upkeep for FilesStore {
    fn can_write(&self) -> Result<()> {
        self.owners.make(&Owner::local())?.with(Dir::can_write)
    }

    fn everything(&self) -> Result<Vec<(Owner, SessionId)>> {
        let mut everything = Vec::new();
        for (owner, folder) in self.owners.all()? {
            folder.with(|dir| {
                unless_full(dir.look())?;
                let ids = dir.state.catalogue.with_trash().map(|record| record.header.id);
                everything.extend(ids.map(|id| (owner.clone(), id)));
                Ok(())
            })?;
        }
        Ok(everything)
    }

    fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        let mut findings = self.owners.check();
        for (_, folder) in self.owners.all()? {
            findings.extend(folder.with(|dir| dir.check(repair))?);
        }
        Ok(findings)
    }

    fn check_session(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>> {
        self.with(owner, id, |dir| dir.check_session(id, repair))
    }
}
