//! A session as Markdown: a header, one section per turn, and the summary at the end.
//!
//! The layout is a contract (`docs/format.md`): other programs read and write it too. What it has
//! no place for (tool calls, clears, a reply that was stopped) is written on lines in italics,
//! which it does not use otherwise. Text that looks like structure is escaped, see
//! `markdown_marks`; control characters are left out.
//!
//! Entries are processed one at a time and at most one turn is held in memory, so a log can have
//! any length. White space around a text is not kept.

use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::entry::{Body, PreviousSession, Restored};
use rethread_core::message::Usage;
use rethread_core::turn::TurnPart;
use rethread_core::{Entry, Session, summary, tokens};

use crate::markdown_marks::{self as marks, BUILT_IN, CLEARED, RULE, UNDONE, YOU};
use crate::numbers;
use crate::write::turn::{Turn, missing_line};

/// The name of an agent that has none.
const NAMELESS: &str = "Assistant";

/// What is written about a session in addition to its entries.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct TranscriptHeader<'a> {
    pub session: &'a Session,
    /// The agent's name, for people.
    pub agent: &'a str,
    /// The session this one continues, if it is known.
    pub previous: Option<PreviousSession>,
    /// The time zone of the times. The file does not name it.
    pub zone: TimeZone,
}

/// Input and output tokens of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct TokenCount {
    /// Input, cached tokens included.
    pub input: u64,
    pub output: u64,
}

impl TokenCount {
    /// What a provider charged, or zero if it is not known.
    pub(super) fn charged(usage: Usage) -> Option<TokenCount> {
        (usage != Usage::default())
            .then(|| TokenCount { input: usage.read(), output: usage.output })
    }

    pub(super) fn add(&mut self, more: TokenCount) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
    }

    /// Both together.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// The totals of a transcript, for the receipt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranscriptTotals {
    /// Turns that were written.
    pub queries: u64,
    /// Tokens of these turns.
    pub session: TokenCount,
    /// Tokens of the restoration, which does not count as a query.
    pub restoration: TokenCount,
}

/// Why a transcript could not be completed. What was written so far is not valid.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<E: std::error::Error + 'static> {
    /// The next entry could not be read.
    #[error("the log could not be read to its end")]
    Entries(#[source] E),
    /// The text could not be written.
    #[error("the transcript could not be written")]
    Io(#[from] io::Error),
}

/// Writes a session as Markdown. `entries` are those of its log, from the first on.
///
/// # Errors
///
/// [`WriteError::Entries`] with the first error among the entries, and [`WriteError::Io`]. Write
/// to a new file and rename it, so that a failure leaves the old transcript alone.
pub fn write<E: std::error::Error + 'static>(
    page: &TranscriptHeader<'_>,
    entries: impl IntoIterator<Item = Result<Entry, E>>,
    out: &mut dyn io::Write,
) -> Result<TranscriptTotals, WriteError<E>> {
    let mut steps = Steps::begin(page)?;
    for entry in entries {
        steps.entry(entry.map_err(WriteError::Entries)?)?;
        out.write_all(&steps.take())?;
    }
    let (rest, totals) = steps.finish()?;
    out.write_all(&rest)?;
    out.flush()?;
    Ok(totals)
}

/// A transcript that is written step by step, for callers that cannot block: it is given entries,
/// and the output is taken from it.
pub struct Steps(Writer);

impl Steps {
    /// A transcript with its header.
    ///
    /// # Errors
    ///
    /// None: writing to memory does not fail.
    pub fn begin(page: &TranscriptHeader<'_>) -> io::Result<Steps> {
        let mut writer = Writer::new(page);
        writer.header()?;
        Ok(Steps(writer))
    }

    /// The next entry of the log.
    ///
    /// # Errors
    ///
    /// None: writing to memory does not fail.
    pub fn entry(&mut self, entry: Entry) -> io::Result<()> {
        self.0.entry(entry)
    }

    /// Bytes that are written and not taken yet.
    pub fn ready(&self) -> usize {
        self.0.out.len()
    }

    /// Takes what was written so far. A turn is written when it is complete.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0.out)
    }

    /// The rest, and the totals.
    ///
    /// # Errors
    ///
    /// None: writing to memory does not fail.
    pub fn finish(self) -> io::Result<(Vec<u8>, TranscriptTotals)> {
        self.0.finish()
    }
}

