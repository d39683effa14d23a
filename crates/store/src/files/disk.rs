//! All disk operations of the mirror, as one small trait.
//!
//! A crash can come between any two of these calls, and in the middle of a write. The tests use a
//! disk that stops at the n-th call, for every n, and open what is left. A transaction of the
//! database is one call: SQLite's own tests cover what happens inside. Reading is not included:
//! stopping before a read leaves the same state as stopping after the last write.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rethread_core::{StoreError, World};
use sha2::{Digest, Sha256};

use crate::io::{exchange, private_file, private_folder, with_suffix};
use crate::sqlite::{Location, Stamp};

/// The disk operations.
pub(crate) trait Disk: Send + Sync {
    /// Creates a file that must not exist yet: mode 0600.
    fn create(&self, path: &Path) -> io::Result<File> {
        private_file().create_new(true).open(path)
    }

    /// Writes all of these bytes.
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    /// Syncs the file.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Syncs the names in a folder.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        // On other systems a folder cannot be opened as a file, and the system syncs names itself.
        if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
    }

    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    /// Exchanges the names of two files, where the system can do that.
    fn swap(&self, one: &Path, other: &Path) -> io::Result<()> {
        exchange(one, other)
    }

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    /// Creates a folder and its parents: mode 0700. An existing one is not changed.
    fn folder(&self, path: &Path) -> io::Result<()> {
        private_folder(path)
    }

    /// The database is about to be written to, atomically.
    fn commit(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The real disk.
pub(crate) struct Real;

impl Disk for Real {}

/// The suffix of the random part of our temporary names. It distinguishes a leftover of a crash
/// from another program's file, which may still be in use.
const OURS: &str = "rt";

/// The temporary name of the new version of a file: `<file>.tmp.{timestamp}-{random}`.
pub(super) fn draft_of(path: &Path, world: &dyn World) -> PathBuf {
    let now = world.now().as_millisecond();
    with_suffix(path, &format!(".tmp.{now}-{}{OURS}", random(world)))
}

/// Whether this is one of our temporary names.
pub(super) fn is_draft(name: &str) -> bool {
    let random = name.rsplit_once(".tmp.").and_then(|(_, rest)| rest.split_once('-'));
    let digits = random.and_then(|(_, random)| random.strip_suffix(OURS)).unwrap_or_default();
    digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Eight random hex digits.
pub(super) fn random(world: &dyn World) -> String {
    format!("{:08x}", world.uuid().as_u128() & 0xffff_ffff)
}

impl Location {
    /// The path of such a file in a directory.
    pub(crate) fn path(&self, root: &Path) -> PathBuf {
        let folder = if self.archived { "archive" } else { "" };
        root.join(folder).join(format!("{}.json", self.stem))
    }
}

impl Stamp {
    /// How a file looks; its time is that since 1970, and 0 if it is not known.
    pub(super) fn of(metadata: &Metadata) -> Stamp {
        let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let changed = since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0);
        Stamp { changed, size: metadata.len() }
    }

    /// How what is at a path looks, if there is anything.
    pub(super) fn at(path: &Path) -> Option<Stamp> {
        path.symlink_metadata().ok().map(|there| Stamp::of(&there))
    }
}

/// The first 16 hex digits of the SHA-256 of some bytes.
pub(crate) fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The names in a folder.
pub(crate) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    std::fs::read_dir(folder)?.map(|entry| entry.map(name)).collect()
}

/// The error of this store for an I/O error during `action`.
pub(crate) fn failed(place: &Path, action: &'static str) -> impl Fn(io::Error) -> StoreError {
    crate::io::failed("files", place, action)
}
