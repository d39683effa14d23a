//! Anthropic's Messages API.
//!
//! Thinking is sent back byte for byte, in its original order: a block that was kept as JSON is
//! written as that JSON. Up to four positions of a request are marked for the cache, which is the
//! maximum: the tools, the instructions, the end of the finished turns, and the end of the part
//! that stays stable during this turn. They ask for an hour if the pauses of a session show that it
//! pays.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rethread_core::message::Usage;
use rethread_core::{Block, BlockKind, Message, Raw, Role};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::env::{ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, Env};
use super::http::{Fault, Http, IDLE_MAX, Scheme};
use super::lines::Events;
use super::openai_body::PICTURE;
use super::{Delta, Failure, Listener, Provider, Reply, Request, reply};

const BASE: &str = "https://api.anthropic.com";
const PATH: &str = "/v1/messages";

/// Models run by Anthropic.
#[derive(Debug)]
pub(super) struct Anthropic {
    http: Http,
    /// A cache that lives for an hour was refused: the server at this address does not support it.
    no_hour: AtomicBool,
}

impl Anthropic {
    /// # Errors
    ///
    /// [`Failure::NoKey`] without a key; otherwise as [`Http::new`].
    pub(super) fn new(env: &Env) -> Result<Anthropic, Failure> {
        let provider = "anthropic";
        let key = env.anthropic_key.clone().ok_or_else(|| Failure::NoKey {
            provider: provider.into(),
            variable: ANTHROPIC_API_KEY,
        })?;
        let base = env.anthropic_base.as_deref().unwrap_or(BASE);
        let key = Some((Scheme::ApiKey, key));
        let idle = env.idle.unwrap_or(IDLE_MAX);
        let http = Http::new(provider, ANTHROPIC_BASE_URL, base, key, idle)?;
        let http = http.with_header("anthropic-version", "2023-06-01");
        Ok(Anthropic { http, no_hour: AtomicBool::new(false) })
    }
}

impl Provider for Anthropic {
    fn ask<'a>(&'a self, request: Request<'a>, listener: Listener<'a>) -> Reply<'a> {
        Box::pin(async move {
            let hour = request.keep_longer && !self.no_hour.load(Ordering::Relaxed);
            let mut incoming = match self.http.post(PATH, body(&request, hour)).await {
                Err(Failure::Refused { message, .. }) if hour && message.contains("ttl") => {
                    self.no_hour.store(true, Ordering::Relaxed);
                    self.http.post(PATH, body(&request, false)).await?
                }
                answer => answer?,
            };
            let (mut events, mut draft) = (Events::default(), Draft::default());
            while let Some(data) = incoming.event(&mut events).await? {
                draft.take(&data, listener).map_err(|fault| self.http.failure(fault))?;
                if draft.ended {
                    return Ok(reply::message(
                        &request,
                        draft.blocks(),
                        draft.usage,
                        &draft.reason,
                    ));
                }
            }
            Err(self.http.failure(Fault::Broken("it has no end")))
        })
    }
}

/// What asks for the cache up to a block: for five minutes, and for an hour.
const MARK: &str = r#"{"type":"ephemeral"}"#;
const HOUR_MARK: &str = r#"{"type":"ephemeral","ttl":"1h"}"#;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Raw>,
    messages: Vec<Said>,
}

#[derive(Serialize)]
struct Said {
    role: &'static str,
    content: Vec<Raw>,
    /// How many of the first blocks are tool results.
    #[serde(skip)]
    results: usize,
}

