//! What other programs do to the visible files, and what becomes of it.
//!
//! A file nobody knows becomes a session. A file that was rewritten is compared with the log,
//! message by message, by who said what: such programs drop tool messages and repeated ones, keep
//! only the last hundred, and give new ids and times. The log stays whole, and what stands behind
//! the last message it knows is appended. Where old messages were changed, or new ones put between
//! them, the file is another conversation from there on: a fork, which takes the file, the name
//! and the keys, while the log that was keeps what it had under another name. A file that is gone
//! was renamed, and so is the session, or deleted, and then the session is in the trash.
//!
//! What cannot be read is reported and left alone. Links are never followed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use rethread_core::entry::{Origin, Started, fingerprint};
use rethread_core::limits::{NAME_TRIES_MAX, READ_ENTRIES};
use rethread_core::log::open_calls;
use rethread_core::measure::measure;
use rethread_core::session::Parent;
use rethread_core::store::Result;
use rethread_core::{Body, EntryId, Header, Name, NewEntry, Raw, SessionId, StoreError};

use super::compare::{Compared, compared};
use super::disk::{Sig, Told, changed};
use super::folder::{Dir, Reach};
use super::frame;
use super::state::{Op, Record};
use super::visible::{self, NoSession, Said, Visible, is_stem, likeness};

/// The largest file that is read as a session. Larger ones were written by no conversation.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Bytes of what a file says beside its messages. It is written down with every change of the
/// session, up to four times in one record, and two of them must fit into one.
const SAYS_BYTES_MAX: usize = frame::RECORD_BYTES_MAX / 16;

/// Bytes of one of its messages: with what is stored beside it, it is a record.
const SAID_BYTES_MAX: usize = frame::RECORD_BYTES_MAX / 2;

/// A file that is left alone.
pub(super) struct Skipped {
    pub(super) changed: i64,
    pub(super) size: u64,
    /// Why.
    pub(super) why: String,
    /// Whether something of a session may be lost in it.
    pub(super) damaged: bool,
}

/// A session file, seen from outside.
#[derive(Clone)]
struct Found {
    path: PathBuf,
    stem: String,
    archived: bool,
    changed: i64,
    size: u64,
}

impl Dir {
    /// Takes in what happened to the file of one session.
    pub(super) fn look_at(&mut self, id: SessionId) -> Result<()> {
        let Some(record) = self.state.catalogue.get(id) else { return Ok(()) };
        let path = self.path_of(&record.stem, record.header.archived);
        let there = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
        let same = match (&record.sig, there) {
            (None, None) => true,
            (Some(sig), Some(there)) => (sig.changed, sig.size) == (changed(&there), there.len()),
            _ => false,
        };
        match same {
            true => Ok(()),
            false => self.look(),
        }
    }

    /// Takes in what happened to the visible files.
    pub(super) fn look(&mut self) -> Result<()> {
        if self.reach == Reach::AsLeft {
            return Ok(());
        }
        let now = self.world.now();
        let files = self.session_files()?;
        let known: HashMap<PathBuf, SessionId> = self
            .state
            .catalogue
            .all()
            .map(|r| (self.path_of(&r.stem, r.header.archived), r.header.id))
            .collect();
        let mut gone: Vec<SessionId> = Vec::new();
        let hidden = self.skipped.contains_key(&self.archive());
        for (path, id) in &known {
            let record = self.record(*id)?;
            let there = files.contains_key(path)
                || self.skipped.contains_key(path)
                || hidden && record.header.archived;
            if !there && record.sig.is_some() && self.holder(*id, now).is_none() {
                gone.push(*id);
            }
        }
        for found in files.values().filter(|found| !known.contains_key(&found.path)) {
            self.meet(found, &files, &mut gone)?;
        }
        for (path, id) in &known {
            if let Some(found) = files.get(path)
                && self.holder(*id, now).is_none()
            {
                self.compare(*id, found)?;
            }
        }
        if !gone.is_empty() {
            self.throw_away(&gone)?;
        }
        match self.reach != Reach::All || self.index_is_ours() && self.last_is_one() {
            true => Ok(()),
            false => self.write_index(),
        }
    }

