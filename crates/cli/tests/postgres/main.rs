//! The real binary on a PostgreSQL server that these tests start themselves.

mod commands;
mod example;
mod served;
mod servers;
mod trouble;

use std::sync::LazyLock;

use rethread_store::testing::Cluster;

/// One server for all tests of this program. It ends with the program.
static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);
