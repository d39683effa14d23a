//! Compacting: a session is summarised and continues in a new, smaller one.
//!
//! Nothing is lost: the old session keeps its whole log, `recall` reads back anything that is no
//! longer in the context, and `undo` goes back.

use rethread_core::entry::{CarriedMessage, Origin, Summarized};
use rethread_core::limits::{NAMES_TOKENS_MAX, TAIL_TOKENS_MAX};
use rethread_core::measure::message_tokens;
use rethread_core::sessions::{carried, identifiers_in_use, is_end_of_turn};
use rethread_core::{Key, Message, SessionId, Thread, sessions};
use serde::Serialize;
use serde_json::json;

use crate::blocking::blocking;
use crate::leased_thread::LeasedThread;
use crate::prompt;
use crate::restore::{Continued, PastSession};
use crate::runner::{Runner, TurnError};
use crate::summarize::{SummaryMethod, SummaryOutcome};

/// The progress of a compaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// The model is asked for a summary.
    Summarizing,
    /// The model failed; the summary is extracted instead.
    Extracted {
        /// How it failed.
        why: String,
    },
    /// The old session is saved, with its summary.
    Saved(Box<PastSession>),
    /// The new session is about to start.
    Restoring,
}

/// What a compaction would save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Tokens of the current context.
    pub before: u64,
    /// Tokens of the new one, about.
    pub after: u64,
    /// Turns that would be carried over verbatim.
    pub carried: usize,
}

impl Preview {
    /// Whether the context would be smaller. The summary and the prompt around it are longer than a
    /// short conversation.
    pub fn saves(&self) -> bool {
        self.after < self.before
    }
}

/// The result of a compaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Compacted {
    /// The conversation continues in a new session.
    Done(Box<CompactReceipt>),
    /// There are no messages yet.
    Nothing,
}

/// A completed compaction.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct CompactReceipt {
    /// The session that was compacted.
    pub from: SessionId,
    /// Tokens of its context.
    pub before: u64,
    pub summary: Summarized,
    /// How the model failed, if the summary was extracted.
    pub failed: Option<String>,
    /// The new session.
    pub on: Continued,
}

impl Serialize for CompactReceipt {
    /// The JSON of a receipt.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CompactReceipt { from, before, summary, failed, on } = self;
        json!({
            "from": from,
            "session": on.session,
            "before": before,
            "after": on.tokens,
            "carried": { "turns": on.carried, "tokens": on.carried_tokens },
            "summary": { "by": summary.by, "text": summary.text, "model_failed": failed },
            "acknowledgment": on.acknowledgment,
        })
        .serialize(serializer)
    }
}

/// The share of a context that carried turns may use, as a divisor.
const TAIL_SHARE: u64 = 4;

/// The share of a context that the names after a summary may use, as a divisor.
const NAMES_SHARE: u64 = 10;

/// The expected maximum of a summary, in tokens.
const SUMMARY_TOKENS: u64 = 700;

/// Tokens of the prompt around a summary and of its acknowledgment, about.
const PROMPT_TOKENS: u64 = 220;

/// What a continued session gets in addition to its summary.
pub(crate) struct Kept {
    /// The last turns, verbatim.
    pub(crate) tail: Vec<CarriedMessage>,
    /// The names used last that the tail does not contain, the likeliest to be needed first.
    pub(crate) names: Vec<String>,
}

/// The number of turns that are carried over completely.
pub(crate) fn whole_turns(tail: &[CarriedMessage]) -> usize {
    let whole = |message: &Message| message.opens_turn() && !is_end_of_turn(message);
    tail.iter().filter(|carried| whole(&carried.message)).count()
}

