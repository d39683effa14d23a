//! Entries: read a range, append messages.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use rethread_agent::HeldBytes;
use rethread_core::store::At;
use rethread_core::{Entry, EntryId, Incoming, Message, SessionId, Sessions, StoreError, sessions};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{json, shapes};
use crate::input::{Id, Json, Params, once};
use crate::limits::{ENTRIES_BYTES_MAX, ENTRIES_MAX, PART_BYTES};
use crate::outgoing::{json_text, keep};
use crate::problem::Problem;
use crate::quotas::Stream;
use crate::state::Caller;

/// Entries read from the store at once, at most. One may have 16 MiB, and all of them are in memory
/// before their size is known.
const STEP_MAX: u64 = 8;

/// Bytes of entries after which the next one is read separately.
const LARGE_BYTES: usize = 256 << 10;

/// Which entries.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Range {
    /// The first entry; 0 if none is given.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// How many, at most 1,000. There may be fewer if they are large: `next` says so.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Read entries of a session
#[utoipa::path(get, path = "/v1/sessions/{id}/entries", tag = "entries",
    params(("id" = uuid::Uuid, Path, description = "The session"), Range),
    responses((status = 200, description = "The entries", body = shapes::Entries)))]
pub(crate) async fn read(
    caller: Caller,
    Id(id): Id,
    Params(range): Params<Range>,
) -> Result<Response, Problem> {
    let limit = range.limit.unwrap_or(ENTRIES_MAX);
    if !(1..=ENTRIES_MAX).contains(&limit) {
        return Err(Problem::bad_request(format!("`limit` is from 1 to {ENTRIES_MAX}")));
    }
    let from = range.from.unwrap_or(0);
    let room = caller.room().await?;
    let head = caller.with(move |sessions| Ok(sessions.get(id)?.tally.entries)).await?;
    let range = from..head.min(from.saturating_add(limit));
    let mut run = Run { caller, id, head, range, bytes: 0, written: 0, ended: false, done: false };
    let mut text = run.part().await?;
    let headers = [("content-type", "application/json")];
    if run.is_over() {
        text.push_str(&run.end());
        return Ok(keep((headers, text).into_response(), room));
    }
    let right = run.caller.stream()?;
    Ok((headers, Body::from_stream(run.stream(text, room, right))).into_response())
}

/// The position of an entry, and the entry as JSON.
pub(super) type Written = (u64, String);

/// A run of entries, limited to the size of a response, which is read in parts as they are sent.
struct Run {
    caller: Caller,
    id: SessionId,
    /// How many entries there are.
    head: u64,
    /// Those that are still to come.
    range: std::ops::Range<u64>,
    bytes: usize,
    written: u64,
    /// No more entries come.
    ended: bool,
    /// The response is complete.
    done: bool,
}

impl Run {
    fn is_over(&self) -> bool {
        self.ended || self.range.is_empty()
    }

    /// The next part of the response.
    async fn part(&mut self) -> Result<String, Problem> {
        let (id, range, left) = (self.id, self.range.clone(), ENTRIES_BYTES_MAX - self.bytes);
        let read = self.caller.with(move |sessions| {
            in_steps(range.clone(), left, PART_BYTES, |step| read_around(sessions, id, step))
        });
        let read = read.await?;
        let mut part = String::new();
        if self.written == 0 {
            part.push_str("{\"entries\":[");
        }
        let before = self.range.start;
        for (seq, entry) in read {
            // A response has at least one entry, however large.
            if self.written > 0 && self.bytes + entry.len() > ENTRIES_BYTES_MAX {
                break;
            }
            if self.written > 0 {
                part.push(',');
            }
            part.push_str(&entry);
            self.bytes = (self.bytes + entry.len()).min(ENTRIES_BYTES_MAX);
            self.written += 1;
            self.range.start = seq + 1;
        }
        self.ended = self.range.start == before || self.bytes == ENTRIES_BYTES_MAX;
        Ok(part)
    }

