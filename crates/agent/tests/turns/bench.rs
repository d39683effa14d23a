//! A runner over a memory store, a temporary workspace and a scripted model.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rethread_agent::scripted::{Answer, Server};
use rethread_agent::{
    Event, Events, Handle, Host, HostLimits, HostSettings, PermissionAnswer, PermissionRequest,
    Roster, RosterSettings, Runner, TurnAnswer as Answered, TurnError, TurnOptions, Workspaces,
};
use rethread_core::{Body, Entry, Fixed, MemoryStore, Message, Owner, SessionId};
use tokio_util::sync::CancellationToken;

/// The wires people use most.
pub(crate) const WIRES: [&str; 3] = ["openai", "anthropic", "ollama"];

/// Everything a turn needs.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) handle: Handle,
    pub(crate) runner: Runner,
    pub(crate) session: SessionId,
    pub(crate) stop: CancellationToken,
    folder: tempfile::TempDir,
    told: Arc<Mutex<Vec<Event>>>,
    answer: RefCell<Option<PermissionAnswer>>,
    questions: Cell<usize>,
}

/// The question in an event, a subagent's as well; or the event.
fn question(event: Event) -> Result<PermissionRequest, Box<Event>> {
    match event {
        Event::Permission(request) => Ok(request),
        Event::Subagent { session, event } => {
            question(*event).map_err(|event| Box::new(Event::Subagent { session, event }))
        }
        event => Err(Box::new(event)),
    }
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
        let store = Arc::new(MemoryStore::new(world.clone()));
        let settings = HostSettings {
            roster: Roster::new(RosterSettings {
                model: Some(format!("{wire}/scripted-1")),
                env: server.env(),
                ..RosterSettings::default()
            }),
            workspaces: Workspaces::only(&workspace).expect("it opens"),
            limits: HostLimits::default(),
            transcripts: Some(folder.path().join("transcripts")),
        };
        let handle = Host::new(store, world, settings).handle(Owner::local());
        let runner = handle.runner(None, None).expect("it can answer");
        let new = runner.responder.new_session();
        let session = handle.sessions().create(&new, None).expect("created").id();
        Bench {
            server,
            handle,
            runner,
            session,
            stop: CancellationToken::new(),
            folder,
            told: Arc::default(),
            answer: RefCell::default(),
            questions: Cell::default(),
        }
    }

    /// The folder of transcripts.
    pub(crate) fn transcripts(&self) -> PathBuf {
        self.folder.path().join("transcripts")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    /// Appends a message as if an earlier turn had done so.
    pub(crate) fn write(&self, message: Message) {
        self.handle.sessions().append(self.session, vec![message.into()]).expect("appended");
    }

    /// A user is present, and answers every question like this.
    pub(crate) fn answer_questions_with(&self, answer: PermissionAnswer) {
        self.answer.replace(Some(answer));
    }

    /// How often the user was asked.
    pub(crate) fn questions_asked(&self) -> usize {
        self.questions.get()
    }

    /// One turn that can be stopped; its events are recorded.
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
        let (events, mut receiver) = Events::channel();
        let answer = self.answer.borrow().clone();
        let options = TurnOptions { can_ask: answer.is_some(), ..TurnOptions::default() };
        let turn = self.runner.run_turn(self.session, Message::user(text), &options, &events, stop);
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                Some(event) = receiver.recv() => match question(event) {
                    Ok(request) => {
                        self.questions.set(self.questions.get() + 1);
                        request.answer(answer.clone().unwrap_or(PermissionAnswer::No));
                    }
                    Err(event) => self.told.lock().expect("whole").push(*event),
                },
                done = &mut turn => {
                    while let Ok(event) = receiver.try_recv() {
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
    pub(crate) async fn received_text(&self) {
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
        self.handle.sessions().read(id, 0..10_000).expect("read")
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        let entries = self.entries().into_iter();
        entries.filter_map(|entry| entry.body.message().cloned()).collect()
    }

    /// The roles of the messages in the log, and the kinds of the other entries.
    pub(crate) fn roles(&self) -> Vec<String> {
        let name = |entry: &Entry| match &entry.body {
            Body::Message(message) => message.role.as_str().to_owned(),
            body => body.kind().to_owned(),
        };
        self.entries().iter().map(name).collect()
    }

    /// The results of the tools.
    pub(crate) fn results(&self) -> Vec<String> {
        self.messages()
            .iter()
            .flat_map(|m| m.results().map(|r| r.text()).collect::<Vec<_>>())
            .collect()
    }
}
