//! A session held for the length of a turn, or for as long as a program writes to it.
//!
//! The store blocks and the loop does not: everything done to the thread is done on a thread for
//! blocking work, and the lease is renewed in the background while a model takes its time. Waiting
//! for someone else's turn blocks no thread at all.

use std::sync::{Arc, Mutex, PoisonError};
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
    thread: Arc<Mutex<Leased>>,
    holder: String,
    owner: Owner,
    renewal: JoinHandle<()>,
}

/// A thread that is held.
struct Leased {
    thread: Thread,
    /// Its lease was given back: a renewal that comes late must not take it again.
    returned: bool,
}

impl Leased {
    fn renew(&mut self, holder: &str) -> Result<(), sessions::Error> {
        if self.returned { Ok(()) } else { self.thread.hold(holder, LEASE) }
    }

    fn give_back(&mut self, holder: &str) -> Result<(), sessions::Error> {
        if std::mem::replace(&mut self.returned, true) {
            return Ok(());
        }
        self.thread.release(holder)
    }
}

impl LeasedThread {
    /// Opens a session and takes its lease. While someone else holds it, waits up to `wait`, or
    /// until `stop`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] when someone else has it for longer, and those of the store.
    pub(crate) async fn take(
        sessions: &Sessions,
        cache: &ThreadCache,
        id: SessionId,
        wait: Duration,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<LeasedThread, sessions::Error> {
        let holder = holder();
        let began = Instant::now();
        let mut told = false;
        loop {
            let (store, name) = (sessions.clone(), holder.clone());
            let earlier = cache.take(sessions.owner(), id);
            let opened = blocking(move || {
                let mut thread = match earlier {
                    Some(thread) => thread,
                    None => store.thread(id)?,
                };
                ignoring_dead_holders(&store, |_| thread.hold(&name, LEASE))?;
                // Someone may have written between the reading and the lease.
                let ready = thread.refresh().and_then(|_| {
                    let archived = thread.session().header.archived;
                    if archived { store.unarchive(id).map(drop) } else { Ok(()) }
                });
                if let Err(error) = ready {
                    // The lease ends by itself if this fails.
                    thread.release(&name).ok();
                    return Err(error);
                }
                Ok(thread)
            });
            match opened.await {
                Ok(thread) => {
                    return Ok(LeasedThread::new(thread, holder, sessions.owner().clone()));
                }
                Err(sessions::Error::Store(StoreError::Held { holder: other, id, until })) => {
                    if began.elapsed() >= wait || stop.is_cancelled() {
                        return Err(StoreError::Held { holder: other, id, until }.into());
                    }
                    if !std::mem::replace(&mut told, true) {
                        events.send(Event::Waiting { holder: other }).await;
                    }
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = tokio::time::sleep(LEASE_POLL) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn new(thread: Thread, holder: String, owner: Owner) -> LeasedThread {
        let thread = Arc::new(Mutex::new(Leased { thread, returned: false }));
        let renewal = tokio::spawn(renew(thread.clone(), holder.clone()));
        LeasedThread { thread, holder, owner, renewal }
    }

    /// Does something with the thread.
    ///
    /// # Errors
    ///
    /// Those of the work.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Thread) -> Result<T, sessions::Error> + Send + 'static,
    ) -> Result<T, sessions::Error> {
        let thread = self.thread.clone();
        blocking(move || work(&mut lock(&thread).thread)).await
    }

    /// Gives the session back, and keeps what was read of it for the next turn.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(crate) async fn release(self, cache: &ThreadCache) -> Result<(), sessions::Error> {
        let (thread, owner) = self.returned().await?;
        // A renewal that is just ending may still hold it; then it is read again next time.
        if let Some(leased) = Arc::into_inner(thread).and_then(|thread| thread.into_inner().ok()) {
            cache.put(owner, leased.thread);
        }
        Ok(())
    }

    /// Gives the session back.
    ///
    /// # Errors
    ///
    /// I/O errors.
    pub async fn give_back(self) -> Result<(), sessions::Error> {
        self.returned().await.map(drop)
    }

    async fn returned(self) -> Result<(Arc<Mutex<Leased>>, Owner), sessions::Error> {
        self.renewal.abort();
        let (thread, holder) = (self.thread.clone(), self.holder.clone());
        blocking(move || lock(&thread).give_back(&holder)).await?;
        let (thread, owner) = (Arc::clone(&self.thread), self.owner.clone());
        drop(self);
        Ok((thread, owner))
    }
}

impl Drop for LeasedThread {
    /// A turn that is dropped in the middle frees the session, too.
    fn drop(&mut self) {
        self.renewal.abort();
        // Whoever works with it is in the middle of something.
        let returned = self.thread.try_lock().is_ok_and(|lent| lent.returned);
        if let (false, Ok(runtime)) = (returned, tokio::runtime::Handle::try_current()) {
            let (thread, holder) = (self.thread.clone(), self.holder.clone());
            // Nobody is left to tell; the lease ends by itself if this fails.
            runtime.spawn_blocking(move || lock(&thread).give_back(&holder).ok());
        }
    }
}

async fn renew(thread: Arc<Mutex<Leased>>, holder: String) {
    loop {
        tokio::time::sleep(LEASE / 3).await;
        let (thread, holder) = (thread.clone(), holder.clone());
        // Where it fails someone else took over, and the next append is refused and says so.
        drop(blocking(move || lock(&thread).renew(&holder)).await);
    }
}

fn lock(thread: &Mutex<Leased>) -> std::sync::MutexGuard<'_, Leased> {
    thread.lock().unwrap_or_else(PoisonError::into_inner)
}
