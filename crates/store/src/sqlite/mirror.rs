//! Support for the mirror of sessions in files: a table with the last state of each file in which
//! it and the log agreed, and replacing a damaged log.

use std::path::Path;

use rethread_core::store::{At, Result};
use rethread_core::{Entry, Header, NewEntry, Owner, Raw, SessionId, Store, Tally};
use rusqlite::{Row, params, params_from_iter};
use serde::{Deserialize, Serialize};

use super::SqliteStore;
use super::append::{self, Request};
use super::error::OrStoreError;
use super::read::session_id;
use super::rebuild::unless_damaged;
use super::{column, migrate, row};
use crate::io::{failed, with_suffix};

const WHAT: &str = "keep track of the session files";

/// The state of each session's file: a [`Shown`] as JSON, or `null`.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS mirror (session BLOB PRIMARY KEY, shown TEXT NOT NULL) \
    STRICT, WITHOUT ROWID; DELETE FROM mirror WHERE session NOT IN (SELECT id FROM sessions)";

const MIRRORED: &str = "SELECT s.id, s.header, (SELECT coalesce(max(seq) + 1, 0) FROM entries e \
    WHERE e.session = s.n), s.until, shown FROM sessions s LEFT JOIN mirror m ON m.session = s.id \
    WHERE s.owner = 'local'";

/// Where a session file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Location {
    /// Its name, without `.json`.
    pub(crate) stem: String,
    pub(crate) archived: bool,
}

/// How a file looks from outside. One that looks the same was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// Its modification time, in nanoseconds.
    pub(crate) changed: i64,
    pub(crate) size: u64,
}

/// The state of a session file when it and the log last agreed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shown {
    #[serde(flatten)]
    pub(crate) at: Location,
    #[serde(flatten)]
    pub(crate) stamp: Stamp,
    /// The beginning of its SHA-256.
    pub(crate) sum: String,
    /// How many entries of the log it shows.
    pub(crate) entries: u64,
    /// The fingerprint of the header it was written from; empty if the file must be rewritten.
    pub(crate) made_of: String,
    pub(crate) metadata: String,
}

/// A session and its file.
#[derive(Clone)]
pub(crate) struct Mirrored {
    pub(crate) id: SessionId,
    /// `None` if it cannot be read.
    pub(crate) header: Option<Header>,
    /// The length of its log.
    pub(crate) entries: u64,
    /// Whether a turn is running.
    pub(crate) held: bool,
    /// Its file, if it was ever written or read.
    pub(crate) shown: Option<Shown>,
}

impl SqliteStore {
    /// Creates the table of files, and removes rows of deleted sessions.
    pub(crate) fn begin_mirror(&self) -> Result<()> {
        self.db.write(WHAT, |tx| tx.execute_batch(TABLE).or_store_error(self.db.place(), WHAT))
    }

