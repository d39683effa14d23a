//! Codex's rollouts.
//!
//! What is said stands there twice, as `response_item` and as `event_msg`; the first is taken and
//! the second kept. Counts of tokens are cumulative. A file may hold several `session_meta` (the
//! first is its own), or begin in the middle. Some compactions happened at the provider and are
//! encrypted: they are kept, and said.

use std::path::Path;

use rethread_core::Message;
use rethread_core::entry::Body;
use rethread_core::message::{Block, Role, Usage};

use super::fields::{Fields, quoted};
use super::found::Found;
use super::messages::{arguments, parts, result_json};
use super::out::{Out, Slot, fingerprint, said};
use super::{Result, time};

/// What a message begins with that a program wrote in the user's name.
const INJECTED: [&str; 6] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<skills_instructions>",
];

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let mut reader = Reader { stem: stem(path), ..Reader::default() };
    out.lines(path, |out, number, line| reader.line(out, number, line))?;
    reader.end_round(out)?;
    // The last count is the source's own word for all of it.
    out.account.tokens = reader.total;
    if reader.sealed > 0 {
        out.note(format!(
            "{} at the provider, encrypted: kept, but what they say cannot be read",
            plural(reader.sealed, "compaction")
        ));
    }
    if reader.metas > 1 {
        out.note(format!("{} session_meta: the first names the session", reader.metas));
    }
    if reader.metas == 0 {
        out.note("no session_meta: the file begins in the middle");
    }
    Ok(())
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The id in `rollout-2026-05-31T10-46-34-019e7da4-83bc-7dc1-93d3-a435cb5c9100.jsonl`.
fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = name.trim_end_matches(".zst").trim_end_matches(".jsonl");
    let id = name.get(name.len().checked_sub(36)?..)?;
    let is_uuid = id.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_uuid.then(|| id.to_owned())
}

#[derive(Default)]
struct Reader {
    stem: Option<String>,
    session: Option<usize>,
    provider: Option<String>,
    model: Option<String>,
    at: Option<jiff::Timestamp>,
    total: Usage,
    metas: u64,
    sealed: u64,
    round: Option<Round>,
}

/// A reply and the answers to its calls, until the tokens it cost are known.
struct Round {
    slot: Slot,
    message: Message,
    records: u64,
    /// Answers came, so what the model says next is another reply.
    answered: bool,
    after: Vec<(Slot, After)>,
}

enum After {
    Message(Message),
    Raw { kind: String, text: String },
}

