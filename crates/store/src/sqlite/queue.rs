//! Group commit: appends that come while one is being synced share the next transaction.
//!
//! An append that finds nobody writing does it at once, on its own thread, so a lone writer pays
//! for no other thread. The others wait in a queue, and a thread of the store takes all of them
//! into one transaction. Each is checked by itself inside that transaction: one that is refused
//! leaves the others as they are. All are answered after the commit.

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rethread_core::StoreError;
use rethread_core::store::{Appended, OnAppended, Result};

use super::Db;
use super::append::Request;

/// Appends taken into one transaction. Enough to make a sync cheap, few enough that the first
/// of them does not wait long for the last.
const GROUP_MAX: usize = 256;

/// Appends that may wait. Beyond that callers block, so that memory does
/// not grow with a burst.
const WAITING_MAX: usize = 16 * GROUP_MAX;

/// The appends on their way.
pub(super) struct Queue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    db: Arc<Db>,
    state: Mutex<State>,
    /// There is something to write.
    work: Condvar,
    /// There is room for more.
    room: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<(Request, OnAppended)>,
    /// Someone is writing, or the thread is about to.
    busy: bool,
    closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a write: hands over to the thread if others wait.
    fn done(&self) {
        let mut state = self.state();
        match state.waiting.is_empty() {
            true => state.busy = false,
            false => self.work.notify_one(),
        }
    }

    /// Writes a group. A panic in it took the transaction back, and is everybody's failure; those
    /// who come later are served as if nothing had been.
    fn write(&self, requests: &[Request]) -> Vec<Result<Appended>> {
        let write = std::panic::AssertUnwindSafe(|| self.db.append_group(requests));
        std::panic::catch_unwind(write).unwrap_or_else(|_| {
            self.db.ends().forget();
            let failed = || "the append panicked; nothing of it was stored".into();
            let error =
                || StoreError::Backend { store: "sqlite", action: "append", source: failed() };
            requests.iter().map(|_| Err(error())).collect()
        })
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            while state.waiting.is_empty() || !state.busy {
                if state.closed && state.waiting.is_empty() {
                    return;
                }
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let group = state.waiting.len().min(GROUP_MAX);
            let group: Vec<(Request, OnAppended)> = state.waiting.drain(..group).collect();
            drop(state);
            let (requests, thens): (Vec<Request>, Vec<OnAppended>) = group.into_iter().unzip();
            let outcomes = self.write(&requests);
            for (then, outcome) in thens.into_iter().zip(outcomes) {
                // A callback may panic; the others must still be called.
                let call = std::panic::AssertUnwindSafe(|| then(outcome));
                drop(std::panic::catch_unwind(call));
            }
            state = self.state();
            self.room.notify_all();
            if state.waiting.is_empty() {
                state.busy = false;
            }
        }
    }
}

impl Queue {
    pub(super) fn new(db: Arc<Db>) -> Result<Queue> {
        let (state, work, room) = (Mutex::default(), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { db, state, work, room });
        let worker = shared.clone();
        let thread = std::thread::Builder::new().name("rethread-writer".into());
        let thread = thread.spawn(move || worker.run()).map_err(|error| StoreError::Backend {
            store: "sqlite",
            action: "start its writing thread",
            source: error.into(),
        })?;
        Ok(Queue { shared, thread: Some(thread) })
    }

    /// Appends, and waits until it is on disk or refused.
    pub(super) fn append(&self, request: Request) -> Result<Appended> {
        let mut state = self.shared.state();
        if !state.busy {
            state.busy = true;
            drop(state);
            let guard = Done(&self.shared);
            let outcome = self.shared.write(std::slice::from_ref(&request)).pop();
            drop(guard);
            return outcome.unwrap_or_else(|| Err(gone()));
        }
        drop(state);
        let (sender, receiver) = mpsc::sync_channel(1);
        // The waiting caller may only miss the answer by having gone away itself.
        self.append_then(request, Box::new(move |outcome| drop(sender.send(outcome))));
        receiver.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Appends, and tells how it ended.
    pub(super) fn append_then(&self, request: Request, then: OnAppended) {
        let mut state = self.shared.state();
        while state.waiting.len() >= WAITING_MAX {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.push((request, then));
        if !state.busy {
            state.busy = true;
            self.shared.work.notify_one();
        }
    }
}

/// Ends a write however it ends.
struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done();
    }
}

fn gone() -> StoreError {
    let source = "the writing thread is gone".into();
    StoreError::Backend { store: "sqlite", action: "append", source }
}

impl Drop for Queue {
    /// Everything that was begun is finished first.
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // Its panic was reported; there is nothing left to finish.
        }
    }
}
