//! A chat bot's `sessions.json`: one object, a session for each user or each of their chats.

use std::collections::HashMap;
use std::path::Path;

use super::document::{self, whole_items};
use super::fields::{Fields, string};
use super::found::Found;
use super::messages::{Converted, convert};
use super::out::{Out, Slot, fingerprint};
use super::{Error, Result, time};
use rethread_core::Profile;

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = document::text(path)?;
    let Some(mut rest) = text.trim().strip_prefix('{') else {
        return Err(Error::broken("it is no object"));
    };
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        if rest.is_empty() || rest.starts_with('}') {
            if rest.is_empty() {
                cut_off(out, "the end");
            }
            return Ok(());
        }
        let mut keys =
            serde_json::Deserializer::from_str(rest).into_iter::<&serde_json::value::RawValue>();
        let key = keys.next().and_then(|key| key.ok()).and_then(|raw| string(raw.get()));
        let Some(key) = key else {
            cut_off(out, "a key");
            return Ok(());
        };
        let after = rest[keys.byte_offset()..].trim_start();
        let Some(value) = after.strip_prefix(':').map(str::trim_start) else {
            cut_off(out, &format!("session {key}"));
            return Ok(());
        };
        let mut values =
            serde_json::Deserializer::from_str(value).into_iter::<&serde_json::value::RawValue>();
        match values.next() {
            Some(Ok(raw)) => {
                session(out, &key, raw.get())?;
                rest = &value[values.byte_offset()..];
            }
            // The program was stopped while it wrote: what is whole is kept.
            _ => {
                half_a_session(out, &key, value)?;
                return Ok(());
            }
        }
    }
}

fn cut_off(out: &mut Out<'_>, place: &str) {
    out.records(1);
    out.unreadable("broken", place.to_owned(), "the file ends in it");
}

fn session(out: &mut Out<'_>, key: &str, raw: &str) -> Result<()> {
    let Some(fields) = Fields::of(raw) else {
        out.records(1);
        out.unreadable("broken", format!("session {key}"), "it is no object");
        return Ok(());
    };
    // Some programs put all of it into one field.
    if key == "sessions" && !fields.has("history") {
        for (key, raw) in fields.iter() {
            session(out, key, raw)?;
        }
        return Ok(());
    }
    let items = fields.list("history").unwrap_or_default();
    messages(out, key, &fields, &items)
}

fn half_a_session(out: &mut Out<'_>, key: &str, value: &str) -> Result<()> {
    let name = "\"history\"";
    let list = value.find(name).map(|at| value[at + name.len()..].trim_start());
    let list = list.and_then(|rest| rest.strip_prefix(':')).map(str::trim_start);
    let items = match list {
        Some(list) if list.starts_with('[') => whole_items(list).0,
        _ => Vec::new(),
    };
    let head =
        value.find(name).map_or(String::new(), |at| format!("{}\"history\":null}}", &value[..at]));
    let fields = Fields::of(&head).unwrap_or_default();
    messages(out, key, &fields, &items)?;
    cut_off(out, &format!("session {key}"));
    Ok(())
}

fn messages(out: &mut Out<'_>, key: &str, fields: &Fields<'_>, items: &[&str]) -> Result<()> {
    // `<user>`, or `<user>:<session id>`, where the id may hold colons of its own.
    let (user, chat) = match key.split_once(':') {
        Some((user, chat)) => (user.to_owned(), Some(chat.to_owned())),
        None => (key.to_owned(), None),
    };
    let numeric = |text: &str| {
        !text.is_empty() && text.trim_start_matches('-').chars().all(|c| c.is_ascii_digit())
    };
    let given = fields.get("user_id").map(|raw| raw.trim_matches('"').to_owned());
    let user = if numeric(&user) { user } else { given.filter(|id| numeric(id)).unwrap_or(user) };
    let owner = format!("telegram:{user}");
    let at = |name: &str| fields.get(name).and_then(|raw| time::of_json(raw, &out.options.zone));
    let (created, last) = (at("created_at"), at("last_activity"));
    let address = match &chat {
        Some(chat) => format!("{owner}:{chat}"),
        None => owner.clone(),
    };
    let session = out.session(Found {
        identity: key.to_owned(),
        owner: Some(owner),
        keys: vec![address],
        name: chat.or_else(|| Some(format!("telegram-{user}"))),
        profile: Profile {
            workspace: fields.word("current_workspace").or_else(|| fields.word("workspace")),
            ..Profile::default()
        },
        created_at: created,
        ..Found::default()
    })?;
    out.records(1);
    out.told("session");
    let known = ["user_id", "created_at", "last_activity", "current_workspace"];
    let rest = fields.without_list("history", &known);
    if rest != "{}" {
        out.records(1);
        let id = format!("header:{}", fingerprint(&[&rest]));
        out.raw(Slot { session, id, at: last }, "header", &rest)?;
    }
    let mut seen: HashMap<String, u32> = HashMap::new();
    for item in items {
        out.records(1);
        // The time is part of a message, so equal words at another time are another message.
        let mark = fingerprint(&[item]);
        let count = seen.entry(mark.clone()).or_default();
        *count += 1;
        let id = if *count == 1 { mark } else { format!("{mark}.{count}") };
        let said = Fields::of(item);
        let at = said.as_ref().and_then(|said| said.get("timestamp"));
        let at = at.and_then(|raw| time::of_json(raw, &out.options.zone));
        let slot = Slot { session, id, at };
        let kind = said.as_ref().and_then(|said| said.word("role"));
        let kind = kind.unwrap_or_else(|| "other".into());
        match said.as_ref().map(convert) {
            Some(Ok(Converted::Said(message))) => out.message(slot, message, &kind, 1)?,
            _ => out.raw(slot, &kind, item)?,
        }
    }
    Ok(())
}
