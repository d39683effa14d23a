//! Reading one session, a list of sessions, or a part of a log.

use std::ops::Range;

use rethread_core::session::preview;
use rethread_core::store::{Cursor, Filter, Page, Result};
use rethread_core::usage::{ModelUsage, UsageByModel};
use rethread_core::{
    Entry, Header, Key, Owner, Session, SessionId, StoreError, Tally, readable_id,
};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::error::OrStoreError;
use super::rebuild::unless_damaged;
use super::{Db, FOLDED};
use super::{column, row};
use crate::row::{number, time, without_gaps};

/// A row of `sessions`, not decoded yet.
pub(super) struct SessionRow {
    pub(super) n: i64,
    pub(super) id: SessionId,
    /// JSON, unless it is damaged.
    header: Vec<u8>,
    last_at: i64,
    /// Text, unless it is damaged.
    first_message: Vec<u8>,
}

const SESSION: &str = "n, id, header, last_at, first_message";

fn session_row(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow {
        n: row.get(0)?,
        id: session_id(row, 1)?,
        header: column::bytes(row, 2)?,
        last_at: column::integer(row, 3)?.unwrap_or_default(),
        first_message: column::bytes(row, 4)?,
    })
}

/// A session's id from a column of 16 bytes. A damaged one does not hide the others.
pub(crate) fn session_id(row: &Row<'_>, column: usize) -> rusqlite::Result<SessionId> {
    let stored = column::bytes(row, column)?;
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(stored).for_each(|(byte, stored)| *byte = stored);
    Ok(SessionId(uuid::Uuid::from_bytes(bytes)))
}

impl SessionRow {
    /// A session whose row is on a damaged page. Only an index shows that it exists.
    fn unreadable(n: i64, id: SessionId, last_at: i64) -> SessionRow {
        SessionRow { n, id, header: Vec::new(), last_at, first_message: Vec::new() }
    }

    pub(super) fn header(&self) -> Result<Header> {
        let damaged = |error: &dyn std::fmt::Display| StoreError::Damaged {
            id: self.id,
            seq: 0,
            what: format!("its header cannot be read: {error}"),
        };
        let json = std::str::from_utf8(&self.header).map_err(|error| damaged(&error))?;
        serde_json::from_str(json).map_err(|error| damaged(&error))
    }
}

impl Db {
    pub(super) fn session(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        id: SessionId,
    ) -> Result<Session> {
        let row = self.session_row(snapshot, owner, id)?;
        self.understand(snapshot, row)
    }

    pub(super) fn session_row(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        id: SessionId,
    ) -> Result<SessionRow> {
        let sql = format!("SELECT {SESSION} FROM sessions WHERE id = ?1 AND owner = ?2");
        let mut statement =
            snapshot.prepare_cached(&sql).or_store_error(self.place(), "read a session")?;
        statement
            .query_row(params![id.0.as_bytes(), owner.as_str()], session_row)
            .optional()
            .or_store_error(self.place(), "read a session")?
            .ok_or(StoreError::NotFound { id })
    }

    fn understand(&self, snapshot: &Connection, row: SessionRow) -> Result<Session> {
        let header = row.header()?;
        let (tally, last_at) =
            self.tally(snapshot, row.n)?.unwrap_or((Tally::default(), row.last_at));
        let sql = "SELECT key FROM keys WHERE session = ?1 ORDER BY key";
        let mut statement =
            snapshot.prepare_cached(sql).or_store_error(self.place(), "read keys")?;
        let keys = statement.query_map([row.n], |row| column::bytes(row, 0));
        let keys = keys.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        let keys = keys.or_store_error(self.place(), "read keys")?;
        let keys = keys.into_iter().filter_map(|key| Key::new(String::from_utf8(key).ok()?).ok());
        let (keys, readable_id) = readable_id::split(keys);
        let usage = self.usage(snapshot, row.n)?;
        let first_message = match String::from_utf8(row.first_message) {
            Ok(text) => text,
            // It repeats the log, so it is read there until `doctor` rebuilds it.
            Err(_) => self.first_message(snapshot, row.n, row.id, &tally)?,
        };
        Ok(Session {
            header,
            shown_as: None,
            usage,
            keys,
            readable_id,
            tally,
            last_activity_at: time(last_at),
            first_message,
        })
    }

    /// What a list shows of a session, from its log.
    fn first_message(
        &self,
        snapshot: &Connection,
        n: i64,
        id: SessionId,
        tally: &Tally,
    ) -> Result<String> {
        const WHAT: &str = "read the first message";
        let Some(first) = tally.first else { return Ok(String::new()) };
        let sql = format!("SELECT {} FROM entries WHERE session = ?1 AND seq = ?2", row::COLUMNS);
        let mut statement = snapshot.prepare_cached(&sql).or_store_error(self.place(), WHAT)?;
        let stored = statement.query_row(params![n, number(first)], row::stored).optional();
        let entry = match stored.or_store_error(self.place(), WHAT)? {
            Some(stored) => stored.entry(id)?,
            None => return Ok(String::new()),
        };
        Ok(entry.body.message().map(preview).unwrap_or_default())
    }

