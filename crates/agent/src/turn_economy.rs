//! What the calls of a turn sent, compared with sending everything.
//!
//! It is computed during the turn, from sizes that are known anyway: nothing is stored, and no
//! message is counted again unless a part of the context changed. `Sessions::economy` replays a
//! whole session instead.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rethread_core::context::{Context, Cut, CutEffect, Model, Step};
use rethread_core::entry::{Body, Entry, Thinning};
use rethread_core::measure::message_tokens;
use rethread_core::sessions::{Charged, Sent, ThinnedStats};
use rethread_core::{Message, Role, Thread};

/// Characters per token, about: cuts are reported in characters.
const TOKEN_CHARS: u64 = 4;

/// What the calls of a turn sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnEconomy {
    /// What was sent, and what sending everything would have been.
    pub sent: Sent,
    /// The provider's cache had expired when the turn began: one, or zero.
    pub cold_starts: u64,
    /// A warm cache was rewritten when the turn began: one, or zero.
    pub rewrites: u64,
    /// Results of finished turns were thinned when it began.
    pub thinned: ThinnedStats,
    /// How often the model fetched what had been cut.
    pub recalls: u64,
}

/// The state of a session before a turn.
pub(crate) struct Before {
    /// What was sent last, if this process sent it.
    sent: Option<Arc<Context>>,
    /// When the model that is about to be asked replied last.
    pub(crate) replied: Option<Timestamp>,
    /// Whether any model was asked before.
    was_asked: bool,
    head: u64,
}

impl Before {
    pub(crate) fn of(thread: &mut Thread, model: &Model) -> Before {
        let sent = thread.take_last_sent();
        let entries = thread.log().entries();
        let is_reply = |entry: &Entry| {
            entry.body.message().is_some_and(|message| message.role == Role::Assistant)
        };
        let was_asked = sent.is_some() || entries.iter().rev().any(is_reply);
        let replied = thread.log().last_reply_of(&model.id());
        Before { sent, replied, was_asked, head: thread.head() }
    }
}

/// Adds up what the calls of a turn send.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    pub(crate) economy: TurnEconomy,
    /// Tokens of the contexts that the provider has in its cache, and of everything.
    cached: Option<(u64, u64)>,
}

impl Meter {
    /// Starts a turn with this first context; the entries before it are in the log.
    pub(crate) fn new(
        before: &Before,
        context: &Context,
        thread: &Thread,
        life: Duration,
    ) -> Meter {
        let mut meter = Meter::default();
        let new = thread.log().entries().iter().rev();
        let mut new_tokens = 0;
        for entry in new.take_while(|entry| entry.seq >= before.head) {
            new_tokens += u64::from(entry.measure.tokens);
            if let Body::Thinned(thinned) = &entry.body {
                match thinned.why {
                    Thinning::Cold => meter.economy.thinned.cold += 1,
                    Thinning::Pays => meter.economy.thinned.warm += 1,
                }
            }
        }
        if !before.was_asked {
            return meter;
        }
        let has_expired = |replied: Timestamp| {
            let now = thread.log().entries().last().map_or(replied, |entry| entry.at);
            Duration::try_from(now.duration_since(replied)).is_ok_and(|idle| idle > life)
        };
        if before.replied.is_none_or(has_expired) {
            meter.economy.cold_starts = 1;
            return meter;
        }
        let Some(known) = before.sent.as_deref() else {
            // Another process sent it. There is no indication that it has changed.
            let less = |tokens: u64| tokens.saturating_sub(new_tokens);
            meter.cached = Some((less(context.tokens), less(everything(context))));
            return meter;
        };
        let pairs = known.messages.iter().zip(&context.messages);
        let same = pairs.take_while(|(old, new)| old == new).count();
        let lost = known.messages[same..].iter();
        let lost: u64 = lost.map(|message| u64::from(message_tokens(message))).sum();
        meter.economy.rewrites = u64::from(same < known.messages.len());
        meter.cached = Some((known.tokens.saturating_sub(lost), everything(known)));
        meter
    }

    /// Counts a call that sends this context.
    pub(crate) fn call(&mut self, context: &Context) {
        let now = (context.tokens, everything(context));
        let (context, all) = self.cached.unwrap_or_default();
        let charged = |tokens: u64, cached: u64| {
            let read = cached.min(tokens);
            Charged { read, written: tokens - read }
        };
        let sent = Sent { contexts: charged(now.0, context), everything: charged(now.1, all) };
        self.economy.sent.add(&sent);
        self.cached = Some(now);
    }

    /// Counts `recall` calls.
    pub(crate) fn reply(&mut self, reply: &Message) {
        self.economy.recalls += reply.calls().filter(|call| call.name == "recall").count() as u64;
    }
}

/// Tokens of a context and of what was cut from it since the last clear.
fn everything(context: &Context) -> u64 {
    let ours = |cut: &&Cut| ![Step::CLEAR, Step::LEFT_OUT, Step::DAMAGE].contains(&cut.by);
    let cut = context.cuts.iter().filter(ours).map(|cut| match cut.change {
        CutEffect::Dropped { tokens, .. } => tokens,
        CutEffect::Shortened { from_chars, to_chars }
        | CutEffect::Trimmed { from_chars, to_chars, .. } => {
            from_chars.saturating_sub(to_chars) / TOKEN_CHARS
        }
        CutEffect::LeftOut { .. } => 0,
    });
    context.tokens.saturating_add(cut.sum())
}
