//! Refusals before there is a request: if the bytes are not valid HTTP, hyper answers with a status
//! and nothing else. This module turns such a response into a problem document.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX};
use crate::problem::Problem;
use crate::send_timeout::SendTimeout;

/// A connection on which every refusal has a problem document.
pub(crate) struct Spoken {
    stream: SendTimeout,
    /// How much of [`HTTP2`] the connection began with; `None` after a mismatch.
    http2: Option<usize>,
    /// The rest of the problem document that still has to be sent.
    instead: Vec<u8>,
}

impl Spoken {
    pub(crate) fn new(stream: SendTimeout) -> Spoken {
        Spoken { stream, http2: Some(0), instead: Vec::new() }
    }
}

/// The start of the HTTP/2 connection preface, long enough to identify the version.
const HTTP2: &[u8] = b"PRI * HTTP/2";

/// Replaces the version in an HTTP/2 preface by one that does not exist: hyper ignores the former,
/// and refuses the latter. Returns how much of [`HTTP2`] there was.
fn unspoken(seen: usize, bytes: &mut [u8]) -> Option<usize> {
    let here = bytes.len().min(HTTP2.len() - seen);
    if bytes[..here] != HTTP2[seen..seen + here] {
        return None;
    }
    if seen + here < HTTP2.len() {
        return Some(seen + here);
    }
    bytes[here - 1] = b'9';
    None
}

/// The problem document for a bare refusal, if these bytes are one.
fn explained(bytes: &[u8]) -> Option<Vec<u8>> {
    let status = bytes.strip_prefix(b"HTTP/1.1 4")?.get(..2)?;
    let head = std::str::from_utf8(bytes.strip_suffix(b"\r\n\r\n")?).ok()?;
    // All our own responses of this kind have a content type.
    if head.contains("\r\n\r\n") || !head.contains("\r\ncontent-length: 0") {
        return None;
    }
    let problem = match status {
        b"14" | b"31" => Problem::head_too_large(format!(
            "a request has at most {HEADERS_MAX} headers and {HEAD_BYTES_MAX} bytes of them"
        )),
        _ => Problem::not_http("these bytes are not a request in HTTP/1.0 or HTTP/1.1"),
    };
    Some(problem.alone())
}

impl AsyncRead for Spoken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if let Some(seen) = self.http2 {
            self.http2 = unspoken(seen, &mut buffer.filled_mut()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Spoken {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.instead.is_empty() {
            match explained(bytes) {
                Some(instead) => self.instead = instead,
                None => return Pin::new(&mut self.stream).poll_write(context, bytes),
            }
        }
        while !self.instead.is_empty() {
            let this = &mut *self;
            let sent = ready!(Pin::new(&mut this.stream).poll_write(context, &this.instead))?;
            this.instead.drain(..sent);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_2_is_changed_into_what_is_refused_however_it_is_cut_up_and_nothing_else_is() {
        for sizes in [1, 2, 5, 11, 12, 24] {
            let mut seen = Some(0);
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            for piece in bytes.chunks_mut(sizes) {
                seen = seen.and_then(|seen| unspoken(seen, piece));
            }
            assert_eq!(seen, None);
            assert_eq!(&bytes, b"PRI * HTTP/9.0\r\n\r\nSM\r\n\r\n", "pieces of {sizes}");
        }
        let mut other = b"PUT /v1/keys/a HTTP/1.1\r\n\r\nPRI * HTTP/2".to_vec();
        let same = other.clone();
        assert_eq!(unspoken(0, &mut other), None);
        assert_eq!(other, same);
    }

    #[test]
    fn only_a_refusal_without_a_body_is_explained() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
                     content-length: 0\r\ndate: Sun, 15 Nov 2026 13:00:00 GMT\r\n\r\n";
        let told = String::from_utf8(explained(bare).expect("explained")).expect("text");
        assert!(told.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{told}");
        assert!(told.contains("\r\ncontent-type: application/problem+json\r\n"), "{told}");
        let long = b"HTTP/1.1 414 URI Too Long\r\ncontent-length: 0\r\n\r\n";
        assert!(explained(long).expect("explained").starts_with(b"HTTP/1.1 431 "));
        let odd = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        let told = String::from_utf8(explained(odd).expect("explained")).expect("text");
        assert!(told.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{told}");
        // It has no fields that could be corrected.
        assert!(!told.contains("field") && told.contains("plain HTTP/1.1"), "{told}");
        for other in [
            &b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n",
            b"HTTP/1.1 4",
            b"data: HTTP/1.1 431\r\ncontent-length: 0\r\n\r\n",
        ] {
            assert_eq!(explained(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
