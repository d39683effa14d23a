//! `list`: sessions, newest first, and what is not shown.

use std::process::ExitCode;

use rethread_core::Sessions;
use rethread_core::store::{Filter, Page};
use serde_json::json;

use super::{Desk, Done};
use crate::args::List;
use crate::out::{ago, columns, fit, line, note, pad, short_count};

pub(crate) fn run(desk: &Desk, args: &List) -> Done {
    let workspace = match desk.global.workspace {
        Some(_) => Some(desk.workspace()?),
        None => None,
    };
    let filter = match (args.all, args.archived) {
        (true, _) => Filter { workspace, ..Filter::default() },
        (_, true) => Filter { workspace, archived: Some(true), ..Filter::default() },
        _ => Filter { workspace, ..Sessions::default_filter() },
    };
    let after = args.after.as_deref().map(str::parse).transpose()?;
    let page = desk.sessions.list(&filter, after, args.limit as usize)?;
    if desk.global.json {
        let next = page.next.map(|cursor| cursor.to_string());
        let mut object = json!({ "sessions": page.sessions, "next": next });
        if !page.damaged.is_empty() {
            object["damaged"] = json!(page.damaged);
        }
        crate::out::json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    table(desk, &page, args)?;
    rest(desk, &page, &filter, args)?;
    Ok(ExitCode::SUCCESS)
}

fn table(desk: &Desk, page: &Page, args: &List) -> Result<(), crate::errors::Error> {
    if page.sessions.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = page
        .sessions
        .iter()
        .map(|session| fit(session.header.name.as_str(), (columns() / 3).max(28)))
        .collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(4);
    let numbered =
        args.after.is_none() && !args.all && !args.archived && desk.global.workspace.is_none();
    line(format_args!(
        "\x1b[2m{:>3}  {}  {:<10}  {:>8}  {:>7}  FIRST MESSAGE\x1b[0m",
        "#",
        pad("NAME", width),
        "ACTIVE",
        "MESSAGES",
        "TOKENS"
    ))?;
    for (index, (session, name)) in page.sessions.iter().zip(&names).enumerate() {
        let position = if numbered { (index + 1).to_string() } else { "·".into() };
        let mark = if session.header.archived { "(archived) " } else { "" };
        let left = columns().saturating_sub(width + 38);
        line(format_args!(
            "{position:>3}  \x1b[1m{}\x1b[0m  {:<10}  {:>8}  {:>7}  {}",
            pad(name, width),
            ago(session.last_activity_at, desk.now),
            session.tally.messages,
            short_count(session.tally.tokens),
            fit(&format!("{mark}{}", session.first_message), left.max(16)),
        ))?;
    }
    Ok(())
}

/// What is not shown, and how to see it.
fn rest(
    desk: &Desk,
    page: &Page,
    filter: &Filter,
    args: &List,
) -> Result<(), crate::errors::Error> {
    for id in &page.damaged {
        note(format_args!("session {id} is damaged and not shown: `rethread doctor` says more"));
    }
    let elsewhere = Filter { archived: Some(true), ..filter.clone() };
    let archived = filter.archived == Some(false)
        && !desk.sessions.list(&elsewhere, None, 1)?.sessions.is_empty();
    if page.sessions.is_empty() && page.damaged.is_empty() {
        match args.archived {
            true => note("No session is archived."),
            false if archived => {
                note("Every session is archived: `rethread list --archived` shows them.")
            }
            false => note(
                "No sessions yet. `rethread` opens a chat; `rethread append --help` shows how programs start one.",
            ),
        }
        return Ok(());
    }
    if let Some(next) = page.next {
        note(format_args!("There are more: `rethread list --after {next}`"));
    }
    if archived {
        note("Archived sessions are not shown: `rethread list --archived`");
    }
    if filter.newest_of_chain {
        let whole = Filter { newest_of_chain: false, ..filter.clone() };
        let whole = desk.sessions.list(&whole, None, args.limit as usize)?;
        let hidden =
            whole.sessions.iter().filter(|s| !page.sessions.iter().any(|p| p.id() == s.id()));
        if hidden.count() > 0 && page.next.is_none() {
            note("Of a chain only the newest session is shown: `rethread list --all`");
        }
    }
    Ok(())
}
