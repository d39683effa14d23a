//! Which sessions there are, what they are called, and who may write to them.
//!
//! `.rethread/state` is a journal as well. Each of its records is one change, whole or not there
//! at all: a session with its keys, a fork that takes its parent's file. Read from its beginning
//! it gives the [`Catalogue`]; processes that have it open read on from where they were. When it
//! has grown to several times what it says, it is written anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rethread_core::session::{Foreign, Kept};
use rethread_core::{Header, Key, Raw, SessionId, StoreError, World};
use serde::{Deserialize, Serialize};

use super::disk::{Disk, Draft, Sig, Told};
use super::frame::{self, Walk};
use super::log::Tail;

/// The format this version writes, and the newest it reads.
pub(super) const FORMAT: i64 = 2;

/// Bytes the journal may have however little it says.
const SMALL_BYTES: u64 = 64 << 10;

/// How many times what it says the journal may have. More, and opening reads too much that no
/// longer holds; less, and it is written anew too often.
const SLACK: u64 = 4;

/// Bytes of changes that are one record where the journal is written anew. What many sessions say
/// together may be more than a record can hold.
const PART_BYTES: usize = 1 << 20;

/// Something that was begun, and is finished by whoever comes next if its process died.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pending {
    /// The visible file stands under another name yet.
    Move {
        /// Its stem there.
        stem: String,
        /// Whether it is in the archive there.
        archived: bool,
    },
    /// The session is in the trash; its visible file may still be there.
    Trash {
        /// The stem of the file.
        stem: String,
        /// Whether it is in the archive.
        archived: bool,
    },
    /// The session is deleted; its files may not be yet.
    Delete,
}

/// What is known of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// What it says about itself.
    pub(super) header: Header,
    /// The name of its visible file, without `.json`.
    pub(super) stem: String,
    /// What another program shows as its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) display: Option<String>,
    /// Where its log ended when the visible file was last brought up to date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) folded: Option<Tail>,
    /// How the visible file looked then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sig: Option<Sig>,
    /// The header changed since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stale: bool,
    /// What was begun and not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<Pending>,
    /// When something last happened to it, as another program says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) active_at: Option<Timestamp>,
    /// What the file says about the session, where another program wrote it last. The index
    /// says the same then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) says: Option<Raw>,
    /// What another program wrote into its file.
    #[serde(default)]
    pub(super) kept: Kept,
}

impl Record {
    /// When something last happened, whoever did it.
    pub(super) fn last_activity_at(&self, tail: &Tail) -> Timestamp {
        tail.last_at.max(self.active_at).unwrap_or(self.header.created_at)
    }

    /// What another program says about it and the header does not.
    pub(super) fn foreign(&self, tail: &Tail) -> Option<Foreign> {
        let (header, name) = (&self.header, self.header.name.as_str());
        let plain = header.name.ascii_id(header.created_at, header.id);
        let foreign = Foreign {
            id: Some(self.stem.clone()).filter(|stem| *stem != plain),
            name: self.display.clone().filter(|display| display != name),
            active_at: self.active_at.filter(|at| Some(*at) > tail.last_at),
            kept: self.kept.clone(),
        };
        (foreign != Foreign::default()).then_some(foreign)
    }

    /// A session that was never folded.
    pub(super) fn new(header: Header, stem: String) -> Record {
        let kept = Kept::default();
        Record {
            header,
            stem,
            display: None,
            folded: None,
            sig: None,
            stale: true,
            pending: None,
            active_at: None,
            says: None,
            kept,
        }
    }
}

/// The right to write to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Held {
    /// Who has it, or had it last.
    pub(super) holder: String,
    /// Until when; none once it was given back.
    pub(super) until: Option<Timestamp>,
    /// The latest number handed out.
    pub(super) fence: u64,
}

/// One part of a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Format(i64),
    Put(Box<Record>),
    Gone(SessionId),
    Key {
        key: Key,
        to: Option<SessionId>,
    },
    Lease {
        id: SessionId,
        held: Held,
    },
    /// How the index looks; none while it is to be written.
    Index(Option<Sig>),
    /// A session of ours went on, and `last_session` is to say so.
    Active,
}

