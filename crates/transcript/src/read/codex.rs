//! Codex's rollout files.
//!
//! Everything appears twice, as `response_item` and as `event_msg`; the first is used and the
//! second kept, unless only the second exists. Turns that the user undid become forks. Token counts
//! are cumulative. A file may have several `session_meta` records (the first is its own), or begin
//! in the middle. Some compactions happened at the provider and are encrypted: they are kept and
//! reported.

use std::path::Path;

use rethread_core::Message;
use rethread_core::Profile;
use rethread_core::entry::{Body, Origin};
use rethread_core::message::Usage;

use super::codex_events;
use super::codex_survey::{Source, Survey};
use super::fields::Fields;
use super::output::{Out, Slot, fingerprint};
use super::responses::Items;
use super::sink::{FoundSession, Link};
use super::{Result, time};

/// How a message begins that a program wrote in the user's name.
pub(super) const INJECTED: [&str; 6] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<skills_instructions>",
];

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let survey = Survey::of(path)?;
    let prefix = if survey.source == Source::Items { "response_item/" } else { "event_msg/" };
    let items = Items::new(prefix, Some(is_injected));
    let lines = survey.lines;
    let mut reader = Reader { stem: stem(path), items, survey, ..Reader::default() };
    out.first_lines(path, lines, |out, number, line| reader.line(out, number, line))?;
    reader.items.end(out)?;
    reader.report(out);
    // The last count is the source's own total.
    out.account.tokens = reader.total;
    if reader.sealed > 0 {
        out.note(format!(
            "{}: kept, but unreadable",
            plural(reader.sealed, "encrypted compaction")
        ));
    }
    if reader.metas > 1 {
        out.note(format!(
            "{} session_meta records; the first identifies the session",
            reader.metas
        ));
    }
    if reader.metas == 0 {
        out.note("no session_meta: the file begins in the middle");
    }
    Ok(())
}

/// Where a session came from: the session it was forked from, or the one that started a subagent.
fn parent(meta: &Fields<'_>) -> Option<Link> {
    if let Some(identity) = meta.word("forked_from_id") {
        return Some(Link { identity, origin: Origin::Fork });
    }
    let source = meta.object("source").and_then(|source| source.object("subagent"));
    let spawn = source.and_then(|helper| helper.object("thread_spawn"));
    let sender = spawn.and_then(|spawn| spawn.word("parent_thread_id"));
    let sender = sender.or_else(|| meta.word("parent_thread_id"));
    sender.map(|identity| Link { identity, origin: Origin::New })
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
    at: Option<jiff::Timestamp>,
    total: Usage,
    metas: u64,
    sealed: u64,
    items: Items,
    survey: Survey,
    /// The sessions of undone turns, and how many of them have branched off.
    forks: Vec<usize>,
    left: usize,
    bare: usize,
    /// The fork that the previous line belongs to.
    fork: Option<usize>,
}

