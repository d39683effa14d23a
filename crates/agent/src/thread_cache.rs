//! A cache of open threads, kept between turns.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rethread_core::{Owner, SessionId, Thread};

/// Threads in the cache: with more conversations than this at once, some read the end of their log
/// again.
const THREADS_MAX: usize = 512;

/// Entries that all cached threads together may hold: with their contexts about 2 KiB each.
const CACHED_ENTRIES_MAX: usize = 32_768;

/// Entries one cached thread may hold. A longer one costs more memory than reading it again.
const THREAD_ENTRIES_MAX: usize = 8_192;

/// An LRU cache of open threads: the next turn of a session reads only what is new. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ThreadCache(Arc<Mutex<Cache>>);

/// The threads, the least recently used first.
#[derive(Default)]
struct Cache {
    threads: VecDeque<(Owner, Thread)>,
    /// Entries they hold.
    entries: usize,
}

impl Cache {
    fn remove(&mut self, place: usize) -> Option<Thread> {
        let (_, thread) = self.threads.remove(place)?;
        self.entries -= thread.log().entries().len();
        Some(thread)
    }
}

impl ThreadCache {
    pub(crate) fn take(&self, owner: &Owner, id: SessionId) -> Option<Thread> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |(of, thread): &(Owner, Thread)| thread.session().id() == id && of == owner;
        let place = cache.threads.iter().position(found)?;
        cache.remove(place)
    }

    pub(crate) fn put(&self, owner: Owner, thread: Thread) {
        let entries = thread.log().entries().len();
        if entries > THREAD_ENTRIES_MAX {
            return;
        }
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while cache.threads.len() >= THREADS_MAX || cache.entries + entries > CACHED_ENTRIES_MAX {
            drop(cache.remove(0));
        }
        cache.entries += entries;
        cache.threads.push_back((owner, thread));
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::Sessions;

    use super::*;

    #[test]
    fn the_least_recently_used_thread_goes_first() {
        let world = Arc::new(rethread_core::Fixed::default());
        let store = Arc::new(rethread_core::MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let cache = ThreadCache::default();
        let ids: Vec<SessionId> = (0..=THREADS_MAX)
            .map(|_| {
                let id = sessions.create(&Default::default(), None).expect("created").id();
                cache.put(Owner::local(), sessions.thread(id).expect("opened"));
                id
            })
            .collect();
        assert!(cache.take(&Owner::local(), ids[0]).is_none());
        let other = Owner::new("other").expect("valid");
        assert!(cache.take(&other, ids[1]).is_none(), "a thread is its owner's alone");
        for id in &ids[1..] {
            assert!(cache.take(&Owner::local(), *id).is_some());
        }
        let inner = cache.0.lock().expect("not poisoned");
        assert_eq!((inner.threads.len(), inner.entries), (0, 0));
    }
}
