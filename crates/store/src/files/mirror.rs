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

use rethread_core::store::{Change, Result};
use rethread_core::{Header, Owner, Raw, Session, SessionId, Store, StoreError, World};
use tempfile::TempDir;

use super::FilesLimit;
use super::disk::{Disk, failed, sum};
use super::import_edits::{IMPORTED, Skipped};
use super::visible::{active_at, shown_name, stem_of};
use crate::io::{patiently, private_file, private_temporary};
use crate::journals;
use crate::progress::ProgressSink;
use crate::sqlite::{Location, Mirrored, Shown, SqliteStore, Stamp};

/// How long to wait for another process that is updating the files. One that holds the lock longer
/// than this is suspended or stuck.
pub(super) const BUSY: Duration = Duration::from_secs(20);

/// How long a look waits for the lock. Its holder is importing changes as well.
const GLANCE: Duration = Duration::from_millis(20);

/// How long a look is current, unless something was renamed since: selecting a session takes several.
const RECENT: Duration = Duration::from_millis(100);

/// The minimum time between two writes of the files while sessions are written to.
const PAUSE: Duration = Duration::from_secs(1);

/// How long the first write waits, so that a question is in the file that its session begins with.
const GATHER: Duration = Duration::from_millis(100);

/// Writing a long session takes long. At most one part in this many of the time is spent on it.
const SHARE: u32 = 20;

/// The database, in our folder.
pub(crate) const DATABASE: &str = "sessions.db";

/// The options for opening a directory.
pub(crate) struct OpenOptions {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) limit: FilesLimit,
    pub(crate) world: Arc<dyn World>,
    /// Receives progress reports.
    pub(crate) tell: Option<ProgressSink>,
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
    pub(super) options: OpenOptions,
    pub(super) reach: Reach,
    /// Files that are ignored, and why. Whoever holds this lock examines or writes the files.
    skipped: Mutex<Skips>,
    known: Mutex<Known>,
    /// Signals that `known` has files to write, or that the store is closed.
    pub(super) woken: Condvar,
    /// Where the database is while visiting.
    _scratch: Option<TempDir>,
}

type Skips = BTreeMap<PathBuf, Skipped>;

/// What this process knows about sessions. Its lock is never held while files are written.
#[derive(Default)]
pub(super) struct Known {
    /// Whether a session was active later than its last entry, according to another program.
    pub(super) active: bool,
    /// When the files were last examined, and how their folders looked.
    looked: Option<(Instant, [Option<Stamp>; 2])>,
    /// Files that this process wrote.
    pub(super) written: BTreeMap<SessionId, Stamp>,
    /// Sessions whose log was shorter than their file says.
    short: BTreeSet<SessionId>,
    /// Sessions whose files are out of date.
    pub(super) dirty: BTreeSet<SessionId>,
    /// A damaged database was copied.
    pub(super) copied: bool,
    /// The store is closed, and the thread has to end.
    pub(super) closed: bool,
}

/// Brings files and database into agreement, with the lock held.
pub(super) struct Pass<'a> {
    pub(super) mirror: &'a Mirror,
    pub(super) skipped: MutexGuard<'a, Skips>,
    pub(super) all: BTreeMap<SessionId, Mirrored>,
    /// Changes to the table of files that are not written yet.
    pub(super) shown: Vec<(SessionId, Option<Shown>)>,
    /// One of our sessions was written to, so `last_session` must name it.
    pub(super) active: bool,
    _lock: Option<File>,
}

impl std::ops::Deref for Pass<'_> {
    type Target = Mirror;

    fn deref(&self) -> &Mirror {
        self.mirror
    }
}

