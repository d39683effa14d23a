//! Turns that run by themselves, one at a time in each session, in the order they were asked for.
//!
//! A turn is a task of its own: the client may disconnect, and the next turn in the queue finds it
//! finished.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rethread_core::entry::{Body, Finished};
use rethread_core::message::Usage;
use rethread_core::{Incoming, Item, Key, Message, Owner, Role, SessionId, StoreError, sessions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Handle, Host, HostLimits, Refusal};
use crate::blocking::blocking;
use crate::events::Events;
use crate::fifo::{Fifo, Ticket};
use crate::holder::is_dead;
use crate::leased_thread::Wanted;
use crate::limits::LEASE_WAIT;
use crate::runner::{Answer, TurnError};
use crate::turn::{TurnInput, TurnOptions};

/// Times a key may move on while a turn waits for the session it pointed at.
const MOVES_MAX: usize = 8;

/// The turns of this process.
pub(super) struct Turns {
    limits: HostLimits,
    queues: Fifo<QueueName>,
    room: Arc<Semaphore>,
    owners: Mutex<HashMap<Owner, Arc<AtomicUsize>>>,
    running: Arc<Running>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What a queue is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum QueueName {
    /// Requests that are finding their session.
    Key(Owner, Key),
    /// Turns, and whatever else takes its time in a session.
    Session(Owner, SessionId),
}

/// Where a turn is to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// In this session.
    Session(SessionId),
    /// In the session this key points at; the usual agent starts one if there is none.
    Key(Key),
}

/// A turn that runs, or waits to.
pub struct StartedTurn {
    /// The session it was found to be in.
    pub session: SessionId,
    /// Ends it early; what was said until then is kept.
    pub stop: CancellationToken,
    task: JoinHandle<Option<EndedTurn>>,
}

/// A turn that is over.
pub struct EndedTurn {
    /// The session it was in.
    pub session: SessionId,
    /// The answer, or why there is none.
    pub outcome: Result<Answer, TurnError>,
}

/// What came of stopping the turn of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is being stopped; what was said until then is kept.
    Stopped,
    /// There was none.
    Nothing,
    /// Another program runs it, and only that can stop it.
    Elsewhere {
        /// Which.
        holder: String,
        /// Until when its lease lasts, unless renewed.
        until: Timestamp,
    },
}

impl StartedTurn {
    /// Waits for the end of the turn. Dropping this does not stop it.
    pub async fn ended(self) -> EndedTurn {
        match self.task.await {
            Ok(Some(ended)) => ended,
            _ => EndedTurn { session: self.session, outcome: Err(Refusal::Abandoned.into()) },
        }
    }
}

impl Turns {
    pub(super) fn new(limits: HostLimits) -> Turns {
        Turns {
            limits,
            queues: Fifo::new(),
            room: Arc::new(Semaphore::new(limits.turns)),
            owners: Mutex::default(),
            running: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// The right to be one of the turns.
    fn room(&self, owner: &Owner) -> Result<Room, Refusal> {
        let HostLimits { turns, owner_turns, .. } = self.limits;
        let full = |_| Refusal::HostFull { most: turns };
        let permit = self.room.clone().try_acquire_owned().map_err(full)?;
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let share = owners.entry(owner.clone()).or_default().clone();
        let more = |count| (count < owner_turns).then_some(count + 1);
        match share.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            Ok(_) => Ok(Room { _permit: permit, share: Share(share) }),
            Err(_) => Err(Refusal::OwnerFull { most: owner_turns }),
        }
    }

    fn ticket(&self, name: QueueName) -> Result<Ticket<QueueName>, Refusal> {
        let most = self.limits.queue;
        self.queues.ticket(name, most).ok_or(Refusal::QueueFull { most })
    }

    async fn wait(
        &self,
        ticket: &Ticket<QueueName>,
        stop: &CancellationToken,
    ) -> Result<(), Refusal> {
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(Refusal::Stopped),
            () = ticket.wait() => Ok(()),
        }
    }
}

impl Host {
    /// Lets running turns end by themselves for a while, then stops them, and waits no longer than
    /// until `end`. Returns whether all of them ended.
    pub async fn drain(&self, grace: Duration, end: Instant) -> bool {
        let turns = &self.0.turns;
        turns.tasks.close();
        if tokio::time::timeout(grace, turns.tasks.wait()).await.is_ok() {
            return true;
        }
        turns.stop.cancel();
        // What does not even stop in time is left to its lease, which ends by itself.
        tokio::time::timeout_at(end, turns.tasks.wait()).await.is_ok()
    }

