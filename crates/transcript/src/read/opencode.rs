//! opencode's folder: one file for each session, each message and each part of a message.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use rethread_core::entry::Origin;
use rethread_core::message::{Block, Role, Usage};
use rethread_core::{Message, Profile, Raw};

use super::database::{Database, MAGIC};
use super::document;
use super::fields::{Fields, quoted};
use super::messages::{arguments, result_json};
use super::opencode_rows;
use super::output::{Out, Slot, fingerprint, said};
use super::sink::{FoundSession, Link};
use super::{ReadError, Result, time};

/// How deep folders are searched.
const DEPTH_MAX: usize = 6;

/// Files read from one folder. A user has thousands; more were made to exhaust memory.
const FILES_MAX: usize = 2_000_000;

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    match path.is_dir() {
        true => storage(path, out),
        false if is_database(path)? => database(path, out),
        false => exported(path, out),
    }
}

/// Whether a database is one of opencode.
pub(super) fn is_one(database: &Database) -> bool {
    has_messages(database) || opencode_rows::is_one(database)
}

fn has_messages(database: &Database) -> bool {
    let both = database.has("message", &["id", "session_id", "data"])
        && database.has("part", &["id", "message_id", "data"]);
    both && database.has("session", &["id"])
}

fn is_database(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(16).read_to_end(&mut head)?;
    Ok(head.starts_with(MAGIC))
}

/// What newer versions write: the same records, as rows.
fn database(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let database = Database::open(path)?;
    let mut older = Vec::new();
    if database.has("session", &["id"]) {
        messages(&database, out, &mut older)?;
    }
    match opencode_rows::is_one(&database) {
        true => opencode_rows::read(&database, out, &older),
        false => Ok(()),
    }
}

/// The older tables. `older` gets their sessions, and whether each has messages.
fn messages(
    database: &Database,
    out: &mut Out<'_>,
    older: &mut Vec<(String, usize, bool)>,
) -> Result<()> {
    for row in database.rows("SELECT * FROM session ORDER BY rowid", &[])? {
        out.records(1);
        let row = match row {
            Ok(row) => row,
            Err(what) => {
                out.unreadable("session", "a session".into(), what);
                continue;
            }
        };
        let fields = Fields::of(&row).unwrap_or_default();
        let id = fields.word("id").unwrap_or_default();
        let session = begin(out, &id, &row, true)?;
        let mut said = false;
        if !has_messages(database) {
            older.push((id, session, said));
            continue;
        }
        let order = database.column("message", &["time_created"]).unwrap_or("rowid");
        let query = format!("SELECT * FROM message WHERE session_id = ?1 ORDER BY {order}, id");
        database.each(&query, &[&id], |row| {
            said = true;
            let mut own = Vec::new();
            let (slot, info) = match row {
                Ok(row) => {
                    let fields = Fields::of(&row).unwrap_or_default();
                    let id = fields.word("id").unwrap_or_default();
                    let parts = "SELECT * FROM part WHERE message_id = ?1 ORDER BY id";
                    for part in database.rows(parts, &[&id])? {
                        out.records(1);
                        match part {
                            Ok(part) => own.push(data_of(&part)),
                            Err(what) => out.unreadable("part", format!("of message {id}"), what),
                        }
                    }
                    let created = fields.get("time_created");
                    let at = created.and_then(|raw| time::of_json(raw, &out.options.zone));
                    (Slot { session, id, at }, data_of(&row))
                }
                Err(what) => {
                    out.records(1);
                    out.unreadable("message", format!("of session {id}"), what);
                    return Ok(());
                }
            };
            out.records(1);
            message(out, slot, &info, &own)
        })?;
        older.push((id, session, said));
    }
    Ok(())
}

/// The record in a row; the row itself if there is none.
pub(super) fn data_of(row: &str) -> String {
    let data = Fields::of(row).and_then(|fields| fields.text("data").map(|data| data.into_owned()));
    data.filter(|data| Fields::of(data).is_some()).unwrap_or_else(|| row.to_owned())
}

/// What `opencode export` writes: a session with its messages and their parts in one document.
fn exported(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = document::text(path)?;
    let (text, damage) = document::mended(&text)?;
    let doc = Fields::parse(&text).map_err(ReadError::broken)?;
    let info = doc.get("info").unwrap_or("{}");
    let given = Fields::of(info).and_then(|info| info.word("id"));
    let id = given.unwrap_or_else(|| stem(path));
    out.records(1);
    let session = begin(out, &id, info, true)?;
    let rest = doc.without_list("messages", &["info"]);
    if rest != "{}" {
        out.records(1);
        let id = format!("header:{}", fingerprint(&[&rest]));
        out.raw(Slot { session, id, at: None }, "header", &rest)?;
    }
    let items = doc.list("messages").unwrap_or_default();
    for item in &items {
        let fields = Fields::of(item).unwrap_or_default();
        let Some(info) = fields.get("info").filter(|info| Fields::of(info).is_some()) else {
            out.records(1);
            let slot = Slot { session, id: fingerprint(&[item]), at: None };
            out.raw(slot, "message", item)?;
            continue;
        };
        let head = Fields::of(info).unwrap_or_default();
        let times = head.object("time").unwrap_or_default();
        let at = times.get("created").and_then(|raw| time::of_json(raw, &out.options.zone));
        let id = head.word("id").unwrap_or_else(|| fingerprint(&[item]));
        let parts = fields.list("parts").unwrap_or_default();
        let parts: Vec<String> = parts.into_iter().map(str::to_owned).collect();
        out.records(1 + parts.len() as u64);
        message(out, Slot { session, id, at }, info, &parts)?;
    }
    out.damaged(damage, items.len());
    Ok(())
}

