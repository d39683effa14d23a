//! The contract of a store, run on SQLite.

use std::sync::Arc;

use rethread_core::conformance::Place;
use rethread_core::{Backend, Fixed};
use rethread_store::SqliteStore;

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

impl Place for Sqlite {
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
