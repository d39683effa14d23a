//! Search: the searchable text of an entry, and queries.
//!
//! A text is split into [`terms`], here and nowhere else, and a [`Query`] consists of terms.
//! Whether or not a store has an index of terms, it finds what [`Query::matches`] would find, in
//! the order of [`Rank`]. So the same query has the same hits in every store.
//!
//! Nothing is stored here. How an index is kept up to date is up to each store.

mod hit;
mod query;
mod terms;

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use hit::Hit;
pub use query::{Query, Scope, Wanted};
pub use terms::{Term, line_of_terms, terms, words};

use crate::entry::Body;
use crate::message::{BlockKind, Message, Role};
use crate::name::SessionId;
use crate::session::Place;

/// Bytes of one entry that are searchable. The rest of a huge tool result is not found; `show` and
/// `recall` still read it.
pub const INDEXED_BYTES_MAX: usize = 256 << 10;

/// Who an entry comes from, as reported by search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// The user.
    User,
    /// The model, including its summaries.
    Assistant,
    /// A tool: its calls and results. A message that only calls tools counts here.
    Tool,
    /// Instructions for the model.
    System,
}

impl Speaker {
    /// All of them.
    pub const ALL: [Speaker; 4] =
        [Speaker::User, Speaker::Assistant, Speaker::Tool, Speaker::System];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
            Speaker::Tool => "tool",
            Speaker::System => "system",
        }
    }

    /// Whether it is part of the conversation. Messages of users and models rank above the rest.
    pub fn is_conversation(self) -> bool {
        matches!(self, Speaker::User | Speaker::Assistant)
    }
}

/// The searchable text of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct SearchText {
    pub speaker: Speaker,
    /// The text, cut to [`INDEXED_BYTES_MAX`].
    pub text: String,
}

impl SearchText {
    /// The searchable text of an entry: messages, calls and results; not thinking, and not the
    /// prefix that a client added.
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
/// call, and nobody searches for them.
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

/// The sort key of a hit; the greatest comes first. Messages of users and models come before calls
/// and results of tools; then later ones before earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Rank {
    /// Whether it is part of the conversation.
    pub is_conversation: bool,
    /// Its time.
    pub at: Timestamp,
    pub session: SessionId,
    /// Its position there.
    pub seq: u64,
}

impl Rank {
    /// The rank of an entry.
    pub fn new(place: Place, at: Timestamp, speaker: Speaker) -> Rank {
        Rank {
            is_conversation: speaker.is_conversation(),
            at,
            session: place.session,
            seq: place.seq,
        }
    }

    /// The position it belongs to.
    pub fn place(&self) -> Place {
        Place { session: self.session, seq: self.seq }
    }
}

/// One page of hits: the candidates in order, without those that do not match.
///
/// `said` reads the entry of a rank. It is called only for those that are shown; if the query has a
/// phrase, which can be checked only in the text, it is called for all up to them.
///
/// # Errors
///
/// The errors of `said`.
pub fn page<E>(
    query: &Query,
    mut found: Vec<Rank>,
    offset: usize,
    limit: usize,
    mut said: impl FnMut(Place) -> Result<Option<SearchText>, E>,
) -> Result<Vec<Hit>, E> {
    found.sort_unstable_by(|one, other| other.cmp(one));
    let (mut hits, mut passed) = (Vec::new(), 0);
    let mut sessions = HashSet::new();
    for rank in found {
        if hits.len() == limit {
            break;
        }
        if query.scope.once_per_session && sessions.contains(&rank.session) {
            continue;
        }
        if !query.has_phrase() && passed < offset {
            passed += 1;
            sessions.insert(rank.session);
            continue;
        }
        // Entries that cannot be read cannot be shown.
        let Some(said) = said(rank.place())? else { continue };
        if query.has_phrase() && !query.matches(&said.text) {
            continue;
        }
        passed += 1;
        sessions.insert(rank.session);
        if passed > offset {
            hits.push(query.hit(rank.place(), rank.at, &said));
        }
    }
    Ok(hits)
}
