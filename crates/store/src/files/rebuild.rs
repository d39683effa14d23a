//! A log that is damaged, made anew from what is left of it and from the session's file.
//!
//! The file shows every message with its id, so a message whose record is unreadable comes back
//! from there, tool blocks included. What was no message (a clear, the end of a turn) stands in
//! the log alone: an entry of the kind `lost` keeps its place, so that every other entry keeps its
//! own. The damaged log is kept as it was.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use rethread_core::measure::measure;
use rethread_core::store::{FindingState, Result};
use rethread_core::{Body, Entry, NewEntry, Raw, SessionId, StoreError};

use super::disk::Told;
use super::folder::Dir;
use super::log::Unreadable;
use super::visible::{self, Visible, likeness};

const ACTION: &str = "repair a log";

/// The kind of an entry that stands for one nobody can read any more.
const LOST: &str = "lost";

/// Bytes copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What is wrong with a log.
pub(super) struct Damage {
    what: String,
    /// The first entry that cannot be read, where it is one.
    pub(super) seq: Option<u64>,
}

impl From<Unreadable> for Damage {
    fn from(bad: Unreadable) -> Damage {
        Damage { what: format!("it cannot be read: {}", bad.what), seq: Some(bad.seq) }
    }
}

/// A log as it can be made anew.
struct Rebuilt {
    entries: Vec<NewEntry>,
    /// Messages that come from the file.
    from_file: u64,
    /// Entries that came from nowhere.
    lost: u64,
}

impl Dir {
    /// What is wrong with the end of a log, if anything is: it is gone, or shorter than it was.
    pub(super) fn damaged_end(&mut self, id: SessionId) -> Result<Option<Damage>> {
        let folded = self.record(id)?.folded.clone();
        let root = self.root.clone();
        let end = self.log(id).and_then(|log| match folded {
            Some(folded) if log.tail.is_less_than(&folded) => Err(log.tail.cut_off(id)),
            _ if log.has_damaged_end().told(&root, ACTION)? => Err(log.tail.cut_off(id)),
            _ => Ok(()),
        });
        match end {
            Ok(()) => Ok(None),
            Err(StoreError::Damaged { what, .. }) => Ok(Some(Damage { what, seq: None })),
            Err(error) => Err(error),
        }
    }

    /// Makes a damaged log anew, if `repair`; says what came of it, or would.
    pub(super) fn mend(
        &mut self,
        id: SessionId,
        damage: &Damage,
        repair: bool,
    ) -> Result<(String, FindingState)> {
        let what = &damage.what;
        let Some(rebuilt) = self.rebuilt(id)? else {
            let what = format!("{what}; nothing is left to make it from");
            return Ok((what, FindingState::Damaged));
        };
        let Rebuilt { entries, from_file, lost } = rebuilt;
        let came = format!("entries: {}, from its file: {from_file}, lost: {lost}", entries.len());
        if self.holder(id, self.world.now()).is_some() {
            let what = format!("{what}; someone is in a turn, so nothing was done");
            return Ok((what, FindingState::Damaged));
        }
        if !repair {
            let what = format!("{what}; it can be made anew ({came})");
            return Ok((what, FindingState::Repairable));
        }
        let path = self.log_path(id);
        self.keep_damaged(&path)?;
        // The file is looked at again: it may have been rewritten while the log was of no use.
        let record = self.record(id)?;
        let file = self.path_of(&record.stem, record.header.archived);
        self.skipped.remove(&file);
        self.replace_log(id, &entries)?;
        Ok((format!("{what}; it was made anew ({came})"), FindingState::Repaired))
    }

    /// Keeps a copy of something damaged in `.rethread/damaged/`.
    pub(super) fn keep_damaged(&self, path: &Path) -> Result<()> {
        let Ok(damaged) = File::open(path) else { return Ok(()) };
        let folder = self.damaged_folder();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let random = self.world.uuid().as_u128() & 0xffff_ffff;
        let copy = folder.join(format!("{random:08x}-{name}"));
        self.disk
            .folder(&folder)
            .and_then(|()| self.copy(damaged, &copy))
            .and_then(|()| self.disk.sync_folder(&folder))
            .and_then(|()| self.disk.sync_folder(&self.ours))
            .told(&copy, ACTION)
    }

