//! Tests: failures in the middle of an operation.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rethread_core::store::Upkeep;
use rethread_core::{
    Fixed, Incoming, Message, New, Owner, SessionId, Sessions, Store, StoreError, World,
};
use rusqlite::Connection;

use super::SqliteStore;

/// Size of a page, in bytes.
const PAGE: usize = 4_096;

fn open(path: &Path) -> (Arc<SqliteStore>, Sessions) {
    open_in(path, Arc::new(Fixed::default()))
}

fn open_in(path: &Path, world: Arc<Fixed>) -> (Arc<SqliteStore>, Sessions) {
    let store = Arc::new(SqliteStore::open(path, world.clone()).expect("a store"));
    (store.clone(), Sessions::new(store, Owner::local(), world))
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rethread.db");
    (folder, path)
}

fn says(sessions: &Sessions, texts: &[&str]) -> SessionId {
    let id = sessions.create(&New::default(), None).expect("a session").id();
    let messages = texts.iter().map(|text| said(text)).collect();
    sessions.append(id, messages).expect("appended");
    id
}

fn said(text: &str) -> Incoming {
    Incoming::from(Message::user(text.to_owned()))
}

/// Text that cannot be compressed.
fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'!' + u8::try_from((state >> 33) % 90).expect("below 90"))
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn nothing_of_a_batch_stays_when_the_file_fails_in_the_middle_of_it() {
    let (_folder, path) = place();
    let world = Arc::new(Fixed::default());
    let (store, sessions) = open_in(&path, world.clone());
    let (mine, other) = (says(&sessions, &["mine"]), says(&sessions, &["other"]));
    let gone = says(&sessions, &[&noise(20 * PAGE)]);
    sessions.erase(gone).expect("deleted");
    drop((store, sessions));
    // The list of free pages: an operation that needs a new page fails, others do not.
    let mut bytes = std::fs::read(&path).expect("read");
    let first = u32::from_be_bytes(bytes[32..36].try_into().expect("four bytes")) as usize;
    assert!(first > 0, "there are free pages");
    bytes[(first - 1) * PAGE + 4..][..4].copy_from_slice(&[0xff; 4]);
    std::fs::write(&path, bytes).expect("written");

    let (_store, sessions) = open_in(&path, world);
    let error = sessions.append(mine, vec![said("small"), said(&noise(4 * PAGE))]).unwrap_err();
    let expected = "is damaged";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(sessions.read(mine, 0..9).expect("read").len(), 1, "a refused batch left something");

    // In a group, only the one that fails is refused.
    let (tell, tells) = mpsc::channel();
    for (id, texts) in [
        (other, vec![said("one")]),
        (mine, vec![said("small"), said(&noise(4 * PAGE))]),
        (other, vec![said("two")]),
    ] {
        let tell = tell.clone();
        let then = Box::new(move |outcome: Result<_, StoreError>| {
            tell.send(outcome.is_ok()).expect("the test waits");
        });
        sessions.append_then(id, texts, then).expect("taken");
    }
    let outcomes: Vec<bool> = tells.iter().take(3).collect();
    assert_eq!(outcomes, [true, false, true]);
    assert_eq!(sessions.read(mine, 0..9).expect("read").len(), 1);
    assert_eq!(sessions.read(other, 0..9).expect("read").len(), 3);
}

/// A world whose clock panics once.
#[derive(Default)]
struct Broken {
    world: Fixed,
    panics: AtomicBool,
}

impl World for Broken {
    fn now(&self) -> Timestamp {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "the clock is broken");
        self.world.now()
    }

    fn uuid(&self) -> uuid::Uuid {
        self.world.uuid()
    }

    fn zone(&self) -> jiff::tz::TimeZone {
        self.world.zone()
    }
}

