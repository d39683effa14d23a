//! Runs turns as tasks, one at a time in each session, in the order of the requests.
//!
//! A turn is a separate task: the client may disconnect, and the next turn in the queue finds it
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
use crate::byte_budget::{ByteBudget, HeldBytes};
use crate::events::Events;
use crate::fifo::{Fifo, Ticket};
use crate::holder::is_dead;
use crate::leased_thread::Wanted;
use crate::limits::LEASE_WAIT;
use crate::runner::{TurnAnswer, TurnError};
use crate::turn::{TurnInput, TurnOptions};

/// How often a key may move while a turn waits for the session it pointed at.
const MOVES_MAX: usize = 8;

/// The turns of this process.
pub(super) struct Turns {
    limits: HostLimits,
    queues: Fifo<QueueName>,
    room: Arc<Semaphore>,
    owners: Mutex<HashMap<Owner, Arc<AtomicUsize>>>,
    questions: ByteBudget,
    live: Arc<LiveTurns>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What a queue is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum QueueName {
    /// Requests that are resolving their session.
    Key(Owner, Key),
    /// Turns, and other long operations in a session.
    Session(Owner, SessionId),
}

/// The target of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// In this session.
    Session(SessionId),
    /// The session this key points at; if there is none, the default agent starts one.
    Key(Key),
}

/// A running or queued turn.
pub struct StartedTurn {
    /// The session it runs in.
    pub session: SessionId,
    /// Stops it; its partial reply is kept.
    pub stop: CancellationToken,
    task: JoinHandle<Option<EndedTurn>>,
}

/// A turn that is over.
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct EndedTurn {
    pub session: SessionId,
    /// The answer, or why there is none.
    pub outcome: Result<TurnAnswer, TurnError>,
}

/// The result of stopping a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is being stopped; its partial reply is kept.
    Stopped,
    /// There was none.
    Nothing,
    /// One is running and others are queued, and the request did not say which to stop.
    Several {
        /// How many are queued.
        waiting: usize,
    },
    /// Another program runs it, and only that program can stop it.
    Elsewhere {
        /// The program.
        holder: String,
        /// When its lease expires, unless renewed.
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
            questions: ByteBudget::new(limits.owner_bytes, limits.bytes),
            live: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// The permit for a turn, with its bytes in memory.
    fn room(&self, owner: &Owner, bytes: usize) -> Result<Room, Refusal> {
        let HostLimits { turns, owner_turns, .. } = self.limits;
        let full = |_| Refusal::HostFull { most: turns };
        let permit = self.room.clone().try_acquire_owned().map_err(full)?;
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let share = owners.entry(owner.clone()).or_default().clone();
        let more = |count| (count < owner_turns).then_some(count + 1);
        drop(owners);
        let counted = share.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        counted.map_err(|_| Refusal::OwnerFull { most: owner_turns })?;
        let share = Share(share);
        let bytes = self.questions.try_take(owner, bytes)?;
        Ok(Room { _permit: permit, _share: share, _bytes: bytes })
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
            () = stop.cancelled() => Err(match self.stop.is_cancelled() {
                true => Refusal::Closing,
                false => Refusal::Stopped,
            }),
            () = ticket.wait() => Ok(()),
        }
    }
}

impl Host {
    /// Gives running turns time to finish, then stops them, and waits until `end` at most. Returns
    /// whether all of them ended.
    pub async fn drain(&self, grace: Duration, end: Instant) -> bool {
        let turns = &self.0.turns;
        turns.tasks.close();
        if tokio::time::timeout(grace, turns.tasks.wait()).await.is_ok() {
            return true;
        }
        turns.stop.cancel();
        // A turn that does not stop in time leaves its lease, which expires.
        tokio::time::timeout_at(end, turns.tasks.wait()).await.is_ok()
    }

    /// Runs a task that [`drain`](Host::drain) waits for.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.turns.tasks.spawn(task)
    }

    /// Turns that are running or queued.
    pub fn turns(&self) -> usize {
        let turns = &self.0.turns;
        turns.limits.turns - turns.room.available_permits()
    }
}

impl Handle {
    /// Starts a turn, and returns once its session is found. It is queued before the first await,
    /// so turns run in the order of the calls.
    ///
    /// # Errors
    ///
    /// [`TurnError::Refused`] if too many turns are running or queued; otherwise I/O errors.
    pub async fn start_turn(
        &self,
        target: Target,
        input: impl Into<TurnInput>,
        options: TurnOptions,
        events: Events,
    ) -> Result<StartedTurn, TurnError> {
        let input = input.into();
        let turns = &self.host.0.turns;
        let room = turns.room(self.owner(), input.bytes() + options.bytes())?;
        let first = turns.ticket(self.queue_of(&target))?;
        let stop = turns.stop.child_token();
        let (sender, receiver) = oneshot::channel();
        let (handle, stopped) = (self.clone(), stop.clone());
        // Registered before it is reported, because a request to stop may refer to this turn.
        let live = turns.live.clone().enter(self.owner().clone(), &options, stop.clone());
        if let Target::Session(id) = target {
            live.moves_to(id);
        }
        let task = self.host.spawn(async move {
            let found = match handle.find(first, target, &stopped).await {
                Ok(found) => found,
                Err(error) => {
                    drop(sender.send(Err(error)));
                    return None;
                }
            };
            live.moves_to(found.session);
            // The caller may have disconnected; the turn runs anyway.
            drop(sender.send(Ok(found.session)));
            let ended = handle.turn(found, input, &options, &events, &stopped, &live).await;
            drop((room, live));
            Some(ended)
        });
        let session = receiver.await.map_err(|_| Refusal::Abandoned)??;
        Ok(StartedTurn { session, stop, task })
    }

