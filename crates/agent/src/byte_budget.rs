//! A memory budget: bytes per owner, and in total.
//!
//! A limit on the number of requests bounds memory only if each of them is small. Anything that may
//! be as large as a message takes its bytes from a budget first, and returns them when it is
//! dropped. An owner who has used up a share is refused, or waits; others are not affected until
//! the total is used up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rethread_core::Owner;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many bytes may be in memory at once.
pub struct ByteBudget {
    owner_most: u32,
    total_most: u32,
    total: Arc<Semaphore>,
    /// One for each owner that was ever active.
    owners: Mutex<HashMap<Owner, Arc<Semaphore>>>,
}

/// Bytes taken from a budget. Dropping it returns them.
#[derive(Debug)]
pub struct HeldBytes {
    owner: OwnedSemaphorePermit,
    total: OwnedSemaphorePermit,
    owner_most: u32,
    total_most: u32,
}

/// Why a budget has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetExceeded {
    /// The owner's share is used up.
    #[error("{most} bytes of your requests are in memory already")]
    Owner {
        /// The share of an owner.
        most: u32,
    },
    /// The total is used up.
    #[error("{most} bytes of requests are in memory already")]
    Total {
        /// The total.
        most: u32,
    },
}

impl ByteBudget {
    /// A budget of this many bytes per owner, and in total.
    pub fn new(owner_most: u32, total_most: u32) -> ByteBudget {
        let total = Arc::new(Semaphore::new(total_most as usize));
        let owner_most = owner_most.min(total_most);
        ByteBudget { owner_most, total_most, total, owners: Mutex::default() }
    }

    /// Takes bytes of an owner's share. Anything larger than a share counts as a whole share, so it
    /// can be taken when nothing else is.
    ///
    /// # Errors
    ///
    /// [`BudgetExceeded`].
    pub fn try_take(&self, owner: &Owner, bytes: usize) -> Result<HeldBytes, BudgetExceeded> {
        let count = at_most(bytes, self.owner_most);
        let ByteBudget { owner_most, total_most, .. } = *self;
        let share = self.share(owner).try_acquire_many_owned(count);
        let share = share.map_err(|_| BudgetExceeded::Owner { most: owner_most })?;
        let total = self.total.clone().try_acquire_many_owned(count);
        let total = total.map_err(|_| BudgetExceeded::Total { most: total_most })?;
        Ok(HeldBytes { owner: share, total, owner_most, total_most })
    }

    /// The same, waiting until there is room; first come, first served.
    pub async fn take(&self, owner: &Owner, bytes: usize) -> HeldBytes {
        let count = at_most(bytes, self.owner_most);
        let ByteBudget { owner_most, total_most, .. } = *self;
        let share = self.share(owner).acquire_many_owned(count).await;
        let total = self.total.clone().acquire_many_owned(count).await;
        let open = "a budget is never closed";
        HeldBytes { owner: share.expect(open), total: total.expect(open), owner_most, total_most }
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.total_most as usize - self.total.available_permits()
    }

    fn share(&self, owner: &Owner) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = owners.get(owner) {
            return share.clone();
        }
        let share = Arc::new(Semaphore::new(self.owner_most as usize));
        owners.insert(owner.clone(), share.clone());
        share
    }
}

impl HeldBytes {
    /// Returns everything above this number.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.owner.num_permits().saturating_sub(bytes);
        drop((self.owner.split(less), self.total.split(less)));
    }

    /// Takes more, up to this number.
    ///
    /// # Errors
    ///
    /// [`BudgetExceeded`]; what was held before still is.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        let held = self.owner.num_permits();
        let more = at_most(bytes, self.owner_most).saturating_sub(at_most(held, u32::MAX));
        let share = self.owner.semaphore().clone().try_acquire_many_owned(more);
        let share = share.map_err(|_| BudgetExceeded::Owner { most: self.owner_most })?;
        let total = self.total.semaphore().clone().try_acquire_many_owned(more);
        let total = total.map_err(|_| BudgetExceeded::Total { most: self.total_most })?;
        self.owner.merge(share);
        self.total.merge(total);
        Ok(())
    }
}

fn at_most(bytes: usize, most: u32) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner::new(name).expect("valid")
    }

    #[test]
    fn an_owner_gets_a_share_and_everybody_together_no_more_than_there_is() {
        let budget = ByteBudget::new(10, 15);
        let (ada, bob) = (owner("ada"), owner("bob"));
        let nine = budget.try_take(&ada, 9).expect("one less than a share");
        let one = budget.try_take(&ada, 1).expect("exactly a share");
        assert_eq!(budget.try_take(&ada, 1).err(), Some(BudgetExceeded::Owner { most: 10 }));
        let five = budget.try_take(&bob, 5).expect("what is left in all");
        assert_eq!(budget.try_take(&bob, 1).err(), Some(BudgetExceeded::Total { most: 15 }));
        assert_eq!(budget.taken(), 15);
        drop((nine, one, five));
        assert_eq!(budget.taken(), 0, "refusals have taken nothing");
    }

    #[test]
    fn what_is_larger_than_a_share_has_its_turn_when_it_is_alone() {
        let budget = ByteBudget::new(10, 100);
        let ada = owner("ada");
        let all = budget.try_take(&ada, 1_000).expect("alone");
        assert!(budget.try_take(&ada, 1).is_err());
        drop(all);
        let one = budget.try_take(&ada, 1).expect("there is room");
        assert!(budget.try_take(&ada, 1_000).is_err(), "not alone");
        drop(one);
    }

    #[test]
    fn a_reservation_shrinks_and_grows_while_there_is_room() {
        let budget = ByteBudget::new(10, 100);
        let ada = owner("ada");
        let mut held = budget.try_take(&ada, 8).expect("there is room");
        held.shrink_to(3);
        held.shrink_to(5);
        assert_eq!(budget.taken(), 3, "shrinking never takes");
        let other = budget.try_take(&ada, 4).expect("what was given back");
        assert_eq!(held.grow_to(7), Err(BudgetExceeded::Owner { most: 10 }));
        assert_eq!(held.grow_to(6), Ok(()));
        assert_eq!(budget.taken(), 10);
        drop(other);
        assert_eq!(held.grow_to(1_000), Ok(()), "as far as a share goes");
        assert_eq!(budget.taken(), 10);
    }

    #[tokio::test]
    async fn a_waiter_is_let_in_when_bytes_are_given_back() {
        let budget = Arc::new(ByteBudget::new(10, 10));
        let (ada, bob) = (owner("ada"), owner("bob"));
        let all = budget.take(&ada, 10).await;
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.take(&bob, 1).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(all);
        drop(waiting.await.expect("it gets its turn"));
        assert_eq!(budget.taken(), 0);
    }
}