/// All that the journal adds up to.
#[derive(Default)]
pub(super) struct Catalogue {
    pub(super) records: BTreeMap<SessionId, Record>,
    pub(super) keys: BTreeMap<Key, SessionId>,
    pub(super) leases: BTreeMap<SessionId, Held>,
    pub(super) pending: BTreeSet<SessionId>,
    pub(super) index: Option<Sig>,
    pub(super) active: bool,
    format: Option<i64>,
    /// Sessions that went or came since the last look, whose open logs are of no use.
    pub(super) moved: Vec<SessionId>,
}

impl Catalogue {
    fn apply(&mut self, op: Op) {
        match op {
            Op::Format(format) => self.format = Some(format),
            Op::Put(record) => {
                let id = record.header.id;
                match record.pending {
                    Some(_) => self.pending.insert(id),
                    None => self.pending.remove(&id),
                };
                if self.records.insert(id, *record).is_none() {
                    self.moved.push(id);
                }
            }
            Op::Gone(id) => {
                self.records.remove(&id);
                self.leases.remove(&id);
                self.pending.remove(&id);
                self.keys.retain(|_, to| *to != id);
                self.moved.push(id);
            }
            Op::Key { key, to: Some(id) } => drop(self.keys.insert(key, id)),
            Op::Key { key, to: None } => drop(self.keys.remove(&key)),
            Op::Lease { id, held } => drop(self.leases.insert(id, held)),
            Op::Index(sig) => {
                self.active &= sig.is_none();
                self.index = sig;
            }
            Op::Active => self.active = true,
        }
    }

    /// A session that exists.
    pub(super) fn get(&self, id: SessionId) -> Option<&Record> {
        self.records.get(&id).filter(|record| record.pending != Some(Pending::Delete))
    }

    /// All sessions that exist, those in the trash too.
    pub(super) fn with_trash(&self) -> impl Iterator<Item = &Record> {
        self.records.values().filter(|record| record.pending != Some(Pending::Delete))
    }

    /// All sessions that exist and are not in the trash.
    pub(super) fn all(&self) -> impl Iterator<Item = &Record> {
        self.with_trash().filter(|record| record.header.trash.is_none())
    }

    /// Everything, as changes.
    fn ops(&self) -> Vec<Op> {
        let puts = self.records.values().map(|record| Op::Put(Box::new(record.clone())));
        let keys = self.keys.iter().map(|(key, id)| Op::Key { key: key.clone(), to: Some(*id) });
        let leases = self.leases.iter().map(|(id, held)| Op::Lease { id: *id, held: held.clone() });
        let index = self.index.iter().map(|sig| Op::Index(Some(sig.clone())));
        let active = self.active.then_some(Op::Active);
        std::iter::once(Op::Format(FORMAT))
            .chain(puts)
            .chain(keys)
            .chain(leases)
            .chain(index)
            .chain(active)
            .collect()
    }
}

/// The journal and what it adds up to.
pub(super) struct State {
    path: PathBuf,
    file: File,
    end: u64,
    /// The length at which it is written anew.
    limit: u64,
    /// Bytes in it that are no record.
    pub(super) damaged: u64,
    pub(super) catalogue: Catalogue,
}

#[derive(Serialize, Deserialize)]
struct Change {
    ops: Vec<Op>,
}

const ACTION: &str = "write down which sessions there are";

impl State {
    /// Opens the journal, making it if it is not there.
    pub(super) fn open(disk: &dyn Disk, path: PathBuf) -> Result<State, StoreError> {
        let file = disk.open(&path).told(&path, "open the state")?;
        let catalogue = Catalogue::default();
        let mut state = State { path, file, end: 0, limit: SMALL_BYTES, damaged: 0, catalogue };
        state.read_on().told(&state.path.clone(), "read the state")?;
        state.readable()?;
        Ok(state)
    }

    /// The format it was written in.
    pub(super) fn format(&self) -> Option<i64> {
        self.catalogue.format
    }

