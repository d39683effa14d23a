//! Claude Code's JSON lines: a tree of records.
//!
//! One reply of the API is split over several lines, each with the usage repeated, so lines are
//! merged by message id and tokens are counted once. Tool results may appear between the lines of
//! one reply; they are placed after it. A compaction starts a new root, which `logicalParentUuid`
//! links to the old one: the context starts again there. A branch that the user abandoned by going
//! back becomes a fork, and a subagent gets its own session.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rethread_core::entry::{Body, Origin};
use rethread_core::message::{Block, BlockKind, Role, Usage};
use rethread_core::{Message, Profile, Raw};
use serde::Deserialize;

use super::claude_tree::{Leaf, Tree, hash};
use super::fields::{Fields, string};
use super::lines::{Line, Lines};
use super::messages::usage_of;
use super::output::{Out, Slot, fingerprint, said};
use super::sink::{FoundSession, Link};
use super::{Result, time};

/// Records that forks get as copies of what came before them, for all forks together. Otherwise a
/// file in which someone went back hundreds of times would be stored hundreds of times; beyond this
/// limit, forks hold their own part only.
const RECORDS_COPIED_MAX: usize = 200_000;

/// The description of a subagent is in a document next to its lines, and is kept with them.
const ABOUT: &str = ".meta.json";

/// Bytes of such a document. It has a few lines.
const ABOUT_BYTES_MAX: u64 = 1 << 20;

/// Whether a file describes the session next to it.
pub fn describes_a_session(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let lines = name.and_then(|name| name.strip_suffix(ABOUT)).map(|stem| format!("{stem}.jsonl"));
    lines.is_some_and(|lines| path.with_file_name(lines).is_file())
}

/// The description of the session of a file, if it is JSON.
fn about(path: &Path) -> Option<String> {
    let lines = path.file_name()?.to_str()?;
    let beside = path.with_file_name(format!("{}{ABOUT}", lines.strip_suffix(".jsonl")?));
    let is_small = beside.metadata().is_ok_and(|meta| meta.len() <= ABOUT_BYTES_MAX);
    let text = std::fs::read_to_string(beside).ok().filter(|_| is_small)?;
    Fields::of(&text).map(|_| text.trim().to_owned())
}

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let mut survey = Survey::of(path)?;
    survey.about = about(path);
    let mut reader = Reader {
        sessions: vec![None; survey.tree.branches().len()],
        rounds: survey.tree.branches().iter().map(|_| None).collect(),
        survey,
        nodes: 0,
        at: None,
        cwd: None,
        seen: HashMap::new(),
        counted: HashMap::new(),
        copied: Vec::new(),
        held: Vec::new(),
        compaction: None,
    };
    reader.copied = reader.copied_forks();
    let lines = reader.survey.lines;
    out.first_lines(path, lines, |out, number, line| reader.line(out, number, line))?;
    reader.finish(out)
}

/// The result of a first pass over the file.
#[derive(Default)]
struct Survey {
    tree: Tree,
    lines: u64,
    session: Option<String>,
    /// The first name that a record has.
    first: Option<String>,
    workspace: Option<String>,
    model: Option<String>,
    title: Option<String>,
    is_titled: bool,
    begun: Option<String>,
    /// The session this one was forked from.
    origin: Option<String>,
    first_branch: usize,
    /// The messages that compactions preserve, in order.
    kept: Vec<Kept>,
    /// The contents of a document that describes the file.
    about: Option<String>,
    /// The file has several conversations.
    mixed: bool,
}

/// The messages that a compaction preserves.
struct Kept {
    boundary: String,
    /// The record it follows: the boundary, or the summary of the rest.
    anchor: String,
    /// The records, hashed.
    ids: HashSet<u64>,
}

