//! Migrates a file of an earlier format.
//!
//! A migration is one transaction, so a crash leaves the file unchanged. Until it is committed
//! there is also a copy next to the file (`rethread.db.format-1`), for failures that a transaction
//! does not protect against. From format 2, only the search index is rebuilt, which needs no copy.
//! A leftover copy is removed when the file is opened next. Other processes wait, and find the
//! migration done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rethread_core::usage::Spent;
use rethread_core::{SessionId, StoreError};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::error::OrStoreError;
use super::rebuild::{SEARCH, statements};
use super::schema::{self, FORMAT, File};
use super::{append, row};
use crate::io::{failed, with_suffix};
use crate::progress::{Progress, ProgressSink};

const WHAT: &str = "bring the file up to date";

/// Consecutive rows that cannot be read before the rest is given up: many pages of short entries.
const UNREADABLE_MAX: u32 = 10_000;

/// Migrates a file of format `found`.
pub(super) fn migrate(
    file: &File,
    connection: &Connection,
    found: i64,
    tell: Option<&ProgressSink>,
) -> Result<(), StoreError> {
    let path = &file.path;
    let what = format!("bringing {} from format {found} to {FORMAT}", path.display());
    let mut progress = Progress::new(what, tell);
    // From here on, no other process writes. A second migration waits here, and finds this one
    // done.
    let behaviour = TransactionBehavior::Immediate;
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, behaviour).or_store_error(path, WHAT)?;
    if schema::format(file, &transaction)? == Some(FORMAT) {
        return Ok(());
    }
    let run = |sql: &str| transaction.execute_batch(sql).or_store_error(path, WHAT);
    if found < 2 {
        progress.part("copying the file");
        copy(file, found)?;
        run("ALTER TABLE sessions ADD COLUMN trashed INTEGER")?;
        for statement in ["usage", "blobs"].into_iter().flat_map(statements) {
            run(&statement)?;
        }
        count_usage(path, &transaction, &mut progress)?;
    }
    replace_index(path, &transaction)?;
    run(&format!("PRAGMA user_version = {FORMAT}"))?;
    transaction.commit().or_store_error(path, WHAT)?;
    remove_copy(path);
    progress.finish();
    Ok(())
}

/// Replaces an earlier search index by an empty one; the next search fills it.
fn replace_index(path: &Path, tx: &Connection) -> Result<(), StoreError> {
    let run = |sql: &str| tx.execute_batch(sql).or_store_error(path, WHAT);
    if tx.execute_batch("DROP TABLE search").is_err() {
        // It is too damaged for that. Its pages stay in the file, unused.
        run("PRAGMA writable_schema = ON")?;
        for name in SEARCH {
            let sql = "DELETE FROM sqlite_schema WHERE name = ?1 OR tbl_name = ?1";
            tx.execute(sql, [name]).or_store_error(path, WHAT)?;
        }
        run("PRAGMA writable_schema = RESET")?;
    }
    for statement in statements("search") {
        run(&statement)?;
    }
    run("DELETE FROM progress WHERE what = 'indexed'; \
         INSERT OR REPLACE INTO progress VALUES ('searched', 0)")
}

/// The path of the copy that is kept until the migration is committed.
fn copy_path(path: &Path, format: i64) -> PathBuf {
    with_suffix(path, &format!(".format-{format}"))
}

/// Copies the file page by page, so that a damaged one can be copied as well.
fn copy(file: &File, format: i64) -> Result<(), StoreError> {
    copy_as(file, &copy_path(&file.path, format))
}

/// The same, to any path.
pub(super) fn copy_as(file: &File, path: &Path) -> Result<(), StoreError> {
    let failed = failed("sqlite", path, "copy the file");
    // A leftover of an earlier attempt may be incomplete.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    schema::make(path)?;
    let source = schema::connect(file)?;
    let mut target = Connection::open(path).or_store_error(path, "copy the file")?;
    let backup = rusqlite::backup::Backup::new(&source, &mut target)
        .or_store_error(path, "copy the file")?;
    backup
        .run_to_completion(4_096, std::time::Duration::ZERO, None)
        .or_store_error(path, "copy the file")?;
    drop(backup);
    target.close().map_err(|(_, error)| super::error::store_error(path, "copy the file", error))?;
    let copy = std::fs::File::open(path).map_err(&failed)?;
    copy.sync_all().map_err(failed)
}

/// Removes the copy, once the file is up to date.
pub(super) fn remove_copy(path: &Path) {
    for format in 1..FORMAT {
        // It does no harm, and the next process that opens the file tries again.
        drop(std::fs::remove_file(copy_path(path, format)));
    }
}

