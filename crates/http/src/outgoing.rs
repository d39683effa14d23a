//! A response on its way to the client.
//!
//! It is passed to the connection in small pieces, so that the connection copies no more than one
//! of them; its memory is counted until the last piece is sent; and it is cut off when its token is
//! revoked.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use rethread_agent::HeldBytes;
use rethread_core::visible_json::visible_json;
use serde::Serialize;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::limits::FRAME_BYTES;
use crate::quotas::InProgress;
use crate::tokens::Watched;

/// The JSON of responses and log lines. The client may print it on a terminal, so hidden characters
/// are escaped.
pub(crate) fn json_text(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("plain data is always valid JSON");
    match visible_json(&text) {
        Cow::Owned(escaped) => escaped,
        Cow::Borrowed(_) => text,
    }
}

/// The memory of a response, for as long as it exists.
type Room = Arc<HeldBytes>;

/// Keeps the reservation of a response until it is sent.
pub(crate) fn keep(mut response: Response, mut room: HeldBytes) -> Response {
    if let Some(bytes) = response.body().size_hint().exact() {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        room.shrink_to(bytes);
        // What is already in memory is always sent; the next request finds less room.
        room.grow_to(bytes).ok();
    }
    response.extensions_mut().insert(Room::new(room));
    response
}

/// Whether the memory of a response is counted.
pub(crate) fn is_kept(response: &Response) -> bool {
    response.extensions().get::<Room>().is_some()
}

/// The response as it is sent, to a client with this token.
pub(crate) fn sent(
    response: Response,
    watched: Option<Watched>,
    progress: Option<InProgress>,
) -> Response {
    let room = response.extensions().get::<Room>().cloned();
    response.map(|body| {
        let revoked = watched.as_ref().map(|watched| Box::pin(watched.revoked_owned()));
        Body::new(Outgoing {
            body,
            rest: Bytes::new(),
            revoked,
            _watched: watched,
            _progress: progress,
            _room: room,
        })
    })
}

struct Outgoing {
    body: Body,
    /// The rest of a frame that was too large.
    rest: Bytes,
    revoked: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    _watched: Option<Watched>,
    _progress: Option<InProgress>,
    _room: Option<Room>,
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(revoked) = &mut self.revoked
            && revoked.as_mut().poll(context).is_ready()
        {
            // An error closes the connection, so that a part is not mistaken for the complete
            // response.
            self.revoked = None;
            self.rest.clear();
            self.body = Body::empty();
            return Poll::Ready(Some(Err(axum::Error::new("the token was revoked"))));
        }
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end => return Poll::Ready(end),
            }
        }
        let size = self.rest.len().min(FRAME_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}