/// The fields the first pass reads. All others are skipped.
#[derive(Deserialize)]
struct Light<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<&'a str>,
    #[serde(borrow)]
    uuid: Option<&'a str>,
    #[serde(rename = "parentUuid", borrow)]
    parent: Option<&'a str>,
    #[serde(rename = "logicalParentUuid", borrow)]
    logical: Option<&'a str>,
    #[serde(rename = "isSidechain", default)]
    side: Option<bool>,
    #[serde(rename = "agentId", borrow)]
    agent: Option<&'a str>,
    #[serde(rename = "sessionId", alias = "session_id", borrow)]
    session: Option<&'a str>,
    #[serde(borrow)]
    message: Option<LightMessage<'a>>,
}

#[derive(Deserialize)]
struct LightMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a str>,
}

impl Survey {
    fn of(path: &Path) -> Result<Survey> {
        let mut survey = Survey::default();
        let mut lines = Lines::open(path)?;
        loop {
            match lines.next() {
                Ok(Some((number, Line::Text(line)))) => {
                    survey.lines = number;
                    survey.look(line);
                }
                Ok(Some((number, _))) => survey.lines = number,
                // The second pass reports errors.
                Ok(None) | Err(_) => break,
            }
        }
        survey.tree.grow();
        survey.first_branch = survey.tree.branch(0);
        survey.mixed = survey.tree.is_mixed();
        // A session that continues under another id keeps the one its file is named after.
        let name = path.file_stem().and_then(|name| name.to_str());
        if let Some(name) = name.filter(|name| survey.tree.names(name) && !survey.mixed) {
            survey.session = Some(name.to_owned());
        }
        Ok(survey)
    }

    fn look(&mut self, line: &str) {
        let Ok(light) = serde_json::from_str::<Light<'_>>(line) else {
            self.look_closely(line);
            return;
        };
        if let Some(session) = light.session
            && self.session.as_deref() != Some(session)
        {
            self.session = Some(session.to_owned());
        }
        let spoken = matches!(light.kind, Some("user" | "assistant"));
        if spoken && (self.begun.is_none() || self.model.is_none() || self.workspace.is_none()) {
            self.look_for_header(line);
        }
        if let Some("summary" | "custom-title" | "ai-title") = light.kind {
            let fields = Fields::of(line).unwrap_or_default();
            let given = fields.word("customTitle");
            self.is_titled |= given.is_some();
            // A name given by the user stays, even if the program writes another one.
            let other = fields.word("aiTitle").or(fields.word("summary"));
            let other = other.filter(|_| !self.is_titled);
            self.title = given.or(other).or(self.title.take());
        }
        let Some(id) = light.uuid else {
            if self.first.is_none() && self.session.is_none() {
                self.first = Fields::of(line).and_then(|fields| fields.word("leafUuid"));
            }
            return;
        };
        self.first.get_or_insert_with(|| id.to_owned());
        if light.kind == Some("system") && line.contains("\"compact_boundary\"") {
            self.look_for_kept(id, line);
        }
        // What follows a message that a compaction preserved comes after the compaction.
        let parent = light.parent.or(light.logical);
        let parent = parent.map(|parent| match self.kept.last() {
            Some(kept) if kept.boundary != id && kept.ids.contains(&hash(parent)) => {
                match self.tree.place(&kept.anchor) {
                    Some(_) => kept.anchor.as_str(),
                    None => kept.boundary.as_str(),
                }
            }
            _ => parent,
        });
        self.tree.add(&Leaf {
            id,
            parent,
            group: light.message.as_ref().and_then(|message| message.id),
            helper: light.agent,
            session: light.session,
            spoken,
            result: light.kind == Some("user") && line.contains("\"tool_use_id\":"),
            side: light.side == Some(true),
            reply: light.kind == Some("assistant"),
        });
    }

    /// The task a subagent was given.
    fn description(&self) -> Option<String> {
        Fields::of(self.about.as_deref()?)?.word("description")
    }

    /// A record with unexpected fields still has its place in the tree, if it has an id.
    fn look_closely(&mut self, line: &str) {
        let Some(fields) = Fields::of(line) else { return };
        self.session = fields.word("sessionId").or_else(|| self.session.take());
        let Some(id) = fields.text("uuid") else { return };
        let parent = fields.text("parentUuid").or_else(|| fields.text("logicalParentUuid"));
        let spoken = matches!(fields.text("type").as_deref(), Some("user" | "assistant"));
        let side = fields.is_true("isSidechain");
        let (helper, session) = (fields.text("agentId"), fields.text("sessionId"));
        self.tree.add(&Leaf {
            id: &id,
            parent: parent.as_deref(),
            helper: helper.as_deref(),
            session: session.as_deref(),
            spoken,
            side,
            ..Leaf::default()
        });
    }

    /// What a compaction preserves: messages listed by id, or all from one to another.
    fn look_for_kept(&mut self, boundary: &str, line: &str) {
        let fields = Fields::of(line).unwrap_or_default();
        let told = fields.object("compactMetadata").or_else(|| fields.object("compact_metadata"));
        let told = told.unwrap_or_default();
        let of = |one: &str, two: &str| told.object(one).or_else(|| told.object(two));
        let list = of("preservedMessages", "preserved_messages").unwrap_or_default();
        let segment = of("preservedSegment", "preserved_segment").unwrap_or_default();
        let end = |one: &str, two: &str| segment.word(one).or_else(|| segment.word(two));
        let named = list.list("uuids").unwrap_or_default();
        let mut ids: HashSet<u64> =
            named.into_iter().filter_map(string).map(|id| hash(&id)).collect();
        if ids.is_empty()
            && let Some(head) = end("headUuid", "head_uuid").and_then(|id| self.tree.place(&id))
            && let Some(tail) = end("tailUuid", "tail_uuid").and_then(|id| self.tree.place(&id))
        {
            ids = self.tree.hashes(head..=tail).into_iter().collect();
        }
        if !ids.is_empty() {
            let anchor = list.word("anchorUuid").or_else(|| list.word("anchor_uuid"));
            let anchor = anchor.or_else(|| end("anchorUuid", "anchor_uuid")).unwrap_or_default();
            self.kept.push(Kept { boundary: boundary.to_owned(), anchor, ids });
        }
    }

    fn look_for_header(&mut self, line: &str) {
        let Some(fields) = Fields::of(line) else { return };
        self.begun = self.begun.take().or_else(|| fields.word("timestamp"));
        self.workspace = self.workspace.take().or_else(|| fields.word("cwd"));
        let origin = fields.object("forkedFrom").and_then(|origin| origin.word("sessionId"));
        self.origin = self.origin.take().or(origin);
        let model = fields.object("message").and_then(|message| message.word("model"));
        self.model = self.model.take().or(model.filter(|model| !model.starts_with('<')));
    }
}

