//! Rules of a session as a whole: creating it, its header, its name, its owner, and deleting it.

use std::time::Duration;

use super::{Factory, RIVALS, created, header, key, owner, placed, query, race, said};
use crate::entry::Origin;
use crate::name::{Name, Owner, SessionId};
use crate::session::{Header, Parent, Profile, ProfileChange, Session, SessionKind, Trash};
use crate::store::{At, Bind, Change, Filter, Page, StoreError};
use crate::world::World;

pub(super) fn a_header_is_kept_whole(place: &dyn Factory) {
    let (store, parent) = created(place);
    place.world().advance(Duration::from_millis(789));
    let header = Header {
        name: Name::new("plan").expect("a name"),
        profile: Profile {
            title: Some("a plan".into()),
            description: Some("what it is about".into()),
            agent: Some("agent".into()),
            agent_path: Some("/agents/agent.md".into()),
            provider: Some("provider".into()),
            model: Some("model".into()),
            workspace: Some("/a b/ü".into()),
            max_history: Some(50),
        },
        parent: Some(Parent { id: parent.id(), origin: Origin::Fork }),
        archived: true,
        imported: Some("codex".into()),
        kind: SessionKind::Other("of a newer version".into()),
        source: Some("codex".into()),
        trash: Some(Box::new(Trash {
            at: place.world().now(),
            name: Some(Name::new("plan-before").expect("a name")),
            keys: vec![key("file:before")],
        })),
        ..header(place)
    };
    let session = store.create(&header, &[], &[]).expect("created");
    assert_eq!(session.header, header);
    assert_eq!(place.store().get(&owner(), header.id).expect("there"), session);
}

pub(super) fn a_session_is_created_whole_or_not_at_all(place: &dyn Factory) {
    let (store, other) = created(place);
    let taken = Bind { key: key("file:taken"), seen: None };
    store.bind(&owner(), &taken, Some(other.id())).expect("bound");
    let binds = [
        Bind { seen: Some(other.id()), ..taken.clone() },
        Bind { key: key("file:b"), seen: Some(other.id()) },
    ];
    let error = store.create(&header(place), &[], &binds).expect_err("the second moved");
    assert!(matches!(error, StoreError::KeyMoved { actual: None, .. }), "{error}");
    let still = store.resolve(&owner(), &taken.key).expect("resolved");
    assert_eq!(still, Some(other.id()), "the first key stays where it was");
    let child = header(place);
    let moved = Bind { key: key("file:a"), seen: Some(other.id()) };
    let error = store.create(&child, &[said(place, "a", "hello")], &[moved]).expect_err("moved");
    assert!(matches!(error, StoreError::KeyMoved { actual: None, .. }), "{error}");
    let twice = [said(place, "a", "one"), said(place, "a", "two")];
    let bind = Bind { key: key("file:a"), seen: None };
    let error =
        store.create(&child, &twice, std::slice::from_ref(&bind)).expect_err("one id twice");
    assert!(matches!(error, StoreError::IdReused { .. }), "{error}");
    assert!(matches!(store.get(&owner(), child.id), Err(StoreError::NotFound { .. })));
    assert_eq!(store.resolve(&owner(), &key("file:a")).expect("resolved"), None);

    let entries = [said(place, "a", "hello")];
    let session = store.create(&child, &entries, &[bind]).expect("created");
    assert_eq!(session.header, child);
    assert_eq!(session.keys, [key("file:a")]);
    assert_eq!(session.first_message, "hello");
    assert_eq!(store.read(&owner(), child.id, 0..9).expect("read"), placed(&entries));
}

pub(super) fn creating_the_same_session_again_changes_nothing(place: &dyn Factory) {
    let store = place.store();
    let header = header(place);
    let entries = [said(place, "a", "hello")];
    let bind = [Bind { key: key("file:a"), seen: None }];
    let first = store.create(&header, &entries, &bind).expect("created");
    assert_eq!(store.create(&header, &entries, &bind).expect("the same"), first);
    let more = [said(place, "b", "and more")];
    store.append(&owner(), header.id, At::END, &more).expect("appended");
    let again = store.create(&header, &entries, &bind).expect("the same, grown");
    assert_eq!(again.tally.entries, 2);
    let error = store.create(&header, &[said(place, "a", "bye")], &bind).expect_err("another");
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
}

pub(super) fn a_name_is_taken_once_per_owner(place: &dyn Factory) {
    let store = place.store();
    let named = |owner: Owner| {
        let mut header = Header { owner, ..header(place) };
        header.name = Name::new("plan").expect("a name");
        header
    };
    let first = named(owner());
    store.create(&first, &[], &[]).expect("created");
    let error = store.create(&named(owner()), &[], &[]).expect_err("taken");
    assert!(matches!(error, StoreError::NameTaken { .. }), "{error}");
    let stranger = Owner::new("stranger").expect("an owner");
    store.create(&named(stranger), &[], &[]).expect("another owner's name is another name");
    assert_eq!(store.named(&owner(), first.name.folded()).expect("found"), Some(first.id));
    let free = Name::new("free").expect("a name");
    assert_eq!(store.named(&owner(), free.as_str()).expect("looked"), None);
}

