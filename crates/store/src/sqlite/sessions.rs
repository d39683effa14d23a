//! Writes headers, keys and leases.

use std::time::Duration;

use jiff::Timestamp;
use rethread_core::store::{Bind, Change, KeyChange, Lease, Result};
use rethread_core::{Header, Key, Owner, Session, SessionId, StoreError, Tally};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::Db;
use super::append::{self, Request};
use super::error::OrStoreError;
use super::{column, row};
use crate::row::Ready;

impl Db {
    pub(super) fn create(
        &self,
        tx: &Connection,
        header: &Header,
        new: &Request,
        binds: &[Bind],
    ) -> Result<Session> {
        let (owner, id, entries) = (&header.owner, header.id, new.entries.as_slice());
        if let Some(session) = self.created_before(tx, header, entries)? {
            return Ok(session);
        }
        for bind in binds {
            self.is_where_seen(tx, owner, bind)?;
        }
        let last_at = entries.last().map_or(header.created_at.as_millisecond(), |entry| entry.at);
        let json = json_of(header);
        let sql = "INSERT INTO sessions (id, owner, name, header, archived, workspace, parent, \
                   continues, last_at, trashed, first_message) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, '')";
        let mut statement =
            tx.prepare_cached(sql).or_store_error(self.place(), "create a session")?;
        let inserted = statement.insert(params![
            id.0.as_bytes(),
            owner.as_str(),
            header.name.folded(),
            json,
            header.archived,
            header.profile.workspace,
            header.parent.map(|parent| parent.id.0.into_bytes()),
            header.parent.is_some_and(|parent| parent.origin.continues()),
            last_at,
            trashed(header),
        ]);
        let n = inserted.map_err(|error| self.name_taken(error, header))?;
        self.repeated(tx, n, id, entries)?;
        let mut insert =
            tx.prepare_cached(row::INSERT).or_store_error(self.place(), "create a session")?;
        self.insert(tx, &mut insert, (header.id, n), Tally::default(), entries)?;
        append::spend(self.place(), tx, n, &new.spent)?;
        self.fold(tx)?;
        for bind in binds {
            self.point(tx, owner, &bind.key, Some(n))?;
        }
        self.session(tx, owner, id)
    }

    /// The session, if it was created before; an error if another session has the id.
    fn created_before(
        &self,
        tx: &Connection,
        header: &Header,
        entries: &[Ready],
    ) -> Result<Option<Session>> {
        let id = header.id;
        let sql = "SELECT owner FROM sessions WHERE id = ?1";
        let mut statement =
            tx.prepare_cached(sql).or_store_error(self.place(), "create a session")?;
        let found = statement.query_row([id.0.as_bytes()], |row| column::bytes(row, 0));
        let Some(owner) = found.optional().or_store_error(self.place(), "create a session")? else {
            return Ok(None);
        };
        let exists = || StoreError::Exists { id };
        if owner != header.owner.as_str().as_bytes() {
            return Err(exists());
        }
        let session = self.session(tx, &header.owner, id)?;
        let place = self.any_place_of(tx, &header.owner, id)?;
        let same = match self.repeated(tx, place.n, id, entries) {
            Ok(Some(seqs)) => seqs.into_iter().eq(0..entries.len() as u64),
            Ok(None) => entries.is_empty(),
            Err(StoreError::IdReused { .. }) => false,
            Err(error) => return Err(error),
        };
        match same && session.header.created_at == header.created_at {
            true => Ok(Some(session)),
            false => Err(exists()),
        }
    }

