//! The verbs, one file each.

mod append;
mod change;
mod config;
mod context;
mod doctor;
mod list;
mod man;
mod open;
mod search;
mod show;
mod stats;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;
use rethread_core::{Key, Owner, SessionId, Sessions};
use rethread_store::{System, connect};

use crate::args::{Args, Command, Global};
use crate::config::Config;
use crate::errors::Error;

/// What every verb works with.
pub(crate) struct Desk {
    pub(crate) sessions: Sessions,
    pub(crate) config: Config,
    pub(crate) global: Global,
    pub(crate) now: jiff::Timestamp,
}

type Done = Result<ExitCode, Error>;

/// Does what was typed.
pub(crate) fn run(args: Args) -> Done {
    let Args { global, command } = args;
    let Some(command) = command else { return welcome(global) };
    match command {
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
        Command::Doctor(args) => doctor::run(&Desk::new(global)?, &args),
    }
}

/// Without a verb: the newest sessions, and what can be done.
fn welcome(global: Global) -> Done {
    let all = crate::args::List { all: false, archived: false, limit: 5, after: None };
    list::run(&Desk::new(global)?, &all)?;
    crate::out::note("\n`rethread --help` shows what can be done with them.");
    Ok(ExitCode::SUCCESS)
}

impl Desk {
    fn new(global: Global) -> Result<Desk, Error> {
        let config = Config::load(&global)?;
        let world = Arc::new(System);
        let now = rethread_core::World::now(world.as_ref());
        let owner = Owner::new(config.owner.value.clone())?;
        let store = connect(&config.store.value, world.clone()).map_err(Error::Connect)?;
        Ok(Desk { sessions: Sessions::new(store, owner, world), config, global, now })
    }

    /// The session that SEL names.
    fn select(&self, sel: &str) -> Result<SessionId, Error> {
        Ok(self.sessions.select(sel)?)
    }

    /// The session a key points at.
    fn resolve(&self, key: &str) -> Result<SessionId, Error> {
        let found = self.sessions.resolve(&Key::new(key)?)?;
        found.ok_or_else(|| Error::NoKey { key: key.into() })
    }

    /// The folder sessions are about, as an absolute path.
    fn workspace(&self) -> Result<String, Error> {
        let path = match &self.global.workspace {
            Some(path) => path.clone(),
            None => std::env::current_dir()?,
        };
        let found = std::fs::canonicalize(&path).ok().filter(|path| path.is_dir());
        let found: PathBuf = found.ok_or(Error::NoFolder { path })?;
        Ok(found.display().to_string())
    }
}

/// The command line, for completions and manual pages.
fn command_line() -> clap::Command {
    Args::command()
}
