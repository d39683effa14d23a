//! A session that is leased for a turn, or for as long as a program writes to it.
//!
//! The store blocks and the loop does not: all operations on the thread run on threads for blocking
//! work, and the lease is renewed in the background while a model works. Waiting for another turn
//! blocks no thread.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rethread_core::{Owner, SessionId, Sessions, StoreError, Thread, sessions};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::events::{Event, Events};
use crate::holder::{holder, ignoring_dead_holders};
use crate::limits::{LEASE, LEASE_POLL};
use crate::thread_cache::ThreadCache;

/// A thread whose lease is kept alive until it is released or dropped.
pub struct LeasedThread {
    thread: Arc<Mutex<Thread>>,
    holder: String,
    owner: Owner,
    renewal: JoinHandle<()>,
}

/// How often another writer may be first before the append is given up.
const TRIES_MAX: usize = 100;

/// A session to lease, and how long to wait while another turn runs.
pub(crate) struct Wanted<'a> {
    pub(crate) sessions: &'a Sessions,
    pub(crate) cache: &'a ThreadCache,
    pub(crate) id: SessionId,
    pub(crate) wait: Duration,
    pub(crate) events: &'a Events,
    pub(crate) stop: &'a CancellationToken,
}

impl Wanted<'_> {
    /// Takes the lease. Waits while someone else holds it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] if someone else holds it until the timeout; otherwise I/O errors.
    pub(crate) async fn take(&self) -> Result<LeasedThread, sessions::Error> {
        let (leased, ()) = self.begin(|_| Ok(())).await?;
        Ok(leased)
    }

    /// Runs the first operation of a turn: its first append takes the lease. It is repeated if
    /// someone else wrote in between, with their entries visible.
    ///
    /// # Errors
    ///
    /// As [`take`](Wanted::take), and the errors of the operation; the lease is not kept then.
    pub(crate) async fn begin<T: Send + 'static>(
        &self,
        first: impl Fn(&mut Thread) -> Result<T, sessions::Error> + Send + Sync + 'static,
    ) -> Result<(LeasedThread, T), sessions::Error> {
        let holder = holder();
        let name = holder.clone();
        let begin = move |thread: &mut Thread| {
            thread.take_lease_with_next_append(&name, LEASE);
            let done = first(thread).and_then(|done| {
                let head = thread.head();
                if thread.holds() {
                    return Ok(done);
                }
                // Nothing had to be appended. Someone may have written in the meantime.
                thread.hold(&name, LEASE)?;
                thread.refresh()?;
                if thread.head() == head { Ok(done) } else { first(thread) }
            });
            let done = done.and_then(|done| unarchive(thread).map(|()| done));
            if done.is_err() && thread.holds() {
                // The lease expires if this fails.
                thread.release(&name).ok();
            }
            done
        };
        let (thread, done) = self.reach(begin).await?;
        Ok((LeasedThread::new(thread, holder, self.sessions.owner().clone()), done))
    }

    /// Runs an operation that is one append, for which no lease is needed.
    ///
    /// # Errors
    ///
    /// As [`take`](Wanted::take), and the errors of the operation.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Thread) -> Result<T, sessions::Error> + Send + Sync + 'static,
    ) -> Result<T, sessions::Error> {
        let work = move |thread: &mut Thread| {
            let done = work(thread)?;
            unarchive(thread).map(|()| done)
        };
        let (thread, done) = self.reach(work).await?;
        self.cache.put(self.sessions.owner().clone(), thread);
        Ok(done)
    }

    /// Runs an operation in the session as soon as no other turn runs.
    async fn reach<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Thread) -> Result<T, sessions::Error> + Send + Sync + 'static,
    ) -> Result<(Thread, T), sessions::Error> {
        let work = Arc::new(work);
        let began = Instant::now();
        let mut told = false;
        loop {
            let (store, work, id) = (self.sessions.clone(), Arc::clone(&work), self.id);
            let earlier = self.cache.take(store.owner(), id);
            let done = blocking(move || {
                let mut thread = match earlier {
                    Some(mut thread) => thread.refresh().map(|()| thread)?,
                    None => store.thread(id)?,
                };
                let done = ignoring_dead_holders(&store, |_| {
                    unless_overtaken(&mut thread, work.as_ref())
                })?;
                Ok((thread, done))
            });
            match done.await {
                Err(sessions::Error::Store(StoreError::Held { holder: other, id, until })) => {
                    if began.elapsed() >= self.wait || self.stop.is_cancelled() {
                        return Err(StoreError::Held { holder: other, id, until }.into());
                    }
                    if !std::mem::replace(&mut told, true) {
                        self.events.send(Event::Waiting { holder: other }).await;
                    }
                    tokio::select! {
                        () = self.stop.cancelled() => {}
                        () = tokio::time::sleep(LEASE_POLL) => {}
                    }
                }
                done => return done,
            }
        }
    }
}

