//! Leases: what a store keeps about the right to write to a session, and the rules for it.
//!
//! Every store applies the same rules to the same three fields, so they are implemented here.

use std::time::Duration;

use jiff::Timestamp;

use crate::limits::LEASE_MAX;
use crate::name::SessionId;
use crate::store::{At, Lease, LeaseChange, Result, StoreError};

/// The holder of a lease, for display. If the holder is a process, it begins with its number and a
/// `.`; the rest only makes it unique, and is not shown.
pub fn shown_holder(holder: &str) -> String {
    match holder.split_once('.') {
        Some((pid, _)) if !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) => {
            format!("another process (pid {pid})")
        }
        _ => "another program".to_owned(),
    }
}

/// A session's lease as a store keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The latest fence.
    pub fence: u64,
    /// The holder, and the expiry; `None` after it was released.
    pub holder: Option<(String, Timestamp)>,
}

impl LeaseRecord {
    /// Whether nobody holds it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`].
    pub fn is_free(&self, id: SessionId, now: Timestamp) -> Result<()> {
        match self.held(now) {
            Some((holder, until)) => Err(StoreError::Held { id, holder: holder.into(), until }),
            None => Ok(()),
        }
    }

    fn held(&self, now: Timestamp) -> Option<(&str, Timestamp)> {
        let (holder, until) = self.holder.as_ref()?;
        (*until > now).then_some((holder.as_str(), *until))
    }

    /// Takes it, renews it for its holder, or releases it if `ttl` is zero.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] if another holder has it.
    pub fn leased(
        &self,
        id: SessionId,
        holder: &str,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<(LeaseRecord, Lease)> {
        let mine = match self.held(now) {
            Some((other, until)) if other != holder => {
                return Err(StoreError::Held { id, holder: other.into(), until });
            }
            held => held.is_some(),
        };
        let ttl = ttl.min(LEASE_MAX);
        let fence = self.fence + u64::from(!mine && !ttl.is_zero());
        let lease = Lease { fence, until: now + ttl };
        let holder = (!ttl.is_zero()).then(|| (holder.to_owned(), lease.until));
        Ok((LeaseRecord { fence, holder }, lease))
    }

    /// Whether an append is allowed, and how the lease changes with it: the record to write, if it
    /// changes, and the lease that was taken.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`], [`StoreError::StaleFence`].
    pub fn appended(
        &self,
        id: SessionId,
        at: &At,
        now: Timestamp,
    ) -> Result<(Option<LeaseRecord>, Option<Lease>)> {
        if let LeaseChange::Take { holder, ttl } = &at.lease {
            let (record, lease) = self.leased(id, holder, *ttl, now)?;
            return Ok((Some(record), Some(lease)));
        }
        match at.fence {
            Some(fence) if fence != self.fence => {
                Err(StoreError::StaleFence { id, fence, latest: self.fence })
            }
            None => self.is_free(id, now).map(|()| (None, None)),
            Some(_) if at.lease == LeaseChange::GiveBack && self.holder.is_some() => {
                Ok((Some(LeaseRecord { holder: None, ..*self }), None))
            }
            Some(_) => Ok((None, None)),
        }
    }

    /// The same if the log already has the entries. A repeated append is never refused, except that
    /// it cannot take a lease that someone else holds.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`].
    pub fn repeated(
        &self,
        id: SessionId,
        at: &At,
        now: Timestamp,
    ) -> Result<(Option<LeaseRecord>, Option<Lease>)> {
        match (&at.lease, self.appended(id, at, now)) {
            (LeaseChange::Take { .. }, decided) => decided,
            (_, decided) => Ok(decided.unwrap_or_default()),
        }
    }
}
