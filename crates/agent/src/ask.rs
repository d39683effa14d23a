//! Asks a model, with retries, until it answers or the turn is stopped.

use std::time::Duration;

use rethread_core::context::Context;
use rethread_core::{Block, Message, Role, SessionId};
use tokio_util::sync::CancellationToken;

use crate::attachments;
use crate::blocking::blocking;
use crate::events::{Event, Events};
use crate::limits::{RETRIES_MAX, RETRY_WAIT, RETRY_WAIT_MAX};
use crate::provider::{Delta, Failure, Request};
use crate::runner::Runner;
use crate::tool::Spec;

/// What is sent along with a context.
#[derive(Clone, Copy)]
pub(crate) struct AskWith<'a> {
    /// The tools that may be called.
    pub(crate) tools: &'a [Spec],
    /// Whether the provider is asked to keep its cache for longer than usual.
    pub(crate) keep_longer: bool,
}

/// The result of asking.
pub(crate) enum AskOutcome {
    /// A complete reply.
    Reply(Message),
    /// The turn was stopped; the part that arrived, marked as such.
    Stopped(Option<Message>),
    /// No reply; the part that arrived, marked as such.
    Failed(Failure, Option<Message>),
}

impl Runner {
    /// Asks for one reply in a session.
    pub(crate) async fn ask(
        &self,
        id: SessionId,
        context: &Context,
        AskWith { tools, keep_longer }: AskWith<'_>,
        events: &Events,
        stop: &CancellationToken,
    ) -> AskOutcome {
        let with_bytes = self.with_attachments(id, context).await;
        let messages = with_bytes.as_deref().unwrap_or(&context.messages);
        let mut retries = 0;
        loop {
            let mut streamed = String::new();
            let failure = {
                let mut listen = |delta: Delta| match delta {
                    Delta::Text(text) => {
                        streamed.push_str(&text);
                        events.more(Event::Text(text));
                    }
                    Delta::Thinking(text) => events.more(Event::Thinking(text)),
                };
                let model = &self.responder.model;
                let stable = context.stable;
                let session = Some(id);
                let request = Request { model, messages, stable, tools, session, keep_longer };
                let reply = tokio::select! {
                    biased;
                    () = stop.cancelled() => None,
                    reply = self.responder.provider.ask(request, &mut listen) => Some(reply),
                };
                match reply {
                    Some(Ok(reply)) if says_something(&reply) => return AskOutcome::Reply(reply),
                    Some(Ok(_)) => Some(Failure::Nonsense {
                        provider: model.provider.clone(),
                        what: "an empty reply".into(),
                    }),
                    Some(Err(failure)) => Some(failure),
                    None => None,
                }
            };
            let partial = self.partial(streamed);
            let Some(failure) = failure else { return AskOutcome::Stopped(partial) };
            let wait = match failure.retry() {
                Some(asked) if retries < RETRIES_MAX => {
                    asked.unwrap_or(RETRY_WAIT * 2_u32.pow(retries))
                }
                _ => return AskOutcome::Failed(failure, partial),
            };
            if wait > RETRY_WAIT_MAX {
                return AskOutcome::Failed(failure, partial);
            }
            retries += 1;
            events.send(Event::Retry { why: failure.to_string(), wait }).await;
            if stopped_while_waiting(wait, stop).await {
                return AskOutcome::Stopped(partial);
            }
        }
    }

    /// The messages of a context with the bytes of their attachments, if there are any.
    async fn with_attachments(&self, id: SessionId, context: &Context) -> Option<Vec<Message>> {
        if !attachments::has_any(&context.messages) {
            return None;
        }
        let (sessions, messages) = (self.sessions.clone(), context.messages.clone());
        let sees = self.responder.model.sees;
        Some(blocking(move || attachments::put_in(&sessions, id, messages, sees)).await)
    }

    /// What arrived of an incomplete reply.
    fn partial(&self, streamed: String) -> Option<Message> {
        if streamed.trim().is_empty() {
            return None;
        }
        let mut message = Message::assistant(streamed);
        message.model = Some(self.responder.model.id());
        message.interrupted = true;
        Some(message)
    }
}

async fn stopped_while_waiting(wait: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = stop.cancelled() => true,
        () = tokio::time::sleep(wait) => false,
    }
}

fn says_something(reply: &Message) -> bool {
    reply.role == Role::Assistant
        && (reply.calls().next().is_some()
            || reply.content.iter().filter_map(Block::as_text).any(|text| !text.trim().is_empty()))
}
