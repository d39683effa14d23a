//! Waits for the network on the caller's thread.
//!
//! The calls of a store block. The calling thread polls the connection itself, and sleeps until the
//! network has data for it; a thread of the store only watches the sockets. So a statement costs
//! one context switch, and a call may come from anywhere: a thread, a pool for blocking work, or
//! from inside another async runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to completion, or until the deadline.
pub(super) fn until<T>(deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        // If we were woken in the meantime, a token is left, and this returns at once.
        std::thread::park_timeout(left);
    }
}
