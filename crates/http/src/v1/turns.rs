//! Turns: run one, follow one, stop one.

use axum::response::Response;
use rethread_agent::{Answer, Event, is_dead};
use rethread_core::context::Policy;
use rethread_core::message::Usage;
use rethread_core::{
    Entry, Message, Place, Raw, Session, SessionId, Sessions, StoreError, sessions,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as object};
use utoipa::ToSchema;

use super::{json, shapes};
use crate::answering::Asked;
use crate::desk::{Visitor, blocking};
use crate::input::{Id, Json};
use crate::owners::Stream;
use crate::problem::Problem;
use crate::sse;
use crate::turns::{Ended, Target, Told};

/// A question.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// What the person says: a string, a block or a list of blocks.
    #[schema(value_type = Value)]
    content: Raw,
    /// How the context is shaped: `chat`, `editor`, `emacs`, `cli` or `bot`; as the session's agent
    /// wants it when none is given.
    #[serde(default)]
    #[schema(value_type = Option<shapes::Preset>)]
    policy: Option<String>,
    /// Who answers this once, of those `/v1/agents` lists; the session's own agent when none is
    /// named.
    #[serde(default)]
    agent: Option<String>,
}

impl Question {
    fn read(self, visitor: &Visitor) -> Result<(Message, Asked), Problem> {
        let text = format!("{{\"role\":\"user\",\"content\":{}}}", self.content.get());
        let message: Message = serde_json::from_str(&text)
            .map_err(|error| Problem::bad_request(format!("`content`: {error}")))?;
        if !message.opens_turn() || message.content.is_empty() {
            return Err(Problem::bad_request("`content` says nothing"));
        }
        if let Some(name) = &self.agent {
            visitor.runner(Some(name))?;
        }
        let policy = self.policy.as_deref().map(policy).transpose()?;
        Ok((message, Asked { agent: self.agent, policy }))
    }
}

/// The preset of this name.
pub(super) fn policy(name: &str) -> Result<Policy, Problem> {
    Policy::preset(name).ok_or_else(|| {
        Problem::bad_request(format!("`policy` is one of {}", Policy::PRESETS.join(", ")))
    })
}

/// Run a turn, and wait for its answer
///
/// It goes on when the connection is closed. Turns of one session run in the order they were asked.
#[utoipa::path(post, path = "/v1/sessions/{id}/turns", tag = "turns", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Question, responses((status = 200, description = "The turn", body = shapes::Turn)))]
pub(crate) async fn run(
    visitor: Visitor,
    Id(id): Id,
    Json(ask): Json<Question>,
) -> Result<Response, Problem> {
    let (message, asked) = ask.read(&visitor)?;
    let ended = visitor.begin_turn(asked, Target::Session(id), message, None).await?;
    let gone = |_| Problem::broken("the turn was given up in the middle");
    let answer = ended.await.map_err(gone)?.outcome?;
    let sessions = visitor.sessions.clone();
    let turn = blocking(move || Turn::read(&sessions, id, &answer).map(|turn| json(&turn)));
    Ok(turn.await??)
}

/// Run a turn, and follow what happens
///
/// Each event is one line, `data: {json}`, with a `type`: `waiting` (`holder`), `text` (`text`),
/// `thinking` (`text`), `retry` (`why`, `ms`), `tool_call` (`tool`, `id`, `args`), `tool_result`
/// (`tool`, `id`, `success`, `text`), then `answer` (`answer`, `end`, `rounds`, `usage`, `ms`,
/// `seq`) or `error` (`problem`), and always last `done` (`session`).
#[utoipa::path(post, path = "/v1/sessions/{id}/turns/stream", tag = "turns", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Question, responses((status = 200, description = "What happens", body = shapes::Event, content_type = "text/event-stream")))]
pub(crate) async fn stream(
    visitor: Visitor,
    Id(id): Id,
    stream: Stream,
    Json(ask): Json<Question>,
) -> Result<Response, Problem> {
    let (message, asked) = ask.read(&visitor)?;
    let (mut sender, response) = sse::channel(stream);
    let hearer = Box::new(move |told: Told<'_>| match told {
        Told::Event(event) => {
            if let Some(event) = shown(&event) {
                sender.send(&event);
            }
        }
        Told::Ended(Ended { session, outcome }) => {
            sender.send(&match outcome {
                Ok(answer) => object!({
                    "type": "answer", "answer": answer.text, "end": answer.end.as_str(),
                    "rounds": answer.rounds, "usage": answer.usage, "ms": millis(answer),
                    "seq": answer.seq,
                }),
                Err(problem) => object!({ "type": "error", "problem": problem }),
            });
            sender.send(&object!({ "type": "done", "session": session }));
        }
    });
    visitor.begin_turn(asked, Target::Session(id), message, Some(hearer)).await?;
    Ok(response)
}

/// Stop the turn that runs in a session; what was said until then is kept
///
/// A turn that another program runs in this session cannot be stopped from here: the answer names
/// that program.
#[utoipa::path(post, path = "/v1/sessions/{id}/turns/stop", tag = "turns", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "Whether there was one", body = shapes::Stopped)))]
pub(crate) async fn stop(visitor: Visitor, Id(id): Id) -> Result<Response, Problem> {
    visitor.with(move |sessions| sessions.get(id)).await?;
    let stopped = visitor.desk.turns.stop(&visitor.owner, id);
    if !stopped {
        match visitor.with(move |sessions| Ok(sessions.is_free(id))).await? {
            Err(sessions::Error::Store(StoreError::Held { holder, until, .. }))
                if !is_dead(&holder) =>
            {
                let what = format!("`{holder}` is in a turn, and only it can stop that");
                return Err(Problem::elsewhere(what).by(holder, until));
            }
            _ => {}
        }
    }
    Ok(json(&object!({ "stopped": stopped })))
}

fn shown(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Waiting { holder } => object!({ "type": "waiting", "holder": holder }),
        Event::QuestionCut { from_chars, to_chars } => object!({
            "type": "question_cut", "from_chars": from_chars, "to_chars": to_chars,
        }),
        Event::Text(text) => object!({ "type": "text", "text": text }),
        Event::Thinking(text) => object!({ "type": "thinking", "text": text }),
        Event::Retry { why, wait } => object!({
            "type": "retry", "why": why, "ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        }),
        Event::Call(call) => object!({
            "type": "tool_call", "tool": call.name, "id": call.id,
            "args": serde_json::from_str::<Value>(call.input.get()).unwrap_or_default(),
        }),
        Event::Result { call, success, text } => object!({
            "type": "tool_result", "tool": call.name, "id": call.id, "success": success,
            "text": text,
        }),
        // Nobody is asked over HTTP: what is allowed by name is allowed.
        Event::Ask { .. } => return None,
    })
}

fn millis(answer: &Answer) -> u64 {
    u64::try_from(answer.took.as_millis()).unwrap_or(u64::MAX)
}

/// A turn that is over.
#[derive(Serialize)]
struct Turn {
    session: Session,
    answer: String,
    end: &'static str,
    rounds: u32,
    usage: Usage,
    ms: u64,
    entries: Vec<Entry>,
}

impl Turn {
    fn read(sessions: &Sessions, id: SessionId, answer: &Answer) -> sessions::Result<Turn> {
        let place = Place { session: id, seq: answer.seq };
        let entries = sessions.turn_at(place)?.into_entries();
        Ok(Turn {
            session: sessions.get(id)?,
            answer: answer.text.clone(),
            end: answer.end.as_str(),
            rounds: answer.rounds,
            usage: answer.usage,
            ms: millis(answer),
            entries,
        })
    }
}
