//! The texts of the offline model: everything it can say is here.

use rethread_core::summary::{self, FoundSummary};
use rethread_core::{Message, Role};

use super::rank::Passage;
use super::view::{Answer, Turn};
use super::words::Keywords;

/// How the closing line begins, in its long and its short form.
pub(super) const NOTE_BEGINS: &str = "(offline";

/// The closing line of a first answer.
const NOTE: &str = "(offline model: I search this folder and earlier sessions; set \
                    ANTHROPIC_API_KEY, OPENAI_API_KEY or OLLAMA_HOST for a real one)";

/// The closing line of later answers.
const NOTE_SHORT: &str = "(offline)";

/// How a line with a source begins.
const SOURCE_BEGINS: &str = "— ";

/// A second passage is quoted if its score has at least this share of the first one's.
const SECOND_SHARE: f64 = 0.5;

/// Passages in one answer.
const PASSAGES: usize = 2;

/// Files in a listing, and matches in a list. A screen each.
const ROWS: usize = 40;

/// Characters of a quoted line; longer ones are cut.
const LINE_CHARS: usize = 400;

/// Points of a summary that an acknowledgment mentions under each heading.
const POINTS: usize = 4;

/// The text under a heading of a summary that has no content.
const NOTHING: &str = "None noted.";

/// Where a passage is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    File { path: String, line: u64 },
    Said { session: String, seq: u64 },
}

impl Source {
    /// Reads a source back from a line of an answer.
    pub(super) fn parse(line: &str) -> Option<Source> {
        let text = line.strip_prefix(SOURCE_BEGINS)?;
        if let Some((session, seq)) =
            text.strip_prefix("session ").and_then(|rest| rest.rsplit_once(", entry "))
        {
            return Some(Source::Said { session: session.into(), seq: seq.parse().ok()? });
        }
        let (path, line) = text.rsplit_once(':')?;
        Some(Source::File { path: path.into(), line: line.parse().ok()? })
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File { path, line } => write!(f, "{path}:{line}"),
            Source::Said { session, seq } => write!(f, "session {session}, entry {seq}"),
        }
    }
}

/// An answer with the closing line that fits after these messages.
pub(super) fn noted(text: &str, earlier: &[Message]) -> String {
    let is_known = earlier.iter().any(|message| {
        message.role == Role::Assistant && message.plain_text().contains(NOTE_BEGINS)
    });
    format!("{}\n\n{}", text.trim_end(), if is_known { NOTE_SHORT } else { NOTE })
}

pub(super) const GREETING: &str = "Hello. Ask me about this folder or about what was said before, \
    for example \"how do we handle retries?\", \"what did we decide about the queue?\", \
    \"list files\" or \"read README.md\".";

pub(super) const THANKS: &str = "You are welcome. Ask me anything else.";

pub(super) const HELP: &str = "I look things up; I do not think, write or change anything. You can\n\
    - ask a question: I quote the passages that fit best, with their sources\n\
    - ask what was decided or said before: I search earlier sessions\n\
    - say \"list files\", \"list files in docs\" or \"read README.md\"\n\
    - say \"find WORDS\" for every place where they occur\n\
    - say \"more\" for the next passages";

pub(super) const NO_SUMMARY: &str =
    "I do not write summaries: one is taken from the conversation itself, without a model.";

pub(super) const NO_TOOLS: &str =
    "I can only answer by searching, and the tools for that are not offered to me here.";

pub(super) const NO_WORDS: &str = "I found no word to search for in this. Name what you want to know \
    about, such as a file, a setting or a topic.";

pub(super) const NOTHING_BEFORE: &str = "There is no question yet that I could say more about.";

pub(super) fn no_file(path: &str) -> String {
    format!(
        "There is no file here whose name is `{path}` or begins like that. \"list files\" shows \
         the files."
    )
}

/// The answer in a session that continues from a summary.
pub(super) fn restored(prompt: &str) -> String {
    let FoundSummary::Summary(summary) = summary::find(prompt) else {
        return "I could not find a summary in this, but I am ready to continue.".into();
    };
    let mut text = String::from("I have read the summary of the previous session.");
    for (lead, heading) in [
        ("It was about", "Topics Discussed"),
        ("Decided", "Decisions Made"),
        ("Still to do", "Pending"),
    ] {
        let points = summary::points(summary, heading);
        let points = points.iter().filter(|point| **point != NOTHING).take(POINTS);
        let points: Vec<&str> = points.map(|point| point.trim_end_matches(['.', '?'])).collect();
        if !points.is_empty() {
            text += &format!(" {lead}: {}.", points.join("; "));
        }
    }
    text + " I am ready to continue from there."
}

