//! Opens the file: creates it, checks that it is ours, and sets it up.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rethread_core::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::OrStoreError;
use super::migrate;
use crate::io::{failed, patiently, private_file, private_folder, with_suffix};
use crate::progress::ProgressSink;

/// The format this version writes, and the newest it reads.
pub(super) const FORMAT: i64 = 3;

/// The oldest format that can be read without write access. Since then only the search index has
/// changed, and without an index, a search reads every entry.
const READABLE: i64 = 2;

/// The application id of our files: "Rthd".
const APPLICATION: i64 = 0x5274_6864;

pub(super) const SCHEMA: &str = include_str!("schema.sql");

/// How long to wait for another process's transaction. Transactions are short; a process that holds
/// the file longer than this is stuck. SQLite sleeps longer and longer between retries, which is
/// good with many writers: one of them writes several times before the next one wakes up. With
/// shorter sleeps, eight processes wrote less than half as much.
pub(super) const BUSY: Duration = Duration::from_secs(10);

/// Prepared statements cached per connection.
const STATEMENTS: usize = 64;

/// The path of the file, and how it can be used.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) access: Access,
}

/// How a file can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// For everything.
    All,
    /// For reading.
    ReadOnly,
    /// The disk had no space for the files SQLite needs for writing, so it is only read. Each write
    /// tries again.
    Full,
}

/// Opens the file for writing, and creates it if it does not exist. A file that cannot be written
/// to, or on a full disk, is opened for reading.
pub(super) fn open(
    path: &Path,
    tell: Option<&ProgressSink>,
) -> Result<(File, Connection), StoreError> {
    let file = File { path: path.into(), access: Access::All };
    let opened = make(path).and_then(|()| connect(&file)).and_then(|connection| {
        set_up(&file, &connection, tell)?;
        Ok(connection)
    });
    let (access, refused) = match opened {
        Ok(connection) => {
            close_to_others(path)?;
            sync_what_was_left(path)?;
            return Ok((file, connection));
        }
        Err(error @ StoreError::ReadOnly { .. }) => (Access::ReadOnly, error),
        Err(error @ StoreError::Full { .. }) => (Access::Full, error),
        Err(error) => return Err(error),
    };
    // A file that was just created has nothing to read.
    if std::fs::metadata(path).map_or(0, |there| there.len()) == 0 {
        return Err(refused);
    }
    let file = File { access, ..file };
    let connection = connect(&file)?;
    match format(&file, &connection)? {
        Some(FORMAT) => Ok((file, connection)),
        Some(READABLE..FORMAT) if access == Access::ReadOnly => Ok((file, connection)),
        Some(found) if access == Access::ReadOnly => Err(migrate::too_old(&file, found)),
        _ => Err(refused),
    }
}

/// Syncs what a writer that did not close the file left in its write-ahead log.
///
/// A process that dies between its write and its sync leaves entries that later processes can read,
/// but that a power cut can still remove. A retry would find them and be acknowledged. SQLite keeps
/// no locks on the log, so closing it here releases none.
fn sync_what_was_left(path: &Path) -> Result<(), StoreError> {
    let synced = match std::fs::File::open(with_suffix(path, "-wal")) {
        Ok(log) if log.metadata().is_ok_and(|log| log.len() > 0) => log.sync_data(),
        _ => Ok(()),
    };
    synced.map_err(|error| StoreError::Backend {
        store: "sqlite",
        action: "sync what another writer left",
        source: error.into(),
    })
}

/// Creates the file and its folder, readable by their owner only.
pub(super) fn make(path: &Path) -> Result<(), StoreError> {
    let failed = failed("sqlite", path, "make the file");
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_folder(folder).map_err(&failed)?;
    }
    // An existing file is not opened here: closing it would release the locks that SQLite holds on
    // it in this process, and another process could remove the log we write to.
    match private_file().create_new(true).open(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(StoreError::NotAStore { place: path.display().to_string() });
    }
    Ok(())
}

