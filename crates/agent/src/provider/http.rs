//! The HTTP client of all providers.
//!
//! A request is a JSON body; a reply is read as it arrives, with a limit on its size and an idle
//! timeout, but no total timeout: a model may write for an hour. Every error becomes a [`Failure`]
//! that contains neither the key nor more of a URL than scheme, host and port. Nothing is retried
//! here.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};
use serde_json::Value;

use super::error_page;
use super::lines::{Events, LINE_BYTES_MAX, Lines, TooLong};
use super::{Failure, RefusalCause};

/// Timeout for connecting.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Idle timeout. Providers send something every few seconds.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(120);
/// The largest reply. The longest ones of today's models are a hundredth of it.
const REPLY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How much of an error response is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// How much of an error is shown if its message cannot be found.
const ERROR_CHARS_MAX: usize = 300;

/// An API key. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key. Space around it is removed: it comes from files and terminals.
    pub fn new(key: impl AsRef<str>) -> Secret {
        Secret(key.as_ref().trim().to_owned())
    }

    /// As a header value that is hidden in the client's logs.
    fn header(&self, prefix: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What is wrong with a reply, before the provider is added.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It cannot be parsed.
    Nonsense(String),
    /// It is not JSON of the expected shape.
    Unreadable {
        /// The parser's error.
        error: String,
        text: String,
    },
    /// It ended too early.
    Broken(&'static str),
    /// It contains an error, with the status that it would have had as a response.
    Error {
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: String,
    },
}

impl Fault {
    /// JSON of another shape than expected.
    pub(super) fn json(error: serde_json::Error, text: &str) -> Fault {
        Fault::Unreadable { error: error.to_string(), text: text.to_owned() }
    }
}

/// How a provider expects the key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scheme {
    /// `authorization: Bearer …`
    Bearer,
    /// `x-api-key: …`
    ApiKey,
}

/// A connection to a provider.
#[derive(Debug)]
pub(super) struct Http {
    provider: &'static str,
    client: Client,
    base: Url,
    headers: HeaderMap,
    key: Option<Secret>,
    /// The idle timeout.
    idle: Duration,
}