    fn copy(&self, mut from: File, to: &Path) -> std::io::Result<()> {
        let file = self.disk.create(to)?;
        let (mut at, mut chunk) = (0, vec![0; CHUNK_BYTES]);
        loop {
            let read = from.read(&mut chunk)?;
            if read == 0 {
                return self.disk.sync(&file);
            }
            self.disk.write(&file, at, &chunk[..read])?;
            at += read as u64;
        }
    }

    /// What a log can be made of; nothing where neither it nor the file says anything.
    fn rebuilt(&mut self, id: SessionId) -> Result<Option<Rebuilt>> {
        let record = self.record(id)?.clone();
        let root = self.root.clone();
        let (ours, end) = match self.log(id) {
            Ok(log) => {
                let end = log.tail.tally.entries;
                (log.read(0..end).told(&root, ACTION)?.0, end)
            }
            Err(StoreError::Damaged { .. }) => (Vec::new(), 0),
            Err(error) => return Err(error),
        };
        let end = end.max(record.folded.as_ref().map_or(0, |tail| tail.tally.entries));
        let theirs = self.file_of(id).map(|visible| {
            let entries = self.entries_of(&visible, 0, &record.header, |_| false);
            let known = ours.iter().any(|e| entries.iter().any(|new| new.id == e.id));
            (entries, known)
        });
        if ours.is_empty() && theirs.is_none() {
            return Ok(None);
        }
        let (theirs, known) = theirs.unwrap_or_default();
        let merged = merged(ours, theirs, known);
        let from_file = merged.iter().filter(|(seq, _)| seq.is_none()).count() as u64;
        let mut entries: Vec<NewEntry> = Vec::new();
        let mut lost = 0;
        let mut fill = |entries: &mut Vec<NewEntry>, up_to: u64| {
            while (entries.len() as u64) < up_to {
                let at = entries.last().map_or(record.header.created_at, |entry| entry.at);
                let body = Body::Unknown { kind: LOST.into(), raw: Raw::of(&Nothing {}) };
                let size = measure(&body, |_| None);
                entries.push(NewEntry { id: self.world.uuid().into(), at, body, measure: size });
                lost += 1;
            }
        };
        for (seq, entry) in merged {
            fill(&mut entries, seq.unwrap_or(0));
            entries.push(entry);
        }
        fill(&mut entries, end);
        Ok(Some(Rebuilt { entries, from_file, lost }))
    }

    /// The visible file of a session, if it can be read and is its own.
    fn file_of(&self, id: SessionId) -> Option<Visible> {
        let record = self.record(id).ok()?;
        let path = self.path_of(&record.stem, record.header.archived);
        path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        let bytes = std::fs::read(path).ok()?;
        let visible = visible::parse(&String::from_utf8_lossy(&bytes)).ok()?;
        match &visible.ours {
            Some(header) if header.id != id => None,
            _ => Some(visible),
        }
    }
}

/// What an entry that is lost says.
#[derive(serde::Serialize)]
struct Nothing {}

/// The entries of a log and of a file as one, in order; those of the log with their places. Where
/// the file has ids of the log, ids tell which are the same; otherwise who said what.
fn merged(ours: Vec<Entry>, theirs: Vec<NewEntry>, by_id: bool) -> Vec<(Option<u64>, NewEntry)> {
    let ids: HashSet<_> = ours.iter().map(|entry| entry.id.clone()).collect();
    let mut rest = std::collections::VecDeque::from(ours);
    let mut merged = Vec::new();
    let placed = |Entry { seq, id, at, body, measure, .. }: Entry| {
        (Some(seq), NewEntry { id, at, body, measure })
    };
    for new in theirs {
        let same = |entry: &Entry| match by_id {
            true => entry.id == new.id,
            false => likeness(&entry.body) == likeness(&new.body),
        };
        match rest.iter().position(same) {
            Some(at) => merged.extend(rest.drain(..=at).map(placed)),
            None if by_id && ids.contains(&new.id) => {}
            None => merged.push((None, new)),
        }
    }
    merged.extend(rest.into_iter().map(placed));
    merged
}
