//! Two servers, one session, and everything that can go wrong between them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use rethread_core::{Header, Owner, SessionId, Store, World};
use rethread_store::testing::{Cluster, Proxy, Settings};
use rethread_store::{PostgresStore, System};
use serde_json::json;

use crate::found;
use crate::history::{Acknowledged, check};
use crate::served::{Served, ask};

const WRITERS: usize = 64;
const EACH: usize = 20;

/// Attempts for one append. A server that was killed is back within a few.
const TRIES: usize = 600;

pub(crate) fn protected() -> Result<String, String> {
    run(true)
}

pub(crate) fn control() -> Result<String, String> {
    found(run(false))
}

/// A random source that can be replayed from its seed, which is printed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn run(same_ids: bool) -> Result<String, String> {
    let cluster = Cluster::with(Settings { fsync: true, ..Settings::default() });
    let url = cluster.database();
    let store = PostgresStore::open(&url).map_err(|e| e.to_string())?;
    let header = Header::new(SessionId(System.uuid()), Owner::local(), System.now());
    store.create(&header, &[], &[]).map_err(|e| e.to_string())?;
    let home = tempfile::tempdir().map_err(|e| e.to_string())?;
    let proxies = [Proxy::new(cluster.port()), Proxy::new(cluster.port())];
    let start = |which: usize| Served::start(home.path(), &proxies[which].through(&url), &[], &[]);
    let servers = [RwLock::new(start(0)), RwLock::new(start(1))];
    let address = |which: usize| {
        servers[which].read().unwrap_or_else(PoisonError::into_inner).address.clone()
    };
    let (acknowledged, done) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let (given_up, faults) = (AtomicBool::new(false), AtomicUsize::new(0));
    let seed = System.now().as_millisecond().unsigned_abs();
    println!("    seed {seed}");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (acknowledged, done, given_up, address) =
                (&acknowledged, &done, &given_up, &address);
            scope.spawn(move || {
                for index in 0..EACH {
                    let text = format!("{writer}-{index}");
                    match say(header.id, writer, &text, same_ids, address) {
                        Some(seq) => {
                            let mut all =
                                acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
                            all.push(Acknowledged { writer, text, seq });
                        }
                        None => given_up.store(true, Ordering::SeqCst),
                    }
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut dice = Dice(seed);
        while done.load(Ordering::SeqCst) < WRITERS {
            std::thread::sleep(Duration::from_millis(50 + dice.below(150)));
            let which = usize::try_from(dice.below(2)).unwrap_or_default();
            match dice.below(4) {
                0 => {
                    let mut server = servers[which].write().unwrap_or_else(PoisonError::into_inner);
                    server.signal("KILL");
                    // A server that starts and finds no database says so and ends; this run is
                    // about servers that have started.
                    proxies[which].cut_answer(0);
                    *server = start(which);
                }
                1 => {
                    let server = servers[which].read().unwrap_or_else(PoisonError::into_inner);
                    server.signal("STOP");
                    std::thread::sleep(Duration::from_millis(100 + dice.below(400)));
                    server.signal("CONT");
                }
                2 => proxies[which].cut(),
                _ => proxies[which].cut_answer(1 + u32::try_from(dice.below(20)).unwrap_or(0)),
            }
            faults.fetch_add(1, Ordering::SeqCst);
        }
    });
    if given_up.load(Ordering::SeqCst) {
        return Err("a writer gave up".into());
    }
    let acknowledged = acknowledged.into_inner().unwrap_or_else(PoisonError::into_inner);
    let said = check(&store, header.id, &acknowledged)?;
    Ok(format!("{said}; {} faults", faults.load(Ordering::SeqCst)))
}

/// Sends one message until a server acknowledges it, and returns its position.
fn say(
    id: SessionId,
    writer: usize,
    text: &str,
    same_ids: bool,
    address: &dyn Fn(usize) -> String,
) -> Option<u64> {
    for attempt in 0..TRIES {
        let entry = match same_ids {
            true => text.to_owned(),
            false => format!("{text}-{attempt}"),
        };
        let body = json!({ "messages": [{ "role": "user", "content": text, "id": entry }] });
        let path = format!("/v1/sessions/{id}/entries");
        match ask(&address((writer + attempt) % 2), "POST", &path, Some(&body)) {
            Some((200, answer)) => return answer["seqs"][0].as_u64(),
            // If a server is down, busy or cannot reach the database, the other one may.
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    None
}
