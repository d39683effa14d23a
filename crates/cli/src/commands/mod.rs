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
mod survey;
mod telegram;
mod token;
pub(crate) mod trash;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;
use rethread_agent::{Handle, Host, HostLimits, HostSettings, Roster, RosterSettings, Workspaces};
use rethread_core::{Backend, Key, MemoryStore, Owner, SessionId, Sessions};
use rethread_store::{StoreUrl, System, Tell};

use crate::args::{Args, Command, Global, Talk};
use crate::config::Config;
use crate::errors::Error;

/// What every verb works with.
pub(crate) struct Cli {
    pub(crate) store: Arc<dyn Backend>,
    /// The configured store, where `store` keeps nothing.
    pub(crate) configured_store: Arc<dyn Backend>,
    /// The owner's, for what asks no model.
    pub(crate) handle: Handle,
    pub(crate) sessions: Sessions,
    pub(crate) config: Config,
    pub(crate) global: Global,
    pub(crate) now: jiff::Timestamp,
}

pub(crate) type Done = Result<ExitCode, Error>;

/// Does what was typed.
pub(crate) fn run(args: Args) -> Done {
    let Args { talk, global, command } = args;
    let Some(command) = command else { return crate::chat::run(Cli::new(global)?, talk) };
    if let Some(flag) = talk.typed() {
        return Err(Error::ChatFlag { flag });
    }
    match command {
        Command::Serve(args) => serve::run(&Cli::new(global)?, &args),
        Command::Telegram(args) => telegram::run(&Cli::new(global)?, &args),
        Command::Token(args) => token::run(&Cli::new(global)?, &args),
        Command::Agents(args) => agents::run(&Cli::new(global)?, &args),
        Command::Compact(args) => compact::run(&Cli::new(global)?, &args),
        Command::Resume(args) => {
            let crate::args::Resume { sel, agent, model } = args;
            let talk = Talk { resume: Some(sel), agent, model, ..Talk::default() };
            crate::chat::run(Cli::new(global)?, talk)
        }
        Command::Config => config::run(&global),
        Command::Completions { shell } => man::completions(shell),
        Command::Man { out } => man::run(out),
        Command::List(args) => list::run(&Cli::new(global)?, &args),
        Command::Show(args) => show::run(&Cli::new(global)?, &args),
        Command::Search(args) => search::run(&Cli::new(global)?, &args),
        Command::Context(args) => context::run(&Cli::new(global)?, &args),
        Command::Stats(args) => stats::run(&Cli::new(global)?, &args),
        Command::Append(args) => append::run(&Cli::new(global)?, &args),
        Command::Open(args) => open::run(Cli::new(global)?, args),
        Command::Clear(args) => change::clear(&Cli::new(global)?, &args),
        Command::Fork(args) => change::fork(&Cli::new(global)?, &args),
        Command::Undo(args) => change::undo(&Cli::new(global)?, &args),
        Command::Rename(args) => change::rename(&Cli::new(global)?, &args),
        Command::Archive(args) => change::archive(&Cli::new(global)?, &args),
        Command::Unarchive(args) => change::unarchive(&Cli::new(global)?, &args),
        Command::Delete(args) => trash::delete(&Cli::new(global)?, &args),
        Command::Trash(args) => trash::run(&Cli::new(global)?, &args),
        Command::Purge(args) => change::purge(&Cli::new(global)?, &args),
        Command::Copy(args) => copy::run(&global, &args),
        Command::Import(args) => import::run(&Cli::new(global)?, &args),
        Command::Export(args) => export::run(&Cli::new(global)?, &args),
        Command::Doctor(args) => doctor::run(&Cli::new(global)?, &args),
    }
}

impl Cli {
    fn new(global: Global) -> Result<Cli, Error> {
        let config = Config::load(&global)?;
        let now = rethread_core::World::now(&System);
        let store = open_store(&config, store_url(config.text("store"))?)?;
        let handle = handle(store.clone(), Owner::new(config.text("owner"))?);
        let sessions = handle.sessions().clone();
        let configured_store = store.clone();
        Ok(Cli { store, configured_store, handle, sessions, config, global, now })
    }

    /// Nothing is kept from here on: sessions live in memory.
    pub(crate) fn forget_everything(&mut self) {
        self.store = Arc::new(MemoryStore::new(Arc::new(System)));
        self.handle = handle(self.store.clone(), self.sessions.owner().clone());
        self.sessions = self.handle.sessions().clone();
    }

    /// Whether other programs use the place where sessions live.
    pub(crate) fn shares_its_directory(&self) -> bool {
        self.config.text("store").starts_with("files:")
    }

    /// The time now. `now` is when the command began, and a chat may last for days.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        rethread_core::World::now(&System)
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

/// What an owner can do that asks no model.
fn handle(store: Arc<dyn Backend>, owner: Owner) -> Handle {
    let settings = HostSettings {
        roster: Roster::new(RosterSettings::default()),
        workspaces: Workspaces::none(),
        limits: HostLimits::default(),
        transcripts: None,
    };
    Host::new(store, Arc::new(System), settings).handle(owner)
}

/// The configured store.
fn open_store(config: &Config, url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    // A directory keeps to a number of sessions by itself, and is told which.
    let keep = config.given("session.max_sessions").and_then(|keep| keep.parse().ok());
    let url = keep.map_or(url.clone(), |keep| url.keeping(keep));
    let tell: Tell = Arc::new(|line| crate::out::note(line));
    url.open_telling(Arc::new(System), Some(&tell)).map_err(Error::Connect)
}

/// The command line, for completions and manual pages.
fn command_line() -> clap::Command {
    Args::command()
}
