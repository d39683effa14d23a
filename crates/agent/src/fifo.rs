//! FIFO queues, one for each name, in this process.
//!
//! The lease of a session separates turns, across processes too, but does not order them. A queue
//! does: a ticket is taken the moment a request arrives, without waiting, and each ticket waits for
//! the one before it. A queue exists as long as someone is in it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// All queues, by name.
pub struct Fifo<N: Hash + Eq>(Arc<Mutex<HashMap<N, Queue>>>);

struct Queue {
    /// Completes with the last ticket that was taken.
    last: CancellationToken,
    tickets: usize,
}

/// A place in a queue. Dropping it lets the next one proceed.
pub struct Ticket<N: Hash + Eq> {
    queues: Arc<Mutex<HashMap<N, Queue>>>,
    name: N,
    before: Option<CancellationToken>,
    mine: CancellationToken,
}

impl<N: Hash + Eq + Clone> Fifo<N> {
    /// Without any queues.
    pub fn new() -> Fifo<N> {
        Fifo(Arc::default())
    }

    /// Takes the next place in a queue, unless it is full.
    pub fn ticket(&self, name: N, waiting_max: usize) -> Option<Ticket<N>> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = CancellationToken::new();
        let before = match queues.get_mut(&name) {
            Some(queue) if queue.tickets > waiting_max => return None,
            Some(queue) => {
                queue.tickets += 1;
                Some(std::mem::replace(&mut queue.last, mine.clone()))
            }
            None => {
                queues.insert(name.clone(), Queue { last: mine.clone(), tickets: 1 });
                None
            }
        };
        drop(queues);
        Some(Ticket { queues: self.0.clone(), name, before, mine })
    }
}

impl<N: Hash + Eq + Clone> Default for Fifo<N> {
    fn default() -> Fifo<N> {
        Fifo::new()
    }
}

impl<N: Hash + Eq> Ticket<N> {
    /// Waits until all earlier tickets are gone.
    pub async fn wait(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
        }
    }
}

impl<N: Hash + Eq> Drop for Ticket<N> {
    fn drop(&mut self) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get_mut(&self.name) {
            queue.tickets -= 1;
            if queue.tickets == 0 {
                queues.remove(&self.name);
            }
        }
        drop(queues);
        // If one gives up while it waits, the ones after it still wait for those before it.
        let waits = self.before.take().filter(|before| !before.is_cancelled());
        match (waits, tokio::runtime::Handle::try_current()) {
            (Some(before), Ok(runtime)) => {
                let mine = self.mine.clone();
                runtime.spawn(async move {
                    before.cancelled().await;
                    mine.cancel();
                });
            }
            _ => self.mine.cancel(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn tickets_go_in_the_order_they_were_taken_and_a_queue_ends_with_its_last() {
        let queues = Fifo::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        let tickets: Vec<_> =
            (0..20).map(|n| (n, queues.ticket("a", 100).expect("room"))).collect();
        let tasks: Vec<_> = tickets
            .into_iter()
            .rev()
            .map(|(n, ticket)| {
                let order = order.clone();
                tokio::spawn(async move {
                    ticket.wait().await;
                    order.lock().expect("not poisoned").push(n);
                })
            })
            .collect();
        for task in tasks {
            tokio::time::timeout(Duration::from_secs(10), task).await.expect("ends").expect("runs");
        }
        assert_eq!(*order.lock().expect("not poisoned"), (0..20).collect::<Vec<_>>());
        assert!(queues.0.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn a_queue_takes_so_many_and_no_more() {
        let queues = Fifo::new();
        let first = queues.ticket("a", 1).expect("the first runs");
        let second = queues.ticket("a", 1).expect("one may wait");
        assert!(queues.ticket("a", 1).is_none());
        assert!(queues.ticket("b", 1).is_some(), "another queue is not affected");
        drop((first, second));
        assert!(queues.ticket("a", 1).is_some());
    }

    #[tokio::test]
    async fn one_that_gives_up_while_it_waits_lets_nobody_overtake() {
        let queues = Fifo::new();
        let ticket = || queues.ticket("a", 9).expect("room");
        let (first, second, third) = (ticket(), ticket(), ticket());
        drop(second);
        let early = tokio::time::timeout(Duration::from_millis(20), third.wait()).await;
        assert!(early.is_err(), "the first is still there");
        drop(first);
        tokio::time::timeout(Duration::from_secs(10), third.wait()).await.expect("its turn");
    }
}
