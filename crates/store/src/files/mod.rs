//! A directory of JSON files that other programs read and write as well.
//!
//! What people see is one `<name>.json` for each session, `index.json` and `last_session`. What
//! the engine needs is in `.rethread/` beside them: a log for each session ([`log`]), a journal of
//! which sessions there are ([`state`]), and a lock. An append writes to the log alone; the
//! visible files follow when a turn ends or the store is closed ([`fold`]), and what a crash left
//! behind is brought up to date by whoever opens the directory next. What other programs write is
//! taken in when it is noticed ([`foreign`]).
//!
//! Every call holds the lock of the directory while it runs, so processes take turns. The lock is
//! the operating system's: it ends with the process that holds it.
//!
//! Listing reads no log: the state says what each log added up to when it was last folded, and
//! the few entries behind that are read from there. Searching does read every log, one record at
//! a time; it costs as much as reading the files.

mod check;
mod compare;
mod disk;
#[cfg(all(test, unix))]
mod faults;
mod fold;
mod foreign;
mod frame;
mod log;
mod read;
mod state;
mod visible;
mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, TryLockError};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rethread_core::store::{
    At, Bind, Change, Cursor, Filter, Finding, Hit, Lease, Page, Result, Search, Then, Upkeep,
    query_words,
};
use rethread_core::{
    Entry, Header, Key, Name, NewEntry, Owner, Session, SessionId, Store, StoreError, World,
};

use disk::{Disk, Real, Told};
use foreign::Skipped;
use log::Log;
use state::{Record, State};

/// How long to wait for another process. Calls are short; whoever holds the lock longer than this
/// is stopped or stuck.
const BUSY: Duration = Duration::from_secs(20);

/// Logs kept open. A person works in a few sessions at a time.
const LOGS_MAX: usize = 64;

/// How many sessions a directory keeps, and what becomes of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesLimit {
    /// Sessions that are not archived; 0 for any number. When one more is created, those that
    /// were active longest ago go.
    pub sessions: usize,
    /// Whether they are deleted. Otherwise they are archived: moved into `archive/`, still found
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
///
/// It keeps the sessions of one owner, the person at this machine.
pub struct FilesStore {
    lock: File,
    dir: Mutex<Dir>,
}

/// The directory, as far as it is known.
struct Dir {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    world: Arc<dyn World>,
    limit: FilesLimit,
    state: State,
    logs: HashMap<SessionId, Log>,
    /// Sessions that this process changed since they were folded.
    dirty: BTreeSet<SessionId>,
    /// Files that are left alone, and why.
    skipped: BTreeMap<PathBuf, Skipped>,
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
        FilesStore::open_on(Arc::new(Real), path, limit, world)
    }

    fn open_on(
        disk: Arc<dyn Disk>,
        path: &Path,
        limit: FilesLimit,
        world: Arc<dyn World>,
    ) -> Result<FilesStore> {
        const ACTION: &str = "open the directory";
        let no_store = || StoreError::NotAStore { place: path.display().to_string() };
        if path.exists() && !path.is_dir() {
            return Err(no_store());
        }
        let ours = path.join(".rethread");
        // A link could lead anywhere, and what is written there is believed.
        let inside = ["logs", "state", "lock"].map(|name| ours.join(name));
        let is_link =
            |path: &PathBuf| path.symlink_metadata().is_ok_and(|there| there.is_symlink());
        if ours.is_file() || is_link(&ours) || inside.iter().any(is_link) {
            return Err(no_store());
        }
        disk.folder(&ours.join("logs")).told(path, ACTION)?;
        disk.sync_folder(path).told(path, ACTION)?;
        let lock = disk.open(&ours.join("lock")).told(path, ACTION)?;
        let held = Held::new(&lock, path)?;
        let state = State::open(disk.as_ref(), ours.join("state"))?;
        let (logs, dirty, skipped) = (HashMap::new(), BTreeSet::new(), BTreeMap::new());
        let root = path.to_owned();
        let mut dir = Dir { root, disk, world, limit, state, logs, dirty, skipped };
        dir.recover()?;
        drop(held);
        Ok(FilesStore { lock, dir: Mutex::new(dir) })
    }

    /// Does something while no other process can.
    fn with<T>(&self, work: impl FnOnce(&mut Dir) -> Result<T>) -> Result<T> {
        // A change is remembered only once it is written, so a panic leaves what is true.
        let mut dir = self.dir.lock().unwrap_or_else(PoisonError::into_inner);
        let held = Held::new(&self.lock, &dir.root)?;
        dir.refresh()?;
        let done = work(&mut dir);
        drop(held);
        done
    }
}

impl Drop for FilesStore {
    /// Brings the visible files up to date. What cannot be written now is written by whoever
    /// opens the directory next.
    fn drop(&mut self) {
        let dirty = self.dir.lock().map(|dir| !dir.dirty.is_empty()).unwrap_or(false);
        if dirty {
            drop(self.with(Dir::fold_dirty));
        }
    }
}

/// The lock of the directory, held.
struct Held<'a>(&'a File);

impl<'a> Held<'a> {
    fn new(lock: &'a File, place: &Path) -> Result<Held<'a>> {
        let start = Instant::now();
        let mut tries = 0_u32;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Held(lock)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(disk::told(place, "lock the directory", error));
                }
            }
            if start.elapsed() > BUSY {
                return Err(StoreError::Busy { place: place.display().to_string() });
            }
            // Most calls are over in the time of one sync; after that, patience is cheaper.
            match tries {
                0..8 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(100 << (tries / 16).min(4))),
            }
            tries += 1;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // It ends with the file at the latest.
        drop(self.0.unlock());
    }
}

