//! The real clock and random numbers.

use std::time::{SystemTime, UNIX_EPOCH};

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
        at(SystemTime::now())
    }

    fn uuid(&self) -> Uuid {
        uuid_at(self.now())
    }

    fn zone(&self) -> TimeZone {
        TimeZone::system()
    }
}

/// The last second of the year 9998. Times can be written up to the end of 9999; the year between
/// leaves room for what is added to the current time: the end of a lease, for example.
const LATEST_SECOND: i64 = 253_370_764_799;

/// A time of the clock, in whole milliseconds. A clock that shows a time which cannot be written was
/// set wrongly: it stands still at the nearest one that can.
fn at(clock: SystemTime) -> Timestamp {
    let (earliest, latest) = (Timestamp::MIN.as_millisecond(), LATEST_SECOND * 1_000);
    let millis = match clock.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(latest),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(earliest, |ms| -ms),
    };
    let millis = millis.clamp(earliest, latest);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_shows_any_year_gives_a_time_that_can_be_written() {
        let clock = |seconds: i64| match u64::try_from(seconds) {
            Ok(after) => UNIX_EPOCH + Duration::from_secs(after),
            Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()),
        };
        for (seconds, shown) in [
            (0, 0),
            (-1, -1),
            (1_735_689_600, 1_735_689_600),
            (LATEST_SECOND, LATEST_SECOND),
            (LATEST_SECOND + 1, LATEST_SECOND),
            // The first second of the year 10000, and the last that a clock can show.
            (253_402_300_800, LATEST_SECOND),
            (i64::MAX, LATEST_SECOND),
            (-377_705_116_801, Timestamp::MIN.as_second()),
        ] {
            assert_eq!(at(clock(seconds)).as_second(), shown, "{seconds}");
        }
        let latest = Timestamp::from_second(LATEST_SECOND).expect("within range");
        assert!(latest.checked_add(Duration::from_secs(300 * 86_400)).is_ok());
    }

    #[test]
    fn a_clock_before_1970_still_gives_ids() {
        let then = Timestamp::from_second(-300_000_000).expect("within range");
        let (one, other) = (uuid_at(then), uuid_at(then));
        assert_eq!((one.get_version_num(), other.get_version_num()), (7, 7));
        assert_ne!(one, other);
    }
}
