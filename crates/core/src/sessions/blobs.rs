//! Bytes that belong to a session: attachments, and files as they were.

use super::{Error, Result, Sessions};
use crate::blob::{BlobId, BlobInfo};
use crate::limits::BLOB_BYTES_MAX;
use crate::name::SessionId;
use crate::store::StoreError;

impl Sessions {
    /// Keeps bytes with a session; they are on disk when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], and those of the store.
    pub fn put_blob(&self, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        if bytes.len() > BLOB_BYTES_MAX {
            let (what, size) = ("an attachment", bytes.len());
            return Err(Error::TooLarge { what, size, max: BLOB_BYTES_MAX });
        }
        Ok(self.store.put_blob(&self.owner, id, bytes)?)
    }

    /// Bytes that are kept with a session. Where a crash came between a fork and its copies, they
    /// are those of the session it was forked from.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoBlob`], [`StoreError::BadBlob`], and those of the disk.
    pub fn blob(&self, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        match self.store.blob(&self.owner, id, blob) {
            Err(missing @ StoreError::NoBlob { .. }) => match self.get(id)?.header.parent {
                Some(parent) => match self.store.blob(&self.owner, parent.id, blob) {
                    Ok(bytes) => Ok(bytes),
                    Err(_) => Err(missing.into()),
                },
                None => Err(missing.into()),
            },
            found => Ok(found?),
        }
    }

    /// What is kept with a session.
    ///
    /// # Errors
    ///
    /// `StoreError::NotFound` without such a session; otherwise I/O errors.
    pub fn blobs(&self, id: SessionId) -> Result<Vec<BlobInfo>> {
        Ok(self.store.blobs(&self.owner, id)?)
    }

    /// Copies what is kept with a session and missing in another, which may be in another store.
    /// Returns how many there were to copy.
    pub(super) fn copy_blobs(&self, id: SessionId, to: &Sessions, copy: SessionId) -> Result<u64> {
        let there = to.blobs(copy)?;
        let mut copied = 0;
        for blob in self.blobs(id)? {
            if !there.contains(&blob) {
                to.store.put_blob(&to.owner, copy, &self.blob(id, blob.id)?)?;
                copied += 1;
            }
        }
        Ok(copied)
    }
}
