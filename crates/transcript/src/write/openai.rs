//! A list of messages for OpenAI's API.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_core::message::{BlockKind, Role};
use rethread_core::{Entry, Message, Session};
use serde_json::{Value, json};

use super::Writer;
use super::pairs::Pairs;
use super::visible_json::VisibleJson;

pub(super) struct OpenAi<'a> {
    out: VisibleJson<&'a mut dyn Write>,
    pairs: Pairs,
    first: bool,
}

impl<'a> OpenAi<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> OpenAi<'a> {
        OpenAi { out: VisibleJson::new(out), pairs: Pairs::default(), first: true }
    }

    fn messages(&mut self, messages: Vec<Message>) -> io::Result<()> {
        for value in messages.iter().flat_map(|message| values(message, &mut self.pairs)) {
            let before = if std::mem::take(&mut self.first) { "[\n" } else { ",\n" };
            write!(self.out, "{before}{value}")?;
        }
        Ok(())
    }
}

impl Writer for OpenAi<'_> {
    fn begin(&mut self, _: &Session) -> io::Result<()> {
        let open = self.pairs.finish();
        self.messages(open)
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let messages = self.pairs.entry(entry);
        self.messages(messages)
    }

    fn finish(&mut self) -> io::Result<()> {
        let open = self.pairs.finish();
        self.messages(open)?;
        writeln!(self.out, "{}", if self.first { "[]" } else { "\n]" })?;
        self.out.flush()
    }

    fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.pairs.left_out
    }
}

fn values(message: &Message, pairs: &mut Pairs) -> Vec<Value> {
    let mut values = Vec::new();
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in &message.content {
        match &block.kind {
            BlockKind::Text(text) | BlockKind::Prefix(text) => {
                parts.push(json!({ "type": "text", "text": text }));
            }
            BlockKind::Image { source } => match picture(source.get()) {
                Some(url) => {
                    parts.push(json!({ "type": "image_url", "image_url": { "url": url } }))
                }
                None => pairs.leave("picture"),
            },
            BlockKind::ToolUse(call) => calls.push(json!({
                "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.input.get() },
            })),
            BlockKind::ToolResult(result) => values.push(json!({
                "role": "tool", "tool_call_id": result.tool_use_id, "content": result.text(),
            })),
            BlockKind::Thinking(_) | BlockKind::Unknown => {}
        }
    }
    let content = match parts.as_slice() {
        [] => Value::Null,
        [part] if part["type"] == "text" => part["text"].clone(),
        _ => Value::Array(parts),
    };
    match message.role {
        Role::Assistant if calls.is_empty() => {
            values.push(json!({ "role": "assistant", "content": content }));
        }
        Role::Assistant => {
            let said = json!({ "role": "assistant", "content": content, "tool_calls": calls });
            values.push(said);
        }
        Role::Tool if content.is_null() => {}
        Role::User if content.is_null() => {}
        Role::System => values.push(json!({ "role": "system", "content": content })),
        Role::User | Role::Tool => values.push(json!({ "role": "user", "content": content })),
    }
    values
}

/// A picture as a URL.
fn picture(source: &str) -> Option<String> {
    let source: Value = serde_json::from_str(source).ok()?;
    if let Some(url) = source["url"].as_str() {
        return Some(url.to_owned());
    }
    let (kind, data) = (source["media_type"].as_str()?, source["data"].as_str()?);
    Some(format!("data:{kind};base64,{data}"))
}