impl Reader {
    fn line(&mut self, out: &mut Out<'_>, number: u64, line: &str) -> Result<()> {
        let fields = match Fields::parse(line) {
            Ok(fields) => fields,
            Err(what) => {
                out.unreadable("broken", format!("line {number}"), what);
                return Ok(());
            }
        };
        let at = fields.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone));
        self.at = at.or(self.at);
        let outer = fields.word("type").unwrap_or_else(|| "other".into());
        // The oldest rollouts have the items themselves as lines, behind a line of metadata.
        let bare = !fields.has("payload");
        let payload = if bare { Fields::of(line) } else { fields.object("payload") };
        let payload = payload.unwrap_or_default();
        let inner = payload.word("type").filter(|_| !bare);
        let kind = match &inner {
            Some(inner) => format!("{outer}/{inner}"),
            None => outer.clone(),
        };
        let first = outer == "session_meta" || bare && fields.has("instructions");
        if first {
            self.metas += 1;
        }
        let session = self.session(out, &payload, line, first)?;
        let id = format!("{number}:{}", fingerprint(&[line]));
        let slot = Slot { session, id, at: self.at };
        match outer.as_str() {
            "turn_context" => {
                self.model = payload.word("model").or(self.model.take());
                self.keep(out, slot, kind, line)
            }
            "response_item" => self.item(out, slot, &payload, kind, line),
            _ if bare && !first => self.item(out, slot, &payload, kind, line),
            "compacted" => self.compacted(out, slot, &payload, kind, line),
            "event_msg" if inner.as_deref() == Some("token_count") => {
                self.count(out, &payload);
                self.keep(out, slot, kind, line)
            }
            _ => self.keep(out, slot, kind, line),
        }
    }

    fn session(
        &mut self,
        out: &mut Out<'_>,
        payload: &Fields<'_>,
        line: &str,
        is_meta: bool,
    ) -> Result<usize> {
        if let Some(session) = self.session {
            return Ok(session);
        }
        let meta = if is_meta { Some(payload) } else { None };
        let given = meta.and_then(|meta| meta.word("id"));
        let begun = meta.and_then(|meta| meta.get("timestamp"));
        let begun = begun.and_then(|raw| time::of_json(raw, &out.options.zone));
        let provider = meta.and_then(|meta| meta.word("model_provider"));
        let provider = provider.unwrap_or_else(|| "openai".into());
        self.provider = Some(provider.clone());
        let session = out.session(Found {
            identity: given.or(self.stem.clone()).unwrap_or_else(|| fingerprint(&[line])),
            agent: Some("codex".into()),
            provider: Some(provider),
            workspace: meta.and_then(|meta| meta.word("cwd")),
            created_at: begun.or(self.at),
            ..Found::default()
        })?;
        self.session = Some(session);
        Ok(session)
    }

    /// Something the model was sent, or sent.
    fn item(
        &mut self,
        out: &mut Out<'_>,
        slot: Slot,
        item: &Fields<'_>,
        kind: String,
        line: &str,
    ) -> Result<()> {
        let kind_of_item = item.word("type").unwrap_or_default();
        let content = item.get("content").unwrap_or("null");
        match (kind_of_item.as_str(), item.text("role").as_deref()) {
            ("message", Some("assistant")) => match said(Role::Assistant, &parts(content)) {
                Ok(message) => self.reply(out, slot, message.content),
                Err(_) => self.keep(out, slot, kind, line),
            },
            ("message", Some("user")) => match said(Role::User, &parts(content)) {
                Ok(message) if !is_injected(&message) => {
                    self.end_round(out)?;
                    out.message(slot, message, "response_item/message", 1)
                }
                _ => self.keep(out, slot, kind, line),
            },
            // The payload itself is the block: its own provider may take it back.
            ("reasoning" | "web_search_call" | "image_generation_call", _) => {
                let text = item.without(&[]);
                match said(Role::Assistant, &format!("[{text}]")) {
                    Ok(message) => self.reply(out, slot, message.content),
                    Err(_) => self.keep(out, slot, kind, line),
                }
            }
            ("function_call" | "custom_tool_call" | "tool_search_call" | "local_shell_call", _) => {
                let id = item.word("call_id").or_else(|| item.word("id")).unwrap_or_default();
                let name = item
                    .word("name")
                    .unwrap_or_else(|| kind_of_item.trim_end_matches("_call").to_owned());
                let given = ["arguments", "input", "action"].iter().find_map(|n| item.get(n));
                let call = Block::tool_use(id, name, arguments(given));
                self.reply(out, slot, vec![call])
            }
            (
                "function_call_output"
                | "custom_tool_call_output"
                | "tool_search_output"
                | "local_shell_call_output",
                _,
            ) => match answer(item) {
                Some(message) => match &mut self.round {
                    Some(round) => {
                        round.answered = true;
                        round.after.push((slot, After::Message(message)));
                        Ok(())
                    }
                    None => out.message(slot, message, "response_item/output", 1),
                },
                None => self.keep(out, slot, kind, line),
            },
            _ => self.keep(out, slot, kind, line),
        }
    }

    /// More of a reply, or the beginning of the next.
    fn reply(&mut self, out: &mut Out<'_>, slot: Slot, mut blocks: Vec<Block>) -> Result<()> {
        if let Some(round) = self.round.as_mut().filter(|round| !round.answered) {
            round.message.content.append(&mut blocks);
            round.records += 1;
            return Ok(());
        }
        self.end_round(out)?;
        let mut message = Message::new(Role::Assistant, blocks);
        let provider = self.provider.as_deref().unwrap_or("openai");
        message.model = self.model.as_ref().map(|model| format!("{provider}/{model}"));
        self.round = Some(Round { slot, message, records: 1, answered: false, after: Vec::new() });
        Ok(())
    }

    /// Counts go on from one to the next; what is new belongs to the reply before it.
    fn count(&mut self, out: &mut Out<'_>, payload: &Fields<'_>) {
        let Some(info) = payload.object("info") else { return };
        let Some(total) = info.object("total_token_usage").map(|usage| counted(&usage)) else {
            return;
        };
        if total == Usage::default() {
            return;
        }
        let before = self.total;
        let grew = total.read() >= before.read() && total.output >= before.output;
        self.total = total;
        let new = match (grew, info.object("last_token_usage")) {
            (true, _) => less(total, before),
            // The person went back, and the count with them: it leaves out what was given up.
            (false, Some(last)) => {
                out.note(format!(
                    "the count of tokens went back from {} to {}; what was given up is not in it",
                    before.total(),
                    total.total()
                ));
                counted(&last)
            }
            (false, None) => total,
        };
        if let Some(round) = self.round.as_mut().filter(|_| new != Usage::default()) {
            *round.message.usage.get_or_insert_default() += new;
        }
    }

    fn compacted(
        &mut self,
        out: &mut Out<'_>,
        slot: Slot,
        payload: &Fields<'_>,
        kind: String,
        line: &str,
    ) -> Result<()> {
        self.end_round(out)?;
        let summary = payload.word("message");
        let (session, id, at) = (slot.session, slot.id.clone(), slot.at);
        out.raw(slot, &kind, line)?;
        let Some(summary) = summary else {
            self.sealed += 1;
            return Ok(());
        };
        let mark = |what: &str| Slot { session, id: format!("{id}:{what}"), at };
        out.entry(mark("clear"), Body::Cleared { before: None })?;
        out.entry(mark("summary"), Body::Message(Message::user(summary)))
    }

    fn keep(&mut self, out: &mut Out<'_>, slot: Slot, kind: String, line: &str) -> Result<()> {
        match &mut self.round {
            Some(round) => {
                round.after.push((slot, After::Raw { kind, text: line.to_owned() }));
                Ok(())
            }
            None => out.raw(slot, &kind, line),
        }
    }

    fn end_round(&mut self, out: &mut Out<'_>) -> Result<()> {
        let Some(round) = self.round.take() else { return Ok(()) };
        out.message(round.slot, round.message, "response_item/reply", round.records)?;
        for (slot, after) in round.after {
            match after {
                After::Message(message) => out.message(slot, message, "response_item/output", 1)?,
                After::Raw { kind, text } => out.raw(slot, &kind, &text)?,
            }
        }
        Ok(())
    }
}