impl Runner {
    /// What compacting a session would save.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session;
    /// otherwise I/O errors.
    pub fn preview(&self, id: SessionId) -> Result<Preview, sessions::Error> {
        let mut thread = self.sessions.thread(id)?;
        let before = thread.context(&self.responder.policy, &self.responder.model)?.tokens;
        let Kept { tail, names } = self.kept(&mut thread)?;
        let tokens: u64 = tail.iter().map(|c| u64::from(message_tokens(&c.message))).sum();
        let tokens = tokens + u64::from(rethread_core::tokens::count(&prompt::names(&names)));
        let system = self.responder.new_session().system.unwrap_or_default();
        // A summary is much shorter than what it replaces, and its length is bounded.
        let summary = PROMPT_TOKENS + (before / 4).min(SUMMARY_TOKENS);
        let after = tokens + summary + u64::from(rethread_core::tokens::count(&system));
        let carried = whole_turns(&tail);
        Ok(Preview { before, after, carried })
    }

    /// What is carried over in addition to the summary: little enough for a compaction to be worth
    /// it.
    pub(crate) fn kept(&self, thread: &mut Thread) -> Result<Kept, sessions::Error> {
        let context = thread.context(&self.responder.policy, &self.responder.model)?.tokens;
        let share = |part: u64, max: u32| u32::try_from(context / part).unwrap_or(max).min(max);
        let (id, log) = (thread.session().id(), thread.log());
        let tail = carried(log, id, share(TAIL_SHARE, TAIL_TOKENS_MAX));
        let names = identifiers_in_use(log, &tail, share(NAMES_SHARE, NAMES_TOKENS_MAX));
        Ok(Kept { tail, names })
    }

    /// Summarises a session and continues from the summary in a new one, which takes over its keys.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`](rethread_core::StoreError::Held) while another turn runs; otherwise I/O
    /// errors. A failing model is not an error: the summary is extracted then.
    pub async fn compact(
        &self,
        id: SessionId,
        how: SummaryMethod,
        mut report: impl FnMut(Stage),
    ) -> Result<Compacted, TurnError> {
        let sessions = self.sessions.clone();
        if blocking(move || sessions.get(id)).await?.tally.queries == 0 {
            return Ok(Compacted::Nothing);
        }
        // From here on, messages go to the new session.
        let held = self.hold(id).await?;
        let compacted = self.compact_held(&held, id, how, &mut report).await;
        held.release(&self.threads).await?;
        compacted
    }

    async fn compact_held(
        &self,
        held: &LeasedThread,
        id: SessionId,
        how: SummaryMethod,
        report: &mut impl FnMut(Stage),
    ) -> Result<Compacted, TurnError> {
        let (sessions, runner) = (self.sessions.clone(), self.clone());
        let (keys, before) = blocking(move || {
            Ok::<_, sessions::Error>((sessions.get(id)?.keys, runner.context_tokens(id)?))
        })
        .await?;
        report(Stage::Summarizing);
        let (summary, failed) = match self.summarize_held(held, id, how).await? {
            SummaryOutcome::Written(summary) => (summary, None),
            SummaryOutcome::Extracted { summary, why } => {
                report(Stage::Extracted { why: why.clone() });
                (summary, Some(why))
            }
            SummaryOutcome::Nothing => return Ok(Compacted::Nothing),
        };
        let past = self.past(id).await?;
        report(Stage::Saved(Box::new(past.clone())));
        report(Stage::Restoring);
        let on = self.restore(&past, &summary.text, Origin::Compact, keys).await?;
        Ok(Compacted::Done(Box::new(CompactReceipt { from: id, before, summary, failed, on })))
    }

    /// Starts a new session from the summary of another, and binds these keys to it. If the model
    /// does not write a summary, it is extracted.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session;
    /// otherwise I/O errors.
    pub async fn resume(&self, id: SessionId, keys: Vec<Key>) -> Result<Compacted, TurnError> {
        let runner = self.clone();
        let before = blocking(move || runner.context_tokens(id)).await?;
        let (summary, failed) = match self.summarize(id, SummaryMethod::Model).await? {
            SummaryOutcome::Written(summary) => (summary, None),
            SummaryOutcome::Extracted { summary, why } => (summary, Some(why)),
            SummaryOutcome::Nothing => return Ok(Compacted::Nothing),
        };
        let past = self.past(id).await?;
        let on = self.restore(&past, &summary.text, Origin::Resume, keys).await?;
        Ok(Compacted::Done(Box::new(CompactReceipt { from: id, before, summary, failed, on })))
    }
}
