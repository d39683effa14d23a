//! Statistics of a session, the same for every interface.

use std::time::Duration;

use rethread_core::SessionId;
use rethread_core::context::{Model, Policy};
use rethread_core::sessions::{self, Economy, Sessions, Stats};
use serde_json::{Value, json};

use crate::provider::{Models, PRICES_AS_OF, cache_facts};

/// Statistics of a session.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct StatsReport {
    pub session: rethread_core::Session,
    /// The statistics of its log.
    pub stats: Stats,
    /// The policy of its contexts.
    pub policy: Policy,
    /// Messages of the next context.
    pub messages: u64,
    /// Tokens of the next context.
    pub tokens: u64,
    /// What its contexts cost, if the log is not too long to be replayed.
    pub economy: Option<Economy>,
    /// The money saved by not sending everything, in dollars, if the price of a model is known.
    /// Negative if rewriting the cache cost more than was saved.
    pub saved: Option<f64>,
    /// Its cost, if a price is known.
    pub cost: Option<SessionCost>,
}

/// The cost of a session.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct SessionCost {
    pub dollars: f64,
    /// Models without a known price.
    pub unpriced: Vec<String>,
}

impl StatsReport {
    /// Computes the statistics of a session. Reads its whole log, and writes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session;
    /// otherwise I/O errors.
    pub fn new(
        sessions: &Sessions,
        id: SessionId,
        (policy, model): (Policy, Model),
        models: &Models,
    ) -> Result<StatsReport, sessions::Error> {
        let (session, stats) = (sessions.get(id)?, sessions.stats(id)?);
        let context = sessions.context(id, &policy, &model)?;
        let economy = sessions.economy(id, &policy, &model, cache_facts(&model).life)?;
        let saved = economy.as_ref().and_then(|economy| saved(economy, models));
        let (messages, tokens) = (context.messages.len() as u64, context.tokens);
        let cost = cost(&stats, models);
        Ok(StatsReport { session, stats, policy, messages, tokens, economy, saved, cost })
    }

    /// How long models took.
    pub fn took(&self) -> Duration {
        let ms = self.session.usage.values().fold(0_u64, |sum, one| sum.saturating_add(one.ms));
        Duration::from_millis(ms)
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let (stats, profile) = (&self.stats, &self.session.header.profile);
        json!({
            "session": self.session.id(),
            "agent": profile.agent,
            "agent_path": profile.agent_path,
            "messages": {
                "user": stats.user,
                "assistant": stats.assistant,
                "tool": stats.tool,
                "system": stats.system,
            },
            "queries": stats.queries,
            "tokens": stats.tokens,
            "usage": stats.usage,
            "ms": u64::try_from(self.took().as_millis()).unwrap_or(u64::MAX),
            "from_running_totals": stats.from_running_totals,
            "models": stats.models,
            "cost": self.cost.as_ref().map(|cost| json!({
                "dollars": cost.dollars, "prices_as_of": PRICES_AS_OF, "unpriced": cost.unpriced,
            })),
            "restoration": stats.restoration,
            "tools": stats.tools,
            "context": {
                "policy": self.policy.name, "messages": self.messages, "tokens": self.tokens,
            },
            "economy": {
                "thinned_cold": stats.thinned.cold,
                "thinned_warm": stats.thinned.warm,
                "recalls": stats.recalls(),
                "recalls_per_100_calls": stats.recalls_per_100(),
                "replayed": self.economy.as_ref().map(|economy| json!({
                    "calls": economy.calls,
                    "cold_starts": economy.cold_starts,
                    "rewrites": economy.rewrites,
                    "rewritten_tokens": economy.rewritten,
                    "percent_of_everything": economy.sent().percent(),
                    "sent": economy.sent(),
                    "saved_dollars": self.saved,
                })),
            },
        })
    }
}

/// The money saved by not sending everything, in dollars; `None` if no price is known.
fn saved(economy: &Economy, models: &Models) -> Option<f64> {
    let each = economy.models.iter().filter_map(|(model, sent)| {
        let price = models.price(model)?;
        Some(price.of(&sent.everything.usage()) - price.of(&sent.contexts.usage()))
    });
    each.reduce(|sum, one| sum + one)
}

/// The cost of a session; `None` if no model has a known price.
fn cost(stats: &Stats, models: &Models) -> Option<SessionCost> {
    let (mut cost, mut priced) = (SessionCost::default(), false);
    for (model, usage) in &stats.models {
        match models.price(model) {
            Some(price) => {
                cost.dollars += price.of(usage);
                priced = true;
            }
            None => cost.unpriced.push(model.clone()),
        }
    }
    priced.then_some(cost)
}
