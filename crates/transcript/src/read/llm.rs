//! simonw/llm's `logs.db`: a row for each prompt with its response.
//!
//! Tool results are stored with the prompt that sent them back, so they come before it. A prompt
//! that belongs to no conversation is a session of its own. The instructions of a prompt stay in
//! the record and never become a message.

use std::collections::HashMap;
use std::path::Path;

use rethread_core::limits::BLOB_BYTES_MAX;
use rethread_core::message::{Block, Role, Usage};
use rethread_core::{BlobId, Message, Profile, Raw};

use super::Result;
use super::database::Database;
use super::fields::{Fields, quoted};
use super::goose::utc;
use super::llm_threads::{self, Older};
use super::messages::{arguments, id_text, result_json};
use super::output::{Out, Slot, said};
use super::sink::FoundSession;

/// Tables that contain messages or describe conversations.
const READ: [&str; 9] = [
    "conversations",
    "responses",
    "tool_calls",
    "tool_results",
    "prompt_fragments",
    "fragments",
    "attachments",
    "prompt_attachments",
    "tool_results_attachments",
];

/// Whether a database is one of llm.
pub(super) fn is_one(database: &Database) -> bool {
    has_responses(database) || llm_threads::is_one(database)
}

fn has_responses(database: &Database) -> bool {
    database.has("responses", &["id", "prompt", "response"])
}

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let database = Database::open(path)?;
    let mut older = HashMap::new();
    if has_responses(&database) {
        responses(&database, out, &mut older)?;
    }
    let has_threads = llm_threads::is_one(&database);
    if has_threads {
        llm_threads::read(&database, out, &older)?;
    }
    let others = database.tables().filter(|(name, _)| {
        let own = ["_", "sqlite_"].iter().any(|start| name.starts_with(start));
        let read = READ.contains(name) || has_threads && llm_threads::READ.contains(name);
        !read && !own && !name.contains("_fts")
    });
    let others: Vec<&str> = others.map(|(name, _)| name).collect();
    if !others.is_empty() {
        out.note(format!("these tables contain no messages: {}", others.join(", ")));
    }
    Ok(())
}

/// The older tables. `older` gets their conversations.
fn responses(
    database: &Database,
    out: &mut Out<'_>,
    older: &mut HashMap<String, Older>,
) -> Result<()> {
    let mut known = Vec::new();
    if database.has("conversations", &["id"]) {
        for row in database.rows("SELECT * FROM conversations ORDER BY rowid", &[])? {
            out.records(1);
            match row {
                Ok(row) => {
                    let id = Fields::of(&row).and_then(|fields| fields.word("id"));
                    known.push((id.unwrap_or_default(), Some(row)));
                }
                Err(what) => {
                    out.unreadable("conversation", format!("row {}", known.len() + 1), what)
                }
            }
        }
    }
    let time = database.column("responses", &["datetime_utc"]).unwrap_or("rowid");
    let order = format!("ORDER BY {time}, rowid");
    if database.has("responses", &["conversation_id"]) {
        let named =
            "SELECT DISTINCT conversation_id FROM responses WHERE conversation_id IS NOT NULL";
        for row in database.rows(named, &[])?.into_iter().flatten() {
            let id = Fields::of(&row).and_then(|fields| fields.word("conversation_id"));
            if let Some(id) = id.filter(|id| known.iter().all(|(known, _)| known != id)) {
                known.push((id, None));
            }
        }
        let query = format!("SELECT * FROM responses WHERE conversation_id = ?1 {order}");
        for (id, row) in &known {
            let fields = row.as_deref().and_then(Fields::of).unwrap_or_default();
            let session = begin(out, id, &fields, None)?;
            if let Some(row) = row {
                let slot = Slot { session, id: "conversation".into(), at: None };
                out.raw(slot, "conversation", row)?;
            }
            let mut said = false;
            database.each(&query, &[id], |row| {
                said = true;
                turn(database, out, Some(session), row)
            })?;
            older.insert(id.clone(), Older { session, said });
        }
    }
    let alone = match database.has("responses", &["conversation_id"]) {
        true => format!("SELECT * FROM responses WHERE conversation_id IS NULL {order}"),
        false => format!("SELECT * FROM responses {order}"),
    };
    database.each(&alone, &[], |row| turn(database, out, None, row))
}

fn begin(
    out: &mut Out<'_>,
    id: &str,
    fields: &Fields<'_>,
    at: Option<jiff::Timestamp>,
) -> Result<usize> {
    out.session(FoundSession {
        identity: id.to_owned(),
        name: Some(id.to_owned()),
        profile: Profile {
            description: fields.word("name"),
            agent: Some("llm".into()),
            model: fields.word("model"),
            ..Profile::default()
        },
        created_at: at,
        ..FoundSession::default()
    })
}

