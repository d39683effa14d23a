//! pi's lines: a header, then a tree of entries (older versions: a plain list).

use std::collections::HashMap;
use std::path::Path;

use rethread_core::entry::{Body, Origin};
use rethread_core::message::{Block, Role, Usage};
use rethread_core::{Message, Profile, Raw};

use super::claude_tree::{Leaf, Tree};
use super::fields::{Fields, list};
use super::lines::{Line, Lines};
use super::messages::{arguments, result_json};
use super::output::{Out, Slot, fingerprint, said};
use super::sink::{FoundSession, Link};
use super::{Result, time};

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let (mut tree, mut kept) = (Tree::default(), Kept::default());
    let named = id_in(path);
    let mut walked = 0;
    let mut ahead = Lines::open(path)?;
    while let Ok(Some((number, line))) = ahead.next() {
        walked = number;
        let Line::Text(line) = line else { continue };
        let Some(fields) = Fields::of(line) else { continue };
        if fields.text("type").as_deref() == Some("compaction") {
            kept.expect(&fields);
        }
        if let (Some(id), true) = (fields.text("id"), is_entry(&fields)) {
            let message = fields.object("message");
            let role = message.and_then(|message| message.word("role"));
            // The user's current position is the end of the conversation.
            let target = fields.text("targetId").filter(|_| is_leaf(&fields));
            let is_here = target.is_some();
            let parent = target.or_else(|| fields.text("parentId"));
            tree.add(&Leaf {
                id: &id,
                parent: parent.as_deref(),
                spoken: role.is_some() || is_here || is_sent(&fields),
                reply: role.as_deref() == Some("assistant"),
                ..Leaf::default()
            });
        }
    }
    tree.grow();
    let branches = tree.branches().len();
    let mut reader = Reader {
        sessions: vec![None; branches],
        tree,
        kept,
        named,
        nodes: 0,
        found: None,
        at: None,
    };
    out.first_lines(path, walked, |out, number, line| reader.line(out, number, line))?;
    if branches > 1 {
        out.note(format!("{} abandoned by going back, kept as forks", branches - 1));
    }
    Ok(())
}

/// Whether the model is sent something that is not part of the conversation.
fn is_sent(fields: &Fields<'_>) -> bool {
    matches!(fields.text("type").as_deref(), Some("branch_summary" | "custom_message"))
}

fn is_leaf(fields: &Fields<'_>) -> bool {
    fields.text("type").as_deref() == Some("leaf")
}

/// The session that a header says it came from.
fn parent(header: &Fields<'_>) -> Option<Link> {
    let file = header.word("parentSession")?;
    let name = Path::new(&file).file_stem()?.to_str()?;
    let identity = id_in(Path::new(&file)).unwrap_or_else(|| name.to_owned());
    Some(Link { identity, origin: Origin::Fork })
}

/// The id at the end of a file's name, after the time: `2026-01-01T10-00-00-000Z_<id>.jsonl`.
fn id_in(path: &Path) -> Option<String> {
    let (_, id) = path.file_stem()?.to_str()?.rsplit_once('_')?;
    Some(id.to_owned())
}

fn is_entry(fields: &Fields<'_>) -> bool {
    fields.text("type").as_deref() != Some("session")
}

/// The messages that compactions keep.
#[derive(Default)]
struct Kept {
    /// The first entry of each, by its id, and how many compactions begin with it. Older files give
    /// its line number instead.
    first: HashMap<String, u32>,
    /// Messages since the first of them that was found, with where each began.
    said: Vec<Said>,
    /// Compactions still to come whose first entry was found.
    open: u32,
}

/// A message, or the point where the messages kept by a compaction begin.
struct Said {
    session: usize,
    starts: Option<String>,
    message: Option<(String, Message)>,
}

impl Kept {
    /// The messages kept by a compaction begin with this entry.
    fn start_of(fields: &Fields<'_>) -> Option<String> {
        let place = || fields.number("firstKeptEntryIndex").map(|index| format!("#{index}"));
        fields.word("firstKeptEntryId").or_else(place)
    }

    /// Registers a compaction of the file.
    fn expect(&mut self, fields: &Fields<'_>) {
        if let Some(start) = Kept::start_of(fields) {
            *self.first.entry(start).or_default() += 1;
        }
    }

    /// Registers an entry.
    fn pass(&mut self, line: u64, fields: &Fields<'_>, session: usize) {
        if self.first.is_empty() {
            return;
        }
        let place = format!("#{}", line.saturating_sub(1));
        for start in [fields.word("id"), Some(place)].into_iter().flatten() {
            if let Some(count) = self.first.get(&start) {
                self.open += count;
                self.said.push(Said { session, starts: Some(start), message: None });
            }
        }
    }

