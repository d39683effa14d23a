//! Parses the URL of a database.

use std::path::PathBuf;
use std::time::Duration;

use rethread_core::store::BoxError;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{Tls, Trust};

/// Timeout for connecting to one address. A server that is up answers in far less, even from
/// another continent.
const CONNECT: Duration = Duration::from_secs(5);

/// How long sent data may stay unacknowledged before the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(15);

/// How long a connection is idle before a TCP keepalive is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A database, and how to reach it.
pub(super) struct Address {
    /// For display: without the password.
    pub(super) shown: String,
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: Tls,
}

/// An unknown option of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadOption(pub(super) String);

/// The URL of a store without its password, for display. Anything that is not the URL of a server
/// is returned unchanged.
///
/// A password that was not percent-encoded may contain any character. So everything from the first
/// colon to the last `@` counts as the password; it is better to show too little of a URL than to
/// show a secret.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, slashes, rest)) = of_a_server(url) else { return url.to_owned() };
    let names_secret = |text: &str| decoded(text).to_ascii_lowercase().contains("password");
    let rest = match rest.rsplit_once('@') {
        // It is impossible to know which part of it is the password.
        Some((user, _)) if names_secret(user) => return format!("{scheme}:{slashes}…"),
        Some((user, rest)) => {
            let end = user.find([':', '/', '?', '@']).unwrap_or(user.len());
            format!("{}@{rest}", &user[..end])
        }
        None => rest.to_owned(),
    };
    let (place, options) = rest.split_once('?').unwrap_or((&rest, ""));
    // A password may also be among the options, and so may hosts, which are worth showing.
    let is_kept = |option: &&str| !option.is_empty() && !names_secret(option);
    let kept: Vec<&str> = options.split('&').filter(is_kept).collect();
    match kept.is_empty() {
        true => format!("{scheme}:{slashes}{place}"),
        false => format!("{scheme}:{slashes}{place}?{}", kept.join("&")),
    }
}

/// The scheme, the slashes and the rest of a URL that may contain a user and a password: ours, in
/// any spelling, or that of any other kind of server.
fn of_a_server(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    let is = |name: &str| scheme.eq_ignore_ascii_case(name);
    if is("sqlite") || is("files") || scheme.contains(['/', '\\', '.']) {
        return None;
    }
    match rest.strip_prefix("//") {
        Some(rest) => Some((scheme, "//", rest)),
        None => (is("postgres") || is("postgresql")).then_some((scheme, "", rest)),
    }
}

/// The scheme and the rest, if it is a URL of ours.
pub(crate) fn split(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    matches!(scheme, "postgres" | "postgresql").then_some((scheme, rest))
}

/// How a connection is to be encrypted.
#[derive(Debug, PartialEq, Eq)]
struct Guard {
    mode: SslMode,
    trust: Trust,
}

impl Address {
    pub(super) fn new(url: &str) -> Result<Result<Address, BadOption>, BoxError> {
        let (url, mode, roots) = match without_tls(url) {
            Ok(parts) => parts,
            Err(option) => return Ok(Err(option)),
        };
        let mut config = match url.parse::<tokio_postgres::Config>() {
            Ok(config) => config,
            // The parser's message may quote the URL, so only the option is named.
            Err(error) => {
                let what = std::error::Error::source(&error).map(ToString::to_string);
                let what = what.unwrap_or_default();
                let named = |before: &str| {
                    let name = what.strip_prefix(before)?.strip_suffix('`')?;
                    name.chars().all(|c| c.is_ascii_alphabetic() || c == '_').then_some(name)
                };
                let option = match (named("unknown option `"), named("invalid value for option `"))
                {
                    (Some(name), _) => name.to_owned(),
                    (_, Some(name)) => format!("{name}=…"),
                    _ => "?…".to_owned(),
                };
                return Ok(Err(BadOption(option)));
            }
        };
        let guard = match guard(&config, mode.as_deref(), roots) {
            Ok(guard) => guard,
            Err(option) => return Ok(Err(option)),
        };
        config.ssl_mode(guard.mode);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        config.tcp_user_timeout(SILENCE).keepalives_idle(KEEP_ALIVE);
        if config.get_application_name().is_none() {
            config.application_name("rethread");
        }
        if config.get_password().is_none()
            && let Some(password) = std::env::var_os("PGPASSWORD")
        {
            config.password(password.as_encoded_bytes());
        }
        Ok(Ok(Address { shown: shown(&url), config, tls: Tls::new(&guard.trust)? }))
    }
}

/// Removes the TLS options from a URL; the client understands the rest.
fn without_tls(url: &str) -> Result<(String, Option<String>, Option<PathBuf>), BadOption> {
    let Some((base, options)) = url.split_once('?') else { return Ok((url.into(), None, None)) };
    let (mut mode, mut roots, mut left) = (None, None, Vec::new());
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value.to_owned()),
            Some(("sslrootcert", "system")) => {}
            Some(("sslrootcert", value)) => roots = Some(PathBuf::from(decoded(value))),
            Some(("password" | "sslpassword", _)) => {
                return Err(BadOption("password=…".into()));
            }
            _ => left.push(option),
        }
    }
    let url = match left.is_empty() {
        true => base.to_owned(),
        false => format!("{base}?{}", left.join("&")),
    };
    Ok((url, mode, roots))
}

