//! The state that every handler uses, and the caller of a request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use rethread_agent::{Handle, HeldBytes, Host, Runner, blocking};
use rethread_core::store::Search;
use rethread_core::world::rfc3339;
use rethread_core::{Key, New, Owner, ProfileChange, SessionId, Sessions, World, sessions};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access_log::AccessLog;
use crate::allow_lists::Gate;
use crate::limits::{LAG_TIME_MAX, Limits, READ_BYTES, WRITTEN_FRESH};
use crate::metrics::Metrics;
use crate::notifying_store::NotifyingStore;
use crate::problem::Problem;
use crate::quotas::{Account, Quotas, Stream};
use crate::tokens::TokenCache;

/// The owner of the session that `/readyz` writes to. No token can be created for it.
const READY_OWNER: &str = "rethread:ready";

/// The state that every handler uses.
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
    /// At most one query at a time for the number of entries that are not indexed.
    pub(crate) asking: Arc<Semaphore>,
    /// At most one health check of the store at a time.
    pub(crate) trying: Arc<Semaphore>,
    /// Set when the server is about to stop: streams end.
    pub(crate) closing: CancellationToken,
}

impl ServerState {
    /// How many entries are not indexed yet, if the store reports it before the timeout.
    pub(crate) async fn index_lag(&self) -> Option<u64> {
        let (asking, store) = (self.asking.clone(), self.store.clone());
        let asked = async move {
            // A store that does not respond blocks one thread, however often it is asked.
            let turn = asking.acquire_owned().await.ok()?;
            let told = blocking(move || {
                let behind = store.index_lag();
                drop(turn);
                behind
            });
            told.await.ok()?
        };
        tokio::time::timeout(LAG_TIME_MAX, asked).await.ok()?
    }
}

impl ServerState {
    /// Whether the store accepts writes. Something is written to find out, unless something was
    /// written recently: on a full disk, everything can still be read.
    pub(crate) async fn writable(self: Arc<ServerState>) -> Result<(), Problem> {
        let turn = self.trying.clone().acquire_owned().await;
        if self.store.last_write().is_some_and(|at| at.elapsed() < WRITTEN_FRESH) {
            return Ok(());
        }
        let state = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let owner = Owner::new(READY_OWNER).expect("a valid owner");
            let key = Key::new("probe").expect("a valid key");
            let sessions = Sessions::new(state.store.clone(), owner, state.world.clone());
            let id = sessions.open(&key, &New::default())?.session().id();
            let now = rfc3339(state.world.now());
            let profile = ProfileChange { description: Some(Some(now)), ..Default::default() };
            sessions.update(id, &profile.into())?;
            // The caller may have disconnected; the result is kept for the next one.
            state.store.wrote();
            drop(turn);
            Ok::<(), sessions::Error>(())
        });
        let done = work.await.map_err(|_| Problem::broken("the store could not be tried"))?;
        Ok(done?)
    }
}

/// The caller. Everything it can reach belongs to its owner.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) state: Arc<ServerState>,
    pub(crate) handle: Handle,
    pub(crate) account: Arc<Account>,
    /// The id of the request in the response and the log.
    pub(crate) request: Arc<str>,
}

impl Caller {
    pub(crate) fn new(state: Arc<ServerState>, owner: Owner, request: Arc<str>) -> Caller {
        let account = state.quotas.account(&owner);
        Caller { handle: state.host.handle(owner), state, account, request }
    }

    /// Reserves memory for something that is about to be read, and may be large.
    pub(crate) async fn room(&self) -> Result<HeldBytes, Problem> {
        self.room_for(READ_BYTES).await
    }

    /// Reserves this many bytes of memory for a response, when they are available.
    pub(crate) async fn room_for(&self, bytes: usize) -> Result<HeldBytes, Problem> {
        let (answers, owner) = (&self.state.quotas.answers, self.handle.owner());
        let most = self.state.limits.room_time;
        let taken = tokio::time::timeout(most, answers.take(owner, bytes)).await;
        taken.map_err(|_| match answers.try_take(owner, bytes) {
            Err(exceeded) => exceeded.into(),
            Ok(_) => Problem::busy("not enough memory for the response"),
        })
    }

    /// The same for a response that has begun: it waits as long as necessary. The holders of the
    /// memory make progress or are disconnected.
    pub(crate) async fn room_at_last(&self) -> HeldBytes {
        self.state.quotas.answers.take(self.handle.owner(), READ_BYTES).await
    }

    /// The permit for one more stream.
    pub(crate) fn stream(&self) -> Result<Stream, Problem> {
        self.state.quotas.stream(&self.account).ok_or_else(|| {
            let most = self.state.limits.streams;
            Problem::too_many_streams(format!("{most} streams are open; no more are allowed"))
        })
    }

    /// A runner that can show a session, with any agent.
    pub(crate) async fn viewer(&self, id: SessionId) -> Result<Runner, Problem> {
        let handle = self.handle.clone();
        self.blocking(move || Ok(handle.viewer(&handle.sessions().get(id)?)?)).await
    }

    /// The runner for new sessions: with this agent, or the default one.
    pub(crate) async fn runner(&self, agent: Option<String>) -> Result<Runner, Problem> {
        let handle = self.handle.clone();
        self.blocking(move || Ok(handle.runner(agent.as_deref(), None)?)).await
    }

    /// Runs blocking work. If it panics, the caller gets an error, and others are not affected.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| Problem::broken("the operation was aborted"))?
    }

    /// Calls the sessions of this owner on a thread that may block.
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
        // Only the middleware sets it; routes outside of it have no callers.
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| Problem::unauthorized("the request has no owner"))
    }
}

/// The permit for a stream, taken before the body is read.
impl<S: Sync> FromRequestParts<S> for Stream {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Stream, Problem> {
        Caller::from_request_parts(parts, state).await?.stream()
    }
}
