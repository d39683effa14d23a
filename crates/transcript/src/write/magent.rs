//! `session-*.json` of an Emacs agent: an id, messages oldest first, the time it was saved.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rethread_core::entry::Body;
use rethread_core::message::{BlockKind, Role};
use rethread_core::{Entry, Message, Session, SessionKind};
use serde_json::{Value, json};

use super::Writer;
use super::visible_json::VisibleJson;

pub(super) struct Magent<'a> {
    out: VisibleJson<&'a mut dyn Write>,
    zone: TimeZone,
    saved_at: Option<Timestamp>,
    first: bool,
    left_out: BTreeMap<&'static str, u64>,
}

impl<'a> Magent<'a> {
    pub(super) fn new(out: &'a mut dyn Write, zone: TimeZone) -> Magent<'a> {
        Magent {
            out: VisibleJson::new(out),
            zone,
            saved_at: None,
            first: true,
            left_out: BTreeMap::new(),
        }
    }
}

impl Writer for Magent<'_> {
    fn begin(&mut self, session: &Session) -> io::Result<()> {
        if self.saved_at.is_none() {
            let header = &session.header;
            let own = header.kind == SessionKind::Imported
                && header.imported.as_deref() == Some("magent");
            let id = session.readable_id.clone().filter(|_| own).unwrap_or_else(|| {
                let begun = header.created_at.to_zoned(self.zone.clone());
                begun.strftime("session-%Y%m%d-%H%M%S").to_string()
            });
            write!(self.out, "{{\n  \"id\": {},\n  \"messages\": [", json!(id))?;
        }
        self.saved_at = Some(session.last_activity_at);
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let Body::Message(message) = &entry.body else {
            *self.left_out.entry("bookkeeping entry").or_default() += 1;
            return Ok(());
        };
        for value in values(message) {
            let comma = if std::mem::take(&mut self.first) { "" } else { "," };
            write!(self.out, "{comma}\n    {value}")?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let at = self.saved_at.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(self.zone.clone());
        let end = if self.first { "]" } else { "\n  ]" };
        let at = at.strftime("%Y-%m-%dT%H:%M:%S%z").to_string();
        writeln!(self.out, "{end},\n  \"timestamp\": {}\n}}", json!(at))?;
        self.out.flush()
    }

    fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }
}

/// A message with its role and content. The content of a tool message is one object, so each result
/// is a separate message.
pub(super) fn values(message: &Message) -> Vec<Value> {
    let bare = Message::new(message.role, message.content.clone());
    let whole = || vec![serde_json::to_value(&bare).unwrap_or(Value::Null)];
    if message.role != Role::Tool {
        return whole();
    }
    let results: Vec<Value> = message
        .content
        .iter()
        .filter(|block| matches!(block.kind, BlockKind::ToolResult(_)))
        .map(|block| json!({ "role": "tool", "content": block }))
        .collect();
    if results.is_empty() { whole() } else { results }
}
