//! Finding what was said: an index of words beside the logs.
//!
//! `.rethread/search.db` is derived, and filled when somebody searches: from each log, what stands
//! behind the place up to which it was read before. So a search reads what is new and no more.
//! When the index does not fit the logs or cannot be used, it is thrown away, the logs themselves
//! are searched, and the next search fills it anew.

use std::fs::File;
use std::path::PathBuf;

use rethread_core::Place;
use rethread_core::SessionId;
use rethread_core::store::{Filter, Hit, Result};
use rethread_core::text::{has_words, searchable, snippet};
use rusqlite::{Connection, OptionalExtension, params};

use super::disk::Told;
use super::folder::{Dir, Reach};
use super::frame;
use super::log::{self, Line, Tail};
use crate::sqlite::{matching, session_id};

/// The layout of the index; one of another is made anew.
const LAYOUT: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE marks (session BLOB PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE places (
        rid INTEGER PRIMARY KEY, session BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX places_session ON places (session);
    CREATE VIRTUAL TABLE search USING fts5 (
        text, content = '', tokenize = \"unicode61 remove_diacritics 2\"
    );
    INSERT INTO search (search, rank) VALUES ('secure-delete', 1);
    PRAGMA user_version = 1;";

/// Why the index is of no use.
type Useless = Box<dyn std::error::Error + Send + Sync>;

impl Dir {
    fn index_path(&self) -> PathBuf {
        self.ours.join("search.db")
    }

    /// The places where all these words stand.
    pub(super) fn search(
        &mut self,
        wanted: &[String],
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let found = match self.reach {
            Reach::AsLeft => None,
            _ => self.search_index(wanted, offset, limit).ok(),
        };
        match found {
            Some(hits) => Ok(hits),
            None => {
                self.throw_index_away();
                self.search_logs(wanted, offset, limit)
            }
        }
    }

    /// The best places first, and among equals the latest.
    fn search_index(
        &self,
        wanted: &[String],
        offset: usize,
        limit: usize,
    ) -> std::result::Result<Vec<Hit>, Useless> {
        let mut index = self.open_index()?;
        self.fill(&mut index)?;
        let sql = "SELECT session, seq, at FROM search f JOIN places p ON p.rid = f.rowid \
                   WHERE search MATCH ?1 ORDER BY f.rank, p.rid DESC LIMIT ?2 OFFSET ?3";
        let mut statement = index.prepare(sql)?;
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let rows = statement
            .query_map(params![matching(wanted), number(limit), number(offset)], |row| {
                Ok((session_id(row, 0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
            })?;
        let mut hits = Vec::new();
        for row in rows {
            let (session, seq, at) = row?;
            let seq = u64::try_from(seq)?;
            let file = File::open(self.log_path(session))?;
            let text = text_at(&file, u64::try_from(at)?, seq)?;
            let snippet = snippet(&text.ok_or("the index does not fit the log")?, wanted);
            hits.push(Hit { place: Place { session, seq }, snippet });
        }
        Ok(hits)
    }

    fn open_index(&self) -> std::result::Result<Connection, Useless> {
        let path = self.index_path();
        // Made by us first, because of its mode.
        drop(self.disk.open(&path)?);
        let index = Connection::open(path)?;
        index.execute_batch("PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;")?;
        match index.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? {
            LAYOUT => {}
            0 => index.execute_batch(&format!("BEGIN;{SCHEMA}COMMIT;"))?,
            _ => return Err("the index has another layout".into()),
        }
        Ok(index)
    }

    /// Reads what the logs have behind their marks.
    fn fill(&self, index: &mut Connection) -> std::result::Result<(), Useless> {
        let mut marked = index.prepare("SELECT session FROM marks")?;
        for session in marked.query_map([], |row| session_id(row, 0))? {
            if self.state.catalogue.get(session?).is_none() {
                return Err("the index has a session that is gone".into());
            }
        }
        drop(marked);
        for record in self.state.catalogue.all() {
            let id = record.header.id;
            // A log that cannot be read has nothing that can be found; `doctor` reports it.
            let Ok(file) = File::open(self.log_path(id)) else { continue };
            let mark = mark(index, id)?;
            let length = file.metadata()?.len();
            if length < mark {
                return Err("the index goes further than the log".into());
            }
            if length == mark {
                continue;
            }
            let tx = index.transaction()?;
            let mut place =
                tx.prepare_cached("INSERT INTO places (session, seq, at) VALUES (?1, ?2, ?3)")?;
            let mut search =
                tx.prepare_cached("INSERT INTO search (rowid, text) VALUES (?1, ?2)")?;
            let mut failed = None;
            let mut tail = Tail { bytes: mark, ..Tail::EMPTY };
            tail.follow(&file, 0, |at, line| {
                let seq = line.seq;
                let Some(text) = text_of(line).filter(|_| failed.is_none()) else { return };
                let sql = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                let done = place
                    .insert(params![id.0.as_bytes(), sql(seq), sql(at)])
                    .and_then(|rid| search.execute(params![rid, text]));
                failed = done.err();
            })?;
            if let Some(error) = failed {
                return Err(error.into());
            }
            drop((place, search));
            let bytes = i64::try_from(tail.bytes)?;
            let sql = "INSERT INTO marks VALUES (?1, ?2) \
                       ON CONFLICT (session) DO UPDATE SET bytes = excluded.bytes";
            tx.execute(sql, params![id.0.as_bytes(), bytes])?;
            tx.commit()?;
        }
        Ok(())
    }

    /// Takes a session out of the index, its words included. Its log must still be there.
    pub(super) fn unindex(&self, id: SessionId) {
        let there = self.index_path().symlink_metadata().is_ok();
        if there && self.forget(id).is_err() {
            self.throw_index_away();
        }
    }

    fn forget(&self, id: SessionId) -> std::result::Result<(), Useless> {
        let mut index = self.open_index()?;
        if mark(&index, id)? == 0 {
            return Ok(());
        }
        let file = File::open(self.log_path(id))?;
        let tx = index.transaction()?;
        let mut places = tx.prepare("SELECT rid, seq, at FROM places WHERE session = ?1")?;
        // An index without text of its own must be told what it is to forget.
        let forget = "INSERT INTO search (search, rowid, text) VALUES ('delete', ?1, ?2)";
        let mut forget = tx.prepare(forget)?;
        let mut rows = places.query([id.0.as_bytes()])?;
        while let Some(row) = rows.next()? {
            let (rid, seq, at): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let text = text_at(&file, u64::try_from(at)?, u64::try_from(seq)?)?;
            forget.execute(params![rid, text.ok_or("the index does not fit the log")?])?;
        }
        drop(rows);
        drop((places, forget));
        tx.execute("DELETE FROM places WHERE session = ?1", [id.0.as_bytes()])?;
        tx.execute("DELETE FROM marks WHERE session = ?1", [id.0.as_bytes()])?;
        Ok(tx.commit()?)
    }

    /// Throws the index away; the next search fills it anew. If it cannot be removed, nothing can
    /// be written there, and it is not looked at.
    pub(super) fn throw_index_away(&self) {
        // What SQLite was about to take back would be put into the new one.
        let journal = self.index_path().with_extension("db-journal");
        for path in [self.index_path(), journal] {
            if path.symlink_metadata().is_ok() {
                drop(self.disk.remove(&path));
            }
        }
    }

    /// What is wrong with the index, if it is there.
    pub(super) fn index_trouble(&self) -> Option<String> {
        self.index_path().symlink_metadata().ok().filter(|_| self.reach == Reach::All)?;
        let sound = |index: Connection| {
            index.query_row("PRAGMA quick_check", [], |row| row.get::<_, String>(0))
        };
        match self.open_index().and_then(|index| Ok(sound(index)?)) {
            Ok(word) if word == "ok" => None,
            Ok(what) => Some(what),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Searches the logs themselves: the sessions that were active last first, each from its
    /// beginning. Holds one record and the page in memory.
    fn search_logs(&mut self, wanted: &[String], offset: usize, limit: usize) -> Result<Vec<Hit>> {
        let everything = self.list(&Filter::default(), None, usize::MAX)?;
        let (mut hits, mut passed) = (Vec::new(), 0);
        for session in everything.sessions {
            if hits.len() >= limit {
                break;
            }
            let session = session.id();
            let path = self.log_path(session);
            let file = File::open(&path).told(&path, "search a log")?;
            let found = |_, line: Line<'_>| {
                let seq = line.seq;
                let Some(text) = text_of(line).filter(|text| has_words(text, wanted)) else {
                    return;
                };
                passed += 1;
                if passed > offset && hits.len() < limit {
                    hits.push(Hit {
                        place: Place { session, seq },
                        snippet: snippet(&text, wanted),
                    });
                }
            };
            Tail::EMPTY.clone().follow(&file, 0, found).told(&path, "search a log")?;
        }
        Ok(hits)
    }
}

/// Up to where a log is in the index.
fn mark(index: &Connection, id: SessionId) -> std::result::Result<u64, Useless> {
    let mut mark = index.prepare_cached("SELECT bytes FROM marks WHERE session = ?1")?;
    let found: Option<i64> = mark.query_row([id.0.as_bytes()], |row| row.get(0)).optional()?;
    Ok(u64::try_from(found.unwrap_or(0))?)
}

/// What can be found in an entry. What cannot be read cannot be found; `doctor` reports it.
fn text_of(line: Line<'_>) -> Option<String> {
    let entry = line.entry().ok()?;
    searchable(&entry.body)
}

/// What can be found in the entry at a place.
fn text_at(file: &File, at: u64, seq: u64) -> std::io::Result<Option<String>> {
    let json = frame::read_at(file, at)?;
    let entry = json.and_then(|json| log::read_line(&json).ok());
    Ok(entry.filter(|entry| entry.seq == seq).and_then(|entry| searchable(&entry.body)))
}
