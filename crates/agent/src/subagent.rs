//! `task`: another agent works on a part of the job, in a session of its own.
//!
//! The child session has its own log, which records what was done and what it cost; the parent gets
//! the answer. While it works, its events are reported as those of a subagent. It has no permission
//! its parent lacks: it is offered only tools the parent is offered, even if its own agent lists
//! more, and permission questions appear in the parent's session. It is archived from the start:
//! not listed, but it can be found and opened.

use std::sync::Arc;

use rethread_core::entry::Origin;
use rethread_core::message::{Call, Usage};
use rethread_core::session::{Parent, SessionKind};
use rethread_core::{Message, New, SessionId};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::agents::Agent;
use crate::blocking::blocking;
use crate::events::Events;
use crate::leased_thread::LeasedThread;
use crate::limits::{SUBAGENT_DEPTH_MAX, SUBAGENT_TITLE_CHARS};
use crate::runner::{End, Instructions, Runner, TurnAnswer};
use crate::tool::{Spec, ToolFailure, read_arguments};
use crate::turn::{RunningTurn, TurnMode, TurnOptions};

/// The name of the tool.
pub(crate) const TASK: &str = "task";

/// The agent that is used only by the program itself.
const COMPACTION: &str = "compaction";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    agent: String,
    prompt: String,
}

/// The result of a subagent: its answer for the model, and its cost.
pub(crate) struct TaskDone {
    pub(crate) result: Result<String, ToolFailure>,
    pub(crate) usage: Usage,
}

impl Runner {
    /// The tools that are offered to the model in a turn of this session, without those of the
    /// client.
    pub fn offered(&self, session: SessionId, options: &TurnOptions) -> Vec<Spec> {
        let mut tools = self.responder.specs(&self.permissions(session, options.can_ask));
        tools.extend(self.task_spec(options));
        tools
    }

    /// The description of `task`, if the model may use it.
    fn task_spec(&self, options: &TurnOptions) -> Option<Spec> {
        let may = self.depth < SUBAGENT_DEPTH_MAX
            && options.mode == TurnMode::Work
            && self.responder.agent.may_use(TASK)
            && self.responder.tools.find(TASK).is_none();
        may.then(|| {
            let lines = self.subagents().map(|agent| format!("`{}`: {}", agent.name, agent.description));
            let agents = lines.collect::<Vec<_>>().join("; ");
            Spec {
                name: TASK.into(),
                description: format!(
                    "Has another agent work on a part of the job, on its own, and gives its answer. \
                     It sees only the prompt, so say all it needs to know and what to report. Several \
                     calls in one reply work at the same time if none of them changes anything. \
                     Agents: {agents}"
                )
                .into(),
                input: task_schema(),
            }
        })
    }

    fn subagents(&self) -> impl Iterator<Item = &Agent> {
        let agents = self.handle.host().agents().iter();
        agents.filter(|agent| agent.name != COMPACTION)
    }

    /// Whether a call is a task of a subagent that cannot change anything.
    pub(crate) fn is_looking_task(&self, call: &Call, turn: &RunningTurn) -> bool {
        let Ok(input) = read_arguments::<Input>(&task_schema(), call.input.get()) else {
            return true;
        };
        let changes = |spec: &Spec| {
            let tool = self.responder.tools.find(&spec.name);
            tool.is_none_or(|tool| tool.changes())
        };
        let agent = self.handle.host().agents().get(&input.agent);
        agent.is_none_or(|agent| {
            !turn.tools.iter().filter(|spec| changes(spec)).any(|spec| agent.may_use(&spec.name))
        })
    }

