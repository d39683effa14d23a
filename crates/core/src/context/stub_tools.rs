//! Replaces tool results of finished turns with stubs.

use super::draft::{Draft, DraftResult};
use super::steps::{Scope, StepRule};
use super::{Policy, Step};
use crate::stub::with_reference;

/// Tokens of the reference that the view adds to a stored stub.
const REFERENCE_TOKENS: u64 = 6;

const NAME: Step = Step("stub_tools");

pub(super) const RULE: StepRule =
    StepRule { name: NAME, wanted: |policy| policy.stub_tools, apply, scope: Scope::Turn };

/// Stubs the results of every finished turn, if the stub is shorter.
fn apply<'a>(mut draft: Draft<'a>, _: &Policy) -> Draft<'a> {
    for turn in draft.turns.iter_mut().filter(|turn| turn.finished && !turn.pinned) {
        turn.rounds.iter_mut().flat_map(|round| &mut round.answers).for_each(stub);
    }
    draft
}

/// Stubs one result, if that makes it shorter.
pub(super) fn stub(answer: &mut DraftResult<'_>) {
    let Some(measure) = answer.measure else { return };
    let stub = with_reference(&measure.stub, &answer.reference());
    let shown: usize = answer
        .blocks()
        .iter()
        .map(|block| block.as_text().map_or(usize::MAX / 1_024, str::len))
        .sum();
    if stub.len() < shown {
        answer.shorten(NAME, stub, u64::from(measure.stubbed) + REFERENCE_TOKENS);
    }
}