pub(super) fn listing(path: &str, answer: &Answer<'_>) -> String {
    if answer.failed {
        return format!("I cannot list `{path}`: {}", answer.text);
    }
    let place = if path == "." { "this folder".into() } else { format!("`{path}`") };
    let found = answer.found();
    let mut rows = Vec::new();
    for row in found.iter().take(ROWS) {
        let slash = if row["kind"] == "dir" { "/" } else { "" };
        rows.push(format!("- {}{slash}", row["path"].as_str().unwrap_or_default()));
    }
    if found.len() > ROWS || answer.partial() {
        rows.push("- … and more".into());
    }
    match rows.as_slice() {
        [] => format!("There is nothing in {place}."),
        rows => format!("This is in {place}:\n{}", rows.join("\n")),
    }
}

pub(super) fn file(answer: &Answer<'_>) -> String {
    let fence = if answer.text.contains("```") { "~~~~" } else { "```" };
    let lines: Vec<&str> = answer.lines.values().map(String::as_str).collect();
    let mut text = lines.join("\n");
    if let Some(rest) = answer.not_read() {
        text += &format!("\n{rest}");
    }
    let (path, text) = (answer.asked("path"), text.trim_end());
    format!("This is `{path}`:\n\n{fence}\n{text}\n{fence}")
}

/// All places where a text occurs.
pub(super) fn matches(wanted: &str, turn: &Turn<'_>) -> String {
    let mut rows = Vec::new();
    for found in turn.of("grep").chain(turn.of("search_sessions")).flat_map(Answer::found) {
        let text = |name: &str| found[name].as_str().unwrap_or_default();
        let place = match found["line"].as_u64() {
            Some(line) => Source::File { path: text("path").into(), line },
            None => Source::Said {
                session: text("session").into(),
                seq: found["seq"].as_u64().unwrap_or_default(),
            },
        };
        rows.push(format!("- {place}: {}", cut(text("text").trim())));
    }
    let count = match rows.len() {
        0 => {
            return format!(
                "`{wanted}` does not occur in any file here or in any earlier session. Try fewer or other \
                 words, or ask a question with several of them."
            );
        }
        1 => "one place".into(),
        n if turn.of("grep").any(Answer::partial) => format!("{n} places and more"),
        n => format!("{n} places"),
    };
    rows.truncate(ROWS);
    format!("`{wanted}` occurs in {count}:\n{}", rows.join("\n"))
}

/// Quotes how a project introduces itself; where it does not, lists what is in it.
pub(super) fn introduction(passages: &[Passage], files: Option<&Answer<'_>>) -> String {
    match passages {
        [] => {
            let none = "There is no README here, and no manifest with a description.";
            let files = files.map(|files| format!(" {}", listing(".", files)));
            format!("{none}{}", files.unwrap_or_default())
        }
        _ => format!("This is how it introduces itself:{}", quoted(passages.iter().take(PASSAGES))),
    }
}

/// What people do in a project with this file.
pub(super) fn custom(file: &str, command: &str) -> String {
    format!("There is a `{file}`, so `{command}` should do it.")
}

/// Quotes the best passages, after the customary command, if one is known; `more` of them, if some
/// were quoted before.
pub(super) fn passages(
    passages: &[Passage],
    keywords: &Keywords,
    custom: Option<String>,
    more: bool,
) -> String {
    let searched = keywords.shown();
    let Some(best) = passages.first() else {
        return match (custom, more) {
            (Some(custom), _) => custom,
            (_, true) => format!("I found nothing more about: {searched}."),
            (_, false) => format!(
                "I found nothing about this. I searched the files here and earlier sessions for: \
                 {searched}. Try other words for it, or \"list files\" to see what there is."
            ),
        };
    };
    let is_good = |passage: &&Passage| passage.score >= best.score * SECOND_SHARE;
    let chosen: Vec<&Passage> = passages.iter().take(PASSAGES).filter(is_good).collect();
    let sources: Vec<String> = chosen.iter().map(|passage| passage.source.to_string()).collect();
    let sources = sources.join(" and ");
    let is_weak = best.words * 2 < keywords.words.len();
    let mut text = match custom {
        Some(custom) => format!("{custom} About that:"),
        None if more => format!("There is also {sources}:"),
        None if is_weak => {
            format!("I found nothing that fits all of this ({searched}). Closest is {sources}:")
        }
        None => format!("I found this in {sources}:"),
    };
    text += &quoted(chosen.iter().copied());
    if passages.len() > chosen.len() {
        text += "\n\nSay \"more\" to see others.";
    }
    text
}

/// Passages with their sources.
fn quoted<'p>(passages: impl Iterator<Item = &'p Passage>) -> String {
    let mut text = String::new();
    for passage in passages {
        text += "\n\n";
        for line in &passage.lines {
            text += &format!("{}\n", format!("> {}", cut(line)).trim_end());
        }
        text += &format!("\n{SOURCE_BEGINS}{}", passage.source);
    }
    text
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into(),
    }
}
