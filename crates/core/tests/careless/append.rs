//! Appending carelessly.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rethread_core::store::{Appended, At, LeaseChange, Result};
use rethread_core::{
    BlockKind, Body, Entry, EntryId, NewEntry, Owner, SessionId, Store, StoreError, World,
};

use crate::faults::Fault;
use crate::place::{Opened, dawdle};

impl Opened {
    pub(super) fn append_carelessly(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        let inner = self.inner();
        match self.fault {
            Fault::TrustsIds => self.append_new(owner, id, at, entries),
            Fault::AppendsOneByOne => {
                let mut all = Appended::default();
                for (index, entry) in (0..).zip(entries) {
                    let at = At { head: at.head.map(|head| head + index), ..at.clone() };
                    let done = inner.append(owner, id, at, std::slice::from_ref(entry))?;
                    all.seqs.extend(done.seqs);
                    all.lease = all.lease.or(done.lease);
                }
                Ok(all)
            }
            Fault::ForgetsTheHead => inner.append(owner, id, At { head: None, ..at }, entries),
            Fault::ChecksTheHeadFirst => {
                let actual = inner.get(owner, id)?.tally.entries;
                match at.head {
                    Some(expected) if expected != actual => {
                        Err(StoreError::Conflict { id, expected, actual })
                    }
                    _ => inner.append(owner, id, at, entries),
                }
            }
            Fault::ChecksThenWrites => {
                let end = inner.get(owner, id)?.tally.entries;
                let at = At { head: at.head.filter(|head| *head != end), ..at };
                dawdle();
                let Appended { seqs, lease, repeated } = inner.append(owner, id, at, entries)?;
                // It returns the positions it expected, not the actual ones.
                let late = seqs.first().map_or(0, |first| first.saturating_sub(end));
                let seqs = seqs.iter().map(|seq| seq - late).collect();
                Ok(Appended { seqs, lease, repeated })
            }
            Fault::ChecksIdsThenWrites => {
                let known = self.knows_one(owner, id, entries)?;
                dawdle();
                match !known && self.knows_one(owner, id, entries)? {
                    true => inner.append(owner, id, at, &self.written(entries)),
                    false => inner.append(owner, id, at, entries),
                }
            }
            Fault::InterleavesBatches => {
                let ids: BTreeSet<&EntryId> = entries.iter().map(|entry| &entry.id).collect();
                if ids.len() < 2
                    || ids.len() < entries.len()
                    || self.knows_one(owner, id, entries)?
                {
                    return inner.append(owner, id, at, entries);
                }
                let mut all = inner.append(owner, id, at.clone(), &entries[..1])?;
                for entry in &entries[1..] {
                    dawdle();
                    let at = At { head: None, ..at.clone() };
                    all.seqs.extend(inner.append(owner, id, at, std::slice::from_ref(entry))?.seqs);
                }
                Ok(all)
            }
            Fault::IgnoresTheLease if at.fence.is_none() => {
                self.append_unfenced(owner, id, at, entries)
            }
            Fault::ForgetsTheFence | Fault::RestartsTheFence if at.fence.is_some() => {
                self.append_unfenced(owner, id, at, entries)
            }
            Fault::TrustsHigherFences => match inner.append(owner, id, at.clone(), entries) {
                Err(StoreError::StaleFence { fence, latest, .. }) if fence > latest => {
                    inner.append(owner, id, At { fence: Some(latest), ..at }, entries)
                }
                done => done,
            },
            _ => self.append_with_lease(owner, id, at, &self.written(entries)),
        }
    }