/// A prompt, the results that were sent with it, and the response.
fn turn(
    database: &Database,
    out: &mut Out<'_>,
    session: Option<usize>,
    row: std::result::Result<String, String>,
) -> Result<()> {
    out.records(1);
    let row = match row {
        Ok(row) => row,
        Err(what) => {
            out.unreadable("response", "a response".into(), what);
            return Ok(());
        }
    };
    let fields = Fields::of(&row).unwrap_or_default();
    let id = fields.get("id").and_then(id_text).unwrap_or_default();
    let at = utc(fields.get("datetime_utc"));
    let session = match session {
        Some(session) => session,
        None => begin(out, &id, &fields, at)?,
    };
    let slot = |what: &str| Slot { session, id: format!("{id}:{what}"), at };
    let answers = results(database, out, &id)?;
    if !answers.is_empty()
        && let Ok(message) = said(Role::Tool, &format!("[{}]", answers.join(",")))
    {
        out.message(slot("results"), message, "response", 0)?;
    }
    let mut asked = Vec::new();
    for text in fragments(database, &id)? {
        asked.push(Block::text(text));
    }
    asked.extend(fields.word("prompt").map(Block::text));
    asked.extend(attached(database, out, session, &id)?);
    if !asked.is_empty() || answers.is_empty() {
        out.message(slot("prompt"), Message::new(Role::User, asked), "response", 0)?;
    }
    let mut reply = Message::new(Role::Assistant, Vec::new());
    if let Some(reasoning) = fields.get("reasoning").filter(|raw| raw.len() > 2) {
        let block = format!("[{{\"type\":\"thinking\",\"thinking\":{reasoning}}}]");
        reply.content.extend(said(Role::Assistant, &block).map(|m| m.content).unwrap_or_default());
    }
    reply.content.extend(fields.word("response").map(Block::text));
    reply.content.extend(calls(database, out, &id)?);
    let model = fields.word("resolved_model").or_else(|| fields.word("model"));
    reply.model =
        model.map(|model| if model.contains('/') { model } else { format!("llm/{model}") });
    let count = |name: &str| fields.number(name);
    if count("input_tokens").is_some() || count("output_tokens").is_some() {
        let (input, output) = (count("input_tokens"), count("output_tokens"));
        let usage =
            Usage { input: input.unwrap_or(0), output: output.unwrap_or(0), ..Usage::default() };
        reply.usage = Some(usage);
    }
    if let Ok(raw) = Raw::parse(fields.without(&["prompt", "response", "reasoning"])) {
        reply.extra.push(("source".into(), raw));
    }
    out.message(slot("reply"), reply, "response", 1)
}

/// The rows that belong to a response.
fn belonging(database: &Database, table: &str, id: &str) -> Result<Vec<super::database::RowText>> {
    match database.has(table, &["response_id"]) {
        true => database
            .rows(&format!("SELECT * FROM {table} WHERE response_id = ?1 ORDER BY rowid"), &[&id]),
        false => Ok(Vec::new()),
    }
}

fn calls(database: &Database, out: &mut Out<'_>, id: &str) -> Result<Vec<Block>> {
    let mut calls = Vec::new();
    for row in belonging(database, "tool_calls", id)? {
        out.records(1);
        match row {
            Ok(row) => {
                let call = Fields::of(&row).unwrap_or_default();
                let name = call.word("name").unwrap_or_else(|| "unknown".into());
                let call_id = call.word("tool_call_id").unwrap_or_else(|| name.clone());
                calls.push(Block::tool_use(call_id, name, arguments(call.get("arguments"))));
                out.used("tool_call");
            }
            Err(what) => out.unreadable("tool_call", format!("of response {id}"), what),
        }
    }
    Ok(calls)
}

fn results(database: &Database, out: &mut Out<'_>, id: &str) -> Result<Vec<String>> {
    let mut results = Vec::new();
    for row in belonging(database, "tool_results", id)? {
        out.records(1);
        match row {
            Ok(row) => {
                let result = Fields::of(&row).unwrap_or_default();
                let call = result.word("tool_call_id").or_else(|| result.word("name"));
                let failed = result.word("exception");
                let text = result.text("output").unwrap_or_default();
                let text = match &failed {
                    Some(exception) if text.is_empty() => exception.as_str(),
                    _ => &text,
                };
                let call = call.unwrap_or_default();
                results.push(result_json(&call, &quoted(text), failed.is_some()));
                out.used("tool_result");
            }
            Err(what) => out.unreadable("tool_result", format!("of response {id}"), what),
        }
    }
    Ok(results)
}

