//! Updates the visible files from the logs.
//!
//! A fold first imports what other programs wrote, so that nothing of theirs is overwritten. Then
//! each file is written under a temporary name, synced and renamed; then `index.json`, which lists
//! the sessions that are not archived, and `last_session`, which names one; then the folders are
//! synced, and finally the database records the state of the files. If that record is lost, the
//! files are compared with the logs the next time, and found equal.
//!
//! The index and `last_session` belong to other programs as much as to us. Entries of the index
//! about files that we cannot read stay in it, and `last_session` is not changed unless one of our
//! sessions was written to since.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;

use rethread_core::limits::READ_ENTRIES;
use rethread_core::store::Result;
use rethread_core::{Entry, Name, Owner, SessionId, Store, StoreError};

use super::disk::{self, failed, sum};
use super::mirror::{BUSY, Mirror, Pass, Reach, busy, made_of};
use super::visible::{self, SUMMARY};
use crate::io::with_suffix;
use crate::sqlite::{Location, Mirrored, Shown, Stamp};

const ACTION: &str = "write the session files";

/// How often a file is written again because another program wrote it at the same time.
const REWRITTEN_TRIES: u32 = 16;

/// The largest index that is read: fifty sessions need a fiftieth of a megabyte.
const INDEX_BYTES_MAX: u64 = 64 << 20;