impl Reader {
    fn line(&mut self, out: &mut Out<'_>, number: u64, line: &str) -> Result<()> {
        let Some(fields) = out.fields(number, line) else { return Ok(()) };
        let at = fields.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone));
        self.at = at.or(self.at);
        let outer = fields.word("type").unwrap_or_else(|| "other".into());
        // In the oldest rollouts, the lines are the items themselves, after a line of metadata.
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
        self.begin(out, &payload, line, first)?;
        let session = self.place(out, number)?;
        let id = out.id_of(line);
        let slot = Slot { session, id, at: self.at };
        match outer.as_str() {
            "turn_context" => {
                if let Some(model) = payload.word("model") {
                    let provider = self.provider.as_deref().unwrap_or("openai");
                    self.items.model = Some(format!("{provider}/{model}"));
                }
                self.items.keep(out, slot, kind, line)
            }
            "response_item" => {
                let sealed = ["compaction", "compaction_summary", "context_compaction"];
                let inner = inner.as_deref().unwrap_or_default();
                self.sealed += u64::from(
                    sealed.contains(&inner) && payload.get("encrypted_content").is_some(),
                );
                self.items.take(out, slot, &payload, kind, line)
            }
            _ if bare && !first => self.items.take(out, slot, &payload, kind, line),
            "compacted" => self.compacted(out, slot, &payload, kind, line),
            "event_msg" if inner.as_deref() == Some("token_count") => {
                self.count(out, &payload);
                self.items.keep(out, slot, kind, line)
            }
            "event_msg" => match codex_events::items(&payload, self.survey.source) {
                items if items.is_empty() => self.items.keep(out, slot, kind, line),
                items => self.event(out, slot, &items, kind, line),
            },
            _ => self.items.keep(out, slot, kind, line),
        }
    }

    /// An event that contains what is otherwise in items.
    fn event(
        &mut self,
        out: &mut Out<'_>,
        slot: Slot,
        items: &[String],
        kind: String,
        line: &str,
    ) -> Result<()> {
        for (index, item) in items.iter().enumerate() {
            let fields = Fields::of(item).unwrap_or_default();
            let (session, at) = (slot.session, slot.at);
            let id = if index == 0 { slot.id.clone() } else { format!("{}:{index}", slot.id) };
            // A call and its result are one event.
            out.records(u64::from(index > 0));
            self.items.take(out, Slot { session, id, at }, &fields, kind.clone(), line)?;
        }
        Ok(())
    }

    /// The session a line belongs to.
    fn place(&mut self, out: &mut Out<'_>, number: u64) -> Result<usize> {
        let main = self.session.unwrap_or_default();
        let fork = self.survey.fork(number);
        if fork != self.fork {
            self.items.end(out)?;
            self.fork = fork;
        }
        let starts = self.survey.forks();
        for (session, start) in self.forks.iter().zip(starts) {
            if start.line == number {
                self.left += 1;
                self.bare += usize::from(!out.leave(*session));
            }
        }
        Ok(fork.and_then(|fork| self.forks.get(fork).copied()).unwrap_or(main))
    }

    fn report(&self, out: &mut Out<'_>) {
        match self.survey.source {
            Source::Items => {}
            _ => out.note("it has no API items: the messages are taken from the events"),
        }
        if !self.forks.is_empty() {
            out.note(format!("{} abandoned by going back, kept as forks", self.forks.len()));
        }
        if self.bare > 0 {
            out.note(format!("{} of them contain only what came after going back", self.bare));
        }
    }

    fn begin(
        &mut self,
        out: &mut Out<'_>,
        payload: &Fields<'_>,
        line: &str,
        is_meta: bool,
    ) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        let meta = if is_meta { Some(payload) } else { None };
        let given = meta.and_then(|meta| meta.word("id"));
        let begun = meta.and_then(|meta| meta.get("timestamp"));
        let begun = begun.and_then(|raw| time::of_json(raw, &out.options.zone));
        let provider = meta.and_then(|meta| meta.word("model_provider"));
        let provider = provider.unwrap_or_else(|| "openai".into());
        self.provider = Some(provider.clone());
        let identity = given.or(self.stem.clone()).unwrap_or_else(|| fingerprint(&[line]));
        let found = FoundSession {
            identity: identity.clone(),
            profile: Profile {
                agent: Some("codex".into()),
                provider: Some(provider),
                workspace: meta.and_then(|meta| meta.word("cwd")),
                ..Profile::default()
            },
            created_at: begun.or(self.at),
            parent: meta.and_then(parent),
            ..FoundSession::default()
        };
        let main = out.session(found.clone())?;
        self.session = Some(main);
        for start in self.survey.forks() {
            let parent = Some(Link { identity: identity.clone(), origin: Origin::Fork });
            let formerly = vec![format!("{identity}/back:{}", start.line)];
            let identity = format!("{identity}/{:016x}", start.mark);
            let fork = out.session(FoundSession { identity, parent, formerly, ..found.clone() })?;
            out.mirror(main, fork);
            self.forks.push(fork);
        }
        Ok(())
    }

    /// Counts are cumulative; the difference belongs to the reply before.
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
            // The user went back, and so did the count: it leaves out the undone turns.
            (false, Some(last)) => {
                out.note(format!(
                    "the token count dropped from {} to {}; it leaves out turns that were undone",
                    before.total(),
                    total.total()
                ));
                counted(&last)
            }
            (false, None) => total,
        };
        self.items.cost(new);
    }

    fn compacted(
        &mut self,
        out: &mut Out<'_>,
        slot: Slot,
        payload: &Fields<'_>,
        kind: String,
        line: &str,
    ) -> Result<()> {
        self.items.end(out)?;
        let summary = payload.word("message");
        let history = payload.list("replacement_history").unwrap_or_default();
        let (session, id, at) = (slot.session, slot.id.clone(), slot.at);
        out.raw(slot, &kind, line)?;
        let mark = |what: &str| Slot { session, id: format!("{id}:{what}"), at };
        if history.is_empty() && summary.is_none() {
            self.sealed += 1;
            return Ok(());
        }
        out.entry(mark("clear"), Body::Cleared { before: None })?;
        if let (true, Some(summary)) = (history.is_empty(), summary) {
            return out.entry(mark("summary"), Body::Message(Message::user(summary)));
        }
        // What the model knows from now on: the messages that were preserved, and a summary of the
        // rest.
        let mut again = self.items.again();
        for (index, item) in history.into_iter().enumerate() {
            let fields = Fields::of(item).unwrap_or_default();
            self.sealed += u64::from(fields.get("encrypted_content").is_some_and(|_| {
                fields.text("type").is_some_and(|kind| kind.contains("compaction"))
            }));
            if fields.text("type").as_deref() == Some("message") {
                again.take(out, mark(&index.to_string()), &fields, String::new(), item)?;
            }
        }
        again.end(out)
    }
}

fn is_injected(message: &Message) -> bool {
    let text = message.plain_text();
    let text = text.trim_start();
    INJECTED.iter().any(|mark| text.starts_with(mark))
}

/// Tokens as Codex counts them: cached tokens are part of the input.
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
