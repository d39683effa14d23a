//! Turns: run, stream, continue, record and stop them.

use std::collections::HashSet;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rethread_agent::host::Stop;
use rethread_agent::tool::Spec;
use rethread_agent::{Event, Target, TurnAnswer, TurnInput, TurnOptions};
use rethread_core::context::Policy;
use rethread_core::message::{ToolResult, Usage};
use rethread_core::{
    BlockKind, Entry, Message, Place, Raw, Session, SessionId, Sessions, sessions,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as object};
use utoipa::ToSchema;

use super::entries::{MessageIn, incoming};
use super::{json, shapes};
use crate::input::{BodyRoom, Id, Json, MaybeJson};
use crate::outgoing::keep;
use crate::problem::Problem;
use crate::quotas::Stream;
use crate::state::Caller;
use crate::turn_events::Wording;

/// Tools a client may provide. Models lose track long before.
const CLIENT_TOOLS_MAX: usize = 64;

/// Characters of a client's name for a turn.
const TURN_NAME_CHARS_MAX: usize = 100;

/// A question.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// The user's message: a string, a block or a list of blocks.
    #[schema(value_type = Value)]
    content: Raw,
    /// The policy for the context: `chat`, `editor`, `emacs`, `cli` or `bot`; that of the session's
    /// agent if none is given.
    #[serde(default)]
    #[schema(value_type = Option<shapes::Preset>)]
    policy: Option<String>,
    /// The agent for this turn only, one of `/v1/agents`; the session's own if none is given.
    #[serde(default)]
    agent: Option<String>,
    /// Tools that the client runs itself. When the model calls one, the turn ends with `end` =
    /// `client_calls` and the calls in `calls`; `POST …/turns/results` continues it.
    #[serde(default)]
    #[schema(max_items = 64)]
    tools: Vec<ClientTool>,
    /// A name for this turn, so that this one can be stopped and no other. By default, the
    /// `x-request-id` of the response.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 100)]
    turn: Option<String>,
}

/// A tool that the client runs itself.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientTool {
    /// Its name: letters, digits, `_` and `-`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_-]+$")]
    name: String,
    /// What it does and when to use it.
    description: String,
    /// The JSON schema of its arguments: an object.
    #[schema(value_type = Object)]
    input: Value,
}

/// The results of the calls that a turn waits for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Results {
    /// One for each call, as blocks: `{"type": "tool_result", "tool_use_id", "content",
    /// "is_error"}`.
    #[schema(value_type = Vec<Value>, min_items = 1)]
    results: Vec<Raw>,
    /// The policy, as in the question.
    #[serde(default)]
    #[schema(value_type = Option<shapes::Preset>)]
    policy: Option<String>,
    /// The agent for this turn only, as in the question.
    #[serde(default)]
    agent: Option<String>,
    /// The client's tools, as in the question.
    #[serde(default)]
    #[schema(max_items = 64)]
    tools: Vec<ClientTool>,
    /// A name for this turn, so that this one can be stopped and no other. By default, the
    /// `x-request-id` of the response.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 100)]
    turn: Option<String>,
}

/// A turn that another program ran.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    /// The question, and the replies and results that followed, in order.
    #[schema(value_type = Vec<MessageIn>, min_items = 1)]
    messages: Vec<Message>,
    /// Milliseconds it took.
    #[serde(default)]
    ms: u64,
}

impl Question {
    async fn read(self, caller: &Caller) -> Result<(TurnInput, TurnOptions), Problem> {
        let message = user_message(&self.content)?;
        if !message.opens_turn() || message.content.is_empty() {
            return Err(Problem::bad_request("`content` is empty"));
        }
        if let Some(name) = &self.agent {
            caller.runner(Some(name.clone())).await?;
        }
        let options = options(self.agent, self.policy.as_deref(), self.tools)?;
        Ok((message.into(), TurnOptions { name: turn_name(self.turn)?, ..options }))
    }
}