    /// Runs a subagent for a call.
    pub(crate) async fn run_task(
        &self,
        held: &LeasedThread,
        turn: &RunningTurn,
        call: &Call,
        options: &TurnOptions,
        events: &Events,
        stop: &CancellationToken,
    ) -> TaskDone {
        let mut usage = Usage::default();
        let task = async {
            let input: Input = read_arguments(&task_schema(), call.input.get())?;
            if input.prompt.trim().is_empty() {
                return Err(ToolFailure("`prompt` is empty; say what is to be done".into()));
            }
            let child = self.subagent(&input.agent, held, turn)?;
            let new = New {
                kind: SessionKind::Subagent,
                parent: Some(Parent { id: turn.id, origin: Origin::New }),
                ..child.responder.new_session()
            };
            let new = titled(new, &input.prompt);
            let sessions = self.sessions.clone();
            let created = blocking(move || sessions.create(&new, None)).await;
            let id = created.map_err(|error| failed(&error))?.id();
            let options = TurnOptions { can_ask: options.can_ask, ..TurnOptions::default() };
            let events = events.of_subagent(id);
            let question = Message::user(input.prompt);
            let outcome = Box::pin(child.run_turn(id, question, &options, &events, stop)).await;
            match outcome {
                Ok(answer) => {
                    usage = answer.usage;
                    result_text(&input.agent, id, &answer)
                }
                Err(error) => {
                    // It was charged for what it did until then.
                    let sessions = self.sessions.clone();
                    let session = blocking(move || sessions.get(id)).await;
                    let spent = session.into_iter().flat_map(|session| session.usage);
                    spent.for_each(|(_, model)| usage += model.usage);
                    Err(failed(&error))
                }
            }
        };
        let result = task.await;
        TaskDone { result, usage }
    }

    /// The runner of a subagent: with those tools of its agent that are offered in this turn.
    fn subagent(
        &self,
        name: &str,
        held: &LeasedThread,
        turn: &RunningTurn,
    ) -> Result<Runner, ToolFailure> {
        let known = self.subagents().any(|agent| agent.name == name);
        let mut responder = match known {
            true => self.handle.host().roster().connect(name).map_err(|error| {
                ToolFailure(format!("the agent `{name}` cannot answer here: {error}"))
            })?,
            false => {
                let names: Vec<&str> = self.subagents().map(|agent| agent.name.as_str()).collect();
                let what = format!("there is no agent `{name}`; there are {}", names.join(", "));
                return Err(ToolFailure(what));
            }
        };
        let ours = &self.responder;
        let offered = turn.tools.iter().map(|spec| spec.name.to_string());
        let offered = offered.filter(|name| responder.agent.may_use(name)).collect();
        responder.agent.tools = Some(offered);
        if responder.agent.model.is_none() {
            (responder.model, responder.provider) = (ours.model.clone(), ours.provider.clone());
        }
        responder.tools = ours.tools.clone();
        responder.allow.clone_from(&ours.allow);
        responder.read_only |= ours.read_only;
        responder.workspace.clone_from(&ours.workspace);
        responder.project = ours.project.clone();
        responder.limits = ours.limits;
        Ok(Runner {
            responder,
            instructions: Instructions::Own,
            depth: self.depth + 1,
            above: self.above.iter().cloned().chain([Arc::downgrade(&held.shared())]).collect(),
            asks_for: Some(self.asks_for.unwrap_or(turn.id)),
            ..self.clone()
        })
    }
}

fn task_schema() -> serde_json::Value {
    json!({
        "type": "object",
        "properties": {
            "agent": {"type": "string", "description": "Which agent."},
            "prompt": {"type": "string", "description": "What it is to do, and what to report."},
        },
        "required": ["agent", "prompt"],
        "additionalProperties": false,
    })
}

/// A new session with the beginning of its task as its title.
fn titled(mut new: New, prompt: &str) -> New {
    let line = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let line = line.trim().chars().filter(|c| !c.is_control());
    new.profile.title = Some(line.take(SUBAGENT_TITLE_CHARS).collect());
    new
}

/// The result for the parent. The subagent's session can be read with `recall`.
fn result_text(agent: &str, id: SessionId, answer: &TurnAnswer) -> Result<String, ToolFailure> {
    let rounds = match answer.rounds {
        1 => "1 round".to_owned(),
        rounds => format!("{rounds} rounds"),
    };
    // In full: subagents that were started together have ids that begin alike.
    let place = format!("[`{agent}` worked in session {id}: {rounds}]");
    let text = answer.text.trim_end();
    match answer.end {
        End::Answered | End::RoundLimit | End::Repeated => Ok(format!("{text}\n\n{place}")),
        // What failed comes last, as for every tool: that is the line a person is shown.
        End::Stopped | End::ClientCalls => {
            Err(ToolFailure(format!("{text}\n\n{place}\n[stopped]").trim_start().to_owned()))
        }
    }
}

fn failed(error: &dyn std::error::Error) -> ToolFailure {
    let mut what = format!("the subagent failed: {error}");
    let mut source = error.source();
    while let Some(error) = source {
        what.push_str(&format!(": {error}"));
        source = error.source();
    }
    ToolFailure(what)
}