    /// Whether nothing was ever written to it.
    pub(super) fn is_new(&self) -> bool {
        self.catalogue.format.is_none()
    }

    /// Says which format this is.
    pub(super) fn begin(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        self.commit(disk, vec![Op::Format(FORMAT)], true)
    }

    fn readable(&self) -> Result<(), StoreError> {
        match self.catalogue.format {
            Some(found) if found > FORMAT => Err(StoreError::Newer {
                place: self.path.display().to_string(),
                found,
                known: FORMAT,
            }),
            _ => Ok(()),
        }
    }

    fn read_on(&mut self) -> io::Result<()> {
        let mut walk = Walk::new(&self.file, self.end)?;
        while let Some(record) = walk.next()? {
            self.damaged += record.damaged;
            match serde_json::from_str::<Change>(record.json) {
                Ok(change) => change.ops.into_iter().for_each(|op| self.catalogue.apply(op)),
                // A newer version may have written what this one cannot read; it says so.
                Err(_) => match serde_json::from_str::<Formats>(record.json) {
                    Ok(Formats { ops }) => ops
                        .into_iter()
                        .filter_map(|op| op.format)
                        .for_each(|format| self.catalogue.apply(Op::Format(format))),
                    Err(_) => self.damaged += record.end - record.at,
                },
            }
        }
        self.end = walk.good();
        // Sessions may have been named there, so nothing of theirs is removed.
        self.damaged += frame::damaged_end(&self.file, self.end)?;
        Ok(())
    }

    /// Takes in what other processes wrote.
    pub(super) fn refresh(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        let path = self.path.clone();
        let there = std::fs::metadata(&path).told(&path, "look at the state")?;
        let same = same_file(&self.file.metadata().told(&path, "look at the state")?, &there);
        if same && there.len() == self.end {
            return Ok(());
        }
        if !same || there.len() < self.end {
            // Someone wrote it anew, so the open logs of sessions that went may be stale.
            let before: Vec<SessionId> = self.catalogue.records.keys().copied().collect();
            *self = State::open(disk, path)?;
            self.catalogue.moved.extend(before);
            return Ok(());
        }
        self.read_on().told(&path, "read the state")?;
        self.readable()
    }

    /// Makes a change: it is on disk when this returns, if `durable`. One that is not durable may
    /// be lost with the machine's power, never with the process.
    pub(super) fn commit(
        &mut self,
        disk: &dyn Disk,
        ops: Vec<Op>,
        durable: bool,
    ) -> Result<(), StoreError> {
        let change = Change { ops };
        let json = serde_json::to_string(&change).expect("plain data is always valid JSON");
        let text = frame::framed(&json).told(&self.path, ACTION)?;
        let torn = self.file.metadata().map(|there| there.len() > self.end);
        if torn.told(&self.path, ACTION)? {
            disk.truncate(&self.file, self.end).told(&self.path, ACTION)?;
        }
        let written =
            disk.write(&self.file, self.end, text.as_bytes()).and_then(|()| match durable {
                true => disk.sync(&self.file),
                false => Ok(()),
            });
        if let Err(error) = written {
            // What was not acknowledged must not hold later; the next change tries again.
            drop(disk.truncate(&self.file, self.end));
            return Err(super::disk::told(&self.path, ACTION, error));
        }
        self.end += text.len() as u64;
        change.ops.into_iter().for_each(|op| self.catalogue.apply(op));
        Ok(())
    }

    /// Writes the journal anew, if it says much that no longer holds.
    pub(super) fn tidy(&mut self, disk: &dyn Disk, world: &dyn World) -> Result<(), StoreError> {
        match self.end < self.limit {
            true => Ok(()),
            false => self.rewrite(disk, world),
        }
    }