    /// Runs a task that [`drain`](Host::drain) waits for.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.turns.tasks.spawn(task)
    }

    /// Turns that run or wait.
    pub fn turns(&self) -> usize {
        let turns = &self.0.turns;
        turns.limits.turns - turns.room.available_permits()
    }
}

impl Handle {
    /// Begins a turn, and returns once its session is found. It takes its place in the queue before
    /// the first await, so turns run in the order of the calls.
    ///
    /// # Errors
    ///
    /// [`TurnError::Refused`] if too many turns run or wait; otherwise I/O errors.
    pub async fn start_turn(
        &self,
        target: Target,
        input: impl Into<TurnInput>,
        options: TurnOptions,
        events: Events,
    ) -> Result<StartedTurn, TurnError> {
        let input = input.into();
        let turns = &self.host.0.turns;
        let room = turns.room(self.owner())?;
        let first = turns.ticket(self.queue_of(&target))?;
        let stop = turns.stop.child_token();
        let (tell, told) = oneshot::channel();
        let (handle, stopped) = (self.clone(), stop.clone());
        let task = self.host.spawn(async move {
            let found = match handle.find(first, target, &stopped).await {
                Ok(found) => found,
                Err(error) => {
                    drop(tell.send(Err(error)));
                    return None;
                }
            };
            // Whoever asked may have gone; the turn runs all the same.
            drop(tell.send(Ok(found.session)));
            let ended = handle.turn(found, input, &options, &events, &stopped).await;
            drop(room);
            Some(ended)
        });
        let session = told.await.map_err(|_| Refusal::Abandoned)??;
        Ok(StartedTurn { session, stop, task })
    }

    /// Stops the turn that runs in a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; otherwise I/O errors.
    pub async fn stop_turn(&self, id: SessionId) -> Result<Stop, sessions::Error> {
        self.run(move |sessions| sessions.get(id)).await?;
        if self.host.0.turns.running.stop(&(self.owner().clone(), id)) {
            return Ok(Stop::Stopped);
        }
        match self.run(move |sessions| sessions.is_free(id)).await {
            Err(sessions::Error::Store(StoreError::Held { holder, until, .. })) => {
                match is_dead(&holder) {
                    true => Ok(Stop::Nothing),
                    false => Ok(Stop::Elsewhere { holder, until }),
                }
            }
            other => other.map(|()| Stop::Nothing),
        }
    }

