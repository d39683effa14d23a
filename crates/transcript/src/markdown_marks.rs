//! The lines that give a Markdown transcript its structure, and how text that looks like one of
//! them is escaped.
//!
//! Text of a conversation is data. A line of it that looks like structure gets a leading backslash,
//! which Markdown does not show; a line that already has one gets another. A summary marker is
//! broken up wherever it occurs (`<\!-- …`), so that even a reader that only looks for the marker
//! finds nothing but the real one. Reading removes exactly these backslashes.

use std::borrow::Cow;

use crate::fences::fenced;

/// The agent path of a built-in agent.
pub(crate) const BUILT_IN: &str = "built-in";

/// The line between two parts.
pub(crate) const RULE: &str = "---";

/// The label of the user's text.
pub(crate) const YOU: &str = "**You:**";

/// The end of a reply that was stopped.
pub(crate) const INTERRUPTED: &str = "*[interrupted]*";

/// How the line of a tool call begins.
pub(crate) const TOOL: &str = "*Tool: ";

/// How the line with the duration of a turn begins.
pub(crate) const TIME: &str = "*Time: ";

/// The same in files that only counted tokens.
pub(crate) const TOKENS: &str = "*Tokens: ";

/// The field of a message that keeps the cost line of a transcript as it was written.
pub(crate) const FOOTER: &str = "transcript_footer";

/// Whether a line says what a turn cost.
pub(crate) fn is_footer(line: &str) -> bool {
    (line.starts_with(TIME) || line.starts_with(TOKENS))
        && line.trim_end().ends_with('*')
        && !line.contains(char::is_control)
}

/// How the line of a clear begins.
pub(crate) const CLEARED: &str = "*Context cleared (";

/// How the line of an undone clear begins.
pub(crate) const UNDONE: &str = "*Clear taken back (";

/// How the line in the place of a damaged entry begins.
pub(crate) const MISSING: &str = "*Missing here: ";

/// Where a summary marker is broken up: after the first character.
const MARKER_HEAD: &str = "<";
const MARKER_REST: &str = "!-- SESSION_SUMMARY_";

/// A heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading<'a> {
    /// A turn; what is in the parentheses.
    Query(&'a str),
    /// The restoration of an earlier session; what is in the parentheses.
    Restored(&'a str),
}

/// The heading a line is, if it is one.
pub(crate) fn heading(line: &str) -> Option<Heading<'_>> {
    let rest = line.strip_prefix("## ")?.trim_end();
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(" (");
    if let Some(rest) = rest.strip_prefix("Session Restored") {
        return ends(rest).then(|| Heading::Restored(inside(rest)));
    }
    let rest = rest.strip_prefix("Query ")?;
    let digits = rest.chars().take_while(char::is_ascii_digit).count();
    let rest = &rest[digits..];
    (digits > 0 && ends(rest)).then(|| Heading::Query(inside(rest)))
}

/// The number in `## Query 3 (14:30:45)`.
pub(crate) fn query_number(line: &str) -> Option<u64> {
    match heading(line)? {
        Heading::Query(_) => {
            let digits = line.trim_start_matches(|c: char| !c.is_ascii_digit());
            digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        }
        Heading::Restored(_) => None,
    }
}

fn inside(text: &str) -> &str {
    text.trim().trim_start_matches('(').trim_end_matches(')')
}

/// The label of this agent's text.
pub(crate) fn label(agent: &str) -> String {
    format!("**{agent}:**")
}

/// Whether a reader would treat this line as structure. `label` is that of the agent.
fn is_structure(line: &str, label: &str) -> bool {
    line.trim_end() == RULE
        || line.trim_end() == INTERRUPTED
        || heading(line).is_some()
        || [YOU, label, TOOL, TIME, TOKENS, CLEARED, UNDONE, MISSING]
            .iter()
            .any(|s| line.starts_with(s))
}

/// Escapes a line of text, if necessary.
pub(crate) fn escape_line<'a>(line: &'a str, label: &str) -> Cow<'a, str> {
    let line = escape_markers(line);
    match is_structure(line.trim_start_matches('\\'), label) {
        true => Cow::Owned(format!("\\{line}")),
        false => line,
    }
}

