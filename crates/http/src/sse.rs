//! Streams of events: `data: {json}`, an empty line, sent the moment it is there.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::limits::{BEHIND_MAX, KEEP_ALIVE};
use crate::quotas;

/// Where the events of one turn go. A client that is too far behind is let go: a turn waits for
/// nobody.
pub(crate) struct Sender(Option<mpsc::Sender<Event>>);

impl Sender {
    /// Sends an event of one line of JSON.
    pub(crate) fn send(&mut self, value: &impl Serialize) {
        let Some(sender) = &self.0 else { return };
        let json = serde_json::to_string(value).expect("plain data is always valid JSON");
        if sender.try_send(Event::default().data(json)).is_err() {
            self.0 = None;
        }
    }
}

/// A stream, and what it is fed by. It ends when that is dropped.
pub(crate) fn channel(right: quotas::Stream) -> (Sender, Response) {
    let (sender, receiver) = mpsc::channel(BEHIND_MAX);
    let events = unfold((receiver, right), |(mut receiver, right)| async move {
        let event = receiver.recv().await?;
        Some((event, (receiver, right)))
    });
    (Sender(Some(sender)), response(events))
}

/// Answers with events as they come.
pub(crate) fn response(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    use futures_util::StreamExt;
    let events = events.map(Ok::<Event, Infallible>);
    // Nothing between here and the client may keep events back.
    let headers = [("x-accel-buffering", "no")];
    let alive = KeepAlive::new().interval(KEEP_ALIVE);
    (headers, Sse::new(events).keep_alive(alive)).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use rethread_core::Owner;

    use super::*;
    use crate::limits::Limits;
    use crate::quotas::Quotas;

    #[tokio::test]
    async fn a_client_too_far_behind_is_let_go_and_holds_up_nobody() {
        let quotas = Quotas::new(Limits::default(), Arc::default());
        let account = quotas.account(&Owner::local());
        let (mut sender, response) = channel(quotas.stream(&account).expect("the first"));
        // Nobody reads. None of these waits.
        for number in 0..=BEHIND_MAX {
            assert!(sender.0.is_some(), "{number} fits");
            sender.send(&number);
        }
        assert!(sender.0.is_none(), "one more did not fit");
        sender.send(&"too late");
        let body = response.into_body().collect().await.expect("it ends by itself").to_bytes();
        let text = String::from_utf8(body.into()).expect("text");
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(events.len(), BEHIND_MAX, "what fitted comes, in order");
        assert_eq!((events[0], events[BEHIND_MAX - 1]), ("data: 0", "data: 4095"));
    }
}
