//! The evidence that the tools have found so far.

use std::collections::BTreeMap;

use rethread_core::limits::TRUNCATED_MARK;
use rethread_core::search::Query;

use super::answer::{NOTE_BEGINS, Source};
use super::newcomer;
use super::rank::PASSAGE_LINES;
use super::view::{Answer, Turn};
use super::words::{Keywords, Word};

/// What is longer than this says something, even if it ends with a question.
const QUESTION_BYTES_MAX: usize = 200;

/// What the tools have found so far.
pub(super) struct Evidence {
    /// Lines of files, by path and number.
    pub(super) files: BTreeMap<String, BTreeMap<u64, String>>,
    /// Messages in sessions.
    pub(super) said: Vec<PastMessage>,
    /// The weight of each word: rare ones weigh more.
    pub(super) weights: Vec<f64>,
    /// Whether a message was read in full.
    pub(super) has_recalled: bool,
    /// Whether the question asks for a command.
    pub(super) wants_command: bool,
    /// Matches the question itself.
    echo: Option<Query>,
}

/// A message in a session.
pub(super) struct PastMessage {
    /// The session's name.
    pub(super) session: String,
    /// The entry.
    pub(super) seq: u64,
    /// Its reference for `recall`.
    pub(super) reference: String,
    /// A snippet, or all of it.
    pub(super) text: String,
    /// It is from the user, so that a reply follows.
    pub(super) by_user: bool,
    /// All of it was read, and not only the words around what was found.
    pub(super) is_whole: bool,
    /// It repeats the current question.
    pub(super) is_echo: bool,
    /// The message before it, if that was found and this was not.
    pub(super) follows: Option<String>,
}

impl PastMessage {
    /// Whether it is a question. What follows it may be an answer; it is not one itself.
    pub(super) fn asks(&self) -> bool {
        let is_short = self.text.len() <= QUESTION_BYTES_MAX;
        self.is_echo || self.by_user && is_short && self.text.trim_end().ends_with('?')
    }

    /// The reference of the entry after it.
    pub(super) fn next(&self) -> Option<String> {
        let (session, _) = self.reference.rsplit_once(':')?;
        Some(format!("{session}:{}", self.seq + 1))
    }
}

impl Evidence {
    /// Collects the results of this turn's tools.
    pub(super) fn of(turn: &Turn<'_>, keywords: &Keywords) -> Evidence {
        let mut evidence = Evidence {
            files: BTreeMap::new(),
            said: Vec::new(),
            weights: Vec::new(),
            has_recalled: turn.of("recall").next().is_some(),
            wants_command: newcomer::asks_how(turn.question),
            echo: echo(turn.question),
        };
        turn.of("grep").for_each(|answer| evidence.matches(answer));
        turn.of("search_sessions").for_each(|answer| evidence.hits(answer));
        evidence.weigh(keywords);
        let named = turn.of("glob").filter(|answer| !newcomer::is_about_tools(answer));
        for path in named.flat_map(Answer::paths) {
            // A file with this name is worth reading from its beginning.
            evidence.files.entry(path).or_default().entry(1).or_default();
        }
        turn.of("read_file").for_each(|answer| evidence.window(answer));
        turn.of("recall").for_each(|answer| evidence.recalled(answer));
        evidence
    }

    fn matches(&mut self, answer: &Answer<'_>) {
        for found in answer.found() {
            if let (Some(path), Some(line), Some(text)) =
                (found["path"].as_str(), found["line"].as_u64(), found["text"].as_str())
                && !self.is_echo(text)
            {
                self.files.entry(path.into()).or_default().insert(line, text.into());
            }
        }
    }

    fn hits(&mut self, answer: &Answer<'_>) {
        for found in answer.found() {
            let text = |name: &str| found[name].as_str().map(str::to_owned);
            if let (Some(session), Some(seq), Some(reference), Some(text)) =
                (text("session"), found["seq"].as_u64(), text("ref"), text("text"))
                && !self.said.iter().any(|said| said.reference == reference)
                // Tool results, and earlier answers of this model, are quoted from their sources.
                && !matches!(found["role"].as_str(), Some("tool"))
                && !text.contains(NOTE_BEGINS)
            {
                let by_user = found["role"] == "user";
                let is_echo = by_user && self.is_echo(&text);
                self.said.push(PastMessage {
                    session,
                    seq,
                    reference,
                    text,
                    by_user,
                    is_whole: false,
                    is_echo,
                    follows: None,
                });
            }
        }
    }

    fn weigh(&mut self, keywords: &Keywords) {
        let weight = |word: &Word| {
            let lines = self.files.values().flat_map(BTreeMap::values);
            let said = self.said.iter().map(|said| &said.text);
            let count = lines.chain(said).filter(|text| word.is_in(text)).count();
            let rare = 1.0 / (1.0 + (1.0 + count as f64).ln());
            if word.exact { rare * 1.5 } else { rare }
        };
        self.weights = keywords.words.iter().map(weight).collect();
    }

    fn window(&mut self, answer: &Answer<'_>) {
        let path = answer.asked("path").to_owned();
        let read = answer.lines.iter().filter(|(_, line)| !self.is_echo(line));
        let read: Vec<(u64, String)> = read.map(|(at, line)| (*at, line.clone())).collect();
        self.files.entry(path).or_default().extend(read);
    }

    fn recalled(&mut self, answer: &Answer<'_>) {
        let reference = answer.asked("ref");
        let text = answer.text.strip_suffix(TRUNCATED_MARK).unwrap_or(&answer.text);
        // A context does not repeat what it shows above: this is the copy of something.
        let is_copy = text.starts_with("[lines ");
        if is_copy || text.contains(NOTE_BEGINS) || is_call(text) {
            self.said.retain(|said| said.reference != reference);
            return;
        }
        if let Some(said) = self.said.iter_mut().find(|said| said.reference == reference) {
            (said.text, said.is_whole) = (text.into(), true);
            return;
        }
        // What follows a hit was not searched for.
        let before =
            self.said.iter().find(|said| said.next().is_some_and(|next| next == reference));
        if let Some(before) = before {
            self.said.push(PastMessage {
                session: before.session.clone(),
                seq: before.seq + 1,
                reference: reference.into(),
                text: text.into(),
                by_user: false,
                is_whole: true,
                is_echo: false,
                follows: Some(before.reference.clone()),
            });
        }
    }

    /// Whether a line repeats the question: an example in a README, or a test. It answers nothing.
    fn is_echo(&self, line: &str) -> bool {
        self.echo.as_ref().is_some_and(|echo| echo.matches(line))
    }

    /// Removes what was quoted before.
    pub(super) fn leave_out(&mut self, shown: &[Source]) {
        for source in shown {
            match source {
                Source::File { path, line } => {
                    if let Some(lines) = self.files.get_mut(path) {
                        lines.retain(|at, _| *at < *line || *at >= line + PASSAGE_LINES);
                    }
                }
                Source::Said { session, seq } => {
                    self.said.retain(|said| said.session != *session || said.seq != *seq);
                }
            }
        }
        self.files.retain(|_, lines| !lines.is_empty());
    }
}

/// Matches a question verbatim, if it has enough words to be distinctive.
fn echo(question: &str) -> Option<Query> {
    let query = Query::new(&format!("\"{}\"", question.replace('"', " "))).ok()?;
    (query.terms().len() > 2).then_some(query)
}

/// Whether a text is a call or JSON from a tool, rather than a message.
fn is_call(text: &str) -> bool {
    let name = text.find('{').map_or(text, |open| &text[..open]);
    let name = name.strip_suffix(' ').unwrap_or(name);
    name.len() < text.len() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}
