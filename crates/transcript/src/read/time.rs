//! Parses times in the formats that programs write.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// Parses a time: RFC 3339, an offset without a colon (`-0800`), a local time in this zone, an
/// e-mail date, or a number of seconds (or fractions) since 1970.
pub(super) fn read(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    if let Some(at) = number(text) {
        return Some(at);
    }
    for form in ["%Y-%m-%dT%H:%M:%S%.f%z", "%Y-%m-%d %H:%M:%S%.f%z", "%Y-%m-%d %H:%M:%S%.f %z"] {
        let parsed = strtime::parse(form, text).and_then(|parsed| parsed.to_timestamp());
        if let Ok(at) = parsed {
            return Some(at);
        }
    }
    if let Ok(at) = jiff::fmt::rfc2822::parse(text) {
        return Some(at.timestamp());
    }
    let plain = text.trim_end_matches("UTC").trim_end_matches("GMT").trim_end_matches('Z');
    let naive: DateTime = plain.trim().parse().ok()?;
    match plain.len() < text.len() {
        true => TimeZone::UTC.to_timestamp(naive).ok(),
        false => zone.to_timestamp(naive).ok(),
    }
}

/// A time as JSON has it: a string or a number.
pub(super) fn of_json(raw: &str, zone: &TimeZone) -> Option<Timestamp> {
    match super::fields::string(raw) {
        Some(text) => read(&text, zone),
        None => number(raw),
    }
}

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, distinguished by size. The ranges
/// do not overlap until the year 5138.
fn number(text: &str) -> Option<Timestamp> {
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
    let micros = match number.abs() {
        size if size < 1e11 => number * 1e6,
        size if size < 1e14 => number * 1e3,
        size if size < 1e17 => number,
        size if size < 1e19 => number / 1e3,
        _ => return None,
    };
    Timestamp::from_microsecond(micros.round() as i64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_programs_write_is_read() {
        let zone = TimeZone::fixed(jiff::tz::offset(-8));
        for (text, at) in [
            ("2025-02-21T14:30:15-0800", "2025-02-21T22:30:15Z"),
            ("2025-02-21T14:30:15-08:00", "2025-02-21T22:30:15Z"),
            ("2025-02-21T14:30:15.123456", "2025-02-21T22:30:15.123456Z"),
            ("2025-02-21 14:30:15", "2025-02-21T22:30:15Z"),
            ("2025-02-21T22:30:15Z", "2025-02-21T22:30:15Z"),
            ("2025-02-21 22:30:15Z", "2025-02-21T22:30:15Z"),
            ("1740177015", "2025-02-21T22:30:15Z"),
            ("1740177015000", "2025-02-21T22:30:15Z"),
            ("1740177015000000", "2025-02-21T22:30:15Z"),
            ("1740177015000000000", "2025-02-21T22:30:15Z"),
            ("1740177015.25", "2025-02-21T22:30:15.25Z"),
            ("2025-02-21 22:30:15 UTC", "2025-02-21T22:30:15Z"),
            ("Fri, 21 Feb 2025 22:30:15 GMT", "2025-02-21T22:30:15Z"),
        ] {
            assert_eq!(read(text, &zone), at.parse().ok(), "{text}");
        }
        for text in ["", "yesterday", "2025-13-01T00:00:00Z", "nan", "inf", "99999999999999999999"]
        {
            assert_eq!(read(text, &zone), None, "{text}");
        }
    }
}
