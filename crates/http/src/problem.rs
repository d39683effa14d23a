//! Every error of the HTTP API, and every hint: `application/problem+json` (RFC 9457).
//!
//! `type` is stable and corresponds to one decision of the client; `detail` says what happened and
//! to which object, `hint` what to do next. Another owner's session and one that never existed give
//! the same bytes.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use rethread_agent::host::Refusal;
use rethread_agent::provider::Failure;
use rethread_agent::{BudgetExceeded, TurnError, WriteError};
use rethread_core::name::NameError;
use rethread_core::world::rfc3339;
use rethread_core::{StoreError, sessions};
use serde::Serialize;
use utoipa::ToSchema;

use crate::outgoing::json_text;

/// Why a request was refused. It is passed around often and read rarely, so it is boxed.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Problem(Box<Shape>);

/// A problem document.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
struct Shape {
    /// The kind of problem; stable.
    #[serde(rename = "type")]
    #[schema(example = "/problems/not-found")]
    kind: &'static str,
    /// The kind, in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What happened, and to which object.
    detail: String,
    /// What to do next.
    hint: &'static str,
    /// Who holds the session, if that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// Until when it is held, unless renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// The number of entries of the session, if the writer expected another.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<u64>,
    #[serde(skip)]
    retry_after: Option<u64>,
    /// For the administrator: written to the log only.
    #[serde(skip)]
    cause: Option<String>,
}

/// Details for the log that are not in the response.
#[derive(Clone)]
pub(crate) struct Cause(pub(crate) String);

/// The kinds of problems: type, title, status, hint.
macro_rules! kinds {
    ($($name:ident: $status:literal, $kind:literal, $title:literal, $hint:literal;)*) => {
        impl Problem {
            $(pub(crate) fn $name(detail: impl Into<String>) -> Problem {
                Problem::new($kind, $title, $status, detail.into(), $hint)
            })*
        }

        /// Every type of problem with its status, for the OpenAPI document and its test.
        pub(crate) const KINDS: &[(&str, u16, &str)] = &[$(($kind, $status, $title)),*];
    };
}

kinds! {
    bad_request: 400, "/problems/bad-request", "The request is not valid",
        "correct the field that `detail` names; nothing was stored";
    not_http: 400, "/problems/http", "This is not an HTTP/1 request",
        "use plain HTTP/1.1; for HTTPS or HTTP/2, put a proxy in front";
    unauthorized: 401, "/problems/unauthorized", "A token is needed",
        "send `Authorization: Bearer rt_…`; create a token with `rethread token create`";
    bad_host: 403, "/problems/host", "Host not allowed",
        "use 127.0.0.1 or localhost, or start the server with --allow-host";
    forbidden: 403, "/problems/forbidden", "This token does not allow that",
        "`rethread token create NAME --owner rethread:metrics` creates a token that can only read the metrics";
    bad_origin: 403, "/problems/origin", "Origin not allowed",
        "start the server with --allow-origin if you trust the page";
    not_found: 404, "/problems/not-found", "Not found",
        "`GET /v1/sessions` lists your sessions";
    no_method: 405, "/problems/method", "Method not allowed",
        "`GET /openapi.json` lists the methods of each path";
    timeout: 408, "/problems/timeout", "The request took too long to arrive",
        "send it again without pauses";
    which_turn: 409, "/problems/which-turn", "Several turns of this session are running or queued",
        "name one with `turn`: the name you gave it, or the `x-request-id` of the response that started it";
    conflict: 409, "/problems/conflict", "Another client wrote first",
        "read the entries written since, then decide again";
    held: 409, "/problems/held", "A turn is running in this session",
        "wait for the turn to end, or stop it with POST …/turns/stop";
    elsewhere: 409, "/problems/elsewhere", "Another program is running a turn in this session",
        "stop it there; `holder` names the process";
    id_reused: 409, "/problems/id-reused", "This id is already used for something else",
        "repeat the request exactly, or use a new id";
    other_agent: 409, "/problems/agent", "The agent of this session has changed",
        "choose the agent with PATCH /v1/sessions/{id} and `agent`; GET /v1/agents lists agents";
    stopped: 409, "/problems/stopped", "The turn was stopped while it was queued",
        "do not retry automatically: somebody asked to stop it. Send the question again to ask it after all";
    nothing_to_do: 409, "/problems/nothing-to-do", "Nothing to do",
        "`GET …/entries` shows what happened in the session";
    too_large: 413, "/problems/too-large", "The request is too large",
        "keep large content in a file and send its path; nothing was stored";
    not_json: 415, "/problems/content-type", "The body must be JSON",
        "send `Content-Type: application/json`";
    encoded: 415, "/problems/content-encoding", "Compressed bodies are not supported",
        "send the body without `Content-Encoding`";
    too_many: 429, "/problems/rate", "Too many requests",
        "wait for the time in Retry-After";
    too_many_streams: 429, "/problems/streams", "Too many open streams",
        "close a stream, then open another";
    too_many_bytes: 429, "/problems/bytes", "Too many bytes of yours are in memory",
        "wait until your earlier requests are stored and their responses read";
    too_many_turns: 429, "/problems/turns", "Too many of your turns are running or queued",
        "wait for one to end, or stop one with POST …/turns/stop";
    too_many_waiting: 429, "/problems/waiting", "Too many turns are queued for this session",
        "wait until the model has answered";
    head_too_large: 431, "/problems/headers", "The headers are too large",
        "send fewer and shorter headers";
    broken: 500, "/problems/internal", "Internal error",
        "the server's log has the request id; `rethread doctor` checks the store";
    model: 502, "/problems/model", "The model did not answer",
        "your message is kept; ask again to continue";
    busy: 503, "/problems/busy", "The server is overloaded",
        "try again later";
    unready: 503, "/problems/unready", "The store cannot be used",
        "check the disk or the database; the server's log has the error. Acknowledged entries are safe";
}

