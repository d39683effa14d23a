//! Which agent answers in a session, and with which tools: one decision for every interface.
//!
//! A session names its agent. If the agent's file has changed to another one, someone has to agree:
//! an interface that can ask does so, any other refuses. The text of an imported session may come
//! from anyone, so its tools are off until the user trusts it, and only the instructions of the
//! agent that answers here apply.

use rethread_core::{Session, SessionId};

use super::Handle;
use crate::agents::NotFound;
use crate::blocking::blocking;
use crate::byte_budget::BudgetExceeded;
use crate::runner::{Instructions, Runner, TurnError};
use crate::turn::TurnOptions;

/// Whether and how a session can be answered.
pub enum Decision {
    /// This runner runs its turns.
    Ready(Box<Runner>),
    /// Someone has to agree first, with [`Handle::accept`]; if nobody can be asked, the turn is
    /// refused.
    AskFirst(AgentChanged),
    /// It cannot be answered here.
    Refused(Refusal),
}

/// A session was answered by an agent from a different file than the one that would answer now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session was answered by {theirs}; here, {ours} would answer")]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct AgentChanged {
    pub session: SessionId,
    /// The previous file.
    pub theirs: String,
    /// The current file.
    pub ours: String,
    /// The agent that would answer.
    pub agent: String,
}

