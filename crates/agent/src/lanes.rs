//! First come, first served: one lane for each session, in this process.
//!
//! The lease of a session keeps turns apart, across processes too, but says nothing about who is
//! next. A lane does: a ticket is taken the moment a request is there, without waiting, and each
//! ticket waits for the one before it. A lane exists as long as someone is in it. Every door that
//! is asked by many at once keeps its order with these.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The lanes there are, by name.
pub struct Lanes<N: Hash + Eq>(Arc<Mutex<HashMap<N, Lane>>>);

struct Lane {
    /// Ends with the last ticket that was taken.
    last: CancellationToken,
    tickets: usize,
}

/// A place in a lane. Dropping it lets the next one go.
pub struct Ticket<N: Hash + Eq> {
    lanes: Arc<Mutex<HashMap<N, Lane>>>,
    name: N,
    before: Option<CancellationToken>,
    mine: CancellationToken,
}

impl<N: Hash + Eq + Clone> Lanes<N> {
    /// No lanes yet.
    pub fn new() -> Lanes<N> {
        Lanes(Arc::default())
    }

    /// Takes the next place in a lane, unless this many wait already.
    pub fn ticket(&self, name: N, waiting_max: usize) -> Option<Ticket<N>> {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = CancellationToken::new();
        let before = match lanes.get_mut(&name) {
            Some(lane) if lane.tickets > waiting_max => return None,
            Some(lane) => {
                lane.tickets += 1;
                Some(std::mem::replace(&mut lane.last, mine.clone()))
            }
            None => {
                lanes.insert(name.clone(), Lane { last: mine.clone(), tickets: 1 });
                None
            }
        };
        drop(lanes);
        Some(Ticket { lanes: self.0.clone(), name, before, mine })
    }
}

impl<N: Hash + Eq + Clone> Default for Lanes<N> {
    fn default() -> Lanes<N> {
        Lanes::new()
    }
}

impl<N: Hash + Eq> Ticket<N> {
    /// Waits until everyone before has gone.
    pub async fn turn(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
        }
    }
}

impl<N: Hash + Eq> Drop for Ticket<N> {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get_mut(&self.name) {
            lane.tickets -= 1;
            if lane.tickets == 0 {
                lanes.remove(&self.name);
            }
        }
        drop(lanes);
        self.mine.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn tickets_go_in_the_order_they_were_taken_and_a_lane_ends_with_its_last() {
        let lanes = Lanes::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        let tickets: Vec<_> = (0..20).map(|n| (n, lanes.ticket("a", 100).expect("room"))).collect();
        let tasks: Vec<_> = tickets
            .into_iter()
            .rev()
            .map(|(n, ticket)| {
                let order = order.clone();
                tokio::spawn(async move {
                    ticket.turn().await;
                    order.lock().expect("not poisoned").push(n);
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(10), task).await.expect("ends").expect("runs");
        }
        assert_eq!(*order.lock().expect("not poisoned"), (0..20).collect::<Vec<_>>());
        assert!(lanes.0.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn a_lane_takes_so_many_and_no_more() {
        let lanes = Lanes::new();
        let first = lanes.ticket("a", 1).expect("the first runs");
        let second = lanes.ticket("a", 1).expect("one may wait");
        assert!(lanes.ticket("a", 1).is_none());
        assert!(lanes.ticket("b", 1).is_some(), "another lane is not affected");
        drop((first, second));
        assert!(lanes.ticket("a", 1).is_some());
    }
}
