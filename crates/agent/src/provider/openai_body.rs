//! The body of a Chat Completions request. Ollama uses the same format for tools.

use rethread_core::message::ToolResult;
use rethread_core::{Block, BlockKind, Message, Raw, Role, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Request;
use crate::tool::Spec;

/// The placeholder for a picture that the API cannot carry.
pub(super) const PICTURE: &str = "[a picture that cannot be shown here]";

/// A message, serialised from the context without a copy.
#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: Content,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Nothing(()),
    Text(String),
    Parts(Vec<Value>),
}

impl<'a> Said<'a> {
    fn new(role: &'static str, content: Content) -> Said<'a> {
        Said { role, content, tool_call_id: None, tool_calls: Vec::new() }
    }
}

/// The body of a request. Requests with the same cache key are routed to the same cache if
/// possible.
pub(super) fn body(request: &Request<'_>, cache_key: Option<SessionId>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        stream: bool,
        stream_options: Value,
        messages: Vec<Said<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tools: Vec<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt_cache_key: Option<SessionId>,
    }
    let body = Body {
        model: &request.model.name,
        stream: true,
        stream_options: json!({"include_usage": true}),
        messages: request.messages.iter().flat_map(messages).collect(),
        tools: request.tools.iter().map(tool).collect(),
        prompt_cache_key: cache_key,
    };
    serde_json::to_vec(&body).expect("messages are always valid JSON")
}

/// The description of a tool for the model.
pub(super) fn tool(spec: &Spec) -> Value {
    json!({"type": "function", "function": {
        "name": spec.name, "description": spec.description, "parameters": spec.input,
    }})
}

