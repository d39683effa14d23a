//! Messages in the formats of OpenAI's and Anthropic's APIs: a list, an object that contains one,
//! or one message per line.

use std::path::Path;

use rethread_core::message::{Block, Role, Usage};
use rethread_core::{Message, Profile, Raw};

use super::document;
use super::fields::{Fields, list, quoted, string};
use super::output::{Out, Slot, fingerprint, said};
use super::responses::{self, Items};
use super::sink::FoundSession;
use super::{ReadError, Result, time};

/// How a message of an API is imported.
pub(super) enum Converted {
    /// As a message.
    Said(Message),
    /// Instructions: they are kept and never followed.
    Instructions,
}

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = document::text(path)?;
    let body = text.trim();
    if body.starts_with('[') {
        let (list_text, damage) = document::mended(body)?;
        let items = list(&list_text).unwrap_or_default();
        conversation(out, None, &items)?;
        out.damaged(damage, items.len());
        return Ok(());
    }
    let lines: Vec<&str> = body.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() < 2 || lines.iter().take(2).any(|line| Fields::of(line).is_none()) {
        let (text, damage) = document::mended(body)?;
        let doc = Fields::parse(&text).map_err(ReadError::broken)?;
        request(out, &doc, &text)?;
        out.damaged(damage, doc.list("messages").unwrap_or_default().len());
        return Ok(());
    }
    // One record per line: messages, or conversations.
    let mut messages = Vec::new();
    for (number, line) in body.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match Fields::parse(line) {
            Ok(doc) if doc.has("messages") => request(out, &doc, line)?,
            Ok(_) => messages.push(line.trim()),
            Err(what) => {
                out.records(1);
                out.unreadable("broken", format!("line {}", number + 1), what);
            }
        }
    }
    match messages.is_empty() {
        true => Ok(()),
        false => conversation(out, None, &messages),
    }
}

/// An object with a list of messages, and more.
fn request(out: &mut Out<'_>, doc: &Fields<'_>, text: &str) -> Result<()> {
    match doc.list("messages") {
        Some(items) => conversation(out, Some(doc), &items),
        None if doc.has("role") => conversation(out, None, &[text]),
        None => conversation(out, Some(doc), &[]),
    }
}

fn conversation(out: &mut Out<'_>, doc: Option<&Fields<'_>>, items: &[&str]) -> Result<()> {
    // Such lists have no name; they are distinguished by their first message.
    let first = items.iter().find(|item| !is_instructions(item)).copied().unwrap_or_default();
    let given = doc.and_then(|doc| doc.word("id"));
    let model = doc.and_then(|doc| doc.word("model"));
    let nameless = given.is_none();
    let session = out.session(FoundSession {
        identity: given.unwrap_or_else(|| fingerprint(&[first])),
        profile: Profile {
            provider: model.as_ref().map(|_| out.format().name().to_owned()),
            model: model.clone(),
            ..Profile::default()
        },
        windowed: true,
        nameless,
        ..FoundSession::default()
    })?;
    if let Some(doc) = doc {
        let rest = doc.without_list("messages", &[]);
        if rest != "{}" {
            out.records(1);
            let id = format!("request:{}", fingerprint(&[&rest]));
            out.raw(Slot { session, id, at: None }, "request", &rest)?;
        }
    }
    if items.iter().any(|item| responses::is_item(item)) {
        return of_items(out, session, items);
    }
    for item in items {
        out.records(1);
        one(out, session, item)?;
    }
    Ok(())
}

/// A list of items of OpenAI's newer API.
fn of_items(out: &mut Out<'_>, session: usize, list: &[&str]) -> Result<()> {
    let mut items = Items::default();
    for item in list {
        out.records(1);
        let slot = Slot { session, id: fingerprint(&[item]), at: None };
        let fields = Fields::of(item).unwrap_or_default();
        let kind = fields.word("type").or_else(|| fields.word("role"));
        items.take(out, slot, &fields, kind.unwrap_or_else(|| "other".into()), item)?;
    }
    items.end(out)
}

/// Emits one message of a list. Anything else is kept.
pub(super) fn one(out: &mut Out<'_>, session: usize, item: &str) -> Result<()> {
    let Some(fields) = Fields::of(item) else {
        let id = fingerprint(&[item]);
        return out.raw(Slot { session, id, at: None }, "other", item);
    };
    let given = ["timestamp", "created_at", "createdAt", "time"];
    let at = given.iter().find_map(|name| fields.get(name));
    let at = at.and_then(|raw| time::of_json(raw, &out.options.zone));
    let slot = Slot { session, id: fingerprint(&[item]), at };
    let kind = fields.word("role").unwrap_or_else(|| "other".into());
    match convert(&fields) {
        Ok(Converted::Said(message)) => out.message(slot, message, &kind, 1),
        Ok(Converted::Instructions) | Err(_) => out.raw(slot, &kind, item),
    }
}

pub(super) fn is_instructions(item: &str) -> bool {
    let role = Fields::of(item).and_then(|fields| fields.word("role"));
    matches!(role.as_deref(), Some("system" | "developer"))
}

