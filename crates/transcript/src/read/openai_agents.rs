//! The OpenAI Agents SDK's SQLite sessions: items of the API, one per row.
//!
//! Each program chooses the names of its tables, so they are found by their columns.

use std::path::Path;

use rethread_core::Profile;
use rethread_core::message::Usage;

use super::Result;
use super::database::{Database, quoted};
use super::fields::Fields;
use super::goose::utc;
use super::output::{Out, Slot};
use super::responses::Items;
use super::sink::FoundSession;

/// Whether a database is one of the SDK.
pub(super) fn is_one(database: &Database) -> bool {
    messages_in(database).is_some()
}

/// The table of messages.
fn messages_in(database: &Database) -> Option<String> {
    let all = ["session_id", "message_data"];
    let mut tables = database.tables();
    let found = tables.find(|(name, _)| database.has(name, &all));
    found.map(|(name, _)| name.to_owned())
}

/// The table of sessions: it has the session column and no messages.
fn sessions_in(database: &Database, messages: &str) -> Option<String> {
    let own = messages.replace("messages", "sessions");
    let is_one = |name: &str| database.has(name, &["session_id", "created_at", "updated_at"]);
    if own != messages && is_one(&own) {
        return Some(own);
    }
    let found = database.tables().find(|(name, _)| *name != messages && is_one(name));
    found.map(|(name, _)| name.to_owned())
}

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let database = Database::open(path)?;
    let Some(messages) = messages_in(&database) else { return Ok(()) };
    let mut sessions: Vec<(String, Option<String>)> = Vec::new();
    if let Some(table) = sessions_in(&database, &messages) {
        for row in
            database.rows(&format!("SELECT * FROM {} ORDER BY rowid", quoted(&table)), &[])?
        {
            out.records(1);
            match row {
                Ok(row) => {
                    let id = Fields::of(&row).and_then(|fields| fields.word("session_id"));
                    sessions.push((id.unwrap_or_default(), Some(row)));
                }
                Err(what) => out.unreadable("session", format!("row {}", sessions.len() + 1), what),
            }
        }
    }
    let named = format!("SELECT DISTINCT session_id FROM {}", quoted(&messages));
    for row in database.rows(&named, &[])?.into_iter().flatten() {
        let id = Fields::of(&row).and_then(|fields| fields.word("session_id"));
        if let Some(id) = id.filter(|id| sessions.iter().all(|(known, _)| known != id)) {
            sessions.push((id, None));
        }
    }
    for (id, row) in &sessions {
        session(&database, out, &messages, id, row.as_deref())?;
    }
    Ok(())
}

fn session(
    database: &Database,
    out: &mut Out<'_>,
    table: &str,
    id: &str,
    row: Option<&str>,
) -> Result<()> {
    let fields = row.and_then(Fields::of).unwrap_or_default();
    let begun = utc(fields.get("created_at"));
    let session = out.session(FoundSession {
        identity: id.to_owned(),
        name: Some(id.to_owned()),
        profile: Profile { provider: Some("openai".into()), ..Profile::default() },
        created_at: begun,
        ..FoundSession::default()
    })?;
    if let Some(row) = row {
        out.raw(Slot { session, id: "session".into(), at: begun }, "session", row)?;
    }
    let mut items = Items::default();
    let order = database.column(table, &["id"]).unwrap_or("rowid");
    let query = format!(
        "SELECT *, {order} AS rethread_row FROM {} WHERE session_id = ?1 ORDER BY {order}",
        quoted(table)
    );
    database.each(&query, &[&id], |row| {
        out.records(1);
        let row = match row {
            Ok(row) => row,
            Err(what) => {
                out.unreadable("item", format!("an item of session {id}"), what);
                return Ok(());
            }
        };
        let fields = Fields::of(&row).unwrap_or_default();
        let number = fields.get("rethread_row").unwrap_or_default().trim_matches('"').to_owned();
        let slot = Slot { session, id: format!("row:{number}"), at: utc(fields.get("created_at")) };
        let data = fields.text("message_data").unwrap_or_default();
        match Fields::of(&data) {
            Some(item) => {
                let kind = item.word("type").or_else(|| item.word("role"));
                items.take(out, slot, &item, kind.unwrap_or_else(|| "other".into()), &data)
            }
            None => items.keep(out, slot, "other".into(), &fields.without(&["rethread_row"])),
        }
    })?;
    items.end(out)?;
    usage(database, out, session, id)
}

/// The cost of turns, if the program counts it.
fn usage(database: &Database, out: &mut Out<'_>, session: usize, id: &str) -> Result<()> {
    if !database.has("turn_usage", &["session_id", "input_tokens", "output_tokens"]) {
        return Ok(());
    }
    let mut number = 0;
    let query =
        "SELECT *, rowid AS rethread_row FROM turn_usage WHERE session_id = ?1 ORDER BY rowid";
    database.each(query, &[&id], |row| {
        out.records(1);
        number += 1;
        let row = match row {
            Ok(row) => row,
            Err(what) => {
                out.unreadable("usage", format!("row {number}"), what);
                return Ok(());
            }
        };
        let fields = Fields::of(&row).unwrap_or_default();
        let details = fields.text("input_tokens_details").unwrap_or_default();
        let details = Fields::of(&details).unwrap_or_default();
        let cache_read = details.number("cached_tokens").unwrap_or(0);
        let count = |name: &str| fields.number(name).unwrap_or(0);
        out.tokens(Usage {
            input: count("input_tokens").saturating_sub(cache_read),
            output: count("output_tokens"),
            cache_read,
            cache_write: 0,
        });
        let id = fields.get("rethread_row").unwrap_or_default().trim_matches('"');
        let slot = Slot { session, id: format!("usage:{id}"), at: utc(fields.get("created_at")) };
        out.raw(slot, "usage", &fields.without(&["rethread_row"]))
    })
}
