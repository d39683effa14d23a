//! An entry of a log, and the running totals.
//!
//! An entry is written once. Its [`Body`] is the truth; its [`Measure`] and its [`Tally`] are
//! computed from the bodies when it is appended and stored with it, so that listing, planning a
//! context and showing counts never read a log from its beginning.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::limits::ENTRY_ID_BYTES_MAX;
use crate::measure::{Measure, measure};
use crate::message::{Message, Role, Usage};
use crate::name::{Key, NameError, SessionId, is_invisible};
use crate::raw::Raw;
use crate::shown::Shown;
use crate::world::rfc3339;

/// Makes an append idempotent: the same id is never stored twice in one session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct EntryId(String);

impl EntryId {
    /// Checks an id.
    ///
    /// # Errors
    ///
    /// [`NameError`] if it is empty, longer than 128 bytes or contains invisible characters.
    pub fn new(text: impl Into<String>) -> Result<EntryId, NameError> {
        const WHAT: &str = "entry id";
        let text = text.into();
        if text.is_empty() {
            return Err(NameError::Empty { what: WHAT, given: false });
        }
        if text.len() > ENTRY_ID_BYTES_MAX {
            let length = text.len();
            return Err(NameError::TooLong { what: WHAT, length, max: ENTRY_ID_BYTES_MAX });
        }
        if text.chars().any(is_invisible) {
            let found = "invisible characters".into();
            return Err(NameError::Forbidden { what: WHAT, found });
        }
        Ok(EntryId(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<uuid::Uuid> for EntryId {
    fn from(id: uuid::Uuid) -> EntryId {
        EntryId(id.hyphenated().to_string())
    }
}

impl<'de> Deserialize<'de> for EntryId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<EntryId, D::Error> {
        EntryId::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// One entry of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its position: 0 for the first.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Makes a repeated append harmless.
    pub id: EntryId,
    /// What happened.
    pub body: Body,
    /// Its size, and the stubs of its tool results.
    pub measure: Measure,
    /// The session's totals, including this entry.
    pub tally: Tally,
}

/// An entry that has no position yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// Makes a repeated append harmless.
    pub id: EntryId,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub body: Body,
    /// Its size, and the stubs of its tool results.
    pub measure: Measure,
}

impl NewEntry {
    /// An entry that can be measured by itself: results in it belong to no known call.
    pub fn new(id: EntryId, at: Timestamp, body: Body) -> NewEntry {
        let measure = measure(&body, |_| None);
        NewEntry { id, at, body, measure }
    }

    /// Gives the entry its position after what `before` counts.
    pub fn placed(&self, before: &Tally) -> Entry {
        Entry {
            seq: before.entries,
            at: self.at,
            id: self.id.clone(),
            body: self.body.clone(),
            measure: self.measure.clone(),
            tally: before.with(Effect::of(&self.body, &self.measure)),
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Body {
    /// A message.
    Message(Message),
    /// A turn ended.
    Finished(Finished),
    /// The turn was ended while the model still called tools.
    RoundLimit(RoundLimit),
    /// The conversation was summarised.
    Summary(Summarized),
    /// This session continues another from its summary.
    Restored(Box<Restored>),
    /// This session was started new, or as a copy of another.
    Started(Started),
    /// The context starts again after this entry.
    Cleared {
        /// The clear that was in effect until now.
        before: Option<Boundary>,
    },
    /// A clear was undone.
    Undone {
        /// The clear that is in effect again.
        before: Option<Boundary>,
    },
    /// A turn is left out of every context from here on.
    LeftOut(LeftOut),
    /// The results of finished turns are shown in their thin form from here on.
    Thinned(Thinned),
    /// Which lines contexts show of results that were appended without a decision.
    Decided(Decided),
    /// An unknown kind of entry, kept byte for byte.
    Unknown {
        kind: String,
        /// Its body.
        raw: Raw,
    },
}

/// A turn that is no longer sent to models: a provider refused it, or it was asked again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The message that opened the turn.
    pub turn: u64,
    /// Why, for people.
    pub why: String,
}

/// Why a turn was ended while the model still called tools: its rounds were used up, or it repeated
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundLimit {
    /// The tool it called repeatedly with the same arguments and the same result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<String>,
}

impl RoundLimit {
    /// The note that follows the last text of the turn.
    pub fn notice(&self) -> String {
        match &self.repeated {
            Some(tool) => {
                format!("[Stopped: the same call of `{tool}` gave the same result three times]")
            }
            None => "[Tool call limit reached]".into(),
        }
    }
}

/// The turns whose results are shown in their thin form from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinned {
    /// The first entry of the turns that are thinned.
    pub from: u64,
    /// Their last entry.
    pub through: u64,
    /// Why this costs nothing, or pays.
    pub why: Thinning,
}

impl Thinned {
    /// Whether it thins the turn that begins with this entry.
    pub fn covers(&self, turn: u64) -> bool {
        (self.from..=self.through).contains(&turn)
    }
}

/// Which lines contexts show, from here on, of results that were appended without a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The last entry with such a result. Results that are not listed are shown independently of
    /// earlier ones.
    pub through: u64,
    /// Decisions that depend on earlier results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<DecidedResult>,
}

/// Which lines contexts show of one result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedResult {
    /// Its entry.
    pub seq: u64,
    /// Its index among the results of the entry.
    #[serde(default)]
    pub place: usize,
    /// The lines.
    pub shown: Shown,
}

/// Why results are thinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinning {
    /// The provider's cache had expired: sending them again costs the same in any form.
    Cold,
    /// They are so much shorter that rewriting the end of the cache pays.
    Pays,
}

impl Thinning {
    /// As a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Thinning::Cold => "cold",
            Thinning::Pays => "pays",
        }
    }
}