/// Decodes percent-encoding, such as `%2F`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.get(..2).filter(|_| *first == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Connections over a network are encrypted and the server's certificate is verified, unless the
/// URL says otherwise.
fn guard(
    config: &tokio_postgres::Config,
    mode: Option<&str>,
    roots: Option<PathBuf>,
) -> Result<Guard, BadOption> {
    let trusted = |roots: Option<PathBuf>| roots.map_or(Trust::Machine, Trust::File);
    let guard = |mode, trust| Ok(Guard { mode, trust });
    match mode {
        Some("disable") => guard(SslMode::Disable, Trust::Anybody),
        Some("prefer") => guard(SslMode::Prefer, Trust::Anybody),
        Some("require") if roots.is_none() => guard(SslMode::Require, Trust::Anybody),
        Some("require" | "verify-full") => guard(SslMode::Require, trusted(roots)),
        Some(other) => Err(BadOption(format!("sslmode={other}"))),
        None if roots.is_some() => guard(SslMode::Require, trusted(roots)),
        None if is_here(config) => guard(SslMode::Prefer, Trust::Anybody),
        None => guard(SslMode::Require, Trust::Machine),
    }
}

/// Whether the server is on this machine.
fn is_here(config: &tokio_postgres::Config) -> bool {
    let here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    };
    config.get_hosts().iter().all(here)
        && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, expected) in [
            ("postgres://ada:secret@db.example/chat", "postgres://ada@db.example/chat"),
            ("postgres://ada@db.example:5433/chat", "postgres://ada@db.example:5433/chat"),
            (
                "postgresql://ada:se@cret@db:5433/chat?sslmode=disable",
                "postgresql://ada@db:5433/chat?sslmode=disable",
            ),
            ("postgres://db/chat?password=secret&user=ada", "postgres://db/chat?user=ada"),
            ("postgres://db/chat?p%61ssword=secret&user=ada", "postgres://db/chat?user=ada"),
            ("postgres://db/chat?sslpassword=secret", "postgres://db/chat"),
            ("postgres://ada:secret@db", "postgres://ada@db"),
            // Passwords that should have been encoded.
            ("postgres://ada:se/cret@db/chat", "postgres://ada@db/chat"),
            ("postgres://ada:se?cret=1@db/chat", "postgres://ada@db/chat"),
            (
                "postgres://ada:s@e/c?ret@db/chat?sslmode=disable",
                "postgres://ada@db/chat?sslmode=disable",
            ),
            ("postgres:///chat?user=ada&password=se@cret", "postgres://…"),
            ("postgres://db:5432/chat?password=se@cret", "postgres://…"),
            // Typing errors.
            ("postgres:ada:secret@db/chat", "postgres:ada@db/chat"),
            ("Postgres://ada:secret@db/chat", "Postgres://ada@db/chat"),
            ("mysql://ada:secret@db/chat", "mysql://ada@db/chat"),
            // URLs without a server have no password.
            ("sqlite:/home/you/a:b@c", "sqlite:/home/you/a:b@c"),
            ("/home/you/a:b@c", "/home/you/a:b@c"),
            ("ollama/llama3:8b", "ollama/llama3:8b"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn what_crosses_a_network_is_verified_unless_the_url_says_otherwise() {
        let guarded = |url: &str| {
            let (left, mode, roots) = without_tls(url)?;
            guard(&left.parse().expect("a URL"), mode.as_deref(), roots)
        };
        let is = |mode, trust| Ok(Guard { mode, trust });
        let file = || Trust::File("/etc/a b.pem".into());
        assert_eq!(guarded("postgres://db.example/a"), is(SslMode::Require, Trust::Machine));
        assert_eq!(guarded("postgres://127.0.0.1/a"), is(SslMode::Prefer, Trust::Anybody));
        assert_eq!(guarded("postgres://localhost,db/a"), is(SslMode::Require, Trust::Machine));
        assert_eq!(
            guarded("postgres:///a?host=/run/postgresql"),
            is(SslMode::Prefer, Trust::Anybody)
        );
        assert_eq!(
            guarded("postgres://localhost/a?hostaddr=10.0.0.1"),
            is(SslMode::Require, Trust::Machine)
        );
        assert_eq!(
            guarded("postgres://db/a?sslrootcert=%2Fetc/a%20b.pem"),
            is(SslMode::Require, file())
        );
        assert_eq!(
            guarded("postgres://db/a?sslmode=require&sslrootcert=/etc/a%20b.pem"),
            is(SslMode::Require, file())
        );
        assert_eq!(
            guarded("postgres://db/a?sslmode=require"),
            is(SslMode::Require, Trust::Anybody)
        );
        assert_eq!(
            guarded("postgres://db/a?sslmode=disable"),
            is(SslMode::Disable, Trust::Anybody)
        );
        let wrong = guarded("postgres://db/a?sslmode=allow");
        assert_eq!(wrong, Err(BadOption("sslmode=allow".into())));
        assert_eq!(
            guarded("postgres://db/a?password=x"),
            Err(BadOption("password=…".into())),
            "and it is not repeated"
        );
    }
}
