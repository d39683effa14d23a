//! Bringing the visible files up to date with the logs.
//!
//! A fold first takes in what other programs wrote, so that nothing of theirs is written over.
//! Then each file is written under a temporary name, synced and renamed; then the index and
//! `last_session`; then the folders are synced, and last of all the database says how the files
//! look. If that last word is lost, the files are compared with the logs the next time, and found
//! equal.

use std::path::Path;

use rethread_core::limits::{NAME_TRIES_MAX, READ_ENTRIES};
use rethread_core::store::{Change, Result};
use rethread_core::summary::resuming;
use rethread_core::{
    Body, Name, Owner, Raw, Role, Session, SessionId, Store, StoreError, readable_id,
};

use super::disk::{Draft, OrStoreError, changed};
use super::mirror::{Mirror, Pass, Reach, made_of};
use super::visible::{self, active_at, stem_of};
use crate::sqlite::{Mirrored, Shown, SqliteStore};

const ACTION: &str = "write the session files";

/// The largest index that is read: fifty sessions need a fiftieth of a megabyte.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// How often a file is written again because another program wrote it in the same moment.
const REWRITTEN_TRIES: u32 = 16;

/// The largest `last_session` that is read: no id is longer.
const LAST_BYTES_MAX: u64 = 1 << 10;

