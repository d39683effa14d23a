//! Statistics of a session.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Result, Sessions};
use crate::entry::{Body, Entry, Thinning};
use crate::log::open_calls;
use crate::message::{Role, Usage};
use crate::name::SessionId;

/// The field of a reply with its source's running total, if the source counts cumulatively and the
/// reply's usage is a difference.
pub const RUNNING_TOTAL: &str = "running_total";

/// Statistics of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// User messages.
    pub user: u64,
    /// Assistant messages.
    pub assistant: u64,
    /// Tool messages.
    pub tool: u64,
    /// System messages.
    pub system: u64,
    /// Turns.
    pub queries: u64,
    /// Tokens of all messages.
    pub tokens: u64,
    /// What providers charged for the replies.
    pub usage: Usage,
    /// The same for each model, by its `provider/name`.
    pub models: BTreeMap<String, Usage>,
    /// What they charged for restoring the session, if it continues another.
    pub restoration: Option<Usage>,
    /// Replies whose usage is the difference of two running totals of their source.
    pub from_running_totals: u64,
    /// Statistics of each tool, by its name.
    pub tools: BTreeMap<String, ToolStats>,
    /// How often results of finished turns were thinned.
    pub thinned: ThinnedStats,
}

/// How often results of finished turns were thinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThinnedStats {
    /// When the provider's cache had expired, so that it cost nothing.
    pub cold: u64,
    /// While the cache was warm, because it paid: the cache was rewritten.
    pub warm: u64,
}

impl Stats {
    /// How often models fetched something that had been cut.
    pub fn recalls(&self) -> u64 {
        self.tools.get(RECALL).map_or(0, |tool| tool.calls)
    }

    /// The same per hundred replies.
    pub fn recalls_per_100(&self) -> f64 {
        100.0 * self.recalls() as f64 / self.assistant.max(1) as f64
    }
}

/// The tool that fetches what was cut.
const RECALL: &str = "recall";

/// Statistics of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolStats {
    /// How often it was called.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// Tokens of its results.
    pub tokens: u64,
}

impl Sessions {
    /// Counts a session's readable messages by role and by tool. Reads the whole log, page by page.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](crate::StoreError::NotFound) if there is no such session; otherwise
    /// I/O errors.
    pub fn stats(&self, id: SessionId) -> Result<Stats> {
        let session = self.get(id)?;
        let mut stats = Stats {
            queries: session.tally.queries,
            tokens: session.tally.tokens,
            ..Stats::default()
        };
        let mut tools = ToolCounter::default();
        for entry in self.entries(id, 0..session.tally.entries).skip_damaged() {
            let entry = entry?;
            if let Body::Restored(restored) = &entry.body {
                stats.restoration = Some(restored.usage);
            }
            if let Body::Thinned(thinned) = &entry.body {
                match thinned.why {
                    Thinning::Cold => stats.thinned.cold += 1,
                    Thinning::Pays => stats.thinned.warm += 1,
                }
            }
            let Some(message) = entry.body.message() else { continue };
            if let Some(usage) = message.usage {
                stats.usage += usage;
                let model = message.model.clone().unwrap_or_else(|| "unknown".into());
                *stats.models.entry(model).or_default() += usage;
                let running = message.extra.iter().any(|(name, _)| name == RUNNING_TOTAL);
                stats.from_running_totals += u64::from(running);
            }
            match message.role {
                Role::User => stats.user += 1,
                Role::Assistant => stats.assistant += 1,
                Role::Tool => stats.tool += 1,
                Role::System => stats.system += 1,
            }
            tools.count(entry, &mut stats.tools);
        }
        Ok(stats)
    }
}

/// Counts tool calls and results, entry by entry. The tool of a result may be known only from the
/// reply before it.
#[derive(Default)]
pub(super) struct ToolCounter {
    last_reply: Option<Body>,
}

impl ToolCounter {
    /// Counts one more entry.
    pub(super) fn count(&mut self, entry: Entry, tools: &mut BTreeMap<String, ToolStats>) {
        let Some(message) = entry.body.message() else { return };
        for call in message.calls() {
            tools.entry(call.name.clone()).or_default().calls += 1;
        }
        for (result, measure) in message.results().zip(&entry.measure.results) {
            let tool = measure
                .tool
                .clone()
                .or_else(|| open_calls(self.last_reply.iter(), &result.tool_use_id));
            let tool = tools.entry(tool.unwrap_or_else(|| "unknown".into())).or_default();
            tool.tokens += u64::from(measure.tokens);
            tool.errors += u64::from(measure.stub.contains(r#","status":"error""#));
        }
        if message.role == Role::Assistant {
            self.last_reply = Some(entry.body);
        }
    }
}
