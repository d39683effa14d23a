//! Who may talk to the bot, and whose sessions they mean.
//!
//! Nobody may who is not on the list. A private chat belongs to its person, a group to itself; the
//! owner never comes from anything that is said.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use rethread_core::{Key, Owner, SessionId};

use crate::limits::{OFFERS_MAX, STRANGERS_MAX};
use crate::update::{Chat, IncomingUpdate};

/// Who may talk to the bot.
#[derive(Clone, Debug, Default)]
pub struct People {
    /// Their numbers, as Telegram knows them.
    pub allowed: BTreeSet<u64>,
    /// Whose sessions a person means in their own chat, where not their own.
    pub owners: BTreeMap<u64, Owner>,
}

/// Whose sessions are meant, and what this chat calls its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChatOwner {
    pub(crate) owner: Owner,
    pub(crate) key: Key,
}

impl People {
    /// Where this was said, if the sender is allowed. `home` is the chat whose sessions it has:
    /// itself, or for a supergroup the group it was.
    pub(crate) fn place(&self, incoming: &IncomingUpdate, home: i64) -> Option<ChatOwner> {
        if !self.allowed.contains(&incoming.user) {
            return None;
        }
        let Chat { group, .. } = incoming.chat;
        let named = format!("telegram:{home}");
        let key = Key::new(named.clone()).expect("a number is visible");
        // In a chat of their own, the number of the chat is that of the person.
        let mapped = self.owners.get(&incoming.user).filter(|_| !group).cloned();
        let owner = mapped.unwrap_or_else(|| Owner::new(named).expect("a number is visible"));
        Some(ChatOwner { owner, key })
    }
}

/// Imported sessions whose person was offered to turn tools on. It is offered once by each process
/// below an answer, and whenever someone asks how things are.
#[derive(Default)]
pub(crate) struct Offered(Mutex<HashSet<SessionId>>);

impl Offered {
    /// Whether it is to be offered now.
    pub(crate) fn first(&self, session: SessionId) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.len() < OFFERS_MAX && known.insert(session)
    }
}

/// Strangers who have been answered. Only this process remembers them: nothing of theirs is stored.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<HashSet<u64>>);

impl Strangers {
    /// Whether this one is to be answered now.
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
        assert_eq!(People::default().place(&said(7, 7), 7), None);
        let people = People { allowed: [7].into(), ..People::default() };
        assert_eq!(people.place(&said(8, 8), 8), None);
        assert_eq!(people.place(&said(8, -100), -100), None, "nor in a group others are let in to");
        let place = people.place(&said(7, 7), 7).expect("let in");
        assert_eq!((place.owner.as_str(), place.key.as_str()), ("telegram:7", "telegram:7"));
    }

    #[test]
    fn a_person_may_be_another_owner_in_their_own_chat_and_nowhere_else() {
        let owners = [(7, Owner::local())].into();
        let people = People { allowed: [7].into(), owners };
        let place = people.place(&said(7, 7), 7).expect("let in");
        assert_eq!((place.owner.as_str(), place.key.as_str()), ("local", "telegram:7"));
        let place = people.place(&said(7, -100), -100).expect("let in");
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
