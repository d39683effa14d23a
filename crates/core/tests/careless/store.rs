//! The careless store as a store.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use rethread_core::limits::READ_ENTRIES;
use rethread_core::store::{
    Appended, At, Bind, Change, Cursor, Filter, Lease, OnAppended, Page, Result,
};
use rethread_core::usage::Spent;
use rethread_core::{
    BlobId, BlobInfo, Entry, EntryId, Header, Key, Name, NewEntry, Owner, Session, SessionId,
    Store, StoreError, World,
};

use crate::faults::Fault;
use crate::place::{Opened, dawdle, locked};

impl Store for Opened {
    fn create(&self, header: &Header, entries: &[NewEntry], binds: &[Bind]) -> Result<Session> {
        let session = self.create_carelessly(header, entries, binds)?;
        self.remember(&header.owner, header.id)?;
        Ok(session)
    }

    fn get(&self, owner: &Owner, id: SessionId) -> Result<Session> {
        if self.is_deleted(id) {
            return Err(StoreError::NotFound { id });
        }
        if let Some(session) = locked(&self.cache).get(&(owner.clone(), id)) {
            return Ok(session.clone());
        }
        let mut session = self.inner().get(&self.whose(owner), id)?;
        if self.has(Fault::CountsCopies) {
            let log = self.inner().read(owner, id, 0..u64::MAX)?;
            let said = log.iter().map(|entry| &entry.body).filter(|body| body.started().is_none());
            session.usage = Spent::of(said).models;
        }
        if self.has(Fault::CountsSystemMessages) {
            session.tally.messages += u64::from(session.tally.system.is_some());
        }
        if let Some(touched) = locked(&self.shared.touched).get(&id) {
            session.last_activity_at = session.last_activity_at.max(*touched);
        }
        if let Some(name) = locked(&self.shared.twins).get(&id) {
            session.header.name.clone_from(name);
        }
        if self.has(Fault::FoldsNames) {
            session.header.name = Name::new(session.header.name.folded()).expect("a name");
        }
        if self.has(Fault::LeavesKeysUnsorted) {
            session.keys.reverse();
        }
        if self.has(Fault::CachesUntilItWrites) {
            locked(&self.cache).insert((owner.clone(), id), session.clone());
        }
        Ok(session)
    }

    fn named(&self, owner: &Owner, name: &str) -> Result<Option<SessionId>> {
        let found = self.inner().named(&self.whose(owner), name)?;
        let old = (owner.clone(), name.to_owned());
        Ok(found.or_else(|| locked(&self.shared.names).get(&old).copied()))
    }

    fn with_prefix(&self, owner: &Owner, digits: &str, limit: usize) -> Result<Vec<SessionId>> {
        if self.has(Fault::PrefixesWithHyphens) {
            let mut ids = self.inner().with_prefix(owner, "", usize::MAX)?;
            ids.retain(|id| id.0.hyphenated().to_string().starts_with(digits));
            ids.truncate(limit);
            return Ok(ids);
        }
        self.inner().with_prefix(&self.whose(owner), digits, limit)
    }

    fn list(
        &self,
        owner: &Owner,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        if self.has(Fault::FiltersThePage) && !filter.newest_of_chain {
            let mut page = self.inner().list(owner, &Filter::default(), after, limit)?;
            page.sessions.retain(|session| {
                let Header { profile, archived, .. } = &session.header;
                (filter.workspace.is_none() || filter.workspace == profile.workspace)
                    && filter.archived.is_none_or(|wanted| wanted == *archived)
            });
            page.next = page.next.filter(|_| page.sessions.len() == limit);
            return Ok(page);
        }
        let none = Filter::default();
        let filter = if self.has(Fault::IgnoresTheFilter) { &none } else { filter };
        let after = after.map(|cursor| match self.fault {
            Fault::PagesByTimeAlone => Cursor { id: SessionId(uuid::Uuid::nil()), ..cursor },
            _ => cursor,
        });
        let mut page = self.inner().list(&self.whose(owner), filter, after, limit)?;
        page.sessions.retain(|session| !self.is_deleted(session.id()));
        if self.has(Fault::ListsWithoutKeys) {
            page.sessions.iter_mut().for_each(|session| session.keys.clear());
        }
        if self.has(Fault::ListsByCreation) {
            page.sessions.sort_by_key(|s| std::cmp::Reverse((s.header.created_at, s.id())));
        }
        Ok(page)
    }

    fn append(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        let seqs = self.append_carelessly(owner, id, at, entries)?;
        self.remember(owner, id)?;
        Ok(seqs)
    }

