//! The command line: `rethread`.
//!
//! `args.rs` defines the command line, `commands/` implements it, `errors.rs` has every hint,
//! `out.rs` is the only place that writes to the terminal, and `hosting.rs` creates the host.
//! Nothing here knows how sessions are stored: it calls the verbs of [`rethread_core::Sessions`]
//! through a [`rethread_agent::Handle`].

mod args;
mod chat;
mod command_line;
mod commands;
mod config;
mod errors;
mod hosting;
mod last_turns;
mod malloc_settings;
mod out;
mod picker;
mod since;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = rethread_agent::tool::launcher::run_if_asked() {
        return code;
    }
    let args = match command_line::parse() {
        Ok(args) => args,
        Err(error) => return errors::misuse(&error),
    };
    if matches!(args.command, Some(args::Command::Serve(_))) {
        malloc_settings::return_freed_memory();
    }
    let as_json = args.global.json;
    match commands::run(args) {
        Ok(code) => code,
        Err(error) => errors::report(&error, as_json),
    }
}
