//! The PostgreSQL store, on a server that these tests start themselves.

mod conformance;
mod damage;
mod encrypted;
mod errors;
mod faults;
mod open;
mod plans;
mod processes;

use std::sync::LazyLock;

use rethread_store::testing::Cluster;

/// One server for all tests of this program. It ends with the program.
static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);
