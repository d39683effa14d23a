//! Updates the visible files from the logs.
//!
//! A fold first imports what other programs wrote, so that nothing of theirs is overwritten. Then
//! each file is written under a temporary name, synced and renamed; then the index and
//! `last_session`; then the folders are synced, and finally the database records the state of the
//! files. If that record is lost, the files are compared with the logs the next time, and found
//! equal.

use std::path::Path;

use jiff::Timestamp;
use rethread_core::limits::READ_ENTRIES;
use rethread_core::store::{Change, Result};
use rethread_core::summary::resuming;
use rethread_core::{
    Body, Entry, Name, Owner, Raw, Session, SessionId, Store, StoreError, readable_id,
};

use super::disk::{self, OrStoreError, sum};
use super::import_edits::numbered;
use super::mirror::{Mirror, Pass, Reach, made_of};
use super::visible::{self, active_at};
use crate::sqlite::{Location, Mirrored, Shown, SqliteStore, Stamp};

pub(super) const ACTION: &str = "write the session files";

/// How often a file is written again because another program wrote it at the same time.
const REWRITTEN_TRIES: u32 = 16;

impl Pass<'_> {
    pub(super) fn db(&self) -> &SqliteStore {
        &self.mirror.db
    }

    /// Must be called before each write to the database.
    pub(super) fn commit(&self) -> Result<()> {
        self.mirror.commit()
    }

    /// Records the state of files.
    pub(super) fn keep(&mut self, shown: &[(SessionId, Option<Shown>)]) -> Result<()> {
        self.commit()?;
        self.db().keep_shown(shown)?;
        for (id, shown) in shown {
            if let Some(one) = self.all.get_mut(id) {
                one.shown.clone_from(shown);
            }
        }
        Ok(())
    }

    /// Reads a session from the database again.
    pub(super) fn reload(&mut self, id: SessionId) -> Result<()> {
        match self.db().mirrored_one(&Owner::local(), id)? {
            Some(one) => drop(self.all.insert(id, one)),
            None => drop(self.all.remove(&id)),
        }
        self.mirror.known().active |= self.all.get(&id).is_some_and(Mirrored::is_active);
        Ok(())
    }

    /// Deletes a session: first its file, because a file without a session would be imported as
    /// one.
    pub(super) fn delete(&mut self, id: SessionId, trashed_at: Option<Timestamp>) -> Result<()> {
        self.mirror.may_write()?;
        self.look()?;
        let (mirror, now) = (self.mirror, self.mirror.way.world.now());
        let free = self.all.get(&id).filter(|one| !one.is_held(now));
        if let Some(shown) = free.and_then(|one| one.shown.as_ref()) {
            let path = mirror.path_of(&shown.at);
            if Stamp::at(&path) == Some(shown.stamp) {
                mirror.way.disk.remove(&path).or_store_error(&path, "delete a session")?;
                mirror.sync_visible()?;
            }
        }
        self.commit()?;
        let deleted = self.db().delete(&Owner::local(), id, trashed_at);
        self.keep(&[(id, None)])?;
        if deleted.is_err() {
            // Its file is written again.
            mirror.is_dirty(id);
            return deleted;
        }
        self.reload(id)?;
        self.index_is_right()
    }

    /// Whether the file of a session is out of date.
    pub(super) fn is_out_of_date(&self, one: &Mirrored) -> bool {
        let (Some(header), shown) = (&one.header, one.shown.as_ref()) else { return false };
        let Some(wanted) = one.wanted() else { return shown.is_some() };
        // If the archive is not a folder, nothing can be written to it.
        if wanted.archived && self.seen.skipped.contains_key(&self.mirror.archive()) {
            return false;
        }
        shown.is_none_or(|shown| {
            (&shown.at, shown.entries) != (&wanted, one.entries) || shown.made_of != made_of(header)
        })
    }

    /// Updates the files of these sessions, and the index. Returns those that have to wait.
    pub(super) fn fold(&mut self, ids: &[SessionId]) -> Result<Vec<SessionId>> {
        if self.mirror.reach != Reach::All {
            return Ok(Vec::new());
        }
        self.look()?;
        let mut waiting = Vec::new();
        for id in ids {
            for _ in 0..REWRITTEN_TRIES {
                let Some(one) = self.all.get(id).cloned() else { break };
                if !self.is_out_of_date(&one) {
                    break;
                }
                let now = self.mirror.way.world.now();
                match self.bring_up(&one) {
                    Ok(true) => break,
                    // Another program wrote or deleted it at the same time, and is handled first;
                    // during a turn, when that ends.
                    Ok(false) if one.is_held(now) => {
                        waiting.push(*id);
                        break;
                    }
                    Ok(false) => self.look()?,
                    // Its file may be all that is left; `doctor` rebuilds a log from both.
                    Err(
                        StoreError::Damaged { .. }
                        | StoreError::Corrupt { .. }
                        | StoreError::NotFound { .. },
                    ) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        let shown = std::mem::take(&mut self.shown);
        if !shown.is_empty() {
            self.index_is_right()?;
            self.keep(&shown)?;
        }
        Ok(waiting)
    }

    /// Moves, removes or writes the file of a session; false if another program touched it in the
    /// meantime.
    fn bring_up(&mut self, one: &Mirrored) -> Result<bool> {
        let (mirror, id) = (self.mirror, one.id);
        let from = one.shown.as_ref().map(|shown| mirror.path_of(&shown.at));
        if from.as_ref().is_some_and(|from| !self.is_as_known(from, one.shown.as_ref())) {
            return Ok(false);
        }
        let Some(wanted) = one.wanted() else {
            // It is in the trash.
            if let Some(from) = from.filter(|from| !self.seen.skipped.contains_key(from)) {
                mirror.way.disk.remove(&from).or_store_error(&from, ACTION)?;
            }
            self.note(id, None);
            return Ok(true);
        };
        if wanted.archived {
            mirror.make_archive()?;
        }
        let at = self.free_location(&wanted, one)?;
        if at != wanted {
            let Some(mut header) = one.header.clone() else { return Ok(true) };
            let shown = visible::shown_name(&header);
            visible::set_called(&mut header, &at.stem, &shown);
            self.commit()?;
            let change = Change { extra: Some(header.extra), ..Change::default() };
            self.db().update(&Owner::local(), id, &change)?;
            self.reload(id)?;
        }
        let path = mirror.path_of(&at);
        if let (Some(from), Some(shown)) = (from, &one.shown)
            && from != path
            && from.symlink_metadata().is_ok()
        {
            mirror.way.disk.rename(&from, &path).or_store_error(&from, ACTION)?;
            // Before its old name can be lost.
            let folder = path.parent().unwrap_or(&mirror.root);
            mirror.way.disk.sync_folder(folder).or_store_error(folder, ACTION)?;
            if let Some(skipped) = self.seen.skipped.remove(&from) {
                self.seen.skipped.insert(path.clone(), skipped);
            }
            self.note(id, Some(Shown { at: at.clone(), ..shown.clone() }));
        }
        let Some(one) = self.all.get(&id).cloned() else { return Ok(true) };
        self.write_file(&one, at, &path)
    }

    /// Records the state of a file when the fold ends.
    fn note(&mut self, id: SessionId, shown: Option<Shown>) {
        if let Some(one) = self.all.get_mut(&id) {
            one.shown.clone_from(&shown);
        }
        self.shown.push((id, shown));
    }

    /// An unused place for the file of a session, with the wanted name or a number after it.
    fn free_location(&self, wanted: &Location, of: &Mirrored) -> Result<Location> {
        // An unreadable file in the place of its own is moved aside when that is written.
        let is_mine = |at: &Location| of.shown.as_ref().is_some_and(|shown| shown.at == *at);
        let is_free = |stem: &str| {
            let called = |one: &Mirrored| {
                let shown = one.shown.as_ref().map(|shown| shown.at.stem.as_str());
                one.id != of.id && shown.is_some_and(|other| other.eq_ignore_ascii_case(stem))
            };
            let there = |archived: bool| {
                let at = Location { stem: stem.to_owned(), archived };
                Stamp::at(&self.mirror.path_of(&at)).is_some() && !is_mine(&at)
            };
            !self.all.values().any(called) && !there(false) && !there(true)
        };
        if is_mine(wanted) || is_free(&wanted.stem) {
            return Ok(wanted.clone());
        }
        // Files may have names that are not valid for sessions.
        let name = Name::new(&wanted.stem).or_else(|_| Name::new("session"));
        let mut numbers = name.iter().flat_map(numbered).map(|name| name.folded().to_owned());
        let stem = numbers.find(|stem| is_free(stem)).ok_or_else(|| {
            let why = format!("`{}` is taken, with every number", wanted.stem);
            disk::failed("find a name for a file", why)
        })?;
        Ok(Location { stem, archived: wanted.archived })
    }

    /// Writes the file of a session.
    fn write_file(&mut self, one: &Mirrored, at: Location, path: &Path) -> Result<bool> {
        let (mirror, owner, id) = (self.mirror, Owner::local(), one.id);
        let Some(before) = one.header.as_ref() else { return Ok(true) };
        one.is_whole()?;
        let mut session = self.db().get(&owner, id)?;
        mirror.describe(&mut session);
        let made = made_of(&session.header);
        if made != made_of(before) {
            // It was changed just now; the next look notices that.
            return Ok(false);
        }
        let end = session.tally.entries;
        let mut draft = visible::Draft::default();
        self.walk(id, end, |entry| draft.add(&entry))?;
        let metadata = visible::metadata(&session, draft.shown, draft.used.as_deref());
        let (summary, theirs) = self.summary(&session, one, &draft)?;
        let text = draft.file(&metadata, summary, &session.header);
        let known = self.all.get(&id).and_then(|one| one.shown.clone());
        let stamp = mirror.replace(path, &text, || {
            if !self.is_as_known(path, known.as_ref()) {
                return Ok(false);
            }
            if self.seen.skipped.remove(path).is_some() && path.symlink_metadata().is_ok() {
                // It may be someone's work.
                mirror.set_aside(path)?;
            }
            Ok(true)
        })?;
        let Some(stamp) = stamp else { return Ok(false) };
        // A session that was only renamed or moved is not the last one that was used.
        self.active |= one.shown.as_ref().is_none_or(|shown| shown.entries < end);
        mirror.known().written.insert(id, stamp);
        let shown = Shown {
            at,
            stamp,
            sum: sum(text.as_bytes()),
            entries: end,
            made_of: made,
            metadata,
            summary: theirs,
        };
        self.note(id, Some(shown));
        Ok(true)
    }

    /// Reads a log from its beginning, up to an entry.
    pub(super) fn walk(&self, id: SessionId, end: u64, mut each: impl FnMut(Entry)) -> Result<()> {
        for start in (0..end).step_by(READ_ENTRIES as usize) {
            let range = start..end.min(start + READ_ENTRIES);
            self.db().read(&Owner::local(), id, range)?.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// The summary for people who resume the session: another program's, unless there is a newer
    /// one here, otherwise ours, otherwise a generated one. With the position of our latest one, if
    /// it is the other program's.
    fn summary(
        &self,
        session: &Session,
        one: &Mirrored,
        draft: &visible::Draft,
    ) -> Result<(Raw, Option<u64>)> {
        let latest = session.tally.summary;
        let instead_of = one.shown.as_ref().and_then(|shown| shown.summary).unwrap_or(0);
        let theirs = session.header.extra.get(visible::SUMMARY);
        if let Some(theirs) = theirs.filter(|_| instead_of == latest.map_or(0, |seq| seq + 1)) {
            return Ok((theirs.clone(), Some(instead_of)));
        }
        let range = latest.or(session.tally.started).map_or(0..0, |seq| seq..seq + 1);
        let entry = self.db().read(&Owner::local(), session.id(), range)?.pop();
        let text = match entry.map(|entry| entry.body) {
            Some(Body::Summary(summary)) => summary.text,
            Some(Body::Restored(restored)) => restored.summary,
            _ => resuming(session, draft.user, draft.assistant),
        };
        Ok((Raw::of(&text), theirs.map(|_| instead_of)))
    }

    /// Whether a file is unchanged since it was last examined. Programs that share the directory
    /// take no lock: only what they write between this check and our rename is lost.
    fn is_as_known(&self, path: &Path, shown: Option<&Shown>) -> bool {
        let there = Stamp::at(path);
        match self.seen.skipped.get(path) {
            Some(skipped) => there.is_none_or(|there| there == skipped.stamp),
            None => there == shown.map(|shown| shown.stamp),
        }
    }
}

impl Mirror {
    /// Moves a session to the trash, unless a turn is running.
    pub(super) fn throw_away(&self, id: SessionId) -> Result<()> {
        let (owner, world) = (Owner::local(), self.way.world.as_ref());
        let session = self.db.get(&owner, id)?;
        let mut keys = session.keys;
        keys.extend(session.readable_id.and_then(|id| readable_id::key(&id).ok()));
        self.commit()?;
        let change = Change::to_trash(&session.header, keys, world.now());
        match self.db.update(&owner, id, &change) {
            Err(StoreError::Held { .. } | StoreError::NotFound { .. }) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Adds another program's fields of a session.
    pub(super) fn describe(&self, session: &mut Session) {
        if let Some(at) = active_at(&session.header) {
            session.last_activity_at = session.last_activity_at.max(at);
        }
        let shown = visible::shown_name(&session.header);
        session.shown_as = (shown != session.header.name.as_str()).then_some(shown);
    }

    /// The error if nothing can be written.
    pub(super) fn closed(&self) -> StoreError {
        let place = self.root.display().to_string();
        match self.reach {
            Reach::All => StoreError::Busy { place },
            _ => StoreError::ReadOnly { place },
        }
    }

    /// Creates the folder of archived sessions. A link in its place would lead out of the
    /// directory.
    pub(super) fn make_archive(&self) -> Result<()> {
        let archive = self.archive();
        if archive.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
            let why = format!("{} is not a folder", archive.display());
            return Err(disk::failed("archive a session", why));
        }
        self.way.disk.folder(&archive).or_store_error(&archive, ACTION)
    }

    /// Syncs the names of the visible files.
    pub(super) fn sync_visible(&self) -> Result<()> {
        self.way.disk.sync_folder(&self.root).or_store_error(&self.root, ACTION)?;
        match self.archive().is_dir() {
            true => self.way.disk.sync_folder(&self.archive()).or_store_error(&self.root, ACTION),
            false => Ok(()),
        }
    }

    /// Replaces a file: the new version is written under a temporary name, synced, and renamed.
    /// Right before the rename `ready` is called: if it returns false, or on an error, the file is
    /// unchanged. The new name is durable once the folder is synced. Returns how the file looks.
    pub(super) fn replace(
        &self,
        path: &Path,
        text: &str,
        ready: impl FnOnce() -> Result<bool>,
    ) -> Result<Option<Stamp>> {
        let (disk, world) = (self.way.disk.as_ref(), self.way.world.as_ref());
        let temp = disk::draft_of(path, world);
        let file = disk.create(&temp).or_store_error(path, ACTION)?;
        let publish = || {
            let written = disk.write(&file, text.as_bytes()).and_then(|()| disk.sync(&file));
            written.or_store_error(path, ACTION)?;
            if !ready()? {
                return Ok(None);
            }
            let there = file.metadata().or_store_error(path, ACTION)?;
            disk.rename(&temp, path).or_store_error(path, ACTION)?;
            Ok(Some(Stamp::of(&there)))
        };
        let published = publish();
        if !matches!(published, Ok(Some(_))) {
            // One error is enough; the next process that opens the directory removes the leftover.
            drop(disk.remove(&temp));
        }
        published
    }

    /// Renames something that is in the place of one of our files.
    pub(super) fn set_aside(&self, path: &Path) -> Result<()> {
        let aside = format!(".unreadable-{}", disk::random(self.way.world.as_ref()));
        let aside = disk::with_suffix(path, &aside);
        self.way.disk.rename(path, &aside).or_store_error(path, ACTION)
    }
}
