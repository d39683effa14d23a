//! Thinking stays where it was sent, also when its turn is over.
//!
//! A provider that signs thinking takes it back in later turns. Leaving it out when a turn ends would
//! change what was sent, from the first thought of the turn on, and the provider's cache would be lost
//! from there. Where results are thinned, that is so anyway, and the thinking goes with them.

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
        turn.keeps_thinking = !(policy.thin_turns && turn.thin);
    }
    draft
}
