//! Plans how far back a log must be read to build a context.
//!
//! The answer never depends on the length of the log, only on what the context will contain. When
//! [`next`] returns `None`, building from the part that was read gives the same bytes as building
//! from the whole log.

use super::draft::{Draft, DraftResult, Turn};
use super::steps::{self, Reach};
use super::{Model, Policy};
use crate::log::Log;

/// What must still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// One entry from before the run, to be [pinned](Log::pin).
    Entry(u64),
    /// Some entries right before the run; how many is up to the reader.
    Earlier,
}

/// What must still be read before a context can be built from this log; `None` if the result is
/// already the same as for the whole log.
pub fn next(log: &Log, policy: &Policy, model: &Model) -> Option<Need> {
    if let Some(seq) = pin(log) {
        return Some(Need::Entry(seq));
    }
    (!enough(log, policy, model)).then_some(Need::Earlier)
}

fn enough(log: &Log, policy: &Policy, model: &Model) -> bool {
    let tally = log.tally();
    if log.first() <= tally.begins() || log.entries().is_empty() {
        return true;
    }
    let draft = Draft::new(log);
    match steps::reach(&draft, policy) {
        Reach::Enough => true,
        Reach::More => false,
        Reach::Unknown => fills_the_window(draft, policy, model),
    }
}

/// Whether the completely read turns do not all fit, in the form in which they will be shown.
fn fills_the_window(draft: Draft<'_>, policy: &Policy, model: &Model) -> bool {
    let draft = steps::apply_to_each_turn(draft, policy);
    let budget = model.budget();
    let tokens: u64 =
        draft.turns.iter().filter(|turn| turn.is_whole() && !turn.left_out).map(Turn::tokens).sum();
    if tokens > budget {
        return true;
    }
    // One endless turn: its rounds alone fill the window several times over, even as stubs.
    let Some(turn) = draft.turns.last().filter(|turn| turn.partial && !turn.left_out) else {
        return false;
    };
    let least = |answer: &DraftResult<'_>| match answer.measure {
        Some(measure) => answer.tokens.min(measure.stubbed.into()),
        None => answer.tokens,
    };
    let stubs: u64 = turn
        .rounds
        .iter()
        .map(|round| round.reply.tokens + round.answers.iter().map(least).sum::<u64>())
        .sum();
    stubs > budget + budget / 2
}

/// An entry from before the run that a context needs and the log lacks: the system message, the
/// summary the session was restored from, or the question of the turn the run begins in.
fn pin(log: &Log) -> Option<u64> {
    let first = log.first();
    if first == 0 || log.entries().is_empty() {
        return None;
    }
    let tally = log.tally();
    let before = log.tally_before(0);
    let within = |seq: &u64| *seq >= tally.begins();
    let wanted = [tally.system, before.turn.filter(within), before.started.filter(within)];
    wanted.into_iter().flatten().find(|seq| *seq < first && log.get(*seq).is_none())
}