/// The transcript as a string, from all entries.
pub fn text(
    page: &TranscriptHeader<'_>,
    entries: impl IntoIterator<Item = Entry>,
) -> (String, TranscriptTotals) {
    let mut out = Vec::new();
    let entries = entries.into_iter().map(Ok::<_, std::convert::Infallible>);
    let totals = write(page, entries, &mut out).expect("memory takes every write");
    (String::from_utf8(out).expect("only strings were written"), totals)
}

struct Writer {
    session: Session,
    previous: Option<PreviousSession>,
    zone: TimeZone,
    out: Vec<u8>,
    agent: String,
    label: String,
    turn: Option<Turn>,
    summary: Option<String>,
    totals: TranscriptTotals,
}

impl Writer {
    fn new(page: &TranscriptHeader<'_>) -> Writer {
        let agent = match marks::one_line(page.agent) {
            name if name.is_empty() => NAMELESS.into(),
            name => name,
        };
        let label = marks::label(&agent);
        Writer {
            session: page.session.clone(),
            previous: page.previous.clone(),
            zone: page.zone.clone(),
            out: Vec::new(),
            agent,
            label,
            turn: None,
            summary: None,
            totals: TranscriptTotals::default(),
        }
    }

    fn header(&mut self) -> io::Result<()> {
        let Session { header, tally, .. } = &self.session;
        let path = header.profile.agent_path.as_deref().map(marks::one_line);
        writeln!(self.out, "# {} Conversation\n", self.agent)?;
        writeln!(self.out, "**Session ID:** {}", marks::one_line(&self.session.shown_id()))?;
        let date = header.created_at.to_zoned(self.zone.clone());
        writeln!(self.out, "**Date:** {}", date.strftime("%Y-%m-%dT%H:%M:%S.%6f"))?;
        writeln!(self.out, "**Agent:** {}", self.agent)?;
        writeln!(self.out, "**Agent Path:** {}", path.as_deref().unwrap_or(BUILT_IN))?;
        writeln!(self.out, "**Total Queries:** {}", tally.queries)?;
        // A session that continues another program's transcript has no parent in the store.
        let parent = header.parent.filter(|parent| parent.origin.continues());
        let previous = self.previous.as_ref().map(|previous| marks::one_line(&previous.id));
        if let Some(id) = previous.or(parent.map(|parent| parent.id.to_string())) {
            writeln!(self.out, "**Resumed From:** {id}")?;
        }
        self.rule()
    }

    /// The line between two parts, with what surrounds it.
    fn rule(&mut self) -> io::Result<()> {
        writeln!(self.out, "\n{RULE}\n")
    }

