//! Listening, and shutting down in time.
//!
//! Connections are counted here, before anything of a request is read. On shutdown, streams end,
//! turns get some time to finish and are then stopped, and connections are closed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rethread_agent::Host;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::hyper_errors::Spoken;
use crate::limits::{GRACE_LAST, HEAD_BYTES_MAX, HEAD_TIME_MAX, HEADERS_MAX, TOKEN_POLL};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::send_timeout::SendTimeout;
use crate::state::ServerState;

/// How long to wait if the process has no file descriptor left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server that listens, but does not serve yet.
pub struct Listening {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<ServerState>,
    pub(crate) router: Router,
}

impl Listening {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes; then ends streams, gives running turns eight seconds to
    /// finish, stops those that have not, and returns within ten.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Listening { listener, state, router, .. } = self;
        let room = Arc::new(Semaphore::new(state.limits.connections));
        let connections = TaskTracker::new();
        let watching = tokio::spawn(end_revoked(state.clone()));
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            };
            match room.clone().try_acquire_owned() {
                Ok(permit) => {
                    let (state, router) = (state.clone(), router.clone());
                    connections.spawn(connection(stream, state, router, permit));
                }
                Err(_) => drop(tokio::spawn(turn_away(stream))),
            }
        }
        drop(listener);
        state.closing.cancel();
        connections.close();
        wind_down(&state.host, &connections, state.limits.grace).await;
        watching.abort();
    }
}

/// Ends the responses of revoked tokens, for as long as the server runs.
async fn end_revoked(state: Arc<ServerState>) {
    let mut ticks = tokio::time::interval(TOKEN_POLL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !state.tokens.is_watching() {
            continue;
        }
        let asked = state.clone();
        // If the store cannot be asked now, it is asked again; responses that read from it end by
        // themselves.
        drop(rethread_agent::blocking(move || asked.tokens.end_revoked()).await);
    }
}

/// Gives turns and connections time to end by themselves, and at most [`GRACE_LAST`] more.
async fn wind_down(host: &Host, connections: &TaskTracker, grace: Duration) {
    let end = Instant::now() + grace + GRACE_LAST;
    host.drain(grace, end).await;
    // A response that nobody reads does not keep the server running.
    let last = end.min(Instant::now() + GRACE_LAST);
    drop(timeout_at(last, connections.wait()).await);
}

/// Serves one connection until either side ends it.
async fn connection(
    stream: TcpStream,
    state: Arc<ServerState>,
    router: Router,
    _permit: OwnedSemaphorePermit,
) {
    let _counted = Counted::new(state.metrics.clone());
    // Events are small and must not wait for more of them.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let stream = SendTimeout::new(stream, state.limits.send_time);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_headers(2 * HEADERS_MAX)
        .max_buf_size(2 * HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Spoken::new(stream)), TowerToHyperService::new(router));
    tokio::pin!(served);
    // An error on a connection affects only its client; there is nobody else to report it to.
    tokio::select! {
        done = served.as_mut() => return drop(done),
        () = state.closing.cancelled() => {}
    }
    served.as_mut().graceful_shutdown();
    drop(served.await);
}

/// Refuses a connection that exceeds the limit, without reading its request.
async fn turn_away(mut stream: TcpStream) {
    let answer = Problem::busy("too many connections").alone();
    // A client that does not read its response loses it.
    let sent = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    };
    drop(tokio::time::timeout(Duration::from_secs(1), sent).await);
}

/// A client that disconnected needs no handling; a lack of file descriptors needs a moment.
async fn pause_after(error: &io::Error) {
    let broke_off = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    );
    if !broke_off {
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

struct Counted(Arc<Metrics>);

impl Counted {
    fn new(metrics: Arc<Metrics>) -> Counted {
        metrics.connections.add(1);
        Counted(metrics)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_and_connections_that_do_not_end_keep_the_server_for_one_time_and_not_for_two() {
        let folder = tempfile::tempdir().expect("a folder");
        let world = Arc::new(rethread_core::Fixed::default());
        let store = Arc::new(rethread_core::MemoryStore::new(world.clone()));
        let settings = rethread_agent::HostSettings {
            roster: rethread_agent::Roster::new(Default::default()),
            workspaces: rethread_agent::Workspaces::only(folder.path()).expect("opened"),
            limits: Default::default(),
            transcripts: None,
        };
        let host = Host::new(store, world, settings);
        let connections = TaskTracker::new();
        host.spawn(std::future::pending::<()>());
        connections.spawn(std::future::pending::<()>());
        connections.close();
        let start = Instant::now();
        let grace = Duration::from_millis(10);
        wind_down(&host, &connections, grace).await;
        let took = start.elapsed();
        assert!(took >= grace + GRACE_LAST && took < 2 * GRACE_LAST, "{took:?}");
    }
}
