//! Rules of appending: one order for all writers, nothing lost, duplicated or split.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Factory, RIVALS, created, header, owner, placed, race, said};
use crate::entry::NewEntry;
use crate::store::{Appended, At, StoreError};
use crate::world::World;

pub(super) fn a_stale_writer_gets_a_conflict(place: &dyn Factory) {
    let (store, session) = created(place);
    let (mine, theirs) = ([said(place, "m", "mine")], [said(place, "t", "theirs")]);
    store.append(&owner(), session.id(), At::head(0), &theirs).expect("appended");
    let error = store.append(&owner(), session.id(), At::head(0), &mine).expect_err("stale");
    assert!(matches!(error, StoreError::Conflict { expected: 0, actual: 1, .. }), "{error}");
    let error = store.append(&owner(), session.id(), At::head(2), &mine).expect_err("ahead");
    assert!(matches!(error, StoreError::Conflict { expected: 2, actual: 1, .. }), "{error}");
    assert_eq!(store.read(&owner(), session.id(), 0..9).expect("read"), placed(&theirs));
    store.append(&owner(), session.id(), At::END, &mine).expect("wherever the end is");
}

pub(super) fn a_batch_is_stored_whole_or_not_at_all(place: &dyn Factory) {
    let (store, session) = created(place);
    store.append(&owner(), session.id(), At::END, &[said(place, "a", "one")]).expect("appended");
    let batch = [said(place, "b", "two"), said(place, "a", "not one")];
    let error = store.append(&owner(), session.id(), At::END, &batch).expect_err("an id reused");
    assert!(matches!(error, StoreError::IdReused { .. }), "{error}");
    assert_eq!(store.get(&owner(), session.id()).expect("there").tally.entries, 1);
    store.append(&owner(), session.id(), At::END, &[]).expect("nothing is appended whole");
    assert_eq!(store.get(&owner(), session.id()).expect("there").tally.entries, 1);
}

pub(super) fn a_repeated_append_returns_the_first_result(place: &dyn Factory) {
    let (store, session) = created(place);
    let (one, two) = ([said(place, "a", "one")], [said(place, "b", "two"), said(place, "c", "3")]);
    let append = |at, entries: &[NewEntry]| store.append(&owner(), session.id(), at, entries);
    let done = |at, entries: &[NewEntry]| {
        let Appended { seqs, repeated, .. } = append(at, entries).expect("appended");
        (seqs, repeated)
    };
    assert_eq!(done(At::head(0), &one), (vec![0], false));
    assert_eq!(done(At::head(1), &two), (vec![1, 2], false));
    assert_eq!(done(At::head(0), &one), (vec![0], true), "ids come before the head");
    assert_eq!(done(At::END, &two), (vec![1, 2], true));
    let later = NewEntry { at: place.world().now() + Duration::from_secs(5), ..one[0].clone() };
    assert_eq!(append(At::END, &[later]).expect("repeated at another time").seqs, [0]);
    assert_eq!(store.get(&owner(), session.id()).expect("there").tally.entries, 3);
}

pub(super) fn an_id_belongs_to_one_body(place: &dyn Factory) {
    let (store, session) = created(place);
    let append = |entries: &[NewEntry]| store.append(&owner(), session.id(), At::END, entries);
    append(&[said(place, "a", "one")]).expect("appended");
    for batch in [
        vec![said(place, "a", "another")],
        vec![said(place, "a", "one"), said(place, "b", "new")],
        vec![said(place, "b", "new"), said(place, "b", "new")],
    ] {
        let error = append(&batch).expect_err("reused");
        assert!(matches!(error, StoreError::IdReused { .. }), "{error}");
    }
    assert_eq!(store.get(&owner(), session.id()).expect("there").tally.entries, 1);
    let other = store.create(&header(place), &[], &[]).expect("created");
    let ids_are_per_session = store.append(&owner(), other.id(), At::END, &[said(place, "a", "x")]);
    assert_eq!(ids_are_per_session.expect("appended").seqs, [0]);
}

