//! Blobs of a session: attachments, and earlier versions of files.

use super::{Error, Result, Sessions};
use crate::blob::{BlobId, BlobInfo};
use crate::limits::BLOB_BYTES_MAX;
use crate::name::SessionId;
use crate::store::StoreError;

impl Sessions {
    /// Stores a blob with a session; it is on disk when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`]; otherwise errors of [`Store::put_blob`](crate::store::Store::put_blob).
    pub fn put_blob(&self, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        if bytes.len() > BLOB_BYTES_MAX {
            let (what, size) = ("an attachment", bytes.len());
            return Err(Error::TooLarge { what, size, max: BLOB_BYTES_MAX });
        }
        Ok(self.store.put_blob(&self.owner, id, bytes)?)
    }

    /// A blob of a session. If a crash interrupted the copying of a fork's blobs, it is read from
    /// the original session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoBlob`], [`StoreError::BadBlob`], and I/O errors.
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

    /// The blobs of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such session; otherwise I/O errors.
    pub fn blobs(&self, id: SessionId) -> Result<Vec<BlobInfo>> {
        Ok(self.store.blobs(&self.owner, id)?)
    }

    /// Copies the blobs of a session that are missing in another, which may be in another store.
    /// Returns their number.
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
