//! The inbox: updates that are not handled yet, on disk.
//!
//! An update is confirmed to Telegram only when it is in the inbox. Each step of handling it is
//! recorded before the next one: where it began, what to send, which messages were sent, and that
//! it is done. After a crash between any two steps, the next process continues after the last
//! recorded one.
//!
//! The log belongs to a reserved owner, in the same store as everything else, and one process holds
//! its lease. Messages of people stay in it only until it is rotated, which happens whenever it has
//! grown a little: completed updates are then removed.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rethread_agent::{Handle, Host, LeasedThread, blocking};
use rethread_core::store::Filter;
use rethread_core::{
    Body, Key, New, Owner, Profile, Raw, SessionId, Sessions, StoreError, sessions,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::buttons::Buttons;
use crate::limits::{INBOX_ENTRIES_MAX, INBOX_IDLE_ENTRIES_MAX, INBOX_WAIT, SEEN_MAX};
use crate::markup::Rich;
use crate::update::IncomingUpdate;

/// The owner of the inbox. Nobody can use the bot as this owner.
pub const INBOX_OWNER: &str = "rethread:telegram";

const INCOMING: &str = "telegram_heard";
const BEGUN: &str = "telegram_begun";
const REPLY: &str = "telegram_reply";
const SENT: &str = "telegram_sent";
const DONE: &str = "telegram_done";
const CARRIED: &str = "telegram_carried";
const MOVED: &str = "telegram_moved";

/// The state of a chat before something was changed. Comparing with it shows whether the change was
/// made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Before {
    /// The session its key pointed at.
    pub(crate) session: Option<SessionId>,
    /// The number of its entries.
    pub(crate) head: u64,
    /// The clear that was in effect.
    pub(crate) cleared: Option<u64>,
}

/// A reply to send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) text: Rich,
    #[serde(default, skip_serializing_if = "Buttons::is_empty")]
    pub(crate) buttons: Buttons,
}

impl From<Rich> for Reply {
    fn from(text: Rich) -> Reply {
        Reply { text, buttons: Buttons::default() }
    }
}

/// An update, and how far it was handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    #[serde(rename = "heard")]
    pub(crate) incoming: IncomingUpdate,
    #[serde(default)]
    pub(crate) before: Option<Before>,
    #[serde(default)]
    pub(crate) reply: Option<Reply>,
    /// The messages that were sent for it, in order.
    #[serde(default)]
    pub(crate) sent: Vec<i32>,
}

/// The contents of the log.
#[derive(Default)]
struct State {
    /// In the order they arrived.
    pending: BTreeMap<u64, Pending>,
    next: u64,
    places: BTreeMap<u32, u64>,
    seen: HashSet<u32>,
    seen_order: VecDeque<u32>,
    /// Supergroups, and the groups they were.
    moved: BTreeMap<i64, i64>,
    entries: u64,
}

/// The updates that are not handled yet.
pub(crate) struct Inbox {
    /// The handle of the reserved owner.
    handle: Handle,
    key: Key,
    held: tokio::sync::Mutex<Option<LeasedThread>>,
    state: Mutex<State>,
}

impl Inbox {
    /// Opens the inbox of a bot, and waits for the process that has it now.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] if that process does not release it; otherwise I/O errors.
    pub(crate) async fn open(
        host: &Host,
        bot: u64,
        stop: &CancellationToken,
    ) -> Result<Inbox, sessions::Error> {
        let owner = Owner::new(INBOX_OWNER).expect("a valid owner");
        let handle = host.handle(owner);
        let key = Key::new(format!("inbox:{bot}")).expect("a number is visible");
        let opened = key.clone();
        let open =
            move |sessions: &Sessions| Ok(sessions.open(&opened, &a_log(&opened))?.session().id());
        let id = handle.run(open).await?;
        let held = handle.lease(id, INBOX_WAIT, stop).await?;
        let state = handle.run(move |sessions| read(sessions, id)).await?;
        let inbox = Inbox { handle, key, held: Some(held).into(), state: Mutex::new(state) };
        inbox.sweep(id).await?;
        inbox.rotate().await?;
        Ok(inbox)
    }