    fn name_taken(&self, error: rusqlite::Error, header: &Header) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => {
                StoreError::NameTaken { name: header.name.clone() }
            }
            _ => super::error::store_error(self.place(), "name a session", error),
        }
    }

    fn is_where_seen(&self, tx: &Connection, owner: &Owner, bind: &Bind) -> Result<()> {
        let actual = self.resolve(tx, owner, &bind.key)?;
        match actual == bind.seen {
            true => Ok(()),
            false => Err(StoreError::KeyMoved { key: bind.key.clone(), actual }),
        }
    }

    fn point(&self, tx: &Connection, owner: &Owner, key: &Key, to: Option<i64>) -> Result<()> {
        let done = match to {
            Some(n) => tx.execute(
                "INSERT INTO keys (owner, key, session) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (owner, key) DO UPDATE SET session = excluded.session",
                params![owner.as_str(), key.as_str(), n],
            ),
            None => tx.execute(
                "DELETE FROM keys WHERE owner = ?1 AND key = ?2",
                [owner.as_str(), key.as_str()],
            ),
        };
        done.or_store_error(self.place(), "bind a key")?;
        Ok(())
    }

    pub(super) fn bind(
        &self,
        tx: &Connection,
        owner: &Owner,
        bind: &Bind,
        to: Option<SessionId>,
    ) -> Result<()> {
        self.is_where_seen(tx, owner, bind)?;
        let n = match to {
            Some(id) => Some(self.place_of(tx, owner, id)?.n),
            None => None,
        };
        self.point(tx, owner, &bind.key, n)
    }

    pub(super) fn update(
        &self,
        tx: &Connection,
        owner: &Owner,
        id: SessionId,
        change: &Change,
    ) -> Result<Session> {
        let row = self.session_row(tx, owner, id)?;
        let mut header = row.header()?;
        let keys = change.keys(&header)?;
        if keys == KeyChange::Release {
            self.place_of(tx, owner, id)?.lease.is_free(id, self.world.now())?;
        }
        change.apply(&mut header);
        self.write_header(tx, row.n, &header)?;
        match keys {
            KeyChange::Keep => {}
            KeyChange::Release => {
                let released = tx.execute("DELETE FROM keys WHERE session = ?1", [row.n]);
                released.or_store_error(self.place(), "release keys")?;
            }
            KeyChange::Claim(keys) => {
                let sql = "INSERT OR IGNORE INTO keys (owner, key, session) VALUES (?1, ?2, ?3)";
                for key in keys {
                    let claimed = tx.execute(sql, params![owner.as_str(), key.as_str(), row.n]);
                    claimed.or_store_error(self.place(), "claim keys")?;
                }
            }
        }
        self.session(tx, owner, id)
    }

    /// Writes a header, and the columns that repeat parts of it.
    pub(super) fn write_header(&self, tx: &Connection, n: i64, header: &Header) -> Result<()> {
        let sql = "UPDATE sessions SET name = ?2, header = ?3, archived = ?4, workspace = ?5, \
                   parent = ?6, continues = ?7, trashed = ?8 WHERE n = ?1";
        let mut statement =
            tx.prepare_cached(sql).or_store_error(self.place(), "change a session")?;
        let done = statement.execute(params![
            n,
            header.name.folded(),
            json_of(header),
            header.archived,
            header.profile.workspace,
            header.parent.map(|parent| parent.id.0.into_bytes()),
            header.parent.is_some_and(|parent| parent.origin.continues()),
            trashed(header),
        ]);
        done.map_err(|error| self.name_taken(error, header))?;
        Ok(())
    }

    pub(super) fn lease(
        &self,
        tx: &Connection,
        owner: &Owner,
        id: SessionId,
        holder: &str,
        ttl: Duration,
    ) -> Result<Lease> {
        let mut place = self.place_of(tx, owner, id)?;
        let (record, lease) = place.lease.leased(id, holder, ttl, self.world.now())?;
        self.keep_lease(tx, &mut place, Some(record))?;
        Ok(lease)
    }

    pub(super) fn delete(
        &self,
        tx: &Connection,
        owner: &Owner,
        id: SessionId,
        trashed_at: Option<Timestamp>,
    ) -> Result<()> {
        const WHAT: &str = "delete a session";
        let place = self.any_place_of(tx, owner, id)?;
        if let Some(at) = trashed_at {
            let sql = "SELECT trashed IS ?2 FROM sessions WHERE n = ?1";
            let since_then =
                tx.query_row(sql, params![place.n, at.as_millisecond()], |row| row.get(0));
            if !since_then.or_store_error(self.place(), WHAT)? {
                return Err(StoreError::NotFound { id });
            }
        }
        place.lease.is_free(id, self.world.now())?;
        self.unindex(tx, owner, id, place.n)?;
        for sql in [
            "DELETE FROM entries WHERE session = ?1",
            "DELETE FROM blobs WHERE session = ?1",
            "DELETE FROM usage WHERE session = ?1",
            "DELETE FROM keys WHERE session = ?1",
            "DELETE FROM sessions WHERE n = ?1",
        ] {
            tx.execute(sql, [place.n]).or_store_error(self.place(), WHAT)?;
        }
        // The numbers of the last rows may be used again; derived data must not treat the new rows
        // as processed.
        let sql = "UPDATE progress SET rid = min(rid, (SELECT coalesce(max(rid), 0) FROM entries))";
        tx.execute(sql, []).or_store_error(self.place(), WHAT)?;
        Ok(())
    }
}

/// When a session was moved to the trash, for its column.
pub(super) fn trashed(header: &Header) -> Option<i64> {
    header.trash.as_ref().map(|trash| trash.at.as_millisecond())
}

fn json_of(header: &Header) -> String {
    serde_json::to_string(header).expect("a header is always valid JSON")
}
