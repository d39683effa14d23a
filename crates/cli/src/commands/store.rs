//! Opens the store, and decides whether it may be created.
//!
//! A mistyped path must not create a folder and an empty database. Only commands that start
//! sessions create a store, and they say so; every other command treats a missing store as empty,
//! and creates nothing.

use std::io::IsTerminal;
use std::sync::Arc;

use rethread_core::{Backend, MemoryStore};
use rethread_store::{ProgressSink, StoreUrl, System};

use crate::args::{Command, Global, Token};
use crate::config::Config;
use crate::errors::Error;
use crate::out::{clean, note};

/// Whether a command may create a missing store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is created.
    Make,
    /// It is treated as empty, and nothing is created.
    Leave,
}

impl Missing {
    /// What a command may do. Commands that start sessions, or record consent, may create a store;
    /// commands that change a session need an existing one.
    pub(crate) fn of(command: &Command) -> Missing {
        match command {
            Command::Append(_)
            | Command::Serve(_)
            | Command::Telegram(_)
            | Command::Resume(_)
            | Command::Token(Token::Create { .. }) => Missing::Make,
            // A session that was picked may be continued.
            Command::Open(args) if args.sel.is_none() => Missing::Make,
            Command::Import(args) if !args.dry_run => Missing::Make,
            Command::Agents(args) if args.trust => Missing::Make,
            _ => Missing::Leave,
        }
    }
}

/// The configured store.
pub(super) fn open(
    global: &Global,
    config: &Config,
    missing: Missing,
) -> Result<Arc<dyn Backend>, Error> {
    let url = url(config.text("store"))?;
    let is_named = global.store.is_some();
    open_or_create(config, url, missing, |what, path| {
        // A script knows what it does; a person may have mistyped.
        let heard = is_named || what == Found::Created && std::io::stderr().is_terminal();
        match what {
            _ if global.json || !heard => {}
            Found::Missing => note_missing(path),
            Found::Created => note(format_args!("Sessions are kept in {path} from now on.")),
        }
    })
}

/// The store that sessions are copied to. Its path was typed, so what happens to it is reported.
pub(super) fn open_copy(
    global: &Global,
    config: &Config,
    url: StoreUrl,
    missing: Missing,
) -> Result<Arc<dyn Backend>, Error> {
    open_or_create(config, url, missing, |what, path| match what {
        _ if global.json => {}
        Found::Missing => note_missing(path),
        Found::Created => note(format_args!("Created the store {path}.")),
    })
}

/// What happened to a store that did not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// An empty store in memory is used instead.
    Missing,
    Created,
}

/// The store at a URL; reports what happened if it does not exist, with its path.
fn open_or_create(
    config: &Config,
    url: StoreUrl,
    missing: Missing,
    report: impl FnOnce(Found, &str),
) -> Result<Arc<dyn Backend>, Error> {
    let absent = url.path().filter(|path| !path.exists());
    let absent = absent.map(|path| clean(&path.display().to_string()));
    let (store, found): (Arc<dyn Backend>, _) = match (&absent, missing) {
        (Some(_), Missing::Leave) => (Arc::new(MemoryStore::new(Arc::new(System))), Found::Missing),
        _ => (open_url(config, url)?, Found::Created),
    };
    if let Some(path) = absent {
        report(found, &path);
    }
    Ok(store)
}

fn note_missing(path: &str) {
    note(format_args!("No store at {path}; nothing was created."));
}

/// Moves a database that cannot be opened aside, if the sessions can be rebuilt without it.
pub(super) fn set_damaged_aside(global: &Global) -> Result<(), Error> {
    let config = Config::load(global)?;
    match url(config.text("store"))?.set_damaged_aside(Arc::new(System)).map_err(Error::Connect)? {
        Some(path) => note(format_args!(
            "The damaged database was moved to {}. Sessions are rebuilt from their files; data that \
             was only in the database (the trash, sessions of other users, attachments, keys) is \
             still in that file.",
            clean(&path.display().to_string())
        )),
        None => note(format_args!(
            "Nothing to rebuild: the store can be opened, or has no session files."
        )),
    }
    Ok(())
}

/// The store at a URL, created if it does not exist.
pub(super) fn open_url(config: &Config, url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    // A directory limits its number of sessions by itself; this sets the limit.
    let keep = config.given("session.max_sessions").and_then(|keep| keep.parse().ok());
    let url = keep.map_or(url.clone(), |keep| url.keeping(keep));
    let tell: ProgressSink = Arc::new(|line| note(line));
    url.open_with_progress(Arc::new(System), Some(&tell)).map_err(Error::Connect)
}

/// Parses the URL of a store. Forms that have another meaning in other programs are refused before
/// anything is created.
pub(super) fn url(url: &str) -> Result<StoreUrl, Error> {
    let (scheme, path) = match url.split_once(':') {
        Some((scheme @ ("sqlite" | "files"), path)) => (scheme, path),
        _ => ("", url),
    };
    let refused = |hint: String| Err(Error::BadPlace { url: url.into(), hint });
    if path.starts_with(":memory:") || path.starts_with("file:") && scheme == "sqlite" {
        return refused(
            "a store is a file: `sqlite:PATH`. A chat that keeps nothing has \
             `session.auto_save = false` in its configuration"
                .into(),
        );
    }
    match path.strip_prefix("//") {
        Some(name) if !scheme.is_empty() && !name.starts_with('/') => refused(format!(
            "`{scheme}:{name}` is relative to this folder, `{scheme}:/{name}` begins at the root"
        )),
        _ => StoreUrl::parse(url).map_err(Error::Connect),
    }
}
