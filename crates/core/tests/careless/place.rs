//! The careless store: where it lives, and what it keeps in addition to the reference store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use rethread_core::conformance::Factory;
use rethread_core::store::Result;
use rethread_core::{
    Backend, BlobId, Fixed, MemoryStore, Name, NewEntry, Owner, Session, SessionId, Store,
};

use crate::faults::Fault;

/// A place whose stores all have the same fault.
pub(super) struct Careless {
    fault: Fault,
    world: Arc<Fixed>,
    shared: Arc<Shared>,
}

impl Careless {
    pub(super) fn new(fault: Fault) -> Careless {
        let world = Arc::new(Fixed::default());
        let inner = MemoryStore::new(world.clone());
        let shared = Shared {
            inner,
            deleted: Mutex::default(),
            indexed: Mutex::default(),
            touched: Mutex::default(),
            names: Mutex::default(),
            left: Mutex::default(),
            twins: Mutex::default(),
            blobs: Mutex::default(),
        };
        Careless { fault, world, shared: Arc::new(shared) }
    }
}

impl Factory for Careless {
    fn store(&self) -> Arc<dyn Backend> {
        let (fault, world, shared) = (self.fault, self.world.clone(), self.shared.clone());
        Arc::new(Opened { fault, world, shared, cache: Mutex::default() })
    }

    fn world(&self) -> Arc<Fixed> {
        self.world.clone()
    }
}

/// What all stores at one place share.
pub(super) struct Shared {
    pub(super) inner: MemoryStore,
    /// Sessions that [`Fault::DeletesTheRowAlone`] pretends to have deleted.
    pub(super) deleted: Mutex<BTreeSet<SessionId>>,
    /// Entries of each session that [`Fault::SearchLags`] has in its index.
    pub(super) indexed: Mutex<BTreeMap<SessionId, u64>>,
    /// When [`Fault::TouchesOnUpdate`] last changed a header.
    pub(super) touched: Mutex<BTreeMap<SessionId, Timestamp>>,
    /// All names that [`Fault::KeepsOldNames`] has seen.
    pub(super) names: Mutex<BTreeMap<(Owner, String), SessionId>>,
    /// What [`Fault::LeavesEntriesBehind`] did not delete.
    pub(super) left: Mutex<BTreeMap<SessionId, Vec<NewEntry>>>,
    /// Sessions to which [`Fault::ChecksNamesThenWrites`] gave a name that another one has.
    pub(super) twins: Mutex<BTreeMap<SessionId, Name>>,
    /// What [`Fault::SharesBlobs`] shares and [`Fault::LeavesBlobsBehind`] did not delete.
    pub(super) blobs: Mutex<BTreeMap<(SessionId, BlobId), Vec<u8>>>,
}

/// What one process has open.
pub(super) struct Opened {
    pub(super) fault: Fault,
    pub(super) world: Arc<Fixed>,
    pub(super) shared: Arc<Shared>,
    /// The headers that [`Fault::CachesHeaders`] or [`Fault::CachesUntilItWrites`] has used.
    pub(super) cache: Mutex<BTreeMap<(Owner, SessionId), Session>>,
}

/// A pause between a check and its write. Long enough that rivals who started together all pass the
/// check, on one core as on many.
pub(super) fn dawdle() {
    (0..200).for_each(|_| std::thread::yield_now());
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it holds this")
}

impl Opened {
    pub(super) fn inner(&self) -> &MemoryStore {
        &self.shared.inner
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// Whose sessions a query looks at.
    pub(super) fn whose(&self, owner: &Owner) -> Owner {
        if self.has(Fault::ForgetsTheOwner) { Owner::local() } else { owner.clone() }
    }

    pub(super) fn is_deleted(&self, id: SessionId) -> bool {
        locked(&self.shared.deleted).contains(&id)
    }

    /// Records what this process wrote last.
    pub(super) fn remember(&self, owner: &Owner, id: SessionId) -> Result<()> {
        if self.has(Fault::CachesHeaders) {
            let session = self.inner().get(owner, id)?;
            locked(&self.cache).insert((owner.clone(), id), session);
        } else {
            locked(&self.cache).clear();
        }
        Ok(())
    }
}
