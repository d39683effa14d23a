//! What errors say, and what they never reveal.

use rethread_core::StoreError;
use rethread_store::testing::{Cluster, Settings};
use rethread_store::{ConnectError, PostgresStore};

use crate::CLUSTER;
use crate::open::name_of;

/// The error and its causes, as users see them.
fn said(url: &str) -> (StoreError, String) {
    use std::error::Error;
    let error = match PostgresStore::open(url) {
        Ok(_) => panic!("{url} was opened"),
        Err(ConnectError::Store(error)) => error,
        Err(error) => panic!("{error}"),
    };
    let mut text = format!("{error}; {error:?}");
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!("; {cause}"));
        source = cause.source();
    }
    (error, text)
}

#[test]
fn a_server_that_cannot_be_used_is_reported_with_the_cause() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let began = std::time::Instant::now();
    let (error, text) = said(&format!("postgres://ada:secret@127.0.0.1:{port}/chat"));
    assert!(matches!(error, StoreError::Unreachable { .. }), "{text}");
    assert!(text.contains("refused") && !text.contains("secret"), "{text}");
    assert!(began.elapsed().as_secs() < 15, "there is no wait for a server that never existed");

    let (error, text) = said(&CLUSTER.url("no_such_database"));
    assert!(matches!(error, StoreError::Unreachable { .. }), "{text}");
    assert!(text.contains("database \"no_such_database\" does not exist"), "{text}");

    let (error, text) = said(&CLUSTER.url("postgres").replace("rethread@", "nobody-here:secret@"));
    assert!(matches!(error, StoreError::Unreachable { .. }), "{text}");
    assert!(text.contains("role \"nobody-here\" does not exist"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_wrong_password_is_reported_and_not_retried() {
    let cluster = Cluster::start();
    cluster.sql(
        "postgres",
        "ALTER ROLE rethread PASSWORD 'right'; CREATE ROLE ada LOGIN PASSWORD 'right'",
    );
    let file = cluster.sql("postgres", "SHOW hba_file");
    std::fs::write(
        file,
        "host all ada 127.0.0.1/32 scram-sha-256\nhost all rethread 127.0.0.1/32 trust\n",
    )
    .expect("the rules can be written");
    cluster.sql("postgres", "SELECT pg_reload_conf()");
    let url =
        |password: &str| cluster.url("postgres").replace("rethread@", &format!("ada:{password}@"));
    // The server reloads its rules a moment later.
    let began = std::time::Instant::now();
    let text = loop {
        match PostgresStore::open(&url("sesame")) {
            Err(_) => break said(&url("sesame")).1,
            Ok(_) => assert!(began.elapsed().as_secs() < 60, "the rules are not read"),
        }
    };
    assert!(text.contains("password authentication failed for user \"ada\""), "{text}");
    assert!(!text.contains("sesame"), "{text}");
    cluster
        .sql("postgres", "GRANT ALL ON SCHEMA public TO ada; DROP TABLE IF EXISTS rethread_store");
    PostgresStore::open(&url("right")).map(drop).expect("the right one opens it");
}

#[test]
fn a_url_that_means_nothing_is_reported_without_its_secrets() {
    for (url, expected) in [
        (
            "postgres://ada:secret@db/chat?sslmode=maybe",
            "`sslmode=maybe` is not an option of a store",
        ),
        ("postgres://ada:secret@db/chat?colour=red", "`colour` is not an option of a store"),
        ("postgres://ada:secret@db:port/chat", "`port=…` is not an option of a store"),
        ("postgres://ada:secret@db/chat?secret", "`?…` is not an option of a store"),
    ] {
        let error = PostgresStore::open(url).map(drop).expect_err(url);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_standby_is_read_and_not_written() {
    use rethread_core::search::Query;
    use rethread_core::store::{At, Filter, Search};
    use rethread_core::{Header, Owner, SessionId, Store, World};
    let primary = Cluster::with(Settings { more: &["wal_level=replica"], ..Settings::default() });
    let url = primary.database();
    let store = PostgresStore::open(&url).expect("a store");
    let world = rethread_store::System;
    let header = Header::new(SessionId(world.uuid()), Owner::local(), world.now());
    store.create(&header, &[], &[]).expect("created");
    let standby = primary.standby("one", Settings::default());
    let follower = PostgresStore::open(&standby.url(name_of(&url))).expect("it can be read");
    let page = follower.list(&Owner::local(), &Filter::default(), None, 9).expect("listed");
    assert_eq!(page.sessions.len(), 1);
    assert_eq!(
        follower
            .search(&Owner::local(), &Query::new("zebra").expect("a query"), 0, 9)
            .expect("searched"),
        []
    );
    let error = follower.append(&Owner::local(), header.id, At::END, &[]).expect_err("refused");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("{} cannot be written to", standby.url(name_of(&url))));
}
