//! The header of one conversation.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::entry::{Origin, Tally};
use crate::limits::PREVIEW_CHARS;
use crate::message::Message;
use crate::name::{Key, Name, Owner, SessionId};
use crate::raw::{Fields, Raw};
use crate::usage::UsageByModel;
use crate::world::rfc3339;

/// The stored fields of a session. They are authoritative; everything that can be computed from the
/// log is in [`Session`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Header {
    /// Its identity.
    pub id: SessionId,
    pub owner: Owner,
    /// Its name; unique among the owner's sessions.
    pub name: Name,
    /// What it is about, and which agent answers in it.
    #[serde(flatten)]
    pub profile: Profile,
    /// The session it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// When it was started.
    pub created_at: Timestamp,
    /// Archived: not listed, but searchable, and unarchived when it is opened.
    #[serde(default)]
    pub archived: bool,
    /// The format it was imported from, or that of the session it continues. Its text was written
    /// elsewhere, so tools stay off in it until the user agrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
    /// The kind of conversation.
    #[serde(default, skip_serializing_if = "SessionKind::is_chat")]
    pub kind: SessionKind,
    /// The program it comes from: an interface of ours, or the one it was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Set while it is in the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trash: Option<Box<Trash>>,
    /// Fields that only the store that wrote them understands.
    #[serde(default, rename = "foreign", skip_serializing_if = "ExtraFields::is_empty")]
    pub extra: ExtraFields,
}

/// The kind of conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum SessionKind {
    /// Held here.
    #[default]
    Chat,
    /// Imported from the file of another program.
    Imported,
    /// Run by another program, and recorded here.
    Recorded,
    /// Between two agents.
    Subagent,
    /// A kind that only a newer version knows.
    Other(String),
}

impl SessionKind {
    /// Its name.
    pub fn as_str(&self) -> &str {
        match self {
            SessionKind::Chat => "chat",
            SessionKind::Imported => "imported",
            SessionKind::Recorded => "recorded",
            SessionKind::Subagent => "subagent",
            SessionKind::Other(other) => other,
        }
    }

    fn is_chat(&self) -> bool {
        *self == SessionKind::Chat
    }
}

impl From<String> for SessionKind {
    fn from(text: String) -> SessionKind {
        let known = [
            SessionKind::Chat,
            SessionKind::Imported,
            SessionKind::Recorded,
            SessionKind::Subagent,
        ];
        known.into_iter().find(|kind| kind.as_str() == text).unwrap_or(SessionKind::Other(text))
    }
}

impl From<SessionKind> for String {
    fn from(kind: SessionKind) -> String {
        kind.as_str().into()
    }
}

/// What is needed to restore a session from the trash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trash {
    /// When it was deleted.
    pub at: Timestamp,
    /// Its name, which others can use in the meantime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The keys that pointed at it, including its readable id. Others can use them in the meantime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Key>,
}

