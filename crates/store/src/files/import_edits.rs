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

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::ErrorKind::NotFound;
use std::path::PathBuf;

use jiff::Timestamp;
use rethread_core::entry::{Origin, Started};
use rethread_core::log::open_calls;
use rethread_core::measure::measure;
use rethread_core::merge::first_new;
use rethread_core::session::{ExtraFields, Parent};
use rethread_core::store::{At, Bind, Change, Result};
use rethread_core::world::rfc3339;
use rethread_core::{
    Body, EntryId, Header, Name, NewEntry, Owner, Raw, Session, SessionId, Store, StoreError, World,
};

use super::disk::{failed, is_draft, names};
use super::mirror::{Pass, Reach, made_of};
use super::visible::{
    self, ACTIVE, Visible, VisibleMessage, is_stem, likeness, set_called, shown_name, stem_of,
};
use crate::sqlite::{Location, Mirrored, Shown, Stamp};

/// The largest file that is read as a session. No conversation is larger.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Where the messages of such a session come from. Its tools stay off until the user allows them.
pub(crate) const IMPORTED: &str = "files";

/// A file that is ignored.
pub(super) struct Skipped {
    pub(super) stamp: Stamp,
    pub(super) why: String,
    /// Whether a part of a session may be lost in it.
    pub(super) damaged: bool,
}

/// Sessions whose files are missing.
type Gone = BTreeSet<SessionId>;

/// A file that may be a session, seen from outside.
struct Found {
    path: PathBuf,
    at: Location,
    stamp: Stamp,
    /// Why it cannot be one.
    wrong: Option<&'static str>,
}

