//! Tests: `doctor` on a file with damaged pages and rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::store::{Filter, Finding, FindingState, Search, Upkeep};
use rethread_core::{Fixed, Incoming, Key, Message, New, Owner, Sessions, Store};
use rusqlite::Connection;

use super::SqliteStore;

/// Size of a page, in bytes.
const PAGE: usize = 4_096;

/// Sessions in the file, and entries in each.
const SESSIONS: usize = 60;
const ENTRIES: usize = 8;

fn open(path: &Path) -> (Arc<SqliteStore>, Sessions) {
    let world = Arc::new(Fixed::default());
    let store = Arc::new(SqliteStore::open(path, world.clone()).expect("a store"));
    (store.clone(), Sessions::new(store, Owner::local(), world))
}

/// A file in which every B-tree has entries, most of them on several pages.
fn made(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("rethread.db");
    let (_store, sessions) = open(&path);
    for number in 0..SESSIONS {
        let key = Key::new(format!("file:{number}-{}.md", "long".repeat(20))).expect("a key");
        let id = sessions.create(&New::default(), Some(&key)).expect("a session").id();
        let text = |entry: usize| format!("common word{number}x{entry} {}", "filling ".repeat(20));
        let messages = (0..ENTRIES).map(|entry| Incoming::from(Message::user(text(entry))));
        sessions.append(id, messages.collect()).expect("appended");
    }
    assert_eq!(sessions.search("word1x1", 0, 9).expect("searched").len(), 1);
    path
}

/// Every B-tree of the file, with a page from the middle of it.
fn trees(path: &Path) -> BTreeMap<String, usize> {
    let connection = Connection::open(path).expect("the file");
    let sql = "SELECT name, pageno FROM dbstat WHERE pagetype = 'leaf' ORDER BY pageno";
    let mut statement = connection.prepare(sql).expect("the pages");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    let mut pages: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for row in rows {
        let (name, page): (String, u32) = row.expect("a row");
        pages.entry(name).or_default().push(page as usize);
    }
    pages.into_iter().map(|(name, pages)| (name, pages[pages.len() / 2])).collect()
}

fn doctor(path: &Path, repair: bool) -> (usize, Vec<Finding>) {
    let (_store, sessions) = open(path);
    sessions.doctor(repair, |_, _| {}).expect("it succeeds")
}

fn states(findings: &[Finding], state: FindingState) -> usize {
    findings.iter().filter(|finding| finding.state == state).count()
}

/// What a user sees: the list, every entry, a search and a new entry.
fn works(path: &Path) {
    let (store, sessions) = open(path);
    let page = sessions.list(&Filter::default(), None, 100).expect("listed");
    assert_eq!((page.sessions.len(), page.damaged.len()), (SESSIONS, 0));
    for session in page.sessions {
        let key = session.keys.first().expect("its key");
        assert_eq!(sessions.resolve(key).expect("resolved"), Some(session.id()));
        assert_eq!(sessions.read(session.id(), 0..99).expect("read").len(), ENTRIES);
    }
    for word in ["word0x0", "word31x4", "word59x7"] {
        assert_eq!(sessions.search(word, 0, 9).expect("searched").len(), 1, "{word}");
    }
    assert_eq!(store.index_lag().expect("read"), Some(0));
}

#[test]
fn a_damaged_page_of_derived_data_is_rebuilt() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let good = std::fs::read(made(&folder)).expect("read");
    let path = folder.path().join("rethread.db");
    let all = trees(&path);
    assert!(all.len() > 14, "{all:?}");
    for (name, page) in all {
        if ["sessions", "entries", "keys", "blobs", "sqlite_schema"].contains(&name.as_str()) {
            continue;
        }
        let mut bytes = good.clone();
        bytes[(page - 1) * PAGE..page * PAGE].fill(0xa5);
        std::fs::write(&path, &bytes).expect("written");
        println!("damaged: {name}, page {page}");
        let (sessions, findings) = doctor(&path, false);
        assert_eq!(sessions, SESSIONS, "{name}");
        assert!(states(&findings, FindingState::Repairable) > 0, "{name}: {findings:?}");
        assert_eq!(states(&findings, FindingState::Repaired), 0, "{name}: {findings:?}");
        assert_eq!(std::fs::read(&path).expect("read"), bytes, "{name}: --check wrote something");
        let (sessions, findings) = doctor(&path, true);
        assert_eq!(sessions, SESSIONS, "{name}");
        assert!(states(&findings, FindingState::Repaired) > 0, "{name}: {findings:?}");
        assert_eq!(states(&findings, FindingState::Damaged), 0, "{name}: {findings:?}");
        let (_, findings) = doctor(&path, true);
        let left = findings.iter().filter(|finding| finding.state != FindingState::Noted);
        assert_eq!(left.count(), 0, "{name}: {findings:?}");
        works(&path);
    }
}

#[test]
fn a_damaged_page_of_entries_is_reported_for_its_sessions_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let good = std::fs::read(made(&folder)).expect("read");
    let path = folder.path().join("rethread.db");
    let all = trees(&path);
    for name in ["entries", "sessions"] {
        let page = all[name];
        let mut bytes = good.clone();
        bytes[(page - 1) * PAGE..page * PAGE].fill(0xa5);
        std::fs::write(&path, &bytes).expect("written");
        for repair in [false, true, true] {
            let (sessions, findings) = doctor(&path, repair);
            assert_eq!(sessions, SESSIONS, "{name}");
            let mut hit: Vec<_> = findings.iter().filter_map(|finding| finding.session).collect();
            hit.dedup();
            assert!(!hit.is_empty() && hit.len() < SESSIONS / 2, "{name}: {findings:?}");
            let (store, sessions) = open(&path);
            let page = sessions.list(&Filter::default(), None, 100).expect("listed");
            assert_eq!(page.sessions.len() + page.damaged.len(), SESSIONS, "{name}");
            assert!(page.sessions.len() > SESSIONS / 2, "{name}: {:?}", page.damaged);
            for (owner, id) in store.everything().expect("read") {
                let read = store.read(&owner, id, 0..99).is_ok_and(|read| read.len() == ENTRIES);
                assert_eq!(read, !hit.contains(&id), "{name}: {id}");
            }
        }
    }
}