impl Pass<'_> {
    /// Records the state of a file.
    pub(super) fn keep(&mut self, id: SessionId, shown: Option<Shown>) -> Result<()> {
        self.commit()?.keep_shown(&[(id, shown)])?;
        self.reload(id)
    }

    /// Records the state of a file when the fold ends.
    fn note(&mut self, id: SessionId, shown: Option<Shown>) {
        self.shown.push((id, shown.clone()));
        self.all.entry(id).and_modify(|one| one.shown = shown);
    }

    /// Reads a session from the database again.
    pub(super) fn reload(&mut self, id: SessionId) -> Result<()> {
        self.all.remove(&id);
        let one = self.db.mirrored(Some(id))?.pop();
        self.mirror.known().active |= one.as_ref().is_some_and(Mirrored::is_active);
        self.all.extend(one.map(|one| (id, one)));
        Ok(())
    }

    /// Whether the file of a session is out of date.
    pub(super) fn is_out_of_date(&self, one: &Mirrored) -> bool {
        let (Some(header), shown) = (&one.header, one.shown.as_ref()) else { return false };
        let Some(wanted) = one.wanted() else { return shown.is_some() };
        // If the archive is not a folder, nothing can be written to it.
        let can_be = !wanted.archived || !self.skipped.contains_key(&self.archive());
        let now = (&wanted, one.entries, &made_of(header));
        can_be && shown.is_none_or(|shown| (&shown.at, shown.entries, &shown.made_of) != now)
    }

    /// Updates the files of these sessions, and the index.
    pub(super) fn fold(&mut self, ids: &BTreeSet<SessionId>) -> Result<()> {
        if self.reach != Reach::All {
            return Ok(());
        }
        self.look()?;
        for id in ids {
            for _ in 0..REWRITTEN_TRIES {
                let one = self.all.get(id).filter(|one| self.is_out_of_date(one)).cloned();
                let Some(one) = one else { break };
                match self.bring_up(&one) {
                    Ok(true) => break,
                    // Another program wrote or deleted it at the same time, and is handled first;
                    // during a turn, when that ends.
                    Ok(false) if one.held => {
                        self.is_dirty(*id);
                        break;
                    }
                    Ok(false) => self.look()?,
                    // Its file may be all that is left; `doctor` rebuilds a log from both.
                    Err(error) if error.is_damage() => break,
                    // Another process erased it, or its header has the name of another session.
                    Err(StoreError::NotFound { .. } | StoreError::NameTaken { .. }) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        let shown = std::mem::take(&mut self.shown);
        if !shown.is_empty() {
            self.write_index()?;
            for folder in [self.root.clone(), self.archive()].iter().filter(|at| at.is_dir()) {
                self.options.disk.sync_folder(folder).map_err(failed(folder, ACTION))?;
            }
            self.commit()?.keep_shown(&shown)?;
        }
        Ok(())
    }

    /// Writes the file of a session, and removes it from where it was; false if another program
    /// touched it in the meantime.
    fn bring_up(&mut self, one: &Mirrored) -> Result<bool> {
        let from = one.shown.as_ref().map(|shown| shown.at.path(&self.root));
        if from.as_ref().is_some_and(|from| !self.is_as_known(from, one.shown.as_ref())) {
            return Ok(false);
        }
        if let Some(wanted) = one.wanted() {
            if wanted.archived {
                self.make_archive()?;
            }
            let at = self.free_location(&wanted, one);
            let path = at.path(&self.root);
            if !self.write_file(one, at, &path)? {
                return Ok(false);
            }
            if from.as_ref() == Some(&path) {
                return Ok(true);
            }
            // Before its old name can be lost.
            let folder = path.parent().unwrap_or(&self.root);
            self.options.disk.sync_folder(folder).map_err(failed(folder, ACTION))?;
        } else {
            // It is in the trash.
            self.note(one.id, None);
        }
        // Unless another program wrote to it in the meantime.
        let stamp = one.shown.as_ref().map(|shown| shown.stamp);
        if let Some(from) = from.filter(|from| Stamp::at(from) == stamp) {
            self.options.disk.remove(&from).map_err(failed(&from, ACTION))?;
        }
        Ok(true)
    }

    /// An unused place for the file of a session, with the wanted name or a number after it.
    fn free_location(&self, wanted: &Location, of: &Mirrored) -> Location {
        // An unreadable file in the place of its own is moved aside when that is written.
        let own = of.shown.as_ref().map(|shown| &shown.at);
        if own == Some(wanted) || !self.is_taken(&wanted.stem, own) {
            return wanted.clone();
        }
        // Files may have names that are not valid for sessions.
        let name = Name::new(&wanted.stem).or_else(|_| Name::new("session"));
        let mut stems = name.iter().flat_map(Name::candidates).map(|name| name.folded().to_owned());
        let stem = stems.find(|stem| !self.is_taken(stem, own));
        Location { stem: stem.unwrap_or_else(|| of.id.to_string()), archived: wanted.archived }
    }

    /// Writes the file of a session; false if another program touched it in the meantime.
    fn write_file(&mut self, one: &Mirrored, at: Location, path: &Path) -> Result<bool> {
        let (mirror, id) = (self.mirror, one.id);
        one.is_whole()?;
        let mut session = self.db.get(&Owner::local(), id)?;
        if Some(&session.header) != one.header.as_ref() {
            self.reload(id)?;
            return Ok(false);
        }
        // What another program said about it before the latest summary is outdated.
        let known = one.shown.as_ref().map_or(0, |shown| shown.entries);
        let mut header = session.header.clone();
        if session.tally.summary.is_some_and(|seq| seq >= known) {
            header.extra.set(SUMMARY, None);
        }
        if at.stem != visible::stem_of(&header) {
            let shown = visible::shown_name(&header);
            visible::set_called(&mut header, &at.stem, &shown);
        }
        if header.extra != session.header.extra {
            session = self.change(id, header)?;
        }
        mirror.describe(&mut session);
        let mut draft = visible::Draft::default();
        let end = session.tally.entries;
        self.walk(id, end, |entry| draft.add(&entry))?;
        let (metadata, text) = draft.finish(&session);
        let known = one.shown.as_ref().filter(|shown| shown.at == at);
        let stamp = mirror.replace(path, &text, known.map(|known| known.stamp), || {
            if !self.is_as_known(path, known) {
                return Ok(false);
            }
            if self.skipped.remove(path).is_some() && path.symlink_metadata().is_ok() {
                // It may be someone's work.
                mirror.set_aside(path)?;
            }
            Ok(true)
        })?;
        let Some(stamp) = stamp else { return Ok(false) };
        // A session that was only renamed or moved is not the last one that was used.
        self.active |= one.shown.as_ref().is_none_or(|shown| shown.entries < end);
        mirror.known().written.insert(id, stamp);
        let (sum, made_of) = (sum(text.as_bytes()), made_of(&session.header));
        self.note(id, Some(Shown { at, stamp, sum, entries: end, made_of, metadata }));
        Ok(true)
    }

    /// Reads a log from its beginning, up to an entry.
    pub(super) fn walk(&self, id: SessionId, end: u64, mut each: impl FnMut(Entry)) -> Result<()> {
        for start in (0..end).step_by(READ_ENTRIES as usize) {
            let range = start..end.min(start + READ_ENTRIES);
            self.db.read(&Owner::local(), id, range)?.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// Whether a file is unchanged since it was last examined.
    fn is_as_known(&self, path: &Path, shown: Option<&Shown>) -> bool {
        let there = Stamp::at(path);
        match self.skipped.get(path) {
            Some(skipped) => there.is_none_or(|there| there == skipped.stamp),
            None => there == shown.map(|shown| shown.stamp),
        }
    }

    /// Writes the index and `last_session`, if they are out of date.
    pub(super) fn write_index(&mut self) -> Result<()> {
        let mirror = self.mirror;
        if mirror.reach != Reach::All {
            return Ok(());
        }
        let [path, last] = ["index.json", "last_session"].map(|name| mirror.root.join(name));
        // Ours come first, the most recently active one before the others.
        let shown = self.all.values().filter(|one| one.wanted().is_some());
        let shown = shown.filter_map(|one| Some((one.id, one.shown.as_ref()?)));
        let mut shown: Vec<_> = shown.filter(|(_, shown)| !shown.at.archived).collect();
        let active = |shown: &Shown| visible::last_activity(&shown.metadata);
        shown.sort_by_cached_key(|(id, shown)| Reverse((active(shown), *id)));
        let entry = |(_, shown): (_, &Shown)| (shown.at.stem.clone(), shown.metadata.clone());
        let mut sessions: Vec<_> = shown.into_iter().map(entry).collect();
        let newest = sessions.first().map(|(stem, _)| stem.clone());
        let path_of = |stem: &str| mirror.root.join(format!("{stem}.json"));
        let is_there = |stem: &str| visible::is_stem(stem) && path_of(stem).is_file();
        // Another program may still be able to use a file that cannot be read here.
        let said = read(&last).map(|said| said.trim().to_owned());
        let skipped = |stem: &str| self.skipped.get(&path_of(stem));
        let is_named = |stem: &&str| is_there(stem) && skipped(stem).is_none_or(|it| it.damaged);
        let named = said.as_deref().filter(is_named);
        let wanted = named.filter(|_| !self.active).or(newest.as_deref());
        let index = read(&path);
        let listed = visible::index_entries(index.as_deref().unwrap_or_default());
        let shown = self.all.values().filter_map(|one| Some(one.shown.as_ref()?.at.stem.as_str()));
        let ours: HashSet<&str> = shown.collect();
        let is_other = |it: &&(String, String)| !ours.contains(it.0.as_str()) && is_there(&it.0);
        sessions.extend(listed.iter().filter(is_other).cloned());
        if index.is_none() || listed != sessions {
            mirror.write_beside(&path, &visible::index(&sessions, mirror.options.world.now()))?;
        }
        match wanted {
            _ if said.as_deref() == wanted => {}
            Some(stem) => mirror.write_beside(&last, stem)?,
            None => self.options.disk.remove(&last).map_err(failed(&last, ACTION))?,
        }
        self.active = false;
        Ok(())
    }
}

/// The text of a file; empty if it is too large.
fn read(path: &Path) -> Option<String> {
    let there = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    let bytes = (there.len() <= INDEX_BYTES_MAX).then(|| std::fs::read(path).ok()).flatten();
    Some(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
}

impl Mirror {
    /// Removes the file of a session that is erased next, and may be in the trash already: a file
    /// without a session would be imported as one.
    pub(super) fn discard(&self, id: SessionId, is_trashed: bool) -> Result<()> {
        let Some(mut pass) = self.pass(BUSY)? else {
            return if self.reach == Reach::All { Err(busy(&self.root)) } else { Ok(()) };
        };
        pass.look()?;
        if !is_trashed && pass.all.get(&id).is_some_and(|one| one.wanted().is_some()) {
            self.throw_away(id)?;
        }
        pass.reload(id)?;
        pass.fold(&BTreeSet::from([id]))
    }

    /// Creates the folder of archived sessions. A link in its place would lead out of the
    /// directory.
    pub(super) fn make_archive(&self) -> Result<()> {
        let archive = self.archive();
        if archive.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
            let error = io::Error::other("it is not a folder");
            return Err(failed(&archive, "archive a session")(error));
        }
        self.options.disk.folder(&archive).map_err(failed(&archive, ACTION))
    }

    /// Replaces a file: the new version is written under a temporary name, synced, and renamed.
    /// Right before the rename `ready` is called: if it returns false, or on an error, the file is
    /// unchanged. It also is if something else than `known` is in its place by then. The new name is
    /// durable once the folder is synced. Returns how the file looks.
    fn replace(
        &self,
        path: &Path,
        text: &str,
        known: Option<Stamp>,
        ready: impl FnOnce() -> Result<bool>,
    ) -> Result<Option<Stamp>> {
        let disk = self.options.disk.as_ref();
        let temp = disk::draft_of(path, self.options.world.as_ref());
        let file = disk.create(&temp).map_err(failed(path, ACTION))?;
        let publish = || {
            let written = disk.write(&file, text.as_bytes()).and_then(|()| disk.sync(&file));
            written.map_err(failed(path, ACTION))?;
            match ready()? {
                true => self.swap_in(&temp, path, known).map_err(failed(path, ACTION)),
                false => Ok(None),
            }
        };
        let published = publish();
        if !matches!(published, Ok(Some(_))) {
            // One error is enough; the next look removes the leftover.
            drop(disk.remove(&temp));
        }
        published
    }

    /// Gives the new version of a file its name, and returns how it looks; `None` if another program
    /// wrote the file in the meantime. Programs that share the directory take no lock, so the two
    /// versions are exchanged, and what is not `known` is put back.
    fn swap_in(&self, temp: &Path, path: &Path, known: Option<Stamp>) -> io::Result<Option<Stamp>> {
        use io::ErrorKind::{InvalidInput, NotFound, Unsupported};
        let disk = self.options.disk.as_ref();
        let ours = Stamp::at(temp);
        match known.map(|_| disk.swap(temp, path)) {
            Some(Ok(())) => {}
            Some(Err(error)) if !matches!(error.kind(), InvalidInput | NotFound | Unsupported) => {
                return Err(error);
            }
            // Nothing is in its place, or this file system cannot exchange names.
            _ => return disk.rename(temp, path).map(|()| ours),
        }
        if Stamp::at(temp) == known {
            return disk.remove(temp).map(|()| ours);
        }
        disk.swap(temp, path)?;
        if Stamp::at(temp) != ours {
            // It has replaced ours by now, and its latest version belongs there.
            disk.swap(temp, path)?;
        }
        Ok(None)
    }

    /// Writes the index or `last_session`. If something that is not a file is in its place, it is
    /// moved aside.
    fn write_beside(&self, path: &Path, text: &str) -> Result<()> {
        if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
            self.set_aside(path)?;
        }
        self.replace(path, text, None, || Ok(true)).map(drop)
    }

    /// Renames something that is in the place of one of our files.
    fn set_aside(&self, path: &Path) -> Result<()> {
        let aside = format!(".unreadable-{}", disk::random(self.options.world.as_ref()));
        let aside = with_suffix(path, &aside);
        self.options.disk.rename(path, &aside).map_err(failed(path, ACTION))
    }
}