    /// What each model was charged.
    pub(super) fn usage(&self, snapshot: &Connection, n: i64) -> Result<UsageByModel> {
        const WHAT: &str = "read what was charged";
        let sql = "SELECT model, input, output, cache_read, cache_write, ms FROM usage \
                   WHERE session = ?1";
        let mut statement = snapshot.prepare_cached(sql).or_store_error(self.place(), WHAT)?;
        let rows = statement.query_map([n], |row| {
            let mut columns = [0; 5];
            for (index, charged) in columns.iter_mut().enumerate() {
                let number = column::integer(row, index + 1)?.unwrap_or_default();
                *charged = u64::try_from(number).unwrap_or_default();
            }
            Ok((column::lossy(row, 0)?, ModelUsage::of_columns(columns)))
        });
        rows.and_then(Iterator::collect).or_store_error(self.place(), WHAT)
    }

    pub(super) fn named(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        name: &str,
    ) -> Result<Option<SessionId>> {
        let sql = "SELECT id FROM sessions WHERE owner = ?1 AND name = ?2 AND trashed IS NULL";
        let mut statement =
            snapshot.prepare_cached(sql).or_store_error(self.place(), "find a name")?;
        let found = statement.query_row([owner.as_str(), name], |row| session_id(row, 0));
        found.optional().or_store_error(self.place(), "find a name")
    }

    pub(super) fn with_prefix(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        digits: &str,
        limit: usize,
    ) -> Result<Vec<SessionId>> {
        let bytes = |fill: char| -> Option<[u8; 16]> {
            let digits: String = digits.chars().chain(std::iter::repeat(fill)).take(32).collect();
            uuid::Uuid::try_parse(&digits).ok().map(uuid::Uuid::into_bytes)
        };
        let (Some(low), Some(high)) = (bytes('0'), bytes('f')) else { return Ok(Vec::new()) };
        let sql = "SELECT id FROM sessions INDEXED BY sessions_id \
                   WHERE id BETWEEN ?1 AND ?2 AND owner = ?3 AND trashed IS NULL \
                   ORDER BY id LIMIT ?4";
        let mut statement =
            snapshot.prepare_cached(sql).or_store_error(self.place(), "find an id")?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = statement
            .query_map(params![low, high, owner.as_str(), limit], |row| session_id(row, 0));
        found.and_then(Iterator::collect).or_store_error(self.place(), "find an id")
    }

    pub(super) fn resolve(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        key: &Key,
    ) -> Result<Option<SessionId>> {
        let sql = "SELECT s.id FROM keys k JOIN sessions s ON s.n = k.session \
                   WHERE k.owner = ?1 AND k.key = ?2";
        let mut statement =
            snapshot.prepare_cached(sql).or_store_error(self.place(), "resolve a key")?;
        let found = statement.query_row([owner.as_str(), key.as_str()], |row| session_id(row, 0));
        found.optional().or_store_error(self.place(), "resolve a key")
    }

    pub(super) fn entries(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        id: SessionId,
        range: Range<u64>,
    ) -> Result<Vec<Entry>> {
        let n = self.place_of(snapshot, owner, id)?.n;
        let sql = format!(
            "SELECT {} FROM entries WHERE session = ?1 AND seq >= ?2 AND seq < ?3 ORDER BY seq",
            row::COLUMNS
        );
        let mut statement =
            snapshot.prepare_cached(&sql).or_store_error(self.place(), "read entries")?;
        let bound = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
        let rows = statement
            .query_map(params![n, bound(range.start), bound(range.end)], row::stored)
            .or_store_error(self.place(), "read entries")?;
        let rows = rows.map(|row| row.or_store_error(self.place(), "read entries"));
        let end = || Ok(self.tally(snapshot, n)?.map_or(0, |(tally, _)| tally.entries));
        without_gaps(id, &range, rows, end)
    }

