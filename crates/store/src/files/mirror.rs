//! The open directory, and its database.
//!
//! Sessions are in the database; a [`Pass`] brings the visible files and the database into
//! agreement. It holds the lock of the directory, so that two processes never write the same file.
//! Appends and reads do not need the lock. It is an operating system lock, released when its
//! process ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rethread_core::entry::fingerprint;
use rethread_core::store::Result;
use rethread_core::{Header, Owner, SessionId, StoreError, World};

use super::disk::{self, Disk, OrStoreError, Scratch, changed, is_draft, names};
use super::import_edits::Skipped;
use super::visible::{active_at, stem_of};
use super::{FilesLimit, migrate};
use crate::progress::ProgressSink;
use crate::sqlite::{Mirrored, Shown, SqliteStore};

/// How long to wait for another process that is updating the files. One that holds the lock longer
/// than this is suspended or stuck.
pub(super) const BUSY: Duration = Duration::from_secs(20);

/// How long a look waits for the lock. Its holder is importing changes as well.
const GLANCE: Duration = Duration::from_millis(20);

/// How long to wait before the lock is tried again: about the time of a sync.
const RETRY: Duration = Duration::from_millis(1);

/// The minimum time between two writes of the files while sessions are written to.
const PAUSE: Duration = Duration::from_secs(1);

/// Writing a long session takes long. At most one part in this many of the time is spent on it.
const SHARE: u32 = 20;

/// The database, in our folder.
pub(super) const DATABASE: &str = "sessions.db";

/// The options for opening a directory.
pub(super) struct OpenOptions {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) limit: FilesLimit,
    pub(super) world: Arc<dyn World>,
    /// Receives progress reports.
    pub(super) tell: Option<ProgressSink>,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Everything.
    All,
    /// Nothing: the database is read, and changes by other programs are ignored.
    AsLeft,
    /// Nothing, and there is no database: the files are read into a temporary one, which is removed
    /// when the directory is closed.
    Visiting,
}

pub(super) struct Mirror {
    pub(super) db: SqliteStore,
    pub(super) root: PathBuf,
    /// The folder of our own files.
    pub(super) ours: PathBuf,
    pub(super) way: OpenOptions,
    pub(super) reach: Reach,
    lock: Option<File>,
    seen: Mutex<Seen>,
    known: Mutex<Known>,
    dirty: Mutex<Dirty>,
    woken: Condvar,
    /// Our folder, if it is elsewhere.
    _scratch: Option<Scratch>,
}

/// What this process knows about the files.
#[derive(Default)]
pub(super) struct Seen {
    /// Files that are ignored, and why.
    pub(super) skipped: BTreeMap<PathBuf, Skipped>,
    /// The state of the index when it was last up to date.
    pub(super) index: Option<(i64, u64)>,
    /// A damaged database was copied.
    pub(super) copied: bool,
}

/// What this process knows about sessions. Its lock is never held while files are written.
#[derive(Default)]
pub(super) struct Known {
    /// Sessions that were active later than their last entry, according to another program.
    pub(super) active: BTreeSet<SessionId>,
    /// The state of files that this process wrote.
    pub(super) written: BTreeMap<SessionId, (i64, u64)>,
    /// Sessions whose log is known to be at least as long as their file says.
    whole: BTreeSet<SessionId>,
}

/// Sessions whose files are out of date.
#[derive(Default)]
struct Dirty {
    ids: BTreeSet<SessionId>,
    closed: bool,
}

/// Brings files and database into agreement, with the lock held.
pub(super) struct Pass<'a> {
    pub(super) mirror: &'a Mirror,
    pub(super) seen: MutexGuard<'a, Seen>,
    pub(super) all: BTreeMap<SessionId, Mirrored>,
    /// Changes to the table of files that are not written yet.
    pub(super) shown: Vec<(SessionId, Option<Shown>)>,
    /// One of our sessions was written to, so `last_session` must name it.
    pub(super) active: bool,
    _held: Option<Held<'a>>,
}

