//! JSON without hidden characters: terminal control characters and invisible ones are escaped.
//!
//! Outside ASCII, JSON has characters only inside strings, where `\\u009b` means the same as the
//! character itself. So the output is equivalent JSON.

use std::borrow::Cow;
use std::io::{self, Write};

use rethread_core::name::is_hidden;

/// Whether a character is escaped. Those of ASCII are escaped by the string writer, and some
/// of them separate values; only `DEL` is not.
fn is_escaped(c: char) -> bool {
    c >= '\u{7f}' && is_hidden(c)
}

/// JSON with all hidden characters escaped.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match is_escaped(c) {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// A writer that passes JSON on with all hidden characters escaped.
pub struct VisibleJson<W: Write> {
    out: W,
    /// The first bytes of a character whose last bytes have not been written yet.
    begun: Vec<u8>,
}

impl<W: Write> VisibleJson<W> {
    /// Passes JSON on to `out`.
    pub fn new(out: W) -> VisibleJson<W> {
        VisibleJson { out, begun: Vec::new() }
    }
}

impl<W: Write> Write for VisibleJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = std::mem::take(&mut self.begun);
        let joined = match held.is_empty() {
            true => bytes,
            false => {
                held.extend_from_slice(bytes);
                &held
            }
        };
        let (whole, rest) = match std::str::from_utf8(joined) {
            Ok(text) => (text, &[][..]),
            Err(error) if error.error_len().is_none() => {
                let (whole, rest) = joined.split_at(error.valid_up_to());
                (std::str::from_utf8(whole).expect("checked just now"), rest)
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        self.out.write_all(visible_json(whole).as_bytes())?;
        self.begun = rest.to_vec();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "{\"a\":\"\u{9b}2J\u{7f} \u{202e} \u{e0041} é 日\",\n\"b\":1}";

    #[test]
    fn what_hides_is_escaped_and_means_the_same() {
        let shown = visible_json(HOSTILE);
        assert_eq!(shown, "{\"a\":\"\\u009b2J\\u007f \\u202e \\udb40\\udc41 é 日\",\n\"b\":1}");
        let parsed = |json: &str| serde_json::from_str::<serde_json::Value>(json).expect("JSON");
        assert_eq!(parsed(&shown), parsed(HOSTILE));
        assert!(matches!(visible_json("{\"a\":\"é\"}"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_character_may_be_split_between_two_writes() {
        for size in 1..5 {
            let mut out = Vec::new();
            let mut writer = VisibleJson::new(&mut out);
            for part in HOSTILE.as_bytes().chunks(size) {
                writer.write_all(part).expect("written");
            }
            assert_eq!(String::from_utf8(out).expect("text"), visible_json(HOSTILE), "{size}");
        }
    }
}
