//! Continues from a summary in a new session.
//!
//! A continued session contains the summary of the previous one, its last turns verbatim, and where
//! the rest can be read. It is created atomically, together with the model's acknowledgment.

use std::collections::HashSet;
use std::time::Instant;

use jiff::Timestamp;
use rethread_core::context::build;
use rethread_core::entry::{
    Body, CarriedMessage, NewEntry, Origin, PreviousSession, Restored, Started,
};
use rethread_core::identifiers::identifiers;
use rethread_core::message::Usage;
use rethread_core::{
    EntryId, Key, Log, Message, Name, New, Role, Session, SessionId, Tally, sessions,
};
use rethread_transcript::numbers::short;

use crate::blocking::blocking;
use crate::compact::whole_turns;
use crate::prompt::{self, Restoration};
use crate::responder::reply;
use crate::runner::{Runner, TurnError};

/// The text used if the model did not acknowledge the summary.
pub const NO_ACKNOWLEDGMENT: &str =
    "(The model did not acknowledge the summary of the previous session. It is restored.)";

/// A session to continue.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct PastSession {
    /// Its id, for display.
    pub id: String,
    /// The session, if it is in the store.
    pub session: Option<SessionId>,
    /// Its name, if it was given one.
    pub name: Option<Name>,
    pub agent: Option<String>,
    /// The file its agent came from.
    pub agent_path: Option<String>,
    /// When it was last active, in local time.
    pub date: jiff::civil::DateTime,
    /// Its turns.
    pub queries: u64,
    /// Tokens it took.
    pub tokens: u64,
    /// The session it continued itself.
    pub resumed_from: Option<String>,
    /// The file it was saved to.
    pub file: Option<String>,
    /// Its last turns.
    pub tail: Vec<CarriedMessage>,
    /// The names it used last, the likeliest to be needed again first.
    pub names: Vec<String>,
}

impl PastSession {
    /// `5 queries, 2.3K tokens`.
    pub fn size(&self) -> String {
        let queries = if self.queries == 1 { "query" } else { "queries" };
        format!("{} {queries}, {} tokens", self.queries, short(self.tokens))
    }
}

/// A session that was continued from a summary.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Continued {
    /// The new session.
    pub session: Session,
    pub acknowledgment: String,
    /// Whether the model wrote it.
    pub acknowledged: bool,
    /// What the provider charged for it.
    pub usage: Usage,
    /// Turns carried over verbatim.
    pub carried: usize,
    /// Tokens of those.
    pub carried_tokens: u64,
    /// Tokens of the new session's context.
    pub tokens: u64,
}

impl Runner {
    /// Continues `past` from this summary in a new session that takes over `keys`.
    ///
    /// # Errors
    ///
    /// [`StoreError::KeyMoved`](rethread_core::StoreError::KeyMoved) if a key was moved in the
    /// meantime; otherwise I/O errors. A model that does not answer is not an error: a fixed line
    /// is used.
    pub async fn restore(
        &self,
        past: &PastSession,
        summary: &str,
        origin: Origin,
        keys: Vec<Key>,
    ) -> Result<Continued, TurnError> {
        let mut restored = self.restored(past, summary, origin);
        let began = Instant::now();
        let new = New { name: past.name.clone(), ..self.responder.new_session() };
        let system = new.system.clone().unwrap_or_default();
        let answer = {
            let mut messages = self.view(&system, &restored);
            // The placeholder for the requested acknowledgment.
            messages.pop_if(|message| message.role == Role::Assistant);
            reply(&self.responder.model, self.responder.provider.as_ref(), &messages).await
        };
        restored.ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let said = answer.ok().filter(|reply| !reply.plain_text().trim().is_empty());
        let acknowledged = said.is_some();
        if let Some(reply) = said {
            restored.acknowledgment = reply.plain_text();
            restored.usage = reply.usage.unwrap_or_default();
            restored.model = Some(self.responder.model.id());
        }
        let (usage, acknowledgment) = (restored.usage, restored.acknowledgment.clone());
        let carried = whole_turns(&restored.tail);
        let carried_tokens = restored
            .tail
            .iter()
            .map(|c| u64::from(rethread_core::measure::message_tokens(&c.message)))
            .sum();
        let (sessions, parent) = (self.sessions.clone(), past.session);
        let (policy, model) = (self.responder.policy.clone(), self.responder.model.clone());
        let (session, tokens) = blocking(move || {
            let mut keys = keys;
            if origin == Origin::Compact {
                // This took a while: a key may have been moved in the meantime.
                let theirs = match parent {
                    Some(id) => sessions.get(id)?.keys,
                    None => Vec::new(),
                };
                keys.retain(|key| theirs.contains(key));
            }
            let session = sessions.restore(parent, origin, &new, &keys, restored)?;
            let tokens = sessions.context(session.id(), &policy, &model)?.tokens;
            Ok::<_, sessions::Error>((session, tokens))
        })
        .await?;
        Ok(Continued {
            session,
            acknowledgment,
            acknowledged,
            usage,
            carried,
            carried_tokens,
            tokens,
        })
    }

    /// The first entry of a continued session, without its acknowledgment.
    fn restored(&self, past: &PastSession, summary: &str, origin: Origin) -> Restored {
        let prompt = prompt::restoration(&Restoration {
            date: &past.date.strftime("%Y-%m-%d %H:%M").to_string(),
            id: &past.id,
            size: &past.size(),
            resumed_from: past.resumed_from.as_deref(),
            file: past.file.as_deref(),
            summary,
        });
        let known: HashSet<&str> = identifiers(summary).collect();
        let mut beside = past.names.clone();
        beside.retain(|name| !known.contains(name.as_str()));
        let prompt = prompt + &prompt::names(&beside);
        Restored {
            started: Started { origin, from: past.session, keys: Vec::new() },
            summary: summary.to_owned(),
            tail: past.tail.clone(),
            prompt,
            acknowledgment: NO_ACKNOWLEDGMENT.into(),
            usage: Usage::default(),
            ms: 0,
            model: None,
            previous: PreviousSession {
                id: past.id.clone(),
                queries: past.queries,
                tokens: past.tokens,
                file: past.file.clone(),
            },
        }
    }

    /// What the model sees of a session that begins like this: the same bytes it will see later.
    fn view(&self, system: &str, restored: &Restored) -> Vec<Message> {
        let bodies =
            [Body::Restored(Box::new(restored.clone())), Body::Message(Message::system(system))];
        let mut tally = Tally::default();
        let mut log = Log::default();
        for (index, body) in bodies.into_iter().enumerate() {
            let id = EntryId::new(index.to_string()).expect("a number is a valid id");
            let entry = NewEntry::new(id, Timestamp::UNIX_EPOCH, body).placed(&tally);
            tally = entry.tally;
            log.push(entry).expect("entries are placed one after the other");
        }
        build(&log, &self.responder.policy, &self.responder.model).messages
    }
}