impl Mirror {
    /// Opens a directory, and creates it if it does not exist.
    pub(super) fn open(way: OpenOptions, path: &Path) -> Result<Mirror> {
        const ACTION: &str = "open the directory";
        let no_store = || StoreError::NotAStore { place: path.display().to_string() };
        if path.exists() && !path.is_dir() {
            return Err(no_store());
        }
        let ours = path.join(".rethread");
        // A link could point anywhere, and these files are trusted.
        let inside = ["lock", DATABASE, "sessions.db-wal", "sessions.db-shm", "state", "logs"];
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|there| there.is_symlink());
        let linked = is_link(&ours) || inside.iter().any(|name| is_link(&ours.join(name)));
        if ours.is_file() || linked {
            return Err(no_store());
        }
        let disk = way.disk.as_ref();
        let writable = disk.folder(&ours).and_then(|()| {
            disk.sync_folder(path)?;
            disk.open(&ours.join("lock"))
        });
        let (mut place, mut scratch) = (ours.clone(), None);
        let (lock, reach) = match writable.or_store_error(path, ACTION) {
            Ok(lock) => (Some(lock), Reach::All),
            Err(StoreError::ReadOnly { .. }) if ours.join(DATABASE).exists() => {
                (None, Reach::AsLeft)
            }
            Err(refused @ StoreError::ReadOnly { .. }) => {
                if !path.is_dir() || std::fs::read_dir(path).is_err() {
                    return Err(refused);
                }
                let folder = Scratch::new(way.world.as_ref()).map_err(|_| refused)?;
                place = folder.path.clone();
                scratch = Some(folder);
                (None, Reach::Visiting)
            }
            // A full disk can still be read.
            Err(StoreError::Full { .. }) if ours.join(DATABASE).exists() => (None, Reach::AsLeft),
            Err(error) => return Err(error),
        };
        let held = match &lock {
            Some(lock) => Some(Held::new(lock, path, BUSY)?.ok_or_else(|| busy(path))?),
            None => None,
        };
        let database = place.join(DATABASE);
        if !database.exists() {
            migrate::migrate(&way, path, &database)?;
        }
        let db = SqliteStore::open_telling(&database, way.world.clone(), way.tell.as_ref())?;
        if reach != Reach::AsLeft {
            if_possible(db.begin_mirror())?;
            if reach == Reach::All {
                migrate::remove_old(disk, &ours)?;
            }
        }
        drop(held);
        let mirror = Mirror {
            db,
            root: path.to_owned(),
            ours: place,
            way,
            reach,
            lock,
            seen: Mutex::default(),
            known: Mutex::default(),
            dirty: Mutex::default(),
            woken: Condvar::new(),
            _scratch: scratch,
        };
        mirror.recover()?;
        Ok(mirror)
    }

    /// Imports changes made while the directory was closed, and writes files that a crash left out
    /// of date. On a full disk that is left to the next write.
    fn recover(&self) -> Result<()> {
        let Some(mut pass) = if_possible(self.pass(BUSY))?.flatten() else { return Ok(()) };
        if self.reach == Reach::All {
            for folder in [self.root.clone(), self.archive(), self.ours.clone()] {
                for name in names(&folder).iter().filter(|name| is_draft(name)) {
                    let path = folder.join(name);
                    self.way
                        .disk
                        .remove(&path)
                        .or_store_error(&path, "remove what a crash left")?;
                }
            }
        }
        let done = pass.look().and_then(|()| {
            let now = self.way.world.now();
            let free = |one: &&Mirrored| !one.is_held(now) && pass.is_out_of_date(one);
            let behind: Vec<SessionId> = pass.all.values().filter(free).map(|one| one.id).collect();
            pass.fold(&behind)
        });
        if_possible(done).map(drop)
    }

    /// Starts a pass; `None` if another process holds the lock for longer than `patience`, or if
    /// nothing can be written.
    pub(super) fn pass(&self, patience: Duration) -> Result<Option<Pass<'_>>> {
        if self.reach == Reach::AsLeft {
            return Ok(None);
        }
        let start = Instant::now();
        let (seen, held) = loop {
            // Other threads of this process need not wait for another process.
            let seen = self.seen();
            let Some(lock) = &self.lock else { break (seen, None) };
            if let Some(held) = Held::new(lock, &self.root, Duration::ZERO)? {
                break (seen, Some(held));
            }
            drop(seen);
            if start.elapsed() > patience {
                return Ok(None);
            }
            std::thread::sleep(RETRY);
        };
        let all = self.db.mirrored(&Owner::local())?;
        let all: BTreeMap<SessionId, Mirrored> = all.into_iter().map(|one| (one.id, one)).collect();
        self.known().active =
            all.values().filter(|one| one.is_active()).map(|one| one.id).collect();
        let shown = Vec::new();
        Ok(Some(Pass { mirror: self, seen, all, shown, active: false, _held: held }))
    }

    /// Imports changes of the files, if there are any.
    pub(super) fn look(&self) -> Result<()> {
        let looked = self.pass(GLANCE).and_then(|pass| pass.map_or(Ok(()), |mut pass| pass.look()));
        if_possible(looked).map(drop)
    }

    /// Imports changes of the file of one session.
    pub(super) fn look_at(&self, id: SessionId) -> Result<()> {
        let one = match self.reach {
            Reach::AsLeft => None,
            _ => self.db.mirrored_one(&Owner::local(), id)?,
        };
        let Some(shown) = one.and_then(|one| one.shown) else { return Ok(()) };
        let there = self.path_of(&shown.stem, shown.archived).symlink_metadata();
        let known = there.is_ok_and(|there| {
            // What was written here just now may not be in the database yet.
            let written = self.known().written.get(&id) == Some(&(changed(&there), there.len()));
            there.is_file() && written || shown.is(&there)
        });
        match known {
            true => Ok(()),
            false => self.look(),
        }
    }

    /// Checks, once for each session, that a log is at least as long as its file says. Otherwise
    /// its end was lost, and an append would reuse its positions.
    pub(super) fn is_whole(&self, id: SessionId) -> Result<()> {
        if self.known().whole.contains(&id) {
            return Ok(());
        }
        if let Some(one) = self.db.mirrored_one(&Owner::local(), id)? {
            one.is_whole()?;
            self.known().whole.insert(id);
        }
        Ok(())
    }

    /// Updates the files of these sessions now, if possible.
    pub(super) fn fold_now(&self, ids: &[SessionId]) {
        let folded = self.pass(BUSY).and_then(|pass| match pass {
            Some(mut pass) => pass.fold(ids),
            None => Ok(ids.to_vec()),
        });
        // What cannot be written now is written with the next change, or when the directory is
        // opened.
        self.dirty().ids.extend(folded.unwrap_or_else(|_| ids.to_vec()));
    }

    /// Marks the file of a session as out of date; the thread updates it soon.
    pub(super) fn is_dirty(&self, id: SessionId) {
        if self.reach == Reach::All && self.dirty().ids.insert(id) {
            self.woken.notify_one();
        }
    }

    /// Updates the files that are out of date.
    pub(super) fn fold_dirty(&self) {
        let ids: Vec<SessionId> = std::mem::take(&mut self.dirty().ids).into_iter().collect();
        if !ids.is_empty() {
            self.fold_now(&ids);
        }
    }

    /// Updates files that are out of date until the store is closed: the first at once, and then at
    /// most once a second.
    pub(super) fn keep_up(&self) {
        let mut next = Instant::now();
        loop {
            let idle = |dirty: &mut Dirty| dirty.ids.is_empty() && !dirty.closed;
            let dirty = self.woken.wait_while(self.dirty(), idle);
            let dirty = dirty.unwrap_or_else(PoisonError::into_inner);
            let wait = next.saturating_duration_since(Instant::now());
            let waited = self.woken.wait_timeout_while(dirty, wait, |dirty| !dirty.closed);
            let (dirty, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if dirty.closed {
                return;
            }
            drop(dirty);
            let began = Instant::now();
            self.fold_dirty();
            next = Instant::now() + PAUSE.max(SHARE * began.elapsed());
        }
    }

    /// Stops the thread.
    pub(super) fn close(&self) {
        self.dirty().closed = true;
        self.woken.notify_all();
    }

    fn dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the directory can be written to.
    pub(super) fn may_write(&self) -> Result<()> {
        match self.reach {
            Reach::Visiting => Err(StoreError::ReadOnly { place: self.root.display().to_string() }),
            _ => self.commit(),
        }
    }

    /// Must be called before each write to the database.
    pub(super) fn commit(&self) -> Result<()> {
        self.way.disk.commit().or_store_error(&self.root, "write to the database")
    }

    /// Where a session's visible file is.
    pub(super) fn path_of(&self, stem: &str, archived: bool) -> PathBuf {
        let folder = if archived { self.archive() } else { self.root.clone() };
        folder.join(format!("{stem}.json"))
    }

    pub(super) fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }
}

