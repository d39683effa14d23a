//! A store that is careless in one way at a time, and the suite that must notice.
//!
//! Each [`Fault`](faults::Fault) is a mistake that real stores have been shipped with. Below it is
//! the reference store, so any failure is caused by the fault.
//!
//! This is a test binary of its own, because it silences the panics of the whole process.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rethread_core::conformance::CASES;

mod append;
mod create;
mod faults;
mod place;
mod search;
mod store;

use faults::FAULTS;
use place::Careless;

/// A suite is worth what it catches. Each fault of the careless store is one that a real store
/// could have; the rule it breaks must fail, and a rule that fails on no fault protects nothing.
#[test]
fn a_careless_store_fails_the_rule_it_breaks() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    let mut caught = BTreeSet::new();
    for (fault, rules) in FAULTS {
        let failed: BTreeSet<&str> = CASES
            .iter()
            .filter(|(_, case)| {
                let place = Careless::new(*fault);
                catch_unwind(AssertUnwindSafe(|| case(&place))).is_err()
            })
            .map(|(name, _)| *name)
            .collect();
        for rule in *rules {
            if !failed.contains(rule) {
                missed.push(format!("{fault:?} passes {rule}"));
            }
        }
        caught.extend(failed);
    }
    std::panic::set_hook(quiet);
    assert!(missed.is_empty(), "{missed:#?}");
    let blind: Vec<&str> =
        CASES.iter().map(|(name, _)| *name).filter(|name| !caught.contains(name)).collect();
    assert!(blind.is_empty(), "no fault makes these fail: {blind:?}");
}