/// Where a context begins after a clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// The clear.
    pub seq: u64,
    /// Messages up to it.
    pub messages: u64,
    /// Tokens up to it.
    pub tokens: u64,
}

/// How a turn ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Finished {
    /// Rounds it took.
    pub rounds: u32,
    /// Milliseconds from the question to the end of the answer.
    pub ms: u64,
    /// What the provider charged for all of it.
    pub usage: Usage,
    /// The model that answered, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A summary of the conversation up to this entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summarized {
    /// The text between the markers.
    pub text: String,
    /// What wrote it: `provider/model`, or `extractive`.
    pub by: String,
    /// What the provider charged for it.
    #[serde(default)]
    pub usage: Usage,
}

/// How a session came from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Started for a key that pointed at another session before.
    New,
    /// A copy up to an entry.
    Fork,
    /// Continued from a summary, to save tokens.
    Compact,
    /// Continued from a summary, at a later time.
    Resume,
}

impl Origin {
    /// The name of the verb.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::New => "new",
            Origin::Fork => "fork",
            Origin::Compact => "compact",
            Origin::Resume => "resume",
        }
    }

    /// Whether the new session replaces the other in lists.
    pub fn continues(self) -> bool {
        matches!(self, Origin::Compact | Origin::Resume)
    }
}

/// How this session was started, and what `undo` goes back to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// How.
    pub origin: Origin,
    /// Where the keys pointed before.
    pub from: Option<SessionId>,
    /// The keys that were moved here.
    #[serde(default)]
    pub keys: Vec<Key>,
}

/// Everything that a session needs to continue another from its summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restored {
    /// How, from which session, and which keys were moved.
    pub started: Started,
    /// The summary it continues from.
    pub summary: String,
    /// The last complete turns of the other session, verbatim.
    #[serde(default)]
    pub tail: Vec<CarriedMessage>,
    /// The prompt that was sent to the model.
    pub prompt: String,
    /// The model's answer.
    pub acknowledgment: String,
    /// What the provider charged for it.
    #[serde(default)]
    pub usage: Usage,
    /// Milliseconds it took.
    #[serde(default)]
    pub ms: u64,
    /// The model that acknowledged it, as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What is known about the other session, even after it was deleted.
    #[serde(default)]
    pub previous: PreviousSession,
}

/// What a session records about the one it continues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct PreviousSession {
    pub id: String,
    /// Its turns.
    pub queries: u64,
    /// Tokens it took.
    pub tokens: u64,
    /// The file it was saved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A message carried over from another session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct CarriedMessage {
    /// Its position there, as `<id8>:<seq>`.
    #[serde(rename = "ref")]
    pub reference: String,
    pub message: Message,
}

