//! What a mirror of sessions in files needs of the database: a table of how each file looked when it
//! and the log last agreed, and a log as far as it can be read, or put in the place of a damaged one.

use std::path::Path;

use rethread_core::store::{At, Result};
use rethread_core::{Entry, Header, NewEntry, Owner, Raw, SessionId, Tally};
use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::SqliteStore;
use super::append::{self, Request};
use super::error::OrStoreError;
use super::read::session_id;
use super::{migrate, row};

const WHAT: &str = "keep track of the session files";

/// How each session's file looked: a [`Shown`] as JSON.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS mirror (session BLOB PRIMARY KEY, shown TEXT NOT NULL) \
    STRICT, WITHOUT ROWID";

/// A session file, as it was when it and the log last agreed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shown {
    /// Its name without `.json`.
    pub(crate) stem: String,
    /// Whether it is in the archive.
    pub(crate) archived: bool,
    /// When it was changed, in nanoseconds.
    pub(crate) changed: i64,
    /// Its length.
    pub(crate) size: u64,
    /// The beginning of its SHA-256.
    pub(crate) sum: String,
    /// The entries of the log it says everything of.
    pub(crate) entries: u64,
    /// The fingerprint of the header it was made of; empty where it is to be made again.
    pub(crate) made_of: String,
    /// What it says about the session.
    pub(crate) metadata: String,
    /// The place of our latest summary when another program wrote one, where one did.
    pub(crate) summary: Option<u64>,
}

/// A session and its file.
#[derive(Clone)]
pub(crate) struct Mirrored {
    pub(crate) id: SessionId,
    /// What it says about itself, if that can be read.
    pub(crate) header: Option<Header>,
    /// The entries of its log.
    pub(crate) entries: u64,
    /// When its lease ends, if someone took one.
    pub(crate) until: Option<i64>,
    /// Its file, if it was ever written or read.
    pub(crate) shown: Option<Shown>,
}

fn mirrored(row: &Row<'_>) -> rusqlite::Result<Mirrored> {
    let (header, shown): (String, Option<String>) = (row.get(1)?, row.get(4)?);
    Ok(Mirrored {
        id: session_id(row, 0)?,
        header: serde_json::from_str(&header).ok(),
        entries: row.get(2).map(|n: i64| n.unsigned_abs())?,
        until: row.get(3)?,
        shown: shown.and_then(|shown| serde_json::from_str(&shown).ok()),
    })
}

const MIRRORED: &str = "SELECT s.id, s.header, (SELECT coalesce(max(seq) + 1, 0) FROM entries e \
    WHERE e.session = s.n), s.until, shown FROM sessions s LEFT JOIN mirror m ON m.session = s.id \
    WHERE s.owner = ?1";

impl SqliteStore {
    /// Makes the table of files, and forgets files of sessions that are gone.
    pub(crate) fn begin_mirror(&self) -> Result<()> {
        let place = self.db.place();
        self.db.write(WHAT, |tx| {
            tx.execute(TABLE, []).or_store_error(place, WHAT)?;
            let orphans = "DELETE FROM mirror WHERE session NOT IN (SELECT id FROM sessions)";
            tx.execute(orphans, []).or_store_error(place, WHAT).map(drop)
        })
    }

    /// All sessions of an owner with their files.
    pub(crate) fn mirrored(&self, owner: &Owner) -> Result<Vec<Mirrored>> {
        let place = self.db.place();
        self.db.read(|snapshot| {
            let mut statement = snapshot.prepare_cached(MIRRORED).or_store_error(place, WHAT)?;
            let rows = statement.query_map([owner.as_str()], mirrored);
            rows.and_then(Iterator::collect).or_store_error(place, WHAT)
        })
    }

    /// One of them.
    pub(crate) fn mirrored_one(&self, owner: &Owner, id: SessionId) -> Result<Option<Mirrored>> {
        let place = self.db.place();
        let sql = format!("{MIRRORED} AND s.id = ?2");
        self.db.read(|snapshot| {
            let mut statement = snapshot.prepare_cached(&sql).or_store_error(place, WHAT)?;
            let found = statement.query_row(params![owner.as_str(), id.0.as_bytes()], mirrored);
            found.optional().or_store_error(place, WHAT)
        })
    }

