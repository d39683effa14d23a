//! Bringing the visible files up to date with the logs.
//!
//! A fold first takes in what other programs wrote, so that nothing of theirs is written over.
//! Then each file is written under a temporary name, synced and renamed; then the index and
//! `last_session`; then the folder is synced, and last of all the state says how the files look.
//! If that last word is lost, the files are compared with the logs the next time, and found equal.

use std::path::Path;

use rethread_core::limits::READ_ENTRIES;
use rethread_core::store::Result;
use rethread_core::{Body, Raw, SessionId, StoreError};

use super::disk::{Draft, Sig, Told, changed, is_draft};
use super::folder::{Dir, Reach};
use super::log::{self, Tail};
use super::state::{Op, Record};
use super::unless_full;
use super::visible::{self, Metadata};

const ACTION: &str = "write the session files";

/// The largest index that is read: fifty sessions need a fiftieth of a megabyte.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// How often a file is written again because another program wrote it in the same moment.
const REWRITTEN_TRIES: u32 = 16;

/// The largest `last_session` that is read: no id is longer.
const LAST_BYTES_MAX: u64 = 1 << 10;

impl Dir {
    /// Brings a directory that was just opened to where it should be.
    pub(super) fn recover(&mut self) -> Result<()> {
        let disk = self.disk.clone();
        let lost = self.state.is_new() || self.state.damaged > 0;
        if self.state.is_new() {
            self.state.begin(disk.as_ref())?;
            disk.sync_folder(&self.ours).told(&self.root, "open the directory")?;
        }
        self.state.catalogue.moved.clear();
        if self.reach == Reach::Visiting {
            return self.look();
        }
        // What there is no room for now is done by whoever writes next, or opens the directory.
        unless_full(self.sweep(lost).and_then(|()| self.catch_up()))
    }

    /// Takes in what happened, and brings the visible files up to date.
    fn catch_up(&mut self) -> Result<()> {
        self.settle()?;
        self.look()?;
        let now = self.world.now();
        let all: Vec<SessionId> = self.state.catalogue.all().map(|r| r.header.id).collect();
        let behind: Vec<SessionId> = all
            .into_iter()
            .filter(|id| self.holder(*id, now).is_none() && self.is_behind(*id))
            .collect();
        match behind.is_empty() {
            true => Ok(()),
            false => self.fold(&behind),
        }
    }

    /// Removes what a crash left half done. Logs that no record names belong to sessions that
    /// never came to be; but where the state was lost, they are all that is left of sessions.
    fn sweep(&mut self, lost: bool) -> Result<()> {
        let ours = [self.ours.clone(), self.logs_folder(), self.damaged_folder()];
        for folder in [self.root.clone(), self.archive()].into_iter().chain(ours) {
            for name in names(&folder) {
                if is_draft(&name) {
                    let path = folder.join(name);
                    self.disk.remove(&path).told(&path, "remove what a crash left")?;
                }
            }
        }
        for name in names(&self.logs_folder()) {
            let id = name.strip_suffix(".log").and_then(|id| id.parse().ok()).map(SessionId);
            let Some(id) = id.filter(|id| !self.state.catalogue.records.contains_key(id)) else {
                continue;
            };
            let path = self.log_path(id);
            match log::header_of(&path).ok().flatten().filter(|_| lost) {
                Some(header) => {
                    let stem = header.name.ascii_id(header.created_at, header.id);
                    self.commit(vec![Op::Put(Box::new(Record::new(header, stem)))])?;
                }
                None if lost => {}
                None => self.disk.remove(&path).told(&path, "remove what a crash left")?,
            }
        }
        Ok(())
    }

    /// Whether the visible file of a session says less than its log.
    fn is_behind(&mut self, id: SessionId) -> bool {
        let Ok(record) = self.record(id) else { return false };
        if record.header.trash.is_some() {
            return false;
        }
        // Where the archive is no folder of ours, nothing can be written to it.
        if record.header.archived && self.skipped.contains_key(&self.archive()) {
            return false;
        }
        if record.stale || record.sig.is_none() {
            return true;
        }
        let folded = record.folded.as_ref().map_or(0, |tail| tail.bytes);
        self.tail(id).is_ok_and(|tail| tail.bytes != folded)
    }

