//! Everything the mirror does to the disk, behind one small trait.
//!
//! A crash can come between any two of these calls, and in the middle of a write. The tests put a
//! disk in place that stops at the n-th of them, for every n, and open what is left. A transaction of
//! the database is one call: what happens inside it is SQLite's matter. Reading is not here: stopping
//! before a read leaves what stopping after the last write leaves.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use rethread_core::{StoreError, World};
use sha2::{Digest, Sha256};

/// What may be done to a disk.
pub(crate) trait Disk: Send + Sync {
    /// Opens a file to read and write it, making it if it is not there: mode 0600.
    fn open(&self, path: &Path) -> io::Result<File>;
    /// Makes a file that must not be there yet: mode 0600.
    fn create(&self, path: &Path) -> io::Result<File>;
    /// Writes all of these bytes at a place.
    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Waits until what was written is on the disk.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Waits until the names in a folder are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Gives a file another name, in place of whatever has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder with all above it: mode 0700. One that is there is left as it is.
    fn folder(&self, path: &Path) -> io::Result<()>;
    /// The database is about to be written to, all or nothing.
    fn commit(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The disk of this machine.
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

    fn write(&self, mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        use std::io::{Seek, SeekFrom, Write};
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        // Elsewhere a folder cannot be opened as a file, and its names are the system's matter.
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

/// A folder for a while: mode 0700, removed with all that is in it when it is dropped.
pub(super) struct Scratch {
    pub(super) path: std::path::PathBuf,
}

impl Scratch {
    pub(super) fn new(world: &dyn World) -> io::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("rethread-{}", world.uuid()));
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // Whoever put something there first may look into it, so one that is there is an error.
        builder.create(&path).map(|()| Scratch { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever empties that place.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// How a file looked when it was last read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sig {
    /// When it was changed, in nanoseconds.
    pub(super) changed: i64,
    /// Its length.
    pub(super) size: u64,
    /// The beginning of its SHA-256.
    pub(super) sum: String,
}

/// What stands at the end of the random part of our temporary names, so that one a crash left
/// behind is told from another program's, which may still be writing its own.
const OURS: &str = "rt";

/// Bytes gathered before they are written.
const CHUNK_BYTES: usize = 1 << 20;

/// A file in the making: `<file>.tmp.{timestamp}-{random}`, then renamed over `<file>`.
///
/// Until [`Draft::publish`] the file itself is as it was. A draft that is dropped is removed.
pub(super) struct Draft<'a> {
    disk: &'a dyn Disk,
    target: &'a Path,
    temp: std::path::PathBuf,
    file: File,
    written: u64,
    waiting: Vec<u8>,
    sum: Sha256,
    finished: bool,
    published: bool,
}

impl<'a> Draft<'a> {
    /// Begins a new version of a file.
    pub(super) fn new(
        disk: &'a dyn Disk,
        world: &dyn World,
        target: &'a Path,
    ) -> io::Result<Draft<'a>> {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        let random = world.uuid().as_u128() & 0xffff_ffff;
        name.push(format!(".tmp.{}-{random:08x}{OURS}", world.now().as_millisecond()));
        let temp = target.with_file_name(name);
        let file = disk.create(&temp)?;
        let (written, waiting, sum) = (0, Vec::new(), Sha256::new());
        let (finished, published) = (false, false);
        Ok(Draft { disk, target, temp, file, written, waiting, sum, finished, published })
    }

    /// Adds to it.
    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.waiting.extend_from_slice(bytes);
        self.sum.update(bytes);
        match self.waiting.len() >= CHUNK_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.write(&self.file, self.written, &self.waiting)?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Waits until its bytes are on disk, so that [`Draft::publish`] does nothing but rename.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.finished = true;
        self.disk.sync(&self.file)
    }

    /// Puts it in the place of the file. Its bytes are on disk; its name is once the folder is
    /// synced. Returns how it looks.
    pub(super) fn publish(mut self) -> io::Result<Sig> {
        if !self.finished {
            self.finish()?;
        }
        let changed = changed(&self.file.metadata()?);
        self.disk.rename(&self.temp, self.target)?;
        self.published = true;
        let sum = std::mem::take(&mut self.sum).finalize();
        Ok(Sig { changed, size: self.written, sum: hex(&sum) })
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // The error that brought us here is told; one more about the remains helps nobody, and
        // the next to open the directory removes them.
        if !self.published {
            drop(self.disk.remove(&self.temp));
        }
    }
}

/// When a file was changed, in nanoseconds since 1970; 0 where the system does not say.
pub(super) fn changed(metadata: &std::fs::Metadata) -> i64 {
    let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// The first 16 hex digits of a digest.
fn hex(digest: &[u8]) -> String {
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first 16 hex digits of the SHA-256 of some bytes.
pub(super) fn sum(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The names in a folder; none where there is no folder.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Whether this is the name of a temporary file that we made.
pub(super) fn is_draft(name: &str) -> bool {
    let Some((_, rest)) = name.rsplit_once(".tmp.") else { return false };
    let Some((time, random)) = rest.split_once('-') else { return false };
    let digits = random.strip_suffix(OURS).unwrap_or_default();
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    number(time) && digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// What the disk said while the store was about to do `action`.
pub(super) fn store_error(place: &Path, action: &'static str, error: io::Error) -> StoreError {
    let named = || place.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { place: named() }
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { place: named() }
        }
        _ => StoreError::Backend { store: "files", action, source: Box::new(error) },
    }
}

/// Adds the place and the action to an error of the disk.
pub(super) trait OrStoreError<T> {
    /// The value, or what the disk said while the store was about to do `action`.
    fn or_store_error(self, place: &Path, action: &'static str) -> Result<T, StoreError>;
}

impl<T> OrStoreError<T> for io::Result<T> {
    fn or_store_error(self, place: &Path, action: &'static str) -> Result<T, StoreError> {
        self.map_err(|error| store_error(place, action, error))
    }
}