/// Escapes text line by line. A rule in a code fence is part of a quotation and is not escaped,
/// because the backslash would be visible there.
pub(crate) fn escape_text(text: &str, label: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let quoted = fenced(&lines);
    let written = lines.iter().zip(quoted).map(|(line, quoted)| {
        let is_rule = line.trim_end() == RULE;
        if quoted && is_rule { Cow::Borrowed(*line) } else { escape_line(line, label) }
    });
    written.collect::<Vec<_>>().join("\n")
}

/// The reverse: the original line.
pub(crate) fn unescape_line<'a>(line: &'a str, label: &str) -> Cow<'a, str> {
    let escaped = line.starts_with('\\') && is_structure(line.trim_start_matches('\\'), label);
    unescape_markers(if escaped { &line[1..] } else { line })
}

/// Text with its summary markers broken up.
pub(crate) fn escape_markers(text: &str) -> Cow<'_, str> {
    change_markers(text, |slashes| slashes + 1)
}

/// Text with its summary markers restored.
pub(crate) fn unescape_markers(text: &str) -> Cow<'_, str> {
    change_markers(text, |slashes| slashes.saturating_sub(1))
}

fn change_markers(text: &str, slashes: impl Fn(usize) -> usize) -> Cow<'_, str> {
    if !text.contains(MARKER_REST) {
        return Cow::Borrowed(text);
    }
    let mut changed = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find(MARKER_HEAD) {
        let (before, after) = rest.split_at(at + MARKER_HEAD.len());
        let tail = after.trim_start_matches('\\');
        changed.push_str(before);
        if tail.starts_with(MARKER_REST) {
            let count = slashes(after.len() - tail.len());
            changed.extend(std::iter::repeat_n('\\', count));
            rest = tail;
        } else {
            rest = after;
        }
    }
    changed.push_str(rest);
    Cow::Owned(changed)
}

/// Text that is safe in a file: without control characters other than newline and tab, trimmed.
pub(crate) fn clean(text: &str) -> String {
    let kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(kept).collect::<String>().trim().to_owned()
}

/// Text on one line, for fields that end where their line ends.
pub(crate) fn one_line(text: &str) -> String {
    let text = clean(text);
    escape_markers(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: &str = "**Simple Sally:**";

    #[test]
    fn headings_are_distinguished_from_text_that_looks_like_them() {
        assert_eq!(heading("## Query 12 (14:30:45)"), Some(Heading::Query("14:30:45")));
        assert_eq!(heading("## Query 1"), Some(Heading::Query("")));
        assert_eq!(heading("## Session Restored (1:2)"), Some(Heading::Restored("1:2")));
        for line in
            ["## Query plans", "## Query 3rd", "# Query 1", "## Queries", "## Session Restoredx"]
        {
            assert_eq!(heading(line), None, "{line}");
        }
    }

    #[test]
    fn only_lines_that_look_like_structure_are_escaped() {
        for line in
            ["---", "--- ", "## Query 3 (x)", "**You:** hi", "**Simple Sally:**", "*Time: 1s*"]
        {
            assert_eq!(escape_line(line, LABEL), format!("\\{line}"));
            assert_eq!(escape_line(&format!("\\\\{line}"), LABEL), format!("\\\\\\{line}"));
        }
        for line in ["----", "## Query plans", "**Note:** x", " ---", "\\alpha", "<!-- hello -->"] {
            assert_eq!(escape_line(line, LABEL), line);
        }
    }

    #[test]
    fn a_rule_in_a_code_fence_is_left_alone() {
        let text = "---\n```yaml\n---\na: 1\n\\---\n## Query 1\n```\n---";
        let escaped = "\\---\n```yaml\n---\na: 1\n\\\\---\n\\## Query 1\n```\n\\---";
        assert_eq!(escape_text(text, LABEL), escaped);
        let lines: Vec<_> = escaped.lines().map(|line| unescape_line(line, LABEL)).collect();
        assert_eq!(lines.join("\n"), text);
    }

    #[test]
    fn every_escaped_line_is_read_back() {
        let lines = [
            "---",
            "\\---",
            "\\\\## Query 1",
            "a <!-- SESSION_SUMMARY_START --> b <\\!-- SESSION_SUMMARY_END -->",
            "<<!-- SESSION_SUMMARY_",
            "\\x <\\\\",
            "**You:** <!-- SESSION_SUMMARY_END -->",
        ];
        for line in lines {
            let escaped = escape_line(line, LABEL);
            assert!(!escaped.contains("<!-- SESSION_SUMMARY_"), "{escaped}");
            assert_eq!(unescape_line(&escaped, LABEL), line);
        }
    }
}