/// Why a turn did not start. Nothing was stored, unless it was [abandoned](Refusal::Abandoned).
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Refusal {
    /// The agent does not exist.
    #[error(transparent)]
    NoAgent(#[from] NotFound),
    /// The agent's model is not available.
    #[error("the agent `{agent}` cannot answer here: {why}")]
    CannotAnswer { agent: String, why: String },
    /// Another agent would answer, and nobody agreed.
    #[error(transparent)]
    AgentChanged(#[from] AgentChanged),
    /// The results do not match the pending calls.
    #[error("these are not the results the turn is waiting for: {}", waiting(.open))]
    OtherCalls {
        /// The calls that have no result.
        open: Vec<String>,
    },
    /// Too many turns are running or queued.
    #[error("{most} turns are running or queued")]
    HostFull { most: usize },
    /// Too many turns of this owner are running or queued.
    #[error("{most} of your turns are already running or queued")]
    OwnerFull { most: usize },
    /// The questions of running and queued turns use too much memory.
    #[error("the running and queued questions are too large together: {0}")]
    Bytes(#[from] BudgetExceeded),
    /// Too many turns are queued for this session.
    #[error("{most} turns are already queued for this session")]
    QueueFull { most: usize },
    /// The turn was stopped while it was queued.
    #[error("it was stopped before it started; nothing was stored")]
    Stopped,
    /// The program began to shut down while the turn was queued.
    #[error("the program is shutting down; nothing was stored")]
    Closing,
    /// The key of the session was moved repeatedly.
    #[error("`{key}` kept being moved to other sessions")]
    KeyMoved { key: String },
    /// Something failed in the middle; what was stored before is kept.
    #[error("the turn was aborted")]
    Abandoned,
}

fn waiting(open: &[String]) -> String {
    match open.is_empty() {
        true => "no call is waiting".into(),
        false => format!("{} are waiting", open.join(", ")),
    }
}

impl Handle {
    /// Which agent answers in a session, and with which tools.
    pub fn decide(&self, session: &Session) -> Decision {
        self.decide_between(session, self.host.0.roster.agent_of(&session.header), None)
    }

    /// The same for a client that wants this agent to answer from now on.
    pub fn decide_as(&self, session: &Session, agent: &str) -> Decision {
        let own = session.header.profile.agent.as_deref();
        self.decide_between(session, agent, own.filter(|own| *own != agent))
    }

    /// Whether this agent can answer in a session in which `other` did.
    fn decide_between(&self, session: &Session, agent: &str, other: Option<&str>) -> Decision {
        let profile = &session.header.profile;
        let runner = match self.runner(Some(agent), profile.workspace.as_deref()) {
            Ok(runner) => self.trusted_as_far(session, runner),
            Err(refusal) => return Decision::Refused(refusal),
        };
        let ours = &runner.responder.agent.path;
        let theirs = profile.agent_path.as_deref().or(other);
        match theirs.filter(|theirs| theirs != ours) {
            Some(theirs) => Decision::AskFirst(AgentChanged {
                session: session.id(),
                theirs: theirs.to_owned(),
                ours: ours.clone(),
                agent: agent.to_owned(),
            }),
            None => Decision::Ready(Box::new(runner)),
        }
    }

    /// The user agrees that another agent continues a session. The session records it.
    ///
    /// # Errors
    ///
    /// [`TurnError::Refused`] if the agent is not available; otherwise I/O errors.
    pub fn accept(&self, changed: &AgentChanged) -> Result<Runner, TurnError> {
        let session = self.sessions.get(changed.session)?;
        let workspace = session.header.profile.workspace.clone();
        let runner = self.runner(Some(&changed.agent), workspace.as_deref())?;
        let session = runner.take_over(&session)?;
        Ok(self.trusted_as_far(&session, runner))
    }

    /// Makes this agent answer in a session from now on, with its own instructions.
    ///
    /// # Errors
    ///
    /// As [`accept`](Handle::accept).
    pub fn take_over(&self, id: SessionId, agent: &str) -> Result<Runner, TurnError> {
        let (theirs, ours) = (String::new(), String::new());
        self.accept(&AgentChanged { session: id, theirs, ours, agent: agent.to_owned() })
    }

    /// Moves a session to another folder; its instructions name the new one.
    ///
    /// # Errors
    ///
    /// As [`accept`](Handle::accept).
    pub fn move_to(&self, id: SessionId, workspace: &str) -> Result<Runner, TurnError> {
        let session = self.sessions.get(id)?;
        let agent = self.host.0.roster.agent_of(&session.header);
        let runner = self.runner(Some(agent), Some(workspace))?;
        let session = runner.take_over(&session)?;
        let moved = rethread_core::ProfileChange {
            workspace: Some(runner.responder.workspace.clone()),
            ..Default::default()
        };
        self.sessions.update(id, &moved.into())?;
        Ok(self.trusted_as_far(&session, runner))
    }

    /// A runner for an untrusted session has no tools, and only its own instructions.
    pub(crate) fn trusted_as_far(&self, session: &Session, mut runner: Runner) -> Runner {
        let Some(format) = &session.header.imported else { return runner };
        if runner.instructions != Instructions::Once {
            runner.instructions = Instructions::Ours;
        }
        if !self.trusts(session.id()) {
            runner.responder = runner.responder.without_tools();
            runner.untrusted = Some(format.clone());
        }
        runner
    }

    /// The runner for one turn in a session: as [`decide`](Handle::decide), or with another agent
    /// for this turn only.
    pub(super) async fn runner_for_turn(
        &self,
        id: SessionId,
        options: &TurnOptions,
    ) -> Result<Runner, TurnError> {
        let (handle, options) = (self.clone(), options.clone());
        blocking(move || {
            let session = handle.sessions.get(id)?;
            let once = options.agent.as_deref();
            let once = once.filter(|name| session.header.profile.agent.as_deref() != Some(*name));
            let mut runner = match once {
                Some(name) => {
                    let workspace = session.header.profile.workspace.as_deref();
                    let runner = handle.runner(Some(name), workspace)?;
                    let mut runner = handle.trusted_as_far(&session, runner);
                    runner.instructions = Instructions::Once;
                    runner
                }
                None => match handle.decide(&session) {
                    Decision::Ready(runner) => *runner,
                    Decision::AskFirst(changed) => return Err(Refusal::from(changed).into()),
                    Decision::Refused(refusal) => return Err(refusal.into()),
                },
            };
            if let Some(policy) = options.policy {
                runner.responder.policy = policy;
            }
            Ok(runner)
        })
        .await
    }

    /// The runner that compacts or resumes a session.
    ///
    /// # Errors
    ///
    /// [`TurnError::Refused`] for the same reasons as a turn; otherwise I/O errors.
    pub async fn runner_for(&self, id: SessionId) -> Result<Runner, TurnError> {
        self.runner_for_turn(id, &TurnOptions::default()).await
    }
}
