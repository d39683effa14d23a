//! Applies a function to many items, on two threads.
//!
//! Counting tokens and compressing rows dominates a large append, and entries are independent of
//! each other. Every machine can spare two threads for one caller. The work is not split in half in
//! advance: the second thread takes a moment to start, and the first does not wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::PARALLEL_MIN;

/// Items a thread takes at once.
const RUN: usize = 8;

/// The results of `work`, in the order of the items. If there are enough of them, two threads are
/// used.
pub fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() < PARALLEL_MIN {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let runs = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(RUN, Ordering::Relaxed);
            if start >= items.len() {
                return done;
            }
            let run = &items[start..items.len().min(start + RUN)];
            done.push((start, run.iter().map(&work).collect::<Vec<R>>()));
        }
    };
    std::thread::scope(|scope| {
        let second = scope.spawn(runs);
        let mut done = runs();
        match second.join() {
            Ok(second) => done.extend(second),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        done.sort_unstable_by_key(|(start, _)| *start);
        done.into_iter().flat_map(|(_, run)| run).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, PARALLEL_MIN - 1, PARALLEL_MIN, 2 * PARALLEL_MIN + 1, 100 * RUN] {
            let items: Vec<usize> = (0..count).collect();
            let expected: Vec<String> = items.iter().map(ToString::to_string).collect();
            assert_eq!(each(&items, ToString::to_string), expected);
        }
    }

    #[test]
    #[should_panic(expected = "the last one")]
    fn a_panic_on_either_thread_is_a_panic() {
        let items: Vec<usize> = (1..=PARALLEL_MIN).collect();
        each(&items, |item| assert!(*item < PARALLEL_MIN, "the last one"));
    }
}