/// Makes a file of ours inaccessible to others. This is done once the file is known to be ours;
/// files of other programs are not changed.
#[cfg(unix)]
fn close_to_others(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |error: std::io::Error| StoreError::Backend {
        store: "sqlite",
        action: "close the file to others",
        source: error.into(),
    };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        // A file of another user is not changed; SQLite has reported that it can be used.
        match std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            other => other.map_err(failed)?,
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn close_to_others(_path: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Another connection to the file.
pub(super) fn connect(file: &File) -> Result<Connection, StoreError> {
    let path = &file.path;
    if file.access != Access::All {
        return connect_read_only(path);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).or_store_error(path, "open the file")?;
    // SQLite silently opens a file read-only if it must, and says so only when asked.
    if connection.is_readonly("main").or_store_error(path, "open the file")? {
        return Err(StoreError::ReadOnly { place: path.display().to_string() });
    }
    prepared(path, connection)
}

/// A connection to a file that cannot be written to. The write-ahead log is read too, if SQLite
/// can: it needs the `-shm` file for that, which it may be unable to create here.
fn connect_read_only(path: &Path) -> Result<Connection, StoreError> {
    let open = |mode: &str| {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let name = path.display().to_string();
        let name = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let connection = Connection::open_with_flags(format!("file:{name}?{mode}"), flags);
        prepared(path, connection.or_store_error(path, "open the file")?)
    };
    // The log is opened by the first read of the file.
    let opened = open("mode=ro").and_then(|connection| {
        let seen = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        seen.or_store_error(path, "open the file").map(|()| connection)
    });
    match opened {
        Ok(connection) => Ok(connection),
        Err(StoreError::ReadOnly { .. } | StoreError::Full { .. }) => {
            let log = with_suffix(path, "-wal");
            // A log that cannot be read might contain entries.
            match std::fs::metadata(&log) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Ok(metadata) if metadata.len() == 0 => {}
                _ => return Err(hidden(&log)),
            }
            // There is only the file, and nobody writes to it.
            open("immutable=1")
        }
        Err(error) => Err(error),
    }
}

/// There are entries in a log that cannot be read: to show the file without them would hide
/// acknowledged data.
fn hidden(log: &Path) -> StoreError {
    let source = format!(
        "the latest entries are in {}, which cannot be read where nothing can be written; make room, \
         make the folder writable, or copy the database together with this file to another folder",
        log.display()
    );
    StoreError::Backend { store: "sqlite", action: "open the file", source: source.into() }
}

/// Sets up a connection.
fn prepared(path: &Path, connection: Connection) -> Result<Connection, StoreError> {
    connection.busy_timeout(BUSY).or_store_error(path, "open the file")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise SQLite may plan a statement again each time its parameters change.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .or_store_error(path, "open the file")?;
    // A file made by someone else must not be able to run code through its schema. The write-ahead
    // log may grow to 16 MiB, because every append waits during a checkpoint, and a page that is
    // written often in between is copied only once.
    let settings = "PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL; \
                    PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON; PRAGMA cache_size = -16384; \
                    PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 4000;";
    connection.execute_batch(settings).or_store_error(path, "open the file")?;
    Ok(connection)
}

/// Checks that the file is ours, creates its tables if it is empty, and migrates it if it is older.
fn set_up(
    file: &File,
    connection: &Connection,
    tell: Option<&ProgressSink>,
) -> Result<(), StoreError> {
    let path = &file.path;
    match format(file, connection)? {
        Some(FORMAT) => {
            migrate::remove_copy(path);
            return Ok(());
        }
        Some(found) => return migrate::migrate(file, connection, found, tell),
        None => {}
    }
    let mode = switch_to_wal(connection).or_store_error(path, "set up the file")?;
    if mode != "wal" {
        let source = format!("the file system does not allow WAL (it is in `{mode}` mode)").into();
        return Err(StoreError::Backend { store: "sqlite", action: "set up the file", source });
    }
    let behaviour = TransactionBehavior::Immediate;
    let transaction = rusqlite::Transaction::new_unchecked(connection, behaviour)
        .or_store_error(path, "set up the file")?;
    // Another process may have been faster.
    if format(file, &transaction)?.is_none() {
        transaction.execute_batch(SCHEMA).or_store_error(path, "set up the file")?;
        transaction
            .execute_batch(&format!(
                "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};"
            ))
            .or_store_error(path, "set up the file")?;
    }
    transaction.commit().or_store_error(path, "set up the file")
}

/// Switches a new file to WAL mode. SQLite does not wait for other processes that do the same, so
/// this does, with the usual timeout.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<String> {
    let switch = || connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
    let is_busy = |error: &rusqlite::Error| {
        error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
    };
    let switched = patiently(BUSY, || match switch() {
        Err(error) if is_busy(&error) => Ok(None),
        done => done.map(Some),
    });
    switched?.map_or_else(switch, Ok)
}

/// The format of our tables, if it can be read; `None` if the file is empty.
pub(super) fn format(file: &File, connection: &Connection) -> Result<Option<i64>, StoreError> {
    // In one statement, so that tables which another process is just creating are seen completely
    // or not at all.
    let sql = "SELECT (SELECT application_id FROM pragma_application_id), \
               (SELECT user_version FROM pragma_user_version), \
               (SELECT count(*) FROM sqlite_schema)";
    let (application, format, tables): (i64, i64, i64) = connection
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .or_store_error(&file.path, "read the file")?;
    let place = file.path.display().to_string();
    if application == APPLICATION {
        return match format {
            1..=FORMAT => Ok(Some(format)),
            newer if newer > FORMAT => {
                Err(StoreError::Newer { place, found: newer, known: FORMAT })
            }
            _ => Err(StoreError::NotAStore { place }),
        };
    }
    match tables {
        0 if application == 0 && format == 0 => Ok(None),
        _ => Err(StoreError::NotAStore { place }),
    }
}