/// The detail for every session, entry or key that is not found: it must not reveal more.
const NOTHING_HERE: &str = "no such session, entry or key";

impl Problem {
    fn new(
        kind: &'static str,
        title: &'static str,
        status: u16,
        detail: String,
        hint: &'static str,
    ) -> Problem {
        let retry_after = matches!(status, 429 | 503).then_some(1);
        let (holder, until, head, cause) = (None, None, None, None);
        let shape =
            Shape { kind, title, status, detail, hint, holder, until, head, retry_after, cause };
        Problem(Box::new(shape))
    }

    /// It does not exist, or this owner may not know about it.
    pub(crate) fn nothing_here() -> Problem {
        Problem::not_found(NOTHING_HERE)
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Problem {
        self.0.retry_after = Some(seconds);
        self
    }

    /// Adds who holds the session, and until when.
    pub(crate) fn by(mut self, holder: String, until: Timestamp) -> Problem {
        self.0.holder = Some(holder);
        self.0.until = Some(rfc3339(until));
        self
    }

    /// Adds details for the log.
    fn because(mut self, cause: String) -> Problem {
        self.0.cause = Some(cause);
        self
    }

    /// The same problem as a reason why the server is not ready.
    pub(crate) fn makes_unready(self) -> Problem {
        let mut problem = Problem::unready(self.0.detail);
        problem.0.cause = self.0.cause;
        problem
    }

    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Details for the log that are not in the response.
    pub(crate) fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn json(&self) -> String {
        json_text(self)
    }

    /// The complete response, for a connection that is closed after it.
    pub(crate) fn alone(&self) -> Vec<u8> {
        let (status, body) = (self.status(), self.json());
        let retry = self.0.retry_after.map(|seconds| format!("retry-after: {seconds}\r\n"));
        format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
             {}connection: close\r\n\r\n{body}",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default(),
            body.len(),
            retry.unwrap_or_default()
        )
        .into_bytes()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.json()).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(seconds) = self.0.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.0.status == 401 {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(cause) = self.0.cause {
            response.extensions_mut().insert(Cause(cause));
        }
        response
    }
}