    fn append_then(
        &self,
        owner: &Owner,
        id: SessionId,
        at: At,
        entries: Vec<NewEntry>,
        then: OnAppended,
    ) {
        match self.fault {
            Fault::AnswersBeforeItWrites => {
                let queued = self.inner().get(owner, id).map(|session| {
                    let head = at.head.unwrap_or(session.tally.entries);
                    let seqs = (head..).take(entries.len()).collect();
                    Appended { seqs, ..Appended::default() }
                });
                then(queued);
                drop(self.append(owner, id, at, &entries));
            }
            Fault::TellsOnlyOfSuccess => {
                if let Ok(seqs) = self.append(owner, id, at, &entries) {
                    then(Ok(seqs));
                }
            }
            _ => then(self.append(owner, id, at, &entries)),
        }
    }

    fn read(&self, owner: &Owner, id: SessionId, mut range: Range<u64>) -> Result<Vec<Entry>> {
        if self.has(Fault::ReadsOnePage) {
            range.end = range.end.min(range.start.saturating_add(READ_ENTRIES));
        }
        let mut entries = self.inner().read(&self.whose(owner), id, range)?;
        for entry in &mut entries {
            if let Some((given, _)) = entry.id.as_str().split_once('#') {
                entry.id = EntryId::new(given).expect("it was an id before");
            }
        }
        Ok(entries)
    }

    fn resolve(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        self.inner().resolve(&self.whose(owner), &self.spelled(owner, key)?)
    }

    fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        locked(&self.cache).clear();
        if self.has(Fault::BindsBlindly) {
            return self.seize_key(owner, &bind.key, to);
        }
        if self.has(Fault::ChecksThenWrites) && self.inner().resolve(owner, &bind.key)? == bind.seen
        {
            dawdle();
            return self.seize_key(owner, &bind.key, to);
        }
        if self.has(Fault::SharesKeysAmongOwners)
            && let Some(actual) = self.elsewhere(owner, &bind.key)?
        {
            let key = bind.key.clone();
            return Err(StoreError::KeyMoved { key, actual: Some(actual) });
        }
        let bind = &Bind { key: self.spelled(owner, &bind.key)?, seen: bind.seen };
        match self.inner().bind(owner, bind, to) {
            Err(StoreError::NotFound { .. }) if self.has(Fault::SwallowsNotFound) => Ok(()),
            done => done,
        }
    }

    fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session> {
        let mut change = change.clone();
        if self.has(Fault::CannotEmpty) {
            let description = change.profile.description;
            change.profile.description = description.filter(Option::is_some);
        }
        if let Some(Some(trash)) = &mut change.trash {
            match self.fault {
                Fault::LosesKeysInTheTrash => trash.keys.clear(),
                Fault::KeepsNamesInTheTrash => change.name = None,
                Fault::ForgetsTheTrash => change.trash = None,
                Fault::TrashesWhatIsHeld => {
                    self.seize_lease(owner, id, "nobody", Duration::ZERO)?;
                }
                _ => {}
            }
        }
        match self.fault {
            Fault::TouchesOnUpdate => {
                locked(&self.shared.touched).insert(id, self.world.now());
            }
            Fault::ChecksNamesThenWrites => {
                if let Some(name) = &change.name
                    && self.inner().named(owner, name.folded())?.is_none()
                {
                    dawdle();
                    if let Err(StoreError::NameTaken { name }) =
                        self.inner().update(owner, id, &change)
                    {
                        locked(&self.shared.twins).insert(id, name);
                        change.name = None;
                    }
                }
            }
            Fault::RewritesHeaders => {
                let mut header = self.inner().get(owner, id)?.header;
                change.apply(&mut header);
                dawdle();
                change = Change {
                    name: Some(header.name),
                    profile: header.profile.into(),
                    archived: Some(header.archived),
                    trash: Some(header.trash.map(|trash| *trash)),
                    extra: Some(header.extra),
                    imported: Some(header.imported),
                };
            }
            _ => {}
        }
        match self.inner().update(owner, id, &change) {
            Err(StoreError::NameTaken { name }) if self.has(Fault::NumbersNames) => {
                let name = Some(name.numbered(2));
                self.inner().update(owner, id, &Change { name, ..change })
            }
            done => done,
        }?;
        self.remember(owner, id)?;
        self.get(owner, id)
    }

    fn lease(&self, owner: &Owner, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease> {
        let inner = self.inner();
        match self.fault {
            Fault::ChecksThenWrites => {
                // An empty append shows who holds the lease, and takes nothing.
                match inner.append(owner, id, At::END, &[]) {
                    Err(StoreError::Held { holder: other, .. }) if other != holder => {
                        return inner.lease(owner, id, holder, ttl);
                    }
                    _ => dawdle(),
                }
                self.seize_lease(owner, id, holder, ttl)
            }
            Fault::MistakesTheUnit => inner.lease(owner, id, holder, ttl.saturating_mul(1_000)),
            Fault::LetsAnyoneGiveBack if ttl.is_zero() => {
                match inner.append(owner, id, At::END, &[]) {
                    Err(StoreError::Held { holder, .. }) => inner.lease(owner, id, &holder, ttl),
                    _ => inner.lease(owner, id, holder, ttl),
                }
            }
            Fault::RestartsTheFence => {
                let lease = inner.lease(owner, id, holder, ttl)?;
                Ok(Lease { fence: 1, ..lease })
            }
            _ => inner.lease(owner, id, holder, ttl),
        }
    }

    fn put_blob(&self, owner: &Owner, id: SessionId, bytes: &[u8]) -> Result<BlobId> {
        let bytes = match self.fault {
            Fault::CutsLongTexts => &bytes[..bytes.len().min(65_535)],
            _ => bytes,
        };
        let blob = self.inner().put_blob(owner, id, bytes)?;
        if self.has(Fault::SharesBlobs) || self.has(Fault::LeavesBlobsBehind) {
            locked(&self.shared.blobs).insert((id, blob), bytes.to_owned());
        }
        Ok(blob)
    }

    fn blob(&self, owner: &Owner, id: SessionId, blob: BlobId) -> Result<Vec<u8>> {
        match self.inner().blob(&self.whose(owner), id, blob) {
            Err(StoreError::NoBlob { .. }) if self.has(Fault::SharesBlobs) => {
                let shared = locked(&self.shared.blobs);
                let found = shared.iter().find(|((_, other), _)| *other == blob);
                found.map(|(_, bytes)| bytes.clone()).ok_or(StoreError::NoBlob { id, blob })
            }
            done => done,
        }
    }

    fn blobs(&self, owner: &Owner, id: SessionId) -> Result<Vec<BlobInfo>> {
        let mut blobs = self.inner().blobs(&self.whose(owner), id)?;
        if self.has(Fault::LeavesBlobsBehind) {
            let left = locked(&self.shared.blobs);
            let left = left.iter().filter(|((of, _), _)| *of == id);
            let left = left.map(|((_, id), bytes)| BlobInfo { id: *id, size: bytes.len() as u64 });
            blobs = left.collect();
        }
        if self.has(Fault::StoresRepeats) {
            blobs.extend(blobs.clone());
        }
        Ok(blobs)
    }

    fn delete(&self, owner: &Owner, id: SessionId, trashed_at: Option<Timestamp>) -> Result<()> {
        locked(&self.cache).clear();
        let trashed_at = trashed_at.filter(|_| !self.has(Fault::ErasesTheRestored));
        if self.has(Fault::DeletesTheRowAlone) {
            // An empty append shows whether the session exists and is not held.
            self.inner().append(owner, id, At::END, &[])?;
            return match locked(&self.shared.deleted).insert(id) {
                true => Ok(()),
                false => Err(StoreError::NotFound { id }),
            };
        }
        if self.has(Fault::LeavesEntriesBehind) {
            let entries = self.inner().read(owner, id, 0..u64::MAX)?;
            let as_new = |Entry { id, at, body, measure, .. }| NewEntry { id, at, body, measure };
            locked(&self.shared.left).insert(id, entries.into_iter().map(as_new).collect());
        }
        if self.has(Fault::DeletesEveryKey) {
            let all = self.inner().list(owner, &Filter::default(), None, usize::MAX)?.sessions;
            for key in all.iter().flat_map(|session| &session.keys) {
                self.seize_key(owner, key, None)?;
            }
        }
        match self.inner().delete(owner, id, trashed_at) {
            Err(StoreError::NotFound { .. }) if self.has(Fault::SwallowsNotFound) => Ok(()),
            done => done,
        }
    }
}

impl Opened {
    /// Takes the lease from its current holder.
    pub(super) fn seize_lease(
        &self,
        o: &Owner,
        id: SessionId,
        holder: &str,
        ttl: Duration,
    ) -> Result<Lease> {
        loop {
            match self.inner().lease(o, id, holder, ttl) {
                // A rival may have taken it first; the next attempt shows.
                Err(StoreError::Held { holder: other, .. }) => {
                    drop(self.inner().lease(o, id, &other, Duration::ZERO));
                }
                done => return done,
            }
        }
    }
}
