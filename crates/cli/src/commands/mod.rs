//! The verbs, one file each.

mod agents;
mod append;
pub(crate) mod change;
mod compact;
mod config;
pub(crate) mod context;
mod copy;
mod doctor;
mod export;
mod import;
pub(crate) mod list;
mod man;
pub(crate) mod open;
pub(crate) mod search;
mod serve;
pub(crate) mod show;
pub(crate) mod stats;
mod telegram;
mod token;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;
use rethread_agent::provider::describe;
use rethread_core::context::Model;
use rethread_core::{Backend, Key, MemoryStore, Owner, SessionId, Sessions};
use rethread_store::{StoreUrl, System};

use crate::args::{Args, Command, Global, Talk};
use crate::config::Config;
use crate::errors::Error;

/// What every verb works with.
pub(crate) struct Desk {
    store: Arc<dyn Backend>,
    pub(crate) sessions: Sessions,
    pub(crate) config: Config,
    pub(crate) global: Global,
    pub(crate) now: jiff::Timestamp,
}

pub(crate) type Done = Result<ExitCode, Error>;

/// Does what was typed.
pub(crate) fn run(args: Args) -> Done {
    let Args { talk, global, command } = args;
    let Some(command) = command else { return crate::chat::run(Desk::new(global)?, talk) };
    if let Some(flag) = talk.typed() {
        return Err(Error::ChatFlag { flag });
    }
    match command {
        Command::Serve(args) => serve::run(&Desk::new(global)?, &args),
        Command::Telegram(args) => telegram::run(&Desk::new(global)?, &args),
        Command::Token(args) => token::run(&Desk::new(global)?, &args),
        Command::Agents => agents::run(&Desk::new(global)?),
        Command::Compact(args) => compact::run(&Desk::new(global)?, &args),
        Command::Resume(args) => {
            let crate::args::Resume { sel, agent, model } = args;
            let talk = Talk { resume: Some(sel), agent, model, ..Talk::default() };
            crate::chat::run(Desk::new(global)?, talk)
        }
        Command::Config => config::run(&global),
        Command::Completions { shell } => man::completions(shell),
        Command::Man { out } => man::run(out),
        Command::List(args) => list::run(&Desk::new(global)?, &args),
        Command::Show(args) => show::run(&Desk::new(global)?, &args),
        Command::Search(args) => search::run(&Desk::new(global)?, &args),
        Command::Context(args) => context::run(&Desk::new(global)?, &args),
        Command::Stats(args) => stats::run(&Desk::new(global)?, &args),
        Command::Append(args) => append::run(&Desk::new(global)?, &args),
        Command::Open(args) => open::run(&Desk::new(global)?, &args),
        Command::Clear(args) => change::clear(&Desk::new(global)?, &args),
        Command::Fork(args) => change::fork(&Desk::new(global)?, &args),
        Command::Undo(args) => change::undo(&Desk::new(global)?, &args),
        Command::Rename(args) => change::rename(&Desk::new(global)?, &args),
        Command::Archive(args) => change::archive(&Desk::new(global)?, &args),
        Command::Unarchive(args) => change::unarchive(&Desk::new(global)?, &args),
        Command::Delete(args) => change::delete(&Desk::new(global)?, &args),
        Command::Purge(args) => change::purge(&Desk::new(global)?, &args),
        Command::Copy(args) => copy::run(&global, &args),
        Command::Import(args) => import::run(&Desk::new(global)?, &args),
        Command::Export(args) => export::run(&Desk::new(global)?, &args),
        Command::Doctor(args) => doctor::run(&Desk::new(global)?, &args),
    }
}

impl Desk {
    fn new(global: Global) -> Result<Desk, Error> {
        let config = Config::load(&global)?;
        let now = rethread_core::World::now(&System);
        let (store, sessions) = open_store(&config, store_url(config.text("store"))?)?;
        Ok(Desk { store, sessions, config, global, now })
    }

    /// Nothing is kept from here on: sessions live in memory.
    pub(crate) fn forget_everything(&mut self) {
        let world = Arc::new(System);
        let owner = self.sessions.owner().clone();
        self.store = Arc::new(MemoryStore::new(world.clone()));
        self.sessions = Sessions::new(self.store.clone(), owner, world);
    }

    /// The session that SEL names.
    pub(crate) fn select(&self, sel: &str) -> Result<SessionId, Error> {
        Ok(self.sessions.select(sel)?)
    }

    /// The session a key points at.
    fn resolve(&self, key: &str) -> Result<SessionId, Error> {
        let found = self.sessions.resolve(&Key::new(key)?)?;
        found.ok_or_else(|| Error::NoKey { key: key.into() })
    }

    /// The folder sessions are about, as an absolute path.
    pub(crate) fn workspace(&self) -> Result<String, Error> {
        let path = match &self.global.workspace {
            Some(path) => path.clone(),
            None => std::env::current_dir()?,
        };
        let found = std::fs::canonicalize(&path).ok().filter(|path| path.is_dir());
        let found: PathBuf = found.ok_or(Error::NoFolder { path })?;
        Ok(found.display().to_string())
    }
}

/// What the URL of a store means. Forms that other programs give a meaning it does not have here
/// are refused before anything is made.
fn store_url(url: &str) -> Result<StoreUrl, Error> {
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

/// A store, and the sessions of the configured owner in it.
fn open_store(config: &Config, url: StoreUrl) -> Result<(Arc<dyn Backend>, Sessions), Error> {
    let world = Arc::new(System);
    let owner = Owner::new(config.text("owner"))?;
    // A directory keeps to a number of sessions by itself, and is told which.
    let keep = config.given("session.max_sessions").and_then(|keep| keep.parse().ok());
    let url = keep.map_or(url.clone(), |keep| url.keeping(keep));
    let store = url.open(world.clone()).map_err(Error::Connect)?;
    Ok((store.clone(), Sessions::new(store, owner, world)))
}

/// The model of this name.
pub(crate) fn model_named(text: &str) -> Result<Model, Error> {
    match text.split_once('/') {
        Some((provider, name)) if !provider.is_empty() && !name.is_empty() => {
            Ok(describe(provider, name))
        }
        _ => Err(Error::BadModel { model: text.into() }),
    }
}

/// The command line, for completions and manual pages.
fn command_line() -> clap::Command {
    Args::command()
}
