//! Who may use the bot, and which owner's sessions they use.
//!
//! Only users on the list can use the bot. A private chat belongs to its person, a group to
//! itself; the owner never depends on the content of a message.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use rethread_core::{Key, Owner, SessionId};

use crate::limits::{OFFERS_MAX, STRANGERS_MAX};
use crate::update::{Chat, IncomingUpdate};

/// Who may use the bot.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    /// Their Telegram user ids.
    pub allowed: BTreeSet<u64>,
    /// The owner whose sessions a person uses in their private chat, if it is not their own.
    pub owners: BTreeMap<u64, Owner>,
}

/// The owner of a chat, and the key of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChatOwner {
    pub(crate) owner: Owner,
    pub(crate) key: Key,
}

impl AllowList {
    /// The owner and key of a chat, if the sender is allowed. `home` is the chat whose sessions it
    /// has: itself, or for a supergroup the group it was.
    pub(crate) fn place(&self, incoming: &IncomingUpdate, home: i64) -> Option<ChatOwner> {
        if !self.allowed.contains(&incoming.user) {
            return None;
        }
        let Chat { group, .. } = incoming.chat;
        let named = format!("telegram:{home}");
        let key = Key::new(named.clone()).expect("a number is visible");
        // In a private chat, the id of the chat is that of the person.
        let mapped = self.owners.get(&incoming.user).filter(|_| !group).cloned();
        let owner = mapped.unwrap_or_else(|| Owner::new(named).expect("a number is visible"));
        Some(ChatOwner { owner, key })
    }
}

/// Imported sessions in which turning tools on was offered. Each process offers it once below an
/// answer, and whenever someone asks for the status.
#[derive(Default)]
pub(crate) struct Offered(Mutex<HashSet<SessionId>>);

impl Offered {
    /// Whether to offer it now.
    pub(crate) fn first(&self, session: SessionId) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.len() < OFFERS_MAX && known.insert(session)
    }
}

/// Strangers who have been answered. They are remembered by this process only: nothing of theirs is
/// stored.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<HashSet<u64>>);

impl Strangers {
    /// Whether to answer this one now.
    pub(crate) fn meet(&self, user: u64) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.len() < STRANGERS_MAX && known.insert(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::UpdateKind;

    fn said(user: u64, chat: i64) -> IncomingUpdate {
        let chat = Chat { id: chat, group: chat < 0, topic: None };
        let what = UpdateKind::Said("x".into());
        IncomingUpdate { update: 1, chat, user, name: "n".into(), message: 1, what }
    }

    #[test]
    fn nobody_is_let_in_who_is_not_on_the_list() {
        assert_eq!(AllowList::default().place(&said(7, 7), 7), None);
        let allow_list = AllowList { allowed: [7].into(), ..AllowList::default() };
        assert_eq!(allow_list.place(&said(8, 8), 8), None);
        assert_eq!(
            allow_list.place(&said(8, -100), -100),
            None,
            "nor in a group others are let in to"
        );
        let place = allow_list.place(&said(7, 7), 7).expect("let in");
        assert_eq!((place.owner.as_str(), place.key.as_str()), ("telegram:7", "telegram:7"));
    }

    #[test]
    fn a_person_may_be_another_owner_in_their_own_chat_and_nowhere_else() {
        let owners = [(7, Owner::local())].into();
        let allow_list = AllowList { allowed: [7].into(), owners };
        let place = allow_list.place(&said(7, 7), 7).expect("let in");
        assert_eq!((place.owner.as_str(), place.key.as_str()), ("local", "telegram:7"));
        let place = allow_list.place(&said(7, -100), -100).expect("let in");
        assert_eq!((place.owner.as_str(), place.key.as_str()), ("telegram:-100", "telegram:-100"));
    }

    #[test]
    fn a_stranger_is_answered_once_and_only_so_many_are() {
        let strangers = Strangers::default();
        assert!(strangers.meet(1));
        assert!(!strangers.meet(1));
        let told = (2..5_000).filter(|user| strangers.meet(*user)).count();
        assert_eq!(told, STRANGERS_MAX - 1);
    }
}
