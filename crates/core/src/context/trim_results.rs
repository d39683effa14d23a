//! Shows the relevant lines of tool results, and fewer in finished turns once the cache was cold.
//!
//! The lines were chosen when the result was appended: see [`shown`](crate::shown).

use std::collections::HashSet;
use std::sync::Arc;

use super::draft::{Draft, DraftResult, Round};
use super::steps::{Scope, StepRule};
use super::{Cut, CutEffect, CutReason, Policy, Step};
use crate::entry::Thinning;
use crate::limits::{ECHO_CHARS, THIN_CALLS_AHEAD, THIN_GAIN_TOKENS_MIN};
use crate::log::Log;
use crate::measure::block_tokens;
use crate::shown::{Allowances, Excerpt, ResultForm, ToolKind, excerpt, kind_of};

const NAME: Step = Step("trim_results");

pub(super) const RULE: StepRule = StepRule {
    name: NAME,
    wanted: |policy| policy.trim_results.is_some(),
    apply,
    scope: Scope::Turn,
};

/// Shows the chosen lines of every result.
fn apply<'a>(mut draft: Draft<'a>, policy: &Policy) -> Draft<'a> {
    let log = draft.log;
    draft.allowances = policy.trim_results.unwrap_or_default();
    let allowances = draft.allowances;
    for turn in draft.turns.iter_mut().filter(|turn| !turn.pinned) {
        turn.thin = turn.thin.filter(|_| policy.thin_turns && turn.finished);
        let (thin, form) = (turn.thin, form(turn.thin));
        for round in &mut turn.rounds {
            for index in 0..round.answers.len() {
                if is_short(&round.answers[index]) {
                    continue;
                }
                let made = made(log, round, index, form, &allowances);
                show(&mut round.answers[index], &made, thin);
            }
        }
    }
    draft
}

/// The form of the results of a turn.
fn form(thin: Option<Thinning>) -> ResultForm {
    if thin.is_some() { ResultForm::Thin } else { ResultForm::Full }
}

/// Whether a result is so short that it is always shown completely.
fn is_short(answer: &DraftResult<'_>) -> bool {
    let texts = answer.result.content.iter().filter_map(|block| block.as_text());
    texts.map(str::len).sum::<usize>() <= ECHO_CHARS
}

/// The excerpt of a result, cached or made now.
fn made(
    log: &Log,
    round: &Round<'_>,
    index: usize,
    form: ResultForm,
    allowances: &Allowances,
) -> Arc<Excerpt> {
    let make = || make(round, index, form, allowances, |_| true);
    let answer = &round.answers[index];
    match answer.from {
        None => log.excerpts().get((answer.seq, answer.place, form, answer.decided_in), make),
        Some(_) => make().into(),
    }
}

