//! A session held for the length of a turn, or for as long as a door writes to it.
//!
//! The store blocks and the loop does not: everything done to the thread is done on a thread for
//! blocking work, and the lease is renewed in the background while a model takes its time. Waiting
//! for someone else's turn blocks no thread at all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rethread_core::{Owner, SessionId, Sessions, StoreError, Thread, sessions};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::events::{Event, Events};
use crate::limits::{LEASE, LEASE_POLL};

/// Threads kept between turns: more conversations than this at once read the end of their log anew.
const KEPT_MAX: usize = 512;

/// Entries that all kept threads together may hold: with their contexts about 2 KiB each.
const KEPT_ENTRIES_MAX: usize = 32_768;

/// Entries one kept thread may hold. A longer one costs more memory than reading it again.
const KEPT_THREAD_ENTRIES_MAX: usize = 8_192;

/// Threads of earlier turns: the next turn of a session reads only what is new. Clones share them.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Shelf>>);

/// The kept threads, the one that was not needed for longest first.
#[derive(Default)]
struct Shelf {
    threads: VecDeque<(Owner, Thread)>,
    /// Entries they hold.
    entries: usize,
}

impl Shelf {
    fn remove(&mut self, place: usize) -> Option<Thread> {
        let (_, thread) = self.threads.remove(place)?;
        self.entries -= thread.log().entries().len();
        Some(thread)
    }
}

impl Kept {
    fn take(&self, owner: &Owner, id: SessionId) -> Option<Thread> {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |(of, thread): &(Owner, Thread)| thread.session().id() == id && of == owner;
        let place = shelf.threads.iter().position(found)?;
        shelf.remove(place)
    }

    fn put(&self, owner: Owner, thread: Thread) {
        let entries = thread.log().entries().len();
        if entries > KEPT_THREAD_ENTRIES_MAX {
            return;
        }
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while shelf.threads.len() >= KEPT_MAX || shelf.entries + entries > KEPT_ENTRIES_MAX {
            drop(shelf.remove(0));
        }
        shelf.entries += entries;
        shelf.threads.push_back((owner, thread));
    }
}

/// A thread whose lease is kept alive until it is released or dropped.
pub struct Held {
    thread: Arc<Mutex<Lent>>,
    holder: String,
    owner: Owner,
    renewal: JoinHandle<()>,
}

/// A thread that is held.
struct Lent {
    thread: Thread,
    /// Its lease was given back: a renewal that comes late must not take it again.
    returned: bool,
}