    /// The end of the response, with the position to continue from.
    fn end(&self) -> String {
        let next = Some(self.range.start).filter(|next| self.written > 0 && *next < self.head);
        let next = next.map_or("null".into(), |next| next.to_string());
        format!("],\"next\":{next},\"head\":{}}}", self.head)
    }

    /// The whole response, starting with its first part. If entries cannot be read any more, or
    /// there is no memory, it ends early: the request for `next` gets the error.
    fn stream(
        self,
        first: String,
        mut room: HeldBytes,
        right: Stream,
    ) -> impl futures_util::Stream<Item = Result<String, Infallible>> {
        room.shrink_to(first.len());
        let first = (Some(first), Some(room));
        unfold((self, first, right), |(mut run, (first, room), right)| async move {
            if let Some(first) = first {
                return Some((Ok(first), (run, (None, room), right)));
            }
            // The previous part is sent.
            drop(room);
            if run.done {
                return None;
            }
            let more = match run.is_over() {
                true => None,
                false => run.caller.room().await.ok(),
            };
            let part = match more.is_some() {
                true => run.part().await.ok().filter(|part| !part.is_empty()),
                false => None,
            };
            let part = part.unwrap_or_else(|| {
                run.done = true;
                run.end()
            });
            let more = more.map(|mut room| {
                room.shrink_to(part.len());
                room
            });
            Some((Ok(part), (run, (None, more), right)))
        })
    }
}

/// The entries of a range up to this many bytes, and at least one if there is one. No more are read
/// once there are enough.
pub(super) fn in_steps<E>(
    range: std::ops::Range<u64>,
    most: usize,
    enough: usize,
    mut read: impl FnMut(std::ops::Range<u64>) -> Result<Vec<Entry>, E>,
) -> Result<Vec<Written>, E> {
    let mut written: Vec<Written> = Vec::new();
    let (mut bytes, mut next, mut step) = (0, range.start, 1);
    while next < range.end && bytes < enough {
        let before = bytes;
        let entries = read(next..range.end.min(next.saturating_add(step)))?;
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            let text = json_text(&entry);
            bytes += text.len();
            if bytes > most && !written.is_empty() {
                return Ok(written);
            }
            written.push((entry.seq, text));
            next = entry.seq + 1;
        }
        step = if bytes - before < LARGE_BYTES { STEP_MAX.min(2 * step) } else { 1 };
    }
    Ok(written)
}

/// Reads entries. A damaged one is replaced by one of the kind `lost`, so that a client gets past
/// it.
pub(super) fn read_around(
    sessions: &Sessions,
    id: SessionId,
    range: std::ops::Range<u64>,
) -> sessions::Result<Vec<Entry>> {
    match sessions.read(id, range.clone()) {
        Err(sessions::Error::Store(StoreError::Damaged { .. })) => {
            sessions.entries(id, range).skip_damaged().collect()
        }
        read => read,
    }
}

/// Messages to append.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Append {
    /// The messages: all are stored, or none. Each is `{"role", "content"}`, where the content is a
    /// string, a block or a list of blocks; with an `id`, it can safely be sent again.
    #[schema(value_type = Vec<MessageIn>, min_items = 1)]
    messages: Vec<Message>,
    /// The number of entries the client has seen. If the log has more by now, nothing is stored.
    #[serde(default)]
    head: Option<u64>,
}

/// A message to append.
#[derive(ToSchema)]
#[schema(as = Message)]
#[expect(dead_code, reason = "it describes what core reads")]
pub(crate) struct MessageIn {
    role: shapes::Role,
    /// A string, a block or a list of blocks.
    content: serde_json::Value,
    /// Makes it safe to send the message again.
    id: Option<String>,
}

