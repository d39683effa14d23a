//! Computes what a session's contexts cost, compared with sending everything.
//!
//! The calls of a log are replayed: before each reply, the context that its model was sent is
//! built, and the cost at a provider with a prompt cache is added up. Nothing is written, and this
//! runs only on request.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::{Result, Sessions};
use crate::cache_life::CacheLife;
use crate::context::{Context, Follower, Model, Policy};
use crate::entry::Body;
use crate::limits::ECONOMY_ENTRIES_MAX;
use crate::log::Log;
use crate::measure::message_tokens;
use crate::message::{Message, Role, Usage};
use crate::name::SessionId;
use crate::store::StoreError;

/// The cost of reading a token from a cache, in hundredths of an input token.
const READ_PERCENT: u64 = 10;
/// The cost of writing a token to a cache, in hundredths of an input token.
const WRITE_PERCENT: u64 = 125;

/// Input tokens, by how they are charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Charged {
    /// Tokens read from the provider's cache.
    pub read: u64,
    /// Tokens written to it.
    pub written: u64,
}

impl Charged {
    /// Their cost, in hundredths of an input token: reading from a cache costs a tenth, writing a
    /// quarter more.
    pub fn cost(&self) -> u64 {
        let read = self.read.saturating_mul(READ_PERCENT);
        read.saturating_add(self.written.saturating_mul(WRITE_PERCENT))
    }

    /// The same in a provider's form.
    pub fn usage(&self) -> Usage {
        Usage { cache_read: self.read, cache_write: self.written, ..Usage::default() }
    }

    /// Adds others.
    pub fn add(&mut self, other: Charged) {
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
    }
}

/// What contexts cost, and what sending everything would have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Sent {
    pub contexts: Charged,
    /// Everything since the last clear, each time.
    pub everything: Charged,
}

impl Sent {
    /// The cost in percent of the cost of everything, to a tenth; `None` if nothing was sent.
    pub fn percent(&self) -> Option<f64> {
        let everything = self.everything.cost();
        let share = self.contexts.cost() as f64 / everything as f64;
        (everything > 0).then(|| (share * 1_000.0).round() / 10.0)
    }

    /// Adds others.
    pub fn add(&mut self, other: &Sent) {
        self.contexts.add(other.contexts);
        self.everything.add(other.everything);
    }
}

/// What sending a session's contexts cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Economy {
    /// Calls of models.
    pub calls: u64,
    /// Calls after the provider's cache had expired, not counting the first.
    pub cold_starts: u64,
    /// Calls for which a warm cache was rewritten, because an earlier part of the context changed.
    pub rewrites: u64,
    /// Tokens that were cached and had to be written again.
    pub rewritten: u64,
    /// What was sent to each model, by its `provider/name`.
    pub models: BTreeMap<String, Sent>,
}

impl Economy {
    /// What was sent to all models.
    pub fn sent(&self) -> Sent {
        let mut all = Sent::default();
        self.models.values().for_each(|sent| all.add(sent));
        all
    }
}

impl Sessions {
    /// Replays the calls of a session with this policy and this model, whose provider's cache lives
    /// for `cache_life`. `None` if the log is longer than [`ECONOMY_ENTRIES_MAX`]. Calls that were
    /// copied from another session are not counted.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such session; otherwise I/O errors.
    pub fn economy(
        &self,
        id: SessionId,
        policy: &Policy,
        model: &Model,
        cache_life: impl Into<CacheLife>,
    ) -> Result<Option<Economy>> {
        let session = self.get(id)?;
        let tally = session.tally;
        if tally.entries > ECONOMY_ENTRIES_MAX {
            return Ok(None);
        }
        let policy = policy.clone().for_session(&session.header);
        let mut replay = Replay::new(policy, model, cache_life.into());
        let own = tally.started.unwrap_or(0);
        let read = self.read_around(id, 0..tally.entries, tally)?;
        let mut log = Log::default();
        for (seq, what) in read.damage {
            log.note_damage(seq, what);
        }
        for entry in read.entries {
            if let Body::Message(message) = &entry.body
                && message.role == Role::Assistant
                && entry.seq >= own
            {
                replay.call(&log, message, entry.at);
            }
            log.push(entry).map_err(|gap| {
                let what = format!("entry {} is missing", gap.expected);
                StoreError::Damaged { id, seq: gap.expected, what }
            })?;
        }
        Ok(Some(replay.economy))
    }
}