    /// Writes down how files look; nothing for one that is gone.
    pub(crate) fn keep_shown(&self, all: &[(SessionId, Option<Shown>)]) -> Result<()> {
        let place = self.db.place();
        // As an append, so that where logs end stays known.
        self.db.write(append::ACTION, |tx| {
            for (id, shown) in all {
                let json = shown.as_ref().map(|shown| Raw::of(shown).get().to_owned());
                let done = match json {
                    None => tx.execute("DELETE FROM mirror WHERE session = ?1", [id.0.as_bytes()]),
                    Some(json) => tx.execute(
                        "INSERT OR REPLACE INTO mirror VALUES (?1, ?2)",
                        params![id.0.as_bytes(), json],
                    ),
                };
                done.or_store_error(place, WHAT)?;
            }
            Ok(())
        })
    }

    /// How many of the first entries of a log are messages, or of another kind.
    pub(crate) fn count_of(&self, id: SessionId, end: u64, kind: &str) -> Result<u64> {
        let place = self.db.place();
        let sql = "SELECT count(*) FROM entries WHERE session = (SELECT n FROM sessions WHERE id = ?1) \
                   AND seq < ?2 AND (kind IS NULL OR kind = ?3)";
        self.db.read(|snapshot| {
            let mut statement = snapshot.prepare_cached(sql).or_store_error(place, WHAT)?;
            let end = i64::try_from(end).unwrap_or(i64::MAX);
            let count = statement.query_row(params![id.0.as_bytes(), end, kind], |row| row.get(0));
            count.map(|count: i64| count.unsigned_abs()).or_store_error(place, WHAT)
        })
    }

    /// The entries of a log that can be read, whatever is between them.
    pub(crate) fn salvaged(&self, owner: &Owner, id: SessionId) -> Result<Vec<Entry>> {
        let place = self.db.place();
        self.db.read(|snapshot| {
            let n = self.db.place_of(snapshot, owner, id)?.n;
            let sql = format!(
                "SELECT {} FROM entries WHERE session = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1",
                row::COLUMNS
            );
            let mut statement = snapshot.prepare_cached(&sql).or_store_error(place, WHAT)?;
            let (mut entries, mut next, mut unreadable) = (Vec::new(), 0_i64, 0);
            // A damaged page may hold many; behind this many it is given up.
            while unreadable < 10_000 {
                match statement.query_row([n, next], row::stored).optional() {
                    Ok(None) => break,
                    Ok(Some(stored)) => {
                        next = i64::try_from(stored.seq).unwrap_or(i64::MAX).saturating_add(1);
                        entries.extend(stored.entry(id));
                    }
                    Err(_) => (next, unreadable) = (next + 1, unreadable + 1),
                }
            }
            Ok(entries)
        })
    }

    /// Puts another log in the place of a session's. The index of words is filled again.
    pub(crate) fn replace_log(
        &self,
        owner: &Owner,
        id: SessionId,
        entries: &[NewEntry],
    ) -> Result<()> {
        let (db, place) = (&self.db, self.db.place());
        let new = Request::new(owner, id, At::END, entries);
        db.write(WHAT, |tx| {
            let found = db.place_of(tx, owner, id)?;
            found.lease.is_free(id, db.world.now())?;
            let n = found.n;
            for sql in [
                "DELETE FROM entries WHERE session = ?1",
                "DELETE FROM usage WHERE session = ?1",
                "UPDATE sessions SET first_message = '' WHERE n = ?1",
            ] {
                tx.execute(sql, [n]).or_store_error(place, WHAT)?;
            }
            let marks =
                "UPDATE progress SET rid = min(rid, (SELECT coalesce(max(rid), 0) FROM entries))";
            tx.execute(marks, []).or_store_error(place, WHAT)?;
            db.empty_index(tx)?;
            let mut insert = tx.prepare_cached(row::INSERT).or_store_error(place, WHAT)?;
            db.insert(tx, &mut insert, (id, n), Tally::default(), &new.entries)?;
            append::spend(place, tx, n, &new.spent)
        })
    }

    /// Copies the database as it is, damaged or not.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<()> {
        let file = self.db.file().clone();
        migrate::copy_as(&file, path)
    }
}
