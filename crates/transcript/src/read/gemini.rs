//! Gemini CLI: one JSON document, or JSON lines in which a later line replaces an earlier one with
//! the same id.

use std::collections::HashSet;
use std::path::Path;

use rethread_core::message::{Block, BlockKind, Role, Usage};
use rethread_core::{Message, Profile, Raw};

use super::document;
use super::fields::{Fields, list, quoted, string};
use super::gemini_lines;
use super::lines::{Line, Lines};
use super::messages::{arguments, result_json};
use super::output::{Out, Slot, fingerprint, said};
use super::sink::FoundSession;
use super::{ReadError, Result, time};

/// How a message begins that the program wrote in the user's name.
const INJECTED: [&str; 3] = [
    "<session_context>",
    "<hook_context>",
    "This is the Gemini CLI. We are setting up the context for our chat.",
];

/// Lines that are examined to distinguish JSON lines from a document.
const LINES_TRIED: usize = 20;

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    match is_lines(path)? {
        true => gemini_lines::read(path, out),
        false => document(path, out),
    }
}

/// Whether each line is a record: several are whole objects, or the only one holds no list.
fn is_lines(path: &Path) -> Result<bool> {
    let mut lines = Lines::open(path)?;
    let mut whole = 0;
    for _ in 0..LINES_TRIED {
        let Some((_, line)) = lines.next()? else { break };
        let Line::Text(line) = line else { continue };
        let Some(fields) = Fields::of(line) else { continue };
        whole += 1;
        if whole > 1 || !fields.has("messages") && !fields.has("history") {
            return Ok(true);
        }
    }
    Ok(false)
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
    let doc = Fields::parse(&text).map_err(ReadError::broken)?;
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
    let mut answered = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        out.records(1);
        message(out, session, item, &mut answered, &format!("message {}", index + 1))?;
    }
    out.damaged(damage, items.len());
    Ok(())
}

