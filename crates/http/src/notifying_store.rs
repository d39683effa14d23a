//! A store that reports what is appended through it: it times appends and notifies subscribers.
//!
//! Every turn, tool and verb of this server writes through it, so a live tail is notified of their
//! entries at once. Entries of other programs are found by polling.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rethread_core::entry::{Entry, NewEntry};
use rethread_core::search::{Hit, Query};
use rethread_core::store::{
    Appended, At, Bind, Change, Cursor, Filter, Finding, Lease, OnAppended, Page, Result, Search,
    Upkeep,
};
use rethread_core::{
    Backend, BlobId, BlobInfo, Header, Key, Owner, Session, SessionId, Store, StoreError,
};
use tokio::sync::watch;

use crate::metrics::Metrics;

pub(crate) struct NotifyingStore {
    store: Arc<dyn Backend>,
    metrics: Arc<Metrics>,
    subscribers: Arc<Subscribers>,
    written: Arc<Mutex<Option<Instant>>>,
}

/// The live tails, by session.
#[derive(Default)]
pub(crate) struct Subscribers(Mutex<HashMap<SessionId, watch::Sender<()>>>);

/// A subscription to the writes of one session.
pub(crate) struct Subscriber {
    id: SessionId,
    changed: watch::Receiver<()>,
    subscribers: Arc<Subscribers>,
}

impl Subscribers {
    pub(crate) fn listen(self: &Arc<Subscribers>, id: SessionId) -> Subscriber {
        let mut subscribers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = subscribers.entry(id).or_insert_with(|| watch::channel(()).0);
        Subscriber { id, changed: sender.subscribe(), subscribers: Arc::clone(self) }
    }

    fn notify(&self, id: SessionId) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id) {
            sender.send_replace(());
        }
    }
}

impl Subscriber {
    /// Waits until something was written since the last call, or for this long.
    pub(crate) async fn wait(&mut self, most: Duration) {
        // The reader checks in either case.
        drop(tokio::time::timeout(most, self.changed.changed()).await);
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut subscribers = self.subscribers.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The receiver of this subscriber still counts: it is dropped after this.
        if subscribers.get(&self.id).is_some_and(|sender| sender.receiver_count() <= 1) {
            subscribers.remove(&self.id);
        }
    }
}

impl NotifyingStore {
    pub(crate) fn new(store: Arc<dyn Backend>, metrics: Arc<Metrics>) -> NotifyingStore {
        NotifyingStore { store, metrics, subscribers: Arc::default(), written: Arc::default() }
    }

    /// When something was last written, if no write failed since.
    pub(crate) fn last_write(&self) -> Option<Instant> {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a write that was not an append.
    pub(crate) fn wrote(&self) {
        note(&self.written, true);
    }

    pub(crate) fn subscribers(&self) -> &Arc<Subscribers> {
        &self.subscribers
    }
}

fn note(written: &Mutex<Option<Instant>>, can: bool) {
    *written.lock().unwrap_or_else(PoisonError::into_inner) = can.then(Instant::now);
}

/// Whether the store accepts writes, judging by an append.
fn note_append(written: &Mutex<Option<Instant>>, done: &Result<Appended>) {
    match done {
        Ok(_) => note(written, true),
        Err(StoreError::Full { .. } | StoreError::ReadOnly { .. }) => note(written, false),
        // An invalid append is not a fault of the store.
        Err(_) => {}
    }
}

impl Store for NotifyingStore {
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session> {
        self.store.create(header, entries, binds)
    }

    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session> {
        self.store.get(owner, id)
    }

    fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>> {
        self.store.named(owner, name)
    }

    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>> {
        self.store.with_prefix(owner, digits, limit)
    }

    fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.store.list(owner, filter, after, limit)
    }

    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        let began = Instant::now();
        let done = self.store.append(owner, id, at, entries);
        note_append(&self.written, &done);
        if done.is_ok() {
            self.metrics.appended(began.elapsed());
            self.subscribers.notify(id);
        }
        done
    }

    fn append_then(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: Vec<NewEntry>,
        then: OnAppended,
    ) {
        let began = Instant::now();
        let (metrics, subscribers) = (self.metrics.clone(), self.subscribers.clone());
        let written = self.written.clone();
        let then: OnAppended = Box::new(move |done| {
            note_append(&written, &done);
            if done.is_ok() {
                metrics.appended(began.elapsed());
                subscribers.notify(id);
            }
            then(done);
        });
        self.store.append_then(owner, id, at, entries, then);
    }

    fn read(&self, owner: &Owner, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>> {
        self.store.read(owner, id, range)
    }

    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        self.store.resolve(owner, key)
    }

    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        self.store.bind(owner, bind, to)
    }

    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session> {
        let done = self.store.update(owner, id, change);
        // Followers of a deleted session are notified that it is gone.
        if change.trash.is_some() && done.is_ok() {
            self.subscribers.notify(id);
        }
        done
    }

    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease> {
        self.store.lease(owner, id, holder, ttl)
    }

    fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        self.store.put_blob(owner, id, bytes)
    }

    fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        self.store.blob(owner, id, blob)
    }

    fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>> {
        self.store.blobs(owner, id)
    }

    fn delete(&self, owner: &Owner, id: SessionId, trashed_at: Option<Timestamp>) -> Result<()> {
        let done = self.store.delete(owner, id, trashed_at);
        if done.is_ok() {
            self.subscribers.notify(id);
        }
        done
    }
}

impl Search for NotifyingStore {
    fn search(
        &self,
        owner: &Owner,
        query: &Query,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        self.store.search(owner, query, offset, limit)
    }

    fn index_lag(&self) -> Result<Option<u64>> {
        self.store.index_lag()
    }
}

impl Upkeep for NotifyingStore {
    fn can_write(&self) -> Result<()> {
        self.store.can_write()
    }

    fn everything(&self) -> Result<Vec<(Owner, SessionId)>> {
        self.store.everything()
    }

    fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        self.store.check(repair)
    }

    fn check_session(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>> {
        self.store.check_session(owner, id, repair)
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::conformance::Factory;
    use rethread_core::{Fixed, MemoryStore};

    use super::*;

    /// The contract also holds for the store that the server writes through.
    struct Notifying {
        store: Arc<MemoryStore>,
        world: Arc<Fixed>,
    }

    impl Notifying {
        fn new() -> Notifying {
            let world = Arc::new(Fixed::default());
            Notifying { store: Arc::new(MemoryStore::new(world.clone())), world }
        }
    }

    impl Factory for Notifying {
        fn store(&self) -> Arc<dyn Backend> {
            Arc::new(NotifyingStore::new(self.store.clone(), Arc::default()))
        }

        fn world(&self) -> Arc<Fixed> {
            self.world.clone()
        }
    }

    rethread_core::conformance!(notifying, Notifying::new());
}
