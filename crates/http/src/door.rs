//! The door itself: what it needs, and how it is opened.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use rethread_core::{Backend, World};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::desk::{Desk, blocking};
use crate::limits::Limits;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::owners::Owners;
use crate::routes;
use crate::rules::{Gate, Rules};
use crate::runners::Runners;
use crate::serve::Listening;
use crate::tokens::{Ring, TokenError, Tokens};
use crate::turns::Turns;
use crate::watched::Watched;

/// Everything the HTTP door needs.
pub struct Door {
    /// Where sessions live.
    pub store: Arc<dyn Backend>,
    /// Where time and ids come from.
    pub world: Arc<dyn World>,
    /// What runs turns. Their `sessions` are replaced by those of whoever asks.
    pub runners: Runners,
    /// Who is let in.
    pub rules: Rules,
    /// How much each may use.
    pub limits: Limits,
    /// Where a line about each request goes.
    pub log: Option<Box<dyn Write + Send>>,
}

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Anybody could come in.
    #[error("{address} can be reached from other machines, and there is no token")]
    NoToken {
        /// The address.
        address: SocketAddr,
    },
    /// The tokens could not be read.
    #[error("the tokens could not be read")]
    Tokens(#[source] Box<TokenError>),
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
}

impl Door {
    /// Listens on an address.
    ///
    /// # Errors
    ///
    /// [`ListenError::NoToken`] if it can be reached from other machines while there is no token:
    /// nothing was bound then.
    pub async fn listen(self, address: SocketAddr) -> Result<Listening, ListenError> {
        let Door { store, world, runners, rules, limits, log } = self;
        let tokens = Tokens::new(store.clone(), world.clone());
        if !address.ip().is_loopback() {
            let asked = tokens.clone();
            let known = blocking(move || asked.list()).await;
            let known = known.unwrap_or_else(|_| Ok(Vec::new()));
            let known = known.map_err(|error| ListenError::Tokens(Box::new(error)))?;
            if known.is_empty() {
                return Err(ListenError::NoToken { address });
            }
        }
        let bind = |source| ListenError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let metrics = Arc::new(Metrics::default());
        let desk = Arc::new(Desk {
            store: Arc::new(Watched::new(store, metrics.clone())),
            world,
            runners,
            gate: Gate::new(&rules, address),
            ring: Ring::new(tokens),
            owners: Owners::new(limits, metrics.clone()),
            turns: Turns::new(limits.turns),
            log: Log::new(log, metrics.clone()),
            metrics,
            limits,
            asking: Arc::new(Semaphore::new(1)),
            closing: Default::default(),
        });
        let router = routes::router(desk.clone());
        Ok(Listening { listener, address, desk, router })
    }
}
