//! The session file and the index, as other programs read and write them.
//!
//! Known fields are written as those programs expect them: `metadata`, and messages with `id`,
//! `role`, a `content` that is a string, and `timestamp`. If a message has more than text, its
//! blocks are in `blocks`; the header of the session is in `rethread`. So a session survives with
//! its tool calls even if `.rethread/` is lost. Unknown fields of another program are kept and
//! written again.

use std::path::Path;

use jiff::Timestamp;
use rethread_core::entry::fingerprint;
use rethread_core::limits::MESSAGE_BYTES_MAX;
use rethread_core::merge::Likeness;
use rethread_core::raw::Fields;
use rethread_core::session::{ExtraFields, ProfileChange};
use rethread_core::summary::{RESUMING, resuming};
use rethread_core::world::rfc3339;
use rethread_core::{Block, BlockKind, Body, Entry, EntryId, Header, Message, Raw, Role, Session};

use super::disk::sum;

/// The kind of an entry with a message that we cannot parse, kept as it was written.
const FOREIGN: &str = "foreign";

/// The prefix of paths of fields in `metadata`.
pub(crate) const METADATA: &str = "metadata.";

/// Another program's id and name for a session, the time it was last active, and its summary.
pub(super) const ID: &str = "metadata.id";
pub(super) const NAME: &str = "metadata.name";
pub(crate) const ACTIVE: &str = "metadata.lastActivityAt";
pub(crate) const SUMMARY: &str = "contextSummary";

/// The name that the session had here when another program called it so. A path that begins with `/`
/// is ours, unless `metadata.` or `/` follows.
const CALLED_SO: &str = "/called-so";

/// Bytes of a file apart from its messages: they become part of the header, which every list reads.
/// The tests of this crate use less, so that they can exceed it.
const SAYS_BYTES_MAX: usize = if cfg!(test) { 256 << 10 } else { 16 << 20 };

/// Bytes of one of its messages: a larger one could not be read back.
const SAID_BYTES_MAX: usize = if cfg!(test) { 2 << 20 } else { 3 * MESSAGE_BYTES_MAX };

/// A provider or model that is not known.
const UNKNOWN: &str = "unknown";

/// Whether this is a valid name of a session file: `[a-zA-Z0-9_.-]+`, not reserved, and not leading
/// elsewhere.
pub(super) fn is_stem(stem: &str) -> bool {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let reserved = ["index", "metadata", "last_session"];
    !matches!(stem, "" | ".")
        && stem.chars().all(valid)
        && !stem.contains("..")
        && !reserved.contains(&stem.to_ascii_lowercase().as_str())
}

/// The name of a session's file: as another program named it, otherwise its name made valid,
/// otherwise its time.
pub(crate) fn stem_of(header: &Header) -> String {
    let theirs = called(header, ID).and_then(Raw::as_text).filter(|stem| is_stem(stem));
    theirs.unwrap_or_else(|| header.name.ascii_id(header.created_at, header.id))
}

/// What other programs show a session as: one of them may have set that, otherwise its name.
pub(super) fn shown_name(header: &Header) -> String {
    called(header, NAME).and_then(Raw::as_text).unwrap_or_else(|| header.name.to_string())
}

/// What another program calls a session, unless it got another name here since.
fn called<'a>(header: &'a Header, path: &str) -> Option<&'a Raw> {
    // Earlier versions did not write it down.
    let called_so = header.extra.text(CALLED_SO);
    let holds = called_so.is_none_or(|called_so| called_so == header.own_name().as_str());
    header.extra.get(path).filter(|_| holds)
}

/// Sets what another program calls a session, where that does not follow from its name: its file,
/// and what it shows.
pub(crate) fn set_called(header: &mut Header, stem: &str, shown: &str) {
    let own = header.own_name().clone();
    let is_own_id = own.ascii_id(header.created_at, header.id) == stem;
    let id = (!is_own_id).then(|| Raw::of(&stem));
    let name = (own.as_str() != shown).then(|| Raw::of(&shown));
    let called_so = id.as_ref().or(name.as_ref()).map(|_| Raw::of(&own));
    for (path, raw) in [(ID, id), (NAME, name), (CALLED_SO, called_so)] {
        header.extra.set(path, raw);
    }
}

