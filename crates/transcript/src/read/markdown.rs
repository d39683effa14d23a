//! Parses a Markdown transcript.
//!
//! The file may be ours, or written by any version of another program: there may be blank lines
//! between fields; ids, paths, token counts and the summary may be missing; times are local and
//! have no zone; and a reply may contain lines that look like structure. So the parser relies on as
//! little as possible: the title, the headings of the turns, and the labels of the speakers. For
//! any input it returns what is there, or an error that says what is missing.

use jiff::civil::{DateTime, Time};
use rethread_core::summary::{END, START};

use super::section::{Section, footer_of, spoken};
use crate::fences::fenced;
use crate::markdown_marks::{
    self as marks, BUILT_IN, CLEARED, Heading, MISSING, RULE, UNDONE, YOU,
};
use crate::numbers;

/// What a transcript says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct ParsedTranscript {
    /// Its first line, without the `#`.
    pub title: String,
    /// What the session calls itself: a UUID, or another program's id.
    pub id: Option<String>,
    /// When it was started, or last saved, by the clock of the program that wrote it.
    pub date: Option<DateTime>,
    /// The agent's name; taken from the title if no field gives it.
    pub agent: String,
    /// The agent's file; none if the agent is built in.
    pub agent_path: Option<String>,
    /// How many turns it says it has. `turns` has those that were found.
    pub queries: Option<u64>,
    /// The session it continues.
    pub resumed_from: Option<String>,
    /// The transcript of the session it continues.
    pub previous_session: Option<String>,
    /// How it was continued.
    pub restored: Option<RestoredFrom>,
    /// The turns, in order.
    pub turns: Vec<TranscriptTurn>,
    pub summary: TranscriptSummary,
    /// Tokens of all turns that count them; the restoration is not among them.
    pub tokens: u64,
    /// Text that belongs to none of these: around the summary, or half of one.
    pub rest: Vec<String>,
}

/// The summary of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TranscriptSummary {
    /// It has one: the text between the markers.
    Text(String),
    /// It has no markers.
    Nothing,
    /// It has markers, but no pair with text between them.
    Broken,
}

impl TranscriptSummary {
    /// The summary, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            TranscriptSummary::Text(text) => Some(text),
            TranscriptSummary::Nothing | TranscriptSummary::Broken => None,
        }
    }
}

/// How a session was continued from an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct RestoredFrom {
    /// At what time of the day.
    pub at: Option<Time>,
    /// The session it continues.
    pub from: Option<String>,
    /// Turns of that session.
    pub queries: Option<u64>,
    /// Tokens of that session; `2.3K` reads as 2,300.
    pub tokens: Option<u64>,
    /// The transcript of that session.
    pub previous_session: Option<String>,
    /// What the agent answered.
    pub acknowledgment: String,
    pub cost: Cost,
}

/// One turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct TranscriptTurn {
    /// At what time of the day it began.
    pub at: Option<Time>,
    /// What the user said.
    pub user: String,
    /// What the agent said, all its rounds together.
    pub assistant: String,
    /// The tools it called, as they are shown: `grep {"pattern":"x"} → success`.
    pub tools: Vec<String>,
    /// Whether the reply was stopped before its end.
    pub interrupted: bool,
    pub cost: Cost,
}

/// The cost of a turn, if the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The line as it is written; empty if there is none.
    pub line: String,
    /// Milliseconds.
    pub ms: Option<u64>,
    /// Tokens read and written.
    pub tokens: Option<u64>,
    /// Tokens read.
    pub tokens_in: Option<u64>,
    /// Tokens written.
    pub tokens_out: Option<u64>,
}

/// Why a text is not a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkdownError {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It does not begin as a transcript does.
    #[error("its first line is not `# … Conversation`")]
    NoTitle,
    /// Only the title is there.
    #[error(
        "it has no `**Session ID:**`, `**Date:**` or `**Agent:**` below its title, and no `## Query`"
    )]
    NoFields,
}