#[test]
fn a_panic_while_writing_is_an_error_and_the_next_append_is_stored() {
    let (_folder, path) = place();
    let world = Arc::new(Broken::default());
    let store = Arc::new(SqliteStore::open(&path, world.clone()).expect("a store"));
    let sessions = Sessions::new(store.clone(), Owner::local(), Arc::new(Fixed::default()));
    let (free, held) = (says(&sessions, &["free"]), says(&sessions, &["held"]));
    let minute = Duration::from_secs(60);
    store.lease(&Owner::local(), held, "someone", minute).expect("a lease");
    for round in 0..2 {
        // The clock is read for a session that is leased.
        world.panics.store(true, Ordering::SeqCst);
        let (sender, receiver) = mpsc::channel();
        match round {
            0 => {
                let then = Box::new(move |outcome: Result<_, StoreError>| {
                    sender.send(outcome.is_err()).expect("the test waits");
                });
                sessions.append_then(held, vec![said("no")], then).expect("taken");
            }
            _ => sender.send(sessions.append(held, vec![said("no")]).is_err()).expect("it waits"),
        }
        assert_eq!(receiver.recv_timeout(minute), Ok(true), "round {round}");
        let sessions = sessions.clone();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(sessions.append(free, vec![said("yes")]).ok()));
        assert_eq!(receiver.recv_timeout(minute), Ok(Some(vec![1 + round])), "round {round}");
    }
}

#[test]
fn a_deletion_waits_for_no_reader() {
    let (_folder, path) = place();
    let (_store, sessions) = open(&path);
    let (kept, gone) = (says(&sessions, &["kept"]), says(&sessions, &["gone"]));
    let reader = Connection::open(&path).expect("a reader");
    reader.execute_batch("BEGIN; SELECT count(*) FROM entries;").expect("it reads");
    let began = Instant::now();
    sessions.erase(gone).expect("deleted");
    // SQLite would wait ten seconds for the reader, and so would every writer.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    sessions.append(kept, vec![said("more")]).expect("appended");
    drop(reader);
    // The next deletion empties the log for both.
    let another = says(&sessions, &["another"]);
    sessions.erase(another).expect("deleted");
    let log = std::fs::metadata(path.with_extension("db-wal")).expect("it is there");
    assert_eq!(log.len(), 0);
}

/// Set when the test below runs itself on a disk that cannot be written to.
const FROZEN: &str = "RETHREAD_TEST_FROZEN";

#[test]
fn what_a_log_holds_that_cannot_be_read_is_never_hidden() {
    if let Some(path) = std::env::var_os(FROZEN) {
        match SqliteStore::open(Path::new(&path), Arc::new(Fixed::default())) {
            Ok(store) => {
                let (owner, id) = store.everything().expect("read")[0].clone();
                println!("entries: {}", store.read(&owner, id, 0..9).expect("read").len());
            }
            Err(StoreError::Backend { source, .. }) => println!("refused: {source}"),
            Err(error) => println!("{error}"),
        }
        return;
    }
    let (folder, path) = place();
    let (store, sessions) = open(&path);
    let id = says(&sessions, &["moved to the file"]);
    store.db.empty_log();
    sessions.append(id, vec![said("only in the log")]).expect("appended");
    let frozen = folder.path().join("frozen");
    std::fs::create_dir(&frozen).expect("a folder");
    let beside = |end: &str| frozen.join(format!("rethread.db{end}"));
    for end in ["", "-wal", "-shm"] {
        let from = folder.path().join(format!("rethread.db{end}"));
        std::fs::copy(from, beside(end)).expect("copied");
    }
    let bind = format!("mount --bind {0} {0} && mount -o remount,ro,bind {0}", frozen.display());
    let can = Command::new("unshare").args(["-m", "sh", "-c", &bind]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        println!("not run: mounting a read-only disk is not allowed here ({can:?})");
        return;
    }
    let look = || {
        let test = std::env::current_exe().expect("this test");
        let name = "sqlite::faults::what_a_log_holds_that_cannot_be_read_is_never_hidden";
        let script = format!("{bind} && {} --exact {name} --nocapture", test.display());
        let mut shell = Command::new("unshare");
        let shell = shell.args(["-m", "sh", "-c", &script]).env(FROZEN, beside(""));
        String::from_utf8(shell.output().expect("it runs").stdout).expect("text")
    };
    assert!(look().contains("entries: 2"), "{}", look());
    // Without the `-shm` file, SQLite cannot read the log.
    std::fs::remove_file(beside("-shm")).expect("removed");
    let said = look();
    assert!(said.contains("refused: ") && said.contains("rethread.db-wal"), "{said}");
    // An empty log hides nothing.
    std::fs::write(beside("-wal"), "").expect("emptied");
    assert!(look().contains("entries: 1"), "{}", look());
}
