//! Rules of real providers that an invalid context would break.
//!
//! This shares no code with what builds requests: it reads them as plain JSON.

use serde_json::Value;

use super::wire::Wire;

/// Cache marks that one request may have.
const CACHE_MARKS_MAX: usize = 4;

/// Checks a request.
///
/// # Errors
///
/// The message of a provider's status 400.
pub(super) fn check(wire: Wire, body: &Value) -> Result<(), String> {
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err("model: field required".into());
    }
    let messages = list(&body["messages"]);
    if messages.is_empty() {
        return Err("messages: at least one message is required".into());
    }
    match wire {
        Wire::Anthropic => anthropic(body, messages),
        Wire::OpenAi => chat(messages, &|call| &call["id"], &|said| &said["tool_call_id"]),
        Wire::Ollama => {
            chat(messages, &|call| &call["function"]["name"], &|said| &said["tool_name"])
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_none_or(|text| text.trim().is_empty())
}

fn anthropic(body: &Value, messages: &[Value]) -> Result<(), String> {
    if body["max_tokens"].as_u64().is_none_or(|tokens| tokens == 0) {
        return Err("max_tokens: field required".into());
    }
    if body.to_string().matches("\"cache_control\":").count() > CACHE_MARKS_MAX {
        return Err(format!("a maximum of {CACHE_MARKS_MAX} blocks with cache_control"));
    }
    let mut open: Vec<&str> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let expected = if n % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != expected {
            return Err(format!("messages.{n}: roles must alternate, starting with user"));
        }
        let blocks = list(&message["content"]);
        if blocks.is_empty() && is_blank(&message["content"]) {
            return Err(format!("messages.{n}: content must not be empty"));
        }
        let of = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
        if of("text").any(|block| is_blank(&block["text"])) {
            return Err(format!("messages.{n}: text content blocks must be non-empty"));
        }
        let has_bytes = |block: &Value| {
            let source = &block["source"];
            source["type"] == "url" || source["type"] == "base64" && !is_blank(&source["data"])
        };
        if !of("image").chain(of("document")).all(has_bytes) {
            return Err(format!("messages.{n}: source.type: should be 'base64' or 'url'"));
        }
        if of("thinking").any(|block| is_blank(&block["signature"])) {
            return Err(format!("messages.{n}: thinking.signature: field required"));
        }
        if of("tool_use").any(|block| !block["input"].is_object()) {
            return Err(format!("messages.{n}: tool_use.input: should be a valid dictionary"));
        }
        let results: Vec<&str> =
            of("tool_result").filter_map(|block| block["tool_use_id"].as_str()).collect();
        if !blocks.iter().take(results.len()).all(|block| block["type"] == "tool_result") {
            return Err(format!("messages.{n}: `tool_result` blocks must come first"));
        }
        for id in &results {
            match open.iter().position(|call| call == id) {
                Some(call) => drop(open.remove(call)),
                None => return Err(format!("messages.{n}: unexpected `tool_use_id`: {id}")),
            }
        }
        if !open.is_empty() {
            return Err(format!(
                "messages.{n}: `tool_use` ids were found without `tool_result` blocks \
                 immediately after: {}",
                open.join(", ")
            ));
        }
        open = of("tool_use").filter_map(|block| block["id"].as_str()).collect();
    }
    match messages.last() {
        Some(last) if last["role"] == "user" => Ok(()),
        _ => Err("the conversation must end with a user message".into()),
    }
}

/// The rules of OpenAI and Ollama, which differ in how a result refers to its call.
fn chat(
    messages: &[Value],
    call_key: &dyn Fn(&Value) -> &Value,
    result_key: &dyn Fn(&Value) -> &Value,
) -> Result<(), String> {
    let mut open: Vec<&Value> = Vec::new();
    let mut before = "";
    for (n, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let calls = list(&message["tool_calls"]);
        if role != "tool" && !open.is_empty() {
            return Err(format!(
                "messages.{n}: an assistant message with 'tool_calls' must be followed by tool \
                 messages responding to each of them"
            ));
        }
        let in_order = match role {
            "system" => n == 0,
            "user" => before != "user",
            "assistant" => matches!(before, "user" | "tool"),
            "tool" => true,
            _ => false,
        };
        if !in_order {
            return Err(format!("messages.{n}: role '{role}' is out of order"));
        }
        let empty = list(&message["content"]).is_empty() && is_blank(&message["content"]);
        if empty && calls.is_empty() {
            return Err(format!("messages.{n}: content must not be empty"));
        }
        if role == "tool" {
            match open.iter().position(|call| *call == result_key(message)) {
                Some(call) => drop(open.remove(call)),
                None => {
                    return Err(format!(
                        "messages.{n}: a message with role 'tool' must be a response to a \
                         preceding message with 'tool_calls'"
                    ));
                }
            }
        }
        if calls.iter().any(|call| !has_arguments(call)) {
            return Err(format!("messages.{n}: the arguments of a call are not JSON"));
        }
        open.extend(calls.iter().map(call_key));
        before = role;
    }
    match before {
        "user" | "tool" if open.is_empty() => Ok(()),
        _ => Err("the conversation must end with a message of the user or of a tool".into()),
    }
}

/// OpenAI expects the arguments as text, Ollama as an object.
fn has_arguments(call: &Value) -> bool {
    let arguments = &call["function"]["arguments"];
    match arguments.as_str() {
        Some(text) => !call["id"].is_null() && serde_json::from_str::<Value>(text).is_ok(),
        None => arguments.is_object(),
    }
}
