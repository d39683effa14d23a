//! Splits text into sentences, and classifies them by their words.

use std::collections::BTreeSet;

use rethread_core::name::is_invisible;
use rethread_core::search::words;
use rethread_core::summary::{END, START};

/// What a sentence appears to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cue {
    /// A decision.
    Decision,
    /// Something left to do.
    Pending,
}

/// Words that indicate a decision.
const DECIDED: [&str; 24] = [
    "agreed",
    "choose",
    "chose",
    "chosen",
    "decided",
    "decision is",
    "go with",
    "going with",
    "i will use",
    "i'll use",
    "instead of",
    "let's do",
    "let's go",
    "let's keep",
    "let's use",
    "opted for",
    "settle on",
    "settled on",
    "switch to",
    "switched to",
    "we are using",
    "we use",
    "we will",
    "we'll",
];

/// Words that do so at the beginning of a sentence.
const DECIDED_FIRST: [&str; 2] = ["use", "keep using"];

/// Words that indicate something open.
const OPEN: [&str; 18] = [
    "follow up",
    "later",
    "left to do",
    "need to",
    "needs to",
    "next",
    "not yet",
    "open question",
    "open questions",
    "outstanding",
    "pending",
    "remaining",
    "remains",
    "still",
    "tbd",
    "todo",
    "todos",
    "unresolved",
];

/// Words that indicate something open even in a question.
const OPEN_ASKED: [&str; 4] = ["open question", "tbd", "todo", "undecided"];

/// How an unfinished item of a list begins.
const TASK: &str = "[ ] ";

/// Words that turn a decision into an open point.
const UNDECIDED: [&str; 5] =
    ["haven't decided", "not decided", "to be decided", "undecided", "not yet decided"];

/// Words too common to say what a question is about.
const COMMON: [&str; 86] = [
    "about", "after", "again", "all", "also", "and", "any", "are", "because", "been", "before",
    "but", "can", "could", "did", "does", "doing", "done", "each", "for", "from", "get", "give",
    "going", "good", "had", "has", "have", "hello", "help", "here", "how", "into", "its", "just",
    "know", "let", "like", "look", "make", "maybe", "more", "most", "much", "need", "not", "now",
    "okay", "one", "only", "our", "out", "over", "please", "really", "same", "she", "should",
    "some", "such", "sure", "tell", "than", "thank", "thanks", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "want", "was", "were", "what", "when",
    "where", "which", "why", "will", "with", "you",
];

/// Words of the shortest sentence that can be a decision or an open point.
const WORDS_MIN: usize = 3;

/// What a sentence appears to be, by its words. A question decides nothing, and leaves something
/// open only if it says so.
pub(super) fn cue(sentence: &str) -> Option<Cue> {
    let lower = sentence.to_lowercase().replace('’', "'");
    let parts = lower.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|w| !w.is_empty());
    let parts: Vec<&str> = parts.collect();
    let told = parts.join(" ");
    let has = |cues: &[&str]| cues.iter().any(|cue| holds(&told, cue));
    let begins = DECIDED_FIRST.iter().any(|cue| holds(&told, cue) && told.starts_with(cue));
    if sentence.starts_with(TASK) {
        Some(Cue::Pending)
    } else if parts.len() < WORDS_MIN {
        None
    } else if sentence.ends_with(['?', '？']) {
        has(&OPEN_ASKED).then_some(Cue::Pending)
    } else if has(&UNDECIDED) {
        Some(Cue::Pending)
    } else if begins || has(&DECIDED) {
        Some(Cue::Decision)
    } else {
        has(&OPEN).then_some(Cue::Pending)
    }
}

/// Whether the text contains these words, as whole words.
fn holds(text: &str, words: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_none_or(|c| c == ' ');
    text.match_indices(words).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + words.len()..]);
        is_edge(before.chars().next_back()) && is_edge(after.chars().next())
    })
}

/// The words that say what a sentence is about.
pub(super) fn weighty_words(sentence: &str) -> BTreeSet<String> {
    // Scripts without spaces have words of two characters, and so do `ci` and `db`; most Latin ones
    // are `is`, `it` and `to`.
    let weighty = |word: &String| {
        let long = word.chars().count() > 2 || !word.is_ascii();
        long && COMMON.binary_search(&word.as_str()).is_err()
    };
    words(sentence).filter(weighty).collect()
}

/// The sentences of a text, without code and without list and heading markers.
pub(super) fn sentences(text: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let line = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            // Quotations and table rows come from elsewhere.
            (None, None) if line.starts_with(['>', '|']) => {}
            (None, None) => split(unlisted(line), &mut sentences),
            _ => {}
        }
    }
    sentences
}

