//! Imports the changes of other programs to the visible files.
//!
//! An unknown file becomes a session. A file that was rewritten is compared with the log, message
//! by message, by role and content: such programs drop tool messages and repeated ones, keep only
//! the last hundred, and assign new ids and times. The log stays complete, and what follows the
//! last known message is appended. If old messages were changed, or new ones inserted between them,
//! the file is another conversation from there on: a fork, which takes the file, the name and the
//! keys, while the old log keeps its entries under another name. If a file is missing, it was
//! renamed, and so is the session; or it was deleted, and the session is moved to the trash.
//!
//! Files that cannot be read are reported and not changed. Links are never followed. The state of a
//! file is recorded before a session is created from it, and after a session was changed by it:
//! after a crash in between, the two are compared again, and found equal.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use rethread_core::entry::{Origin, Started, fingerprint};
use rethread_core::limits::{MESSAGE_BYTES_MAX, NAME_TRIES_MAX};
use rethread_core::log::open_calls;
use rethread_core::measure::measure;
use rethread_core::session::{Parent, ProfileChange};
use rethread_core::store::{At, Bind, Change, Result};
use rethread_core::world::rfc3339;
use rethread_core::{
    Body, EntryId, Header, Name, NewEntry, Owner, Raw, SessionId, Store, StoreError, readable_id,
};

use super::compare::{Likeness, first_new};
use super::disk::OrStoreError;
use super::mirror::{Pass, Reach, made_of};
use super::visible::{
    self, ACTIVE, NoSession, SUMMARY, Visible, VisibleMessage, is_stem, likeness, set_called,
    shown_name, stem_of,
};
use crate::sqlite::{Location, Mirrored, Shown, Stamp};

/// The largest file that is read as a session. No conversation is larger.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Bytes of a file apart from its messages: they become part of the header, which every list reads.
/// The tests of this crate use less, so that they can exceed it.
const SAYS_BYTES_MAX: usize = if cfg!(test) { 256 << 10 } else { 16 << 20 };

/// Bytes of one of its messages: a larger one could not be read back.
const SAID_BYTES_MAX: usize = if cfg!(test) { 2 << 20 } else { 3 * MESSAGE_BYTES_MAX };

/// Where the messages of such a session come from. Its tools stay off until the user allows them.
pub(super) const IMPORTED: &str = "files";

/// A file that is ignored.
pub(super) struct Skipped {
    pub(super) stamp: Stamp,
    pub(super) why: String,
    /// Whether a part of a session may be lost in it.
    pub(super) damaged: bool,
}

/// A session file, seen from outside.
struct Found {
    path: PathBuf,
    at: Location,
    stamp: Stamp,
}

impl Found {
    /// The state of a file that was moved here, or only touched.
    fn moved(&self, shown: Shown) -> Shown {
        Shown { at: self.at.clone(), stamp: self.stamp, ..shown }
    }
}

