//! Who answers in a session, and with which tools: one decision for every door.
//!
//! The agent of a session is the one it says. If its file is not the one it was, someone has to
//! agree: a door that can ask a person asks, any other refuses. What an imported session says may
//! be anyone's words, so its tools are off until a person trusts it, and no instructions hold in it
//! but those of the agent that answers here.

use rethread_core::{Session, SessionId};

use super::Handle;
use crate::agents::NotFound;
use crate::blocking::blocking;
use crate::byte_budget::NoRoom;
use crate::runner::{Instructions, Runner, TurnError};
use crate::turn::TurnOptions;

/// Whether and how a session can be answered.
pub enum Decision {
    /// This runs its turns.
    Ready(Box<Runner>),
    /// Someone has to agree first, with [`Handle::accept`]; where nobody can be asked, the turn is
    /// refused.
    AskFirst(AgentChanged),
    /// Nobody answers here.
    Refused(Refusal),
}

/// A session was answered by an agent from another file than the one that would answer now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session was answered by {theirs}; here, {ours} would answer")]
pub struct AgentChanged {
    /// The session.
    pub session: SessionId,
    /// The file it was answered from.
    pub theirs: String,
    /// The file it would be answered from.
    pub ours: String,
    /// The agent that would answer.
    pub agent: String,
}

/// Why a turn did not begin. Nothing was stored, unless it was [given up](Refusal::Abandoned).
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Refusal {
    /// There is no such agent.
    #[error(transparent)]
    NoAgent(#[from] NotFound),
    /// The agent's model cannot be asked.
    #[error("the agent `{agent}` cannot answer here: {why}")]
    CannotAnswer { agent: String, why: String },
    /// Another agent would answer, and nobody agreed.
    #[error(transparent)]
    AgentChanged(#[from] AgentChanged),
    /// The results are not those of the calls that wait.
    #[error("these are not the results the turn is waiting for: {}", waiting(.open))]
    OtherCalls {
        /// The calls that have no result.
        open: Vec<String>,
    },
    /// All turns that may run or wait do.
    #[error("{most} turns are running or queued")]
    HostFull {
        /// How many there may be.
        most: usize,
    },
    /// All turns that this owner may have run or wait do.
    #[error("{most} of your turns are already running or queued")]
    OwnerFull {
        /// How many there may be.
        most: usize,
    },
    /// The questions of the turns that run or wait take all the memory they may.
    #[error("the running and queued questions are too large together: {0}")]
    Bytes(#[from] NoRoom),
    /// All turns that may wait for this session do.
    #[error("{most} turns are already queued for this session")]
    QueueFull {
        /// How many there may be.
        most: usize,
    },
    /// The program is about to end, or someone stopped the turn while it waited.
    #[error("it was stopped before it started; nothing was stored")]
    Stopped,
    /// The key of the session moved on, again and again.
    #[error("`{key}` kept being moved to other sessions")]
    KeyMoved { key: String },
    /// Something went wrong in the middle; what was stored until then is kept.
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
    /// Who answers in a session, and with which tools.
    pub fn decide(&self, session: &Session) -> Decision {
        self.decide_between(session, self.host.0.roster.agent_of(&session.header), None)
    }

    /// The same for a door that wants this agent to answer from now on.
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

    /// The person agrees that another agent continues a session. The session says so from now on.
    ///
    /// # Errors
    ///
    /// [`TurnError::Refused`] where the agent cannot answer; otherwise I/O errors.
    pub fn accept(&self, changed: &AgentChanged) -> Result<Runner, TurnError> {
        let session = self.sessions.get(changed.session)?;
        let workspace = session.header.profile.workspace.clone();
        let runner = self.runner(Some(&changed.agent), workspace.as_deref())?;
        let session = runner.take_over(&session)?;
        Ok(self.trusted_as_far(&session, runner))
    }

    /// This agent answers in a session from now on, by its own instructions.
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

    /// A runner for a session of unknown origin has no tools and its own instructions until a
    /// person trusts the session.
    fn trusted_as_far(&self, session: &Session, mut runner: Runner) -> Runner {
        let Some(format) = &session.header.imported else { return runner };
        runner.instructions = Instructions::Ours;
        if !self.trusts(session.id()) {
            runner.responder = runner.responder.without_tools();
            runner.untrusted = Some(format.clone());
        }
        runner
    }

    /// What runs one turn in a session: as [`decide`](Handle::decide), or another agent this once.
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

    /// What compacts or resumes a session.
    ///
    /// # Errors
    ///
    /// [`TurnError::Refused`] as a turn would be; otherwise I/O errors.
    pub async fn runner_for(&self, id: SessionId) -> Result<Runner, TurnError> {
        self.runner_for_turn(id, &TurnOptions::default()).await
    }
}