    /// All pending updates, in the order they arrived.
    pub(crate) fn pending(&self) -> Vec<IncomingUpdate> {
        self.state().pending.values().map(|pending| pending.incoming.clone()).collect()
    }

    /// The pending updates of the chat with this home, in the order they arrived.
    pub(crate) fn pending_in(&self, home: i64) -> Vec<IncomingUpdate> {
        let state = self.state();
        let here = |incoming: &&IncomingUpdate| state.home(incoming.chat.id) == home;
        state.pending.values().map(|pending| &pending.incoming).filter(here).cloned().collect()
    }

    /// The chat whose sessions a chat has: itself, or for a supergroup the group it was.
    pub(crate) fn home(&self, chat: i64) -> i64 {
        self.state().home(chat)
    }

    /// The current id of a chat: for a group that became a supergroup, that one's.
    pub(crate) fn address(&self, chat: i64) -> i64 {
        let state = self.state();
        let moved = state.moved.iter().find(|(_, from)| **from == chat);
        moved.map_or(chat, |(to, _)| *to)
    }

    /// Records that a group became a supergroup, which keeps its sessions. Repeating this changes
    /// nothing.
    pub(crate) async fn moved(&self, from: i64, to: i64) -> Result<(), sessions::Error> {
        let known = from == to || self.state().moved.contains_key(&to);
        match known {
            true => Ok(()),
            false => self.note(MOVED, &json!({ "from": from, "to": to })).await,
        }
    }

    /// The number of pending updates.
    pub(crate) fn count(&self) -> usize {
        self.state().pending.len()
    }

    /// How far this update was handled; `None` once it is done.
    pub(crate) fn get(&self, update: u32) -> Option<Pending> {
        let state = self.state();
        state.places.get(&update).and_then(|place| state.pending.get(place)).cloned()
    }

    /// Adds updates; the new ones are on disk when this returns, and are returned in order.
    pub(crate) async fn add_updates(
        &self,
        mut incoming: Vec<IncomingUpdate>,
    ) -> Result<Vec<IncomingUpdate>, sessions::Error> {
        incoming.sort_by_key(|incoming| incoming.update);
        incoming.dedup_by_key(|incoming| incoming.update);
        incoming.retain(|incoming| !self.state().seen.contains(&incoming.update));
        if !incoming.is_empty() {
            self.note(INCOMING, &json!({ "updates": incoming })).await?;
        }
        Ok(incoming)
    }

    /// Records the state in which handling of an update began.
    pub(crate) async fn begun(&self, update: u32, before: Before) -> Result<(), sessions::Error> {
        self.note(BEGUN, &json!({ "update": update, "before": before })).await
    }

    /// Records a reply to send.
    pub(crate) async fn reply(&self, update: u32, reply: &Reply) -> Result<(), sessions::Error> {
        self.note(REPLY, &json!({ "update": update, "reply": reply })).await
    }

    /// Records that a message was sent.
    pub(crate) async fn sent(&self, update: u32, message: i32) -> Result<(), sessions::Error> {
        self.note(SENT, &json!({ "update": update, "message": message })).await
    }

    /// Records that an update is done.
    pub(crate) async fn done(&self, update: u32) -> Result<(), sessions::Error> {
        self.note(DONE, &json!({ "update": update })).await?;
        let (entries, idle) = {
            let state = self.state();
            (state.entries, state.pending.is_empty())
        };
        if entries > INBOX_ENTRIES_MAX || idle && entries > INBOX_IDLE_ENTRIES_MAX {
            self.rotate().await?;
        }
        Ok(())
    }

    /// Releases the inbox, so that another process does not have to wait.
    pub(crate) async fn close(&self) -> Result<(), sessions::Error> {
        match self.held.lock().await.take() {
            Some(held) => held.give_back().await,
            None => Ok(()),
        }
    }