pub(super) fn rivals_for_one_place_have_one_winner(place: &dyn Factory) {
    let (_, session) = created(place);
    for head in 0..20 {
        let results = race(RIVALS, |rival| {
            let entries = [said(place, &format!("{head}-{rival}"), "mine")];
            place.store().append(&owner(), session.id(), At::head(head), &entries)
        });
        let winners = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(winners, 1, "at {head}: {results:?}");
        assert!(
            results.iter().all(|result| matches!(result, Ok(_) | Err(StoreError::Conflict { .. })))
        );
    }
    let session = place.store().get(&owner(), session.id()).expect("there");
    assert_eq!(session.tally.entries, 20);
}

pub(super) fn nothing_is_lost_or_doubled_when_threads_race(place: &dyn Factory) {
    const EACH: usize = 20;
    let (store, session) = created(place);
    let id = session.id();
    let acknowledged = race(RIVALS, |rival| {
        let store = if rival % 2 == 0 { store.clone() } else { place.store() };
        let mut seqs = Vec::new();
        for index in 0..EACH {
            let entry = |part| said(place, &format!("{rival}-{index}-{part}"), "hello");
            let entries = [entry(0), entry(1)];
            let append = || store.append(&owner(), id, At::END, &entries).expect("appended").seqs;
            let first = append();
            assert_eq!(append(), first, "a retry gives the first result");
            assert_eq!(first[1], first[0] + 1, "no other entry is inside a batch");
            let end = store.get(&owner(), id).expect("there").tally.entries;
            assert_eq!(end % 2, 0, "no reader sees half a batch");
            seqs.extend(first);
        }
        assert!(seqs.is_sorted(), "the entries of a writer are in its order");
        seqs
    });
    let seqs: BTreeSet<u64> = acknowledged.iter().flatten().copied().collect();
    let all = (RIVALS * EACH * 2) as u64;
    assert_eq!(seqs, (0..all).collect());
    let read = store.read(&owner(), id, 0..all + 1).expect("read");
    assert_eq!(read.len() as u64, all);
    for (rival, seqs) in acknowledged.iter().enumerate() {
        for (index, seq) in seqs.iter().enumerate() {
            let id = format!("{rival}-{}-{}", index / 2, index % 2);
            assert_eq!(read[*seq as usize].id.as_str(), id);
        }
    }
    assert_eq!(read.last().expect("the last").tally.queries, all);
}

pub(super) fn a_retry_that_overtakes_its_first_try_is_stored_once(place: &dyn Factory) {
    let (_, session) = created(place);
    for round in 0..10 {
        let entries = [said(place, &format!("{round}"), "hello")];
        let results = race(RIVALS, |_| {
            place
                .store()
                .append(&owner(), session.id(), At::head(round), &entries)
                .expect("appended")
                .seqs
        });
        assert!(results.iter().all(|seqs| *seqs == [round]), "{results:?}");
    }
    assert_eq!(place.store().get(&owner(), session.id()).expect("there").tally.entries, 10);
}

pub(super) fn the_callback_of_an_append_gets_its_result(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let (tell, told) = std::sync::mpsc::channel();
    for index in 0..RIVALS as u64 {
        let (tell, entries) = (tell.clone(), vec![said(place, &index.to_string(), "hello")]);
        // All of them expect the same head, so all but one are refused.
        let then = Box::new(move |outcome| tell.send(outcome).expect("someone listens"));
        store.append_then(&owner(), id, At::head(0), entries, then);
    }
    drop(tell);
    let outcomes: Vec<_> = told.iter().collect();
    assert_eq!(outcomes.len(), RIVALS);
    let won: Vec<_> = outcomes.iter().flatten().map(|won| won.seqs.as_slice()).collect();
    assert_eq!(won, [[0]], "{outcomes:?}");
    assert!(outcomes.iter().all(|o| matches!(o, Ok(_) | Err(StoreError::Conflict { .. }))));
    assert_eq!(place.store().get(&owner(), id).expect("there").tally.entries, 1);
}
