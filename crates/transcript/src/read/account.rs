//! Accounts for every record of a file.

use std::collections::BTreeMap;

use rethread_core::message::Usage;
use serde::Serialize;

/// Problems that are reported one by one; the rest are counted.
const PROBLEMS_MAX: usize = 20;

/// What became of every record of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Records that were read.
    pub records: u64,
    /// Records that became entries.
    pub stored: u64,
    /// Records that were kept byte for byte.
    pub raw: u64,
    /// Records that could not be read.
    pub unreadable: u64,
    /// The same for each kind of record.
    pub kinds: BTreeMap<String, KindCount>,
    /// Sessions that were found.
    pub sessions: u64,
    /// Tool calls.
    pub calls: u64,
    /// Tool calls with their result.
    pub pairs: u64,
    /// Calls without a result at the end of their session: it ended, or was stopped, before.
    pub open: u64,
    /// Calls without a result although the conversation continued: the user stopped them.
    pub dropped: u64,
    /// Results without a call: the call is in a part of the file that is missing.
    pub orphans: u64,
    /// Tokens, as the source counts them.
    pub tokens: Usage,
    /// What a person should know about the file.
    pub notes: Vec<String>,
    /// The first records that could not be read.
    pub problems: Vec<UnreadableRecord>,
}

/// What became of the records of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindCount {
    /// Records that became entries.
    pub stored: u64,
    /// Records that were kept byte for byte.
    pub raw: u64,
    /// Records that could not be read.
    pub unreadable: u64,
}

/// A record that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableRecord {
    /// Where it is, such as `line 12`.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
}

impl Account {
    /// Whether every record that was read is stored, kept raw or reported, in total and by kind.
    pub fn balances(&self) -> bool {
        let of_kinds = self.kinds.values().fold(KindCount::default(), |sum, kind| KindCount {
            stored: sum.stored + kind.stored,
            raw: sum.raw + kind.raw,
            unreadable: sum.unreadable + kind.unreadable,
        });
        self.records == self.stored + self.raw + self.unreadable
            && of_kinds
                == (KindCount { stored: self.stored, raw: self.raw, unreadable: self.unreadable })
    }

    pub(super) fn store(&mut self, kind: &str, records: u64) {
        self.stored += records;
        self.kind(kind).stored += records;
    }

    pub(super) fn keep(&mut self, kind: &str) {
        self.raw += 1;
        self.kind(kind).raw += 1;
    }

    pub(super) fn report(&mut self, kind: &str, place: String, what: String) {
        self.unreadable += 1;
        self.kind(kind).unreadable += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(UnreadableRecord { place, what });
        }
    }

    /// Nothing was imported: what was read counts as unreadable.
    pub(super) fn give_up(&mut self) {
        (self.stored, self.raw, self.unreadable) = (0, 0, self.records);
        self.sessions = 0;
        for kind in self.kinds.values_mut() {
            let all = kind.stored + kind.raw + kind.unreadable;
            *kind = KindCount { unreadable: all, ..KindCount::default() };
        }
    }

    fn kind(&mut self, kind: &str) -> &mut KindCount {
        // Most records are of a known kind; only a new kind needs its own string.
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.to_owned(), KindCount::default());
        }
        self.kinds.get_mut(kind).expect("it was put there")
    }
}
