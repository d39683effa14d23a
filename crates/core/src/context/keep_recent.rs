//! Only the latest messages, cut in batches.
//!
//! A window that slides with every message would change the first bytes sent every time, and a
//! provider's cache with them. So when more than `max` messages stand there, the oldest quarter
//! goes at once, and then the beginning stays where it is until the window is full again. The
//! cut falls on a turn's start; only where one long turn fills the whole batch does it fall
//! between two rounds of that turn, whose question is then kept.

use super::draft::{Draft, Turn};
use super::steps::{Reach, Scope, StepRule};
use super::{Changed, Policy, Step};
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
    /// A turn that starts before this many messages is the better place to cut.
    batch_end: u64,
}

/// The window, if anything has to go. `messages` counts up to the current turn's question, so
/// that nothing moves while a turn goes on.
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
    let messages = draft.current().map_or(tally.messages, |turn| turn.before.messages + 1);
    window(&tally, messages, policy.keep_recent?)
}

/// Enough was read when the run begins before the window does.
fn reach(draft: &Draft<'_>, policy: &Policy) -> Reach {
    let before = draft.log.tally_before(0).messages;
    match window_of(draft, policy).is_some_and(|window| before <= window.start) {
        true => Reach::Enough,
        false => Reach::Unknown,
    }
}

/// Leaves out what comes before the window.
fn apply<'a>(mut draft: Draft<'a>, policy: &Policy) -> Draft<'a> {
    let Some(window) = window_of(&draft, policy) else { return draft };

    let counted = |turn: &Turn<'_>| !turn.pinned && !turn.carried;
    let starts_in_batch = draft.turns.iter().any(|turn| {
        counted(turn) && (window.start..window.batch_end).contains(&turn.before.messages)
    });
    // The turn that reaches over the window's start without another one starting in the batch.
    let split = (!starts_in_batch).then(|| {
        draft
            .turns
            .iter()
            .rposition(|turn| counted(turn) && turn.finished && turn.before.messages < window.start)
    });
    let split = split.flatten().map(|index| draft.turns[index].seq);
    if let Some(seq) = split {
        let turn = draft.turns.iter_mut().find(|turn| turn.seq == seq && counted(turn));
        let turn = turn.expect("it was found above");
        // One more than the window says, because the question is kept beside them.
        turn.rounds.retain(|round| round.before.messages > window.start);
    }
    draft.drop_turns(NAME, |turn| {
        counted(turn) && (turn.before.messages >= window.start || Some(turn.seq) == split)
    });
    if let Some(seq) = split {
        draft.cuts.retain(|cut| cut.by != NAME);
        report_split(&mut draft, seq);
    }
    draft
}

/// Reports what stood before a turn that was split, and which of its rounds are left out; its
/// question is kept. Told in running totals, for not all of it may have been read.
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
        let change = Changed::Dropped { messages, tokens };
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
