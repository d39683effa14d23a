//! Copies sessions from one store to another.

use super::{Error, Result, Sessions};
use crate::entry::{Entry, NewEntry, fingerprint};
use crate::limits::{EXTRA_BYTES_MAX, READ_ENTRIES};
use crate::name::{Key, Name, SessionId};
use crate::raw::Raw;
use crate::session::{ExtraFields, Header, Session};
use crate::store::{At, Bind, StoreError};

/// The result of copying a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The session: its id is the same in both stores.
    pub id: SessionId,
    /// Its name there; with a number if the name was taken.
    pub name: Name,
    /// The number of entries in both stores, all of them compared.
    pub entries: u64,
    /// How many of them were added.
    pub added: u64,
    /// Attachments that were added.
    pub blobs: u64,
    /// Keys that point at it there.
    pub keys: Vec<Key>,
    /// Keys that point at another session there, and were not changed.
    pub keys_taken: Vec<Key>,
    /// Extra fields of the header that are not the same there.
    pub left_behind: Vec<String>,
}

impl Sessions {
    /// Copies a session to another store: its header with its extra fields, its entries with their
    /// ids and times, its attachments, and its keys. What is there already is not copied again, so
    /// an interrupted copy can be repeated. A copy that was deleted there is restored from the
    /// trash. Afterwards both logs are read and their fingerprints compared. `progress` gets the
    /// number of entries that are done.
    ///
    /// # Errors
    ///
    /// [`Error::Differs`] if the other store has another session under this id, or one that was
    /// continued there; otherwise errors of either store. What was copied before the error stays.
    pub fn copy_to(
        &self,
        id: SessionId,
        to: &Sessions,
        mut progress: impl FnMut(u64),
    ) -> Result<Copied> {
        let source = self.get(id)?;
        let end = source.tally.entries;
        to.arrives_again(id)?;
        let there = match to.get(id) {
            Ok(there) => there,
            Err(Error::Store(StoreError::NotFound { .. })) => {
                // The entries follow in batches.
                let mut header = Header { owner: to.owner.clone(), ..source.header.clone() };
                if !fits(&header.extra) {
                    header.extra = ExtraFields::default();
                }
                to.create_named(header, source.readable_id.as_deref(), &[], &[])?
            }
            Err(error) => return Err(error),
        };
        let begun = there.tally.entries;
        if there.header.created_at != source.header.created_at || begun > end {
            return Err(Error::Differs { id, seq: begun.min(end) });
        }
        // Before the entries that refer to them.
        let blobs = self.copy_blobs(id, to, id)?;
        let mut start = begun;
        progress(start);
        while start < end {
            let next = end.min(start + READ_ENTRIES);
            let entries: Vec<NewEntry> =
                self.read(id, start..next)?.into_iter().map(unplaced).collect();
            to.store.append(&to.owner, id, At::head(start), &entries)?;
            start = next;
            progress(start);
        }
        let mut theirs = to.entries(id, 0..end);
        for (seq, ours) in (0..end).zip(self.entries(id, 0..end)) {
            let (ours, theirs) = (ours?, theirs.next().transpose()?);
            if theirs.is_none_or(|theirs| likeness(&ours) != likeness(&theirs)) {
                return Err(Error::Differs { id, seq });
            }
        }
        let (keys, keys_taken) = copy_keys(&source, to)?;
        let Header { name, extra, .. } = to.get(id)?.header;
        let left_behind = source.header.extra.missing_in(&extra);
        let added = end - begun;
        Ok(Copied { id, name, entries: end, added, blobs, keys, keys_taken, left_behind })
    }
}

/// Whether these fields can be copied with the header.
fn fits(extra: &ExtraFields) -> bool {
    Raw::of(extra).get().len() <= EXTRA_BYTES_MAX
}

/// Binds the keys of a session to its copy, unless they are bound to something else.
fn copy_keys(source: &Session, to: &Sessions) -> Result<(Vec<Key>, Vec<Key>)> {
    let id = source.id();
    let (mut keys, mut taken) = (Vec::new(), Vec::new());
    for key in &source.keys {
        let bind = Bind { key: key.clone(), seen: None };
        match to.store.bind(&to.owner, &bind, Some(id)) {
            Ok(()) => keys.push(key.clone()),
            Err(StoreError::KeyMoved { actual, .. }) if actual == Some(id) => {
                keys.push(key.clone());
            }
            Err(StoreError::KeyMoved { .. }) => taken.push(key.clone()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((keys, taken))
}

fn unplaced(Entry { id, at, body, measure, .. }: Entry) -> NewEntry {
    NewEntry { id, at, body, measure }
}

/// What must be the same in both stores: position, id, time, and fingerprint.
fn likeness(entry: &Entry) -> (u64, &str, i64, [u8; 16]) {
    let print = fingerprint(entry.body.kind(), &entry.body.json());
    (entry.seq, entry.id.as_str(), entry.at.as_millisecond(), print)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Fixed, Incoming, MemoryStore, Message, New, Owner};

    fn sessions(world: &Arc<Fixed>) -> Sessions {
        let store = Arc::new(MemoryStore::new(world.clone()));
        Sessions::new(store, Owner::local(), world.clone())
    }

    fn said(sessions: &Sessions, id: SessionId, texts: std::ops::Range<u64>) {
        let messages = texts.map(|n| Incoming::from(Message::user(format!("message {n}"))));
        sessions.append(id, messages.collect()).expect("appended");
    }

    #[test]
    fn a_copy_continues_where_it_stopped_and_is_compared() {
        let world = Arc::new(Fixed::default());
        let (from, to) = (sessions(&world), sessions(&world));
        let key = Key::new("file:a").expect("a key");
        let id = from.create(&New::default(), Some(&key)).expect("created").id();
        said(&from, id, 0..600);
        let mut steps = Vec::new();
        let copied = from.copy_to(id, &to, |done| steps.push(done)).expect("copied");
        assert_eq!((copied.entries, copied.added), (600, 600));
        assert_eq!(copied.keys, [key]);
        assert_eq!(steps, [0, 256, 512, 600]);
        assert_eq!(from.read(id, 0..999).expect("read"), to.read(id, 0..999).expect("read"));
        assert_eq!(from.get(id).expect("there"), to.get(id).expect("there"));

        said(&from, id, 600..610);
        let again = from.copy_to(id, &to, |_| {}).expect("copied");
        assert_eq!((again.entries, again.added), (610, 10), "only what is missing");
        assert_eq!(from.copy_to(id, &to, |_| {}).expect("copied").added, 0);

        said(&to, id, 610..611);
        said(&from, id, 611..613);
        let error = from.copy_to(id, &to, |_| {}).expect_err("both were continued");
        assert!(matches!(error, Error::Differs { seq: 610, .. }), "{error}");
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number_and_a_key_stays() {
        let world = Arc::new(Fixed::default());
        let (from, to) = (sessions(&world), sessions(&world));
        let new = New { name: Some(Name::new("plan").expect("a name")), ..New::default() };
        let key = Key::new("file:a").expect("a key");
        let theirs = to.create(&new, Some(&key)).expect("created").id();
        let id = from.create(&new, Some(&key)).expect("created").id();
        let copied = from.copy_to(id, &to, |_| {}).expect("copied");
        assert_eq!(copied.name.as_str(), "plan-2");
        assert_eq!(copied.keys_taken, std::slice::from_ref(&key));
        assert_eq!(to.resolve(&key).expect("resolved"), Some(theirs));
    }
}
