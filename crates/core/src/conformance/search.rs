//! Rules of search: all that was acknowledged is found, by words, and by its owner alone.

use std::collections::BTreeSet;

use super::{Factory, created, entry, owner, said};
use crate::entry::Body;
use crate::message::Message;
use crate::name::Owner;
use crate::store::{At, Change, StoreError};

pub(super) fn search_finds_all_that_was_acknowledged(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let tool = r#"{"role":"tool","content":[{"type":"tool_result","tool_use_id":"c","content":"the capybara file"}]}"#;
    let entries = [
        said(place, "a", "where is the Zebra?"),
        entry(place, "b", Body::Message(Message::assistant("the zebra sleeps"))),
        entry(place, "c", Body::Message(serde_json::from_str(tool).expect("a message"))),
    ];
    store.append(&owner(), id, At::END, &entries).expect("appended");
    let behind = store.behind().expect("told");
    assert!(matches!(behind, None | Some(0 | 3)), "three entries at the most: {behind:?}");
    let places = |query: &str| {
        let hits = place.store().search(&owner(), query, 0, 99).expect("searched");
        assert!(hits.iter().all(|hit| hit.place.session == id));
        hits.iter().map(|hit| hit.place.seq).collect::<BTreeSet<_>>()
    };
    assert_eq!(places("zebra"), BTreeSet::from([0, 1]));
    assert_eq!(places("ZEBRA sleeps"), BTreeSet::from([1]));
    assert_eq!(places("capybara"), BTreeSet::from([2]));
    assert_eq!(places("walrus"), BTreeSet::new());
    assert_eq!(places("zeb"), BTreeSet::new(), "a part of a word is another word");
    assert_eq!(places("\"zebra OR ( NEAR"), BTreeSet::new(), "words are words, not operators");
    store.append(&owner(), id, At::END, &[said(place, "d", "a late zebra")]).expect("appended");
    assert_eq!(places("zebra"), BTreeSet::from([0, 1, 3]));
    let hits = store.search(&owner(), "capybara", 0, 9).expect("searched");
    assert!(hits[0].snippet.contains("the capybara file"), "{hits:?}");
    assert_eq!(store.search(&owner(), "zebra", 0, 2).expect("searched").len(), 2);
    let behind = store.behind().expect("told");
    assert!(behind.is_none_or(|behind| behind == 0), "nothing is left to be seen: {behind:?}");
    assert_eq!(store.search(&owner(), "zebra", 2, 2).expect("searched").len(), 1);
    let away = Change { archived: Some(true), ..Change::default() };
    store.update(&owner(), id, &away).expect("archived");
    assert_eq!(places("zebra"), BTreeSet::from([0, 1, 3]), "what is put away is still found");
}

pub(super) fn search_keeps_to_one_owner_and_needs_a_word(place: &dyn Factory) {
    let (store, session) = created(place);
    store.append(&owner(), session.id(), At::END, &[said(place, "a", "zebra")]).expect("appended");
    let stranger = Owner::new("stranger").expect("an owner");
    assert_eq!(store.search(&stranger, "zebra", 0, 9).expect("searched"), []);
    for query in ["", "  ", "\"*()-", &"x".repeat(5_000)] {
        let error = store.search(&owner(), query, 0, 9).expect_err("no words");
        assert!(matches!(error, StoreError::BadQuery { .. }), "{error}");
    }
}
