//! OpenAI's Chat Completions API, and compatible ones.
//!
//! Compatible servers differ in details: calls without an index or an id, arguments that are not a
//! string, thinking under one of two names, one JSON document instead of a stream. All of these are
//! accepted here; thinking is kept but never sent back, because no server accepts it.

use rethread_core::message::Usage;
use rethread_core::{Block, Raw};
use serde::Deserialize;
use serde_json::Value;

use super::env::{Env, OPENAI_API_KEY, OPENAI_BASE_URL};
use super::http::{Fault, Http, IDLE_MAX, Scheme, message_of};
use super::lines::Events;
use super::{Delta, Failure, Listener, Provider, Reply, Request, openai_body, reply};

const BASE: &str = "https://api.openai.com/v1";
/// The host that always requires a key.
const HOST: &str = "api.openai.com";
/// The end of a stream.
const DONE: &str = "[DONE]";

/// Models run by OpenAI, or a compatible provider.
#[derive(Debug)]
pub(super) struct OpenAi {
    http: Http,
    /// Whether it is OpenAI itself. Compatible servers may refuse unknown fields.
    is_openai: bool,
}

impl OpenAi {
    /// # Errors
    ///
    /// [`Failure::NoKey`] if a key is missing; otherwise as [`Http::new`].
    pub(super) fn new(env: &Env) -> Result<OpenAi, Failure> {
        let provider = "openai";
        let base = env.openai_base.as_deref().unwrap_or(BASE);
        let key = env.openai_key.clone().map(|key| (Scheme::Bearer, key));
        let keyless = key.is_none();
        let idle = env.idle.unwrap_or(IDLE_MAX);
        let http = Http::new(provider, OPENAI_BASE_URL, base, key, idle)?;
        let is_openai = http.host() == HOST;
        if keyless && is_openai {
            return Err(Failure::NoKey { provider: provider.into(), variable: OPENAI_API_KEY });
        }
        Ok(OpenAi { http, is_openai })
    }
}

impl Provider for OpenAi {
    fn ask<'a>(&'a self, request: Request<'a>, listener: Listener<'a>) -> Reply<'a> {
        Box::pin(async move {
            let cache_key = request.session.filter(|_| self.is_openai);
            let body = openai_body::body(&request, cache_key);
            let mut incoming = self.http.post("/chat/completions", body).await?;
            let (mut events, mut draft) = (Events::default(), Draft::default());
            if incoming.is_document() {
                let document = incoming.document().await?;
                draft.take(&document, listener).map_err(|fault| self.http.failure(fault))?;
            }
            while !draft.ended && !incoming.is_document() {
                let data = match incoming.event(&mut events).await {
                    Ok(Some(data)) => data,
                    Ok(None) => break,
                    // The reply is complete; only its token count is lost.
                    Err(_) if draft.finished => break,
                    Err(failure) => return Err(failure),
                };
                draft.take(&data, listener).map_err(|fault| self.http.failure(fault))?;
            }
            if !draft.ended && !draft.finished {
                return Err(self.http.failure(Fault::Broken("it has no end")));
            }
            Ok(reply::message(&request, draft.blocks(), draft.usage, &draft.reason))
        })
    }
}

/// A partial reply.
#[derive(Debug, Default)]
struct Draft {
    id: String,
    /// Its stop reason.
    reason: String,
    thinking: String,
    text: String,
    calls: Vec<Call>,
    usage: Usage,
    /// The model has finished.
    finished: bool,
    /// The server has finished.
    ended: bool,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    written: String,
}

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Counts>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Piece>,
    /// A complete reply, in one document.
    message: Option<Piece>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece {
    content: Option<String>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize)]
struct CallPiece {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionPiece>,
}

#[derive(Default, Deserialize)]
struct FunctionPiece {
    name: Option<String>,
    arguments: Option<Raw>,
}

#[derive(Deserialize)]
struct Counts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
    /// Reported since cache writes are charged.
    cache_write_tokens: Option<u64>,
}

