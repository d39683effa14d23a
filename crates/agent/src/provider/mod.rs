//! Who runs a model, and how it is asked.
//!
//! A provider takes the messages of a context and returns one reply, reporting it while it streams.
//! It does not retry, store or decide anything: that is the loop's business. One file per wire:
//! `anthropic`, `openai` (and everything that speaks its protocol), `ollama`. `offline` needs no
//! network at all.

mod anthropic;
mod cache;
mod env;
mod error_page;
mod http;
mod lines;
mod models;
pub mod offline;
mod ollama;
mod openai;
mod openai_body;
mod refusal_cause;
mod reply;

pub use cache::{CacheFacts, cache_facts};
pub use env::Env;
pub use http::{Secret, client};
pub use models::{BadModel, ModelFacts, Models, PRICES_AS_OF, Price, default_model, describe};
pub use refusal_cause::RefusalCause;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::context::Model;
use rethread_core::{Message, SessionId};

use crate::tool::Spec;

/// The provider that needs no network and no key.
pub const OFFLINE: &str = "offline";

/// What a model is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The model.
    pub model: &'a Model,
    /// What it sees, the system message first; always valid for any provider.
    pub messages: &'a [Message],
    /// How many leading messages stay as they are during the turn: the provider may cache up to
    /// there.
    pub stable: usize,
    /// The tools it may call.
    pub tools: &'a [Spec],
    /// The session it is asked in, so that the provider can find what it has cached of it.
    pub session: Option<SessionId>,
}

/// Something a model says while it is saying it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// More of its text.
    Text(String),
    /// More of what it thinks.
    Thinking(String),
}

/// A reply on its way.
pub type Reply<'a> = Pin<Box<dyn Future<Output = Result<Message, Failure>> + Send + 'a>>;

/// Called with what a model says.
pub type Listener<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// Who runs a model.
pub trait Provider: Send + Sync {
    /// Asks for one reply. The message has its blocks in the order the model gave them, its
    /// `model` and its `usage`; dropping the future stops the reply.
    fn ask<'a>(&'a self, request: Request<'a>, listener: Listener<'a>) -> Reply<'a>;
}

/// The providers [`connect`] knows.
pub const PROVIDERS: &[&str] = &[OFFLINE, "anthropic", "openai", "ollama"];

/// A way to the provider of `model`. Nothing is sent yet.
///
/// # Errors
///
/// [`Failure::Unknown`] for a provider nobody here knows, [`Failure::NoKey`] without a key where
/// one is needed, [`Failure::Unreachable`] if its address cannot be one, and [`Failure::Denied`]
/// if its key cannot be one.
pub fn connect(model: &Model, env: &Env) -> Result<Arc<dyn Provider>, Failure> {
    match model.provider.as_str() {
        OFFLINE => Ok(Arc::new(offline::Offline)),
        "anthropic" => Ok(Arc::new(anthropic::Anthropic::new(env)?)),
        "openai" => Ok(Arc::new(openai::OpenAi::new(env)?)),
        "ollama" => Ok(Arc::new(ollama::Ollama::new(env)?)),
        other => Err(Failure::Unknown { provider: other.into(), known: PROVIDERS }),
    }
}

/// Said where a refused turn is not sent again.
const LEFT_OUT: &str = "; this message stays in the log and is not sent to the model again";

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Failure {
    /// There is no such provider.
    #[error("no provider `{provider}`; the providers are {}", .known.join(", "))]
    Unknown {
        /// What was asked for.
        provider: String,
        /// Those there are.
        known: &'static [&'static str],
    },
    /// There is no key for this provider.
    #[error("no API key for {provider}")]
    NoKey {
        provider: String,
        /// The variable that would hold it.
        variable: &'static str,
    },
    /// The key is wrong, or may not do this.
    #[error("{provider} rejected the API key: {message}")]
    Denied {
        provider: String,
        /// What it said.
        message: String,
    },
    /// The request is not acceptable; asking again will not help.
    #[error("{provider} refused the request ({status}): {message}{}", if *.left_out { LEFT_OUT } else { "" })]
    Refused {
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
        /// What it objects to.
        cause: RefusalCause,
        /// The turn is left out of later contexts because of it.
        left_out: bool,
    },
    /// Too much was asked for in too short a time.
    #[error("{provider} is rate limiting: {message}")]
    Limited {
        provider: String,
        /// What it said.
        message: String,
        /// How long it wants us to wait.
        wait: Option<Duration>,
    },
    /// What was paid for is used up; waiting does not help.
    #[error("the quota at {provider} is used up: {message}")]
    OutOfQuota {
        /// The provider.
        provider: String,
        /// What it said.
        message: String,
    },
    /// The provider has trouble of its own.
    #[error("{provider} failed ({status}): {message}")]
    Trouble {
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
        /// How long it wants us to wait.
        wait: Option<Duration>,
    },
    /// Nobody answers there.
    #[error("{provider} cannot be reached at {address}: {what}")]
    Unreachable {
        provider: String,
        /// Scheme, host and port.
        address: String,
        what: String,
    },
    /// The reply broke off.
    #[error("the reply of {provider} was cut off: {what}")]
    Broken {
        provider: String,
        /// How.
        what: String,
    },
    /// Nothing came for too long.
    #[error("{provider} sent nothing for {} seconds", .after.as_secs())]
    Silent {
        provider: String,
        /// How long we waited.
        after: Duration,
    },
    /// What came back is not a reply.
    #[error("{provider} sent an invalid reply: {what}")]
    Nonsense {
        provider: String,
        /// What was wrong with it.
        what: String,
    },
}

impl Failure {
    /// Whether asking again may help, and how long the provider wants us to wait first.
    pub fn retry(&self) -> Option<Option<Duration>> {
        match self {
            Failure::Limited { wait, .. } | Failure::Trouble { wait, .. } => Some(*wait),
            Failure::Unreachable { .. }
            | Failure::Broken { .. }
            | Failure::Silent { .. }
            | Failure::Nonsense { .. } => Some(None),
            Failure::Unknown { .. }
            | Failure::NoKey { .. }
            | Failure::Denied { .. }
            | Failure::OutOfQuota { .. }
            | Failure::Refused { .. } => None,
        }
    }
}