/// A session file that was read.
#[derive(Debug)]
pub(crate) struct Visible {
    /// `metadata.id`.
    pub(super) id: String,
    /// `metadata.name`.
    pub(super) name: Option<String>,
    /// The fields it has in common with a profile. One that it leaves out means nothing.
    pub(super) profile: ProfileChange,
    pub(super) created_at: Option<Timestamp>,
    pub(super) last_activity_at: Option<Timestamp>,
    pub(super) messages: Vec<VisibleMessage>,
    /// `metadata` as it is in the file.
    pub(crate) metadata: Raw,
    /// The beginning of the file's SHA-256.
    pub(super) sum: String,
    /// The header we wrote into it, if we did.
    pub(crate) ours: Option<Header>,
    /// The fields we do not know.
    pub(super) extra: ExtraFields,
}

/// A message of a session file.
#[derive(Debug)]
pub(super) struct VisibleMessage {
    pub(super) id: Option<EntryId>,
    pub(super) at: Option<Timestamp>,
    pub(super) body: Body,
}

/// Why a file cannot be read as a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoSession {
    pub(super) why: String,
    /// It may have been one. Otherwise it is something else, and complete.
    pub(super) broken: bool,
}

/// Reads a session file.
pub(super) fn read(path: &Path) -> Result<Visible, NoSession> {
    let bytes = std::fs::read(path);
    let broken = |error| NoSession { why: format!("it cannot be read: {error}"), broken: true };
    let visible = parse(&String::from_utf8_lossy(&bytes.map_err(broken)?))?;
    let says = visible.metadata.get().len() + Raw::of(&visible.extra).get().len();
    let large = |said: &VisibleMessage| said.body.json().len() > SAID_BYTES_MAX;
    let (what, max) = match visible.messages.iter().position(large) {
        _ if says > SAYS_BYTES_MAX => {
            ("its fields other than messages have".to_owned(), SAYS_BYTES_MAX)
        }
        Some(seq) => (format!("message {seq} has"), SAID_BYTES_MAX),
        None => return Ok(visible),
    };
    Err(NoSession { why: format!("{what} more than {max} bytes"), broken: false })
}

/// Parses a session file.
fn parse(text: &str) -> Result<Visible, NoSession> {
    let sum = sum(text.as_bytes());
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let broken = |why: String| NoSession { why, broken: true };
    let other = |why: &str| NoSession { why: format!("it is not a session: {why}"), broken: false };
    if text.trim().is_empty() {
        return Err(broken("it is empty".into()));
    }
    let mut top = Fields::parse(text).map_err(|error| match Raw::parse(text.into()) {
        Ok(_) => other("it is not an object"),
        Err(_) => broken(format!("it is not JSON, or not all of it is there: {error}")),
    })?;
    let says = top.take("metadata").ok_or_else(|| other("it has no `metadata`"))?;
    let messages = top.take("messages");
    // With only one of the two it is not a session; with both it was meant to be one.
    let wrong = |why: String| match &messages {
        Some(_) => broken(why),
        None => other(&why),
    };
    let metadata = Fields::parse(says.get());
    let mut metadata = metadata.map_err(|error| wrong(format!("`metadata`: {error}")))?;
    let id = metadata.take_text("id");
    let id = id.ok_or_else(|| wrong("`metadata.id` is not a text".into()))?;
    let messages = messages.ok_or_else(|| broken("it has no `messages`".into()))?;
    let messages = serde_json::from_str::<Vec<Raw>>(messages.get());
    let messages = messages.map_err(|error| broken(format!("`messages`: {error}")))?;
    let ours = top.take("rethread").and_then(|raw| serde_json::from_str(raw.get()).ok());
    let known = |text: &String| !text.is_empty() && text != UNKNOWN;
    let [provider, model] =
        ["provider", "model"].map(|name| metadata.take_text(name).filter(known).map(Some));
    let description = metadata.take_text("description").map(Some);
    let profile = ProfileChange { description, provider, model, ..ProfileChange::default() };
    let name = metadata.take_text("name");
    // The others are derived from the messages.
    let [created_at, last_activity_at, ..] =
        ["createdAt", "lastActivityAt", "messageCount", "firstMessage"]
            .map(|name| metadata.take(name).as_ref().and_then(time));
    // A summary that begins like this is generated each time the file is written.
    let summary = top.take(SUMMARY);
    let summary = summary.filter(|raw| !raw.as_text().is_some_and(|s| s.starts_with(RESUMING)));
    // A field that only looks like one of `metadata`, or of ours.
    let path = |name: String| match name.starts_with(METADATA) || name.starts_with('/') {
        true => format!("/{name}"),
        false => name,
    };
    let inside = metadata.0.into_iter().map(|(name, raw)| (format!("{METADATA}{name}"), raw));
    let beside = top.0.into_iter().map(|(name, raw)| (path(name), raw));
    let summary = summary.map(|raw| (SUMMARY.to_owned(), raw));
    Ok(Visible {
        id,
        name,
        profile,
        created_at,
        last_activity_at,
        messages: messages.iter().map(said).collect(),
        metadata: says,
        sum,
        ours,
        extra: ExtraFields(inside.chain(beside).chain(summary).collect()),
    })
}

