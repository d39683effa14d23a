//! Lost responses and transactions, and no other effect.

use rethread_core::measure::measure;
use rethread_core::search::Query;
use rethread_core::store::{At, Bind, Change, Filter, LeaseChange, Search, Upkeep};
use rethread_core::{
    Body, EntryId, Header, Key, Message, Name, NewEntry, Owner, ProfileChange, SessionId, Store,
    StoreError, World,
};
use rethread_store::testing::{Cluster, Proxy};
use rethread_store::{PostgresStore, System};

use crate::CLUSTER;

fn said(id: &str) -> NewEntry {
    let body = Body::Message(Message::user(format!("zebra {id}")));
    let measure = measure(&body, |_| None);
    NewEntry { id: EntryId::new(id).expect("an id"), at: System.now(), body, measure }
}

fn owner() -> Owner {
    Owner::local()
}

/// Every operation of a store, once: each step returns and stores what it should.
struct Walk {
    id: SessionId,
    other: SessionId,
}

type Step = fn(&PostgresStore, &Walk) -> Result<(), StoreError>;

const STEPS: [(&str, Step); 13] = [
    ("create", |store, walk| {
        let mut header = Header::new(walk.id, owner(), System.now());
        header.created_at = jiff::Timestamp::UNIX_EPOCH;
        header.name = Name::new("walk").expect("a name");
        let bind = [Bind { key: Key::new("file:a").expect("a key"), seen: None }];
        let session = store.create(&header, &[said("first")], &bind)?;
        assert_eq!((session.tally.entries, session.keys.len()), (1, 1));
        Ok(())
    }),
    ("append", |store, walk| {
        assert_eq!(
            store.append(&owner(), walk.id, At::head(1), &[said("a"), said("b")])?.seqs,
            [1, 2]
        );
        Ok(())
    }),
    ("append at once", |store, walk| {
        assert_eq!(store.append(&owner(), walk.id, At::END, &[said("c")])?.seqs, [3]);
        Ok(())
    }),
    ("append begun", |store, walk| {
        let (tell, told) = std::sync::mpsc::channel();
        let then = Box::new(move |outcome| tell.send(outcome).expect("somebody waits"));
        store.append_then(&owner(), walk.id, At::END, vec![said("d")], then);
        assert_eq!(told.recv().expect("an outcome")?.seqs, [4]);
        Ok(())
    }),
    ("lease", |store, walk| {
        let hour = std::time::Duration::from_secs(3600);
        let lease = store.lease(&owner(), walk.id, "me", hour)?;
        assert_eq!(lease.fence, 1, "a lease is taken once");
        let at = At { fence: Some(lease.fence), ..At::head(5) };
        assert_eq!(store.append(&owner(), walk.id, at, &[said("e")])?.seqs, [5]);
        Ok(())
    }),
    ("give back", |store, walk| {
        store.lease(&owner(), walk.id, "me", std::time::Duration::ZERO).map(drop)
    }),
    ("turn", |store, walk| {
        let hour = std::time::Duration::from_secs(3600);
        let lease = LeaseChange::Take { holder: "me".into(), ttl: hour };
        let first = store.append(&owner(), walk.id, At { lease, ..At::head(6) }, &[said("f")])?;
        assert_eq!(first.seqs, [6]);
        let fence = first.lease.map(|lease| lease.fence);
        assert_eq!(fence, Some(2), "a lease is taken once");
        let last = At { fence, lease: LeaseChange::GiveBack, ..At::head(7) };
        assert_eq!(store.append(&owner(), walk.id, last, &[said("g")])?.seqs, [7]);
        Ok(())
    }),
    ("update", |store, walk| {
        let change: Change =
            ProfileChange { description: Some(Some("it".into())), ..ProfileChange::default() }
                .into();
        let session = store.update(&owner(), walk.id, &change)?;
        assert_eq!(session.header.profile.description.as_deref(), Some("it"));
        Ok(())
    }),
    ("bind", |store, walk| {
        store.create(&Header::new(walk.other, owner(), System.now()), &[], &[])?;
        let bind = Bind { key: Key::new("file:a").expect("a key"), seen: Some(walk.id) };
        store.bind(&owner(), &bind, Some(walk.other))
    }),
    ("read", |store, walk| {
        let ids: Vec<String> = store
            .read(&owner(), walk.id, 0..99)?
            .into_iter()
            .map(|entry| entry.id.as_str().to_owned())
            .collect();
        assert_eq!(ids, ["first", "a", "b", "c", "d", "e", "f", "g"]);
        Ok(())
    }),
    ("list", |store, _| {
        assert_eq!(store.list(&owner(), &Filter::default(), None, 9)?.sessions.len(), 2);
        Ok(())
    }),
    ("search", |store, _| {
        assert_eq!(store.search(&owner(), &Query::new("zebra").expect("a query"), 0, 99)?.len(), 8);
        Ok(())
    }),
    ("delete", |store, walk| {
        store.delete(&owner(), walk.other, None)?;
        assert_eq!(store.resolve(&owner(), &Key::new("file:a").expect("a key"))?, None);
        Ok(())
    }),
];

fn walk() -> Walk {
    Walk { id: SessionId(System.uuid()), other: SessionId(System.uuid()) }
}

fn is_sound(store: &PostgresStore, walk: &Walk) {
    assert_eq!(store.check(false).expect("checked"), []);
    assert_eq!(store.check_session(&owner(), walk.id, false).expect("checked"), []);
    assert_eq!(store.get(&owner(), walk.id).expect("there").tally.entries, 8);
}

