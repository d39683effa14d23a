//! One thing that happened in a session, and what it adds up to.
//!
//! An entry is written once. Its [`Body`] is the truth; its [`Measure`] and its [`Tally`] are
//! worked out from the bodies when it is appended and stored beside them, so that listing,
//! planning a context and showing counts never read a log from its beginning.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::limits::ENTRY_ID_BYTES_MAX;
use crate::measure::Measure;
use crate::message::{Message, Role, Usage};
use crate::name::{Key, NameError, SessionId, is_invisible};
use crate::raw::Raw;
use crate::shown::Shown;
use crate::world::rfc3339;

/// What makes an append safe to repeat: the same id is never stored twice in one session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct EntryId(String);

impl EntryId {
    /// Checks an id.
    ///
    /// # Errors
    ///
    /// [`NameError`] when it is empty, longer than 128 bytes or holds invisible characters.
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

/// One thing that happened, as it is in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its place: 0 for the first.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What makes a repeated append harmless.
    pub id: EntryId,
    /// What happened.
    pub body: Body,
    /// How large it is, and the stubs of its tool results.
    pub measure: Measure,
    /// The session's counts with this entry in them.
    pub tally: Tally,
}

/// An entry that has no place yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// What makes a repeated append harmless.
    pub id: EntryId,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub body: Body,
    /// How large it is, and the stubs of its tool results.
    pub measure: Measure,
}

impl NewEntry {
    /// Gives the entry its place after what `before` counts.
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
pub enum Body {
    /// Something was said.
    Message(Message),
    /// A turn came to its end.
    Finished(Finished),
    /// The turn was ended while the model still wanted tools.
    RoundLimit(RoundLimit),
    /// The conversation was summarised.
    Summary(Summarized),
    /// This session continues another from its summary.
    Restored(Box<Restored>),
    /// This session was started afresh, or as a copy of another.
    Started(Started),
    /// The context starts over after this entry.
    Cleared {
        /// The clear that held until now.
        before: Option<Boundary>,
    },
    /// A clear was taken back.
    Undone {
        /// The clear that holds again.
        before: Option<Boundary>,
    },
    /// A turn is left out of every context from here on.
    LeftOut(LeftOut),
    /// The results of finished turns are shown in their thin form from here on.
    Thinned(Thinned),
    /// Which lines contexts show of results that nobody decided about when they were appended.
    Decided(Decided),
    /// A kind of entry nobody here knows, kept as it was written.
    Unknown {
        /// Its kind.
        kind: String,
        /// Its body.
        raw: Raw,
    },
}

/// A turn that no model sees any more: a provider refused it, or it was asked again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The message that opened the turn.
    pub turn: u64,
    /// Why, for people.
    pub why: String,
}

/// Why a turn was ended while the model still wanted tools: its rounds were used up, unless it
/// repeated itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundLimit {
    /// The tool it called again and again with the same arguments, and with the same result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<String>,
}

impl RoundLimit {
    /// What is said of it after the last text of the turn.
    pub fn notice(&self) -> String {
        match &self.repeated {
            Some(tool) => {
                format!("[Stopped: the same call of `{tool}` gave the same result three times]")
            }
            None => "[Tool call limit reached]".into(),
        }
    }
}

/// The turns whose results contexts show thin from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinned {
    /// The first entry of the turns that are thinned.
    pub from: u64,
    /// Their last entry.
    pub through: u64,
    /// Why it cost nothing, or pays.
    pub why: Thinning,
}

impl Thinned {
    /// Whether it thins the turn that begins with this entry.
    pub fn covers(&self, turn: u64) -> bool {
        (self.from..=self.through).contains(&turn)
    }
}

/// Which lines contexts show of results that were appended without a lease, from here on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The last entry with such a result. Those that are not listed are shown by themselves.
    pub through: u64,
    /// What depends on earlier results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<DecidedResult>,
}

/// Which lines contexts show of one result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedResult {
    /// Its entry.
    pub seq: u64,
    /// Which of the results of its entry it is.
    #[serde(default)]
    pub place: usize,
    /// The lines.
    pub shown: Shown,
}

/// Why results are thinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinning {
    /// The provider's cache had ended: sending them again costs the same in any form.
    Cold,
    /// They are so much shorter that writing the end of the cache again pays.
    Pays,
}

impl Thinning {
    /// In a word.
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

/// A summary of the conversation up to where it is.
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
    /// Started for a key that pointed elsewhere before.
    New,
    /// A copy up to some entry.
    Fork,
    /// Carried on from a summary, to save tokens.
    Compact,
    /// Carried on from a summary, at a later time.
    Resume,
}

impl Origin {
    /// The word for it, which is that of the verb.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::New => "new",
            Origin::Fork => "fork",
            Origin::Compact => "compact",
            Origin::Resume => "resume",
        }
    }

    /// Whether the new session takes the place of the other in a list.
    pub fn continues(self) -> bool {
        matches!(self, Origin::Compact | Origin::Resume)
    }
}

/// How this session was started, and what to go back to.
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

/// All that a session needs to continue another from its summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restored {
    /// How, from where, and which keys moved.
    pub started: Started,
    /// The summary it continues from.
    pub summary: String,
    /// The last whole turns of the other session, word for word.
    #[serde(default)]
    pub tail: Vec<Carried>,
    /// What the model was asked.
    pub prompt: String,
    /// What the model answered.
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
    /// What is known about the other session, even when it is gone.
    #[serde(default)]
    pub previous: Previous,
}

/// What a session records about the one it continues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    /// Its id.
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
pub struct Carried {
    /// Where it is there, as `<id8>:<seq>`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// What was said.
    pub message: Message,
}

/// A body that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("not a valid `{kind}` entry")]
pub struct BodyError {
    /// Its kind.
    pub kind: String,
    /// What the parser said.
    #[source]
    pub source: serde_json::Error,
}

impl Body {
    /// The word that says what kind of entry this is.
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

    /// Reads a body back from its kind and its JSON.
    ///
    /// # Errors
    ///
    /// [`BodyError`] when the JSON does not fit the kind. A kind nobody knows is not an error.
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

    /// The message, where something was said.
    pub fn message(&self) -> Option<&Message> {
        match self {
            Body::Message(message) => Some(message),
            _ => None,
        }
    }

    /// How the session was started, where this says so.
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

/// What all entries up to one add up to.
///
/// It is a running total: each entry stores the tally with itself in it, so the counts of a
/// session are in its last entry and the counts of any part are a difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Entries: the seq the next one will get.
    pub entries: u64,
    /// Messages of the user, the assistant and tools.
    pub messages: u64,
    /// Turns the user began.
    pub queries: u64,
    /// Tokens of everything said.
    pub tokens: u64,
    /// The clear that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<Boundary>,
    /// The system message that holds.
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
    /// The tally with one more entry in it.
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

    /// Where the context begins: the first seq it may hold.
    pub fn begins(&self) -> u64 {
        self.boundary.map_or(0, |boundary| boundary.seq + 1)
    }
}

impl Serialize for Entry {
    /// One flat object: `seq`, `at`, `id` and `kind`, then the fields of the body. Fields of a
    /// foreign message that have one of these four names are under `foreign`.
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
