//! pi's lines: a header, then a tree of entries (older versions: a plain list).

use std::path::Path;

use rethread_core::entry::{Body, Origin};
use rethread_core::message::{Block, Role, Usage};
use rethread_core::{Message, Profile, Raw};

use super::claude_tree::{Leaf, Tree};
use super::fields::{Fields, list};
use super::found::{Found, Link};
use super::lines::{Line, Lines};
use super::messages::{arguments, result_json};
use super::out::{Out, Slot, fingerprint, said};
use super::{Result, time};

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let mut tree = Tree::default();
    let mut walked = 0;
    let mut ahead = Lines::open(path)?;
    while let Ok(Some((number, line))) = ahead.next() {
        walked = number;
        let Line::Text(line) = line else { continue };
        let Some(fields) = Fields::of(line) else { continue };
        if let (Some(id), true) = (fields.text("id"), is_entry(&fields)) {
            let message = fields.object("message");
            let role = message.and_then(|message| message.word("role"));
            // Where the person stands now is the end of the conversation, whatever came before.
            let target = fields.text("targetId").filter(|_| is_leaf(&fields));
            let is_here = target.is_some();
            let parent = target.or_else(|| fields.text("parentId"));
            tree.add(&Leaf {
                id: &id,
                parent: parent.as_deref(),
                spoken: role.is_some() || is_here || is_told(&fields),
                reply: role.as_deref() == Some("assistant"),
                ..Leaf::default()
            });
        }
    }
    tree.grow();
    let branches = tree.branches().len();
    let mut reader =
        Reader { sessions: vec![None; branches], tree, nodes: 0, found: None, at: None };
    out.first_lines(path, walked, |out, number, line| reader.line(out, number, line))?;
    if branches > 1 {
        out.note(format!("{} left behind by going back: kept as forks", branches - 1));
    }
    Ok(())
}

/// Whether the model is told something that nobody said.
fn is_told(fields: &Fields<'_>) -> bool {
    matches!(fields.text("type").as_deref(), Some("branch_summary" | "custom_message"))
}

fn is_leaf(fields: &Fields<'_>) -> bool {
    fields.text("type").as_deref() == Some("leaf")
}

/// The session that a header says it came from: the id at the end of a file's name.
fn parent(header: &Fields<'_>) -> Option<Link> {
    let file = header.word("parentSession")?;
    let name = Path::new(&file).file_stem()?.to_str()?;
    let identity = name.rsplit('_').next().unwrap_or(name).to_owned();
    Some(Link { identity, origin: Origin::Fork })
}

fn is_entry(fields: &Fields<'_>) -> bool {
    fields.text("type").as_deref() != Some("session")
}

struct Reader {
    tree: Tree,
    nodes: usize,
    sessions: Vec<Option<usize>>,
    found: Option<Found>,
    at: Option<jiff::Timestamp>,
}

