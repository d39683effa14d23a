//! `run_output`: returns the output of a background command.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::background::BackgroundJobs;
use super::input::{arguments, schema};
use super::limits::BACKGROUND_WAIT_MAX;
use super::{Spec, Tool, ToolContext, ToolFailure};

/// Reads the output of commands in the background.
pub struct RunOutput {
    background: Arc<BackgroundJobs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    id: String,
    #[serde(default)]
    wait_s: u64,
    #[serde(default)]
    kill: bool,
}

impl RunOutput {
    /// Reads the output of these commands.
    pub fn new(background: Arc<BackgroundJobs>) -> RunOutput {
        RunOutput { background }
    }
}

impl Tool for RunOutput {
    fn spec(&self) -> Spec {
        Spec {
            name: "run_output".into(),
            description: "Returns what a command that `run` started in the background has written \
                          since this was last called, and whether it still runs."
                .into(),
            input: schema(
                json!({
                    "id": {"type": "string", "description": "The command, such as `bg1`."},
                    "wait_s": {"type": "integer", "description": "Seconds to wait for it to end: by default 0, at most 300."},
                    "kill": {"type": "boolean", "description": "End it first."},
                }),
                &["id"],
            ),
        }
    }

    /// It reaches only commands that `run` was allowed to start.
    fn changes(&self) -> bool {
        false
    }

    fn offered_with(&self) -> Option<&'static str> {
        Some("run")
    }

    fn time(&self, input: &str) -> Option<Duration> {
        let input: Input = arguments(&self.spec().input, input).ok()?;
        Some(Duration::from_secs(input.wait_s.min(BACKGROUND_WAIT_MAX) + 10))
    }

    fn run(&self, input: &str, tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let wait = Duration::from_secs(input.wait_s.min(BACKGROUND_WAIT_MAX));
        self.background.read(tool_context, &input.id, wait, input.kill)
    }
}