/// A message of either API.
pub(super) fn convert(fields: &Fields<'_>) -> std::result::Result<Converted, String> {
    let role = fields.text("role").ok_or("it has no role")?;
    let content = fields.get("content").unwrap_or("null");
    let mut message = match role.as_ref() {
        "system" | "developer" => return Ok(Converted::Instructions),
        "user" | "human" => said(Role::User, &parts(content))?,
        "assistant" | "model" | "ai" => reply(fields, content)?,
        "tool" | "function" => answer(fields, content)?,
        other => return Err(format!("unknown role `{other}`")),
    };
    let model = fields.word("model").filter(|_| message.role == Role::Assistant);
    message.model = model;
    // Some programs keep the reply as it arrived, with its cost.
    let reply = fields.object("extra").and_then(|extra| extra.object("response"));
    let usage = fields.object("usage").or_else(|| reply.and_then(|reply| reply.object("usage")));
    message.usage = usage.and_then(|usage| usage_of(&usage));
    let known = ["role", "content", "tool_calls", "function_call", "tool_call_id", "model"];
    let rest = fields.without(&known);
    if rest != "{}" {
        let raw = Raw::parse(rest).map_err(|error| error.to_string())?;
        message.extra.push(("source".into(), raw));
    }
    Ok(Converted::Said(message))
}

fn reply(fields: &Fields<'_>, content: &str) -> std::result::Result<Message, String> {
    let mut message = said(Role::Assistant, &parts(content))?;
    for call in fields.list("tool_calls").unwrap_or_default() {
        let call = Fields::parse(call)?;
        let id = call.get("id").and_then(id_text).unwrap_or_default();
        // Some programs leave out the envelope.
        let function = call.object("function").or_else(|| call.object("custom"));
        let function = function.as_ref().unwrap_or(&call);
        let name = function.word("name").unwrap_or_else(|| "unknown".into());
        let given = ["arguments", "input", "args"].iter().find_map(|name| function.get(name));
        message.content.push(Block::tool_use(id, name, arguments(given)));
    }
    if let Some(call) = fields.object("function_call") {
        let name = call.word("name").unwrap_or_else(|| "unknown".into());
        message.content.push(Block::tool_use(&name, &name, arguments(call.get("arguments"))));
    }
    Ok(message)
}

fn answer(fields: &Fields<'_>, content: &str) -> std::result::Result<Message, String> {
    let message = said(Role::Tool, &parts(content))?;
    if message.results().next().is_some() {
        return Ok(message);
    }
    // The older form has the name of the function instead of the call's id.
    let given = ["tool_call_id", "tool_use_id", "toolCallId", "name"];
    let id = given.iter().find_map(|name| fields.get(name)).and_then(id_text);
    let id = id.or_else(|| {
        fields.list("tool_call_ids").and_then(|ids| ids.first().and_then(|id| id_text(id)))
    });
    said(Role::Tool, &format!("[{}]", result_json(&id.unwrap_or_default(), &parts(content), false)))
}

/// A tool result as JSON.
pub(super) fn result_json(id: &str, content: &str, is_error: bool) -> String {
    let error = if is_error { ",\"is_error\":true" } else { "" };
    let id = quoted(id);
    format!("{{\"type\":\"tool_result\",\"tool_use_id\":{id},\"content\":{content}{error}}}")
}

/// The arguments of a call. They may be JSON, JSON in a string, a text, or nothing.
pub(super) fn arguments(raw: Option<&str>) -> Raw {
    let empty = || Raw::of(&serde_json::Map::new());
    let Some(raw) = raw else { return empty() };
    let text = match string(raw) {
        Some(text) if text.trim().is_empty() => return empty(),
        Some(text) => text,
        None => std::borrow::Cow::Borrowed(raw),
    };
    if text.trim_start().starts_with('{')
        && let Ok(raw) = Raw::parse(text.trim().to_owned())
    {
        return raw;
    }
    Raw::of(&serde_json::json!({ "input": text }))
}

pub(super) fn id_text(raw: &str) -> Option<String> {
    match string(raw) {
        Some(text) => Some(text.into_owned()),
        None => raw.parse::<u64>().ok().map(|number| number.to_string()),
    }
}

/// Content with OpenAI's parts converted: `input_text` and `output_text` are text.
pub(super) fn parts(content: &str) -> String {
    let foreign = ["input_text", "output_text", "\"refusal\""];
    if !content.starts_with('[') || !foreign.iter().any(|word| content.contains(word)) {
        return content.to_owned();
    }
    let Some(items) = list(content) else { return content.to_owned() };
    let blocks: Vec<String> = items
        .into_iter()
        .map(|item| {
            let fields = Fields::of(item);
            let kind = fields.as_ref().and_then(|fields| fields.word("type"));
            let text = match kind.as_deref() {
                Some("input_text" | "output_text") => fields.as_ref().and_then(|f| f.get("text")),
                Some("refusal") => fields.as_ref().and_then(|f| f.get("refusal")),
                _ => None,
            };
            match text {
                Some(text) => format!("{{\"type\":\"text\",\"text\":{text}}}"),
                None => item.to_owned(),
            }
        })
        .collect();
    format!("[{}]", blocks.join(","))
}

/// Tokens as either API counts them.
pub(super) fn usage_of(usage: &Fields<'_>) -> Option<Usage> {
    let number = |name: &str| usage.number(name).unwrap_or(0);
    if usage.has("input_tokens") || usage.has("output_tokens") {
        return Some(Usage {
            input: number("input_tokens"),
            output: number("output_tokens"),
            cache_read: number("cache_read_input_tokens"),
            cache_write: number("cache_creation_input_tokens"),
        });
    }
    if usage.has("prompt_tokens") || usage.has("completion_tokens") {
        let details = usage.object("prompt_tokens_details").unwrap_or_default();
        let cached = details.number("cached_tokens").unwrap_or(0);
        let input = number("prompt_tokens").saturating_sub(cached);
        let output = number("completion_tokens");
        return Some(Usage { input, output, cache_read: cached, cache_write: 0 });
    }
    None
}
