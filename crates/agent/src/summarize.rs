//! Telling a conversation in a few lines: by the model, or by picking sentences.

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

/// Who a summary is by when no model wrote it.
pub const EXTRACTIVE: &str = "extractive";

/// Who a summary is by that was taken over from the session before.
pub const INHERITED: &str = "inherited";

/// A summary, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SummaryOutcome {
    /// It is in the log.
    Written(Summarized),
    /// The model failed twice, so sentences were picked; that is in the log.
    Extracted {
        /// The summary.
        summary: Summarized,
        /// How the model failed.
        why: String,
    },
    /// Nothing was said that could be summarised.
    Nothing,
}

/// How a summary may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryMethod {
    /// By the model, or extractively when it fails.
    Model,
    /// Extractively: at once, without asking anybody.
    Extract,
}

impl Runner {
    /// Summarises a session and writes the summary to its log. If nothing was said since the last
    /// summary, that one is returned.
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
        // Nobody has to wait for what is there already.
        if let Some(known) = self.known_summary(id).await? {
            return Ok(known);
        }
        let held = self.hold(id).await?;
        let summary = self.summarize_held(&held, id, how).await;
        held.release(&self.threads).await?;
        summary
    }

    /// Takes a session for as long as it is summarised: what is said meanwhile would be in no
    /// summary.
    pub(crate) async fn hold(&self, id: SessionId) -> Result<LeasedThread, TurnError> {
        let (wait, never) = (self.responder.bounds.lease_wait, CancellationToken::new());
        let (sessions, cache, nobody) = (&self.sessions, &self.threads, Events::none());
        let wanted = Wanted { sessions, cache, id, wait, events: &nobody, stop: &never };
        Ok(wanted.take().await?)
    }

    /// As [`summarize`](Runner::summarize), for a caller that holds the session.
    pub(crate) async fn summarize_held(
        &self,
        held: &LeasedThread,
        id: SessionId,
        how: SummaryMethod,
    ) -> Result<SummaryOutcome, TurnError> {
        if let Some(known) = self.known_summary(id).await? {
            return Ok(known);
        }
        let offline = self.responder.scribe.model.provider == crate::provider::OFFLINE;
        let (summary, failed) = match how {
            SummaryMethod::Model if !offline => match self.ask_for_summary(id).await? {
                Ok(summary) => (summary, None),
                Err(why) => (self.extract(id).await?, Some(why)),
            },
            SummaryMethod::Model | SummaryMethod::Extract => (self.extract(id).await?, None),
        };
        let body = Body::Summary(summary.clone());
        held.with(move |thread| thread.note(body)).await?;
        Ok(match failed {
            None => SummaryOutcome::Written(summary),
            Some(why) => SummaryOutcome::Extracted { summary, why },
        })
    }

    /// The summary that is still current, or that there is nothing to summarise.
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

    /// Picks sentences.
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

    /// Asks the model, twice if need be.
    async fn ask_for_summary(
        &self,
        id: SessionId,
    ) -> Result<Result<Summarized, String>, TurnError> {
        // Room is left for the texts around the conversation, and for our count being off.
        let room = self.responder.scribe.model.budget() * 3 / 4;
        let runner = self.clone();
        let (previous, conversation) = blocking(move || {
            let (previous, conversation) = material(&runner.sessions, id, room)?;
            // The calls are not in the conversation, so the names they spell are listed after it.
            let names = runner.kept(&mut runner.sessions.thread(id)?)?.names;
            let said = conversation.markdown(&runner.responder.agent.name);
            Ok::<_, sessions::Error>((previous, said + &prompt::names(&names)))
        })
        .await?;
        let asked = prompt::summary(previous.as_deref(), &conversation);
        let messages =
            [Message::system(self.responder.scribe.prompt.as_str()), Message::user(asked)];
        let mut why = String::new();
        for _ in 0..2 {
            match self.responder.scribe.reply(&messages).await {
                Ok(reply) => match checked(&reply.plain_text()) {
                    Ok(text) => {
                        let usage = reply.usage.unwrap_or_default();
                        return Ok(Ok(Summarized {
                            text,
                            by: self.responder.scribe.model.id(),
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

/// The summary in a reply, if there is one. It may be as long as the model likes.
fn checked(reply: &str) -> Result<String, &'static str> {
    match find(reply) {
        FoundSummary::Nothing => Err("the reply has no summary markers"),
        FoundSummary::Broken => Err("the summary between the markers is empty or broken"),
        FoundSummary::Summary("[your summary here]") => Err("the reply repeats the instructions"),
        FoundSummary::Summary(text) => Ok(text.to_owned()),
    }
}

/// The last summary of a session, if nothing was said since: its own, or the one it continues from.
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

/// What a summary is made from: the summary of the session before, and what was said in this one.
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
