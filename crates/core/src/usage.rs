//! What a session cost, for each model: kept beside its log, so that lists and charts never read
//! one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::entry::Body;
use crate::message::Usage;

/// What one model was asked for, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// What the provider charged.
    #[serde(flatten)]
    pub usage: Usage,
    /// Milliseconds of the turns it answered.
    #[serde(default)]
    pub ms: u64,
}

/// What each model was asked for, by its `provider/name`.
pub type UsageByModel = BTreeMap<String, ModelUsage>;

/// No sum grows beyond this, so that two of them fit into a signed number of 64 bits.
pub const SUM_MAX: u64 = 1 << 62;

/// Characters of a model's name.
const NAME_CHARS_MAX: usize = 200;

/// What is not said to be any model's.
const UNKNOWN: &str = "unknown";

/// What entries add to the usage of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// What was counted before them is another session's: this one was started as its copy.
    pub anew: bool,
    /// What they add.
    pub models: UsageByModel,
}

impl Spent {
    /// What these entries add.
    pub fn of<'a>(bodies: impl IntoIterator<Item = &'a Body>) -> Spent {
        let mut spent = Spent::default();
        bodies.into_iter().for_each(|body| spent.add(body));
        spent
    }

    /// Whether they add nothing.
    pub fn is_nothing(&self) -> bool {
        !self.anew && self.models.is_empty()
    }

    /// The usage of a session with them in it.
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
            // What it was charged is said by its replies.
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

/// What a model is called here. A name may come from anyone's file, and has to fit into an index.
fn named(model: &str) -> String {
    model.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect()
}

impl ModelUsage {
    /// Sums of charges; a provider that reports absurd figures must not stop a conversation.
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

    /// The columns a database keeps it in: input, output, read from and written to a cache, time.
    pub fn columns(&self) -> [u64; 5] {
        let Usage { input, output, cache_read, cache_write } = self.usage;
        [input, output, cache_read, cache_write, self.ms]
    }

    /// What the columns say.
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
