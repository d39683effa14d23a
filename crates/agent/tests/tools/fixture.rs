//! A workspace with a secret next to it, and a session, for the tests of the tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rethread_agent::tool::{RunSettings, ToolContext, Toolbox, Workspace};
use rethread_core::{
    Block, Fixed, MemoryStore, Message, Name, New, Owner, Raw, Role, SessionId, Sessions,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A workspace with a secret next to it, and a session.
pub(crate) struct Fixture {
    pub(crate) outer: TempDir,
    pub(crate) tools: Toolbox,
    pub(crate) tool_context: ToolContext,
    world: Arc<Fixed>,
}

/// The content of a file outside the workspace.
pub(crate) const SECRET: &str = "the secret outside";

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with(RunSettings::default())
    }

    /// One whose commands get these settings.
    pub(crate) fn with(settings: RunSettings) -> Fixture {
        let outer = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(outer.path().join("work")).expect("a folder");
        std::fs::create_dir(outer.path().join("outside")).expect("a folder");
        std::fs::write(outer.path().join("outside/secret.txt"), SECRET).expect("a file");
        let workspace = Workspace::open(outer.path().join("work")).expect("a workspace");
        let tools = Toolbox::with_settings(workspace, Arc::new(settings));
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world.clone());
        let session = sessions.create(&New::default(), None).expect("a session").id();
        let tool_context = ToolContext {
            sessions,
            session,
            stop: CancellationToken::new(),
            progress: Default::default(),
        };
        Fixture { outer, tools, world, tool_context }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.outer.path().join("work")
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }

    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.work().join(path)).expect("a file")
    }

    /// The result of a tool, or `error: ` and the reason.
    pub(crate) fn run(&self, tool: &str, input: Value) -> String {
        self.raw(tool, &input.to_string())
    }

    pub(crate) fn raw(&self, tool: &str, input: &str) -> String {
        let answer = self.tools.find(tool).expect("a tool").run(input, &self.tool_context);
        answer.unwrap_or_else(|failure| format!("error: {failure}"))
    }

    pub(crate) fn json(&self, tool: &str, input: Value) -> Value {
        let answer = self.run(tool, input);
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"))
    }

    pub(crate) fn say(&self, session: SessionId, message: Message) -> u64 {
        self.tool_context.sessions.append(session, vec![message.into()]).expect("an append")[0]
    }

    pub(crate) fn named(&self, name: &str) -> SessionId {
        // Sessions created in the same minute would have ids with the same prefix.
        self.world.advance(Duration::from_secs(3_600));
        let new = New { name: Some(Name::new(name).expect("a name")), ..New::default() };
        self.tool_context.sessions.create(&new, None).expect("a session").id()
    }
}

pub(crate) fn paths(answer: &Value, list: &str) -> Vec<String> {
    let rows = answer[list].as_array().expect("a list");
    let path = |row: &Value| row.as_str().or(row["path"].as_str()).expect("a path").to_owned();
    rows.iter().map(path).collect()
}

pub(crate) fn call(id: &str, name: &str) -> Message {
    Message::new(Role::Assistant, vec![Block::tool_use(id, name, Raw::of(&json!({"q": "x"})))])
}