    /// Stops the turn with this [name](TurnOptions::name), running or queued; without a name the
    /// running one, unless others are queued, because the caller may mean one of those.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; otherwise I/O errors.
    pub async fn stop_turn(
        &self,
        id: SessionId,
        name: Option<&str>,
    ) -> Result<Stop, sessions::Error> {
        self.run(move |sessions| sessions.get(id)).await?;
        if let Some(stop) = self.host.0.turns.live.stop(self.owner(), id, name) {
            return Ok(stop);
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

    /// Runs a longer operation in the queue of a session; it is completed even if the caller
    /// disconnects.
    ///
    /// # Errors
    ///
    /// [`TurnError::Refused`] as for a turn, and the error of the operation.
    pub async fn in_queue<T: Send + 'static>(
        &self,
        id: SessionId,
        work: impl Future<Output = Result<T, TurnError>> + Send + 'static,
    ) -> Result<T, TurnError> {
        let turns = &self.host.0.turns;
        let room = turns.room(self.owner(), 0)?;
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

    /// Records a turn that another program ran: its question, and the replies and results that
    /// followed. Returns their seqs.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] while another turn runs; otherwise I/O errors. Nothing was stored then.
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
                // The next request for this session proceeds only when this one has its place.
                let ticket = turns.ticket(self.queue_of(&Target::Session(session)))?;
                Ok(Found { session, ticket, key: Some(key) })
            }
        }
    }

    /// The session a key points at; if there is none, the default agent starts one.
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
        live: &Live,
    ) -> EndedTurn {
        let outcome = async {
            self.reach(&mut found, stop).await?;
            let id = found.session;
            live.moves_to(id);
            live.runs();
            let runner = self.runner_for_turn(id, options).await?;
            runner.run_turn(id, input, options, events, stop).await
        }
        .await;
        EndedTurn { session: found.session, outcome }
    }

    /// Waits for the session. In the meantime, a compaction may have moved the key.
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

/// The totals of a recorded turn; `None` if it has no final reply.
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

/// The permit for a turn.
struct Room {
    _permit: OwnedSemaphorePermit,
    _share: Share,
    /// Its question, which is in memory until the turn is over.
    _bytes: HeldBytes,
}

/// One of the turns of an owner.
struct Share(Arc<AtomicUsize>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The turns that can be stopped: running and queued ones.
#[derive(Default)]
struct LiveTurns {
    turns: Mutex<HashMap<u64, LiveTurn>>,
    /// How many there have been.
    count: AtomicU64,
}

struct LiveTurn {
    owner: Owner,
    /// `None` until its key is resolved.
    session: Option<SessionId>,
    name: Option<String>,
    stop: CancellationToken,
    runs: bool,
}

/// A registered turn. Dropping this removes it, however the turn ends.
struct Live {
    turns: Arc<LiveTurns>,
    number: u64,
}

impl LiveTurns {
    fn enter(
        self: Arc<LiveTurns>,
        owner: Owner,
        options: &TurnOptions,
        stop: CancellationToken,
    ) -> Live {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let name = options.name.clone();
        let turn = LiveTurn { owner, session: None, name, stop, runs: false };
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).insert(number, turn);
        Live { turns: self, number }
    }

    /// Stops a turn of a session. `None` if this host has none in it.
    fn stop(&self, owner: &Owner, id: SessionId, name: Option<&str>) -> Option<Stop> {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let is_here = |turn: &&LiveTurn| turn.session == Some(id) && turn.owner == *owner;
        let here: Vec<&LiveTurn> = turns.values().filter(is_here).collect();
        let waiting = here.iter().filter(|turn| !turn.runs).count();
        if name.is_none() && waiting > 0 {
            return Some(Stop::Several { waiting });
        }
        let is_meant = |turn: &&&LiveTurn| match name {
            Some(name) => turn.name.as_deref() == Some(name),
            None => turn.runs,
        };
        let stopped = here.iter().filter(is_meant).inspect(|turn| turn.stop.cancel()).count();
        match (stopped, here.is_empty()) {
            (0, true) => None,
            (0, false) => Some(Stop::Nothing),
            _ => Some(Stop::Stopped),
        }
    }
}

impl Live {
    fn change(&self, change: impl FnOnce(&mut LiveTurn)) {
        let mut turns = self.turns.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get_mut(&self.number) {
            change(turn);
        }
    }

    /// Sets its session.
    fn moves_to(&self, session: SessionId) {
        self.change(|turn| turn.session = Some(session));
    }

    /// Marks it as running.
    fn runs(&self) {
        self.change(|turn| turn.runs = true);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.turns.turns.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}
