//! Gemini CLI: one document, or lines of which a later one replaces an earlier of the same id.

use std::collections::HashMap;
use std::path::Path;

use rethread_core::message::{Block, BlockKind, Role, Usage};
use rethread_core::{Message, Raw};

use super::document;
use super::fields::{Fields, list, quoted, string};
use super::found::Found;
use super::lines::{Line, Lines};
use super::messages::{arguments, result_json};
use super::out::{Out, Slot, fingerprint, said};
use super::{Error, Result, time};

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let first = {
        let mut lines = Lines::open(path)?;
        match lines.next()? {
            Some((_, Line::Text(line))) => {
                Fields::of(line).map(|fields| fields.has("messages") || fields.has("history"))
            }
            _ => None,
        }
    };
    match first {
        Some(false) => lines(path, out),
        _ => document(path, out),
    }
}

fn document(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = document::text(path)?;
    let (text, damage) = document::mended(&text)?;
    if text.starts_with('[') {
        let turns = list(&text).unwrap_or_default();
        checkpoint(out, &Fields::default(), &turns)?;
        out.damaged(damage, turns.len());
        return Ok(());
    }
    let doc = Fields::parse(&text).map_err(Error::broken)?;
    if let (Some(turns), false) = (doc.list("history"), doc.has("messages")) {
        checkpoint(out, &doc, &turns)?;
        out.damaged(damage, turns.len());
        return Ok(());
    }
    let session = begin(out, &doc)?;
    out.records(1);
    let rest = doc.without_list("messages", &[]);
    out.raw(Slot { session, id: "session".into(), at: None }, "session", &rest)?;
    let items = doc.list("messages").unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        out.records(1);
        message(out, session, item, &format!("message {}", index + 1))?;
    }
    out.damaged(damage, items.len());
    Ok(())
}

/// What `/chat save` writes: the turns as the API takes them. They have no ids and no times.
fn checkpoint(out: &mut Out<'_>, doc: &Fields<'_>, turns: &[&str]) -> Result<()> {
    let first = turns.first().copied().unwrap_or_default();
    let session = out.session(Found {
        identity: fingerprint(&[first]),
        agent: Some("gemini".into()),
        provider: Some("google".into()),
        windowed: true,
        ..Found::default()
    })?;
    let rest = doc.without(&["history"]);
    if rest != "{}" {
        out.records(1);
        let id = format!("header:{}", fingerprint(&[&rest]));
        out.raw(Slot { session, id, at: None }, "header", &rest)?;
    }
    for turn in turns {
        out.records(1);
        let fields = Fields::of(turn).unwrap_or_default();
        let kind = fields.word("role").unwrap_or_else(|| "other".into());
        let slot = Slot { session, id: fingerprint(&[turn]), at: None };
        match turn_of(&fields, &kind) {
            Some(message) => out.message(slot, message, &kind, 1)?,
            None => out.raw(slot, &kind, turn)?,
        }
    }
    Ok(())
}

/// A turn of the API. Calls there have no ids of their own before they are answered, so the name
/// of the function stands for one.
fn turn_of(fields: &Fields<'_>, role: &str) -> Option<Message> {
    let role = match role {
        "user" | "function" => Role::User,
        "model" => Role::Assistant,
        _ => return None,
    };
    let mut blocks = Vec::new();
    for part in fields.list("parts")? {
        let part_fields = Fields::of(part)?;
        if let Some(call) = part_fields.object("functionCall") {
            let name = call.word("name")?;
            let id = call.word("id").unwrap_or_else(|| name.clone());
            blocks.push(Block::tool_use(id, name, arguments(call.get("args"))));
        } else if let Some(answer) = part_fields.object("functionResponse") {
            let id = answer.word("id").or_else(|| answer.word("name"))?;
            let result = result_json(&id, &output(&format!("[{part}]")), false);
            blocks.extend(said(Role::Tool, &format!("[{result}]")).ok()?.content);
        } else {
            blocks.extend(said(role, &parts(&format!("[{part}]"))).ok()?.content);
        }
    }
    let answers = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    let all_answers = !blocks.is_empty() && blocks.iter().all(answers);
    Some(Message::new(if all_answers { Role::Tool } else { role }, blocks))
}

fn lines(path: &Path, out: &mut Out<'_>) -> Result<()> {
    // A message is written again when it grew: the last one counts.
    let mut last: HashMap<String, u64> = HashMap::new();
    let mut ahead = Lines::open(path)?;
    while let Ok(Some((number, line))) = ahead.next() {
        let Line::Text(line) = line else { continue };
        if let Some(id) = Fields::of(line).and_then(|fields| fields.word("id")) {
            last.insert(id, number);
        }
    }
    let mut session = None;
    out.lines(path, |out, number, line| {
        let fields = match Fields::parse(line) {
            Ok(fields) => fields,
            Err(what) => {
                out.unreadable("broken", format!("line {number}"), what);
                return Ok(());
            }
        };
        let id = format!("{number}:{}", fingerprint(&[line]));
        let session = match session {
            Some(session) => session,
            None => {
                let begun = begin(out, &fields)?;
                session = Some(begun);
                begun
            }
        };
        let slot = Slot { session, id, at: None };
        match fields.word("id") {
            Some(id) if last.get(&id) == Some(&number) => {
                message(out, session, line, &format!("line {number}"))
            }
            Some(_) => out.raw(slot, "replaced", line),
            None if fields.has("projectHash") => out.raw(slot, "session", line),
            None => {
                let kind = fields.iter().next().map(|(key, _)| key.to_owned());
                out.raw(slot, &kind.unwrap_or_else(|| "other".into()), line)
            }
        }
    })
}

