//! What tests do to a store to see that it protects itself.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Fails as two transactions do that cannot both be: the server itself says so.
pub(super) const FAULT: &str =
    "DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '40001'; END $$";

pub(crate) fn append_statement() -> &'static str {
    super::sql::APPEND
}

/// Faults to come.
#[derive(Debug, Default)]
pub struct Faults {
    /// Statements until the next fault, and it; zero for never.
    left: AtomicI64,
    /// Protection taken away: what fails is not tried again.
    once: AtomicBool,
}

impl Faults {
    /// Lets the statement with this number from now on, counted from 1, fail with 40001.
    pub fn fail_at(&self, statement: u32) {
        self.left.store(i64::from(statement), Ordering::SeqCst);
    }

    /// Whether the fault is still to come.
    pub fn is_waiting(&self) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }

    /// Takes the protection away, or gives it back.
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
