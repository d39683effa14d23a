//! Opening a database: by many at once, from anywhere, and what is refused.

use std::sync::{Arc, Barrier};

use rethread_core::store::At;
use rethread_core::{Header, Owner, SessionId, Store, StoreError, World};
use rethread_store::{ConnectError, PostgresStore, System};

use crate::CLUSTER;

pub(crate) fn name_of(url: &str) -> &str {
    url.rsplit('/').next().expect("a database")
}

#[test]
fn ten_servers_may_set_up_a_new_database_at_once() {
    const RIVALS: usize = 10;
    let mut refused = Vec::new();
    for round in 0..5 {
        let url = CLUSTER.database();
        let barrier = Barrier::new(RIVALS);
        std::thread::scope(|scope| {
            let open = || {
                barrier.wait();
                PostgresStore::open(&url).map(drop)
            };
            let threads: Vec<_> = (0..RIVALS).map(|_| scope.spawn(open)).collect();
            for thread in threads {
                if let Err(error) = thread.join().expect("no rival panics") {
                    refused.push(format!("round {round}: {error:?}"));
                }
            }
        });
        let tables = CLUSTER.sql(
            name_of(&url),
            "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'rethread\\_%'; \
             SELECT what, format FROM rethread_store",
        );
        assert_eq!(tables, "9\nstore|3", "round {round}");
    }
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn a_newer_format_and_somebody_elses_tables_are_refused_and_left_alone() {
    let url = CLUSTER.database();
    drop(PostgresStore::open(&url).expect("a store"));
    CLUSTER.sql(name_of(&url), "UPDATE rethread_store SET format = 99");
    let error = PostgresStore::open(&url).map(drop).expect_err("newer");
    let newer = matches!(error, ConnectError::Store(StoreError::Newer { found: 99, known: 3, .. }));
    assert!(newer, "{error:?}");

    for theirs in [
        "CREATE TABLE rethread_store (id int)",
        "CREATE TABLE rethread_keys (id int)",
        "CREATE TABLE rethread_store (what text PRIMARY KEY, format bigint); \
         INSERT INTO rethread_store VALUES ('store', -3)",
    ] {
        let url = CLUSTER.database();
        CLUSTER.sql(name_of(&url), theirs);
        let error = PostgresStore::open(&url).map(drop).expect_err(theirs);
        assert!(
            matches!(error, ConnectError::Store(StoreError::NotAStore { .. })),
            "{theirs}: {error:?}"
        );
        let tables = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'rethread\\_sessions%'";
        assert_eq!(CLUSTER.sql(name_of(&url), tables), "0", "{theirs}");
    }
}

#[test]
fn a_role_that_may_not_create_tables_can_use_them() {
    let url = CLUSTER.database();
    drop(PostgresStore::open(&url).expect("a store"));
    let name = name_of(&url);
    CLUSTER.sql(
        name,
        &format!(
            "CREATE ROLE plain_{name} LOGIN; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain_{name}"
        ),
    );
    let url = url.replace("rethread@", &format!("plain_{name}@"));
    let store = PostgresStore::open(&url).expect("opened");
    let header = Header::new(SessionId(System.uuid()), Owner::local(), System.now());
    store.create(&header, &[], &[]).expect("created");
}

/// A store is dropped wherever the last one who has it happens to be.
#[test]
fn a_store_may_be_used_and_dropped_inside_of_a_runtime() {
    let url = CLUSTER.database();
    for builder in [
        tokio::runtime::Builder::new_current_thread,
        tokio::runtime::Builder::new_multi_thread as fn() -> tokio::runtime::Builder,
    ] {
        let runtime = builder().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let store = Arc::new(PostgresStore::open(&url).expect("opened"));
            let header = Header::new(SessionId(System.uuid()), Owner::local(), System.now());
            store.create(&header, &[], &[]).expect("created");
            let begun = store.clone();
            let done = tokio::task::spawn_blocking(move || {
                begun.append(&Owner::local(), header.id, At::END, &[])
            });
            done.await.expect("no panic").expect("appended");
            drop(store);
        });
    }
}

/// Leases are counted on the clock of the database, whatever the machine of a server believes.
#[test]
fn a_lease_is_counted_on_the_clock_of_the_database() {
    let url = CLUSTER.database();
    let store = PostgresStore::open(&url).expect("a store");
    let header = Header::new(SessionId(System.uuid()), Owner::local(), System.now());
    store.create(&header, &[], &[]).expect("created");
    let ttl = std::time::Duration::from_secs(30);
    let lease = store.lease(&Owner::local(), header.id, "me", ttl).expect("leased");
    let sql = format!(
        "SELECT until = {} AND until BETWEEN now AND now + 30000 FROM rethread_sessions, \
         (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) n",
        lease.until.as_millisecond()
    );
    assert_eq!(CLUSTER.sql(name_of(&url), &sql), "t");
}
