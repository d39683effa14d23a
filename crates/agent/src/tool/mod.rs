//! Tools: what a model can do. Read the workspace, look things up, and, if allowed, write.
//!
//! A tool is a plain function that runs on its own thread; the loop limits its time. Its result is
//! text for the model; JSON if there is something to count, so that its stub can give the number.
//! Its input comes from a model: it never leaves the workspace.
//!
//! One file per tool. Shared parts: [`workspace`] opens files, `input` parses arguments, and
//! [`limits`] has the limits. `run` also uses [`launcher`], `process`, `background`, `sandbox` and
//! `run_env`.

mod background;
mod edit_file;
mod glob;
mod grep;
mod input;
pub mod launcher;
pub mod limits;
mod list_dir;
pub mod mention;
mod nearest_text;
mod process;
mod read_file;
mod recall;
mod run;
mod run_env;
mod run_output;
mod sandbox;
mod search_sessions;
mod todo;
mod whole_file;
pub mod workspace;
mod write_file;

pub use background::BackgroundJobs;
pub use edit_file::EditFile;
pub use glob::Glob;
pub use grep::Grep;
pub use list_dir::ListDir;
pub use read_file::ReadFile;
pub use recall::Recall;
pub use run::{Run, RunSettings};
pub use run_output::RunOutput;
pub use sandbox::Confinement;
pub use search_sessions::SearchSessions;
pub use todo::Todo;
pub use workspace::Workspace;
pub(crate) use workspace::repository_of;
pub use write_file::WriteFile;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::{SessionId, Sessions};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::events::Progress;

/// The description of a tool for the model.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Spec {
    pub name: Cow<'static, str>,
    /// What it does and when to use it.
    pub description: Cow<'static, str>,
    /// The JSON schema of its arguments.
    pub input: Value,
}

impl Spec {
    /// Tokens of the text that a model gets.
    pub fn tokens(&self) -> u64 {
        let text = format!("{} {} {}", self.name, self.description, self.input);
        u64::from(rethread_core::tokens::count(&text))
    }
}

/// Why a tool failed, in words a model can act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolFailure(pub String);

/// The context of a call.
#[derive(Clone)]
pub struct ToolContext {
    /// The sessions of the owner.
    pub sessions: Sessions,
    /// The session it is called from.
    pub session: SessionId,
    /// Set when nobody waits for the result any more.
    pub stop: CancellationToken,
    /// Where it reports its output while it runs.
    pub progress: Progress,
}

/// A change to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// The file, relative to the workspace.
    pub path: PathBuf,
    /// The current content; `None` if it does not exist yet.
    pub before: Option<Vec<u8>>,
    /// The new content.
    pub after: String,
}

impl FileChange {
    /// Whether the file holds all of it already, so that nothing would change.
    pub(crate) fn is_none(&self) -> bool {
        self.before.as_deref() == Some(self.after.as_bytes())
    }
}

/// Something a model can do.
pub trait Tool: Send + Sync {
    /// Its description for the model.
    fn spec(&self) -> Spec;

    /// Whether it changes anything: then each call needs consent unless it was allowed, and the
    /// tool is not offered if nobody can be asked and nothing was allowed. There is no default: a
    /// tool that forgot this would change things without asking.
    fn changes(&self) -> bool;

    /// The command this call runs, if it runs one: the user can allow commands that begin alike.
    fn command(&self, input: &str) -> Option<String> {
        let _: &str = input;
        None
    }

    /// Why this call needs consent even if others were allowed before; if nobody can be asked, it
    /// is refused. Most calls need no more than the tool does.
    fn must_ask(&self, input: &str) -> Option<String> {
        let _: &str = input;
        None
    }

    /// The change this call would make to a file, shown to the user who is asked.
    ///
    /// # Errors
    ///
    /// [`ToolFailure`] if it cannot succeed: then nobody is asked, and the failure is returned to
    /// the model.
    fn preview(&self, input: &str) -> Result<Option<FileChange>, ToolFailure> {
        let _: &str = input;
        Ok(None)
    }

    /// The tool that this one depends on: it is offered whenever that one is.
    fn offered_with(&self) -> Option<&'static str> {
        None
    }

    /// The timeout of this call, if it is not the loop's default.
    fn time(&self, input: &str) -> Option<Duration> {
        let _: &str = input;
        None
    }

    /// Runs the call. `input` is the JSON the model wrote.
    ///
    /// # Errors
    ///
    /// [`ToolFailure`], which is returned to the model.
    fn run(&self, input: &str, tool_context: &ToolContext) -> Result<String, ToolFailure>;
}

