//! A file that is one JSON document.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use serde_json::value::RawValue;

use super::lines::unpacked;
use super::{ReadError, Result};

/// Bytes of a document that is one JSON value. It is held in memory once; programs that write more
/// than this use JSON lines.
pub(super) const DOCUMENT_BYTES_MAX: u64 = 512 << 20;

/// The whole text of a file.
pub(super) fn text(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    unpacked(path)?.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        return Err(ReadError::broken("it is one document of more than 512 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| ReadError::broken("it is not UTF-8 text"))?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// Why only a part of a document could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// It is truncated.
    CutOff,
    /// Something comes after its end.
    Trailing,
}

/// A JSON document. If it is truncated: the complete fields of an object, and the complete elements
/// of the list that the file ends in.
pub(super) fn mended(text: &str) -> Result<(Cow<'_, str>, Option<Damage>)> {
    let body = text.trim();
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<&RawValue>();
    match values.next() {
        Some(Ok(_)) => {
            let (own, behind) = body.split_at(values.byte_offset());
            let damage = (!behind.trim().is_empty()).then_some(Damage::Trailing);
            Ok((Cow::Borrowed(own), damage))
        }
        Some(Err(error)) => match saved(body) {
            Some(saved) => Ok((Cow::Owned(saved), Some(Damage::CutOff))),
            None => Err(ReadError::broken(error.to_string())),
        },
        None => Err(ReadError::broken("it is empty")),
    }
}

/// The complete part of a truncated list or object.
fn saved(body: &str) -> Option<String> {
    if body.starts_with('[') {
        let (items, _) = whole_items(body);
        return Some(format!("[{}]", items.join(",")));
    }
    let mut rest = body.strip_prefix('{')?;
    let mut fields = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        let Some((key, after)) = first_value(rest).filter(|(key, _)| key.starts_with('"')) else {
            break;
        };
        let Some(value) = after.trim_start().strip_prefix(':').map(str::trim_start) else { break };
        let Some((raw, after)) = first_value(value) else {
            if value.starts_with('[') {
                fields.push(format!("{key}:[{}]", whole_items(value).0.join(",")));
            }
            break;
        };
        fields.push(format!("{key}:{raw}"));
        rest = after;
    }
    (!fields.is_empty()).then(|| format!("{{{}}}", fields.join(",")))
}

/// The JSON value at the start of a text, and what follows it.
fn first_value(text: &str) -> Option<(&str, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let value = values.next()?.ok()?.get();
    Some((value, &text[values.byte_offset()..]))
}

/// The complete elements of a truncated list, and whether all of it is complete. `raw` begins with
/// `[`.
pub(super) fn whole_items(raw: &str) -> (Vec<&str>, bool) {
    let mut items = Vec::new();
    let mut rest = raw.trim_start().strip_prefix('[').unwrap_or_default();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        if rest.starts_with(']') {
            return (items, true);
        }
        match first_value(rest) {
            Some((value, after)) => {
                items.push(value);
                rest = after;
            }
            None => return (items, false),
        }
    }
}
