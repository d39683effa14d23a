//! Rules of blobs: bytes that belong to a session, found by their hash.

use super::{Factory, RIVALS, created, header, owner, race, said};
use crate::blob::{BlobId, BlobInfo};
use crate::name::Owner;
use crate::store::{At, StoreError};

/// Bytes that repeat little, and are not text.
fn noise(length: usize) -> Vec<u8> {
    let mut state = length as u64 | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

pub(super) fn a_blob_is_read_back_the_same(place: &dyn Factory) {
    let (store, session) = created(place);
    let id = session.id();
    let text = "the same line again and again\n".repeat(4_000).into_bytes();
    let all = [Vec::new(), vec![0], b"hello".to_vec(), text, noise(100), noise(3 << 20)];
    let mut kept = Vec::new();
    for bytes in &all {
        let blob = store.put_blob(&owner(), id, bytes).expect("stored");
        assert_eq!(blob, BlobId::of(bytes));
        kept.push(BlobInfo { id: blob, size: bytes.len() as u64 });
    }
    let again = place.store();
    for (bytes, kept) in all.iter().zip(&kept) {
        assert!(again.blob(&owner(), id, kept.id).expect("there") == *bytes, "{kept:?}");
    }
    kept.sort_by_key(|kept| kept.id);
    assert_eq!(again.blobs(&owner(), id).expect("listed"), kept);
    let blob = BlobId::of(b"never stored");
    let error = store.blob(&owner(), id, blob).expect_err("not there");
    assert!(
        matches!(error, StoreError::NoBlob { blob: missing, .. } if missing == blob),
        "{error}"
    );
    let unchanged = store.get(&owner(), id).expect("there");
    assert_eq!(unchanged, session, "a blob is not an entry");
}

pub(super) fn the_same_bytes_are_kept_once(place: &dyn Factory) {
    let (_, session) = created(place);
    let bytes = noise(70_000);
    let blobs = race(RIVALS, |_| place.store().put_blob(&owner(), session.id(), &bytes));
    let first = BlobId::of(&bytes);
    assert!(blobs.iter().all(|blob| matches!(blob, Ok(id) if *id == first)), "{blobs:?}");
    let kept = place.store().blobs(&owner(), session.id()).expect("listed");
    assert_eq!(kept, [BlobInfo { id: first, size: 70_000 }]);
}

pub(super) fn a_blob_belongs_to_one_session(place: &dyn Factory) {
    let (store, session) = created(place);
    let other = store.create(&header(place), &[], &[]).expect("created");
    let id = session.id();
    let (bytes, stranger) = (noise(5_000), Owner::new("someone-else").expect("valid"));
    let blob = store.put_blob(&owner(), id, &bytes).expect("stored");
    let error = store.blob(&owner(), other.id(), blob).expect_err("another session's");
    assert!(matches!(error, StoreError::NoBlob { .. }), "{error}");
    assert_eq!(store.blobs(&owner(), other.id()).expect("listed"), []);
    for error in [
        store.blob(&stranger, id, blob).expect_err("hidden"),
        store.blobs(&stranger, id).expect_err("hidden"),
        store.put_blob(&stranger, id, b"x").expect_err("hidden"),
    ] {
        assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    }
    store.put_blob(&owner(), other.id(), &bytes).expect("stored");
    store.append(&owner(), other.id(), At::END, &[said(place, "a", "x")]).expect("appended");
    store.delete(&owner(), id, None).expect("deleted");
    let error = store.blob(&owner(), id, blob).expect_err("gone");
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    let back = store.create(&session.header, &[], &[]).expect("created again");
    assert_eq!(store.blobs(&owner(), back.id()).expect("listed"), [], "they went with it");
    let theirs = store.blob(&owner(), other.id(), blob).expect("the other one's stay");
    assert!(theirs == bytes);
}
