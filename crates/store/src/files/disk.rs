//! All disk operations of the mirror, as one small trait.
//!
//! A crash can come between any two of these calls, and in the middle of a write. The tests use a
//! disk that stops at the n-th call, for every n, and open what is left. A transaction of the
//! database is one call: SQLite's own tests cover what happens inside. Reading is not included:
//! stopping before a read leaves the same state as stopping after the last write.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rethread_core::store::BoxError;
use rethread_core::{StoreError, World};
use sha2::{Digest, Sha256};

use crate::sqlite::{Location, Stamp};

/// The disk operations.
pub(crate) trait Disk: Send + Sync {
    /// Opens a file for reading and writing, and creates it if it does not exist: mode 0600.
    fn open(&self, path: &Path) -> io::Result<File>;
    /// Creates a file that must not exist yet: mode 0600.
    fn create(&self, path: &Path) -> io::Result<File>;
    /// Writes all of these bytes.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()>;
    /// Syncs the file.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Syncs the names in a folder.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a folder and its parents: mode 0700. An existing one is not changed.
    fn folder(&self, path: &Path) -> io::Result<()>;
    /// The database is about to be written to, atomically.
    fn commit(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The real disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Real;

fn options() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

impl Disk for Real {
    fn open(&self, path: &Path) -> io::Result<File> {
        options().create(true).truncate(false).open(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        options().create_new(true).open(path)
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        // On other systems a folder cannot be opened as a file, and the system syncs names itself.
        match cfg!(unix) {
            true => File::open(folder)?.sync_all(),
            false => Ok(()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn folder(&self, path: &Path) -> io::Result<()> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)
    }
}

/// The suffix of the random part of our temporary names. It distinguishes a leftover of a crash
/// from another program's file, which may still be in use.
const OURS: &str = "rt";

/// The temporary name of the new version of a file: `<file>.tmp.{timestamp}-{random}`.
pub(super) fn draft_of(path: &Path, world: &dyn World) -> PathBuf {
    let now = world.now().as_millisecond();
    with_suffix(path, &format!(".tmp.{now}-{}{OURS}", random(world)))
}

/// Eight random hex digits.
pub(super) fn random(world: &dyn World) -> String {
    format!("{:08x}", world.uuid().as_u128() & 0xffff_ffff)
}

/// A path with something appended to it.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

impl Location {
    /// The path of such a file in a directory.
    pub(super) fn path(&self, root: &Path) -> PathBuf {
        let folder = if self.archived { "archive" } else { "" };
        root.join(folder).join(format!("{}.json", self.stem))
    }
}

impl Stamp {
    /// How a file looks; its time is that since 1970, and 0 if it is not known.
    pub(super) fn of(metadata: &std::fs::Metadata) -> Stamp {
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
pub(super) fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The names in a folder; none if it does not exist.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Whether this is one of our temporary names.
pub(super) fn is_draft(name: &str) -> bool {
    let Some((_, rest)) = name.rsplit_once(".tmp.") else { return false };
    let Some((time, random)) = rest.split_once('-') else { return false };
    let digits = random.strip_suffix(OURS).unwrap_or_default();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    number(time) && digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// An I/O error during `action`.
pub(super) fn store_error(place: &Path, action: &'static str, error: io::Error) -> StoreError {
    let place = place.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { place },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { place }
        }
        _ => failed(action, error),
    }
}

/// Any other error during `action`.
pub(super) fn failed(action: &'static str, source: impl Into<BoxError>) -> StoreError {
    StoreError::Backend { store: "files", action, source: source.into() }
}

/// Adds the path and the action to an I/O error.
pub(super) trait OrStoreError<T> {
    /// The value, or the I/O error during `action`.
    fn or_store_error(self, place: &Path, action: &'static str) -> Result<T, StoreError>;
}

impl<T> OrStoreError<T> for io::Result<T> {
    fn or_store_error(self, place: &Path, action: &'static str) -> Result<T, StoreError> {
        self.map_err(|error| store_error(place, action, error))
    }
}