/// Longer texts (fragments) of a prompt, in order.
fn fragments(database: &Database, id: &str) -> Result<Vec<String>> {
    if !database.has("prompt_fragments", &["response_id", "fragment_id", "order"])
        || !database.has("fragments", &["id", "content"])
    {
        return Ok(Vec::new());
    }
    let query = "SELECT f.content AS content FROM prompt_fragments p \
                 JOIN fragments f ON f.id = p.fragment_id \
                 WHERE p.response_id = ?1 ORDER BY p.\"order\"";
    let rows = database.rows(query, &[&id])?;
    let texts = rows.iter().flatten().filter_map(|row| Fields::of(row)?.word("content"));
    Ok(texts.collect())
}

/// The attachments of a prompt, in order, and those its tools returned.
fn attached(
    database: &Database,
    out: &mut Out<'_>,
    session: usize,
    id: &str,
) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    if database.has("prompt_attachments", &["response_id", "attachment_id", "order"]) {
        let query = "SELECT attachment_id FROM prompt_attachments WHERE response_id = ?1 \
                     ORDER BY \"order\"";
        blocks.extend(all_of(database, out, session, query, id)?);
    }
    if database.has("tool_results_attachments", &["tool_result_id", "attachment_id"])
        && database.has("tool_results", &["id", "response_id"])
    {
        let query = "SELECT a.attachment_id AS attachment_id FROM tool_results_attachments a \
                     JOIN tool_results r ON r.id = a.tool_result_id WHERE r.response_id = ?1";
        blocks.extend(all_of(database, out, session, query, id)?);
    }
    Ok(blocks)
}

fn all_of(
    database: &Database,
    out: &mut Out<'_>,
    session: usize,
    query: &str,
    id: &str,
) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    for row in database.rows(query, &[&id])?.into_iter().flatten() {
        let Some(id) = Fields::of(&row).and_then(|row| row.get("attachment_id").and_then(id_text))
        else {
            continue;
        };
        // An attachment that is missing or too large is still mentioned.
        let told = || block_of(&format!("{{\"type\":\"attachment\",\"source\":{row}}}"));
        blocks.extend(attachment(database, out, session, &id, true)?.or_else(told));
    }
    Ok(blocks)
}

/// An attachment: its bytes are kept with the session; otherwise, its location is. If another
/// session has it too, it is counted there.
pub(super) fn attachment(
    database: &Database,
    out: &mut Out<'_>,
    session: usize,
    id: &str,
    is_new: bool,
) -> Result<Option<Block>> {
    if !database.has("attachments", &["id"]) {
        return Ok(None);
    }
    let rows = database.rows("SELECT * FROM attachments WHERE id = ?1", &[&id])?;
    let Some(row) = rows.into_iter().next() else { return Ok(None) };
    out.records(u64::from(is_new));
    let place = || format!("attachment {id}");
    let row = match row {
        Ok(row) => row,
        Err(what) => {
            if is_new {
                out.unreadable("attachment", place(), what);
            }
            return Ok(None);
        }
    };
    let fields = Fields::of(&row).unwrap_or_default();
    let media_type = fields.word("type").unwrap_or_default();
    let bytes = fields.object("content").and_then(|content| bytes_of(&content.text("hex")?));
    let is_large = bytes.as_ref().is_some_and(|bytes| bytes.len() > BLOB_BYTES_MAX);
    match is_new {
        true if is_large => out.unreadable("attachment", place(), "it has more than 64 MiB"),
        true => out.used("attachment"),
        false => {}
    }
    let Some(bytes) = bytes.filter(|_| !is_large) else {
        let about = if is_large { fields.without(&["content"]) } else { row };
        return Ok(block_of(&format!("{{\"type\":\"attachment\",\"source\":{about}}}")));
    };
    let blob = BlobId::of(&bytes);
    out.copy_blob(session, bytes)?;
    if media_type.starts_with("image/") {
        return Ok(Some(Block::image(blob, &media_type)));
    }
    let source = serde_json::json!({"type": "blob", "sha256": blob, "media_type": media_type});
    Ok(block_of(&format!("{{\"type\":\"document\",\"source\":{source}}}")))
}

fn block_of(json: &str) -> Option<Block> {
    said(Role::User, &format!("[{json}]")).ok()?.content.into_iter().next()
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
