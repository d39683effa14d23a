//! What is being answered in this process, so that it can be stopped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Tokens that stop a turn, by the update that asked for it. One may be stopped before it began: it
/// is found stopped when its turn comes.
#[derive(Default)]
pub(crate) struct Running(Mutex<HashMap<u32, CancellationToken>>);

impl Running {
    /// What stops the turn of this update.
    pub(crate) fn stop(&self, update: u32) -> CancellationToken {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.entry(update).or_default().clone()
    }

    /// It is dealt with.
    pub(crate) fn forget(&self, update: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&update);
    }
}