    /// Rotates the log: a new one starts with what is pending, and the old one is removed with
    /// everything that was handled.
    pub(crate) async fn rotate(&self) -> Result<(), sessions::Error> {
        let mut place = self.held.lock().await;
        let Some(old) = place.as_ref() else { return Ok(()) };
        let carried = {
            let state = self.state();
            let moved: Vec<Moved> =
                state.moved.iter().map(|(to, from)| Moved { from: *from, to: *to }).collect();
            let pending: Vec<&Pending> = state.pending.values().collect();
            json!({ "pending": pending, "seen": state.seen_order, "moved": moved })
        };
        let before = old.with(|thread| Ok(thread.session().id())).await?;
        let new = a_log(&self.key);
        let id = self.handle.run(move |sessions| Ok(sessions.create(&new, None)?.id())).await?;
        let new = self.handle.lease(id, INBOX_WAIT, &CancellationToken::new()).await?;
        new.with(move |thread| thread.note(body(CARRIED, &carried)).map(drop)).await?;
        let key = self.key.clone();
        self.handle.run(move |sessions| sessions.bind(&key, id)).await?;
        if let Some(old) = place.replace(new) {
            old.give_back().await?;
        }
        self.state().entries = 1;
        self.handle.run(move |sessions| gone(sessions.erase(before))).await
    }

    /// Removes logs of this bot that were left by a process that was killed during a rotation. One
    /// without a key may be in use by another bot that is starting.
    async fn sweep(&self, current: SessionId) -> Result<(), sessions::Error> {
        let (handle, ours) = (self.handle.clone(), a_log(&self.key).profile.description);
        blocking(move || {
            for session in handle.sessions().list(&Filter::default(), None, 100)?.sessions {
                let id = session.id();
                if id != current
                    && session.keys.is_empty()
                    && session.header.profile.description == ours
                {
                    match handle.call(|sessions| sessions.erase(id)) {
                        // Someone is using it; the next process that opens this inbox checks again.
                        Err(sessions::Error::Store(StoreError::Held { .. })) => {}
                        deleted => gone(deleted)?,
                    }
                }
            }
            Ok(())
        })
        .await
    }

