//! SQLite databases of other programs: opened without changing anything, read row by row.
//!
//! The other program may be writing to its database at the same time. Everything is read in one
//! transaction, so it is a consistent snapshot. If nobody is writing, not even a lock file is
//! created; if the folder does not allow a lock file, a private copy is read. Nothing is assumed
//! about the schema: tables and columns are looked up, and a row is returned as a JSON object of
//! the columns it has.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, ToSql};
use serde_json::{Map, Value, json};

use super::{ReadError, Result};

/// What every SQLite file begins with.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";

/// How long to wait for a lock of the other program, which holds one while it writes a message.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Bytes of one value. A message has at most 16 MiB; a longer value was made to exhaust memory.
const VALUE_BYTES_MAX: i32 = 64 << 20;

/// The position in the header of the journal mode: 2 means a write-ahead log.
const WRITE_VERSION_AT: usize = 18;

/// A snapshot of a database.
pub(super) struct Database {
    connection: Connection,
    tables: BTreeMap<String, BTreeSet<String>>,
    /// The folder of the private copy, removed when this is dropped.
    _copy: Option<tempfile::TempDir>,
}

impl Database {
    pub(super) fn open(path: &Path) -> Result<Database> {
        match Database::in_place(path) {
            Ok(database) => Ok(database),
            // A leftover write-ahead log, or a folder in which no lock file may be created.
            Err(_) => Database::copied(path),
        }
    }

    fn in_place(path: &Path) -> Result<Database> {
        let path = std::fs::canonicalize(path)?;
        let mut head = [0; 100];
        let read = std::fs::File::open(&path)?.read(&mut head)?;
        let logged = read > WRITE_VERSION_AT && head[WRITE_VERSION_AT] == 2;
        let log = beside(&path, "-wal");
        let is_idle = logged && log.metadata().map_or(0, |meta| meta.len()) == 0;
        let how = if is_idle { "immutable=1" } else { "mode=ro" };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(format!("file:{}?{how}", escaped(&path)), flags);
        Database::begin(connection.map_err(read_error)?, None)
    }

    fn copied(path: &Path) -> Result<Database> {
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join("copy.db");
        for end in ["", "-wal", "-journal"] {
            let from = if end.is_empty() { path.to_owned() } else { beside(path, end) };
            if from.is_file() {
                std::fs::copy(from, beside(&copy, end))?;
            }
        }
        Database::begin(Connection::open(&copy).map_err(read_error)?, Some(folder))
    }

    fn begin(connection: Connection, copy: Option<tempfile::TempDir>) -> Result<Database> {
        connection.busy_timeout(LOCK_WAIT).map_err(read_error)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX).map_err(read_error)?;
        connection
            .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; BEGIN;")
            .map_err(read_error)?;
        let mut database = Database { connection, tables: BTreeMap::new(), _copy: copy };
        let names = database.rows(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'",
            &[],
        )?;
        for name in names.into_iter().flatten() {
            let Some(name) = text_of(&name, "name") else { continue };
            let columns = database.rows("SELECT name FROM pragma_table_xinfo(?1)", &[&name])?;
            // If all columns of such a table were selected, the library would panic.
            if columns.iter().any(std::result::Result::is_err) {
                let what = format!("a column of the table `{name}` has a name that is not UTF-8");
                return Err(ReadError::broken(what));
            }
            let columns = columns.iter().flatten().filter_map(|row| text_of(row, "name"));
            let columns = columns.collect();
            database.tables.insert(name, columns);
        }
        Ok(database)
    }

    /// Whether there is a table with these columns.
    pub(super) fn has(&self, table: &str, columns: &[&str]) -> bool {
        let found = self.tables.get(table);
        found.is_some_and(|found| columns.iter().all(|column| found.contains(*column)))
    }

    /// All tables, with their columns.
    pub(super) fn tables(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.tables.iter().map(|(name, columns)| (name.as_str(), columns))
    }

    /// The first of these columns that a table has.
    pub(super) fn column(&self, table: &str, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|name| self.has(table, &[name]))
    }

    /// The rows of a query, each as a JSON object or an error.
    pub(super) fn rows(&self, query: &str, given: &[&dyn ToSql]) -> Result<Vec<RowText>> {
        let mut rows = Vec::new();
        self.each(query, given, |row| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Passes on the rows of a query one by one. A damaged page ends them with an error instead of
    /// a row.
    pub(super) fn each(
        &self,
        query: &str,
        given: &[&dyn ToSql],
        mut take: impl FnMut(RowText) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.connection.prepare_cached(query).map_err(read_error)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.query(given).map_err(read_error)?;
        loop {
            match rows.next() {
                Ok(Some(row)) => take(json_of(row, &columns))?,
                Ok(None) => return Ok(()),
                Err(error) => return take(Err(error.to_string())),
            }
        }
    }
}

/// A row as the text of a JSON object, or an error.
pub(super) type RowText = std::result::Result<String, String>;

fn json_of(row: &Row<'_>, columns: &[String]) -> RowText {
    let mut object = Map::new();
    for (index, column) in columns.iter().enumerate() {
        let value = match row.get_ref(index).map_err(|error| error.to_string())? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => number.into(),
            ValueRef::Real(number) => number.into(),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.into(),
                Err(_) => return Err(format!("`{column}` is not UTF-8")),
            },
            ValueRef::Blob(bytes) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                json!({ "hex": digits })
            }
        };
        object.insert(column.clone(), value);
    }
    Ok(Value::Object(object).to_string())
}

/// A quoted SQL identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text_of(row: &str, name: &str) -> Option<String> {
    super::fields::Fields::of(row)?.word(name)
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// A path, percent-encoded for a URI.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                text.push(*byte as char);
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn read_error(error: rusqlite::Error) -> ReadError {
    ReadError::broken(format!("the database could not be read: {error}"))
}