/// A line without its heading or list marker.
fn unlisted(line: &str) -> &str {
    let line = line.trim_start_matches(['#', ' ']);
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    let numbered = line[digits..].strip_prefix(". ").filter(|_| digits > 0);
    let dashed = ["- ", "* ", "+ "].iter().find_map(|sign| line.strip_prefix(sign));
    numbered.or(dashed).unwrap_or(line).trim_start()
}

fn split(line: &str, sentences: &mut Vec<String>) {
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let spaced = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        let ends = match c {
            '。' | '！' | '？' => true,
            '!' | '?' => spaced,
            '.' => spaced && !is_abbreviation(&line[start..at]),
            _ => false,
        };
        if ends {
            push(clean(&line[start..at + c.len_utf8()]), sentences);
            start = at + c.len_utf8();
        }
    }
    push(clean(&line[start..]), sentences);
}

/// Whether the full stop after this belongs to a word.
fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(['(', '"', '\'']).to_lowercase();
    matches!(
        word.as_str(),
        "e.g" | "i.e" | "etc" | "vs" | "cf" | "approx" | "no" | "mr" | "mrs" | "dr"
    )
}

/// Keeps a sentence if it contains a word.
fn push(sentence: String, sentences: &mut Vec<String>) {
    if sentence.chars().any(char::is_alphanumeric) {
        sentences.push(sentence);
    }
}

/// Text on one line that is safe in a summary: no control characters and no markers.
pub(super) fn clean(text: &str) -> String {
    // The joiners inside emoji are harmless, and without them one becomes three.
    let visible = |c: &char| c.is_whitespace() || *c == '\u{200d}' || !is_invisible(*c);
    let text: String = text.chars().filter(visible).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // A removed marker needs a replacement: otherwise the text around it could form another marker.
    text.replace(START, "…").replace(END, "…")
}

/// The text cut at a word, if it has more than `max` characters.
pub(super) fn shortened(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let end = text.char_indices().nth(max - 1).map_or(text.len(), |(at, _)| at);
    // A word that fills half the room is cut, or nothing would be left.
    let word = text[..end].rfind(' ').filter(|at| *at >= end / 2).unwrap_or(end);
    format!("{}…", text[..word].trim_end_matches([' ', ',', ';', ':', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_words_can_be_looked_up() {
        assert!(COMMON.is_sorted());
    }

    #[test]
    fn a_text_falls_into_sentences_without_its_code_and_signs() {
        let text = "# Plan\n\n1. Use v1.2, e.g. the new one. Then stop!\n- [ ] tests\n\
                    ```rust\nlet decided = 1.\n~~~\n```\n> quoted\n| a row |\nWhy? 先に読む。次に書く。\n---\n...";
        let expected = [
            "Plan",
            "Use v1.2, e.g. the new one.",
            "Then stop!",
            "[ ] tests",
            "Why?",
            "先に読む。",
            "次に書く。",
        ];
        assert_eq!(sentences(text), expected);
    }

    #[test]
    fn words_give_decisions_and_open_points_away() {
        for decided in [
            "We decided on Redis.",
            "Let’s use a token bucket.",
            "Use token bucket with Redis backing",
            "Agreed, 100 per minute.",
            "I chose sqlite instead of files.",
            "We will still ship on Friday.",
        ] {
            assert_eq!(cue(decided), Some(Cue::Decision), "{decided}");
        }
        for open in [
            "TODO: write the tests",
            "We need to test it.",
            "We haven't decided on the port.",
            "That remains open.",
            "Open question: which port?",
            "[ ] write tests",
        ] {
            assert_eq!(cue(open), Some(Cue::Pending), "{open}");
        }
        for neither in [
            "Should we use Redis instead of files?",
            "What comes next?",
            "Agreed.",
            "The user asked about it.",
            "Distillery tours are fun.",
        ] {
            assert_eq!(cue(neither), None, "{neither}");
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_word() {
        assert_eq!(shortened("one two three", 13), "one two three");
        assert_eq!(shortened("one two three", 12), "one two…");
        assert_eq!(shortened("éééééééééé", 5), "éééé…");
    }

    #[test]
    fn no_marker_can_be_put_together_from_pieces() {
        let nested = format!(
            "<!--{START}SESSION_SUMMARY_{END}START --> \u{7}<!--  SESSION_SUMMARY_END\n-->"
        );
        let clean = clean(&nested);
        assert!(!clean.contains(START) && !clean.contains(END), "{clean}");
        assert!(!clean.chars().any(char::is_control), "{clean:?}");
    }
}