pub(super) fn a_name_is_kept_as_it_was_given_and_taken_in_every_spelling(place: &dyn Factory) {
    let store = place.store();
    let name = |text: &str| Name::new(text).expect("a name");
    let named = |text: &str| Header { name: name(text), ..header(place) };
    let rename = |id, text: &str| {
        store.update(&owner(), id, &Change { name: Some(name(text)), ..Change::default() })
    };
    let shown = |id| place.store().get(&owner(), id).expect("there").header.name.to_string();
    let taken = |result: Result<Session, StoreError>| {
        assert!(matches!(result, Err(StoreError::NameTaken { .. })), "{result:?}");
    };
    let first = store.create(&named("Café für Ärzte"), &[], &[]).expect("created").id();
    let other = store.create(&named("日本語"), &[], &[]).expect("created").id();
    assert_eq!((shown(first), shown(other)), ("Café für Ärzte".into(), "日本語".into()));
    for spelling in ["Café für Ärzte", "café-für-ärzte", "CAFÉ FÜR ÄRZTE!"] {
        taken(store.create(&named(spelling), &[], &[]));
        taken(rename(other, spelling));
    }
    let found = store.named(&owner(), name("CAFÉ für ärzte").folded()).expect("looked");
    assert_eq!(found, Some(first));
    rename(first, "CAFÉ für Ärzte!").expect("it is its own name");
    assert_eq!(shown(first), "CAFÉ für Ärzte!");
    let listed = store.list(&owner(), &Filter::default(), None, 9).expect("a page").sessions;
    let mut listed: Vec<String> = listed.iter().map(|one| one.header.name.to_string()).collect();
    listed.sort();
    assert_eq!(listed, ["CAFÉ für Ärzte!", "日本語"]);
}

pub(super) fn rivals_for_one_name_have_one_winner(place: &dyn Factory) {
    let store = place.store();
    let create = |_| store.create(&header(place), &[], &[]).expect("created").id();
    let sessions: Vec<SessionId> = (0..RIVALS).map(create).collect();
    for round in 0..10 {
        let name = Name::new(&format!("plan-{round}")).expect("a name");
        let named = |_| Header { name: name.clone(), ..header(place) };
        let headers: Vec<Header> = (0..RIVALS).map(named).collect();
        let change = Change { name: Some(name.clone()), ..Change::default() };
        let results = race(RIVALS, |rival| match rival % 2 {
            0 => place.store().create(&headers[rival], &[], &[]),
            _ => place.store().update(&owner(), sessions[rival], &change),
        });
        let winners: Vec<SessionId> = results.iter().flatten().map(Session::id).collect();
        assert_eq!(winners.len(), 1, "round {round}: {results:?}");
        assert!(
            results
                .iter()
                .all(|result| matches!(result, Ok(_) | Err(StoreError::NameTaken { .. })))
        );
        assert_eq!(store.named(&owner(), name.folded()).expect("looked"), Some(winners[0]));
        for header in &headers {
            let there = store.get(&owner(), header.id).is_ok();
            assert_eq!(there, header.id == winners[0], "a loser's session is not there");
        }
    }
}

pub(super) fn an_update_changes_what_it_names(place: &dyn Factory) {
    let (store, session) = created(place);
    place.world().advance(Duration::from_secs(1));
    let name = Name::new("plan").expect("a name");
    let change = Change {
        name: Some(name.clone()),
        profile: ProfileChange {
            description: Some(Some("the plan".into())),
            max_history: Some(Some(50)),
            ..ProfileChange::default()
        },
        ..Change::default()
    };
    let updated = store.update(&owner(), session.id(), &change).expect("updated");
    let profile = Profile {
        description: Some("the plan".into()),
        max_history: Some(50),
        ..session.header.profile.clone()
    };
    let expected = Header { name: name.clone(), profile, ..session.header.clone() };
    let expected_session = Session { header: expected.clone(), ..session.clone() };
    assert_eq!(updated, expected_session, "a change of the header is not activity");
    assert_eq!(store.named(&owner(), name.folded()).expect("looked"), Some(session.id()));
    assert_eq!(store.named(&owner(), session.header.name.folded()).expect("looked"), None);
    assert_eq!(place.store().get(&owner(), session.id()).expect("there"), updated);
    let empty = ProfileChange { description: Some(None), ..ProfileChange::default() };
    let updated = store.update(&owner(), session.id(), &empty.into()).expect("updated");
    let profile = Profile { description: None, ..expected.profile.clone() };
    assert_eq!(updated.header, Header { profile, ..expected });

    let other = store.create(&header(place), &[], &[]).expect("created");
    let error = store
        .update(&owner(), other.id(), &Change { name: Some(name), ..Change::default() })
        .expect_err("taken");
    assert!(matches!(error, StoreError::NameTaken { .. }), "{error}");
}