/// The request, whose marks ask for an hour, or for five minutes.
fn body(request: &Request<'_>, hour: bool) -> Vec<u8> {
    let mark = if hour { HOUR_MARK } else { MARK };
    let mut system: Vec<Raw> = Vec::new();
    let mut messages: Vec<Said> = Vec::new();
    let marks = marks(request);
    for (index, message) in request.messages.iter().enumerate() {
        let role = match message.role {
            Role::System => {
                system.extend(message.content.iter().map(block));
                continue;
            }
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        let cached = if marks.contains(&(index + 1)) {
            message.content.iter().rposition(can_be_marked)
        } else {
            None
        };
        if messages.last().is_none_or(|last| last.role != role) {
            messages.push(Said { role, content: Vec::new(), results: 0 });
        }
        let last = messages.last_mut().expect("there is one now");
        for (place, part) in message.content.iter().enumerate() {
            let written = block(part);
            let written = if cached == Some(place) { marked(&written, mark) } else { written };
            // Results come before the user's other blocks.
            if matches!(part.kind, BlockKind::ToolResult(_)) {
                last.content.insert(last.results, written);
                last.results += 1;
            } else {
                last.content.push(written);
            }
        }
    }
    let mut tools: Vec<Value> = (request.tools.iter())
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.input})
        })
        .collect();
    // Marked separately: the tools stay cached if only the instructions change.
    if let Some(last) = tools.last_mut() {
        last["cache_control"] = serde_json::from_str(mark).expect("a mark is valid JSON");
    }
    if let Some(last) = system.last_mut() {
        *last = marked(last, mark);
    }
    let (model, max_tokens) = (request.model.name.as_str(), request.model.reply);
    let body = Body { model, max_tokens, stream: true, tools, system, messages };
    serde_json::to_vec(&body).expect("plain data is always valid JSON")
}

/// The number of messages after which the cache is marked. What follows the finished turns may
/// change when this one is over (thinking is removed), so their end is marked too. What follows the
/// stable part changes with the next entry, so caching it would not pay.
fn marks(request: &Request<'_>) -> [usize; 2] {
    let finished = request.messages.iter().rposition(Message::opens_turn).unwrap_or(0);
    let end = if request.stable > finished { request.stable } else { request.messages.len() };
    [finished, end]
}

fn block(block: &Block) -> Raw {
    match &block.kind {
        BlockKind::Prefix(text) => Raw::of(&Block::text(text)),
        // Its bytes were not inserted.
        _ if block.blob().is_some() => Raw::of(&Block::text(PICTURE)),
        _ => Raw::of(block),
    }
}

/// Whether a block may carry a mark: thinking may not, and a block that was kept as JSON stays
/// unchanged.
fn can_be_marked(block: &Block) -> bool {
    !matches!(block.kind, BlockKind::Thinking(_)) && block.raw().is_none()
}

/// The block with a cache mark after its other fields. The fields are not parsed, because numbers
/// in the arguments of a call would be written differently.
fn marked(block: &Raw, mark: &str) -> Raw {
    let fields = block.get().strip_suffix('}').expect("a block is an object");
    let marked = format!("{fields},\"cache_control\":{mark}}}");
    Raw::parse(marked).expect("an object with one more field is an object")
}

/// A partial reply.
#[derive(Debug, Default)]
struct Draft {
    /// By the index the model gives them, which is their order.
    parts: BTreeMap<u64, Part>,
    usage: Usage,
    /// Its stop reason.
    reason: String,
    ended: bool,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Thinking { text: String, signature: String },
    Call { id: String, name: String, given: Option<Raw>, written: String },
    Whole(Block),
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    message: Option<Started>,
    index: Option<u64>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    delta: Option<Piece>,
    usage: Option<Counts>,
    error: Option<Trouble>,
}

#[derive(Deserialize)]
struct Started {
    usage: Option<Counts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Opening {
    #[serde(rename = "type")]
    kind: String,
    text: String,
    thinking: String,
    signature: String,
    id: String,
    name: String,
    input: Option<Raw>,
}

#[derive(Deserialize)]
struct Trouble {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: String,
}

impl Draft {
    fn take(&mut self, data: &str, listener: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        let event: Event<'_> =
            serde_json::from_str(data).map_err(|error| Fault::json(error, data))?;
        if let Some(error) = event.error {
            return Err(error.fault());
        }
        let index = event.index.unwrap_or_default();
        match event.kind.as_str() {
            "message_start" => self.count(event.message.and_then(|started| started.usage)),
            "content_block_start" => {
                let block = event.content_block.map_or("{}", RawValue::get);
                let part = Part::open(block, listener).map_err(|e| Fault::json(e, data))?;
                self.parts.insert(index, part);
            }
            "content_block_delta" => {
                let part = self.parts.get_mut(&index).ok_or_else(|| {
                    Fault::Nonsense(format!("more of block {index}, which has not begun"))
                })?;
                part.add(event.delta.unwrap_or_default(), listener);
            }
            "message_delta" => {
                self.count(event.usage);
                let reason = event.delta.and_then(|delta| delta.stop_reason);
                self.reason = reason.unwrap_or_default();
            }
            "message_stop" => self.ended = true,
            "error" => return Err(Fault::Broken("it ends with an error that is not explained")),
            // Pings, and future event types: the documentation asks to ignore them.
            _ => {}
        }
        Ok(())
    }

