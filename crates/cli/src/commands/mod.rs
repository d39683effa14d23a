//! The commands, one file each; related small ones share a file.

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
pub(crate) mod next_call;
pub(crate) mod open;
pub(crate) mod search;
mod serve;
pub(crate) mod session_rows;
pub(crate) mod show;
pub(crate) mod stats;
mod stats_totals;
mod store;
mod telegram;
mod token;
pub(crate) mod trash;

use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use rethread_agent::{Handle, Host, HostLimits, HostSettings, Roster, RosterSettings, Workspaces};
use rethread_core::{Backend, Key, MemoryStore, Owner, SessionId, Sessions};
use rethread_store::System;
use store::Missing;

use crate::args::{Args, ChatFlags, Command, Global};
use crate::config::Config;
use crate::errors::{self, Error};

/// The state of a command.
pub(crate) struct Cli {
    pub(crate) store: Arc<dyn Backend>,
    /// The configured store, if `store` is a placeholder.
    pub(crate) configured_store: Arc<dyn Backend>,
    /// The owner's handle, for everything that needs no model.
    pub(crate) handle: Handle,
    pub(crate) sessions: Sessions,
    pub(crate) config: Config,
    pub(crate) global: Global,
    pub(crate) now: jiff::Timestamp,
}

pub(crate) type Done = Result<ExitCode, Error>;

/// Runs a command.
pub(crate) fn run(args: Args) -> Done {
    let Args { talk, global, command } = args;
    let Some(command) = command else {
        return crate::chat::run(Cli::new(global, Missing::Make)?, talk);
    };
    let typed = talk.all_typed().next();
    let talk = match (&command, typed) {
        (Command::Open(args), _) => args.chat_flags(&talk),
        (_, Some(flag)) => Err(flag),
        (_, None) => Ok(talk),
    };
    let talk = talk.map_err(|flag| Error::ChatFlag { flag })?;
    let missing = Missing::of(&command);
    match command {
        Command::Serve(args) => serve::run(&Cli::new(global, missing)?, &args),
        Command::Telegram(args) => telegram::run(&Cli::new(global, missing)?, &args),
        Command::Token(args) => token::run(&Cli::new(global, missing)?, &args),
        Command::Agents(args) => agents::run(&Cli::new(global, missing)?, &args),
        Command::Compact(args) => compact::run(&Cli::new(global, missing)?, &args),
        Command::Resume(args) => {
            let crate::args::Resume { sel, agent, model } = args;
            let talk = ChatFlags { resume: Some(sel), agent, model, ..ChatFlags::default() };
            crate::chat::run(Cli::new(global, missing)?, talk)
        }
        Command::Config => config::run(&global),
        Command::Completions { shell } => man::completions(shell),
        Command::Man { out } => man::run(out),
        Command::List(args) => list::run(&Cli::new(global, missing)?, &args),
        Command::Show(args) => show::run(&Cli::new(global, missing)?, &args),
        Command::Search(args) => search::run(&Cli::new(global, missing)?, &args),
        Command::Context(args) => context::run(&Cli::new(global, missing)?, &args),
        Command::Stats(args) => stats::run(&Cli::new(global, missing)?, &args),
        Command::Append(args) => append::run(&Cli::new(global, missing)?, &args),
        Command::Open(args) => open::run(Cli::new(global, missing)?, &args, talk),
        Command::Clear(args) => change::clear(&Cli::new(global, missing)?, &args),
        Command::Fork(args) => change::fork(&Cli::new(global, missing)?, &args),
        Command::Undo(args) => change::undo(&Cli::new(global, missing)?, &args),
        Command::Rename(args) => change::rename(&Cli::new(global, missing)?, &args),
        Command::Archive(args) => change::archive(&Cli::new(global, missing)?, &args),
        Command::Unarchive(args) => change::unarchive(&Cli::new(global, missing)?, &args),
        Command::Delete(args) => trash::delete(&Cli::new(global, missing)?, &args),
        Command::Trash(args) => trash::run(&Cli::new(global, missing)?, args.command.as_ref()),
        Command::Purge(args) => change::purge(&Cli::new(global, missing)?, &args),
        Command::Copy(args) => copy::run(&global, &args),
        Command::Import(args) => import::run(&Cli::new(global, missing)?, &args),
        Command::Export(args) => export::run(&Cli::new(global, missing)?, &args),
        Command::Doctor(args) => {
            if args.rebuild {
                store::set_damaged_aside(&global)?;
            }
            doctor::run(&Cli::new(global, missing)?, &args)
        }
    }
}

impl Cli {
    fn new(global: Global, missing: Missing) -> Result<Cli, Error> {
        let config = Config::load(&global)?;
        let now = rethread_core::World::now(&System);
        let store = store::open(&global, &config, missing)?;
        let handle = handle(store.clone(), Owner::new(config.text("owner"))?);
        let sessions = handle.sessions().clone();
        let configured_store = store.clone();
        Ok(Cli { store, configured_store, handle, sessions, config, global, now })
    }

    /// Keeps sessions in memory from here on.
    pub(crate) fn forget_everything(&mut self) {
        self.store = Arc::new(MemoryStore::new(Arc::new(System)));
        self.handle = handle(self.store.clone(), self.sessions.owner().clone());
        self.sessions = self.handle.sessions().clone();
    }

    /// Whether other programs share the store.
    pub(crate) fn shares_its_directory(&self) -> bool {
        self.config.text("store").starts_with("files:")
    }

    /// The current time. `now` is when the command began, and a chat may last for days.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        rethread_core::World::now(&System)
    }

    /// The session that SEL selects.
    pub(crate) fn select(&self, sel: &str) -> Result<SessionId, Error> {
        let id = self.sessions.select(sel)?;
        errors::call_it(id, format!("session `{sel}`"));
        Ok(id)
    }

    /// The session a key points at.
    fn resolve(&self, key: &str) -> Result<SessionId, Error> {
        let found = self.sessions.resolve(&Key::new(key)?)?;
        found.ok_or_else(|| Error::NoKey { key: key.into() })
    }

    /// The workspace, as an absolute path.
    pub(crate) fn workspace(&self) -> Result<String, Error> {
        let path = match &self.global.workspace {
            Some(path) => path.clone(),
            None => std::env::current_dir()?,
        };
        let found = std::fs::canonicalize(&path).ok().filter(|path| path.is_dir());
        let found: PathBuf = found.ok_or(Error::NoFolder { path })?;
        Ok(found.display().to_string())
    }

    /// The workspace whose sessions are meant, if one was given. Its folder may be gone, while its
    /// sessions are still there.
    pub(crate) fn workspace_filter(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.global.workspace else { return Ok(None) };
        match path.try_exists() {
            Ok(false) => Ok(Some(gone(&std::path::absolute(path)?).display().to_string())),
            _ => self.workspace().map(Some),
        }
    }
}

/// The path that a missing folder had: `..` is resolved, and so are links in what is still there.
fn gone(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
        if let Ok(found) = std::fs::canonicalize(&plain) {
            plain = found;
        }
    }
    plain
}

/// A handle for everything that needs no model.
fn handle(store: Arc<dyn Backend>, owner: Owner) -> Handle {
    let settings = HostSettings {
        roster: Roster::new(RosterSettings::default()),
        workspaces: Workspaces::none(),
        limits: HostLimits::default(),
        transcripts: None,
    };
    Host::new(store, Arc::new(System), settings).handle(owner)
}
