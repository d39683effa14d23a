//! Keeps the latest messages, and drops older ones in batches.
//!
//! A window that slides with every message would change the first bytes sent every time, and
//! invalidate the provider's cache. So when there are more than `max` messages, the oldest quarter
//! is dropped at once, and then the beginning stays the same until the window is full again. The
//! cut is at the start of a turn; only if one long turn fills the whole batch, or is the unfinished
//! one, is it between two rounds of that turn, whose question is then kept.

use super::draft::{Draft, Turn};
use super::steps::{Reach, Scope, StepRule};
use super::{CutEffect, Policy, Step};
use crate::entry::Tally;

const NAME: Step = Step("keep_recent");

pub(super) const RULE: StepRule = StepRule {
    name: NAME,
    wanted: |policy| policy.keep_recent.is_some(),
    apply,
    scope: Scope::Log(reach),
};

/// Where the window begins, in messages counted from the start of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    /// Messages before it.
    start: u64,
    /// A turn that starts before this many messages is the better position for the cut.
    batch_end: u64,
}

/// The window, if anything has to be dropped.
fn window(tally: &Tally, messages: u64, max: u32) -> Option<Window> {
    let max = u64::from(max);
    let base = tally.boundary.map_or(0, |boundary| boundary.messages);
    let there = messages.saturating_sub(base);
    if there <= max {
        return None;
    }
    let kept = (max * 3 / 4).max(1);
    let batch = max + 1 - kept.min(max);
    let start = base + (there - max).div_ceil(batch) * batch;
    Some(Window { start, batch_end: start + batch })
}

fn window_of(draft: &Draft<'_>, policy: &Policy) -> Option<Window> {
    let tally = draft.log.tally();
    window(&tally, tally.messages, policy.keep_recent?)
}

/// Enough was read when the run begins before the window does, and contains the model's last reply
/// in the unfinished turn.
fn reach(draft: &Draft<'_>, policy: &Policy) -> Reach {
    if draft.current().is_some_and(|turn| turn.partial && turn.rounds.is_empty()) {
        return Reach::More;
    }
    let before = draft.log.tally_before(0).messages;
    match window_of(draft, policy).is_some_and(|window| before <= window.start) {
        true => Reach::Enough,
        false => Reach::Unknown,
    }
}

/// Whether a turn's messages are counted in the log.
fn counted(turn: &Turn<'_>) -> bool {
    !turn.pinned && !turn.carried
}

/// Leaves out what comes before the window.
fn apply<'a>(mut draft: Draft<'a>, policy: &Policy) -> Draft<'a> {
    let Some(max) = policy.keep_recent else { return draft };
    let parts = |draft: &Draft<'_>| {
        draft.turns.len() + draft.turns.iter().map(|turn| turn.rounds.len()).sum::<usize>()
    };
    let before = parts(&draft);
    let window = window_of(&draft, policy);
    if let Some(window) = window {
        cut_at(&mut draft, window);
    }
    leave_no_more_than(&mut draft, u64::from(max));
    // What was before the window may not have been read.
    if window.is_some() || parts(&draft) < before {
        match draft.turns.iter().find(|turn| counted(turn)).map(|turn| turn.seq) {
            Some(seq) => report_split(&mut draft, seq),
            None => draft.report_dropped(NAME, draft.log.tally().into()),
        }
    }
    draft
}

/// Leaves out the turns before the window. If one turn spans its beginning and no other starts in
/// the batch, that turn keeps its question and the rounds in the window.
fn cut_at(draft: &mut Draft<'_>, window: Window) {
    let starts_in_batch = draft.turns.iter().any(|turn| {
        counted(turn) && (window.start..window.batch_end).contains(&turn.before.messages)
    });
    let reaches_over = |turn: &Turn<'_>| counted(turn) && turn.before.messages < window.start;
    let split = draft.turns.iter().rposition(reaches_over).filter(|index| {
        let turn = &draft.turns[*index];
        !turn.left_out && (!starts_in_batch || !turn.finished)
    });
    let split = split.map(|index| draft.turns[index].seq);
    draft.turns.retain(|turn| {
        let in_window = counted(turn) && turn.before.messages >= window.start;
        turn.pinned || in_window || counted(turn) && Some(turn.seq) == split
    });
    if let Some(turn) = draft.turns.iter_mut().find(|turn| counted(turn) && Some(turn.seq) == split)
    {
        // One more than the window says, because the question is kept too. The last reply of an
        // unfinished turn stays: it is waiting for its results.
        let last = turn.rounds.len().saturating_sub(usize::from(!turn.finished));
        let mut index = 0;
        turn.rounds.retain(|round| {
            index += 1;
            round.before.messages > window.start || index > last
        });
    }
}

