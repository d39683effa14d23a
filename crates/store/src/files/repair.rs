//! `doctor` in a directory: ignored files and why, and damaged logs.
//!
//! The file of a session has every message with its id and its blocks, so it is a second copy of
//! the log: a message that cannot be read in the database is restored from it. Entries that are not
//! messages (a clear, the end of a turn) are only in the database: an entry of the kind `lost`
//! takes the position of a damaged one, so that every other entry keeps its own. The damaged
//! database is copied first.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::merge::{Rebuilt, rebuild};
use rethread_core::store::{Finding, FindingState, Result, Upkeep};
use rethread_core::{Body, Entry, Header, NewEntry, Owner, SessionId, StoreError, World};

use super::FilesStore;
use super::disk::{Disk, Real, failed, names, random};
use super::import_edits::{IMPORTED, entries_of};
use super::mirror::{BUSY, DATABASE, Mirror, Pass, Reach, lock};
use super::visible::{self, Visible, likeness};
use crate::sqlite::{Mirrored, SqliteStore};

const ACTION: &str = "keep what is damaged";

impl Upkeep for FilesStore {
    fn can_write(&self) -> Result<()> {
        self.mirror.writable()?.can_write()
    }

    fn everything(&self) -> Result<Vec<(Owner, SessionId)>> {
        self.mirror.look()?;
        self.mirror.db.everything()
    }

    /// Checks the database, and the other files in the directory.
    fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        let mirror = self.mirror.as_ref();
        mirror.look()?;
        let repair = repair && mirror.reach == Reach::All;
        let found = |what, state| Finding { session: None, seq: None, what, state };
        let mut findings = Vec::new();
        if repair && mirror.db.has_damaged_entries()? {
            let _lock = lock(&mirror.root)?;
            if let Some(lost) = mirror.damaged()?.remake_entries()? {
                let what =
                    format!("pages of `entries` were damaged; entries that cannot be read: {lost}");
                findings.push(found(what, FindingState::Repaired));
            }
        }
        findings.extend(mirror.db.check(repair)?);
        let shown =
            |path: &Path| path.strip_prefix(&mirror.root).unwrap_or(path).display().to_string();
        if repair && let Some(mut pass) = mirror.pass(BUSY)? {
            for path in pass.write_broken()? {
                let what = format!("{} was broken, and was written again", shown(&path));
                findings.push(found(what, FindingState::Repaired));
            }
        }
        for (path, skipped) in &*mirror.skipped() {
            let state = if skipped.damaged { FindingState::Damaged } else { FindingState::Noted };
            findings.push(found(format!("{} is left alone: {}", shown(path), skipped.why), state));
        }
        let mut notes = Vec::new();
        mirror.fold_dirty();
        if !mirror.known().dirty.is_empty() {
            notes.push("some session files are out of date, and could not be written".to_owned());
        }
        let mut aside = names(&mirror.root).unwrap_or_default();
        aside.retain(|name| name.contains(".json.unreadable-"));
        let what = |name| format!("{name} could not be read and was set aside");
        notes.extend(aside.into_iter().map(what));
        let kept = names(&mirror.root.join(".rethread/damaged")).unwrap_or_default().len();
        if kept > 0 {
            notes.push(format!("what was damaged is kept in .rethread/damaged ({kept})"));
        }
        findings.extend(notes.into_iter().map(|what| found(what, FindingState::Noted)));
        Ok(findings)
    }

    /// Checks one session, entry by entry, and rebuilds a damaged log from its file.
    fn check_session(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>> {
        let mirror = self.mirror.as_ref();
        let repair = repair && mirror.reach == Reach::All;
        let findings = mirror.db.check_session(owner, id, repair)?;
        let one = mirror.db.mirrored(Some(id))?.pop();
        let one = one.filter(|one| one.header.is_none() || one.live().is_some());
        let Some(one) = one else { return Ok(findings) };
        // An entry, or the header.
        let is_its = |f: &&Finding| f.state == FindingState::Damaged && f.what.starts_with("it");
        let (seq, what) = match (findings.iter().find(is_its), one.is_whole()) {
            (Some(found), _) => (found.seq, found.what.clone()),
            (None, Err(StoreError::Damaged { what, .. })) => (None, what),
            _ => return Ok(findings),
        };
        let (done, state) = match mirror.pass(BUSY)? {
            Some(mut pass) => pass.mend(&one, repair)?,
            None => ("nothing can be written".to_owned(), FindingState::Damaged),
        };
        let what = format!("{what}; {done}");
        Ok(vec![Finding { session: Some(id), seq, what, state }])
    }
}

impl Mirror {
    /// The damaged database, before it is changed. A copy is kept in `.rethread/damaged/`, once.
    fn damaged(&self) -> Result<&SqliteStore> {
        if !std::mem::replace(&mut self.known().copied, true) {
            let (disk, world) = (self.options.disk.as_ref(), self.options.world.as_ref());
            keep_aside(disk, world, &self.root, |to| self.db.copy_to(to))?;
        }
        self.commit()
    }
}

