//! Rules of finding sessions: by their activity, by a filter, by the first digits of an id.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Factory, created, header, key, owner, said};
use crate::entry::Origin;
use crate::name::SessionId;
use crate::session::{Header, Parent, Profile, Session};
use crate::store::{At, Bind, Change, Filter, Page};
use crate::world::World;

fn ids(page: &Page) -> Vec<SessionId> {
    page.sessions.iter().map(Session::id).collect()
}

pub(super) fn a_list_is_newest_first_and_pages_without_gaps(place: &dyn Factory) {
    let store = place.store();
    let mut expected = Vec::new();
    for index in 0..25 {
        // Some have the same time, so the order must not depend on the time alone.
        if index % 3 == 0 {
            place.world().advance(Duration::from_millis(1));
        }
        let header = header(place);
        let bind = [Bind { key: key(&format!("file:{index}")), seen: None }];
        store.create(&header, &[said(place, "a", "hello")], &bind).expect("created");
        expected.push((place.world().now(), header.id));
    }
    place.world().advance(Duration::from_secs(1));
    let revived = expected.remove(3);
    store.append(&owner(), revived.1, At::END, &[said(place, "b", "again")]).expect("appended");
    expected.push((place.world().now(), revived.1));
    expected.sort();
    expected.reverse();
    let expected: Vec<SessionId> = expected.into_iter().map(|(_, id)| id).collect();

    let everything = store.list(&owner(), &Filter::default(), None, 100).expect("listed");
    assert_eq!(ids(&everything), expected);
    assert_eq!(everything.next, None);
    for row in &everything.sessions {
        assert_eq!(*row, store.get(&owner(), row.id()).expect("there"));
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(&owner(), &Filter::default(), after, 7).expect("listed");
        assert!(page.sessions.len() <= 7);
        found.extend(ids(&page));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, expected);
}

pub(super) fn a_list_shows_what_the_filter_says(place: &dyn Factory) {
    let store = place.store();
    let make = |workspace: Option<&str>, archived| {
        let workspace = workspace.map(str::to_owned);
        let profile = Profile { workspace, ..Profile::default() };
        let header = Header { profile, archived, ..header(place) };
        store.create(&header, &[], &[]).expect("created").id()
    };
    let (a, b, c) = (make(Some("/a"), false), make(Some("/b"), false), make(Some("/a"), true));
    // One row at a time, so a filter must come before the limit.
    let list = |filter| {
        let (mut found, mut after) = (BTreeSet::new(), None);
        for _ in 0..4 {
            let page = store.list(&owner(), &filter, after, 1).expect("listed");
            found.extend(ids(&page));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(after, None, "three sessions need at most three pages");
        found
    };
    assert_eq!(list(Filter::default()), BTreeSet::from([a, b, c]));
    assert_eq!(list(Filter { archived: Some(false), ..Filter::default() }), BTreeSet::from([a, b]));
    assert_eq!(list(Filter { archived: Some(true), ..Filter::default() }), BTreeSet::from([c]));
    let of_a = Filter { workspace: Some("/a".into()), ..Filter::default() };
    assert_eq!(list(of_a.clone()), BTreeSet::from([a, c]));
    assert_eq!(list(Filter { archived: Some(false), ..of_a }), BTreeSet::from([a]));
}

pub(super) fn what_was_thrown_away_is_listed_by_itself(place: &dyn Factory) {
    let (store, stays) = created(place);
    let goes = store.create(&header(place), &[], &[]).expect("created").id();
    let continued = Parent { id: stays.id(), origin: Origin::Compact };
    let child = Header { parent: Some(continued), ..header(place) };
    let child = store.create(&child, &[], &[]).expect("created").id();
    for id in [goes, child] {
        let before = store.get(&owner(), id).expect("there");
        let away = Change::to_trash(&before, place.world().now());
        let session = store.update(&owner(), id, &away).expect("thrown away");
        assert_eq!(session.header.trash.map(|trash| *trash), away.trash.flatten());
    }
    let list = |filter: Filter| {
        // Some stores handle recent writes separately.
        let page = place.store().list(&owner(), &filter, None, 9).expect("listed");
        ids(&page).into_iter().collect::<BTreeSet<_>>()
    };
    let trashed = || Filter { trashed: true, ..Filter::default() };
    assert_eq!(list(Filter::default()), BTreeSet::from([stays.id()]));
    let newest = Filter { newest_of_chain: true, ..Filter::default() };
    assert_eq!(list(newest), BTreeSet::from([stays.id()]), "nothing continues it any more");
    assert_eq!(list(trashed()), BTreeSet::from([goes, child]));
    let back = Change { trash: Some(None), ..Change::default() };
    store.update(&owner(), goes, &back).expect("brought back");
    assert_eq!(list(Filter::default()), BTreeSet::from([stays.id(), goes]));
    assert_eq!(list(trashed()), BTreeSet::from([child]));
}

pub(super) fn a_chain_is_listed_by_its_newest_member(place: &dyn Factory) {
    let (store, first) = created(place);
    let child = |parent: SessionId, origin| {
        let header = Header { parent: Some(Parent { id: parent, origin }), ..header(place) };
        store.create(&header, &[], &[]).expect("created").id()
    };
    let second = child(first.id(), Origin::Compact);
    let third = child(second, Origin::Resume);
    let fork = child(second, Origin::Fork);
    let newest = Filter { newest_of_chain: true, ..Filter::default() };
    let list = || {
        let page = store.list(&owner(), &newest, None, 9).expect("listed");
        ids(&page).into_iter().collect::<BTreeSet<_>>()
    };
    assert_eq!(list(), BTreeSet::from([third, fork]), "a fork does not take its parent's place");
    let away = Change { archived: Some(true), ..Change::default() };
    store.update(&owner(), third, &away).expect("archived");
    assert_eq!(list(), BTreeSet::from([second, third, fork]), "nothing continues the second now");
}

pub(super) fn an_id_prefix_finds_its_sessions(place: &dyn Factory) {
    let (store, one) = created(place);
    place.world().advance(Duration::from_secs(1 << 40));
    let two = store.create(&header(place), &[], &[]).expect("created");
    let digits = |session: &Session| session.id().0.simple().to_string();
    let find = |digits: &str, limit| {
        let mut found = store.with_prefix(&owner(), digits, limit).expect("looked");
        found.sort();
        found
    };
    assert_eq!(find(&digits(&one), 9), [one.id()]);
    assert_eq!(find(&digits(&two)[..7], 9), [two.id()]);
    assert_eq!(find("", 9), [one.id(), two.id()]);
    assert_eq!(find("", 1).len(), 1);
    assert_eq!(find("ffffff", 9), []);
}