    async fn note(&self, kind: &'static str, raw: &impl Serialize) -> Result<(), sessions::Error> {
        let noted = body(kind, raw);
        let written = noted.clone();
        let place = self.held.lock().await;
        let Some(held) = place.as_ref() else { return Ok(()) };
        held.with(move |thread| thread.note(written).map(drop)).await?;
        self.state().follow(&noted);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
struct Noted {
    update: u32,
    #[serde(default)]
    before: Option<Before>,
    #[serde(default)]
    reply: Option<Reply>,
    #[serde(default)]
    message: Option<i32>,
}

#[derive(Deserialize)]
struct Came {
    updates: Vec<IncomingUpdate>,
}

#[derive(Deserialize)]
struct Carried {
    pending: Vec<Pending>,
    seen: Vec<u32>,
    #[serde(default)]
    moved: Vec<Moved>,
}

/// A group that became a supergroup.
#[derive(Serialize, Deserialize)]
struct Moved {
    from: i64,
    to: i64,
}

impl State {
    fn follow(&mut self, body: &Body) {
        self.entries += 1;
        let Body::Unknown { kind, raw } = body else { return };
        let raw = raw.get();
        match kind.as_str() {
            INCOMING => {
                for incoming in
                    serde_json::from_str::<Came>(raw).map(|came| came.updates).unwrap_or_default()
                {
                    self.see(incoming.update);
                    self.add(Pending { incoming, before: None, reply: None, sent: Vec::new() });
                }
            }
            CARRIED => {
                if let Ok(carried) = serde_json::from_str::<Carried>(raw) {
                    carried.seen.into_iter().for_each(|update| self.see(update));
                    carried.pending.into_iter().for_each(|pending| self.add(pending));
                    carried.moved.into_iter().for_each(|moved| self.follow_move(moved));
                }
            }
            MOVED => {
                if let Ok(moved) = serde_json::from_str::<Moved>(raw) {
                    self.follow_move(moved);
                }
            }
            _ => {
                if let Ok(noted) = serde_json::from_str::<Noted>(raw) {
                    self.step(kind, noted);
                }
            }
        }
    }

    fn step(&mut self, kind: &str, noted: Noted) {
        let Some(place) = self.places.get(&noted.update).copied() else { return };
        if kind == DONE {
            self.places.remove(&noted.update);
            self.pending.remove(&place);
            return;
        }
        let Some(pending) = self.pending.get_mut(&place) else { return };
        match kind {
            BEGUN => pending.before = noted.before,
            REPLY => pending.reply = noted.reply,
            SENT => pending.sent.extend(noted.message),
            _ => {}
        }
    }

    fn add(&mut self, pending: Pending) {
        self.places.insert(pending.incoming.update, self.next);
        self.pending.insert(self.next, pending);
        self.next += 1;
    }

    fn home(&self, chat: i64) -> i64 {
        self.moved.get(&chat).copied().unwrap_or(chat)
    }

    /// The first notification about a move counts: it says where the sessions are.
    fn follow_move(&mut self, Moved { from, to }: Moved) {
        let home = self.home(from);
        if home != to {
            self.moved.entry(to).or_insert(home);
        }
    }

    fn see(&mut self, update: u32) {
        if !self.seen.insert(update) {
            return;
        }
        self.seen_order.push_back(update);
        while self.seen_order.len() > SEEN_MAX {
            if let Some(oldest) = self.seen_order.pop_front() {
                self.seen.remove(&oldest);
            }
        }
    }
}

/// A new log. It records its bot, because it gets its key only once it is complete.
fn a_log(key: &Key) -> New {
    let profile = Profile { description: Some(key.to_string()), ..Profile::default() };
    New { profile, ..New::default() }
}

fn body(kind: &str, raw: &impl Serialize) -> Body {
    Body::Unknown { kind: kind.into(), raw: Raw::of(raw) }
}

fn read(sessions: &Sessions, id: SessionId) -> Result<State, sessions::Error> {
    let mut state = State::default();
    let head = sessions.get(id)?.tally.entries;
    for entry in sessions.entries(id, 0..head) {
        state.follow(&entry?.body);
    }
    Ok(state)
}

/// It is fine if it was already removed.
fn gone(deleted: Result<(), sessions::Error>) -> Result<(), sessions::Error> {
    match deleted {
        Err(sessions::Error::Store(StoreError::NotFound { .. })) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_agent::{HostLimits, HostSettings, Roster, RosterSettings, Workspaces};
    use rethread_core::{Fixed, MemoryStore};

    use super::*;
    use crate::update::{Chat, UpdateKind};

    fn host() -> Host {
        let world = Arc::new(Fixed::default());
        let folder = tempfile::tempdir().expect("a folder");
        let settings = HostSettings {
            roster: Roster::new(RosterSettings::default()),
            workspaces: Workspaces::only(folder.path()).expect("opened"),
            limits: HostLimits::default(),
            transcripts: None,
        };
        Host::new(Arc::new(MemoryStore::new(world.clone())), world, settings)
    }

    fn said(update: u32) -> IncomingUpdate {
        let chat = Chat { id: 7, group: false, topic: None };
        let what = UpdateKind::Said("secret words".into());
        IncomingUpdate { update, chat, user: 7, name: "Ada".into(), message: 1, what }
    }

    async fn open(host: &Host) -> Inbox {
        Inbox::open(host, 42, &CancellationToken::new()).await.expect("opened")
    }

    fn updates(incoming: &[IncomingUpdate]) -> Vec<u32> {
        incoming.iter().map(|incoming| incoming.update).collect()
    }

    #[tokio::test]
    async fn updates_delivered_twice_or_out_of_order_are_added_once_and_in_order() {
        let host = host();
        let inbox = open(&host).await;
        let new =
            inbox.add_updates(vec![said(12), said(10), said(12), said(11)]).await.expect("noted");
        assert_eq!(updates(&new), [10, 11, 12]);
        let new = inbox.add_updates(vec![said(11), said(13), said(9)]).await.expect("noted");
        assert_eq!(updates(&new), [9, 13], "one that comes late is not lost");
        inbox.done(11).await.expect("noted");
        assert!(inbox.add_updates(vec![said(11)]).await.expect("noted").is_empty(), "done is done");
        inbox.close().await.expect("closed");
        let inbox = open(&host).await;
        assert_eq!(updates(&inbox.pending()), [10, 12, 9, 13]);
        assert!(inbox.add_updates(vec![said(11), said(10)]).await.expect("noted").is_empty());
    }

    #[tokio::test]
    async fn a_group_that_moved_keeps_its_home_however_often_it_is_said() {
        let host = host();
        let inbox = open(&host).await;
        assert_eq!((inbox.home(-1005), inbox.address(-5)), (-1005, -5));
        for _ in 0..3 {
            inbox.moved(-5, -1005).await.expect("noted");
        }
        inbox.moved(-6, -1005).await.expect("noted");
        inbox.moved(-7, -7).await.expect("noted");
        let check = |inbox: &Inbox| {
            assert_eq!((inbox.home(-1005), inbox.home(-5), inbox.home(-7)), (-5, -5, -7));
            assert_eq!((inbox.address(-5), inbox.address(-1005)), (-1005, -1005));
        };
        check(&inbox);
        inbox.rotate().await.expect("begun");
        inbox.close().await.expect("closed");
        check(&open(&host).await);
    }

    #[tokio::test]
    async fn a_process_that_comes_after_knows_how_far_each_was_dealt_with() {
        let host = host();
        let inbox = open(&host).await;
        inbox.add_updates(vec![said(1), said(2)]).await.expect("noted");
        let before = Before { session: None, head: 3, cleared: Some(1) };
        inbox.begun(1, before).await.expect("noted");
        let reply = Reply::from(Rich::plain("done").bold("!"));
        inbox.reply(1, &reply).await.expect("noted");
        inbox.sent(1, 77).await.expect("noted");
        inbox.close().await.expect("closed");
        let inbox = open(&host).await;
        let found = inbox.get(1).expect("pending");
        assert_eq!((found.before, found.reply, found.sent), (Some(before), Some(reply), vec![77]));
        assert_eq!(inbox.get(2).expect("pending").before, None);
        inbox.done(1).await.expect("noted");
        assert_eq!(inbox.get(1), None);
    }

    #[tokio::test]
    async fn what_is_done_is_removed_from_the_store() {
        let host = host();
        let inbox = open(&host).await;
        for update in 0..400 {
            inbox.add_updates(vec![said(update)]).await.expect("noted");
            inbox.done(update).await.expect("noted");
        }
        inbox.add_updates(vec![said(1_000)]).await.expect("noted");
        let mine = host.handle(Owner::new(INBOX_OWNER).expect("valid")).sessions().clone();
        let logs = mine.list(&Filter::default(), None, 100).expect("listed").sessions;
        assert_eq!(logs.len(), 1, "one log, however often it was restarted");
        assert!(logs[0].tally.entries <= INBOX_IDLE_ENTRIES_MAX + 2, "{}", logs[0].tally.entries);
        inbox.rotate().await.expect("begun");
        let log = mine.list(&Filter::default(), None, 100).expect("listed").sessions.remove(0);
        let entries = mine.read(log.id(), 0..10).expect("read");
        assert_eq!(entries.len(), 1);
        let kept = format!("{:?}", entries[0].body);
        assert_eq!(kept.matches("secret words").count(), 1, "only what is pending: {kept}");
    }

    #[tokio::test]
    async fn a_leftover_log_is_removed_by_its_own_bot_and_by_no_other() {
        let host = host();
        let mine = host.handle(Owner::new(INBOX_OWNER).expect("valid")).sessions().clone();
        let left = |bot: u64| {
            let key = Key::new(format!("inbox:{bot}")).expect("valid");
            mine.create(&a_log(&key), None).expect("created").id()
        };
        let (stray, held, others) = (left(42), left(42), left(43));
        let mut thread = mine.thread(held).expect("opened");
        thread.hold("someone alive", std::time::Duration::from_secs(60)).expect("held");
        let inbox = open(&host).await;
        let there = |id: SessionId| mine.get(id).is_ok();
        assert_eq!((there(stray), there(held), there(others)), (false, true, true));
        thread.release("someone alive").expect("released");
        inbox.close().await.expect("closed");
        drop(open(&host).await);
        assert_eq!((there(held), there(others)), (false, true));
    }

    #[tokio::test]
    async fn a_second_process_learns_that_the_inbox_is_held() {
        let host = host();
        let inbox = open(&host).await;
        let stop = CancellationToken::new();
        stop.cancel();
        let refused = Inbox::open(&host, 42, &stop).await.err().expect("refused");
        assert!(matches!(refused, sessions::Error::Store(StoreError::Held { .. })), "{refused}");
        Inbox::open(&host, 43, &stop).await.expect("another bot has its own");
        drop(inbox);
    }
}
