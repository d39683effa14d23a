//! The usage of a session by model: stored with its log, so that lists and charts do not have to
//! read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::entry::Body;
use crate::message::Usage;

/// The usage of one model, and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// What the provider charged.
    #[serde(flatten)]
    pub usage: Usage,
    /// Milliseconds of the turns it answered.
    #[serde(default)]
    pub ms: u64,
}

/// The usage of each model, by its `provider/name`.
pub type UsageByModel = BTreeMap<String, ModelUsage>;

/// Sums are capped at this, so that two of them fit into a signed 64-bit integer.
pub const SUM_MAX: u64 = 1 << 62;

/// Characters of a model's name.
const NAME_CHARS_MAX: usize = 200;

/// The name for usage without a model.
const UNKNOWN: &str = "unknown";

/// What entries add to the usage of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Earlier usage belongs to another session: this one was started as its copy.
    pub anew: bool,
    /// The usage they add.
    pub models: UsageByModel,
}

impl Spent {
    /// The usage that these entries add.
    pub fn of<'a>(bodies: impl IntoIterator<Item = &'a Body>) -> Spent {
        let mut spent = Spent::default();
        bodies.into_iter().for_each(|body| spent.add(body));
        spent
    }

    /// Whether they add nothing.
    pub fn is_nothing(&self) -> bool {
        !self.anew && self.models.is_empty()
    }

    /// The usage of a session, including them.
    pub fn add_to(&self, usage: &mut UsageByModel) {
        if self.anew {
            usage.clear();
        }
        for (model, spent) in &self.models {
            usage.entry(model.clone()).or_default().add(spent.usage, spent.ms);
        }
    }

    /// Counts one more entry.
    pub fn add(&mut self, body: &Body) {
        let nothing = Usage::default();
        let (model, usage, ms) = match body {
            Body::Message(message) => match message.usage {
                Some(usage) => (message.model.as_ref(), usage, 0),
                None => return,
            },
            // The usage is in its replies.
            Body::Finished(finished) => match &finished.model {
                Some(model) => (Some(model), nothing, finished.ms),
                None => return,
            },
            Body::Summary(summary) => (Some(&summary.by), summary.usage, 0),
            Body::Restored(restored) => {
                *self = Spent { anew: true, ..Spent::default() };
                (restored.model.as_ref(), restored.usage, restored.ms)
            }
            Body::Started(_) => {
                *self = Spent { anew: true, ..Spent::default() };
                return;
            }
            Body::RoundLimit(_)
            | Body::Cleared { .. }
            | Body::Undone { .. }
            | Body::LeftOut(_)
            | Body::Thinned(_)
            | Body::Decided(_)
            | Body::Unknown { .. } => return,
        };
        if usage == nothing && ms == 0 {
            return;
        }
        let model = model.map_or_else(|| UNKNOWN.to_owned(), |model| named(model));
        self.models.entry(model).or_default().add(usage, ms);
    }
}

/// A model's name, made safe: it may come from anyone's file, and has to fit into an index.
fn named(model: &str) -> String {
    model.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect()
}

impl ModelUsage {
    /// Adds usage, saturating: a provider that reports absurd numbers must not stop a conversation.
    pub fn add(&mut self, usage: Usage, ms: u64) {
        let mine = &mut self.usage;
        for (sum, more) in [
            (&mut mine.input, usage.input),
            (&mut mine.output, usage.output),
            (&mut mine.cache_read, usage.cache_read),
            (&mut mine.cache_write, usage.cache_write),
            (&mut self.ms, ms),
        ] {
            *sum = sum.saturating_add(more).min(SUM_MAX);
        }
    }

    /// The columns of a database for it: input, output, cache reads, cache writes, time.
    pub fn columns(&self) -> [u64; 5] {
        let Usage { input, output, cache_read, cache_write } = self.usage;
        [input, output, cache_read, cache_write, self.ms]
    }

    /// The usage in the columns.
    pub fn of_columns([input, output, cache_read, cache_write, ms]: [u64; 5]) -> ModelUsage {
        ModelUsage { usage: Usage { input, output, cache_read, cache_write }, ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Finished, Origin, Started};
    use crate::message::Message;

    fn reply(model: Option<&str>, output: u64) -> Body {
        let usage = Some(Usage { output, ..Usage::default() });
        let model = model.map(str::to_owned);
        Body::Message(Message { model, usage, ..Message::assistant("yes") })
    }

    #[test]
    fn each_model_is_counted_by_itself_and_a_copy_begins_at_nothing() {
        let finished =
            Body::Finished(Finished { model: Some("a/b".into()), ms: 40, ..Finished::default() });
        let bodies = [reply(Some("a/b"), 1), reply(None, 2), reply(Some("a/b"), 4), finished];
        let spent = Spent::of(&bodies);
        let sums: Vec<(&str, u64, u64)> =
            spent.models.iter().map(|(m, u)| (m.as_str(), u.usage.output, u.ms)).collect();
        assert_eq!(sums, [("a/b", 5, 40), ("unknown", 2, 0)]);
        let started = Started { origin: Origin::Fork, from: None, keys: Vec::new() };
        let copy = [reply(Some("a/b"), 8), Body::Started(started), reply(Some("a/b"), 16)];
        let odd = format!("a\u{0}b{}", "c".repeat(5_000));
        assert!(
            Spent::of([&reply(Some(&odd), 1)])
                .models
                .contains_key(&format!("ab{}", "c".repeat(198)))
        );
        let mut usage = spent.models;
        Spent::of(&copy).add_to(&mut usage);
        assert_eq!(usage.len(), 1);
        assert_eq!(usage["a/b"].usage.output, 16);
    }
}
