//! The directory of one owner.
//!
//! Every call holds the lock of the directory while it runs, so processes take turns. The lock is
//! the operating system's: it ends with the process that holds it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rethread_core::store::Result;
use rethread_core::{Owner, SessionId, StoreError, World};

use crate::progress::Tell;

use super::disk::{self, Disk, Draft, ReadOnly, Scratch, Told, Within};
use super::foreign::Skipped;
use super::log::Log;
use super::state::{self, Record, State};
use super::{FilesLimit, unless_full};

/// How long to wait for another process. Calls are short; whoever holds the lock longer than this
/// is stopped or stuck.
const BUSY: Duration = Duration::from_secs(20);

/// Logs kept open. A person works in a few sessions at a time.
const LOGS_MAX: usize = 64;

/// Bytes written to find out whether anything can be: a block of most disks.
const ROOM_BYTES: usize = 4 << 10;

/// How a directory is opened.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) limit: FilesLimit,
    pub(super) world: Arc<dyn World>,
    /// Who is told what takes its time.
    pub(super) tell: Option<Tell>,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Everything.
    All,
    /// Nothing: what other programs did and what a crash left half done stays as it is, and the
    /// logs are read.
    AsLeft,
    /// Nothing, and nobody here ever wrote to it: what the files say is read into a folder of our
    /// own, which goes when the directory is closed.
    Visiting,
}

/// A directory that is open.
pub(super) struct Folder {
    lock: File,
    dir: Mutex<Dir>,
    /// Where our own files are, if that is elsewhere.
    _scratch: Option<Scratch>,
}

/// The directory, as far as it is known.
pub(super) struct Dir {
    /// Whose sessions these are.
    pub(super) owner: Owner,
    pub(super) root: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) world: Arc<dyn World>,
    pub(super) limit: FilesLimit,
    pub(super) state: State,
    pub(super) logs: HashMap<SessionId, Log>,
    /// Sessions that this process changed since they were folded.
    pub(super) dirty: BTreeSet<SessionId>,
    /// Where our own files are.
    pub(super) ours: PathBuf,
    /// What can be written.
    pub(super) reach: Reach,
    /// Files that are left alone, and why.
    pub(super) skipped: BTreeMap<PathBuf, Skipped>,
}

impl Folder {
    /// Opens the directory of an owner, making it if it is not there, and brings it to where it
    /// should be.
    pub(super) fn open(way: &Way, path: &Path, owner: Owner) -> Result<Folder> {
        const ACTION: &str = "open the directory";
        let no_store = || StoreError::NotAStore { place: path.display().to_string() };
        if path.exists() && !path.is_dir() {
            return Err(no_store());
        }
        let Way { disk, limit, world, tell } = way.clone();
        let ours = path.join(".rethread");
        // A link could lead anywhere, and what is written there is believed.
        let inside = ["logs", "blobs", "state", "lock", "search.db"].map(|name| ours.join(name));
        let is_link =
            |path: &PathBuf| path.symlink_metadata().is_ok_and(|there| there.is_symlink());
        if ours.is_file() || is_link(&ours) || inside.iter().any(is_link) {
            return Err(no_store());
        }
        let writable = disk.folder(&ours.join("logs")).and_then(|()| {
            disk.sync_folder(path)?;
            disk.open(&ours.join("lock"))
        });
        let (mut ours, mut scratch) = (ours, None);
        let (disk, lock, reach): (Arc<dyn Disk>, _, _) = match writable.told(path, ACTION) {
            Ok(lock) => (disk, lock, Reach::All),
            Err(refused @ StoreError::ReadOnly { .. }) => match File::open(ours.join("lock")) {
                Ok(lock) => (Arc::new(ReadOnly), lock, Reach::AsLeft),
                Err(_) if path.is_dir() && std::fs::read_dir(path).is_ok() => {
                    let folder = Scratch::new(world.as_ref()).map_err(|_| refused)?;
                    ours = folder.path.clone();
                    let disk = Arc::new(Within(ours.clone()));
                    let lock = disk.folder(&ours.join("logs"));
                    let lock = lock.and_then(|()| disk.open(&ours.join("lock")));
                    scratch = Some(folder);
                    (disk, lock.told(path, ACTION)?, Reach::Visiting)
                }
                Err(_) => return Err(refused),
            },
            Err(error) => return Err(error),
        };
        let held = Held::new(&lock, path)?;
        let state = State::open(disk.as_ref(), ours.join("state"))?;
        let (logs, dirty, skipped) = (HashMap::new(), BTreeSet::new(), BTreeMap::new());
        let root = path.to_owned();
        let mut dir =
            Dir { owner, root, disk, world, limit, state, logs, dirty, ours, reach, skipped };
        if reach != Reach::AsLeft {
            dir.migrate(tell.as_ref())?;
            dir.recover()?;
        }
        drop(held);
        Ok(Folder { lock, dir: Mutex::new(dir), _scratch: scratch })
    }

