//! A file that is one JSON document.

use std::io::Read;
use std::path::Path;

use super::lines::unpacked;
use super::{Error, Result};

/// Bytes of a document that is one JSON value. It is held in memory once while it is read; what is
/// larger is kept in lines by every program that writes that much.
pub(super) const DOCUMENT_BYTES_MAX: u64 = 512 << 20;

/// The whole text of a file.
pub(super) fn text(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    unpacked(path)?.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        return Err(Error::broken("it is one document of more than 512 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| Error::broken("it is not UTF-8 text"))?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// What can be saved of a document that ends in the middle: the elements of a list that are whole,
/// and whether all of it is. `raw` begins with `[`.
pub(super) fn whole_items(raw: &str) -> (Vec<&str>, bool) {
    let mut items = Vec::new();
    let mut rest = raw.trim_start().strip_prefix('[').unwrap_or_default();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        if rest.starts_with(']') {
            return (items, true);
        }
        let mut values =
            serde_json::Deserializer::from_str(rest).into_iter::<&serde_json::value::RawValue>();
        match values.next() {
            Some(Ok(value)) => {
                items.push(value.get());
                rest = &rest[values.byte_offset()..];
            }
            _ => return (items, false),
        }
    }
}
