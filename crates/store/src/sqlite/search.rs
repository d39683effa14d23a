//! Finding what was said, with SQLite's full-text index.
//!
//! The index is filled when somebody searches, not when something is appended: an append then
//! costs nothing more, and a search finds everything that was acknowledged before it.

use rethread_core::store::{Hit, Result};
use rethread_core::text::{has_words, searchable, snippet};
use rethread_core::{Owner, SessionId};
use rusqlite::{Connection, params};

use super::Db;
use super::error::Told;
use super::read::session_id;
use super::row;

const WHAT: &str = "search";

/// Entries put into the index in one transaction: others can write in between.
const FILL_ENTRIES: i64 = 500;

impl Db {
    /// Brings the index up to date; where nothing can be written, it stays behind.
    pub(super) fn fill_search(&self) -> Result<()> {
        if self.file.read_only {
            return Ok(());
        }
        let behind = "SELECT EXISTS (SELECT 1 FROM entries \
                      WHERE rid > (SELECT rid FROM progress WHERE what = 'indexed'))";
        let waiting = |connection: &Connection| -> Result<bool> {
            connection.query_row(behind, [], |row| row.get(0)).told(self.place(), WHAT)
        };
        while self.read(waiting)? {
            self.write(WHAT, |tx| self.fill_some(tx))?;
        }
        Ok(())
    }

    fn fill_some(&self, tx: &Connection) -> Result<()> {
        let sql = format!(
            "SELECT {}, e.rid, s.id, s.owner FROM entries e JOIN sessions s ON s.n = e.session \
             WHERE e.rid > (SELECT rid FROM progress WHERE what = 'indexed') \
             ORDER BY e.rid LIMIT {FILL_ENTRIES}",
            columns_of_entry()
        );
        let mut statement = tx.prepare_cached(&sql).told(self.place(), WHAT)?;
        let rows = statement.query_map([], |row| {
            let owner: String = row.get(21)?;
            Ok((row::stored(row)?, row.get::<_, i64>(19)?, session_id(row, 20)?, owner))
        });
        let insert = "INSERT INTO search (rowid, owner, text) VALUES (?1, ?2, ?3)";
        let mut insert = tx.prepare_cached(insert).told(self.place(), WHAT)?;
        let mut last = None;
        for row in rows.told(self.place(), WHAT)? {
            let (stored, rid, id, owner) = row.told(self.place(), WHAT)?;
            last = Some(rid);
            // An entry that cannot be read cannot be found; `doctor` reports it.
            let Ok(entry) = stored.entry(id) else { continue };
            if let Some(text) = searchable(&entry.body) {
                let done = insert.execute(params![rid, word_of(&owner), text]);
                done.told(self.place(), WHAT)?;
            }
        }
        // Rows of sessions that are gone are passed over.
        let sql = "UPDATE progress SET rid = coalesce(?1, (SELECT max(rid) FROM entries)) \
                   WHERE what = 'indexed'";
        tx.execute(sql, [last]).told(self.place(), WHAT)?;
        Ok(())
    }

    /// Entries behind the mark of the index. Numbers are given in order, so the last one and the
    /// mark tell; where entries between them were deleted, they still count.
    pub(super) fn behind(&self, snapshot: &Connection) -> Result<u64> {
        let sql = "SELECT coalesce((SELECT max(rid) FROM entries), 0) \
                   - (SELECT rid FROM progress WHERE what = 'indexed')";
        let behind: i64 = snapshot.query_row(sql, [], |row| row.get(0)).told(self.place(), WHAT)?;
        Ok(u64::try_from(behind).unwrap_or_default())
    }

    /// The hits: first what the index has not got yet, if it cannot be filled, then what it has.
    pub(super) fn search(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        words: &[String],
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        if !self.file.read_only {
            return self.search_index(snapshot, owner, words, offset, limit);
        }
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
             WHERE e.rid > (SELECT rid FROM progress WHERE what = 'indexed') AND s.owner = ?1 \
             ORDER BY e.rid DESC",
            columns_of_entry()
        );
        let mut statement = snapshot.prepare_cached(&sql).told(self.place(), WHAT)?;
        let rows = statement
            .query_map([owner.as_str()], |row| Ok((row::stored(row)?, session_id(row, 19)?)));
        let (mut hits, mut passed) = (Vec::new(), 0);
        for row in rows.told(self.place(), WHAT)? {
            let (stored, session) = row.told(self.place(), WHAT)?;
            let seq = stored.seq;
            let text = stored.entry(session).ok().and_then(|entry| searchable(&entry.body));
            let Some(text) = text.filter(|text| has_words(text, words)) else { continue };
            passed += 1;
            if passed > offset && hits.len() < limit {
                hits.push(Hit { session, seq, snippet: snippet(&text, words) });
            }
        }
        Ok((hits, passed))
    }

    fn search_index(
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
             JOIN sessions s ON s.n = e.session WHERE search MATCH ?1 AND s.owner = ?2 \
             ORDER BY f.rank, e.rid DESC LIMIT ?3 OFFSET ?4"
        );
        let mut statement = snapshot.prepare_cached(&sql).told(self.place(), WHAT)?;
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let rows = statement
            .query_map(params![query, owner.as_str(), number(limit), number(offset)], |row| {
                Ok((row::stored(row)?, session_id(row, 19)?))
            });
        let mut hits = Vec::new();
        for row in rows.told(self.place(), WHAT)? {
            let (stored, session) = row.told(self.place(), WHAT)?;
            let seq = stored.seq;
            let text = stored.entry(session).ok().and_then(|entry| searchable(&entry.body));
            let snippet = text.map(|text| snippet(&text, words)).unwrap_or_default();
            hits.push(Hit { session, seq, snippet });
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
             AND rid <= (SELECT rid FROM progress WHERE what = 'indexed')",
            row::COLUMNS
        );
        let mut statement = tx.prepare(&sql).told(self.place(), WHAT)?;
        let rows = statement.query_map([n], |row| Ok((row::stored(row)?, row.get::<_, i64>(19)?)));
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