    /// The session files there are; what else ends in `.json` is noted as left alone.
    fn session_files(&mut self) -> Result<BTreeMap<PathBuf, Found>> {
        let mut files = BTreeMap::new();
        let mut left: BTreeMap<PathBuf, Skipped> = BTreeMap::new();
        let archive = self.archive();
        for (folder, archived) in [(self.root.clone(), false), (archive, true)] {
            match folder.symlink_metadata() {
                Ok(there) if there.is_dir() => {}
                // The directory itself may be a link: whoever named it knows where it leads.
                Ok(_) if !archived => {}
                Ok(_) => {
                    let why = "it is no folder, so nothing can be archived".to_owned();
                    left.insert(folder, Skipped { changed: 0, size: 0, why, damaged: false });
                    continue;
                }
                Err(_) => continue,
            }
            for entry in std::fs::read_dir(&folder).told(&folder, "read the directory")? {
                let entry = entry.told(&folder, "read the directory")?;
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                let Some(stem) = name.strip_suffix(".json") else { continue };
                if !archived && stem == "index" {
                    continue;
                }
                let there = match path.symlink_metadata() {
                    // It is gone since.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    // A file that cannot be looked at must not count as deleted.
                    there => there.told(&path, "read the directory")?,
                };
                let (changed, size) = (changed(&there), there.len());
                let mut leave = |why: &str| {
                    let skipped = Skipped { changed, size, why: why.into(), damaged: false };
                    left.insert(path.clone(), skipped);
                };
                if there.is_symlink() {
                    leave("it is a link, and links are not followed");
                } else if !there.is_file() {
                    leave("it is no file");
                } else if !is_stem(stem) {
                    leave("its name is no session id");
                } else if size > FILE_BYTES_MAX {
                    leave("it is too large to be a session");
                } else {
                    let stem = stem.to_owned();
                    files.insert(path.clone(), Found { path, stem, archived, changed, size });
                }
            }
        }
        // What could not be read once is not read again before it changes.
        for (path, skipped) in std::mem::take(&mut self.skipped) {
            let same = files
                .get(&path)
                .is_some_and(|f| (f.changed, f.size) == (skipped.changed, skipped.size));
            if same {
                left.insert(path, skipped);
            }
        }
        self.skipped = left;
        Ok(files)
    }

    fn skip(&mut self, found: &Found, why: String, damaged: bool) {
        let Found { path, changed, size, .. } = found.clone();
        self.skipped.insert(path, Skipped { changed, size, why, damaged });
    }