impl Draft {
    fn take(&mut self, data: &str, listener: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        if data.trim() == DONE {
            self.ended = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| Fault::json(error, data))?;
        if let Some(error) = chunk.error {
            return Err(fault(error));
        }
        if self.id.is_empty() {
            self.id = chunk.id.unwrap_or_default();
        }
        if let Some(counts) = chunk.usage {
            self.count(&counts);
        }
        // We ask for one choice.
        if let Some(choice) = chunk.choices.into_iter().flatten().next() {
            self.piece(choice.delta.or(choice.message).unwrap_or_default(), listener);
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finished = true;
                self.reason = reason;
            }
        }
        Ok(())
    }

    fn count(&mut self, counts: &Counts) {
        let details = counts.prompt_tokens_details.as_ref();
        let cached = details.and_then(|details| details.cached_tokens).unwrap_or(0);
        let written = details.and_then(|details| details.cache_write_tokens).unwrap_or(0);
        let others = cached.saturating_add(written);
        self.usage = Usage {
            input: counts.prompt_tokens.unwrap_or(0).saturating_sub(others),
            output: counts.completion_tokens.unwrap_or(0),
            cache_read: cached,
            cache_write: written,
        };
    }

    fn piece(&mut self, piece: Piece, listener: &mut dyn FnMut(Delta)) {
        // A server that uses both names writes the same under both.
        let thinking = piece.reasoning_content.filter(|text| !text.is_empty()).or(piece.reasoning);
        if let Some(more) = thinking.filter(|more| !more.is_empty()) {
            self.thinking.push_str(&more);
            listener(Delta::Thinking(more));
        }
        for more in [piece.content, piece.refusal].into_iter().flatten() {
            if !more.is_empty() {
                self.text.push_str(&more);
                listener(Delta::Text(more));
            }
        }
        for call in piece.tool_calls.unwrap_or_default() {
            self.call(call);
        }
    }

    fn call(&mut self, piece: CallPiece) {
        let function = piece.function.unwrap_or_default();
        let id = piece.id.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let known = match piece.index {
            Some(_) => self.calls.iter().rposition(|call| call.index == piece.index),
            None => self.calls.len().checked_sub(1),
        };
        let place = match known {
            Some(place) if !self.calls[place].is_followed_by(piece.index, &id, &name) => place,
            _ => {
                self.calls.push(Call { index: piece.index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[place];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        match function.arguments {
            Some(arguments) if arguments.get() == "null" => {}
            Some(arguments) => match serde_json::from_str::<String>(arguments.get()) {
                Ok(more) => call.written.push_str(&more),
                // Some servers write the arguments themselves instead of their text.
                Err(_) => call.written.push_str(arguments.get()),
            },
            None => {}
        }
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
            let made = || reply::call_id(&self.id, index);
            let id = if call.id.is_empty() { made() } else { call.id };
            blocks.push(Block::tool_use(id, call.name, reply::input(&call.written)));
        }
        blocks
    }
}

impl Call {
    /// Whether a piece with this id and name begins another call.
    fn is_followed_by(&self, index: Option<u64>, id: &str, name: &str) -> bool {
        let new_id = !id.is_empty() && !self.id.is_empty() && id != self.id;
        let new_name = !name.is_empty() && !self.name.is_empty() && name != self.name;
        if index.is_some() {
            // Some servers give all calls the same index; others generate an id for every piece,
            // but give the name only once.
            return new_id && !name.is_empty();
        }
        // A repeated name is either a second call or a server that repeats itself: then the
        // arguments are not complete yet.
        let repeated = id.is_empty() && !name.is_empty() && name == self.name && self.is_whole();
        new_id || new_name || repeated
    }

    fn is_whole(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(&self.written).is_ok()
    }
}

/// An error in the middle of a reply, with the status it would have had at its start.
fn fault(error: Value) -> Fault {
    let field = |name| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let limited = [field("type"), field("code")].iter().any(|kind| kind.contains("rate_limit"));
    let status = match code {
        Some(code @ 400..600) => code,
        _ if limited => 429,
        _ if field("type") == "invalid_request_error" => 400,
        _ => 500,
    };
    let unexplained = error.to_string();
    let message = message_of(&serde_json::json!({ "error": error })).unwrap_or(unexplained);
    Fault::Error { status, message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn blocks(chunks: &[Value]) -> Vec<Block> {
        let mut draft = Draft::default();
        for chunk in chunks {
            draft.take(&chunk.to_string(), &mut |_| {}).unwrap();
        }
        draft.blocks()
    }

    fn calls(pieces: &[Value]) -> Vec<(String, String, String)> {
        let chunks: Vec<Value> = pieces
            .iter()
            .map(|piece| json!({"id": "r1", "choices": [{"delta": {"tool_calls": [piece]}}]}))
            .collect();
        let message = rethread_core::Message::new(rethread_core::Role::User, blocks(&chunks));
        message.calls().map(|c| (c.id.clone(), c.name.clone(), c.input.get().into())).collect()
    }

    fn call(id: &str, name: &str, input: &str) -> (String, String, String) {
        (id.into(), name.into(), input.into())
    }

    #[test]
    fn pieces_with_an_index_may_be_mixed() {
        let found = calls(&[
            json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": ""}}),
            json!({"index": 1, "id": "b", "function": {"name": "read", "arguments": "{\"p\""}}),
            json!({"index": 0, "function": {"arguments": "{\"p\":1}"}}),
            json!({"index": 1, "function": {"arguments": ":2}"}}),
        ]);
        assert_eq!(found, [call("a", "read", "{\"p\":1}"), call("b", "read", "{\"p\":2}")]);
    }

    #[test]
    fn without_an_index_a_new_id_or_name_begins_a_call() {
        let found = calls(&[
            json!({"id": "a", "function": {"name": "read", "arguments": "{\"p\""}}),
            json!({"function": {"arguments": ":1}"}}),
            json!({"id": "b", "function": {"name": "read", "arguments": "{}"}}),
            json!({"function": {"name": "list"}}),
            json!({"function": {"arguments": "{\"d\":\".\"}"}}),
            json!({"function": {"name": "list", "arguments": "{}"}}),
        ]);
        let expected = [
            call("a", "read", "{\"p\":1}"),
            call("b", "read", "{}"),
            call("call_r1_2", "list", "{\"d\":\".\"}"),
            call("call_r1_3", "list", "{}"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_server_that_repeats_id_and_name_makes_one_call() {
        let found = calls(&[
            json!({"id": "a", "function": {"name": "read", "arguments": "{\"p\""}}),
            json!({"id": "a", "function": {"name": "read", "arguments": ":1}"}}),
        ]);
        assert_eq!(found, [call("a", "read", "{\"p\":1}")]);
    }

    #[test]
    fn whole_calls_numbered_alike_are_different_calls() {
        let found = calls(&[
            json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{}"}}),
            json!({"index": 0, "id": "b", "function": {"name": "read", "arguments": {"p": 1.0}}}),
        ]);
        assert_eq!(found, [call("a", "read", "{}"), call("b", "read", "{\"p\":1.0}")]);
    }

    #[test]
    fn thinking_has_two_names_and_is_not_doubled() {
        let found = blocks(&[
            json!({"choices": [{"delta": {"reasoning_content": "a", "reasoning": "a"}}]}),
            json!({"choices": [{"delta": {"reasoning": "b"}}]}),
            json!({"choices": [{"delta": {"content": "c", "reasoning_content": null}}]}),
        ]);
        assert_eq!(found, [reply::thinking("ab", None), Block::text("c")]);
    }

    #[test]
    fn an_error_in_the_stream_has_the_status_it_names() {
        let error = |status, message: &str| Fault::Error { status, message: message.into() };
        let told = |value| fault(value);
        assert_eq!(told(json!({"message": "m", "code": 502})), error(502, "m"));
        assert_eq!(told(json!({"message": "m", "type": "rate_limit_error"})), error(429, "m"));
        assert_eq!(told(json!({"message": "m", "type": "invalid_request_error"})), error(400, "m"));
        assert_eq!(told(json!("plain")), error(500, "plain"));
        assert_eq!(told(json!({"why": 1})), error(500, "{\"why\":1}"));
    }
}