/// A body that could not be parsed.
#[derive(Debug, thiserror::Error)]
#[error("not a valid `{kind}` entry")]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct BodyError {
    pub kind: String,
    /// The parser's error.
    #[source]
    pub source: serde_json::Error,
}

impl Body {
    /// The kind of this entry.
    pub fn kind(&self) -> &str {
        match self {
            Body::Message(_) => "message",
            Body::Finished(_) => "finished",
            Body::RoundLimit(_) => "round_limit",
            Body::Summary(_) => "summary",
            Body::Restored(_) => "restored",
            Body::Started(_) => "started",
            Body::Cleared { .. } => "cleared",
            Body::Undone { .. } => "undone",
            Body::LeftOut(_) => "left_out",
            Body::Thinned(_) => "thinned",
            Body::Decided(_) => "decided",
            Body::Unknown { kind, .. } => kind,
        }
    }

    /// The body as JSON, without its kind. The same body always gives the same bytes.
    pub fn json(&self) -> String {
        let written = match self {
            Body::Message(message) => serde_json::to_string(message),
            Body::Finished(finished) => serde_json::to_string(finished),
            Body::RoundLimit(limit) => serde_json::to_string(limit),
            Body::Summary(summary) => serde_json::to_string(summary),
            Body::Restored(restored) => serde_json::to_string(restored),
            Body::Started(started) => serde_json::to_string(started),
            Body::Cleared { before } | Body::Undone { before } => {
                serde_json::to_string(&Clear { before: *before })
            }
            Body::LeftOut(left_out) => serde_json::to_string(left_out),
            Body::Thinned(thinned) => serde_json::to_string(thinned),
            Body::Decided(decided) => serde_json::to_string(decided),
            Body::Unknown { raw, .. } => Ok(raw.get().into()),
        };
        written.expect("plain data is always valid JSON")
    }

    /// Parses a body from its kind and its JSON.
    ///
    /// # Errors
    ///
    /// [`BodyError`] if the JSON does not fit the kind. An unknown kind is not an error.
    pub fn parse(kind: &str, json: &str) -> Result<Body, BodyError> {
        let body = match kind {
            "message" => serde_json::from_str(json).map(Body::Message),
            "finished" => serde_json::from_str(json).map(Body::Finished),
            "round_limit" => serde_json::from_str(json).map(Body::RoundLimit),
            "summary" => serde_json::from_str(json).map(Body::Summary),
            "restored" => {
                serde_json::from_str(json).map(|restored| Body::Restored(Box::new(restored)))
            }
            "started" => serde_json::from_str(json).map(Body::Started),
            "cleared" => {
                serde_json::from_str::<Clear>(json).map(|c| Body::Cleared { before: c.before })
            }
            "undone" => {
                serde_json::from_str::<Clear>(json).map(|c| Body::Undone { before: c.before })
            }
            "left_out" => serde_json::from_str(json).map(Body::LeftOut),
            "thinned" => serde_json::from_str(json).map(Body::Thinned),
            "decided" => serde_json::from_str(json).map(Body::Decided),
            _ => Raw::parse(json.into()).map(|raw| Body::Unknown { kind: kind.into(), raw }),
        };
        body.map_err(|source| BodyError { kind: kind.into(), source })
    }

    /// The message, if it is one.
    pub fn message(&self) -> Option<&Message> {
        match self {
            Body::Message(message) => Some(message),
            _ => None,
        }
    }

    /// How the session was started, if this entry says so.
    pub fn started(&self) -> Option<&Started> {
        match self {
            Body::Started(started) => Some(started),
            Body::Restored(restored) => Some(&restored.started),
            _ => None,
        }
    }
}

/// The fingerprint of a body: 16 bytes of the SHA-256 of its kind and its JSON.
pub fn fingerprint(kind: &str, json: &str) -> [u8; 16] {
    let mut hasher = Sha256::new();
    hasher.update(kind);
    hasher.update([0]);
    hasher.update(json);
    let digest = hasher.finalize();
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    short
}

