//! One connection.
//!
//! Statements are prepared once per connection. Those that do not depend on each other's results
//! are pipelined: a transaction costs one round trip per decision, not per statement.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Error, Row, Statement};

use super::address::Address;
use super::error::Fail;
use super::sql;

/// The parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The result of a statement.
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// Rows it wrote.
    pub(super) written: u64,
}

/// A connection, and the task that drives it.
pub(super) struct Conn {
    pub(super) link: Link,
    wire: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What a transaction works with.
pub(super) struct Link {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
    /// The server reported that it committed without waiting for its standby.
    unsynced: Arc<AtomicBool>,
    /// The server reported that it is shutting down.
    leaving: Arc<AtomicBool>,
    open: bool,
    #[cfg(feature = "testing")]
    faults: Arc<super::testing::Faults>,
}

impl Conn {
    /// Connects, and sets the connection up.
    pub(super) async fn connect(
        place: &Address,
        #[cfg(feature = "testing")] faults: Arc<super::testing::Faults>,
    ) -> Result<Conn, Error> {
        let (client, connection) = place.config.connect(place.tls.clone()).await?;
        let mut connection = Some(connection);
        let (unsynced, leaving) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (warned, left) = (unsynced.clone(), leaving.clone());
        let wire = Box::pin(poll_fn(move |cx| {
            while let Some(live) = &mut connection {
                match live.poll_message(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                        // It arrives before the answer to the commit, and must be handled before
                        // it.
                        if is_warning(&notice, &SqlState::WARNING) {
                            warned.store(true, Ordering::SeqCst);
                        }
                        if is_warning(&notice, &SqlState::ADMIN_SHUTDOWN) {
                            left.store(true, Ordering::SeqCst);
                        }
                    }
                    Poll::Ready(Some(Ok(_))) => {}
                    // Dropping it wakes the caller, who then gets no answer.
                    Poll::Ready(Some(Err(_)) | None) => connection = None,
                }
            }
            Poll::Ready(())
        }));
        let link = Link {
            client,
            prepared: HashMap::new(),
            unsynced,
            leaving,
            open: false,
            #[cfg(feature = "testing")]
            faults,
        };
        let mut conn = Conn { link, wire };
        let Conn { link, wire } = &mut conn;
        carried(wire, link.client.batch_execute(sql::SETTINGS)).await?;
        Ok(conn)
    }

    /// Runs work on the connection.
    pub(super) async fn run<'a, T, F: Future<Output = T> + 'a>(
        &'a mut self,
        work: impl FnOnce(&'a mut Link) -> F,
    ) -> T {
        let Conn { link, wire } = self;
        link.unsynced.store(false, Ordering::SeqCst);
        carried(wire, work(link)).await
    }

    /// Whether the server is known to have closed it; the server is not asked.
    pub(super) fn is_closed(&mut self) -> bool {
        let ended = self.wire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        ended || self.link.client.is_closed()
    }
}

/// Whether a notice is a warning of this kind. Its text depends on the server's language. A plain
/// warning on a commit always means that the wait for a standby was given up. A shutdown warning
/// can arrive at any time; if a commit waits for a standby, no answer follows it.
fn is_warning(notice: &DbError, kind: &SqlState) -> bool {
    notice.parsed_severity() == Some(Severity::Warning) && notice.code() == kind
}

/// Waits for work, and drives the connection in the meantime.
async fn carried<T>(
    wire: &mut Pin<Box<dyn Future<Output = ()> + Send>>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let mut ended = false;
    poll_fn(move |cx| {
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            if ended || wire.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // When the connection ends, so does every wait for an answer.
            ended = true;
        }
    })
    .await
}

impl Link {
    /// Sends one statement and waits for its answer.
    pub(super) async fn one(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Answer, Fail> {
        let mut answers = self.all(&[(sql, params)]).await?;
        Ok(answers.pop().expect("an answer to each statement"))
    }

    /// Sends statements together, in this order, and waits for all answers. If one is refused, that
    /// is the result; in a transaction, the server then skips the remaining ones.
    pub(super) async fn all(
        &mut self,
        statements: &[(&'static str, Params<'_>)],
    ) -> Result<Vec<Answer>, Fail> {
        for (sql, _) in statements {
            if !self.prepared.contains_key(sql) {
                let statement = self.client.prepare(sql).await?;
                self.prepared.insert(sql, statement);
            }
        }
        let begins = [sql::BEGIN, sql::BEGIN_SNAPSHOT];
        self.open |= statements.iter().any(|(sql, _)| begins.contains(sql));
        let (client, prepared) = (&self.client, &self.prepared);
        #[cfg(feature = "testing")]
        let faults = &self.faults;
        let sent = statements.iter().map(async |(sql, params)| {
            #[cfg(feature = "testing")]
            if faults.strikes() {
                client.batch_execute(super::testing::FAULT).await?;
            }
            answer(client, &prepared[sql], params).await
        });
        let mut answers = Vec::with_capacity(statements.len());
        for answer in join_all(sent).await {
            answers.push(answer?);
        }
        let ends = [sql::COMMIT, sql::ROLLBACK];
        self.open &= !statements.iter().any(|(sql, _)| ends.contains(sql));
        Ok(answers)
    }

    /// Sends statements without parameters as one text; they are not worth preparing.
    pub(super) async fn script(&mut self, script: &str) -> Result<(), Fail> {
        Ok(self.client.batch_execute(script).await?)
    }

    /// Whether a transaction is open.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the server committed without waiting for its standby.
    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::SeqCst)
    }

    /// Whether the server is shutting down, so that its last answer may not be final.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }
}

async fn answer(
    client: &Client,
    statement: &Statement,
    params: Params<'_>,
) -> Result<Answer, Error> {
    let stream = client.query_raw(statement, params.iter().copied()).await?;
    let mut stream = pin!(stream);
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await? {
        rows.push(row);
    }
    Ok(Answer { rows, written: stream.rows_affected().unwrap_or_default() })
}