/// The tools that change something.
pub const CHANGING: [&str; 3] = ["write_file", "edit_file", "run"];

/// The read-only tools.
pub const LOOKING: [&str; 6] =
    ["read_file", "list_dir", "glob", "grep", "recall", "search_sessions"];

/// The tools that are about the work itself: they neither read the workspace nor change it.
pub const WORKING: [&str; 3] = ["todo", "run_output", "task"];

/// A set of tools.
#[derive(Clone)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
    workspace: Option<Arc<Workspace>>,
}

impl Toolbox {
    /// No tools.
    pub fn empty() -> Toolbox {
        Toolbox { tools: Vec::new(), workspace: None }
    }

    /// All tools, for one workspace, with default settings for commands.
    pub fn new(workspace: Workspace) -> Toolbox {
        Toolbox::with_settings(workspace, Arc::default())
    }

    /// All tools, for one workspace.
    pub fn with_settings(workspace: Workspace, run: Arc<RunSettings>) -> Toolbox {
        let workspace = Arc::new(workspace);
        let background = Arc::new(BackgroundJobs::default());
        let tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(ReadFile::new(workspace.clone())),
            Arc::new(ListDir::new(workspace.clone())),
            Arc::new(Glob::new(workspace.clone())),
            Arc::new(Grep::new(workspace.clone())),
            Arc::new(Recall),
            Arc::new(SearchSessions),
            Arc::new(WriteFile::new(workspace.clone())),
            Arc::new(EditFile::new(workspace.clone())),
            Arc::new(Run::new(workspace.clone(), run, background.clone())),
            Arc::new(RunOutput::new(background)),
            Arc::new(Todo),
        ];
        Toolbox { tools, workspace: Some(workspace) }
    }

    /// Only the tools with these names; unknown names are ignored.
    #[must_use]
    pub fn only<N: AsRef<str>>(mut self, names: &[N]) -> Toolbox {
        self.tools.retain(|tool| names.iter().any(|name| name.as_ref() == tool.spec().name));
        self
    }

    /// Adds a tool. One with the same name is replaced.
    #[must_use]
    pub fn with(mut self, tool: Arc<dyn Tool>) -> Toolbox {
        self.tools.retain(|other| other.spec().name != tool.spec().name);
        self.tools.push(tool);
        self
    }

    /// The descriptions for the model: the read-only tools, and those that change something and are
    /// `offered`.
    pub fn specs(&self, offered: impl Fn(&str) -> bool) -> Vec<Spec> {
        let all = self.tools.iter().map(|tool| (tool, tool.spec()));
        let told = all.filter(|(tool, spec)| !tool.changes() || offered(&spec.name));
        let mut specs: Vec<Spec> = told.map(|(_, spec)| spec).collect();
        let names: Vec<String> = specs.iter().map(|spec| spec.name.to_string()).collect();
        specs.retain(|spec| {
            let with = self.find(&spec.name).and_then(|tool| tool.offered_with());
            with.is_none_or(|with| names.iter().any(|name| name == with))
        });
        specs
    }

    /// The folder the tools work in.
    pub(crate) fn workspace(&self) -> Option<&Arc<Workspace>> {
        self.workspace.as_ref()
    }

    /// The tool of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|tool| tool.spec().name)).finish()
    }
}

/// Parses the arguments of a tool, for tools outside of this module.
///
/// # Errors
///
/// [`ToolFailure`] that names the argument and says what was expected.
pub(crate) fn read_arguments<T: DeserializeOwned>(
    schema: &Value,
    input: &str,
) -> Result<T, ToolFailure> {
    input::arguments(schema, input)
}

/// A result as JSON.
fn written(answer: &impl serde::Serialize) -> String {
    serde_json::to_string(answer).expect("plain data is always valid JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_tools_are_what_the_tools_say_of_themselves() {
        let folder = tempfile::tempdir().expect("a folder");
        let tools = Toolbox::new(Workspace::open(folder.path()).expect("opened")).tools;
        let of = |changing: bool| -> Vec<String> {
            let some = tools.iter().filter(|tool| tool.changes() == changing);
            let names = some.map(|tool| tool.spec().name.into_owned());
            names.filter(|name| !WORKING.contains(&name.as_str())).collect()
        };
        assert_eq!(
            (of(true), of(false)),
            (CHANGING.map(Into::into).to_vec(), LOOKING.map(Into::into).to_vec())
        );
    }
}
