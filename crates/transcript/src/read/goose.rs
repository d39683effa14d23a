//! goose's `sessions.db`: sessions, and messages whose content is a list of parts.
//!
//! A compaction hides earlier messages from the model and continues; here the context starts again.
//! goose may rewrite all messages of a session under new numbers, so they are identified by their
//! own id or their text.

use std::collections::HashMap;
use std::path::Path;

use rethread_core::entry::Body;
use rethread_core::message::{Block, BlockKind, Role, Usage};
use rethread_core::{Message, Profile, Raw};

use super::database::Database;
use super::fields::{Fields, list, quoted};
use super::messages::{arguments, parts, result_json};
use super::output::{Out, Slot, fingerprint, said};
use super::sink::FoundSession;
use super::{Result, time};

/// Whether a database is one of goose.
pub(super) fn is_one(database: &Database) -> bool {
    database.has("messages", &["session_id", "role", "content_json"])
        && database.has("sessions", &["id"])
}

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let database = Database::open(path)?;
    let mut sessions = Vec::new();
    for row in database.rows("SELECT * FROM sessions ORDER BY rowid", &[])? {
        out.records(1);
        match row {
            Ok(row) => {
                let id = Fields::of(&row).and_then(|fields| fields.word("id"));
                sessions.push((id.unwrap_or_default(), Some(row)));
            }
            Err(what) => out.unreadable("session", format!("row {}", sessions.len() + 1), what),
        }
    }
    // A session may be deleted while its messages are still there.
    let orphans = "SELECT DISTINCT session_id FROM messages \
                   WHERE session_id NOT IN (SELECT id FROM sessions)";
    for row in database.rows(orphans, &[])?.into_iter().flatten() {
        let id = Fields::of(&row).and_then(|fields| fields.word("session_id"));
        sessions.extend(id.map(|id| (id, None)));
    }
    for (id, row) in sessions {
        session(&database, out, &id, row.as_deref())?;
    }
    Ok(())
}

fn session(database: &Database, out: &mut Out<'_>, id: &str, row: Option<&str>) -> Result<()> {
    let fields = row.and_then(Fields::of).unwrap_or_default();
    let utc = |name: &str| utc(fields.get(name));
    let model = fields.text("model_config_json");
    let model = model.as_deref().and_then(Fields::of).and_then(|config| config.word("model_name"));
    let session = out.session(FoundSession {
        identity: id.to_owned(),
        name: Some(id.to_owned()),
        profile: Profile {
            description: fields.word("name").or_else(|| fields.word("description")),
            agent: Some("goose".into()),
            provider: fields.word("provider_name"),
            model,
            workspace: fields.word("working_dir"),
            ..Profile::default()
        },
        created_at: utc("created_at"),
        ..FoundSession::default()
    })?;
    if let Some(row) = row {
        out.raw(Slot { session, id: "session".into(), at: utc("created_at") }, "session", row)?;
    }
    let count = |names: [&str; 2]| names.iter().find_map(|name| fields.number(name));
    out.tokens(Usage {
        input: count(["accumulated_input_tokens", "input_tokens"]).unwrap_or(0),
        output: count(["accumulated_output_tokens", "output_tokens"]).unwrap_or(0),
        ..Usage::default()
    });
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut hidden = false;
    let order = database.column("messages", &["id"]).unwrap_or("rowid");
    let query = format!("SELECT * FROM messages WHERE session_id = ?1 ORDER BY {order}");
    database.each(&query, &[&id], |row| {
        out.records(1);
        let row = match row {
            Ok(row) => row,
            Err(what) => {
                out.unreadable("message", format!("a message of session {id}"), what);
                return Ok(());
            }
        };
        let fields = Fields::of(&row).unwrap_or_default();
        let role = fields.word("role").unwrap_or_else(|| "other".into());
        let content = fields.text("content_json").unwrap_or_default();
        let created = fields.get("created_timestamp");
        let at = created.and_then(|raw| time::of_json(raw, &out.options.zone));
        let at = at.or_else(|| self::utc(fields.get("timestamp")));
        let mark = fields.word("message_id");
        let mark = mark.unwrap_or_else(|| fingerprint(&[&role, &content, created.unwrap_or("")]));
        let times = seen.entry(mark.clone()).or_default();
        *times += 1;
        let mark = if *times == 1 { mark } else { format!("{mark}.{times}") };
        let metadata = fields.text("metadata_json").unwrap_or_default();
        let was_hidden = std::mem::replace(&mut hidden, is_hidden(&metadata));
        if was_hidden && !hidden {
            let slot = Slot { session, id: format!("{mark}:clear"), at };
            out.entry(slot, Body::Cleared { before: None })?;
        }
        let slot = Slot { session, id: mark, at };
        match message_of(&role, &content) {
            Some(mut message) => {
                let rest = fields.without(&["content_json"]);
                if let Ok(raw) = Raw::parse(rest) {
                    message.extra.push(("source".into(), raw));
                }
                out.message(slot, message, &role, 1)
            }
            None => out.raw(slot, &role, &row),
        }
    })
}

/// A time written by SQLite, which is in UTC.
pub(super) fn utc(raw: Option<&str>) -> Option<jiff::Timestamp> {
    time::of_json(raw?, &jiff::tz::TimeZone::UTC)
}

/// Whether the model no longer sees a message.
fn is_hidden(metadata: &str) -> bool {
    let metadata = Fields::of(metadata).unwrap_or_default();
    metadata.get("agentVisible").or_else(|| metadata.get("agent_visible")) == Some("false")
}

fn message_of(role: &str, content: &str) -> Option<Message> {
    let role = match role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return None,
    };
    let mut blocks = Vec::new();
    for part in list(content)? {
        let fields = Fields::of(part).unwrap_or_default();
        match fields.text("type").as_deref() {
            Some("toolRequest" | "frontendToolRequest") => blocks.push(call(&fields)?),
            Some("toolResponse") => {
                let result = answer(&fields)?;
                blocks.extend(said(Role::Tool, &format!("[{result}]")).ok()?.content);
            }
            _ => blocks.extend(said(role, &format!("[{part}]")).ok()?.content),
        }
    }
    let answers = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    let all_answers = !blocks.is_empty() && blocks.iter().all(answers);
    Some(Message::new(if all_answers { Role::Tool } else { role }, blocks))
}

/// A call, possibly one that could not be parsed.
fn call(part: &Fields<'_>) -> Option<Block> {
    let id = part.word("id")?;
    let call = part.object("toolCall").unwrap_or_default();
    let value = call.object("value").unwrap_or_default();
    let name = value.word("name").unwrap_or_else(|| "unknown".into());
    let given = value.get("arguments").or_else(|| call.get("error"));
    Some(Block::tool_use(id, name, arguments(given)))
}

fn answer(part: &Fields<'_>) -> Option<String> {
    let id = part.word("id")?;
    let result = part.object("toolResult").unwrap_or_default();
    if let Some(error) = result.get("error") {
        let text = if error.starts_with('"') { error.to_owned() } else { quoted(error) };
        return Some(result_json(&id, &text, true));
    }
    // Newer versions keep the whole result, older ones only the list in it.
    let value = result.get("value").unwrap_or("[]");
    let whole = Fields::of(value).unwrap_or_default();
    let content = whole.get("content").unwrap_or(value);
    let failed = whole.is_true("isError");
    let content = if content.starts_with(['[', '"']) { parts(content) } else { quoted(content) };
    Some(result_json(&id, &content, failed))
}
