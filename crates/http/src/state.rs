//! What every handler works with, and who is calling.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use rethread_agent::{Handle, Host, Runner, blocking};
use rethread_core::store::Search;
use rethread_core::{Owner, SessionId, Sessions, World, sessions};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access_log::AccessLog;
use crate::allow_lists::Gate;
use crate::limits::{LAG_TIME_MAX, Limits};
use crate::metrics::Metrics;
use crate::notifying_store::NotifyingStore;
use crate::problem::Problem;
use crate::quotas::{Account, Quotas, Stream};
use crate::tokens::TokenCache;

/// What every handler works with.
pub(crate) struct ServerState {
    pub(crate) store: Arc<NotifyingStore>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) host: Host,
    pub(crate) gate: Gate,
    pub(crate) tokens: TokenCache,
    pub(crate) quotas: Quotas,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Limits,
    pub(crate) log: AccessLog,
    /// One question at a time about how far search is behind.
    pub(crate) asking: Arc<Semaphore>,
    /// The server is about to stop: streams end.
    pub(crate) closing: CancellationToken,
}

impl ServerState {
    /// How many entries search has not seen, if the store tells, and tells in time.
    pub(crate) async fn behind(&self) -> Option<u64> {
        let (asking, store) = (self.asking.clone(), self.store.clone());
        let asked = async move {
            // A store that does not answer keeps one thread waiting, however often it is asked.
            let turn = asking.acquire_owned().await.ok()?;
            let told = blocking(move || {
                let behind = store.behind();
                drop(turn);
                behind
            });
            told.await.ok()?
        };
        tokio::time::timeout(LAG_TIME_MAX, asked).await.ok()?
    }
}

/// Who is calling. Everything it can reach belongs to its owner.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) state: Arc<ServerState>,
    pub(crate) handle: Handle,
    pub(crate) account: Arc<Account>,
}

impl Caller {
    pub(crate) fn new(state: Arc<ServerState>, owner: Owner) -> Caller {
        let account = state.quotas.account(&owner);
        Caller { handle: state.host.handle(owner), state, account }
    }

    /// What shows a session, whoever answers in it.
    pub(crate) async fn viewer(&self, id: SessionId) -> Result<Runner, Problem> {
        let handle = self.handle.clone();
        self.blocking(move || Ok(handle.viewer(&handle.sessions().get(id)?)?)).await
    }

    /// What runs the turns of new sessions: by this agent, or the usual one.
    pub(crate) async fn runner(&self, agent: Option<String>) -> Result<Runner, Problem> {
        let handle = self.handle.clone();
        self.blocking(move || Ok(handle.runner(agent.as_deref(), None)?)).await
    }

    /// Runs blocking work. If it panics, the caller is told, and everybody else is served.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| Problem::broken("the work was given up in the middle"))?
    }

    /// Does something with this owner's sessions, where it may block.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnMut(&Sessions) -> Result<T, sessions::Error> + Send + 'static,
    ) -> Result<T, Problem> {
        let handle = self.handle.clone();
        self.blocking(move || Ok(handle.call(work)?)).await
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Problem> {
        // Only the middleware puts it there; a route outside of it has no callers.
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| Problem::unauthorized("nobody knows who is asking"))
    }
}

/// The right to a stream, taken before the body is read.
impl<S: Sync> FromRequestParts<S> for Stream {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Stream, Problem> {
        let caller = Caller::from_request_parts(parts, state).await?;
        caller.state.quotas.stream(&caller.account).ok_or_else(|| {
            let most = caller.state.limits.streams;
            Problem::too_many_streams(format!("{most} streams are open; no more are allowed"))
        })
    }
}
