//! Changing sessions: one durable record each, and everything checked before it.

use std::time::Duration;

use jiff::Timestamp;
use rethread_core::lease::LeaseRecord;
use rethread_core::limits::NAME_TRIES_MAX;
use rethread_core::store::{Appended, At, Bind, Change, KeyChange, Lease, LeaseChange, Result};
use rethread_core::{Header, Name, NewEntry, Session, SessionId, StoreError};

use super::disk::Told;
use super::folder::{Dir, Reach};
use super::log::Log;
use super::state::{Held, Op, Pending, Record};
use super::visible::is_stem;

/// Entries behind the last fold at which a session is folded though nobody asked. Folding writes
/// the whole file, so it waits until the log has doubled as well: then an append costs the same
/// on average, however long the log.
const UNFOLDED_MAX: u64 = 1_000;

impl Dir {
    pub(super) fn create(
        &mut self,
        header: &Header,
        entries: &[NewEntry],
        binds: &[Bind],
    ) -> Result<Session> {
        const ACTION: &str = "create a session";
        let id = header.id;
        if let Some(record) = self.state.catalogue.get(id) {
            let same = record.header.created_at == header.created_at;
            let first = self.log(id)?.read(0..entries.len() as u64).told(&self.root, ACTION)?.0;
            let same = same
                && first.len() == entries.len()
                && entries.iter().zip(&first).all(|(n, o)| n.id == o.id && n.body == o.body);
            return match same {
                true => self.session(id),
                false => Err(StoreError::Exists { id }),
            };
        }
        self.name_is_free(&header.name, id)?;
        for bind in binds {
            self.key_is_where_seen(bind)?;
        }
        distinct(id, entries)?;
        // What another program said about it where it comes from, it says here.
        let foreign = header.foreign.as_deref().cloned().unwrap_or_default();
        let called = foreign.id.as_deref().filter(|called| is_stem(called));
        let plain = header.name.ascii_id(header.created_at, id);
        let stem = self.free_stem(called.unwrap_or(&plain), id)?;
        let header = Header { foreign: None, ..header.clone() };
        let record = Record {
            display: foreign.name,
            active_at: foreign.active_at,
            kept: foreign.kept,
            ..Record::new(header, stem)
        };
        self.begin(record, entries, binds)?;
        self.dirty.insert(id);
        self.keep_to_limit(id)?;
        self.session(id)
    }

    /// Writes a new session with its log and its keys. It exists once the state says so.
    pub(super) fn begin(
        &mut self,
        mut record: Record,
        entries: &[NewEntry],
        binds: &[Bind],
    ) -> Result<()> {
        let id = record.header.id;
        let log = self.write_log(&record.header, entries)?;
        let mut ops = Vec::new();
        // One that comes from a file has it already, and belongs into the index.
        if record.sig.is_some() {
            record.folded = Some(log.tail.clone());
            ops.push(Op::Index(None));
        }
        ops.push(Op::Put(Box::new(record)));
        ops.extend(binds.iter().map(|bind| Op::Key { key: bind.key.clone(), to: Some(id) }));
        self.commit(ops)?;
        self.state.catalogue.moved.clear();
        self.logs.insert(id, log);
        Ok(())
    }

    /// Writes the log of a session that does not exist yet.
    pub(super) fn write_log(&mut self, header: &Header, entries: &[NewEntry]) -> Result<Log> {
        const ACTION: &str = "write a log";
        let path = self.log_path(header.id);
        let log = Log::create(self.disk.as_ref(), &path, header, entries);
        let log = log.and_then(|log| self.disk.sync_folder(&self.logs_folder()).map(|()| log));
        log.told(&self.root, ACTION)
    }

    /// Makes a change that is on disk when this returns.
    pub(super) fn commit(&mut self, ops: Vec<Op>) -> Result<()> {
        self.state.commit(self.disk.as_ref(), ops, true)?;
        self.state.tidy(self.disk.as_ref(), self.world.as_ref())
    }

