//! `index.json`, which lists the sessions that are not archived, and `last_session`, which names one.
//!
//! Both belong to other programs as much as to us. Entries of the index about files that we cannot
//! read stay in it, and `last_session` is not changed unless one of our sessions was written to
//! since.

use std::collections::HashSet;
use std::path::Path;

use rethread_core::store::Result;

use super::disk::OrStoreError;
use super::mirror::{Pass, Reach};
use super::visible;
use super::write_files::ACTION;
use crate::sqlite::Location;

/// The largest index that is read: fifty sessions need a fiftieth of a megabyte.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The largest `last_session` that is read: no id is longer.
const LAST_BYTES_MAX: u64 = 1 << 10;

impl Pass<'_> {
    /// Writes the index and `last_session`, if they are out of date.
    pub(super) fn index_is_right(&mut self) -> Result<()> {
        let mirror = self.mirror;
        if mirror.reach != Reach::All {
            return Ok(());
        }
        let [path, last] = ["index.json", "last_session"].map(|name| mirror.root.join(name));
        let mut sessions = self.listed();
        let newest = sessions.first().map(|(stem, _)| stem.clone());
        let path_of =
            |stem: &str| mirror.path_of(&Location { stem: stem.to_owned(), archived: false });
        let broken = |stem: &str| {
            let skipped = self.seen.skipped.get(&path_of(stem));
            visible::is_stem(stem) && skipped.is_some_and(|skipped| skipped.damaged)
        };
        // Another program may still be able to use a file that cannot be read here.
        let said = read(&last, LAST_BYTES_MAX).map(|said| said.trim().to_owned());
        let named = said
            .as_deref()
            .filter(|said| sessions.iter().any(|(stem, _)| stem == said) || broken(said));
        let wanted = named.filter(|_| !self.active).or(newest.as_deref());
        let index = read(&path, INDEX_BYTES_MAX);
        let listed = visible::index_entries(index.as_deref().unwrap_or_default());
        let shown = self.all.values().filter_map(|one| one.shown.as_ref());
        let ours: HashSet<&str> = shown.map(|shown| shown.at.stem.as_str()).collect();
        let is_other = |(stem, _): &&(String, String)| {
            visible::is_stem(stem) && !ours.contains(stem.as_str()) && path_of(stem).is_file()
        };
        sessions.extend(listed.iter().filter(is_other).cloned());
        let is_listed = index.is_some() && listed == sessions;
        if !self.active && is_listed && said.as_deref() == wanted {
            return Ok(());
        }
        if !is_listed {
            self.write_beside(&path, &visible::index(&sessions, mirror.way.world.now()))?;
        }
        match wanted {
            _ if said.as_deref() == wanted => {}
            Some(stem) => self.write_beside(&last, stem)?,
            None => mirror.way.disk.remove(&last).or_store_error(&last, ACTION)?,
        }
        // The names of session files that were written before as well.
        mirror.sync_visible()?;
        self.active = false;
        Ok(())
    }

    /// Writes one of the two. If something that is not a file is in its place, it is moved aside.
    fn write_beside(&self, path: &Path, text: &str) -> Result<()> {
        if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
            self.mirror.set_aside(path)?;
        }
        self.mirror.replace(path, text, || Ok(true)).map(drop)
    }

    /// Our sessions in the index, most recently active first.
    fn listed(&self) -> Vec<(String, String)> {
        let shown = self.all.values().filter_map(|one| Some((one, one.shown.as_ref()?)));
        let mut listed: Vec<_> = shown
            .filter(|(one, shown)| !shown.at.archived && one.wanted().is_some())
            .map(|(one, shown)| ((visible::last_activity(&shown.metadata), one.id), shown))
            .collect();
        listed.sort_by(|(a, _), (b, _)| b.cmp(a));
        let listed = listed.into_iter();
        listed.map(|(_, shown)| (shown.at.stem.clone(), shown.metadata.clone())).collect()
    }
}

/// The text of a file; empty if it is too large.
fn read(path: &Path, max: u64) -> Option<String> {
    let there = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    let bytes = (there.len() <= max).then(|| std::fs::read(path).ok()).flatten();
    Some(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
}