impl Pass<'_> {
    /// Rebuilds a damaged log, if `repair`; returns what was done, or would be.
    fn mend(&mut self, one: &Mirrored, repair: bool) -> Result<(String, FindingState)> {
        let (mirror, id) = (self.mirror, one.id);
        let (ours, rows) = self.db.readable(id)?;
        let last = ours.last().map_or(0, |entry| entry.seq + 1);
        let end = one.shown.as_ref().map_or(0, |shown| shown.entries).max(rows).max(last);
        let at = one.shown.as_ref().map(|shown| shown.at.clone()).or_else(|| one.wanted());
        let path = at.map(|at| at.path(&mirror.root));
        let file = path.as_ref().and_then(|path| read_own(path, id));
        let world = mirror.options.world.as_ref();
        let header = one.header.clone().or_else(|| header_of(file.as_ref()?, one));
        let rebuilt =
            header.map(|header| Some((rebuilt(world, &header, ours, file, end)?, header)));
        let damaged = |what: String| Ok((what, FindingState::Damaged));
        let Some((Rebuilt { entries, copied, lost }, header)) = rebuilt.flatten() else {
            return damaged("nothing is left to rebuild it from".to_owned());
        };
        let came = format!("(entries: {}, from its file: {copied}, lost: {lost})", entries.len());
        if one.held {
            return damaged("a turn is running, so nothing was done".to_owned());
        }
        if !repair {
            return Ok((format!("it can be rebuilt {came}"), FindingState::Repairable));
        }
        match mirror.damaged()?.replace_log(&header, &entries) {
            Err(StoreError::Corrupt { .. }) => {
                return damaged(format!("the database is too damaged to rebuild it {came}"));
            }
            replaced => replaced?,
        }
        // The file is examined again: it may have been rewritten while the log was unusable.
        if let Some((path, mut shown)) = path.zip(one.shown.clone()) {
            self.skipped.remove(&path);
            (shown.entries, shown.made_of) = (entries.len() as u64, String::new());
            // All that its file says is new to a header that comes from there.
            self.keep(id, Some(shown).filter(|_| one.header.is_some()))?;
        }
        self.reload(id)?;
        self.fold(&BTreeSet::from([id]))?;
        Ok((format!("it was rebuilt {came}"), FindingState::Repaired))
    }

    /// Writes files that are broken again, if their logs are whole. Returns their paths.
    fn write_broken(&mut self) -> Result<Vec<PathBuf>> {
        let mut broken = BTreeMap::new();
        for one in self.all.values_mut() {
            let Some(shown) = &mut one.shown else { continue };
            let path = shown.at.path(&self.mirror.root);
            if self.skipped.get(&path).is_some_and(|skipped| skipped.damaged) {
                shown.made_of.clear();
                broken.insert(one.id, path);
            }
        }
        self.fold(&broken.keys().copied().collect())?;
        let written = |path: &PathBuf| !self.skipped.contains_key(path);
        Ok(broken.into_values().filter(written).collect())
    }
}

/// Moves the database of a directory to `.rethread/damaged/` if it cannot be read: opening the
/// directory then rebuilds the sessions from their files. Returns its new path; `None` if it can be
/// read, or does not exist.
pub(crate) fn set_damaged_aside(root: &Path, world: Arc<dyn World>) -> Result<Option<PathBuf>> {
    let database = root.join(".rethread").join(DATABASE);
    if !database.is_file() {
        return Ok(None);
    }
    let _lock = lock(root)?;
    let opened = SqliteStore::open(&database, world.clone());
    match opened.and_then(|store| store.mirrored(None)) {
        Ok(_) => return Ok(None),
        Err(StoreError::NotAStore { .. } | StoreError::Corrupt { .. }) => {}
        Err(error) => return Err(error),
    }
    let aside = keep_aside(&Real, world.as_ref(), root, |to| SqliteStore::move_file(&database, to));
    aside.map(Some)
}

/// Copies or moves a damaged database to a new path in `.rethread/damaged/`, and returns that.
fn keep_aside(
    disk: &dyn Disk,
    world: &dyn World,
    root: &Path,
    put: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let ours = root.join(".rethread");
    let folder = ours.join("damaged");
    disk.folder(&folder).map_err(failed(&folder, ACTION))?;
    let aside = folder.join(format!("{}-{DATABASE}", random(world)));
    put(&aside)?;
    let synced = disk.sync_folder(&folder).and_then(|()| disk.sync_folder(&ours));
    synced.map_err(failed(&folder, ACTION)).map(|()| aside)
}

/// A session file, if it can be read and is not another session's.
pub(crate) fn read_own(path: &Path, id: SessionId) -> Option<Visible> {
    path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    let is_own = |file: &Visible| file.ours.as_ref().is_none_or(|header| header.id == id);
    visible::read(path).ok().filter(is_own)
}

/// The header of a session from its file. Anyone can write a header into a file that we have not
/// examined, so such a session is treated as imported.
fn header_of(file: &Visible, one: &Mirrored) -> Option<Header> {
    let theirs = || Some(Header::new(one.id, Owner::local(), file.created_at?));
    let mut header = file.ours.clone().or_else(theirs)?;
    if file.ours.is_none() || one.shown.as_ref().is_none_or(|shown| shown.sum != file.sum) {
        header.imported.get_or_insert_with(|| IMPORTED.to_owned());
    }
    Some(header)
}

/// A log of `end` entries, rebuilt from what can be read of it and the session's file; `None` if
/// neither has anything.
pub(crate) fn rebuilt(
    world: &dyn World,
    header: &Header,
    ours: Vec<Entry>,
    file: Option<Visible>,
    end: u64,
) -> Option<Rebuilt> {
    if ours.is_empty() && file.is_none() && end > 0 {
        return None;
    }
    let copy = file.map(|file| entries_of(&file, 0, header, HashSet::new(), world));
    let lost = |before: Option<_>| {
        NewEntry::new(world.uuid().into(), before.unwrap_or(header.created_at), Body::lost())
    };
    Some(rebuild(ours, copy.unwrap_or_default(), end, likeness, lost))
}
