//! `delete` and `trash`: deletes, restores and erases sessions.
//!
//! Deleting moves a session to the trash without asking: `undo` restores it. Erasing is permanent.
//! It asks; if nobody can be asked, it needs `-y` and a selector that can only mean one session,
//! because positions, `last` and prefixes may mean another one tomorrow.

use std::process::ExitCode;

use rethread_core::sessions::{self, SelectError};
use rethread_core::{Session, SessionId};
use serde_json::json;

use super::change::{receipt, shown, with_selector};
use super::session_rows::Rows;
use super::{Cli, Done};
use crate::args::{Delete, Several, Trash};
use crate::errors::Error;
use crate::out::{clean, columns, confirmed, line, note, plural, someone_is_there};

pub(crate) fn delete(cli: &Cli, args: &Delete) -> Done {
    if args.now {
        return erase(cli, args);
    }
    // All of them are found first, because positions in a list change with the list.
    let mut ids = Vec::new();
    for sel in &args.sels {
        let id = cli.select(sel)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let several = ids.len() > 1;
    for id in ids {
        let session = cli.handle.call(|sessions| sessions.trash(id))?;
        match cli.global.json {
            true => crate::out::json(&receipt(&session))?,
            false => line(format_args!("Moved {} to the trash.", shown(&session)))?,
        }
        if !cli.global.json && !several {
            let later = match session.header.name.is_automatic() {
                true => "`rethread trash list` shows it".to_owned(),
                false => format!("`rethread undo {}`", session.selector()),
            };
            let kept = sessions::trash_kept();
            note(format_args!("`rethread undo` brings it back now, {later} for {kept}."));
        }
    }
    if !cli.global.json && several {
        note(format_args!(
            "`rethread undo` brings back the last one; `rethread trash list` shows all for {}.",
            sessions::trash_kept()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(cli: &Cli, command: Option<&Trash>) -> Done {
    match command {
        None | Some(Trash::List) => list(cli),
        Some(Trash::Restore(args)) => restore(cli, args),
        Some(Trash::Empty { yes }) => empty(cli, *yes),
    }
}

/// The session that SEL selects; otherwise the one in the trash.
pub(crate) fn select_anywhere(cli: &Cli, sel: &str) -> Result<SessionId, Error> {
    match cli.select(sel) {
        Err(Error::Verb(sessions::Error::Select(none))) if is_none(&none) => {
            // Sessions in the trash have no position in the list, and `last` does not refer to
            // them.
            match sel.parse::<usize>().is_err().then(|| cli.sessions.select_trashed(sel)) {
                Some(Ok(id)) => Ok(id),
                _ => Err(sessions::Error::Select(none).into()),
            }
        }
        found => found,
    }
}

/// The session that was deleted last.
pub(crate) fn last_deleted(cli: &Cli) -> Result<SessionId, Error> {
    let last = cli.sessions.trashed()?.first().map(Session::id);
    last.ok_or(Error::NotInTrash { sel: None })
}

fn is_none(error: &SelectError) -> bool {
    matches!(error, SelectError::None { .. } | SelectError::Empty)
}

fn erase(cli: &Cli, args: &Delete) -> Done {
    let mut found = Vec::new();
    for sel in &args.sels {
        let id = select_anywhere(cli, sel)?;
        let session = match cli.sessions.get(id) {
            Ok(session) => session,
            Err(_) => in_trash(cli, id)?,
        };
        if !found.iter().any(|(_, known): &(&String, Session)| known.id() == id) {
            found.push((sel, session));
        }
    }
    if !someone_is_there() {
        if !args.yes {
            return Err(Error::NotConfirmed);
        }
        if let Some((sel, session)) = found.iter().find(|(sel, session)| !is_exact(sel, session)) {
            let name = session.selector().to_owned();
            return Err(Error::NotExact { sel: sel.to_string(), name });
        }
    } else if !args.yes {
        let names: Vec<String> = found.iter().map(|(_, s)| with_selector(s)).collect();
        let question =
            format!("Erase {} and everything in it? This cannot be undone.", names.join(", "));
        if !confirmed(&question)? {
            return Err(Error::NotConfirmed);
        }
    }
    for (_, session) in found {
        cli.handle.call(|sessions| sessions.erase(session.id()))?;
        match cli.global.json {
            true => crate::out::json(&receipt(&session))?,
            false => line(format_args!("Erased {}.", shown(&session)))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a selector is a name or a complete id, so that it means the same session tomorrow.
fn is_exact(sel: &str, session: &Session) -> bool {
    let sel = sel.trim().to_lowercase();
    let id = session.id();
    session.header.name.matches_typed(&sel)
        || sel == id.to_string()
        || sel == id.0.simple().to_string()
        || session.readable_id.as_ref().is_some_and(|id| id.to_lowercase() == sel)
}

pub(super) fn in_trash(cli: &Cli, id: SessionId) -> Result<Session, Error> {
    let found = cli.sessions.trashed()?.into_iter().find(|session| session.id() == id);
    Ok(found.ok_or(sessions::Error::Store(rethread_core::StoreError::NotFound { id }))?)
}

fn list(cli: &Cli) -> Done {
    let trashed = cli.sessions.trashed()?;
    if cli.global.json {
        crate::out::json(&json!({ "sessions": trashed }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if trashed.is_empty() {
        note("The trash is empty.");
        return Ok(ExitCode::SUCCESS);
    }
    let rows = Rows { columns: columns(), now: cli.now };
    if let Some(heading) = rows.heading() {
        line(heading)?;
    }
    for (index, session) in trashed.iter().enumerate() {
        line(rows.row(&(index + 1).to_string(), session, sessions::deleted_at(session)))?;
    }
    note(format_args!(
        "`rethread trash restore SEL` brings one back. Each is erased {} after it was deleted.",
        sessions::trash_kept()
    ));
    Ok(ExitCode::SUCCESS)
}

fn restore(cli: &Cli, args: &Several) -> Done {
    let mut found = Vec::new();
    for sel in &args.sels {
        let id = cli.sessions.select_trashed(sel).map_err(|error| match error {
            sessions::Error::Select(none) if is_none(&none) => {
                Error::NotInTrash { sel: Some(sel.clone()) }
            }
            error => error.into(),
        })?;
        if !found.contains(&id) {
            found.push(id);
        }
    }
    for id in found {
        let before = in_trash(cli, id)?;
        let session = cli.handle.call(|sessions| sessions.restore_from_trash(id))?;
        match cli.global.json {
            true => crate::out::json(&receipt(&session))?,
            false => {
                line(format_args!("Restored {}.", shown(&session)))?;
                note_taken(&before, &session);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what a restored session did not get back.
pub(super) fn note_taken(before: &Session, after: &Session) {
    if let Some(taken) = taken(before, after) {
        note(taken);
    }
}

/// What a restored session did not get back, because another one has it by now.
pub(crate) fn taken(before: &Session, after: &Session) -> Option<String> {
    let name = Some(&before.header.name).filter(|name| **name != after.header.name);
    let keys = before.keys.iter().filter(|key| !after.keys.contains(key));
    let id = before.readable_id.as_ref().filter(|_| after.readable_id.is_none());
    let mut taken: Vec<String> = name.iter().map(|name| format!("name `{name}`")).collect();
    taken.extend(keys.map(|key| format!("key `{}`", clean(key.as_str()))));
    taken.extend(id.map(|id| format!("id `{}`", clean(id))));
    (!taken.is_empty()).then(|| format!("Other sessions have these now: {}.", taken.join(", ")))
}

fn empty(cli: &Cli, yes: bool) -> Done {
    let count = cli.sessions.trashed()?.len() as u64;
    if count > 0 && !yes {
        let question = format!("Erase {} for good?", plural(count, "session"));
        if !someone_is_there() || !confirmed(&question)? {
            return Err(Error::NotConfirmed);
        }
    }
    let emptied = cli.handle.call(|sessions| sessions.empty_trash(None))?;
    if cli.global.json {
        crate::out::json(&json!({ "erased": emptied.done, "in_use": emptied.in_use }))?;
        return Ok(ExitCode::SUCCESS);
    }
    line(format_args!("{} erased.", plural(emptied.done, "session")))?;
    Ok(ExitCode::SUCCESS)
}
