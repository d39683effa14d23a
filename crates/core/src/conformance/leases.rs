//! Rules of leases: one holder at a time, and a fence that tells a late one from the latest.

use std::time::Duration;

use super::{Factory, RIVALS, created, owner, race, said};
use crate::limits::LEASE_MAX;
use crate::store::{At, StoreError};
use crate::world::World;

const TTL: Duration = Duration::from_secs(30);

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
    let error = store.delete(&owner(), id).expect_err("held");
    assert!(matches!(error, StoreError::Held { .. }), "{error}");
    let with_fence = At { head: Some(0), fence: Some(lease.fence) };
    store.append(&owner(), id, with_fence, &[said(place, "a", "x")]).expect("the holder writes");
    let again = store.append(&owner(), id, At::END, &[said(place, "a", "x")]);
    assert_eq!(again.expect("a repeated append is no write"), [0]);
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
    let at = |fence| At { head: None, fence: Some(fence) };
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