impl Http {
    /// A connection to `base`. The client is not shared: its connections belong to the runtime that
    /// created them, and a program may have several.
    ///
    /// # Errors
    ///
    /// [`Failure::Unreachable`] if `base`, the value of `variable`, is not an HTTP URL;
    /// [`Failure::Denied`] if the key is invalid.
    pub(super) fn new(
        provider: &'static str,
        variable: &'static str,
        base: &str,
        key: Option<(Scheme, Secret)>,
        idle: Duration,
    ) -> Result<Http, Failure> {
        let unreachable = |address: String, what: String| Failure::Unreachable {
            provider: provider.into(),
            address,
            what,
        };
        let base = Url::parse(base.trim())
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                unreachable(variable.into(), "it is not an http or https address".into())
            })?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let key = match key {
            Some((scheme, secret)) => {
                let (name, value) = match scheme {
                    Scheme::Bearer => ("authorization", secret.header("Bearer ")),
                    Scheme::ApiKey => ("x-api-key", secret.header("")),
                };
                let value = value.ok_or_else(|| Failure::Denied {
                    provider: provider.into(),
                    message: "it has characters that no key has".into(),
                })?;
                headers.insert(HeaderName::from_static(name), value);
                Some(secret)
            }
            None => None,
        };
        let client =
            client(&base).map_err(|error| unreachable(address(&base), innermost(error)))?;
        Ok(Http { provider, client, base, headers, key, idle })
    }

    /// The host of the base address.
    pub(super) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// Adds a header to every request.
    pub(super) fn with_header(mut self, name: &'static str, value: &'static str) -> Http {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// Sends a JSON body to `path` below the base.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there is no response, or its status is not a success.
    pub(super) async fn post(&self, path: &str, body: Vec<u8>) -> Result<Incoming<'_>, Failure> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        let request = self.client.post(url).headers(self.headers.clone()).body(body).send();
        let response = match tokio::time::timeout(self.idle, request).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.no_answer(error)),
            Err(_) => return Err(self.silent()),
        };
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let incoming = Incoming { http: self, response, kind, bytes: 0 };
        if !incoming.response.status().is_success() {
            return Err(incoming.error().await);
        }
        if incoming.kind.starts_with("text/html") {
            let what = "it sent a web page; is the address right?".into();
            return Err(self.failure(Fault::Nonsense(what)));
        }
        Ok(incoming)
    }

    /// Adds the provider to an error.
    pub(super) fn failure(&self, fault: Fault) -> Failure {
        let provider = self.provider.to_owned();
        match fault {
            Fault::Nonsense(what) => Failure::Nonsense { provider, what: self.hide(&what) },
            Fault::Unreadable { error, text } => {
                // Hidden first: a key that is cut in two would not be found.
                let what = format!("{}: {}", self.hide(&error), shortened(&self.hide(&text)));
                Failure::Nonsense { provider, what }
            }
            Fault::Broken(what) => Failure::Broken { provider, what: what.into() },
            Fault::Error { status, message } => self.status(status, &message, &message, None),
        }
    }

    /// What an error status means; `answer` is the whole response.
    fn status(&self, status: u16, message: &str, answer: &str, wait: Option<Duration>) -> Failure {
        let (provider, message) = (self.provider.to_owned(), self.hide(message));
        match status {
            401 | 403 => Failure::Denied { provider, message },
            429 if is_quota(answer) => Failure::OutOfQuota { provider, message },
            429 => Failure::Limited { provider, message, wait },
            // Providers use a conflict to report that a lock was held too long.
            408 | 409 | 500.. => Failure::Trouble { provider, status, message, wait },
            _ => {
                let cause = RefusalCause::of(status, answer);
                Failure::Refused { provider, status, message, cause, left_out: false }
            }
        }
    }

    fn no_answer(&self, error: reqwest::Error) -> Failure {
        let provider = self.provider.to_owned();
        if error.is_connect() {
            let what = match error.is_timeout() {
                true => format!("no answer within {} seconds", CONNECT_MAX.as_secs()),
                false => self.hide(&innermost(error)),
            };
            return Failure::Unreachable { provider, address: address(&self.base), what };
        }
        Failure::Broken { provider, what: self.hide(&innermost(error)) }
    }

    fn silent(&self) -> Failure {
        Failure::Silent { provider: self.provider.into(), after: self.idle }
    }

    fn hide(&self, text: &str) -> String {
        let shown = match &self.key {
            Some(key) => hidden_in(&key.0, text),
            None => text.to_owned(),
        };
        match self.base.password() {
            Some(password) => hidden_in(password, &shown),
            None => shown,
        }
    }
}

/// Whether the provider says that the quota is used up, rather than that requests are too frequent.
fn is_quota(answer: &str) -> bool {
    ["insufficient_quota", "billing_hard_limit_reached", "credit balance is too low"]
        .iter()
        .any(|said| answer.contains(said))
}

/// Length from which a secret is removed even in the middle of a word. API keys are far longer; a
/// shorter one is a placeholder for servers that accept any key, and occurs in ordinary words.
const HIDDEN_ANYWHERE_CHARS: usize = 8;

/// The minimum length of a secret, in characters. A shorter one can be guessed, and is so often an
/// ordinary word (`a`, `key`) that the text could not be understood without it.
const HIDDEN_CHARS_MIN: usize = 4;

/// A text without a secret. A short one is removed only as a whole word.
fn hidden_in(secret: &str, text: &str) -> String {
    if secret.chars().count() < HIDDEN_CHARS_MIN {
        return text.to_owned();
    }
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let anywhere = secret.chars().count() >= HIDDEN_ANYWHERE_CHARS;
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(secret) {
        let (before, after) = (&rest[..at], &rest[at + secret.len()..]);
        let joined = before.chars().next_back().or(shown.chars().next_back()).is_some_and(is_word)
            || after.chars().next().is_some_and(is_word);
        shown.push_str(before);
        shown.push_str(if anywhere || !joined { "[key]" } else { secret });
        rest = after;
    }
    shown + rest
}

