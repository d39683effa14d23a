//! Opening one file several times.

use std::sync::{Arc, Barrier};

use rethread_core::Fixed;
use rethread_store::SqliteStore;

#[test]
fn many_may_open_a_new_file_at_once() {
    const RIVALS: usize = 8;
    let mut refused = Vec::new();
    for round in 0..60 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("rethread.db");
        let barrier = Barrier::new(RIVALS);
        std::thread::scope(|scope| {
            let open = || {
                barrier.wait();
                SqliteStore::open(&path, Arc::new(Fixed::default())).map(drop)
            };
            let threads: Vec<_> = (0..RIVALS).map(|_| scope.spawn(open)).collect();
            for thread in threads {
                if let Err(error) = thread.join().expect("no rival panics") {
                    refused.push(format!("round {round}: {error:?}"));
                }
            }
        });
    }
    assert!(refused.is_empty(), "{refused:#?}");
}

/// Closing any descriptor of a file ends all POSIX locks the process holds on it. A program that
/// opens the database file besides SQLite takes SQLite's locks away.
#[cfg(target_os = "linux")]
#[test]
fn a_second_store_in_the_process_leaves_the_locks_of_the_first() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rethread.db");
    let world = Arc::new(Fixed::default());
    let locks = || {
        let inode = format!(":{} ", std::fs::metadata(&path).expect("it is there").ino());
        let all = std::fs::read_to_string("/proc/locks").expect("Linux shows its locks");
        all.lines().filter(|line| line.contains(&inode)).count()
    };
    let one = SqliteStore::open(&path, world.clone()).expect("a store");
    let before = locks();
    assert!(before > 0, "SQLite holds a lock while a connection is open");
    let two = SqliteStore::open(&path, world).expect("a store");
    assert!(locks() >= before, "a lock is gone");
    drop((one, two));
}
