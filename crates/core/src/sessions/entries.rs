//! Reads a log page by page, from either end.

use std::ops::Range;
use std::vec;

use super::{Error, Result, Sessions};
use crate::entry::{Entry, Tally};
use crate::limits::READ_ENTRIES;
use crate::name::SessionId;
use crate::session::{Place, Session};
use crate::turn::{Turn, TurnPart};

/// The entries in a range of a log, read as needed: forwards, or backwards with `rev`.
///
/// The first error ends the iteration.
pub struct Entries<'a> {
    sessions: &'a Sessions,
    id: SessionId,
    /// The range that was not read yet.
    rest: Range<u64>,
    front: vec::IntoIter<Entry>,
    back: vec::IntoIter<Entry>,
    /// Whether it skips what cannot be read.
    around: bool,
}

impl Sessions {
    /// The existing entries in a range of seqs, read page by page.
    ///
    /// For reading backwards, the range must not end after the log: a page beyond the end is empty,
    /// and ends the iteration.
    pub fn entries(&self, id: SessionId, range: Range<u64>) -> Entries<'_> {
        let none = Vec::new;
        let (front, back) = (none().into_iter(), none().into_iter());
        Entries { sessions: self, id, rest: range, front, back, around: false }
    }

    /// One entry.
    ///
    /// # Errors
    ///
    /// [`Error::NoEntry`] if the log ends before it; otherwise I/O errors.
    pub fn entry_at(&self, Place { session: id, seq }: Place) -> Result<Entry> {
        match self.read(id, seq..seq.saturating_add(1))?.pop() {
            Some(entry) => Ok(entry),
            None => Err(Error::NoEntry { id, seq, entries: self.get(id)?.tally.entries }),
        }
    }

    /// A session as it was right after one of its entries: its counts, and when it was last active.
    /// The name and the other fields of the header are the current ones. The cost does not depend
    /// on the position of the entry.
    ///
    /// # Errors
    ///
    /// [`Error::NoEntry`] if the log ends before it; otherwise I/O errors.
    pub fn as_of(&self, place: Place) -> Result<Session> {
        let session = self.get(place.session)?;
        if place.seq.checked_add(1) == Some(session.tally.entries) {
            return Ok(session);
        }
        let entry = self.entry_at(place)?;
        Ok(Session { tally: entry.tally, last_activity_at: entry.at, ..session })
    }

    /// A session as it is, or [as it was](Sessions::as_of) right after one of its entries.
    ///
    /// # Errors
    ///
    /// [`Error::NoEntry`] if the log ends before it; otherwise I/O errors.
    pub fn get_at(&self, id: SessionId, seq: Option<u64>) -> Result<Session> {
        match seq {
            Some(seq) => self.as_of(Place { session: id, seq }),
            None => self.get(id),
        }
    }

    /// The turn that an entry opens: from there to where the turn ended, the next one began, or the
    /// log ends.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](crate::StoreError::NotFound) if there is no such session, and
    /// [`StoreError::Damaged`](crate::StoreError::Damaged) if an entry cannot be read.
    pub fn turn_at(&self, Place { session, seq }: Place) -> Result<Turn<Entry>> {
        let mut turn = Turn::default();
        for entry in self.entries(session, seq..u64::MAX) {
            let entry = entry?;
            let last = matches!(TurnPart::of(&entry.body), TurnPart::Finished(_));
            if turn.push(entry).is_err() || last {
                break;
            }
        }
        Ok(turn)
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        if let Some(entry) = self.front.next() {
            return Some(Ok(entry));
        }
        if self.rest.is_empty() {
            return self.back.next().map(Ok);
        }
        let page = self.rest.start..self.rest.end.min(self.rest.start.saturating_add(READ_ENTRIES));
        self.rest.start = page.end;
        match self.page(page) {
            Ok(entries) => {
                self.front = entries.into_iter();
                // The log ends here.
                if self.front.len() == 0 {
                    self.rest.end = self.rest.start;
                }
                self.front.next().or_else(|| self.back.next()).map(Ok)
            }
            Err(error) => self.fail(error),
        }
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        if let Some(entry) = self.back.next_back() {
            return Some(Ok(entry));
        }
        if self.rest.is_empty() {
            return self.front.next_back().map(Ok);
        }
        let page = self.rest.end.saturating_sub(READ_ENTRIES).max(self.rest.start)..self.rest.end;
        self.rest.end = page.start;
        match self.page(page) {
            Ok(entries) => {
                self.back = entries.into_iter();
                if self.back.len() == 0 {
                    self.rest.start = self.rest.end;
                }
                self.back.next_back().or_else(|| self.front.next_back()).map(Ok)
            }
            Err(error) => self.fail(error),
        }
    }
}