/// The texts of a message, one paragraph each.
pub(super) fn texts(content: &[Block]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|block| match &block.kind {
            BlockKind::Text(text) | BlockKind::Prefix(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let mut joined = String::new();
    for text in texts {
        // A client's prefix ends with its own empty line.
        if !joined.is_empty() && !joined.ends_with("\n\n") {
            joined.push_str("\n\n");
        }
        joined.push_str(text);
    }
    joined
}

/// The text of a result, with a placeholder for each picture.
pub(super) fn result_text(result: &ToolResult) -> String {
    let texts: Vec<&str> = result
        .content
        .iter()
        .filter_map(|block| match &block.kind {
            BlockKind::Text(text) | BlockKind::Prefix(text) => Some(text.as_str()),
            BlockKind::Image { .. } => Some(PICTURE),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

/// A message; several results in one become separate messages.
fn messages(message: &Message) -> Vec<Said<'_>> {
    let mut said: Vec<Said<'_>> = message
        .results()
        .map(|result| Said {
            tool_call_id: Some(&result.tool_use_id),
            ..Said::new("tool", Content::Text(result_text(result)))
        })
        .collect();
    match message.role {
        Role::System => said.push(Said::new("system", Content::Text(texts(&message.content)))),
        Role::User if message.opens_turn() => {
            said.push(Said::new("user", user(&message.content)));
        }
        Role::Assistant => said.extend(assistant(message)),
        Role::User | Role::Tool => {}
    }
    said
}

fn user(content: &[Block]) -> Content {
    let is_attached =
        |block: &Block| matches!(block.kind, BlockKind::Image { .. }) || document(block).is_some();
    if !content.iter().any(is_attached) {
        return Content::Text(texts(content));
    }
    let parts = content.iter().filter_map(|block| match &block.kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => {
            Some(json!({"type": "text", "text": text}))
        }
        BlockKind::Image { source } => Some(picture(source)),
        _ => document(block),
    });
    Content::Parts(parts.collect())
}

/// A document whose bytes were inserted.
fn document(block: &Block) -> Option<Value> {
    #[derive(Deserialize)]
    struct Document {
        #[serde(rename = "type")]
        kind: String,
        source: Source,
        title: Option<String>,
    }
    #[derive(Deserialize)]
    struct Source {
        media_type: String,
        data: String,
    }
    let raw = block.raw().filter(|_| block.kind == BlockKind::Unknown)?;
    let Document { kind, source, title } = serde_json::from_str(raw.get()).ok()?;
    if kind != "document" {
        return None;
    }
    let data = format!("data:{};base64,{}", source.media_type, source.data);
    let name = title.unwrap_or_else(|| "document.pdf".into());
    Some(json!({"type": "file", "file": {"filename": name, "file_data": data}}))
}

fn picture(source: &Raw) -> Value {
    let source: Value = serde_json::from_str(source.get()).unwrap_or_default();
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    let url = match (text("url"), text("media_type"), text("data")) {
        (Some(url), _, _) => url.to_owned(),
        (None, Some(kind), Some(data)) => format!("data:{kind};base64,{data}"),
        _ => return json!({"type": "text", "text": PICTURE}),
    };
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// `None` if the message contains only blocks that this API does not accept.
fn assistant(message: &Message) -> Option<Said<'_>> {
    let text = texts(&message.content);
    let calls = message.calls().map(|call| {
        json!({"id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": call.input.get()}})
    });
    let tool_calls: Vec<Value> = calls.collect();
    if text.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Content::Nothing(()) } else { Content::Text(text) };
    Some(Said { tool_calls, ..Said::new("assistant", content) })
}

#[cfg(test)]
mod tests {
    use rethread_core::Owner;
    use rethread_core::context::Model;

    use super::*;

    fn written(said: impl Serialize) -> Value {
        serde_json::to_value(said).expect("valid JSON")
    }

    fn image(source: Value) -> Block {
        Block::of(BlockKind::Image { source: Raw::of(&source) })
    }

    #[test]
    fn a_request_to_openai_names_its_session_as_the_key_of_the_cache() {
        let model = Model::new("openai", "gpt-5");
        let id = SessionId::of_source(&Owner::local(), "a test");
        let messages = [Message::user("Hi")];
        let request = Request {
            model: &model,
            messages: &messages,
            stable: 1,
            tools: &[],
            session: Some(id),
            keep_longer: false,
        };
        let sent = |key| -> Value { serde_json::from_slice(&body(&request, key)).expect("JSON") };
        assert_eq!(sent(Some(id))["prompt_cache_key"], id.to_string());
        assert_eq!(sent(None).get("prompt_cache_key"), None);
    }

    #[test]
    fn a_user_message_of_texts_is_one_string() {
        let content = [Block::prefix("[Active file: a.rs]"), Block::text("What is it?")];
        assert_eq!(written(user(&content)), json!("[Active file: a.rs]\n\nWhat is it?"));
    }

    #[test]
    fn a_user_message_with_a_picture_is_made_of_parts() {
        let content = [
            Block::text("Look:"),
            image(json!({"type": "base64", "media_type": "image/png", "data": "QUJD"})),
            image(json!({"type": "url", "url": "https://example.org/a.png"})),
        ];
        let expected = json!([
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        ]);
        assert_eq!(written(user(&content)), expected);
    }

    #[test]
    fn the_arguments_of_a_call_are_sent_as_they_were_written() {
        let input = Raw::parse("{ \"n\": 1.00 }".into()).unwrap();
        let message = Message::new(Role::Assistant, vec![Block::tool_use("c", "read", input)]);
        let said = written(messages(&message));
        assert_eq!(said[0]["tool_calls"][0]["function"]["arguments"], "{ \"n\": 1.00 }");
        assert_eq!(said[0]["content"], Value::Null);
    }

    #[test]
    fn results_before_a_word_of_the_user_become_messages_of_their_own() {
        let content = vec![Block::tool_result("c", "found"), Block::text("and now?")];
        let expected = json!([
            {"role": "tool", "tool_call_id": "c", "content": "found"},
            {"role": "user", "content": "and now?"},
        ]);
        assert_eq!(written(messages(&Message::new(Role::User, content))), expected);
    }
}