    /// Reads a file, if it is a session; `known` is one that a session has.
    fn read_visible(&mut self, found: &Found, known: bool) -> Option<(Visible, Sig)> {
        if self.skipped.contains_key(&found.path) {
            return None;
        }
        let bytes = match std::fs::read(&found.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.skip(found, format!("it cannot be read: {error}"), true);
                return None;
            }
        };
        let sum = frame::sum(&bytes);
        let sig = Sig { changed: found.changed, size: bytes.len() as u64, sum };
        match visible::parse(&String::from_utf8_lossy(&bytes)) {
            Ok(visible) => match too_much(&visible, bytes.len()) {
                None => Some((visible, sig)),
                Some(why) => {
                    self.skip(found, why, known);
                    None
                }
            },
            // Something else in the place of a session has taken it.
            Err(NoSession::Other(why)) => {
                self.skip(found, why, known);
                None
            }
            Err(NoSession::Broken(why)) => {
                self.skip(found, why, true);
                None
            }
        }
    }

    /// Meets a file that no session has.
    fn meet(
        &mut self,
        found: &Found,
        files: &BTreeMap<PathBuf, Found>,
        gone: &mut Vec<SessionId>,
    ) -> Result<()> {
        let Some((visible, sig)) = self.read_visible(found, false) else { return Ok(()) };
        for index in 0..gone.len() {
            if self.is_renamed(gone[index], &visible)? {
                let id = gone.remove(index);
                self.follow(id, found, &visible)?;
                return self.take_in(id, found, visible, sig);
            }
        }
        let other = self.path_of(&visible.id, found.archived);
        if visible.id != found.stem && files.contains_key(&other) {
            let why = format!("its id is `{}`, which is that of another file", visible.id);
            self.skip(found, why, false);
            return Ok(());
        }
        self.adopt(found, visible, sig)
    }

    /// Makes a session of a file.
    fn adopt(&mut self, found: &Found, visible: Visible, sig: Sig) -> Result<()> {
        let known = |id: SessionId| self.state.catalogue.records.contains_key(&id);
        let ours = visible.ours.clone().filter(|header| !known(header.id));
        let mut header = ours.unwrap_or_else(|| {
            let written = jiff::Timestamp::from_millisecond(found.changed / 1_000_000);
            let at = visible.created_at.or(visible.last_activity_at).or(written.ok());
            let at = at.unwrap_or_else(|| self.world.now());
            let file = format!("{}/{}", found.archived, found.stem);
            Header::new(SessionId(self.id_for(at, &file)), self.owner.clone(), at)
        });
        header.owner = self.owner.clone();
        header.archived = found.archived;
        header.created_at = visible.created_at.unwrap_or(header.created_at);
        let record =
            Record { sig: Some(sig), stale: false, ..Record::new(header, found.stem.clone()) };
        let record = self.described(record, &visible, &found.stem);
        let entries = self.entries_of(&visible, 0, &record.header, |_| false);
        self.begin(record, &entries, &[])
    }

    /// An id for something in a file. Where nothing can be remembered it is worked out from the
    /// file, so that whoever looks next, or copies it again, finds the same.
    fn id_for(&self, at: jiff::Timestamp, what: &str) -> uuid::Uuid {
        if self.reach != Reach::Visiting {
            return self.world.uuid();
        }
        let mut bits = [0; 10];
        bits.copy_from_slice(&fingerprint("visiting", what)[..10]);
        let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &bits).into_uuid()
    }

    /// The record with what the file says about itself.
    fn described(&self, mut record: Record, visible: &Visible, stem: &str) -> Record {
        let header = &mut record.header;
        // A program that does not know a field leaves it out; that says nothing about it.
        let said = [
            (&mut header.profile.description, &visible.description),
            (&mut header.profile.provider, &visible.provider),
            (&mut header.profile.model, &visible.model),
        ];
        for (ours, theirs) in said.into_iter().filter(|(_, theirs)| theirs.is_some()) {
            ours.clone_from(theirs);
        }
        let shown = visible.name.as_deref().unwrap_or(stem);
        let before = record.display.as_deref().unwrap_or(header.name.as_str());
        if shown != before {
            header.name = self.free_name(shown, stem, header.id);
            record.display = (shown != header.name.as_str()).then(|| shown.to_owned());
        } else if self.name_is_free(&header.name, header.id).is_err() {
            header.name = self.free_name(header.name.as_str(), stem, header.id);
            record.display = Some(shown.to_owned());
        }
        record.kept.clone_from(&visible.kept);
        if let Some(summary) = &mut record.kept.summary {
            summary.instead_of = record.folded.as_ref().and_then(|tail| tail.tally.summary);
        }
        record.active_at = visible.last_activity_at;
        record.says = (visible.id == stem).then(|| visible.metadata.clone());
        record
    }

    /// A name as close to what people see as can be, and not what another file is called.
    fn free_name(&self, shown: &str, stem: &str, id: SessionId) -> Name {
        let at = Name::of_time(self.world.now(), id);
        let name = Name::new(shown).or_else(|_| Name::new(stem)).unwrap_or(at.clone());
        let numbered = (2..2 + NAME_TRIES_MAX).map(|number| name.numbered(number));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let is_other = |name: &Name| {
            let name = name.as_str();
            name != stem && self.path_of(name, false).symlink_metadata().is_ok()
        };
        let free = |name: &Name| self.name_is_free(name, id).is_ok() && !is_other(name);
        names.find(free).unwrap_or(at)
    }

    /// The messages of a file as entries, from one of them on. `taken` says which ids are.
    pub(super) fn entries_of(
        &self,
        visible: &Visible,
        from: usize,
        header: &Header,
        taken: impl Fn(&EntryId) -> bool,
    ) -> Vec<NewEntry> {
        let mut entries: Vec<NewEntry> = Vec::new();
        let mut ids = HashSet::new();
        let last = visible.messages.len();
        let mut before = visible.created_at.unwrap_or(header.created_at);
        for (index, said) in visible.messages.iter().enumerate().skip(from) {
            let ends = visible.last_activity_at.filter(|_| index + 1 == last);
            let at = said.at.or(ends).unwrap_or(before);
            before = at;
            let id = said.id.clone().filter(|id| !taken(id) && !ids.contains(id));
            let place = || format!("{}/{index}", header.id);
            let id = id.unwrap_or_else(|| self.id_for(at, &place()).into());
            ids.insert(id.clone());
            let body = said.body.clone();
            let measure = measure(&body, |call| {
                let earlier = visible.messages[..index].iter().map(|said| &said.body);
                open_calls(earlier, call)
            });
            entries.push(NewEntry { id, at, body, measure });
        }
        entries
    }

    /// Compares a session with its file.
    fn compare(&mut self, id: SessionId, found: &Found) -> Result<()> {
        let record = self.record(id)?;
        let seen = record.sig.clone();
        if seen.as_ref().is_some_and(|s| (s.changed, s.size) == (found.changed, found.size)) {
            return Ok(());
        }
        let Some((visible, sig)) = self.read_visible(found, true) else { return Ok(()) };
        if seen.is_some_and(|seen| seen.sum == sig.sum) {
            // Touched, not changed.
            let record = Record { sig: Some(sig), ..self.record(id)?.clone() };
            let put = vec![Op::Put(Box::new(record))];
            return self.state.commit(self.disk.as_ref(), put, false);
        }
        self.take_in(id, found, visible, sig)
    }

    /// Takes in a file that was rewritten. One whose log is damaged waits until it was repaired:
    /// what the two have in common cannot be told.
    fn take_in(&mut self, id: SessionId, found: &Found, visible: Visible, sig: Sig) -> Result<()> {
        match self.reconcile(id, visible, sig) {
            Err(StoreError::Damaged { what, .. }) => {
                self.skip(found, format!("its log is damaged: {what}"), true);
                Ok(())
            }
            other => other,
        }
    }

    /// What is shown of a log, in order.
    fn likenesses(&mut self, id: SessionId) -> Result<Vec<[u8; 16]>> {
        let end = self.tail(id)?.tally.entries;
        let mut likenesses = Vec::new();
        for start in (0..end).step_by(READ_ENTRIES as usize) {
            let read = self.log(id)?.read(start..start + READ_ENTRIES);
            let (entries, bad) = read.told(&self.root, "compare a file with its log")?;
            if let Some(bad) = bad {
                return Err(StoreError::Damaged { id, seq: bad.seq, what: bad.what });
            }
            likenesses.extend(entries.iter().filter_map(|entry| likeness(&entry.body)));
        }
        Ok(likenesses)
    }

    /// Takes in a file that was rewritten.
    fn reconcile(&mut self, id: SessionId, visible: Visible, sig: Sig) -> Result<()> {
        let ours = self.likenesses(id)?;
        let theirs: Vec<_> = visible.messages.iter().map(|said| likeness(&said.body)).collect();
        let record = self.record(id)?.clone();
        let stem = record.stem.clone();
        match compared(&ours, &theirs) {
            Compared::New(from) => {
                let before = self.tail(id)?.bytes;
                let behind =
                    record.stale || record.folded.as_ref().map(|t| t.bytes) != Some(before);
                let log = self.log(id)?;
                let taken: HashSet<EntryId> = visible.messages[from..]
                    .iter()
                    .filter_map(|said| said.id.clone())
                    .filter(|id| log.place_of(id).is_some())
                    .collect();
                let new = self.entries_of(&visible, from, &record.header, |id| taken.contains(id));
                self.push(id, &new)?;
                // Where the program left something out, and we have nothing to add, its file
                // stays as it wrote it.
                let folded = match behind {
                    true => record.folded.clone(),
                    false => Some(self.tail(id)?),
                };
                match behind {
                    true => self.dirty.insert(id),
                    false => self.dirty.remove(&id),
                };
                let described = self.described(record.clone(), &visible, &stem);
                let header = Header { created_at: record.header.created_at, ..described.header };
                let record = Record { header, folded, sig: Some(sig), ..described };
                self.commit(vec![Op::Put(Box::new(record)), Op::Index(None)])
            }
            Compared::Other => self.fork(record, visible, sig),
        }
    }

    /// Makes a fork of a file that went another way than the log.
    fn fork(&mut self, mut parent: Record, visible: Visible, sig: Sig) -> Result<()> {
        let from = parent.header.id;
        let (name, stem) = (parent.header.name.clone(), parent.stem.clone());
        let header = Header {
            id: SessionId(self.world.uuid()),
            parent: Some(Parent { id: from, origin: Origin::Fork }),
            created_at: visible.created_at.unwrap_or_else(|| self.world.now()),
            ..parent.header.clone()
        };
        let keys = self.state.catalogue.keys.iter().filter(|(_, to)| **to == from);
        let keys: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
        let mut entries = self.entries_of(&visible, 0, &header, |_| false);
        let at = entries.last().map_or(header.created_at, |entry| entry.at);
        let started = Started { origin: Origin::Fork, from: Some(from), keys: keys.clone() };
        let body = Body::Started(started);
        let size = measure(&body, |_| None);
        entries.push(NewEntry { id: self.world.uuid().into(), at, body, measure: size });
        // The log that was goes on under another name, and gets a file of its own.
        let numbered = (2..2 + NAME_TRIES_MAX).map(|number| name.numbered(number));
        let mut free = numbered.filter(|name| {
            self.name_is_free(name, from).is_ok()
                && [false, true].iter().all(|a| !self.path_of(name.as_str(), *a).exists())
        });
        let aside = free.next().unwrap_or_else(|| Name::of_time(self.world.now(), from));
        drop(free);
        parent.stem = aside.to_string();
        parent.header.name = aside;
        parent.display = None;
        (parent.sig, parent.folded, parent.stale) = (None, None, true);
        let log = self.write_log(&header, &entries)?;
        let id = header.id;
        let record = Record {
            sig: Some(sig),
            folded: Some(log.tail.clone()),
            stale: false,
            kept: visible.kept.clone(),
            ..Record::new(header, stem.clone())
        };
        let mut ops = vec![Op::Put(Box::new(parent)), Op::Put(Box::new(record.clone()))];
        ops.extend(keys.into_iter().map(|key| Op::Key { key, to: Some(id) }));
        self.commit(ops)?;
        // Its name was the parent's until now.
        let described = self.described(record, &visible, &stem);
        self.commit(vec![Op::Put(Box::new(described)), Op::Index(None)])?;
        self.logs.insert(id, log);
        self.dirty.insert(from);
        Ok(())
    }

    /// Whether a file that appeared is a session whose file is gone.
    fn is_renamed(&mut self, id: SessionId, visible: &Visible) -> Result<bool> {
        if let Some(ours) = &visible.ours {
            return Ok(ours.id == id);
        }
        if visible.created_at != Some(self.record(id)?.header.created_at) {
            return Ok(false);
        }
        let ours = match self.likenesses(id) {
            // Created in the same millisecond, it is the same; and what is left of it is kept.
            Err(StoreError::Damaged { .. }) => return Ok(true),
            ours => ours?,
        };
        let theirs: Vec<_> = visible.messages.iter().map(|said| likeness(&said.body)).collect();
        Ok(matches!(compared(&ours, &theirs), Compared::New(_)))
    }

    /// Goes with a file that was renamed or moved.
    fn follow(&mut self, id: SessionId, found: &Found, visible: &Visible) -> Result<()> {
        let mut record = self.record(id)?.clone();
        record.stem.clone_from(&found.stem);
        record.header.archived = found.archived;
        // A file renamed by hand says its old name within; its new one is what people meant.
        if visible.id != found.stem {
            record.header.name = self.free_name(&found.stem, &found.stem, id);
            record.display = None;
            record.stale = true;
        }
        self.commit(vec![Op::Put(Box::new(record)), Op::Index(None)])
    }
}

