//! `list`: sessions, newest first, and what is hidden.

use std::process::ExitCode;

use rethread_core::limits::PAGE_ROWS_MAX;
use rethread_core::store::{Cursor, Filter, Page};
use rethread_core::{SessionId, Sessions, StoreError, sessions};
use serde_json::json;

use super::session_rows::Rows;
use super::{Cli, Done};
use crate::args::{LIST_ROWS, List};
use crate::errors::Error;
use crate::out::{clean, columns, line, note};

pub(crate) fn run(cli: &Cli, args: &List) -> Done {
    run_beside(cli, args, None)
}

/// The list for someone who is in a session, which is left out of it.
pub(crate) fn run_beside(cli: &Cli, args: &List, current: Option<SessionId>) -> Done {
    let workspace = cli.workspace_filter()?;
    let filter = match (args.all, args.archived) {
        (true, _) => Filter { workspace, ..Filter::default() },
        (_, true) => Filter { workspace, archived: Some(true), ..Filter::default() },
        _ => Filter { workspace, ..Sessions::default_filter() },
    };
    let after = args.after.as_deref().map(str::parse).transpose()?;
    let rows = args.limit as usize + usize::from(current.is_some());
    let mut page = match args.all {
        true => cli.sessions.list(&filter, after, rows)?,
        false => cli.sessions.list_with_messages(&filter, after, rows)?,
    };
    page.sessions.retain(|session| Some(session.id()) != current);
    if cli.global.json {
        let next = page.next.map(|cursor| cursor.to_string());
        let mut object = json!({ "sessions": page.sessions, "next": next });
        if !page.damaged.is_empty() {
            object["damaged"] = json!(page.damaged);
        }
        crate::out::json(&object)?;
        return Ok(ExitCode::SUCCESS);
    }
    table(cli, &page, args)?;
    rest(cli, &page, &filter, args)?;
    Ok(ExitCode::SUCCESS)
}

fn table(cli: &Cli, page: &Page, args: &List) -> Result<(), Error> {
    if page.sessions.is_empty() {
        return Ok(());
    }
    let numbered =
        args.after.is_none() && !args.all && !args.archived && cli.global.workspace.is_none();
    let rows = Rows { columns: columns(), now: cli.now };
    if let Some(heading) = rows.heading() {
        line(heading)?;
    }
    for (index, session) in page.sessions.iter().enumerate() {
        let position = if numbered { (index + 1).to_string() } else { "·".into() };
        line(rows.row(&position, session, session.last_activity_at))?;
    }
    Ok(())
}

/// What is hidden, and how to show it.
fn rest(cli: &Cli, page: &Page, filter: &Filter, args: &List) -> Result<(), Error> {
    for id in &page.damaged {
        note(format_args!("session {id} is damaged and not shown: `rethread doctor` says more"));
    }
    if page.sessions.is_empty() && page.damaged.is_empty() {
        note(why_empty(cli, filter, args)?);
        return Ok(());
    }
    if let Some(next) = page.next {
        note(format_args!("More: `{}`", further(args, filter, next)));
    }
    if filter.archived == Some(false) && any(cli, archived(filter))? {
        let here = List { all: false, archived: true, after: None, ..args.clone() };
        note(format_args!("Archived sessions are not shown: `{}`", again(&here, filter)));
    }
    if filter.newest_of_chain && hides_a_chain(cli, page, filter)? {
        let all = List { all: true, archived: false, after: None, ..args.clone() };
        note(format_args!(
            "Only the newest session of each chain is shown: `{}`",
            again(&all, filter)
        ));
    }
    Ok(())
}

/// Why the list is empty.
fn why_empty(cli: &Cli, filter: &Filter, args: &List) -> Result<String, Error> {
    let folder = filter.workspace.as_deref().map(clean);
    if args.after.is_some() {
        return Ok("No more sessions.".into());
    }
    if args.archived {
        return Ok(match folder {
            Some(folder) => format!("No archived sessions in {folder}."),
            None => "No archived sessions.".into(),
        });
    }
    if filter.archived == Some(false) && any(cli, archived(filter))? {
        let here = List { all: false, archived: true, after: None, ..args.clone() };
        let of = folder.map(|folder| format!(" in {folder}")).unwrap_or_default();
        return Ok(format!(
            "Every session{of} is archived: `{}` shows them.",
            again(&here, filter)
        ));
    }
    match folder {
        Some(folder) if any(cli, Filter::default())? => {
            Ok(format!("No sessions in {folder}. `rethread list` lists those of all folders."))
        }
        _ => Ok("No sessions yet. `rethread` opens a chat; `rethread append --help` shows how \
                 programs start one."
            .into()),
    }
}

/// Whether a session is hidden because a listed one continues it.
fn hides_a_chain(cli: &Cli, page: &Page, filter: &Filter) -> Result<bool, Error> {
    let parents = page.sessions.iter().filter_map(|session| session.header.parent);
    for parent in parents.filter(|parent| parent.origin.continues()) {
        match cli.sessions.get(parent.id) {
            Ok(found) => {
                let header = found.header;
                let here =
                    filter.workspace.is_none() || filter.workspace == header.profile.workspace;
                if here && !header.archived {
                    return Ok(true);
                }
            }
            // It was deleted, so nothing is hidden; `doctor` reports damage.
            Err(sessions::Error::Store(
                StoreError::NotFound { .. } | StoreError::Damaged { .. },
            )) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

fn any(cli: &Cli, filter: Filter) -> Result<bool, Error> {
    let page = cli.sessions.list_with_messages(&filter, None, 1)?;
    Ok(!page.sessions.is_empty())
}

fn archived(filter: &Filter) -> Filter {
    Filter { archived: Some(true), newest_of_chain: false, ..filter.clone() }
}

/// The command that shows more: a longer list, or the next page if a cursor was used or the list
/// has its maximum length.
fn further(args: &List, filter: &Filter, next: Cursor) -> String {
    let longer = args.limit.saturating_mul(2);
    match args.after.is_none() && longer as usize <= PAGE_ROWS_MAX {
        true => again(&List { limit: longer, ..args.clone() }, filter),
        false => format!("{} --after {next}", again(args, filter)),
    }
}

/// The command line with these flags.
fn again(args: &List, filter: &Filter) -> String {
    let mut typed = String::from("rethread list");
    if args.all {
        typed += " --all";
    }
    if args.archived {
        typed += " --archived";
    }
    if let Some(folder) = &filter.workspace {
        typed += &format!(" --workspace {}", quoted(&clean(folder)));
    }
    if args.limit != LIST_ROWS {
        typed += &format!(" -n {}", args.limit);
    }
    typed
}

/// The text, quoted for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@".contains(c);
    match text.chars().all(plain) {
        true => text.into(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_folder_is_always_one_word() {
        assert_eq!(quoted("/home/you/src"), "/home/you/src");
        assert_eq!(quoted("/it's here"), r"'/it'\''s here'");
        assert_eq!(quoted("/a;b"), "'/a;b'");
    }
}