/// Parses a transcript.
///
/// # Errors
///
/// [`MarkdownError`] if the text is not a transcript. If it is truncated or damaged, what is there
/// is returned.
pub fn read(text: &str) -> Result<ParsedTranscript, MarkdownError> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|l| !l.trim().is_empty()).ok_or(MarkdownError::Empty)?;
    let title = lines[first].strip_prefix("# ").map(str::trim).ok_or(MarkdownError::NoTitle)?;
    let titled = title.strip_suffix("Conversation").ok_or(MarkdownError::NoTitle)?.trim();

    let (summary, ends, behind) = summary_of(&lines);
    let rest = words_in(&lines[behind..]);
    let lines = &lines[first + 1..ends.max(first + 1)];
    let sections: Vec<usize> = (0..lines.len()).filter(|at| is_heading(lines, *at)).collect();
    let head = &lines[..sections.first().copied().unwrap_or(lines.len())];
    let head = head.split(|line| line.trim_end() == RULE).next().unwrap_or_default();
    let field = |name: &str| field_in(head, name);

    let named = field("Agent");
    let is_named = named.is_some();
    let agent = named.unwrap_or_else(|| titled.to_owned());
    let known = ["Session ID", "Date", "Agent"].iter().any(|name| field(name).is_some());
    if !known && sections.is_empty() {
        return Err(MarkdownError::NoFields);
    }
    let mut parsed = ParsedTranscript {
        title: title.to_owned(),
        id: field("Session ID"),
        date: field("Date").and_then(|date| date.trim_end_matches('Z').parse().ok()),
        agent: marks::unescape_markers(&agent).into_owned(),
        agent_path: field("Agent Path").filter(|path| path != BUILT_IN),
        queries: field("Total Queries").and_then(|count| leading_count(&count)),
        resumed_from: field("Resumed From"),
        previous_session: field("Previous Session"),
        restored: None,
        turns: Vec::new(),
        summary,
        tokens: 0,
        rest: Vec::new(),
    };
    if let TranscriptSummary::Text(text) = &mut parsed.summary {
        let label = marks::label(&agent);
        let lines: Vec<_> = text.lines().map(|l| marks::unescape_line(l, &label)).collect();
        *text = lines.join("\n");
    }
    let sections = not_fenced(lines, sections, parsed.queries);
    let sections = not_quoted(lines, sections, parsed.queries);
    for (index, &start) in sections.iter().enumerate() {
        let end = sections.get(index + 1).copied().unwrap_or(lines.len());
        let section = Section { lines: &lines[start + 1..end], agent: &agent, is_named };
        parsed.rest.extend(after_footer(section.lines));
        match marks::heading(lines[start]) {
            Some(Heading::Query(time)) => parsed.turns.push(turn_of(&section, time)),
            Some(Heading::Restored(time)) => parsed.restored = Some(restored_of(&section, time)),
            None => {}
        }
    }
    if let Some(restored) = &parsed.restored {
        parsed.resumed_from = parsed.resumed_from.or_else(|| restored.from.clone());
        parsed.previous_session =
            parsed.previous_session.or_else(|| restored.previous_session.clone());
    }
    let counted = parsed.turns.iter().filter_map(|turn| turn.cost.tokens);
    parsed.tokens = counted.fold(0, u64::saturating_add);
    parsed.rest.extend(rest);
    Ok(parsed)
}

/// Whether a turn or a restoration begins at a line. The heading of a turn is followed by the
/// user's text; a line that only looks like a heading is part of an answer.
fn is_heading(lines: &[&str], at: usize) -> bool {
    let next = || lines[at + 1..].iter().find(|line| !line.trim().is_empty());
    match marks::heading(lines[at]) {
        Some(Heading::Query(_)) => next().is_none_or(|line| line.starts_with(YOU)),
        Some(Heading::Restored(_)) => true,
        None => false,
    }
}

