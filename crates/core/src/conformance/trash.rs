//! Rules of the trash: a session in it is not found, its name and keys can be reused, and it can be
//! restored completely.

use std::time::Duration;

use super::{Factory, created, entry, header, key, owner, query, said};
use crate::entry::Body;
use crate::message::Message;
use crate::name::{Key, Name, SessionId};
use crate::session::{Header, Session};
use crate::sessions::{Error, New, Sessions, Undone};
use crate::store::{At, Backend, Bind, Change, Filter, FindingState, StoreError};
use crate::world::World;

fn name(text: &str) -> Name {
    Name::new(text).expect("a valid name")
}

/// Moves a session to the trash, as a verb does.
fn throw_away(place: &dyn Factory, session: &Session) -> Change {
    Change::to_trash(session, place.world().now())
}

fn back(session: &Session) -> Change {
    let name = Some(session.header.name.clone());
    Change { name, trash: Some(None), ..Change::default() }
}

fn not_found<T: std::fmt::Debug>(outcome: Result<T, StoreError>) {
    assert!(matches!(outcome, Err(StoreError::NotFound { .. })), "{outcome:?}");
}

/// A session with a name, a key, an attachment and a message.
fn full(place: &dyn Factory) -> (std::sync::Arc<dyn Backend>, Session, Bind) {
    let store = place.store();
    let header = Header { name: name("plan"), ..header(place) };
    let bind = Bind { key: key("file:a"), seen: None };
    let entries = [said(place, "a", "zebra")];
    store.create(&header, &entries, std::slice::from_ref(&bind)).expect("created");
    store.put_blob(&owner(), header.id, b"bytes").expect("kept");
    let session = store.get(&owner(), header.id).expect("there");
    (store, session, bind)
}

pub(super) fn a_session_in_the_trash_is_not_found(place: &dyn Factory) {
    let (store, session, bind) = full(place);
    let id = session.id();
    let blob = store.put_blob(&owner(), id, b"bytes").expect("kept");
    assert_eq!(store.search(&owner(), &query("zebra"), 0, 9).expect("searched").len(), 1);
    store.update(&owner(), id, &throw_away(place, &session)).expect("thrown away");
    // Some stores cache what they looked up last.
    for store in [store, place.store()] {
        not_found(store.read(&owner(), id, 0..9));
        not_found(store.append(&owner(), id, At::END, &[said(place, "b", "late")]));
        not_found(store.append(&owner(), id, At::END, &[said(place, "a", "zebra")]));
        not_found(store.append(&owner(), id, At::head(1), &[]));
        not_found(store.lease(&owner(), id, "someone", Duration::from_secs(9)));
        not_found(store.put_blob(&owner(), id, b"more"));
        not_found(store.blob(&owner(), id, blob));
        not_found(store.blobs(&owner(), id));
        let change = Change { archived: Some(true), ..Change::default() };
        not_found(store.update(&owner(), id, &change));
        let other = Bind { key: key("file:b"), seen: None };
        not_found(store.bind(&owner(), &other, Some(id)));
        assert_eq!(store.resolve(&owner(), &bind.key).expect("resolved"), None);
        for text in ["plan", &*Name::in_trash(id).to_string()] {
            assert_eq!(store.named(&owner(), text).expect("looked"), None, "{text}");
        }
        let digits = id.0.simple().to_string();
        assert_eq!(store.with_prefix(&owner(), &digits, 9).expect("looked"), []);
        assert_eq!(store.search(&owner(), &query("zebra"), 0, 9).expect("searched"), []);
        assert_eq!(store.list(&owner(), &Filter::default(), None, 9).expect("listed").sessions, []);
        let sessions = Sessions::new(store, owner(), place.world());
        let outcome = sessions.get(id);
        assert!(matches!(outcome, Err(Error::Store(StoreError::NotFound { .. }))), "{outcome:?}");
    }
}

pub(super) fn what_comes_back_from_the_trash_is_whole(place: &dyn Factory) {
    let (store, session, bind) = full(place);
    let id = session.id();
    store.search(&owner(), &query("zebra"), 0, 9).expect("searched");
    let away = store.update(&owner(), id, &throw_away(place, &session)).expect("thrown away");
    assert_eq!(away.keys, []);
    assert_eq!(away.tally, session.tally);
    assert_eq!(store.get(&owner(), id).expect("seen by who looks after it"), away);
    assert_eq!(store.update(&owner(), id, &back(&session)).expect("brought back"), session);
    for store in [store, place.store()] {
        assert_eq!(store.get(&owner(), id).expect("there"), session);
        assert_eq!(store.resolve(&owner(), &bind.key).expect("resolved"), Some(id));
        assert_eq!(store.named(&owner(), "plan").expect("looked"), Some(id));
        assert_eq!(store.search(&owner(), &query("zebra"), 0, 9).expect("searched").len(), 1);
        assert_eq!(store.blobs(&owner(), id).expect("listed").len(), 1);
        assert_eq!(store.read(&owner(), id, 0..9).expect("read").len(), 1);
    }
    let store = place.store();
    store.append(&owner(), id, At::head(1), &[said(place, "b", "quagga")]).expect("appended");
    assert_eq!(store.search(&owner(), &query("quagga"), 0, 9).expect("searched").len(), 1);
}

