//! The settings of the server, and listening.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use rethread_agent::{Host, HostLimits, HostSettings, blocking};
use rethread_core::{Backend, World};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

use crate::access_log::AccessLog;
use crate::allow_lists::{Gate, Rules};
use crate::limits::{CONNECTIONS_MAX, Limits, SEND_BUFFER_BYTES};
use crate::metrics::Metrics;
use crate::notifying_store::NotifyingStore;
use crate::quotas::Quotas;
use crate::routes;
use crate::serve::Listening;
use crate::state::ServerState;
use crate::tokens::{AccessTokenError, AccessTokens, TokenCache};

/// Everything the HTTP server needs.
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct ServerSettings {
    pub store: Arc<dyn Backend>,
    /// Where time and ids come from.
    pub world: Arc<dyn World>,
    /// The agents, models and workspaces.
    pub settings: HostSettings,
    /// Which hosts and origins are allowed, and whether a token is required.
    pub rules: Rules,
    /// The limits per owner and in total.
    pub limits: Limits,
    /// Where the request log goes.
    pub log: Option<Box<dyn Write + Send>>,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum ListenError {
    /// Anybody could access the server.
    #[error("{address} can be reached from other machines, and no token exists")]
    NoToken { address: SocketAddr },
    /// The tokens could not be read.
    #[error("the tokens could not be read")]
    Tokens(#[source] Box<AccessTokenError>),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind { address: SocketAddr, source: std::io::Error },
}

impl ServerSettings {
    /// Listens on an address.
    ///
    /// # Errors
    ///
    /// [`ListenError::NoToken`] if it can be reached from other machines and there is no token;
    /// nothing was bound then. Otherwise [`ListenError::Tokens`] or [`ListenError::Bind`].
    pub async fn listen(self, address: SocketAddr) -> Result<Listening, ListenError> {
        let ServerSettings { store, world, settings, rules, limits, log } = self;
        let tokens = AccessTokens::new(store.clone(), world.clone());
        if !address.ip().is_loopback() {
            let asked = tokens.clone();
            let known = blocking(move || asked.list()).await;
            let known = known.map_err(|error| ListenError::Tokens(Box::new(error)))?;
            if known.is_empty() {
                return Err(ListenError::NoToken { address });
            }
        }
        let bind = |source| ListenError::Bind { address, source };
        let listener = bound(address).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let metrics = Arc::new(Metrics::default());
        let store = Arc::new(NotifyingStore::new(store, metrics.clone()));
        let host_limits = HostLimits {
            turns: limits.turns,
            owner_turns: limits.owner_turns,
            queue: limits.waiting,
            bytes: limits.question_bytes,
            owner_bytes: limits.owner_question_bytes,
        };
        let settings = HostSettings { limits: host_limits, ..settings };
        let state = Arc::new(ServerState {
            host: Host::new(store.clone(), world.clone(), settings),
            store,
            world,
            gate: Gate::new(&rules, address),
            tokens: TokenCache::new(tokens),
            quotas: Quotas::new(limits, metrics.clone()),
            log: AccessLog::new(log, metrics.clone()),
            metrics,
            limits,
            asking: Arc::new(Semaphore::new(1)),
            trying: Arc::new(Semaphore::new(1)),
            closing: Default::default(),
        });
        let router = routes::router(state.clone());
        Ok(Listening { listener, address, state, router })
    }
}

/// A listener whose connections have a small send buffer.
fn bound(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX))
}
