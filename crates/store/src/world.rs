//! The real clock and random numbers.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::World;
use uuid::Uuid;

/// The clock and the random number generator of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl World for System {
    #[expect(clippy::disallowed_methods, reason = "this is where real time comes from")]
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    fn uuid(&self) -> Uuid {
        uuid_at(self.now())
    }

    fn zone(&self) -> TimeZone {
        TimeZone::system()
    }
}

/// A new id. A UUIDv7 counts from 1970: a clock with an earlier time has never been set, and the
/// random part distinguishes such ids too.
#[expect(clippy::disallowed_methods, reason = "this is where real ids come from")]
fn uuid_at(now: Timestamp) -> Uuid {
    match now.as_millisecond() {
        0.. => Uuid::now_v7(),
        _ => Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_still_gives_ids() {
        let then = Timestamp::from_second(-300_000_000).expect("within range");
        let (one, other) = (uuid_at(then), uuid_at(then));
        assert_eq!((one.get_version_num(), other.get_version_num()), (7, 7));
        assert_ne!(one, other);
    }
}