pub(super) fn names_and_keys_in_the_trash_are_free(place: &dyn Factory) {
    let (store, session, bind) = full(place);
    let second = Bind { key: key("file:b"), seen: None };
    store.bind(&owner(), &second, Some(session.id())).expect("bound");
    let session = store.get(&owner(), session.id()).expect("there");
    store.update(&owner(), session.id(), &throw_away(place, &session)).expect("thrown away");
    let rival = Header { name: name("plan"), ..header(place) };
    store.create(&rival, &[], std::slice::from_ref(&bind)).expect("name and key are free");
    let error = store.update(&owner(), session.id(), &back(&session)).expect_err("taken by now");
    assert!(matches!(error, StoreError::NameTaken { .. }), "{error}");
    let still = store.list(&owner(), &Filter { trashed: true, ..Filter::default() }, None, 9);
    assert_eq!(still.expect("listed").sessions.len(), 1, "a refused change changes nothing");
    let change = Change { name: Some(name("plan-2")), ..back(&session) };
    let session = store.update(&owner(), session.id(), &change).expect("brought back");
    assert_eq!(session.keys, [key("file:b")], "the other one is someone else's by now");
    assert_eq!(store.resolve(&owner(), &bind.key).expect("resolved"), Some(rival.id));
}

pub(super) fn a_session_in_a_turn_does_not_go_to_the_trash(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    store.lease(&owner(), id, "someone", Duration::from_secs(60)).expect("taken");
    let error = store.update(&owner(), id, &throw_away(place, &session)).expect_err("in a turn");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    assert_eq!(store.get(&owner(), id).expect("there").header.trash, None);
    store.lease(&owner(), id, "someone", Duration::ZERO).expect("given back");
    store.update(&owner(), id, &throw_away(place, &session)).expect("no turn is running");
}

pub(super) fn a_session_restored_meanwhile_is_not_erased(place: &dyn Factory) {
    let (store, session, _) = full(place);
    let id = session.id();
    let at = |session: &Session| session.header.trash.as_ref().map(|trash| trash.at);
    let first = store.update(&owner(), id, &throw_away(place, &session)).expect("thrown away");
    store.update(&owner(), id, &back(&session)).expect("brought back");
    not_found(store.delete(&owner(), id, at(&first)));
    assert_eq!(store.get(&owner(), id).expect("there").tally, session.tally);
    place.world().advance(Duration::from_secs(1));
    let second = store.update(&owner(), id, &throw_away(place, &session)).expect("thrown away");
    not_found(store.delete(&owner(), id, at(&first)));
    store.delete(&owner(), id, at(&second)).expect("erased");
    not_found(store.get(&owner(), id));
}

pub(super) fn the_trash_is_emptied_of_what_is_old(place: &dyn Factory) {
    let sessions = Sessions::new(place.store(), owner(), place.world());
    let make = |text: &str, key: Option<&Key>| {
        let new = New { name: Some(name(text)), ..New::default() };
        let said = vec![Message::user(format!("{text} zebra")).into()];
        sessions.create_with(&new, key, said).expect("created").0.id()
    };
    let day = Duration::from_hours(24);
    let (old, young, stays) =
        (make("old", None), make("young", Some(&key("file:a"))), make("stays", None));
    sessions.trash(old).expect("deleted");
    place.world().advance(20 * day);
    sessions.trash(young).expect("deleted");
    let names = |sessions: &Sessions| -> Vec<String> {
        let all = sessions.trashed().expect("listed");
        all.iter().map(|session| session.header.name.to_string()).collect()
    };
    assert_eq!(names(&sessions), ["young", "old"], "the latest first, by the names they had");
    assert_eq!(sessions.empty_old_trash().expect("emptied"), 0);
    place.world().advance(11 * day);
    assert_eq!(sessions.empty_old_trash().expect("emptied"), 1);
    assert_eq!(names(&sessions), ["young"]);
    let (checked, mut findings) = sessions.doctor(false, |_, _| {}).expect("checked");
    // The search index may not be up to date, and catches up.
    findings.retain(|finding| finding.state != FindingState::Noted);
    assert_eq!((checked, findings), (2, vec![]), "a session in the trash is checked, and sound");
    assert_eq!(sessions.undo(young).expect("undone"), Undone::Delete { session: young });
    assert_eq!(sessions.resolve(&key("file:a")).expect("resolved"), Some(young));
    sessions.trash(young).expect("deleted");
    assert_eq!(sessions.empty_trash(None).expect("emptied").done, 1);
    assert_eq!(names(&sessions), [""; 0]);
    for id in [old, young] {
        not_found(place.store().get(&owner(), id));
    }
    assert_eq!(sessions.search("zebra", 0, 9).expect("searched").len(), 1);
    assert_eq!(sessions.get(stays).expect("there").tally.messages, 1);
}

pub(super) fn a_chain_whose_end_is_in_the_trash_ends_before_it(place: &dyn Factory) {
    let (store, first) = created(place);
    let note = Body::Message(Message::user("hi"));
    store.append(&owner(), first.id(), At::END, &[entry(place, "a", note)]).expect("appended");
    let parent = crate::session::Parent { id: first.id(), origin: crate::entry::Origin::Compact };
    let child = Header { parent: Some(parent), ..header(place) };
    let child = store.create(&child, &[], &[]).expect("created");
    let newest = Filter { newest_of_chain: true, ..Filter::default() };
    let list = || -> Vec<SessionId> {
        let page = place.store().list(&owner(), &newest, None, 9).expect("listed");
        page.sessions.iter().map(Session::id).collect()
    };
    assert_eq!(list(), [child.id()]);
    store.update(&owner(), child.id(), &throw_away(place, &child)).expect("thrown away");
    assert_eq!(list(), [first.id()]);
}