    /// The sessions that have files, or one of them.
    pub(crate) fn mirrored(&self, one: Option<SessionId>) -> Result<Vec<Mirrored>> {
        let (place, now) = (self.db.place(), self.db.world.now().as_millisecond());
        let mirrored = |row: &Row<'_>| {
            let (header, shown) = (column::bytes(row, 1)?, column::bytes(row, 4)?);
            Ok(Mirrored {
                id: session_id(row, 0)?,
                header: serde_json::from_slice(&header).ok(),
                entries: column::integer(row, 2)?.unwrap_or_default().unsigned_abs(),
                held: column::integer(row, 3)?.is_some_and(|until| until > now),
                shown: serde_json::from_slice(&shown).ok(),
            })
        };
        let sql = format!("{MIRRORED}{}", one.map_or("", |_| " AND s.id = ?1"));
        self.db.read(|snapshot| {
            let mut statement = snapshot.prepare_cached(&sql).or_store_error(place, WHAT)?;
            let id = params_from_iter(one.map(|id| id.0.into_bytes()));
            let rows = statement.query_map(id, mirrored);
            rows.and_then(Iterator::collect).or_store_error(place, WHAT)
        })
    }

    /// Records the state of files; `None` for a deleted file.
    pub(crate) fn keep_shown(&self, all: &[(SessionId, Option<Shown>)]) -> Result<()> {
        // As an append, so that the ends of logs stay cached.
        self.db.write(append::ACTION, |tx| {
            all.iter().try_for_each(|(id, shown)| {
                let sql = "INSERT OR REPLACE INTO mirror VALUES (?1, ?2)";
                let done = tx.execute(sql, params![id.0.as_bytes(), Raw::of(shown).get()]);
                done.or_store_error(self.db.place(), WHAT).map(drop)
            })
        })
    }

    /// The entries of a log that can be read, and the number of its rows. Their positions are not to
    /// be trusted.
    pub(crate) fn readable(&self, id: SessionId) -> Result<(Vec<Entry>, u64)> {
        let (db, owner) = (&self.db, Owner::local());
        let seqs = db.read(|snapshot| db.seqs(snapshot, db.any_place_of(snapshot, &owner, id)?.n));
        let seqs = unless_damaged(seqs)?.unwrap_or_default();
        let entry = |seq: &i64| {
            let seq = u64::try_from(*seq).ok()?;
            self.read(&owner, id, seq..seq.checked_add(1)?).ok()?.pop()
        };
        Ok((seqs.iter().filter_map(entry).collect(), seqs.len() as u64))
    }

    /// Replaces a session's header and log. Its entries are indexed again.
    pub(crate) fn replace_log(&self, header: &Header, entries: &[NewEntry]) -> Result<()> {
        let (db, place, owner, id) = (&self.db, self.db.place(), Owner::local(), header.id);
        let new = Request::new(&owner, id, At::END, entries);
        db.write(WHAT, |tx| {
            let found = db.any_place_of(tx, &owner, id)?;
            found.lease.is_free(id, db.world.now())?;
            let n = found.n;
            db.write_header(tx, n, header)?;
            let empty = format!(
                "DELETE FROM entries WHERE session = {n}; DELETE FROM usage WHERE session = {n}; \
                 UPDATE sessions SET first_message = '' WHERE n = {n}; \
                 UPDATE progress SET rid = min(rid, (SELECT coalesce(max(rid), 0) FROM entries))"
            );
            tx.execute_batch(&empty).or_store_error(place, WHAT)?;
            db.empty_index(tx)?;
            let mut insert = tx.prepare_cached(row::INSERT).or_store_error(place, WHAT)?;
            db.insert(tx, &mut insert, (id, n), Tally::default(), &new.entries)?;
            append::spend(place, tx, n, &new.spent)
        })
    }

    /// Whether the table of entries, or one of its indexes, has a damaged page.
    pub(crate) fn has_damaged_entries(&self) -> Result<bool> {
        self.db.lines("quick_check('entries')").map(|lines| !lines.is_empty())
    }

    /// Rebuilds the table of entries, without the rows that cannot be read. Each of those is
    /// reported as damaged from then on. Returns their number; `None` if the index that lists the
    /// rows is damaged too.
    pub(crate) fn remake_entries(&self) -> Result<Option<u64>> {
        unless_damaged(self.db.remake_entries())
    }

    /// Moves a database that is not open, damaged or not.
    pub(crate) fn move_file(from: &Path, to: &Path) -> Result<()> {
        // The file itself is moved last, because its log files without it would be mistaken for
        // those of a new one.
        for end in ["-wal", "-shm", ""] {
            let [from, to] = [from, to].map(|path| with_suffix(path, end));
            if from.symlink_metadata().is_ok() {
                std::fs::rename(&from, to).map_err(failed("sqlite", &from, "move the file"))?;
            }
        }
        Ok(())
    }

    /// Copies the database as it is, damaged or not.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<()> {
        migrate::copy_as(&self.db.file().clone(), path)
    }
}