impl Results {
    fn read(self) -> Result<(TurnInput, TurnOptions), Problem> {
        if self.results.is_empty() {
            return Err(Problem::bad_request("`results` is empty"));
        }
        let blocks: Vec<&str> = self.results.iter().map(Raw::get).collect();
        let message = user_message_of(&format!("[{}]", blocks.join(",")), "results")?;
        let results: Option<Vec<ToolResult>> = message
            .content
            .into_iter()
            .map(|block| match block.kind {
                BlockKind::ToolResult(result) => Some(result),
                _ => None,
            })
            .collect();
        let results = results
            .ok_or_else(|| Problem::bad_request("`results` may contain only tool results"))?;
        let options = options(self.agent, self.policy.as_deref(), self.tools)?;
        let options = TurnOptions { name: turn_name(self.turn)?, ..options };
        Ok((TurnInput::Results(results), options))
    }
}

fn user_message(content: &Raw) -> Result<Message, Problem> {
    user_message_of(content.get(), "content")
}

fn user_message_of(content: &str, field: &str) -> Result<Message, Problem> {
    let text = format!("{{\"role\":\"user\",\"content\":{content}}}");
    serde_json::from_str(&text).map_err(|error| Problem::bad_request(format!("`{field}`: {error}")))
}

fn options(
    agent: Option<String>,
    preset: Option<&str>,
    tools: Vec<ClientTool>,
) -> Result<TurnOptions, Problem> {
    let policy = preset.map(policy).transpose()?;
    if tools.len() > CLIENT_TOOLS_MAX {
        let what = format!("at most {CLIENT_TOOLS_MAX} `tools` can be given");
        return Err(Problem::bad_request(what));
    }
    let client_tools = tools.into_iter().map(spec).collect::<Result<Vec<_>, _>>()?;
    let names: HashSet<&str> = client_tools.iter().map(|spec| spec.name.as_ref()).collect();
    if names.len() < client_tools.len() {
        return Err(Problem::bad_request("two `tools` have the same name"));
    }
    Ok(TurnOptions { agent, policy, client_tools, ..TurnOptions::default() })
}

/// A client's name for a turn.
fn turn_name(given: Option<String>) -> Result<Option<String>, Problem> {
    match given {
        Some(name) if name.is_empty() || name.chars().count() > TURN_NAME_CHARS_MAX => {
            let what = format!("`turn` has 1 to {TURN_NAME_CHARS_MAX} characters");
            Err(Problem::bad_request(what))
        }
        name => Ok(name),
    }
}

fn spec(tool: ClientTool) -> Result<Spec, Problem> {
    let ClientTool { name, description, input } = tool;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) || !input.is_object() {
        let what = "a tool has a `name` of at most 64 letters, digits, `_` and `-`, and an object \
                    as `input`";
        return Err(Problem::bad_request(what));
    }
    Ok(Spec { name: name.into(), description: description.into(), input })
}

/// The preset of this name.
pub(super) fn policy(name: &str) -> Result<Policy, Problem> {
    Policy::preset(name).ok_or_else(|| {
        Problem::bad_request(format!("`policy` is one of {}", Policy::PRESETS.join(", ")))
    })
}

/// Run a turn, and wait for its answer
///
/// The turn continues if the connection is closed. Turns of one session run in the order they were requested.
#[utoipa::path(post, path = "/v1/sessions/{id}/turns", tag = "turns", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Question, responses((status = 200, description = "The turn", body = shapes::Turn)))]
pub(crate) async fn run(
    caller: Caller,
    Id(id): Id,
    Json(ask, room): Json<Question>,
) -> Result<Response, Problem> {
    let (input, options) = ask.read(&caller).await?;
    answered(&caller, id, input, options, room).await
}

/// Continue a turn with the results of the client's tools, and wait for its answer
#[utoipa::path(post, path = "/v1/sessions/{id}/turns/results", tag = "turns", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Results, responses((status = 200, description = "The turn", body = shapes::Turn)))]
pub(crate) async fn results(
    caller: Caller,
    Id(id): Id,
    Json(given, room): Json<Results>,
) -> Result<Response, Problem> {
    let (input, options) = given.read()?;
    answered(&caller, id, input, options, room).await
}

