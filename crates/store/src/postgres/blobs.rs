//! Blobs: bytes that belong to a session.

use rethread_core::store::Result;
use rethread_core::{BlobId, BlobInfo, Owner, SessionId, StoreError};

use super::{Db, sql};
use crate::compress;
use crate::row::{self, number};

impl Db {
    pub(super) fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        let blob = BlobId::of(bytes);
        let packed = compress::compress(bytes);
        let body = packed.as_deref().unwrap_or(bytes);
        let (owner, hash, size) = (owner.as_str(), blob.0.as_slice(), number(bytes.len() as u64));
        self.pool.run("keep an attachment", async |link, _| {
            // The session is locked, so that it is not deleted in the meantime.
            let answers =
                link.all(&[(sql::BEGIN, &[]), (sql::LOCK_SESSION, &[&owner, &id.0])]).await?;
            if answers[1].rows.is_empty() {
                return Err(StoreError::NotFound { id }.into());
            }
            link.all(&[(sql::PUT_BLOB, &[&owner, &id.0, &hash, &size, &body]), (sql::COMMIT, &[])])
                .await?;
            Ok(blob)
        })
    }

    pub(super) fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        self.kept_blob(sql::EXISTS, owner, id, blob)
    }

    pub(super) fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>> {
        self.kept_blobs(sql::EXISTS, owner, id)
    }

    /// The blob of a session that `exists` finds.
    pub(super) fn kept_blob(
        &self,
        exists: &'static str,
        owner: &Owner,
        id: SessionId,
        blob: BlobId,
    ) -> Result<Vec<u8>> {
        let (owner, hash) = (owner.as_str(), blob.0.as_slice());
        let (size, body) = self.pool.run("read an attachment", async |link, _| {
            let answers = link
                .all(&[(exists, &[&owner, &id.0]), (sql::BLOB, &[&owner, &id.0, &hash])])
                .await?;
            if answers[0].rows.is_empty() {
                return Err(StoreError::NotFound { id }.into());
            }
            let row = answers[1].rows.first().ok_or(StoreError::NoBlob { id, blob })?;
            Ok((row.try_get::<_, i64>(0)?, row.try_get::<_, Vec<u8>>(1)?))
        })?;
        row::blob(id, blob, size, body)
    }

    /// The blobs of a session that `exists` finds.
    pub(super) fn kept_blobs(
        &self,
        exists: &'static str,
        owner: &Owner,
        id: SessionId,
    ) -> Result<Vec<BlobInfo>> {
        let owner = owner.as_str();
        self.pool.run("list attachments", async |link, _| {
            let answers =
                link.all(&[(exists, &[&owner, &id.0]), (sql::BLOBS, &[&owner, &id.0])]).await?;
            if answers[0].rows.is_empty() {
                return Err(StoreError::NotFound { id }.into());
            }
            let mut blobs = Vec::new();
            for row in &answers[1].rows {
                let hash: [u8; 32] = row.try_get::<_, Vec<u8>>(0)?.try_into().unwrap_or_default();
                let size: i64 = row.try_get(1)?;
                let size = u64::try_from(size).unwrap_or_default();
                blobs.push(BlobInfo { id: BlobId(hash), size });
            }
            Ok(blobs)
        })
    }
}