/// Scheme, host and port; a path or a password in a URL is not shown.
fn address(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    let port = base.port_or_known_default().unwrap_or_default();
    format!("{}://{host}:{port}", base.scheme())
}

/// An HTTP client: with this program's TLS and user agent, without redirects, and without a proxy
/// for this machine itself.
///
/// # Errors
///
/// If the system has no trusted certificates.
pub fn client(base: &Url) -> reqwest::Result<Client> {
    // An error means that there is one already, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = Client::builder()
        .user_agent(concat!("rethread/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_MAX)
        .redirect(Policy::none());
    if base.scheme() == "http" {
        // A machine without certificates can still use local models.
        builder = builder.tls_certs_only([]);
    }
    let host = base.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host.parse::<std::net::IpAddr>().map(|address| address.is_loopback());
    if loopback.unwrap_or(host == "localhost") {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// A reply that is being read.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    http: &'a Http,
    response: reqwest::Response,
    kind: String,
    bytes: usize,
}

impl Incoming<'_> {
    /// Whether it is one JSON document rather than a stream.
    pub(super) fn is_document(&self) -> bool {
        self.kind.starts_with("application/json")
    }

    /// The data of the next server-sent event; `None` when the reply has ended.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the reply breaks off, times out or is too large.
    pub(super) async fn event(&mut self, events: &mut Events) -> Result<Option<String>, Failure> {
        loop {
            if let Some(data) = events.next() {
                return Ok(Some(data));
            }
            match self.chunk().await? {
                Some(bytes) => events.push(&bytes).map_err(|TooLong| self.too_long())?,
                None => return Ok(events.rest()),
            }
        }
    }

    /// The next line that is not blank; `None` when the reply has ended.
    ///
    /// # Errors
    ///
    /// As [`Incoming::event`].
    pub(super) async fn line(&mut self, lines: &mut Lines) -> Result<Option<String>, Failure> {
        loop {
            while let Some(line) = lines.next() {
                if !line.trim().is_empty() {
                    return Ok(Some(line));
                }
            }
            match self.chunk().await? {
                Some(bytes) => lines.push(&bytes).map_err(|TooLong| self.too_long())?,
                None => return Ok(lines.rest()),
            }
        }
    }

    /// The complete reply.
    ///
    /// # Errors
    ///
    /// As [`Incoming::event`].
    pub(super) async fn document(&mut self) -> Result<String, Failure> {
        let mut body = Vec::new();
        while let Some(bytes) = self.chunk().await? {
            body.extend_from_slice(&bytes);
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn chunk(&mut self) -> Result<Option<impl Deref<Target = [u8]> + use<>>, Failure> {
        let chunk = match tokio::time::timeout(self.http.idle, self.response.chunk()).await {
            Ok(Ok(chunk)) => chunk,
            Ok(Err(error)) => {
                let what = self.http.hide(&innermost(error));
                return Err(Failure::Broken { provider: self.http.provider.into(), what });
            }
            Err(_) => return Err(self.http.silent()),
        };
        self.bytes += chunk.as_ref().map_or(0, |bytes| bytes.len());
        if self.bytes > REPLY_BYTES_MAX {
            let what = format!("a reply of more than {} MiB", REPLY_BYTES_MAX >> 20);
            return Err(self.http.failure(Fault::Nonsense(what)));
        }
        Ok(chunk)
    }

    fn too_long(&self) -> Failure {
        let what = format!("a line of more than {} MiB", LINE_BYTES_MAX >> 20);
        self.http.failure(Fault::Nonsense(what))
    }

    /// The text of an error response.
    async fn error(mut self) -> Failure {
        let status = self.response.status();
        let wait = self.response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok());
        let wait = wait.and_then(|wait| wait.trim().parse().ok()).map(Duration::from_secs);
        let mut body = Vec::new();
        // An error whose text breaks off is still this error.
        while let Ok(Some(bytes)) = self.chunk().await {
            let room = ERROR_BYTES_MAX - body.len();
            body.extend(bytes.iter().take(room));
            if body.len() == ERROR_BYTES_MAX {
                break;
            }
        }
        let text = self.http.hide(&String::from_utf8_lossy(&body));
        self.http.status(status.as_u16(), &message_in(&text, status), &text, wait)
    }
}

/// The message of an error, if it can be found in the body.
fn message_in(text: &str, status: StatusCode) -> String {
    let found = serde_json::from_str::<Value>(text).ok().and_then(|body| message_of(&body));
    let page = || error_page::text_of(text).map(|page| shortened(&page));
    let message = found.or_else(page).unwrap_or_else(|| shortened(text));
    match message.is_empty() {
        true => status.canonical_reason().unwrap_or("it did not say why").to_owned(),
        false => message,
    }
}

/// `error.message`, and the fields that other servers use.
pub(super) fn message_of(body: &Value) -> Option<String> {
    let error = body.get("error");
    [error.and_then(|error| error.get("message")), error, body.get("message"), body.get("detail")]
        .into_iter()
        .flatten()
        .find_map(Value::as_str)
        .map(|message| message.trim().to_owned())
        .filter(|message| !message.is_empty())
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(ERROR_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The root cause of an error, without its URL.
fn innermost(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_hidden_wherever_it_is_and_a_short_one_only_as_a_word() {
        let key = "sk-0123456789";
        assert_eq!(hidden_in(key, "bad key xsk-0123456789x"), "bad key x[key]x");
        assert_eq!(
            hidden_in("lock", "blocked: the key lock, \"lock\" is bad"),
            "blocked: the key [key], \"[key]\" is bad"
        );
        assert_eq!(hidden_in("kkkk", "kkkkk kkkk"), "kkkkk [key]");
        for short in ["a", "key"] {
            let text = "this is not a valid key";
            assert_eq!(hidden_in(short, text), text, "nobody could read what is left");
        }
        assert_eq!(hidden_in("", "as it is"), "as it is");
    }

    #[test]
    fn the_message_of_an_error_is_found_where_servers_write_it() {
        for body in [
            json!({"type": "error", "error": {"type": "api_error", "message": "why"}}),
            json!({"error": " why\n"}),
            json!({"object": "error", "message": "why", "code": 400}),
            json!({"detail": "why"}),
        ] {
            assert_eq!(message_in(&body.to_string(), StatusCode::BAD_REQUEST), "why", "{body}");
        }
        assert_eq!(message_in("  \n", StatusCode::BAD_GATEWAY), "Bad Gateway");
        assert_eq!(message_in("<h1>no</h1>", StatusCode::BAD_GATEWAY), "no");
        let long = "é".repeat(ERROR_CHARS_MAX + 1);
        let shown = message_in(&long, StatusCode::BAD_GATEWAY);
        assert_eq!(shown, format!("{}…", "é".repeat(ERROR_CHARS_MAX)));
        let fits = "é".repeat(ERROR_CHARS_MAX);
        assert_eq!(message_in(&fits, StatusCode::BAD_GATEWAY), fits);
    }

    #[test]
    fn a_key_that_no_header_can_hold_is_denied_without_showing_it() {
        let key = Some((Scheme::Bearer, Secret::new("sk-one\nsk-two")));
        let http = Http::new("openai", "OPENAI_BASE_URL", "http://127.0.0.1:1", key, IDLE_MAX);
        let failure = http.expect_err("there is a line end in it");
        assert!(matches!(failure, Failure::Denied { .. }), "{failure}");
        assert!(!format!("{failure} {failure:?}").contains("sk-"), "{failure:?}");
    }

    #[test]
    fn a_key_is_not_shown_by_what_holds_it() {
        let key = Some((Scheme::ApiKey, Secret::new("sk-one")));
        let base = "http://127.0.0.1:1";
        let http = Http::new("anthropic", "ANTHROPIC_BASE_URL", base, key, IDLE_MAX).unwrap();
        assert!(!format!("{http:?}").contains("sk-one"), "{http:?}");
    }
}