async fn answered(
    caller: &Caller,
    id: SessionId,
    input: TurnInput,
    options: TurnOptions,
    room: BodyRoom,
) -> Result<Response, Problem> {
    let (_, answer) = caller.run_turn(Target::Session(id), input, options, room).await?;
    let sessions = caller.handle.sessions().clone();
    let room = caller.room().await.map_err(|_| {
        let what = "the turn is finished and in the log, but there is no memory left to return it";
        Problem::busy(what)
    })?;
    let turn = caller.blocking(move || Ok(json(&Turn::read(&sessions, id, &answer)?))).await?;
    Ok(keep(turn, room))
}

/// Run a turn, and stream its events
///
/// Each event is one line, `data: {json}`, with a `type`: `waiting` (`holder`), `text` (`text`),
/// `thinking` (`text`), `retry` (`why`, `ms`), `tool_call` (`tool`, `id`, `args`),
/// `tool_progress` (`id`, `text`), `tool_result` (`tool`, `id`, `success`, `text`), `usage`
/// (`usage`), `subagent` (`session`, `event`), then `answer` (`answer`, `end`, `rounds`, `usage`,
/// `ms`, `seq`, `calls`) or `error` (`problem`), and always last `done` (`session`).
#[utoipa::path(post, path = "/v1/sessions/{id}/turns/stream", tag = "turns", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Question, responses((status = 200, description = "Events", body = shapes::Event, content_type = "text/event-stream")))]
pub(crate) async fn stream(
    caller: Caller,
    Id(id): Id,
    stream: Stream,
    Json(ask, _room): Json<Question>,
) -> Result<Response, Problem> {
    let (input, options) = ask.read(&caller).await?;
    caller.stream_turn(stream, Target::Session(id), input, options, Verbose).await
}

/// Continue a turn with the results of the client's tools, and stream its events
#[utoipa::path(post, path = "/v1/sessions/{id}/turns/results/stream", tag = "turns", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Results, responses((status = 200, description = "Events", body = shapes::Event, content_type = "text/event-stream")))]
pub(crate) async fn results_stream(
    caller: Caller,
    Id(id): Id,
    stream: Stream,
    Json(given, _room): Json<Results>,
) -> Result<Response, Problem> {
    let (input, options) = given.read()?;
    caller.stream_turn(stream, Target::Session(id), input, options, Verbose).await
}

/// Record a turn that another program ran
///
/// Everything is stored, or nothing. If the last message is a reply without tool calls, the turn is
/// finished.
#[utoipa::path(post, path = "/v1/sessions/{id}/turns/record", tag = "turns", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Recorded, responses((status = 201, description = "The turn is on disk", body = shapes::Appended)))]
pub(crate) async fn record(
    caller: Caller,
    Id(id): Id,
    Json(recorded, _room): Json<Recorded>,
) -> Result<Response, Problem> {
    let Recorded { messages, ms } = recorded;
    if !messages.first().is_some_and(Message::opens_turn) {
        return Err(Problem::bad_request("`messages` begins with the question"));
    }
    if messages[1..].iter().any(Message::opens_turn) {
        return Err(Problem::bad_request("`messages` may contain only one question"));
    }
    let messages: Result<Vec<_>, Problem> =
        messages.into_iter().enumerate().map(|(index, said)| incoming(said, None, index)).collect();
    let took = Duration::from_millis(ms);
    caller.with(move |sessions| sessions.get(id)).await?;
    let seqs = caller.handle.record_turn(id, messages?, took).await?;
    let head = caller.with(move |sessions| Ok(sessions.get(id)?.tally.entries)).await?;
    let body = json(&object!({ "session": id, "seqs": seqs, "head": head }));
    Ok((StatusCode::CREATED, body).into_response())
}

/// Which turn to stop.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WhichTurn {
    /// The name its question gave it, or the `x-request-id` of the response that started it. If none
    /// is given, the running turn is stopped, provided that no other is queued.
    turn: Option<String>,
}

