//! llm's newer tables: messages that point at the previous one, and threads that point at the last.
//!
//! Messages are shared: two threads that begin alike use the same rows. Here each thread is a
//! session, and the second one gets copies. A turn has the cost of a reply. A thread may continue a
//! conversation of the older tables; what it repeats of that is already there.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use rethread_core::entry::{Body, Origin};
use rethread_core::message::{Block, BlockKind, Role, Usage};
use rethread_core::{Message, Profile, Raw};

use super::Result;
use super::database::{Database, RowText};
use super::fields::{Fields, list, quoted};
use super::goose::utc;
use super::llm;
use super::messages::{arguments, id_text, result_json};
use super::output::{Out, Slot, said};
use super::sink::{FoundSession, Link};

/// The tables that are read here.
pub(super) const READ: [&str; 4] = ["threads", "turns", "messages", "parts"];

/// A conversation of the older tables.
pub(super) struct Older {
    pub(super) session: usize,
    /// The older tables contain its messages.
    pub(super) said: bool,
}

/// Whether a database has these tables.
pub(super) fn is_one(database: &Database) -> bool {
    database.has("messages", &["hash", "parent_hash", "role"])
        && database.has("parts", &["message_hash", "position", "type"])
        && database.has("turns", &["id", "tip_message_hash"])
}

/// Reads all threads. `older` are the conversations of the older tables.
pub(super) fn read(
    database: &Database,
    out: &mut Out<'_>,
    older: &HashMap<String, Older>,
) -> Result<()> {
    let mut reader = Reader { database, turns: HashMap::new(), done: HashSet::new() };
    reader.turns(out)?;
    let mut threads = HashSet::new();
    if database.has("threads", &["id", "tip_message_hash"]) {
        for row in database.rows("SELECT * FROM threads ORDER BY rowid", &[])? {
            out.records(1);
            match row {
                Ok(row) => reader.thread(out, &row, older, &mut threads)?,
                Err(what) => out.unreadable("thread", "a thread".into(), what),
            }
        }
    }
    // Replies that belong to no thread, then everything else.
    let tips = "SELECT hash FROM messages WHERE hash NOT IN \
                (SELECT parent_hash FROM messages WHERE parent_hash IS NOT NULL) ORDER BY rowid";
    for query in [tips, "SELECT hash FROM messages ORDER BY rowid DESC"] {
        for row in database.rows(query, &[])?.into_iter().flatten() {
            let Some(hash) = Fields::of(&row).and_then(|row| row.word("hash")) else { continue };
            if !reader.done.contains(&hash) {
                reader.alone(out, &hash, &threads)?;
            }
        }
    }
    reader.rest(out)
}

struct Reader<'a> {
    database: &'a Database,
    /// Turns that were not read yet, by the message they end in.
    turns: HashMap<String, Vec<String>>,
    /// Messages that were emitted.
    done: HashSet<String>,
}

