//! Streams of events: `data: {json}`, an empty line, sent the moment it is there.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::limits::{BEHIND_MAX, KEEP_ALIVE};
use crate::owners;

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
pub(crate) fn channel(right: owners::Stream) -> (Sender, Response) {
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
