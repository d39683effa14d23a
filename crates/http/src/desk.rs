//! What every handler works with, and who is asking.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use rethread_agent::{Runner, past_the_dead};
use rethread_core::store::Search;
use rethread_core::{Backend, Owner, SessionId, Sessions, World, sessions};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::limits::{LAG_TIME_MAX, Limits};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::owners::{Account, Owners, Stream};
use crate::problem::Problem;
use crate::rules::Gate;
use crate::runners::Runners;
use crate::tokens::Ring;
use crate::turns::Turns;
use crate::watched::Watched;

/// What every handler works with.
pub(crate) struct Desk {
    pub(crate) store: Arc<Watched>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) runners: Runners,
    pub(crate) gate: Gate,
    pub(crate) ring: Ring,
    pub(crate) owners: Owners,
    pub(crate) turns: Turns,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Limits,
    pub(crate) log: Log,
    /// One question at a time about how far search is behind.
    pub(crate) asking: Arc<Semaphore>,
    /// The server is about to stop: streams end.
    pub(crate) closing: CancellationToken,
}

impl Desk {
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
            told.await.ok()?.ok()?
        };
        tokio::time::timeout(LAG_TIME_MAX, asked).await.ok()?
    }
}

/// Who is asking. Everything it can reach belongs to its owner.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) desk: Arc<Desk>,
    pub(crate) owner: Owner,
    pub(crate) sessions: Sessions,
    pub(crate) account: Arc<Account>,
}

impl Visitor {
    pub(crate) fn new(desk: Arc<Desk>, owner: Owner) -> Visitor {
        let store: Arc<dyn Backend> = desk.store.clone();
        let sessions = Sessions::new(store, owner.clone(), desk.world.clone());
        let account = desk.owners.account(&owner);
        Visitor { desk, owner, sessions, account }
    }

    /// What runs the turns of this owner's new sessions: by this agent, or the usual one.
    pub(crate) fn runner(&self, agent: Option<&str>) -> Result<Runner, Problem> {
        match agent {
            Some(name) => self.desk.runners.named(name, self.sessions.clone()),
            None => Ok(self.desk.runners.usual(self.sessions.clone())),
        }
    }

    /// What runs the turns of a session.
    pub(crate) async fn runner_of(&self, id: SessionId) -> Result<Runner, Problem> {
        let session = self.with(move |sessions| sessions.get(id)).await?;
        self.desk.runners.of(&session.header, self.sessions.clone())
    }

    /// What shows a session, whoever answers in it.
    pub(crate) async fn showing(&self, id: SessionId) -> Result<Runner, Problem> {
        let session = self.with(move |sessions| sessions.get(id)).await?;
        Ok(self.desk.runners.showing(&session.header, self.sessions.clone()))
    }

    /// Does something with this owner's sessions, where it may block. What a process that died
    /// held forbids nothing: then it is done a second time.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnMut(&Sessions) -> Result<T, sessions::Error> + Send + 'static,
    ) -> Result<T, Problem> {
        let sessions = self.sessions.clone();
        Ok(blocking(move || past_the_dead(&sessions, work)).await??)
    }
}

/// Runs what blocks on a thread for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Problem::broken("the work was given up in the middle"))
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Visitor, Problem> {
        // Only the middleware puts it there; a route outside of it has no visitors.
        let visitor = parts.extensions.get::<Visitor>().cloned();
        visitor.ok_or_else(|| Problem::unauthorized("nobody knows who is asking"))
    }
}

/// The right to a stream, taken before the body is read.
impl<S: Sync> FromRequestParts<S> for Stream {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Stream, Problem> {
        let visitor = Visitor::from_request_parts(parts, state).await?;
        visitor.desk.owners.stream(&visitor.account).ok_or_else(|| {
            let most = visitor.desk.limits.streams;
            Problem::too_many_streams(format!("{most} streams are open; no more are allowed"))
        })
    }
}
