//! Group commit: appends that arrive during a sync share the next transaction.
//!
//! If nobody is writing, an append is written at once, on the caller's thread, so a lone writer
//! does not pay for another thread. Otherwise it is queued, and a thread of the store puts all
//! queued appends into one transaction. Each is checked separately inside that transaction: a
//! refused one does not affect the others. All callers are answered after the commit.

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rethread_core::StoreError;
use rethread_core::store::{Appended, OnAppended, Result};

use super::Db;
use super::append::Request;

/// Appends in one transaction: enough to make a sync cheap, few enough that the first of them does
/// not wait long for the last.
const GROUP_MAX: usize = 256;

/// Length of the queue. When it is full, callers block, so that memory does not grow with a burst.
const WAITING_MAX: usize = 16 * GROUP_MAX;

/// The queued appends.
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
    /// A caller is writing, or the thread is about to.
    busy: bool,
    closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a write: wakes the thread if there are queued appends.
    fn done(&self) {
        let mut state = self.state();
        match state.waiting.is_empty() {
            true => state.busy = false,
            false => self.work.notify_one(),
        }
    }

    /// Writes a group. A panic in it rolls the transaction back and fails all of them; later
    /// appends are not affected.
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
        // The send fails only if the waiting caller is gone.
        self.append_then(request, Box::new(move |outcome| drop(sender.send(outcome))));
        receiver.recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Appends, and reports the result to a callback.
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

/// Ends a write, however it ends.
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
    /// Everything that was started is finished first.
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