/// The turn from which thinning pays although the cache is warm, if there is one: the savings in
/// future calls, minus the cost of rewriting the end of the context.
pub(super) fn pays_from(log: &Log, policy: &Policy) -> Option<u64> {
    let draft = apply(Draft::new(log), policy);
    // The longer a session has lasted, the longer it is expected to continue.
    let tally = log.tally();
    let said = tally.messages.saturating_sub(tally.boundary.map_or(0, |clear| clear.messages));
    let calls = THIN_CALLS_AHEAD.max(said / 8);
    let (mut saved, mut resent, mut best) = (0, 0, (THIN_GAIN_TOKENS_MIN, None));
    for turn in draft.turns.iter().rev().take_while(|turn| turn.is_whole()) {
        let mut shorter = 0;
        for round in turn.rounds.iter().filter(|_| turn.thin.is_none()) {
            let long = |(_, answer): &(usize, &DraftResult<'_>)| !is_short(answer);
            for (index, answer) in round.answers.iter().enumerate().filter(long) {
                let (full, made) =
                    (answer.tokens, made(log, round, index, ResultForm::Thin, &draft.allowances));
                shorter += full.saturating_sub(share(answer, &made));
            }
        }
        saved += shorter;
        resent += turn.tokens().saturating_sub(shorter);
        // Reading costs 0.1 of a token, writing 1.25: see `docs/economy.md`.
        let gain = (calls * saved / 10).saturating_sub(resent * 115 / 100);
        if shorter > 0 && gain > best.0 {
            best = (gain, Some(turn.seq));
        }
    }
    best.1
}

fn make(
    round: &Round<'_>,
    index: usize,
    form: ResultForm,
    allowances: &Allowances,
    visible: impl Fn(u64) -> bool,
) -> Excerpt {
    let answer = &round.answers[index];
    let call = round.calls().find(|call| call.id == answer.result.tool_use_id);
    let kind = kind_of(call.map_or(ToolKind::Other, ToolKind::of), answer.result);
    let (text, reference) = (answer.result.text(), answer.reference_to_lines());
    excerpt(&text, kind, answer.decided, allowances, form, &reference, visible)
}

/// Sends an excerpt instead of the result, and reports it; `thin` says why it may be thin.
fn show(answer: &mut DraftResult<'_>, excerpt: &Excerpt, thin: Option<Thinning>) {
    if excerpt.whole {
        return;
    }
    answer.tokens = share(answer, excerpt);
    answer.cut = Some(Box::new(Cut {
        by: NAME,
        seq: answer.seq,
        through: answer.seq,
        reference: answer.reference_to_lines(),
        change: CutEffect::Trimmed {
            from_chars: excerpt.chars_of,
            to_chars: excerpt.chars,
            from_lines: excerpt.lines_of,
            to_lines: excerpt.lines,
            why: match thin.filter(|_| excerpt.thin) {
                Some(Thinning::Cold) => CutReason::Cold,
                Some(Thinning::Pays) => CutReason::Pays,
                None if excerpt.echo => CutReason::Echo,
                None if !excerpt.refers_to.is_empty() => CutReason::Repeated,
                None if excerpt.lines < excerpt.lines_of => CutReason::Long,
                None => CutReason::Tidied,
            },
        },
    }));
    answer.replace(excerpt.text.clone(), true);
    answer.refers_to.clone_from(&excerpt.refers_to);
}

/// Tokens of an excerpt: a share of the original count. Counting again would take as long as
/// everything else here.
fn share(answer: &DraftResult<'_>, excerpt: &Excerpt) -> u64 {
    let whole = answer.measure.map_or(answer.tokens, |measure| measure.tokens.into());
    if excerpt.whole {
        return whole;
    }
    let pictures = answer.result.content.iter().filter(|block| block.as_text().is_none());
    let pictures: u64 = pictures.map(|block| u64::from(block_tokens(block))).sum();
    let text = whole.saturating_sub(pictures);
    pictures + text * excerpt.chars / excerpt.chars_of.max(1) + 1
}

/// The entries whose results a later one may refer to: those shown in their full form.
pub(super) fn shown_in_full<'a>(
    rounds: impl IntoIterator<Item = &'a Round<'a>>,
) -> impl Iterator<Item = u64> {
    let full = |answer: &&DraftResult<'_>| {
        answer.cut.as_deref().is_none_or(|cut| cut.by == NAME) && !is_thin(answer)
    };
    rounds.into_iter().flat_map(|round| &round.answers).filter(full).map(|answer| answer.seq)
}

/// Shows lines that a result only refers to, where the other one is not in this context. `before` says
/// what is shown before the turns of this draft. Returns whether there were any.
///
/// A result is dropped only where the context before this one changes anyway, so this rewrites
/// nothing that could have stayed in a cache.
pub(super) fn resolve(draft: &mut Draft<'_>, before: impl Fn(u64) -> bool) -> bool {
    let refers = |round: &Round<'_>| round.answers.iter().any(|one| !one.refers_to.is_empty());
    if !draft.turns.iter().flat_map(|turn| &turn.rounds).any(refers) {
        return false;
    }
    let all = draft.turns.iter().flat_map(|turn| &turn.rounds);
    let visible: HashSet<u64> = shown_in_full(all).collect();
    let visible = |seq: u64| visible.contains(&seq) || before(seq);
    let allowances = draft.allowances;
    let mut any = false;
    for turn in &mut draft.turns {
        for round in &mut turn.rounds {
            for index in 0..round.answers.len() {
                if round.answers[index].refers_to.iter().all(|seq| visible(*seq)) {
                    continue;
                }
                let made = make(round, index, form(turn.thin), &allowances, visible);
                let answer = &mut round.answers[index];
                let tokens = answer.measure.map(|measure| measure.tokens.into());
                answer.tokens = tokens.unwrap_or(answer.tokens);
                (answer.content, answer.cut) = (None, None);
                answer.refers_to.clear();
                show(answer, &made, turn.thin);
                any = true;
            }
        }
    }
    any
}

/// Whether a result is shown in its thin form.
fn is_thin(answer: &DraftResult<'_>) -> bool {
    let change = answer.cut.as_deref().map(|cut| &cut.change);
    matches!(change, Some(CutEffect::Trimmed { why: CutReason::Cold | CutReason::Pays, .. }))
}
