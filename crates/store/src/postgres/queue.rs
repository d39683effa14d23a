//! Appends started by callers that do not wait.
//!
//! A few threads of the store run them. Those of one session go to the same thread, so that they
//! keep the order in which they were started; others run in parallel.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rethread_core::StoreError;
use rethread_core::store::OnAppended;

use super::Db;
use super::append::{ACTION, Request};

/// Appends in progress at once.
const THREADS: usize = 8;

/// Length of each thread's queue. When it is full, callers block, so that memory does not grow with
/// a burst.
const WAITING_MAX: usize = 512;

/// The threads, started when first needed.
#[derive(Default)]
pub(super) struct Queue(Mutex<Vec<Lane>>);

struct Lane {
    sender: Option<SyncSender<(Request, OnAppended)>>,
    thread: Option<JoinHandle<()>>,
}

impl Queue {
    /// Appends, and reports the result to a callback.
    pub(super) fn append_then(&self, db: &Arc<Db>, request: Request, then: OnAppended) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(request.id);
        let lane = hash as usize % THREADS;
        let sender = {
            let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if lanes.is_empty() {
                lanes.extend((0..THREADS).map(|_| Lane::new(db)));
            }
            lanes[lane].sender.clone()
        };
        let Some(sender) = sender else { return then(Err(no_thread())) };
        if let Err(unsent) = sender.send((request, then)) {
            (unsent.0.1)(Err(no_thread()));
        }
    }
}

impl Lane {
    fn new(db: &Arc<Db>) -> Lane {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let db = db.clone();
        let thread = std::thread::Builder::new().name("rethread-append".into());
        let thread = thread.spawn(move || run(&db, &receiver)).ok();
        Lane { sender: thread.is_some().then_some(sender), thread }
    }
}

fn run(db: &Db, receiver: &Receiver<(Request, OnAppended)>) {
    while let Ok((request, then)) = receiver.recv() {
        let outcome = db.append(&request);
        // A callback may panic; the others must still be called.
        drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| then(outcome))));
    }
}

fn no_thread() -> StoreError {
    let source = "its thread is gone".into();
    StoreError::Backend { store: "postgres", action: ACTION, source }
}

impl Drop for Queue {
    /// Everything that was started is finished first.
    fn drop(&mut self) {
        let lanes = std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        for mut lane in lanes {
            lane.sender = None;
            if let Some(thread) = lane.thread.take()
                && thread.join().is_err()
            {
                // Its panic was reported; there is nothing left to finish.
            }
        }
    }
}
