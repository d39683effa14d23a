//! The summary block: a conversation in a few lines.
//!
//! A model writes it between two markers, and a transcript keeps it between the same markers. A
//! conversation may quote the markers, so the last pair counts.

use crate::session::Session;
use crate::world::rfc3339;

/// The marker before a summary.
pub const START: &str = "<!-- SESSION_SUMMARY_START -->";

/// The marker after a summary.
pub const END: &str = "<!-- SESSION_SUMMARY_END -->";

/// The background of a session that does not continue another one.
pub const INITIAL: &str = "Initial session.";

/// How [`resuming`] begins.
pub const RESUMING: &str = "You are resuming a previous conversation session.";

/// Characters of the first question that [`resuming`] shows.
const TOPIC_CHARS: usize = 100;

/// The text shown to the user when a conversation continues, with the messages of either side. It
/// is not sent to a model.
pub fn resuming(session: &Session, user: u64, assistant: u64) -> String {
    let header = &session.header;
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines = vec![
        RESUMING.to_owned(),
        format!("Session: {}", session.shown_name()),
        format!("Created: {}", rfc3339(header.created_at)),
        format!("Last activity: {}", rfc3339(session.last_activity_at)),
        format!(
            "Total messages: {} ({user} from user, {assistant} from assistant)",
            session.tally.messages
        ),
    ];
    lines.extend(header.profile.description.as_ref().map(|d| format!("Description: {}", words(d))));
    if !session.first_message.is_empty() {
        let topic = words(&session.first_message);
        let shown: String = topic.chars().take(TOPIC_CHARS).collect();
        let more = if shown.len() < topic.len() { "..." } else { "" };
        lines.push(format!("First topic: {shown}{more}"));
    }
    let last = "The conversation history follows. Continue naturally from where you left off.";
    lines.extend([String::new(), last.to_owned()]);
    lines.join("\n")
}

/// The summary in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundSummary<'a> {
    /// There is one: the text between the markers.
    Summary(&'a str),
    /// It has no markers.
    Nothing,
    /// There are markers, but no pair with text between them.
    Broken,
}

/// Finds the summary in a text: between the last pair of markers.
pub fn find(text: &str) -> FoundSummary<'_> {
    let Some(end) = text.rfind(END) else {
        return if text.contains(START) { FoundSummary::Broken } else { FoundSummary::Nothing };
    };
    let Some(start) = text[..end].rfind(START) else { return FoundSummary::Broken };
    let inside = &text[start + START.len()..];
    match inside[..inside.find(END).unwrap_or(inside.len())].trim() {
        "" => FoundSummary::Broken,
        summary => FoundSummary::Summary(summary),
    }
}

/// A summary between its markers.
pub fn block(summary: &str) -> String {
    format!("{START}\n{summary}\n{END}")
}

/// The points below a heading of a summary, such as `Topics Discussed`.
pub fn points<'a>(summary: &'a str, heading: &str) -> Vec<&'a str> {
    let mut lines = summary.lines().map(str::trim);
    let heading = format!("**{heading}:**");
    if !lines.any(|line| line == heading) {
        return Vec::new();
    }
    lines
        .skip_while(|line| line.is_empty())
        .map_while(|line| line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")))
        .map(str::trim)
        .collect()
}

/// The background in a summary, if it has one.
pub fn background(summary: &str) -> Option<&str> {
    let line = summary.lines().find_map(|line| line.trim().strip_prefix("**Background Context:**"));
    line.map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_between_the_last_pair_of_markers_is_the_summary() {
        let quoted = block("quoted in an answer");
        let text = format!("chat\n{quoted}\nmore chat\n{}\n", block("the real one"));
        assert_eq!(find(&text), FoundSummary::Summary("the real one"));
        assert_eq!(
            find(&format!("{text} and {END} once more")),
            FoundSummary::Summary("the real one")
        );
    }

    #[test]
    fn a_text_without_markers_has_no_summary_and_half_a_pair_is_broken() {
        assert_eq!(find("chat"), FoundSummary::Nothing);
        for broken in [
            START.to_owned(),
            END.to_owned(),
            format!("{END} text {START}"),
            format!("{START}\n \n{END}"),
        ] {
            assert_eq!(find(&broken), FoundSummary::Broken, "{broken}");
        }
    }

    #[test]
    fn points_are_the_list_below_their_heading() {
        let summary = "**Background Context:** Initial session.\n\n**Current Session Summary:**\n\
                       **Topics Discussed:**\n- rate limits\n- Redis\n\n**Decisions Made:**\n\n- token bucket\n\n\
                       **Pending:**\n- tests";
        assert_eq!(points(summary, "Topics Discussed"), ["rate limits", "Redis"]);
        assert_eq!(points(summary, "Decisions Made"), ["token bucket"]);
        assert_eq!(points(summary, "Pending"), ["tests"]);
        assert!(points(summary, "Nothing").is_empty());
        assert_eq!(background(summary), Some(INITIAL));
    }
}
