//! Runs one call of a model: finds the tool, checks permissions, asks if needed, applies limits.

use std::sync::{Arc, Mutex, Weak};

use rethread_core::log::INTERRUPTED;
use rethread_core::message::{Call, ToolResult, Usage};
use rethread_core::{Block, BlockKind, Message, Role, SessionId, Thread};
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::events::{Event, Events};
use crate::file_history;
use crate::grant::{Grant, Permissions, Verdict};
use crate::leased_thread::{LeasedThread, lock};
use crate::limits::{CALLS_MAX, RESULT_BYTES_MAX, STOP_GRACE};
use crate::permission::{DECLINED, NOT_RUN, PermissionAnswer, Scope};
use crate::runner::Runner;
use crate::tool::{FileChange, Spec, Tool, ToolContext, ToolFailure};
use crate::turn::{RunningTurn, TurnOptions};

/// A finished call.
pub(crate) struct CallDone {
    /// The message with its result.
    pub(crate) message: Message,
    /// The event to report in its turn.
    pub(crate) event: Event,
    /// What a subagent was charged.
    pub(crate) usage: Usage,
}

impl Runner {
    /// Runs a call, the `index`-th of its reply. Errors are returned to the model.
    #[allow(clippy::too_many_arguments, reason = "a turn, one of its calls, and who listens")]
    pub(crate) async fn run_call(
        &self,
        held: &LeasedThread,
        turn: &RunningTurn,
        index: usize,
        call: Call,
        options: &TurnOptions,
        events: &Events,
        stop: &CancellationToken,
    ) -> CallDone {
        events.send(Event::Call(call.clone())).await;
        let (mut usage, mut change) = (Usage::default(), None);
        let outcome = match self.refusal(index, &call, &turn.tools) {
            // After the turn was stopped, nothing more is started.
            _ if stop.is_cancelled() => Err(ToolFailure(NOT_RUN.into())),
            Some(refusal) => Err(refusal),
            None if self.responder.tools.find(&call.name).is_none() => {
                let done = self.run_task(held, turn, &call, options, events, stop).await;
                usage = done.usage;
                done.result
            }
            None => self.run_tool(held, turn.id, &call, options, events, stop, &mut change).await,
        };
        let (success, text) = match outcome {
            Ok(text) => (true, text),
            Err(ToolFailure(text)) => (false, text),
        };
        let text = cut(text);
        let change = change.filter(|_| success);
        let event = Event::Result { call: call.clone(), success, text: text.clone(), change };
        let message = Message::new(
            Role::Tool,
            vec![Block::of(BlockKind::ToolResult(ToolResult {
                tool_use_id: call.id,
                content: vec![Block::text(text)],
                is_error: !success,
            }))],
        );
        CallDone { message, event, usage }
    }

    /// Why a call is not run at all.
    fn refusal(&self, index: usize, call: &Call, offered: &[Spec]) -> Option<ToolFailure> {
        if index >= CALLS_MAX {
            let what = format!("at most {CALLS_MAX} calls in one reply; ask for fewer at a time");
            return Some(ToolFailure(what));
        }
        if offered.iter().any(|spec| spec.name == call.name) {
            return None;
        }
        let known = self.responder.tools.find(&call.name).is_some();
        let names: Vec<&str> = offered.iter().map(|spec| spec.name.as_ref()).collect();
        let there = match names.is_empty() {
            true => "no tools are offered".to_owned(),
            false => format!("there are {}", names.join(", ")),
        };
        Some(ToolFailure(match known {
            true => format!("`{}` is not allowed in this conversation; {there}", call.name),
            false => format!("there is no tool `{}`; {there}", call.name),
        }))
    }

