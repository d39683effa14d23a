//! A point in the past, as typed by users: `7d`, `2h`, `yesterday`, `2025-01-04`, or a time to the
//! second.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// A point in the past, before the current time is known.
#[derive(Clone, Debug)]
pub(crate) enum Since {
    /// This long ago.
    Ago(Span),
    /// The beginning of this day, in the local time zone.
    Day(Date),
    /// This many days before today, from their beginning.
    DaysBefore(i32),
    /// At this time.
    At(Timestamp),
}

impl Since {
    /// The time. One that is out of range is the earliest possible.
    pub(crate) fn time(&self, now: Timestamp) -> Timestamp {
        let zone = TimeZone::system();
        let here = now.to_zoned(zone.clone());
        let begins = |day: Date| day.to_zoned(zone.clone());
        let then = match self {
            Since::Ago(span) => here.checked_sub(*span),
            Since::Day(day) => begins(*day),
            Since::DaysBefore(days) => {
                here.date().checked_sub(Span::new().days(*days)).and_then(begins)
            }
            Since::At(at) => return *at,
        };
        then.map_or(Timestamp::MIN, |then| then.timestamp())
    }
}

impl std::str::FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Since, String> {
        match text {
            "today" => return Ok(Since::DaysBefore(0)),
            "yesterday" => return Ok(Since::DaysBefore(1)),
            _ => {}
        }
        if let Ok(at) = text.parse() {
            return Ok(Since::At(at));
        }
        if let Ok(day) = text.parse() {
            return Ok(Since::Day(day));
        }
        match text.trim_end_matches(" ago").parse::<Span>() {
            Ok(span) if span.is_positive() => Ok(Since::Ago(span)),
            _ => Err("use a duration such as `7d` or `2h`, or a date such as `2025-01-04`".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> String {
        let now: Timestamp = "2025-01-04T12:00:00Z".parse().expect("a time");
        match text.parse::<Since>() {
            Ok(since) => since.time(now).to_string(),
            Err(error) => error,
        }
    }

    #[test]
    fn a_length_of_time_is_counted_back_from_now() {
        assert_eq!(time("2h"), "2025-01-04T10:00:00Z");
        assert_eq!(time("90m"), "2025-01-04T10:30:00Z");
        assert_eq!(time("3 hours ago"), "2025-01-04T09:00:00Z");
        assert_eq!(time("2025-01-03T01:02:03Z"), "2025-01-03T01:02:03Z");
    }

    #[test]
    fn a_day_begins_at_midnight_where_the_person_is() {
        for day in ["2025-01-04", "today"] {
            let begins: Timestamp = time(day).parse().expect("a time");
            let here = begins.to_zoned(TimeZone::system());
            assert_eq!(here.time(), jiff::civil::Time::midnight(), "{day}");
        }
        assert!(time("yesterday") < time("today") && time("1w") < time("yesterday"));
    }

    #[test]
    fn what_is_not_in_the_past_or_not_a_time_is_refused() {
        for bad in ["", "soon", "-2h", "0s", "7", "2025-13-01"] {
            assert!(time(bad).starts_with("use a duration"), "{bad}: {}", time(bad));
        }
    }
}
