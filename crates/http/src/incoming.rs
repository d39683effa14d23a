//! The body of a request that was refused before it was read.
//!
//! A client that is still sending when the connection is closed may lose the answer with it. So
//! what is left of a body is read and thrown away: where it is small, the connection lives on;
//! where it is not, the answer says that the connection is closed.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;

use crate::input::{content_length, has_body};
use crate::limits::{BODY_BYTES_MAX, DRAIN_BYTES_MAX, DRAIN_TIME_MAX};

/// What is left of a body when the request has been answered.
pub(crate) struct Unread {
    back: Option<oneshot::Receiver<Body>>,
    is_small: bool,
    waits: bool,
}

/// The same request, and what will be left of its body.
pub(crate) fn watch(request: Request) -> (Request, Unread) {
    let headers = request.headers();
    if !has_body(headers) {
        return (request, Unread { back: None, is_small: true, waits: false });
    }
    let is_small = content_length(headers).is_some_and(|length| length <= DRAIN_BYTES_MAX);
    let waits = headers.contains_key(header::EXPECT);
    let (give, back) = oneshot::channel();
    let request = request.map(|body| Body::new(Incoming { body, give: Some(give) }));
    (request, Unread { back: Some(back), is_small, waits })
}

impl Unread {
    /// Reads what is left, while the answer is sent; the answer says if that is the last one here.
    fn drain(mut self, headers: &mut HeaderMap) {
        let Some(body) = self.back.as_mut().and_then(|back| back.try_recv().ok()) else { return };
        if !self.is_small || self.waits {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        // A client that waits for `100 Continue` sends nothing, and must not be asked to.
        if !self.waits {
            tokio::spawn(async move {
                let mut rest = Limited::new(body, BODY_BYTES_MAX);
                let read = async { while let Some(Ok(_)) = rest.frame().await {} };
                // After the timeout the connection is closed.
                drop(tokio::time::timeout(DRAIN_TIME_MAX, read).await);
            });
        }
    }

    /// The same for an answer that is complete.
    pub(crate) fn drained(mut self, mut response: Response) -> Response {
        // A body that took too long is not waited for again.
        self.is_small &= response.status() != StatusCode::REQUEST_TIMEOUT;
        self.drain(response.headers_mut());
        response
    }
}

/// A body that goes back to the server when it is dropped before its end.
struct Incoming {
    body: Body,
    give: Option<oneshot::Sender<Body>>,
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) || self.body.is_end_stream() {
            self.give = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(give) = self.give.take() {
            drop(give.send(std::mem::take(&mut self.body)));
        }
    }
}
