//! SpecStory's Markdown: each speaker on a separate line, tools in `<tool-use>`.

use std::path::Path;

use rethread_core::entry::Origin;
use rethread_core::message::{Block, Role};
use rethread_core::{Message, Profile, Raw};

use super::output::{Out, Slot, fingerprint};
use super::sink::{FoundSession, Link};
use super::{Result, time};

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = super::document::text(path)?;
    let named = identity(&text);
    let nameless = named.is_none();
    let identity = named.unwrap_or_else(|| first_question(&text));
    let begun = text.lines().find_map(|line| speaker_of(line)?.at);
    let begun = begun.and_then(|at| time::read(&at, &out.options.zone));
    let mut reader = Reader { identity, nameless, begun, sessions: [None; 2] };
    let mut speaker: Option<Speaker> = None;
    let mut block: Vec<&str> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        // The output of a tool may quote a transcript.
        inside = (inside || line.starts_with("<tool-use")) && !line.contains("</tool-use>");
        match speaker_of(line).filter(|_| !inside) {
            Some(next) => {
                reader.block(out, speaker.as_ref(), &block.join("\n"))?;
                block.clear();
                speaker = Some(next);
            }
            None => block.push(line),
        }
    }
    reader.block(out, speaker.as_ref(), &block.join("\n"))
}

/// `<!-- Claude Code Session 3db9f30e-… (2026-01-31 15:19:39Z) -->`.
fn identity(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let inner = line.strip_prefix("<!-- ")?;
        let rest = inner.split_once("Session ")?.1;
        rest.split_whitespace().next().map(str::to_owned)
    })
}

/// The first question. A title may be added later, and changed.
fn first_question(text: &str) -> String {
    let is_user = |line: &&str| speaker_of(line).is_some_and(|who| who.role == Role::User);
    let mut lines = text.lines().skip_while(|line| !is_user(line));
    let who = lines.next().unwrap_or_default();
    let words: Vec<&str> = lines.take_while(|line| speaker_of(line).is_none()).collect();
    fingerprint(&[who, words.join("\n").trim().trim_end_matches("\n---").trim()])
}

struct Speaker {
    role: Role,
    side: bool,
    model: Option<String>,
    at: Option<String>,
}

/// Parses `_**Agent - sidechain (claude-opus-4-5 2026-01-31 15:20:34Z)**_`.
fn speaker_of(line: &str) -> Option<Speaker> {
    let inner = line.trim_end().strip_prefix("_**")?.strip_suffix("**_")?;
    let (who, told) = match inner.split_once('(') {
        Some((who, told)) => (who.trim(), told.trim_end_matches(')').trim()),
        None => (inner.trim(), ""),
    };
    let (name, side) = match who.split_once(" - ") {
        Some((name, how)) => (name, how.contains("sidechain")),
        None => (who, false),
    };
    let role = match name {
        "User" => Role::User,
        "Agent" | "Assistant" => Role::Assistant,
        _ => return None,
    };
    let words: Vec<&str> = told.split_whitespace().collect();
    let is_time =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains(['-', ':']);
    let from = words.iter().position(is_time).unwrap_or(words.len());
    let model = words[..from].join(" ");
    let at = words[from..].join(" ");
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    Some(Speaker { role, side, model: given(model), at: given(at) })
}

struct Reader {
    identity: String,
    nameless: bool,
    begun: Option<jiff::Timestamp>,
    sessions: [Option<usize>; 2],
}

impl Reader {
    fn block(&mut self, out: &mut Out<'_>, speaker: Option<&Speaker>, text: &str) -> Result<()> {
        let text = text.trim().trim_end_matches("\n---").trim();
        if text.is_empty() && speaker.is_none() || text == "---" {
            return Ok(());
        }
        let side = speaker.is_some_and(|speaker| speaker.side);
        let at = speaker.and_then(|speaker| speaker.at.as_deref());
        let at = at.and_then(|at| time::read(at, &out.options.zone));
        let session = self.session(out, side, at)?;
        out.records(1);
        let slot = Slot { session, id: fingerprint(&[text]), at };
        let Some(speaker) = speaker else {
            let id = format!("header:{}", slot.id);
            return out.raw(Slot { id, ..slot }, "header", text);
        };
        if speaker.role == Role::User {
            return out.message(slot, Message::user(text), "user", 1);
        }
        // Calls have no ids. When a reply is continued, its calls keep theirs, because they depend
        // on when it began.
        let began = speaker.at.as_deref().or_else(|| text.lines().next()).unwrap_or_default();
        let (message, results) = reply(text, &out.id_of(began));
        let message = Message { model: speaker.model.clone(), ..message };
        out.message(slot, message, "agent", 1)?;
        match results.is_empty() {
            true => Ok(()),
            false => {
                let texts = Message::new(Role::Tool, results.clone());
                let texts: Vec<String> = texts.results().map(|result| result.text()).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let slot = Slot { session, id: fingerprint(&texts), at };
                out.message(slot, Message::new(Role::Tool, results), "agent", 0)
            }
        }
    }

    fn session(
        &mut self,
        out: &mut Out<'_>,
        side: bool,
        at: Option<jiff::Timestamp>,
    ) -> Result<usize> {
        if let Some(session) = self.sessions[usize::from(side)] {
            return Ok(session);
        }
        let main = self.identity.clone();
        let session = out.session(FoundSession {
            identity: if side { format!("{main}/side") } else { main.clone() },
            profile: Profile { agent: Some("specstory".into()), ..Profile::default() },
            created_at: at.or(self.begun),
            windowed: true,
            nameless: self.nameless,
            parent: side.then_some(Link { identity: main, origin: Origin::New }),
            ..FoundSession::default()
        })?;
        self.sessions[usize::from(side)] = Some(session);
        Ok(session)
    }
}

/// A reply: its text, its thinking, and its calls, each together with its result.
fn reply(text: &str, id: &str) -> (Message, Vec<Block>) {
    let mut blocks = Vec::new();
    let mut results = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("<tool-use") {
        let (before, tool) = rest.split_at(at);
        let end = tool.find("</tool-use>").map_or(tool.len(), |end| end + "</tool-use>".len());
        let (tool, after) = tool.split_at(end);
        push_text(&mut blocks, before);
        let name =
            tool.split_once("data-tool-name=\"").and_then(|(_, rest)| rest.split('"').next());
        let call = format!("{id}:{}", results.len());
        let summary = tool.lines().find_map(|line| line.strip_prefix("<summary>"));
        let summary = summary.map(|line| line.trim_end_matches("</summary>"));
        let input = Raw::of(&serde_json::json!({ "summary": summary }));
        blocks.push(Block::tool_use(&call, name.unwrap_or("unknown"), input));
        results.push(Block::tool_result(&call, tool));
        rest = after;
    }
    push_text(&mut blocks, rest);
    (Message::new(Role::Assistant, blocks), results)
}

fn push_text(blocks: &mut Vec<Block>, text: &str) {
    if !text.trim().is_empty() {
        blocks.push(Block::text(text.trim()));
    }
}