    pub(super) fn fold_dirty(&mut self) -> Result<()> {
        let dirty: Vec<SessionId> = self.dirty.iter().copied().collect();
        self.fold(&dirty)
    }

    /// Brings the files of these sessions up to date, and with them the index.
    pub(super) fn fold(&mut self, ids: &[SessionId]) -> Result<()> {
        self.may_write()?;
        self.look()?;
        let mut ops = Vec::new();
        for id in ids {
            for _ in 0..REWRITTEN_TRIES {
                if !self.is_behind(*id) {
                    break;
                }
                match self.write_visible(*id) {
                    Ok(Some(record)) => {
                        ops.push(Op::Put(Box::new(record)));
                        break;
                    }
                    // Another program wrote or deleted it in this moment, and goes first; in the
                    // middle of a turn, when that ends.
                    Ok(None) if self.holder(*id, self.world.now()).is_some() => break,
                    Ok(None) => self.look()?,
                    // Its file may be all that is left; `doctor` makes a log of both.
                    Err(StoreError::Damaged { .. }) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        if ops.is_empty() {
            self.dirty.retain(|id| !ids.contains(id));
            return Ok(());
        }
        self.sync_visible()?;
        ops.extend([Op::Index(None), Op::Active]);
        // If the machine loses its power now, the files are compared again when it is back.
        self.state.commit(self.disk.as_ref(), ops, false)?;
        self.dirty.retain(|id| !ids.contains(id));
        self.write_index()?;
        self.state.tidy(self.disk.as_ref(), self.world.as_ref())
    }

    /// Makes the folder of archived sessions. A link in its place would lead out of the directory.
    pub(super) fn make_archive(&self) -> Result<()> {
        let archive = self.archive();
        if archive.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
            return Err(StoreError::Backend {
                store: "files",
                action: "archive a session",
                source: format!("{} is no folder", archive.display()).into(),
            });
        }
        self.disk.folder(&archive).told(&archive, ACTION)
    }

    /// Waits until the names of the visible files are on disk.
    pub(super) fn sync_visible(&self) -> Result<()> {
        self.disk.sync_folder(&self.root).told(&self.root, ACTION)?;
        match self.archive().is_dir() {
            true => self.disk.sync_folder(&self.archive()).told(&self.root, ACTION),
            false => Ok(()),
        }
    }

    /// Writes the file of a session; returns the record that says so, or nothing where somebody
    /// else touched the file meanwhile.
    fn write_visible(&mut self, id: SessionId) -> Result<Option<Record>> {
        let (disk, world) = (self.disk.clone(), self.world.clone());
        let mut record = self.record(id)?.clone();
        let path = self.path_of(&record.stem, record.header.archived);
        if record.header.archived {
            self.make_archive()?;
        }
        let summary = self.summary(id)?;
        let log = self.log(id)?;
        let tail = log.tail.clone();
        // A file that says more than a damaged log is not written over.
        let there = record.sig.is_some();
        if there && record.folded.as_ref().is_some_and(|folded| tail.is_less_than(folded)) {
            return Err(tail.cut_off(id));
        }
        let metadata = metadata(&record, &tail).json();
        let mut draft = Draft::new(disk.as_ref(), world.as_ref(), &path).told(&path, ACTION)?;
        let opening = format!("{{\n\"metadata\": {metadata},\n\"messages\": [");
        draft.add(opening.as_bytes()).told(&path, ACTION)?;
        let mut before = "\n";
        for start in (0..tail.tally.entries).step_by(READ_ENTRIES as usize) {
            let (entries, bad) = log.read(start..start + READ_ENTRIES).told(&path, ACTION)?;
            if let Some(bad) = bad.filter(|_| there) {
                return Err(StoreError::Damaged { id, seq: bad.seq, what: bad.what });
            }
            for message in entries.iter().filter_map(visible::message) {
                draft.add(before.as_bytes()).told(&path, ACTION)?;
                draft.add(message.as_bytes()).told(&path, ACTION)?;
                before = ",\n";
            }
        }
        let theirs = record.kept.summary.as_ref();
        let theirs = theirs.filter(|theirs| theirs.instead_of == tail.tally.summary);
        let summary =
            theirs.map(|theirs| theirs.text.clone()).or(summary.map(|ours| Raw::of(&ours)));
        let ending = visible::ending(summary, &record.kept, &record.header);
        draft.add(b"\n]").told(&path, ACTION)?;
        draft.add(ending.as_bytes()).told(&path, ACTION)?;
        draft.finish().told(&path, ACTION)?;
        if !self.is_as_known(&path, record.sig.as_ref()) {
            return Ok(None);
        }
        self.set_aside(&path)?;
        record.sig = Some(draft.publish().told(&path, ACTION)?);
        record.folded = Some(tail);
        record.stale = false;
        record.says = None;
        Ok(Some(record))
    }

    /// Whether a file is as it was when it was last looked at. Programs that share the directory
    /// take no lock: what they write between this and our rename is the only thing that is lost.
    fn is_as_known(&self, path: &Path, sig: Option<&Sig>) -> bool {
        let there = path.symlink_metadata().ok();
        let there = there.map(|there| (changed(&there), there.len()));
        match self.skipped.get(path) {
            Some(skipped) => there.is_none_or(|there| there == (skipped.changed, skipped.size)),
            None => there == sig.map(|sig| (sig.changed, sig.size)),
        }
    }

    /// What other programs show when the session is taken up again.
    fn summary(&mut self, id: SessionId) -> Result<Option<String>> {
        let tally = self.log(id)?.tail.tally;
        let Some(seq) = tally.summary.or(tally.started) else { return Ok(None) };
        let entry = self.entries(id, seq..seq + 1).ok().and_then(|mut entries| entries.pop());
        Ok(match entry.map(|entry| entry.body) {
            Some(Body::Summary(summary)) => Some(summary.text),
            Some(Body::Restored(restored)) => Some(restored.summary),
            _ => None,
        })
    }

    /// Writes the index and `last_session`, which follows our sessions when they go on and stays
    /// what another program wrote otherwise.
    pub(super) fn write_index(&mut self) -> Result<()> {
        if self.reach != Reach::All {
            return Ok(());
        }
        let path = self.root.join("index.json");
        let mut listed: Vec<((jiff::Timestamp, SessionId), String, String)> = Vec::new();
        for record in self.state.catalogue.all() {
            // Only what has a file: a program that reads the index opens it.
            let Some(tail) = record.folded.as_ref().filter(|_| record.sig.is_some()) else {
                continue;
            };
            if !record.header.archived {
                let metadata = metadata(record, tail);
                let place = (metadata.last_activity_at, record.header.id);
                let says = record.says.as_ref().map(|raw| raw.get().to_owned());
                let says = says.unwrap_or_else(|| metadata.json());
                listed.push((place, record.stem.clone(), says));
            }
        }
        listed.sort_by(|a, b| b.cmp(a));
        let newest = listed.first().map(|(_, stem, _)| stem.clone());
        let mut sessions: Vec<(String, String)> =
            listed.into_iter().map(|(_, stem, metadata)| (stem, metadata)).collect();
        sessions.extend(self.others_listed(&path, &sessions));
        self.set_aside_link(&path)?;
        let text = visible::index(&sessions, self.world.now());
        let sig = self.replace(&path, &text)?;
        let last = self.root.join("last_session");
        let said = self.last_said();
        let good = said.as_ref().is_some_and(|said| {
            self.is_listed(said)
                && (!self.state.catalogue.active || newest.as_deref() == Some(said))
        });
        match newest {
            _ if good => {}
            Some(newest) => {
                self.set_aside_link(&last)?;
                self.replace(&last, &newest)?;
            }
            None if said.is_some() => self.disk.remove(&last).told(&last, ACTION)?,
            None => {}
        }
        self.sync_visible()?;
        self.state.commit(self.disk.as_ref(), vec![Op::Index(Some(sig))], false)
    }

    /// What `last_session` says; nothing where there is none.
    fn last_said(&self) -> Option<String> {
        let last = self.root.join("last_session");
        let there = last.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        let small = there.len() <= LAST_BYTES_MAX;
        let bytes = if small { std::fs::read(&last).unwrap_or_default() } else { Vec::new() };
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Whether another program can go on with what is called this: a session that has a file, or
    /// a file of one that cannot be read here.
    fn is_listed(&self, stem: &str) -> bool {
        let mut all = self.state.catalogue.all();
        let broken = |path: &Path| self.skipped.get(path).is_some_and(|skipped| skipped.damaged);
        all.any(|r| r.stem == stem && r.sig.is_some() && !r.header.archived)
            || visible::is_stem(stem) && broken(&self.path_of(stem, false))
    }

    /// Whether `last_session` names a session, if there is any to name.
    pub(super) fn last_is_one(&self) -> bool {
        match self.last_said() {
            Some(said) => self.is_listed(&said),
            None => {
                let mut all = self.state.catalogue.all();
                !all.any(|r| r.sig.is_some() && !r.header.archived)
            }
        }
    }

    /// What the index says of files that are not ours to read: it stays in the index.
    fn others_listed(&self, path: &Path, ours: &[(String, String)]) -> Vec<(String, String)> {
        let small = path.symlink_metadata().is_ok_and(|there| there.len() <= INDEX_BYTES_MAX);
        let text = if small { std::fs::read(path).unwrap_or_default() } else { Vec::new() };
        let known = |stem: &str| {
            ours.iter().any(|(other, _)| other == stem)
                || self.state.catalogue.records.values().any(|record| record.stem == stem)
        };
        visible::index_entries(&String::from_utf8_lossy(&text))
            .into_iter()
            .filter(|(stem, _)| visible::is_stem(stem) && !known(stem))
            .filter(|(stem, _)| self.path_of(stem, false).is_file())
            .map(|(stem, raw)| (stem, raw.get().to_owned()))
            .collect()
    }

    /// Whether the index is there and as we left it.
    pub(super) fn index_is_ours(&self) -> bool {
        let Ok(there) = self.root.join("index.json").symlink_metadata() else { return false };
        let known = self.state.catalogue.index.as_ref();
        there.is_file()
            && known.is_some_and(|sig| (sig.changed, sig.size) == (changed(&there), there.len()))
    }

    fn replace(&self, path: &Path, text: &str) -> Result<Sig> {
        let (disk, world) = (self.disk.as_ref(), self.world.as_ref());
        let mut draft = Draft::new(disk, world, path).told(path, ACTION)?;
        draft.add(text.as_bytes()).told(path, ACTION)?;
        draft.publish().told(path, ACTION)
    }

    /// Moves something out of the way that is in the place of one of our files and cannot be
    /// read: it is somebody's work, or was.
    fn set_aside(&mut self, path: &Path) -> Result<()> {
        match self.skipped.remove(path) {
            Some(_) if path.symlink_metadata().is_ok() => self.aside(path),
            _ => Ok(()),
        }
    }

    fn set_aside_link(&self, path: &Path) -> Result<()> {
        match path.symlink_metadata() {
            Ok(there) if !there.is_file() => self.aside(path),
            _ => Ok(()),
        }
    }

    fn aside(&self, path: &Path) -> Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        let random = self.world.uuid().as_u128() & 0xffff_ffff;
        name.push(format!(".unreadable-{random:08x}"));
        self.disk.rename(path, &path.with_file_name(name)).told(path, ACTION)
    }
}

/// What is said about a session outside of it.
fn metadata<'a>(record: &'a Record, tail: &'a Tail) -> Metadata<'a> {
    Metadata {
        header: &record.header,
        stem: &record.stem,
        display: record.display.as_deref(),
        last_activity_at: record.last_activity_at(tail),
        messages: tail.shown,
        first_message: &tail.first_message,
        kept: &record.kept,
    }
}

/// The names in a folder; none where there is no folder.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
