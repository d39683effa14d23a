//! Checking a log that is kept in rows.

use rethread_core::audit::Audit;
use rethread_core::session::preview;
use rethread_core::store::{FindingState, Result};
use rethread_core::text::searchable;
use rethread_core::{SessionId, StoreError};

use crate::row::Stored;

/// Walks a log row by row.
pub(crate) struct LogCheck {
    /// What the entries add up to, and what is wrong with them.
    pub(crate) audit: Audit,
    /// What a list should show of the session.
    pub(crate) first_message: String,
    /// Entries that a search can find.
    pub(crate) searchable: u64,
    id: SessionId,
}

impl LogCheck {
    pub(crate) fn new(id: SessionId) -> LogCheck {
        LogCheck { audit: Audit::new(id), first_message: String::new(), searchable: 0, id }
    }

    /// Looks at the next row, and at the fingerprint that was stored with it.
    pub(crate) fn entry(&mut self, stored: Stored, hash: &[u8]) -> Result<()> {
        let audit = &mut self.audit;
        let seq = stored.seq;
        match stored.fingerprint() {
            // What cannot be unpacked cannot be read either, and is reported below.
            Err(_) => {}
            Ok(found) if found.as_slice() != hash => {
                let what = "its text is not what was written".into();
                audit.note(Some(seq), what, FindingState::Damaged);
            }
            Ok(_) => {}
        }
        match stored.entry(self.id) {
            Ok(entry) => {
                if audit.tally().first.is_none()
                    && let Some(message) = entry.body.message().filter(|m| m.opens_turn())
                {
                    self.first_message = preview(message);
                }
                audit.entry(&entry);
                self.searchable += u64::from(searchable(&entry.body).is_some());
            }
            Err(StoreError::Damaged { what, .. }) => {
                let what = format!("it cannot be read: {what}");
                audit.note(Some(seq), what, FindingState::Damaged);
                audit.skip();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
