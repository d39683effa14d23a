//! A conversation as readable text: who said what and when, each call on one line, its result
//! folded to a few.
//!
//! Only headings begin at the margin. All text of people, models and tools is cleaned and indented,
//! so that none of it can be mistaken for a heading or control the terminal.

use std::io::IsTerminal;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_agent::FileChanged;
use rethread_core::entry::Thinned;
use rethread_core::message::{Call, ToolResult};
use rethread_core::sessions::LOST;
use rethread_core::{BlockKind, Body, Entry, Message, Role, Session, SessionId, SessionKind};
use rethread_render::Document;
use rethread_render::terminal::{self, Style, line_width, wrap_line};
use serde_json::{Map, Value};

use crate::chat::{arguments, edits, tool_line};
use crate::out::{clean, columns, count, cut, fit, one_line, plural};

/// Lines of a tool's result that are shown.
const RESULT_LINES: usize = 5;

/// Lines of a summary that are shown.
const SUMMARY_LINES: usize = 3;

/// Columns between the positions of tabs, as in terminals.
const TAB_COLUMNS: usize = 8;

/// Columns of a line if there is no terminal.
const COLUMNS: usize = 200;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Results, summaries and instructions are folded.
    Folded,
    /// Everything, including thinking and other programs' entries.
    Full,
}