/// Computes what each model was charged, from the logs.
fn count_usage(
    path: &Path,
    tx: &Connection,
    progress: &mut Progress<'_>,
) -> Result<(), StoreError> {
    let all: i64 = tx
        .query_row("SELECT coalesce(max(rid), 0) FROM entries", [], |row| row.get(0))
        .or_store_error(path, WHAT)?;
    let mut sums: BTreeMap<i64, Spent> = BTreeMap::new();
    let sql = format!(
        "SELECT {}, session, rid FROM entries NOT INDEXED WHERE rid >= ?1 AND (kind IS NULL OR \
         kind IN ('finished', 'summary', 'started', 'restored')) ORDER BY rid LIMIT 1",
        row::COLUMNS
    );
    let mut statement = tx.prepare(&sql).or_store_error(path, WHAT)?;
    let (mut next, mut unreadable) = (0_i64, 0);
    // Entries that cannot be read are not counted here; `doctor` lists them.
    while unreadable < UNREADABLE_MAX {
        let read = statement.query_row([next], |row| {
            Ok((row::stored(row)?, row.get::<_, i64>(20)?, row.get::<_, i64>(21)?))
        });
        let (stored, session, rid) = match read.optional() {
            Ok(None) => break,
            Ok(Some(found)) => found,
            Err(_) => {
                (next, unreadable) = (next.saturating_add(1), unreadable + 1);
                continue;
            }
        };
        progress.step(rid.unsigned_abs(), all.unsigned_abs(), "entries");
        unreadable = 0;
        let Some(after) = rid.checked_add(1) else { break };
        next = after;
        if let Ok(entry) = stored.entry(SessionId(uuid::Uuid::nil())) {
            let spent = Spent::of([&entry.body]);
            let sum = sums.entry(session).or_default();
            if spent.anew {
                *sum = Spent::default();
            }
            spent.add_to(&mut sum.models);
        }
    }
    drop(statement);
    for (session, sum) in sums {
        append::spend(path, tx, session, &sum)?;
    }
    Ok(())
}

/// The format is older than this version can read, and cannot be migrated here.
pub(super) fn too_old(file: &File, found: i64) -> StoreError {
    StoreError::Older { place: file.path.display().to_string(), found, known: FORMAT }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::message::Usage;
    use rethread_core::{Fixed, Message, New, Owner, Sessions};

    use super::super::SqliteStore;
    use super::*;

    /// The search index of format 2.
    const INDEX_OF_FORMAT_2: &str = "DROP TABLE search;
        CREATE VIRTUAL TABLE search USING fts5 (
            owner, text, content = '', tokenize = \"unicode61 remove_diacritics 2\"
        );
        INSERT INTO search (rowid, owner, text) VALUES (1, 'o6c6f63616c', 'forgotten');
        DELETE FROM progress WHERE what = 'searched'; INSERT INTO progress VALUES ('indexed', 1);
        PRAGMA user_version = 2;";

    fn sessions_in(path: &Path, world: &Arc<Fixed>) -> Sessions {
        let store = Arc::new(SqliteStore::open(path, world.clone()).expect("a store"));
        Sessions::new(store, Owner::local(), world.clone())
    }

    #[test]
    fn an_index_of_an_earlier_format_is_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rethread.db");
        let world = Arc::new(Fixed::default());
        let open = || sessions_in(&path, &world);
        for damage in ["", "DELETE FROM search_data; DELETE FROM search_config;"] {
            let sessions = open();
            let id = sessions.create(&New::default(), None).expect("a session").id();
            sessions.append(id, vec![Message::user("日本語の質問").into()]).expect("appended");
            drop(sessions);
            let earlier = format!("{INDEX_OF_FORMAT_2}{damage}");
            Connection::open(&path).expect("the file").execute_batch(&earlier).expect("changed");
            let sessions = open();
            let found = |word: &str| sessions.search(word, 0, 9).expect("searched").len();
            assert_eq!((found("forgotten"), found("質問")), (0, 1), "{damage}");
            sessions.erase(id).expect("erased");
            assert_eq!(found("質問"), 0);
            assert!(!copy_path(&path, 2).exists(), "what is derived needs no copy");
        }
    }

    #[test]
    fn a_file_of_format_2_that_cannot_be_written_to_is_searched_entry_by_entry() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rethread.db");
        let world = Arc::new(Fixed::default());
        let store = Arc::new(SqliteStore::open(&path, world.clone()).expect("a store"));
        let sessions = Sessions::new(store.clone(), Owner::local(), world.clone());
        let id = sessions.create(&New::default(), None).expect("a session").id();
        sessions.append(id, vec![Message::user("a zebra").into()]).expect("appended");
        Connection::open(&path).expect("the file").execute_batch(INDEX_OF_FORMAT_2).expect("set");
        let query = rethread_core::search::Query::new("zebra").expect("a query");
        let found = store
            .db
            .read(|snapshot| store.db.search(snapshot, &Owner::local(), &query, false, (0, 9)));
        assert_eq!(found.expect("searched").len(), 1);
    }

    #[test]
    fn rows_with_absurd_numbers_do_not_make_counting_endless() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rethread.db");
        let world = Arc::new(Fixed::default());
        let open = || sessions_in(&path, &world);
        let sessions = open();
        let id = sessions.create(&New::default(), None).expect("a session").id();
        let usage = Some(Usage { output: 7, ..Usage::default() });
        let reply = || Message { usage, model: Some("a/b".into()), ..Message::assistant("yes") };
        sessions.append(id, vec![reply().into(), reply().into()]).expect("appended");
        drop(sessions);
        // As in the earlier format.
        let earlier = "UPDATE entries SET rid = 9223372036854775800 WHERE seq = 1;
            DROP TABLE usage; DROP TABLE blobs; ALTER TABLE sessions DROP COLUMN trashed;
            UPDATE entries SET hash = substr(hash, 1, 16); PRAGMA user_version = 1;";
        Connection::open(&path).expect("the file").execute_batch(earlier).expect("changed");
        let usage = open().get(id).expect("there").usage;
        assert_eq!(usage["a/b"].usage.output, 14);
    }
}
