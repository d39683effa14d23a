//! Closes a connection whose client does not read.
//!
//! A client that stops reading keeps its response in memory, and occupies a connection. A slow
//! reader is served slowly; only one that reads nothing until the timeout is disconnected.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

pub(crate) struct SendTimeout {
    stream: TcpStream,
    most: Duration,
    /// The timeout; set while the client does not read.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl SendTimeout {
    pub(crate) fn new(stream: TcpStream, most: Duration) -> SendTimeout {
        SendTimeout { stream, most, stalled: None }
    }
}

impl AsyncRead for SendTimeout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for SendTimeout {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(sent) = Pin::new(&mut self.stream).poll_write(context, bytes) {
            self.stalled = None;
            return Poll::Ready(sent);
        }
        let most = self.most;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(most)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