    fn say(&mut self, slot: &Slot, message: &Message) {
        if self.open > 0 {
            // Its cost was counted where it first appeared.
            let message = Message { usage: None, ..message.clone() };
            let message = Some((slot.id.clone(), message));
            self.said.push(Said { session: slot.session, starts: None, message });
        }
    }

    /// The messages that a compaction keeps.
    fn since(&mut self, fields: &Fields<'_>, session: usize) -> Vec<(String, Message)> {
        let Some(start) = Kept::start_of(fields) else { return Vec::new() };
        let is_start = |said: &Said| said.starts.as_ref() == Some(&start);
        let Some(from) = self.said.iter().position(is_start) else { return Vec::new() };
        let said = self.said[from..].iter().filter(|said| said.session == session);
        let kept = said.filter_map(|said| said.message.clone()).collect();
        self.open -= 1;
        if self.open == 0 {
            self.said.clear();
        }
        kept
    }
}

struct Reader {
    tree: Tree,
    kept: Kept,
    /// The id in the name of the file.
    named: Option<String>,
    nodes: usize,
    sessions: Vec<Option<usize>>,
    found: Option<FoundSession>,
    at: Option<jiff::Timestamp>,
}

impl Reader {
    fn line(&mut self, out: &mut Out<'_>, number: u64, line: &str) -> Result<()> {
        let Some(fields) = out.fields(number, line) else { return Ok(()) };
        let at = fields.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone));
        self.at = at.or(self.at);
        let kind = fields.word("type").unwrap_or_else(|| "other".into());
        if self.found.is_none() {
            self.found = Some(FoundSession {
                // Without a header, the id is at the end of the file's name.
                identity: match fields.word("id") {
                    Some(id) if kind == "session" => id,
                    _ => self.named.take().unwrap_or_else(|| fingerprint(&[line])),
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
                ..FoundSession::default()
            });
        }
        let mut branch = 0;
        let mut given = None;
        if let (Some(id), true) = (fields.word("id"), is_entry(&fields)) {
            branch = self.tree.branch(self.nodes);
            self.nodes += 1;
            given = Some(id).filter(|id| !self.tree.is_repeated(id));
        }
        let id = given.unwrap_or_else(|| out.id_of(line));
        let session = self.session(out, branch)?;
        self.kept.pass(number, &fields, session);
        let slot = Slot { session, id, at: self.at };
        match fields.object("message").filter(|_| kind == "message") {
            Some(message) => {
                let role = message.word("role").unwrap_or_default();
                let kind = format!("message/{role}");
                match message_of(&message, &role) {
                    Some(said) => self.say(out, slot, said, &kind),
                    None => out.raw(slot, &kind, line),
                }
            }
            None if kind == "compaction" => {
                let (id, at) = (slot.id.clone(), slot.at);
                out.raw(slot, &kind, line)?;
                let mark = |what: &str| Slot { session, id: format!("{id}:{what}"), at };
                let kept = self.kept.since(&fields, session);
                let Some(summary) = fields.word("summary") else { return Ok(()) };
                out.entry(mark("clear"), Body::Cleared { before: None })?;
                out.entry(mark("summary"), Body::Message(Message::user(summary)))?;
                // The last messages stay unchanged, after the summary of the others.
                for (id, message) in kept {
                    out.entry(mark(&id), Body::Message(message))?;
                }
                Ok(())
            }
            // A short summary of an abandoned branch, and what a plugin sent to the model.
            None if kind == "branch_summary" && fields.word("summary").is_some() => {
                let mut message = Message::user(fields.word("summary").unwrap_or_default());
                keep_source(&mut message, &fields.without(&["summary"]));
                self.say(out, slot, message, &kind)
            }
            None if kind == "custom_message" => {
                match said(Role::User, fields.get("content").unwrap_or("null")) {
                    Ok(mut message) => {
                        keep_source(&mut message, &fields.without(&["content"]));
                        self.say(out, slot, message, &kind)
                    }
                    Err(_) => out.raw(slot, &kind, line),
                }
            }
            None => out.raw(slot, &kind, line),
        }
    }

    fn say(&mut self, out: &mut Out<'_>, slot: Slot, said: Message, kind: &str) -> Result<()> {
        self.kept.say(&slot, &said);
        out.message(slot, said, kind, 1)
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
        // A command that the user ran.
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