    /// Writes the journal anew. It takes the place of the old one when all of it is written, so it
    /// may have as many records as it takes.
    pub(super) fn rewrite(&mut self, disk: &dyn Disk, world: &dyn World) -> Result<(), StoreError> {
        let mut draft = Draft::new(disk, world, &self.path).told(&self.path, ACTION)?;
        let mut ops = String::new();
        let mut put = |ops: &mut String| {
            let text = frame::framed(&format!("{{\"ops\":[{ops}]}}"))?;
            ops.clear();
            draft.add(text.as_bytes())
        };
        for op in self.catalogue.ops() {
            let json = serde_json::to_string(&op).expect("plain data is valid JSON");
            if !ops.is_empty() && ops.len() + json.len() > PART_BYTES {
                put(&mut ops).told(&self.path, ACTION)?;
            }
            if !ops.is_empty() {
                ops.push(',');
            }
            ops.push_str(&json);
        }
        put(&mut ops).told(&self.path, ACTION)?;
        let written = draft.publish().told(&self.path, ACTION)?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        disk.sync_folder(folder).told(&self.path, ACTION)?;
        self.file = disk.open(&self.path).told(&self.path, ACTION)?;
        self.end = written.size;
        self.catalogue.format = Some(FORMAT);
        self.limit = SMALL_BYTES.max(SLACK * self.end);
        self.damaged = 0;
        Ok(())
    }
}

/// What a newer version surely still writes.
#[derive(Deserialize)]
struct Formats {
    ops: Vec<Format>,
}

#[derive(Deserialize)]
struct Format {
    format: Option<i64>,
}

/// Whether two looks saw one file.
#[cfg(unix)]
pub(super) fn same_file(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Elsewhere a file that is open cannot be replaced.
#[cfg(not(unix))]
pub(super) fn same_file(_: &std::fs::Metadata, _: &std::fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use rethread_core::{Fixed, Owner};

    use super::super::disk::Real;
    use super::*;

    /// A session about which another program says this much.
    fn a_record(world: &Fixed, bytes: usize) -> Record {
        let header = Header::new(SessionId(world.uuid()), Owner::local(), world.now());
        let stem = header.name.to_string();
        let mut record = Record::new(header, stem);
        record.kept.top.push(("theirs".into(), Raw::of(&"x".repeat(bytes))));
        record
    }

    #[test]
    fn sessions_that_say_more_than_a_record_holds_are_all_there_when_it_is_written_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let world = Fixed::default();
        let open = || State::open(&Real, folder.path().join("state")).expect("a state");
        let mut state = open();
        state.begin(&Real).expect("begun");
        let key = Key::new("file:plan").expect("a key");
        for bytes in [0, PART_BYTES / 2, PART_BYTES, frame::RECORD_BYTES_MAX / 2, 7, 8] {
            let record = a_record(&world, bytes);
            let id = record.header.id;
            let bound = Op::Key { key: key.clone(), to: Some(id) };
            state.commit(&Real, vec![Op::Put(Box::new(record)), bound], true).expect("written");
        }
        for _ in 0..3 {
            let more = a_record(&world, frame::RECORD_BYTES_MAX / 2);
            state.commit(&Real, vec![Op::Put(Box::new(more))], true).expect("written");
        }
        state.rewrite(&Real, &world).expect("written anew");
        let again = open();
        assert_eq!((again.damaged, again.end), (0, state.end));
        assert_eq!(again.catalogue.records, state.catalogue.records);
        assert_eq!(again.catalogue.keys, state.catalogue.keys);
        assert_eq!(again.catalogue.format, Some(FORMAT));
    }

    #[test]
    fn a_change_that_could_not_be_read_again_is_refused_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let world = Fixed::default();
        let open = || State::open(&Real, folder.path().join("state")).expect("a state");
        let mut state = open();
        state.begin(&Real).expect("begun");
        let put = |bytes| vec![Op::Put(Box::new(a_record(&world, bytes)))];
        let refused = state.commit(&Real, put(frame::RECORD_BYTES_MAX), true);
        assert!(matches!(refused, Err(StoreError::Backend { .. })), "{refused:?}");
        state.commit(&Real, put(1), true).expect("what fits is written");
        let again = open();
        assert_eq!((again.damaged, again.catalogue.records.len()), (0, 1));
        assert_eq!(again.catalogue.records, state.catalogue.records);
    }
}
