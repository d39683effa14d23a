//! The contexts of one turn, without starting from scratch each time.
//!
//! While a turn goes on, what stands before it stays as it is: that is what keeps a provider's
//! cache warm, and it need not be worked out again for every round either. A follower keeps the
//! last context and builds only the turn that goes on; where anything else may have changed, it
//! builds all of it. The result is always that of [`build`](super::build), which a test holds it to.

use std::collections::HashSet;
use std::sync::Arc;

use super::draft::Draft;
use super::fit_budget::Fit;
use super::validity::Out;
use super::{Context, Model, Policy, shape, truncate_results};
use crate::entry::Tally;
use crate::log::Log;
use crate::message::Role;

/// Builds the contexts of a log that grows.
pub struct Follower {
    policy: Policy,
    model: Model,
    last: Option<Last>,
}

/// The last context, and what of it holds while the turn goes on.
struct Last {
    context: Arc<Context>,
    /// What the log said when it was built.
    tally: Tally,
    /// The first entry of the turn.
    turn: u64,
    /// Tokens the turn may have before something else must make room.
    room: u64,
    /// Messages, tokens and cuts of what stands before the turn.
    messages: usize,
    tokens: u64,
    cuts: usize,
    /// The ids of calls that are used: before the turn, and in it.
    ids: HashSet<String>,
    ids_in_turn: Vec<String>,
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

    /// What the model sees of the log now. Building the next one is cheapest when this one is
    /// gone by then.
    pub fn context(&mut self, log: &Log) -> Arc<Context> {
        match self.extended(log) {
            Some(context) => context,
            None => self.built(log),
        }
    }

    /// The last context with the turn built anew, if nothing else can have changed.
    fn extended(&mut self, log: &Log) -> Option<Arc<Context>> {
        let last = self.last.take()?;
        let (then, now) = (last.tally, log.tally());
        let same = now.turn == Some(last.turn)
            && (now.boundary, now.system, now.started)
                == (then.boundary, then.system, then.started);
        if !same {
            return None;
        }
        let mut draft = Draft::turn_at(log, last.turn)?;
        if let Some(chars) = self.policy.truncate_results {
            draft = truncate_results::apply(draft, chars);
        }
        if draft.tokens() > last.room {
            return None;
        }
        let mut context = Arc::unwrap_or_clone(last.context);
        let Last { mut ids, ids_in_turn, .. } = last;
        for id in ids_in_turn {
            ids.remove(&id);
        }
        context.messages.truncate(last.messages);
        context.cuts.truncate(last.cuts);
        context.cuts.append(&mut draft.cuts);
        let mut out = Out::new(&self.model, context.messages, last.tokens, context.cuts, ids);
        out.turns(draft.turns);
        let (context, ids, ids_in_turn) = out.finish();
        let context = Arc::new(context);
        self.last = Some(Last { context: context.clone(), tally: now, ids, ids_in_turn, ..last });
        Some(context)
    }

    /// The context from scratch, and what of it will hold.
    fn built(&mut self, log: &Log) -> Arc<Context> {
        let (mut draft, fit) = shape(log, &self.policy, &self.model);
        let tokens = draft.tokens();
        let current = match fit {
            Fit::Turns => draft.turns.pop_if(|turn| turn.can_go_on()),
            Fit::Less => None,
        };
        let mut out =
            Out::new(&self.model, Vec::new(), 0, std::mem::take(&mut draft.cuts), HashSet::new());
        out.system(draft.system.take());
        out.turns(std::mem::take(&mut draft.turns));
        // What the person says now would join what they said before.
        let joins = out.speaks(Role::User);
        let before = (out.messages(), out.tokens());
        let turn = current.as_ref().map(|turn| (turn.seq, turn.tokens()));
        out.forget_which_ids_are_new();
        out.turns(current);
        let (context, ids, ids_in_turn) = out.finish();
        let context = Arc::new(context);
        if let Some((seq, own)) = turn.filter(|(seq, _)| !joins && log.tally().turn == Some(*seq)) {
            self.last = Some(Last {
                context: context.clone(),
                tally: log.tally(),
                turn: seq,
                room: self.model.budget().saturating_sub(tokens - own),
                messages: before.0,
                tokens: before.1,
                // They are in the order of the log.
                cuts: context.cuts.iter().take_while(|cut| cut.seq < seq).count(),
                ids,
                ids_in_turn,
            });
        }
        context
    }
}
