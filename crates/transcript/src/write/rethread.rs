//! The format `rethread`: JSON lines with everything a log contains, so that importing them gives the
//! same log again.

use std::collections::BTreeMap;
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rethread_core::name::is_hidden;
use rethread_core::world::rfc3339;
use rethread_core::{BlobId, Entry, Raw, Session};
use serde_json::json;

use super::Writer;
use super::visible_json::VisibleJson;

/// The version of the format that is written, and the newest that is read.
pub const VERSION: u64 = 1;

/// Bytes of an attachment on one line: readers skip lines that are much longer.
const PART_BYTES: usize = 6 << 20;

pub(super) struct RethreadLines<'a> {
    out: VisibleJson<&'a mut dyn Write>,
    left_out: BTreeMap<&'static str, u64>,
}

impl<'a> RethreadLines<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> RethreadLines<'a> {
        RethreadLines { out: VisibleJson::new(out), left_out: BTreeMap::new() }
    }
}

impl Writer for RethreadLines<'_> {
    fn begin(&mut self, session: &Session) -> io::Result<()> {
        // Fields of another program are kept unchanged, but on one line.
        let header = Raw::of(&session.header).get().replace(['\n', '\r'], " ");
        let keys = Raw::of(&session.keys);
        write!(self.out, "{{\"rethread\":{VERSION},\"session\":{header},\"keys\":{}", keys.get())?;
        if let Some(id) = &session.readable_id {
            write!(self.out, ",\"readable_id\":{}", json!(id))?;
        }
        writeln!(self.out, "}}")
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let head = json!({ "id": entry.id, "at": rfc3339(entry.at), "kind": entry.body.kind() });
        let head = head.to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        let body = entry.body.json();
        let is_plain = |c: char| c >= ' ' && !is_hidden(c);
        match body.chars().any(|c| !is_plain(c)) {
            // A body that was spread over several lines, or contains characters that are escaped in
            // the output, keeps its bytes in a string.
            true => writeln!(self.out, "{head},\"text\":{}}}", json!(body)),
            false => writeln!(self.out, "{head},\"body\":{body}}}"),
        }
    }

    fn blob(&mut self, id: BlobId, bytes: &[u8]) -> io::Result<()> {
        let mut parts = bytes.chunks(PART_BYTES);
        // An empty attachment also has one part.
        let mut part = parts.next().unwrap_or_default();
        loop {
            let mut line = json!({ "blob": id, "base64": BASE64.encode(part) });
            let Some(next) = parts.next() else { return writeln!(self.out, "{line}") };
            line["more"] = true.into();
            writeln!(self.out, "{line}")?;
            part = next;
        }
    }

    fn takes_blobs(&self) -> bool {
        true
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }
}
