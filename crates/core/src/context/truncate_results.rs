//! Tool results keep their first characters.

use super::Step;
use super::draft::Draft;
use crate::limits::{RESULT_CHARS_MAX, TRUNCATED_MARK};
use crate::tokens::count;

/// Cuts every tool result longer than `max` characters, exactly there.
pub(super) fn apply(mut draft: Draft<'_>, max: usize) -> Draft<'_> {
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
        answer.shorten(Step::TruncateResults, text, tokens.into());
    }
    draft
}
