//! The verbs that change which session is which: clear, fork, undo, rename, archive, delete, purge.

use std::process::ExitCode;

use rethread_agent::past_the_dead;
use rethread_core::entry::Origin;
use rethread_core::sessions::{self, Undone};
use rethread_core::{Name, SessionId};
use serde_json::json;

use super::{Desk, Done};
use crate::args::{Delete, Fork, One, Purge, Rename, Several, Undo};
use crate::errors::Error;
use crate::out::{confirmed, line, plural, someone_is_there};

pub(crate) fn clear(desk: &Desk, args: &One) -> Done {
    let id = desk.select(&args.sel)?;
    let seq = past_the_dead(&desk.sessions, |sessions| sessions.clear(id))?;
    match desk.global.json {
        true => crate::out::json(&json!({ "session": id, "seq": seq }))?,
        false => line(format_args!(
            "Cleared {0}. Its log is kept; `rethread undo {0}` brings the context back.",
            name(desk, id)?
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn fork(desk: &Desk, args: &Fork) -> Done {
    let id = desk.select(&args.sel)?;
    let name = args.name.as_deref().map(Name::new).transpose()?;
    let fork = sessions::Fork { at: args.at, name, take_keys: false };
    let session = desk.sessions.fork(id, &fork)?;
    match desk.global.json {
        true => crate::out::json(&json!({ "session": session }))?,
        false => line(format_args!(
            "Forked into {} ({}).",
            session.header.name,
            plural(session.tally.messages, "message")
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn undo(desk: &Desk, args: &Undo) -> Done {
    let id = match (&args.sel, &args.key) {
        (Some(sel), _) => desk.select(sel)?,
        (None, key) => desk.resolve(key.as_deref().unwrap_or_default())?,
    };
    let undone = past_the_dead(&desk.sessions, |sessions| sessions.undo(id))?;
    if !desk.global.json {
        line(told(desk, &undone)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    crate::out::json(&undone)?;
    Ok(ExitCode::SUCCESS)
}

/// What was taken back, in words.
pub(crate) fn told(desk: &Desk, undone: &Undone) -> Result<String, Error> {
    let (session, origin, back_to, archived) = match undone {
        Undone::Clear { session } => {
            return Ok(format!("The clear of {} is undone.", name(desk, *session)?));
        }
        Undone::Start { session, origin, back_to, archived } => {
            (session, origin, back_to, archived)
        }
    };
    let what = match origin {
        Origin::New => "new",
        Origin::Fork => "fork",
        Origin::Compact => "compact",
        Origin::Resume => "resume",
    };
    let back = match back_to {
        Some(id) => name(desk, *id)?,
        None => "nothing".into(),
    };
    let left = if *archived { " (archived: nothing was said in it)" } else { "" };
    let session = name(desk, *session)?;
    Ok(format!("The {what} is undone: from {session}{left} back to {back}."))
}

pub(crate) fn rename(desk: &Desk, args: &Rename) -> Done {
    let id = desk.select(&args.sel)?;
    let session = desk.sessions.rename(id, &Name::new(&args.name)?)?;
    match desk.global.json {
        true => crate::out::json(&json!({ "session": session }))?,
        false => line(format_args!("It is called {} now.", session.header.name))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn archive(desk: &Desk, args: &Several) -> Done {
    each(desk, &args.sels, "Archived", |id| desk.sessions.archive(id).map(drop))
}

pub(crate) fn unarchive(desk: &Desk, args: &Several) -> Done {
    each(desk, &args.sels, "Brought back", |id| desk.sessions.unarchive(id).map(drop))
}

pub(crate) fn delete(desk: &Desk, args: &Delete) -> Done {
    let names = names(desk, &args.sels)?;
    let question = format!("Delete {} for good?", names.join(", "));
    // Where nobody can be asked, sessions named one by one are what was meant.
    if !args.yes && someone_is_there() && !confirmed(&question)? {
        return Err(Error::NotConfirmed);
    }
    each(desk, &args.sels, "Deleted", |id| {
        past_the_dead(&desk.sessions, |sessions| sessions.delete(id))
    })
}

pub(crate) fn purge(desk: &Desk, args: &Purge) -> Done {
    if args.delete {
        let question = format!("Delete all but the {} newest sessions for good?", args.keep);
        let agreed = args.yes || someone_is_there() && confirmed(&question)?;
        if !agreed {
            return Err(Error::NotConfirmed);
        }
    }
    let purged = desk.sessions.purge(args.keep as usize, args.delete)?;
    let verb = if args.delete { "deleted" } else { "archived" };
    if desk.global.json {
        crate::out::json(&json!({ verb: purged.done, "in_use": purged.in_use }))?;
        return Ok(ExitCode::SUCCESS);
    }
    line(format_args!("{} {verb}.", plural(purged.done, "session")))?;
    if purged.in_use > 0 {
        let left = plural(purged.in_use, "session");
        line(format_args!("{left} in use, left alone."))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Does something to each session, all of which are found first: positions in a list move when
/// the list does.
fn each(
    desk: &Desk,
    sels: &[String],
    verb: &str,
    act: impl Fn(SessionId) -> sessions::Result<()>,
) -> Done {
    let names = names(desk, sels)?;
    let ids = sels.iter().map(|sel| desk.select(sel)).collect::<Result<Vec<_>, _>>()?;
    for (id, name) in ids.into_iter().zip(names) {
        act(id)?;
        match desk.global.json {
            true => crate::out::json(&json!({ "session": id, "name": name }))?,
            false => line(format_args!("{verb} {name}."))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn names(desk: &Desk, sels: &[String]) -> Result<Vec<String>, Error> {
    sels.iter().map(|sel| desk.select(sel).and_then(|id| name(desk, id))).collect()
}

fn name(desk: &Desk, id: SessionId) -> Result<String, Error> {
    Ok(desk.sessions.get(id)?.header.name.to_string())
}
