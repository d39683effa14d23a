//! Providers: they run models.
//!
//! A provider takes the messages of a context and returns one reply, which it reports while it
//! streams. It does not retry, store or decide anything: the loop does. There is one file per API:
//! `anthropic`, `openai` (and everything compatible), `ollama`. `offline` needs no network.

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

pub use cache::{CacheFacts, HOUR_FACTOR, cache_facts};
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

/// A request to a model.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Request<'a> {
    pub model: &'a Model,
    /// The messages, the system message first; always valid for any provider.
    pub messages: &'a [Message],
    /// How many leading messages stay unchanged during the turn: the provider may cache up to
    /// there.
    pub stable: usize,
    /// The tools it may call.
    pub tools: &'a [Spec],
    /// The session, so that the provider can find what it has cached.
    pub session: Option<SessionId>,
    /// Whether the provider is asked to keep what it caches for longer than usual: see
    /// [`CacheLife`](rethread_core::CacheLife).
    pub keep_longer: bool,
}

/// A piece of a streamed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// More of its text.
    Text(String),
    /// More of its thinking.
    Thinking(String),
}

/// The future of a reply.
pub type Reply<'a> = Pin<Box<dyn Future<Output = Result<Message, Failure>> + Send + 'a>>;

/// Called with each piece.
pub type Listener<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// A provider.
pub trait Provider: Send + Sync {
    /// Asks for one reply. The message has its blocks in the model's order, its `model` and its
    /// `usage`; dropping the future cancels the request.
    fn ask<'a>(&'a self, request: Request<'a>, listener: Listener<'a>) -> Reply<'a>;
}

/// The providers [`connect`] knows.
pub const PROVIDERS: &[&str] = &[OFFLINE, "anthropic", "openai", "ollama"];

/// Connects to the provider of `model`. Nothing is sent yet.
///
/// # Errors
///
/// [`Failure::Unknown`] for an unknown provider, [`Failure::NoKey`] if a key is missing,
/// [`Failure::Unreachable`] if its address is invalid, and [`Failure::Denied`] if its key is
/// invalid.
pub fn connect(model: &Model, env: &Env) -> Result<Arc<dyn Provider>, Failure> {
    match model.provider.as_str() {
        OFFLINE => Ok(Arc::new(offline::Offline)),
        "anthropic" => Ok(Arc::new(anthropic::Anthropic::new(env)?)),
        "openai" => Ok(Arc::new(openai::OpenAi::new(env)?)),
        "ollama" => Ok(Arc::new(ollama::Ollama::new(env)?)),
        other => Err(Failure::Unknown { provider: other.into(), known: PROVIDERS }),
    }
}

/// The note for a refused turn that is not sent again.
const LEFT_OUT: &str = "; this message stays in the log and is not sent to the model again";

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Failure {
    /// The provider is unknown.
    #[error("no provider `{provider}`; the providers are {}", .known.join(", "))]
    Unknown {
        /// The requested one.
        provider: String,
        /// The known ones.
        known: &'static [&'static str],
    },
    /// There is no API key for this provider.
    #[error("no API key for {provider}")]
    NoKey { provider: String, variable: &'static str },
    /// The key is wrong, or has no permission for this.
    #[error("{provider} rejected the API key: {message}")]
    Denied { provider: String, message: String },
    /// The request is invalid; a retry will not help.
    #[error("{provider} refused the request ({status}): {message}{}", if *.left_out { LEFT_OUT } else { "" })]
    Refused {
        provider: String,
        status: u16,
        message: String,
        /// What it objects to.
        cause: RefusalCause,
        /// The turn is left out of later contexts because of it.
        left_out: bool,
    },
    /// The rate limit is exceeded.
    #[error("{provider} is rate limiting: {message}")]
    Limited {
        provider: String,
        message: String,
        /// How long it wants us to wait.
        wait: Option<Duration>,
    },
    /// The quota is used up; waiting does not help.
    #[error("the quota at {provider} is used up: {message}")]
    OutOfQuota { provider: String, message: String },
    /// The provider has an internal error.
    #[error("{provider} failed ({status}): {message}")]
    Trouble {
        provider: String,
        status: u16,
        message: String,
        /// How long it wants us to wait.
        wait: Option<Duration>,
    },
    /// There is no response.
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
        /// The details.
        what: String,
    },
    /// The idle timeout was exceeded.
    #[error("{provider} sent nothing for {} seconds", .after.as_secs())]
    Silent {
        provider: String,
        /// The timeout.
        after: Duration,
    },
    /// The response is not a valid reply.
    #[error("{provider} sent an invalid reply: {what}")]
    Nonsense {
        provider: String,
        /// What was wrong with it.
        what: String,
    },
}

impl Failure {
    /// Whether a retry may help, and how long the provider wants us to wait first.
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
