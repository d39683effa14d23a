//! What the owner of an open thread can rely on.

use std::sync::Arc;

use rethread_core::context::{CutEffect, Model, Policy};
use rethread_core::message::Block;
use rethread_core::sessions::Incoming;
use rethread_core::{
    EntryId, Fixed, Key, MemoryStore, Message, New, Owner, Profile, Raw, Role, Sessions, Thread,
};

fn sessions() -> Sessions {
    let world = Arc::new(Fixed::default());
    Sessions::new(Arc::new(MemoryStore::new(world.clone())), Owner::local(), world)
}

fn thread(sessions: &Sessions, new: &New) -> Thread {
    sessions.open(&Key::new("k").expect("valid"), new).expect("opened")
}

fn history(messages: u32) -> New {
    let profile = Profile { max_history: Some(messages), ..Profile::default() };
    New { profile, ..New::default() }
}

fn texts(thread: &mut Thread, policy: &Policy) -> Vec<String> {
    let context = thread.context(policy, &Model::new("openai", "m")).expect("built");
    context.messages.iter().map(Message::plain_text).collect()
}

#[test]
fn what_an_append_acknowledges_is_in_the_context_also_where_it_was_said_before() {
    let sessions = sessions();
    let mut thread = thread(&sessions, &New::default());
    thread.append(Message::user("first")).expect("appended");
    thread.append(Message::assistant("yes?")).expect("appended");
    let id = Some(EntryId::new("x").expect("valid"));
    let asked = Incoming { id, message: Message::user("question") };
    let elsewhere = vec![Message::user("other").into(), asked.clone()];
    sessions.append(thread.session().id(), elsewhere).expect("appended");
    assert_eq!(thread.append(asked).expect("it is there"), 3);
    let texts = texts(&mut thread, &Policy::chat());
    assert!(texts.last().is_some_and(|text| text.ends_with("question")), "{texts:?}");
    assert_eq!(thread.append(Message::assistant("answer")).expect("appended"), 4);
}

#[test]
fn a_session_with_a_history_length_of_its_own_has_it_in_its_thread_too() {
    let sessions = sessions();
    let new = history(4);
    let mut thread = thread(&sessions, &new);
    for turn in 0..10 {
        thread.append(Message::user(format!("question {turn}"))).expect("appended");
        thread.append(Message::assistant(format!("answer {turn}"))).expect("appended");
    }
    let policy = Policy::emacs();
    let whole = sessions
        .context(thread.session().id(), &policy, &Model::new("openai", "m"))
        .expect("built");
    let whole: Vec<String> = whole.messages.iter().map(Message::plain_text).collect();
    assert_eq!(texts(&mut thread, &policy), whole);
    assert!(whole.len() <= 4, "{whole:?}");
}

#[test]
fn a_cut_through_a_turn_reports_what_is_left_out_and_not_the_question_that_is_kept() {
    for (max, dropped) in [(1, vec![(0, 1, 2), (3, 7, 5)]), (2, vec![(0, 1, 2), (3, 6, 4)])] {
        let sessions = sessions();
        let mut thread = thread(&sessions, &history(max));
        let call =
            |id| Message::new(Role::Assistant, vec![Block::tool_use(id, "grep", Raw::of(&()))]);
        let said = [
            Message::user("u0"),
            Message::assistant("a1"),
            Message::user("u2"),
            call("c3"),
            Message::tool_result("c3", "r4"),
            call("c5"),
            Message::tool_result("c5", "r6"),
            Message::assistant("a7"),
        ];
        for message in said {
            thread.append(message).expect("appended");
        }
        let context = thread.context(&Policy::emacs(), &Model::new("openai", "m")).expect("built");
        let cuts: Vec<(u64, u64, u64)> = context
            .cuts
            .iter()
            .filter_map(|cut| match cut.change {
                CutEffect::Dropped { messages, .. } => Some((cut.seq, cut.through, messages)),
                _ => None,
            })
            .collect();
        assert_eq!(cuts, dropped, "{max}: {:?}", context.messages);
        let left = cuts.iter().map(|(.., messages)| messages).sum::<u64>();
        assert_eq!(left + context.messages.len() as u64, 8, "{max}: {:?}", context.messages);
    }
}
