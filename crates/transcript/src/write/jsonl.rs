//! Our own lines: everything a log holds, so that reading them gives the same log again.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_core::world::rfc3339;
use rethread_core::{Entry, Header, Session};
use serde_json::json;

use super::Writer;

/// The version of these lines.
pub const VERSION: u64 = 1;

pub(super) struct Jsonl<'a> {
    out: &'a mut dyn Write,
    left_out: BTreeMap<&'static str, u64>,
}

impl<'a> Jsonl<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Jsonl<'a> {
        Jsonl { out, left_out: BTreeMap::new() }
    }
}

impl Writer for Jsonl<'_> {
    fn begin(&mut self, session: &Session) -> io::Result<()> {
        // What another program says about it stays with the store it shares.
        let header = Header { foreign: None, ..session.header.clone() };
        let line = json!({ "rethread": VERSION, "session": header, "keys": session.keys });
        writeln!(self.out, "{line}")
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let head = json!({ "id": entry.id, "at": rfc3339(entry.at), "kind": entry.body.kind() });
        let head = head.to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        let body = entry.body.json();
        match body.contains(['\n', '\r']) {
            // A body that was spread over lines keeps its bytes inside a string.
            true => writeln!(self.out, "{head},\"text\":{}}}", json!(body)),
            false => writeln!(self.out, "{head},\"body\":{body}}}"),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }
}
