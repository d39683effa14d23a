//! A chat bot's `sessions.json`: one object with a session for each user, or for each of their
//! chats.
//!
//! A key is `<user>` or, in newer versions of the bot, `<user>:<session id>`. The session id
//! `default` is the one a user has without naming any, so `7` and `7:default` are the same session:
//! the one the bot continues for user 7.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use jiff::Timestamp;
use rethread_core::Profile;

use super::document::{self, whole_items};
use super::fields::{Fields, string};
use super::messages::{Converted, convert};
use super::output::{Out, Slot, fingerprint};
use super::sink::FoundSession;
use super::{ReadError, Result, time};

/// The session id that newer versions use if the user named none.
const DEFAULT: &str = "default";

/// A session as the file has it.
struct Saved<'a> {
    key: String,
    /// Its object; if it is truncated, what comes before its messages.
    raw: Cow<'a, str>,
    items: Vec<&'a str>,
}

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = document::text(path)?;
    let mut sessions: Vec<(Whose, Vec<Saved<'_>>)> = Vec::new();
    for saved in saved(&text, out)? {
        let whose = Whose::of(&saved);
        match sessions.iter_mut().find(|(known, _)| *known == whose) {
            Some((_, same)) => same.push(saved),
            None => sessions.push((whose, vec![saved])),
        }
    }
    sessions.into_iter().try_for_each(|(whose, saved)| session(out, &whose, &saved))
}

/// The sessions of a file, in its order.
fn saved<'a>(text: &'a str, out: &mut Out<'_>) -> Result<Vec<Saved<'a>>> {
    let Some(mut rest) = text.trim().strip_prefix('{') else {
        return Err(ReadError::broken("it is not an object"));
    };
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        if rest.is_empty() || rest.starts_with('}') {
            if rest.is_empty() {
                cut_off(out, "the end");
            }
            return Ok(found);
        }
        let mut keys =
            serde_json::Deserializer::from_str(rest).into_iter::<&serde_json::value::RawValue>();
        let key = keys.next().and_then(|key| key.ok()).and_then(|raw| string(raw.get()));
        let Some(key) = key else {
            cut_off(out, "a key");
            return Ok(found);
        };
        let after = rest[keys.byte_offset()..].trim_start();
        let Some(value) = after.strip_prefix(':').map(str::trim_start) else {
            cut_off(out, &format!("session {key}"));
            return Ok(found);
        };
        let mut values =
            serde_json::Deserializer::from_str(value).into_iter::<&serde_json::value::RawValue>();
        match values.next() {
            Some(Ok(raw)) => {
                whole(out, &key, raw.get(), &mut found);
                rest = &value[values.byte_offset()..];
            }
            // The program was stopped while it wrote: the complete part is kept.
            _ => {
                found.push(half_a_session(&key, value));
                cut_off(out, &format!("session {key}"));
                return Ok(found);
            }
        }
    }
}

fn cut_off(out: &mut Out<'_>, place: &str) {
    out.records(1);
    out.unreadable("broken", place.to_owned(), "the file ends in it");
}

fn whole<'a>(out: &mut Out<'_>, key: &str, raw: &'a str, found: &mut Vec<Saved<'a>>) {
    let Some(fields) = Fields::of(raw) else {
        out.records(1);
        out.unreadable("broken", format!("session {key}"), "it is not an object");
        return;
    };
    // Some programs put all of it into one field.
    if key == "sessions" && !fields.has("history") {
        for (key, raw) in fields.iter() {
            whole(out, key, raw, found);
        }
        return;
    }
    let items = fields.list("history").unwrap_or_default();
    found.push(Saved { key: key.to_owned(), raw: raw.into(), items });
}

fn half_a_session<'a>(key: &str, value: &'a str) -> Saved<'a> {
    let name = "\"history\"";
    let list = value.find(name).map(|at| value[at + name.len()..].trim_start());
    let list = list.and_then(|rest| rest.strip_prefix(':')).map(str::trim_start);
    let items = match list {
        Some(list) if list.starts_with('[') => whole_items(list).0,
        _ => Vec::new(),
    };
    let head =
        value.find(name).map_or(String::new(), |at| format!("{}\"history\":null}}", &value[..at]));
    Saved { key: key.to_owned(), raw: head.into(), items }
}

/// The owner of a session, and which of theirs it is: identifies it in the file.
#[derive(PartialEq, Eq)]
struct Whose {
    user: String,
    /// None for the one the bot continues.
    chat: Option<String>,
}

