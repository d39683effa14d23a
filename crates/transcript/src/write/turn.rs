//! One turn, collected from its entries until it can be written.

use jiff::Timestamp;
use rethread_core::entry::Finished;
use rethread_core::measure::Measure;
use rethread_core::message::{BlockKind, Call, Message, Role};

use super::markdown::{TokenCount, said};
use crate::markdown_marks::{
    FOOTER, INTERRUPTED, MISSING, TOOL, clean, escape_text, is_footer, one_line,
};

/// Characters of the line that shows a tool call. It shows what was done, not the whole input.
const TOOL_LINE_CHARS_MAX: usize = 200;

/// A turn that is being collected.
pub(super) struct Turn {
    /// When it began.
    pub(super) at: Timestamp,
    /// Whether a message of the user opened it.
    pub(super) asked: bool,
    /// What the user wrote.
    pub(super) question: String,
    pieces: Vec<Piece>,
    /// When its latest entry was written.
    until: Timestamp,
    charged: Option<TokenCount>,
    counted: TokenCount,
    finished: Option<Finished>,
    /// The cost line, if it comes from a transcript; empty if that had none.
    pub(super) footer: Option<String>,
}

enum Piece {
    Text(String),
    Tool {
        id: String,
        what: String,
        status: &'static str,
    },
    Interrupted,
    /// A damaged entry, by its position.
    Missing(u64),
}

impl Turn {
    pub(super) fn new(at: Timestamp, asked: bool) -> Turn {
        Turn {
            at,
            asked,
            question: String::new(),
            pieces: Vec::new(),
            until: at,
            charged: None,
            counted: TokenCount::default(),
            finished: None,
            footer: None,
        }
    }

    pub(super) fn message(&mut self, at: Timestamp, message: &Message, measure: &Measure) {
        self.until = at;
        let counted = u64::from(measure.tokens);
        if message.role == Role::Assistant {
            self.counted.add(TokenCount { input: 0, output: counted });
            if let Some(tokens) = message.usage.and_then(TokenCount::charged) {
                self.charged.get_or_insert_default().add(tokens);
            }
            self.footer = footer_of(message).or(self.footer.take());
            self.reply_of(message);
        } else {
            self.counted.add(TokenCount { input: counted, output: 0 });
            self.answers_of(message, measure);
        }
        if message.opens_turn() {
            self.question = message.plain_text();
        }
    }

    fn reply_of(&mut self, message: &Message) {
        for block in &message.content {
            match &block.kind {
                BlockKind::Text(text) if !text.trim().is_empty() => {
                    self.pieces.push(Piece::Text(text.clone()));
                }
                BlockKind::ToolUse(call) => self.pieces.push(Piece::Tool {
                    id: call.id.clone(),
                    what: called(call),
                    status: "no answer",
                }),
                _ => {}
            }
        }
        if message.interrupted {
            self.pieces.push(Piece::Interrupted);
        }
    }

    /// Records how the calls ended.
    fn answers_of(&mut self, message: &Message, measure: &Measure) {
        for (index, result) in message.results().enumerate() {
            // The stub detects failures that only the result's own JSON shows. Inside a JSON string
            // the quotes would be escaped, so a tool cannot forge this.
            let stub = measure.results.get(index).map_or("", |result| result.stub.as_str());
            let failed = result.is_error || stub.contains(r#""status":"error""#);
            let open = self.pieces.iter_mut().rev().find_map(|piece| match piece {
                Piece::Tool { id, status, .. } if *id == result.tool_use_id => Some(status),
                _ => None,
            });
            if let Some(status) = open {
                *status = if failed { "error" } else { "success" };
            }
        }
    }

    pub(super) fn finish(&mut self, finished: Finished) {
        self.finished = Some(finished);
    }

    /// The turn was ended early. A reply that already says so is left unchanged.
    pub(super) fn limit(&mut self, notice: &str) {
        let said = self.pieces.iter().rev().find_map(|piece| match piece {
            Piece::Text(text) => Some(text.trim_end().ends_with(notice)),
            _ => None,
        });
        if said != Some(true) {
            self.pieces.push(Piece::Text(notice.into()));
        }
    }

    /// A damaged entry is missing here.
    pub(super) fn missing(&mut self, seq: u64) {
        self.pieces.push(Piece::Missing(seq));
    }

    /// Milliseconds it took.
    pub(super) fn ms(&self) -> u64 {
        let passed = self.until.as_millisecond().saturating_sub(self.at.as_millisecond());
        let told = self.finished.as_ref().map(|finished| finished.ms).filter(|ms| *ms > 0);
        told.unwrap_or_else(|| u64::try_from(passed).unwrap_or(0))
    }

    /// What the provider charged or, if that is not known, our own count.
    pub(super) fn tokens(&self) -> TokenCount {
        let finished =
            self.finished.as_ref().and_then(|finished| TokenCount::charged(finished.usage));
        self.charged.or(finished).unwrap_or(self.counted)
    }

    /// The reply after the agent's label: its texts, with the tool calls between them as
    /// paragraphs.
    pub(super) fn reply(&self, label: &str) -> String {
        let mut reply = String::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Text(text) if index == 0 => reply.push_str(&said(text, label)),
                Piece::Text(text) => {
                    reply.extend(["\n\n", &escape_text(&clean(text), label)]);
                }
                Piece::Tool { what, status, .. } => {
                    reply.extend(["\n\n", &tool_line(what, status)])
                }
                Piece::Missing(seq) => reply.extend(["\n\n", &missing_line(*seq)]),
                Piece::Interrupted => reply.extend(["\n\n", INTERRUPTED]),
            }
        }
        reply
    }
}

/// The cost line of this reply in a transcript.
fn footer_of(message: &Message) -> Option<String> {
    let (_, raw) = message.extra.iter().find(|(name, _)| name == FOOTER)?;
    let footer: String = serde_json::from_str(raw.get()).ok()?;
    (footer.is_empty() || is_footer(&footer)).then_some(footer)
}

/// A call on one line: the tool and its arguments.
fn called(call: &Call) -> String {
    // The arguments may be megabytes long; what will be cut anyway is not read.
    let start: String = call.input.get().chars().take(4 * TOOL_LINE_CHARS_MAX).collect();
    one_line(&format!("{} {start}", call.name))
}

/// The line in the place of a damaged entry.
pub(super) fn missing_line(seq: u64) -> String {
    format!("{MISSING}entry {seq}, which is damaged*")
}

fn tool_line(what: &str, status: &str) -> String {
    let end = format!(" → {status}*");
    let room = TOOL_LINE_CHARS_MAX - TOOL.chars().count() - end.chars().count();
    match what.chars().count() > room {
        true => format!("{TOOL}{}…{end}", what.chars().take(room - 1).collect::<String>()),
        false => format!("{TOOL}{what}{end}"),
    }
}
