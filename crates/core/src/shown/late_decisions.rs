//! Late decisions: what contexts show of results that were appended without a decision, because
//! they were imported, appended without a lease, or under a policy that shows results in full.
//!
//! The next holder of the lease decides before it shows them, and the decision becomes an entry of
//! the log.

use std::borrow::Cow;
use std::collections::HashMap;

use super::decide::decide_alone;
use super::seen::{Seen, kind_of_result};
use super::{Allowances, Shown};
use crate::entry::{Body, Decided, DecidedResult, Entry, Tally};
use crate::limits::ECHO_CHARS;
use crate::measure::Measure;

/// Decides about those results among these entries that have no decision. The entries end where
/// `tally` does, and reach as far back as a decision there looks. `None` if there is nothing to
/// decide.
pub(crate) fn decide_late(
    entries: &[Entry],
    tally: &Tally,
    allowances: &Allowances,
) -> Option<Decided> {
    let from = Seen::first_needed(tally);
    let entries = &entries[entries.partition_point(|entry| entry.seq < from)..];
    let before = entries.iter().rev().find_map(|entry| match &entry.body {
        Body::Decided(decided) => Some(decided.through),
        _ => None,
    });
    let open = |entry: &Entry| before.is_none_or(|before| entry.seq > before) && is_open(entry);
    let through = entries.iter().rfind(|entry| open(entry))?.seq;
    let stored = Stored::of(entries);
    let mut seen = Seen::default();
    let mut results = Vec::new();
    for entry in entries {
        if !open(entry) {
            seen.read(entry.seq, &entry.body, &stored.measure(entry));
            continue;
        }
        let mut measure = entry.measure.clone();
        let kinds = entry.body.message().into_iter().flat_map(|message| message.results());
        let kinds: Vec<_> = kinds.map(|result| (kind_of_result(&seen, result), result)).collect();
        let at = (entry.seq, from);
        seen.place(at, &entry.body, &mut measure, allowances, |_, _, _, _| {});
        for (place, ((kind, result), measure)) in kinds.into_iter().zip(measure.results).enumerate()
        {
            let by_itself = decide_alone(&result.text(), kind);
            if let Some(shown) = measure.shown.filter(|shown| *shown != by_itself) {
                results.push(DecidedResult { seq: entry.seq, place, shown });
            }
        }
    }
    Some(Decided { through, results })
}

/// Whether the results of an entry have no decision, and one of them is long enough to matter.
fn is_open(entry: &Entry) -> bool {
    let results = &entry.measure.results;
    !results.is_empty()
        && results.iter().all(|result| result.shown.is_none())
        && entry
            .body
            .message()
            .is_some_and(|message| message.results().any(|result| result.text().len() > ECHO_CHARS))
}

/// The decisions that are entries of a log.
pub(crate) struct Stored<'a>(HashMap<u64, Vec<&'a DecidedResult>>);

impl<'a> Stored<'a> {
    pub(crate) fn of(entries: &'a [Entry]) -> Stored<'a> {
        let mut all: HashMap<u64, Vec<&DecidedResult>> = HashMap::new();
        for entry in entries {
            if let Body::Decided(decided) = &entry.body {
                for result in &decided.results {
                    all.entry(result.seq).or_default().push(result);
                }
            }
        }
        Stored(all)
    }

    /// The measure of an entry, including later decisions.
    pub(crate) fn measure<'b>(&self, entry: &'b Entry) -> Cow<'b, Measure> {
        let Some(decided) = self.0.get(&entry.seq) else { return Cow::Borrowed(&entry.measure) };
        let mut measure = entry.measure.clone();
        for one in decided {
            if let Some(result) = measure.results.get_mut(one.place) {
                let shown: &mut Option<Shown> = &mut result.shown;
                shown.get_or_insert_with(|| one.shown.clone());
            }
        }
        Cow::Owned(measure)
    }
}