#[derive(Serialize, Deserialize)]
struct Clear {
    before: Option<Boundary>,
}

/// Running totals over all entries up to and including one.
///
/// Each entry stores its tally, so the totals of a session are in its last entry, and those of any
/// range are the difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Entries: the seq the next one will get.
    pub entries: u64,
    /// Messages of the user, the assistant and tools.
    pub messages: u64,
    /// Turns.
    pub queries: u64,
    /// Tokens of all messages.
    pub tokens: u64,
    /// The clear that is in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<Boundary>,
    /// The system message that is in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<u64>,
    /// The entry that says how this session was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// The latest summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<u64>,
    /// The first message of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// The message that opened the latest turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
}

/// What an entry adds to a tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    tokens: u32,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    System,
    Message { opens_turn: bool },
    Summary,
    Start,
    Clear,
    Undo(Option<Boundary>),
    Nothing,
}

impl Effect {
    /// What an entry with this body and size adds.
    pub fn of(body: &Body, measure: &Measure) -> Effect {
        let what = match body {
            Body::Message(message) if message.role == Role::System => What::System,
            Body::Message(message) => What::Message { opens_turn: message.opens_turn() },
            Body::Summary(_) => What::Summary,
            Body::Restored(_) | Body::Started(_) => What::Start,
            Body::Cleared { .. } => What::Clear,
            Body::Undone { before } => What::Undo(*before),
            Body::Finished(_)
            | Body::RoundLimit(_)
            | Body::LeftOut(_)
            | Body::Thinned(_)
            | Body::Decided(_)
            | Body::Unknown { .. } => What::Nothing,
        };
        Effect { tokens: measure.tokens, what }
    }
}

impl Tally {
    /// The tally with one more entry.
    #[must_use]
    pub fn with(&self, effect: Effect) -> Tally {
        let mut tally = *self;
        let seq = self.entries;
        tally.entries += 1;
        tally.tokens += u64::from(effect.tokens);
        match effect.what {
            What::System => tally.system = Some(seq),
            What::Message { opens_turn } => {
                tally.messages += 1;
                if opens_turn {
                    tally.queries += 1;
                    tally.first = tally.first.or(Some(seq));
                    tally.turn = Some(seq);
                }
            }
            What::Summary => tally.summary = Some(seq),
            What::Start => tally.started = Some(seq),
            What::Clear => {
                tally.boundary =
                    Some(Boundary { seq, messages: tally.messages, tokens: tally.tokens });
            }
            What::Undo(before) => tally.boundary = before,
            What::Nothing => {}
        }
        tally
    }

    /// Where the context begins: the first seq it may contain.
    pub fn begins(&self) -> u64 {
        self.boundary.map_or(0, |boundary| boundary.seq + 1)
    }
}

impl Serialize for Entry {
    /// One flat object: `seq`, `at`, `id` and `kind`, then the fields of the body. Fields of
    /// another program's message that have one of these four names are under `foreign`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ours = |key: &str| matches!(key, "seq" | "at" | "id" | "kind");
        let body = match &self.body {
            Body::Message(message) if message.extra.iter().any(|(key, _)| ours(key)) => {
                let mut message = message.clone();
                let fields = message.extra.extract_if(.., |(key, _)| ours(key));
                let fields: Vec<String> = fields
                    .map(|(key, raw)| format!("{}:{}", Raw::of(&key).get(), raw.get()))
                    .collect();
                let foreign = Raw::parse(format!("{{{}}}", fields.join(",")));
                message.extra.push(("foreign".into(), foreign.map_err(serde::ser::Error::custom)?));
                Body::Message(message).json()
            }
            body => body.json(),
        };
        let head = serde_json::json!({
            "seq": self.seq, "at": rfc3339(self.at), "id": self.id, "kind": self.body.kind(),
        })
        .to_string();
        let text = match body.trim().strip_prefix('{').map(str::trim_start) {
            Some("}") => head,
            Some(rest) => format!("{},{rest}", &head[..head.len() - 1]),
            None => format!("{},\"body\":{body}}}", &head[..head.len() - 1]),
        };
        RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}
