//! What the next call of a session will cost: how much of the session is shown, and whether the
//! provider has it in its cache.

use std::time::Duration;

use jiff::Timestamp;
use rethread_core::context::{Context, Model};
use rethread_core::limits::READ_ENTRIES;
use rethread_core::message::Usage;
use rethread_core::{Entry, Role, Session, Sessions};
use serde::Serialize;

use crate::provider::{HOUR_FACTOR, Models, OFFLINE, Price, cache_facts};
use crate::tool::Spec;

/// What the next call costs, before the question is added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NextCall {
    /// Tokens of the context.
    pub tokens: u64,
    /// Tokens of everything since the last clear.
    pub said: u64,
    /// Tokens of the tool descriptions, which are sent as well.
    pub tools: u64,
    /// Whether the provider has the context in its cache.
    #[serde(flatten)]
    pub cache: CacheState,
    /// What sending it costs now, in dollars; `None` if the price is not known.
    pub dollars: Option<f64>,
    /// What it costs once the cache has expired.
    pub dollars_cold: Option<f64>,
}

/// Whether a provider has a context in its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cache", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum CacheState {
    /// The model is offline.
    None,
    /// It was never sent.
    Unsent,
    /// It has fewer tokens than the provider caches.
    TooShort {
        /// The minimum.
        least: u64,
    },
    /// Yes, until then, if nothing else is sent.
    Warm {
        /// When it expires.
        until: Timestamp,
    },
    /// No.
    Cold { since: Timestamp },
}

impl NextCall {
    /// What the next call of a session costs now.
    pub fn new(
        sessions: &Sessions,
        session: &Session,
        (model, context, tools): (&Model, &Context, &[Spec]),
        models: &Models,
        now: Timestamp,
    ) -> NextCall {
        let tally = session.tally;
        let cleared = tally.boundary.map_or(0, |clear| clear.tokens);
        let facts = cache_facts(model);
        // What cannot be read is passed over: this is an estimate.
        let end = tally.entries.saturating_sub(READ_ENTRIES)..tally.entries;
        let end = sessions.entries(session.id(), end).skip_damaged();
        let end: Vec<Entry> = end.flatten().collect();
        let life = facts.life.after(&end);
        let id = model.id();
        let by_model = |entry: &&Entry| {
            let message = entry.body.message().filter(|message| message.role == Role::Assistant);
            message.is_some_and(|message| message.model.as_deref() == Some(&*id))
        };
        let replied = end.iter().rev().find(by_model).map(|entry| entry.at);
        // It was asked, but so long ago that the reply is not in this part.
        let earlier = || end.first().filter(|_| session.usage.contains_key(&id));
        let last = replied.or_else(|| earlier().map(|entry| entry.at));
        let until = last.map(|last| last.saturating_add(life).unwrap_or(Timestamp::MAX));
        let pause = last.map(|last| Duration::try_from(now.duration_since(last)));
        let pause = pause.and_then(Result::ok).unwrap_or_default();
        let hour = facts.life.after_pause(life, pause) > facts.life.usual;
        let tools = tools.iter().map(Spec::tokens).sum();
        let sent = context.tokens.saturating_add(tools);
        let cache = if model.provider == OFFLINE {
            CacheState::None
        } else if sent < facts.least {
            CacheState::TooShort { least: facts.least }
        } else {
            match until {
                None => CacheState::Unsent,
                Some(until) if now < until && replied.is_some() => CacheState::Warm { until },
                Some(since) => CacheState::Cold { since: since.min(now) },
            }
        };
        let price = models.price(&model.id()).map(|price| match hour {
            true => Price { cache_write: price.input * HOUR_FACTOR, ..price },
            false => price,
        });
        let (warm, cold, plain) = (
            Usage { cache_read: sent, ..Usage::default() },
            Usage { cache_write: sent, ..Usage::default() },
            Usage { input: sent, ..Usage::default() },
        );
        let of = |usage: Usage| price.map(|price: Price| price.of(&usage));
        let (dollars, dollars_cold) = match cache {
            CacheState::None | CacheState::TooShort { .. } => (of(plain), of(plain)),
            CacheState::Warm { .. } => (of(warm), of(cold)),
            CacheState::Unsent | CacheState::Cold { .. } => (of(cold), of(cold)),
        };
        let said = tally.tokens.saturating_sub(cleared);
        let tokens = context.tokens;
        NextCall { tokens, said, tools, cache, dollars, dollars_cold }
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::message::Message;
    use rethread_core::{Fixed, MemoryStore, New, Owner, Sessions, World};

    use super::*;
    use crate::provider::describe;

    #[test]
    fn the_next_call_is_cheap_until_the_cache_ends() {
        let world = std::sync::Arc::new(Fixed::default());
        let store = std::sync::Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world.clone());
        let id = sessions.create(&New::default(), None).expect("created").id();
        let model = describe("anthropic", "claude-sonnet-4-5");
        let messages = vec![Message::user("hello")];
        let mut context = Context { messages, tokens: 100_000, cuts: Vec::new(), stable: 1 };
        let now = world.now();
        let said = |message: Message| {
            sessions.thread(id).expect("opened").append(message).expect("appended");
        };
        let next = |context: &Context, seconds: i64| {
            let now = now + jiff::SignedDuration::from_secs(seconds);
            let mut session = sessions.get(id).expect("there");
            session.tally.tokens = 400_000;
            let shape = (&model, context, &[][..]);
            let next = NextCall::new(&sessions, &session, shape, &Models::default(), now);
            let cents = |dollars: Option<f64>| (dollars.expect("priced") * 1e4).round() as u64;
            assert_eq!((next.tokens, next.said), (context.tokens, 400_000));
            (next.cache, cents(next.dollars), cents(next.dollars_cold))
        };
        said(Message::user("hello"));
        said(Message { model: Some("openai/gpt-5".into()), ..Message::assistant("hi") });
        assert_eq!(next(&context, 0), (CacheState::Unsent, 3_750, 3_750), "another model replied");
        said(Message { model: Some(model.id()), ..Message::assistant("hello") });
        let until = now + jiff::SignedDuration::from_secs(300);
        assert_eq!(next(&context, 299), (CacheState::Warm { until }, 300, 3_750));
        // What is appended later keeps no cache warm.
        world.advance(Duration::from_secs(200));
        said(Message::user("and?"));
        let since = until;
        assert_eq!(next(&context, 300), (CacheState::Cold { since }, 3_750, 3_750));
        context.tokens = 1_023;
        let too_short = CacheState::TooShort { least: 1_024 };
        assert_eq!(next(&context, 0), (too_short, 31, 31));
    }
}