impl Pass<'_> {
    /// Imports all changes to the visible files.
    pub(super) fn look(&mut self) -> Result<()> {
        let mirror = self.mirror;
        let now = mirror.way.world.now();
        let files = self.session_files()?;
        let shown = |pass: &Self| -> HashMap<PathBuf, SessionId> {
            let all = pass.all.values().filter_map(|one| Some((one.shown.as_ref()?, one.id)));
            all.map(|(shown, id)| (mirror.path_of(&shown.at), id)).collect()
        };
        let known = shown(self);
        let hidden = self.seen.skipped.contains_key(&mirror.archive());
        let mut gone: Vec<SessionId> = Vec::new();
        for (path, id) in &known {
            let one = &self.all[id];
            let archived = one.shown.as_ref().is_some_and(|shown| shown.at.archived);
            let there = files.contains_key(path)
                || self.seen.skipped.contains_key(path)
                || hidden && archived;
            if !there && !one.is_held(now) {
                gone.push(*id);
            }
        }
        for found in files.values().filter(|found| !known.contains_key(&found.path)) {
            self.meet(found, &files, &mut gone)?;
        }
        for (path, id) in shown(self) {
            let Some(one) = self.all.get(&id).filter(|one| !one.is_held(now)) else { continue };
            let Some(found) = files.get(&path) else { continue };
            let Some(seen) = one.shown.clone().filter(|seen| seen.stamp != found.stamp) else {
                continue;
            };
            match one.wanted() {
                Some(_) => self.compare(id, found, seen)?,
                // It is in the trash, and its file belongs to another program now: the next look
                // imports it.
                None => self.keep(&[(id, None)])?,
            }
        }
        for id in gone {
            mirror.throw_away(id)?;
            self.reload(id)?;
            if self.all.get(&id).is_some_and(|one| one.wanted().is_none()) {
                self.keep(&[(id, None)])?;
            }
        }
        self.index_is_right()
    }

    /// The session files; anything else that ends in `.json` is recorded as ignored.
    fn session_files(&mut self) -> Result<BTreeMap<PathBuf, Found>> {
        let mut files = BTreeMap::new();
        let mut left: BTreeMap<PathBuf, Skipped> = BTreeMap::new();
        for (folder, archived) in [(self.mirror.root.clone(), false), (self.mirror.archive(), true)]
        {
            match folder.symlink_metadata() {
                // The directory itself may be a link: the user chose it.
                Ok(there) if archived && !there.is_dir() => {
                    let why = "it is not a folder, so nothing can be archived".to_owned();
                    let stamp = Stamp::of(&there);
                    left.insert(folder, Skipped { stamp, why, damaged: false });
                    continue;
                }
                Ok(_) => {}
                Err(_) => continue,
            }
            for entry in std::fs::read_dir(&folder).or_store_error(&folder, "read the directory")? {
                let entry = entry.or_store_error(&folder, "read the directory")?;
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                let Some(stem) = name.strip_suffix(".json") else { continue };
                if !archived && stem == "index" {
                    continue;
                }
                let there = match path.symlink_metadata() {
                    // It was deleted in the meantime.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    // A file that cannot be examined must not count as deleted.
                    there => there.or_store_error(&path, "read the directory")?,
                };
                let stamp = Stamp::of(&there);
                let wrong = [
                    (there.is_symlink(), "it is a link, and links are not followed"),
                    (!there.is_file(), "it is not a file"),
                    (!is_stem(stem), "its name is not a session id"),
                    (stamp.size > FILE_BYTES_MAX, "it is too large to be a session"),
                ];
                if let Some((_, why)) = wrong.into_iter().find(|(is, _)| *is) {
                    left.insert(path, Skipped { stamp, why: why.to_owned(), damaged: false });
                    continue;
                }
                let at = Location { stem: stem.to_owned(), archived };
                files.insert(path.clone(), Found { path, at, stamp });
            }
        }
        // A file that could not be read is not read again before it changes.
        for (path, skipped) in std::mem::take(&mut self.seen.skipped) {
            if files.get(&path).is_some_and(|found| found.stamp == skipped.stamp) {
                left.insert(path, skipped);
            }
        }
        self.seen.skipped = left;
        Ok(files)
    }

    fn skip(&mut self, found: &Found, why: String, damaged: bool) {
        let skipped = Skipped { stamp: found.stamp, why, damaged };
        self.seen.skipped.insert(found.path.clone(), skipped);
    }

    /// Reads a file, if it is a session; `known` if a session has it.
    fn read_visible(&mut self, found: &Found, known: bool) -> Option<Visible> {
        if self.seen.skipped.contains_key(&found.path) {
            return None;
        }
        let bytes = match std::fs::read(&found.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.skip(found, format!("it cannot be read: {error}"), true);
                return None;
            }
        };
        let (why, damaged) = match visible::parse(&String::from_utf8_lossy(&bytes)) {
            Ok(visible) => match too_much(&visible, bytes.len()) {
                None => return Some(visible),
                Some(why) => (why, known),
            },
            // Something else has taken the place of a session file.
            Err(NoSession::Other(why)) => (why, known),
            Err(NoSession::Broken(why)) => (why, true),
        };
        self.skip(found, why, damaged);
        None
    }

    /// Imports a file that belongs to no session.
    fn meet(
        &mut self,
        found: &Found,
        files: &BTreeMap<PathBuf, Found>,
        gone: &mut Vec<SessionId>,
    ) -> Result<()> {
        let Some(visible) = self.read_visible(found, false) else { return Ok(()) };
        // A session without a file may have lost it to a crash just when it was written; and if the
        // power failed while a file was moved, it may be in both places.
        let is_missed = |one: &&Mirrored| match &one.shown {
            None => one.wanted().is_some(),
            Some(shown) => shown.sum == visible.sum && one.wanted().as_ref() == Some(&found.at),
        };
        let missed: Vec<SessionId> =
            self.all.values().filter(is_missed).map(|one| one.id).collect();
        for id in gone.iter().copied().chain(missed).collect::<Vec<_>>() {
            if self.is_renamed(id, &visible)? {
                gone.retain(|other| *other != id);
                self.follow(id, found, &visible)?;
                let before = self.all.get(&id).and_then(|one| one.shown.clone());
                let Some(before) = before.filter(|before| before.sum == visible.sum) else {
                    return self.take_in(id, found, visible);
                };
                // Moved, not changed.
                let path = self.mirror.path_of(&before.at);
                if self.mirror.reach == Reach::All && Stamp::at(&path) == Some(before.stamp) {
                    self.mirror.way.disk.remove(&path).or_store_error(&path, "move a file")?;
                }
                return self.keep(&[(id, Some(found.moved(before)))]);
            }
        }
        let other = Location { stem: visible.id.clone(), archived: found.at.archived };
        if other != found.at && files.contains_key(&self.mirror.path_of(&other)) {
            let why = format!("its id is `{}`, which belongs to another file", visible.id);
            self.skip(found, why, false);
            return Ok(());
        }
        self.adopt(found, &visible)
    }

    /// Imports a file as a new session.
    fn adopt(&mut self, found: &Found, visible: &Visible) -> Result<()> {
        let known = |id: SessionId| self.all.contains_key(&id);
        let ours = visible.ours.clone().filter(|header| !known(header.id));
        // The id that another program gave it is known to users.
        let key = readable_id::key(&found.at.stem).ok().filter(|_| ours.is_none());
        let key = key.filter(|key| matches!(self.db().resolve(&Owner::local(), key), Ok(None)));
        let binds: Vec<Bind> = key.into_iter().map(|key| Bind { key, seen: None }).collect();
        let header = ours.unwrap_or_else(|| {
            let written = jiff::Timestamp::from_millisecond(found.stamp.changed / 1_000_000);
            let at = visible.created_at.or(visible.last_activity_at).or(written.ok());
            let at = at.unwrap_or_else(|| self.mirror.way.world.now());
            let file = format!("{}/{}", found.at.archived, found.at.stem);
            Header::new(SessionId(self.id_for(at, &file)), Owner::local(), at)
        });
        self.begin(header, found, visible, None, &binds)
    }

    /// Creates a session from a file; `started` is added to its messages.
    fn begin(
        &mut self,
        mut header: Header,
        found: &Found,
        visible: &Visible,
        started: Option<Started>,
        binds: &[Bind],
    ) -> Result<()> {
        (header.owner, header.trash) = (Owner::local(), None);
        header.archived = found.at.archived;
        header.created_at = visible.created_at.unwrap_or(header.created_at);
        header.imported.get_or_insert_with(|| IMPORTED.to_owned());
        let header = self.described(header, visible, &found.at.stem);
        let id_for = |at, what: &str| self.id_for(at, what);
        let mut entries = entries_of(visible, 0, &header, HashSet::new(), id_for);
        if let Some(body) = started.clone().map(Body::Started) {
            let at = entries.last().map_or(header.created_at, |entry| entry.at);
            let (id, measure) = (self.mirror.way.world.uuid().into(), measure(&body, |_| None));
            entries.push(NewEntry { id, at, body, measure });
        }
        let shown = shown(found, visible, &header, entries.len() as u64);
        self.keep(&[(header.id, Some(shown))])?;
        self.commit()?;
        match self.db().create(&header, &entries, binds) {
            // Another process was faster; the next look handles what is there then.
            Err(StoreError::NameTaken { .. } | StoreError::KeyMoved { .. }) => Ok(()),
            // Another owner has a session with the id in the file.
            Err(StoreError::Exists { id }) => {
                self.keep(&[(id, None)])?;
                let id = SessionId::of_source(&header.owner, &id.to_string());
                self.begin(Header { id, ..header }, found, visible, started, binds)
            }
            Err(error) => Err(error),
            Ok(_) => self.reload(header.id),
        }
    }

    /// An id for something in a file. If nothing can be stored, it is derived from the file, so
    /// that it is the same the next time.
    fn id_for(&self, at: jiff::Timestamp, what: &str) -> uuid::Uuid {
        if self.mirror.reach != Reach::Visiting {
            return self.mirror.way.world.uuid();
        }
        let mut bits = [0; 10];
        bits.copy_from_slice(&fingerprint("visiting", what)[..10]);
        let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &bits).into_uuid()
    }

    /// The header with the fields of the file.
    fn described(&self, mut header: Header, visible: &Visible, stem: &str) -> Header {
        // A program that does not know a field leaves it out, which means nothing.
        let said = [
            (&mut header.profile.description, &visible.description),
            (&mut header.profile.provider, &visible.provider),
            (&mut header.profile.model, &visible.model),
        ];
        for (ours, theirs) in said.into_iter().filter(|(_, theirs)| theirs.is_some()) {
            ours.clone_from(theirs);
        }
        let shown = visible.name.as_deref().unwrap_or(stem);
        let before = shown_name(&header);
        if shown != before || !self.is_free(&header.name, header.id) {
            header.name = self.free_name(shown, stem, header.id);
        }
        header.extra = Default::default();
        if header.profile.title.as_ref().is_none_or(|title| *title == before) {
            // Other stores show a title, and know nothing of this.
            header.profile.title = (shown != header.name.as_str()).then(|| shown.to_owned());
        }
        set_called(&mut header, stem, shown);
        let last = visible.messages.iter().filter_map(|said| said.at).max();
        let active = visible.last_activity_at.filter(|at| Some(*at) > last);
        let active = active.map(|at| Raw::of(&rfc3339(at)));
        header.extra.set(ACTIVE, active);
        header.extra.0.extend(visible.extra.0.iter().cloned());
        header
    }

    fn is_free(&self, name: &Name, id: SessionId) -> bool {
        let named = |header: &Header| header.name.folded() == name.folded() && header.id != id;
        !self.all.values().any(|one| one.header.as_ref().is_some_and(named))
    }

    /// A name as close as possible to the displayed one, which no other file has.
    fn free_name(&self, shown: &str, stem: &str, id: SessionId) -> Name {
        let at = Name::of_time(self.mirror.way.world.now(), id);
        let name = Name::new(shown).or_else(|_| Name::new(stem)).unwrap_or(at.clone());
        let is_other = |name: &Name| {
            let name = name.folded();
            name != stem && self.mirror.is_taken(name)
        };
        let mut names = std::iter::once(name.clone()).chain(numbered(&name));
        names.find(|name| self.is_free(name, id) && !is_other(name)).unwrap_or(at)
    }

    /// Compares a session with its file, which looks different.
    fn compare(&mut self, id: SessionId, found: &Found, seen: Shown) -> Result<()> {
        match self.read_visible(found, true) {
            None => Ok(()),
            // Touched, not changed.
            Some(visible) if seen.sum == visible.sum => self.keep(&[(id, Some(found.moved(seen)))]),
            Some(visible) => self.take_in(id, found, visible),
        }
    }

    /// Imports a file that was rewritten. If the log is damaged, this waits for a repair, because
    /// the two cannot be compared. If a turn is running, it waits for its end.
    fn take_in(&mut self, id: SessionId, found: &Found, visible: Visible) -> Result<()> {
        let why = match self.reconcile(id, found, visible) {
            Err(StoreError::Damaged { what, .. }) => format!("its log is damaged: {what}"),
            Err(StoreError::Corrupt { .. }) => "the database is damaged".to_owned(),
            Err(StoreError::Held { .. }) => return Ok(()),
            other => return other,
        };
        self.skip(found, why, true);
        Ok(())
    }

    /// The visible messages of a log, in order, and its ids.
    fn log_of(&self, id: SessionId) -> Result<(Vec<Likeness>, HashSet<EntryId>)> {
        let one = &self.all[&id];
        one.is_whole()?;
        let (mut likenesses, mut ids) = (Vec::new(), HashSet::new());
        self.walk(id, one.entries, |entry| {
            likenesses.extend(likeness(&entry.body));
            ids.insert(entry.id);
        })?;
        Ok((likenesses, ids))
    }

    /// Imports a file that was rewritten.
    fn reconcile(&mut self, id: SessionId, found: &Found, visible: Visible) -> Result<()> {
        let owner = Owner::local();
        let (ours, taken) = self.log_of(id)?;
        let Some(from) = first_new(&ours, &visible.likenesses()) else {
            return self.fork(id, found, &visible);
        };
        let one = self.all[&id].clone();
        let Some(header) = one.header.clone() else { return Ok(()) };
        let behind = self.is_out_of_date(&one);
        let id_for = |at, what: &str| self.id_for(at, what);
        let new = entries_of(&visible, from, &header, taken, id_for);
        if !new.is_empty() {
            self.commit()?;
            self.db().append(&owner, id, At::END, &new)?;
        }
        let described = self.described(header.clone(), &visible, &found.at.stem);
        let imported = header.imported.clone().or_else(|| Some(IMPORTED.to_owned()));
        let imported = (!new.is_empty()).then_some(imported);
        let change = Change {
            name: (described.name != header.name).then(|| described.name.clone()),
            profile: ProfileChange::from(described.profile.clone()),
            extra: Some(described.extra.clone()),
            imported,
            ..Change::default()
        };
        let made_by_us = visible.ours.is_some() && new.is_empty();
        self.commit()?;
        let session = self.db().update(&owner, id, &change)?;
        let entries = one.entries + new.len() as u64;
        // If the program left something out, and we have nothing to add, its file is not changed.
        let mut shown = shown(found, &visible, &session.header, entries);
        if shown.summary.is_some() {
            shown.summary = Some(session.tally.summary.map_or(0, |seq| seq + 1));
        }
        if behind {
            shown.made_of = String::new();
            self.mirror.is_dirty(id);
        }
        self.active |= made_by_us;
        self.keep(&[(id, Some(shown))])?;
        self.reload(id)
    }

    /// Forks a session whose file diverged from the log.
    fn fork(&mut self, from: SessionId, found: &Found, visible: &Visible) -> Result<()> {
        let (owner, world) = (Owner::local(), self.mirror.way.world.clone());
        let parent = self.db().get(&owner, from)?;
        // The old log continues under another name, with a new file.
        if stem_of(&parent.header) == found.at.stem {
            let is_new =
                |name: &Name| self.is_free(name, from) && !self.mirror.is_taken(name.folded());
            let aside = numbered(&parent.header.name).find(is_new);
            let aside = aside.unwrap_or_else(|| Name::of_time(world.now(), from));
            self.commit()?;
            let change = Change { name: Some(aside), ..Change::default() };
            self.db().update(&owner, from, &change)?;
            self.reload(from)?;
        }
        let header = Header {
            id: SessionId(world.uuid()),
            parent: Some(Parent { id: from, origin: Origin::Fork }),
            created_at: world.now(),
            ..parent.header
        };
        let keys = parent.keys;
        let started = Started { origin: Origin::Fork, from: Some(from), keys: keys.clone() };
        let bind = |key| Bind { key, seen: Some(from) };
        // What the other program calls this conversation is the fork from now on.
        let id = parent.readable_id.filter(|id| *id == found.at.stem);
        let id = id.and_then(|id| readable_id::key(&id).ok());
        let binds: Vec<Bind> = keys.into_iter().chain(id).map(bind).collect();
        // Its file belongs to the fork from now on.
        self.keep(&[(from, None)])?;
        self.mirror.is_dirty(from);
        self.begin(header, found, visible, Some(started), &binds)
    }

    /// Whether a new file belongs to a session whose file is missing.
    fn is_renamed(&self, id: SessionId, visible: &Visible) -> Result<bool> {
        if let Some(ours) = &visible.ours {
            return Ok(ours.id == id);
        }
        let header = self.all.get(&id).and_then(|one| one.header.as_ref());
        if visible.created_at.is_none() || visible.created_at != header.map(|h| h.created_at) {
            return Ok(false);
        }
        let ours = match self.log_of(id) {
            // Created in the same millisecond, it is the same; and what is left of it is kept.
            Err(StoreError::Damaged { .. } | StoreError::Corrupt { .. }) => return Ok(true),
            log => log?.0,
        };
        Ok(first_new(&ours, &visible.likenesses()).is_some())
    }

    /// Renames or moves a session like its file.
    fn follow(&mut self, id: SessionId, found: &Found, visible: &Visible) -> Result<()> {
        let (one, stem) = (&self.all[&id], &found.at.stem);
        let moved = one.wanted().as_ref() != Some(&found.at);
        let Some(mut header) = one.header.clone().filter(|_| moved) else { return Ok(()) };
        let mut change = Change { archived: Some(found.at.archived), ..Change::default() };
        // A file that was renamed by hand contains its old id. If that was also its name, the new one
        // is what the user wants.
        let renamed = visible.id != *stem;
        let before = one.shown.as_ref().map(|shown| shown.at.stem.clone());
        let is_name = |id: &String| shown_name(&header) == *id || header.name.folded() == *id;
        if renamed && before.as_ref().is_some_and(is_name) {
            change.name = Some(self.free_name(stem, stem, id));
        }
        change.apply(&mut header);
        let shown = shown_name(&header);
        set_called(&mut header, stem, &shown);
        change.extra = Some(header.extra);
        let stem = stem.clone();
        self.commit()?;
        self.db().update(&Owner::local(), id, &change)?;
        if let Some(before) = before.filter(|before| *before != stem) {
            self.follow_id(id, &before, &stem)?;
        }
        if renamed {
            self.mirror.is_dirty(id);
        }
        self.reload(id)
    }

    /// Makes a session known by its new id, if it was known by the old one.
    fn follow_id(&self, id: SessionId, before: &str, now: &str) -> Result<()> {
        let owner = Owner::local();
        let (Ok(before), Ok(now)) = (readable_id::key(before), readable_id::key(now)) else {
            return Ok(());
        };
        if self.db().resolve(&owner, &before)? != Some(id) {
            return Ok(());
        }
        match self.db().bind(&owner, &Bind { key: now, seen: None }, Some(id)) {
            // Another session has it.
            Err(StoreError::KeyMoved { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.db().bind(&owner, &Bind { key: before, seen: Some(id) }, None),
        }
    }
}

/// A name with a number appended, for each number that is tried.
pub(super) fn numbered(name: &Name) -> impl Iterator<Item = Name> {
    (2..2 + NAME_TRIES_MAX).map(|number| name.numbered(number))
}

/// The state of a file that another program wrote.
fn shown(found: &Found, visible: &Visible, header: &Header, entries: u64) -> Shown {
    Shown {
        at: found.at.clone(),
        stamp: found.stamp,
        sum: visible.sum.clone(),
        entries,
        // A file that was renamed by hand is written again, with its new name.
        made_of: if visible.id == found.at.stem { made_of(header) } else { String::new() },
        metadata: visible.metadata.get().to_owned(),
        summary: visible.extra.get(SUMMARY).map(|_| 0),
    }
}

/// The messages of a file as entries, from one of them on; `taken` are ids that the log has.
pub(super) fn entries_of(
    visible: &Visible,
    from: usize,
    header: &Header,
    mut taken: HashSet<EntryId>,
    id_for: impl Fn(jiff::Timestamp, &str) -> uuid::Uuid,
) -> Vec<NewEntry> {
    let mut entries: Vec<NewEntry> = Vec::new();
    let last = visible.messages.len();
    let mut before = visible.created_at.unwrap_or(header.created_at);
    for (index, said) in visible.messages.iter().enumerate().skip(from) {
        let ends = visible.last_activity_at.filter(|_| index + 1 == last);
        let at = said.at.or(ends).unwrap_or(before);
        before = at;
        let id = said.id.clone().filter(|id| !taken.contains(id));
        let id = id.unwrap_or_else(|| id_for(at, &format!("{}/{index}", header.id)).into());
        taken.insert(id.clone());
        let body = said.body.clone();
        let measure = measure(&body, |call| {
            let earlier = visible.messages[..index].iter().map(|said| &said.body);
            open_calls(earlier, call)
        });
        entries.push(NewEntry { id, at, body, measure });
    }
    entries
}

/// Why a file of this size cannot be imported, if it cannot.
fn too_much(visible: &Visible, bytes: usize) -> Option<String> {
    // No part of it is larger than the whole.
    if bytes <= SAYS_BYTES_MAX {
        return None;
    }
    let says = visible.metadata.get().len() + Raw::of(&visible.extra).get().len();
    if says > SAYS_BYTES_MAX {
        return Some(format!(
            "its fields other than messages have more than {SAYS_BYTES_MAX} bytes"
        ));
    }
    let large = |said: &VisibleMessage| said.body.json().len() > SAID_BYTES_MAX;
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
                        "says.json is left alone: its fields other than messages have more than \
                         {SAYS_BYTES_MAX} bytes"
                    ),
                ]
            );
        }
    }
}
