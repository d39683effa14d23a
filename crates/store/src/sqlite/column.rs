//! Columns of rows that may be damaged.
//!
//! A flipped bit can turn text into bytes that are not UTF-8, or a number into something else. A
//! query that insists on the type of such a column fails as a whole, and takes the rows of other
//! sessions along. These functions never fail because of a value: its reader decides what it means
//! for that row.

use rusqlite::Row;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

/// The bytes of a text or a blob; empty for anything else.
pub(super) fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    })
}

/// A text; bytes that are not UTF-8 are replaced, so it differs from every text that was written.
pub(super) fn lossy(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(row, column)?).into_owned())
}

/// A text that may be NULL, read as [`lossy`] does.
pub(super) fn lossy_or_null(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => lossy(row, column).map(Some),
    }
}

/// A number; `None` for anything else.
pub(super) fn integer(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<i64>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    })
}

/// Text as it was read, valid or not.
pub(super) struct TextBytes(pub(super) Vec<u8>);

impl ToSql for TextBytes {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(&self.0)))
    }
}