impl Shown {
    /// Whether the file is unchanged.
    pub(super) fn is(&self, there: &std::fs::Metadata) -> bool {
        there.is_file() && (self.changed, self.size) == (changed(there), there.len())
    }
}

impl Mirrored {
    /// Whether a turn is running.
    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until > now.as_millisecond())
    }

    /// The folder of its file; none for a session in the trash.
    pub(super) fn wanted(&self) -> Option<(String, bool)> {
        let header = self.header.as_ref().filter(|header| header.trash.is_none())?;
        Some((stem_of(header), header.archived))
    }

    /// When it was last active, according to another program.
    pub(super) fn is_active(&self) -> bool {
        self.header.as_ref().is_some_and(|header| active_at(header).is_some())
    }

    /// Checks that its log is at least as long as its file says.
    pub(super) fn is_whole(&self) -> Result<()> {
        let less = self.shown.as_ref().is_some_and(|shown| self.entries < shown.entries);
        let what = "the end of its log is not what was written".to_owned();
        match less {
            true => Err(StoreError::Damaged { id: self.id, seq: self.entries, what }),
            false => Ok(()),
        }
    }
}

/// The fingerprint of a header.
pub(super) fn made_of(header: &Header) -> String {
    let json = serde_json::to_string(header).expect("a header is always valid JSON");
    fingerprint("header", &json).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `None` instead of an error if the disk is full, because the store can still be read, or if the
/// database is damaged, because `doctor` must be able to open it.
pub(super) fn if_possible<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Err(StoreError::Full { .. } | StoreError::Corrupt { .. }) => Ok(None),
        done => done.map(Some),
    }
}

pub(super) fn busy(place: &Path) -> StoreError {
    StoreError::Busy { place: place.display().to_string() }
}

/// The lock of the directory, held.
pub(super) struct Held<'a>(&'a File);

impl<'a> Held<'a> {
    /// `None` if another process holds it for longer than `patience`.
    pub(super) fn new(
        lock: &'a File,
        place: &Path,
        patience: Duration,
    ) -> Result<Option<Held<'a>>> {
        let start = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(Held(lock))),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(disk::store_error(place, "lock the directory", error));
                }
            }
            if start.elapsed() >= patience {
                return Ok(None);
            }
            std::thread::sleep(RETRY);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Closing the file releases it at the latest.
        drop(self.0.unlock());
    }
}
