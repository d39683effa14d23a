//! The contract of a store, at both ends of what an engine may promise about transactions.

use std::sync::Arc;

use rethread_core::conformance::Factory;
use rethread_core::{Backend, Fixed};
use rethread_store::PostgresStore;

use crate::CLUSTER;

struct Postgres {
    url: String,
    world: Arc<Fixed>,
}

impl Postgres {
    fn new() -> Postgres {
        Postgres { url: CLUSTER.database(), world: Arc::new(Fixed::default()) }
    }

    /// A database where every transaction is as strict as CockroachDB's: PostgreSQL refuses with
    /// 40001 what others would have let through.
    fn serializable() -> Postgres {
        let place = Postgres::new();
        let name = place.url.rsplit('/').next().expect("a database");
        let sql =
            format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'");
        CLUSTER.sql("postgres", &sql);
        place
    }
}

impl Factory for Postgres {
    /// Each store has its own connections, as another machine would.
    fn store(&self) -> Arc<dyn Backend> {
        Arc::new(PostgresStore::open_at(&self.url, self.world.clone()).expect("a store"))
    }

    fn world(&self) -> Arc<Fixed> {
        self.world.clone()
    }
}

rethread_core::conformance!(postgres, Postgres::new());
rethread_core::conformance!(serializable, Postgres::serializable());
