//! A scripted model: a real HTTP server with answers given by a test.
//!
//! The server listens on a free loopback port and implements three APIs: `/v1/messages` as
//! Anthropic, `/v1/chat/completions` as OpenAI and `/api/chat` as Ollama. All three take their
//! [`Answer`]s from one queue. It refuses what a real provider would refuse, with status 400 and
//! without using an answer, so that a test detects an invalid context.
//!
//! Nothing here sleeps: an answer that should wait does so until [`Server::release`], and a test
//! that should wait uses [`Server::wait_for_requests`].
//!
//! ```
//! use rethread_agent::scripted::{Answer, Server};
//! use serde_json::json;
//!
//! let server = Server::start([
//!     Answer::text("Let me look.").and_calls([("list_files", json!({"path": "."}))]),
//!     Answer::text("There are three files."),
//! ]);
//! // A program under test is pointed here by its environment.
//! let variables = server.vars();
//! assert_eq!(variables[0].0, "ANTHROPIC_API_KEY");
//! ```

mod answer;
mod connection;
mod rules;
mod wire;

pub use answer::Answer;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::provider::Env;

/// The timeout of all waits. A test that takes longer has failed.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The API key in [`Server::env`] and [`Server::vars`].
pub const KEY: &str = "sk-scripted-0123456789";

/// A request as it was received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedRequest {
    /// Its path, such as `/v1/messages`.
    pub path: String,
    /// The headers, with lowercase names.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub text: String,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
}

impl ReceivedRequest {
    /// The value of a header, by its lowercase name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The answer when the queue is empty.
type Fallback = Arc<dyn Fn(&Value) -> Answer + Send + Sync>;

/// A scripted model. The server stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server that gives these answers, in this order, and then its fallback.
    ///
    /// # Panics
    ///
    /// If no loopback port is free.
    pub fn start(answers: impl IntoIterator<Item = Answer>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        shared.lock().answers.extend(answers);
        let listening = std::thread::spawn({
            let shared = shared.clone();
            move || listen(&listener, &shared)
        });
        Server { address, shared, listening: Some(listening) }
    }

    /// Its URL, such as `http://127.0.0.1:41234`. As OpenAI it is at `/v1` below that.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// An environment in which every provider is this server and [`KEY`] the key to it.
    pub fn env(&self) -> Env {
        let vars = self.vars();
        Env::from_vars(|name| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        })
    }

    /// The same as variables, for the real binary.
    pub fn vars(&self) -> [(&'static str, String); 5] {
        [
            ("ANTHROPIC_API_KEY", KEY.into()),
            ("ANTHROPIC_BASE_URL", self.url()),
            ("OPENAI_API_KEY", KEY.into()),
            ("OPENAI_BASE_URL", format!("{}/v1", self.url())),
            ("OLLAMA_HOST", self.url()),
        ]
    }

    /// Adds an answer to the end of the queue.
    pub fn push(&self, answer: Answer) {
        self.shared.lock().answers.push_back(answer);
    }

    /// Sets the answer for an empty queue, given the body of the request. The default is a fixed
    /// text.
    pub fn fallback(&self, answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) {
        self.shared.lock().fallback = Some(Arc::new(answer));
    }

    /// Releases one answer that waits (see [`Answer::slowly`]); if none waits yet, the next that
    /// would.
    pub fn release(&self) {
        self.shared.lock().releases += 1;
        self.shared.changed.notify_all();
    }

    /// All requests, in order, including refused ones.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.lock().requests.clone()
    }

    /// Waits until at least `count` requests have arrived, and returns all of them.
    ///
    /// # Panics
    ///
    /// If they do not come within 30 seconds.
    pub fn wait_for_requests(&self, count: usize) -> Vec<ReceivedRequest> {
        let state = self.shared.lock();
        let (state, waited) = self
            .shared
            .changed
            .wait_timeout_while(state, WAIT_MAX, |state| state.requests.len() < count)
            .unwrap_or_else(PoisonError::into_inner);
        let came = state.requests.len();
        assert!(!waited.timed_out(), "{came} requests came in {WAIT_MAX:?}, not {count}");
        state.requests.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        // Wakes the listener; one that has ended needs nothing.
        drop(TcpStream::connect(self.address));
        if let Some(listening) = self.listening.take() {
            drop(listening.join());
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.lock().stopped {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = shared.clone();
        // The client may disconnect before the answer is complete: that is what tests are about.
        std::thread::spawn(move || drop(connection::serve(stream, &shared)));
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    fallback: Option<Fallback>,
    requests: Vec<ReceivedRequest>,
    releases: usize,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a request, and gives its number.
    fn record(&self, asked: ReceivedRequest) -> usize {
        let mut state = self.lock();
        state.requests.push(asked);
        self.changed.notify_all();
        state.requests.len()
    }

    fn answer(&self, body: &Value) -> Answer {
        let mut state = self.lock();
        if let Some(answer) = state.answers.pop_front() {
            return answer;
        }
        let fallback = state.fallback.clone();
        drop(state);
        fallback.map_or_else(|| Answer::text("The script has ended."), |answer| answer(body))
    }

    /// Waits to be released; false if that will not happen any more.
    fn hold(&self) -> bool {
        let state = self.lock();
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, WAIT_MAX, |state| state.releases == 0 && !state.stopped)
            .unwrap_or_else(PoisonError::into_inner);
        let released = state.releases > 0;
        state.releases -= usize::from(released);
        released
    }
}
