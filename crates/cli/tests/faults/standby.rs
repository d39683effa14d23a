//! The primary dies, its standby takes over, and nothing that was acknowledged is lost.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rethread_core::measure::measure;
use rethread_core::store::At;
use rethread_core::{Body, EntryId, Header, Message, NewEntry, Owner, SessionId, Store, World};
use rethread_store::testing::{Cluster, Settings};
use rethread_store::{PostgresStore, System};

use crate::found;
use crate::history::{Acknowledged, check};

const ROUNDS: usize = 20;
const WRITERS: usize = 4;

/// Acknowledged appends before the primary is killed.
const ENOUGH: usize = 100;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn protected() -> Result<String, String> {
    let mut all = 0;
    for round in 0..ROUNDS {
        all += fail_over(true).map_err(|said| format!("round {round}: {said}"))?;
    }
    Ok(format!("{ROUNDS} times, {all} acknowledged, 0 lost"))
}

pub(crate) fn control() -> Result<String, String> {
    found(fail_over(false).map(|all| format!("{all} acknowledged")))
}

fn fail_over(wait_for_it: bool) -> Result<usize, String> {
    let more: &[&str] = match wait_for_it {
        true => &["wal_level=replica", "synchronous_standby_names=one"],
        false => &["wal_level=replica"],
    };
    let primary = Cluster::with(Settings { fsync: true, more });
    // The setup does not wait for a standby, because there is none yet.
    primary.sql("postgres", "SET synchronous_commit = local; CREATE DATABASE chat");
    let standby = primary.standby("one", Settings { fsync: true, more: &[] });
    wait(|| primary.sql("postgres", "SELECT count(*) FROM pg_stat_replication") == "1")?;
    if wait_for_it {
        let synced = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        wait(|| primary.sql("postgres", synced) == "1")?;
    }
    let store = PostgresStore::open(&primary.url("chat")).map_err(|e| e.to_string())?;
    let header = Header::new(SessionId(System.uuid()), Owner::local(), System.now());
    store.create(&header, &[], &[]).map_err(|e| e.to_string())?;
    if !wait_for_it {
        // Replication is stopped once the tables have arrived.
        let there = || standby.try_sql("chat", "SELECT count(*) FROM rethread_sessions");
        wait(|| there().is_ok_and(|count| count == "1"))?;
        cut_off(&standby)?;
    }
    let acknowledged = Mutex::new(Vec::new());
    let killed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, acknowledged, killed) = (&store, &acknowledged, &killed);
            scope.spawn(move || {
                for index in 0.. {
                    let text = format!("{writer}-{index}");
                    let body = Body::Message(Message::user(text.clone()));
                    let measure = measure(&body, |_| None);
                    let id = EntryId::new(text.clone()).expect("an id");
                    let entry = NewEntry { id, at: System.now(), body, measure };
                    let Ok(seqs) = store.append(&Owner::local(), header.id, At::END, &[entry])
                    else {
                        return;
                    };
                    let seq = seqs.seqs[0];
                    acknowledged.lock().expect("no panic").push(Acknowledged { writer, text, seq });
                    if killed.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        let began = Instant::now();
        while acknowledged.lock().expect("no panic").len() < ENOUGH && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nobody needs to wait for this primary to come back.
        store.faults().try_once(true);
        killed.store(true, Ordering::SeqCst);
        primary.kill();
    });
    let acknowledged = acknowledged.into_inner().expect("no panic");
    if acknowledged.len() < ENOUGH {
        return Err(format!("only {} appends were acknowledged", acknowledged.len()));
    }
    standby.promote();
    let store = PostgresStore::open(&standby.url("chat")).map_err(|e| e.to_string())?;
    check(&store, header.id, &acknowledged)?;
    Ok(acknowledged.len())
}

fn wait(condition: impl Fn() -> bool) -> Result<(), String> {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > PATIENCE {
            return Err("a server did not become ready".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Stops replication to a standby.
fn cut_off(standby: &Cluster) -> Result<(), String> {
    standby.sql("postgres", "ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()");
    wait(|| standby.sql("postgres", "SELECT count(*) FROM pg_stat_wal_receiver") == "0")
}