fn begin(out: &mut Out<'_>, doc: &Fields<'_>) -> Result<usize> {
    let begun = doc.get("startTime").and_then(|raw| time::of_json(raw, &out.options.zone));
    out.session(Found {
        identity: doc
            .word("sessionId")
            .unwrap_or_else(|| fingerprint(&[&doc.without(&["messages"])])),
        description: doc.word("summary"),
        agent: Some("gemini".into()),
        provider: Some("google".into()),
        created_at: begun,
        ..Found::default()
    })
}

fn message(out: &mut Out<'_>, session: usize, item: &str, place: &str) -> Result<()> {
    let fields = match Fields::parse(item) {
        Ok(fields) => fields,
        Err(what) => {
            out.unreadable("broken", place.to_owned(), what);
            return Ok(());
        }
    };
    let kind = fields.word("type").unwrap_or_else(|| "other".into());
    let at = fields.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone));
    let id = fields.word("id").unwrap_or_else(|| fingerprint(&[item]));
    let slot = |id: String| Slot { session, id, at };
    let content = fields.get("content").unwrap_or("null");
    match kind.as_str() {
        "user" => match said(Role::User, &parts(content)) {
            Ok(message) => out.message(slot(id), message, &kind, 1),
            Err(_) => out.raw(slot(id), &kind, item),
        },
        "gemini" | "model" | "assistant" => {
            let Ok((reply, answers)) = reply(&fields, content) else {
                return out.raw(slot(id), &kind, item);
            };
            out.message(slot(id.clone()), reply, &kind, 1)?;
            match answers {
                // The call and its answer are one record there, and two entries here.
                Some(answers) => out.message(slot(format!("{id}:results")), answers, &kind, 0),
                None => Ok(()),
            }
        }
        _ => out.raw(slot(id), &kind, item),
    }
}

fn reply(
    fields: &Fields<'_>,
    content: &str,
) -> std::result::Result<(Message, Option<Message>), String> {
    let mut reply = said(Role::Assistant, &parts(content))?;
    let mut thoughts = Vec::new();
    for thought in fields.list("thoughts").unwrap_or_default() {
        let thought = Fields::of(thought).unwrap_or_default();
        let words = [thought.word("subject"), thought.word("description")];
        thoughts.push(words.into_iter().flatten().collect::<Vec<_>>().join("\n"));
    }
    if !thoughts.is_empty() {
        let text = quoted(&thoughts.join("\n\n"));
        let block = format!("[{{\"type\":\"thinking\",\"thinking\":{text}}}]");
        let mut blocks = said(Role::Assistant, &block)?.content;
        blocks.append(&mut reply.content);
        reply.content = blocks;
    }
    let mut answers = Vec::new();
    for call in fields.list("toolCalls").unwrap_or_default() {
        let call = Fields::parse(call)?;
        let id = call.word("id").unwrap_or_default();
        let name = call.word("name").unwrap_or_else(|| "unknown".into());
        reply.content.push(Block::tool_use(&id, name, arguments(call.get("args"))));
        let failed = matches!(call.text("status").as_deref(), Some("error" | "cancelled"));
        let output = call
            .get("result")
            .map(output)
            .or_else(|| call.text("resultDisplay").map(|shown| quoted(&shown)));
        if let Some(output) = output {
            answers.push(result_json(&id, &output, failed));
        }
    }
    reply.model = fields.word("model").map(|model| format!("google/{model}"));
    reply.usage = fields.object("tokens").map(|tokens| {
        let number = |name: &str| tokens.number(name).unwrap_or(0);
        Usage {
            input: number("input").saturating_sub(number("cached")).saturating_add(number("tool")),
            output: number("output").saturating_add(number("thoughts")),
            cache_read: number("cached"),
            cache_write: 0,
        }
    });
    let known = ["id", "timestamp", "type", "content", "thoughts", "tokens", "model"];
    let rest = fields.without(&known);
    if rest != "{}" {
        reply.extra.push(("source".into(), Raw::parse(rest).map_err(|error| error.to_string())?));
    }
    let answers = match answers.is_empty() {
        true => None,
        false => Some(said(Role::Tool, &format!("[{}]", answers.join(",")))?),
    };
    Ok((reply, answers))
}

/// What a tool answered: the output of its function, or all of it.
fn output(raw: &str) -> String {
    let texts: Vec<String> = list(raw)
        .unwrap_or_default()
        .into_iter()
        .map(|item| {
            let response = Fields::of(item)
                .and_then(|item| item.object("functionResponse"))
                .and_then(|function| function.object("response"));
            let given =
                response.as_ref().and_then(|r| r.text("output").or_else(|| r.text("error")));
            given.map_or_else(|| item.to_owned(), std::borrow::Cow::into_owned)
        })
        .collect();
    match string(raw) {
        Some(text) => quoted(&text),
        None if texts.is_empty() => quoted(raw),
        None => quoted(&texts.join("\n")),
    }
}

/// Content as a string, or as parts without a type.
fn parts(content: &str) -> String {
    let items = match content.as_bytes().first() {
        Some(b'[') => list(content).unwrap_or_default(),
        Some(b'{') => vec![content],
        _ => return content.to_owned(),
    };
    let blocks: Vec<String> = items
        .into_iter()
        .map(|item| match Fields::of(item).and_then(|part| part.get("text")) {
            Some(text) => format!("{{\"type\":\"text\",\"text\":{text}}}"),
            None => item.to_owned(),
        })
        .collect();
    format!("[{}]", blocks.join(","))
}