    /// The counts only grow during a reply.
    fn count(&mut self, counts: Option<Counts>) {
        let counts = counts.unwrap_or_default();
        let grow = |field: &mut u64, count: Option<u64>| *field = count.unwrap_or(0).max(*field);
        grow(&mut self.usage.input, counts.input_tokens);
        grow(&mut self.usage.output, counts.output_tokens);
        grow(&mut self.usage.cache_read, counts.cache_read_input_tokens);
        grow(&mut self.usage.cache_write, counts.cache_creation_input_tokens);
    }

    fn blocks(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.parts).into_values().filter_map(Part::close).collect()
    }
}

impl Part {
    fn open(block: &str, listener: &mut dyn FnMut(Delta)) -> Result<Part, serde_json::Error> {
        let opening: Opening = serde_json::from_str(block)?;
        Ok(match opening.kind.as_str() {
            "text" => {
                say(Delta::Text, &opening.text, listener);
                Part::Text(opening.text)
            }
            "thinking" => {
                say(Delta::Thinking, &opening.thinking, listener);
                Part::Thinking { text: opening.thinking, signature: opening.signature }
            }
            "tool_use" => Part::Call {
                id: opening.id,
                name: opening.name,
                given: opening.input,
                written: String::new(),
            },
            _ => Part::Whole(serde_json::from_str(block)?),
        })
    }

    fn add(&mut self, piece: Piece, listener: &mut dyn FnMut(Delta)) {
        match self {
            Part::Text(text) => {
                let more = piece.text.unwrap_or_default();
                say(Delta::Text, &more, listener);
                text.push_str(&more);
            }
            Part::Thinking { text, signature } => {
                let more = piece.thinking.unwrap_or_default();
                say(Delta::Thinking, &more, listener);
                text.push_str(&more);
                signature.push_str(&piece.signature.unwrap_or_default());
            }
            Part::Call { written, .. } => {
                written.push_str(&piece.partial_json.unwrap_or_default());
            }
            Part::Whole(_) => {}
        }
    }

    /// The block, if there is anything in it.
    fn close(self) -> Option<Block> {
        match self {
            Part::Text(text) => (!text.is_empty()).then(|| Block::text(text)),
            Part::Thinking { text, signature } if signature.is_empty() => {
                (!text.is_empty()).then(|| reply::thinking(&text, None))
            }
            Part::Thinking { text, signature } => Some(reply::thinking(&text, Some(&signature))),
            Part::Call { id, name, given: Some(given), written } if written.is_empty() => {
                Some(Block::tool_use(id, name, given))
            }
            Part::Call { id, name, written, .. } => {
                Some(Block::tool_use(id, name, reply::input(&written)))
            }
            Part::Whole(block) => Some(block),
        }
    }
}

fn say(delta: fn(String) -> Delta, text: &str, listener: &mut dyn FnMut(Delta)) {
    if !text.is_empty() {
        listener(delta(text.to_owned()));
    }
}

impl Trouble {
    /// An error in the middle of a reply, with the status it would have had at its start.
    fn fault(self) -> Fault {
        let status = match self.kind.as_str() {
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" => 429,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            _ => 500,
        };
        let message = if self.message.is_empty() { self.kind } else { self.message };
        Fault::Error { status, message }
    }
}