impl Pass<'_> {
    /// Imports all changes to the visible files.
    pub(super) fn look(&mut self) -> Result<()> {
        let files = self.files()?;
        let no_archive = self.skipped.contains_key(&self.archive());
        let (mut known, mut gone) = (BTreeMap::new(), Gone::new());
        for one in self.all.values() {
            let Some(Shown { at, .. }) = &one.shown else { continue };
            let path = at.path(&self.root);
            // Nothing is known about what is in an archive that is not a folder.
            let is_hidden = at.archived && no_archive;
            if !files.contains_key(&path) && !is_hidden && one.header.is_some() {
                gone.insert(one.id);
            }
            known.insert(path, one.id);
        }
        for found in files.values().filter(|found| !known.contains_key(&found.path)) {
            self.meet(found, &mut gone)?;
        }
        for (path, id) in known {
            if let Some(found) = files.get(&path) {
                self.compare(id, found)?;
            }
        }
        for id in gone {
            if self.throw_away(id)? {
                self.keep(id, None)?;
            }
        }
        self.write_index()
    }

    /// Everything that ends in `.json`, except the index.
    fn files(&mut self) -> Result<BTreeMap<PathBuf, Found>> {
        const ACTION: &str = "read the directory";
        // A file that could not be read is not read again before it changes.
        self.skipped.retain(|path, skipped| Stamp::at(path) == Some(skipped.stamp));
        let mut files = BTreeMap::new();
        for (folder, archived) in [(self.root.clone(), false), (self.archive(), true)] {
            let Ok(there) = folder.symlink_metadata() else { continue };
            // The directory itself may be a link: the user chose it.
            if archived && !there.is_dir() {
                let why = "it is not a folder, so nothing can be archived".to_owned();
                let stamp = Stamp::of(&there);
                self.skipped.insert(folder, Skipped { stamp, why, damaged: false });
                continue;
            }
            for name in names(&folder).map_err(failed(&folder, ACTION))? {
                let path = folder.join(&name);
                if is_draft(&name) && self.reach == Reach::All {
                    // A crash left it: whoever writes one holds the lock.
                    self.options.disk.remove(&path).map_err(failed(&path, ACTION))?;
                }
                let stem = name.strip_suffix(".json").filter(|stem| archived || *stem != "index");
                let Some(stem) = stem.map(str::to_owned) else { continue };
                let there = match path.symlink_metadata() {
                    // It was deleted in the meantime.
                    Err(error) if error.kind() == NotFound => continue,
                    // A file that cannot be examined must not count as deleted.
                    there => there.map_err(failed(&path, ACTION))?,
                };
                let wrong = [
                    (there.is_symlink(), "it is a link, and links are not followed"),
                    (!there.is_file(), "it is not a file"),
                    (!is_stem(&stem), "its name is not a session id"),
                    (there.len() > FILE_BYTES_MAX, "it is too large to be a session"),
                ];
                let wrong = wrong.into_iter().find(|(is, _)| *is).map(|(_, why)| why);
                let (at, stamp) = (Location { stem, archived }, Stamp::of(&there));
                files.insert(path.clone(), Found { path, at, stamp, wrong });
            }
        }
        Ok(files)
    }

    fn skip(&mut self, found: &Found, why: String, damaged: bool) {
        let skipped = Skipped { stamp: found.stamp, why, damaged };
        self.skipped.insert(found.path.clone(), skipped);
    }

    /// Reads a file, if it is a session; `known` if a session has it.
    fn read_visible(&mut self, found: &Found, known: bool) -> Option<Visible> {
        if self.skipped.contains_key(&found.path) {
            return None;
        }
        let read = match found.wrong {
            Some(wrong) => Err((wrong.to_owned(), false)),
            // Something else may have taken the place of a session file.
            None => visible::read(&found.path).map_err(|no| (no.why, no.broken || known)),
        };
        read.map_err(|(why, damaged)| self.skip(found, why, damaged)).ok()
    }

    /// Imports a file that belongs to no session.
    fn meet(&mut self, found: &Found, gone: &mut Gone) -> Result<()> {
        let Some(visible) = self.read_visible(found, false) else { return Ok(()) };
        if let Some(id) = self.session_of(found, &visible, gone)? {
            if self.all[&id].held {
                // It was renamed during a turn, and that is imported when the turn ends.
                gone.remove(&id);
                return Ok(());
            }
            if !gone.remove(&id)
                && self.reach == Reach::All
                && let Some(shown) = &self.all[&id].shown
                && let path = shown.at.path(&self.root)
                && Stamp::at(&path) == Some(shown.stamp)
            {
                self.options.disk.remove(&path).map_err(failed(&path, "move a file"))?;
            }
            return self.take_in(id, found, visible);
        }
        let other = Location { stem: visible.id.clone(), archived: found.at.archived };
        let is_there = is_stem(&visible.id) && Stamp::at(&other.path(&self.root)).is_some();
        if other != found.at && is_there {
            let why = format!("its id is `{}`, which belongs to another file", visible.id);
            self.skip(found, why, false);
            return Ok(());
        }
        self.adopt(found, &visible)
    }

    /// The session that a file without one belongs to: its own file is missing, or was lost to a
    /// crash just when it was written; or the power failed while it was moved, and it is in both
    /// places.
    fn session_of(&self, found: &Found, file: &Visible, gone: &Gone) -> Result<Option<SessionId>> {
        let ours = file.ours.as_ref().map(|header| header.id);
        for one in self.all.values() {
            let is_missed = one.shown.as_ref().map_or(one.wanted().is_some(), |shown| {
                let same = shown.sum == file.sum || ours == Some(one.id);
                gone.contains(&one.id) || same && one.wanted().as_ref() == Some(&found.at)
            });
            let is_same = || ours.map_or_else(|| self.is_renamed(one, file), |id| Ok(id == one.id));
            if is_missed && is_same()? {
                return Ok(Some(one.id));
            }
        }
        Ok(None)
    }

    /// Whether a file of another program is that of a session under another name.
    fn is_renamed(&self, one: &Mirrored, visible: &Visible) -> Result<bool> {
        let created_at = one.header.as_ref().map(|header| header.created_at);
        if visible.created_at.is_none() || visible.created_at != created_at {
            return Ok(false);
        }
        match self.new_in(one, visible) {
            // Created in the same millisecond, it is the same; and what is left of it is kept.
            Err(error) if error.is_damage() => Ok(true),
            compared => Ok(compared?.0.is_some()),
        }
    }

    /// Imports a file as a new session.
    fn adopt(&mut self, found: &Found, visible: &Visible) -> Result<()> {
        let ours = visible.ours.clone().filter(|header| !self.all.contains_key(&header.id));
        let header = ours.unwrap_or_else(|| {
            let written = Timestamp::from_millisecond(found.stamp.changed / 1_000_000).ok();
            let at = visible.created_at.or(visible.last_activity_at).or(written);
            let at = at.unwrap_or_else(|| self.options.world.now());
            let file = format!("{}/{}", found.at.archived, found.at.stem);
            let id = match self.reach {
                // It cannot be stored, and must be the same the next time.
                Reach::Visiting => SessionId::of_source(&Owner::local(), &file),
                _ => SessionId(self.options.world.uuid()),
            };
            Header::new(id, Owner::local(), at)
        });
        self.begin(header, found, visible, None)
    }

    /// Creates a session from a file; `started` is added to its messages.
    fn begin(
        &mut self,
        header: Header,
        found: &Found,
        visible: &Visible,
        started: Option<Started>,
    ) -> Result<()> {
        let mut header = self.described(header, found, visible);
        (header.owner, header.trash) = (Owner::local(), None);
        header.created_at = visible.created_at.unwrap_or(header.created_at);
        header.imported.get_or_insert_with(|| IMPORTED.to_owned());
        let world = self.options.world.as_ref();
        let mut entries = entries_of(visible, 0, &header, HashSet::new(), world);
        if let Some(body) = started.clone().map(Body::Started) {
            let at = entries.last().map_or(header.created_at, |entry| entry.at);
            entries.push(NewEntry::new(world.uuid().into(), at, body));
        }
        let shown = shown(found, visible, &header, entries.len() as u64);
        self.keep(header.id, Some(shown))?;
        let keys = started.iter().flat_map(|it| it.keys.iter().map(|key| (key.clone(), it.from)));
        let binds: Vec<Bind> = keys.map(|(key, seen)| Bind { key, seen }).collect();
        match self.commit()?.create(&header, &entries, &binds) {
            // Another process was faster; the next look handles what is there then.
            Err(StoreError::NameTaken { .. } | StoreError::KeyMoved { .. }) => Ok(()),
            // Another owner has a session with the id in the file.
            Err(StoreError::Exists { id }) => {
                self.keep(id, None)?;
                let id = SessionId::of_source(&header.owner, &id.to_string());
                self.begin(Header { id, ..header }, found, visible, started)
            }
            Err(error) => Err(error),
            Ok(_) => {
                self.is_dirty(header.id);
                self.reload(header.id)
            }
        }
    }

    /// The header with what the file says and where it is.
    fn described(&self, mut header: Header, found: &Found, visible: &Visible) -> Header {
        let stem = &found.at.stem;
        visible.profile.apply(&mut header.profile);
        // A file that was renamed by hand contains its old id. If that was also its name, the new
        // one is what the user wants.
        let outdated = |name: &&String| visible.id != *stem && **name == visible.id;
        let shown = visible.name.as_ref().filter(|name| !outdated(name)).unwrap_or(stem);
        let before = shown_name(&header);
        let name = if *shown == before { Ok(header.name) } else { Name::new(shown) };
        let name = name.or_else(|_| Name::new(stem));
        let name = name.unwrap_or_else(|_| Name::of_time(header.created_at, header.id));
        header.name = self.free_name(&name, header.id);
        if header.profile.title.as_ref().is_none_or(|title| *title == before) {
            // Other stores show a title, and know nothing of this.
            header.profile.title = (shown != header.name.as_str()).then(|| shown.clone());
        }
        header.archived = found.at.archived;
        header.extra = ExtraFields::default();
        set_called(&mut header, stem, shown);
        let last = visible.messages.iter().filter_map(|said| said.at).max();
        let active = visible.last_activity_at.filter(|at| Some(*at) > last);
        header.extra.set(ACTIVE, active.map(|at| Raw::of(&rfc3339(at))));
        header.extra.0.extend(visible.extra.0.iter().cloned());
        header
    }

    /// The name, with a number after it if another session has it.
    fn free_name(&self, name: &Name, id: SessionId) -> Name {
        let named = |name: &Name| self.db.named(&Owner::local(), name.folded());
        let is_free = |name: &Name| named(name).is_ok_and(|of| of.is_none_or(|of| of == id));
        name.candidates()
            .find(is_free)
            .unwrap_or_else(|| Name::of_time(self.options.world.now(), id))
    }

    /// Compares a session with its file, if that looks different.
    fn compare(&mut self, id: SessionId, found: &Found) -> Result<()> {
        let Some(one) = self.all.get(&id).filter(|one| one.can_follow()) else { return Ok(()) };
        let changed = |shown: &&Shown| shown.at == found.at && shown.stamp != found.stamp;
        let Some(shown) = one.shown.as_ref().filter(changed).cloned() else { return Ok(()) };
        if one.wanted().is_none() {
            // It is in the trash, and its file belongs to another program now: the next look
            // imports it.
            return self.keep(id, None);
        }
        match self.read_visible(found, true) {
            None => Ok(()),
            // Touched, not changed.
            Some(visible) if shown.sum == visible.sum => {
                self.keep(id, Some(Shown { stamp: found.stamp, ..shown }))
            }
            Some(visible) => self.take_in(id, found, visible),
        }
    }

    /// Imports a file that was rewritten or moved. If the log is damaged, this waits for a repair,
    /// because the two cannot be compared. If a turn is running, it waits for its end.
    fn take_in(&mut self, id: SessionId, found: &Found, visible: Visible) -> Result<()> {
        let why = match self.reconcile(id, found, visible) {
            Err(StoreError::Damaged { what, .. }) => format!("its log is damaged: {what}"),
            Err(StoreError::Corrupt { .. }) => "the database is damaged".to_owned(),
            // Another process was faster, or it has to wait: the next look compares them again.
            Err(StoreError::Held { .. } | StoreError::NameTaken { .. }) => return Ok(()),
            other => return other,
        };
        self.skip(found, why, true);
        Ok(())
    }

    /// The first message of a file that is not in the log, if the file continues it, and the ids of
    /// the log.
    fn new_in(&self, one: &Mirrored, file: &Visible) -> Result<(Option<usize>, HashSet<EntryId>)> {
        one.is_whole()?;
        let (mut ours, mut ids) = (Vec::new(), HashSet::new());
        self.walk(one.id, one.entries, |entry| {
            ours.extend(likeness(&entry.body));
            ids.insert(entry.id);
        })?;
        let theirs: Vec<_> = file.messages.iter().filter_map(|it| likeness(&it.body)).collect();
        Ok((first_new(&ours, &theirs), ids))
    }

    fn reconcile(&mut self, id: SessionId, found: &Found, visible: Visible) -> Result<()> {
        let one = self.all[&id].clone();
        let (from, taken) = self.new_in(&one, &visible)?;
        let Some(from) = from else { return self.fork(id, found, &visible) };
        let Some(header) = one.header.clone() else { return Ok(()) };
        let new = entries_of(&visible, from, &header, taken, self.options.world.as_ref());
        let mut header = self.described(header, found, &visible);
        let behind = self.is_out_of_date(&one);
        let imported = (!new.is_empty()).then(|| IMPORTED.to_owned());
        header.imported = header.imported.or(imported);
        // First, so that after a crash no words of another program are taken for ours.
        let session = self.change(id, header)?;
        if !new.is_empty() {
            self.commit()?.append(&Owner::local(), id, At::END, &new)?;
        }
        // If the program left something out, and we have nothing to add, its file is not changed.
        let entries = one.entries + new.len() as u64;
        let mut shown = shown(found, &visible, &session.header, entries);
        if behind || shown.made_of.is_empty() {
            shown.made_of.clear();
            self.mirror.is_dirty(id);
        }
        self.active |= visible.ours.is_some() && new.is_empty();
        self.keep(id, Some(shown))
    }

    /// Stores what is different in the header of a session.
    pub(super) fn change(&mut self, id: SessionId, new: Header) -> Result<Session> {
        let Some(old) = &self.all[&id].header else { return Err(StoreError::NotFound { id }) };
        let change = Change::between(old, new);
        let session = self.commit()?.update(&Owner::local(), id, &change)?;
        self.reload(id)?;
        Ok(session)
    }

    /// Forks a session whose file diverged from the log. What the other program calls this
    /// conversation is the fork from now on, and the old log continues under another name.
    fn fork(&mut self, from: SessionId, found: &Found, visible: &Visible) -> Result<()> {
        let Session { header, keys, .. } = self.db.get(&Owner::local(), from)?;
        if stem_of(&header) == found.at.stem {
            let name = self.free_name(&header.name.numbered(2), from);
            self.change(from, Header { name, ..header.clone() })?;
        }
        let world = self.options.world.clone();
        let parent = Some(Parent { id: from, origin: Origin::Fork });
        let (id, created_at) = (SessionId(world.uuid()), world.now());
        let header = Header { id, parent, created_at, ..header };
        let started = Started { origin: Origin::Fork, from: Some(from), keys };
        self.keep(from, None)?;
        self.mirror.is_dirty(from);
        self.begin(header, found, visible, Some(started))
    }
}