impl Pass<'_> {
    pub(super) fn db(&self) -> &SqliteStore {
        &self.mirror.db
    }

    /// The database is written to next.
    pub(super) fn commit(&self) -> Result<()> {
        self.mirror.way.disk.commit().or_store_error(&self.mirror.root, "write to the database")
    }

    /// Writes down how files look.
    pub(super) fn keep(&mut self, shown: &[(SessionId, Option<Shown>)]) -> Result<()> {
        self.commit()?;
        self.db().keep_shown(shown)?;
        self.seen.index = None;
        for (id, shown) in shown {
            if let Some(one) = self.all.get_mut(id) {
                one.shown.clone_from(shown);
            }
        }
        Ok(())
    }

    /// Takes a session from the database again.
    pub(super) fn reload(&mut self, id: SessionId) -> Result<()> {
        match self.db().mirrored_one(&Owner::local(), id)? {
            Some(one) => drop(self.all.insert(id, one)),
            None => drop(self.all.remove(&id)),
        }
        if self.all.get(&id).is_some_and(Mirrored::is_active) {
            self.mirror.known().active.insert(id);
        }
        Ok(())
    }

    /// A session goes to the trash.
    pub(super) fn throw_away(&mut self, id: SessionId) -> Result<()> {
        let (owner, world) = (Owner::local(), self.mirror.way.world.as_ref());
        let session = self.db().get(&owner, id)?;
        let mut keys = session.keys;
        keys.extend(session.readable_id.and_then(|id| readable_id::key(&id).ok()));
        self.commit()?;
        let change = Change::to_trash(&session.header, keys, world.now());
        match self.db().update(&owner, id, &change) {
            Err(StoreError::Held { .. } | StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => self.reload(id),
        }
    }

    /// Deletes a session: first its file, because a file without a session would become one.
    pub(super) fn delete(&mut self, id: SessionId) -> Result<()> {
        self.mirror.may_write()?;
        self.look()?;
        let (owner, mirror) = (Owner::local(), self.mirror);
        let Some(one) = self.all.get(&id).cloned() else {
            return self.db().delete(&owner, id);
        };
        if !one.is_held(mirror.way.world.now())
            && let Some(shown) = &one.shown
        {
            let path = mirror.path_of(&shown.stem, shown.archived);
            if path.symlink_metadata().is_ok_and(|there| shown.is(&there)) {
                mirror.way.disk.remove(&path).or_store_error(&path, "delete a session")?;
                mirror.sync_visible()?;
            }
        }
        self.commit()?;
        if let Err(error) = self.db().delete(&owner, id) {
            // Its file is written again.
            self.keep(&[(id, None)])?;
            mirror.is_dirty(id);
            return Err(error);
        }
        self.keep(&[(id, None)])?;
        self.reload(id)?;
        self.index_is_right()
    }

    /// Whether the file of a session says less than its log.
    pub(super) fn is_behind(&self, one: &Mirrored) -> bool {
        let (Some(header), shown) = (&one.header, one.shown.as_ref()) else { return false };
        let Some((stem, archived)) = one.wanted() else { return shown.is_some() };
        // Where the archive is no folder of ours, nothing can be written to it.
        if archived && self.seen.skipped.contains_key(&self.mirror.archive()) {
            return false;
        }
        shown.is_none_or(|shown| {
            (&shown.stem, shown.archived, shown.entries) != (&stem, archived, one.entries)
                || shown.made_of != made_of(header)
        })
    }

    /// Brings the files of these sessions up to date, and with them the index. Returns those for
    /// which that has to wait.
    pub(super) fn fold(&mut self, ids: &[SessionId]) -> Result<Vec<SessionId>> {
        if self.mirror.reach != Reach::All {
            return Ok(Vec::new());
        }
        self.look()?;
        let mut waiting = Vec::new();
        for id in ids {
            for _ in 0..REWRITTEN_TRIES {
                let Some(one) = self.all.get(id).cloned() else { break };
                if !self.is_behind(&one) {
                    break;
                }
                let now = self.mirror.way.world.now();
                match self.bring_up(&one) {
                    Ok(true) => break,
                    // Another program wrote or deleted it in this moment, and goes first; in the
                    // middle of a turn, when that ends.
                    Ok(false) if one.is_held(now) => {
                        waiting.push(*id);
                        break;
                    }
                    Ok(false) => self.look()?,
                    // Its file may be all that is left; `doctor` makes a log of both.
                    Err(StoreError::Damaged { .. } | StoreError::NotFound { .. }) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        let shown = std::mem::take(&mut self.shown);
        if !shown.is_empty() {
            self.active = true;
            self.write_index()?;
            let index = self.seen.index;
            self.keep(&shown)?;
            self.seen.index = index;
        }
        Ok(waiting)
    }

    /// Moves, removes or writes the file of a session; says no where somebody else touched it
    /// meanwhile.
    fn bring_up(&mut self, one: &Mirrored) -> Result<bool> {
        let (mirror, id) = (self.mirror, one.id);
        let from = one.shown.as_ref().map(|shown| mirror.path_of(&shown.stem, shown.archived));
        if from.as_ref().is_some_and(|from| !self.is_as_known(from, one.shown.as_ref())) {
            return Ok(false);
        }
        let Some((wanted, archived)) = one.wanted() else {
            // It is in the trash.
            if let Some(from) = from.filter(|from| !self.seen.skipped.contains_key(from)) {
                mirror.way.disk.remove(&from).or_store_error(&from, ACTION)?;
            }
            self.note(id, None);
            return Ok(true);
        };
        if archived {
            mirror.make_archive()?;
        }
        let stem = self.free_stem(&wanted, archived, one)?;
        if stem != wanted {
            let mut foreign = one.header.clone().map(|header| header.foreign).unwrap_or_default();
            foreign.set("metadata.id", Some(Raw::of(&stem)));
            self.commit()?;
            let change = Change { foreign: Some(foreign), ..Change::default() };
            self.db().update(&Owner::local(), id, &change)?;
            self.reload(id)?;
        }
        let path = mirror.path_of(&stem, archived);
        if let (Some(from), Some(shown)) = (from, &one.shown)
            && from != path
            && from.symlink_metadata().is_ok()
        {
            mirror.way.disk.rename(&from, &path).or_store_error(&from, ACTION)?;
            // Before its old name can be gone for good.
            let folder = path.parent().unwrap_or(&mirror.root);
            mirror.way.disk.sync_folder(folder).or_store_error(folder, ACTION)?;
            if let Some(skipped) = self.seen.skipped.remove(&from) {
                self.seen.skipped.insert(path.clone(), skipped);
            }
            self.note(id, Some(Shown { stem, archived, ..shown.clone() }));
        }
        let Some(one) = self.all.get(&id).cloned() else { return Ok(true) };
        self.write_file(&one, &path)
    }

    /// What is to be written down with everything else.
    fn note(&mut self, id: SessionId, shown: Option<Shown>) {
        if let Some(one) = self.all.get_mut(&id) {
            one.shown.clone_from(&shown);
        }
        self.shown.push((id, shown));
    }

    /// A name for the file of a session that no other file has, whoever it belongs to.
    fn free_stem(&self, wanted: &str, archived: bool, of: &Mirrored) -> Result<String> {
        let mine = |stem: &str, archived: bool| {
            of.shown.as_ref().is_some_and(|shown| shown.stem == stem && shown.archived == archived)
        };
        let taken = |stem: &str| {
            let called = |one: &Mirrored| {
                let shown = one.shown.as_ref().map(|shown| shown.stem.as_str());
                one.id != of.id && shown.is_some_and(|other| other.eq_ignore_ascii_case(stem))
            };
            let there = |archived: bool| {
                let path = self.mirror.path_of(stem, archived);
                // What cannot be read in the place of a new file is set aside.
                path.symlink_metadata().is_ok() && !mine(stem, archived)
            };
            self.all.values().any(called) || there(archived) || there(!archived)
        };
        if mine(wanted, archived) || !taken(wanted) {
            return Ok(wanted.to_owned());
        }
        let name = Name::new(wanted);
        let numbers = (2..2 + NAME_TRIES_MAX).map(|number| match &name {
            Ok(name) => name.numbered(number).folded().to_owned(),
            Err(_) => format!("session-{number}"),
        });
        let taken_all = || StoreError::Backend {
            store: "files",
            action: "find a name for a file",
            source: format!("`{wanted}` and all its numbers are taken").into(),
        };
        numbers.into_iter().find(|stem| !taken(stem)).ok_or_else(taken_all)
    }

    /// Writes the file of a session.
    fn write_file(&mut self, one: &Mirrored, path: &Path) -> Result<bool> {
        let (mirror, owner, id) = (self.mirror, Owner::local(), one.id);
        let Some(before) = one.header.as_ref() else { return Ok(true) };
        one.is_whole()?;
        let (disk, world) = (mirror.way.disk.as_ref(), mirror.way.world.as_ref());
        let mut session = self.db().get(&owner, id)?;
        mirror.describe(&mut session);
        let made = made_of(&session.header);
        if made != made_of(before) {
            // Someone changed it just now; the next look sees that.
            return Ok(false);
        }
        let end = session.tally.entries;
        let count = self.db().count_of(id, end, visible::FOREIGN)?;
        let used = self.last_used(id, end)?;
        let metadata = visible::metadata(&session, count, used.as_deref());
        let mut draft = Draft::new(disk, world, path).or_store_error(path, ACTION)?;
        let opening = format!("{{\n\"metadata\": {metadata},\n\"messages\": [");
        draft.add(opening.as_bytes()).or_store_error(path, ACTION)?;
        let (mut comma, mut user, mut assistant) = ("\n", 0, 0);
        for start in (0..end).step_by(READ_ENTRIES as usize) {
            for entry in self.db().read(&owner, id, start..end.min(start + READ_ENTRIES))? {
                let Some(message) = visible::message(&entry) else { continue };
                match entry.body.message().map(|message| message.role) {
                    Some(Role::User) => user += 1,
                    Some(Role::Assistant) => assistant += 1,
                    _ => {}
                }
                draft.add(comma.as_bytes()).or_store_error(path, ACTION)?;
                draft.add(message.as_bytes()).or_store_error(path, ACTION)?;
                comma = ",\n";
            }
        }
        let (summary, theirs) = self.summary(&session, one, user, assistant)?;
        draft.add(b"\n]").or_store_error(path, ACTION)?;
        let ending = visible::ending(summary, &session.header);
        draft.add(ending.as_bytes()).or_store_error(path, ACTION)?;
        draft.finish().or_store_error(path, ACTION)?;
        let known = self.all.get(&id).and_then(|one| one.shown.clone());
        if !self.is_as_known(path, known.as_ref()) {
            return Ok(false);
        }
        if self.seen.skipped.remove(path).is_some() && path.symlink_metadata().is_ok() {
            // It is somebody's work, or was.
            mirror.set_aside(path)?;
        }
        let sig = draft.publish().or_store_error(path, ACTION)?;
        let shown = Shown {
            stem: stem_of(&session.header),
            archived: session.header.archived,
            changed: sig.changed,
            size: sig.size,
            sum: sig.sum,
            entries: end,
            made_of: made,
            metadata,
            summary: theirs,
        };
        self.note(id, Some(shown));
        Ok(true)
    }

    /// The provider and model that answered last.
    fn last_used(&self, id: SessionId, end: u64) -> Result<Option<String>> {
        let mut end = end;
        while end > 0 {
            let start = end.saturating_sub(READ_ENTRIES);
            let entries = self.db().read(&Owner::local(), id, start..end)?;
            let mut messages = entries.iter().rev().filter_map(|entry| entry.body.message());
            if let Some(model) = messages.find_map(|message| message.model.clone()) {
                return Ok(Some(model));
            }
            end = start;
        }
        Ok(None)
    }

    /// What people read when they take the session up again: another program's summary until there
    /// is a newer one here, else ours, else what there is to say. With the place of our latest one,
    /// where it is the other program's.
    fn summary(
        &self,
        session: &Session,
        one: &Mirrored,
        user: u64,
        assistant: u64,
    ) -> Result<(Raw, Option<u64>)> {
        let latest = session.tally.summary;
        let instead_of = one.shown.as_ref().and_then(|shown| shown.summary).unwrap_or(0);
        let theirs = session.header.foreign.get("contextSummary");
        if let Some(theirs) = theirs.filter(|_| instead_of == latest.map_or(0, |seq| seq + 1)) {
            return Ok((theirs.clone(), Some(instead_of)));
        }
        let text = match latest.or(session.tally.started) {
            None => None,
            Some(seq) => {
                let entry = self.db().read(&Owner::local(), session.id(), seq..seq + 1)?.pop();
                match entry.map(|entry| entry.body) {
                    Some(Body::Summary(summary)) => Some(summary.text),
                    Some(Body::Restored(restored)) => Some(restored.summary),
                    _ => None,
                }
            }
        };
        let kept = theirs.map(|_| instead_of);
        Ok((Raw::of(&text.unwrap_or_else(|| resuming(session, user, assistant))), kept))
    }

    /// Whether a file is as it was when it was last looked at. Programs that share the directory
    /// take no lock: what they write between this and our rename is the only thing that is lost.
    fn is_as_known(&self, path: &Path, shown: Option<&Shown>) -> bool {
        let there = path.symlink_metadata().ok();
        match (self.seen.skipped.get(path), there) {
            (Some(skipped), Some(there)) => {
                (changed(&there), there.len()) == (skipped.changed, skipped.size)
            }
            (Some(_), None) => true,
            (None, there) => match (shown, there) {
                (None, None) => true,
                (Some(shown), Some(there)) => shown.is(&there),
                _ => false,
            },
        }
    }

    /// The index with its sessions, the one that was active last first.
    fn listed(&self) -> Vec<(String, String)> {
        let shown = self.all.values().filter_map(|one| Some((one, one.shown.as_ref()?)));
        let mut listed: Vec<_> = shown
            .filter(|(one, shown)| !shown.archived && one.wanted().is_some())
            .map(|(one, shown)| ((visible::last_activity(&shown.metadata), one.id), shown))
            .collect();
        listed.sort_by(|(a, _), (b, _)| b.cmp(a));
        let listed = listed.into_iter();
        listed.map(|(_, shown)| (shown.stem.clone(), shown.metadata.clone())).collect()
    }

    /// Writes the index and `last_session` where they are not right.
    pub(super) fn index_is_right(&mut self) -> Result<()> {
        if self.mirror.reach != Reach::All {
            return Ok(());
        }
        let path = self.mirror.root.join("index.json");
        let there = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
        let looks = there.map(|there| (changed(&there), there.len()));
        let same = looks.is_some() && looks == self.seen.index && !self.active || {
            let mut sessions = self.listed();
            sessions.extend(self.others_listed(&path, &sessions));
            let is = |(stem, raw): (String, Raw)| (stem, raw.get().to_owned());
            let said = visible::index_entries(&read(&path, INDEX_BYTES_MAX));
            looks.is_some() && said.into_iter().map(is).eq(sessions)
        };
        match same && !self.active && self.last_is_one() {
            true => {
                self.seen.index = looks;
                Ok(())
            }
            false => self.write_index(),
        }
    }

    /// Writes the index and `last_session`, which follows our sessions when they go on and stays
    /// what another program wrote otherwise.
    fn write_index(&mut self) -> Result<()> {
        let mirror = self.mirror;
        let path = mirror.root.join("index.json");
        let mut sessions = self.listed();
        let newest = sessions.first().map(|(stem, _)| stem.clone());
        sessions.extend(self.others_listed(&path, &sessions));
        mirror.set_aside_link(&path)?;
        let looks = mirror.replace(&path, &visible::index(&sessions, mirror.way.world.now()))?;
        let last = mirror.root.join("last_session");
        let said = mirror.last_said();
        let good = said.as_ref().is_some_and(|said| {
            self.is_listed(said) && (!self.active || newest.as_deref() == Some(said))
        });
        match newest {
            _ if good => {}
            Some(newest) => {
                mirror.set_aside_link(&last)?;
                mirror.replace(&last, &newest)?;
            }
            None if said.is_some() => {
                mirror.way.disk.remove(&last).or_store_error(&last, ACTION)?
            }
            None => {}
        }
        mirror.sync_visible()?;
        (self.seen.index, self.active) = (Some(looks), false);
        Ok(())
    }

    /// Whether another program can go on with what is called this: a session that has a file, or
    /// a file of one that cannot be read here.
    fn is_listed(&self, stem: &str) -> bool {
        let broken = |path: &Path| self.seen.skipped.get(path).is_some_and(|skip| skip.damaged);
        self.listed().iter().any(|(listed, _)| listed == stem)
            || visible::is_stem(stem) && broken(&self.mirror.path_of(stem, false))
    }

    /// Whether `last_session` names a session, if there is any to name.
    fn last_is_one(&self) -> bool {
        match self.mirror.last_said() {
            Some(said) => self.is_listed(&said),
            None => self.listed().is_empty(),
        }
    }

    /// What the index says of files that are not ours to read: it stays in the index.
    fn others_listed(&self, path: &Path, ours: &[(String, String)]) -> Vec<(String, String)> {
        let known = |stem: &str| {
            ours.iter().any(|(other, _)| other == stem)
                || self.all.values().filter_map(|one| one.shown.as_ref()).any(|s| s.stem == stem)
        };
        visible::index_entries(&read(path, INDEX_BYTES_MAX))
            .into_iter()
            .filter(|(stem, _)| visible::is_stem(stem) && !known(stem))
            .filter(|(stem, _)| self.mirror.path_of(stem, false).is_file())
            .map(|(stem, raw)| (stem, raw.get().to_owned()))
            .collect()
    }
}

/// The text of a file; none where there is none, or more than makes sense.
fn read(path: &Path, max: u64) -> String {
    let there = path.symlink_metadata().ok().filter(|there| there.is_file() && there.len() <= max);
    let bytes = there.and_then(|_| std::fs::read(path).ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Mirror {
    /// Adds to a session what another program says about it.
    pub(super) fn describe(&self, session: &mut Session) {
        if let Some(at) = active_at(&session.header.foreign) {
            session.last_activity_at = session.last_activity_at.max(at);
        }
    }

    /// Why nothing can be written.
    pub(super) fn closed(&self) -> StoreError {
        let place = self.root.display().to_string();
        match self.reach {
            Reach::All => StoreError::Busy { place },
            _ => StoreError::ReadOnly { place },
        }
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
        self.way.disk.folder(&archive).or_store_error(&archive, ACTION)
    }

    /// Waits until the names of the visible files are on disk.
    pub(super) fn sync_visible(&self) -> Result<()> {
        self.way.disk.sync_folder(&self.root).or_store_error(&self.root, ACTION)?;
        match self.archive().is_dir() {
            true => self.way.disk.sync_folder(&self.archive()).or_store_error(&self.root, ACTION),
            false => Ok(()),
        }
    }

    /// What `last_session` says; nothing where there is none.
    fn last_said(&self) -> Option<String> {
        let last = self.root.join("last_session");
        last.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(read(&last, LAST_BYTES_MAX).trim().to_owned())
    }

    fn replace(&self, path: &Path, text: &str) -> Result<(i64, u64)> {
        let (disk, world) = (self.way.disk.as_ref(), self.way.world.as_ref());
        let mut draft = Draft::new(disk, world, path).or_store_error(path, ACTION)?;
        draft.add(text.as_bytes()).or_store_error(path, ACTION)?;
        let sig = draft.publish().or_store_error(path, ACTION)?;
        Ok((sig.changed, sig.size))
    }

    fn set_aside_link(&self, path: &Path) -> Result<()> {
        match path.symlink_metadata() {
            Ok(there) if !there.is_file() => self.set_aside(path),
            _ => Ok(()),
        }
    }

    /// Moves something out of the way that is in the place of one of our files.
    fn set_aside(&self, path: &Path) -> Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        let random = self.way.world.uuid().as_u128() & 0xffff_ffff;
        name.push(format!(".unreadable-{random:08x}"));
        self.way.disk.rename(path, &path.with_file_name(name)).or_store_error(path, ACTION)
    }
}
