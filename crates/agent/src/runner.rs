//! What runs turns: a model, an agent, tools and a policy over the sessions of one owner.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::context::{Model, Policy};
use rethread_core::message::Usage;
use rethread_core::{Message, New, Profile, ProfileChange, Session, SessionId, Sessions, sessions};

use crate::agents::Agent;
use crate::lease::{Kept, past_the_dead};
use crate::limits::{LEASE_WAIT, ROUNDS_MAX, SUMMARY_TIME_MAX, TOOL_TIME_MAX};
use crate::provider::{Delta, Failure, Provider, Request};
use crate::tool::{Spec, Toolbox};

/// What runs turns.
#[derive(Clone)]
pub struct Runner {
    /// The sessions turns are run in.
    pub sessions: Sessions,
    /// Who answers.
    pub agent: Agent,
    /// The model that answers.
    pub model: Model,
    /// Who runs the model.
    pub provider: Arc<dyn Provider>,
    /// Who writes summaries.
    pub scribe: Scribe,
    /// How contexts are shaped.
    pub policy: Policy,
    /// What the model can do.
    pub tools: Arc<Toolbox>,
    /// Tools that change something and may be used.
    pub allow: Vec<String>,
    /// Whether each use of such a tool is asked for first.
    pub ask_first: bool,
    /// The folder transcripts are saved to; none are without it.
    pub transcripts: Option<PathBuf>,
    /// The folder the conversation is about.
    pub workspace: Option<String>,
    /// How far a turn may go.
    pub bounds: Bounds,
    /// What earlier turns read, for the next ones.
    pub kept: Kept,
}

/// Who writes summaries, and acknowledges them: a model without tools.
#[derive(Clone)]
pub struct Scribe {
    /// The model.
    pub model: Model,
    /// Who runs it.
    pub provider: Arc<dyn Provider>,
    /// Its instructions.
    pub prompt: String,
}

impl Scribe {
    /// One reply, within the time a summary may take.
    pub(crate) async fn reply(&self, messages: &[Message]) -> Result<Message, String> {
        reply(&self.model, self.provider.as_ref(), messages).await
    }
}

/// One reply without tools, within the time a summary may take.
pub(crate) async fn reply(
    model: &Model,
    provider: &dyn Provider,
    messages: &[Message],
) -> Result<Message, String> {
    let request = Request { model, messages, stable: messages.len(), tools: &[] };
    let mut listen = |_: Delta| {};
    match tokio::time::timeout(SUMMARY_TIME_MAX, provider.ask(request, &mut listen)).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(failure)) => Err(failure.to_string()),
        Err(_) => Err(format!("no answer within {} seconds", SUMMARY_TIME_MAX.as_secs())),
    }
}

/// How far a turn may go.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Rounds.
    pub rounds: u32,
    /// Time a tool may take.
    pub tool_time: Duration,
    /// Time to wait for someone else's turn.
    pub lease_wait: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { rounds: ROUNDS_MAX, tool_time: TOOL_TIME_MAX, lease_wait: LEASE_WAIT }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Answered,
    /// At the limit of rounds.
    RoundLimit,
    /// Someone stopped it; what was said until then is kept.
    Stopped,
}

/// What came out of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The answer.
    pub text: String,
    /// How it ended.
    pub end: End,
    /// The answer stops before its end: the provider's limit was reached, or someone stopped it.
    pub cut_off: bool,
    /// Where the question stands in the log; the entries of the turn follow it.
    pub seq: u64,
    /// Model replies it took.
    pub rounds: u32,
    /// What the provider charged.
    pub usage: Usage,
    /// How long it took.
    pub took: Duration,
    /// How much of the room for a context the last one took, in percent. A hundred where
    /// something had to be left out of it.
    pub fullness: u64,
}

impl End {
    /// The word for it, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            End::Answered => "answered",
            End::RoundLimit => "round_limit",
            End::Stopped => "stopped",
        }
    }
}

/// Why a turn came to nothing. What was said until then is in the log.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The session could not be read or written.
    #[error(transparent)]
    Sessions(#[from] sessions::Error),
    /// The model did not answer.
    #[error(transparent)]
    Provider(#[from] Failure),
}

impl Runner {
    /// What a session started by this runner is: its agent, its model and its instructions.
    pub fn new_session(&self) -> New {
        let mut system = self.agent.prompt.trim_end().to_owned();
        if let Some(workspace) = &self.workspace {
            system.push_str(&format!("\n\nThe workspace is {workspace}."));
        }
        let profile = Profile {
            agent: Some(self.agent.name.clone()),
            agent_path: Some(self.agent.path.clone()),
            provider: Some(self.model.provider.clone()),
            model: Some(self.model.name.clone()),
            workspace: self.workspace.clone(),
            ..Profile::default()
        };
        New { profile, system: Some(system), ..New::default() }
    }

    /// This runner without any tool, for a session whose words may be anyone's.
    pub fn without_tools(mut self) -> Runner {
        self.agent.tools = Some(Vec::new());
        self
    }

    /// Sees to it that the instructions that hold in a session are those of this runner's agent,
    /// and none that came with it.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn instruct(&self, session: &Session) -> Result<(), sessions::Error> {
        let id = session.id();
        let ours = self.new_session().system.unwrap_or_default();
        let held = match session.tally.system {
            Some(seq) => self.sessions.read(id, seq..seq + 1)?.pop(),
            None => None,
        };
        let held = held.and_then(|entry| entry.body.message().map(Message::plain_text));
        if held.as_deref() != Some(ours.as_str()) {
            self.tell_model(id, &ours)?;
        }
        Ok(())
    }

    /// Writes down that this runner's agent answers in a session from here on.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn take_over(&self, id: SessionId) -> Result<Session, sessions::Error> {
        let new = self.new_session();
        let change = ProfileChange {
            agent: Some(new.profile.agent),
            agent_path: Some(new.profile.agent_path),
            ..ProfileChange::default()
        };
        self.tell_model(id, &new.system.unwrap_or_default())?;
        self.sessions.update(id, &change.into())
    }

    /// Writes instructions down. Nobody waits for a process that died in the middle of a turn.
    fn tell_model(&self, id: SessionId, system: &str) -> Result<(), sessions::Error> {
        let said = |sessions: &Sessions| sessions.append(id, vec![Message::system(system).into()]);
        past_the_dead(&self.sessions, said).map(drop)
    }

    /// The tools the model is told about: those of the agent, and of those that change something
    /// only the ones that are allowed.
    pub fn specs(&self) -> Vec<Spec> {
        let specs = self.tools.specs(&self.allow);
        specs.into_iter().filter(|spec| self.agent.may_use(spec.name)).collect()
    }

    /// How much of the room for a context a session takes, in percent.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn fullness(&self, id: SessionId) -> Result<u64, sessions::Error> {
        let context = self.sessions.context(id, &self.policy, &self.model)?;
        Ok(crate::turn::fullness(&context, self.model.budget()))
    }

    /// Tokens a session's next context would have.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub fn context_tokens(&self, id: SessionId) -> Result<u64, sessions::Error> {
        Ok(self.sessions.context(id, &self.policy, &self.model)?.tokens)
    }
}
