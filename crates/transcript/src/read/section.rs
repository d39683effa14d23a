//! Parses one section of a Markdown transcript: the speakers, their text, and the cost.

use super::markdown::Cost;
use crate::fences::fenced;
use crate::markdown_marks::{self as marks, CLEARED, INTERRUPTED, MISSING, RULE, TOOL, UNDONE};
use crate::numbers;

/// Characters a name may have before `:**`, if the file does not name the agent. Longer bold text
/// is a sentence, not a name.
const NAME_CHARS_MAX: usize = 80;

/// Fields that appear where a reply could, and are not replies.
const FIELDS: [&str; 3] = ["**You:**", "**Context:**", "**Previous Session:**"];

/// The lines below a heading.
pub(super) struct Section<'a> {
    pub(super) lines: &'a [&'a str],
    /// The agent, as the header writes it.
    pub(super) agent: &'a str,
    /// Whether a field of the header names the agent. Only then is its label certain.
    pub(super) is_named: bool,
}

/// A speaker's text.
#[derive(Default)]
pub(super) struct Spoken {
    /// The words.
    pub(super) text: String,
    /// The tools that were called in between.
    pub(super) tools: Vec<String>,
    /// Whether the end is missing.
    pub(super) interrupted: bool,
}

impl Section<'_> {
    /// The line, from this one on, in which the agent begins to speak: the one with its label or,
    /// if the name is only guessed from the title, the first that begins with any name.
    pub(super) fn reply_in(&self, lines: &[&str], from: usize) -> Option<usize> {
        let label = marks::label(self.agent);
        let quoted = fenced(lines);
        let first = |is_label: &dyn Fn(&str) -> bool| {
            (from..lines.len()).find(|at| !quoted[*at] && is_label(lines[*at]))
        };
        let own = first(&|line| line.starts_with(&label));
        let other = || first(&|line| other_label(line).is_some());
        // A fence that was never closed may seem to be closed by one in the reply.
        let own = own.or_else(|| (from..lines.len()).find(|at| lines[*at].starts_with(&label)));
        own.or_else(|| if self.is_named { None } else { other() })
    }

    /// The agent's text in these lines, the first of which has its label.
    pub(super) fn spoken_from(&self, lines: &[&str]) -> Spoken {
        let label = marks::label(self.agent);
        let first = lines.first().copied().unwrap_or_default();
        match first.starts_with(&label) {
            true => spoken(lines, &label, self.agent),
            false => spoken(lines, other_label(first).unwrap_or_default(), self.agent),
        }
    }
}

/// The label `**Name:**` a line begins with.
fn other_label(line: &str) -> Option<&str> {
    let name = line.strip_prefix("**")?;
    let end = name.find(":**")?;
    let label = &line[..end + "**".len() + ":**".len()];
    let is_name = end > 0 && name[..end].chars().count() <= NAME_CHARS_MAX;
    (is_name && !name[..end].contains("**") && !FIELDS.contains(&label)).then_some(label)
}

/// The text in these lines, the first of which begins with `label`.
pub(super) fn spoken(lines: &[&str], label: &str, agent: &str) -> Spoken {
    let agent_label = marks::label(agent);
    let mut spoken = Spoken::default();
    let mut kept: Vec<String> = Vec::with_capacity(lines.len());
    let mut lines = lines.iter().copied();
    if let Some(first) = lines.next() {
        let first = first.strip_prefix(label).unwrap_or(first).trim_start();
        kept.push(marks::unescape_markers(first).into_owned());
    }
    let mut after_mark = false;
    for line in lines {
        let tool = line.strip_prefix(TOOL).and_then(|rest| rest.trim_end().strip_suffix('*'));
        let blank = line.trim().is_empty();
        if let Some(tool) = tool {
            spoken.tools.push(marks::unescape_markers(tool).into_owned());
            after_mark = true;
        } else if line.trim_end() == INTERRUPTED {
            spoken.interrupted = true;
            after_mark = true;
        } else if line.starts_with(MISSING) {
            after_mark = true;
        } else if !(after_mark && blank) {
            // The blank line below a tool call is removed with it, so that one is left between
            // texts.
            kept.push(marks::unescape_line(line, &agent_label).into_owned());
            after_mark = false;
        }
    }
    spoken.text = kept.join("\n").trim().to_owned();
    spoken
}

/// The lines above the last cost line, and the cost. If there is no such line, all but the rules
/// and notes at the end.
pub(super) fn footer_of<'a>(lines: &'a [&'a str]) -> (&'a [&'a str], Cost) {
    let quoted = fenced(lines);
    let footer = (0..lines.len()).rfind(|at| !quoted[*at] && marks::is_footer(lines[*at]));
    if let Some(at) = footer {
        return (&lines[..at], cost_of(lines[at]));
    }
    let is_end = |line: &&str| {
        let line = line.trim_end();
        let note = [CLEARED, UNDONE, MISSING].iter().any(|mark| line.starts_with(mark));
        line.is_empty() || line == RULE || note
    };
    let end = lines.iter().rposition(|line| !is_end(line)).map_or(0, |at| at + 1);
    (&lines[..end], Cost::default())
}

/// Parses `*Time: 3.2s | Tokens: 345 (in: 123, out: 222)*`, each part of it optional.
fn cost_of(line: &str) -> Cost {
    let mut cost = Cost { line: line.trim_end().to_owned(), ..Cost::default() };
    for part in line.trim().trim_matches('*').split('|').map(str::trim) {
        if let Some(time) = part.strip_prefix("Time:") {
            cost.ms = milliseconds(time.trim());
        } else if let Some(tokens) = part.strip_prefix("Tokens:") {
            let (total, parts) = tokens.split_once('(').unwrap_or((tokens, ""));
            for part in parts.trim_end_matches(')').split(", ") {
                if let Some(count) = part.trim().strip_prefix("in:") {
                    cost.tokens_in = numbers::parse(count.trim());
                } else if let Some(count) = part.trim().strip_prefix("out:") {
                    cost.tokens_out = numbers::parse(count.trim());
                }
            }
            let both = cost.tokens_in.zip(cost.tokens_out).map(|(a, b)| a.saturating_add(b));
            cost.tokens = numbers::parse(total.trim()).or(both);
        }
    }
    cost
}

/// Parses `3.2s`.
fn milliseconds(text: &str) -> Option<u64> {
    let seconds = text.strip_suffix('s')?.trim();
    let plain = seconds.chars().all(|c| c.is_ascii_digit() || c == '.');
    let seconds: f64 = seconds.parse().ok().filter(|_| plain)?;
    Some((seconds * 1_000.0).round() as u64)
}
