//! Rules of leases: one holder at a time, and a fence that refuses a late holder.

use std::time::Duration;

use super::{Factory, RIVALS, created, owner, race, said};
use crate::limits::LEASE_MAX;
use crate::store::{Appended, At, LeaseChange, StoreError};
use crate::world::World;

const TTL: Duration = Duration::from_secs(30);

/// An append that takes the lease.
fn taking(holder: &str, head: u64) -> At {
    let lease = LeaseChange::Take { holder: holder.into(), ttl: TTL };
    At { lease, ..At::head(head) }
}

/// An append that releases it.
fn giving_back(fence: u64, head: u64) -> At {
    At { fence: Some(fence), lease: LeaseChange::GiveBack, ..At::head(head) }
}

pub(super) fn a_lease_keeps_others_from_writing(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let lease = store.lease(&owner(), id, "me", TTL).expect("leased");
    let error = place.store().lease(&owner(), id, "you", TTL).expect_err("held");
    assert!(matches!(&error, StoreError::Held { holder, .. } if holder == "me"), "{error}");
    let error = store.append(&owner(), id, At::END, &[said(place, "a", "x")]).expect_err("held");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    let error =
        store.append(&owner(), id, At::head(9), &[said(place, "a", "x")]).expect_err("held");
    assert!(matches!(error, StoreError::Held { .. }), "the lease comes before the head: {error}");
    let error = store.delete(&owner(), id, None).expect_err("held");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    let with_fence = At { fence: Some(lease.fence), ..At::head(0) };
    store.append(&owner(), id, with_fence, &[said(place, "a", "x")]).expect("the holder writes");
    let again = store.append(&owner(), id, At::END, &[said(place, "a", "x")]);
    assert_eq!(again.expect("a repeated append is not a write").seqs, [0]);
}

pub(super) fn a_lease_ends_with_its_time_or_when_given_back(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let first = store.lease(&owner(), id, "me", TTL).expect("leased");
    place.world().advance(TTL - Duration::from_millis(1));
    let renewed = store.lease(&owner(), id, "me", TTL).expect("renewed");
    assert_eq!(renewed.fence, first.fence);
    assert!(renewed.until > first.until);
    place.world().advance(TTL - Duration::from_millis(1));
    store.lease(&owner(), id, "you", TTL).expect_err("still held");
    place.world().advance(Duration::from_millis(1));
    let second = store.lease(&owner(), id, "you", TTL).expect("it ran out");
    assert!(second.fence > first.fence);
    store.lease(&owner(), id, "you", Duration::ZERO).expect("given back");
    store.append(&owner(), id, At::END, &[said(place, "a", "x")]).expect("nobody holds it");
    let third = store.lease(&owner(), id, "me", TTL).expect("free");
    assert!(third.fence > second.fence, "fences only rise");
}

pub(super) fn no_lease_lasts_for_ever_and_only_its_holder_ends_it(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let lease = store.lease(&owner(), id, "me", Duration::MAX).expect("leased");
    let longest = place.world().now() + LEASE_MAX;
    assert!(lease.until <= longest, "until {}, not {longest}", lease.until);
    let error = store.lease(&owner(), id, "you", Duration::ZERO).expect_err("not theirs");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    store.append(&owner(), id, At::END, &[said(place, "a", "x")]).expect_err("still held");
    place.world().advance(LEASE_MAX);
    store.append(&owner(), id, At::END, &[said(place, "a", "x")]).expect("it ran out");
}

pub(super) fn an_old_fence_is_refused(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let old = store.lease(&owner(), id, "paused", TTL).expect("leased");
    place.world().advance(TTL);
    let at = |fence| At { fence: Some(fence), ..At::END };
    let late = [said(place, "a", "late, but nobody came")];
    store.append(&owner(), id, at(old.fence), &late).expect("nobody took over");
    let new = store.lease(&owner(), id, "awake", TTL).expect("taken over");
    let error =
        store.append(&owner(), id, at(old.fence), &[said(place, "b", "x")]).expect_err("old");
    assert!(matches!(error, StoreError::StaleFence { .. }), "{error}");
    let invented = at(new.fence + 1);
    let error =
        store.append(&owner(), id, invented, &[said(place, "b", "x")]).expect_err("not given");
    assert!(matches!(error, StoreError::StaleFence { .. }), "{error}");
    store.lease(&owner(), id, "awake", Duration::ZERO).expect("given back");
    let error =
        store.append(&owner(), id, at(old.fence), &[said(place, "b", "x")]).expect_err("old");
    assert!(matches!(error, StoreError::StaleFence { .. }), "{error}");
    store.append(&owner(), id, at(new.fence), &[said(place, "c", "x")]).expect("the newest");
}

pub(super) fn rivals_for_one_lease_have_one_winner(place: &dyn Factory) {
    let (_, session) = created(place);
    let mut last = 0;
    for _ in 0..10 {
        let results = race(RIVALS, |rival| {
            place.store().lease(&owner(), session.id(), &format!("r{rival}"), TTL)
        });
        let winners: Vec<u64> = results.iter().flatten().map(|lease| lease.fence).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        assert!(winners[0] > last);
        last = winners[0];
        place.world().advance(TTL);
    }
}