/// A conversation that is being printed.
pub(super) struct Conversation<'a> {
    session: &'a Session,
    detail: Detail,
    zone: TimeZone,
    /// How text is rendered, at a terminal.
    style: Option<Style>,
    /// The last speaker.
    speaker: Option<String>,
    /// The calls whose results come next, each as it is shown.
    calls: Vec<(String, String)>,
    /// The program that compacted the conversation here, if its summary comes next.
    summary_of: Option<&'static str>,
    /// The name of another session.
    label: &'a dyn Fn(SessionId) -> String,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        session: &'a Session,
        detail: Detail,
        label: &'a dyn Fn(SessionId) -> String,
    ) -> Conversation<'a> {
        let style = std::io::stdout()
            .is_terminal()
            .then(|| Style::detect(columns().saturating_sub(2), |name| std::env::var(name).ok()));
        Conversation {
            session,
            detail,
            zone: TimeZone::system(),
            style,
            speaker: None,
            calls: Vec::new(),
            summary_of: None,
            label,
        }
    }

    /// The session, on two lines.
    pub(super) fn heading(&self) -> String {
        let Session { header, tally, .. } = self.session;
        let title = self.session.title().unwrap_or_else(|| header.name.to_string());
        let mut facts = vec![plural(tally.messages, "message")];
        facts.extend(header.profile.workspace.as_deref().map(one_line));
        facts.extend(header.profile.agent.as_deref().map(|agent| {
            match header.profile.agent_path.as_deref() {
                Some(path) if !path.starts_with("builtin:") => {
                    format!("agent {} ({})", one_line(agent), one_line(path))
                }
                _ => format!("agent {}", one_line(agent)),
            }
        }));
        facts.push(self.date(header.created_at));
        // Another program's id for it is what people know it by.
        let theirs = header.imported.as_deref() == Some("files");
        let id = self.session.readable_id.as_deref().filter(|_| theirs);
        match id.filter(|id| *id != title) {
            Some(id) => facts.push(one_line(id)),
            None if self.session.shown_name() != title => {
                facts.push(self.session.selector().to_owned());
            }
            None => {}
        }
        let title = self.in_window(&clean(&title));
        format!("\x1b[1m{title}\x1b[0m\n\x1b[2m{}\x1b[0m\n", self.listed(&facts))
    }

    /// Facts one after the other, in as many lines as they need.
    fn listed(&self, facts: &[String]) -> String {
        let (mut lines, mut line) = (String::new(), String::new());
        for fact in facts {
            if line.is_empty() {
                line.clone_from(fact);
            } else if line_width(&line) + 3 + line_width(fact) <= self.width() {
                line += &format!(" · {fact}");
            } else {
                lines += &format!("{line} ·\n");
                line.clone_from(fact);
            }
        }
        lines + &line
    }

    /// The conversation begins with the summary of another program. What came before it is not
    /// shown.
    pub(super) fn begins_with_summary(
        &mut self,
        program: &'static str,
        messages: u64,
        all: &str,
    ) -> String {
        self.summary_of = Some(program);
        let come = if messages == 1 { "message comes" } else { "messages come" };
        let messages = count(messages);
        let note = format!("({messages} {come} before this summary: `{all}` shows them)");
        format!("\n\x1b[2m{}\x1b[0m\n", self.in_window(&note))
    }

    /// The lines of an entry; none if there is nothing to read.
    pub(super) fn entry(&mut self, entry: &Entry) -> String {
        if matches!(&entry.body, Body::Message(message) if message.results().next().is_some()) {
            return self.lines_of(entry);
        }
        // A call is shown with its result, or before what comes instead.
        let calls = std::mem::take(&mut self.calls);
        let lines = self.lines_of(entry);
        if lines.is_empty() && self.calls.is_empty() {
            self.calls = calls;
            return lines;
        }
        let before: String = calls.into_iter().map(|(_, lines)| lines).collect();
        before + &lines
    }

    /// The calls that have no result, and what was not shown of the others.
    pub(super) fn unanswered(&mut self) -> String {
        self.calls.drain(..).map(|(_, lines)| lines).collect()
    }

    fn lines_of(&mut self, entry: &Entry) -> String {
        let folded = self.detail == Detail::Folded;
        match &entry.body {
            Body::Message(message) => self.message(entry, message),
            Body::Cleared { .. } => match self.summary_of {
                Some(program) => {
                    self.aside(entry, &format!("the conversation was compacted in {program}"))
                }
                None => self.aside(entry, "the context was cleared"),
            },
            Body::Undone { .. } => self.aside(entry, "the clear was undone"),
            Body::LeftOut(left) => {
                let why = one_line(&left.why);
                self.aside(entry, &format!("the turn at {} is left out: {why}", left.turn))
            }
            // It is about what a model sees, not part of the conversation.
            Body::Thinned(_) | Body::Decided(_) if folded => String::new(),
            Body::Decided(decided) => {
                let through = decided.through;
                self.aside(entry, &format!("what the model sees of the results up to {through}"))
            }
            Body::Thinned(thinned) => {
                let Thinned { from, through, .. } = thinned;
                self.aside(
                    entry,
                    &format!("the model sees less of the results from {from} to {through}"),
                )
            }
            Body::RoundLimit(limit) => self.aside(entry, &one_line(&limit.notice())),
            Body::Summary(summary) => {
                let heading = self.says("Summary", entry.at);
                let limit = if folded { SUMMARY_LINES } else { usize::MAX };
                heading + &self.folded(&summary.text, 2, limit)
            }
            Body::Restored(restored) => {
                let heading = self.says("Continued from a summary", entry.at);
                heading + &self.folded(&restored.acknowledgment, 2, usize::MAX)
            }
            Body::Started(started) => match started.from {
                Some(from) => {
                    let (what, from) = (started.origin.as_str(), (self.label)(from));
                    self.aside(entry, &format!("{what}, from {from}"))
                }
                None => String::new(),
            },
            Body::Finished(_) => String::new(),
            Body::Unknown { kind, .. } if kind == LOST => {
                self.aside(entry, &format!("entry {} is damaged and cannot be read", entry.seq))
            }
            Body::Unknown { kind, .. } if compacted_by(kind).is_some() => {
                self.summary_of = compacted_by(kind);
                String::new()
            }
            Body::Unknown { kind, .. } => match FileChanged::of(&entry.body) {
                // The call that changed it was already shown.
                Some(FileChanged { call: Some(_), .. }) => String::new(),
                Some(FileChanged { path, .. }) => {
                    self.aside(entry, &format!("{} was restored", one_line(&path)))
                }
                None if folded => String::new(),
                None => self.aside(entry, &one_line(kind)),
            },
        }
    }

    fn message(&mut self, entry: &Entry, message: &Message) -> String {
        let speaker = match message.role {
            Role::System => "Instructions".to_owned(),
            Role::User => match self.summary_of.take() {
                Some(program) => format!("Summary of the earlier conversation (from {program})"),
                None => "You".to_owned(),
            },
            Role::Assistant => self.answers(),
            // A result belongs to the reply with its call.
            Role::Tool => {
                let speaker = self.speaker.clone().filter(|speaker| speaker != "You");
                speaker.unwrap_or_else(|| self.answers())
            }
        };
        let mut orphans = entry.measure.results.iter().map(|measure| measure.tool.is_none());
        let mut lines = String::new();
        for block in &message.content {
            // What is said after a call, and before its result, comes after the call.
            if matches!(block.kind, BlockKind::Text(_)) {
                lines += &self.unanswered();
            }
            lines += &match &block.kind {
                BlockKind::Text(text) if message.role == Role::System => self.instructions(text),
                BlockKind::Text(text) if message.role == Role::Assistant => self.rendered(text),
                BlockKind::Text(text) => self.folded(text, 2, usize::MAX),
                BlockKind::Prefix(text) => self.folded(text.trim_end(), 2, usize::MAX),
                BlockKind::ToolUse(call) => {
                    let shown = self.call(call);
                    self.calls.push((call.id.clone(), shown));
                    continue;
                }
                BlockKind::ToolResult(result) => {
                    let of = self.calls.iter().position(|(id, _)| *id == result.tool_use_id);
                    let call = of.map(|at| self.calls.remove(at).1).unwrap_or_default();
                    call + &self.result(result, orphans.next().unwrap_or_default())
                }
                BlockKind::Thinking(_) if self.detail == Detail::Folded => String::new(),
                BlockKind::Thinking(thinking) => {
                    format!(
                        "  \x1b[2m(thinking)\x1b[0m\n{}",
                        self.folded(&thinking.text, 4, usize::MAX)
                    )
                }
                _ => format!("  ({})\n", one_line(&block.type_name())),
            };
        }
        if message.interrupted {
            lines += "  (interrupted)\n";
        }
        match lines.is_empty() && self.calls.is_empty() {
            true => String::new(),
            false => self.says(&speaker, entry.at) + &lines,
        }
    }

    /// The agent of this session.
    fn answers(&self) -> String {
        let header = &self.session.header;
        let agent = header.profile.agent.as_deref();
        let source = header.source.as_deref().filter(|_| header.kind == SessionKind::Imported);
        agent.or(source).map_or_else(|| "Assistant".to_owned(), one_line)
    }

    /// A heading, if the speaker changes.
    fn says(&mut self, speaker: &str, at: Timestamp) -> String {
        // Each question has a heading; a reply and its calls share one.
        if self.speaker.as_deref() == Some(speaker) && speaker != "You" {
            return String::new();
        }
        self.speaker = Some(speaker.to_owned());
        let colour = if speaker == "You" { "\x1b[1;32m" } else { "\x1b[1;36m" };
        let said = format!("{colour}{speaker}\x1b[0m \x1b[2m· {}\x1b[0m", self.date(at));
        format!("\n{}\n", self.in_window(&said))
    }

    /// An entry that is not a message.
    fn aside(&mut self, entry: &Entry, what: &str) -> String {
        self.speaker = None;
        let aside = format!("({what} · {})", self.date(entry.at));
        format!("\n\x1b[2m{}\x1b[0m\n", self.in_window(&aside))
    }

    /// A line at the margin; at a terminal without splitting words.
    fn in_window(&self, line: &str) -> String {
        match self.style {
            Some(_) => wrap_line(line, self.width(), 0).join("\n"),
            None => line.to_owned(),
        }
    }

    fn date(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
    }

    fn instructions(&self, text: &str) -> String {
        match self.detail {
            Detail::Full => self.folded(text, 2, usize::MAX),
            Detail::Folded => {
                let size = format!(" ({} characters)", count(text.chars().count() as u64));
                let width = self.width().saturating_sub(2 + size.len());
                format!("  {}\x1b[2m{size}\x1b[0m\n", fit(text.lines().next().unwrap_or(""), width))
            }
        }
    }

    fn call(&self, call: &Call) -> String {
        let what = tool_line::what_within(call, usize::MAX);
        let is_terminal = self.style.is_some();
        let width = self.width().saturating_sub(4);
        if self.detail == Detail::Folded {
            let what = if is_terminal { cut(&what, width) } else { what };
            return format!("  \x1b[36m→\x1b[0m {what}\n");
        }
        let edits = edits(call);
        let (what, below) = if !edits.is_empty() {
            (what, edits)
        } else if says_all(&what, call) {
            (what, Vec::new())
        } else {
            (one_line(&call.name), arguments(call))
        };
        let what = if is_terminal { wrap_line(&what, width, 0).join("\n    ") } else { what };
        let mut lines = format!("  \x1b[36m→\x1b[0m {what}\n");
        if !below.is_empty() {
            lines += &self.folded(&below.join("\n"), 4, usize::MAX);
        }
        lines
    }

    fn result(&self, result: &ToolResult, orphan: bool) -> String {
        let mut lines = String::new();
        if orphan {
            lines += "    (answers no call)\n";
        }
        if result.is_error {
            lines += "    \x1b[31m✗ failed\x1b[0m\n";
        }
        let limit = if self.detail == Detail::Full { usize::MAX } else { RESULT_LINES };
        lines + &self.folded(result.text().trim_end(), 4, limit)
    }

    /// A model's text: rendered at a terminal, otherwise unchanged.
    fn rendered(&self, text: &str) -> String {
        let Some(style) = &self.style else { return self.folded(text, 2, usize::MAX) };
        let shown = terminal::render(&Document::parse(text), style);
        let shown = shown.trim_matches('\n');
        let indented = shown.lines().map(|line| match line {
            "" => "\n".to_owned(),
            line => format!("  {line}\n"),
        });
        indented.collect()
    }

    /// Lines of a text, indented; if there are more than `limit`, the first ones, and how many are
    /// missing.
    fn folded(&self, text: &str, indent: usize, limit: usize) -> String {
        let margin = " ".repeat(indent);
        let cleaned = clean(text);
        let all: Vec<&str> = cleaned.trim_end_matches('\n').split('\n').collect();
        let mut lines = String::new();
        // One more line takes no more room than a note that it is missing.
        let shown = if all.len() <= limit.saturating_add(1) { all.len() } else { limit };
        for line in &all[..shown] {
            let width = self.width().saturating_sub(indent);
            let parts = match (limit == usize::MAX, &self.style) {
                (false, _) => vec![fit_spaced(line, width)],
                (true, Some(_)) => wrap_line(line, width, 0),
                (true, None) => vec![(*line).to_owned()],
            };
            for part in parts {
                lines += match part.is_empty() {
                    true => "",
                    false => &margin,
                };
                lines += &part;
                lines.push('\n');
            }
        }
        if shown < all.len() {
            let more = plural((all.len() - shown) as u64, "more line");
            lines += &format!("{margin}\x1b[2m… {more}\x1b[0m\n");
        }
        lines
    }

    fn width(&self) -> usize {
        self.style.as_ref().map_or(COLUMNS, |style| style.width + 2)
    }
}

