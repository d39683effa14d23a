//! Looking at sessions: the catalogue, and the ends of logs.

use std::cmp::Reverse;
use std::fs::File;
use std::ops::Range;

use rethread_core::store::{Cursor, Filter, Page, Result};
use rethread_core::{Entry, Header, Session, SessionId, StoreError, readable_id};

use super::disk::Told;
use super::folder::Dir;
use super::log::Tail;

impl Dir {
    /// Where a session's log ends. Reads what stands behind the last fold, and no more.
    pub(super) fn tail(&mut self, id: SessionId) -> Result<Tail> {
        if self.logs.contains_key(&id) {
            return Ok(self.log(id)?.tail.clone());
        }
        let mut tail = self.record(id)?.folded.clone().unwrap_or(Tail::EMPTY);
        let path = self.log_path(id);
        let there = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
        match there {
            Some(there) if there.len() == tail.bytes => {}
            Some(there) if there.len() > tail.bytes => {
                let file = File::open(&path).told(&path, "read a log")?;
                tail.follow(&file, 0, |_, _| {}).told(&path, "read a log")?;
            }
            _ => {
                let what = "its log is gone, or shorter than it was".into();
                return Err(StoreError::Damaged { id, seq: tail.tally.entries, what });
            }
        }
        Ok(tail)
    }

    /// The session of this name; else the one whose file is called so; else the only one that
    /// another program shows under this name.
    pub(super) fn named(&self, name: &str) -> Option<SessionId> {
        let all = || self.state.catalogue.all();
        let mut shown = all().filter(|record| record.display.as_deref() == Some(name));
        let found = all().find(|record| record.header.name.as_str() == name);
        let found = found.or_else(|| all().find(|record| record.stem == name));
        let found = found.or_else(|| shown.next().filter(|_| shown.next().is_none()));
        found.map(|record| record.header.id)
    }

    pub(super) fn session(&mut self, id: SessionId) -> Result<Session> {
        let tail = self.tail(id)?;
        let record = self.record(id)?;
        let foreign = record.foreign(&tail).map(Box::new);
        let header = Header { foreign, ..record.header.clone() };
        let last_activity_at = record.last_activity_at(&tail);
        let keys = self.state.catalogue.keys.iter().filter(|(_, to)| **to == id);
        let (keys, readable_id) = readable_id::split(keys.map(|(key, _)| key.clone()));
        Ok(Session {
            last_activity_at,
            header,
            keys,
            readable_id,
            tally: tail.tally,
            first_message: tail.first_message,
            usage: tail.usage,
        })
    }

    pub(super) fn list(
        &mut self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let all = || self.state.catalogue.with_trash().map(|record| &record.header);
        let continued: Vec<SessionId> = all()
            .filter(|header| !header.archived && header.trash.is_none())
            .filter_map(|header| header.parent.filter(|parent| parent.origin.continues()))
            .map(|parent| parent.id)
            .collect();
        let ids: Vec<SessionId> = all()
            .filter(|h| filter.workspace.is_none() || h.profile.workspace == filter.workspace)
            .filter(|h| filter.archived.is_none_or(|archived| h.archived == archived))
            .filter(|h| !filter.newest_of_chain || !continued.contains(&h.id))
            .filter(|h| h.trash.is_some() == filter.trashed)
            .map(|header| header.id)
            .collect();
        let mut page = Page::default();
        for id in ids {
            match self.session(id) {
                Ok(session) => page.sessions.push(session),
                Err(StoreError::Damaged { .. }) => page.damaged.push(id),
                Err(error) => return Err(error),
            }
        }
        let place = |session: &Session| (session.last_activity_at, session.id());
        page.sessions.sort_by_key(|session| Reverse(place(session)));
        if let Some(Cursor { at, id }) = after {
            page.sessions.retain(|session| place(session) < (at, id));
        }
        let more = page.sessions.len() > limit;
        page.sessions.truncate(limit);
        let last = page.sessions.last().filter(|_| more);
        page.next = last.map(|last| Cursor { at: last.last_activity_at, id: last.id() });
        Ok(page)
    }

    pub(super) fn entries(&mut self, id: SessionId, range: Range<u64>) -> Result<Vec<Entry>> {
        let known = self.record(id)?.folded.as_ref().map_or(0, |tail| tail.tally.entries);
        let root = self.root.clone();
        let log = self.log(id)?;
        let end = log.tail.tally.entries;
        let cut_off = end < known && range.start < known && range.end > end;
        // Whoever asks for what comes after the last entry, and no more, looks for what is new.
        let ends = range.start < end && range.end > end;
        if cut_off || ends && log.has_damaged_end().told(&root, "read a log")? {
            return Err(log.tail.cut_off(id));
        }
        match log.read(range).told(&root, "read a log")? {
            (entries, None) => Ok(entries),
            (_, Some(bad)) => Err(StoreError::Damaged { id, seq: bad.seq, what: bad.what }),
        }
    }
}
