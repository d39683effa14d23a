//! Extends the context of a growing log, instead of building it from scratch each time.
//!
//! Everything before the unfinished turn stays the same: that keeps a provider's cache warm, and it
//! does not have to be computed again for every round, nor for the next question. The same is true
//! of the unfinished turn itself, up to the last round whose calls may still get results. A
//! follower keeps the last context and builds only what is new: the last rounds of the unfinished
//! turn or, once that is over, all of it and what follows. If anything else may have changed, it
//! builds everything. The result is always that of [`build`](super::build), which a test checks.

use std::collections::HashSet;
use std::sync::Arc;

use super::draft::{Draft, Round, Turn};
use super::fit_budget::{Fit, Older};
use super::trim_results::{self, shown_in_full};
use super::validity::{Mark, Out};
use super::{Context, Model, Policy, Shaped, shape, steps};
use crate::entry::Tally;
use crate::log::Log;
use crate::message::Role;

/// Builds the contexts of a growing log.
pub struct Follower {
    policy: Policy,
    model: Model,
    last: Option<Last>,
}

/// The last context, and the parts of it that will not change.
struct Last {
    context: Arc<Context>,
    /// The tally it was built for.
    tally: Tally,
    /// The part before the unfinished turn, and the part that stays while that is unfinished.
    before_turn: Part,
    settled: Option<Settled>,
    /// The ids of calls that are used, and those in the unfinished turn.
    ids: HashSet<String>,
    ids_in_turn: Vec<String>,
    /// Results that are shown in full, up to the settled rounds: later ones may refer to them.
    in_full: HashSet<u64>,
    /// What was dropped to make room.
    older: Option<Older>,
    /// Lines are shown because the result that shows them, too, had to go.
    filled_in: bool,
}

/// The beginning of a context.
#[derive(Clone, Copy)]
struct Part {
    /// The first entry after it.
    end: u64,
    messages: usize,
    /// Tokens of the messages.
    tokens: u64,
    /// Tokens as counted against the window.
    weight: u64,
    /// How many of the ids in the unfinished turn are in it.
    ids: usize,
}

/// The part that ends with these rounds of the unfinished turn: their calls have their results.
#[derive(Clone, Copy)]
struct Settled {
    rounds: usize,
    part: Part,
}

/// A context up to its unfinished turn, and how it was measured.
struct Unfinished<'a> {
    /// The turn, without the rounds that are settled.
    current: Option<Turn<'a>>,
    /// The part before the turn, and what is settled of it.
    settled: Option<(Part, Settled)>,
    /// The ids of calls in what is settled.
    ids_in_turn: Vec<String>,
    /// Tokens as counted against the window, all of them.
    weight: u64,
    older: Option<Older>,
    filled_in: bool,
    in_full: HashSet<u64>,
}

impl Follower {
    /// A follower for one policy and one model.
    pub fn new(policy: Policy, model: Model) -> Follower {
        Follower { policy, model, last: None }
    }

    /// Whether it builds for these.
    pub fn is_for(&self, policy: &Policy, model: &Model) -> bool {
        self.policy == *policy && self.model == *model
    }