impl Entries<'_> {
    /// Skips damaged entries, with an empty one of the kind `lost` in place of each. This is for
    /// callers that need an overview of a conversation; operations that claim to be complete must
    /// not use it.
    #[must_use]
    pub fn skip_damaged(mut self) -> Self {
        self.around = true;
        self
    }

    fn page(&self, page: Range<u64>) -> Result<Vec<Entry>> {
        match self.around {
            true => Ok(self.sessions.read_around(self.id, page, Tally::default())?.entries),
            false => self.sessions.read(self.id, page),
        }
    }

    fn fail(&mut self, error: Error) -> Option<Result<Entry>> {
        self.rest.end = self.rest.start;
        (self.front, self.back) = (Vec::new().into_iter(), Vec::new().into_iter());
        Some(Err(error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Fixed, Incoming, MemoryStore, Message, New, Owner};

    fn filled(messages: u64) -> (Sessions, SessionId) {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let id = sessions.create(&New::default(), None).expect("created").id();
        for start in (0..messages).step_by(500) {
            let batch = start..messages.min(start + 500);
            let said = batch.map(|n| Incoming::from(Message::user(n.to_string())));
            sessions.append(id, said.collect()).expect("appended");
        }
        (sessions, id)
    }

    fn seqs(entries: impl Iterator<Item = Result<Entry>>) -> Vec<u64> {
        entries.map(|entry| entry.expect("read").seq).collect()
    }

    #[test]
    fn entries_are_the_same_from_either_end_and_from_both() {
        for length in [0, 1, 255, 256, 257, 600] {
            let (sessions, id) = filled(length);
            for range in [0..length, 0..length / 2, length / 3..length, 5..5] {
                let all: Vec<u64> = range.clone().collect();
                let forwards = sessions.entries(id, range.clone());
                assert_eq!(seqs(forwards), all, "{length} {range:?}");
                let mut backwards = seqs(sessions.entries(id, range.clone()).rev());
                backwards.reverse();
                assert_eq!(backwards, all, "{length} {range:?} backwards");
                let mut both = sessions.entries(id, range.clone());
                let (mut front, mut back) = (Vec::new(), Vec::new());
                while let Some(entry) = both.next() {
                    front.push(entry.expect("read").seq);
                    back.extend(both.next_back().map(|entry| entry.expect("read").seq));
                }
                back.reverse();
                front.append(&mut back);
                assert_eq!(front, all, "{length} {range:?} from both ends");
            }
        }
    }

    #[test]
    fn a_range_beyond_the_end_gives_what_exists() {
        let (sessions, id) = filled(300);
        assert_eq!(seqs(sessions.entries(id, 290..u64::MAX)), (290..300).collect::<Vec<_>>());
        assert!(seqs(sessions.entries(id, 300..400)).is_empty());
    }

    #[test]
    fn an_error_is_returned_once_and_ends_the_iteration() {
        let (sessions, _) = filled(1);
        let nobody = SessionId(uuid::Uuid::nil());
        let mut entries = sessions.entries(nobody, 0..9);
        assert!(entries.next().is_some_and(|entry| entry.is_err()));
        assert!(entries.next().is_none() && entries.next_back().is_none());
    }

    #[test]
    fn a_session_as_of_an_entry_has_the_counts_of_then() {
        let (sessions, id) = filled(600);
        for seq in [0, 1, 299, 599] {
            let then = sessions.as_of(Place { session: id, seq }).expect("read");
            assert_eq!((then.tally.entries, then.tally.queries), (seq + 1, seq + 1));
        }
        let beyond = sessions.as_of(Place { session: id, seq: 600 });
        assert!(matches!(beyond, Err(Error::NoEntry { seq: 600, entries: 600, .. })), "{beyond:?}");
    }
}
