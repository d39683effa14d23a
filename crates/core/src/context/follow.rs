//! Extends the context of a growing log, instead of building it from scratch each time.
//!
//! Everything before the unfinished turn stays the same: that keeps a provider's cache warm, and it
//! does not have to be computed again for every round, nor for the next question. A follower keeps
//! the last context and builds only what is new: the unfinished turn, or the one that was
//! unfinished then and those after it. If anything else may have changed, it builds all of it. The
//! result is always that of [`build`](super::build), which a test checks.

use std::collections::HashSet;
use std::sync::Arc;

use super::draft::{Draft, Turn};
use super::fit_budget::{Fit, Older};
use super::trim_results::{self, shown_in_full};
use super::validity::Out;
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

/// The last context, and the part of it that will not change.
struct Last {
    context: Arc<Context>,
    /// The tally it was built for.
    tally: Tally,
    /// The first entry of the unfinished turn.
    turn: u64,
    before: Before,
    /// The ids of calls that are used: before the turn, and in it.
    ids: HashSet<String>,
    ids_in_turn: Vec<String>,
    /// Results before the turn that are shown in full: later ones may refer to them.
    in_full: HashSet<u64>,
}

/// The part before a turn.
#[derive(Clone, Copy)]
struct Before {
    messages: usize,
    /// Tokens of the messages.
    tokens: u64,
    /// Tokens as counted against the window.
    weight: u64,
    cuts: usize,
    /// What was dropped to make room.
    older: Option<Older>,
    /// Lines are shown because the result that shows them, too, had to go.
    filled_in: bool,
}

/// The part before the unfinished turn, and how it was measured.
struct Said<'a> {
    current: Option<Turn<'a>>,
    weight: u64,
    older: Option<Older>,
    filled_in: bool,
    /// Results that are shown in full.
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
        let last = self.last.take()?;
        let (then, now) = (last.tally, log.tally());
        let same =
            (now.boundary, now.system, now.started) == (then.boundary, then.system, then.started);
        // A step that depends on the whole log may drop something older with each question.
        let moved = now.turn != Some(last.turn) && steps::depend_on_the_log(&self.policy);
        // One that counts messages may do so with each message.
        if !same || moved || self.policy.keep_recent.is_some() {
            return None;
        }
        let draft = Draft::turns_from(log, last.turn, then.entries)?;
        let mut draft = steps::apply_to_each_turn(draft, &self.policy);
        let filled_in = last.before.filled_in
            | trim_results::resolve(&mut draft, |seq| last.in_full.contains(&seq));
        // Lines are shown because older turns had to go: with another question, those may fit again.
        if filled_in && now.turn != Some(last.turn) && last.before.older.is_some() {
            return None;
        }
        let weight = last.before.weight + draft.tokens();
        let budget = self.model.budget();
        let stays_out = |older: Older| {
            let apart = draft.turns.first().is_some_and(|turn| turn.before.tokens >= older.end);
            apart && weight + older.tokens > budget
        };
        if weight > budget || !last.before.older.is_none_or(stays_out) {
            return None;
        }
        let current = draft.turns.pop_if(|turn| turn.can_continue())?;
        let mut context = Arc::unwrap_or_clone(last.context);
        let Last { mut ids, ids_in_turn, before, mut in_full, .. } = last;
        for id in ids_in_turn {
            ids.remove(&id);
        }
        context.messages.truncate(before.messages);
        context.cuts.truncate(before.cuts);
        context.cuts.append(&mut draft.cuts);
        let mut out = Out::new(&self.model, context.messages, before.tokens, context.cuts, ids);
        in_full.extend(shown_in_full(draft.turns.iter().flat_map(|turn| &turn.rounds)));
        out.turns(std::mem::take(&mut draft.turns));
        let (current, older) = (Some(current), before.older);
        let said = Said { current, weight, older, filled_in, in_full };
        Some(self.finish(log, out, said))
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
        self.finish(log, out, Said { current, weight, older, filled_in, in_full })
    }

    /// Returns the unfinished turn, and remembers the part before it.
    fn finish(
        &mut self,
        log: &Log,
        mut out: Out,
        Said { current, weight, older, filled_in, in_full }: Said<'_>,
    ) -> Arc<Context> {
        // The next user message would be merged with the previous one.
        let joins = out.speaks(Role::User);
        let (messages, tokens) = (out.messages(), out.tokens());
        let turn = current.as_ref().map(|turn| (turn.seq, turn.tokens()));
        out.forget_which_ids_are_new();
        out.turns(current);
        let (context, ids, ids_in_turn) = out.finish();
        let context = Arc::new(context);
        let tally = log.tally();
        self.last =
            turn.filter(|(seq, _)| !joins && tally.turn == Some(*seq)).map(|(turn, own)| {
                // They are in the order of the log.
                let cuts = context.cuts.iter().take_while(|cut| cut.seq < turn).count();
                let weight = weight - own;
                let before = Before { messages, tokens, weight, cuts, older, filled_in };
                let context = context.clone();
                Last { context, tally, turn, before, ids, ids_in_turn, in_full }
            });
        context
    }
}