/// What can be said of a session whose text is not valid any more.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    /// Nothing: it is stored twice, or derived.
    None,
    /// It cannot be repaired, but the session is listed.
    Part,
    /// The session cannot be read.
    Session,
}

#[test]
fn text_that_is_not_utf_8_is_damage_to_its_session_alone() {
    const BAD: &str = "CAST(x'fb' AS TEXT)";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = made(&folder);
    let good = std::fs::read(&path).expect("read");
    for (table, column, loss) in [
        ("sessions", "header", Loss::Session),
        ("sessions", "first_message", Loss::None),
        ("sessions", "name", Loss::None),
        ("sessions", "workspace", Loss::None),
        ("sessions", "owner", Loss::None),
        ("sessions", "holder", Loss::None),
        ("keys", "key", Loss::Part),
        ("keys", "owner", Loss::None),
        ("usage", "model", Loss::None),
        ("entries", "kind", Loss::Part),
        ("entries", "id", Loss::Part),
    ] {
        let what = format!("{table}.{column}");
        std::fs::write(&path, &good).expect("written");
        let key = if table == "sessions" { "n = 2" } else { "session = 2" };
        let row = match table {
            "entries" => "session = 2 AND seq = 3",
            // Its readable id is a key as well.
            "keys" => "session = 2 AND key NOT LIKE 'readable-id:%'",
            _ => key,
        };
        let bad = format!("{BAD} || substr(coalesce({column}, ''), 2)");
        let sql = format!("UPDATE {table} SET {column} = {bad} WHERE {row}");
        let database = Connection::open(&path).expect("the file");
        if table == "usage" {
            let row = "INSERT INTO usage VALUES (2, 'm', 0, 0, 0, 0, 0)";
            database.execute(row, []).expect("a row");
        }
        assert_eq!(database.execute(&sql, []).expect(&sql), 1, "{sql}");
        database.execute("INSERT INTO search (search) VALUES ('delete-all')", []).expect("emptied");
        database.execute("UPDATE progress SET rid = 0", []).expect("emptied");
        drop(database);

        let (store, sessions) = open(&path);
        let page = sessions.list(&Filter::default(), None, 100).expect(&what);
        let shown = SESSIONS - usize::from(column == "owner" && table == "sessions");
        assert_eq!(page.damaged.len(), usize::from(loss == Loss::Session), "{what}");
        assert_eq!(page.sessions.len() + page.damaged.len(), shown, "{what}");
        let first = |number: usize| format!("common word{number}x0 ");
        let right = |one: &rethread_core::Session| {
            (0..SESSIONS).any(|number| one.first_message.starts_with(&first(number)))
        };
        assert!(page.sessions.iter().all(right), "{what}");
        sessions.list(&Filter { trashed: true, ..Filter::default() }, None, 9).expect(&what);
        assert_eq!(sessions.search("word3x3", 0, 9).expect(&what).len(), 1, "{what}");
        store.can_write().expect(&what);
        assert!(store.everything().expect(&what).len() >= SESSIONS - 1, "{what}");
        drop((store, sessions));

        let (_, findings) = doctor(&path, false);
        // Nobody reads the holder of a lease that is over.
        assert_eq!(findings.is_empty(), column == "holder", "{what}");
        doctor(&path, true);
        let (count, findings) = doctor(&path, true);
        assert_eq!(count, SESSIONS, "{what}: {findings:?}");
        match loss {
            Loss::None => works(&path),
            Loss::Part | Loss::Session => {
                assert!(states(&findings, FindingState::Damaged) > 0, "{what}: {findings:?}");
            }
        }
    }
}

#[test]
fn rows_that_make_no_sense_stop_neither_doctor_nor_anybody_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let good = std::fs::read(made(&folder)).expect("read");
    let path = folder.path().join("rethread.db");
    for sql in [
        "INSERT INTO search (search) VALUES ('delete-all')",
        "DELETE FROM search_docsize WHERE id > 100",
        "DELETE FROM progress",
        "DELETE FROM progress WHERE what = 'searched'",
        "UPDATE progress SET rid = rid + 1000",
        "UPDATE sessions SET id = x'00' WHERE n = 2",
    ] {
        std::fs::write(&path, &good).expect("written");
        Connection::open(&path).expect("the file").execute(sql, []).expect(sql);
        if sql.starts_with("DELETE FROM progress") {
            works(&path);
            std::fs::write(&path, &good).expect("written");
            Connection::open(&path).expect("the file").execute(sql, []).expect(sql);
        }
        let (_, findings) = doctor(&path, false);
        assert_eq!(states(&findings, FindingState::Repairable), 1, "{sql}: {findings:?}");
        let (sessions, findings) = doctor(&path, true);
        assert_eq!(sessions, SESSIONS, "{sql}");
        assert_eq!(states(&findings, FindingState::Repaired), 1, "{sql}: {findings:?}");
        assert_eq!(doctor(&path, true), (SESSIONS, Vec::new()), "{sql}");
        works(&path);
    }
}