/// A reply that may continue, and what came after its beginning.
struct Round {
    group: String,
    /// How many records of the tree had been read when it began: forks that branch off later get a
    /// copy.
    node: usize,
    slot: Slot,
    message: Message,
    sources: Vec<String>,
    records: u64,
    after: Vec<(Slot, After)>,
    /// Text of the user that came with a tool result or in the meantime, which is placed after all
    /// results, and the records it comes from.
    words: Vec<(Slot, Message, u64)>,
}

enum After {
    Message(Message),
    Raw { kind: String, text: String },
}

struct Reader {
    survey: Survey,
    sessions: Vec<Option<usize>>,
    rounds: Vec<Option<Round>>,
    nodes: usize,
    at: Option<jiff::Timestamp>,
    /// The folder of the records, if the file has several conversations.
    cwd: Option<String>,
    /// Records whose id appears more than once, by id.
    seen: HashMap<String, Vec<u64>>,
    /// The cost of replies that appear in several places, by the fingerprint of their id.
    counted: HashMap<u64, Usage>,
    /// Forks that get a copy of what came before the point where they branch off.
    copied: Vec<usize>,
    /// Messages that a compaction preserves: branch, id, and text.
    held: Vec<(usize, String, Message)>,
    /// The compaction whose messages follow after the record they are linked to.
    compaction: Option<usize>,
}

impl Reader {
    fn line(&mut self, out: &mut Out<'_>, number: u64, line: &str) -> Result<()> {
        let Some(fields) = out.fields(number, line) else { return Ok(()) };
        self.record(out, &fields, line)?;
        if let Some(kept) = self.compaction
            && fields.text("uuid").as_deref() == Some(self.survey.kept[kept].anchor.as_str())
        {
            self.compaction = None;
            return self.say_kept(out, self.survey.tree.branch(self.nodes - 1), kept);
        }
        Ok(())
    }

