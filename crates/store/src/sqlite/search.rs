//! Finding what was said, with SQLite's full-text index.
//!
//! The index is filled when somebody searches, not when something is appended: an append then
//! costs nothing more, and a search finds everything that was acknowledged before it.

use std::sync::mpsc;

use rethread_core::limits::AT_ONCE_MIN;
use rethread_core::store::{Hit, Result};
use rethread_core::text::{has_words, searchable, snippet};
use rethread_core::{Owner, Place, SessionId, StoreError};
use rusqlite::{Connection, params};

use super::error::Told;
use super::read::session_id;
use super::row;
use super::{Db, INDEXED};
use crate::row::Stored;

const WHAT: &str = "search";

/// Entries put into the index in one transaction, and bytes of them, about: others can write in
/// between. The more there are, the fewer pieces of the index have to be merged.
const FILL_ENTRIES: i64 = 2_000;
const FILL_BYTES: usize = 4 << 20;

/// Texts made ready ahead of the index.
const FILL_AHEAD: usize = 64;

/// An entry the index has not got.
struct Unindexed {
    rid: i64,
    session: SessionId,
    owner: String,
    stored: Stored,
}

/// What the index is told of an entry: its row, its owner as a word, its text.
type Said = (i64, String, String);

impl Unindexed {
    /// An entry that cannot be read cannot be found; `doctor` reports it.
    fn said(self) -> Option<Said> {
        let entry = self.stored.entry(self.session).ok()?;
        Some((self.rid, word_of(&self.owner), searchable(&entry.body)?))
    }
}

