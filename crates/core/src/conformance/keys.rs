//! Rules of keys: each points at one session, and moves only if the caller knows where it pointed.

use super::{Factory, RIVALS, created, header, key, owner, race};
use crate::message::Message;
use crate::name::SessionId;
use crate::session::{Header, Session};
use crate::sessions::{New, Sessions};
use crate::store::{Bind, Filter, StoreError};
use crate::world::World;

pub(super) fn a_key_moves_only_from_where_it_was_seen(place: &dyn Factory) {
    let (store, one) = created(place);
    let two = store.create(&header(place), &[], &[]).expect("created");
    let file = key("file:Notes/ünï.md");
    let bind = |seen, to| store.bind(&owner(), &Bind { key: file.clone(), seen }, to);
    bind(None, Some(one.id())).expect("a free key");
    let error = bind(None, Some(two.id())).expect_err("not free");
    assert!(matches!(error, StoreError::KeyMoved { actual: Some(id), .. } if id == one.id()));
    bind(Some(one.id()), Some(two.id())).expect("moved");
    assert_eq!(store.resolve(&owner(), &file).expect("resolved"), Some(two.id()));
    assert_eq!(store.get(&owner(), two.id()).expect("there").keys, std::slice::from_ref(&file));
    assert_eq!(store.get(&owner(), one.id()).expect("there").keys, []);
    bind(Some(two.id()), None).expect("let go");
    assert_eq!(store.resolve(&owner(), &file).expect("resolved"), None);

    for text in ["file:b", "file:B", "file:a"] {
        let free = Bind { key: key(text), seen: None };
        store.bind(&owner(), &free, Some(one.id())).expect("a key of its own");
    }
    let sorted = [key("file:B"), key("file:a"), key("file:b")];
    assert_eq!(store.get(&owner(), one.id()).expect("there").keys, sorted);
}

pub(super) fn rivals_for_one_key_have_one_winner(place: &dyn Factory) {
    for round in 0..10 {
        let bind = [Bind { key: key(&format!("file:{round}")), seen: None }];
        let headers: Vec<Header> = (0..RIVALS).map(|_| header(place)).collect();
        let results = race(RIVALS, |rival| place.store().create(&headers[rival], &[], &bind));
        let winners: Vec<&Session> = results.iter().filter_map(|r| r.as_ref().ok()).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        let found = place.store().resolve(&owner(), &bind[0].key).expect("resolved");
        assert_eq!(found, Some(winners[0].id()));
        let page = place.store().list(&owner(), &Filter::default(), None, 100).expect("listed");
        assert_eq!(page.sessions.len(), round + 1, "a loser's session is not there");
    }
}

pub(super) fn rivals_for_one_key_move_it_once(place: &dyn Factory) {
    let (store, first) = created(place);
    let sessions: Vec<SessionId> = (0..RIVALS)
        .map(|_| store.create(&header(place), &[], &[]).expect("created").id())
        .collect();
    let mut bind = Bind { key: key("file:a"), seen: None };
    store.bind(&owner(), &bind, Some(first.id())).expect("bound");
    for round in 0..10 {
        bind.seen = store.resolve(&owner(), &bind.key).expect("resolved");
        let results = race(RIVALS, |rival| {
            // Moving it to where it already is does nothing.
            let to = if bind.seen == Some(sessions[rival]) { first.id() } else { sessions[rival] };
            place.store().bind(&owner(), &bind, Some(to)).map(|()| to)
        });
        let winners: Vec<SessionId> = results.iter().flatten().copied().collect();
        assert_eq!(winners.len(), 1, "round {round}: {results:?}");
        let found = store.resolve(&owner(), &bind.key).expect("resolved");
        assert_eq!(found, Some(winners[0]));
    }
}

pub(super) fn a_key_points_at_sessions_that_exist(place: &dyn Factory) {
    let (store, _) = created(place);
    let nobody = SessionId(place.world().uuid());
    let bind = Bind { key: key("file:a"), seen: None };
    let error = store.bind(&owner(), &bind, Some(nobody)).expect_err("no such session");
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    assert_eq!(store.resolve(&owner(), &bind.key).expect("resolved"), None);
}

pub(super) fn a_caller_that_loses_the_race_for_a_key_joins_the_session_that_won(
    place: &dyn Factory,
) {
    for round in 0..20 {
        let key = key(&format!("file:{round}"));
        let opened = race(RIVALS, |rival| {
            let sessions = Sessions::new(place.store(), owner(), place.world());
            let said = vec![Message::user(format!("from {rival}")).into()];
            let (id, stored) =
                sessions.open_with(&key, &New::default(), said.clone()).expect("opened");
            if stored.is_none() {
                sessions.append(id, said).expect("appended");
            }
            id
        });
        assert!(opened.iter().all(|id| *id == opened[0]), "one key, one session");
        let store = place.store();
        assert_eq!(store.resolve(&owner(), &key).expect("resolved"), Some(opened[0]));
        let session = store.get(&owner(), opened[0]).expect("there");
        assert_eq!(session.tally.queries, RIVALS as u64, "nothing is lost or doubled");
    }
}
