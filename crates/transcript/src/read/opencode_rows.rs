//! opencode's newest tables: one row for each event in a session, in order.
//!
//! The parts of a reply are in its row. If the older tables exist too, with the same messages,
//! those are read, and these rows are only kept.

use std::collections::HashSet;

use rethread_core::Message;
use rethread_core::entry::Body;
use rethread_core::message::{Block, Role};

use super::database::Database;
use super::fields::{Fields, list, quoted};
use super::messages::{arguments, result_json};
use super::opencode::{begin, data_of, head_of, usage_of};
use super::output::{Out, Slot, fingerprint, said};
use super::{Result, time};

/// Whether a database has these tables.
pub(super) fn is_one(database: &Database) -> bool {
    database.has("session_message", &["id", "session_id", "type", "data"])
        && (database.has("session_v2", &["id"]) || database.has("session", &["id"]))
}

/// Reads the rows of all sessions. `older` are those of the older tables, with the session of each,
/// and whether it has messages.
pub(super) fn read(
    database: &Database,
    out: &mut Out<'_>,
    older: &[(String, usize, bool)],
) -> Result<()> {
    let mut known = HashSet::new();
    for (id, session, said) in older {
        known.insert(id.clone());
        rows(database, out, id, *session, *said)?;
    }
    if database.has("session_v2", &["id"]) {
        for row in database.rows("SELECT * FROM session_v2 ORDER BY rowid", &[])? {
            out.records(1);
            let row = match row {
                Ok(row) => row,
                Err(what) => {
                    out.unreadable("session", "a session".into(), what);
                    continue;
                }
            };
            let id = Fields::of(&row).and_then(|row| row.word("id")).unwrap_or_default();
            if let Some((_, session, _)) = older.iter().find(|(known, ..)| *known == id) {
                let slot = Slot { session: *session, id: "session_v2".into(), at: None };
                out.raw(slot, "session", &row)?;
            } else if known.insert(id.clone()) {
                let session = begin(out, &id, &row, true)?;
                rows(database, out, &id, session, false)?;
            }
        }
    }
    // A session may be deleted while its rows are still there.
    let named = "SELECT DISTINCT session_id FROM session_message";
    for row in database.rows(named, &[])?.into_iter().flatten() {
        let id = Fields::of(&row).and_then(|row| row.word("session_id")).unwrap_or_default();
        if known.insert(id.clone()) {
            let session = begin(out, &id, "{}", false)?;
            rows(database, out, &id, session, false)?;
        }
    }
    Ok(())
}

fn rows(
    database: &Database,
    out: &mut Out<'_>,
    id: &str,
    session: usize,
    is_known: bool,
) -> Result<()> {
    let order = database.column("session_message", &["seq", "time_created"]).unwrap_or("rowid");
    let query = format!("SELECT * FROM session_message WHERE session_id = ?1 ORDER BY {order}, id");
    database.each(&query, &[&id], |row| {
        out.records(1);
        let row = match row {
            Ok(row) => row,
            Err(what) => {
                out.unreadable("message", format!("of session {id}"), what);
                return Ok(());
            }
        };
        let fields = Fields::of(&row).unwrap_or_default();
        let kind = fields.word("type").unwrap_or_else(|| "other".into());
        let created = fields.get("time_created");
        let at = created.and_then(|raw| time::of_json(raw, &out.options.zone));
        let id = fields.word("id").unwrap_or_else(|| fingerprint(&[&row]));
        let slot = |end: &str| Slot { session, id: format!("{id}{end}"), at };
        if is_known {
            return out.raw(slot(":row"), &kind, &row);
        }
        let data = data_of(&row);
        let data = Fields::of(&data).unwrap_or_default();
        match kind.as_str() {
            "user" => match data.word("text") {
                Some(text) => {
                    let mut message = Message::user(text);
                    head_of(&mut message, &data.without(&["text"]));
                    out.message(slot(""), message, &kind, 1)
                }
                None => out.raw(slot(""), &kind, &row),
            },
            "assistant" => {
                let (reply, answers) = reply(&data);
                out.message(slot(""), reply, &kind, 1)?;
                match answers {
                    Some(answers) => out.message(slot(":results"), answers, &kind, 0),
                    None => Ok(()),
                }
            }
            "compaction" => {
                out.raw(slot(""), &kind, &row)?;
                let is_done = matches!(data.text("status").as_deref(), None | Some("completed"));
                let Some(summary) = data.word("summary").filter(|_| is_done) else {
                    return Ok(());
                };
                out.entry(slot(":clear"), Body::Cleared { before: None })?;
                out.entry(slot(":summary"), Body::Message(Message::user(summary)))
            }
            _ => out.raw(slot(""), &kind, &row),
        }
    })
}