/// The output of `/chat save`: the turns as the API takes them. They have no ids and no times.
fn checkpoint(out: &mut Out<'_>, doc: &Fields<'_>, turns: &[&str]) -> Result<()> {
    let first = turns.first().copied().unwrap_or_default();
    let session = out.session(FoundSession {
        identity: fingerprint(&[first]),
        profile: Profile {
            agent: Some("gemini".into()),
            provider: Some("google".into()),
            ..Profile::default()
        },
        windowed: true,
        nameless: true,
        ..FoundSession::default()
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
        let role = match kind.as_str() {
            "user" | "function" => Some(Role::User),
            "model" => Some(Role::Assistant),
            _ => None,
        };
        let parts = fields.get("parts");
        match role.zip(parts).and_then(|(role, parts)| turn_of(parts, role)) {
            Some(message) => out.message(slot, message, &kind, 1)?,
            None => out.raw(slot, &kind, turn)?,
        }
    }
    Ok(())
}

/// A turn of the API. There, calls have no ids before they are answered, so the name of the
/// function is used instead.
fn turn_of(content: &str, role: Role) -> Option<Message> {
    let mut blocks = Vec::new();
    for part in list(content)? {
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

/// Identifies a document without an id: by its first message. Everything else in it changes.
fn first_of(doc: &Fields<'_>) -> String {
    let items = doc.list("messages").unwrap_or_default();
    let first = items.first().copied().unwrap_or_default();
    let id = Fields::of(first).and_then(|first| first.word("id"));
    id.unwrap_or_else(|| fingerprint(&[first]))
}

fn begin(out: &mut Out<'_>, doc: &Fields<'_>) -> Result<usize> {
    let begun = doc.get("startTime").and_then(|raw| time::of_json(raw, &out.options.zone));
    out.session(FoundSession {
        identity: doc.word("sessionId").unwrap_or_else(|| first_of(doc)),
        profile: Profile {
            description: doc.word("summary"),
            agent: Some("gemini".into()),
            provider: Some("google".into()),
            ..Profile::default()
        },
        created_at: begun,
        ..FoundSession::default()
    })
}

fn message(
    out: &mut Out<'_>,
    session: usize,
    item: &str,
    answered: &mut HashSet<String>,
    place: &str,
) -> Result<()> {
    let fields = match Fields::parse(item) {
        Ok(fields) => fields,
        Err(what) => {
            out.unreadable("broken", place.to_owned(), what);
            return Ok(());
        }
    };
    let kind = kind_of(&fields);
    let at = fields.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone));
    let id = fields.word("id").unwrap_or_else(|| fingerprint(&[item]));
    let Some(meant) = meaning(&fields, answered) else {
        return out.raw(Slot { session, id, at }, &kind, item);
    };
    let mut records = 1;
    for (end, message) in meant {
        out.message(Slot { session, id: format!("{id}{end}"), at }, message, &kind, records)?;
        records = 0;
    }
    Ok(())
}

pub(super) fn kind_of(fields: &Fields<'_>) -> String {
    fields.word("type").unwrap_or_else(|| "other".into())
}

/// The content of a record: a message, and the results of its calls after it, each with the suffix
/// of its id. A call and its result are one record there. `None` if it contains nothing, or nothing
/// that is not in `answered` yet.
pub(super) fn meaning(
    fields: &Fields<'_>,
    answered: &mut HashSet<String>,
) -> Option<Vec<(&'static str, Message)>> {
    let content = fields.get("content").unwrap_or("null");
    match kind_of(fields).as_str() {
        "user" => {
            let message = match content.contains("\"functionResponse\"") {
                true => turn_of(content, Role::User)?,
                false => said(Role::User, &parts(content)).ok()?,
            };
            let text = message.plain_text();
            if INJECTED.iter().any(|mark| text.trim_start().starts_with(mark)) {
                return None;
            }
            let is_old = message.results().all(|result| answered.contains(&result.tool_use_id));
            if is_old && message.role == Role::Tool {
                return None;
            }
            answered.extend(message.results().map(|result| result.tool_use_id.clone()));
            Some(vec![("", message)])
        }
        "gemini" | "model" | "assistant" => {
            let (reply, answers) = reply(fields, content).ok()?;
            let mut meant = vec![("", reply)];
            if let Some(answers) = answers {
                answered.extend(answers.results().map(|result| result.tool_use_id.clone()));
                meant.push((":results", answers));
            }
            Some(meant)
        }
        _ => None,
    }
}

fn reply(
    fields: &Fields<'_>,
    content: &str,
) -> std::result::Result<(Message, Option<Message>), String> {
    let calls = fields.list("toolCalls").unwrap_or_default();
    let has_calls = content.contains("\"functionCall\"");
    let mut reply = match has_calls {
        true if calls.is_empty() => {
            turn_of(content, Role::Assistant).ok_or("its parts are not known")?
        }
        // The calls appear twice; the ones with their results are used.
        true => said(Role::Assistant, &parts(&without_calls(content)))?,
        false => said(Role::Assistant, &parts(content))?,
    };
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
    for call in calls {
        // Parts that are not calls stay in the source.
        let Some(fields) = Fields::of(call) else { continue };
        let id = fields.word("id").unwrap_or_else(|| fingerprint(&[call]));
        let call = fields;
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
    let mut known = vec!["id", "timestamp", "type", "thoughts", "tokens", "model"];
    if !has_calls {
        known.push("content");
    }
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

/// The result of a tool: the output of its function, or all of it.
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
        .map(|item| {
            let part = Fields::of(item).unwrap_or_default();
            match part.get("text") {
                Some(text) if part.is_true("thought") => {
                    format!("{{\"type\":\"thinking\",\"thinking\":{text}}}")
                }
                Some(text) => format!("{{\"type\":\"text\",\"text\":{text}}}"),
                None => item.to_owned(),
            }
        })
        .collect();
    format!("[{}]", blocks.join(","))
}

/// Parts without those that are calls.
fn without_calls(content: &str) -> String {
    let items = list(content).unwrap_or_default();
    let is_call = |item: &&str| Fields::of(item).is_some_and(|part| part.has("functionCall"));
    let others: Vec<&str> = items.into_iter().filter(|item| !is_call(item)).collect();
    format!("[{}]", others.join(","))
}
