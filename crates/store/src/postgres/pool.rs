//! The connection pool, and retries.
//!
//! Everything the store does is one transaction, and idempotent: entries have ids, sessions have
//! ids, a lease knows its holder. So a transaction that the server rolls back is retried as a
//! whole, and one whose outcome is unknown after a lost connection is retried until there is an
//! answer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rethread_core::StoreError;
use rethread_core::store::Result;
use tokio::runtime::Runtime;
use tokio_postgres::config::TargetSessionAttrs;

use super::address::Address;
use super::connection::{Conn, Link};
use super::error::{self, Fail};
use super::{sql, wait};

/// Connections per process. A server allows a hundred by default, and several processes share it; a
/// connection that is busy for a millisecond serves a thousand calls a second.
const CONNECTIONS_MAX: usize = 16;

/// Connections kept when idle.
const IDLE_MAX: usize = 8;

/// How long a call waits for a free connection.
const FREE: Duration = Duration::from_secs(20);

/// How long a call is retried, counted from its start. A standby is promoted within this time.
const AGAIN: Duration = Duration::from_secs(20);

/// Timeout of one attempt. The server cancels a statement before that; this is for a server that
/// does not respond at all.
const ATTEMPT: Duration = Duration::from_secs(60);

/// Backoff between retries: the first wait, and the longest.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);

pub(super) struct Pool {
    pub(super) place: Address,
    runtime: Option<Runtime>,
    state: Mutex<State>,
    freed: Condvar,
    #[cfg(feature = "testing")]
    pub(super) faults: std::sync::Arc<super::testing::Faults>,
}

#[derive(Default)]
struct State {
    idle: Vec<Conn>,
    /// The number of connections, including idle ones.
    open: usize,
    /// Whether a connection was ever made. A server that was up comes back; one that never was may
    /// be a mistake in the configuration, and is reported at once.
    known: bool,
}

/// Why an attempt may be repeated.
enum Retry {
    /// The caller requested it.
    Wanted,
    /// The server is shutting down. Its answer may hold, and asking again does no harm.
    Leaving,
    /// The server's error.
    Server(tokio_postgres::Error),
}

/// A connection taken from the pool. When dropped, it is closed, so that another one can be opened.
struct Taken<'a> {
    pool: &'a Pool,
    conn: Option<Conn>,
}

