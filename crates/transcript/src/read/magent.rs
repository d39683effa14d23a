//! `session-*.json` of an Emacs agent.
//!
//! What these files contain in practice: messages newest first as often as oldest first, `null`
//! instead of messages or input, results without calls at both ends after old messages were
//! trimmed, no agent, and no times. A file that grew has dropped its oldest messages.

use std::path::Path;

use rethread_core::message::{BlockKind, Role};
use rethread_core::{Message, Profile, Raw};

use super::document;
use super::fields::Fields;
use super::messages::{Converted, convert, is_instructions};
use super::output::{Out, Slot, fingerprint, said};
use super::sink::FoundSession;
use super::{ReadError, Result, time};

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = document::text(path)?;
    let (text, damage) = document::mended(&text)?;
    let doc = Fields::parse(&text).map_err(ReadError::broken)?;
    let items = doc.list("messages").unwrap_or_default();
    session(path, out, &doc, &items)?;
    out.damaged(damage, items.len());
    Ok(())
}

fn session(path: &Path, out: &mut Out<'_>, doc: &Fields<'_>, items: &[&str]) -> Result<()> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let id = doc.word("id").or(stem.clone()).unwrap_or_default();
    let at = doc.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone));
    let agent = doc.word("agent").or_else(|| doc.object("agent").and_then(|a| a.word("name")));
    let session = out.session(FoundSession {
        identity: id.clone(),
        name: Some(id.clone()),
        readable_id: Some(id),
        profile: Profile {
            agent,
            max_history: doc.number("max_history").and_then(|n| u32::try_from(n).ok()),
            ..Profile::default()
        },
        // The time in the name is when it began; the one inside is when it was saved.
        created_at: stem.as_deref().and_then(|stem| begun(stem, out)).or(at),
        windowed: true,
        ..FoundSession::default()
    })?;
    out.records(1);
    out.used("session");
    let rest = doc.without_list("messages", &["id", "timestamp", "agent"]);
    if rest != "{}" {
        out.records(1);
        let id = format!("header:{}", fingerprint(&[&rest]));
        out.raw(Slot { session, id, at }, "header", &rest)?;
    }
    let read: Vec<(&str, Option<Message>)> =
        items.iter().map(|item| (*item, message_of(item))).collect();
    let order: Vec<usize> = match is_newest_first(&read) {
        true => (0..read.len()).rev().collect(),
        false => (0..read.len()).collect(),
    };
    for index in order {
        let (item, message) = &read[index];
        out.records(1);
        let kind = Fields::of(item).and_then(|fields| fields.word("role"));
        let kind = kind.unwrap_or_else(|| "other".into());
        let slot = Slot { session, id: fingerprint(&[item]), at };
        match message {
            Some(message) => out.message(slot, message.clone(), &kind, 1)?,
            None => out.raw(slot, &kind, item)?,
        }
    }
    Ok(())
}

/// The time in `session-20250221-143015`.
fn begun(stem: &str, out: &Out<'_>) -> Option<jiff::Timestamp> {
    let digits = stem.strip_prefix("session-")?;
    let parsed = jiff::fmt::strtime::parse("%Y%m%d-%H%M%S", digits.get(..15)?).ok()?;
    out.options.zone.to_timestamp(parsed.to_datetime().ok()?).ok()
}

fn message_of(item: &str) -> Option<Message> {
    let fields = Fields::of(item)?;
    let mut message = match fields.word("role").as_deref() {
        // An object instead of a list, or a text without a call.
        Some("tool") => match said(Role::Tool, fields.get("content").unwrap_or("null")) {
            Ok(message) if message.results().next().is_some() => message,
            _ => match convert(&fields).ok()? {
                Converted::Said(message) => message,
                Converted::Instructions => return None,
            },
        },
        _ => match convert(&fields).ok()? {
            Converted::Said(message) => message,
            Converted::Instructions => return None,
        },
    };
    for block in &mut message.content {
        if let BlockKind::ToolUse(call) = &mut block.kind
            && call.input.get() == "null"
        {
            call.input = Raw::of(&serde_json::Map::new());
        }
    }
    Some(message)
}

/// Whether the newest message comes first: it does if a result comes before its call. Without
/// pairs, it does unless the list begins with the user and does not end with one.
fn is_newest_first(read: &[(&str, Option<Message>)]) -> bool {
    let messages: Vec<Option<&Message>> = read.iter().map(|(_, m)| m.as_ref()).collect();
    for (index, message) in messages.iter().enumerate() {
        for result in message.iter().flat_map(|message| message.results()) {
            let calls = |message: &&Message| message.calls().any(|c| c.id == result.tool_use_id);
            let called = messages.iter().position(|message| message.as_ref().is_some_and(calls));
            match called {
                Some(called) if called > index => return true,
                Some(called) if called < index => return false,
                _ => {}
            }
        }
    }
    // Instructions are at the beginning.
    if read.len() > 1 {
        let at = |index: usize| is_instructions(read[index].0);
        match (at(0), at(read.len() - 1)) {
            (true, false) => return false,
            (false, true) => return true,
            _ => {}
        }
    }
    let is_user = |message: Option<&Option<&Message>>| {
        message.and_then(|message| message.as_ref()).is_some_and(|m| m.role == Role::User)
    };
    !is_user(messages.first()) || is_user(messages.last())
}
