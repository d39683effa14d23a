//! Full-text search with SQLite's FTS5.
//!
//! The index is updated when somebody searches, not when something is appended: so indexing does
//! not slow appends down, and a search still finds everything that was acknowledged before it.

use std::sync::mpsc;

use jiff::Timestamp;
use rethread_core::limits::PARALLEL_MIN;
use rethread_core::search::{Hit, Query, Rank, SearchText, Speaker, Wanted, line_of_terms, page};
use rethread_core::store::Result;
use rethread_core::{Owner, Place, SessionId, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use super::column::{bytes, integer, lossy_or_null};
use super::error::OrStoreError;
use super::read::session_id;
use super::row;
use super::{Db, INDEXED};
use crate::row::{Stored, number};

const WHAT: &str = "search";

/// Entries indexed in one transaction, and their bytes, about, so that others can write in between.
/// The more there are, the fewer segments of the index have to be merged.
const FILL_ENTRIES: i64 = 2_000;
const FILL_BYTES: usize = 4 << 20;

/// Texts that are prepared ahead of the index.
const FILL_AHEAD: usize = 64;

/// An entry that is not in the index.
struct Unindexed {
    rid: i64,
    session: SessionId,
    owner: Vec<u8>,
    stored: Stored,
}

/// What is indexed for an entry: its row and its line of terms.
type Indexed = (i64, String);

impl Unindexed {
    /// An entry that cannot be read cannot be found; `doctor` reports it.
    fn indexed(self) -> Option<Indexed> {
        let entry = self.stored.entry(self.session).ok()?;
        let owner = String::from_utf8(self.owner).ok()?;
        Some((self.rid, indexed(&owner, &SearchText::of(&entry.body)?)))
    }
}

impl Db {
    /// Updates the index, and returns whether it is current. On a read-only file it is not.
    pub(super) fn fill_search(&self) -> Result<bool> {
        let behind = format!("SELECT EXISTS (SELECT 1 FROM entries WHERE rid > {INDEXED})");
        let waiting = |connection: &Connection| -> Result<bool> {
            connection.query_row(&behind, [], |row| row.get(0)).or_store_error(self.place(), WHAT)
        };
        while self.read(waiting)? {
            match self.write(WHAT, |tx| self.fill_some(tx)) {
                Ok(()) => {}
                Err(StoreError::ReadOnly { .. } | StoreError::Full { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn fill_some(&self, tx: &Connection) -> Result<()> {
        let known = "SELECT EXISTS (SELECT 1 FROM progress WHERE what = 'searched')";
        if !tx.query_row(known, [], |row| row.get(0)).or_store_error(self.place(), WHAT)? {
            // The contents of the index are not known, and it must not be updated twice.
            self.empty_index(tx)?;
        }
        let rows = self.unindexed(tx)?;
        let last = rows.last().map(|row| row.rid);
        let insert = "INSERT INTO search (rowid, terms) VALUES (?1, ?2)";
        let mut insert = tx.prepare_cached(insert).or_store_error(self.place(), WHAT)?;
        let mut index = |(rid, terms): Indexed| {
            insert.execute(params![rid, terms]).or_store_error(self.place(), WHAT).map(drop)
        };
        if rows.len() < PARALLEL_MIN {
            rows.into_iter().filter_map(Unindexed::indexed).try_for_each(index)?;
        } else {
            // Decompressing the entries takes almost as long as indexing them.
            std::thread::scope(|scope| {
                let (give, take) = mpsc::sync_channel(FILL_AHEAD);
                scope.spawn(move || {
                    // It stops when the receiver is gone; the error is reported there.
                    rows.into_iter()
                        .filter_map(Unindexed::indexed)
                        .try_for_each(|indexed| give.send(indexed))
                });
                take.into_iter().try_for_each(&mut index)
            })?;
        }
        // Rows of deleted sessions are skipped.
        let sql = "UPDATE progress SET rid = coalesce(?1, (SELECT max(rid) FROM entries)) \
                   WHERE what = 'searched'";
        tx.execute(sql, [last]).or_store_error(self.place(), WHAT)?;
        Ok(())
    }

    /// Some of the entries after the mark of the index.
    fn unindexed(&self, tx: &Connection) -> Result<Vec<Unindexed>> {
        let sql = format!(
            "SELECT {}, e.rid, s.id, s.owner FROM entries e JOIN sessions s ON s.n = e.session \
             WHERE e.rid > {INDEXED} \
             ORDER BY e.rid LIMIT {FILL_ENTRIES}",
            columns_of_entry()
        );
        let mut statement = tx.prepare_cached(&sql).or_store_error(self.place(), WHAT)?;
        let rows = statement.query_map([], |row| {
            let (stored, rid) = (row::stored(row)?, row.get(20)?);
            Ok(Unindexed { rid, session: session_id(row, 21)?, owner: bytes(row, 22)?, stored })
        });
        let mut found = Vec::new();
        let mut bytes = 0;
        for row in rows.or_store_error(self.place(), WHAT)? {
            let row = row.or_store_error(self.place(), WHAT)?;
            bytes += row.stored.bytes();
            found.push(row);
            if bytes > FILL_BYTES {
                break;
            }
        }
        Ok(found)
    }

    /// How many entries are after the mark of the index. Row numbers are assigned in order, so this
    /// is the difference between the last one and the mark; deleted entries between them still
    /// count.
    pub(super) fn index_lag(&self, snapshot: &Connection) -> Result<u64> {
        let sql = format!("SELECT coalesce((SELECT max(rid) FROM entries), 0) - {INDEXED}");
        let behind: i64 =
            snapshot.query_row(&sql, [], |row| row.get(0)).or_store_error(self.place(), WHAT)?;
        Ok(u64::try_from(behind).unwrap_or_default())
    }

    /// The entries that match. `filled` says whether the index is complete; entries that are not in
    /// it are read one by one.
    pub(super) fn search(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        query: &Query,
        filled: bool,
        range: (usize, usize),
    ) -> Result<Vec<Hit>> {
        let (offset, limit) = range;
        let mut found = Vec::new();
        if !filled {
            self.match_unindexed(snapshot, owner, query, &mut found)?;
        }
        let mark = format!("SELECT {INDEXED}");
        let mark: i64 =
            snapshot.query_row(&mark, [], |row| row.get(0)).or_store_error(self.place(), WHAT)?;
        // An index that was never filled may have an earlier layout, if nothing can be written.
        if mark > 0 {
            self.match_index(snapshot, owner, query, &mut found)?;
        }
        let sql = format!(
            "SELECT {} FROM entries e JOIN sessions s ON s.n = e.session \
             WHERE s.id = ?1 AND e.seq = ?2",
            columns_of_entry()
        );
        let mut statement = snapshot.prepare_cached(&sql).or_store_error(self.place(), WHAT)?;
        page(query, found, offset, limit, |place| {
            let key = params![place.session.0.as_bytes(), number(place.seq)];
            let stored = statement
                .query_row(key, row::stored)
                .optional()
                .or_store_error(self.place(), WHAT)?;
            // Entries that cannot be read cannot be shown; `doctor` reports them.
            let entry = stored.and_then(|stored| stored.entry(place.session).ok());
            Ok(entry.and_then(|entry| SearchText::of(&entry.body)))
        })
    }

    /// Matches after the mark of the index. Every entry there is read.
    fn match_unindexed(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        query: &Query,
        found: &mut Vec<Rank>,
    ) -> Result<()> {
        let sql = format!(
            "SELECT {}, s.id, s.workspace FROM entries e JOIN sessions s ON s.n = e.session \
             WHERE e.rid > {INDEXED} AND s.owner = ?1 AND s.trashed IS NULL",
            columns_of_entry()
        );
        let mut statement = snapshot.prepare_cached(&sql).or_store_error(self.place(), WHAT)?;
        let rows = statement.query_map([owner.as_str()], |row| {
            Ok((row::stored(row)?, session_id(row, 20)?, lossy_or_null(row, 21)?))
        });
        for row in rows.or_store_error(self.place(), WHAT)? {
            let (stored, session, workspace) = row.or_store_error(self.place(), WHAT)?;
            let Ok(entry) = stored.entry(session) else { continue };
            let Some(said) = SearchText::of(&entry.body) else { continue };
            if query.scope.covers(entry.at, workspace.as_deref(), said.speaker)
                && query.matches(&said.text)
            {
                let place = Place { session, seq: entry.seq };
                found.push(Rank::new(place, entry.at, said.speaker));
            }
        }
        Ok(())
    }

    /// Candidates from the index.
    fn match_index(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        query: &Query,
        found: &mut Vec<Rank>,
    ) -> Result<()> {
        let sql = format!(
            "SELECT e.at, s.id, e.seq FROM search f JOIN entries e ON e.rid = f.rowid \
             JOIN sessions s ON s.n = e.session WHERE search MATCH ?1 AND s.owner = ?2 \
             AND s.trashed IS NULL AND (?3 IS NULL OR s.workspace = ?3) \
             AND e.at >= ?4 AND +e.rid <= {INDEXED}"
        );
        let mut statement = snapshot.prepare_cached(&sql).or_store_error(self.place(), WHAT)?;
        let since = query.scope.since.map_or(i64::MIN, Timestamp::as_millisecond);
        for (is_conversation, speakers) in speakers(query) {
            let matching = format!("\"{}\" AND {}", term_of_owner(owner.as_str()), matching(query));
            let matching = match speakers.is_empty() {
                true => continue,
                false => format!("{matching} AND ({})", speakers.join(" OR ")),
            };
            let rows = statement.query_map(
                params![matching, owner.as_str(), query.scope.workspace, since],
                |row| {
                    let (at, seq) = (integer(row, 0)?, integer(row, 2)?);
                    Ok((at.unwrap_or_default(), session_id(row, 1)?, seq.unwrap_or_default()))
                },
            );
            for row in rows.or_store_error(self.place(), WHAT)? {
                let (at, session, seq) = row.or_store_error(self.place(), WHAT)?;
                let at = Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
                found.push(Rank { is_conversation, at, session, seq: seq.unsigned_abs() });
            }
        }
        Ok(())
    }

    /// Removes a session's entries from the index, including their terms.
    pub(super) fn unindex(
        &self,
        tx: &Connection,
        owner: &Owner,
        id: SessionId,
        n: i64,
    ) -> Result<()> {
        let sql = format!(
            "SELECT {}, rid FROM entries WHERE session = ?1 \
             AND rid <= {INDEXED}",
            row::COLUMNS
        );
        let mut statement = tx.prepare(&sql).or_store_error(self.place(), WHAT)?;
        let rows = statement.query_map([n], |row| Ok((row::stored(row)?, row.get::<_, i64>(20)?)));
        // A contentless index needs the old terms to remove them.
        let forget = "INSERT INTO search (search, rowid, terms) VALUES ('delete', ?1, ?2)";
        let mut forget = tx.prepare(forget).or_store_error(self.place(), WHAT)?;
        for row in rows.or_store_error(self.place(), WHAT)? {
            let (stored, rid) = row.or_store_error(self.place(), WHAT)?;
            let Ok(entry) = stored.entry(id) else {
                // The terms are not known any more, so the whole index is emptied, and filled again
                // by the next search.
                return self.empty_index(tx);
            };
            if let Some(said) = SearchText::of(&entry.body) {
                let terms = indexed(owner.as_str(), &said);
                forget.execute(params![rid, terms]).or_store_error(self.place(), WHAT)?;
            }
        }
        Ok(())
    }
}

/// The columns of an entry in a join.
fn columns_of_entry() -> String {
    let columns: Vec<_> =
        row::COLUMNS.split(", ").map(|column| format!("e.{}", column.trim())).collect();
    columns.join(", ")
}

/// The line of terms of an entry: its owner, its speaker, and its text. The first two begin with a
/// character that no term contains.
fn indexed(owner: &str, said: &SearchText) -> String {
    let text = line_of_terms(&said.text);
    format!("{} {} {text}", term_of_owner(owner), term_of_speaker(said.speaker))
}

/// The terms of a query for FTS5. Each is quoted, so that none is taken for an operator.
pub(crate) fn matching(query: &Query) -> String {
    let wanted = |wanted: &Wanted| {
        let star = if wanted.prefix { " *" } else { "" };
        format!("\"{}\"{star}", wanted.text)
    };
    query.terms().into_iter().map(wanted).collect::<Vec<_>>().join(" AND ")
}

/// The requested speakers: those that rank first come first.
fn speakers(query: &Query) -> [(bool, Vec<String>); 2] {
    let wanted = |speaker: &Speaker| query.scope.from.is_none_or(|from| from == *speaker);
    [true, false].map(|is_conversation| {
        let some =
            Speaker::ALL.into_iter().filter(|speaker| speaker.is_conversation() == is_conversation);
        let terms = some.filter(wanted).map(|speaker| format!("\"{}\"", term_of_speaker(speaker)));
        (is_conversation, terms.collect())
    })
}

/// An owner as a term of the index.
fn term_of_owner(owner: &str) -> String {
    let hex: String = owner.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("§{hex}")
}

/// A speaker as a term of the index.
fn term_of_speaker(speaker: Speaker) -> String {
    format!("¶{}", speaker.as_str())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::{Fixed, Incoming, Message, New, Sessions};

    use super::super::SqliteStore;
    use super::*;

    fn store(folder: &tempfile::TempDir) -> (Arc<SqliteStore>, Sessions) {
        let world = Arc::new(Fixed::default());
        let path = folder.path().join("rethread.db");
        let store = Arc::new(SqliteStore::open(&path, world.clone()).expect("a store"));
        (store.clone(), Sessions::new(store, Owner::local(), world))
    }

    fn say(sessions: &Sessions, texts: Vec<String>) {
        let id = sessions.create(&New::default(), None).expect("a session").id();
        let messages = texts.into_iter().map(|text| Incoming::from(Message::user(text)));
        sessions.append(id, messages.collect()).expect("appended");
    }

    #[test]
    fn an_entry_that_cannot_be_read_hides_no_other() {
        for count in [PARALLEL_MIN - 1, 4 * PARALLEL_MIN] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let (store, sessions) = store(&folder);
            say(&sessions, (0..count).map(|number| format!("word{count}x{number}")).collect());
            let damage =
                "UPDATE entries SET body = x'00' WHERE rid = (SELECT max(rid) - 3 FROM entries)";
            store.db.writer().execute(damage, []).expect("damaged");
            let found = |number| {
                sessions.search(&format!("word{count}x{number}"), 0, 9).expect("searched").len()
            };
            let lost: Vec<usize> = (0..count).filter(|number| found(*number) != 1).collect();
            assert_eq!(lost, [count - 4]);
            assert_eq!(store.db.read(|snapshot| store.db.index_lag(snapshot)).expect("read"), 0);
        }
    }

    #[test]
    fn the_index_is_filled_in_parts_that_others_can_wait_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (store, sessions) = store(&folder);
        let long = |number: usize| format!("word{number} {}", "filling ".repeat(FILL_BYTES / 30));
        say(&sessions, (0..12).map(long).collect());
        let behind = || store.db.read(|snapshot| store.db.index_lag(snapshot)).expect("read");
        let mut parts = Vec::new();
        while behind() > 0 {
            let before = behind();
            store.db.write(WHAT, |tx| store.db.fill_some(tx)).expect("filled");
            parts.push(before - behind());
        }
        assert!(parts.len() > 1 && parts.iter().all(|part| *part > 1), "{parts:?}");
        for number in 0..12 {
            let hits = sessions.search(&format!("word{number}"), 0, 9).expect("searched");
            assert_eq!(hits.len(), 1, "{number}");
        }
    }
}
