//! Ollama's chat API: models on this machine, or nearby.
//!
//! A reply arrives as lines of JSON. In older versions calls have no ids, and results name the tool
//! they come from rather than the call.

use std::collections::HashMap;
use std::time::Duration;

use rethread_core::message::Usage;
use rethread_core::{Block, BlockKind, Message, Raw, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::env::{Env, OLLAMA_HOST};
use super::http::{Fault, Http, message_of};
use super::lines::Lines;
use super::openai_body::{PICTURE, result_text, texts, tool};
use super::{Delta, Failure, Listener, Provider, Reply, Request, reply};

const HOST: &str = "127.0.0.1";
const PORT: u16 = 11434;

/// The idle timeout. Ollama gives a model five minutes to load, and sends nothing in the meantime.
const LOADING_MAX: Duration = Duration::from_secs(300);

/// Models run by Ollama.
#[derive(Debug)]
pub(super) struct Ollama {
    http: Http,
}

impl Ollama {
    /// # Errors
    ///
    /// As [`Http::new`].
    pub(super) fn new(env: &Env) -> Result<Ollama, Failure> {
        let base = address(env.ollama_host.as_deref().unwrap_or_default());
        let idle = env.idle.unwrap_or(LOADING_MAX);
        Ok(Ollama { http: Http::new("ollama", OLLAMA_HOST, &base, None, idle)? })
    }
}

/// A URL from what people write: with a scheme it is complete, anything else is a host, a port or
/// both.
fn address(host: &str) -> String {
    let host = host.trim();
    if host.contains("://") {
        return host.to_owned();
    }
    let (host, path) = host.split_once('/').unwrap_or((host, ""));
    // In a bracketed address, the colons before the last bracket separate no port.
    let behind = host.rfind(']').map_or(0, |end| end + 1);
    let (name, port) = match host[behind..].rfind(':') {
        Some(colon) => (&host[..behind + colon], &host[behind + colon + 1..]),
        None => (host, ""),
    };
    let name = if name.is_empty() { HOST } else { name };
    match port {
        "" => format!("http://{name}:{PORT}/{path}"),
        _ => format!("http://{name}:{port}/{path}"),
    }
}

impl Provider for Ollama {
    fn ask<'a>(&'a self, request: Request<'a>, listener: Listener<'a>) -> Reply<'a> {
        Box::pin(async move {
            let mut incoming = self.http.post("/api/chat", body(&request)).await?;
            let (mut lines, mut draft) = (Lines::default(), Draft::default());
            while let Some(line) = incoming.line(&mut lines).await? {
                draft.take(&line, listener).map_err(|fault| self.http.failure(fault))?;
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

#[derive(Serialize)]
struct Said {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Function>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
}

#[derive(Serialize)]
struct Function {
    function: Arguments,
}

#[derive(Serialize)]
struct Arguments {
    name: String,
    arguments: Raw,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<Said>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    options: Value,
}

fn body(request: &Request<'_>) -> Vec<u8> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut messages = Vec::new();
    for message in request.messages {
        names.extend(message.calls().map(|call| (call.id.as_str(), call.name.as_str())));
        for result in message.results() {
            let mut said = Said::new("tool", result_text(result));
            let name = names.get(result.tool_use_id.as_str()).copied();
            said.tool_name = Some(name.unwrap_or_default().to_owned());
            messages.push(said);
        }
        match message.role {
            Role::System => messages.push(Said::new("system", texts(&message.content))),
            Role::User if message.opens_turn() => messages.push(user(message)),
            Role::Assistant => messages.extend(assistant(message)),
            Role::User | Role::Tool => {}
        }
    }
    let body = Body {
        model: &request.model.name,
        stream: true,
        messages,
        tools: request.tools.iter().map(tool).collect(),
        options: json!({"num_ctx": request.model.window, "num_predict": request.model.reply}),
    };
    serde_json::to_vec(&body).expect("plain data is always valid JSON")
}

impl Said {
    fn new(role: &'static str, content: String) -> Said {
        Said { role, content, images: Vec::new(), tool_calls: Vec::new(), tool_name: None }
    }
}

/// Ollama accepts the bytes of a picture, but does not fetch one.
fn user(message: &Message) -> Said {
    let mut said = Said::new("user", texts(&message.content));
    for block in &message.content {
        let BlockKind::Image { source } = &block.kind else { continue };
        let source: Value = serde_json::from_str(source.get()).unwrap_or_default();
        match source.get("data").and_then(Value::as_str) {
            Some(data) => said.images.push(data.to_owned()),
            None if said.content.is_empty() => said.content.push_str(PICTURE),
            None => said.content.push_str(&format!("\n\n{PICTURE}")),
        }
    }
    said
}

/// `None` if the message contains only blocks that this API does not accept.
fn assistant(message: &Message) -> Option<Said> {
    let mut said = Said::new("assistant", texts(&message.content));
    said.tool_calls = message
        .calls()
        .map(|call| Function {
            function: Arguments { name: call.name.clone(), arguments: call.input.clone() },
        })
        .collect();
    (!said.content.is_empty() || !said.tool_calls.is_empty()).then_some(said)
}

/// A partial reply.
#[derive(Debug, Default)]
struct Draft {
    /// When the reply began, to distinguish it from others.
    created: String,
    thinking: String,
    text: String,
    calls: Vec<CallPiece>,
    usage: Usage,
    /// Its stop reason.
    reason: String,
    ended: bool,
}

#[derive(Deserialize)]
struct Line {
    created_at: Option<String>,
    message: Option<Piece>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece {
    content: Option<String>,
    thinking: Option<String>,
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Debug, Deserialize)]
struct CallPiece {
    id: Option<String>,
    function: FunctionPiece,
}

#[derive(Debug, Deserialize)]
struct FunctionPiece {
    name: String,
    arguments: Option<Raw>,
}

impl Draft {
    fn take(&mut self, line: &str, listener: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        let read: Line = serde_json::from_str(line).map_err(|error| match error.is_eof() {
            true => Fault::Broken("its last line is cut"),
            false => Fault::json(error, line),
        })?;
        if let Some(error) = read.error {
            let message = message_of(&json!({ "error": error }));
            let message = message.unwrap_or_else(|| error.to_string());
            return Err(Fault::Error { status: 500, message });
        }
        if self.created.is_empty() {
            self.created = read.created_at.unwrap_or_default();
        }
        let piece = read.message.unwrap_or_default();
        if let Some(more) = piece.thinking.filter(|more| !more.is_empty()) {
            self.thinking.push_str(&more);
            listener(Delta::Thinking(more));
        }
        if let Some(more) = piece.content.filter(|more| !more.is_empty()) {
            self.text.push_str(&more);
            listener(Delta::Text(more));
        }
        self.calls.extend(piece.tool_calls.unwrap_or_default());
        self.usage.input = read.prompt_eval_count.unwrap_or(self.usage.input);
        self.usage.output = read.eval_count.unwrap_or(self.usage.output);
        self.ended = read.done;
        self.reason = read.done_reason.unwrap_or_default();
        Ok(())
    }

    fn blocks(&mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        if !self.thinking.is_empty() {
            blocks.push(reply::thinking(&self.thinking, None));
        }
        if !self.text.is_empty() {
            blocks.push(Block::text(std::mem::take(&mut self.text)));
        }
        for (index, call) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            let given = call.id.filter(|id| !id.is_empty());
            let id = given.unwrap_or_else(|| reply::call_id(&self.created, index));
            let written = call.function.arguments.as_ref().map_or("", Raw::get);
            let written = if written == "null" { "" } else { written };
            blocks.push(Block::tool_use(id, call.function.name, reply::input(written)));
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_lack_its_scheme_its_host_or_its_port() {
        for (host, expected) in [
            ("", "http://127.0.0.1:11434/"),
            ("myhost", "http://myhost:11434/"),
            ("myhost:8080", "http://myhost:8080/"),
            (":8080", "http://127.0.0.1:8080/"),
            ("[::1]", "http://[::1]:11434/"),
            ("[::1]:8080", "http://[::1]:8080/"),
            ("myhost/ollama", "http://myhost:11434/ollama"),
            ("https://models.example.org", "https://models.example.org"),
        ] {
            assert_eq!(address(host), expected, "{host}");
        }
    }

    #[test]
    fn a_picture_is_sent_by_its_bytes() {
        let image = |source: Value| Block::of(BlockKind::Image { source: Raw::of(&source) });
        let bytes = json!({"type": "base64", "media_type": "image/png", "data": "QUJD"});
        let address = json!({"type": "url", "url": "https://example.org/a.png"});
        let content = vec![Block::text("Look:"), image(bytes), image(address)];
        let said = user(&Message::new(Role::User, content));
        assert_eq!(said.images, ["QUJD"]);
        assert_eq!(said.content, format!("Look:\n\n{PICTURE}"));
    }
}