/// The headings without those in code fences. A reply may open a fence and never close it, and the
/// next reply would seem to close it. So if the headings, with those in fences, are numbered
/// consecutively, or there are as many as the file says, all of them are kept.
fn not_fenced(lines: &[&str], sections: Vec<usize>, queries: Option<u64>) -> Vec<usize> {
    let quoted = fenced(lines);
    if !sections.iter().any(|at| quoted[*at]) {
        return sections;
    }
    let fits = |sections: &[usize]| {
        let numbers = sections.iter().filter_map(|at| marks::query_number(lines[*at]));
        let numbers: Vec<u64> = numbers.collect();
        let counts_on = numbers.windows(2).all(|two| two[0].checked_add(1) == Some(two[1]));
        counts_on && queries.is_none_or(|queries| queries == numbers.len() as u64)
    };
    let outside: Vec<usize> = sections.iter().copied().filter(|at| !quoted[*at]).collect();
    if fits(&sections) && !fits(&outside) { sections } else { outside }
}

/// The headings without those of a transcript quoted in an answer: if there are more turns than the
/// file says, and the consecutively numbered ones are as many as it says, the others are quoted.
fn not_quoted(lines: &[&str], sections: Vec<usize>, queries: Option<u64>) -> Vec<usize> {
    let number = |at: usize| marks::query_number(lines[at]);
    let turns = sections.iter().filter(|at| number(**at).is_some()).count() as u64;
    if queries.is_none_or(|queries| queries >= turns) {
        return sections;
    }
    let mut last = None;
    let mut restored = false;
    let mut counted = 0;
    let mut kept = Vec::new();
    for &at in &sections {
        match number(at) {
            Some(number) if last.is_none_or(|last| number == last + 1) => {
                last = Some(number);
                counted += 1;
                kept.push(at);
            }
            None if !restored && last.is_none() => {
                restored = true;
                kept.push(at);
            }
            _ => {}
        }
    }
    if Some(counted) == queries { kept } else { sections }
}

/// What comes after the cost line of a turn: text around a summary, for example.
fn after_footer(lines: &[&str]) -> Option<String> {
    let (body, _) = footer_of(lines);
    let footer = body.len();
    let has_footer = lines.get(footer).is_some_and(|line| line.starts_with('*'));
    words_in(lines.get(footer + usize::from(has_footer)..)?)
}

/// The lines as text, without rules and marks around them; `None` if nothing is left.
fn words_in(lines: &[&str]) -> Option<String> {
    let is_mark = |line: &&str| {
        let line = line.trim_end();
        line == RULE || [CLEARED, UNDONE, MISSING].iter().any(|mark| line.starts_with(mark))
    };
    let words: Vec<&str> = lines.iter().copied().filter(|line| !is_mark(line)).collect();
    Some(words.join("\n").trim().to_owned()).filter(|words| !words.is_empty())
}

