//! The command line: `rethread`.
//!
//! `args.rs` says what can be typed, `commands/<verb>.rs` does it, `errors.rs` holds every hint a
//! person can get, `out.rs` is the only place that writes to the terminal. Nothing here knows how
//! sessions are kept: it calls the verbs of [`rethread_core::Sessions`].

mod args;
mod chat;
mod commands;
mod config;
mod errors;
mod out;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return errors::misuse(&error),
    };
    let as_json = args.global.json;
    match commands::run(args) {
        Ok(code) => code,
        Err(error) => errors::tell(&error, as_json),
    }
}
