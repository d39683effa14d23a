//! Doing the same with many things, on two threads.
//!
//! Counting tokens and packing rows is what a large append spends its time on, and each entry is
//! dealt with by itself. Two threads are what every machine has to spare for one caller.

use crate::limits::AT_ONCE_MIN;

/// What `work` makes of each item, in their order. Where there are enough of them, both halves are
/// worked on at once.
pub fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if items.len() < AT_ONCE_MIN {
        return items.iter().map(work).collect();
    }
    let (one, two) = items.split_at(items.len() / 2);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| two.iter().map(&work).collect::<Vec<R>>());
        let mut done: Vec<R> = one.iter().map(&work).collect();
        match second.join() {
            Ok(second) => done.extend(second),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_of_each_stands_in_their_order() {
        for count in [0, 1, AT_ONCE_MIN - 1, AT_ONCE_MIN, 2 * AT_ONCE_MIN + 1] {
            let items: Vec<usize> = (0..count).collect();
            let expected: Vec<String> = items.iter().map(ToString::to_string).collect();
            assert_eq!(each(&items, ToString::to_string), expected);
        }
    }

    #[test]
    #[should_panic(expected = "the last one")]
    fn a_panic_in_either_half_is_a_panic() {
        let items: Vec<usize> = (1..=AT_ONCE_MIN).collect();
        each(&items, |item| assert!(*item < AT_ONCE_MIN, "the last one"));
    }
}
