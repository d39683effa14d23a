//! What a session is made of, in numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Result, Sessions};
use crate::entry::{Body, Entry};
use crate::log::open_calls;
use crate::message::{Role, Usage};
use crate::name::SessionId;

/// The field of a reply that keeps what its source counted up to it, where the source adds up and
/// the reply's usage is the difference.
pub const RUNNING_TOTAL: &str = "running_total";

/// What a session is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Messages of the user.
    pub user: u64,
    /// Messages of the assistant.
    pub assistant: u64,
    /// Messages of tools.
    pub tool: u64,
    /// System messages.
    pub system: u64,
    /// Turns.
    pub queries: u64,
    /// Tokens of everything said.
    pub tokens: u64,
    /// What providers charged for the replies.
    pub usage: Usage,
    /// The same for each model, by its `provider/name`.
    pub models: BTreeMap<String, Usage>,
    /// What they charged for restoring the session, where it continues another.
    pub restoration: Option<Usage>,
    /// Replies whose usage is the difference of two running totals, as their source counted.
    pub from_running_totals: u64,
    /// What each tool did, by its name.
    pub tools: BTreeMap<String, ToolStats>,
}

/// What a tool did.
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
    /// Counts a session's messages by role and by tool, those that can be read. Reads the whole log, a
    /// page at a time.
    ///
    /// # Errors
    ///
    /// `StoreError::NotFound` without such a session; otherwise I/O errors.
    pub fn stats(&self, id: SessionId) -> Result<Stats> {
        let session = self.get(id)?;
        let mut stats = Stats {
            queries: session.tally.queries,
            tokens: session.tally.tokens,
            ..Stats::default()
        };
        let mut tools = ToolCounter::default();
        for entry in self.entries(id, 0..session.tally.entries).around_damage() {
            let entry = entry?;
            if let Body::Restored(restored) = &entry.body {
                stats.restoration = Some(restored.usage);
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

/// Counts what tools did, entry by entry. What a result belongs to may only be known from the reply
/// before it.
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