/// Unarchives a session, because something happens in it.
fn unarchive(thread: &Thread) -> Result<(), sessions::Error> {
    match thread.session().header.is_unarchived_when_opened() {
        true => thread.sessions().unarchive(thread.session().id()).map(drop),
        false => Ok(()),
    }
}

/// Runs an operation, and repeats it if someone else wrote first.
fn unless_overtaken<T>(
    thread: &mut Thread,
    work: &(impl Fn(&mut Thread) -> Result<T, sessions::Error> + ?Sized),
) -> Result<T, sessions::Error> {
    for _ in 1..TRIES_MAX {
        match work(thread) {
            Err(sessions::Error::Store(StoreError::Conflict { .. })) => thread.refresh()?,
            done => return done,
        }
    }
    work(thread)
}

impl LeasedThread {
    fn new(thread: Thread, holder: String, owner: Owner) -> LeasedThread {
        let thread = Arc::new(Mutex::new(thread));
        let renewal = tokio::spawn(renew(Arc::downgrade(&thread), holder.clone()));
        LeasedThread { thread, holder, owner, renewal }
    }

    /// Runs an operation on the thread.
    ///
    /// # Errors
    ///
    /// The error of the operation.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Thread) -> Result<T, sessions::Error> + Send + 'static,
    ) -> Result<T, sessions::Error> {
        let thread = self.thread.clone();
        blocking(move || work(&mut lock(&thread))).await
    }

    /// The thread itself, for operations on several at once.
    pub(crate) fn shared(&self) -> Arc<Mutex<Thread>> {
        self.thread.clone()
    }

    /// Releases the session, and caches what was read of it for the next turn.
    ///
    /// # Errors
    ///
    /// I/O errors; the lease expires by itself then.
    pub(crate) async fn release(self, cache: &ThreadCache) -> Result<(), sessions::Error> {
        let (thread, owner) = self.returned().await?;
        // A renewal may still be using it; then it is read again next time.
        if let Some(thread) = Arc::into_inner(thread).and_then(|thread| thread.into_inner().ok()) {
            cache.put(owner, thread);
        }
        Ok(())
    }

    /// Releases the session. If this fails, the lease expires by itself.
    pub async fn give_back(self) -> Result<(), sessions::Error> {
        self.returned().await.map(drop)
    }

    async fn returned(self) -> Result<(Arc<Mutex<Thread>>, Owner), sessions::Error> {
        self.renewal.abort();
        let (thread, holder) = (self.thread.clone(), self.holder.clone());
        blocking(move || give_back(&thread, &holder)).await?;
        let (thread, owner) = (Arc::clone(&self.thread), self.owner.clone());
        drop(self);
        Ok((thread, owner))
    }
}

impl Drop for LeasedThread {
    /// A turn that is dropped in the middle also releases the session.
    fn drop(&mut self) {
        self.renewal.abort();
        // If the lock is taken, another task is still using the thread.
        let returned = self.thread.try_lock().is_ok_and(|thread| !thread.holds());
        if let (false, Ok(runtime)) = (returned, tokio::runtime::Handle::try_current()) {
            let (thread, holder) = (self.thread.clone(), self.holder.clone());
            // There is nobody to report to; the lease expires if this fails.
            runtime.spawn_blocking(move || give_back(&thread, &holder).ok());
        }
    }
}

