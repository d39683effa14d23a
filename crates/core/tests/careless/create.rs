//! Creating sessions and taking keys carelessly.

use rethread_core::store::{At, Bind, Filter, Result, Upkeep};
use rethread_core::{Header, Key, NewEntry, Owner, Session, SessionId, Store, StoreError};

use crate::faults::Fault;
use crate::place::{Opened, dawdle, locked};

impl Opened {
    /// Creates a session, and then points the keys at it unconditionally.
    fn create_and_seize(
        &self,
        header: &Header,
        entries: &[NewEntry],
        binds: &[Bind],
    ) -> Result<Session> {
        self.inner().create(header, entries, &[])?;
        for bind in binds {
            self.seize_key(&header.owner, &bind.key, Some(header.id))?;
        }
        self.inner().get(&header.owner, header.id)
    }

    pub(super) fn create_carelessly(
        &self,
        header: &Header,
        entries: &[NewEntry],
        binds: &[Bind],
    ) -> Result<Session> {
        let (inner, owner, id) = (self.inner(), &header.owner, header.id);
        match self.fault {
            Fault::CreatesInSteps => {
                inner.create(header, &[], &[])?;
                inner.append(owner, id, At::END, entries)?;
                for bind in binds {
                    inner.bind(owner, bind, Some(id))?;
                }
                inner.get(owner, id)
            }
            Fault::TrustsIds => match inner.create(header, entries, binds) {
                Err(StoreError::Exists { .. }) => inner.get(owner, id),
                done => done,
            },
            Fault::ChecksThenWrites => {
                for bind in binds {
                    if inner.resolve(owner, &bind.key)? != bind.seen {
                        return inner.create(header, entries, binds);
                    }
                }
                dawdle();
                self.create_and_seize(header, entries, binds)
            }
            Fault::SharesNamesAmongOwners => {
                for (other, _) in inner.everything()? {
                    if inner.named(&other, header.name.folded())?.is_some_and(|found| found != id) {
                        return Err(StoreError::NameTaken { name: header.name.clone() });
                    }
                }
                inner.create(header, entries, binds)
            }
            Fault::NumbersNames => match inner.create(header, entries, binds) {
                Err(StoreError::NameTaken { name }) => {
                    let header = Header { name: name.numbered(2), ..header.clone() };
                    inner.create(&header, entries, binds)
                }
                done => done,
            },
            Fault::BindsBlindly => self.create_and_seize(header, entries, binds),
            Fault::ChecksIdsThenWrites => inner.create(header, entries, binds),
            Fault::ForgetsAField => {
                let mut header = header.clone();
                header.profile.agent_path = None;
                inner.create(&header, entries, binds)
            }
            Fault::UndoesByDeleting if inner.get(owner, id).is_err() => {
                inner.create(header, entries, &[])?;
                for bind in binds {
                    if let Err(error) = inner.bind(owner, bind, Some(id)) {
                        inner.delete(owner, id, None)?;
                        return Err(error);
                    }
                }
                inner.get(owner, id)
            }
            Fault::SharesKeysAmongOwners => {
                for bind in binds {
                    if let Some(actual) = self.elsewhere(owner, &bind.key)? {
                        let key = bind.key.clone();
                        return Err(StoreError::KeyMoved { key, actual: Some(actual) });
                    }
                }
                inner.create(header, entries, binds)
            }
            Fault::KeepsOldNames => {
                let session = inner.create(header, entries, binds)?;
                let name = (owner.clone(), session.header.name.folded().to_owned());
                locked(&self.shared.names).insert(name, id);
                Ok(session)
            }
            Fault::ChecksNamesThenWrites | Fault::ComparesSpellings => {
                let free = match inner.named(owner, header.name.folded())? {
                    None => true,
                    Some(other) if self.has(Fault::ComparesSpellings) => {
                        inner.get(owner, other)?.header.name != header.name
                    }
                    Some(_) => false,
                };
                dawdle();
                match inner.create(header, entries, binds) {
                    Err(StoreError::NameTaken { name }) if free => {
                        let unnamed = Header::new(id, owner.clone(), header.created_at);
                        let header = Header { name: unnamed.name, ..header.clone() };
                        inner.create(&header, entries, binds)?;
                        locked(&self.shared.twins).insert(id, name);
                        self.get(owner, id)
                    }
                    done => done,
                }
            }
            Fault::LeavesEntriesBehind => {
                inner.create(header, entries, binds)?;
                if let Some(left) = locked(&self.shared.left).remove(&id) {
                    self.append_new(owner, id, At::END, &left)?;
                }
                inner.get(owner, id)
            }
            _ => inner.create(header, &self.written(entries), binds),
        }
    }

    /// The owner's key that is equal if case is ignored.
    pub(super) fn spelled(&self, owner: &Owner, key: &Key) -> Result<Key> {
        let all = self.inner().list(owner, &Filter::default(), None, usize::MAX)?.sessions;
        let mut keys = all.into_iter().flat_map(|session| session.keys);
        let same = keys.find(|k| k.as_str().to_lowercase() == key.as_str().to_lowercase());
        Ok(same.filter(|_| self.has(Fault::FoldsCase)).unwrap_or_else(|| key.clone()))
    }

    /// Where another owner's key of the same text points.
    pub(super) fn elsewhere(&self, owner: &Owner, key: &Key) -> Result<Option<SessionId>> {
        for (other, _) in self.inner().everything()? {
            if other != *owner && self.inner().resolve(&other, key)?.is_some() {
                return self.inner().resolve(&other, key);
            }
        }
        Ok(None)
    }

    /// Points a key at a session, regardless of where it points now.
    pub(super) fn seize_key(&self, owner: &Owner, key: &Key, to: Option<SessionId>) -> Result<()> {
        let mut bind = Bind { key: key.clone(), seen: None };
        loop {
            match self.inner().bind(owner, &bind, to) {
                Err(StoreError::KeyMoved { actual, .. }) => bind.seen = actual,
                done => return done,
            }
        }
    }
}
