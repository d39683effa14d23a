//! Entries: read a range, append messages.

use axum::http::HeaderMap;
use axum::response::Response;
use rethread_core::store::At;
use rethread_core::{Entry, EntryId, Incoming, Message, SessionId, Sessions, sessions};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{json, shapes};
use crate::desk::Visitor;
use crate::input::{Id, Json, Params, once};
use crate::limits::{ENTRIES_BYTES_MAX, ENTRIES_MAX};
use crate::problem::Problem;

/// Entries read from the store at once.
const STEP: u64 = 64;

/// Which entries.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Range {
    /// The first entry; 0 when none is given.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// How many, at most 1,000. There may be fewer, where they are large: `next` says so.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Read entries of a session
#[utoipa::path(get, path = "/v1/sessions/{id}/entries", tag = "entries",
    params(("id" = uuid::Uuid, Path, description = "The session"), Range),
    responses((status = 200, description = "Those that exist", body = shapes::Entries)))]
pub(crate) async fn read(
    visitor: Visitor,
    Id(id): Id,
    Params(range): Params<Range>,
) -> Result<Response, Problem> {
    let limit = range.limit.unwrap_or(ENTRIES_MAX);
    if !(1..=ENTRIES_MAX).contains(&limit) {
        return Err(Problem::bad_request(format!("`limit` is from 1 to {ENTRIES_MAX}")));
    }
    let from = range.from.unwrap_or(0);
    let (entries, next, head) =
        visitor.with(move |sessions| run(sessions, id, from, limit)).await?;
    let text = format!(
        "{{\"entries\":[{}],\"next\":{},\"head\":{head}}}",
        entries.join(","),
        next.map_or("null".into(), |next| next.to_string())
    );
    let raw =
        rethread_core::Raw::parse(text).map_err(|error| Problem::broken(error.to_string()))?;
    Ok(json(&raw))
}

/// A run of entries as JSON, no larger than an answer may be.
fn run(
    sessions: &Sessions,
    id: SessionId,
    from: u64,
    limit: u64,
) -> Result<(Vec<String>, Option<u64>, u64), sessions::Error> {
    let head = sessions.get(id)?.tally.entries;
    let end = head.min(from.saturating_add(limit));
    let mut written = Vec::new();
    let mut bytes = 0;
    let mut next = from;
    while next < end && bytes < ENTRIES_BYTES_MAX {
        for entry in sessions.read(id, next..end.min(next + STEP))? {
            let text = written_out(&entry);
            if !written.is_empty() && bytes + text.len() > ENTRIES_BYTES_MAX {
                bytes = ENTRIES_BYTES_MAX;
                break;
            }
            bytes += text.len();
            written.push(text);
            next = entry.seq + 1;
        }
        if written.is_empty() {
            break;
        }
    }
    Ok((written, (next < head && next > from).then_some(next), head))
}

pub(super) fn written_out(entry: &Entry) -> String {
    serde_json::to_string(entry).expect("plain data is always valid JSON")
}

/// Messages to append.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Append {
    /// The messages: all are stored, or none. Each is `{"role", "content"}`, content being a
    /// string, a block or a list of blocks; an `id` makes it safe to send it again.
    #[schema(value_type = Vec<MessageIn>, min_items = 1)]
    messages: Vec<Message>,
    /// How many entries the writer has seen. If there are others by now, nothing is stored.
    #[serde(default)]
    head: Option<u64>,
}

/// A message as it is sent.
#[derive(ToSchema)]
#[schema(as = Message)]
#[expect(dead_code, reason = "it describes what core reads")]
pub(crate) struct MessageIn {
    role: shapes::Role,
    /// A string, a block or a list of blocks.
    content: serde_json::Value,
    /// Makes it safe to send it again.
    id: Option<String>,
}

/// Append messages
///
/// They are on disk when this answers. `Idempotency-Key` makes the request safe to repeat: the
/// first result is given again.
#[utoipa::path(post, path = "/v1/sessions/{id}/entries", tag = "entries",
    params(("id" = uuid::Uuid, Path, description = "The session"),
        ("idempotency-key" = Option<String>, Header, description = "Makes the request safe to repeat; at most 100 visible characters")),
    request_body = Append, responses((status = 200, description = "They are on disk", body = shapes::Appended)))]
pub(crate) async fn append(
    visitor: Visitor,
    Id(id): Id,
    headers: HeaderMap,
    Json(append): Json<Append>,
) -> Result<Response, Problem> {
    if append.messages.is_empty() {
        return Err(Problem::bad_request("`messages` is empty"));
    }
    let repeatable = idempotency_key(&headers)?;
    let messages = append
        .messages
        .into_iter()
        .enumerate()
        .map(|(index, message)| incoming(message, repeatable.as_deref(), index))
        .collect::<Result<Vec<Incoming>, Problem>>()?;
    let at = At { head: append.head, fence: None };
    let (seqs, head) = visitor
        .with(move |sessions| {
            let seqs = sessions.append_at(id, at, messages.clone())?;
            Ok((seqs, sessions.get(id)?.tally.entries))
        })
        .await?;
    Ok(json(&serde_json::json!({ "session": id, "seqs": seqs, "head": head })))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(given) = once(headers, "idempotency-key")? else { return Ok(None) };
    let text = given.to_str().ok().filter(|text| !text.is_empty() && text.len() <= 100);
    match text {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Problem::bad_request("`Idempotency-Key` is 1 to 100 visible characters")),
    }
}

/// A message with its id: its own, or one made from the key of the request.
fn incoming(
    mut message: Message,
    repeatable: Option<&str>,
    index: usize,
) -> Result<Incoming, Problem> {
    // The id belongs to the entry, not to what is said.
    let given = message.extra.iter().position(|(key, _)| key == "id");
    let given = given.map(|index| message.extra.remove(index).1);
    let id = match given.map(|raw| serde_json::from_str::<Option<String>>(raw.get())) {
        Some(Ok(Some(id))) => Some(EntryId::new(id)?),
        Some(Err(_)) => return Err(Problem::bad_request("`id` of a message is a string")),
        None | Some(Ok(None)) => {
            repeatable.map(|key| EntryId::new(format!("{key}#{index}"))).transpose()?
        }
    };
    Ok(Incoming { id, message })
}