impl Lent {
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

impl Held {
    /// Opens a session and takes its lease, after whoever has it now, but waits no longer than
    /// `wait`, nor once it is told to stop.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] when someone else has it for longer, and those of the store.
    pub async fn take(
        sessions: &Sessions,
        kept: &Kept,
        id: SessionId,
        wait: Duration,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<Held, sessions::Error> {
        let holder = holder();
        let began = Instant::now();
        let mut told = false;
        loop {
            let (store, name) = (sessions.clone(), holder.clone());
            let earlier = kept.take(sessions.owner(), id);
            let opened = blocking(move || {
                let mut thread = match earlier {
                    Some(thread) => thread,
                    None => store.thread(id)?,
                };
                past_the_dead(&store, |_| thread.hold(&name, LEASE))?;
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
                Ok(thread) => return Ok(Held::new(thread, holder, sessions.owner().clone())),
                Err(sessions::Error::Store(StoreError::Held { holder: other, id, until })) => {
                    if began.elapsed() >= wait || stop.is_cancelled() {
                        return Err(StoreError::Held { holder: other, id, until }.into());
                    }
                    if !std::mem::replace(&mut told, true) {
                        events.tell(Event::Waiting { holder: other });
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

    fn new(thread: Thread, holder: String, owner: Owner) -> Held {
        let thread = Arc::new(Mutex::new(Lent { thread, returned: false }));
        let renewal = tokio::spawn(renew(thread.clone(), holder.clone()));
        Held { thread, holder, owner, renewal }
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
    pub async fn release(self, kept: &Kept) -> Result<(), sessions::Error> {
        self.renewal.abort();
        let (thread, holder) = (self.thread.clone(), self.holder.clone());
        blocking(move || lock(&thread).give_back(&holder)).await?;
        let (thread, owner) = (Arc::clone(&self.thread), self.owner.clone());
        drop(self);
        // A renewal that is just ending may still hold it; then it is read again next time.
        if let Some(lent) = Arc::into_inner(thread).and_then(|thread| thread.into_inner().ok()) {
            kept.put(owner, lent.thread);
        }
        Ok(())
    }
}

impl Drop for Held {
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

async fn renew(thread: Arc<Mutex<Lent>>, holder: String) {
    loop {
        tokio::time::sleep(LEASE / 3).await;
        let (thread, holder) = (thread.clone(), holder.clone());
        // Where it fails someone else took over, and the next append is refused and says so.
        drop(blocking(move || lock(&thread).renew(&holder)).await);
    }
}

fn lock(thread: &Mutex<Lent>) -> std::sync::MutexGuard<'_, Lent> {
    thread.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs blocking work where it blocks nobody.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down: nobody waits for this any more.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Who holds a session: this process, told apart from any other that has or had its number, and
/// this turn.
fn holder() -> String {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    static PROCESS: LazyLock<String> = LazyLock::new(|| {
        let pid = std::process::id();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let started = started(&stat).unwrap_or_default();
        format!("{pid}.{started}@{}", machine())
    });
    format!("{}#{}", *PROCESS, TURNS.fetch_add(1, Ordering::Relaxed))
}

/// Whether this holder was a process of this machine, and is no more. Its lease is then nobody's.
pub fn is_dead(holder: &str) -> bool {
    let Some((process, rest)) = holder.split_once('@') else { return false };
    let Some((machine_of, _)) = rest.split_once('#') else { return false };
    let Some((pid, began)) = process.split_once('.') else { return false };
    let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) else { return false };
    if began.is_empty() || machine_of != machine() {
        return false;
    }
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => started(&stat).is_none_or(|now| now != began),
        // It may be hidden from this user, or there are too many open files to look.
        Err(_) => test_kill_process(pid) == Err(Errno::SRCH),
    }
}

/// Does something to a session that a lease may forbid. A lease whose process died in the middle of
/// a turn forbids nothing: it is ended, and the work done.
///
/// # Errors
///
/// Those of the work.
pub fn past_the_dead<T>(
    sessions: &Sessions,
    mut work: impl FnMut(&Sessions) -> sessions::Result<T>,
) -> sessions::Result<T> {
    match work(sessions) {
        Err(sessions::Error::Store(StoreError::Held { id, holder, .. })) if is_dead(&holder) => {
            sessions.release(id, &holder)?;
            work(sessions)
        }
        done => done,
    }
}

/// This machine since it was last started, as Linux tells it.
fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // Processes in another container have numbers of their own.
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        format!("{}-{}", boot.trim(), space.display())
    });
    &MACHINE
}

/// When a process was started, by what Linux tells about it.
fn started(stat: &str) -> Option<&str> {
    // The name stands in parentheses and may hold spaces; the start is the 20th field behind it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A process that was killed and not yet waited for writes nothing any more.
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_threads_are_kept_and_the_one_not_needed_for_longest_goes_first() {
        let world = Arc::new(rethread_core::Fixed::default());
        let store = Arc::new(rethread_core::MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let kept = Kept::default();
        let ids: Vec<SessionId> = (0..=KEPT_MAX)
            .map(|_| {
                let id = sessions.create(&Default::default(), None).expect("created").id();
                kept.put(Owner::local(), sessions.thread(id).expect("opened"));
                id
            })
            .collect();
        assert!(kept.take(&Owner::local(), ids[0]).is_none());
        let other = Owner::new("other").expect("valid");
        assert!(kept.take(&other, ids[1]).is_none(), "a thread is its owner's alone");
        for id in &ids[1..] {
            assert!(kept.take(&Owner::local(), *id).is_some());
        }
        let shelf = kept.0.lock().expect("not poisoned");
        assert_eq!((shelf.threads.len(), shelf.entries), (0, 0));
    }

    #[test]
    fn the_lease_of_a_dead_process_forbids_nothing_and_that_of_a_living_one_does() {
        let world = Arc::new(rethread_core::Fixed::default());
        let store = Arc::new(rethread_core::MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let id = sessions.create(&Default::default(), None).expect("created").id();
        let clear = |sessions: &Sessions| sessions.clear(id);
        let mut thread = sessions.thread(id).expect("opened");
        let alive = holder();
        thread.hold(&alive, LEASE).expect("held");
        assert!(past_the_dead(&sessions, clear).is_err(), "this process lives");
        thread.release(&alive).expect("given back");
        let dead = format!("{}.1@{}#0", std::process::id(), machine());
        thread.hold(&dead, LEASE).expect("held");
        past_the_dead(&sessions, clear).expect("nobody has it");
    }

    #[test]
    fn a_living_process_holds_and_a_dead_one_does_not() {
        assert!(!is_dead(&holder()), "this process lives");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        let pid = child.id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let held = format!("{pid}.{}@{}#0", started(&stat).expect("it runs"), machine());
        assert!(!is_dead(&held));
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert!(is_dead(&held));
    }

    #[test]
    fn a_holder_of_another_machine_or_another_form_is_never_taken_for_dead() {
        for other in ["4194304.1@elsewhere#0", "telegram:7", "", "x@y#z", "1@", "999999.@#"] {
            assert!(!is_dead(other), "{other}");
        }
    }
}