fn is_injected(message: &Message) -> bool {
    let text = message.plain_text();
    let text = text.trim_start();
    INJECTED.iter().any(|mark| text.starts_with(mark))
}

/// What a tool answered, in any of the forms it is written in.
fn answer(item: &Fields<'_>) -> Option<Message> {
    let id = item.word("call_id").unwrap_or_default();
    let output = item.get("output").or_else(|| item.get("tools")).unwrap_or("null");
    let (content, failed) = match Fields::of(output) {
        Some(object) => {
            let failed = object.get("success") == Some("false");
            let text = object.get("content").or_else(|| object.get("text"));
            (text.map_or_else(|| quoted(output), parts), failed)
        }
        None if output.starts_with('[') && !output.contains("\"type\"") => (quoted(output), false),
        None => (parts(output), false),
    };
    let message = said(Role::Tool, &format!("[{}]", result_json(&id, &content, failed))).ok()?;
    let answers = message.results().next().is_some();
    answers.then_some(message)
}

/// Tokens as Codex counts them: what was read from the cache is part of the input.
fn counted(usage: &Fields<'_>) -> Usage {
    let number = |name: &str| usage.number(name).unwrap_or(0);
    let (read, written) = (number("cached_input_tokens"), number("cache_write_input_tokens"));
    Usage {
        input: number("input_tokens").saturating_sub(read).saturating_sub(written),
        output: number("output_tokens"),
        cache_read: read,
        cache_write: written,
    }
}

fn less(one: Usage, two: Usage) -> Usage {
    Usage {
        input: one.input.saturating_sub(two.input),
        output: one.output.saturating_sub(two.output),
        cache_read: one.cache_read.saturating_sub(two.cache_read),
        cache_write: one.cache_write.saturating_sub(two.cache_write),
    }
}
