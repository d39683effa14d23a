//! What search looks at and shows.

use crate::entry::Body;
use crate::message::{BlockKind, Message};

/// Bytes of one entry that search looks at. What stands behind that in a huge tool result is not
/// found, but read by `show` and `recall` as ever.
pub const INDEXED_BYTES_MAX: usize = 256 << 10;

/// Characters shown around a hit.
const SNIPPET_CHARS: usize = 160;

/// The text of an entry that search looks at: what was said, called and answered; not thinking,
/// and not what a door put before a message.
pub fn searchable(body: &Body) -> Option<String> {
    let mut text = match body {
        Body::Message(message) => said(message),
        Body::Summary(summary) => summary.text.clone(),
        Body::Restored(restored) => restored.acknowledgment.clone(),
        _ => return None,
    };
    text.truncate(text.floor_char_boundary(INDEXED_BYTES_MAX));
    (!text.trim().is_empty()).then_some(text)
}

fn said(message: &Message) -> String {
    let parts: Vec<String> = message
        .content
        .iter()
        .filter_map(|block| match &block.kind {
            BlockKind::Text(text) => Some(text.clone()),
            BlockKind::ToolUse(call) => Some(format!("{} {}", call.name, call.input.get())),
            BlockKind::ToolResult(result) => Some(result.text()),
            _ => None,
        })
        .collect();
    parts.join("\n")
}

/// The words of a text, in lowercase.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// Whether all these words stand in a text.
pub fn has_words(text: &str, wanted: &[String]) -> bool {
    let mut missing: Vec<&String> = wanted.iter().collect();
    for word in words(text) {
        missing.retain(|wanted| **wanted != word);
        if missing.is_empty() {
            return true;
        }
    }
    missing.is_empty()
}

/// The part of a text around the first of these words, on one line.
pub fn snippet(text: &str, words: &[String]) -> String {
    let mut place = 0;
    let mut found = None;
    for piece in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        if words.contains(&word) {
            found = Some(place);
            break;
        }
        place += piece.len();
    }
    let hit = found.unwrap_or(0);
    let before = text[..hit].char_indices().rev().nth(SNIPPET_CHARS / 4).map_or(0, |(i, _)| i);
    let line: Vec<&str> = text[before..].split_whitespace().take(SNIPPET_CHARS).collect();
    let line = line.join(" ");
    let start = if before > 0 { "…" } else { "" };
    match line.char_indices().nth(SNIPPET_CHARS) {
        Some((end, _)) => format!("{start}{}…", &line[..end]),
        None => format!("{start}{line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_the_first_hit_with_what_is_around_it() {
        let text = format!("{} the needle, here {}", "hay ".repeat(100), "straw ".repeat(100));
        let snippet = snippet(&text, &["needle".into()]);
        assert!(snippet.starts_with("…") && snippet.ends_with("…"), "{snippet}");
        assert!(snippet.contains("the needle, here straw"), "{snippet}");
        assert!(snippet.chars().count() <= SNIPPET_CHARS + 2);
    }
}
