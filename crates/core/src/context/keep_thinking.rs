//! Keeps thinking in the context after its turn is over.
//!
//! A provider that signs thinking accepts it in later turns. Removing it when a turn ends would
//! change what was sent, from the first thinking block of the turn on, and invalidate the
//! provider's cache from there. Where results are thinned, that happens anyway, and the thinking is
//! removed with them.

use super::draft::Draft;
use super::steps::{Scope, StepRule};
use super::{Policy, Step};

pub(super) const RULE: StepRule = StepRule {
    name: Step("keep_thinking"),
    wanted: |policy| policy.keep_thinking,
    apply,
    scope: Scope::Turn,
};

fn apply<'a>(mut draft: Draft<'a>, policy: &Policy) -> Draft<'a> {
    for turn in &mut draft.turns {
        turn.keeps_thinking = !(policy.thin_turns && turn.thin.is_some());
    }
    draft
}
