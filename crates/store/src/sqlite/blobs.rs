//! Blobs: bytes that belong to a session.

use rethread_core::store::Result;
use rethread_core::{BlobId, BlobInfo, Owner, SessionId, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use super::Db;
use super::column;
use super::error::OrStoreError;
use crate::compress;
use crate::row::number;

const WHAT: &str = "keep an attachment";
const READ: &str = "read an attachment";

impl Db {
    pub(super) fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        let blob = BlobId::of(bytes);
        let packed = compress::compress(bytes);
        let body = packed.as_deref().unwrap_or(bytes);
        self.write(WHAT, |tx| {
            let n = self.place_of(tx, owner, id)?.n;
            let sql = "INSERT OR IGNORE INTO blobs (session, hash, size, body) \
                       VALUES (?1, ?2, ?3, ?4)";
            let mut statement = tx.prepare_cached(sql).or_store_error(self.place(), WHAT)?;
            let size = number(bytes.len() as u64);
            statement.execute(params![n, blob.0, size, body]).or_store_error(self.place(), WHAT)?;
            Ok(blob)
        })
    }

    pub(super) fn blob(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        id: SessionId,
        blob: BlobId,
    ) -> Result<Vec<u8>> {
        let n = self.place_of(snapshot, owner, id)?.n;
        self.kept_blob(snapshot, n, id, blob)
    }

    /// A blob of a session, in the trash or not.
    pub(super) fn kept_blob(
        &self,
        snapshot: &Connection,
        n: i64,
        id: SessionId,
        blob: BlobId,
    ) -> Result<Vec<u8>> {
        let sql = "SELECT size, body FROM blobs WHERE session = ?1 AND hash = ?2";
        let mut statement = snapshot.prepare_cached(sql).or_store_error(self.place(), READ)?;
        let found: Option<(i64, Vec<u8>)> = statement
            .query_row(params![n, blob.0], |row| {
                Ok((column::integer(row, 0)?.unwrap_or(-1), column::bytes(row, 1)?))
            })
            .optional()
            .or_store_error(self.place(), READ)?;
        let (size, body) = found.ok_or(StoreError::NoBlob { id, blob })?;
        crate::row::blob(id, blob, size, body)
    }

    pub(super) fn blobs(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        id: SessionId,
    ) -> Result<Vec<BlobInfo>> {
        let n = self.place_of(snapshot, owner, id)?.n;
        self.kept_blobs(snapshot, n)
    }

    /// The blobs of a session, in the trash or not.
    pub(super) fn kept_blobs(&self, snapshot: &Connection, n: i64) -> Result<Vec<BlobInfo>> {
        let sql = "SELECT hash, size FROM blobs WHERE session = ?1 ORDER BY hash";
        let mut statement = snapshot.prepare_cached(sql).or_store_error(self.place(), READ)?;
        let rows = statement.query_map([n], |row| {
            Ok((column::bytes(row, 0)?, column::integer(row, 1)?.unwrap_or_default()))
        });
        let rows = rows.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        let rows = rows.or_store_error(self.place(), READ)?;
        // A blob without its hash cannot be asked for; `doctor` reports it as missing.
        let blob = |(hash, size): (Vec<u8>, i64)| {
            let id = BlobId(hash.try_into().ok()?);
            Some(BlobInfo { id, size: u64::try_from(size).unwrap_or_default() })
        };
        Ok(rows.into_iter().filter_map(blob).collect())
    }
}