    /// The last context extended by what is new, if nothing else can have changed. The log only
    /// needs what it had then, and what was added. This is cheapest if the last context was
    /// dropped.
    pub fn extend(&mut self, log: &Log) -> Option<Arc<Context>> {
        let mut last = self.last.take()?;
        let (then, now, turn) = (last.tally, log.tally(), last.before_turn.end);
        let same =
            (now.boundary, now.system, now.started) == (then.boundary, then.system, then.started);
        // A step that depends on the whole log may drop something older with each question.
        let moved = now.turn != Some(turn) && steps::depend_on_the_log(&self.policy);
        // One that counts messages may do so with each message.
        if !same || moved || self.policy.keep_recent.is_some() {
            return None;
        }
        let mut draft = Draft::turns_from(log, turn, then.entries)?;
        let settled = last.settled.filter(|settled| draft.skip_rounds(settled.rounds));
        let part = settled.map_or(last.before_turn, |settled| settled.part);
        last.in_full.retain(|seq| *seq < part.end);
        draft.cuts.retain(|cut| cut.seq >= part.end);
        let mut draft = steps::apply_to_each_turn(draft, &self.policy);
        let filled_in =
            last.filled_in | trim_results::resolve(&mut draft, |seq| last.in_full.contains(&seq));
        // Lines are shown because older turns had to go: with another question, those may fit again.
        if filled_in && now.turn != Some(turn) && last.older.is_some() {
            return None;
        }
        let weight = part.weight + draft.tokens();
        let budget = self.model.budget();
        let stays_out = |older: Older| {
            let apart = draft.turns.first().is_some_and(|turn| turn.before.tokens >= older.end);
            apart && weight + older.tokens > budget
        };
        if weight > budget || !last.older.is_none_or(stays_out) {
            return None;
        }
        let current = draft.turns.pop_if(|turn| settled.is_some() || turn.can_continue())?;
        let mut context = Arc::unwrap_or_clone(last.context);
        let Last { mut ids, mut ids_in_turn, before_turn, older, mut in_full, .. } = last;
        for id in ids_in_turn.drain(part.ids..) {
            ids.remove(&id);
        }
        // Cuts are in the order of the log.
        let cuts = context.cuts.iter().take_while(|cut| cut.seq < part.end).count();
        context.messages.truncate(part.messages);
        context.cuts.truncate(cuts);
        context.cuts.append(&mut draft.cuts);
        let mut out = Out::new(&self.model, context.messages, part.tokens, context.cuts, ids);
        in_full.extend(shown_in_full(draft.turns.iter().flat_map(|turn| &turn.rounds)));
        out.turns(std::mem::take(&mut draft.turns));
        let (current, settled) = (Some(current), settled.map(|settled| (before_turn, settled)));
        let rest = Unfinished { current, settled, ids_in_turn, weight, older, filled_in, in_full };
        Some(self.finish(log, out, rest))
    }

    /// The context from scratch. The log must reach far enough back, see [`next`](super::next).
    pub fn build(&mut self, log: &Log) -> Arc<Context> {
        let Shaped { mut draft, fit, filled_in } = shape(log, &self.policy, &self.model);
        let weight = draft.tokens();
        let (current, older) = match fit {
            Fit::Turns(older) => (draft.turns.pop_if(|turn| turn.can_continue()), older),
            Fit::Less => (None, None),
        };
        let mut out =
            Out::new(&self.model, Vec::new(), 0, std::mem::take(&mut draft.cuts), HashSet::new());
        out.system(draft.system.take());
        let in_full = shown_in_full(draft.turns.iter().flat_map(|turn| &turn.rounds)).collect();
        out.turns(std::mem::take(&mut draft.turns));
        let (settled, ids_in_turn) = (None, Vec::new());
        let rest = Unfinished { current, settled, ids_in_turn, weight, older, filled_in, in_full };
        self.finish(log, out, rest)
    }

    /// Adds the rest of the unfinished turn, and remembers the parts that will not change.
    fn finish(&mut self, log: &Log, mut out: Out, rest: Unfinished<'_>) -> Arc<Context> {
        let Unfinished { current, settled, mut ids_in_turn, weight, older, filled_in, .. } = rest;
        let (tally, mut in_full) = (log.tally(), rest.in_full);
        // The next user message would be merged with the previous one.
        let joins = settled.is_none() && out.speaks(Role::User);
        let last = |turn: &Turn<'_>| !joins && tally.turn == Some(turn.seq);
        let current = match current {
            Some(current) if last(&current) => current,
            current => {
                out.turns(current);
                return Arc::new(out.finish().0);
            }
        };
        out.forget_which_ids_are_new();
        let before_turn = settled.map_or_else(
            || Part {
                end: current.seq,
                messages: out.messages(),
                tokens: out.tokens(),
                weight: weight - current.tokens(),
                ids: 0,
            },
            |(before_turn, _)| before_turn,
        );
        let (done, open) = current.rounds.split_at(current.waiting());
        in_full.extend(shown_in_full(done));
        let rounds = done.len() + settled.map_or(0, |(_, settled)| settled.rounds);
        let end = open.first().map_or(tally.entries, |round| round.reply.seq);
        let weight = weight - open.iter().map(Round::tokens).sum::<u64>();
        let now_settled = out.turn(current).map(|mark| {
            let ids = ids_in_turn.len() + mark.ids;
            let Mark { messages, tokens, .. } = mark;
            Settled { rounds, part: Part { end, messages, tokens, weight, ids } }
        });
        let settled = now_settled.or(settled.map(|(_, settled)| settled));
        let (context, ids, mut new_ids) = out.finish();
        ids_in_turn.append(&mut new_ids);
        let context = Arc::new(context);
        self.last = Some(Last {
            context: context.clone(),
            tally,
            before_turn,
            settled,
            ids,
            ids_in_turn,
            in_full,
            older,
            filled_in,
        });
        context
    }
}
