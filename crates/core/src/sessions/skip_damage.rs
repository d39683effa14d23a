//! Reads the end of a log with damaged entries.
//!
//! One unreadable entry must not make the whole conversation unusable. It is skipped, and a
//! placeholder is put at its position, so that every other entry keeps its own. Operations that
//! claim to be complete (`show`, an export, a copy) do not skip damage: they succeed completely, or
//! fail.

use std::ops::Range;

use jiff::Timestamp;

use super::{Error, Result, Sessions};
use crate::entry::{Body, Entry, EntryId, Tally};
use crate::limits::DAMAGED_ENTRIES_MAX;
use crate::log::tally_before;
use crate::measure::Measure;
use crate::name::SessionId;
use crate::raw::Raw;
use crate::store::StoreError;

/// The kind of a placeholder for an unreadable entry.
pub const LOST: &str = "lost";

/// A part of a log, and the errors of its unreadable entries.
#[derive(Default)]
pub(super) struct DamagedRange {
    pub(super) entries: Vec<Entry>,
    pub(super) damage: Vec<(u64, String)>,
}

impl Sessions {
    /// The existing entries in a range of seqs, with a placeholder for each that is damaged.
    /// `after` is the tally at the end of the range.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if there are more than [`DAMAGED_ENTRIES_MAX`]; otherwise I/O
    /// errors.
    pub(super) fn read_around(
        &self,
        id: SessionId,
        range: Range<u64>,
        after: Tally,
    ) -> Result<DamagedRange> {
        let mut read = DamagedRange::default();
        let mut next = range.start;
        while next < range.end {
            match self.read(id, next..range.end) {
                Ok(mut entries) => {
                    read.entries.append(&mut entries);
                    break;
                }
                Err(Error::Store(StoreError::Damaged { id, seq, what })) => {
                    // A log that lost its end is reported where it ends now.
                    let seq = seq.max(next);
                    if seq >= range.end || read.damage.len() == DAMAGED_ENTRIES_MAX {
                        return Err(StoreError::Damaged { id, seq, what }.into());
                    }
                    if next < seq {
                        read.entries.append(&mut self.read(id, next..seq)?);
                    }
                    let at = read.entries.last().map_or(Timestamp::UNIX_EPOCH, |entry| entry.at);
                    read.entries.push(lost(seq, at));
                    read.damage.push((seq, what));
                    next = seq + 1;
                }
                Err(error) => return Err(error),
            }
        }
        read.count(after);
        Ok(read)
    }
}

impl DamagedRange {
    /// Gives the placeholders the tally that the next readable entry has before it.
    fn count(&mut self, mut after: Tally) {
        let mut damage = self.damage.iter().rev().peekable();
        if damage.peek().is_none() {
            return;
        }
        for entry in self.entries.iter_mut().rev() {
            match damage.next_if(|(seq, _)| *seq == entry.seq) {
                Some(_) => entry.tally = Tally { entries: entry.seq + 1, ..after },
                None => after = tally_before(entry),
            }
        }
    }
}

impl Body {
    /// What takes the place of an entry that cannot be read.
    pub fn lost() -> Body {
        Body::Unknown { kind: LOST.into(), raw: Raw::parse("{}".into()).expect("valid JSON") }
    }
}

impl Entry {
    /// Whether it is in the place of an entry that cannot be read.
    pub fn is_lost(&self) -> bool {
        matches!(&self.body, Body::Unknown { kind, .. } if kind == LOST)
    }
}

fn lost(seq: u64, at: Timestamp) -> Entry {
    let id = EntryId::new(format!("{LOST}-{seq}")).expect("short and visible");
    let tally = Tally { entries: seq + 1, ..Tally::default() };
    Entry { seq, at, id, body: Body::lost(), measure: Measure::default(), tally }
}