    fn record(&mut self, out: &mut Out<'_>, fields: &Fields<'_>, line: &str) -> Result<()> {
        let kind = match (fields.text("type"), fields.text("subtype")) {
            (Some(kind), Some(sub)) => format!("{kind}/{sub}"),
            (Some(kind), None) => kind.into_owned(),
            (None, _) => "other".into(),
        };
        let at = fields.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone));
        self.at = at.or(self.at);
        let mixed = self.survey.mixed;
        if mixed {
            self.cwd = fields.word("cwd").or(self.cwd.take());
        }
        let uuid = fields.text("uuid");
        let (branch, id) = match &uuid {
            Some(uuid) => {
                let branch = self.survey.tree.branch(self.nodes);
                self.nodes += 1;
                match self.id_of(uuid, line) {
                    Some(id) => (branch, id),
                    None => {
                        out.used("repeated");
                        return Ok(());
                    }
                }
            }
            None => {
                let branch = match fields.text("sessionId").filter(|_| mixed) {
                    Some(session) => self.survey.tree.base(&session),
                    None => self.survey.first_branch,
                };
                (branch, out.id_of(line))
            }
        };
        let session = self.session(out, branch)?;
        let base = self.survey.tree.branches()[branch].base;
        if branch != base {
            // The conversation before a fork is complete, and comes before the fork's own part.
            self.end_round(out, base)?;
        }
        let slot = Slot { session, id, at: self.at };
        let message = match kind.as_str() {
            "user" => spoken(fields, Role::User),
            "assistant" => spoken(fields, Role::Assistant),
            "attachment" => queued(fields),
            _ => None,
        };
        let Some(mut message) = message else {
            if kind == "system/compact_boundary" {
                return self.compacted(out, branch, slot, line, &kind);
            }
            return self.keep(out, branch, slot, kind, line);
        };
        let head = fields.object("message").unwrap_or_default();
        let source = source_of(fields, &head);
        if message.role != Role::Assistant {
            let words = words_beside(&mut message);
            push_source(&mut message, &[source]);
            let answers = message.role == Role::Tool;
            if kind == "attachment"
                && let Some(round) = &mut self.rounds[branch]
            {
                round.words.push((slot, message, 1));
                return Ok(());
            }
            if answers && let Some(round) = &mut self.rounds[branch] {
                let id = format!("{}:words", slot.id);
                let beside = Slot { session, id, at: slot.at };
                round.words.extend(words.map(|words| (beside, words, 0)));
                round.after.push((slot, After::Message(message)));
                return Ok(());
            }
            if let Some(words) = words {
                let id = format!("{}:words", slot.id);
                let beside = Slot { session, id, at: slot.at };
                self.end_round(out, branch)?;
                self.say(out, branch, slot, message, (1, self.nodes))?;
                return self.say(out, branch, beside, words, (0, self.nodes));
            }
            self.end_round(out, branch)?;
            return self.say(out, branch, slot, message, (1, self.nodes));
        }
        message.model = head.word("model").map(|model| format!("anthropic/{model}"));
        message.usage = head.object("usage").and_then(|usage| usage_of(&usage));
        let group = head.word("id").unwrap_or_default();
        if let Some(round) =
            self.rounds[branch].as_mut().filter(|r| !group.is_empty() && r.group == group)
        {
            round.message.content.append(&mut message.content);
            round.message.usage = larger(round.message.usage, message.usage);
            round.sources.push(source);
            round.records += 1;
            return Ok(());
        }
        self.end_round(out, branch)?;
        let (sources, records, after, words) = (vec![source], 1, Vec::new(), Vec::new());
        self.rounds[branch] =
            Some(Round { group, node: self.nodes, slot, message, sources, records, after, words });
        Ok(())
    }

    /// The id of a record. If another record has the same id, the second gets a number; `None` if
    /// the same record appears again.
    fn id_of(&mut self, uuid: &str, line: &str) -> Option<String> {
        if !self.survey.tree.is_repeated(uuid) {
            return Some(uuid.to_owned());
        }
        let mark = hash(line);
        let seen = self.seen.entry(uuid.to_owned()).or_default();
        if seen.contains(&mark) {
            return None;
        }
        seen.push(mark);
        match seen.len() {
            1 => Some(uuid.to_owned()),
            count => Some(format!("{uuid}.{count}")),
        }
    }

    /// The session of a branch, found when its first record is read.
    fn session(&mut self, out: &mut Out<'_>, branch: usize) -> Result<usize> {
        if let Some(session) = self.sessions[branch] {
            return Ok(session);
        }
        let survey = &self.survey;
        let part = survey.tree.branches()[branch].clone();
        let main = part.session.clone().or_else(|| survey.session.clone());
        // A file that names no session is identified by its first record that has a name.
        let first = || survey.first.as_deref().map_or_else(|| "unnamed".into(), str::to_owned);
        let main = main.unwrap_or_else(first);
        let title = survey.title.clone().filter(|_| part.base == 0);
        let is_base = part.base == branch;
        let origin = survey.origin.clone().filter(|origin| *origin != main && branch == 0);
        let forked = origin.map(|identity| Link { identity, origin: Origin::Fork });
        let (identity, parent) = match (is_base, part.side) {
            (true, _) => (main, forked),
            (_, true) => {
                let link = Link { identity: main.clone(), origin: Origin::New };
                (format!("{main}/{}", part.name), Some(link))
            }
            (_, false) => {
                let link = Link { identity: main.clone(), origin: Origin::Fork };
                (format!("{main}/{}", part.name), Some(link))
            }
        };
        let begun = survey.begun.as_deref().and_then(|text| time::read(text, &out.options.zone));
        let session = out.session(FoundSession {
            identity,
            name: title.clone().filter(|_| branch == 0),
            profile: Profile {
                description: title.or_else(|| survey.description()),
                agent: Some("claude-code".into()),
                provider: Some("anthropic".into()),
                model: survey.model.clone(),
                workspace: self.cwd.clone().or_else(|| survey.workspace.clone()),
                ..Profile::default()
            },
            created_at: if branch == 0 && !survey.mixed {
                begun.or(self.at)
            } else {
                self.at.or(begun)
            },
            parent,
            ..FoundSession::default()
        })?;
        self.sessions[branch] = Some(session);
        // Forks are reported together with their session, so that they get a copy of what came
        // before them.
        if is_base {
            for fork in self.copied.clone() {
                if self.survey.tree.branches()[fork].base == branch {
                    self.session(out, fork)?;
                }
            }
        }
        Ok(session)
    }

    /// Forks that get a copy of what came before the point where they branch off.
    fn copied_forks(&self) -> Vec<usize> {
        let branches = self.survey.tree.branches().iter().enumerate().skip(1);
        let forks = branches.filter(|(_, b)| !b.side && b.replied && b.at.is_some());
        let mut copied = 0;
        let forks = forks.take_while(|(_, branch)| {
            copied += branch.at.unwrap_or(0) + 1;
            copied <= RECORDS_COPIED_MAX
        });
        forks.map(|(index, _)| index).collect()
    }

    /// Emits a message, and a copy to each fork that branches off later.
    fn say(
        &mut self,
        out: &mut Out<'_>,
        branch: usize,
        slot: Slot,
        message: Message,
        (records, node): (u64, usize),
    ) -> Result<()> {
        let kind = if message.role == Role::Assistant { "assistant" } else { "user" };
        let record = hash(slot.id.split(':').next().unwrap_or_default());
        if self.survey.kept.iter().any(|kept| kept.ids.contains(&record)) {
            let message = Message { usage: None, ..message.clone() };
            self.held.push((branch, slot.id.clone(), message));
        }
        self.copy(out, (branch, node), &slot, Body::Message(message.clone()))?;
        out.message(slot, message, kind, records)
    }

    fn copy(
        &self,
        out: &mut Out<'_>,
        (branch, node): (usize, usize),
        slot: &Slot,
        body: Body,
    ) -> Result<()> {
        for &fork in &self.copied {
            let part = &self.survey.tree.branches()[fork];
            if part.base != branch {
                continue;
            }
            let leaves = part.at.unwrap_or(0);
            if let (true, Some(session)) = (node <= leaves + 1, self.sessions[fork]) {
                let slot = Slot { session, id: slot.id.clone(), at: slot.at };
                out.entry(slot, body.clone())?;
            }
        }
        Ok(())
    }

    fn keep(
        &mut self,
        out: &mut Out<'_>,
        branch: usize,
        slot: Slot,
        kind: String,
        line: &str,
    ) -> Result<()> {
        match &mut self.rounds[branch] {
            // It happened before the reply was complete, and is placed after it.
            Some(round) => {
                round.after.push((slot, After::Raw { kind, text: line.to_owned() }));
                Ok(())
            }
            None => out.raw(slot, &kind, line),
        }
    }

    /// The context starts again; what it starts from follows as a message.
    fn compacted(
        &mut self,
        out: &mut Out<'_>,
        branch: usize,
        slot: Slot,
        line: &str,
        kind: &str,
    ) -> Result<()> {
        self.end_round(out, branch)?;
        let mark = Slot { session: slot.session, id: format!("{}:clear", slot.id), at: slot.at };
        let boundary = slot.id.clone();
        out.raw(slot, kind, line)?;
        self.copy(out, (branch, self.nodes), &mark, Body::Cleared { before: None })?;
        out.entry(mark, Body::Cleared { before: None })?;
        let kept = self.survey.kept.iter().position(|kept| kept.boundary == boundary);
        let Some(kept) = kept else { return Ok(()) };
        let anchor = &self.survey.kept[kept].anchor;
        match *anchor != boundary && self.survey.tree.place(anchor).is_some() {
            true => self.compaction = Some(kept),
            false => self.say_kept(out, branch, kept)?,
        }
        Ok(())
    }

    /// Messages that a compaction preserved are repeated after it; their cost is counted once.
    fn say_kept(&mut self, out: &mut Out<'_>, branch: usize, kept: usize) -> Result<()> {
        self.end_round(out, branch)?;
        let (Some(session), Kept { boundary, ids, .. }) =
            (self.sessions[branch], &self.survey.kept[kept])
        else {
            return Ok(());
        };
        let is_kept = |id: &str| ids.contains(&hash(id.split(':').next().unwrap_or_default()));
        let own = self.held.iter().filter(|(of, id, _)| *of == branch && is_kept(id));
        for (_, id, message) in own {
            let slot = Slot { session, id: format!("{boundary}:{id}"), at: self.at };
            let body = Body::Message(message.clone());
            self.copy(out, (branch, self.nodes), &slot, body.clone())?;
            out.entry(slot, body)?;
        }
        Ok(())
    }

    fn end_round(&mut self, out: &mut Out<'_>, branch: usize) -> Result<()> {
        let Some(mut round) = self.rounds[branch].take() else { return Ok(()) };
        push_source(&mut round.message, &round.sources);
        round.message.usage = self.not_counted(&round.group, round.message.usage);
        let node = round.node;
        self.say(out, branch, round.slot, round.message, (round.records, node))?;
        for (slot, after) in round.after {
            match after {
                After::Message(message) => self.say(out, branch, slot, message, (1, node))?,
                After::Raw { kind, text } => out.raw(slot, &kind, &text)?,
            }
        }
        for (slot, words, records) in round.words {
            self.say(out, branch, slot, words, (records, node))?;
        }
        Ok(())
    }

    /// The part of a reply's cost that was not counted before: a reply may appear in several
    /// places.
    fn not_counted(&mut self, group: &str, usage: Option<Usage>) -> Option<Usage> {
        let usage = usage?;
        if !self.survey.tree.is_split(group) {
            return Some(usage);
        }
        let before = self.counted.entry(hash(group)).or_default();
        let all = larger(Some(*before), Some(usage)).unwrap_or(usage);
        let new = Usage {
            input: all.input - before.input,
            output: all.output - before.output,
            cache_read: all.cache_read - before.cache_read,
            cache_write: all.cache_write - before.cache_write,
        };
        *before = all;
        Some(new)
    }

    fn finish(&mut self, out: &mut Out<'_>) -> Result<()> {
        for branch in 0..self.rounds.len() {
            self.end_round(out, branch)?;
        }
        if let (Some(about), Some(session)) =
            (&self.survey.about, self.sessions.iter().flatten().next())
        {
            out.records(1);
            let id = format!("about:{}", fingerprint(&[about]));
            out.raw(Slot { session: *session, id, at: self.at }, "meta", about)?;
        }
        let branches = self.survey.tree.branches().iter().enumerate();
        let (own, forks): (Vec<_>, Vec<_>) =
            branches.skip(1).partition(|(index, branch)| branch.base == *index);
        if !own.is_empty() {
            out.note(format!("{} unrelated sessions in one file", own.len() + 1));
        }
        let forks = forks.into_iter().map(|(_, branch)| branch);
        let (sides, forks): (Vec<_>, Vec<_>) = forks.partition(|branch| branch.side);
        if !forks.is_empty() {
            out.note(format!("{} abandoned by going back, kept as forks", forks.len()));
            let replied = forks.iter().filter(|fork| fork.replied && fork.at.is_some()).count();
            if replied > self.copied.len() {
                let bare = replied - self.copied.len();
                out.note(format!("{bare} of them contain only what came after going back"));
            }
        }
        if !sides.is_empty() {
            let s = if sides.len() == 1 { "" } else { "s" };
            out.note(format!("{} subagent session{s}, kept separately", sides.len()));
        }
        Ok(())
    }
}

