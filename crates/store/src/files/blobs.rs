//! Bytes that belong to a session: `.rethread/blobs/<uuid>/<sha256>`, as they were given.

use std::path::PathBuf;

use rethread_core::store::Result;
use rethread_core::{BlobId, BlobInfo, SessionId, StoreError};

use super::disk::{Draft, Told};
use super::fold::names;
use super::folder::Dir;

const ACTION: &str = "keep an attachment";

impl Dir {
    fn blob_folder(&self, id: SessionId) -> PathBuf {
        self.ours.join("blobs").join(id.to_string())
    }

    pub(super) fn put_blob(&mut self, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        self.record(id)?;
        let blob = BlobId::of(bytes);
        let folder = self.blob_folder(id);
        let path = folder.join(blob.to_string());
        if self.blob(id, blob).is_ok() {
            return Ok(blob);
        }
        let (disk, world) = (self.disk.clone(), self.world.clone());
        let written = disk.folder(&folder).and_then(|()| {
            let mut draft = Draft::new(disk.as_ref(), world.as_ref(), &path)?;
            draft.add(bytes)?;
            draft.publish()?;
            disk.sync_folder(&folder)?;
            disk.sync_folder(&self.ours.join("blobs"))?;
            disk.sync_folder(&self.ours)
        });
        written.told(&path, ACTION)?;
        Ok(blob)
    }

    pub(super) fn blob(&mut self, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        self.record(id)?;
        let path = self.blob_folder(id).join(blob.to_string());
        // A link could lead anywhere.
        if !path.symlink_metadata().is_ok_and(|there| there.is_file()) {
            return Err(StoreError::NoBlob { id, blob });
        }
        let bytes = std::fs::read(&path).told(&path, "read an attachment")?;
        match BlobId::of(&bytes) == blob {
            true => Ok(bytes),
            false => Err(StoreError::BadBlob { id, blob }),
        }
    }

    pub(super) fn blobs(&mut self, id: SessionId) -> Result<Vec<BlobInfo>> {
        self.record(id)?;
        let folder = self.blob_folder(id);
        let mut blobs = Vec::new();
        for name in names(&folder) {
            let Ok(blob) = name.parse::<BlobId>() else { continue };
            let size = folder.join(&name).symlink_metadata().map(|there| there.len());
            blobs.push(BlobInfo { id: blob, size: size.unwrap_or_default() });
        }
        blobs.sort_by_key(|blob| blob.id);
        Ok(blobs)
    }

    /// Removes all that is kept with a session that goes.
    pub(super) fn remove_blobs(&mut self, id: SessionId) -> Result<()> {
        let folder = self.blob_folder(id);
        for name in names(&folder) {
            let path = folder.join(name);
            self.disk.remove(&path).told(&path, "delete an attachment")?;
        }
        // An empty folder that cannot be removed does no harm.
        drop(std::fs::remove_dir(&folder));
        Ok(())
    }
}