/// Declares the fields that are copied with a session, as [`Profile`] and as [`ProfileChange`]. To
/// add a field, add a line to the list below.
macro_rules! profile {
    (
        texts: { $($(#[doc = $text_doc:literal])+ $text:ident,)+ }
        numbers: { $($(#[doc = $number_doc:literal])+ $number:ident,)+ }
    ) => {
        /// What a session is about, and which agent answers in it: the fields that people and
        /// programs set, and that are kept through forks, imports and copies.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Profile {
            $(
                $(#[doc = $text_doc])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $text: Option<String>,
            )+
            $(
                $(#[doc = $number_doc])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $number: Option<u32>,
            )+
        }

        impl Profile {
            /// The text fields.
            pub fn texts(&self) -> impl Iterator<Item = &String> {
                [$(&self.$text,)+].into_iter().flatten()
            }

            /// The text fields, mutable, for redaction.
            pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
                [$(&mut self.$text,)+].into_iter().flatten()
            }
        }

        /// Changes to a [`Profile`]. `None` leaves a field unchanged; `Some(None)` empties it.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct ProfileChange {
            $($(#[doc = $text_doc])+ pub $text: Option<Option<String>>,)+
            $($(#[doc = $number_doc])+ pub $number: Option<Option<u32>>,)+
        }

        impl From<Profile> for ProfileChange {
            /// Sets every field to that of the profile.
            fn from(profile: Profile) -> ProfileChange {
                ProfileChange {
                    $($text: Some(profile.$text),)+
                    $($number: Some(profile.$number),)+
                }
            }
        }

        impl ProfileChange {
            /// Applies these changes.
            pub fn apply(&self, profile: &mut Profile) {
                $(if let Some(value) = &self.$text {
                    profile.$text.clone_from(value);
                })+
                $(if let Some(value) = &self.$number {
                    profile.$number.clone_from(value);
                })+
            }
        }
    };
}

profile! {
    texts: {
        /// What lists show: a few words about its topic.
        title,
        /// What it is about.
        description,
        /// The agent that answers in it.
        agent,
        /// The agent's file.
        agent_path,
        /// The last provider.
        provider,
        /// The last model.
        model,
        /// The folder it is about.
        workspace,
    }
    numbers: {
        /// Messages the context keeps, where the policy counts them.
        max_history,
    }
}

/// Fields of a header that only the store that wrote them understands, in their order, each as it
/// was written. Every store preserves them, and they go with the session when it is copied or
/// exported.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ExtraFields(pub Vec<(String, Raw)>);

impl ExtraFields {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a field.
    pub fn get(&self, field: &str) -> Option<&Raw> {
        self.0.iter().find(|(name, _)| name == field).map(|(_, raw)| raw)
    }

    /// The value of a field, if it is a string.
    pub fn text(&self, field: &str) -> Option<String> {
        self.get(field).and_then(Raw::as_text)
    }

    /// Sets or removes a field.
    pub fn set(&mut self, field: &str, value: Option<Raw>) {
        match (self.0.iter().position(|(name, _)| name == field), value) {
            (Some(at), Some(value)) => self.0[at].1 = value,
            (Some(at), None) => drop(self.0.remove(at)),
            (None, Some(value)) => self.0.push((field.to_owned(), value)),
            (None, None) => {}
        }
    }

    /// The fields that are not the same in `other`. A name that begins with `/` is the store's own.
    pub fn missing_in(&self, other: &ExtraFields) -> Vec<String> {
        let missing = self.0.iter().filter(|field| !other.0.contains(field));
        let names = missing.map(|(name, _)| name.clone());
        names.filter(|name| !name.starts_with('/')).collect()
    }
}

impl<'de> Deserialize<'de> for ExtraFields {
    /// A list of names and values; or an object, as earlier versions wrote it, whose fields get a
    /// `/` before their names.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ExtraFields, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        let fields = match raw.get().starts_with('[') {
            true => serde_json::from_str(raw.get()),
            false => Fields::parse(raw.get()).map(|fields| {
                fields.0.into_iter().map(|(name, raw)| (format!("/{name}"), raw)).collect()
            }),
        };
        fields.map(ExtraFields).map_err(serde::de::Error::custom)
    }
}

impl Header {
    /// Its name, or the one it had before it was moved to the trash.
    pub fn own_name(&self) -> &Name {
        let before = self.trash.as_ref().and_then(|trash| trash.name.as_ref());
        before.unwrap_or(&self.name)
    }

    /// Whether opening it unarchives it. A subagent's session stays archived.
    pub fn is_unarchived_when_opened(&self) -> bool {
        self.archived && self.kind != SessionKind::Subagent
    }

    /// Whether it counts towards a limit on sessions: only a chat that began here does.
    pub fn is_own_chat(&self) -> bool {
        self.kind.is_chat() && self.imported.is_none()
    }

    /// A header with a default name and nothing else.
    pub fn new(id: SessionId, owner: Owner, created_at: Timestamp) -> Header {
        Header {
            id,
            owner,
            name: Name::of_time(created_at, id),
            profile: Profile::default(),
            parent: None,
            created_at,
            archived: false,
            imported: None,
            kind: SessionKind::Chat,
            source: None,
            trash: None,
            extra: ExtraFields::default(),
        }
    }
}

/// The session another one came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Parent {
    pub id: SessionId,
    /// How.
    pub origin: Origin,
}

/// A position in a log: a session, and one of its entries. Everything that points into a
/// conversation from outside (a search hit, a fork, a reference in a stub) is one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Place {
    pub session: SessionId,
    /// The entry.
    pub seq: u64,
}

impl Place {
    /// `<id8>:<seq>`, as shown to models and people.
    pub fn short(self) -> String {
        format!("{}:{}", self.session.short(), self.seq)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.session, self.seq)
    }
}

/// A session as it is listed: its header, its keys, and its tally.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Session {
    /// Its stored fields.
    pub header: Header,
    /// The name for display, if the store has another one than that of the header.
    pub shown_as: Option<String>,
    /// Its keys, sorted.
    pub keys: Vec<Key>,
    /// Its readable id, fixed when it was created. Sessions of earlier versions have none.
    pub readable_id: Option<String>,
    pub tally: Tally,
    /// When something last happened in it.
    pub last_activity_at: Timestamp,
    /// The first 200 characters of the first question.
    pub first_message: String,
    /// What each model was charged since it was started. Not available for a session as of an
    /// earlier entry.
    pub usage: UsageByModel,
}

impl Session {
    /// A session without entries.
    pub fn new(header: Header) -> Session {
        let last_activity_at = header.created_at;
        Session {
            header,
            shown_as: None,
            keys: Vec::new(),
            readable_id: None,
            tally: Tally::default(),
            last_activity_at,
            first_message: String::new(),
            usage: UsageByModel::new(),
        }
    }

    /// Its identity.
    pub fn id(&self) -> SessionId {
        self.header.id
    }

    /// The name for display.
    pub fn shown_name(&self) -> String {
        self.shown_as.clone().unwrap_or_else(|| self.header.name.to_string())
    }

    /// The id for display: the readable one, otherwise the UUID.
    pub fn shown_id(&self) -> String {
        self.readable_id.clone().unwrap_or_else(|| self.header.id.to_string())
    }
}

impl Serialize for Session {
    /// The JSON of a session: one flat object, the same on the command line and over HTTP.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let header = &self.header;
        serde_json::json!({
            "id": header.id,
            "readable_id": self.readable_id,
            "name": self.shown_name(),
            "keys": self.keys,
            "agent": header.profile.agent,
            "agent_path": header.profile.agent_path,
            "workspace": header.profile.workspace,
            "parent": header.parent.map(|parent| parent.id),
            "created_at": rfc3339(header.created_at),
            "last_activity_at": rfc3339(self.last_activity_at),
            "messages": self.tally.messages,
            "queries": self.tally.queries,
            "first_message": self.first_message,
            "tokens": self.tally.tokens,
            "archived": header.archived,
            "description": header.profile.description,
            "provider": header.profile.provider,
            "model": header.profile.model,
            "title": self.title(),
            "kind": header.kind,
            "source": header.source,
            "usage": self.usage,
            "deleted_at": header.trash.as_ref().map(|trash| rfc3339(trash.at)),
        })
        .serialize(serializer)
    }
}

/// The first 200 characters of a message.
pub fn preview(message: &Message) -> String {
    let text = message.plain_text();
    let end = text.char_indices().nth(PREVIEW_CHARS).map_or(text.len(), |(at, _)| at);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_at_most_200_characters() {
        for (length, kept) in [(199, 199), (200, 200), (201, 200)] {
            assert_eq!(preview(&Message::user("é".repeat(length))).chars().count(), kept);
        }
    }

    #[test]
    fn a_preview_leaves_out_the_prefix_of_a_door() {
        use crate::message::{Block, Role};
        let blocks = vec![Block::prefix("[Active file: a.md]\n\n"), Block::text("what is this?")];
        assert_eq!(preview(&Message::new(Role::User, blocks)), "what is this?");
    }
}
