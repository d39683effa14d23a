//! Search: what can be found in an entry, and what a query asks for.
//!
//! A text becomes [`terms`], here and nowhere else, and a [`Query`] asks for terms. A store keeps an
//! index of terms or none; either way it finds what [`Query::matches`] would find, in the order of
//! [`Rank`]. That is how the same query has the same hits in every store.
//!
//! Nothing is stored here. How an index follows the logs is up to each store.

mod hit;
mod query;
mod terms;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use hit::Hit;
pub use query::{Query, Scope, Wanted};
pub use terms::{Term, line_of_terms, terms, words};

use crate::entry::Body;
use crate::message::{BlockKind, Message, Role};
use crate::name::SessionId;
use crate::session::Place;

/// Bytes of one entry that search looks at. What comes after them in a huge tool result is not
/// found; `show` and `recall` read it as ever.
pub const INDEXED_BYTES_MAX: usize = 256 << 10;

/// Who an entry comes from, as search reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// The person.
    User,
    /// The model, its summaries included.
    Assistant,
    /// A tool: what it was asked and what it answered. A message that only calls tools counts here.
    Tool,
    /// Instructions for the model.
    System,
}

impl Speaker {
    /// All of them.
    pub const ALL: [Speaker; 4] =
        [Speaker::User, Speaker::Assistant, Speaker::Tool, Speaker::System];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
            Speaker::Tool => "tool",
            Speaker::System => "system",
        }
    }

    /// Whether it is part of the conversation. What people and models said ranks above the rest.
    pub fn converses(self) -> bool {
        matches!(self, Speaker::User | Speaker::Assistant)
    }
}

/// What can be found in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchText {
    /// Who said it.
    pub speaker: Speaker,
    /// The text, cut to [`INDEXED_BYTES_MAX`].
    pub text: String,
}

impl SearchText {
    /// What can be found in an entry: what was said, called and answered; not thinking, and not what
    /// a door put before a message.
    pub fn of(body: &Body) -> Option<SearchText> {
        let (speaker, mut text) = match body {
            Body::Message(message) => (speaker(message), text(message)),
            Body::Summary(summary) => (Speaker::Assistant, summary.text.clone()),
            Body::Restored(restored) => (Speaker::Assistant, restored.acknowledgment.clone()),
            _ => return None,
        };
        text.truncate(text.floor_char_boundary(INDEXED_BYTES_MAX));
        (!text.trim().is_empty()).then_some(SearchText { speaker, text })
    }
}

fn speaker(message: &Message) -> Speaker {
    let says = |kind: &BlockKind| matches!(kind, BlockKind::Text(text) if !text.trim().is_empty());
    match message.role {
        Role::System => Speaker::System,
        Role::Tool => Speaker::Tool,
        _ if !message.content.iter().any(|block| says(&block.kind)) => Speaker::Tool,
        Role::User => Speaker::User,
        Role::Assistant => Speaker::Assistant,
    }
}

fn text(message: &Message) -> String {
    let mut text = String::new();
    for block in &message.content {
        if !text.is_empty() {
            text.push('\n');
        }
        match &block.kind {
            BlockKind::Text(said) => text += said,
            BlockKind::ToolUse(call) => {
                text += &call.name;
                match serde_json::from_str(call.input.get()) {
                    Ok(input) => push_values(&mut text, &input),
                    Err(_) => text += call.input.get(),
                }
            }
            BlockKind::ToolResult(result) => text += &result.text(),
            _ => {}
        }
    }
    text
}

/// Adds the values in the arguments of a call. The names of the arguments are the same in every
/// call, and nobody looks for them.
fn push_values(text: &mut String, value: &serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => *text += &format!(" {number}"),
        Value::String(string) => {
            text.push(' ');
            *text += string;
        }
        Value::Array(values) => values.iter().for_each(|value| push_values(text, value)),
        Value::Object(fields) => fields.values().for_each(|value| push_values(text, value)),
    }
}

/// Where a hit belongs among others: the greater, the earlier it is shown. What people and models
/// said comes before what tools were asked and answered; then the later before the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Whether it is part of the conversation.
    pub converses: bool,
    /// When it was said.
    pub at: Timestamp,
    /// The session.
    pub session: SessionId,
    /// Its place there.
    pub seq: u64,
}

impl Rank {
    /// The rank of an entry.
    pub fn new(place: Place, at: Timestamp, speaker: Speaker) -> Rank {
        Rank { converses: speaker.converses(), at, session: place.session, seq: place.seq }
    }

    /// The place it belongs to.
    pub fn place(&self) -> Place {
        Place { session: self.session, seq: self.seq }
    }
}

/// One page of hits: the entries that may match in their order, those that do not match left out.
///
/// `said` reads the entry of a rank; it is called for those alone that are shown, and for all up to
/// them where the query has a phrase, which only the text can tell.
///
/// # Errors
///
/// The terms of `said`.
pub fn page<E>(
    query: &Query,
    mut found: Vec<Rank>,
    offset: usize,
    limit: usize,
    mut said: impl FnMut(Place) -> Result<Option<SearchText>, E>,
) -> Result<Vec<Hit>, E> {
    found.sort_unstable_by(|one, other| other.cmp(one));
    let (mut hits, mut passed) = (Vec::new(), 0);
    for rank in found {
        if hits.len() == limit {
            break;
        }
        if !query.has_phrase() && passed < offset {
            passed += 1;
            continue;
        }
        // What cannot be read cannot be shown.
        let Some(said) = said(rank.place())? else { continue };
        if query.has_phrase() && !query.matches(&said.text) {
            continue;
        }
        passed += 1;
        if passed > offset {
            hits.push(query.hit(rank.place(), rank.at, &said));
        }
    }
    Ok(hits)
}
