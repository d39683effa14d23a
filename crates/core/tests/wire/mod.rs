//! A context as a request to the providers, written for these tests from the providers'
//! documentation. It changes nothing to make a request acceptable.

use rethread_core::context::Context;
use rethread_core::{Block, BlockKind, Message, Role};
use serde_json::{Value, json};

/// A request to OpenAI's chat completions.
pub(crate) fn openai(context: &Context) -> Value {
    let messages: Vec<Value> = context.messages.iter().map(openai_message).collect();
    json!({"model": "gpt-5", "messages": messages})
}

fn openai_message(message: &Message) -> Value {
    let texts: Vec<&str> = message.content.iter().filter_map(Block::as_text).collect();
    match message.role {
        Role::System => json!({"role": "system", "content": texts.join("\n\n")}),
        Role::User => {
            let parts: Vec<Value> = message.content.iter().map(openai_part).collect();
            json!({"role": "user", "content": parts})
        }
        Role::Assistant => {
            let calls: Vec<Value> = message
                .calls()
                .map(|call| {
                    let function = json!({"name": call.name, "arguments": call.input.get()});
                    json!({"id": call.id, "type": "function", "function": function})
                })
                .collect();
            let content = match texts.is_empty() {
                true => Value::Null,
                false => Value::String(texts.join("\n\n")),
            };
            match calls.is_empty() {
                true => json!({"role": "assistant", "content": content}),
                false => json!({"role": "assistant", "content": content, "tool_calls": calls}),
            }
        }
        Role::Tool => {
            let mut results = message.results();
            let result = results.next().expect("a tool message carries a result");
            assert!(results.next().is_none(), "a tool message carries one result");
            // Chat completions accept no images from a tool.
            let picture = |block: &Block| match &block.kind {
                BlockKind::Image { .. } => Some("[image]".to_owned()),
                _ => block.as_text().map(str::to_owned),
            };
            let text: Vec<String> = result.content.iter().filter_map(picture).collect();
            json!({"role": "tool", "tool_call_id": result.tool_use_id, "content": text.join("\n")})
        }
    }
}

fn openai_part(block: &Block) -> Value {
    match &block.kind {
        BlockKind::Text(text) => json!({"type": "text", "text": text}),
        BlockKind::Image { source } => {
            let source: Value = serde_json::from_str(source.get()).expect("a source");
            let url = match source["type"].as_str() {
                Some("url") => source["url"].as_str().expect("a URL").to_owned(),
                _ => format!(
                    "data:{};base64,{}",
                    source["media_type"].as_str().expect("a type"),
                    source["data"].as_str().expect("bytes")
                ),
            };
            json!({"type": "image_url", "image_url": {"url": url}})
        }
        _ => serde_json::to_value(block).expect("JSON"),
    }
}

/// A request to Anthropic's messages.
pub(crate) fn anthropic(context: &Context) -> Value {
    let mut request = json!({"model": "claude-opus-4-6", "max_tokens": 1024});
    let mut messages: Vec<Value> = Vec::new();
    for message in &context.messages {
        let blocks = serde_json::to_value(&message.content).expect("JSON");
        match message.role {
            Role::System => request["system"] = blocks,
            Role::Assistant => messages.push(json!({"role": "assistant", "content": blocks})),
            Role::User => push_user(&mut messages, blocks),
            Role::Tool => push_user(&mut messages, blocks),
        }
    }
    request["messages"] = Value::Array(messages);
    request
}

/// Results of one round, and what the user says after them, are one message of the user.
fn push_user(messages: &mut Vec<Value>, mut blocks: Value) {
    match messages.last_mut() {
        Some(last) if last["role"] == "user" => {
            let more = blocks.as_array_mut().expect("blocks");
            last["content"].as_array_mut().expect("blocks").append(more);
        }
        _ => messages.push(json!({"role": "user", "content": blocks})),
    }
}