    /// Runs a longer piece of work in the queue of a session; it is finished even if the caller
    /// disconnects.
    ///
    /// # Errors
    ///
    /// [`TurnError::Refused`] as for a turn, and whatever the work fails with.
    pub async fn in_queue<T: Send + 'static>(
        &self,
        id: SessionId,
        work: impl Future<Output = Result<T, TurnError>> + Send + 'static,
    ) -> Result<T, TurnError> {
        let turns = &self.host.0.turns;
        let room = turns.room(self.owner())?;
        let ticket = turns.ticket(QueueName::Session(self.owner().clone(), id))?;
        let handle = self.clone();
        let task = self.host.spawn(async move {
            let turns = &handle.host.0.turns;
            turns.wait(&ticket, &turns.stop).await?;
            let done = work.await;
            drop(room);
            done
        });
        task.await.map_err(|_| Refusal::Abandoned)?
    }

    /// Records a turn that another program ran: its question, and the replies and results it got.
    /// Returns their seqs.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] while someone else is in a turn; otherwise I/O errors. Nothing was
    /// stored then.
    pub async fn record_turn(
        &self,
        id: SessionId,
        messages: Vec<Incoming>,
        took: Duration,
    ) -> Result<Vec<u64>, TurnError> {
        let handle = self.clone();
        let work = async move {
            let wanted = Wanted {
                sessions: &handle.sessions,
                cache: &handle.host.0.threads,
                id,
                wait: LEASE_WAIT,
                events: &Events::none(),
                stop: &CancellationToken::new(),
            };
            let recorded = wanted.write(move |thread| {
                let repairs = thread.log().repair();
                let skip = repairs.len();
                let mut items: Vec<Item> = repairs.into_iter().map(Item::from).collect();
                items.extend(messages.iter().cloned().map(Item::from));
                items.extend(finished(&messages, took).map(Item::from));
                let mut seqs = thread.record(items)?;
                seqs.drain(..skip);
                Ok(seqs)
            });
            Ok(recorded.await?)
        };
        self.in_queue(id, work).await
    }

    fn queue_of(&self, target: &Target) -> QueueName {
        match target {
            Target::Session(id) => QueueName::Session(self.owner().clone(), *id),
            Target::Key(key) => QueueName::Key(self.owner().clone(), key.clone()),
        }
    }

    /// The session of a turn, and its place in the queue of that session.
    async fn find(
        &self,
        first: Ticket<QueueName>,
        target: Target,
        stop: &CancellationToken,
    ) -> Result<Found, TurnError> {
        match target {
            Target::Session(id) => {
                self.run(move |sessions| sessions.get(id)).await?;
                Ok(Found { session: id, ticket: first, key: None })
            }
            Target::Key(key) => {
                let turns = &self.host.0.turns;
                turns.wait(&first, stop).await?;
                let session = self.open(key.clone()).await?;
                // The next one to find this session is let go only when this one has its place.
                let ticket = turns.ticket(self.queue_of(&Target::Session(session)))?;
                Ok(Found { session, ticket, key: Some(key) })
            }
        }
    }

    /// The session a key points at, started by the usual agent if there is none.
    async fn open(&self, key: Key) -> Result<SessionId, TurnError> {
        let known = key.clone();
        if let Some(id) = self.run(move |sessions| sessions.resolve(&known)).await? {
            return Ok(id);
        }
        let handle = self.clone();
        let new = blocking(move || handle.runner(None, None)).await?.responder.new_session();
        Ok(self.run(move |sessions| Ok(sessions.open(&key, &new)?.session().id())).await?)
    }

    async fn turn(
        &self,
        mut found: Found,
        input: TurnInput,
        options: &TurnOptions,
        events: &Events,
        stop: &CancellationToken,
    ) -> EndedTurn {
        let outcome = async {
            self.reach(&mut found, stop).await?;
            let id = found.session;
            let runner = self.runner_for_turn(id, options).await?;
            let running = &self.host.0.turns.running;
            let _running = running.enter((self.owner().clone(), id), stop.clone());
            runner.run_turn(id, input, options, events, stop).await
        }
        .await;
        EndedTurn { session: found.session, outcome }
    }

    /// Waits for the session. While that takes, a compaction may have moved the key on.
    async fn reach(&self, found: &mut Found, stop: &CancellationToken) -> Result<(), TurnError> {
        let turns = &self.host.0.turns;
        for _ in 0..MOVES_MAX {
            turns.wait(&found.ticket, stop).await?;
            let Some(key) = found.key.clone() else { return Ok(()) };
            match self.run(move |sessions| sessions.resolve(&key)).await? {
                Some(now) if now != found.session => {
                    found.ticket = turns.ticket(self.queue_of(&Target::Session(now)))?;
                    found.session = now;
                }
                _ => return Ok(()),
            }
        }
        let key = found.key.as_ref().map(Key::to_string).unwrap_or_default();
        Err(Refusal::KeyMoved { key }.into())
    }
}

/// What a recorded turn adds up to; nothing where the model has not had its last word.
fn finished(messages: &[Incoming], took: Duration) -> Option<Body> {
    let replies =
        || messages.iter().map(|said| &said.message).filter(|m| m.role == Role::Assistant);
    let last: &Message = messages.last().map(|said| &said.message)?;
    if last.role != Role::Assistant || last.calls().next().is_some() {
        return None;
    }
    let mut usage = Usage::default();
    for reply in replies() {
        usage += reply.usage.unwrap_or_default();
    }
    let rounds = u32::try_from(replies().count()).unwrap_or(u32::MAX);
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let model = last.model.clone();
    Some(Body::Finished(Finished { rounds, ms, usage, model }))
}

/// The session of a turn.
struct Found {
    session: SessionId,
    ticket: Ticket<QueueName>,
    key: Option<Key>,
}

/// The right to be one of the turns.
struct Room {
    _permit: OwnedSemaphorePermit,
    #[expect(dead_code, reason = "it is counted while it is held")]
    share: Share,
}

/// One of the turns of an owner.
struct Share(Arc<AtomicUsize>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The turns that can be stopped.
#[derive(Default)]
struct Running {
    turns: Mutex<HashMap<(Owner, SessionId), (u64, CancellationToken)>>,
    /// How many there have been: tells one turn of a session from the next.
    count: AtomicU64,
}

/// Takes a turn off the list when it is over, however it ends.
struct Entered(Arc<Running>, (Owner, SessionId), u64);

impl Running {
    fn enter(self: &Arc<Running>, name: (Owner, SessionId), stop: CancellationToken) -> Entered {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.insert(name.clone(), (number, stop));
        Entered(Arc::clone(self), name, number)
    }

    fn stop(&self, name: &(Owner, SessionId)) -> bool {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.get(name).inspect(|(_, stop)| stop.cancel()).is_some()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut turns = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.get(&self.1).is_some_and(|(number, _)| *number == self.2) {
            turns.remove(&self.1);
        }
    }
}
