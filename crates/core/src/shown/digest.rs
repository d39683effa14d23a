//! A result, analysed once: its lines, their lengths, and their contents as hashes.

use std::cell::OnceCell;

use super::Lines;
use super::hash::hash_of;
use crate::identifiers::identifiers;

/// An analysed result.
pub(super) struct Digest<'a> {
    pub(super) lines: &'a Lines<'a>,
    /// The length of each line in characters, including its end.
    lengths: Vec<usize>,
    hashes: OnceCell<Vec<u64>>,
    names: OnceCell<Names>,
}

/// The names of all lines in one list, those of each line sorted and without repetitions.
#[derive(Default)]
pub(super) struct Names {
    all: Vec<u64>,
    /// Where those of each line end.
    ends: Vec<usize>,
}

impl<'a> Digest<'a> {
    pub(super) fn new(lines: &'a Lines<'a>) -> Digest<'a> {
        let lengths = lines.iter().map(|line| line.text.chars().count() + 1).collect();
        Digest { lines, lengths, hashes: OnceCell::new(), names: OnceCell::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// The length of a line in characters, including its end.
    pub(super) fn length(&self, line: usize) -> usize {
        self.lengths[line]
    }

    /// The length of a run of lines in characters.
    pub(super) fn length_of(&self, lines: std::ops::Range<usize>) -> usize {
        self.lengths[lines].iter().sum()
    }

    /// The hash of each line.
    pub(super) fn hashes(&self) -> &[u64] {
        self.hashes.get_or_init(|| self.lines.iter().map(|line| hash_of(&line.text)).collect())
    }

    /// The names of each line.
    pub(super) fn names(&self) -> &Names {
        self.names.get_or_init(|| {
            let mut found = Names { all: Vec::new(), ends: Vec::with_capacity(self.len()) };
            for line in self.lines.iter() {
                let start = found.all.len();
                found.all.extend(identifiers(&line.text).map(hash_of));
                found.settle(start);
            }
            found
        })
    }
}

impl Names {
    /// Ends a line whose names begin here.
    fn settle(&mut self, start: usize) {
        self.all[start..].sort_unstable();
        let mut kept = start;
        for at in start..self.all.len() {
            if kept == start || self.all[kept - 1] != self.all[at] {
                self.all[kept] = self.all[at];
                kept += 1;
            }
        }
        self.all.truncate(kept);
        self.ends.push(kept);
    }

    /// Those of all lines.
    pub(super) fn all(&self) -> &[u64] {
        &self.all
    }

    /// Where those of a line are in [`all`](Names::all).
    pub(super) fn range(&self, line: usize) -> std::ops::Range<usize> {
        let start = line.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[line]
    }

    /// Those of a line.
    pub(super) fn of(&self, line: usize) -> &[u64] {
        &self.all[self.range(line)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_each_of_its_names_once() {
        let lines = Lines::new("fn drain_group(queue_a)\n\ndrain_group, drain_group, queue_b\n");
        let digest = Digest::new(&lines);
        let names = digest.names();
        let count = |line| names.of(line).len();
        assert_eq!([count(0), count(1), count(2)], [2, 0, 2]);
        assert_eq!(names.all().len(), 4);
        assert!(names.of(2).contains(&hash_of("drain_group")));
        assert_eq!(digest.length_of(0..2), 25);
    }
}