pub(super) fn concurrent_updates_of_different_fields_are_all_kept(place: &dyn Factory) {
    let (store, session) = created(place);
    for round in 0..10 {
        let value = || Some(Some(format!("of round {round}")));
        let changes = [
            ProfileChange { description: value(), ..ProfileChange::default() }.into(),
            ProfileChange { agent: value(), ..ProfileChange::default() }.into(),
            ProfileChange { agent_path: value(), ..ProfileChange::default() }.into(),
            ProfileChange { provider: value(), ..ProfileChange::default() }.into(),
            ProfileChange { model: value(), ..ProfileChange::default() }.into(),
            ProfileChange { workspace: value(), ..ProfileChange::default() }.into(),
            ProfileChange { max_history: Some(Some(round)), ..ProfileChange::default() }.into(),
            Change { archived: Some(round % 2 == 0), ..Change::default() },
        ];
        race(changes.len(), |rival| {
            place.store().update(&owner(), session.id(), &changes[rival]).expect("updated");
        });
        let mut expected = session.header.clone();
        changes.iter().for_each(|change| change.apply(&mut expected));
        assert_eq!(store.get(&owner(), session.id()).expect("there").header, expected);
    }
}

pub(super) fn a_deleted_session_is_gone_with_its_keys(place: &dyn Factory) {
    let (store, neighbour) = created(place);
    let beside = Bind { key: key("file:b"), seen: None };
    store.bind(&owner(), &beside, Some(neighbour.id())).expect("bound");
    store.append(&owner(), neighbour.id(), At::END, &[said(place, "a", "hi")]).expect("appended");
    let neighbour = store.get(&owner(), neighbour.id()).expect("there");
    let header = header(place);
    let bind = Bind { key: key("file:a"), seen: None };
    let entries = [said(place, "a", "zebra")];
    store.create(&header, &entries, std::slice::from_ref(&bind)).expect("created");
    assert_eq!(store.search(&owner(), &query("zebra"), 0, 9).expect("searched").len(), 1);
    store.delete(&owner(), header.id, None).expect("deleted");
    assert!(matches!(store.get(&owner(), header.id), Err(StoreError::NotFound { .. })));
    assert_eq!(store.resolve(&owner(), &bind.key).expect("resolved"), None);
    let page = store.list(&owner(), &Filter::default(), None, 9).expect("listed");
    assert_eq!(page.sessions, [neighbour], "other owners lost nothing");
    assert_eq!(store.search(&owner(), &query("zebra"), 0, 9).expect("searched"), []);
    assert_eq!(store.named(&owner(), header.name.folded()).expect("looked"), None);
    let error = store.delete(&owner(), header.id, None).expect_err("gone");
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    let again = store.create(&header, &[], &[]).expect("an id that is free again");
    assert_eq!(again, Session::new(header.clone()));
    assert_eq!(store.read(&owner(), header.id, 0..9).expect("read"), []);
}

pub(super) fn nobody_sees_another_owner(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    store.append(&owner(), id, At::END, &[said(place, "a", "secret")]).expect("appended");
    let bind = Bind { key: key("file:a"), seen: None };
    store.bind(&owner(), &bind, Some(id)).expect("bound");
    let stranger = Owner::new("stranger").expect("an owner");
    let not_found =
        |error: StoreError| assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    not_found(store.get(&stranger, id).expect_err("hidden"));
    not_found(store.read(&stranger, id, 0..9).expect_err("hidden"));
    not_found(store.append(&stranger, id, At::END, &[said(place, "b", "x")]).expect_err("hidden"));
    not_found(store.update(&stranger, id, &Change::default()).expect_err("hidden"));
    not_found(store.lease(&stranger, id, "s", Duration::from_secs(9)).expect_err("hidden"));
    not_found(store.delete(&stranger, id, None).expect_err("hidden"));
    not_found(store.bind(&stranger, &bind, Some(id)).expect_err("hidden"));
    assert_eq!(store.resolve(&stranger, &bind.key).expect("resolved"), None);
    assert_eq!(store.named(&stranger, session.header.name.folded()).expect("looked"), None);
    let digits = id.0.simple().to_string();
    assert_eq!(store.with_prefix(&stranger, &digits, 9).expect("looked"), []);
    let page = store.list(&stranger, &Filter::default(), None, 9).expect("listed");
    assert_eq!(page, Page::default());
    assert_eq!(store.get(&owner(), id).expect("there").tally.entries, 1);

    let theirs = Header { owner: stranger.clone(), ..header(place) };
    store.create(&theirs, &[], std::slice::from_ref(&bind)).expect("created");
    assert_eq!(store.resolve(&stranger, &bind.key).expect("resolved"), Some(theirs.id));
    assert_eq!(store.resolve(&owner(), &bind.key).expect("resolved"), Some(id));
}
