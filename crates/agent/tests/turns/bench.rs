//! A runner over a memory store, a temporary workspace and a scripted model.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rethread_agent::agents::Agents;
use rethread_agent::provider::{connect, describe};
use rethread_agent::scripted::{Answer, Server};
use rethread_agent::tool::{Toolbox, Workspace};
use rethread_agent::{Answer as Answered, Bounds, Event, Events, Runner, Scribe, TurnError};
use rethread_core::context::Policy;
use rethread_core::{Body, Entry, Fixed, MemoryStore, Message, Owner, SessionId, Sessions};
use tokio_util::sync::CancellationToken;

/// The wires people use most.
pub(crate) const WIRES: [&str; 3] = ["openai", "anthropic", "ollama"];

/// Everything a turn needs.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) runner: Runner,
    pub(crate) session: SessionId,
    pub(crate) stop: CancellationToken,
    folder: tempfile::TempDir,
    told: Arc<Mutex<Vec<Event>>>,
    answer: RefCell<Option<bool>>,
}

/// Runs to the end.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

impl Bench {
    pub(crate) fn new(wire: &str, answers: impl IntoIterator<Item = Answer>) -> Bench {
        let server = Server::start(answers);
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = folder.path().join("work");
        std::fs::create_dir(&workspace).expect("a workspace");
        let world = Arc::new(Fixed::default());
        let owner = Owner::new("local").expect("valid");
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, owner, world);
        let (agents, _) = Agents::load(None, None);
        let model = describe(wire, "scripted-1");
        let provider = connect(&model, &server.env()).expect("a provider");
        let agent = |name: &str| agents.get(name).expect("built in").clone();
        let scribe = Scribe {
            model: model.clone(),
            provider: provider.clone(),
            prompt: agent("compaction").prompt,
        };
        let tools = Toolbox::new(Workspace::open(&workspace).expect("it opens"));
        let runner = Runner {
            sessions,
            agent: agent("build"),
            model,
            provider,
            scribe,
            policy: Policy::chat(),
            tools: Arc::new(tools),
            allow: Vec::new(),
            ask_first: false,
            transcripts: Some(folder.path().join("transcripts")),
            workspace: Some(workspace.display().to_string()),
            bounds: Bounds::default(),
            kept: Default::default(),
        };
        let session = runner.sessions.create(&runner.new_session(), None).expect("created").id();
        Bench {
            server,
            runner,
            session,
            stop: CancellationToken::new(),
            folder,
            told: Arc::default(),
            answer: RefCell::default(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    /// Writes a message as if an earlier turn had.
    pub(crate) fn write(&self, message: Message) {
        self.runner.sessions.append(self.session, vec![message.into()]).expect("appended");
    }

    pub(crate) fn answer_questions_with(&self, yes: bool) {
        self.answer.replace(Some(yes));
    }

    /// One turn that can be stopped; what happens is kept for later.
    pub(crate) async fn turn(&self, text: &str) -> Result<Answered, TurnError> {
        self.turn_until(text, &self.stop).await
    }

    /// One more turn, which nobody stops.
    pub(crate) async fn again(&self, text: &str) -> Result<Answered, TurnError> {
        self.turn_until(text, &CancellationToken::new()).await
    }

    async fn turn_until(
        &self,
        text: &str,
        stop: &CancellationToken,
    ) -> Result<Answered, TurnError> {
        let (events, mut heard) = Events::channel();
        let turn = self.runner.run_turn(self.session, Message::user(text), &events, stop);
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                Some(event) = heard.recv() => match (event, *self.answer.borrow()) {
                    (Event::Ask { answer, .. }, yes) => {
                        answer.send(yes.unwrap_or(false)).expect("the turn waits");
                    }
                    (event, _) => self.told.lock().expect("whole").push(event),
                },
                done = &mut turn => {
                    while let Ok(event) = heard.try_recv() {
                        self.told.lock().expect("whole").push(event);
                    }
                    return done;
                }
            }
        }
    }

    /// What happened so far.
    pub(crate) fn events(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        self.told.lock().expect("whole")
    }

    async fn until(&self, seen: impl Fn(&Bench) -> bool) {
        while !seen(self) {
            tokio::task::yield_now().await;
        }
    }

    /// The model was asked this often.
    pub(crate) async fn asked(&self, times: usize) {
        self.until(|bench| bench.server.requests().len() >= times).await;
    }

    /// Some of the reply has arrived.
    pub(crate) async fn heard_text(&self) {
        self.until(|bench| bench.events().iter().any(|e| matches!(e, Event::Text(_)))).await;
    }

    /// A turn waits for another one.
    pub(crate) async fn someone_waits(&self) {
        self.until(|bench| bench.events().iter().any(|e| matches!(e, Event::Waiting { .. }))).await;
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries_of(self.session)
    }

    pub(crate) fn entries_of(&self, id: SessionId) -> Vec<Entry> {
        self.runner.sessions.read(id, 0..10_000).expect("read")
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        let entries = self.entries().into_iter();
        entries.filter_map(|entry| entry.body.message().cloned()).collect()
    }

    /// Who speaks in the log, and what else happens.
    pub(crate) fn roles(&self) -> Vec<String> {
        let name = |entry: &Entry| match &entry.body {
            Body::Message(message) => message.role.as_str().to_owned(),
            body => body.kind().to_owned(),
        };
        self.entries().iter().map(name).collect()
    }

    /// What the tools said.
    pub(crate) fn results(&self) -> Vec<String> {
        self.messages()
            .iter()
            .flat_map(|m| m.results().map(|r| r.text()).collect::<Vec<_>>())
            .collect()
    }
}