/// Append messages
///
/// The messages are on disk when this responds. With an `Idempotency-Key`, the request can safely
/// be repeated: the first result is returned again.
#[utoipa::path(post, path = "/v1/sessions/{id}/entries", tag = "entries",
    params(("id" = uuid::Uuid, Path, description = "The session"),
        ("idempotency-key" = Option<String>, Header, description = "Makes the request safe to repeat; at most 100 visible characters")),
    request_body = Append, responses((status = 200, description = "The messages are on disk", body = shapes::Appended)))]
pub(crate) async fn append(
    caller: Caller,
    Id(id): Id,
    headers: HeaderMap,
    Json(append, _room): Json<Append>,
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
    let at = At { head: append.head, ..At::END };
    let (seqs, head) = caller
        .with(move |sessions| {
            let seqs = sessions.append_at(id, at.clone(), messages.clone())?;
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

/// A message with its id: its own, or one derived from the key of the request.
pub(super) fn incoming(
    mut message: Message,
    repeatable: Option<&str>,
    index: usize,
) -> Result<Incoming, Problem> {
    // The id belongs to the entry, not to the message.
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

#[cfg(test)]
mod tests {
    use rethread_core::measure::Measure;
    use rethread_core::{Body, NewEntry, Tally};

    use super::*;

    /// A log whose messages have this many bytes each.
    fn log(sizes: impl IntoIterator<Item = usize>) -> Vec<Entry> {
        let mut tally = Tally::default();
        let entries = sizes.into_iter().enumerate().map(|(index, bytes)| {
            let body = Body::Message(Message::user("x ".repeat(bytes / 2)));
            let (id, at) = (EntryId::new(format!("e{index}")).expect("valid"), Default::default());
            let entry = NewEntry { id, at, measure: Measure::default(), body }.placed(&tally);
            tally = entry.tally;
            entry
        });
        entries.collect()
    }

    /// Reads a log from a position on. Returns the positions, the entries read, and the number of
    /// reads.
    fn read(log: &[Entry], from: u64, most: usize) -> (Vec<u64>, u64, u64) {
        let (mut count, mut times) = (0, 0);
        let written = in_steps(from..log.len() as u64, most, most, |step| {
            times += 1;
            count += step.end - step.start;
            Ok::<_, ()>(log[step.start as usize..step.end as usize].to_vec())
        });
        let written = written.expect("read");
        (written.into_iter().map(|(seq, _)| seq).collect(), count, times)
    }

    #[test]
    fn large_entries_are_read_one_by_one_and_no_more_of_them_than_are_given() {
        let log = log([1 << 20; 12]);
        let (mut from, mut given) = (0, Vec::new());
        while from < log.len() as u64 {
            let (places, count, _) = read(&log, from, 4 << 20);
            assert_eq!(places.len(), 3, "from {from}: four are a little more than fits");
            assert!(count <= 4, "from {from}: {count}");
            from = places.last().expect("some") + 1;
            given.extend(places);
        }
        assert_eq!(given, (0..12).collect::<Vec<u64>>());
        assert_eq!(read(&log, 3, 10), (vec![3], 1, 1), "one is given, however large");
    }

    #[test]
    fn small_entries_are_read_eight_at_once_and_large_ones_among_them_alone_again() {
        let small = log([10; 100]);
        let (places, count, times) = read(&small, 0, usize::MAX);
        assert_eq!((places.len(), count), (100, 100));
        assert!(times <= 3 + 100_u64.div_ceil(STEP_MAX), "{times}");
        let mixed = log([10; 15].into_iter().chain([1 << 20; 64]));
        let (places, count, _) = read(&mixed, 0, 2 << 20);
        assert_eq!(places.len(), 15 + 1);
        assert!(count <= 15 + STEP_MAX, "{count}");
    }

    #[test]
    fn a_log_that_ends_early_ends_what_is_read() {
        let nothing = in_steps(0..u64::MAX, 9, 9, |_| Ok::<_, ()>(Vec::new()));
        assert_eq!(nothing, Ok(Vec::new()));
    }
}
