//! Filters and ranks sessions by what was typed.
//!
//! Every word must match, ignoring case and accents: the row of a session, or one of its messages.
//! Sessions with all words in their title come first, then those that have them in the first
//! message, the folder or the source too, then those for which the store had to find some. Within
//! each group the newest is first. If nothing matches, titles that contain the letters in this order
//! do.

use std::collections::HashMap;

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher};
use rethread_core::SessionId;

use super::row::Row;
use super::tasks::Said;

/// How well a session matches; smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Title,
    Rest,
    Said,
}

/// Looks for words in rows.
pub(super) struct WordFilter {
    matcher: Matcher,
}

impl WordFilter {
    pub(super) fn new() -> WordFilter {
        WordFilter { matcher: Matcher::new(Config::DEFAULT) }
    }

    /// The indexes of the rows that match, best first. `said` are the sessions in which the store
    /// found words. An empty filter leaves the list unchanged.
    pub(super) fn fitting(
        &mut self,
        rows: &[Row],
        filter: &str,
        said: &HashMap<SessionId, Said>,
    ) -> Vec<usize> {
        let atoms = |kind| {
            let atom =
                |word| Atom::new(word, CaseMatching::Ignore, Normalization::Smart, kind, false);
            filter.split_whitespace().map(atom).collect::<Vec<Atom>>()
        };
        let (words, letters) = (atoms(AtomKind::Substring), atoms(AtomKind::Fuzzy));
        if words.is_empty() {
            return (0..rows.len()).filter(|at| rows[*at].is_listed).collect();
        }
        let mut fitting: Vec<(Fit, usize)> = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let is_named = row.readable_id.eq_ignore_ascii_case(filter.trim());
            let said = said.get(&row.id);
            let fit = match self.has(row, &words, said) {
                _ if is_named => Some(Fit::Title),
                Some(fit) if row.is_listed => Some(fit),
                Some(_) if said.is_some() => Some(Fit::Said),
                _ => None,
            };
            fitting.extend(fit.map(|fit| (fit, at)));
        }
        if fitting.is_empty() {
            let has_letters =
                |at: &usize| rows[*at].is_listed && self.has_letters(&rows[*at], &letters);
            return (0..rows.len()).filter(has_letters).collect();
        }
        // The sort is stable: within one rank the order is kept.
        fitting.sort_by_key(|(fit, _)| *fit);
        fitting.into_iter().map(|(_, at)| at).collect()
    }

    /// Where all words are, each in the best place.
    fn has(&mut self, row: &Row, words: &[Atom], said: Option<&Said>) -> Option<Fit> {
        let mut fit = Fit::Title;
        for (at, word) in words.iter().enumerate() {
            let place = if word.score(row.heads.slice(..), &mut self.matcher).is_some() {
                Fit::Title
            } else if word.score(row.rest.slice(..), &mut self.matcher).is_some() {
                Fit::Rest
            } else if said.is_some_and(|said| said.has(at)) {
                Fit::Said
            } else {
                return None;
            };
            fit = fit.max(place);
        }
        Some(fit)
    }

    fn has_letters(&mut self, row: &Row, letters: &[Atom]) -> bool {
        letters.iter().all(|atom| atom.score(row.heads.slice(..), &mut self.matcher).is_some())
    }
}
