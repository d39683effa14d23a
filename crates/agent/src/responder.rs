//! A responder: an agent with its model, its tools and its rules. It is independent of sessions: a
//! [`Runner`](crate::Runner) combines it with the sessions of an owner, and only a
//! [`Handle`](crate::Handle) creates one.

use std::sync::Arc;
use std::time::Duration;

use rethread_core::context::{Model, Policy};
use rethread_core::{Message, New, Profile};

use crate::agents::Agent;
use crate::grant::{Grant, Permissions};
use crate::limits::{LEASE_WAIT, SUMMARY_TIME_MAX, TOOL_TIME_MAX};
use crate::project_instructions::ProjectInstructions;
use crate::provider::{Delta, Provider, Request};
use crate::tool::{Spec, Toolbox};

/// An agent with everything it needs to answer.
#[derive(Clone)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Responder {
    pub agent: Agent,
    /// The model that answers.
    pub model: Model,
    /// The provider of the model.
    pub provider: Arc<dyn Provider>,
    /// The model for summaries.
    pub summarizer: Summarizer,
    /// The policy for contexts.
    pub policy: Policy,
    pub tools: Arc<Toolbox>,
    /// What flags and configuration allow without asking.
    pub allow: Vec<Grant>,
    /// Nothing may be changed.
    pub read_only: bool,
    /// The folder the conversation is about.
    pub workspace: Option<String>,
    /// The instructions of the project in that folder.
    pub project: Arc<ProjectInstructions>,
    /// The limits of a turn.
    pub limits: TurnLimits,
    /// The `source` of new sessions.
    pub source: Option<String>,
}

/// The model that writes and acknowledges summaries, without tools.
#[derive(Clone)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Summarizer {
    pub model: Model,
    pub provider: Arc<dyn Provider>,
    /// Its instructions.
    pub prompt: String,
}

impl Summarizer {
    /// One reply, within the timeout for a summary.
    pub(crate) async fn reply(&self, messages: &[Message]) -> Result<Message, String> {
        reply(&self.model, self.provider.as_ref(), messages).await
    }
}

/// One reply without tools, within the timeout for a summary.
pub(crate) async fn reply(
    model: &Model,
    provider: &dyn Provider,
    messages: &[Message],
) -> Result<Message, String> {
    let stable = messages.len();
    let (session, keep_longer) = (None, false);
    let request = Request { model, messages, stable, tools: &[], session, keep_longer };
    let mut listen = |_: Delta| {};
    match tokio::time::timeout(SUMMARY_TIME_MAX, provider.ask(request, &mut listen)).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(failure)) => Err(failure.to_string()),
        Err(_) => Err(format!("no answer within {} seconds", SUMMARY_TIME_MAX.as_secs())),
    }
}

/// How the last line of instructions begins, which says where the tools work.
const WORKSPACE: &str = "\n\nThe workspace is ";

/// Instructions of a session that name this folder, where they name one: it may have been another
/// when they were written.
pub(crate) fn naming_workspace(instructions: String, workspace: Option<&str>) -> String {
    let line = instructions.rsplit_once(WORKSPACE);
    let line = line.filter(|(_, named)| named.ends_with('.') && !named.contains('\n'));
    match (line, workspace) {
        (Some((before, _)), Some(workspace)) => format!("{before}{WORKSPACE}{workspace}."),
        _ => instructions,
    }
}

/// How far a turn may go.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    /// Rounds, if configured; otherwise it depends on the caller.
    pub rounds: Option<u32>,
    /// Timeout of a tool.
    pub tool_time: Duration,
    /// Timeout for waiting for another turn.
    pub lease_wait: Duration,
}

impl Default for TurnLimits {
    fn default() -> TurnLimits {
        TurnLimits { rounds: None, tool_time: TOOL_TIME_MAX, lease_wait: LEASE_WAIT }
    }
}

impl Responder {
    /// The fields of a new session: its agent, its model and its instructions.
    pub fn new_session(&self) -> New {
        let profile = Profile {
            agent: Some(self.agent.name.clone()),
            agent_path: Some(self.agent.path.clone()),
            provider: Some(self.model.provider.clone()),
            model: Some(self.model.name.clone()),
            workspace: self.workspace.clone(),
            ..Profile::default()
        };
        let (system, source) = (Some(self.instructions()), self.source.clone());
        New { profile, system, source, ..New::default() }
    }

    /// The system message of its sessions, without the project's instructions.
    pub(crate) fn instructions(&self) -> String {
        let mut system = self.agent.prompt.trim_end().to_owned();
        if let Some(workspace) = &self.workspace {
            system.push_str(&format!("{WORKSPACE}{workspace}."));
        }
        system
    }

    /// The same without any tool, for an untrusted session.
    #[must_use]
    pub fn without_tools(mut self) -> Responder {
        self.agent.tools = Some(Vec::new());
        self
    }

    /// The tools that are offered to the model: those of the agent; of those that change something,
    /// only the allowed ones.
    pub fn specs(&self, permissions: &Permissions) -> Vec<Spec> {
        let specs = self.tools.specs(|tool| permissions.offers(tool));
        let may_use = |spec: &Spec| {
            let with = self.tools.find(&spec.name).and_then(|tool| tool.offered_with());
            self.agent.may_use(with.unwrap_or(&spec.name))
        };
        specs.into_iter().filter(may_use).collect()
    }
}