fn storage(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let mut sessions = BTreeMap::new();
    for file in files(&path.join("session"))? {
        let Some(text) = record(out, &file) else { continue };
        let fields = Fields::of(&text).unwrap_or_default();
        let id = fields.word("id").unwrap_or_else(|| stem(&file));
        sessions.insert(id, (text, true));
    }
    // Parts by their message: in folders named after it, or with its id inside.
    let mut parts: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files(&path.join("part"))? {
        let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
        let message = match folder.to_string_lossy().as_ref() {
            "part" => {
                let text = document::text(&file).unwrap_or_default();
                Fields::of(&text).and_then(|fields| fields.word("messageID")).unwrap_or_default()
            }
            name => name.to_owned(),
        };
        parts.entry(message).or_default().push(file);
    }
    let mut messages: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files(&path.join("message"))? {
        let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
        messages.entry(folder.to_string_lossy().into_owned()).or_default().push(file);
    }
    for id in messages.keys() {
        // The session's own file may be missing.
        let bare = || (format!("{{\"id\":{}}}", quoted(id)), false);
        sessions.entry(id.clone()).or_insert_with(bare);
    }
    for (id, (text, filed)) in &sessions {
        let files = messages.remove(id).unwrap_or_default();
        session(out, id, text, *filed, &files, &mut parts)?;
    }
    for file in parts.into_values().flatten() {
        out.records(1);
        out.unreadable("part", name_of(&file), "its message is missing");
    }
    for folder in std::fs::read_dir(path)?.filter_map(|entry| entry.ok()) {
        let name = folder.file_name().to_string_lossy().into_owned();
        if !["session", "message", "part"].contains(&name.as_str()) {
            out.note(format!("`{name}` contains no messages and was ignored"));
        }
    }
    Ok(())
}

fn session(
    out: &mut Out<'_>,
    id: &str,
    text: &str,
    filed: bool,
    files: &[PathBuf],
    parts: &mut BTreeMap<String, Vec<PathBuf>>,
) -> Result<()> {
    let session = begin(out, id, text, filed)?;
    let mut read = Vec::new();
    for file in files {
        let Some(text) = record(out, file) else { continue };
        let fields = Fields::of(&text).unwrap_or_default();
        let times = fields.object("time").unwrap_or_default();
        let at = times.get("created").and_then(|raw| time::of_json(raw, &out.options.zone));
        let id = fields.word("id").unwrap_or_else(|| stem(file));
        read.push((at, id, text));
    }
    read.sort_by(|one, two| (one.0, &one.1).cmp(&(two.0, &two.1)));
    for (at, id, text) in read {
        let mut own = Vec::new();
        for file in parts.remove(&id).unwrap_or_default() {
            own.extend(record(out, &file));
        }
        message(out, Slot { session, id, at }, &text, &own)?;
    }
    Ok(())
}

/// A session, from the record that describes it.
pub(super) fn begin(out: &mut Out<'_>, id: &str, text: &str, filed: bool) -> Result<usize> {
    let fields = Fields::of(text).unwrap_or_default();
    let times = fields.object("time").unwrap_or_default();
    let zone = &out.options.zone;
    let begun = times.get("created").or_else(|| fields.get("time_created"));
    let begun = begun.and_then(|raw| time::of_json(raw, zone));
    let parent = fields.word("parentID").or_else(|| fields.word("parent_id"));
    let title = fields.word("title");
    let session = out.session(FoundSession {
        identity: id.to_owned(),
        name: fields.word("slug").or(title.clone()),
        profile: Profile {
            description: title,
            agent: Some("opencode".into()),
            workspace: fields.word("directory"),
            ..Profile::default()
        },
        created_at: begun,
        parent: parent.map(|identity| Link { identity, origin: Origin::New }),
        ..FoundSession::default()
    })?;
    if filed {
        out.raw(Slot { session, id: "session".into(), at: begun }, "session", text)?;
    }
    Ok(session)
}