impl Reader<'_> {
    fn turns(&mut self, out: &mut Out<'_>) -> Result<()> {
        for row in self.database.rows("SELECT * FROM turns ORDER BY rowid", &[])? {
            out.records(1);
            match row {
                Ok(row) => {
                    let tip = Fields::of(&row).and_then(|turn| turn.word("tip_message_hash"));
                    self.turns.entry(tip.unwrap_or_default()).or_default().push(row);
                }
                Err(what) => out.unreadable("turn", "a turn".into(), what),
            }
        }
        Ok(())
    }

    fn thread(
        &mut self,
        out: &mut Out<'_>,
        row: &str,
        older: &HashMap<String, Older>,
        threads: &mut HashSet<String>,
    ) -> Result<()> {
        let fields = Fields::of(row).unwrap_or_default();
        let id = fields.word("id").unwrap_or_default();
        threads.insert(id.clone());
        let begun = utc(fields.get("datetime_utc"));
        let chain = self.chain(fields.word("tip_message_hash"))?;
        let (session, skip) = match older.get(&id) {
            Some(older) => (older.session, if older.said { self.repeated(&chain)? } else { 0 }),
            None => {
                let parent = fields.word("forked_from");
                let parent = parent.map(|identity| Link { identity, origin: Origin::Fork });
                let session = self.session(out, &id, begun, parent, fields.word("name"))?;
                (session, 0)
            }
        };
        out.raw(Slot { session, id: "thread".into(), at: begun }, "thread", row)?;
        self.say_all(out, session, &chain, skip)
    }

    /// A chain of messages that belongs to no thread.
    fn alone(&mut self, out: &mut Out<'_>, tip: &str, threads: &HashSet<String>) -> Result<()> {
        let chain = self.chain(Some(tip.to_owned()))?;
        let turn = self.turns.get(tip).and_then(|turns| turns.first()).cloned();
        let turn = turn.as_deref().and_then(Fields::of).unwrap_or_default();
        let thread = turn.word("thread_id").filter(|thread| threads.contains(thread));
        let parent = thread.map(|identity| Link { identity, origin: Origin::Fork });
        let id = turn.word("id").unwrap_or_else(|| tip.to_owned());
        let session = self.session(out, &id, utc(turn.get("datetime_utc")), parent, None)?;
        self.say_all(out, session, &chain, 0)
    }

    fn session(
        &self,
        out: &mut Out<'_>,
        id: &str,
        created_at: Option<Timestamp>,
        parent: Option<Link>,
        description: Option<String>,
    ) -> Result<usize> {
        out.session(FoundSession {
            identity: id.to_owned(),
            name: Some(id.to_owned()),
            profile: Profile { description, agent: Some("llm".into()), ..Profile::default() },
            created_at,
            parent,
            ..FoundSession::default()
        })
    }

    /// The messages that lead to a message, oldest first.
    fn chain(&self, tip: Option<String>) -> Result<Vec<String>> {
        let mut chain: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        let mut next = tip;
        while let Some(hash) = next.filter(|hash| seen.insert(hash.clone())) {
            let query = "SELECT parent_hash FROM messages WHERE hash = ?1";
            let found = self.database.rows(query, &[&hash])?;
            let Some(row) = found.into_iter().next() else { break };
            let row = row.unwrap_or_default();
            next = Fields::of(&row).and_then(|row| row.word("parent_hash"));
            chain.push(hash);
        }
        chain.reverse();
        Ok(chain)
    }

    /// How many messages of a chain are in the older tables: all before the question of the first
    /// turn.
    fn repeated(&self, chain: &[String]) -> Result<usize> {
        let first = chain.iter().position(|hash| self.turns.contains_key(hash));
        for index in (0..first.unwrap_or(chain.len())).rev() {
            let query = "SELECT role FROM messages WHERE hash = ?1";
            let found = self.database.rows(query, &[&chain[index]])?;
            let row = found.into_iter().flatten().next().unwrap_or_default();
            if Fields::of(&row).and_then(|row| row.word("role")).as_deref() == Some("user") {
                return Ok(index);
            }
        }
        Ok(0)
    }

    fn say_all(
        &mut self,
        out: &mut Out<'_>,
        session: usize,
        chain: &[String],
        skip: usize,
    ) -> Result<()> {
        // A message has the time of the turn it belongs to.
        let mut at = None;
        let mut times = vec![None; chain.len()];
        for (time, hash) in times.iter_mut().zip(chain).rev() {
            let turn = self.turns.get(hash).and_then(|turns| turns.first());
            let turn = turn.and_then(|turn| Fields::of(turn)).unwrap_or_default();
            at = utc(turn.get("datetime_utc")).or(at);
            *time = at;
        }
        for (index, (hash, at)) in chain.iter().zip(times).enumerate() {
            self.say(out, Slot { session, id: hash.clone(), at }, index < skip)?;
        }
        Ok(())
    }

    fn say(&mut self, out: &mut Out<'_>, slot: Slot, skip: bool) -> Result<()> {
        let hash = slot.id.clone();
        let is_new = self.done.insert(hash.clone());
        let query = "SELECT * FROM messages WHERE hash = ?1";
        let row = match self.database.rows(query, &[&hash])?.into_iter().next() {
            Some(Ok(row)) => row,
            other => {
                if is_new {
                    let what = other.and_then(RowText::err).unwrap_or_else(|| "it is gone".into());
                    out.records(1);
                    out.unreadable("message", format!("message {hash}"), what);
                }
                return Ok(());
            }
        };
        let parts = self.parts(out, &hash, is_new)?;
        let fields = Fields::of(&row).unwrap_or_default();
        let kind = fields.word("role").unwrap_or_else(|| "other".into());
        if is_new {
            out.records(1);
        }
        if skip {
            if is_new {
                out.used("repeated");
                parts.iter().for_each(|_| out.used("part"));
            }
            return Ok(());
        }
        let role = match kind.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            // Instructions and unknown parts are kept as records.
            _ => {
                let all =
                    format!("{},\"parts\":[{}]}}", row.trim_end_matches('}'), parts.join(","));
                if !is_new {
                    return Ok(());
                }
                parts.iter().for_each(|_| out.kept("part"));
                return out.raw(slot, &kind, &all);
            }
        };
        let mut blocks = Vec::new();
        for part in &parts {
            let fields = Fields::of(part).unwrap_or_default();
            let payload = fields.text("payload").unwrap_or_default();
            let payload = Fields::of(&payload).unwrap_or_default();
            let attached = fields.get("attachment_id").or_else(|| payload.get("attachment_id"));
            if let Some(id) = attached.and_then(id_text) {
                blocks.extend(llm::attachment(self.database, out, slot.session, &id, is_new)?);
            }
            let (block, known) = self.block(role, part)?;
            blocks.extend(block);
            match is_new {
                true if known => out.used("part"),
                true => out.kept("part"),
                false => {}
            }
        }
        let is_answer = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
        let (answers, words): (Vec<_>, Vec<_>) = blocks.into_iter().partition(is_answer);
        let Slot { session, id, at } = slot;
        let mut records = u64::from(is_new);
        if !answers.is_empty() {
            let id = if words.is_empty() { id.clone() } else { format!("{id}:results") };
            let message = Message::new(Role::Tool, answers);
            self.hand_over(out, Slot { session, id, at }, message, &kind, (is_new, records))?;
            records = 0;
            if words.is_empty() {
                return Ok(());
            }
        }
        let mut message = Message::new(role, words);
        if let Some(turns) = self.turns.remove(&hash) {
            self.cost(out, &mut message, session, &turns)?;
        }
        if let Some(raw) =
            fields.get("provider_metadata").and_then(|raw| Raw::parse(raw.into()).ok())
        {
            message.extra.push(("provider_metadata".into(), raw));
        }
        self.hand_over(out, Slot { session, id, at }, message, &kind, (is_new, records))
    }

    fn hand_over(
        &self,
        out: &mut Out<'_>,
        slot: Slot,
        message: Message,
        kind: &str,
        (is_new, records): (bool, u64),
    ) -> Result<()> {
        match is_new {
            true => out.message(slot, message, kind, records),
            // Another thread has it too.
            false => out.entry(slot, Body::Message(message)),
        }
    }

    /// What the turns that end in a message say about it.
    fn cost(
        &self,
        out: &mut Out<'_>,
        message: &mut Message,
        session: usize,
        turns: &[String],
    ) -> Result<()> {
        let mut usage = Usage::default();
        for (index, turn) in turns.iter().enumerate() {
            let fields = Fields::of(turn).unwrap_or_default();
            let count = |name: &str| fields.number(name).unwrap_or(0);
            usage += Usage {
                input: count("input_tokens"),
                output: count("output_tokens"),
                ..Usage::default()
            };
            if index > 0 {
                let id = format!("turn:{}", fields.word("id").unwrap_or_default());
                let at = utc(fields.get("datetime_utc"));
                out.raw(Slot { session, id, at }, "turn", turn)?;
                continue;
            }
            out.used("turn");
            let model = fields.word("resolved_model").or_else(|| fields.word("model"));
            message.model =
                model.map(|model| if model.contains('/') { model } else { format!("llm/{model}") });
            if let Ok(raw) = Raw::parse(turn.clone()) {
                message.extra.push(("source".into(), raw));
            }
        }
        message.usage = Some(usage).filter(|usage| *usage != Usage::default());
        Ok(())
    }

    fn parts(&self, out: &mut Out<'_>, hash: &str, is_new: bool) -> Result<Vec<String>> {
        let query = "SELECT * FROM parts WHERE message_hash = ?1 ORDER BY position, rowid";
        let mut parts = Vec::new();
        for part in self.database.rows(query, &[&hash])? {
            if is_new {
                out.records(1);
            }
            match part {
                Ok(part) => parts.push(part),
                Err(what) if is_new => {
                    out.unreadable("part", format!("of message {hash}"), what);
                }
                Err(_) => {}
            }
        }
        Ok(parts)
    }

    /// A part as a block, and whether its kind is known.
    fn block(&self, role: Role, part: &str) -> Result<(Option<Block>, bool)> {
        let fields = Fields::of(part).unwrap_or_default();
        let payload = fields.text("payload").unwrap_or_default();
        let payload = Fields::of(&payload).unwrap_or_default();
        let get = |name: &str| payload.get(name).or_else(|| fields.get(name));
        let word = |name: &str| payload.word(name).or_else(|| fields.word(name));
        let one = |json: String| {
            let message = said(role, &format!("[{json}]")).ok();
            message.and_then(|message| message.content.into_iter().next())
        };
        let name = word("tool_name").or_else(|| word("name")).unwrap_or_else(|| "unknown".into());
        let call = word("tool_call_id").unwrap_or_else(|| name.clone());
        let kind = fields.word("type").unwrap_or_default();
        let block = match kind.as_str() {
            "text" => Some(Block::text(self.text(&fields, &payload)?)),
            "reasoning" => {
                let text = quoted(&self.text(&fields, &payload)?);
                one(format!("{{\"type\":\"thinking\",\"thinking\":{text}}}"))
            }
            "tool_call" => Some(Block::tool_use(call, name, arguments(get("arguments")))),
            "tool_result" => {
                let failed = word("exception");
                let output = get("output").and_then(super::fields::string);
                let text = match output {
                    Some(output) => output.into_owned(),
                    None => self.text(&fields, &payload)?,
                };
                let text = failed.as_ref().filter(|_| text.is_empty()).unwrap_or(&text);
                one(result_json(&call, &quoted(text), failed.is_some()))
            }
            other => {
                let block = one(format!("{{\"type\":{},\"part\":{part}}}", quoted(other)));
                return Ok((block, false));
            }
        };
        let known = block.is_some();
        Ok((block, known))
    }

    /// The text of a part. Some of it may be stored among the fragments, once for all messages.
    fn text(&self, fields: &Fields<'_>, payload: &Fields<'_>) -> Result<String> {
        if let Some(text) = fields.text("text") {
            return Ok(text.into_owned());
        }
        let mut text = String::new();
        for piece in payload.get("text_ref").and_then(list).unwrap_or_default() {
            let piece = Fields::of(piece).unwrap_or_default();
            match piece.number("fragment") {
                Some(fragment) => text.push_str(&self.fragment(fragment)?),
                None => text.push_str(&piece.text("literal").unwrap_or_default()),
            }
        }
        if let Some(fragment) = fields.number("fragment_id") {
            text.push_str(&self.fragment(fragment)?);
        }
        Ok(text)
    }

    fn fragment(&self, id: u64) -> Result<String> {
        if !self.database.has("fragments", &["id", "content"]) {
            return Ok(String::new());
        }
        let id = i64::try_from(id).unwrap_or(i64::MAX);
        let rows = self.database.rows("SELECT content FROM fragments WHERE id = ?1", &[&id])?;
        let row = rows.into_iter().flatten().next().unwrap_or_default();
        Ok(Fields::of(&row).and_then(|row| row.word("content")).unwrap_or_default())
    }

    /// Turns and parts whose messages are missing.
    fn rest(&mut self, out: &mut Out<'_>) -> Result<()> {
        for turn in std::mem::take(&mut self.turns).into_values().flatten() {
            let id = Fields::of(&turn).and_then(|turn| turn.word("id")).unwrap_or_default();
            out.unreadable("turn", format!("turn {id}"), "the message it ends in is gone");
        }
        let query = "SELECT message_hash FROM parts WHERE message_hash IS NULL \
                     OR message_hash NOT IN (SELECT hash FROM messages)";
        for _ in self.database.rows(query, &[])? {
            out.records(1);
            out.unreadable("part", "a part".into(), "its message is gone");
        }
        Ok(())
    }
}
