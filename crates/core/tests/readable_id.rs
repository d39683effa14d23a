//! A session's readable id: made once, unique, never moved.

use std::sync::Arc;
use std::time::Duration;

use rethread_core::sessions::{Error, Fork};
use rethread_core::{
    Fixed, Key, MemoryStore, Name, New, Owner, Profile, Session, Sessions, readable_id,
};

fn sessions() -> (Sessions, Arc<Fixed>) {
    let world = Arc::new(Fixed::default());
    let store = Arc::new(MemoryStore::new(world.clone()));
    (Sessions::new(store, Owner::local(), world.clone()), world)
}

fn by(agent: &str) -> New {
    let profile = Profile { agent: Some(agent.into()), ..Profile::default() };
    New { profile, ..New::default() }
}

fn id_of(session: &Session) -> &str {
    session.readable_id.as_deref().expect("it has one")
}

#[test]
fn sessions_of_one_second_are_numbered_by_every_process() {
    let (here, world) = sessions();
    // Another process does not know which ids were made here.
    let there = here.clone();
    let made = |sessions: &Sessions| {
        sessions.create(&by("Simple Sally"), None).expect("created").readable_id
    };
    let first = "simple_sally_20250101_000000";
    assert_eq!(made(&here).as_deref(), Some(first));
    assert_eq!(made(&here), Some(format!("{first}_2")));
    let new = New { readable_id: Some(first.into()), ..by("Simple Sally") };
    let taken = there.create(&new, None).expect("created");
    assert_eq!(id_of(&taken), format!("{first}_3"));
    world.advance(Duration::from_secs(1));
    assert_eq!(made(&here).as_deref(), Some("simple_sally_20250101_000001"));
}

#[test]
fn a_readable_id_survives_renaming_and_selects_its_session() {
    let (sessions, _) = sessions();
    let session = sessions.create(&by("Sally"), None).expect("created");
    let id = session.id();
    sessions.rename(id, &Name::new("auth").expect("valid")).expect("renamed");
    let session = sessions.get(id).expect("there");
    assert_eq!(id_of(&session), "sally_20250101_000000");
    for selector in ["sally_20250101_000000", "Sally_20250101_000000", "auth"] {
        assert_eq!(sessions.select(selector).expect("named"), id, "{selector}");
    }
    let other = sessions.create(&by("Sally"), None).expect("created").id();
    sessions.rename(other, &Name::new("sally_20250101_000000").expect("valid")).expect("renamed");
    assert_eq!(sessions.select("sally_20250101_000000").expect("named"), id, "an id before a name");
}

#[test]
fn it_is_not_a_key_that_anything_moves() {
    let (sessions, world) = sessions();
    let file = Key::new("file:a.md").expect("valid");
    let session = sessions.create(&by("Sally"), Some(&file)).expect("created");
    assert_eq!(session.keys, std::slice::from_ref(&file), "nobody sees it among the keys");
    world.advance(Duration::from_secs(5));
    let fork = Fork { take_keys: true, ..Fork::default() };
    let fork = sessions.fork(session.id(), &fork).expect("forked");
    assert_eq!((id_of(&fork), &fork.keys), ("sally_20250101_000005", &vec![file]));
    let key = readable_id::key(id_of(&session)).expect("valid");
    for refused in [
        sessions.bind(&key, fork.id()).expect_err("refused"),
        sessions.unbind(&key).expect_err("refused"),
        sessions.open(&key, &New::default()).err().expect("refused"),
        sessions.create(&New::default(), Some(&key)).expect_err("refused"),
    ] {
        assert!(matches!(refused, Error::Name(_)), "{refused}");
    }
    assert_eq!(sessions.select(id_of(&session)).expect("named"), session.id());
}

#[test]
fn it_goes_with_a_session_that_is_copied() {
    let (from, _) = sessions();
    let (to, _) = sessions();
    let session = from.create(&by("Sally"), None).expect("created");
    from.copy_to(session.id(), &to, |_| {}).expect("copied");
    let copy = to.get(session.id()).expect("there");
    assert_eq!((copy.readable_id, copy.keys), (session.readable_id, Vec::new()));
}