    fn clock(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone()).strftime("%H:%M:%S").to_string()
    }

    fn entry(&mut self, entry: Entry) -> io::Result<()> {
        match TurnPart::of(&entry.body) {
            TurnPart::Question(message) => {
                self.end_turn()?;
                let mut turn = Turn::new(entry.at, true);
                turn.message(entry.at, message, &entry.measure);
                self.turn = Some(turn);
            }
            TurnPart::Reply(message) | TurnPart::Results(message) => {
                let turn = self.turn.get_or_insert_with(|| Turn::new(entry.at, false));
                turn.message(entry.at, message, &entry.measure);
            }
            TurnPart::Finished(finished) => {
                if let Some(turn) = &mut self.turn {
                    turn.finish(finished.clone());
                }
            }
            TurnPart::RoundLimit(limit) => {
                if let Some(turn) = &mut self.turn {
                    turn.limit(&limit.notice());
                }
            }
            TurnPart::Outside => self.outside_of_turns(entry)?,
        }
        Ok(())
    }

    /// Handles an entry that is not part of a turn.
    fn outside_of_turns(&mut self, entry: Entry) -> io::Result<()> {
        match entry.body {
            Body::Summary(summary) => self.summary = Some(summary.text),
            Body::Restored(restored) => self.restored(entry.at, &restored)?,
            Body::Cleared { .. } => self.note(CLEARED, entry.at)?,
            Body::Undone { .. } => self.note(UNDONE, entry.at)?,
            Body::Unknown { .. } if entry.is_lost() => match &mut self.turn {
                Some(turn) => turn.missing(entry.seq),
                None => {
                    writeln!(self.out, "{}", missing_line(entry.seq))?;
                    self.rule()?;
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// A line about the context, between two turns.
    fn note(&mut self, what: &str, at: Timestamp) -> io::Result<()> {
        self.end_turn()?;
        let clock = self.clock(at);
        writeln!(self.out, "{what}{clock})*")?;
        self.rule()
    }

    fn restored(&mut self, at: Timestamp, restored: &Restored) -> io::Result<()> {
        self.end_turn()?;
        let previous = self.previous.as_ref();
        let id = match (previous, restored.started.from) {
            (Some(previous), _) => marks::one_line(&previous.id),
            (None, Some(id)) => id.to_string(),
            (None, None) => "an earlier session".into(),
        };
        let size = previous.map(|previous| {
            format!(" ({} queries, {} tokens)", previous.queries, numbers::short(previous.tokens))
        });
        let clock = self.clock(at);
        writeln!(self.out, "## Session Restored ({clock})")?;
        writeln!(self.out, "**Context:** Resumed from {id}{}", size.unwrap_or_default())?;
        if let Some(path) = previous.and_then(|previous| previous.file.as_deref()) {
            writeln!(self.out, "**Previous Session:** {}", marks::one_line(path))?;
        }
        let tokens = TokenCount::charged(restored.usage).unwrap_or_else(|| TokenCount {
            input: tokens::count(&restored.prompt).into(),
            output: tokens::count(&restored.acknowledgment).into(),
        });
        self.totals.restoration.add(tokens);
        let acknowledgment = said(&restored.acknowledgment, &self.label);
        writeln!(self.out, "\n{}{acknowledgment}\n", self.label)?;
        self.footer(restored.ms, tokens)
    }

    fn end_turn(&mut self) -> io::Result<()> {
        let Some(turn) = self.turn.take() else { return Ok(()) };
        let reply = turn.reply(&self.label);
        if !turn.asked {
            // Messages at the start of a log or after a clear may belong to no question. The layout
            // has no place for them, so they are between two rules.
            if !reply.is_empty() {
                writeln!(self.out, "{}{reply}", self.label)?;
                self.rule()?;
            }
            return Ok(());
        }
        self.totals.queries += 1;
        let tokens = turn.tokens();
        self.totals.session.add(tokens);
        let clock = self.clock(turn.at);
        writeln!(self.out, "## Query {} ({clock})", self.totals.queries)?;
        writeln!(self.out, "{YOU}{}\n", said(&turn.question, &self.label))?;
        if !reply.is_empty() {
            writeln!(self.out, "{}{reply}\n", self.label)?;
        }
        match &turn.footer {
            // The cost line of the source is written unchanged, even if it is empty.
            Some(footer) if footer.is_empty() => self.rule(),
            Some(footer) => {
                writeln!(self.out, "{footer}")?;
                self.rule()
            }
            None => self.footer(turn.ms(), tokens),
        }
    }

    fn footer(&mut self, ms: u64, tokens: TokenCount) -> io::Result<()> {
        let (total, TokenCount { input, output }) = (tokens.total(), tokens);
        let seconds = ms as f64 / 1_000.0;
        writeln!(self.out, "*Time: {seconds:.1}s | Tokens: {total} (in: {input}, out: {output})*")?;
        self.rule()
    }

    fn finish(mut self) -> io::Result<(Vec<u8>, TranscriptTotals)> {
        self.end_turn()?;
        if let Some(summary) = self.summary.take() {
            let text = marks::clean(&summary);
            let text = marks::escape_text(&text, &self.label);
            writeln!(self.out, "{}", summary::block(&text))?;
        }
        Ok((self.out, self.totals))
    }
}

/// A text after a label, on the same line; empty if there is no text.
pub(super) fn said(text: &str, label: &str) -> String {
    let text = marks::clean(text);
    let Some((first, _)) = text.split_once('\n') else {
        return if text.is_empty() { text } else { format!(" {}", marks::escape_markers(&text)) };
    };
    // The first line follows the label, where it cannot be mistaken for structure.
    let written = marks::escape_text(&text, label);
    let rest = written.split_once('\n').map_or("", |(_, rest)| rest);
    format!(" {}\n{rest}", marks::escape_markers(first))
}
