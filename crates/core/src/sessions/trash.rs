//! The trash: deleted sessions, until they are erased.
//!
//! Deleting moves a session to the trash. There it has no name and no keys, so others can use both,
//! and every verb except those in this file treats it as not found. It is restored with its name,
//! numbered if another session has taken it, and with those of its keys that are still unused.
//! Erasing removes a session and all of its content.
//!
//! Nothing here runs in the background: the first verb that writes, in each process and each hour,
//! erases what has been in the trash for too long.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::{Error, Purged, Result, SelectError, Sessions};
use crate::limits::{PAGE_ROWS_MAX, TRASH_KEPT, TRASH_SWEPT_EVERY};
use crate::name::{Name, Owner, SessionId};
use crate::readable_id;
use crate::session::Session;
use crate::store::{Change, Filter, StoreError};

impl Sessions {
    /// Moves a session to the trash. Its name and keys can be used again.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::Held`] while a turn runs; otherwise I/O errors.
    pub fn trash(&self, id: SessionId) -> Result<Session> {
        let session = self.get(id)?;
        let change = Change::to_trash(&session, self.world.now());
        let trashed = self.store.update(&self.owner, id, &change)?;
        self.sweep_trash();
        Ok(as_it_was(trashed))
    }

    /// Restores a session from the trash: with its name, numbered if it is taken by now, and with
    /// those of its keys that are unused.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if it is not in the trash; otherwise I/O errors.
    pub fn restore_from_trash(&self, id: SessionId) -> Result<Session> {
        let stored = self.store.get(&self.owner, id)?;
        let trash = stored.header.trash.ok_or(StoreError::NotFound { id })?;
        let name = trash.name.unwrap_or_else(|| Name::of_time(stored.header.created_at, id));
        for tried in name.candidates() {
            let change = Change { name: Some(tried), trash: Some(None), ..Change::default() };
            match self.store.update(&self.owner, id, &change) {
                Err(StoreError::NameTaken { .. }) => {}
                other => return Ok(other?),
            }
        }
        Err(Error::NoFreeName { name })
    }

    /// The sessions in the trash with the names and keys they had, most recently deleted first.
    pub fn trashed(&self) -> Result<Vec<Session>> {
        let filter = Filter { trashed: true, ..Filter::default() };
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.list(&filter, after, PAGE_ROWS_MAX)?;
            all.extend(page.sessions.into_iter().map(as_it_was));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        all.sort_by_key(|session| Reverse((deleted_at(session), session.id())));
        Ok(all)
    }

    /// The session in the trash that `selector` refers to: a position in
    /// [`trashed`](Sessions::trashed), `last`, the name or readable id it had, or the beginning of
    /// its UUID.
    ///
    /// # Errors
    ///
    /// [`SelectError::None`] and [`SelectError::Several`]; otherwise I/O errors.
    pub fn select_trashed(&self, selector: &str) -> Result<SessionId> {
        let selector = selector.trim();
        let all = self.trashed()?;
        let found: Vec<&Session> = match selector.parse::<usize>() {
            _ if selector == "last" => all.first().into_iter().collect(),
            Ok(position) if (1..=all.len()).contains(&position) => vec![&all[position - 1]],
            _ => all.iter().filter(|session| is_called(session, selector)).collect(),
        };
        let shown = || selector.chars().take(80).collect();
        match found.as_slice() {
            [] => Err(SelectError::None { selector: shown() }.into()),
            [session] => Ok(session.id()),
            several => Err(SelectError::of(shown(), several).into()),
        }
    }

