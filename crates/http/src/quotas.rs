//! Quotas per owner: the rate of requests (a token bucket), open requests, streams, and memory.
//! Turns are limited by the host.
//!
//! There is one account for each owner with a valid credential: their number is limited by the
//! number of tokens, and does not grow with requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rethread_agent::ByteBudget;
use rethread_core::Owner;

use crate::limits::Limits;
use crate::metrics::Metrics;

pub(crate) struct Quotas {
    limits: Limits,
    metrics: Arc<Metrics>,
    accounts: Mutex<HashMap<Owner, Arc<Account>>>,
    /// Bodies, and events that wait to be sent.
    pub(crate) bytes: Arc<ByteBudget>,
    /// Responses. They are counted separately: a response that is being read reserves more than it
    /// may need, and a client that sends little must not be refused because of that.
    pub(crate) answers: ByteBudget,
    /// Shared by all requests that need no owner.
    anybody: Account,
}

/// The usage of one owner.
pub(crate) struct Account {
    bucket: Mutex<Bucket>,
    streams: AtomicUsize,
    requests: AtomicUsize,
}

struct Bucket {
    left: f64,
    at: Instant,
}

/// An open request: its response is not completely sent.
pub(crate) struct InProgress(Arc<Account>);

/// The permit for an open stream.
pub(crate) struct Stream {
    account: Arc<Account>,
    metrics: Arc<Metrics>,
}

impl Account {
    fn new(limits: &Limits) -> Account {
        let bucket = Bucket { left: limits.burst.into(), at: Instant::now() };
        Account { bucket: Mutex::new(bucket), streams: 0.into(), requests: 0.into() }
    }
}

impl Quotas {
    pub(crate) fn new(limits: Limits, metrics: Arc<Metrics>) -> Quotas {
        let bytes = Arc::new(ByteBudget::new(limits.owner_bytes, limits.bytes));
        let answers = ByteBudget::new(limits.owner_bytes, limits.bytes);
        let anybody = Account::new(&limits);
        Quotas { limits, metrics, accounts: Mutex::default(), bytes, answers, anybody }
    }

    pub(crate) fn anybody(&self) -> &Account {
        &self.anybody
    }

    pub(crate) fn account(&self, owner: &Owner) -> Arc<Account> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Account::new(&self.limits));
        accounts.entry(owner.clone()).or_insert_with(new).clone()
    }

    /// Takes one request from the owner's bucket; if it is empty, returns the seconds until it is
    /// not.
    pub(crate) fn spend(&self, account: &Account, now: Instant) -> Result<(), u64> {
        let mut bucket = account.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = f64::from(self.limits.rate.max(1));
        let gained = now.saturating_duration_since(bucket.at).as_secs_f64() * rate;
        bucket.left = (bucket.left + gained).min(self.limits.burst.into());
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        Err(((1.0 - bucket.left) / rate).ceil().max(1.0) as u64)
    }

    /// Starts a request, unless the owner has too many open ones.
    pub(crate) fn begin(&self, account: &Arc<Account>) -> Option<InProgress> {
        one_more(&account.requests, self.limits.owner_requests)?;
        Some(InProgress(account.clone()))
    }

    /// Opens a stream, unless the owner has too many.
    pub(crate) fn stream(&self, account: &Arc<Account>) -> Option<Stream> {
        one_more(&account.streams, self.limits.streams)?;
        self.metrics.streams.add(1);
        Some(Stream { account: account.clone(), metrics: self.metrics.clone() })
    }
}

fn one_more(count: &AtomicUsize, most: usize) -> Option<usize> {
    let more = |count| (count < most).then_some(count + 1);
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).ok()
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.account.streams.fetch_sub(1, Ordering::SeqCst);
        self.metrics.streams.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let limits = Limits { rate: 10, burst: 3, ..Limits::default() };
        let owners = Quotas::new(limits, Arc::default());
        let account = owners.account(&Owner::local());
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(owners.spend(&account, start), Ok(()));
        }
        assert_eq!(owners.spend(&account, start), Err(1));
        assert_eq!(owners.spend(&account, start + Duration::from_millis(100)), Ok(()));
        assert!(owners.spend(&account, start + Duration::from_millis(100)).is_err());
        let other = owners.account(&Owner::new("ada").expect("valid"));
        assert_eq!(owners.spend(&other, start), Ok(()), "others are not affected");
    }

    #[test]
    fn a_stream_that_ends_makes_room_for_another() {
        let owners = Quotas::new(Limits { streams: 1, ..Limits::default() }, Arc::default());
        let account = owners.account(&Owner::local());
        let open = owners.stream(&account).expect("the first");
        assert!(owners.stream(&account).is_none());
        drop(open);
        assert!(owners.stream(&account).is_some());
    }

    #[test]
    fn requests_that_are_not_over_are_counted_for_each_owner() {
        let limits = Limits { owner_requests: 2, ..Limits::default() };
        let owners = Quotas::new(limits, Arc::default());
        let account = owners.account(&Owner::local());
        let first = owners.begin(&account).expect("one less");
        let _second = owners.begin(&account).expect("as many as it may");
        assert!(owners.begin(&account).is_none(), "one more");
        assert!(owners.begin(&owners.account(&Owner::new("ada").expect("valid"))).is_some());
        drop(first);
        assert!(owners.begin(&account).is_some());
    }
}