/// The message of a record, if it has one that can be parsed.
fn spoken(fields: &Fields<'_>, role: Role) -> Option<Message> {
    let message = fields.object("message")?;
    said(role, message.get("content").unwrap_or("null")).ok()
}

/// What the user typed while the model was working: it is delivered as an attachment.
fn queued(fields: &Fields<'_>) -> Option<Message> {
    let attachment = fields.object("attachment")?;
    let is_typed = attachment.text("type").as_deref() == Some("queued_command")
        && matches!(attachment.text("commandMode").as_deref(), None | Some("prompt"));
    let message = said(Role::User, attachment.get("prompt").filter(|_| is_typed)?).ok()?;
    let text = message.plain_text();
    (!text.trim_start().starts_with("<task-notification>")).then_some(message)
}

/// Separates the user's text from tool results: it opens the next turn, and other results may
/// follow.
fn words_beside(message: &mut Message) -> Option<Message> {
    if message.role != Role::User || message.results().next().is_none() {
        return None;
    }
    let is_answer = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    let (answers, words) = std::mem::take(&mut message.content).into_iter().partition(is_answer);
    message.content = answers;
    message.role = Role::Tool;
    Some(Message::new(Role::User, words))
}

/// The fields around a message: those of the record and of the message itself.
fn source_of(fields: &Fields<'_>, head: &Fields<'_>) -> String {
    let around = fields.without(&["message"]);
    let inner = head.without(&["content"]);
    match around.strip_suffix('}') {
        Some("{") => format!("{{\"message\":{inner}}}"),
        Some(around) => format!("{around},\"message\":{inner}}}"),
        None => around,
    }
}

fn push_source(message: &mut Message, sources: &[String]) {
    let text = match sources {
        [one] => one.clone(),
        many => format!("[{}]", many.join(",")),
    };
    if let Ok(raw) = Raw::parse(text) {
        message.extra.push(("source".into(), raw));
    }
}

/// The larger of two counts of one reply: the last line has the complete one.
fn larger(one: Option<Usage>, two: Option<Usage>) -> Option<Usage> {
    let (Some(one), Some(two)) = (one, two) else { return one.or(two) };
    Some(Usage {
        input: one.input.max(two.input),
        output: one.output.max(two.output),
        cache_read: one.cache_read.max(two.cache_read),
        cache_write: one.cache_write.max(two.cache_write),
    })
}