impl Dir {
    /// Takes in what other processes did.
    fn refresh(&mut self) -> Result<()> {
        self.state.refresh(self.disk.as_ref())?;
        for id in std::mem::take(&mut self.state.catalogue.moved) {
            self.logs.remove(&id);
        }
        self.settle()
    }

    fn record(&self, id: SessionId) -> Result<&Record> {
        self.state.catalogue.get(id).ok_or(StoreError::NotFound { id })
    }

    /// Where a session's visible file is.
    fn path_of(&self, stem: &str, archived: bool) -> PathBuf {
        let folder = if archived { self.archive() } else { self.root.clone() };
        folder.join(format!("{stem}.json"))
    }

    fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }

    fn logs_folder(&self) -> PathBuf {
        self.root.join(".rethread").join("logs")
    }

    fn log_path(&self, id: SessionId) -> PathBuf {
        self.logs_folder().join(format!("{id}.log"))
    }

    /// The log of a session, up to date.
    fn log(&mut self, id: SessionId) -> Result<&mut Log> {
        const ACTION: &str = "read a log";
        let path = self.log_path(id);
        let there = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
        let gone = || StoreError::Damaged { id, seq: 0, what: "its log is gone".into() };
        let there = there.ok_or_else(gone)?;
        let open = match self.logs.get(&id) {
            Some(log) => {
                state::same_file(&log.file.metadata().told(&path, ACTION)?, &there)
                    && log.tail.bytes <= there.len()
            }
            None => false,
        };
        if !open {
            if self.logs.len() >= LOGS_MAX {
                self.logs.clear();
            }
            let folded = self.state.catalogue.get(id).and_then(|record| record.folded.as_ref());
            let log = Log::open(&path, folded.map_or(0, |tail| tail.bytes));
            self.logs.insert(id, log.told(&path, ACTION)?);
        }
        let log = self.logs.get_mut(&id).ok_or(StoreError::NotFound { id })?;
        if log.tail.bytes != there.len() {
            log.refresh().told(&path, ACTION)?;
        }
        Ok(log)
    }
}

/// Whether the sessions of this owner are kept here.
fn is_ours(owner: &Owner) -> bool {
    *owner == Owner::local()
}

/// The session of an owner, who must be the one this store is for.
fn ours(owner: &Owner, id: SessionId) -> Result<()> {
    match is_ours(owner) {
        true => Ok(()),
        false => Err(StoreError::NotFound { id }),
    }
}

impl Store for FilesStore {
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session> {
        self.with(|dir| dir.create(header, entries, binds))
    }

    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session> {
        ours(owner, id)?;
        self.with(|dir| {
            dir.look_at(id)?;
            dir.session(id)
        })
    }

    fn named(&self, owner: &Owner, name: &Name) -> Result<Option<SessionId>> {
        if !is_ours(owner) {
            return Ok(None);
        }
        self.with(|dir| {
            dir.look()?;
            let mut all = dir.state.catalogue.all();
            Ok(all.find(|record| record.header.name == *name).map(|record| record.header.id))
        })
    }

    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>> {
        if !is_ours(owner) {
            return Ok(Vec::new());
        }
        self.with(|dir| {
            dir.look()?;
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
        if !is_ours(owner) {
            return Ok(Page::default());
        }
        self.with(|dir| {
            dir.look()?;
            dir.list(filter, after, limit)
        })
    }

    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Vec<u64>> {
        ours(owner, id)?;
        self.with(|dir| dir.append(id, at, entries))
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
        ours(owner, id)?;
        self.with(|dir| dir.entries(id, range))
    }

    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        match is_ours(owner) {
            true => self.with(|dir| Ok(dir.state.catalogue.keys.get(key).copied())),
            false => Ok(None),
        }
    }

    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        match (is_ours(owner), to) {
            (true, _) => self.with(|dir| dir.bind(bind, to)),
            (false, Some(id)) => Err(StoreError::NotFound { id }),
            (false, None) => Ok(()),
        }
    }

    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session> {
        ours(owner, id)?;
        self.with(|dir| dir.update(id, change))
    }

    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease> {
        ours(owner, id)?;
        self.with(|dir| dir.lease(id, holder, ttl))
    }

    fn delete(&self, owner: &Owner, id: SessionId) -> Result<()> {
        ours(owner, id)?;
        self.with(|dir| dir.delete(id))
    }
}

impl Search for FilesStore {
    fn search(&self, owner: &Owner, query: &str, offset: usize, limit: usize) -> Result<Vec<Hit>> {
        let words = query_words(query)?;
        if !is_ours(owner) {
            return Ok(Vec::new());
        }
        self.with(|dir| {
            dir.look()?;
            dir.search(&words, offset, limit)
        })
    }
}

impl Upkeep for FilesStore {
    fn everything(&self) -> Result<Vec<(Owner, SessionId)>> {
        self.with(|dir| {
            dir.look()?;
            let ids = dir.state.catalogue.all().map(|record| record.header.id);
            Ok(ids.map(|id| (Owner::local(), id)).collect())
        })
    }

    fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        self.with(|dir| dir.check(repair))
    }

    fn check_session(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>> {
        ours(owner, id)?;
        self.with(|dir| dir.check_session(id, repair))
    }
}