impl From<sessions::Error> for Problem {
    fn from(error: sessions::Error) -> Problem {
        let said = error.to_string();
        match error {
            sessions::Error::Store(error) => error.into(),
            sessions::Error::Name(_) => Problem::bad_request(said),
            sessions::Error::Select(_) => Problem::nothing_here(),
            sessions::Error::TooLarge { .. } | sessions::Error::TooMany { .. } => {
                Problem::too_large(said)
            }
            sessions::Error::NothingToUndo { .. } | sessions::Error::ContinuedSince { .. } => {
                Problem::nothing_to_do(said)
            }
            sessions::Error::NoFreeName { .. } | sessions::Error::Differs { .. } => {
                Problem::conflict(said)
            }
            sessions::Error::NoEntry { .. } => Problem::bad_request(said),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let (said, whole) = (error.to_string(), whole(&error));
        match error {
            StoreError::NotFound { .. } => Problem::nothing_here(),
            StoreError::Conflict { actual, .. } => {
                let mut problem = Problem::conflict(said);
                problem.0.head = Some(actual);
                problem
            }
            StoreError::Held { holder, until, .. } => {
                Problem::held(said).retry_after(1).by(holder, until)
            }
            StoreError::StaleFence { .. }
            | StoreError::KeyMoved { .. }
            | StoreError::NameTaken { .. }
            | StoreError::Exists { .. } => Problem::conflict(said),
            StoreError::IdReused { .. } => Problem::id_reused(said),
            StoreError::BadCursor { .. } | StoreError::BadQuery { .. } => {
                Problem::bad_request(said)
            }
            StoreError::Busy { .. }
            | StoreError::Full { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Unreachable { .. }
            | StoreError::Denied { .. }
            | StoreError::Slow { .. } => {
                // The location of the store is for the administrator: it goes to the log.
                Problem::unready("the store cannot be used at the moment").because(whole)
            }
            StoreError::NoBlob { .. } => Problem::nothing_here(),
            StoreError::Damaged { .. } | StoreError::BadBlob { .. } => Problem::broken(said),
            StoreError::Newer { .. }
            | StoreError::Older { .. }
            | StoreError::NotAStore { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Backend { .. } => {
                Problem::broken("the store could not be used").because(whole)
            }
        }
    }
}

/// An error and what caused it.
fn whole(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl From<NameError> for Problem {
    fn from(error: NameError) -> Problem {
        Problem::bad_request(error.to_string())
    }
}

impl From<TurnError> for Problem {
    fn from(error: TurnError) -> Problem {
        match error {
            TurnError::Sessions(error) => error.into(),
            TurnError::Provider(failure) => failure.into(),
            TurnError::Refused(refusal) => refusal.into(),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let said = refusal.to_string();
        match refusal {
            Refusal::NoAgent(_) => Problem::bad_request(said),
            Refusal::CannotAnswer { .. } => Problem::model(said),
            Refusal::AgentChanged(_) => Problem::other_agent(said),
            Refusal::OtherCalls { .. } | Refusal::KeyMoved { .. } => Problem::conflict(said),
            Refusal::HostFull { .. } | Refusal::Closing => Problem::busy(said),
            Refusal::Stopped => Problem::stopped(said),
            Refusal::OwnerFull { .. } => Problem::too_many_turns(said),
            Refusal::QueueFull { .. } => Problem::too_many_waiting(said),
            Refusal::Bytes(exceeded) => exceeded.into(),
            Refusal::Abandoned => Problem::broken(said),
        }
    }
}

impl From<BudgetExceeded> for Problem {
    fn from(exceeded: BudgetExceeded) -> Problem {
        match exceeded {
            BudgetExceeded::Owner { .. } => Problem::too_many_bytes(exceeded.to_string()),
            BudgetExceeded::Total { .. } => Problem::busy(exceeded.to_string()),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        Problem::model(failure.to_string())
    }
}

impl From<WriteError<sessions::Error>> for Problem {
    fn from(error: WriteError<sessions::Error>) -> Problem {
        match error {
            WriteError::Entries(error) => error.into(),
            WriteError::Io(error) => Problem::broken(error.to_string()),
        }
    }
}

/// The shape of a problem, for the OpenAPI document.
pub(crate) fn schema() -> serde_json::Value {
    use utoipa::PartialSchema;
    serde_json::to_value(Shape::schema()).expect("a schema is valid JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_somebody_stopped_is_not_to_be_retried_and_one_of_a_closing_server_is() {
        let told = |refusal: Refusal| {
            let Shape { kind, status, .. } = *Problem::from(refusal).0;
            (kind, status)
        };
        assert_eq!(told(Refusal::Stopped), ("/problems/stopped", 409));
        assert_eq!(told(Refusal::Closing), ("/problems/busy", 503));
    }

    #[test]
    fn every_type_is_one_status_and_every_title_is_said_once() {
        for (index, (kind, _, title)) in KINDS.iter().enumerate() {
            for (other, _, other_title) in &KINDS[index + 1..] {
                assert!(kind != other && title != other_title, "{kind} {other}");
            }
        }
    }
}
