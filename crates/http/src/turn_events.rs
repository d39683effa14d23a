//! A turn over HTTP: one response at its end, or a stream of events.

use axum::response::Response;
use rethread_agent::host::{EndedTurn, StartedTurn};
use rethread_agent::{Event, Events, Target, TurnAnswer, TurnInput, TurnOptions};
use rethread_core::SessionId;
use rethread_core::world::rfc3339;
use serde_json::Value;

use crate::input::BodyRoom;
use crate::problem::Problem;
use crate::quotas::Stream;
use crate::sse;
use crate::state::Caller;

/// How a stream writes events.
pub(crate) trait Wording: Send + 'static {
    /// An event as it is sent, or `None` if it is not sent.
    fn event(&self, event: &Event) -> Option<Value>;

    /// The last lines of the stream.
    fn ended(&self, session: SessionId, outcome: &Result<TurnAnswer, Problem>) -> Vec<Value>;
}

impl Caller {
    /// Runs a turn and waits for it. It continues if the client disconnects.
    pub(crate) async fn run_turn(
        &self,
        target: Target,
        input: impl Into<TurnInput>,
        options: TurnOptions,
        room: BodyRoom,
    ) -> Result<(SessionId, TurnAnswer), Problem> {
        let options = self.named(options);
        let started = self.handle.start_turn(target, input, options, Events::none()).await?;
        // The host has counted the question.
        drop(room);
        let caller = self.clone();
        let ended = self.state.host.spawn(async move { caller.ended(started).await });
        let (session, outcome) =
            ended.await.map_err(|_| Problem::broken("the turn was aborted"))?;
        Ok((session, outcome?))
    }

    /// Runs a turn and streams its events. It continues if the client disconnects.
    pub(crate) async fn stream_turn(
        &self,
        stream: Stream,
        target: Target,
        input: impl Into<TurnInput>,
        options: TurnOptions,
        wording: impl Wording,
    ) -> Result<Response, Problem> {
        let (events, mut receiver) = Events::channel();
        let options = self.named(options);
        let started = self.handle.start_turn(target, input, options, events).await?;
        let (bytes, owner) = (self.state.quotas.bytes.clone(), self.handle.owner().clone());
        let (mut sender, response) = sse::channel(bytes, owner, stream);
        let caller = self.clone();
        self.state.host.spawn(async move {
            while let Some(event) = receiver.recv().await {
                if let Some(value) = wording.event(&event) {
                    sender.send(&value);
                }
            }
            let (session, outcome) = caller.ended(started).await;
            // The response has begun with a 200, so the log line of the request does not show this.
            if let Err(problem) = &outcome {
                caller.log_failure(session, problem);
            }
            for value in wording.ended(session, &outcome) {
                sender.send(&value);
            }
        });
        Ok(response)
    }

    /// A turn that its client has not named is identified by its request.
    fn named(&self, options: TurnOptions) -> TurnOptions {
        let name = options.name.or_else(|| Some(self.request.to_string()));
        TurnOptions { name, ..options }
    }

    async fn ended(&self, started: StartedTurn) -> (SessionId, Result<TurnAnswer, Problem>) {
        let EndedTurn { session, outcome } = started.ended().await;
        let outcome = outcome.map_err(Problem::from);
        let answer = outcome.as_ref().ok();
        let models = self.state.host.roster().models();
        let price = answer.and_then(|answer| models.price(&answer.model));
        self.state.metrics.turn(answer, price.as_ref());
        (session, outcome)
    }

    fn log_failure(&self, session: SessionId, problem: &Problem) {
        let mut line = serde_json::json!({
            "at": rfc3339(self.state.world.now()),
            "owner": self.handle.owner().as_str(),
            "turn": session,
            "status": problem.status().as_u16(),
        });
        if let Some(cause) = problem.cause() {
            line["cause"] = cause.into();
        }
        self.state.log.line(&line);
    }
}
