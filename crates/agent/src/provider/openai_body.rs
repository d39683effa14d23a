//! A request as OpenAI's Chat Completions API reads it. What is here of tools is also how Ollama
//! reads them.

use rethread_core::message::ToolResult;
use rethread_core::{Block, BlockKind, Message, Raw, Role};
use serde_json::{Map, Value, json};

use super::Request;
use crate::tool::Spec;

/// Stands for a picture where the wire has no place for one.
pub(super) const PICTURE: &str = "[a picture that cannot be shown here]";

/// The body of a request.
pub(super) fn body(request: &Request<'_>) -> Vec<u8> {
    let mut body = json!({
        "model": request.model.name,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": request.messages.iter().flat_map(messages).collect::<Vec<Value>>(),
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body.to_string().into_bytes()
}

/// What a model is told about a tool.
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
        // The prefix of a door ends with an empty line of its own.
        if !joined.is_empty() && !joined.ends_with("\n\n") {
            joined.push_str("\n\n");
        }
        joined.push_str(text);
    }
    joined
}

/// The text of a result, with a word in place of each picture.
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

/// A message; several results in one become one each.
fn messages(message: &Message) -> Vec<Value> {
    let mut said: Vec<Value> = message
        .results()
        .map(|result| {
            json!({"role": "tool", "tool_call_id": result.tool_use_id,
                "content": result_text(result)})
        })
        .collect();
    match message.role {
        Role::System => {
            said.push(json!({"role": "system", "content": texts(&message.content)}));
        }
        Role::User if message.opens_turn() => {
            said.push(json!({"role": "user", "content": user(&message.content)}));
        }
        Role::Assistant => said.extend(assistant(message)),
        Role::User | Role::Tool => {}
    }
    said
}

fn user(content: &[Block]) -> Value {
    let is_picture = |block: &Block| matches!(block.kind, BlockKind::Image { .. });
    if !content.iter().any(is_picture) {
        return texts(content).into();
    }
    content
        .iter()
        .filter_map(|block| match &block.kind {
            BlockKind::Text(text) | BlockKind::Prefix(text) => {
                Some(json!({"type": "text", "text": text}))
            }
            BlockKind::Image { source } => Some(picture(source)),
            _ => None,
        })
        .collect()
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

/// Nothing, if the message holds only what nobody else takes.
fn assistant(message: &Message) -> Option<Value> {
    let text = texts(&message.content);
    let calls: Vec<Value> = message
        .calls()
        .map(|call| {
            json!({"id": call.id, "type": "function",
                "function": {"name": call.name, "arguments": call.input.get()}})
        })
        .collect();
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut said = Map::new();
    said.insert("role".into(), "assistant".into());
    said.insert("content".into(), if text.is_empty() { Value::Null } else { text.into() });
    if !calls.is_empty() {
        said.insert("tool_calls".into(), calls.into());
    }
    Some(said.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(source: Value) -> Block {
        Block::of(BlockKind::Image { source: Raw::of(&source) })
    }

    #[test]
    fn a_user_message_of_texts_is_one_string() {
        let content = [Block::prefix("[Active file: a.rs]"), Block::text("What is it?")];
        assert_eq!(user(&content), json!("[Active file: a.rs]\n\nWhat is it?"));
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
        assert_eq!(user(&content), expected);
    }

    #[test]
    fn the_arguments_of_a_call_are_sent_as_they_were_written() {
        let input = Raw::parse("{ \"n\": 1.00 }".into()).unwrap();
        let message = Message::new(Role::Assistant, vec![Block::tool_use("c", "read", input)]);
        let said = messages(&message);
        assert_eq!(said[0]["tool_calls"][0]["function"]["arguments"], "{ \"n\": 1.00 }");
        assert_eq!(said[0]["content"], Value::Null);
    }

    #[test]
    fn results_before_a_word_of_the_user_become_messages_of_their_own() {
        let content = vec![Block::tool_result("c", "found"), Block::text("and now?")];
        let expected = [
            json!({"role": "tool", "tool_call_id": "c", "content": "found"}),
            json!({"role": "user", "content": "and now?"}),
        ];
        assert_eq!(messages(&Message::new(Role::User, content)), expected);
    }
}