/// Stop a turn; the part that arrived is kept
///
/// `turn` says which one; a queued turn never starts. Without `turn`, the running turn is stopped. If
/// others are queued, that is an error, because a client could stop another client's turn by mistake.
/// A turn that another program is running cannot be stopped from here; the error names the program.
#[utoipa::path(post, path = "/v1/sessions/{id}/turns/stop", tag = "turns", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = WhichTurn, responses((status = 200, description = "Whether a turn was stopped", body = shapes::Stopped)))]
pub(crate) async fn stop(
    caller: Caller,
    Id(id): Id,
    MaybeJson(which, _room): MaybeJson<WhichTurn>,
) -> Result<Response, Problem> {
    match caller.handle.stop_turn(id, which.turn.as_deref()).await? {
        Stop::Stopped => Ok(json(&object!({ "stopped": true }))),
        Stop::Nothing => Ok(json(&object!({ "stopped": false }))),
        Stop::Several { waiting } => {
            let what = format!("queued turns of this session: {waiting}");
            Err(Problem::which_turn(what))
        }
        Stop::Elsewhere { holder, until } => {
            let what = format!("`{holder}` is running the turn, and only it can stop it");
            Err(Problem::elsewhere(what).by(holder, until))
        }
    }
}

/// All events of a turn.
struct Verbose;

impl Wording for Verbose {
    fn event(&self, event: &Event) -> Option<Value> {
        shown(event)
    }

    fn ended(&self, session: SessionId, outcome: &Result<TurnAnswer, Problem>) -> Vec<Value> {
        let last = match outcome {
            Ok(answer) => object!({
                "type": "answer", "answer": answer.text, "end": answer.end.as_str(),
                "rounds": answer.rounds, "usage": answer.usage, "ms": millis(answer),
                "seq": answer.seq, "calls": calls(answer),
            }),
            Err(problem) => object!({ "type": "error", "problem": problem }),
        };
        vec![last, object!({ "type": "done", "session": session })]
    }
}

fn shown(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Waiting { holder } => object!({ "type": "waiting", "holder": holder }),
        Event::QuestionCut { from_chars, to_chars } => object!({
            "type": "question_cut", "from_chars": from_chars, "to_chars": to_chars,
        }),
        Event::Damaged { seq, what } => object!({ "type": "damaged", "seq": seq, "what": what }),
        Event::Text(text) => object!({ "type": "text", "text": text }),
        Event::Thinking(text) => object!({ "type": "thinking", "text": text }),
        Event::Retry { why, wait } => object!({
            "type": "retry", "why": why, "ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        }),
        Event::LeftOut { turns } => object!({ "type": "left_out", "turns": turns }),
        Event::Call(call) => object!({
            "type": "tool_call", "tool": call.name, "id": call.id, "args": args(call.input.get()),
        }),
        Event::Progress { call, text } => object!({
            "type": "tool_progress", "id": call, "text": text,
        }),
        Event::Result { call, success, text, .. } => object!({
            "type": "tool_result", "tool": call.name, "id": call.id, "success": success,
            "text": text,
        }),
        Event::Usage(usage) => object!({ "type": "usage", "usage": usage }),
        Event::Subagent { session, event } => object!({
            "type": "subagent", "session": session, "event": shown(event)?,
        }),
        // Nobody can be asked over HTTP: a tool that was allowed by name is allowed.
        Event::Permission(_) => return None,
    })
}

fn args(input: &str) -> Value {
    serde_json::from_str(input).unwrap_or_default()
}

/// The calls that the client has to run.
fn calls(answer: &TurnAnswer) -> Vec<Value> {
    let call = |call: &rethread_core::message::Call| object!({ "id": call.id, "tool": call.name, "args": args(call.input.get()) });
    answer.calls.iter().map(call).collect()
}

fn millis(answer: &TurnAnswer) -> u64 {
    u64::try_from(answer.took.as_millis()).unwrap_or(u64::MAX)
}

/// A turn that is finished, or waits for the client.
#[derive(Serialize)]
struct Turn {
    session: Session,
    answer: String,
    end: &'static str,
    rounds: u32,
    usage: Usage,
    ms: u64,
    calls: Vec<Value>,
    entries: Vec<Entry>,
}

impl Turn {
    fn read(sessions: &Sessions, id: SessionId, answer: &TurnAnswer) -> sessions::Result<Turn> {
        let place = Place { session: id, seq: answer.seq };
        let entries = sessions.turn_at(place)?.into_entries();
        Ok(Turn {
            session: sessions.get(id)?,
            answer: answer.text.clone(),
            end: answer.end.as_str(),
            rounds: answer.rounds,
            usage: answer.usage,
            ms: millis(answer),
            calls: calls(answer),
            entries,
        })
    }
}
