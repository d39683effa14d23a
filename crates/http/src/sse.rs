//! Server-sent events: `data: {json}` and an empty line, sent immediately.

use std::convert::Infallible;
use std::sync::Arc;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::unfold;
use rethread_agent::{ByteBudget, HeldBytes};
use rethread_core::Owner;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::limits::{BEHIND_BYTES_MAX, BEHIND_MAX, KEEP_ALIVE};
use crate::outgoing::json_text;
use crate::quotas;

/// The queue of the events of one turn. A client that lags too far is disconnected: a turn never
/// waits for a client.
pub(crate) struct Sender {
    queue: Option<mpsc::Sender<Queued>>,
    /// Bytes that may be queued, and those of the owner.
    bytes: Arc<Semaphore>,
    budget: Arc<ByteBudget>,
    owner: Owner,
}

/// A queued event, and the memory it occupies.
struct Queued {
    event: Event,
    /// Of the queue, and of the owner.
    room: (OwnedSemaphorePermit, HeldBytes),
}

impl Sender {
    /// Sends an event of one line of JSON.
    pub(crate) fn send(&mut self, value: &impl Serialize) {
        if self.queue.is_none() {
            return;
        }
        let sent = self.queued(json_text(value)).zip(self.queue.as_ref());
        let sent = sent.is_some_and(|(queued, queue)| queue.try_send(queued).is_ok());
        if !sent {
            self.queue = None;
        }
    }

    /// The event, if there is room for it.
    fn queued(&self, json: String) -> Option<Queued> {
        let bytes = u32::try_from(json.len()).unwrap_or(u32::MAX).min(BEHIND_BYTES_MAX);
        let of_queue = self.bytes.clone().try_acquire_many_owned(bytes).ok()?;
        let of_owner = self.budget.try_take(&self.owner, json.len()).ok()?;
        let event = Event::default().data(json);
        Some(Queued { event, room: (of_queue, of_owner) })
    }
}

/// A stream, and its source. It ends when the source is dropped.
pub(crate) fn channel(
    budget: Arc<ByteBudget>,
    owner: Owner,
    right: quotas::Stream,
) -> (Sender, Response) {
    let (queue, receiver) = mpsc::channel(BEHIND_MAX);
    let events = unfold((receiver, right, None), |(mut receiver, right, sent)| async move {
        // The previous event is sent, and its memory is released.
        drop(sent);
        let Queued { event, room } = receiver.recv().await?;
        Some((event, (receiver, right, Some(room))))
    });
    let bytes = Arc::new(Semaphore::new(BEHIND_BYTES_MAX as usize));
    (Sender { queue: Some(queue), bytes, budget, owner }, response(events))
}

/// Responds with events as they arrive.
pub(crate) fn response(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    use futures_util::StreamExt;
    let events = events.map(Ok::<Event, Infallible>);
    // No proxy may buffer events.
    let headers = [("x-accel-buffering", "no")];
    let alive = KeepAlive::new().interval(KEEP_ALIVE);
    (headers, Sse::new(events).keep_alive(alive)).into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::limits::Limits;
    use crate::quotas::Quotas;

    #[tokio::test]
    async fn a_client_that_lags_too_far_is_disconnected_and_holds_up_nobody() {
        let quotas = Quotas::new(Limits::default(), Arc::default());
        let account = quotas.account(&Owner::local());
        let right = quotas.stream(&account).expect("the first");
        let (mut sender, response) = channel(quotas.bytes.clone(), Owner::local(), right);
        // There is no reader, and none of these calls blocks.
        for number in 0..=BEHIND_MAX {
            assert!(sender.queue.is_some(), "{number} fits");
            sender.send(&number);
        }
        assert!(sender.queue.is_none(), "one more did not fit");
        sender.send(&"too late");
        let body = response.into_body().collect().await.expect("it ends by itself").to_bytes();
        let text = String::from_utf8(body.into()).expect("text");
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(events.len(), BEHIND_MAX, "what fitted comes, in order");
        assert_eq!((events[0], events[BEHIND_MAX - 1]), ("data: 0", "data: 4095"));
    }

    #[tokio::test]
    async fn the_lag_of_a_client_is_counted_in_bytes_until_they_are_taken() {
        let limits = Limits { owner_bytes: 6 << 20, ..Limits::default() };
        let quotas = Quotas::new(limits, Arc::default());
        let account = quotas.account(&Owner::local());
        let open = || {
            let right = quotas.stream(&account).expect("there is room");
            channel(quotas.bytes.clone(), Owner::local(), right)
        };
        let megabyte = "x".repeat(1 << 20);
        let ((mut first, unread), (mut second, also_unread)) = (open(), open());
        for _ in 0..3 {
            first.send(&megabyte);
        }
        assert!(first.queue.is_some(), "three fit, with what is around them");
        first.send(&megabyte);
        assert!(first.queue.is_none(), "four do not");
        for _ in 0..3 {
            assert!(second.queue.is_some());
            second.send(&megabyte);
        }
        assert!(second.queue.is_none(), "the owner has used up everything");
        assert!(quotas.bytes.taken() > 5 << 20);
        let read = unread.into_body().collect().await.expect("it ends by itself").to_bytes();
        assert!(read.len() > 3 << 20, "what fitted comes");
        assert!(quotas.bytes.taken() < 3 << 20, "what was taken is given back");
        let mut large = open();
        large.0.send(&"x".repeat(5 << 20));
        assert!(large.0.queue.is_none(), "not while so much waits elsewhere");
        drop(also_unread);
        let mut large = open();
        large.0.send(&"x".repeat(5 << 20));
        assert!(large.0.queue.is_some(), "one event may be larger than a queue");
    }
}
