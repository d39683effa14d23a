//! What the offline model says. Everything it can ever say is here.

use rethread_core::summary::{self, FoundSummary};
use rethread_core::{Message, Role};

use super::rank::Passage;
use super::view::{Answer, Turn};
use super::words::Keywords;

/// How the closing line begins, whether long or short.
pub(super) const NOTE_BEGINS: &str = "(offline";

/// The closing line of a first answer.
const NOTE: &str = "(offline model: I search this folder and earlier sessions; set \
                    ANTHROPIC_API_KEY, OPENAI_API_KEY or OLLAMA_HOST for a real one)";

/// The closing line of later answers.
const NOTE_SHORT: &str = "(offline)";

/// How a line begins that names a source.
const SOURCE_BEGINS: &str = "— ";

/// A second passage is quoted if it is worth this share of the first.
const SECOND_SHARE: f64 = 0.5;

/// Passages in one answer.
const PASSAGES: usize = 2;

/// Files in a listing, and matches in a list. A screen each.
const ROWS: usize = 40;

/// Characters of a quoted line; what is longer is cut.
const LINE_CHARS: usize = 400;

/// Points of a summary that an acknowledgment names under each heading.
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

/// Says things, with the closing line that belongs there.
pub(super) struct Sayer {
    note: &'static str,
}

impl Sayer {
    /// For a conversation in which these messages came before.
    pub(super) fn new(earlier: &[Message]) -> Sayer {
        let told = earlier.iter().any(|message| {
            message.role == Role::Assistant && message.plain_text().contains(NOTE_BEGINS)
        });
        Sayer { note: if told { NOTE_SHORT } else { NOTE } }
    }

    fn say(&self, text: &str) -> String {
        format!("{}\n\n{}", text.trim_end(), self.note)
    }

    pub(super) fn greeting(&self) -> String {
        self.say(
            "Hello. Ask me about this folder or about what was said before, for example \
             \"how do we handle retries?\", \"what did we decide about the queue?\", \
             \"list files\" or \"read README.md\".",
        )
    }

    pub(super) fn thanks(&self) -> String {
        self.say("You are welcome. Ask on whenever you like.")
    }

    pub(super) fn help(&self) -> String {
        self.say(
            "I look things up; I do not think, write or change anything. You can\n\
             - ask a question: I quote the passages that fit best, with their sources\n\
             - ask what was decided or said before: I search earlier sessions\n\
             - say \"list files\", \"list files in docs\" or \"read README.md\"\n\
             - say \"find WORDS\" for every place where they occur\n\
             - say \"more\" for the next passages",
        )
    }

    pub(super) fn no_summary(&self) -> String {
        self.say(
            "I do not write summaries: one is taken from the conversation itself, without a \
             model.",
        )
    }

    pub(super) fn no_tools(&self) -> String {
        self.say(
            "I can only answer by searching, and the tools for that are not offered to me here.",
        )
    }

    pub(super) fn no_words(&self) -> String {
        self.say(
            "There is no word in this that I could search for. Name the thing you want to know \
             about, such as a file, a setting or a topic.",
        )
    }

    pub(super) fn nothing_before(&self) -> String {
        self.say("There is no question before this that I could say more about.")
    }

    pub(super) fn no_file(&self, path: &str) -> String {
        self.say(&format!(
            "There is no file `{path}` here, nor one whose name begins so. \"list files\" shows \
             what there is."
        ))
    }

    /// What a session that continues from a summary is answered.
    pub(super) fn restored(&self, prompt: &str) -> String {
        let FoundSummary::Summary(summary) = summary::find(prompt) else {
            return self.say(
                "There is no summary in this that I can read. I am ready to continue all the same.",
            );
        };
        let points = |heading: &str| {
            let points = summary::points(summary, heading);
            let said = points.iter().filter(|point| **point != NOTHING);
            let points = said.take(POINTS).map(|point| point.trim_end_matches(['.', '?']));
            points.collect::<Vec<_>>().join("; ")
        };
        let mut text = String::from("I have read the summary of the session before.");
        for (lead, heading) in [
            ("It was about", "Topics Discussed"),
            ("Decided", "Decisions Made"),
            ("Still to do", "Pending"),
        ] {
            match points(heading) {
                points if points.is_empty() => {}
                points => text.push_str(&format!(" {lead}: {points}.")),
            }
        }
        text.push_str(" I am ready to continue from there.");
        self.say(&text)
    }

