//! Scripted answers in the format of each API.

use serde_json::{Value, json};

use super::answer::Says;

/// Characters of a piece: few enough to split words.
const PIECE_CHARS: usize = 4;
/// Maximum number of pieces; longer texts have larger pieces.
const PIECES_MAX: usize = 64;

/// The API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Anthropic,
    OpenAi,
    Ollama,
}

impl Wire {
    pub(super) fn at(path: &str) -> Option<Wire> {
        match path {
            "/v1/messages" => Some(Wire::Anthropic),
            "/v1/chat/completions" => Some(Wire::OpenAi),
            "/api/chat" => Some(Wire::Ollama),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Wire::Anthropic | Wire::OpenAi => "text/event-stream",
            Wire::Ollama => "application/x-ndjson",
        }
    }

    /// The chunks of reply number `number`.
    pub(super) fn chunks(self, says: &Says, number: usize, request: &Value) -> Vec<Vec<u8>> {
        let chunks = match self {
            Wire::Anthropic => anthropic(says, number),
            Wire::OpenAi => openai(says, number, request),
            Wire::Ollama => ollama(says, number),
        };
        chunks.into_iter().map(String::into_bytes).collect()
    }

    pub(super) fn garbage(self) -> Vec<Vec<u8>> {
        match self {
            Wire::Anthropic | Wire::OpenAi => vec![b"data: <<garbage>>\n\n".to_vec()],
            Wire::Ollama => vec![b"<<garbage>>\n".to_vec()],
        }
    }

    pub(super) fn error(self, status: u16, message: &str) -> String {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            400..500 => "invalid_request_error",
            _ => "api_error",
        };
        let error = match self {
            Wire::Anthropic => {
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
            Wire::OpenAi => json!({"error": {"message": message, "type": kind, "code": null}}),
            Wire::Ollama => json!({"error": message}),
        };
        error.to_string()
    }
}

fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let size = PIECE_CHARS.max(chars.len().div_ceil(PIECES_MAX));
    chars.chunks(size).map(|piece| piece.iter().collect()).collect()
}

/// A text in two parts, to be sent one after the other.
fn halves(text: &str) -> (&str, &str) {
    text.split_at(text.floor_char_boundary(text.len() / 2))
}