/// The summary, the line at which the conversation ends, and the line at which other text begins.
///
/// A conversation may quote the markers. So only what comes after the heading of the last turn
/// counts, a marker must be at the start or the end of its line, and the last pair wins.
fn summary_of(lines: &[&str]) -> (TranscriptSummary, usize, usize) {
    let quoted = fenced(lines);
    let from = (0..lines.len()).rfind(|at| !quoted[*at] && is_heading(lines, *at)).unwrap_or(0);
    let quoted = fenced(&lines[from..]);
    let last = |until: usize, quotes: bool, is_mark: &dyn Fn(&str) -> bool| {
        (from..until).rfind(|at| (quotes || !quoted[*at - from]) && is_mark(lines[*at]))
    };
    let pair = |quotes: bool| {
        let close = last(lines.len(), quotes, &|line| line.trim_end().ends_with(END));
        let until = close.map_or(lines.len(), |close| close + 1);
        (last(until, quotes, &|line| line.trim_start().starts_with(START)), close)
    };
    let (mut open, mut close) = pair(false);
    if open.is_some() != close.is_some() {
        // A fence that was never closed may seem to be closed by one in the summary.
        (open, close) = pair(true);
    }
    let all = lines.len();
    match (open, close) {
        (Some(open), Some(close)) => {
            let block = lines[open..=close].join("\n");
            let inner = block.trim().strip_prefix(START).and_then(|rest| rest.strip_suffix(END));
            match inner.map(str::trim) {
                Some(text) if !text.is_empty() => {
                    (TranscriptSummary::Text(text.to_owned()), open, close + 1)
                }
                _ => (TranscriptSummary::Broken, open, close + 1),
            }
        }
        // Half a summary after a rule was truncated; anywhere else it is a quotation and stays part
        // of the reply.
        (Some(open), None) => {
            let before = lines[from..open].iter().rev().find(|line| !line.trim().is_empty());
            let behind_rule = before.is_some_and(|line| line.trim_end() == RULE);
            let ends = if behind_rule { open } else { all };
            (TranscriptSummary::Broken, ends, ends)
        }
        (None, Some(_)) => (TranscriptSummary::Broken, all, all),
        (None, None) => (TranscriptSummary::Nothing, all, all),
    }
}

/// The value of a field such as `**Date:** …`; none when it is empty.
fn field_in(lines: &[&str], name: &str) -> Option<String> {
    let label = format!("**{name}:**");
    let value = lines.iter().find_map(|line| line.trim_start().strip_prefix(label.as_str()))?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The count a text begins with: `3 (user queries only)`.
fn leading_count(text: &str) -> Option<u64> {
    numbers::parse(text.split_whitespace().next()?.trim_end_matches([',', ';']))
}

fn time_of(text: &str) -> Option<Time> {
    text.trim().parse().ok()
}

fn turn_of(section: &Section<'_>, time: &str) -> TranscriptTurn {
    let (body, cost) = footer_of(section.lines);
    let asked = body.iter().position(|line| line.starts_with(YOU));
    let after = asked.map_or(0, |at| at + 1);
    let replied = section.reply_in(body, after);
    let user = asked.map(|at| spoken(&body[at..replied.unwrap_or(body.len())], YOU, section.agent));
    let reply = replied.map(|at| section.spoken_from(&body[at..])).unwrap_or_default();
    TranscriptTurn {
        at: time_of(time),
        user: user.map(|spoken| spoken.text).unwrap_or_default(),
        assistant: reply.text,
        tools: reply.tools,
        interrupted: reply.interrupted,
        cost,
    }
}

fn restored_of(section: &Section<'_>, time: &str) -> RestoredFrom {
    let (body, cost) = footer_of(section.lines);
    // An agent may be called `Context`, so the fields above the reply are skipped first.
    let is_field = |line: &&&str| {
        ["**Context:**", "**Previous Session:**"].iter().any(|f| line.starts_with(f))
    };
    let above = body.iter().take_while(is_field).count();
    let replied = section.reply_in(body, above);
    let fields = &body[..replied.unwrap_or(body.len())];
    let context = field_in(fields, "Context").unwrap_or_default();
    let parsed = context.strip_prefix("Resumed from ").unwrap_or(&context);
    // The id may contain anything, but the size is last: `session_2 (5 queries, 2.3K tokens)`.
    let (from, size) = match parsed.rsplit_once(" (") {
        Some((from, size)) => (from, size.trim_end_matches(')')),
        None => (parsed, ""),
    };
    let mut sizes = size.split(", ");
    RestoredFrom {
        at: time_of(time),
        from: Some(from.trim().to_owned()).filter(|from| !from.is_empty()),
        queries: sizes.next().and_then(leading_count),
        tokens: sizes.next().and_then(leading_count),
        previous_session: field_in(fields, "Previous Session"),
        acknowledgment: replied.map(|at| section.spoken_from(&body[at..]).text).unwrap_or_default(),
        cost,
    }
}