/// Leaves out the oldest turns, then the oldest rounds of the last turn, until a provider is sent
/// no more than `max` messages.
fn leave_no_more_than(draft: &mut Draft<'_>, max: u64) {
    let last = draft.turns.iter().rfind(|turn| !turn.left_out).map(|turn| turn.seq);
    while sent(&draft.turns) > max {
        let goes = |turn: &Turn<'_>| !turn.pinned && (turn.carried || Some(turn.seq) != last);
        let Some(oldest) = draft.turns.iter().position(goes) else { break };
        draft.turns.remove(oldest);
    }
    let is_last = |turn: &Turn<'_>| counted(turn) && Some(turn.seq) == last;
    while sent(&draft.turns) > max {
        let turn = draft.turns.iter_mut().find(|turn| is_last(turn) && turn.rounds.len() > 1);
        let Some(turn) = turn else { break };
        turn.rounds.remove(0);
    }
}

/// The number of messages a provider is sent for these turns. Each result is one, and so is the
/// replacement of a missing question or result; consecutive questions are one.
fn sent(turns: &[Turn<'_>]) -> u64 {
    let (mut sent, mut asks) = (0, false);
    for turn in turns.iter().filter(|turn| !turn.left_out) {
        if !asks && (turn.user.is_some() || !turn.rounds.is_empty()) {
            sent += 1;
            asks = true;
        }
        for round in &turn.rounds {
            sent += 1 + round.calls().count() as u64;
            asks = false;
        }
    }
    sent
}

/// Reports what was before a turn that was split, and which of its rounds are left out; its
/// question is kept. Uses running totals, because not all of it may have been read.
fn report_split(draft: &mut Draft<'_>, seq: u64) {
    let of_log = |turn: &&Turn<'_>| !turn.pinned && !turn.carried;
    let mut turns = draft.turns.iter().filter(of_log).skip_while(|turn| turn.seq != seq);
    let Some(turn) = turns.next() else { return };
    let next = turns.next().map(|turn| turn.before);
    let first = turn.rounds.first().map(|round| round.before).or(next);
    let end = first.unwrap_or_else(|| draft.log.tally().into());
    let (before, question) =
        (turn.before, turn.user.as_ref().map_or((0, 0), |user| (1, user.tokens)));
    let base = draft.log.tally().boundary.map_or(0, |boundary| boundary.messages);
    if before.messages > base {
        draft.report_dropped(NAME, before);
    }
    let messages = end.messages.saturating_sub(before.messages + question.0);
    if messages > 0 {
        let tokens = end.tokens.saturating_sub(before.tokens + question.1);
        let change = CutEffect::Dropped { messages, tokens };
        let through = end.entries.saturating_sub(1);
        draft.cut_range(NAME, before.entries + question.0, through, change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_moves_in_batches_of_a_quarter() {
        let tally = Tally::default();
        let start = |there| window(&tally, there, 100).map_or(0, |window| window.start);
        assert_eq!([start(99), start(100), start(101), start(126), start(127)], [0, 0, 26, 26, 52]);
        for there in 101..1_000 {
            let kept = there - start(there);
            assert!((75..=100).contains(&kept), "{there} messages leave {kept}");
        }
    }

    #[test]
    fn the_smallest_windows_keep_at_least_one_message() {
        let tally = Tally::default();
        for max in 1..5 {
            for there in u64::from(max) + 1..20 {
                let start = window(&tally, there, max).expect("too many").start;
                assert!((1..=u64::from(max)).contains(&(there - start)), "{max}: {there}");
            }
        }
    }
}