/// Releases the lease, if the last append has not done so.
fn give_back(thread: &Mutex<Thread>, holder: &str) -> Result<(), sessions::Error> {
    let mut thread = lock(thread);
    if thread.holds() { thread.release(holder) } else { Ok(()) }
}

/// Renews the lease as long as the thread is used. It holds the thread only while it does so,
/// because releasing needs exclusive ownership.
async fn renew(thread: Weak<Mutex<Thread>>, holder: String) {
    loop {
        tokio::time::sleep(LEASE / 3).await;
        let (Some(thread), holder) = (thread.upgrade(), holder.clone()) else { return };
        // If it fails, someone else took over, and the next append is refused.
        let renewed = blocking(move || {
            let mut thread = lock(&thread);
            // A lease that was released must not be taken again.
            if thread.holds() { thread.hold(&holder, LEASE) } else { Ok(()) }
        });
        drop(renewed.await);
    }
}

pub(crate) fn lock(thread: &Mutex<Thread>) -> std::sync::MutexGuard<'_, Thread> {
    thread.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rethread_core::{Block, Item, Message, Raw, Role};

    use super::*;

    fn sessions() -> (Sessions, SessionId) {
        let world = Arc::new(rethread_core::Fixed::default());
        let store = Arc::new(rethread_core::MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let id = sessions.create(&Default::default(), None).expect("created").id();
        (sessions, id)
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(work)
    }

    /// The first append of a turn: results for calls that a crash left open, and the question.
    fn ask(thread: &mut Thread, question: &str) -> Result<Vec<u64>, sessions::Error> {
        let mut items: Vec<Item> = thread.log().repair().into_iter().map(Item::from).collect();
        items.push(Message::user(question).into());
        thread.record(items)
    }

    #[test]
    fn a_turn_that_was_overtaken_reads_the_tail_again_before_it_repairs_or_stores() {
        let (sessions, id) = sessions();
        let (cache, events, stop) = (ThreadCache::default(), Events::none(), Default::default());
        let (other, tries) = (sessions.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = tries.clone();
        let first = move |thread: &mut Thread| {
            if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                // Another process writes, and dies in the middle of a round.
                let call = Block::tool_use("call", "search", Raw::of(&()));
                let reply = Message::new(Role::Assistant, vec![call]);
                other.append(id, vec![reply.into()])?;
            }
            ask(thread, "and now?")
        };
        let wait = Duration::ZERO;
        run(async {
            let wanted = Wanted {
                sessions: &sessions,
                cache: &cache,
                id,
                wait,
                events: &events,
                stop: &stop,
            };
            let (held, seqs) = wanted.begin(first).await.expect("begun");
            assert_eq!(tries.load(Ordering::SeqCst), 2);
            assert_eq!(seqs, [1, 2], "the call is answered before the question is appended");
            let refused = sessions.append(id, vec![Message::user("me too").into()]);
            assert!(matches!(refused, Err(sessions::Error::Store(StoreError::Held { .. }))));
            held.with(|thread| thread.finish(vec![Message::assistant("yes").into()]))
                .await
                .expect("finished");
            sessions.append(id, vec![Message::user("me too").into()]).expect("it was given back");
            held.release(&cache).await.expect("there is no lease left to release");
            assert!(cache.take(sessions.owner(), id).is_some(), "it is at hand for the next turn");
        });
    }

    #[test]
    fn a_first_step_that_fails_keeps_no_lease() {
        let (sessions, id) = sessions();
        let (cache, events, stop) = (ThreadCache::default(), Events::none(), Default::default());
        let first = |thread: &mut Thread| {
            ask(thread, "hello?")?;
            Err::<(), _>(sessions::Error::NothingToUndo { id: thread.session().id() })
        };
        run(async {
            let wait = Duration::ZERO;
            let wanted = Wanted {
                sessions: &sessions,
                cache: &cache,
                id,
                wait,
                events: &events,
                stop: &stop,
            };
            assert!(wanted.begin(first).await.is_err());
            sessions.append(id, vec![Message::user("hello").into()]).expect("nobody has it");
        });
    }
}
