//! Imported sessions in which the user turned tools on permanently.
//!
//! The text of an imported session may come from anyone, and so may the entries of its log: so
//! consent is stored in a log under a reserved owner, which no import reaches. It names the last
//! entry of the session, so it does not apply to another session that is imported under the same id
//! later.

use std::sync::Arc;

use rethread_core::{
    Backend, Body, EntryId, Key, New, Owner, Place, Raw, SessionId, Sessions, World, sessions,
};
use serde::{Deserialize, Serialize};

use super::folder_trust::TRUST_OWNER;

const TRUSTED: &str = "session_trusted";

/// A session as it was when it was trusted.
#[derive(Serialize, Deserialize)]
struct Trusted {
    session: SessionId,
    /// Its last entry.
    seq: u64,
    entry: EntryId,
}

/// The sessions that one owner trusts.
pub(super) struct SessionTrust {
    consents: Sessions,
    key: Key,
}

impl SessionTrust {
    pub(super) fn new(
        store: Arc<dyn Backend>,
        world: Arc<dyn World>,
        owner: &Owner,
    ) -> SessionTrust {
        let reserved = Owner::new(TRUST_OWNER).expect("a valid owner");
        let key = Key::new(format!("sessions:{}", owner.as_str())).expect("an owner is visible");
        SessionTrust { consents: Sessions::new(store, reserved, world), key }
    }

    /// Whether this session is trusted: it was, at this or an earlier length.
    pub(super) fn holds(&self, theirs: &Sessions, id: SessionId) -> Result<bool, sessions::Error> {
        let Some(log) = self.consents.resolve(&self.key)? else { return Ok(false) };
        let head = self.consents.get(log)?.tally.entries;
        for entry in self.consents.entries(log, 0..head).rev() {
            if let Body::Unknown { kind, raw } = entry?.body
                && kind == TRUSTED
                && let Ok(Trusted { session, seq, entry }) = serde_json::from_str(raw.get())
                && session == id
            {
                return match theirs.entry_at(Place { session: id, seq }) {
                    Ok(found) => Ok(found.id == entry),
                    Err(sessions::Error::NoEntry { .. }) => Ok(false),
                    Err(error) => Err(error),
                };
            }
        }
        Ok(false)
    }

    /// The owner trusts this session, as it is now.
    pub(super) fn remember(&self, theirs: &Sessions, id: SessionId) -> Result<(), sessions::Error> {
        let Some(seq) = theirs.get(id)?.tally.entries.checked_sub(1) else { return Ok(()) };
        let entry = theirs.entry_at(Place { session: id, seq })?.id;
        let trusted = Raw::of(&Trusted { session: id, seq, entry });
        let mut thread = self.consents.open(&self.key, &New::default())?;
        thread.note(Body::Unknown { kind: TRUSTED.into(), raw: trusted })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::{Fixed, MemoryStore, Message};

    use super::*;

    #[test]
    fn a_session_is_trusted_as_it_was_and_as_it_grows_and_by_whom() {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let of = |owner: &Owner| SessionTrust::new(store.clone(), world.clone(), owner);
        let (mine, other) = (Owner::local(), Owner::new("other").expect("valid"));
        let sessions = Sessions::new(store.clone(), mine.clone(), world.clone());
        let id = sessions.create(&New::default(), None).expect("created").id();
        sessions.append(id, vec![Message::user("hello").into()]).expect("appended");
        let holds = |owner: &Owner| of(owner).holds(&sessions, id).expect("read");
        assert!(!holds(&mine));
        of(&mine).remember(&sessions, id).expect("stored");
        assert!(holds(&mine) && !holds(&other), "someone else did not agree");
        sessions.append(id, vec![Message::user("more").into()]).expect("appended");
        assert!(holds(&mine), "it grew");
        let fresh = sessions.create(&New::default(), None).expect("created").id();
        assert!(!of(&mine).holds(&sessions, fresh).expect("read"), "another session");
    }

    #[test]
    fn another_session_under_the_same_id_is_not_trusted() {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let owner = Owner::local();
        let trust = SessionTrust::new(store.clone(), world.clone(), &owner);
        let sessions = Sessions::new(store, owner, world);
        let id = SessionId::of_source(sessions.owner(), "test");
        let arrive = |text: &str| {
            let arrival = rethread_core::sessions::Arrival {
                id,
                new: New::default(),
                created_at: jiff::Timestamp::UNIX_EPOCH,
                parent: None,
                keys: Vec::new(),
                archived: false,
                imported: Some("test".into()),
            };
            let mut import = sessions.import(&arrival).expect("imported");
            let coming = rethread_core::sessions::ArrivingEntry {
                id: EntryId::new(text).expect("valid"),
                at: jiff::Timestamp::UNIX_EPOCH,
                body: Body::Message(Message::user(text)),
            };
            import.append(vec![coming]).expect("appended");
        };
        arrive("good");
        trust.remember(&sessions, id).expect("stored");
        assert!(trust.holds(&sessions, id).expect("read"));
        sessions.erase(id).expect("deleted");
        arrive("bad");
        assert!(!trust.holds(&sessions, id).expect("read"), "these words were not looked at");
    }
}
