//! How far back a log must be read before a context can be built.
//!
//! The answer never depends on how long the log is, only on what the context will hold. Building
//! on a log read until [`next`] asks for nothing more gives the same bytes as building on all of it.

use super::draft::{Answer, Draft, Turn};
use super::keep_recent::window;
use super::{Model, Policy, stub_tools, truncate_results};
use crate::log::Log;

/// What must still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// One entry from before the run, to be [pinned](Log::pin).
    Entry(u64),
    /// Some entries right before the run; how many is up to the reader.
    Earlier,
}

/// What must still be read before a context can be built from this log; `None` when building on
/// it gives the same as building on the whole log.
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
    // What was carried or read in part decides nothing.
    let whole = || draft.turns.iter().filter(|turn| is_whole(turn));
    if let Some(max) = policy.keep_recent {
        let messages = draft.current().map_or(tally.messages, |turn| turn.before.messages + 1);
        if let Some(window) = window(&tally, messages, max)
            && log.tally_before(0).messages <= window.start
        {
            return true;
        }
    }
    if let Some(clip) = policy.clip {
        let texts: usize = whole()
            .filter(|turn| turn.finished)
            .map(|turn| {
                let said = |blocks: &[crate::message::Block]| {
                    blocks.iter().filter_map(|b| b.as_text()).any(|text| !text.trim().is_empty())
                };
                usize::from(turn.user.as_ref().is_some_and(|user| said(&user.blocks)))
                    + usize::from(turn.rounds.last().is_some_and(|r| said(&r.reply.blocks)))
            })
            .sum();
        // The texts are looked for before anything is measured, however far back they stand.
        return texts >= clip.texts && whole().next().is_some();
    }
    fills_the_window(draft, policy, model)
}

/// Whether the turns that were read whole do not all fit, as they will be shown.
fn fills_the_window(draft: Draft<'_>, policy: &Policy, model: &Model) -> bool {
    let mut draft = draft;
    if let Some(chars) = policy.truncate_results {
        draft = truncate_results::apply(draft, chars);
    }
    if policy.stub_tools {
        draft = stub_tools::apply(draft);
    }
    let budget = model.budget();
    let tokens: u64 =
        draft.turns.iter().filter(|turn| is_whole(turn)).map(|turn| turn.tokens()).sum();
    if tokens > budget {
        return true;
    }
    // One endless turn: its rounds alone fill the window several times over, even as stubs.
    let Some(turn) = draft.turns.last().filter(|turn| turn.partial) else {
        return false;
    };
    let least = |answer: &Answer<'_>| match answer.measure {
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

fn is_whole(turn: &Turn<'_>) -> bool {
    !turn.partial && !turn.pinned && !turn.carried
}

/// An entry from before the run that a context needs and the log does not hold: the system
/// message, the summary the session was restored from, or the question of the turn the run
/// begins in.
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
