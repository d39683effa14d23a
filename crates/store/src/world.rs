//! The real world.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::World;
use uuid::Uuid;

/// The clock and the dice of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl World for System {
    #[expect(clippy::disallowed_methods, reason = "this is where real time comes from")]
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    #[expect(clippy::disallowed_methods, reason = "this is where real ids come from")]
    fn uuid(&self) -> Uuid {
        Uuid::now_v7()
    }

    fn zone(&self) -> TimeZone {
        TimeZone::system()
    }
}
