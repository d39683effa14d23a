//! A chat bot's `sessions.json` with one session in it: texts of the user and the assistant.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use rethread_core::entry::Body;
use rethread_core::message::Role;
use rethread_core::{Entry, Session};
use serde_json::json;

use super::Writer;
use super::visible_json::VisibleJson;

pub(super) struct Telegram<'a> {
    out: VisibleJson<&'a mut dyn Write>,
    session: Option<Session>,
    created_at: Option<Timestamp>,
    first: bool,
    left_out: BTreeMap<&'static str, u64>,
}

impl<'a> Telegram<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Telegram<'a> {
        Telegram {
            out: VisibleJson::new(out),
            session: None,
            created_at: None,
            first: true,
            left_out: BTreeMap::new(),
        }
    }
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The user's number, if the session has one, and the key of the session in the file: the number
/// alone for the one the bot continues, `<user>:<session id>` for another of theirs.
fn user(session: &Session) -> (i64, String) {
    let keys = || session.keys.iter().map(|key| key.as_str());
    let split = |name: &str| -> Option<(i64, Option<String>)> {
        let name = name.strip_prefix("telegram:")?;
        let (user, chat) = match name.split_once(':') {
            Some((user, chat)) => (user, Some(chat.to_owned())),
            None => (name, None),
        };
        Some((user.parse().ok()?, chat))
    };
    let told: Vec<_> = keys().filter_map(split).collect();
    let continued = told.iter().find(|(_, chat)| chat.is_none());
    let found = continued.or(told.first()).cloned();
    let found = found.or_else(|| split(session.header.owner.as_str()));
    let (user, chat) = found.unwrap_or_default();
    let key = chat.map_or_else(|| user.to_string(), |chat| format!("{user}:{chat}"));
    (user, key)
}

impl Writer for Telegram<'_> {
    fn begin(&mut self, session: &Session) -> io::Result<()> {
        if self.session.is_none() {
            let created = session.header.created_at;
            self.created_at = Some(created);
            let (user, key) = user(session);
            write!(
                self.out,
                "{{\n  {}: {{\n    \"user_id\": {user},\n    \"created_at\": \"{}\",\n    \"history\": [",
                json!(key),
                time(created)
            )?;
        }
        self.session = Some(session.clone());
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let mut leave = |what| *self.left_out.entry(what).or_default() += 1;
        let Body::Message(message) = &entry.body else {
            leave("bookkeeping entry");
            return Ok(());
        };
        let text = message.plain_text();
        if message.content.iter().any(|block| block.as_text().is_none()) {
            leave("non-text message");
        }
        let spoken = matches!(message.role, Role::User | Role::Assistant);
        if !spoken || text.is_empty() {
            if message.role == Role::System {
                leave("system message");
            }
            return Ok(());
        }
        let said = json!({ "role": message.role, "content": text, "timestamp": time(entry.at) });
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.out, "{comma}\n      {said}")
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some(session) = &self.session else { return writeln!(self.out, "{{}}") };
        let end = if self.first { "]" } else { "\n    ]" };
        let last = time(session.last_activity_at);
        let workspace = json!(session.header.profile.workspace);
        writeln!(
            self.out,
            "{end},\n    \"last_activity\": \"{last}\",\n    \"current_workspace\": {workspace}\n  }}\n}}"
        )?;
        self.out.flush()
    }

    fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.left_out
    }
}