/// The state of a file that another program wrote.
fn shown(found: &Found, visible: &Visible, header: &Header, entries: u64) -> Shown {
    // A file that was renamed by hand is written again, with its new name; and one that was forked,
    // with the header of the fork.
    let is_own = visible.ours.as_ref().is_none_or(|ours| ours.id == header.id);
    let made_of =
        if is_own && visible.id == found.at.stem { made_of(header) } else { String::new() };
    let (sum, metadata) = (visible.sum.clone(), visible.metadata.get().to_owned());
    Shown { at: found.at.clone(), stamp: found.stamp, sum, entries, made_of, metadata }
}

/// The messages of a file as entries, from one of them on; `taken` are ids that the log has.
pub(super) fn entries_of(
    visible: &Visible,
    from: usize,
    header: &Header,
    mut taken: HashSet<EntryId>,
    world: &dyn World,
) -> Vec<NewEntry> {
    let last = visible.messages.len();
    let mut before = visible.created_at.unwrap_or(header.created_at);
    let entry = |(index, said): (usize, &VisibleMessage)| {
        let ends = visible.last_activity_at.filter(|_| index + 1 == last);
        before = said.at.or(ends).unwrap_or(before);
        let id = said.id.clone().filter(|id| !taken.contains(id));
        let id = id.unwrap_or_else(|| world.uuid().into());
        taken.insert(id.clone());
        let body = said.body.clone();
        let earlier = || visible.messages[..index].iter().map(|said| &said.body);
        let measure = measure(&body, |call| open_calls(earlier(), call));
        NewEntry { id, at: before, body, measure }
    };
    visible.messages.iter().enumerate().skip(from).map(entry).collect()
}
