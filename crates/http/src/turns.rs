//! Turns that go on by themselves.
//!
//! A turn is a task of its own: whoever asked may go away, and the next one in the lane finds it
//! finished. What is asked of one session happens in the order it arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rethread_agent::lanes::{Lanes, Ticket};
use rethread_agent::{Answer, Event, Events};
use rethread_core::world::rfc3339;
use rethread_core::{Key, Message, New, Owner, SessionId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answering::Asked;
use crate::desk::Visitor;
use crate::owners::Turn;
use crate::problem::Problem;

/// Times a key may move on while a turn waits for the session it pointed at.
const MOVES_MAX: usize = 8;

/// The turns of this process.
pub(crate) struct Turns {
    lanes: Lanes<Lane>,
    room: Arc<Semaphore>,
    running: Arc<Running>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What a lane is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Lane {
    /// Requests that are finding their session.
    Key(Owner, Key),
    /// Turns, and whatever else takes its time in a session.
    Session(Owner, SessionId),
}

/// Where a turn is to happen.
pub(crate) enum Target {
    /// In this session.
    Session(SessionId),
    /// In the session this key points at, started like this if there is none.
    Key(Key, Box<New>),
}

/// What came of a turn.
pub(crate) struct Ended {
    /// The session it was in.
    pub(crate) session: SessionId,
    /// The answer, or why there is none.
    pub(crate) outcome: Result<Answer, Problem>,
}

/// What is told about a turn.
pub(crate) enum Told<'a> {
    /// Something happened in it.
    Event(Event),
    /// It is over. This comes once, and last.
    Ended(&'a Ended),
}

/// Who is told; nobody has to be.
pub(crate) type Hearer = Option<Box<dyn FnMut(Told<'_>) + Send>>;

impl Turns {
    pub(crate) fn new(most: usize) -> Turns {
        Turns {
            lanes: Lanes::new(),
            room: Arc::new(Semaphore::new(most)),
            running: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Stops the turn that runs in a session; what it said is kept. False if there is none.
    pub(crate) fn stop(&self, owner: &Owner, session: SessionId) -> bool {
        let running = self.running.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stop = running.get(&(owner.clone(), session));
        stop.inspect(|stop| stop.cancel()).is_some()
    }

    /// Lets running turns end by themselves for a while, then stops them, and waits no longer than
    /// until `end`.
    pub(crate) async fn drain(&self, grace: Duration, end: Instant) {
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.stop.cancel();
            // What does not even stop in time is left to its lease, which ends by itself.
            drop(tokio::time::timeout_at(end, self.tasks.wait()).await);
        }
    }

    /// A turn that nothing ends.
    #[cfg(test)]
    pub(crate) fn endless(&self) {
        self.tasks.spawn(std::future::pending::<()>());
    }
}

impl Visitor {
    /// Begins a turn, and returns what will come of it once its session is found. It takes its
    /// place before the first wait, so whoever calls this first goes first.
    pub(crate) async fn begin_turn(
        &self,
        asked: Asked,
        place: Target,
        message: Message,
        hearer: Hearer,
    ) -> Result<JoinHandle<Ended>, Problem> {
        let room = self.room()?;
        let lane = match &place {
            Target::Session(id) => Lane::Session(self.owner.clone(), *id),
            Target::Key(key, _) => Lane::Key(self.owner.clone(), key.clone()),
        };
        let first = self.ticket(lane)?;
        let (tell, told) = oneshot::channel();
        let visitor = self.clone();
        let ended = self.desk.turns.tasks.spawn(async move {
            let found = visitor.find(first, place).await;
            let known = found.as_ref().map(drop).map_err(Clone::clone);
            // Whoever asked may have gone; the turn goes on.
            drop(tell.send(known));
            let ended = match found {
                Ok((id, ticket, key)) => {
                    visitor.turn(asked, id, ticket, key, message, hearer).await
                }
                Err(problem) => {
                    Ended { session: SessionId(uuid::Uuid::nil()), outcome: Err(problem) }
                }
            };
            drop(room);
            ended
        });
        match told.await {
            Ok(Ok(())) => Ok(ended),
            Ok(Err(problem)) => Err(problem),
            Err(_) => Err(Problem::broken("the turn was given up before it began")),
        }
    }

    /// Does something that takes its time in a session, in its lane; whoever asked may go away.
    pub(crate) async fn in_lane<T: Send + 'static>(
        &self,
        id: SessionId,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let room = self.room()?;
        let ticket = self.ticket(Lane::Session(self.owner.clone(), id))?;
        let visitor = self.clone();
        let task = self.desk.turns.tasks.spawn(async move {
            visitor.wait(&ticket).await?;
            let done = work.await;
            drop(room);
            done
        });
        task.await.map_err(|_| Problem::broken("it was given up in the middle"))?
    }

    fn room(&self) -> Result<Room, Problem> {
        let (most, each) = (self.desk.limits.turns, self.desk.limits.owner_turns);
        let full = |_| Problem::busy(format!("{most} turns run or wait"));
        let permit = self.desk.turns.room.clone().try_acquire_owned().map_err(full)?;
        let share = self.desk.owners.turn(&self.account);
        let share = share.ok_or_else(|| {
            Problem::too_many_turns(format!("{each} turns of yours run or wait already"))
        })?;
        Ok(Room { _permit: permit, _share: share })
    }

    fn ticket(&self, lane: Lane) -> Result<Ticket<Lane>, Problem> {
        let most = self.desk.limits.waiting;
        self.desk.turns.lanes.ticket(lane, most).ok_or_else(|| {
            Problem::too_many_waiting(format!("{most} turns wait for this session already"))
        })
    }

    async fn wait(&self, ticket: &Ticket<Lane>) -> Result<(), Problem> {
        tokio::select! {
            biased;
            () = ticket.turn() => Ok(()),
            () = self.desk.turns.stop.cancelled() => {
                Err(Problem::busy("the server is stopping; nothing was stored"))
            }
        }
    }

    /// The session of a turn, and its place in the lane of that session.
    async fn find(
        &self,
        first: Ticket<Lane>,
        place: Target,
    ) -> Result<(SessionId, Ticket<Lane>, Option<Key>), Problem> {
        match place {
            Target::Session(id) => {
                self.with(move |sessions| sessions.get(id)).await?;
                Ok((id, first, None))
            }
            Target::Key(key, new) => {
                self.wait(&first).await?;
                let opened = key.clone();
                let id = self
                    .with(move |sessions| match sessions.resolve(&opened)? {
                        Some(id) => Ok(id),
                        None => Ok(sessions.open(&opened, &new)?.session().id()),
                    })
                    .await?;
                // The next one to find this session is let go only when this one has its place.
                let ticket = self.ticket(Lane::Session(self.owner.clone(), id))?;
                Ok((id, ticket, Some(key)))
            }
        }
    }

    async fn turn(
        &self,
        asked: Asked,
        mut session: SessionId,
        mut ticket: Ticket<Lane>,
        key: Option<Key>,
        message: Message,
        mut hearer: Hearer,
    ) -> Ended {
        let outcome = match self.reach(&mut session, &mut ticket, key).await {
            Ok(()) => {
                let outcome = self.run(&asked, session, message, &mut hearer).await;
                self.answered(session, &asked).await;
                outcome
            }
            Err(problem) => Err(problem),
        };
        self.desk.metrics.turn(outcome.as_ref().ok());
        drop(ticket);
        let ended = Ended { session, outcome };
        if let Some(hearer) = &mut hearer {
            // The answer has begun with a 200, so the line about the request says nothing of this.
            if let Err(problem) = &ended.outcome {
                self.desk.log.line(&self.failed(session, problem));
            }
            hearer(Told::Ended(&ended));
        }
        ended
    }

    /// A line for the log about a turn that failed.
    fn failed(&self, session: SessionId, problem: &Problem) -> serde_json::Value {
        let mut line = serde_json::json!({
            "at": rfc3339(self.desk.world.now()),
            "owner": self.owner.as_str(),
            "turn": session,
            "status": problem.status().as_u16(),
        });
        if let Some(cause) = problem.cause() {
            line["cause"] = cause.into();
        }
        line
    }

    /// Waits for the session. While that takes, a compaction may have moved the key on.
    async fn reach(
        &self,
        session: &mut SessionId,
        ticket: &mut Ticket<Lane>,
        key: Option<Key>,
    ) -> Result<(), Problem> {
        for _ in 0..MOVES_MAX {
            self.wait(ticket).await?;
            let Some(key) = key.clone() else { return Ok(()) };
            match self.with(move |sessions| sessions.resolve(&key)).await? {
                Some(now) if now != *session => {
                    *ticket = self.ticket(Lane::Session(self.owner.clone(), now))?;
                    *session = now;
                }
                _ => return Ok(()),
            }
        }
        Err(Problem::conflict("the session of this file was moved again and again"))
    }

    async fn run(
        &self,
        asked: &Asked,
        session: SessionId,
        message: Message,
        hearer: &mut Hearer,
    ) -> Result<Answer, Problem> {
        let runner = self.answering(session, asked).await?;
        let turns = &self.desk.turns;
        let stop = turns.stop.child_token();
        let _running = turns.running.enter((self.owner.clone(), session), stop.clone());
        let Some(hearer) = hearer else {
            return Ok(runner.run_turn(session, message, &Events::none(), &stop).await?);
        };
        let (events, mut heard) = Events::channel();
        let turn = runner.run_turn(session, message, &events, &stop);
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                Some(event) = heard.recv() => hearer(Told::Event(event)),
                outcome = &mut turn => {
                    while let Ok(event) = heard.try_recv() {
                        hearer(Told::Event(event));
                    }
                    return Ok(outcome?);
                }
            }
        }
    }
}

/// The right to be one of the turns.
struct Room {
    _permit: OwnedSemaphorePermit,
    _share: Turn,
}

/// The turns that can be stopped.
#[derive(Default)]
struct Running(Mutex<HashMap<(Owner, SessionId), CancellationToken>>);

/// Takes a turn off the list when it is over, however it ends.
struct Entered(Arc<Running>, (Owner, SessionId));

impl Running {
    fn enter(self: &Arc<Running>, name: (Owner, SessionId), stop: CancellationToken) -> Entered {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), stop);
        Entered(Arc::clone(self), name)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}
