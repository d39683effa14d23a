//! `open`: continues a session with its whole history.
//!
//! At a terminal it opens a chat. Otherwise, and with `--key` or `--json`, the session becomes the
//! current one of this folder or key, and its last messages are printed.

use std::io::IsTerminal;
use std::process::ExitCode;

use rethread_core::summary::resuming;
use rethread_core::{Key, Session};
use rethread_render::terminal::Style;
use serde_json::json;

use super::{Cli, Done, list};
use crate::args::{ChatFlags, List, Open};
use crate::last_turns::{self, LastTurns, Shape};
use crate::out::{clean, columns, line, plural};

pub(crate) fn run(cli: Cli, args: &Open, talk: ChatFlags) -> Done {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if is_terminal && !cli.global.json && args.key.is_none() {
        return crate::chat::run(cli, talk);
    }
    match &args.sel {
        Some(sel) => bind(&cli, sel, args),
        None => list::run(&cli, &List::default()),
    }
}

/// Makes a session the current one of this folder or key, and prints its last messages.
fn bind(cli: &Cli, sel: &str, args: &Open) -> Done {
    let id = cli.select(sel)?;
    let key = match &args.key {
        Some(key) => Key::new(key.as_str())?,
        None => Key::new(format!("project:{}", cli.workspace()?))?,
    };
    let thread = cli.sessions.thread(id)?;
    cli.sessions.bind(&key, id)?;
    if cli.global.json {
        let session = cli.sessions.get(id)?;
        crate::out::json(&json!({ "session": session, "key": key }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let session = thread.session();
    match cli.shares_its_directory() {
        true => {
            let stats = cli.sessions.stats(id)?;
            line(summary(session, stats.user, stats.assistant))?;
        }
        false => line(last_turns::heading(session, cli.now()))?,
    }
    let last = LastTurns::read(&cli.sessions, session, last_turns::TURNS)?;
    let style = Style::plain(columns());
    let shape = Shape { style: &style, now: cli.now(), turn_lines: last_turns::TURN_LINES };
    for text in std::iter::once(String::new()).chain(last.lines(&shape)) {
        line(text)?;
    }
    if last.earlier > 0 {
        let earlier = plural(last.earlier, "earlier turn");
        let all = if session.tally.boundary.is_some() { " --all" } else { "" };
        line(format_args!("\n{earlier}: `rethread show {}{all}`", session.selector()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The note for the person when a conversation continues. It is not sent to the model.
pub(crate) fn summary(session: &Session, user: u64, assistant: u64) -> String {
    let text = resuming(session, user, assistant);
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}
