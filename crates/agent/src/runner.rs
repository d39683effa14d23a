//! A runner: a responder in the sessions of one owner. It runs turns.
//!
//! Only a [`Handle`] creates a runner, so its owner cannot be forgotten or mixed up.

use std::path::PathBuf;
use std::sync::{Mutex, Weak};
use std::time::Duration;

use rethread_core::context::Context;
use rethread_core::entry::RoundLimit;
use rethread_core::message::{Call, Usage};
use rethread_core::{
    Message, ProfileChange, Session, SessionId, Sessions, StoreError, Thread, sessions,
};

use crate::holder::ignoring_dead_holders;
use crate::host::{Handle, Refusal};
use crate::permission::Grants;
use crate::project_instructions::own_text;
use crate::provider::Failure;
use crate::responder::Responder;
use crate::thread_cache::ThreadCache;
use crate::turn_economy::TurnEconomy;

/// Runs turns.
#[derive(Clone)]
pub struct Runner {
    /// Who answers.
    pub responder: Responder,
    pub(crate) sessions: Sessions,
    pub(crate) threads: ThreadCache,
    pub(crate) grants: Grants,
    /// The folder for transcripts; without it, none are saved.
    pub(crate) transcripts: Option<PathBuf>,
    /// The format the session was imported from, if its tools are off because of that.
    pub(crate) untrusted: Option<String>,
    pub(crate) instructions: Instructions,
    /// The handle that created it.
    pub(crate) handle: Handle,
    /// How deeply it is nested below the session of the user.
    pub(crate) depth: u8,
    /// The sessions it works for, if it is a subagent's: its changes are recorded there, too.
    pub(crate) above: Vec<Weak<Mutex<Thread>>>,
    /// The session in which the user is asked, if it is not the turn's own.
    pub(crate) asks_for: Option<SessionId>,
}

/// Which instructions apply in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// Those of the session.
    Own,
    /// The responder's, from here on: the session's own may come from anyone.
    Ours,
    /// The responder's, for a single turn.
    Once,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Answered,
    /// At the limit of rounds.
    RoundLimit,
    /// The model repeated itself: the same call, with the same result, again and again.
    Repeated,
    /// The turn was stopped; its partial reply is kept.
    Stopped,
    /// The model called tools of the client: the turn continues when their results arrive.
    ClientCalls,
}

/// The result of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnAnswer {
    /// The answer.
    pub text: String,
    /// How it ended.
    pub end: End,
    /// The answer is incomplete: the provider's limit was reached, or the turn was stopped.
    pub cut_off: bool,
    /// The position of the question in the log; the entries of the turn follow it.
    pub seq: u64,
    /// Model replies.
    pub rounds: u32,
    /// What the provider charged.
    pub usage: Usage,
    /// How long it took.
    pub took: Duration,
    /// How full the last context was, in percent. A hundred if something had to be left out of it.
    pub fullness: u64,
    /// The calls for the client, with [`End::ClientCalls`].
    pub calls: Vec<Call>,
    /// Why it was ended early, with [`End::RoundLimit`] and [`End::Repeated`]. The text ends with
    /// this notice; any message continues.
    pub limit: Option<RoundLimit>,
    /// The model that answered, as `provider/model`.
    pub model: String,
    /// What its calls sent, compared with sending everything, without subagents.
    pub economy: TurnEconomy,
}

impl End {
    /// Its name, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            End::Answered => "answered",
            End::RoundLimit => "round_limit",
            End::Repeated => "repeated",
            End::Stopped => "stopped",
            End::ClientCalls => "client_calls",
        }
    }
}

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The session could not be read or written. Earlier entries of the turn are in the log.
    #[error(transparent)]
    Sessions(#[from] sessions::Error),
    /// The model did not answer. Earlier entries of the turn are in the log.
    #[error(transparent)]
    Provider(#[from] Failure),
    /// It did not start.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Runner {
    /// The sessions it works in.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The folder transcripts are saved to.
    pub fn transcripts(&self) -> Option<&PathBuf> {
        self.transcripts.as_ref()
    }

    /// The format the session was imported from, if its tools are off because of that. An interface
    /// that can ask may ask, and then [trust](crate::Handle::trust) it.
    pub fn untrusted(&self) -> Option<&str> {
        self.untrusted.as_deref()
    }

    /// Records that this runner's agent answers in a session from here on.
    ///
    /// # Errors
    ///
    /// [`StoreError::Held`] while a turn runs; otherwise I/O errors.
    pub(crate) fn take_over(&self, session: &Session) -> Result<Session, sessions::Error> {
        let id = session.id();
        let new = self.responder.new_session().profile;
        let ours = self.responder.instructions();
        if self.instructions_of(session)?.as_deref() != Some(ours.as_str()) {
            let system = || vec![Message::system(ours.as_str()).into()];
            ignoring_dead_holders(&self.sessions, |sessions| sessions.append(id, system()))?;
        }
        let was = &session.header.profile;
        if (&was.agent, &was.agent_path) == (&new.agent, &new.agent_path) {
            return self.sessions.get(id);
        }
        let change = ProfileChange {
            agent: Some(new.agent),
            agent_path: Some(new.agent_path),
            ..ProfileChange::default()
        };
        self.sessions.update(id, &change.into())
    }

    /// The instructions that apply in a session, without the project's.
    fn instructions_of(&self, session: &Session) -> Result<Option<String>, sessions::Error> {
        let Some(seq) = session.tally.system else { return Ok(None) };
        let entry = match self.sessions.read(session.id(), seq..seq + 1) {
            // A message that cannot be read does not apply any more.
            Err(sessions::Error::Store(StoreError::Damaged { .. })) => None,
            read => read?.pop(),
        };
        Ok(entry.and_then(|entry| entry.body.message().map(own_text)))
    }

    /// How full the context of a session is, in percent.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session.
    pub fn fullness(&self, id: SessionId) -> Result<u64, sessions::Error> {
        let Responder { policy, model, .. } = &self.responder;
        let context = self.sessions.context(id, policy, model)?;
        Ok(crate::turn::fullness(&context, model.budget()))
    }

    /// How full this context is, in percent.
    pub fn fullness_of(&self, context: &Context) -> u64 {
        crate::turn::fullness(context, self.responder.model.budget())
    }

    /// Tokens a session's next context would have.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`](rethread_core::StoreError::NotFound) if there is no such session.
    pub fn context_tokens(&self, id: SessionId) -> Result<u64, sessions::Error> {
        let Responder { policy, model, .. } = &self.responder;
        Ok(self.sessions.context(id, policy, model)?.tokens)
    }
}