/// The program that compacted the conversation, by the kind of its entry. The summary it continued
/// from is the next message.
pub(super) fn compacted_by(kind: &str) -> Option<&'static str> {
    match kind {
        "imported/claude-code/system/compact_boundary" => Some("Claude Code"),
        "imported/pi/compaction" => Some("pi"),
        _ => None,
    }
}

/// Whether the line of a call has all of its input: there is one argument at most, and it is short.
fn says_all(what: &str, call: &Call) -> bool {
    let Ok(input) = serde_json::from_str::<Map<String, Value>>(call.input.get()) else {
        return false;
    };
    input.len() <= 1
        && input.values().all(|value| match value {
            Value::String(text) => what.contains(text.as_str()),
            other => what.contains(&other.to_string()),
        })
}

/// A line cut to a width, its columns kept. Tabs become spaces, fewer of them at its beginning.
fn fit_spaced(line: &str, columns: usize) -> String {
    let text = line.trim_start();
    let spaces = line[..line.len() - text.len()].replace('\t', "    ");
    let kept = spaces.len().min(columns / 2);
    let mut spaced = String::new();
    for part in text.split_inclusive('\t') {
        match part.strip_suffix('\t') {
            Some(cell) => {
                spaced += cell;
                spaced += &" ".repeat(TAB_COLUMNS - line_width(&spaced) % TAB_COLUMNS);
            }
            None => spaced += part,
        }
    }
    format!("{}{}", &spaces[..kept], cut(spaced.trim_end(), columns - kept)).trim_end().to_owned()
}