    /// Does something while no other process can.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Dir) -> Result<T>) -> Result<T> {
        // A change is remembered only once it is written, so a panic leaves what is true.
        let mut dir = self.dir.lock().unwrap_or_else(PoisonError::into_inner);
        let held = Held::new(&self.lock, &dir.root)?;
        dir.refresh()?;
        let done = work(&mut dir);
        drop(held);
        done
    }
}

impl Drop for Folder {
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
    pub(super) fn refresh(&mut self) -> Result<()> {
        self.state.refresh(self.disk.as_ref())?;
        for id in std::mem::take(&mut self.state.catalogue.moved) {
            self.logs.remove(&id);
        }
        unless_full(self.settle())
    }

    /// A session, in the trash or not.
    pub(super) fn record(&self, id: SessionId) -> Result<&Record> {
        self.state.catalogue.get(id).ok_or(StoreError::NotFound { id })
    }

    /// That a session is there, and not in the trash.
    pub(super) fn is_there(&self, id: SessionId) -> Result<()> {
        match self.record(id)?.header.trash {
            Some(_) => Err(StoreError::NotFound { id }),
            None => Ok(()),
        }
    }

    /// Where a session's visible file is.
    pub(super) fn path_of(&self, stem: &str, archived: bool) -> PathBuf {
        let folder = if archived { self.archive() } else { self.root.clone() };
        folder.join(format!("{stem}.json"))
    }

    pub(super) fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }

    pub(super) fn logs_folder(&self) -> PathBuf {
        self.ours.join("logs")
    }

    /// Where damaged logs are kept.
    pub(super) fn damaged_folder(&self) -> PathBuf {
        self.ours.join("damaged")
    }

    /// That this directory can be written to, and what was begun before is done.
    pub(super) fn may_write(&mut self) -> Result<()> {
        match self.reach {
            Reach::All => self.settle(),
            _ => Err(StoreError::ReadOnly { place: self.root.display().to_string() }),
        }
    }

    /// Writes something and removes it again.
    pub(super) fn can_write(&mut self) -> Result<()> {
        const ACTION: &str = "write";
        self.may_write()?;
        let path = self.ours.join("room");
        let mut draft =
            Draft::new(self.disk.as_ref(), self.world.as_ref(), &path).told(&path, ACTION)?;
        draft.add(&[b'\n'; ROOM_BYTES]).told(&path, ACTION)?;
        draft.finish().told(&path, ACTION)
    }

    pub(super) fn log_path(&self, id: SessionId) -> PathBuf {
        self.logs_folder().join(format!("{id}.log"))
    }

    /// The log of a session, up to date.
    pub(super) fn log(&mut self, id: SessionId) -> Result<&mut Log> {
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
            let log = Log::open(self.disk.as_ref(), &path, folded.map_or(0, |tail| tail.bytes));
            self.logs.insert(id, log.told(&path, ACTION)?);
        }
        let log = self.logs.get_mut(&id).ok_or(StoreError::NotFound { id })?;
        if log.tail.bytes != there.len() {
            log.refresh().told(&path, ACTION)?;
        }
        Ok(log)
    }
}
