//! Aligns a copy of a conversation, in which messages have no ids, with the log that contains an
//! earlier version of it.
//!
//! A copy may have grown, lost messages, or had one rewritten. The same text may occur more than
//! once, so the two lists are aligned: messages that both contain in the same order are the same;
//! the rest of the copy is new. What is compared of a message is up to the caller.

use std::collections::HashMap;
use std::hash::Hash;

/// How a copy is aligned with a log.
#[derive(Debug, PartialEq, Eq)]
pub struct Alignment {
    /// For each message of the copy, its position in the log, if it is there.
    pub places: Vec<Option<usize>>,
    /// The copy is a part of the log, or continues where the log ends.
    pub continues: bool,
}

impl Alignment {
    /// Aligns a copy with a log.
    pub fn of<T: Copy + Eq + Hash>(log: &[T], new: &[T]) -> Alignment {
        let run = run(log, new);
        let continues = run.is_some();
        Alignment { places: run.unwrap_or_else(|| anchored(log, new)), continues }
    }

    /// How many messages of the copy are in the log.
    pub fn same(&self) -> usize {
        self.places.iter().flatten().count()
    }

    /// Whether both are the same conversation: one continues where the other ends, or most of the
    /// shorter one is in the other, including messages that have `grown`.
    pub fn is_one_conversation(&self, log: usize, grown: usize) -> bool {
        let shorter = log.min(self.places.len());
        shorter == 0 || self.continues || (self.same() + grown) * 2 > shorter
    }
}

/// A copy that is a part of the log, or that continues where the log ends.
fn run<T: Eq>(log: &[T], new: &[T]) -> Option<Vec<Option<usize>>> {
    let placed = |from: usize, same: usize| {
        let places = (0..new.len()).map(|index| (index < same).then_some(from + index));
        Some(places.collect())
    };
    // A copy that became shorter contains nothing new. The newest position is the most likely.
    if !new.is_empty()
        && let Some(from) = log.windows(new.len()).rposition(|run| run == new)
    {
        return placed(from, new.len());
    }
    let longest = log.len().min(new.len());
    let same = (1..=longest).rev().find(|length| log.ends_with(&new[..*length]))?;
    placed(log.len() - same, same)
}

/// Messages that occur exactly once in both lists are the anchors; between two anchors, equal
/// messages are matched in order.
fn anchored<T: Copy + Eq + Hash>(log: &[T], new: &[T]) -> Vec<Option<usize>> {
    let mut places = vec![None; new.len()];
    let mut gap = (0, 0);
    let ends = std::iter::once((log.len(), new.len()));
    for (old, index) in anchors(log, new).into_iter().chain(ends) {
        let mut from = gap.0;
        for at in gap.1..index {
            if let Some(found) = log[from..old].iter().position(|id| *id == new[at]) {
                places[at] = Some(from + found);
                from += found + 1;
            }
        }
        if index < new.len() {
            places[index] = Some(old);
        }
        gap = (old + 1, index + 1);
    }
    places
}

/// The longest increasing run of positions among the anchors.
fn anchors<T: Copy + Eq + Hash>(log: &[T], new: &[T]) -> Vec<(usize, usize)> {
    let (old, fresh) = (once(log), once(new));
    let mut pairs: Vec<(usize, usize)> = fresh
        .iter()
        .filter_map(|(id, index)| Some((old.get(id).copied().flatten()?, (*index)?)))
        .collect();
    pairs.sort_unstable_by_key(|(_, index)| *index);
    // For each length, the run of that length that ends earliest in the log.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (pair, (place, _)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].0 < *place);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = pair,
            None => ends.push(pair),
        }
    }
    let mut run = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(pair) = next {
        run.push(pairs[pair]);
        next = before[pair];
    }
    run.reverse();
    run
}

/// The position of each id; `None` for one that occurs twice.
fn once<T: Copy + Eq + Hash>(ids: &[T]) -> HashMap<T, Option<usize>> {
    let mut places = HashMap::new();
    for (index, id) in ids.iter().enumerate() {
        places.entry(*id).and_modify(|place| *place = None).or_insert(Some(index));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each letter means.
    fn words(text: &str) -> Vec<u64> {
        text.chars().map(u64::from).collect()
    }

    fn fresh(log: &str, new: &str) -> String {
        let places = Alignment::of(&words(log), &words(new)).places;
        new.chars().zip(places).filter(|(_, place)| place.is_none()).map(|(c, _)| c).collect()
    }

    #[test]
    fn a_window_continues_where_the_log_ends() {
        assert_eq!(fresh("abc", "abcd"), "d");
        assert_eq!(fresh("abc", "bcd"), "d");
        assert_eq!(fresh("yny", "ynyny"), "ny");
        assert_eq!(fresh("ab", "cd"), "cd");
        assert_eq!(fresh("abc", "ab"), "");
        assert_eq!(fresh("abc", "bc"), "");
        assert_eq!(fresh("", "a"), "a");
    }

    #[test]
    fn one_message_that_was_written_again_doubles_no_other() {
        assert_eq!(fresh("abcd", "aBcde"), "Be");
        assert_eq!(fresh("hab", "Habc"), "Hc", "the first");
        assert_eq!(fresh("abx", "abXcd"), "Xcd", "the last");
        assert_eq!(fresh("abcd", "abxy"), "xy", "someone went back");
        assert_eq!(fresh("ayby", "ayByz"), "Bz", "with words that are said twice");
    }

    #[test]
    fn another_conversation_is_distinguished_from_the_same_one() {
        let same = |log: &str, new: &str| {
            Alignment::of(&words(log), &words(new)).is_one_conversation(log.len(), 0)
        };
        assert!(same("a", "abc"), "it grew");
        assert!(same("abcd", "abcD"), "the answer was given again");
        assert!(same("abcd", "defg"), "the window moved on");
        assert!(!same("ab", "ac"), "two begin alike");
        assert!(!same("suabc", "suxyz"));
    }
}