/// A time in the formats that programs write: RFC 3339, or milliseconds. Whole milliseconds are
/// kept.
fn time(raw: &Raw) -> Option<Timestamp> {
    let at = match raw.as_text() {
        Some(text) => text.parse().ok()?,
        None => Timestamp::from_millisecond(raw.get().parse::<f64>().ok()? as i64).ok()?,
    };
    Timestamp::from_millisecond(at.as_millisecond()).ok()
}

fn said(raw: &Raw) -> VisibleMessage {
    let mut fields = Fields::parse(raw.get()).unwrap_or_default();
    let id = fields.take("id");
    let id = id.map(|id| id.as_text().unwrap_or_else(|| id.get().into()));
    let at = fields.take("timestamp").as_ref().and_then(time);
    let message = with_blocks(&fields).or_else(|| serde_json::from_str(&fields.json()).ok());
    let foreign = || Body::Unknown { kind: FOREIGN.into(), raw: raw.clone() };
    let body = message.map_or_else(foreign, Body::Message);
    VisibleMessage { id: id.and_then(|id| EntryId::new(id).ok()), at, body }
}

/// The message with its `blocks`, if they match its text.
fn with_blocks(fields: &Fields) -> Option<Message> {
    let mut whole = fields.clone();
    let blocks = whole.take("blocks")?;
    let (_, content) = whole.0.iter_mut().find(|(name, _)| name == "content")?;
    let text = std::mem::replace(content, blocks).as_text()?;
    let message: Message = serde_json::from_str(&whole.json()).ok()?;
    (shown(&message) == text).then_some(message)
}

/// The text of a message: its texts and results; if there are none, its calls.
fn shown(message: &Message) -> String {
    let texts = |block: &Block| match &block.kind {
        BlockKind::Text(text) => Some(text.clone()),
        BlockKind::ToolResult(result) => Some(result.text()),
        _ => None,
    };
    let deeds = |block: &Block| match &block.kind {
        BlockKind::ToolUse(call) => Some(format!("[tool call: {}]", call.name)),
        BlockKind::Image { .. } => Some("[image]".into()),
        _ => None,
    };
    let parts: Vec<String> = message.content.iter().filter_map(texts).collect();
    match parts.iter().all(String::is_empty) {
        false => parts.join("\n\n"),
        true => message.content.iter().filter_map(deeds).collect::<Vec<_>>().join("\n"),
    }
}

/// What is compared of a message: its role, and its visible text.
pub(super) fn likeness(body: &Body) -> Option<Likeness> {
    match body {
        Body::Message(message) => Some(fingerprint(message.role.as_str(), &shown(message))),
        Body::Unknown { kind, raw } if kind == FOREIGN => Some(fingerprint(FOREIGN, raw.get())),
        _ => None,
    }
}

