//! The reference store: everything in memory, in the simplest way.
//!
//! It implements the contract in the fewest lines, and is used by tests of other things.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;

use crate::audit::Audit;
use crate::blob::{BlobId, BlobInfo};
use crate::entry::{Entry, NewEntry, Tally};
use crate::lease::LeaseRecord;
use crate::name::{Key, Name, Owner, SessionId};
use crate::readable_id;
use crate::search::{Hit, Query, Rank, SearchText, page};
use crate::session::{Header, Place, Session, preview};
use crate::store::{
    Appended, At, Bind, Change, Cursor, Filter, Finding, KeyChange, Lease, OnAppended, Page,
    Result, Search, Store, StoreError, Upkeep,
};
use crate::usage::{Spent, UsageByModel};
use crate::world::World;

/// A store that is lost when it is dropped.
pub struct MemoryStore {
    world: Arc<dyn World>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<(Owner, SessionId), Stored>,
    keys: BTreeMap<(Owner, Key), SessionId>,
}

struct Stored {
    header: Header,
    entries: Vec<Entry>,
    lease: LeaseRecord,
    blobs: BTreeMap<BlobId, Vec<u8>>,
    usage: UsageByModel,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(world: Arc<dyn World>) -> MemoryStore {
        MemoryStore { world, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the state")
    }
}

impl Stored {
    fn tally(&self) -> Tally {
        self.entries.last().map_or_else(Tally::default, |entry| entry.tally)
    }

    /// The positions of these entries, if the log already has all of them.
    fn repeated(&self, entries: &[NewEntry]) -> Result<Option<Vec<u64>>> {
        let id = self.header.id;
        let mut places = Vec::new();
        for (index, new) in entries.iter().enumerate() {
            let reused = || StoreError::IdReused { id, entry: new.id.clone() };
            if entries[..index].iter().any(|other| other.id == new.id) {
                return Err(reused());
            }
            match self.entries.iter().find(|old| old.id == new.id) {
                Some(old) if old.body == new.body => places.push(old.seq),
                Some(_) => return Err(reused()),
                None => {}
            }
        }
        match places.len() {
            0 => Ok(None),
            n if n == entries.len() => Ok(Some(places)),
            _ => {
                let seen =
                    entries.iter().find(|new| self.entries.iter().any(|old| old.id == new.id));
                let entry = seen.expect("some were seen").id.clone();
                Err(StoreError::IdReused { id, entry })
            }
        }
    }

    fn push(&mut self, entries: &[NewEntry]) -> Vec<u64> {
        let mut places = Vec::new();
        for new in entries {
            let entry = new.placed(&self.tally());
            places.push(entry.seq);
            Spent::of([&entry.body]).add_to(&mut self.usage);
            self.entries.push(entry);
        }
        places
    }
}

impl State {
    fn headers(&self) -> impl Iterator<Item = &Header> {
        self.sessions.values().map(|stored| &stored.header)
    }

    /// A session, in the trash or not.
    fn any(&self, owner: &Owner, id: SessionId) -> Result<&Stored> {
        self.sessions.get(&(owner.clone(), id)).ok_or(StoreError::NotFound { id })
    }

    fn stored(&self, owner: &Owner, id: SessionId) -> Result<&Stored> {
        let stored = self.any(owner, id)?;
        Some(stored).filter(|s| s.header.trash.is_none()).ok_or(StoreError::NotFound { id })
    }

    fn stored_mut(&mut self, owner: &Owner, id: SessionId) -> Result<&mut Stored> {
        let stored = self.sessions.get_mut(&(owner.clone(), id));
        stored.filter(|s| s.header.trash.is_none()).ok_or(StoreError::NotFound { id })
    }

    fn session(&self, stored: &Stored) -> Session {
        let (owner, id) = (&stored.header.owner, stored.header.id);
        let first = stored.tally().first.and_then(|seq| stored.entries.get(seq as usize));
        let keys = self.keys.iter().filter(|((o, _), to)| o == owner && **to == id);
        let (keys, readable_id) = readable_id::split(keys.map(|((_, key), _)| key.clone()));
        Session {
            header: stored.header.clone(),
            shown_as: None,
            keys,
            readable_id,
            tally: stored.tally(),
            last_activity_at: stored.entries.last().map_or(stored.header.created_at, |e| e.at),
            first_message: first.and_then(|e| e.body.message()).map(preview).unwrap_or_default(),
            usage: stored.usage.clone(),
        }
    }

