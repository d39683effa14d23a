//! Summarises a conversation: with a model, or by extracting sentences.

use rethread_core::entry::{Body, Summarized};
use rethread_core::message::Usage;
use rethread_core::summary::{FoundSummary, find};
use rethread_core::{Message, Session, SessionId, Sessions, sessions};

use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::conversation::Conversation;
use crate::extractive::extractive;
use crate::leased_thread::{LeasedThread, Wanted};
use crate::limits::EXTRACT_TOKENS;
use crate::runner::{Runner, TurnError};
use crate::{Events, prompt};

/// The author of an extracted summary.
pub const EXTRACTIVE: &str = "extractive";

/// The author of a summary that was taken over from the previous session.
pub const INHERITED: &str = "inherited";

/// The result of summarising.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum SummaryOutcome {
    /// The summary is in the log.
    Written(Summarized),
    /// The model failed twice, so the summary was extracted; it is in the log.
    Extracted {
        summary: Summarized,
        /// How the model failed.
        why: String,
    },
    /// There are no messages to summarise.
    Nothing,
}

/// How to summarise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryMethod {
    /// With the model, or extracted if it fails.
    Model,
    /// Extracted: at once, without a model.
    Extract,
}

impl Runner {
    /// Summarises a session and appends the summary to its log. If there are no messages since the
    /// last summary, that one is returned.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`](rethread_core::StoreError::Held) while another turn runs; otherwise I/O
    /// errors. A failing model is not an error but [`SummaryOutcome::Extracted`].
    pub async fn summarize(
        &self,
        id: SessionId,
        how: SummaryMethod,
    ) -> Result<SummaryOutcome, TurnError> {
        // An existing summary needs no waiting.
        if let Some(known) = self.known_summary(id).await? {
            return Ok(known);
        }
        let held = self.hold(id).await?;
        let summary = self.summarize_held(&held, id, how).await;
        held.release(&self.threads).await?;
        summary
    }

    /// Leases a session while it is summarised: messages added in the meantime would be missing
    /// from the summary.
    pub(crate) async fn hold(&self, id: SessionId) -> Result<LeasedThread, TurnError> {
        let (wait, never) = (self.responder.limits.lease_wait, CancellationToken::new());
        let (sessions, cache, nobody) = (&self.sessions, &self.threads, Events::none());
        let wanted = Wanted { sessions, cache, id, wait, events: &nobody, stop: &never };
        Ok(wanted.take().await?)
    }

    /// As [`summarize`](Runner::summarize), for a caller that holds the lease.
    pub(crate) async fn summarize_held(
        &self,
        held: &LeasedThread,
        id: SessionId,
        how: SummaryMethod,
    ) -> Result<SummaryOutcome, TurnError> {
        if let Some(known) = self.known_summary(id).await? {
            return Ok(known);
        }
        let offline = self.responder.summarizer.model.provider == crate::provider::OFFLINE;
        let (summary, failed) = match how {
            SummaryMethod::Model if !offline => match self.ask_for_summary(id).await? {
                Ok(summary) => (summary, None),
                Err(why) => (self.extract(id).await?, Some(why)),
            },
            SummaryMethod::Model | SummaryMethod::Extract => (self.extract(id).await?, None),
        };
        let written = summary.clone();
        held.with(move |thread| thread.summarize(written)).await?;
        Ok(match failed {
            None => SummaryOutcome::Written(summary),
            Some(why) => SummaryOutcome::Extracted { summary, why },
        })
    }

    /// The current summary, or that there is nothing to summarise.
    async fn known_summary(&self, id: SessionId) -> Result<Option<SummaryOutcome>, TurnError> {
        let sessions = self.sessions.clone();
        let known = blocking(move || {
            if let Some(summary) = current_summary(&sessions, id)? {
                return Ok(Some(SummaryOutcome::Written(summary)));
            }
            let tally = sessions.get(id)?.tally;
            let silent = tally.turn.is_none_or(|turn| turn < tally.begins());
            Ok::<_, sessions::Error>(silent.then_some(SummaryOutcome::Nothing))
        });
        Ok(known.await?)
    }

