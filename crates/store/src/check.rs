//! Checks a log that is stored in rows.

use std::collections::BTreeSet;

use rethread_core::audit::Audit;
use rethread_core::search::SearchText;
use rethread_core::session::preview;
use rethread_core::store::{FindingState, Result};
use rethread_core::usage::Spent;
use rethread_core::{BlobId, BlobInfo, Message, SessionId, StoreError};

use crate::row::Stored;

/// Goes through a log row by row.
pub(crate) struct LogCheck {
    /// The totals of the entries, and what is wrong with them.
    pub(crate) audit: Audit,
    /// What a list should show for the session.
    pub(crate) first_message: String,
    /// Entries that a search can find.
    pub(crate) searchable: u64,
    /// What models were charged; `None` if an entry could not be read.
    pub(crate) spent: Option<Spent>,
    /// Attachments that entries refer to.
    pub(crate) named: BTreeSet<BlobId>,
    id: SessionId,
}

impl LogCheck {
    pub(crate) fn new(id: SessionId) -> LogCheck {
        LogCheck {
            audit: Audit::new(id),
            first_message: String::new(),
            searchable: 0,
            spent: Some(Spent::default()),
            named: BTreeSet::new(),
            id,
        }
    }

    /// Checks the next row.
    pub(crate) fn entry(&mut self, stored: Stored) -> Result<()> {
        let audit = &mut self.audit;
        let seq = stored.seq;
        match stored.entry(self.id) {
            Ok(entry) => {
                if audit.tally().first.is_none()
                    && let Some(message) = entry.body.message().filter(|m| m.opens_turn())
                {
                    self.first_message = preview(message);
                }
                audit.entry(&entry);
                if let Some(spent) = &mut self.spent {
                    spent.add(&entry.body);
                }
                self.named.extend(entry.body.message().map(Message::blobs).unwrap_or_default());
                self.searchable += u64::from(SearchText::of(&entry.body).is_some());
            }
            Err(StoreError::Damaged { what, .. }) => {
                let what = format!("it cannot be read: {what}");
                audit.note(Some(seq), what, FindingState::Damaged);
                audit.skip();
                self.spent = None;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Reports attachments that have changed, and those that are referred to but missing.
pub(crate) fn check_blobs(
    audit: &mut Audit,
    named: &BTreeSet<BlobId>,
    kept: &[BlobInfo],
    mut read: impl FnMut(BlobId) -> Result<Vec<u8>>,
) -> Result<()> {
    for blob in kept {
        match read(blob.id) {
            // The session was deleted in the meantime.
            Ok(_) | Err(StoreError::NoBlob { .. } | StoreError::NotFound { .. }) => {}
            Err(StoreError::BadBlob { .. } | StoreError::Corrupt { .. }) => {
                let what = format!("the attachment {} is not what was stored", blob.id);
                audit.note(None, what, FindingState::Damaged);
            }
            Err(error) => return Err(error),
        }
    }
    for blob in named.iter().filter(|blob| kept.iter().all(|kept| kept.id != **blob)) {
        audit.note(None, format!("the attachment {blob} is missing"), FindingState::Damaged);
    }
    Ok(())
}