    /// Erases the sessions in the trash; if a time is given, those deleted before it. A session in
    /// which a turn runs stays.
    ///
    /// # Errors
    ///
    /// I/O errors. What was erased before the error is gone.
    pub fn empty_trash(&self, before: Option<Timestamp>) -> Result<Purged> {
        let mut purged = Purged::default();
        for session in self.trashed()? {
            if before.is_some_and(|before| deleted_at(&session) >= before) {
                continue;
            }
            // A session that is restored in the meantime is not in the trash any more, and stays.
            let since = Some(deleted_at(&session));
            match self.store.delete(&self.owner, session.id(), since) {
                Ok(()) => purged.done += 1,
                Err(StoreError::Held { .. }) => purged.in_use += 1,
                // Another process emptied the trash or restored the session at the same time.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(purged)
    }

    /// Erases what has been in the trash for [`TRASH_KEPT`]. Returns the number of sessions.
    pub fn empty_old_trash(&self) -> Result<u64> {
        let kept = jiff::SignedDuration::try_from(TRASH_KEPT).expect("thirty days fit");
        let before = self.world.now().checked_sub(kept).unwrap_or(Timestamp::MIN);
        Ok(self.empty_trash(Some(before))?.done)
    }

    /// Erases expired sessions, once an hour.
    pub(super) fn sweep_trash(&self) {
        if self.sweeps.is_due(&self.owner, self.world.now()) {
            // Errors of the store are reported by the verb that writes; this waits for the next
            // one.
            self.empty_old_trash().ok();
        }
    }

    /// Erases a session, in the trash or not: entries, attachments, keys and search index.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::Held`] while a turn runs; otherwise I/O errors.
    pub fn erase(&self, id: SessionId) -> Result<()> {
        Ok(self.store.delete(&self.owner, id, None)?)
    }

    /// Restores a session if it is in the trash, because its content has arrived again.
    pub(super) fn arrives_again(&self, id: SessionId) -> Result<()> {
        match self.restore_from_trash(id) {
            Err(Error::Store(StoreError::NotFound { .. })) => {}
            done => drop(done?),
        }
        self.sweep_trash();
        Ok(())
    }
}

/// When the trash of each owner was last checked.
#[derive(Debug, Default)]
pub(super) struct Sweeps(Mutex<HashMap<Owner, Timestamp>>);

impl Sweeps {
    /// Owners that are remembered. Checking the trash of one too often only costs time.
    const OWNERS_MAX: usize = 10_000;

    /// Whether it is time to check again; if so, the time is reset.
    fn is_due(&self, owner: &Owner, now: Timestamp) -> bool {
        let mut swept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let every = jiff::SignedDuration::try_from(TRASH_SWEPT_EVERY).expect("an hour fits");
        if swept.get(owner).is_some_and(|last| now.duration_since(*last) < every) {
            return false;
        }
        if swept.len() >= Self::OWNERS_MAX {
            swept.clear();
        }
        swept.insert(owner.clone(), now);
        true
    }
}

/// How long a session is kept in the trash, in words.
pub fn trash_kept() -> String {
    format!("{} days", TRASH_KEPT.as_secs() / Duration::from_hours(24).as_secs())
}

/// When a session of [`Sessions::trashed`] was deleted.
pub fn deleted_at(session: &Session) -> Timestamp {
    session.header.trash.as_ref().map_or(session.header.created_at, |trash| trash.at)
}

/// A session in the trash, with the name and the keys it had.
fn as_it_was(mut session: Session) -> Session {
    if let Some(trash) = session.header.trash.as_deref() {
        let (keys, id) = readable_id::split(trash.keys.iter().cloned());
        (session.keys, session.readable_id) = (keys, id.or(session.readable_id));
        if let Some(name) = &trash.name {
            session.header.name = name.clone();
        }
    }
    session
}

fn is_called(session: &Session, selector: &str) -> bool {
    let wanted = selector.to_lowercase();
    let digits: String = wanted.chars().filter(|c| *c != '-').collect();
    let id = session.id().0.simple().to_string();
    session.header.name.matches_typed(selector)
        || session.readable_id.as_ref().is_some_and(|id| id.to_lowercase() == wanted)
        || digits.len() >= super::select::ID_DIGITS_MIN && id.starts_with(&digits)
}