    fn name_is_free(&self, owner: &Owner, name: &Name, id: SessionId) -> Result<()> {
        let taken = self.sessions.values().any(|stored| {
            let header = &stored.header;
            header.owner == *owner && header.name.folded() == name.folded() && header.id != id
        });
        match taken {
            true => Err(StoreError::NameTaken { name: name.clone() }),
            false => Ok(()),
        }
    }

    fn key_is_where_seen(&self, owner: &Owner, bind: &Bind) -> Result<()> {
        let actual = self.keys.get(&(owner.clone(), bind.key.clone())).copied();
        match actual == bind.seen {
            true => Ok(()),
            false => Err(StoreError::KeyMoved { key: bind.key.clone(), actual }),
        }
    }
}

impl Store for MemoryStore {
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session> {
        let mut state = self.state();
        let (owner, id) = (&header.owner, header.id);
        if let Some(stored) = state.sessions.values().find(|stored| stored.header.id == id) {
            let same = stored.header.owner == *owner
                && stored.header.created_at == header.created_at
                && entries
                    .iter()
                    .zip(&stored.entries)
                    .all(|(n, o)| n.id == o.id && n.body == o.body)
                && entries.len() <= stored.entries.len();
            return match same {
                true => Ok(state.session(stored)),
                false => Err(StoreError::Exists { id }),
            };
        }
        state.name_is_free(owner, &header.name, id)?;
        for bind in binds {
            state.key_is_where_seen(owner, bind)?;
        }
        let mut stored = Stored {
            header: header.clone(),
            entries: Vec::new(),
            lease: LeaseRecord::default(),
            blobs: BTreeMap::new(),
            usage: UsageByModel::new(),
        };
        stored.repeated(entries)?;
        stored.push(entries);
        state.sessions.insert((owner.clone(), id), stored);
        for bind in binds {
            state.keys.insert((owner.clone(), bind.key.clone()), id);
        }
        Ok(state.session(state.any(owner, id)?))
    }

    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session> {
        let state = self.state();
        Ok(state.session(state.any(owner, id)?))
    }

    fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>> {
        let state = self.state();
        let mut all = state.headers().filter(|header| header.trash.is_none());
        Ok(all.find(|header| header.owner == *owner && header.name.folded() == name).map(|h| h.id))
    }

    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>> {
        let state = self.state();
        let all = state.headers().filter(|header| header.trash.is_none());
        let fits =
            |h: &&Header| h.owner == *owner && h.id.0.simple().to_string().starts_with(digits);
        Ok(all.filter(fits).map(|header| header.id).take(limit).collect())
    }

    fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let state = self.state();
        let all: Vec<&Stored> =
            state.sessions.values().filter(|stored| stored.header.owner == *owner).collect();
        let continued = |id: SessionId| {
            all.iter().any(|other| {
                let parent = other.header.parent;
                parent.is_some_and(|p| p.id == id && p.origin.continues())
                    && !other.header.archived
                    && other.header.trash.is_none()
            })
        };
        let sessions = all
            .iter()
            .filter(|s| {
                filter.workspace.is_none() || s.header.profile.workspace == filter.workspace
            })
            .filter(|s| filter.archived.is_none_or(|archived| s.header.archived == archived))
            .filter(|s| !filter.newest_of_chain || !continued(s.header.id))
            .filter(|s| s.header.trash.is_some() == filter.trashed)
            .map(|stored| state.session(stored))
            .collect();
        Ok(Page::of(sessions, after, limit))
    }

    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        let now = self.world.now();
        let mut state = self.state();
        let stored = state.stored_mut(owner, id)?;
        if let Some(seqs) = stored.repeated(entries)? {
            let (record, lease) = stored.lease.repeated(id, &at, now)?;
            stored.lease = record.unwrap_or(stored.lease.clone());
            return Ok(Appended { seqs, lease, repeated: true });
        }
        let (record, lease) = stored.lease.appended(id, &at, now)?;
        let actual = stored.tally().entries;
        if let Some(expected) = at.head.filter(|head| *head != actual) {
            return Err(StoreError::Conflict { id, expected, actual });
        }
        stored.lease = record.unwrap_or(stored.lease.clone());
        Ok(Appended { seqs: stored.push(entries), lease, repeated: false })
    }

    fn append_then(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: Vec<NewEntry>,
        then: OnAppended,
    ) {
        then(self.append(owner, id, at, &entries));
    }

    fn read(&self, owner: &Owner, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>> {
        let state = self.state();
        let stored = state.stored(owner, id)?;
        Ok(stored.entries.iter().filter(|entry| range.contains(&entry.seq)).cloned().collect())
    }

    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        Ok(self.state().keys.get(&(owner.clone(), key.clone())).copied())
    }

    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        let mut state = self.state();
        state.key_is_where_seen(owner, bind)?;
        let place = (owner.clone(), bind.key.clone());
        match to {
            Some(id) => {
                state.stored(owner, id)?;
                state.keys.insert(place, id);
            }
            None => drop(state.keys.remove(&place)),
        }
        Ok(())
    }

    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session> {
        let now = self.world.now();
        let mut state = self.state();
        let stored = state.any(owner, id)?;
        let keys = change.keys(&stored.header)?;
        if keys == KeyChange::Release {
            stored.lease.is_free(id, now)?;
        }
        if let Some(name) = &change.name {
            state.name_is_free(owner, name, id)?;
        }
        let stored = state.sessions.get_mut(&(owner.clone(), id)).expect("it was there just now");
        change.apply(&mut stored.header);
        match keys {
            KeyChange::Keep => {}
            KeyChange::Release => state.keys.retain(|(of, _), to| of != owner || *to != id),
            KeyChange::Claim(keys) => keys.into_iter().for_each(|key| {
                state.keys.entry((owner.clone(), key)).or_insert(id);
            }),
        }
        Ok(state.session(state.any(owner, id)?))
    }

    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease> {
        let now = self.world.now();
        let mut state = self.state();
        let stored = state.stored_mut(owner, id)?;
        let (record, lease) = stored.lease.leased(id, holder, ttl, now)?;
        stored.lease = record;
        Ok(lease)
    }

    fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        let blob = BlobId::of(bytes);
        self.state().stored_mut(owner, id)?.blobs.insert(blob, bytes.to_owned());
        Ok(blob)
    }

    fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        let state = self.state();
        let found = state.stored(owner, id)?.blobs.get(&blob).cloned();
        found.ok_or(StoreError::NoBlob { id, blob })
    }

    fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>> {
        let state = self.state();
        let blobs = &state.stored(owner, id)?.blobs;
        Ok(blobs.iter().map(|(id, bytes)| BlobInfo { id: *id, size: bytes.len() as u64 }).collect())
    }

    fn delete(&self, owner: &Owner, id: SessionId, trashed_at: Option<Timestamp>) -> Result<()> {
        let now = self.world.now();
        let mut state = self.state();
        let stored = state.any(owner, id)?;
        if trashed_at.is_some() && stored.header.trash.as_ref().map(|trash| trash.at) != trashed_at
        {
            return Err(StoreError::NotFound { id });
        }
        stored.lease.is_free(id, now)?;
        state.sessions.remove(&(owner.clone(), id));
        state.keys.retain(|(of, _), to| of != owner || *to != id);
        Ok(())
    }
}

impl Search for MemoryStore {
    fn search(
        &self,
        owner: &Owner,
        query: &Query,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let state = self.state();
        let seen =
            |stored: &&Stored| stored.header.owner == *owner && stored.header.trash.is_none();
        let mut found = Vec::new();
        for stored in state.sessions.values().filter(seen) {
            let workspace = stored.header.profile.workspace.as_deref();
            for entry in &stored.entries {
                let Some(said) = SearchText::of(&entry.body) else { continue };
                if query.scope.covers(entry.at, workspace, said.speaker)
                    && query.matches(&said.text)
                {
                    let place = Place { session: stored.header.id, seq: entry.seq };
                    found.push(Rank::new(place, entry.at, said.speaker));
                }
            }
        }
        page(query, found, offset, limit, |place| {
            let entry = &state.stored(owner, place.session)?.entries[place.seq as usize];
            Ok(SearchText::of(&entry.body))
        })
    }

    /// There is no index: a search reads the entries themselves.
    fn index_lag(&self) -> Result<Option<u64>> {
        Ok(Some(0))
    }
}

impl Upkeep for MemoryStore {
    fn can_write(&self) -> Result<()> {
        Ok(())
    }

    fn everything(&self) -> Result<Vec<(Owner, SessionId)>> {
        Ok(self.state().sessions.keys().cloned().collect())
    }

    fn check(&self, _repair: bool) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    fn check_session(&self, owner: &Owner, id: SessionId, _repair: bool) -> Result<Vec<Finding>> {
        let state = self.state();
        let mut audit = Audit::new(id);
        state.any(owner, id)?.entries.iter().for_each(|entry| audit.entry(entry));
        Ok(audit.findings())
    }
}
