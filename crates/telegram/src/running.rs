//! The running turns of this process, so that they can be stopped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Cancellation tokens of turns, by their update. A turn may be stopped before it began; then it
/// does not start.
#[derive(Default)]
pub(crate) struct Running(Mutex<HashMap<u32, CancellationToken>>);

impl Running {
    /// The cancellation token of this update.
    pub(crate) fn stop(&self, update: u32) -> CancellationToken {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.entry(update).or_default().clone()
    }

    /// Removes it when it is done.
    pub(crate) fn forget(&self, update: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&update);
    }
}