impl Pool {
    pub(super) fn new(place: Address) -> Result<Pool> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("rethread-postgres")
            .enable_all()
            .build()
            .map_err(|error| StoreError::Backend {
                store: "postgres",
                action: "start the thread that watches its connections",
                source: error.into(),
            })?;
        Ok(Pool {
            place,
            runtime: Some(runtime),
            state: Mutex::default(),
            freed: Condvar::new(),
            #[cfg(feature = "testing")]
            faults: std::sync::Arc::default(),
        })
    }

    /// Runs one transaction, with retries. The closure gets whether an earlier attempt may have
    /// been committed without a reply.
    pub(super) fn run<T>(
        &self,
        action: &'static str,
        work: impl AsyncFn(&mut Link, bool) -> std::result::Result<T, Fail>,
    ) -> Result<T> {
        let began = Instant::now();
        let (mut pause, mut doubt) = (PAUSE, false);
        loop {
            let retry = match self.attempt(action, doubt, &work)? {
                Ok(done) => return Ok(done),
                Err(retry) => retry,
            };
            let again = match &retry {
                Retry::Wanted => true,
                Retry::Leaving => {
                    doubt = true;
                    self.tries_again()
                }
                Retry::Server(error) => {
                    let lost = error::is_lost(error);
                    let demoted = error::is_read_only(error) && self.wants_primary();
                    doubt |= lost;
                    (lost || demoted || error::is_passing(error)) && self.tries_again()
                }
            };
            if !again || began.elapsed() + pause > AGAIN {
                return Err(self.given_up(action, retry));
            }
            std::thread::sleep(spread(pause, began));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The error that is returned when there are no more retries.
    fn given_up(&self, action: &'static str, retry: Retry) -> StoreError {
        let place = self.place.shown.clone();
        match retry {
            Retry::Wanted => StoreError::Busy { place },
            Retry::Leaving => {
                StoreError::Unreachable { place, source: "the server goes down".into() }
            }
            Retry::Server(error) => error::store_error(&place, action, error),
        }
    }

    /// One attempt: its result, or why it may be repeated.
    fn attempt<T>(
        &self,
        action: &'static str,
        doubt: bool,
        work: &impl AsyncFn(&mut Link, bool) -> std::result::Result<T, Fail>,
    ) -> Result<std::result::Result<T, Retry>> {
        let _inside = self.runtime().enter();
        let mut taken = match self.take(action)? {
            Ok(taken) => taken,
            Err(error)
                if (error::is_lost(&error) && (self.state().known || error.code().is_some()))
                    || error::is_passing(&error) =>
            {
                return Ok(Err(Retry::Server(error)));
            }
            Err(error) => return Err(error::unreachable(self.place.shown.clone(), error)),
        };
        let conn = taken.conn.as_mut().expect("it was taken just now");
        let deadline = Instant::now() + ATTEMPT;
        let outcome = wait::until(deadline, conn.run(async |link| work(link, doubt).await));
        let Some(outcome) = outcome else {
            let source = format!("the server did not answer for {} s", ATTEMPT.as_secs()).into();
            return Err(StoreError::Unreachable { place: self.place.shown.clone(), source });
        };
        if outcome.is_ok() && conn.link.is_unsynced() {
            let source = "the server stopped waiting for its standby, so this counts as not \
                          stored; retrying is safe";
            return Err(StoreError::Backend { store: "postgres", action, source: source.into() });
        }
        if outcome.is_ok() && conn.link.is_leaving() {
            return Ok(Err(Retry::Leaving));
        }
        let sound = match &outcome {
            Err(Fail::Server(error)) => {
                error.as_db_error().is_some()
                    && !error::is_lost(error)
                    && !error::is_read_only(error)
            }
            _ => true,
        };
        if sound && (!conn.link.is_open() || self.taken_back(conn)) {
            taken.put();
        }
        match outcome {
            Ok(done) => Ok(Ok(done)),
            Err(Fail::Refused(error)) => Err(error),
            Err(Fail::Again) => Ok(Err(Retry::Wanted)),
            Err(Fail::Server(error)) => Ok(Err(Retry::Server(error))),
        }
    }

    /// Rolls back an open transaction.
    fn taken_back(&self, conn: &mut Conn) -> bool {
        let rollback = conn.run(async |link| link.one(sql::ROLLBACK, &[]).await.is_ok());
        wait::until(Instant::now() + ATTEMPT, rollback).unwrap_or(false)
    }

    fn take(
        &self,
        action: &'static str,
    ) -> Result<std::result::Result<Taken<'_>, tokio_postgres::Error>> {
        let mut state = self.state();
        let deadline = Instant::now() + FREE;
        loop {
            while let Some(mut conn) = state.idle.pop() {
                if !conn.is_closed() {
                    return Ok(Ok(Taken { pool: self, conn: Some(conn) }));
                }
                state.open -= 1;
            }
            if state.open < CONNECTIONS_MAX {
                state.open += 1;
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let free = FREE.as_secs();
                let source = format!("all {CONNECTIONS_MAX} connections were in use for {free} s");
                let place = self.place.shown.clone();
                return Err(StoreError::Slow { place, action, source: source.into() });
            }
            state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        let mut taken = Taken { pool: self, conn: None };
        let connect = Conn::connect(
            &self.place,
            #[cfg(feature = "testing")]
            self.faults.clone(),
        );
        match wait::until(Instant::now() + ATTEMPT, connect) {
            Some(Ok(conn)) => {
                self.state().known = true;
                taken.conn = Some(conn);
                Ok(Ok(taken))
            }
            Some(Err(error)) => Ok(Err(error)),
            None => {
                let source = "it took too long to connect".into();
                Err(StoreError::Unreachable { place: self.place.shown.clone(), source })
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is there until the pool is dropped")
    }

    /// Whether the URL asks for the primary.
    fn wants_primary(&self) -> bool {
        self.place.config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite
    }

    fn tries_again(&self) -> bool {
        #[cfg(feature = "testing")]
        return self.faults.tries_again();
        #[cfg(not(feature = "testing"))]
        true
    }
}

impl Taken<'_> {
    /// Returns the connection to the pool.
    fn put(mut self) {
        let mut state = self.pool.state();
        if state.idle.len() < IDLE_MAX {
            state.idle.extend(self.conn.take());
            // Forgetting it would lose nothing now, but a dropped connection counts as closed.
            state.open += 1;
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.pool.state().open -= 1;
        self.pool.freed.notify_one();
    }
}

impl Drop for Pool {
    /// This may run anywhere, even inside another async runtime, so it does not wait for anything.
    fn drop(&mut self) {
        self.state().idle.clear();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A wait with jitter, so that competing writers do not collide again.
fn spread(pause: Duration, began: Instant) -> Duration {
    let noise = began.elapsed().subsec_nanos() % 1_000;
    pause.mul_f64(0.5 + f64::from(noise) / 1_000.0)
}
