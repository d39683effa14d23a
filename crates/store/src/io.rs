//! Files and folders that only their owner can read, waiting, and I/O errors as decisions for the
//! caller.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rethread_core::StoreError;
use tempfile::TempDir;

/// How a file is opened for writing; if it is created, with mode 0600.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.read(true).write(true);
    options
}

/// Creates a folder and its parents, with mode 0700. Existing ones are not changed.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// A temporary folder, removed with its contents when it is dropped. Others cannot read it.
pub(crate) fn private_temporary() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.prefix("rethread-").tempdir()
}

/// Exchanges the names of two files, where the system can do that.
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let what = format!("{} and {} cannot be exchanged", one.display(), other.display());
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }
}

/// A path with something appended to its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// The error of a store for an I/O error during `action`.
pub(crate) fn failed(
    store: &'static str,
    place: &Path,
    action: &'static str,
) -> impl Fn(io::Error) -> StoreError + use<> {
    let place = place.to_owned();
    move |error| {
        let place = place.display().to_string();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { place },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { place }
            }
            _ => {
                let source = format!("{place}: {error}").into();
                StoreError::Backend { store, action, source }
            }
        }
    }
}

/// Tries again and again, every millisecond, which is about the time of a sync; `None` if that takes
/// longer than `patience`.
pub(crate) fn patiently<T, E>(
    patience: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let start = Instant::now();
    loop {
        match attempt()? {
            None if start.elapsed() < patience => std::thread::sleep(Duration::from_millis(1)),
            done => return Ok(done),
        }
    }
}
