//! Where time and randomness come from.
//!
//! Nothing in this crate reads a clock or generates random numbers; the caller that creates a
//! [`Sessions`](crate::Sessions) provides both. The real one is `rethread_store::System`; tests use
//! [`Fixed`], which replays a day in a millisecond.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use uuid::Uuid;

/// Time and randomness.
pub trait World: Send + Sync {
    /// The current time, in whole milliseconds.
    fn now(&self) -> Timestamp;
    /// A new UUIDv7.
    fn uuid(&self) -> Uuid;
    /// The time zone of the user who starts a session.
    fn zone(&self) -> TimeZone;
}

/// A world in which time passes only on request, and ids count upwards.
#[derive(Debug)]
pub struct Fixed {
    millis: AtomicU64,
    ids: AtomicU64,
}

impl Fixed {
    /// A world whose clock shows this time.
    pub fn at(time: Timestamp) -> Fixed {
        let millis = u64::try_from(time.as_millisecond()).unwrap_or(0);
        Fixed { millis: AtomicU64::new(millis), ids: AtomicU64::new(0) }
    }

    /// Lets time pass.
    pub fn advance(&self, by: std::time::Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.millis.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Default for Fixed {
    /// The first moment of 2025.
    fn default() -> Fixed {
        Fixed::at(Timestamp::from_second(1_735_689_600).expect("2025 is within range"))
    }
}

impl World for Fixed {
    fn now(&self) -> Timestamp {
        let millis = i64::try_from(self.millis.load(Ordering::SeqCst)).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }

    fn uuid(&self) -> Uuid {
        let count = self.ids.fetch_add(1, Ordering::SeqCst);
        let mut tail = [0; 10];
        tail[2..].copy_from_slice(&count.to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis(self.millis.load(Ordering::SeqCst), &tail)
            .into_uuid()
    }

    fn zone(&self) -> TimeZone {
        TimeZone::UTC
    }
}

/// A time in the usual form: RFC 3339, UTC, milliseconds.
pub fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