/// At the first statement of each step, then at the second, until a step has no more.
#[test]
fn a_transaction_the_server_takes_back_at_any_statement_is_tried_again() {
    let mut faults = 0;
    for statement in 1.. {
        let url = CLUSTER.database();
        let store = PostgresStore::open(&url).expect("a store");
        let walk = walk();
        let mut struck = 0;
        for (name, step) in STEPS {
            store.faults().fail_at(statement);
            step(&store, &walk).unwrap_or_else(|error| panic!("{name} at {statement}: {error:?}"));
            struck += usize::from(!store.faults().is_waiting());
            store.faults().fail_at(0);
        }
        is_sound(&store, &walk);
        faults += struck;
        if struck == 0 {
            break;
        }
        assert!(statement < 100, "a step has no end");
    }
    assert!(faults > 40, "only {faults} faults happened");
}

/// The control: without a retry, the same fault reaches the caller.
#[test]
fn a_transaction_the_server_rolls_back_is_lost_without_a_retry() {
    let store = PostgresStore::open(&CLUSTER.database()).expect("a store");
    let walk = walk();
    store.faults().try_once(true);
    store.faults().fail_at(1);
    let error = STEPS[0].1(&store, &walk).expect_err("refused");
    assert!(matches!(error, StoreError::Backend { .. }), "{error:?}");
}

/// The server commits, and the response is lost.
#[test]
fn an_answer_lost_after_any_exchange_doubles_and_loses_nothing() {
    let mut lost = 0;
    for question in 1.. {
        let url = CLUSTER.database();
        let proxy = Proxy::new(CLUSTER.port());
        let store = PostgresStore::open(&proxy.through(&url)).expect("a store");
        let walk = walk();
        let mut cut = 0;
        for (name, step) in STEPS {
            proxy.cut_answer(question);
            step(&store, &walk).unwrap_or_else(|error| panic!("{name} at {question}: {error:?}"));
            cut += usize::from(!proxy.is_waiting());
            proxy.cut_answer(0);
        }
        is_sound(&store, &walk);
        lost += cut;
        if cut == 0 {
            break;
        }
        assert!(question < 200, "a step has no end");
    }
    assert!(lost > 30, "only {lost} answers were lost");
}

/// A request that fails because the server is shutting down is retried, and is not an error.
#[test]
fn a_server_that_goes_down_right_after_its_answer_doubles_and_refuses_nothing() {
    let mut met = 0;
    for question in 1.. {
        let url = CLUSTER.database();
        let proxy = Proxy::new(CLUSTER.port());
        let store = PostgresStore::open(&proxy.through(&url)).expect("a store");
        let walk = walk();
        let mut here = 0;
        for (name, step) in STEPS {
            proxy.say_goodbye(question);
            step(&store, &walk).unwrap_or_else(|error| panic!("{name} at {question}: {error:?}"));
            here += usize::from(!proxy.is_waiting());
            proxy.cut_answer(0);
        }
        is_sound(&store, &walk);
        met += here;
        if here == 0 {
            break;
        }
        assert!(question < 200, "a step has no end");
    }
    assert!(met > 30, "only {met} goodbyes were said");
}

/// The control: with a new id for each attempt, the entry is stored twice.
#[test]
fn an_answer_lost_after_the_commit_doubles_what_has_no_id_of_its_own() {
    let url = CLUSTER.database();
    let proxy = Proxy::new(CLUSTER.port());
    let store = PostgresStore::open(&proxy.through(&url)).expect("a store");
    let walk = walk();
    STEPS[0].1(&store, &walk).expect("created");
    STEPS[1].1(&store, &walk).expect("appended");
    store.faults().try_once(true);
    proxy.cut_answer(1);
    store.append(&owner(), walk.id, At::END, &[said("one try")]).expect_err("no answer");
    store.append(&owner(), walk.id, At::END, &[said("another")]).expect("appended");
    assert_eq!(store.get(&owner(), walk.id).expect("there").tally.entries, 5, "it is stored twice");
}

/// The server commits, stops waiting for its standby, and only warns about it.
#[test]
fn a_commit_that_did_not_wait_for_its_standby_counts_as_not_stored() {
    use std::time::{Duration, Instant};
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.database()).expect("a store");
    let walk = walk();
    STEPS[0].1(&store, &walk).expect("created");
    STEPS[1].1(&store, &walk).expect("appended");
    let wait_for = |standbys: &str| {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{standbys}'");
        cluster.sql("postgres", &format!("{set}; SELECT pg_reload_conf()"));
        let began = Instant::now();
        while cluster.sql("postgres", "SHOW synchronous_standby_names") != standbys {
            assert!(began.elapsed() < Duration::from_secs(60), "the setting is not read");
        }
    };
    wait_for("nobody");
    let append = || store.append(&owner(), walk.id, At::END, &[said("c")]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(append);
        let began = Instant::now();
        // A commit that waits for a missing standby is cancelled.
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity \
                      WHERE wait_event = 'SyncRep'";
        while cluster.sql("postgres", cancel) == "0" {
            assert!(began.elapsed() < Duration::from_secs(60), "nobody waits for the standby");
        }
        let error = waiting.join().expect("no panic").expect_err("not stored");
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert!(source.is_some_and(|text| text.contains("standby")), "{error:?}");
    });
    // The retry is safe, and acknowledged only when it is replicated.
    wait_for("");
    assert_eq!(append().expect("stored").seqs, [3]);
    assert_eq!(store.get(&owner(), walk.id).expect("there").tally.entries, 4);
}