impl Reader {
    fn line(&mut self, out: &mut Out<'_>, number: u64, line: &str) -> Result<()> {
        let Some(fields) = out.fields(number, line) else { return Ok(()) };
        let at = fields.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone));
        self.at = at.or(self.at);
        let kind = fields.word("type").unwrap_or_else(|| "other".into());
        if self.found.is_none() {
            self.found = Some(Found {
                identity: match fields.word("id") {
                    Some(id) if kind == "session" => id,
                    _ => fingerprint(&[line]),
                },
                profile: Profile {
                    agent: Some("pi".into()),
                    provider: fields.word("provider"),
                    model: fields.word("modelId"),
                    workspace: fields.word("cwd"),
                    ..Profile::default()
                },
                created_at: self.at,
                parent: parent(&fields),
                ..Found::default()
            });
        }
        let mut branch = 0;
        let mut id = format!("{number}:{}", fingerprint(&[line]));
        if let (Some(given), true) = (fields.word("id"), is_entry(&fields)) {
            branch = self.tree.branch(self.nodes);
            self.nodes += 1;
            if !self.tree.is_repeated(&given) {
                id = given;
            }
        }
        let session = self.session(out, branch)?;
        let slot = Slot { session, id, at: self.at };
        match fields.object("message").filter(|_| kind == "message") {
            Some(message) => {
                let role = message.word("role").unwrap_or_default();
                let kind = format!("message/{role}");
                match message_of(&message, &role) {
                    Some(said) => out.message(slot, said, &kind, 1),
                    None => out.raw(slot, &kind, line),
                }
            }
            None if kind == "compaction" => {
                let (id, at) = (slot.id.clone(), slot.at);
                out.raw(slot, &kind, line)?;
                let mark = |what: &str| Slot { session, id: format!("{id}:{what}"), at };
                match fields.word("summary") {
                    Some(summary) => {
                        out.entry(mark("clear"), Body::Cleared { before: None })?;
                        out.entry(mark("summary"), Body::Message(Message::user(summary)))
                    }
                    None => Ok(()),
                }
            }
            // What was left behind, in few words, and what a plugin told the model.
            None if kind == "branch_summary" && fields.word("summary").is_some() => {
                let mut message = Message::user(fields.word("summary").unwrap_or_default());
                keep_source(&mut message, &fields.without(&["summary"]));
                out.message(slot, message, &kind, 1)
            }
            None if kind == "custom_message" => {
                match said(Role::User, fields.get("content").unwrap_or("null")) {
                    Ok(mut message) => {
                        keep_source(&mut message, &fields.without(&["content"]));
                        out.message(slot, message, &kind, 1)
                    }
                    Err(_) => out.raw(slot, &kind, line),
                }
            }
            None => out.raw(slot, &kind, line),
        }
    }

    fn session(&mut self, out: &mut Out<'_>, branch: usize) -> Result<usize> {
        if let Some(session) = self.sessions[branch] {
            return Ok(session);
        }
        let mut found = self.found.clone().unwrap_or_default();
        if branch > 0 {
            found.parent = Some(Link { identity: found.identity.clone(), origin: Origin::Fork });
            found.identity = format!("{}/{}", found.identity, self.tree.branches()[branch].name);
            found.created_at = self.at;
        }
        let session = out.session(found)?;
        self.sessions[branch] = Some(session);
        Ok(session)
    }
}

fn message_of(fields: &Fields<'_>, role: &str) -> Option<Message> {
    let content = fields.get("content").unwrap_or("null");
    let mut message = match role {
        "user" => said(Role::User, content).ok()?,
        "assistant" => {
            let mut message = Message::new(Role::Assistant, Vec::new());
            match list(content) {
                None => message.content = said(Role::Assistant, content).ok()?.content,
                Some(items) => {
                    for item in items {
                        let block = Fields::of(item)?;
                        if block.text("type").as_deref() == Some("toolCall") {
                            let input = arguments(block.get("arguments"));
                            let (id, name) = (block.word("id")?, block.word("name")?);
                            message.content.push(Block::tool_use(id, name, input));
                        } else {
                            let blocks = said(Role::Assistant, &format!("[{item}]")).ok()?;
                            message.content.extend(blocks.content);
                        }
                    }
                }
            }
            message
        }
        "toolResult" => {
            let result =
                result_json(&fields.word("toolCallId")?, content, fields.is_true("isError"));
            said(Role::Tool, &format!("[{result}]")).ok()?
        }
        // What the person ran themselves.
        "bashExecution" => {
            let (command, output) = (fields.word("command")?, fields.text("output"));
            Message::user(format!("Ran `{command}`\n{}", output.unwrap_or_default()))
        }
        _ => return None,
    };
    if role == "assistant" {
        let model = fields.word("model");
        let provider = fields.word("provider").unwrap_or_else(|| "unknown".into());
        message.model = model.map(|model| format!("{provider}/{model}"));
        message.interrupted = fields.text("stopReason").as_deref() == Some("aborted");
        message.usage = fields.object("usage").map(|usage| {
            let number = |name: &str| usage.number(name).unwrap_or(0);
            Usage {
                input: number("input"),
                output: number("output"),
                cache_read: number("cacheRead"),
                cache_write: number("cacheWrite"),
            }
        });
    }
    keep_source(&mut message, &fields.without(&["role", "content"]));
    Some(message)
}

fn keep_source(message: &mut Message, rest: &str) {
    if let Ok(raw) = Raw::parse(rest.to_owned()) {
        message.extra.push(("source".into(), raw));
    }
}