impl Whose {
    fn of(saved: &Saved<'_>) -> Whose {
        // The session id may contain colons.
        let (user, chat) = match saved.key.split_once(':') {
            Some((user, chat)) => (user, Some(chat)),
            None => (saved.key.as_str(), None),
        };
        let numeric = |text: &str| {
            !text.is_empty() && text.trim_start_matches('-').chars().all(|c| c.is_ascii_digit())
        };
        let given = || {
            let fields = Fields::of(&saved.raw)?;
            let id = fields.get("user_id")?.trim_matches('"').to_owned();
            numeric(&id).then_some(id)
        };
        let user = if numeric(user) { None } else { given() }.unwrap_or_else(|| user.to_owned());
        Whose { user, chat: chat.filter(|chat| *chat != DEFAULT).map(str::to_owned) }
    }
}

fn session(out: &mut Out<'_>, whose: &Whose, saved: &[Saved<'_>]) -> Result<()> {
    let Whose { user, chat } = whose;
    let heads: Vec<Fields<'_>> =
        saved.iter().map(|saved| Fields::of(&saved.raw).unwrap_or_default()).collect();
    let zone = &out.options.zone;
    let at =
        |fields: &Fields<'_>, name: &str| fields.get(name).and_then(|raw| time::of_json(raw, zone));
    let created_at = heads.iter().filter_map(|fields| at(fields, "created_at")).min();
    let last: Vec<Option<Timestamp>> =
        heads.iter().map(|fields| at(fields, "last_activity")).collect();
    // The one that was used last knows the user's current folder.
    let newest = (0..heads.len()).max_by_key(|index| last[*index]).unwrap_or_default();
    let workspace = heads
        .get(newest)
        .and_then(|fields| fields.word("current_workspace").or_else(|| fields.word("workspace")));
    let owner = format!("telegram:{user}");
    // If both versions saved it, the plain key is the original one.
    let identity = match chat {
        None => saved.iter().find(|saved| !saved.key.contains(':')),
        Some(_) => saved.first(),
    };
    let identity = identity.map_or_else(|| user.clone(), |saved| saved.key.clone());
    let session = out.session(FoundSession {
        identity,
        keys: vec![match chat {
            Some(chat) => format!("{owner}:{chat}"),
            None => owner.clone(),
        }],
        owner: Some(owner),
        name: chat.clone().or_else(|| Some(format!("telegram-{user}"))),
        profile: Profile { workspace, ..Profile::default() },
        created_at,
        ..FoundSession::default()
    })?;
    for (fields, last) in heads.iter().zip(last) {
        out.records(1);
        out.used("session");
        let known = ["user_id", "created_at", "last_activity", "current_workspace"];
        let rest = fields.without_list("history", &known);
        if rest != "{}" {
            out.records(1);
            let id = format!("header:{}", fingerprint(&[&rest]));
            out.raw(Slot { session, id, at: last }, "header", &rest)?;
        }
    }
    for Item { id, at, raw, again } in items(out, saved) {
        out.records(1);
        if again {
            out.used("message saved twice");
            continue;
        }
        let said = Fields::of(raw);
        let slot = Slot { session, id, at };
        let kind = said.as_ref().and_then(|said| said.word("role"));
        let kind = kind.unwrap_or_else(|| "other".into());
        match said.as_ref().map(convert) {
            Some(Ok(Converted::Said(message))) => out.message(slot, message, &kind, 1)?,
            _ => out.raw(slot, &kind, raw)?,
        }
    }
    Ok(())
}

/// A message as it was saved.
struct Item<'a> {
    id: String,
    at: Option<Timestamp>,
    raw: &'a str,
    /// It was also saved under the other key.
    again: bool,
}

/// The messages of a session, in order.
fn items<'a>(out: &Out<'_>, saved: &[Saved<'a>]) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    let mut known: HashSet<String> = HashSet::new();
    for saved in saved {
        let mut seen: HashMap<String, u32> = HashMap::new();
        for raw in &saved.items {
            // The time is part of a message, so the same text at another time is another message.
            let mark = fingerprint(&[raw]);
            let count = seen.entry(mark.clone()).or_default();
            *count += 1;
            let id = if *count == 1 { mark } else { format!("{mark}.{count}") };
            let at = Fields::of(raw).and_then(|said| {
                said.get("timestamp").and_then(|raw| time::of_json(raw, &out.options.zone))
            });
            let again = !known.insert(id.clone());
            items.push(Item { id, at, raw, again });
        }
    }
    // Two histories are merged by time; a single one is already in order.
    if saved.len() > 1 && items.iter().all(|item| item.at.is_some()) {
        items.sort_by_key(|item| item.at);
    }
    items
}
