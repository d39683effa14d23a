//! Running one call of a model: found, allowed, asked for, limited.

use std::sync::Arc;

use rethread_core::log::INTERRUPTED;
use rethread_core::message::{Call, ToolResult};
use rethread_core::{Block, BlockKind, Message, Role, SessionId};
use tokio_util::sync::CancellationToken;

use crate::events::{Event, Events};
use crate::lease::blocking;
use crate::limits::{CALLS_MAX, RESULT_BYTES_MAX, STOP_GRACE};
use crate::runner::Runner;
use crate::tool::{Site, Spec, ToolFailure};

impl Runner {
    /// Runs a call, the `index`-th of its reply. Whatever goes wrong is told to the model.
    pub(crate) async fn run_call(
        &self,
        session: SessionId,
        index: usize,
        call: Call,
        offered: &[Spec],
        events: &Events,
        stop: &CancellationToken,
    ) -> Message {
        events.tell(Event::Call(call.clone()));
        let outcome = match self.refusal(index, &call, offered) {
            // Once someone has stopped the turn, nothing more of it is begun.
            _ if stop.is_cancelled() => Err(ToolFailure(INTERRUPTED.into())),
            Some(refusal) => Err(refusal),
            None => self.run_tool(session, &call, events, stop).await,
        };
        let (success, text) = match outcome {
            Ok(text) => (true, text),
            Err(ToolFailure(text)) => (false, text),
        };
        let text = cut(text);
        events.tell(Event::Result { call: call.clone(), success, text: text.clone() });
        Message::new(
            Role::Tool,
            vec![Block::of(BlockKind::ToolResult(ToolResult {
                tool_use_id: call.id,
                content: vec![Block::text(text)],
                is_error: !success,
            }))],
        )
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
        let known = self.tools.find(&call.name).is_some();
        let names: Vec<&str> = offered.iter().map(|spec| spec.name).collect();
        let there = match names.is_empty() {
            true => "no tools are offered".to_owned(),
            false => format!("there are {}", names.join(", ")),
        };
        Some(ToolFailure(match known {
            true => format!("`{}` is not allowed in this conversation; {there}", call.name),
            false => format!("there is no tool `{}`; {there}", call.name),
        }))
    }

    async fn run_tool(
        &self,
        session: SessionId,
        call: &Call,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<String, ToolFailure> {
        let interrupted = || ToolFailure(INTERRUPTED.into());
        let tool = self.tools.find(&call.name).expect("a tool that is offered is in the box");
        if tool.changes() && self.ask_first {
            let yes = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(interrupted()),
                yes = events.ask(call) => yes,
            };
            if !yes {
                return Err(ToolFailure("the person said no to this call".into()));
            }
        }
        // Stopping the turn stops the tool, and so does running out of time.
        let mine = stop.child_token();
        let site = Site { sessions: self.sessions.clone(), session, stop: mine.clone() };
        let (tool, input) = (Arc::clone(tool), call.input.get().to_owned());
        let time = tool.time(&input).unwrap_or(self.bounds.tool_time);
        let work = blocking(move || tool.run(&input, &site));
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => done,
            () = stop.cancelled() => {
                // It is told to stop; what it still did is worth knowing.
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
}

/// What is stored of a result. What a model sees of it is cut further, in the view.
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