/// Why a file of this many bytes cannot be written down, if it cannot.
fn too_much(visible: &Visible, bytes: usize) -> Option<String> {
    // Nothing in it is larger than all of it.
    if bytes <= SAYS_BYTES_MAX {
        return None;
    }
    let says = visible.metadata.get().len() + Raw::of(&visible.kept).get().len();
    if says > SAYS_BYTES_MAX {
        return Some(format!("beside its messages it says more than {SAYS_BYTES_MAX} bytes"));
    }
    let large = |said: &Said| said.body.json().len() > SAID_BYTES_MAX;
    let seq = visible.messages.iter().position(large)?;
    Some(format!("message {seq} has more than {SAID_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::store::{Filter, Upkeep};
    use rethread_core::{Fixed, Owner, Store};
    use serde_json::json;

    use super::*;
    use crate::files::{FilesLimit, FilesStore};

    #[test]
    fn a_file_that_says_more_than_can_be_written_down_is_left_alone_and_the_others_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |stem: &str, more: usize, said: usize| {
            let text = json!({
                "metadata": {"id": stem}, "theirs": "x".repeat(more),
                "messages": [{"role": "user", "content": "y".repeat(said)}],
            });
            let path = folder.path().join(format!("{stem}.json"));
            std::fs::write(path, text.to_string()).expect("written");
        };
        write("fits", SAYS_BYTES_MAX - 100, SAID_BYTES_MAX - 100);
        write("says", SAYS_BYTES_MAX, 1);
        write("said", 1, SAID_BYTES_MAX);
        let world = Arc::new(Fixed::default());
        for _ in 0..2 {
            let store = FilesStore::open(folder.path(), FilesLimit::default(), world.clone());
            let store = store.expect("a store");
            let page = store.list(&Owner::local(), &Filter::default(), None, 9).expect("listed");
            let names: Vec<_> = page.sessions.iter().map(|s| s.header.name.as_str()).collect();
            assert_eq!(names, ["fits"]);
            let found = store.check(false).expect("checked");
            let found: Vec<String> = found.into_iter().map(|finding| finding.what).collect();
            assert_eq!(
                found,
                [
                    format!(
                        "said.json is left alone: message 0 has more than {SAID_BYTES_MAX} bytes"
                    ),
                    format!(
                        "says.json is left alone: beside its messages it says more than \
                         {SAYS_BYTES_MAX} bytes"
                    ),
                ]
            );
        }
    }
}
