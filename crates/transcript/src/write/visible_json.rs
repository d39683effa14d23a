//! A writer of JSON without hidden characters: see [`visible_json`].

use std::io::{self, Write};

use rethread_core::visible_json::visible_json;

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