impl Mirror {
    /// Opens a directory, and creates it if it does not exist.
    pub(super) fn open(options: OpenOptions, root: &Path) -> Result<Mirror> {
        let ours = root.join(".rethread");
        // A link could point anywhere, and these files are trusted.
        let inside = ["lock", DATABASE, "sessions.db-wal", "sessions.db-shm", "state", "logs"];
        let is_linked = ours.is_symlink() || inside.iter().any(|name| ours.join(name).is_symlink());
        if root.exists() && !root.is_dir() || ours.is_file() || is_linked {
            return Err(StoreError::NotAStore { place: root.display().to_string() });
        }
        let disk = options.disk.as_ref();
        let made = disk.folder(&ours).and_then(|()| disk.sync_folder(root));
        let mut database = ours.join(DATABASE);
        let made = made.map_err(failed(root, "open the directory"));
        let (lock, reach, _scratch) = match made.and_then(|()| lock(root)) {
            Ok(lock) => (Some(lock), Reach::All, None),
            // A full disk can still be read.
            Err(StoreError::ReadOnly { .. } | StoreError::Full { .. }) if database.exists() => {
                (None, Reach::AsLeft, None)
            }
            Err(error @ StoreError::ReadOnly { .. }) => {
                let scratch =
                    std::fs::read_dir(root).and_then(|_| private_temporary()).map_err(|_| error)?;
                database = scratch.path().join(DATABASE);
                (None, Reach::Visiting, Some(scratch))
            }
            Err(error) => return Err(error),
        };
        if !database.exists() {
            journals::migrate(&options, root, &database)?;
        }
        let db =
            SqliteStore::open_telling(&database, options.world.clone(), options.tell.as_ref())?;
        if reach != Reach::AsLeft {
            if_possible(db.begin_mirror())?;
        }
        if reach == Reach::All {
            if_possible(journals::remove_old(disk, &ours))?;
        }
        drop(lock);
        let (root, (skipped, known, woken)) = (root.to_owned(), Default::default());
        let mirror = Mirror { db, root, options, reach, skipped, known, woken, _scratch };
        // Changes made while the directory was closed are imported, and files that a crash left out
        // of date are written. On a full disk that is left to the next write.
        if let Some(mut pass) = if_possible(mirror.pass(BUSY))?.flatten() {
            let looked = pass.look();
            let all = pass.all.keys().copied().collect();
            if if_possible(looked.and_then(|()| pass.fold(&all)))?.is_none() {
                mirror.known().dirty.extend(all);
            }
        }
        Ok(mirror)
    }

    /// Starts a pass; `None` if another process holds the lock for longer than `patience`, or if
    /// nothing can be written.
    pub(super) fn pass(&self, patience: Duration) -> Result<Option<Pass<'_>>> {
        let entered = patiently(patience, || {
            // Other threads of this process need not wait for another process.
            let skipped = self.skipped();
            Ok(match self.reach {
                Reach::All => try_lock(&self.root)?.map(|lock| (skipped, Some(lock))),
                _ => Some((skipped, None)),
            })
        });
        let Some((skipped, _lock)) = entered?.filter(|_| self.reach != Reach::AsLeft) else {
            return Ok(None);
        };
        let all = self.db.mirrored(None)?;
        self.known().active = all.iter().any(Mirrored::is_active);
        let short = all.iter().filter(|one| one.is_whole().is_err()).map(|one| one.id);
        self.known().short = short.collect();
        let all = all.into_iter().map(|one| (one.id, one)).collect();
        Ok(Some(Pass { mirror: self, skipped, all, shown: Vec::new(), active: false, _lock }))
    }

    /// Imports changes of the files, if there are any.
    pub(super) fn look(&self) -> Result<()> {
        let folders = [&self.root, &self.archive()].map(|folder| Stamp::at(folder));
        let is_current = |(at, seen): (Instant, _)| seen == folders && at.elapsed() < RECENT;
        if self.known().looked.is_some_and(is_current) {
            return Ok(());
        }
        self.known().looked = Some((Instant::now(), folders));
        let looked = self.pass(GLANCE).and_then(|pass| pass.map_or(Ok(()), |mut pass| pass.look()));
        if_possible(looked).map(drop)
    }

    /// Imports changes of the file of one session.
    pub(super) fn look_at(&self, id: SessionId) -> Result<()> {
        let one = self.db.mirrored(Some(id))?.pop();
        let Some(shown) = one.and_then(|one| one.shown) else { return Ok(()) };
        let there = Stamp::at(&shown.at.path(&self.root));
        // What was written here just now may not be in the database yet.
        let written = self.known().written.get(&id).copied();
        if there.is_some() && (there == Some(shown.stamp) || there == written) {
            return Ok(());
        }
        self.known().looked = None;
        self.look()
    }

    /// Checks that a log is at least as long as its file says. Otherwise its end was lost, and an
    /// append would reuse its positions.
    pub(super) fn is_whole(&self, id: SessionId) -> Result<()> {
        if !self.known().short.contains(&id) {
            return Ok(());
        }
        self.db.mirrored(Some(id))?.iter().try_for_each(Mirrored::is_whole)
    }

    /// Marks the file of a session as out of date; the thread updates it soon.
    pub(super) fn is_dirty(&self, id: SessionId) {
        if self.reach == Reach::All && self.known().dirty.insert(id) {
            self.woken.notify_one();
        }
    }

    /// Updates the files that are out of date. What cannot be written now is written with the next
    /// change, or when the directory is opened.
    pub(super) fn fold_dirty(&self) {
        let dirty = std::mem::take(&mut self.known().dirty);
        if !dirty.is_empty() {
            let fold = |pass: Option<Pass<'_>>| pass.map(|mut pass| pass.fold(&dirty)).transpose();
            if !matches!(self.pass(BUSY).and_then(fold), Ok(Some(()))) {
                self.known().dirty.extend(dirty);
            }
        }
    }

    /// Updates files that are out of date until the store is closed: the first almost at once, and
    /// then at most once a second.
    pub(super) fn keep_up(&self) {
        let mut next = Instant::now();
        loop {
            let idle = |known: &mut Known| known.dirty.is_empty() && !known.closed;
            let known = self.woken.wait_while(self.known(), idle);
            let known = known.unwrap_or_else(PoisonError::into_inner);
            let wait = next.saturating_duration_since(Instant::now()).max(GATHER);
            let waited = self.woken.wait_timeout_while(known, wait, |known| !known.closed);
            if waited.unwrap_or_else(PoisonError::into_inner).0.closed {
                return;
            }
            let began = Instant::now();
            self.fold_dirty();
            next = Instant::now() + PAUSE.max(SHARE * began.elapsed());
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn skipped(&self) -> MutexGuard<'_, Skips> {
        self.skipped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database, before it is written to.
    pub(super) fn writable(&self) -> Result<&SqliteStore> {
        if self.reach == Reach::Visiting {
            return Err(StoreError::ReadOnly { place: self.root.display().to_string() });
        }
        self.commit()
    }

    /// The same, for the mirror itself.
    pub(super) fn commit(&self) -> Result<&SqliteStore> {
        let commit = self.options.disk.commit();
        commit.map_err(failed(&self.root, "write to the database")).map(|()| &self.db)
    }

    /// Moves a session to the trash; false if a turn is running.
    pub(super) fn throw_away(&self, id: SessionId) -> Result<bool> {
        let owner = Owner::local();
        let change = Change::to_trash(&self.db.get(&owner, id)?, self.options.world.now());
        match self.commit()?.update(&owner, id, &change) {
            Err(StoreError::Held { .. }) => Ok(false),
            done => done.map(|_| true),
        }
    }

    /// Adds another program's fields of a session.
    pub(super) fn describe(&self, session: &mut Session) {
        let active = active_at(&session.header).unwrap_or(session.last_activity_at);
        session.last_activity_at = session.last_activity_at.max(active);
        if session.header.imported.as_deref() == Some(IMPORTED) {
            session.readable_id.get_or_insert_with(|| stem_of(&session.header));
        }
        let shown = shown_name(&session.header);
        session.shown_as = (shown != session.header.name.as_str()).then_some(shown);
    }

    /// Whether a file other than `own` has this name, archived or not.
    pub(super) fn is_taken(&self, stem: &str, own: Option<&Location>) -> bool {
        [false, true].into_iter().any(|archived| {
            let at = Location { stem: stem.to_owned(), archived };
            own != Some(&at) && Stamp::at(&at.path(&self.root)).is_some()
        })
    }

    pub(super) fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }
}