/// A message as other programs read it; `None` if the entry is not a message.
fn message(entry: &Entry) -> Option<String> {
    let message = match &entry.body {
        Body::Message(message) => message,
        Body::Unknown { kind, raw } if kind == FOREIGN => return Some(raw.get().to_owned()),
        _ => return None,
    };
    let mut fields = Fields::parse(&entry.body.json()).unwrap_or_default();
    let content = fields.take("content").unwrap_or_else(|| Raw::of(&""));
    for ours in ["role", "id", "timestamp", "blocks"] {
        fields.take(ours);
    }
    let plain = content.get().starts_with('"');
    let text = if plain { content.clone() } else { Raw::of(&shown(message)) };
    let known = [
        ("id", Raw::of(&entry.id)),
        ("role", Raw::of(&message.role)),
        ("content", text),
        ("timestamp", Raw::of(&rfc3339(entry.at))),
    ];
    let blocks = (!plain).then_some(("blocks", content));
    let known = known.into_iter().chain(blocks).map(|(name, raw)| (name.to_owned(), raw));
    Some(Fields(known.chain(fields.0).collect()).json())
}

/// A session file, while it is written.
#[derive(Default)]
pub(super) struct Draft {
    messages: String,
    /// The numbers of all messages, and of those of the user and of the model.
    shown: u64,
    user: u64,
    assistant: u64,
    /// The last model that a reply names, as `provider/model`; and whether no other message has
    /// followed, except results.
    used: Option<String>,
    is_latest: bool,
    /// The latest summary, unless something was said since.
    summary: Option<String>,
}

impl Draft {
    pub(super) fn add(&mut self, entry: &Entry) {
        match &entry.body {
            Body::Summary(summary) => self.summary = Some(summary.text.clone()),
            Body::Restored(restored) => self.summary = Some(restored.summary.clone()),
            _ => {}
        }
        let Some(json) = message(entry) else { return };
        self.summary = None;
        self.messages += if self.shown == 0 { "\n" } else { ",\n" };
        self.messages += &json;
        self.shown += 1;
        let Some(message) = entry.body.message() else { return };
        self.user += u64::from(message.role == Role::User);
        self.assistant += u64::from(message.role == Role::Assistant);
        if matches!(message.role, Role::User | Role::Assistant) {
            self.is_latest = message.model.is_some();
            self.used = message.model.clone().or(self.used.take());
        }
    }

    /// The object `metadata`, and the whole file.
    pub(super) fn finish(&self, session: &Session) -> (String, String) {
        let Header { profile, created_at, extra, .. } = &session.header;
        // Another program says who answered in `metadata` only, so that is in the profile.
        let used = self.used.as_ref().filter(|_| self.is_latest || profile.model.is_none());
        let used = used.map(|used| used.split_once('/').unwrap_or((UNKNOWN, used)));
        let (provider, model) = used.unzip();
        let provider = provider.or(profile.provider.as_deref()).unwrap_or(UNKNOWN);
        let model = model.or(profile.model.as_deref()).unwrap_or(UNKNOWN);
        let name = called(&session.header, NAME).cloned();
        let known = [
            ("id", Some(Raw::of(&stem_of(&session.header)))),
            ("name", Some(name.unwrap_or_else(|| Raw::of(&session.header.name)))),
            ("description", profile.description.as_ref().map(Raw::of)),
            ("createdAt", Some(Raw::of(&rfc3339(*created_at)))),
            ("lastActivityAt", Some(Raw::of(&rfc3339(session.last_activity_at)))),
            ("messageCount", Some(Raw::of(&self.shown))),
            ("firstMessage", Some(Raw::of(&session.first_message))),
            ("provider", Some(Raw::of(&provider))),
            ("model", Some(Raw::of(&model))),
        ];
        let known = known.into_iter().filter_map(|(name, raw)| Some((name.to_owned(), raw?)));
        let mut metadata = Fields(known.collect());
        let standard = || Raw::of(&resuming(session, self.user, self.assistant));
        let summary = self.summary.as_ref().map(Raw::of);
        let summary = extra.get(SUMMARY).cloned().or(summary).unwrap_or_else(standard);
        let mut rest = Fields(vec![(SUMMARY.to_owned(), summary)]);
        for (path, raw) in &extra.0 {
            match path.strip_prefix(METADATA) {
                _ if [ID, NAME, ACTIVE, SUMMARY, CALLED_SO].contains(&path.as_str()) => {}
                Some(name) => metadata.0.push((name.to_owned(), raw.clone())),
                None => rest.0.push((path.strip_prefix('/').unwrap_or(path).into(), raw.clone())),
            }
        }
        let ours = Header { extra: ExtraFields::default(), ..session.header.clone() };
        rest.0.push(("rethread".to_owned(), Raw::of(&ours)));
        let (metadata, messages, rest) = (metadata.json(), &self.messages, rest.json());
        let rest = &rest[1..];
        let file =
            format!("{{\n\"metadata\": {metadata},\n\"messages\": [{messages}\n],\n{rest}\n");
        (metadata, file)
    }
}