/// A reply, and the results of its tools.
fn reply(data: &Fields<'_>) -> (Message, Option<Message>) {
    let mut message = Message::new(Role::Assistant, Vec::new());
    let mut results = Vec::new();
    for part in data.get("content").and_then(list).unwrap_or_default() {
        let fields = Fields::of(part).unwrap_or_default();
        let of = |json: &str| said(Role::Assistant, json).map(|m| m.content).unwrap_or_default();
        match fields.text("type").as_deref() {
            Some("text") => message.content.extend(fields.text("text").map(Block::text)),
            Some("reasoning") => {
                let text = fields.get("text").unwrap_or("\"\"");
                let block = format!("[{{\"type\":\"thinking\",\"thinking\":{text}}}]");
                message.content.extend(of(&block));
            }
            Some("tool") => {
                let state = fields.object("state").unwrap_or_default();
                let id = fields.word("id").or_else(|| fields.word("callID"));
                let id = id.unwrap_or_else(|| fingerprint(&[part]));
                let name = fields.word("name").or_else(|| fields.word("tool"));
                let name = name.unwrap_or_else(|| "unknown".into());
                if let Some((text, failed)) = outcome(&state) {
                    results.push(result_json(&id, &quoted(&text), failed));
                }
                message.content.push(Block::tool_use(id, name, arguments(state.get("input"))));
            }
            // An unknown part becomes an unknown block.
            _ => message.content.extend(of(&format!("[{part}]"))),
        }
    }
    let model = data.object("model").unwrap_or_default();
    let name = model.word("id").or_else(|| model.word("modelID"));
    let provider = model.word("providerID").unwrap_or_else(|| "opencode".into());
    message.model = name.map(|name| format!("{provider}/{name}"));
    message.usage = data.object("tokens").map(|tokens| usage_of(&tokens));
    let error = data.object("error").unwrap_or_default();
    let error = error.word("type").or_else(|| error.word("name")).unwrap_or_default();
    message.interrupted = error.to_lowercase().contains("abort");
    head_of(&mut message, &data.without(&["content"]));
    let answers = said(Role::Tool, &format!("[{}]", results.join(","))).ok();
    (message, answers.filter(|_| !results.is_empty()))
}

/// The result of a call, and whether it failed; `None` while it runs.
fn outcome(state: &Fields<'_>) -> Option<(String, bool)> {
    let failed = state.text("status").as_deref() == Some("error");
    if let Some(error) = state.get("error").filter(|_| failed) {
        let told = Fields::of(error).and_then(|error| error.word("message"));
        let plain = super::fields::string(error).map(|text| text.into_owned());
        return Some((told.or(plain).unwrap_or_else(|| error.to_owned()), true));
    }
    if let Some(output) = state.text("output") {
        return Some((output.into_owned(), failed));
    }
    let parts = state.get("content").and_then(list)?;
    let text = |part: &&str| {
        let words = Fields::of(part).and_then(|fields| fields.word("text"));
        words.unwrap_or_else(|| (*part).to_owned())
    };
    Some((parts.iter().map(text).collect::<Vec<_>>().join("\n"), failed))
}
