//! What sending a session's contexts cost, compared with sending everything.

use std::sync::Arc;
use std::time::Duration;

use rethread_core::context::{Model, Policy};
use rethread_core::limits::LEASE_MAX;
use rethread_core::sessions::{Economy, Fork};
use rethread_core::{
    Block, Body, Fixed, Item, MemoryStore, Message, New, Owner, Raw, Role, Sessions, Thread,
};
use serde_json::json;

const LIFE: Duration = Duration::from_secs(300);

struct Conversation {
    world: Arc<Fixed>,
    sessions: Sessions,
    thread: Thread,
}

impl Conversation {
    fn new() -> Conversation {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world.clone());
        let id = sessions.create(&New::default(), None).expect("created").id();
        let mut thread = sessions.thread(id).expect("opened");
        thread.hold("test", LEASE_MAX).expect("there is no other writer");
        Conversation { world, sessions, thread }
    }

    /// A turn in which the model reads these texts, this long after the last one.
    fn turn(&mut self, pause: u64, texts: &[&str]) {
        self.world.advance(Duration::from_secs(pause));
        let (policy, model) = (Policy::chat(), model());
        let thinned = self.thread.thinning(&policy, self.thread.last_at(), LIFE).map(Body::Thinned);
        let mut items: Vec<Item> = thinned.into_iter().map(Into::into).collect();
        items.push(Message::user("what is in it?").into());
        self.thread.record(items).expect("asked");
        for text in texts {
            self.thread.context(&policy, &model).expect("built");
            let id = format!("call_{}", self.thread.head());
            let call = Block::tool_use(&id, "read_file", Raw::of(&json!({"path": "a.rs"})));
            self.says(Message::new(Role::Assistant, vec![call]));
            self.thread.append(Message::tool_result(id, *text)).expect("answered");
        }
        self.says(Message::assistant("this and that"));
    }

    fn says(&mut self, mut reply: Message) {
        reply.model = Some(model().id());
        self.thread.append(reply).expect("replied");
    }

    fn economy(&self, policy: &Policy) -> Economy {
        let id = self.thread.session().id();
        let economy = self.sessions.economy(id, policy, &model(), LIFE).expect("replayed");
        assert_eq!(self.sessions.get(id).expect("there").tally, self.thread.session().tally);
        economy.expect("it is short")
    }
}

fn model() -> Model {
    Model::new("openai", "m")
}

fn text(name: &str) -> String {
    (0..400).map(|n| format!("    let {name}_{n} = compute({n});\n")).collect()
}

#[test]
fn what_is_sent_whole_costs_what_everything_costs() {
    let mut talk = Conversation::new();
    talk.turn(0, &["a line", "another"]);
    talk.turn(10, &[]);
    let economy = talk.economy(&Policy::chat());
    assert_eq!((economy.calls, economy.cold_starts, economy.rewrites), (4, 0, 0));
    let sent = economy.sent();
    assert_eq!(sent.contexts, sent.everything);
    assert_eq!(sent.percent(), Some(100.0));
    // A call reads what the one before it sent, and writes what is new.
    let last = talk.thread.context(&Policy::chat(), &model()).expect("built").tokens;
    assert!(sent.contexts.written < last, "{sent:?} of {last}");
}

#[test]
fn cuts_make_it_cheaper_and_a_pause_is_a_cold_start() {
    let mut talk = Conversation::new();
    talk.turn(0, &[&text("one"), &text("two")]);
    talk.turn(301, &[&text("three")]);
    let economy = talk.economy(&Policy::chat());
    assert_eq!((economy.calls, economy.cold_starts, economy.rewrites), (5, 1, 0));
    let percent = economy.sent().percent().expect("something was sent");
    assert!((20.0..90.0).contains(&percent), "{percent}");
    let id = talk.thread.session().id();
    let stats = talk.sessions.stats(id).expect("counted");
    assert_eq!((stats.thinned.cold, stats.thinned.warm), (1, 0));
    // Half a second before the end of the cache it is warm.
    let mut warm = Conversation::new();
    warm.turn(0, &[&text("one"), &text("two")]);
    warm.turn(299, &[&text("three")]);
    let warm = warm.economy(&Policy::chat());
    assert_eq!(warm.cold_starts, 0);
    assert!(warm.sent().contexts.written < economy.sent().contexts.written + 1_000);
}

#[test]
fn a_warm_cache_that_is_written_again_is_counted() {
    let mut talk = Conversation::new();
    talk.turn(0, &[&text("one")]);
    talk.turn(10, &[]);
    let economy = talk.economy(&Policy::editor());
    assert_eq!((economy.cold_starts, economy.rewrites), (0, 1), "a stub took its place");
    assert!(economy.rewritten > 1_000, "{}", economy.rewritten);
    assert_eq!(talk.economy(&Policy::cli()).rewrites, 0);
}

#[test]
fn calls_that_another_session_made_are_not_counted_again() {
    let mut talk = Conversation::new();
    talk.turn(0, &["a line"]);
    let id = talk.thread.session().id();
    let fork = talk.sessions.fork(id, &Fork::default()).expect("forked");
    let own = talk.sessions.economy(fork.id(), &Policy::chat(), &model(), LIFE);
    assert_eq!(own.expect("replayed"), Some(Economy::default()));
}