pub(super) fn the_first_append_takes_the_lease(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let append = |at, text| store.append(&owner(), id, at, &[said(place, text, text)]);
    let first = append(taking("me", 0), "a").expect("appended");
    let lease = first.lease.expect("the lease came with it");
    assert_eq!(first.seqs, [0]);
    assert_eq!(lease.until, place.world().now() + TTL);
    let error = append(At::head(1), "b").expect_err("held");
    assert!(matches!(&error, StoreError::Held { holder, .. } if holder == "me"), "{error}");
    let error = append(taking("you", 1), "b").expect_err("held");
    assert!(matches!(&error, StoreError::Held { holder, .. } if holder == "me"), "{error}");
    let error = place.store().lease(&owner(), id, "you", TTL).expect_err("held");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    let fenced = At { fence: Some(lease.fence), ..At::head(1) };
    assert_eq!(append(fenced, "b").expect("the holder writes").lease, None);
    place.world().advance(TTL / 2);
    let renewed = append(taking("me", 2), "c").expect("renewed").lease.expect("it is mine");
    assert_eq!(renewed.fence, lease.fence, "it never ended");
    assert!(renewed.until > lease.until);
    place.world().advance(TTL);
    let next = append(taking("you", 3), "d").expect("it ran out").lease.expect("it is free");
    assert!(next.fence > lease.fence);
    let stale = At { fence: Some(lease.fence), ..At::END };
    let error = append(stale, "e").expect_err("taken over");
    assert!(matches!(error, StoreError::StaleFence { .. }), "{error}");
    let long = LeaseChange::Take { holder: "you".into(), ttl: Duration::MAX };
    let longest = append(At { lease: long, ..At::END }, "f").expect("renewed").lease;
    let longest = longest.expect("it is theirs").until;
    assert!(longest <= place.world().now() + LEASE_MAX, "until {longest}");
}

pub(super) fn a_refused_append_takes_no_lease(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    store.append(&owner(), id, At::END, &[said(place, "a", "one")]).expect("appended");
    let error =
        store.append(&owner(), id, taking("me", 0), &[said(place, "b", "x")]).expect_err("stale");
    assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
    let batch = [said(place, "b", "x"), said(place, "a", "another")];
    let error = store.append(&owner(), id, taking("me", 1), &batch).expect_err("reused");
    assert!(matches!(error, StoreError::IdReused { .. }), "{error}");
    let lease = store.lease(&owner(), id, "you", TTL).expect("nobody has it");
    let error =
        store.append(&owner(), id, taking("me", 1), &[said(place, "c", "x")]).expect_err("held");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    let error = store
        .append(&owner(), id, taking("me", 1), &[said(place, "a", "one")])
        .expect_err("what is repeated cannot have a lease that someone else has");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    let fenced = At { fence: Some(lease.fence), ..At::head(1) };
    store.append(&owner(), id, fenced, &[said(place, "d", "x")]).expect("nothing was written");
}

pub(super) fn the_last_append_gives_the_lease_back(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let append = |at, text| store.append(&owner(), id, at, &[said(place, text, text)]);
    let first = append(taking("me", 0), "a").expect("appended").lease.expect("taken");
    let error = append(giving_back(first.fence, 0), "b").expect_err("stale");
    assert!(matches!(error, StoreError::Conflict { .. }), "{error}");
    let error = append(At::head(1), "c").expect_err("it was not given back");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    let last = append(giving_back(first.fence, 1), "b").expect("appended");
    assert_eq!((last.seqs, last.lease), (vec![1], None));
    append(At::head(2), "c").expect("nobody has it");
    let again = append(giving_back(first.fence, 1), "b").expect("repeated");
    assert_eq!(again.seqs, [1]);
    let second = append(taking("you", 3), "d").expect("appended").lease.expect("taken");
    assert!(second.fence > first.fence);
    let error = append(giving_back(first.fence, 4), "e").expect_err("taken over");
    assert!(matches!(error, StoreError::StaleFence { .. }), "{error}");
    let again = append(giving_back(first.fence, 1), "b").expect("repeated, too late");
    assert_eq!(again.seqs, [1]);
    let error = append(At::head(4), "e").expect_err("theirs was not given back");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
}

pub(super) fn a_repeated_append_takes_or_gives_back_the_lease_again(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let append = |at, text| store.append(&owner(), id, at, &[said(place, text, text)]);
    let first = append(taking("me", 0), "a").expect("appended");
    let again = append(taking("me", 0), "a").expect("the answer was lost on its way");
    assert_eq!(again, Appended { repeated: true, ..first.clone() });
    let fence = first.lease.expect("taken").fence;
    let fenced = At { fence: Some(fence), ..At::head(1) };
    append(fenced, "b").expect("appended");
    append(giving_back(fence, 1), "b").expect("repeated");
    append(At::head(2), "c").expect("it was given back");
    let taken = append(taking("you", 0), "a").expect("repeated").lease.expect("it was free");
    assert!(taken.fence > fence);
    append(At::head(3), "d").expect_err("they have it");
    let nothing = store.append(&owner(), id, giving_back(taken.fence, 3), &[]);
    assert!(nothing.expect("nothing is appended whole").seqs.is_empty());
    let lease = store.append(&owner(), id, taking("me", 3), &[]).expect("free").lease;
    assert!(lease.expect("an empty append takes it").fence > taken.fence);
}

pub(super) fn rivals_for_one_turn_have_one_winner(place: &dyn Factory) {
    let (store, session) = created(place);
    let mut last = 0;
    for round in 0..10 {
        let results = race(RIVALS, |rival| {
            let entries = [said(place, &format!("{round}-{rival}"), "mine")];
            let at = taking(&format!("r{rival}"), round);
            place.store().append(&owner(), session.id(), at, &entries)
        });
        let winners: Vec<u64> =
            results.iter().flatten().map(|won| won.lease.expect("taken").fence).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        assert!(winners[0] > last);
        last = winners[0];
        let entries = store.get(&owner(), session.id()).expect("there").tally.entries;
        assert_eq!(entries, round + 1, "a loser writes nothing");
        place.world().advance(TTL);
    }
}