    /// Runs a tool. `changed` is set to its change to a file, which is recorded before it is made.
    #[allow(clippy::too_many_arguments, reason = "a turn, one of its calls, and who listens")]
    async fn run_tool(
        &self,
        held: &LeasedThread,
        session: SessionId,
        call: &Call,
        options: &TurnOptions,
        events: &Events,
        stop: &CancellationToken,
        changed: &mut Option<Arc<FileChange>>,
    ) -> Result<String, ToolFailure> {
        let interrupted = || ToolFailure(INTERRUPTED.into());
        let tool = self.responder.tools.find(&call.name).expect("an offered tool is in the box");
        let change = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(ToolFailure(NOT_RUN.into())),
            permitted = self.permission(session, tool, call, options, events) => permitted?,
        };
        if let Some(change) = change.map(Arc::new) {
            self.keep(held, call, Arc::clone(&change)).await?;
            *changed = Some(change);
        }
        // Stopping the turn stops the tool, and so does its timeout.
        let mine = stop.child_token();
        let tool_context = ToolContext {
            sessions: self.sessions.clone(),
            session,
            stop: mine.clone(),
            progress: events.progress(&call.id),
        };
        let (tool, input) = (Arc::clone(tool), call.input.get().to_owned());
        let time = tool.time(&input).unwrap_or(self.responder.limits.tool_time);
        let work = blocking(move || tool.run(&input, &tool_context));
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => done,
            () = stop.cancelled() => {
                // It was asked to stop; its result still matters.
                let late = tokio::time::timeout(STOP_GRACE, &mut work).await;
                late.unwrap_or_else(|_| Err(interrupted()))
            }
            () = tokio::time::sleep(time) => {
                mine.cancel();
                let seconds = time.as_secs_f64();
                Err(ToolFailure(format!("`{}` took longer than {seconds} seconds", call.name)))
            }
        }
    }

    /// Whether a call may run: because it changes nothing, because it was allowed, or because the
    /// user agrees now. A call that cannot succeed is not asked about. Returns its change to a
    /// file.
    async fn permission(
        &self,
        session: SessionId,
        tool: &Arc<dyn Tool>,
        call: &Call,
        options: &TurnOptions,
        events: &Events,
    ) -> Result<Option<FileChange>, ToolFailure> {
        let input = call.input.get();
        let (command, must_ask) = (tool.command(input), tool.must_ask(input));
        if !tool.changes() && must_ask.is_none() {
            return Ok(None);
        }
        let preview = || {
            let (tool, input) = (Arc::clone(tool), input.to_owned());
            blocking(move || tool.preview(&input))
        };
        let permissions = self.permissions(session, options.can_ask);
        match permissions.verdict(&call.name, command.as_deref(), must_ask.as_deref()) {
            Verdict::Run => return preview().await,
            Verdict::Refuse(why) => return Err(ToolFailure(why)),
            Verdict::Ask => {}
        }
        let change = preview().await?;
        if change.as_ref().is_some_and(FileChange::is_none) {
            return Ok(change);
        }
        // What is asked about each time would be asked about again.
        let always = Grant::like(&call.name, command.as_deref()).filter(|_| must_ask.is_none());
        match events.ask(call, change.clone(), must_ask, always).await {
            PermissionAnswer::Once => {}
            PermissionAnswer::Always(grant) => {
                self.grants.change(&self.scope(session), |granted| granted.allow(grant));
            }
            PermissionAnswer::No => return Err(ToolFailure(DECLINED.into())),
            PermissionAnswer::NoBecause(why) => {
                return Err(ToolFailure(format!("{DECLINED}: {why}")));
            }
        }
        // The user may take a while, and others may write in the meantime: only what was shown is
        // done.
        if change.is_some() && preview().await? != change {
            let what = "the file changed while the user was asked; read it again";
            return Err(ToolFailure(what.into()));
        }
        Ok(change)
    }

    /// Stores the content of a file before it is changed. If that fails, the file is not changed.
    async fn keep(
        &self,
        held: &LeasedThread,
        call: &Call,
        change: Arc<FileChange>,
    ) -> Result<(), ToolFailure> {
        let Some(workspace) = self.responder.workspace.clone() else { return Ok(()) };
        let above = self.above.iter().filter_map(Weak::upgrade);
        let threads: Vec<Arc<Mutex<Thread>>> = above.chain([held.shared()]).collect();
        let call = call.id.clone();
        let kept = blocking(move || {
            let keep = |thread: &Arc<Mutex<Thread>>| {
                file_history::keep(&mut lock(thread), &workspace, &call, &change)
            };
            threads.iter().try_for_each(keep)
        });
        kept.await.map_err(|error| {
            let what = "what the file holds could not be kept, so it was not changed";
            ToolFailure(format!("{what}: {error}"))
        })
    }

    /// The permissions in a session of this runner.
    pub fn permissions(&self, session: SessionId, can_ask: bool) -> Permissions {
        let changed = self.grants.of(&self.scope(session));
        changed.over(&self.responder.allow, self.responder.read_only, can_ask)
    }

    /// The scope of a permission that the user grants.
    pub(crate) fn scope(&self, session: SessionId) -> Scope {
        // A permission for a subagent applies to the session the user is in.
        let session = self.asks_for.unwrap_or(session);
        let owner = self.sessions.owner().clone();
        Scope { owner, session, workspace: self.responder.workspace.clone() }
    }
}

/// The part of a result that is stored. What a model sees of it is cut further, in the view.
fn cut(mut text: String) -> String {
    if text.len() > RESULT_BYTES_MAX {
        let whole = text.len();
        let mark = format!("\n\n[{whole} bytes; the rest was not kept]");
        text.truncate(text.floor_char_boundary(RESULT_BYTES_MAX - mark.len()));
        text.push_str(&mark);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_stored_whole_up_to_its_limit_and_never_split_inside_a_character() {
        assert_eq!(cut("é".repeat(RESULT_BYTES_MAX / 2)).len(), RESULT_BYTES_MAX);
        let long = cut("é".repeat(RESULT_BYTES_MAX / 2 + 1));
        assert!(long.len() <= RESULT_BYTES_MAX && long.ends_with("was not kept]"));
    }
}
