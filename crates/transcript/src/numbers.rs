//! Counts formatted for people.

/// A count in few characters, for prose: `2.3K`, `1.5M`; below a thousand all its digits.
///
/// ```
/// assert_eq!(rethread_transcript::numbers::short(2_345), "2.3K");
/// ```
pub fn short(number: u64) -> String {
    // Rounded in whole numbers, so that 999,950 is `1.0M` and not `1000.0K`.
    let tenths = |unit: u64| number / (unit / 10) + u64::from(number % (unit / 10) >= unit / 20);
    let (tenths, letter) = match number {
        0..1_000 => return number.to_string(),
        1_000..999_950 => (tenths(1_000), 'K'),
        _ => (tenths(1_000_000), 'M'),
    };
    format!("{}.{}{letter}", tenths / 10, tenths % 10)
}

/// A count with all its digits, for receipts: `2,345`.
///
/// ```
/// assert_eq!(rethread_transcript::numbers::full(2_345), "2,345");
/// ```
pub fn full(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Parses a count in any of the forms it is written in: `2345`, `2,345` or `2.3K`.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (end, 'K' | 'k') => (&text[..end], 1_000.0),
        (end, 'M' | 'm') => (&text[..end], 1_000_000.0),
        _ => {
            let plain: String = text.chars().filter(|c| *c != ',').collect();
            // `u64` would accept a sign, which a count never has.
            let all_digits = plain.chars().all(|c| c.is_ascii_digit());
            return plain.parse().ok().filter(|_| all_digits);
        }
    };
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = digits.parse().ok().filter(|_| plain)?;
    Some((number * unit).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_has_one_digit_after_the_point() {
        let numbers = [0, 999, 1_000, 2_345, 2_350, 999_949, 999_950, 1_500_000, u64::MAX];
        assert_eq!(
            numbers.map(short),
            ["0", "999", "1.0K", "2.3K", "2.4K", "999.9K", "1.0M", "1.5M", "18446744073709.6M"]
        );
    }

    #[test]
    fn receipts_have_commas() {
        let numbers = [0, 999, 1_000, 2_345, 1_234_567];
        assert_eq!(numbers.map(full), ["0", "999", "1,000", "2,345", "1,234,567"]);
    }

    #[test]
    fn counts_are_read_in_every_form() {
        for (text, number) in
            [("2345", 2_345), ("2,345", 2_345), ("2.3K", 2_300), ("1.5M", 1_500_000)]
        {
            assert_eq!(parse(text), Some(number), "{text}");
        }
        for text in ["", "K", "-1", "+1", "nanK", "infK", "many", "1e9K", "é"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
