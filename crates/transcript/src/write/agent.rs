//! A session file of a command-line agent: metadata and messages.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_core::entry::Body;
use rethread_core::world::rfc3339;
use rethread_core::{Entry, Session};
use serde_json::{Value, json};

use super::Writer;
use super::magent::values;
use super::visible_json::VisibleJson;

pub(super) struct Agent<'a> {
    out: VisibleJson<&'a mut dyn Write>,
    begun: bool,
    first: bool,
    left_out: BTreeMap<&'static str, u64>,
}

impl<'a> Agent<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Agent<'a> {
        Agent { out: VisibleJson::new(out), begun: false, first: true, left_out: BTreeMap::new() }
    }
}

impl Writer for Agent<'_> {
    fn begin(&mut self, session: &Session) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let Session { header, tally, .. } = session;
        let id = header.name.ascii_id(header.created_at, header.id);
        let mut meta = json!({ "id": id, "name": header.name });
        if let Some(description) = &header.profile.description {
            meta["description"] = json!(description);
        }
        let rest = json!({
            "createdAt": rfc3339(header.created_at),
            "lastActivityAt": rfc3339(session.last_activity_at),
            "messageCount": tally.messages,
            "firstMessage": session.first_message,
            "provider": header.profile.provider.as_deref().unwrap_or_default(),
            "model": header.profile.model.as_deref().unwrap_or_default(),
        });
        if let (Value::Object(meta), Value::Object(rest)) = (&mut meta, rest) {
            meta.extend(rest);
        }
        write!(self.out, "{{\n  \"metadata\": {meta},\n  \"messages\": [")
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let Body::Message(message) = &entry.body else {
            *self.left_out.entry("bookkeeping entry").or_default() += 1;
            return Ok(());
        };
        for mut value in values(message) {
            value["timestamp"] = json!(rfc3339(entry.at));
            let comma = if std::mem::take(&mut self.first) { "" } else { "," };
            write!(self.out, "{comma}\n    {value}")?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        writeln!(self.out, "{}\n}}", if self.first { "]" } else { "\n  ]" })?;
        self.out.flush()
    }

    fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }
}