    pub(super) fn name_is_free(&self, name: &Name, id: SessionId) -> Result<()> {
        let mut all = self.state.catalogue.records.values();
        match all.any(|record| record.header.name == *name && record.header.id != id) {
            true => Err(StoreError::NameTaken { name: name.clone() }),
            false => Ok(()),
        }
    }

    fn key_is_where_seen(&self, bind: &Bind) -> Result<()> {
        let actual = self.state.catalogue.keys.get(&bind.key).copied();
        match actual == bind.seen {
            true => Ok(()),
            false => Err(StoreError::KeyMoved { key: bind.key.clone(), actual }),
        }
    }

    /// A name for the file of a session that no file has, whoever it belongs to.
    pub(super) fn free_stem(&self, wanted: &str, id: SessionId) -> Result<String> {
        let taken = |stem: &str| {
            let mut all = self.state.catalogue.records.values();
            // In the trash a session has no file.
            all.any(|r| {
                let has_file = r.header.id != id && r.header.trash.is_none();
                has_file && r.stem.eq_ignore_ascii_case(stem)
            }) || [false, true].into_iter().any(|archived| {
                let mine = self.state.catalogue.get(id);
                let mine = mine.is_some_and(|r| r.stem == stem && r.header.archived == archived);
                !mine && self.path_of(stem, archived).symlink_metadata().is_ok()
            })
        };
        if !taken(wanted) {
            return Ok(wanted.to_owned());
        }
        let name = Name::new(wanted);
        let free = (2..2 + NAME_TRIES_MAX)
            .map(|number| match &name {
                Ok(name) => name.numbered(number).to_string(),
                Err(_) => format!("session-{number}"),
            })
            .find(|stem| !taken(stem));
        let taken = || StoreError::Backend {
            store: "files",
            action: "find a name for a file",
            source: format!("`{wanted}` and all its numbers are taken").into(),
        };
        free.ok_or_else(taken)
    }

    /// Who is in the middle of a turn.
    pub(super) fn holder(&self, id: SessionId, now: Timestamp) -> Option<(&Held, Timestamp)> {
        let held = self.state.catalogue.leases.get(&id)?;
        held.until.filter(|until| *until > now).map(|until| (held, until))
    }

    pub(super) fn append(
        &mut self,
        id: SessionId,
        at: At,
        entries: &[NewEntry],
    ) -> Result<Appended> {
        if matches!(at.lease, LeaseChange::Take { .. }) {
            // A turn begins with what another program wrote.
            self.look_at(id)?;
        }
        self.record(id)?;
        let now = self.world.now();
        let before = self.lease_of(id);
        if let Some(seqs) = self.repeated(id, entries)? {
            let (record, lease) = before.repeated(id, &at, now)?;
            self.keep_lease(id, record)?;
            // Who wrote it may have died before it was on disk.
            let disk = self.disk.clone();
            let root = self.root.clone();
            disk.sync(&self.log(id)?.file).told(&root, "append")?;
            return Ok(Appended { seqs, lease, repeated: true });
        }
        let (record, lease) = before.appended(id, &at, now)?;
        let actual = self.log(id)?.tail.tally.entries;
        if let Some(expected) = at.head.filter(|head| *head != actual) {
            return Err(StoreError::Conflict { id, expected, actual });
        }
        // Taken before anything is written, given back after it: whoever dies in between leaves a
        // lease that ends by itself.
        let takes = lease.is_some();
        let (first, last) = if takes { (record, None) } else { (None, record) };
        self.keep_lease(id, first)?;
        let seqs = match self.push(id, entries) {
            Ok(seqs) => seqs,
            Err(error) => {
                if takes {
                    drop(self.keep_lease(id, Some(before)));
                }
                return Err(error);
            }
        };
        let gives_back = last.is_some();
        // What was appended is safe, whatever follows: the lease ends by itself, and that the file
        // cannot be written is said when it is written next.
        drop(self.keep_lease(id, last));
        let folded = self.record(id)?.folded.as_ref().map_or(0, |tail| tail.tally.entries);
        let end = actual + seqs.len() as u64;
        if gives_back || end - folded.min(end) >= UNFOLDED_MAX.max(folded) {
            drop(self.fold(&[id]));
        }
        Ok(Appended { seqs, lease, repeated: false })
    }