    /// Extracts a summary.
    async fn extract(&self, id: SessionId) -> Result<Summarized, TurnError> {
        let sessions = self.sessions.clone();
        let (previous, conversation) =
            blocking(move || material(&sessions, id, EXTRACT_TOKENS)).await?;
        let Conversation { turns, open_tasks, .. } = conversation;
        let turns: Vec<(String, String)> =
            turns.into_iter().map(|turn| (turn.user, turn.assistant)).collect();
        let text = extractive(&turns, &open_tasks, previous.as_deref());
        Ok(Summarized { text, by: EXTRACTIVE.into(), usage: Usage::default() })
    }

    /// Asks the model, at most twice.
    async fn ask_for_summary(
        &self,
        id: SessionId,
    ) -> Result<Result<Summarized, String>, TurnError> {
        // Room is left for the texts around the conversation, and for an inexact token count.
        let room = self.responder.summarizer.model.budget() * 3 / 4;
        let runner = self.clone();
        let (previous, conversation) = blocking(move || {
            let (previous, conversation) = material(&runner.sessions, id, room)?;
            // The calls are not part of the conversation, so the names in them are listed after it.
            let names = runner.kept(&mut runner.sessions.thread(id)?)?.names;
            let said = conversation.markdown(&runner.responder.agent.name);
            Ok::<_, sessions::Error>((previous, said + &prompt::names(&names)))
        })
        .await?;
        let asked = prompt::summary(previous.as_deref(), &conversation);
        let messages =
            [Message::system(self.responder.summarizer.prompt.as_str()), Message::user(asked)];
        let mut why = String::new();
        for _ in 0..2 {
            match self.responder.summarizer.reply(&messages).await {
                Ok(reply) => match checked(&reply.plain_text()) {
                    Ok(text) => {
                        let usage = reply.usage.unwrap_or_default();
                        return Ok(Ok(Summarized {
                            text,
                            by: self.responder.summarizer.model.id(),
                            usage,
                        }));
                    }
                    Err(wrong) => why = wrong.into(),
                },
                Err(failed) => why = failed,
            }
        }
        Ok(Err(why))
    }
}

/// The summary in a reply, if there is one. It may have any length.
fn checked(reply: &str) -> Result<String, &'static str> {
    match find(reply) {
        FoundSummary::Nothing => Err("the reply has no summary markers"),
        FoundSummary::Broken => Err("the summary between the markers is empty or broken"),
        FoundSummary::Summary("[your summary here]") => Err("the reply repeats the instructions"),
        FoundSummary::Summary(text) => Ok(text.to_owned()),
    }
}

/// The last summary of a session, if there are no messages since: its own, or the one it continues
/// from.
pub(crate) fn current_summary(
    sessions: &Sessions,
    id: SessionId,
) -> Result<Option<Summarized>, sessions::Error> {
    let session = sessions.get(id)?;
    let Some(seq) = session.tally.summary else {
        let inherited = match session.tally.turn {
            None => previous(sessions, &session)?,
            Some(_) => None,
        };
        let usage = Usage::default();
        return Ok(inherited.map(|text| Summarized { text, by: INHERITED.into(), usage }));
    };
    if session.tally.turn.is_some_and(|turn| turn > seq) {
        return Ok(None);
    }
    let entry = sessions.read(id, seq..seq + 1)?.pop();
    Ok(entry.and_then(|entry| match entry.body {
        Body::Summary(summary) => Some(summary),
        _ => None,
    }))
}

/// The input of a summary: the summary of the previous session, and the conversation of this one.
fn material(
    sessions: &Sessions,
    id: SessionId,
    tokens_max: u64,
) -> Result<(Option<String>, Conversation), sessions::Error> {
    let session = sessions.get(id)?;
    let conversation = Conversation::read(sessions, &session, tokens_max)?;
    Ok((previous(sessions, &session)?, conversation))
}

/// The summary a session was restored from.
fn previous(sessions: &Sessions, session: &Session) -> Result<Option<String>, sessions::Error> {
    let Some(seq) = session.tally.started else { return Ok(None) };
    let entry = sessions.read(session.id(), seq..seq + 1)?.pop();
    Ok(entry.and_then(|entry| match entry.body {
        Body::Restored(restored) => Some(restored.summary),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use rethread_core::summary::block;

    use super::*;

    #[test]
    fn a_summary_needs_its_markers_and_something_between_them_and_may_be_long() {
        assert_eq!(checked(&block("a decision")).expect("good"), "a decision");
        assert!(checked("a decision").is_err());
        assert!(checked(&block(" ")).is_err());
        assert!(checked(&block("[your summary here]")).is_err());
        assert!(checked(&block(&"word ".repeat(10_000))).is_ok());
    }
}