impl Mirrored {
    /// Its header, unless it is in the trash.
    pub(super) fn live(&self) -> Option<&Header> {
        self.header.as_ref().filter(|header| header.trash.is_none())
    }

    /// Where its file belongs; nowhere if it is in the trash.
    pub(super) fn wanted(&self) -> Option<Location> {
        let header = self.live()?;
        Some(Location { stem: stem_of(header), archived: header.archived })
    }

    /// Whether it can be changed as its file was: no turn is running, and its header can be read.
    pub(super) fn can_follow(&self) -> bool {
        !self.held && self.header.is_some()
    }

    /// Whether another program says when it was last active.
    pub(super) fn is_active(&self) -> bool {
        self.header.as_ref().is_some_and(|header| active_at(header).is_some())
    }

    /// Checks that its log is at least as long as its file says.
    pub(super) fn is_whole(&self) -> Result<()> {
        let what = || "the end of its log is not what was written".to_owned();
        match &self.shown {
            Some(shown) if self.entries < shown.entries => {
                Err(StoreError::Damaged { id: self.id, seq: self.entries, what: what() })
            }
            _ => Ok(()),
        }
    }
}

/// The fingerprint of a header.
pub(crate) fn made_of(header: &Header) -> String {
    sum(Raw::of(header).get().as_bytes())
}

/// `None` instead of an error if the disk is full, because the store can still be read, or if the
/// database is damaged, because `doctor` must be able to open it.
pub(super) fn if_possible<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Err(StoreError::Full { .. } | StoreError::Corrupt { .. }) => Ok(None),
        done => done.map(Some),
    }
}

/// The lock of the directory: closing the file releases it.
pub(super) fn lock(root: &Path) -> Result<File> {
    patiently(BUSY, || try_lock(root))?.ok_or_else(|| busy(root))
}

pub(super) fn busy(root: &Path) -> StoreError {
    StoreError::Busy { place: root.display().to_string() }
}

/// `None` if another process, or another thread of this one, holds it.
fn try_lock(root: &Path) -> Result<Option<File>> {
    let file = private_file().create(true).truncate(false).open(root.join(".rethread/lock"));
    let locked = file.and_then(|file| match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    });
    locked.map_err(failed(root, "lock the directory"))
}
