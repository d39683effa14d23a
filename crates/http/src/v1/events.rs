//! The live tail of a session: every entry, once, in order, as it is written.
//!
//! The id of an event is the seq of its entry, and the log is the buffer: a client that reconnects
//! with `Last-Event-ID` continues after that entry, even if this server was restarted in between.

use std::collections::VecDeque;

use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream::unfold;
use rethread_agent::HeldBytes;
use rethread_core::SessionId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::entries::{Written, in_steps, read_around};
use super::shapes;
use crate::input::{Id, Params, once};
use crate::limits::{TAIL_BYTES_MAX, TAIL_ENTRIES, TAIL_POLL};
use crate::notifying_store::Subscriber;
use crate::problem::Problem;
use crate::quotas::Stream;
use crate::sse;
use crate::state::Caller;

/// The highest seq a client may send: the largest number that JSON keeps exactly.
const SEQ_MAX: u64 = 1 << 53;

/// Where to start.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct From {
    /// The first entry; if none is given, only entries written from now on.
    #[param(minimum = 0)]
    from: Option<u64>,
}

/// Follow a session's entries as they are written
///
/// Each event has the `seq` of an entry as its id and the entry as its data. The first event has an id
/// and no data: it marks where the stream starts, so that a client that loses the connection right
/// away misses nothing. The stream ends when the session is deleted.
#[utoipa::path(get, path = "/v1/sessions/{id}/events", tag = "entries",
    params(("id" = uuid::Uuid, Path, description = "The session"), From,
        ("last-event-id" = Option<i64>, Header, description = "The last event the client received; takes precedence over `from`")),
    responses((status = 200, description = "Entries as they are written", body = shapes::Event, content_type = "text/event-stream")))]
pub(crate) async fn follow(
    caller: Caller,
    Id(id): Id,
    Params(from): Params<From>,
    headers: HeaderMap,
    stream: Stream,
) -> Result<Response, Problem> {
    // Subscribing comes before reading: nothing is written unnoticed in between.
    let subscriber = caller.state.store.subscribers().listen(id);
    let session = caller.with(move |sessions| sessions.get(id)).await?;
    let next = match (last_seen(&headers)?, from.from) {
        (Some(seen), _) => seen.wrapping_add_signed(1),
        (None, Some(from)) if from <= SEQ_MAX => from,
        (None, Some(_)) => return Err(Problem::bad_request("`from` is the seq of an entry")),
        (None, None) => session.tally.entries,
    };
    let (ready, room, begun) = (VecDeque::new(), None, false);
    let tail = Tail { caller, id, subscriber, next, ready, room, begun, stream };
    Ok(sse::response(unfold(tail, |mut tail| async move {
        let event = tail.event().await?;
        Some((event, tail))
    })))
}

/// The last event a client has seen; -1 if it has seen none.
fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(given) = once(headers, "last-event-id")? else { return Ok(None) };
    match given.to_str().ok().and_then(|text| text.parse::<i64>().ok()) {
        // One before the first, so that the next is the first.
        Some(-1) => Ok(Some(u64::MAX)),
        Some(seq) if (0..=SEQ_MAX.cast_signed()).contains(&seq) => Ok(Some(seq.unsigned_abs())),
        _ => Err(Problem::bad_request("`Last-Event-ID` is the id of an event of this stream")),
    }
}

struct Tail {
    caller: Caller,
    id: SessionId,
    subscriber: Subscriber,
    next: u64,
    ready: VecDeque<Written>,
    /// The memory of what is ready to be sent.
    room: Option<HeldBytes>,
    begun: bool,
    /// Held while the stream is open.
    #[expect(dead_code, reason = "dropping it is what it is for")]
    stream: Stream,
}

impl Tail {
    /// The next event; `None` at the end.
    async fn event(&mut self) -> Option<Event> {
        if !std::mem::replace(&mut self.begun, true) {
            let before = self.next.checked_sub(1).map_or("-1".into(), |seq| seq.to_string());
            return Some(Event::default().id(before));
        }
        let closing = self.caller.state.closing.clone();
        loop {
            if let Some((seq, entry)) = self.ready.pop_front() {
                self.next = seq + 1;
                return Some(Event::default().id(seq.to_string()).data(entry));
            }
            if closing.is_cancelled() {
                return None;
            }
            self.room = None;
            let (id, next) = (self.id, self.next);
            // A deleted session, or a store that cannot be reached, ends the stream.
            let head = self.caller.with(move |sessions| Ok(sessions.get(id)?.tally.entries));
            if head.await.ok()? > next {
                // If there is no memory for an entry, it is sent later.
                let mut room = tokio::select! {
                    () = closing.cancelled() => return None,
                    room = self.caller.room_at_last() => room,
                };
                let range = next..next.saturating_add(TAIL_ENTRIES);
                let read = self.caller.with(move |sessions| {
                    let most = TAIL_BYTES_MAX;
                    in_steps(range.clone(), most, most, |step| read_around(sessions, id, step))
                });
                self.ready = read.await.ok()?.into();
                room.shrink_to(self.ready.iter().map(|(_, entry)| entry.len()).sum());
                self.room = Some(room);
            }
            if self.ready.is_empty() {
                tokio::select! {
                    () = closing.cancelled() => return None,
                    () = self.subscriber.wait(TAIL_POLL) => {}
                }
            }
        }
    }
}
