//! Seed 0's contract: `POST /chat` and `POST /chat/stream`, for the plugin of an editor.
//!
//! The session is found by the file that is open, and no file is a session of its own. The
//! `session_id` is told and never looked at: a plugin that lost it loses nothing.

use axum::response::{IntoResponse, Response};
use rethread_agent::Event;
use rethread_core::context::Policy;
use rethread_core::{Block, Key, Message, Role, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::answering::Asked;
use crate::desk::Visitor;
use crate::input::Json;
use crate::owners::Stream;
use crate::problem::Problem;
use crate::sse;
use crate::turns::{Ended, Target, Told};
use crate::v1::shapes;

/// What a plugin asks.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    /// What the person wrote.
    #[schema(min_length = 1, pattern = r"\S")]
    message: String,
    /// The id a plugin remembers. It is not looked at.
    #[serde(default)]
    #[schema(nullable)]
    session_id: Option<String>,
    /// The file that is open; none is a session of its own.
    #[serde(default)]
    active_file: Option<String>,
}

/// What a plugin is answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Said {
    /// The answer, whole.
    response: String,
    /// The session, for whoever wants to know.
    #[schema(value_type = uuid::Uuid)]
    session_id: SessionId,
}

/// Ask about the open file, and wait for the answer
///
/// The session is the one of `active_file`; a file that was never asked about gets a new one.
#[utoipa::path(post, path = "/chat", tag = "chat", request_body = Ask,
    responses((status = 200, description = "The answer", body = Said)))]
pub(crate) async fn chat(visitor: Visitor, Json(ask): Json<Ask>) -> Result<Response, Problem> {
    let (place, message) = ask.read(&visitor)?;
    let ended = visitor.begin_turn(as_editor(), place, message, None).await?;
    let gone = |_| Problem::broken("the turn was given up in the middle");
    let Ended { session, outcome } = ended.await.map_err(gone)?;
    let said = Said { response: outcome?.text, session_id: session };
    Ok(axum::Json(said).into_response())
}

/// Ask about the open file, and follow what happens
///
/// Each event is one line, `data: {json}`, with a `type`: `tool_call` (`tool`, `args`),
/// `tool_result` (`tool`, `success`), `response` (`content`, once and whole) or `error`
/// (`error`), and always last `done` (`session_id`).
#[utoipa::path(post, path = "/chat/stream", tag = "chat", request_body = Ask,
    responses((status = 200, description = "What happens", body = shapes::Event, content_type = "text/event-stream")))]
pub(crate) async fn chat_stream(
    visitor: Visitor,
    stream: Stream,
    Json(ask): Json<Ask>,
) -> Result<Response, Problem> {
    let (place, message) = ask.read(&visitor)?;
    let (mut sender, response) = sse::channel(stream);
    let hearer = Box::new(move |told: Told<'_>| match told {
        Told::Event(event) => {
            if let Some(event) = shown(&event) {
                sender.send(&event);
            }
        }
        Told::Ended(Ended { session, outcome }) => {
            sender.send(&match outcome {
                Ok(answer) => json!({ "type": "response", "content": answer.text }),
                Err(problem) => json!({ "type": "error", "error": problem.detail() }),
            });
            sender.send(&json!({ "type": "done", "session_id": session }));
        }
    });
    visitor.begin_turn(as_editor(), place, message, Some(hearer)).await?;
    Ok(response)
}

impl Ask {
    /// The session, and the message with its prefix.
    fn read(self, visitor: &Visitor) -> Result<(Target, Message), Problem> {
        if self.message.trim().is_empty() {
            return Err(Problem::bad_request("`message` is empty"));
        }
        drop(self.session_id);
        let mut blocks = Vec::new();
        let key = match self.active_file {
            Some(file) => {
                let key = Key::new(format!("file:{file}"))?;
                blocks.push(Block::prefix(format!("[Active file: {file}]\n\n")));
                key
            }
            None => Key::new("none")?,
        };
        blocks.push(Block::text(self.message));
        let place = Target::Key(key, Box::new(visitor.runner(None)?.new_session()));
        Ok((place, Message::new(Role::User, blocks)))
    }
}

/// What a plugin hears of an event.
fn shown(event: &Event) -> Option<Value> {
    match event {
        Event::Call(call) => {
            let args = serde_json::from_str(call.input.get()).ok();
            // A model may call with something that is no object; a plugin counts on one.
            let args = args.filter(Value::is_object).unwrap_or_else(|| json!({}));
            Some(json!({ "type": "tool_call", "tool": call.name, "args": args }))
        }
        Event::Result { call, success, .. } => {
            Some(json!({ "type": "tool_result", "tool": call.name, "success": success }))
        }
        _ => None,
    }
}

/// A question of an editor: to the session's own agent, with the context of an editor.
fn as_editor() -> Asked {
    Asked { policy: Some(Policy::editor()), ..Asked::default() }
}