    pub(super) fn listing(&self, path: &str, answer: &Answer<'_>) -> String {
        if answer.failed {
            return self.say(&format!("I cannot list `{path}`: {}", answer.text));
        }
        let rows = answer.objects();
        let place = if path == "." { "this folder".into() } else { format!("`{path}`") };
        let mut text = match rows.len() {
            0 => format!("There is nothing in {place}."),
            1 => format!("There is one thing in {place}:"),
            n if answer.partial() => {
                format!("There are more than {n} things in {place}, among them:")
            }
            n => format!("There are {n} things in {place}:"),
        };
        for row in rows.iter().take(ROWS) {
            let slash = if row["kind"] == "dir" { "/" } else { "" };
            text.push_str(&format!("\n- {}{slash}", row["path"].as_str().unwrap_or_default()));
        }
        if rows.len() > ROWS {
            text.push_str(&format!("\n- … and {} more", rows.len() - ROWS));
        }
        self.say(&text)
    }

    pub(super) fn file(&self, answer: &Answer<'_>) -> String {
        let path = answer.asked("path");
        let fence = if answer.text.contains("```") { "~~~~" } else { "```" };
        let text = answer.text.trim_end();
        self.say(&format!("This is `{path}`:\n\n{fence}\n{text}\n{fence}"))
    }

    /// Every place where a text appears.
    pub(super) fn matches(&self, wanted: &str, turn: &Turn<'_>) -> String {
        let mut rows = Vec::new();
        let mut partial = false;
        for answer in turn.of("grep") {
            partial |= answer.partial();
            for found in answer.objects() {
                let text = found["text"].as_str().unwrap_or_default();
                let path = found["path"].as_str().unwrap_or_default();
                rows.push(format!("- {path}:{}: {}", found["line"], cut(text.trim())));
            }
        }
        for found in turn.of("search_sessions").flat_map(Answer::objects) {
            let text = found["text"].as_str().unwrap_or_default();
            let session = found["session"].as_str().unwrap_or_default();
            rows.push(format!("- session {session}, entry {}: {}", found["seq"], cut(text)));
        }
        if rows.is_empty() {
            return self.say(&format!(
                "`{wanted}` does not occur in any file here or in any earlier session. Try fewer or other \
                 words, or ask a question with several of them."
            ));
        }
        let count = match (rows.len(), partial) {
            (n, true) => format!("{n} places and more"),
            (1, false) => "one place".into(),
            (n, false) => format!("{n} places"),
        };
        rows.truncate(ROWS);
        self.say(&format!("`{wanted}` occurs in {count}:\n{}", rows.join("\n")))
    }

    /// Quotes how a project introduces itself.
    pub(super) fn introduction(&self, passages: &[Passage]) -> String {
        if passages.is_empty() {
            return self.say(
                "There is no README here, and no manifest that says what this is. \"list files\" \
                 shows what there is.",
            );
        }
        let chosen: Vec<&Passage> = passages.iter().take(PASSAGES).collect();
        self.say(&format!("This is how it introduces itself:{}", quoted(&chosen)))
    }

    /// Quotes the best passages; `custom` is a manifest, and what it means.
    pub(super) fn passages(
        &self,
        passages: &[Passage],
        keywords: &Keywords,
        custom: Option<(&str, &str)>,
        more: bool,
    ) -> String {
        let searched = keywords.shown();
        let custom = custom.filter(|_| !more).map(|(manifest, command)| {
            format!("There is a `{manifest}`, so `{command}` should do it.")
        });
        let Some(best) = passages.first() else {
            if let Some(custom) = custom {
                return self.say(&custom);
            }
            return self.say(&match more {
                true => format!("I found nothing more about: {searched}."),
                false => format!(
                    "I found nothing about this. I searched the files here and earlier sessions \
                     for: {searched}. Try other words for it, or \"list files\" to see what there \
                     is."
                ),
            });
        };
        let chosen: Vec<&Passage> = passages
            .iter()
            .take(PASSAGES)
            .filter(|passage| passage.score >= best.score * SECOND_SHARE)
            .collect();
        let sources: Vec<String> =
            chosen.iter().map(|passage| passage.source.to_string()).collect();
        let sources = sources.join(" and ");
        let weak = best.words * 2 < keywords.words.len();
        let mut text = match (weak, more) {
            _ if custom.is_some() => format!("{} About that:", custom.unwrap_or_default()),
            (true, false) => {
                format!("I found nothing that fits all of this ({searched}). Closest is {sources}:")
            }
            (_, true) => format!("There is also {sources}:"),
            (false, false) => format!("I found this in {sources}:"),
        };
        text += &quoted(&chosen);
        if passages.len() > chosen.len() {
            text.push_str("\n\nSay \"more\" to see others.");
        }
        self.say(&text)
    }
}

/// Passages with their sources.
fn quoted(passages: &[&Passage]) -> String {
    let mut text = String::new();
    for passage in passages {
        text.push_str("\n\n");
        for line in &passage.lines {
            text.push_str(format!("> {}", cut(line)).trim_end());
            text.push('\n');
        }
        text.push_str(&format!("\n{SOURCE_BEGINS}{}", passage.source));
    }
    text
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into(),
    }
}
