//! Cuts tool results to their first characters.

use super::draft::Draft;
use super::steps::{Scope, StepRule};
use super::{Policy, Step};
use crate::limits::{RESULT_CHARS_MAX, TRUNCATED_MARK};
use crate::tokens::count;

pub(super) const NAME: Step = Step("truncate_results");

pub(super) const RULE: StepRule = StepRule {
    name: NAME,
    wanted: |policy| policy.truncate_results.is_some(),
    apply,
    scope: Scope::Turn,
};

/// Cuts every tool result longer than the limit, exactly there.
fn apply<'a>(mut draft: Draft<'a>, policy: &Policy) -> Draft<'a> {
    let max = policy.truncate_results.unwrap_or(usize::MAX);
    for answer in draft.turns.iter_mut().flat_map(|t| &mut t.rounds).flat_map(|r| &mut r.answers) {
        let bytes: usize =
            answer.result.content.iter().filter_map(|block| block.as_text()).map(str::len).sum();
        if bytes <= max {
            continue;
        }
        let mut text = answer.result.text();
        let Some((end, _)) = text.char_indices().nth(max) else { continue };
        text.truncate(end);
        text.push_str(TRUNCATED_MARK);
        let tokens = match answer.measure {
            Some(measure) if max == RESULT_CHARS_MAX => measure.truncated,
            _ => count(&text),
        };
        answer.shorten(NAME, text, tokens.into());
    }
    draft
}
