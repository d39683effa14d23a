//! Fault injection for tests of a store.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Fails like two transactions that cannot be serialized: with the server's own error.
pub(super) const FAULT: &str =
    "DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '40001'; END $$";

pub(crate) fn append_statement() -> &'static str {
    super::sql::APPEND
}

/// Pending faults.
#[derive(Debug, Default)]
pub struct Faults {
    /// Statements until the next fault, and the fault; zero for never.
    left: AtomicI64,
    /// Protection turned off: failures are not retried.
    once: AtomicBool,
}

impl Faults {
    /// Makes the statement with this number from now on, counted from 1, fail with 40001.
    pub fn fail_at(&self, statement: u32) {
        self.left.store(i64::from(statement), Ordering::SeqCst);
    }

    /// Whether the fault is still pending.
    pub fn is_waiting(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    /// Turns the protection off or on.
    pub fn try_once(&self, once: bool) {
        self.once.store(once, Ordering::SeqCst);
    }

    pub(super) fn strikes(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub(super) fn tries_again(&self) -> bool {
        !self.once.load(Ordering::SeqCst)
    }
}
