//! Lists sessions, newest first.

use super::{Result, Sessions};
use crate::limits::PAGE_ROWS_MAX;
use crate::name::SessionId;
use crate::session::{Header, Session};
use crate::store::{Cursor, Filter, Page};

impl Sessions {
    /// Sessions by last activity, newest first.
    pub fn list(&self, filter: &Filter, after: Option<Cursor>, limit: usize) -> Result<Page> {
        Ok(self.store.list(&self.owner, filter, after, limit.clamp(1, PAGE_ROWS_MAX))?)
    }

    /// The same without sessions that have no messages. A session that continues another one stays:
    /// it begins with a summary, and the other is listed under it.
    pub fn list_with_messages(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let (mut spoken, mut after) = (Page::default(), after);
        loop {
            // One more than requested shows whether there are more.
            let page = self.store.list(&self.owner, filter, after, limit + 1)?;
            spoken.damaged.extend(page.damaged);
            spoken.sessions.extend(page.sessions.into_iter().filter(is_spoken));
            after = page.next;
            if after.is_none() || spoken.sessions.len() > limit {
                break;
            }
        }
        if spoken.sessions.len() > limit {
            spoken.sessions.truncate(limit);
            let last = spoken.sessions.last();
            spoken.next = last.map(|last| Cursor { at: last.last_activity_at, id: last.id() });
        }
        Ok(spoken)
    }

    /// All sessions that count, except the `keep` newest; archived ones too, if requested.
    pub fn all_but_newest(
        &self,
        keep: usize,
        archived_too: bool,
        counts: impl Fn(&Header) -> bool,
    ) -> Result<Vec<SessionId>> {
        let archived = if archived_too { None } else { Some(false) };
        let filter = Filter { archived, ..Filter::default() };
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = self.list(&filter, after, PAGE_ROWS_MAX)?;
            let counted = page.sessions.iter().filter(|session| counts(&session.header));
            all.extend(counted.map(Session::id));
            after = page.next;
            if after.is_none() {
                return Ok(all.split_off(keep.min(all.len())));
            }
        }
    }
}

/// Whether a session has messages, or continues one.
fn is_spoken(session: &Session) -> bool {
    let continues = session.header.parent.is_some_and(|parent| parent.origin.continues());
    session.tally.messages > 0 || continues && !session.header.archived
}