    /// Appends, careless about the lease.
    fn append_with_lease(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        let inner = self.inner();
        match (self.fault, &at.lease) {
            (Fault::LeasesInTwoSteps, LeaseChange::Take { holder, ttl }) => {
                let lease = inner.lease(owner, id, holder, *ttl)?;
                let fenced = At { fence: Some(lease.fence), lease: LeaseChange::Keep, ..at };
                let done = inner.append(owner, id, fenced, entries)?;
                Ok(Appended { lease: Some(lease), ..done })
            }
            (Fault::TakesFromAnyone, LeaseChange::Take { holder, ttl }) => {
                let lease = self.seize_lease(owner, id, holder, *ttl)?;
                dawdle();
                self.append_unfenced(owner, id, At::END, entries)
                    .map(|done| Appended { lease: Some(lease), ..done })
            }
            (Fault::KeepsTheLease, LeaseChange::GiveBack) => {
                inner.append(owner, id, At { lease: LeaseChange::Keep, ..at }, entries)
            }
            (Fault::GivesBackFirst, LeaseChange::GiveBack) => {
                let nothing = At { head: None, ..at.clone() };
                drop(inner.append(owner, id, nothing, &[]));
                inner.append(owner, id, at, entries)
            }
            (Fault::ForgetsTheLeaseOfARepeat, _) if self.knows_one(owner, id, entries)? => {
                inner.append(owner, id, At::END, entries)
            }
            _ => inner.append(owner, id, at, entries),
        }
    }

    /// The entries as they are written to the disk.
    pub(super) fn written(&self, entries: &[NewEntry]) -> Vec<NewEntry> {
        const TEXT_BYTES_MAX: usize = 65_535;
        let mut entries = entries.to_vec();
        for entry in &mut entries {
            match self.fault {
                Fault::CutsLongTexts => {
                    let Body::Message(message) = &mut entry.body else { continue };
                    for block in &mut message.content {
                        if let BlockKind::Text(text) = &mut block.kind {
                            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
                        }
                    }
                }
                Fault::NormalizesJson => {
                    let value: serde_json::Value =
                        serde_json::from_str(&entry.body.json()).expect("a body is JSON");
                    entry.body = Body::parse(entry.body.kind(), &value.to_string())
                        .expect("the same value is the same kind of body");
                }
                Fault::RoundsTimes => {
                    entry.at = Timestamp::from_second(entry.at.as_second()).expect("in range");
                }
                Fault::ForgetsAnOption => {
                    if let Body::Cleared { before } = &mut entry.body {
                        *before = None;
                    }
                }
                Fault::StoresRepeats | Fault::ChecksIdsThenWrites => {
                    let id = format!("{}#{}", entry.id.as_str(), self.world.uuid());
                    entry.id = EntryId::new(id).expect("the ids of the suite are short");
                }
                _ => {}
            }
        }
        entries
    }

    /// Appends those whose id is new, and assumes that the rest is the same.
    pub(super) fn append_new(
        &self,
        o: &Owner,
        id: SessionId,
        at: At,
        all: &[NewEntry],
    ) -> Result<Appended> {
        let place = |log: &[Entry], new: &NewEntry| {
            log.iter().find(|old| old.id == new.id).map(|old| old.seq)
        };
        let log = self.inner().read(o, id, 0..u64::MAX)?;
        let mut fresh: Vec<NewEntry> = Vec::new();
        for new in all.iter().filter(|new| place(&log, new).is_none()) {
            if fresh.iter().all(|other| other.id != new.id) {
                fresh.push(new.clone());
            }
        }
        let lease = match fresh.is_empty() {
            false => self.inner().append(o, id, at, &fresh)?.lease,
            true => None,
        };
        let log = self.inner().read(o, id, 0..u64::MAX)?;
        let seqs = all.iter().filter_map(|new| place(&log, new)).collect();
        Ok(Appended { seqs, lease, repeated: false })
    }

    /// Whether the log has one of these entries, by id.
    fn knows_one(&self, owner: &Owner, id: SessionId, entries: &[NewEntry]) -> Result<bool> {
        let log = self.inner().read(owner, id, 0..u64::MAX)?;
        Ok(entries.iter().any(|new| log.iter().any(|old| old.id == new.id)))
    }

    /// Appends with any fence that is accepted.
    fn append_unfenced(
        &self,
        owner: &Owner,
        id: SessionId,
        mut at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        // An append that takes the lease has no fence to present, so the lease is not taken.
        at.lease = LeaseChange::Keep;
        loop {
            match self.inner().append(owner, id, at.clone(), entries) {
                Err(StoreError::Held { .. }) => at.fence = Some(u64::MAX),
                Err(StoreError::StaleFence { latest, .. }) => at.fence = Some(latest),
                done => return done,
            }
        }
    }
}