/// The calls of a log, one after the other.
struct Replay {
    contexts: Follower,
    everything: Follower,
    cache_life: CacheLife,
    /// What each model's provider has cached.
    caches: BTreeMap<Option<String>, Cached>,
    economy: Economy,
}

/// What a provider has cached for a model.
struct Cached {
    /// The messages, and the tokens of each.
    messages: Vec<(Message, u64)>,
    /// Everything, in tokens.
    everything: u64,
    /// When it was last used.
    used_at: Timestamp,
    /// How long it keeps what was written last.
    kept_for: Duration,
}

impl Replay {
    fn new(policy: Policy, model: &Model, cache_life: CacheLife) -> Replay {
        // Everything has no context window.
        let endless = Model { window: u64::MAX / 4, ..model.clone() };
        Replay {
            contexts: Follower::new(policy, model.clone()),
            everything: Follower::new(Policy::cli(), endless),
            cache_life,
            caches: BTreeMap::new(),
            economy: Economy::default(),
        }
    }

    /// Counts one call: the context of `log`, and its reply.
    fn call(&mut self, log: &Log, reply: &Message, at: Timestamp) {
        let sent_at = log.entries().last().map_or(at, |entry| entry.at);
        let mut kept_for = self.cache_life.usual;
        let mut cached = self.caches.remove(&reply.model);
        if let Some(cache) = &cached {
            let idle = Duration::try_from(sent_at.duration_since(cache.used_at));
            let idle = idle.unwrap_or_default();
            kept_for = self.cache_life.after_pause(cache.kept_for, idle);
            if idle > cache.kept_for {
                cached = None;
            }
        }
        self.economy.cold_starts += u64::from(cached.is_none() && self.economy.calls > 0);
        self.economy.calls += 1;
        let (known, known_everything) =
            cached.map_or_else(Default::default, |cache| (cache.messages, cache.everything));
        let everything = next_context(&mut self.everything, log, |context| context.tokens);
        let read = known_everything.min(everything);
        let everything_sent = Charged { read, written: everything - read };
        let (now, same) = next_context(&mut self.contexts, log, |context| {
            let pairs = known.iter().zip(&context.messages);
            let same = pairs.take_while(|((old, _), new)| old == *new).count();
            let new = context.messages[same..].iter();
            let new = new.map(|one| (one.clone(), u64::from(message_tokens(one))));
            (new.collect::<Vec<_>>(), same)
        });
        let tokens = |messages: &[(Message, u64)]| messages.iter().map(|one| one.1).sum::<u64>();
        let (read, lost) = (tokens(&known[..same]), tokens(&known[same..]));
        if same < known.len() {
            self.economy.rewrites += 1;
            self.economy.rewritten += lost;
        }
        let contexts = Charged { read, written: tokens(&now) };
        let mut messages = known;
        messages.truncate(same);
        messages.extend(now);
        let model = reply.model.clone().unwrap_or_else(|| "unknown".into());
        let sent = Sent { contexts, everything: everything_sent };
        self.economy.models.entry(model).or_default().add(&sent);
        let cache = Cached { messages, everything, used_at: at, kept_for };
        self.caches.insert(reply.model.clone(), cache);
    }
}

/// A value computed from the context of a log, which is dropped before the next one is built.
fn next_context<T>(follower: &mut Follower, log: &Log, look: impl FnOnce(&Context) -> T) -> T {
    let context = follower.extend(log).unwrap_or_else(|| follower.build(log));
    look(&context)
}
