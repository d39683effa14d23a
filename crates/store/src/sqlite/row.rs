//! Entries as SQLite stores them; [`crate::row`] describes a row.

use rethread_core::{EntryId, SessionId, Tally};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Row, ToSql, params};

use super::column::{bytes, integer, lossy_or_null};
use crate::row::{self, Hash, Ready, Stored};

/// The columns of an entry, in the order [`stored`] reads them.
pub(super) const COLUMNS: &str = "seq, at, id, kind, tokens, thinking, size, body, \
    t_messages, t_queries, t_tokens, t_first, t_turn, t_system, t_started, t_summary, \
    t_clear, t_clear_messages, t_clear_tokens, hash";

/// The tally of a session's last entry, in the order [`tally`] reads it.
pub(super) const LAST_TALLY: &str = "SELECT seq, t_messages, t_queries, t_tokens, t_first, \
    t_turn, t_system, t_started, t_summary, t_clear, t_clear_messages, t_clear_tokens, at \
    FROM entries WHERE session = ?1 ORDER BY seq DESC LIMIT 1";

/// A session and the tally of its last entry, in the order [`tally`] reads it, then its position.
pub(super) const END: &str = "SELECT e.seq, t_messages, t_queries, t_tokens, t_first, t_turn, \
    t_system, t_started, t_summary, t_clear, t_clear_messages, t_clear_tokens, \
    s.n, s.fence, s.holder, s.until FROM sessions s LEFT JOIN entries e ON e.session = s.n \
    AND e.seq = (SELECT max(seq) FROM entries WHERE session = s.n) \
    WHERE s.id = ?1 AND s.owner = ?2 AND s.trashed IS NULL";

/// The statement that inserts an entry; [`insert`] binds it.
pub(super) const INSERT: &str = "INSERT INTO entries (session, seq, at, id, kind, hash, tokens, \
    thinking, size, body, t_messages, t_queries, t_tokens, t_first, t_turn, t_system, t_started, \
    t_summary, t_clear, t_clear_messages, t_clear_tokens) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, \
    ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";

/// Inserts an entry with its position and tally.
pub(super) fn insert(
    statement: &mut CachedStatement<'_>,
    (id, session): (SessionId, i64),
    ready: &Ready,
    tally: &Tally,
) -> rusqlite::Result<i64> {
    let seq = tally.entries - 1;
    let [messages, queries, tokens, first, turn, system, started, summary, clear, before, spent] =
        row::tally_columns(tally);
    statement.insert(params![
        session,
        row::number(seq),
        ready.at,
        sql_id(&ready.id),
        ready.kind,
        ready.sealed(id, seq),
        ready.tokens,
        ready.thinking(),
        ready.size,
        ready.body,
        messages,
        queries,
        tokens,
        first,
        turn,
        system,
        started,
        summary,
        clear,
        before,
        spent,
    ])
}

/// An entry's id as SQLite stores it: 16 bytes for a UUID in its usual form, otherwise text.
pub(super) enum SqlId<'a> {
    Uuid(uuid::Uuid),
    Text(&'a str),
}

impl ToSql for SqlId<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            SqlId::Uuid(uuid) => ValueRef::Blob(uuid.as_bytes()),
            SqlId::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

pub(super) fn sql_id(id: &EntryId) -> SqlId<'_> {
    let usual = |uuid: &uuid::Uuid| *uuid.hyphenated().encode_lower(&mut [0; 36]) == *id.as_str();
    match uuid::Uuid::try_parse(id.as_str()).ok().filter(usual) {
        Some(uuid) => SqlId::Uuid(uuid),
        None => SqlId::Text(id.as_str()),
    }
}

/// The id, decoded.
fn entry_id(value: ValueRef<'_>) -> Result<EntryId, String> {
    match value {
        ValueRef::Blob(bytes) => {
            uuid::Uuid::from_slice(bytes).map(EntryId::from).map_err(|e| e.to_string())
        }
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
            EntryId::new(text).map_err(|e| e.to_string())
        }
        _ => Err("its id is not valid".into()),
    }
}

/// Reads a row of [`COLUMNS`]. A value that makes no sense makes the entry a damaged one; it does not
/// stop the others from being read.
pub(super) fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let seq = integer(row, 0)?.unwrap_or_default();
    let at = integer(row, 1)?;
    let id = match at {
        Some(_) => entry_id(row.get_ref(2)?),
        None => Err("its time makes no sense".into()),
    };
    let size = match row.get_ref(6)? {
        ValueRef::Null => None,
        ValueRef::Integer(size) => Some(size),
        // No entry has this size, so it is refused.
        _ => Some(-1),
    };
    Ok(Stored {
        seq: u64::try_from(seq).unwrap_or_default(),
        at: at.unwrap_or_default(),
        id,
        kind: lossy_or_null(row, 3)?,
        tokens: row::small(integer(row, 4)?.unwrap_or_default()),
        thinking: integer(row, 5)?.map(row::small),
        size,
        body: bytes(row, 7)?,
        tally: read_tally(row, seq, 8)?,
        hash: row.get_ref(19)?.as_blob().ok().and_then(Hash::stored),
    })
}

/// Reads a row of [`LAST_TALLY`] or [`END`]: the tally, and the column after it.
pub(super) fn tally(row: &Row<'_>) -> rusqlite::Result<(Tally, i64)> {
    let seq = integer(row, 0)?.unwrap_or_default();
    Ok((read_tally(row, seq, 1)?, integer(row, 12)?.unwrap_or_default()))
}

fn read_tally(row: &Row<'_>, seq: i64, first: usize) -> rusqlite::Result<Tally> {
    let mut columns = [None; row::TALLY_COLUMNS];
    for (index, column) in columns.iter_mut().enumerate() {
        *column = integer(row, first + index)?;
    }
    Ok(row::tally_of(u64::try_from(seq).unwrap_or_default(), columns))
}