    fn lease_of(&self, id: SessionId) -> LeaseRecord {
        let Some(held) = self.state.catalogue.leases.get(&id) else {
            return LeaseRecord::default();
        };
        let holder = held.until.map(|until| (held.holder.clone(), until));
        LeaseRecord { fence: held.fence, holder }
    }

    /// Writes down who has a session from now on, where that is someone else.
    fn keep_lease(&mut self, id: SessionId, record: Option<LeaseRecord>) -> Result<()> {
        let Some(LeaseRecord { fence, holder }) = record else { return Ok(()) };
        let (holder, until) = holder.unzip();
        let held = Held { holder: holder.unwrap_or_default(), until, fence };
        // Who loses the machine's power loses the lease with it; the next one has another
        // process, so a fence that was lost with the power fools nobody.
        self.state.commit(self.disk.as_ref(), vec![Op::Lease { id, held }], false)?;
        self.state.tidy(self.disk.as_ref(), self.world.as_ref())
    }

    /// Appends, with everything checked.
    pub(super) fn push(&mut self, id: SessionId, entries: &[NewEntry]) -> Result<Vec<u64>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let folded = self.record(id)?.folded.clone();
        let (disk, root) = (self.disk.clone(), self.root.clone());
        let log = self.log(id)?;
        let less = folded.is_some_and(|folded| log.tail.is_less_than(&folded));
        if less || log.has_damaged_end().told(&root, "append")? {
            // What was folded was acknowledged, so this is no torn end to be cut off.
            return Err(log.tail.cut_off(id));
        }
        let places = log.append(disk.as_ref(), entries).told(&root, "append")?;
        self.dirty.insert(id);
        Ok(places)
    }

    /// The places of these entries, if the log has them all already.
    fn repeated(&mut self, id: SessionId, entries: &[NewEntry]) -> Result<Option<Vec<u64>>> {
        distinct(id, entries)?;
        let mut places = Vec::new();
        let mut seen = None;
        for new in entries {
            let Some(seq) = self.log(id)?.place_of(&new.id) else { continue };
            let reused = || StoreError::IdReused { id, entry: new.id.clone() };
            let old = self.entries(id, seq..seq + 1)?.pop();
            if old.is_none_or(|old| old.body != new.body) {
                return Err(reused());
            }
            seen = Some(reused());
            places.push(seq);
        }
        match seen {
            None => Ok(None),
            Some(_) if places.len() == entries.len() => Ok(Some(places)),
            Some(reused) => Err(reused),
        }
    }

    pub(super) fn bind(&mut self, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        self.key_is_where_seen(bind)?;
        if let Some(id) = to {
            self.is_there(id)?;
        }
        self.commit(vec![Op::Key { key: bind.key.clone(), to }])
    }

    pub(super) fn update(&mut self, id: SessionId, change: &Change) -> Result<Session> {
        let mut record = self.record(id)?.clone();
        let keys = match change.keys(&record.header)? {
            KeyChange::Release => return self.trash(id, change),
            KeyChange::Claim(keys) => keys,
            KeyChange::Keep => Vec::new(),
        };
        let returns = record.header.trash.is_some();
        if let Some(name) = &change.name {
            self.name_is_free(name, id)?;
        }
        let before = (record.header.name.clone(), record.header.archived);
        change.apply(&mut record.header);
        // What comes out of the trash has the name and the file it had, as far as they are free.
        let renamed = record.header.name != before.0 && !returns;
        if returns {
            record.stem = self.free_stem(&record.stem, id)?;
        } else if renamed || record.header.archived != before.1 {
            if record.header.archived {
                self.make_archive()?;
            }
            let header = &record.header;
            let wanted = match renamed {
                true => header.name.ascii_id(header.created_at, id),
                false => record.stem.clone(),
            };
            let stem = self.free_stem(&wanted, id)?;
            let stem = std::mem::replace(&mut record.stem, stem);
            record.pending = Some(Pending::Move { stem, archived: before.1 });
        }
        if renamed {
            record.display = None;
        }
        record.stale = true;
        let moves = record.pending.is_some();
        let mut ops = vec![Op::Put(Box::new(record))];
        let free = keys.into_iter().filter(|key| !self.state.catalogue.keys.contains_key(key));
        ops.extend(free.map(|key| Op::Key { key, to: Some(id) }));
        self.commit(ops)?;
        self.dirty.insert(id);
        if moves {
            self.settle()?;
            self.write_index()?;
        }
        self.session(id)
    }

    pub(super) fn lease(&mut self, id: SessionId, holder: &str, ttl: Duration) -> Result<Lease> {
        self.look_at(id)?;
        self.record(id)?;
        let (record, lease) = self.lease_of(id).leased(id, holder, ttl, self.world.now())?;
        self.keep_lease(id, Some(record))?;
        if ttl.is_zero() {
            self.fold(&[id])?;
        }
        Ok(lease)
    }

    pub(super) fn delete(&mut self, id: SessionId) -> Result<()> {
        // A file that a dead process wrote without saying so must be known, or it would come back.
        self.look_at(id)?;
        self.record(id)?;
        self.lease_of(id).is_free(id, self.world.now())?;
        self.remove(&[id])
    }

    /// Moves a session to the trash: it is written down, and then its file is removed.
    fn trash(&mut self, id: SessionId, change: &Change) -> Result<Session> {
        // What another program wrote to the file goes with it.
        self.look_at(id)?;
        self.is_there(id)?;
        self.lease_of(id).is_free(id, self.world.now())?;
        if let Some(name) = &change.name {
            self.name_is_free(name, id)?;
        }
        self.put_in_trash(id, change)?;
        self.settle()?;
        self.write_index()?;
        self.session(id)
    }

    fn put_in_trash(&mut self, id: SessionId, change: &Change) -> Result<()> {
        let mut record = self.record(id)?.clone();
        let (stem, archived) = (record.stem.clone(), record.header.archived);
        record.pending = Some(Pending::Trash { stem, archived });
        change.apply(&mut record.header);
        let keys = self.state.catalogue.keys.iter().filter(|(_, to)| **to == id);
        let released = keys.map(|(key, _)| Op::Key { key: key.clone(), to: None });
        let ops = released.chain([Op::Put(Box::new(record))]).collect();
        self.dirty.remove(&id);
        self.commit(ops)
    }

    /// Moves sessions whose files another program deleted to the trash.
    pub(super) fn throw_away(&mut self, ids: &[SessionId]) -> Result<()> {
        for id in ids {
            let keys = self.state.catalogue.keys.iter().filter(|(_, to)| *to == id);
            let keys = keys.map(|(key, _)| key.clone()).collect();
            let change = Change::to_trash(&self.record(*id)?.header, keys, self.world.now());
            self.put_in_trash(*id, &change)?;
        }
        self.settle()?;
        self.write_index()
    }

    /// Removes sessions for good: first it is written down, then done.
    pub(super) fn remove(&mut self, ids: &[SessionId]) -> Result<()> {
        // One by one: together they may say more than a record holds.
        for id in ids {
            let mut record = self.record(*id)?.clone();
            record.pending = Some(Pending::Delete);
            self.commit(vec![Op::Put(Box::new(record))])?;
            self.dirty.remove(id);
        }
        self.settle()?;
        self.write_index()
    }

    /// Finishes what was begun: by this call, or by a process that died.
    pub(super) fn settle(&mut self) -> Result<()> {
        const ACTION: &str = "move a file";
        if self.reach == Reach::AsLeft {
            return Ok(());
        }
        for id in self.state.catalogue.pending.clone() {
            let Some(mut record) = self.state.catalogue.records.get(&id).cloned() else { continue };
            let path = self.path_of(&record.stem, record.header.archived);
            match record.pending.take() {
                Some(Pending::Move { stem, archived }) => {
                    let from = self.path_of(&stem, archived);
                    if record.header.archived {
                        self.make_archive()?;
                    }
                    let there = from.symlink_metadata().is_ok_and(|there| there.is_file());
                    if there && path.symlink_metadata().is_err() {
                        self.disk.rename(&from, &path).told(&from, ACTION)?;
                        self.sync_visible()?;
                    }
                    self.commit(vec![Op::Put(Box::new(record)), Op::Index(None)])?;
                }
                Some(Pending::Trash { stem, archived }) => {
                    self.unindex(id);
                    let path = self.path_of(&stem, archived);
                    let ours = record.sig.take().is_some();
                    if ours && path.symlink_metadata().is_ok_and(|there| there.is_file()) {
                        self.disk.remove(&path).told(&path, "delete a session")?;
                        self.sync_visible()?;
                    }
                    self.commit(vec![Op::Put(Box::new(record)), Op::Index(None)])?;
                }
                Some(Pending::Delete) => {
                    self.unindex(id);
                    self.remove_blobs(id)?;
                    let log = self.log_path(id);
                    // A file that is not known to be this session's is somebody else's.
                    let visible = record.sig.is_some().then_some(path);
                    for path in visible.into_iter().chain([log]) {
                        match path.symlink_metadata() {
                            Ok(there) if there.is_file() => {
                                self.disk.remove(&path).told(&path, "delete a session")?;
                            }
                            _ => {}
                        }
                    }
                    self.sync_visible()?;
                    self.disk.sync_folder(&self.logs_folder()).told(&self.root, ACTION)?;
                    self.logs.remove(&id);
                    self.commit(vec![Op::Gone(id), Op::Index(None)])?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Puts away, or deletes, what was active longest ago while there are too many.
    fn keep_to_limit(&mut self, newest: SessionId) -> Result<()> {
        let active = self.state.catalogue.all().filter(|record| !record.header.archived);
        let ids: Vec<SessionId> = active.map(|record| record.header.id).collect();
        if self.limit.sessions == 0 || ids.len() <= self.limit.sessions {
            return Ok(());
        }
        let now = self.world.now();
        let mut old: Vec<(Timestamp, SessionId)> = Vec::new();
        for id in &ids {
            let goes = *id != newest && self.holder(*id, now).is_none();
            // One whose log cannot be read stays where doctor finds it.
            if goes && let Ok(session) = self.session(*id) {
                old.push((session.last_activity_at, *id));
            }
        }
        old.sort();
        old.truncate(ids.len() - self.limit.sessions);
        let old: Vec<SessionId> = old.into_iter().map(|(_, id)| id).collect();
        if self.limit.delete {
            return self.throw_away(&old);
        }
        for id in old {
            let mut record = self.record(id)?.clone();
            record.header.archived = true;
            record.stale = true;
            let stem = self.free_stem(&record.stem, id)?;
            let stem = std::mem::replace(&mut record.stem, stem);
            record.pending = Some(Pending::Move { stem, archived: false });
            self.commit(vec![Op::Put(Box::new(record))])?;
            self.dirty.insert(id);
        }
        self.settle()?;
        self.write_index()
    }
}

/// Entries of one call have ids of their own.
fn distinct(id: SessionId, entries: &[NewEntry]) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    match entries.iter().find(|new| !seen.insert(&new.id)) {
        Some(twice) => Err(StoreError::IdReused { id, entry: twice.id.clone() }),
        None => Ok(()),
    }
}
