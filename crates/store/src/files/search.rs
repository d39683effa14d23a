//! Finding what was said: an index of words beside the logs.
//!
//! `.rethread/search.db` is derived, and filled when somebody searches: from each log, what stands
//! behind the place up to which it was read before. So a search reads what is new and no more.
//! When the index does not fit the logs or cannot be used, it is thrown away, the logs themselves
//! are searched, and the next search fills it anew.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use jiff::Timestamp;
use rethread_core::Place;
use rethread_core::SessionId;
use rethread_core::search::{Hit, Query, Rank, Said, Speaker, line_of_terms, page};
use rethread_core::store::{Filter, Result};
use rusqlite::{Connection, OptionalExtension, params};

use super::disk::Told;
use super::folder::{Dir, Reach};
use super::frame;
use super::log::{self, Line, Tail};
use crate::sqlite::{matching, session_id};

/// The layout of the index; one of another is made anew.
const LAYOUT: i64 = 2;

/// What is said of an index that an earlier version made.
const EARLIER: &str = "the index has an earlier layout";

const SCHEMA: &str = "
    CREATE TABLE marks (session BLOB PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE places (
        rid INTEGER PRIMARY KEY, session BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
        time INTEGER NOT NULL, speaker TEXT NOT NULL
    ) STRICT;
    CREATE INDEX places_session ON places (session);
    CREATE VIRTUAL TABLE search USING fts5 (
        terms, content = '', detail = none, tokenize = 'ascii'
    );
    INSERT INTO search (search, rank) VALUES ('secure-delete', 1);
    PRAGMA user_version = 2;";

/// Why the index is of no use.
type Useless = Box<dyn std::error::Error + Send + Sync>;

impl Dir {
    fn index_path(&self) -> PathBuf {
        self.ours.join("search.db")
    }

    /// The entries that match.
    pub(super) fn search(
        &mut self,
        query: &Query,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let found = match self.reach {
            Reach::AsLeft => None,
            _ => self.search_index(query, offset, limit).ok(),
        };
        match found {
            Some(hits) => Ok(hits),
            None => {
                self.throw_index_away();
                self.search_logs(query, offset, limit)
            }
        }
    }

    fn search_index(
        &self,
        query: &Query,
        offset: usize,
        limit: usize,
    ) -> std::result::Result<Vec<Hit>, Useless> {
        let mut index = self.open_index()?;
        self.fill(&mut index)?;
        let sql = "SELECT session, seq, at, time, speaker FROM search f \
                   JOIN places p ON p.rid = f.rowid WHERE search MATCH ?1";
        let mut statement = index.prepare(sql)?;
        let mut rows = statement.query([matching(query)])?;
        let (mut found, mut places) = (Vec::new(), HashMap::new());
        while let Some(row) = rows.next()? {
            let (session, seq) = (session_id(row, 0)?, u64::try_from(row.get::<_, i64>(1)?)?);
            let (at, speaker): (i64, String) = (row.get(2)?, row.get(4)?);
            let time = Timestamp::from_millisecond(row.get(3)?)?;
            let speaker = Speaker::ALL.into_iter().find(|known| known.as_str() == speaker);
            let speaker = speaker.ok_or("the index has an unknown speaker")?;
            let place = Place { session, seq };
            if self.covers(query, session, time, speaker) {
                found.push(Rank::new(place, time, speaker));
                places.insert((session, seq), u64::try_from(at)?);
            }
        }
        page(query, found, offset, limit, |place| {
            let file = File::open(self.log_path(place.session))?;
            let said = said_at(&file, places[&(place.session, place.seq)], place.seq)?;
            Ok(Some(said.ok_or("the index does not fit the log")?))
        })
    }

    /// Whether what was said then in a session is asked for.
    fn covers(&self, query: &Query, id: SessionId, at: Timestamp, speaker: Speaker) -> bool {
        self.state.catalogue.get(id).is_some_and(|record| {
            let header = &record.header;
            header.trash.is_none()
                && query.scope.covers(at, header.profile.workspace.as_deref(), speaker)
        })
    }

    fn open_index(&self) -> std::result::Result<Connection, Useless> {
        let path = self.index_path();
        // Made by us first, because of its mode.
        drop(self.disk.open(&path)?);
        let index = Connection::open(path)?;
        index.execute_batch("PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;")?;
        match index.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? {
            LAYOUT => {}
            1..LAYOUT => return Err(EARLIER.into()),
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
            let mut place = tx.prepare_cached(
                "INSERT INTO places (session, seq, at, time, speaker) \
                                   VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let mut search =
                tx.prepare_cached("INSERT INTO search (rowid, terms) VALUES (?1, ?2)")?;
            let mut failed = None;
            let mut tail = Tail { bytes: mark, ..Tail::EMPTY };
            tail.follow(&file, 0, |at, line| {
                let seq = line.seq;
                let Some((time, said)) = said_in(line).filter(|_| failed.is_none()) else { return };
                let sql = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                let done = place
                    .insert(params![
                        id.0.as_bytes(),
                        sql(seq),
                        sql(at),
                        time.as_millisecond(),
                        said.speaker.as_str()
                    ])
                    .and_then(|rid| search.execute(params![rid, line_of_terms(&said.text)]));
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
        let forget = "INSERT INTO search (search, rowid, terms) VALUES ('delete', ?1, ?2)";
        let mut forget = tx.prepare(forget)?;
        let mut rows = places.query([id.0.as_bytes()])?;
        while let Some(row) = rows.next()? {
            let (rid, seq, at): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let said = said_at(&file, u64::try_from(at)?, u64::try_from(seq)?)?;
            let said = said.ok_or("the index does not fit the log")?;
            forget.execute(params![rid, line_of_terms(&said.text)])?;
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
            // The next search makes it again.
            Err(error) if error.to_string() == EARLIER => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// Searches the logs themselves. What matches is held in memory until it is known which of it is
    /// shown.
    fn search_logs(&mut self, query: &Query, offset: usize, limit: usize) -> Result<Vec<Hit>> {
        let everything = self.list(&Filter::default(), None, usize::MAX)?;
        let (mut found, mut matched) = (Vec::new(), HashMap::new());
        for session in everything.sessions {
            let session = session.id();
            let path = self.log_path(session);
            let file = File::open(&path).told(&path, "search a log")?;
            let look = |_, line: Line<'_>| {
                let place = Place { session, seq: line.seq };
                let Some((time, said)) = said_in(line) else { return };
                if self.covers(query, session, time, said.speaker) && query.matches(&said.text) {
                    found.push(Rank::new(place, time, said.speaker));
                    matched.insert((session, place.seq), said);
                }
            };
            Tail::EMPTY.clone().follow(&file, 0, look).told(&path, "search a log")?;
        }
        page(query, found, offset, limit, |place| Ok(matched.remove(&(place.session, place.seq))))
    }
}

/// Up to where a log is in the index.
fn mark(index: &Connection, id: SessionId) -> std::result::Result<u64, Useless> {
    let mut mark = index.prepare_cached("SELECT bytes FROM marks WHERE session = ?1")?;
    let found: Option<i64> = mark.query_row([id.0.as_bytes()], |row| row.get(0)).optional()?;
    Ok(u64::try_from(found.unwrap_or(0))?)
}

/// What can be found in an entry, and when it was said. What cannot be read cannot be found;
/// `doctor` reports it.
fn said_in(line: Line<'_>) -> Option<(Timestamp, Said)> {
    let entry = line.entry().ok()?;
    Some((entry.at, Said::of(&entry.body)?))
}

/// What can be found in the entry at a place.
fn said_at(file: &File, at: u64, seq: u64) -> std::io::Result<Option<Said>> {
    let json = frame::read_at(file, at)?;
    let entry = json.and_then(|json| log::read_line(&json).ok());
    Ok(entry.filter(|entry| entry.seq == seq).and_then(|entry| Said::of(&entry.body)))
}