fn message(out: &mut Out<'_>, slot: Slot, text: &str, parts: &[String]) -> Result<()> {
    let fields = Fields::of(text).unwrap_or_default();
    let role = match fields.text("role").as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => {
            let Slot { session, id, at } = slot;
            out.raw(Slot { session, id: id.clone(), at }, "message", text)?;
            for (index, part) in parts.iter().enumerate() {
                out.raw(Slot { session, id: format!("{id}:{index}"), at }, "part", part)?;
            }
            return Ok(());
        }
    };
    let mut message = Message::new(role, Vec::new());
    let mut results = Vec::new();
    let mut steps = Usage::default();
    for part in parts {
        let part_fields = Fields::of(part).unwrap_or_default();
        let kind = part_fields.word("type").unwrap_or_default();
        if kind == "step-finish"
            && let Some(tokens) = part_fields.object("tokens")
        {
            steps += usage_of(&tokens);
        }
        let mut blocks = blocks_of(role, &kind, &part_fields, part, &mut results);
        match blocks.is_empty() {
            // An unknown part becomes an unknown block, byte for byte.
            true => {
                let unknown = said(role, &format!("[{part}]"));
                message.content.extend(unknown.map(|m| m.content).unwrap_or_default());
                out.kept(&format!("part/{kind}"));
            }
            false => {
                message.content.append(&mut blocks);
                out.used(&format!("part/{kind}"));
            }
        }
    }
    if message.content.is_empty() && role == Role::User {
        // Old versions keep the user's text in the message itself.
        let body = fields.object("summary").and_then(|summary| summary.word("body"));
        message.content.extend(body.map(Block::text));
    }
    if role == Role::Assistant {
        let model = fields.object("model").unwrap_or_default();
        let provider = fields.word("providerID").or_else(|| model.word("providerID"));
        let name = fields.word("modelID").or_else(|| model.word("modelID"));
        message.model = provider.zip(name).map(|(provider, name)| format!("{provider}/{name}"));
        let own = fields.object("tokens").map(|tokens| usage_of(&tokens));
        message.usage = own.or(Some(steps)).filter(|usage| *usage != Usage::default());
        let error = fields.object("error").and_then(|error| error.word("name"));
        message.interrupted = error.as_deref() == Some("MessageAbortedError");
    }
    head_of(&mut message, text);
    let Slot { session, id, at } = slot;
    out.message(Slot { session, id: id.clone(), at }, message, "message", 1)?;
    if results.is_empty() {
        return Ok(());
    }
    let content = format!("[{}]", results.join(","));
    match said(Role::Tool, &content) {
        Ok(message) => {
            out.message(Slot { session, id: format!("{id}:results"), at }, message, "message", 0)
        }
        Err(_) => Ok(()),
    }
}

/// Keeps what surrounds the words of a message.
pub(super) fn head_of(message: &mut Message, text: &str) {
    if let Ok(raw) = Raw::parse(text.trim().to_owned()) {
        message.extra.push(("source".into(), raw));
    }
}

/// The blocks of a part; none if it has no meaning here.
fn blocks_of(
    role: Role,
    kind: &str,
    part: &Fields<'_>,
    text: &str,
    results: &mut Vec<String>,
) -> Vec<Block> {
    let of = |json: String| said(role, &json).map(|m| m.content).unwrap_or_default();
    match kind {
        "text" => part.text("text").map(Block::text).into_iter().collect(),
        "reasoning" => {
            let thinking = part.get("text").unwrap_or("\"\"");
            of(format!("[{{\"type\":\"thinking\",\"thinking\":{thinking}}}]"))
        }
        "tool" => {
            let state = part.object("state").unwrap_or_default();
            let id = part.word("callID").unwrap_or_else(|| fingerprint(&[text]));
            let name = part.word("tool").unwrap_or_else(|| "unknown".into());
            let failed = state.text("status").as_deref() == Some("error");
            let output = state.get("output").or_else(|| state.get("error"));
            if let Some(output) = output {
                let content =
                    if output.starts_with('"') { output.to_owned() } else { quoted(output) };
                results.push(result_json(&id, &content, failed));
            }
            vec![Block::tool_use(id, name, arguments(state.get("input")))]
        }
        _ => Vec::new(),
    }
}

pub(super) fn usage_of(tokens: &Fields<'_>) -> Usage {
    let number = |name: &str| tokens.number(name).unwrap_or(0);
    let cache = tokens.object("cache").unwrap_or_default();
    Usage {
        input: number("input"),
        output: number("output").saturating_add(number("reasoning")),
        cache_read: cache.number("read").unwrap_or(0),
        cache_write: cache.number("write").unwrap_or(0),
    }
}

/// The text of a file with one record; reported if it is not one.
fn record(out: &mut Out<'_>, file: &Path) -> Option<String> {
    out.records(1);
    let read = document::text(file).and_then(|text| match Fields::parse(text.trim()) {
        Ok(_) => Ok(text.trim().to_owned()),
        Err(what) => Err(ReadError::broken(what)),
    });
    match read {
        Ok(text) => Some(text),
        Err(error) => {
            out.unreadable("file", name_of(file), error.to_string());
            None
        }
    }
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// All JSON files below a folder, in order. Links are not followed.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(folder, DEPTH_MAX, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    if depth == 0 || !folder.is_dir() || found.len() >= FILES_MAX {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let path = entry.path();
        if kind.is_dir() {
            walk(&path, depth - 1, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|ext| ext == "json") {
            found.push(path);
        }
    }
    Ok(())
}