fn anthropic(says: &Says, number: usize) -> Vec<String> {
    let event = |value: Value| {
        format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default())
    };
    let start = |index: usize, block: Value| {
        event(json!({"type": "content_block_start", "index": index, "content_block": block}))
    };
    let delta = |index: usize, delta: Value| {
        event(json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let stop = |index: usize| event(json!({"type": "content_block_stop", "index": index}));
    let usage = says.usage;
    // What is said between two pieces goes with the later one.
    let mut before = event(json!({"type": "message_start", "message": {
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "content": [],
        "usage": {
            "input_tokens": usage.input, "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write, "output_tokens": 1,
        },
    }})) + &event(json!({"type": "ping"}));
    let (mut chunks, mut index) = (Vec::new(), 0);
    if let Some((text, signature)) = &says.thinking {
        before += &start(index, json!({"type": "thinking", "thinking": "", "signature": ""}));
        for piece in pieces(text) {
            let piece = delta(index, json!({"type": "thinking_delta", "thinking": piece}));
            chunks.push(std::mem::take(&mut before) + &piece);
        }
        before += &delta(index, json!({"type": "signature_delta", "signature": signature}));
        before += &stop(index);
        index += 1;
    }
    if !says.text.is_empty() {
        before += &start(index, json!({"type": "text", "text": ""}));
        for piece in pieces(&says.text) {
            let piece = delta(index, json!({"type": "text_delta", "text": piece}));
            chunks.push(std::mem::take(&mut before) + &piece);
        }
        before += &stop(index);
        index += 1;
    }
    for (name, input) in &says.calls {
        let id = format!("toolu_{number}_{index}");
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        before += &start(index, block);
        // A call without arguments has no pieces, as with the real provider.
        if input.as_object().is_none_or(|input| !input.is_empty()) {
            let input = input.to_string();
            let (left, right) = halves(&input);
            for part in [left, right] {
                let piece = json!({"type": "input_json_delta", "partial_json": part});
                before += &delta(index, piece);
            }
        }
        chunks.push(std::mem::take(&mut before) + &stop(index));
        index += 1;
    }
    let reason = if says.calls.is_empty() { "end_turn" } else { "tool_use" };
    let end = json!({"type": "message_delta", "delta": {"stop_reason": reason},
        "usage": {"output_tokens": usage.output}});
    chunks.push(before + &event(end) + &event(json!({"type": "message_stop"})));
    chunks
}

fn openai(says: &Says, number: usize, request: &Value) -> Vec<String> {
    let id = format!("chatcmpl-{number}");
    let event = |choices: Value, usage: Value| {
        let chunk = json!({"id": id, "object": "chat.completion.chunk", "choices": choices,
            "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value| {
        let choice = json!([{"index": 0, "delta": delta, "finish_reason": null}]);
        event(choice, Value::Null)
    };
    let mut chunks = Vec::new();
    let mut before = delta(json!({"role": "assistant", "content": ""}));
    if let Some((text, _)) = &says.thinking {
        for piece in pieces(text) {
            let piece = delta(json!({"reasoning_content": piece}));
            chunks.push(std::mem::take(&mut before) + &piece);
        }
    }
    for piece in pieces(&says.text) {
        let piece = delta(json!({"content": piece}));
        chunks.push(std::mem::take(&mut before) + &piece);
    }
    for (index, (name, input)) in says.calls.iter().enumerate() {
        let input = input.to_string();
        let (left, right) = halves(&input);
        before += &delta(json!({"tool_calls": [{"index": index, "type": "function",
            "id": format!("call_{number}_{index}"),
            "function": {"name": name, "arguments": ""}}]}));
        for part in [left, right] {
            before += &delta(json!({"tool_calls": [{"index": index,
                "function": {"arguments": part}}]}));
        }
        chunks.push(std::mem::take(&mut before));
    }
    let reason = if says.calls.is_empty() { "stop" } else { "tool_calls" };
    let choice = json!([{"index": 0, "delta": {}, "finish_reason": reason}]);
    before += &event(choice, Value::Null);
    if request["stream_options"]["include_usage"] == true {
        let usage = says.usage;
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        let usage = json!({
            "prompt_tokens": prompt, "completion_tokens": usage.output,
            "total_tokens": prompt + usage.output,
            "prompt_tokens_details": {
                "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write,
            },
        });
        before += &event(json!([]), usage);
    }
    chunks.push(before + "data: [DONE]\n\n");
    chunks
}

fn ollama(says: &Says, number: usize) -> Vec<String> {
    let created = format!("2026-01-01T00:00:00.{number:09}Z");
    let line = |message: Value| {
        let line = json!({"model": "scripted", "created_at": created, "message": message,
            "done": false});
        format!("{line}\n")
    };
    let mut chunks = Vec::new();
    for piece in pieces(says.thinking.as_ref().map_or("", |(text, _)| text)) {
        chunks.push(line(json!({"role": "assistant", "content": "", "thinking": piece})));
    }
    for piece in pieces(&says.text) {
        chunks.push(line(json!({"role": "assistant", "content": piece})));
    }
    for (name, input) in &says.calls {
        let calls = json!([{"function": {"name": name, "arguments": input}}]);
        chunks.push(line(json!({"role": "assistant", "content": "", "tool_calls": calls})));
    }
    let usage = says.usage;
    let end = json!({"model": "scripted", "created_at": created,
        "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
        "prompt_eval_count": usage.input + usage.cache_read + usage.cache_write,
        "eval_count": usage.output});
    chunks.push(format!("{end}\n"));
    chunks
}