impl Db {
    /// Brings the index up to date; whether it is. Where nothing can be written, it stays behind.
    pub(super) fn fill_search(&self) -> Result<bool> {
        let behind = format!("SELECT EXISTS (SELECT 1 FROM entries WHERE rid > {INDEXED})");
        let waiting = |connection: &Connection| -> Result<bool> {
            connection.query_row(&behind, [], |row| row.get(0)).told(self.place(), WHAT)
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
        let known = "SELECT EXISTS (SELECT 1 FROM progress WHERE what = 'indexed')";
        if !tx.query_row(known, [], |row| row.get(0)).told(self.place(), WHAT)? {
            // What the index holds is not known, and it must not be told twice.
            self.empty_index(tx)?;
        }
        let rows = self.unindexed(tx)?;
        let last = rows.last().map(|row| row.rid);
        let insert = "INSERT INTO search (rowid, owner, text) VALUES (?1, ?2, ?3)";
        let mut insert = tx.prepare_cached(insert).told(self.place(), WHAT)?;
        let mut index = |(rid, owner, text): Said| {
            insert.execute(params![rid, owner, text]).told(self.place(), WHAT).map(drop)
        };
        if rows.len() < AT_ONCE_MIN {
            rows.into_iter().filter_map(Unindexed::said).try_for_each(index)?;
        } else {
            // Unpacking what was said takes almost as long as indexing it.
            std::thread::scope(|scope| {
                let (give, take) = mpsc::sync_channel(FILL_AHEAD);
                scope.spawn(move || {
                    // It stops when nobody takes any more: what went wrong is told there.
                    rows.into_iter()
                        .filter_map(Unindexed::said)
                        .try_for_each(|said| give.send(said))
                });
                take.into_iter().try_for_each(&mut index)
            })?;
        }
        // Rows of sessions that are gone are passed over.
        let sql = "UPDATE progress SET rid = coalesce(?1, (SELECT max(rid) FROM entries)) \
                   WHERE what = 'indexed'";
        tx.execute(sql, [last]).told(self.place(), WHAT)?;
        Ok(())
    }

    /// Some of the entries behind the mark of the index.
    fn unindexed(&self, tx: &Connection) -> Result<Vec<Unindexed>> {
        let sql = format!(
            "SELECT {}, e.rid, s.id, s.owner FROM entries e JOIN sessions s ON s.n = e.session \
             WHERE e.rid > {INDEXED} \
             ORDER BY e.rid LIMIT {FILL_ENTRIES}",
            columns_of_entry()
        );
        let mut statement = tx.prepare_cached(&sql).told(self.place(), WHAT)?;
        let rows = statement.query_map([], |row| {
            let (stored, rid) = (row::stored(row)?, row.get(20)?);
            Ok(Unindexed { rid, session: session_id(row, 21)?, owner: row.get(22)?, stored })
        });
        let mut found = Vec::new();
        let mut bytes = 0;
        for row in rows.told(self.place(), WHAT)? {
            let row = row.told(self.place(), WHAT)?;
            bytes += row.stored.bytes();
            found.push(row);
            if bytes > FILL_BYTES {
                break;
            }
        }
        Ok(found)
    }

    /// Entries behind the mark of the index. Numbers are given in order, so the last one and the
    /// mark tell; where entries between them were deleted, they still count.
    pub(super) fn behind(&self, snapshot: &Connection) -> Result<u64> {
        let sql = format!("SELECT coalesce((SELECT max(rid) FROM entries), 0) - {INDEXED}");
        let behind: i64 =
            snapshot.query_row(&sql, [], |row| row.get(0)).told(self.place(), WHAT)?;
        Ok(u64::try_from(behind).unwrap_or_default())
    }

    /// The hits while the index cannot be filled: first what it has not got, then what it has.
    pub(super) fn search_all(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        words: &[String],
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let (mut hits, passed) = self.search_unindexed(snapshot, owner, words, offset, limit)?;
        let (offset, limit) = (offset.saturating_sub(passed), limit - hits.len());
        hits.extend(self.search_index(snapshot, owner, words, offset, limit)?);
        Ok(hits)
    }

    /// The hits behind the mark of the index, the latest first, and how many there are at all.
    /// Every entry there is read.
    fn search_unindexed(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        words: &[String],
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Hit>, usize)> {
        let sql = format!(
            "SELECT {}, s.id FROM entries e JOIN sessions s ON s.n = e.session \
             WHERE e.rid > {INDEXED} AND s.owner = ?1 AND s.trashed IS NULL \
             ORDER BY e.rid DESC",
            columns_of_entry()
        );
        let mut statement = snapshot.prepare_cached(&sql).told(self.place(), WHAT)?;
        let rows = statement
            .query_map([owner.as_str()], |row| Ok((row::stored(row)?, session_id(row, 20)?)));
        let (mut hits, mut passed) = (Vec::new(), 0);
        for row in rows.told(self.place(), WHAT)? {
            let (stored, session) = row.told(self.place(), WHAT)?;
            let seq = stored.seq;
            let text = stored.entry(session).ok().and_then(|entry| searchable(&entry.body));
            let Some(text) = text.filter(|text| has_words(text, words)) else { continue };
            passed += 1;
            if passed > offset && hits.len() < limit {
                hits.push(Hit { place: Place { session, seq }, snippet: snippet(&text, words) });
            }
        }
        Ok((hits, passed))
    }

    pub(super) fn search_index(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        words: &[String],
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let query = format!("owner : {} AND text : ({})", word_of(owner.as_str()), matching(words));
        let columns = columns_of_entry();
        let sql = format!(
            "SELECT {columns}, s.id FROM search f JOIN entries e ON e.rid = f.rowid \
             JOIN sessions s ON s.n = e.session WHERE search MATCH ?1 AND s.owner = ?2 AND s.trashed IS NULL \
             AND +e.rid <= {INDEXED} \
             ORDER BY f.rank, e.rid DESC LIMIT ?3 OFFSET ?4"
        );
        let mut statement = snapshot.prepare_cached(&sql).told(self.place(), WHAT)?;
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let rows = statement
            .query_map(params![query, owner.as_str(), number(limit), number(offset)], |row| {
                Ok((row::stored(row)?, session_id(row, 20)?))
            });
        let mut hits = Vec::new();
        for row in rows.told(self.place(), WHAT)? {
            let (stored, session) = row.told(self.place(), WHAT)?;
            let seq = stored.seq;
            let text = stored.entry(session).ok().and_then(|entry| searchable(&entry.body));
            let snippet = text.map(|text| snippet(&text, words)).unwrap_or_default();
            hits.push(Hit { place: Place { session, seq }, snippet });
        }
        Ok(hits)
    }

    /// Takes a session's entries out of the index, its words included.
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
        let mut statement = tx.prepare(&sql).told(self.place(), WHAT)?;
        let rows = statement.query_map([n], |row| Ok((row::stored(row)?, row.get::<_, i64>(20)?)));
        // An index without text of its own must be told what it is to forget.
        let forget =
            "INSERT INTO search (search, rowid, owner, text) VALUES ('delete', ?1, ?2, ?3)";
        let mut forget = tx.prepare(forget).told(self.place(), WHAT)?;
        for row in rows.told(self.place(), WHAT)? {
            let (stored, rid) = row.told(self.place(), WHAT)?;
            let Ok(entry) = stored.entry(id) else {
                // Its words cannot be told any more, so the index forgets everything, and is
                // filled anew by the next search.
                return self.empty_index(tx);
            };
            if let Some(text) = searchable(&entry.body) {
                let done = forget.execute(params![rid, word_of(owner.as_str()), text]);
                done.told(self.place(), WHAT)?;
            }
        }
        Ok(())
    }
}

/// The columns of an entry, where others stand beside it.
fn columns_of_entry() -> String {
    let columns: Vec<_> =
        row::COLUMNS.split(", ").map(|column| format!("e.{}", column.trim())).collect();
    columns.join(", ")
}

/// The query for all of these words. Each in quotes, so that none is taken for an operator.
pub(crate) fn matching(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    words.join(" ")
}

/// An owner as one word of the index.
fn word_of(owner: &str) -> String {
    let hex: String = owner.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("o{hex}")
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
        for count in [AT_ONCE_MIN - 1, 4 * AT_ONCE_MIN] {
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
            assert_eq!(store.db.read(|snapshot| store.db.behind(snapshot)).expect("told"), 0);
        }
    }

    #[test]
    fn the_index_is_filled_in_parts_that_others_can_wait_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (store, sessions) = store(&folder);
        let long = |number: usize| format!("word{number} {}", "filling ".repeat(FILL_BYTES / 30));
        say(&sessions, (0..12).map(long).collect());
        let behind = || store.db.read(|snapshot| store.db.behind(snapshot)).expect("told");
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
