//! `doctor` in a directory: ignored files and why, and damaged logs.
//!
//! The file of a session has every message with its id and its blocks, so it is a second copy of
//! the log: a message that cannot be read in the database is restored from it. Entries that are not
//! messages (a clear, the end of a turn) are only in the database: an entry of the kind `lost`
//! takes the position of a damaged one, so that every other entry keeps its own. The damaged
//! database is copied first.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::measure::measure;
use rethread_core::store::{Finding, FindingState, Result, Upkeep};
use rethread_core::{Body, Entry, Header, NewEntry, Owner, Raw, SessionId, StoreError, World};

use super::disk::{Disk, OrStoreError, Real, names, random, with_suffix};
use super::import_edits::entries_of;
use super::mirror::{BUSY, DATABASE, Mirror, OpenOptions, Pass, Reach, lock};
use super::visible::{self, Visible, likeness};
use crate::sqlite::{Mirrored, SqliteStore};

const ACTION: &str = "keep what is damaged";

/// The kind of an entry that replaces an unreadable one.
const LOST: &str = "lost";

/// A log that can be rebuilt.
pub(super) struct Rebuilt {
    pub(super) entries: Vec<NewEntry>,
    /// Messages that are restored from the file.
    pub(super) from_file: u64,
    /// Entries that are lost.
    pub(super) lost: u64,
}

impl Mirror {
    /// Checks the database, and the other files in the directory.
    pub(super) fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        self.look()?;
        let repair = repair && self.reach == Reach::All;
        let found = |what, state| Finding { session: None, seq: None, what, state };
        let mut findings = Vec::new();
        if repair
            && self.db.has_damaged_entries()?
            && let Some(mut pass) = self.pass(BUSY)?
            && let Some(lost) = pass.remake_entries()?
        {
            let what =
                format!("pages of `entries` were damaged; entries that cannot be read: {lost}");
            findings.push(found(what, FindingState::Repaired));
        }
        findings.extend(self.db.check(repair)?);
        for (path, skipped) in &self.seen().skipped {
            let state = if skipped.damaged { FindingState::Damaged } else { FindingState::Noted };
            let shown = path.strip_prefix(&self.root).unwrap_or(path).display();
            findings.push(found(format!("{shown} is left alone: {}", skipped.why), state));
        }
        let aside = names(&self.root).into_iter().filter(|name| name.contains(".json.unreadable-"));
        findings.extend(aside.map(|name| {
            found(format!("{name} could not be read and was set aside"), FindingState::Noted)
        }));
        let kept = names(&self.ours.join("damaged")).len();
        if kept > 0 {
            let what = format!("what was damaged is kept in .rethread/damaged ({kept})");
            findings.push(found(what, FindingState::Noted));
        }
        Ok(findings)
    }

    /// Checks one session, entry by entry, and rebuilds a damaged log from its file.
    pub(super) fn check_session(
        &self,
        owner: &Owner,
        id: SessionId,
        repair: bool,
    ) -> Result<Vec<Finding>> {
        let repair = repair && self.reach == Reach::All;
        let findings = self.db.check_session(owner, id, repair)?;
        let one = self.db.mirrored_one(&Owner::local(), id)?;
        let Some(one) = one else { return Ok(findings) };
        let is_entry = |f: &&Finding| f.state == FindingState::Damaged && f.what.starts_with("it ");
        let damaged = findings.iter().find(is_entry);
        let (seq, what) = match (damaged, one.is_whole()) {
            (Some(found), _) => (found.seq, found.what.clone()),
            (None, Err(StoreError::Damaged { what, .. })) => (None, what),
            _ => return Ok(findings),
        };
        let (what, state) = match self.pass(BUSY)? {
            Some(mut pass) => pass.mend(&one, &what, repair)?,
            None => (what, FindingState::Damaged),
        };
        Ok(vec![Finding { session: Some(id), seq, what, state }])
    }
}

impl Pass<'_> {
    /// Rebuilds a damaged log, if `repair`; returns what was done, or would be.
    fn mend(&mut self, one: &Mirrored, what: &str, repair: bool) -> Result<(String, FindingState)> {
        let (mirror, owner) = (self.mirror, Owner::local());
        let ours = self.db().salvaged(&owner, one.id)?;
        let Some(header) = &one.header else {
            return Ok((what.to_owned(), FindingState::Damaged));
        };
        let world = mirror.way.world.as_ref();
        let end = one.entries.max(one.shown.as_ref().map_or(0, |shown| shown.entries));
        let path = one.shown.as_ref().map(|shown| mirror.path_of(&shown.at));
        let file = path.and_then(|path| read_own(&path, one.id));
        let Some(rebuilt) = rebuilt(world, header, ours, file, end) else {
            let what = format!("{what}; nothing is left to rebuild it from");
            return Ok((what, FindingState::Damaged));
        };
        let Rebuilt { entries, from_file, lost } = rebuilt;
        let came = format!("entries: {}, from its file: {from_file}, lost: {lost}", entries.len());
        if one.is_held(world.now()) {
            let what = format!("{what}; a turn is running, so nothing was done");
            return Ok((what, FindingState::Damaged));
        }
        if !repair {
            let what = format!("{what}; it can be rebuilt ({came})");
            return Ok((what, FindingState::Repairable));
        }
        self.keep_damaged()?;
        self.commit()?;
        match self.db().replace_log(&owner, one.id, &entries) {
            // Its rows cannot even be deleted.
            Err(StoreError::Corrupt { .. }) if self.remake_entries()?.is_some() => {
                self.db().replace_log(&owner, one.id, &entries)?;
            }
            Err(StoreError::Corrupt { .. }) => {
                let what = format!("{what}; the database is too damaged to rebuild it ({came})");
                return Ok((what, FindingState::Damaged));
            }
            done => done?,
        }
        // The file is examined again: it may have been rewritten while the log was unusable.
        if let Some(shown) = &one.shown {
            let path = mirror.path_of(&shown.at);
            self.seen.skipped.remove(&path);
            let mut shown = shown.clone();
            (shown.entries, shown.made_of) = (entries.len() as u64, String::new());
            self.keep(&[(one.id, Some(shown))])?;
        }
        self.reload(one.id)?;
        self.fold(&[one.id])?;
        Ok((format!("{what}; it was rebuilt ({came})"), FindingState::Repaired))
    }

    /// Rebuilds the table of entries, without unreadable rows.
    fn remake_entries(&mut self) -> Result<Option<u64>> {
        self.keep_damaged()?;
        self.commit()?;
        self.db().remake_entries()
    }

    /// Keeps a copy of the damaged database in `.rethread/damaged/`, once.
    fn keep_damaged(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.seen.copied, true) {
            return Ok(());
        }
        let OpenOptions { disk, world, .. } = &self.mirror.way;
        keep_aside(disk.as_ref(), world.as_ref(), &self.mirror.ours, |to| self.db().copy_to(to))
            .map(drop)
    }
}

