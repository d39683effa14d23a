//! `POST /chat` and `POST /chat/stream`, the contract with editor plugins.
//!
//! The session is found by the open file; requests without a file share one. `session_id` is
//! returned, and ignored on input: a plugin that lost it loses nothing.

use axum::response::Response;
use rethread_agent::{Event, Target, TurnAnswer, TurnMode, TurnOptions};
use rethread_core::context::Policy;
use rethread_core::{Block, Key, Message, Role, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::input::Json;
use crate::problem::Problem;
use crate::quotas::Stream;
use crate::state::Caller;
use crate::turn_events::Wording;
use crate::v1::{json, shapes};

/// A question of an editor plugin.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatRequest {
    /// The user's message.
    #[schema(min_length = 1, pattern = r"\S")]
    message: String,
    /// Ignored. Plugins may send the id from an earlier response.
    #[serde(default)]
    #[schema(nullable)]
    session_id: Option<String>,
    /// The open file. Requests without one share a session.
    #[serde(default)]
    active_file: Option<String>,
}

/// The answer for an editor plugin.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatAnswer {
    /// The complete answer.
    response: String,
    /// The id of the session.
    #[schema(value_type = uuid::Uuid)]
    session_id: SessionId,
}

/// Ask about the open file, and wait for the answer
///
/// The session is the one of `active_file`; a file that was never asked about gets a new one.
#[utoipa::path(post, path = "/chat", tag = "chat", request_body = ChatRequest,
    responses((status = 200, description = "The answer", body = ChatAnswer)))]
pub(crate) async fn chat(
    caller: Caller,
    Json(ask, room): Json<ChatRequest>,
) -> Result<Response, Problem> {
    let (target, message) = ask.read()?;
    let (session, answer) = caller.run_turn(target, message, as_editor(), room).await?;
    Ok(json(&ChatAnswer { response: answer.text, session_id: session }))
}

/// Ask about the open file, and stream events
///
/// Each event is one line, `data: {json}`, with a `type`: `tool_call` (`tool`, `args`),
/// `tool_result` (`tool`, `success`), `response` (`content`, once and complete) or `error`
/// (`error`), and always last `done` (`session_id`).
#[utoipa::path(post, path = "/chat/stream", tag = "chat", request_body = ChatRequest,
    responses((status = 200, description = "Events", body = shapes::Event, content_type = "text/event-stream")))]
pub(crate) async fn chat_stream(
    caller: Caller,
    stream: Stream,
    Json(ask, room): Json<ChatRequest>,
) -> Result<Response, Problem> {
    let (target, message) = ask.read()?;
    let started = caller.stream_turn(stream, target, message, as_editor(), Editor).await;
    drop(room);
    started
}

/// The events of a turn that a plugin gets.
struct Editor;

impl Wording for Editor {
    fn event(&self, event: &Event) -> Option<Value> {
        match event {
            Event::Call(call) => {
                let args = serde_json::from_str(call.input.get()).ok();
                // A model may call a tool with something that is not an object; plugins expect one.
                let args = args.filter(Value::is_object).unwrap_or_else(|| json!({}));
                Some(json!({ "type": "tool_call", "tool": call.name, "args": args }))
            }
            Event::Result { call, success, .. } => {
                Some(json!({ "type": "tool_result", "tool": call.name, "success": success }))
            }
            _ => None,
        }
    }

    fn ended(&self, session: SessionId, outcome: &Result<TurnAnswer, Problem>) -> Vec<Value> {
        let last = match outcome {
            Ok(answer) => json!({ "type": "response", "content": answer.text }),
            Err(problem) => json!({ "type": "error", "error": problem.detail() }),
        };
        vec![last, json!({ "type": "done", "session_id": session })]
    }
}

impl ChatRequest {
    /// The session, and the message with its prefix.
    fn read(self) -> Result<(Target, Message), Problem> {
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
        Ok((Target::Key(key), Message::new(Role::User, blocks)))
    }
}

/// A question of an editor: answered by the session's own agent, with the policy `editor`.
fn as_editor() -> TurnOptions {
    TurnOptions { policy: Some(Policy::editor()), mode: TurnMode::Editor, ..TurnOptions::default() }
}
