//! Opening a database: concurrently, from any thread, and what is refused.

use std::sync::{Arc, Barrier};

use rethread_core::store::At;
use rethread_core::{Header, Message, New, Owner, SessionId, Sessions, Store, StoreError, World};
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

/// What a database of format 2 had instead of today's index: other terms, without the
/// speaker.
const AS_FORMAT_2: &str = "DROP TABLE rethread_search; \
    CREATE TABLE rethread_search (owner text NOT NULL, session uuid NOT NULL, seq bigint NOT NULL, \
      at bigint NOT NULL, words tsvector NOT NULL, PRIMARY KEY (owner, session, seq)); \
    CREATE INDEX rethread_search_words ON rethread_search USING gin (words); \
    INSERT INTO rethread_search SELECT owner, id, 0, last_at, 'forgotten'::tsvector \
      FROM rethread_sessions; \
    UPDATE rethread_sessions SET indexed = 2; DELETE FROM rethread_unsearched; \
    UPDATE rethread_store SET format = 2";

#[test]
fn a_database_of_format_2_gets_another_index_and_keeps_everything() {
    let url = CLUSTER.database();
    let open = || {
        let store = Arc::new(PostgresStore::open(&url).expect("a store"));
        Sessions::new(store, Owner::local(), Arc::new(System))
    };
    let before = open();
    let said = || vec![Message::user("日本語の質問").into(), Message::assistant("a zebra").into()];
    let create = |_| before.create_with(&New::default(), None, said()).expect("created").0.id();
    let ids: Vec<SessionId> = (0..3).map(create).collect();
    let read = |sessions: &Sessions, id| sessions.read(id, 0..9).expect("read");
    let entries: Vec<_> = ids.iter().map(|id| read(&before, *id)).collect();
    drop(before);
    CLUSTER.sql(name_of(&url), AS_FORMAT_2);
    // One that died after it had replaced the index, and then several servers at once.
    for begun in ["", "DROP TABLE rethread_search; UPDATE rethread_store SET format = 2"] {
        CLUSTER.sql(name_of(&url), begun);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(open);
            }
        });
        let sessions = open();
        assert_eq!(CLUSTER.sql(name_of(&url), "SELECT format FROM rethread_store"), "3");
        let found = |word: &str| sessions.search(word, 0, 9).expect("searched").len();
        assert_eq!((found("forgotten"), found("質問"), found("zeb*")), (0, 3, 3), "{begun}");
        for (id, entries) in ids.iter().zip(&entries) {
            assert_eq!(read(&sessions, *id), *entries);
        }
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

/// A store is dropped on the thread of its last user.
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

/// Leases use the clock of the database, not that of the machine.
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
