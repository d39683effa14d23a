//! The body of a request that was refused before it was read.
//!
//! If the connection is closed while a client is still sending, the client may lose the response.
//! So the rest of a body is read and discarded: if it is small, the connection stays open;
//! otherwise, the response says that the connection is closed.

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

/// The rest of a body after the request has been answered.
pub(crate) struct Unread {
    back: Option<oneshot::Receiver<Body>>,
    is_small: bool,
    waits: bool,
}

/// The request, and a handle to the rest of its body.
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
    /// Reads the rest while the response is sent; sets `Connection: close` if the connection will
    /// be closed.
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

    /// The same for a complete response.
    pub(crate) fn drained(mut self, mut response: Response) -> Response {
        // If a body took too long, it is not read any further.
        self.is_small &= response.status() != StatusCode::REQUEST_TIMEOUT;
        self.drain(response.headers_mut());
        response
    }
}

/// A body that is handed back when it is dropped before its end.
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