/// When a session was last active, according to another program.
pub(super) fn active_at(header: &Header) -> Option<Timestamp> {
    header.extra.get(ACTIVE).and_then(time)
}

/// When a session was last active, according to `metadata`.
pub(super) fn last_activity(metadata: &str) -> Option<Timestamp> {
    Fields::parse(metadata).ok()?.get("lastActivityAt").and_then(time)
}

/// The sessions in an index, with their fields.
pub(super) fn index_entries(text: &str) -> Vec<(String, String)> {
    let sessions = Fields::parse(text).ok().and_then(|mut index| index.take("sessions"));
    let sessions = sessions.and_then(|raw| Fields::parse(raw.get()).ok()).unwrap_or_default();
    sessions.0.into_iter().map(|(stem, raw)| (stem, raw.get().to_owned())).collect()
}

/// The index of these sessions.
pub(super) fn index(sessions: &[(String, String)], now: Timestamp) -> String {
    let line = |(stem, metadata): &(String, String)| format!("\n    \"{stem}\": {metadata}");
    let lines = sessions.iter().map(line).collect::<Vec<_>>().join(",");
    let close = if lines.is_empty() { "" } else { "\n  " };
    let now = rfc3339(now);
    format!(
        "{{\n  \"version\": \"1.0\",\n  \"sessions\": {{{lines}{close}}},\n  \"updatedAt\": \"{now}\"\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::measure::Measure;
    use rethread_core::store::{Filter, Upkeep};
    use rethread_core::{Fixed, Owner, Store, Tally};
    use serde_json::json;

    use super::*;
    use crate::files::{FilesLimit, FilesStore};

    fn entry(json: &str) -> Entry {
        let body = Body::parse("message", json).expect("a message");
        let id = EntryId::new("e1").expect("an id");
        let at = "2025-01-04T14:32:15.001Z".parse().expect("a time");
        Entry { seq: 0, at, id, body, measure: Measure::default(), tally: Tally::default() }
    }

    #[test]
    fn a_message_comes_back_with_its_blocks() {
        for json in [
            r#"{"role":"user","content":"hello"}"#,
            r#"{"role":"user","content":""}"#,
            r#"{"role":"user","content":"cut \ud83d"}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"c","name":"n","input":{"a":1e2}}],"model":"p/m"}"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"n","input":{}}]}"#,
            r#"{"role":"tool","content":[{"type":"tool_result","tool_use_id":"c","content":"found"}],"zebra":1}"#,
        ] {
            let entry = entry(json);
            let visible = message(&entry).expect("a message");
            let value: serde_json::Value =
                serde_json::from_str(&visible.replace("\\ud83d", "")).expect("JSON");
            assert!(value["content"].is_string(), "{visible}");
            assert_eq!(value["timestamp"], "2025-01-04T14:32:15.001Z");
            let back = said(&Raw::parse(visible).expect("JSON"));
            assert_eq!((back.id, back.at), (Some(entry.id.clone()), Some(entry.at)));
            assert_eq!(back.body.json(), json);
        }
    }

    #[test]
    fn another_programs_blocks_are_its_own() {
        let raw = r#"{"role":"user","content":"hello","blocks":[{"type":"text","text":"bye"}]}"#;
        let Body::Message(message) = said(&Raw::parse(raw.into()).expect("JSON")).body else {
            panic!("it is a message");
        };
        assert_eq!(message.plain_text(), "hello");
        assert_eq!(message.extra.len(), 1);
    }

    #[test]
    fn a_message_that_cannot_be_parsed_is_written_again_as_it_was() {
        let raw = r#"{"role":"narrator","content":"meanwhile","id":7}"#;
        let said = said(&Raw::parse(raw.into()).expect("JSON"));
        let entry = Entry { body: said.body, ..entry(r#"{"role":"user","content":"x"}"#) };
        assert_eq!(message(&entry).as_deref(), Some(raw));
    }

    #[test]
    fn what_cannot_be_a_session_says_why() {
        let why = |text| parse(text).expect_err("no session");
        let broken = |why: &str| NoSession { why: why.into(), broken: true };
        let other = |why| NoSession { why: format!("it is not a session: {why}"), broken: false };
        assert_eq!(why(""), broken("it is empty"));
        let cut = why(r#"{"metadata":{"id":"a""#);
        assert!(cut.broken && cut.why.starts_with("it is not JSON"), "{cut:?}");
        assert_eq!(why("{}"), other("it has no `metadata`"));
        assert_eq!(why("[1]"), other("it is not an object"));
        assert_eq!(why(r#"{"metadata":{}}"#), other("`metadata.id` is not a text"));
        let meant = r#"{"metadata":{},"messages":[]}"#;
        assert_eq!(why(meant), broken("`metadata.id` is not a text"));
        assert_eq!(why(r#"{"metadata":{"id":"a"}}"#), broken("it has no `messages`"));
    }

    #[test]
    fn a_stem_stays_in_the_directory() {
        for good in ["2025-01-04-14-32-15-001-aB_d", "my.session", "A"] {
            assert!(is_stem(good), "{good}");
        }
        for bad in
            ["", "..", "a..b", "a/b", "a\\b", "index", "Metadata", "last_session", "é", "a b"]
        {
            assert!(!is_stem(bad), "{bad}");
        }
    }

    #[test]
    fn a_file_that_says_more_than_can_be_written_down_is_left_alone_and_the_others_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |stem: &str, more: usize, said: usize| {
            let text = json!({
                "metadata": {"id": stem}, "theirs": "x".repeat(more),
                "messages": [{"role": "user", "content": "y".repeat(said)}],
            });
            let path = folder.path().join(format!("{stem}.json"));
            std::fs::write(path, text.to_string()).expect("written");
        };
        write("fits", SAYS_BYTES_MAX - 100, SAID_BYTES_MAX - 100);
        write("says", SAYS_BYTES_MAX, 1);
        write("said", 1, SAID_BYTES_MAX);
        let world = Arc::new(Fixed::default());
        for _ in 0..2 {
            let store = FilesStore::open(folder.path(), FilesLimit::default(), world.clone());
            let store = store.expect("a store");
            let page = store.list(&Owner::local(), &Filter::default(), None, 9).expect("listed");
            let names: Vec<_> = page.sessions.iter().map(|s| s.header.name.as_str()).collect();
            assert_eq!(names, ["fits"]);
            let found = store.check(false).expect("checked");
            let found: Vec<String> = found.into_iter().map(|finding| finding.what).collect();
            assert_eq!(
                found,
                [
                    format!(
                        "said.json is left alone: message 0 has more than {SAID_BYTES_MAX} bytes"
                    ),
                    format!(
                        "says.json is left alone: its fields other than messages have more than \
                         {SAYS_BYTES_MAX} bytes"
                    ),
                ]
            );
        }
    }
}