    /// Lists sessions by their stored times, and merges in the few sessions written to since those
    /// were updated.
    pub(super) fn list(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let fresh = match self.written_since_the_mark(snapshot) {
            // If one of the last entries cannot be read, the stored times are used.
            Err(StoreError::Corrupt { .. }) => Vec::new(),
            fresh => fresh?,
        };
        let mut rows: Vec<(i64, SessionRow)> = Vec::new();
        let kinds: &[bool] = match filter.archived {
            Some(false) => &[false],
            Some(true) => &[true],
            None => &[false, true],
        };
        for archived in kinds {
            let wanted = limit + 1 + fresh.len();
            let found = self.page(snapshot, owner, filter, *archived, after, wanted)?;
            let settled = found.into_iter().filter(|row| {
                // One that cannot be read is reported here.
                row.header.is_empty() || !fresh.contains(&row.n)
            });
            rows.extend(settled.map(|row| (row.last_at, row)));
        }
        for n in &fresh {
            if rows.iter().any(|(_, row)| row.n == *n) {
                continue;
            }
            let row = unless_damaged(self.row_of(snapshot, owner, filter, *n))?.flatten();
            if let Some(row) = row {
                let tally = unless_damaged(self.tally(snapshot, *n))?.flatten();
                let last_at = tally.map_or(row.last_at, |(_, at)| at);
                let place = (last_at, row.id);
                if after.is_none_or(|cursor| place < (cursor.at.as_millisecond(), cursor.id)) {
                    rows.push((last_at, row));
                }
            }
        }
        rows.sort_by_key(|(last_at, row)| std::cmp::Reverse((*last_at, row.id)));
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more);
        let next = next.map(|(last_at, row)| Cursor { at: time(*last_at), id: row.id });
        let mut page = Page { sessions: Vec::new(), next, damaged: Vec::new() };
        for (_, row) in rows {
            let id = row.id;
            match self.understand(snapshot, row) {
                Ok(session) => page.sessions.push(session),
                // It may be a single page of the file.
                Err(error) if error.is_damage() => {
                    page.damaged.push(id);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    /// Sessions whose stored times are out of date.
    pub(super) fn written_since_the_mark(&self, snapshot: &Connection) -> Result<Vec<i64>> {
        let sql = format!("SELECT DISTINCT session FROM entries NOT INDEXED WHERE rid > {FOLDED}");
        let mut statement = snapshot.prepare_cached(&sql).or_store_error(self.place(), "list")?;
        let found = statement.query_map([], |row| row.get(0));
        found.and_then(Iterator::collect).or_store_error(self.place(), "list")
    }

    fn page(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        filter: &Filter,
        archived: bool,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<SessionRow>> {
        let (sql, values) = page_sql(owner, filter, archived, after, limit);
        let mut statement = snapshot.prepare_cached(&sql).or_store_error(self.place(), "list")?;
        let found = statement.query_map(params_from_iter(values), session_row);
        let found = found.and_then(Iterator::collect).or_store_error(self.place(), "list");
        match unless_damaged(found)? {
            Some(rows) => Ok(rows),
            None => self.page_row_by_row(snapshot, owner, filter, archived, after, limit),
        }
    }

    /// The same page if a row of it cannot be read. The index lists the sessions, and each is read by
    /// itself, so that the others are shown.
    fn page_row_by_row(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        filter: &Filter,
        archived: bool,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<SessionRow>> {
        let mut sql = "SELECT n, id, last_at FROM sessions INDEXED BY sessions_recent \
                       WHERE owner = ? AND archived = ?"
            .to_owned();
        let mut values = vec![Value::from(owner.as_str().to_owned()), Value::from(archived)];
        continue_after(&mut sql, &mut values, after);
        let mut statement = snapshot.prepare_cached(&sql).or_store_error(self.place(), "list")?;
        let places = statement.query_map(params_from_iter(values), |row| {
            let last_at = column::integer(row, 2)?.unwrap_or_default();
            Ok((row.get::<_, i64>(0)?, session_id(row, 1)?, last_at))
        });
        let mut rows = Vec::new();
        for place in places.or_store_error(self.place(), "list")? {
            let (n, id, last_at) = place.or_store_error(self.place(), "list")?;
            match unless_damaged(self.row_of(snapshot, owner, filter, n))? {
                Some(row) => rows.extend(row),
                // Whether it is in the trash is not known; it is reported once.
                None if filter.trashed => {}
                None => rows.push(SessionRow::unreadable(n, id, last_at)),
            }
            if rows.len() == limit {
                break;
            }
        }
        Ok(rows)
    }

    /// The row of one session, if it passes the filter.
    fn row_of(
        &self,
        snapshot: &Connection,
        owner: &Owner,
        filter: &Filter,
        n: i64,
    ) -> Result<Option<SessionRow>> {
        let mut sql = format!("SELECT {SESSION} FROM sessions s WHERE n = ? AND owner = ?");
        let mut values = vec![Value::from(n), Value::from(owner.as_str().to_owned())];
        if let Some(archived) = filter.archived {
            sql += " AND archived = ?";
            values.push(archived.into());
        }
        narrow(&mut sql, &mut values, filter);
        let mut statement = snapshot.prepare_cached(&sql).or_store_error(self.place(), "list")?;
        let found = statement.query_row(params_from_iter(values), session_row);
        found.optional().or_store_error(self.place(), "list")
    }
}

fn page_sql(
    owner: &Owner,
    filter: &Filter,
    archived: bool,
    after: Option<Cursor>,
    limit: usize,
) -> (String, Vec<Value>) {
    // Without statistics, SQLite guesses which index is best, and a wrong guess reads them all.
    // Sessions in the trash are found by the name they have there, so that an owner's other
    // sessions cost nothing: every process that writes looks for old ones in the trash.
    let index = match filter.workspace {
        _ if filter.trashed => "sessions_name",
        Some(_) => "sessions_workspace",
        None => "sessions_recent",
    };
    let mut sql = format!(
        "SELECT {SESSION} FROM sessions s INDEXED BY {index} WHERE owner = ? AND archived = ?"
    );
    let mut values = vec![Value::from(owner.as_str().to_owned()), Value::from(archived)];
    if filter.trashed {
        sql += " AND name >= 'trash-' AND name < 'trash.'";
    }
    narrow(&mut sql, &mut values, filter);
    continue_after(&mut sql, &mut values, after);
    sql += " LIMIT ?";
    values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
    (sql, values)
}

/// The order of a list, from a cursor on.
fn continue_after(sql: &mut String, values: &mut Vec<Value>, after: Option<Cursor>) {
    if let Some(Cursor { at, id }) = after {
        *sql += " AND (last_at, id) < (?, ?)";
        values.push(at.as_millisecond().into());
        values.push(id.0.as_bytes().to_vec().into());
    }
    *sql += " ORDER BY last_at DESC, id DESC";
}

fn narrow(sql: &mut String, values: &mut Vec<Value>, filter: &Filter) {
    *sql += if filter.trashed { " AND trashed IS NOT NULL" } else { " AND trashed IS NULL" };
    if let Some(workspace) = &filter.workspace {
        *sql += " AND workspace = ?";
        values.push(workspace.clone().into());
    }
    if filter.newest_of_chain {
        *sql += " AND NOT EXISTS (SELECT 1 FROM sessions c INDEXED BY sessions_parent WHERE c.parent = s.id \
                 AND c.continues = 1 AND c.archived = 0 AND c.trashed IS NULL AND c.owner = s.owner)";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The query plan of a statement.
    fn plan(sql: &str, values: &[Value]) -> String {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch(super::super::schema::SCHEMA).expect("the tables");
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect(sql);
        let rows = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
        let steps: Vec<String> = rows.and_then(Iterator::collect).expect(sql);
        steps.join("; ")
    }

    #[test]
    fn no_page_of_a_list_reads_or_sorts_more_than_it_shows() {
        let cursor = Cursor { at: time(1), id: SessionId(uuid::Uuid::nil()) };
        for workspace in [None, Some("/a".to_owned())] {
            for newest_of_chain in [false, true] {
                for after in [None, Some(cursor)] {
                    let filter = Filter {
                        workspace: workspace.clone(),
                        newest_of_chain,
                        ..Filter::default()
                    };
                    let (sql, values) = page_sql(&Owner::local(), &filter, false, after, 50);
                    let plan = plan(&sql, &values);
                    let bad = ["SCAN", "TEMP B-TREE"].iter().any(|step| plan.contains(step));
                    assert!(!bad, "{sql}: {plan}");
                    let index =
                        if workspace.is_some() { "sessions_workspace" } else { "sessions_recent" };
                    assert!(plan.contains(&format!("s USING INDEX {index} (")), "{sql}: {plan}");
                    // Any other index would read all sessions of the owner for each row.
                    let chain = plan.contains("c USING INDEX sessions_parent (parent=?)");
                    assert_eq!(chain, newest_of_chain, "{sql}: {plan}");
                }
            }
        }
    }

    #[test]
    fn a_list_of_the_trash_reads_the_trash_alone() {
        let filter = Filter { trashed: true, ..Filter::default() };
        let (sql, values) = page_sql(&Owner::local(), &filter, false, None, 50);
        let plan = plan(&sql, &values);
        assert!(plan.contains("sessions_name (owner=? AND name>? AND name<?)"), "{sql}: {plan}");
    }

    #[test]
    fn the_end_of_a_log_is_found_by_its_index() {
        let one = [Value::from(1)];
        let two = [Value::from(1), Value::from("local".to_owned())];
        for (sql, values) in [(row::LAST_TALLY, &one[..]), (row::END, &two[..])] {
            let plan = plan(sql, values);
            assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
            assert!(plan.contains("entries_seq"), "{sql}: {plan}");
        }
    }
}
