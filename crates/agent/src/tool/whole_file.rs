//! Whole files, text or binary: reading them before a change, and restoring them.

use std::io::{self, Read};

use super::limits::FILE_BYTES_MAX;
use super::workspace::{RealPath, failed, too_large};
use super::write_file::replace;
use super::{ToolFailure, Workspace};

impl Workspace {
    /// The content of a file; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`ToolFailure`] for a path outside, for anything but a regular file, and for a file that is
    /// too large to be stored.
    pub(crate) fn content(&self, path: &str) -> Result<Option<Vec<u8>>, ToolFailure> {
        self.content_at(&self.resolve_for_writing(path)?)
    }

    /// The same for a path that was resolved.
    pub(super) fn content_at(&self, path: &RealPath) -> Result<Option<Vec<u8>>, ToolFailure> {
        if !self.is_there(path) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = self.file(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| failed("read", path, &error))?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(too_large(path)),
            false => Ok(Some(bytes)),
        }
    }

    /// Restores the content of a file; without content it is removed.
    ///
    /// # Errors
    ///
    /// As [`content`](Workspace::content), and I/O errors.
    pub(crate) fn put_back(&self, path: &str, content: Option<&[u8]>) -> Result<(), ToolFailure> {
        let path = self.resolve_for_writing(path)?;
        if let Some(content) = content {
            return replace(self, &path, content).map(drop);
        }
        if !self.is_there(&path) {
            return Ok(());
        }
        // Only a regular file is removed.
        drop(self.file(&path)?);
        let removed = || -> io::Result<()> {
            let (folder, name) = self.folder_to_write(&path)?;
            folder.remove_file(name)
        };
        removed().map_err(|error| failed("remove", &path, &error))
    }
}
