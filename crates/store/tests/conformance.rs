//! The contract of a store, run on every kind of it.

use std::sync::Arc;

use rethread_core::conformance::Factory;
use rethread_core::{Backend, Fixed};
use rethread_store::{FilesLimit, FilesStore, SqliteStore};

struct Sqlite {
    folder: tempfile::TempDir,
    world: Arc<Fixed>,
}

impl Sqlite {
    fn new() -> Sqlite {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Sqlite { folder, world: Arc::new(Fixed::default()) }
    }
}

impl Factory for Sqlite {
    /// Each store has its own connections, as another process would.
    fn store(&self) -> Arc<dyn Backend> {
        let path = self.folder.path().join("rethread.db");
        Arc::new(SqliteStore::open(&path, self.world.clone()).expect("a store"))
    }

    fn world(&self) -> Arc<Fixed> {
        self.world.clone()
    }
}

rethread_core::conformance!(sqlite, Sqlite::new());

struct Files {
    folder: tempfile::TempDir,
    world: Arc<Fixed>,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Files { folder, world: Arc::new(Fixed::default()) }
    }
}

impl Factory for Files {
    /// Each store has its own lock and its own memory, as another process would.
    fn store(&self) -> Arc<dyn Backend> {
        let path = self.folder.path().join("sessions");
        let store = FilesStore::open(&path, FilesLimit::default(), self.world.clone());
        Arc::new(store.expect("a store"))
    }

    fn world(&self) -> Arc<Fixed> {
        self.world.clone()
    }
}

rethread_core::conformance!(files, Files::new());