/// Moves the database of a directory to `.rethread/damaged/` if it cannot be read: opening the
/// directory then rebuilds the sessions from their files. Returns its new path; `None` if it can be
/// read, or does not exist.
pub(crate) fn set_damaged_aside(root: &Path, world: Arc<dyn World>) -> Result<Option<PathBuf>> {
    let (ours, disk) = (root.join(".rethread"), Real);
    let database = ours.join(DATABASE);
    if !database.is_file() {
        return Ok(None);
    }
    disk.open(&ours.join("lock")).or_store_error(root, ACTION)?;
    let _lock = lock(root)?;
    let read = SqliteStore::open(&database, world.clone())
        .and_then(|store| store.mirrored(&Owner::local()).map(drop));
    match read {
        Ok(()) => return Ok(None),
        Err(StoreError::NotAStore { .. } | StoreError::Corrupt { .. }) => {}
        Err(error) => return Err(error),
    }
    let aside = keep_aside(&disk, world.as_ref(), &ours, |to| {
        // The file itself is moved last, because its log files without it would be mistaken for
        // those of a new one.
        for end in ["-wal", "-shm", ""] {
            let from = with_suffix(&database, end);
            if from.symlink_metadata().is_ok() {
                disk.rename(&from, &with_suffix(to, end)).or_store_error(&from, ACTION)?;
            }
        }
        Ok(())
    });
    aside.map(Some)
}

/// Copies or moves a damaged database to a new path in `.rethread/damaged/`, and returns that.
fn keep_aside(
    disk: &dyn Disk,
    world: &dyn World,
    ours: &Path,
    put: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let folder = ours.join("damaged");
    disk.folder(&folder).or_store_error(&folder, ACTION)?;
    let aside = folder.join(format!("{}-{DATABASE}", random(world)));
    put(&aside)?;
    let synced = disk.sync_folder(&folder).and_then(|()| disk.sync_folder(ours));
    synced.or_store_error(&folder, ACTION).map(|()| aside)
}

/// A session file, if it can be read and is not another session's.
pub(super) fn read_own(path: &Path, id: SessionId) -> Option<Visible> {
    path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    let bytes = std::fs::read(path).ok()?;
    let visible = visible::parse(&String::from_utf8_lossy(&bytes)).ok()?;
    match &visible.ours {
        Some(header) if header.id != id => None,
        _ => Some(visible),
    }
}

/// What a log of `end` entries can be rebuilt from; `None` if neither the rest of the log nor the
/// file has anything.
pub(super) fn rebuilt(
    world: &dyn World,
    header: &Header,
    ours: Vec<Entry>,
    file: Option<Visible>,
    end: u64,
) -> Option<Rebuilt> {
    let theirs = file.map(|visible| {
        let entries = entries_of(&visible, 0, header, HashSet::new(), |_, _| world.uuid());
        let known = ours.iter().any(|entry| entries.iter().any(|new| new.id == entry.id));
        (entries, known)
    });
    if ours.is_empty() && theirs.is_none() && end > 0 {
        return None;
    }
    let (theirs, known) = theirs.unwrap_or_default();
    let merged = merged(ours, theirs, known);
    let from_file = merged.iter().filter(|(seq, _)| seq.is_none()).count() as u64;
    let mut entries: Vec<NewEntry> = Vec::new();
    let mut lost = 0;
    let mut fill = |entries: &mut Vec<NewEntry>, up_to: u64| {
        while (entries.len() as u64) < up_to {
            let at = entries.last().map_or(header.created_at, |entry| entry.at);
            let body = Body::Unknown { kind: LOST.into(), raw: Raw::of(&serde_json::json!({})) };
            let size = measure(&body, |_| None);
            entries.push(NewEntry { id: world.uuid().into(), at, body, measure: size });
            lost += 1;
        }
    };
    for (seq, entry) in merged {
        fill(&mut entries, seq.unwrap_or(0));
        entries.push(entry);
    }
    fill(&mut entries, end);
    Some(Rebuilt { entries, from_file, lost })
}

/// The entries of a log and of a file merged, in order; those of the log with their positions. If
/// the file has ids of the log, equal entries are recognised by their ids; otherwise by role and
/// content.
fn merged(ours: Vec<Entry>, theirs: Vec<NewEntry>, by_id: bool) -> Vec<(Option<u64>, NewEntry)> {
    let ids: HashSet<_> = ours.iter().map(|entry| entry.id.clone()).collect();
    let mut rest = VecDeque::from(ours);
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
