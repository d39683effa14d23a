//! Clear, fork, undo, rename, archive, unarchive and purge.

use std::process::ExitCode;

use rethread_core::entry::Origin;
use rethread_core::sessions::{self, Undone};
use rethread_core::{Name, Session, SessionId};
use serde_json::json;

use super::{Cli, Done};
use crate::args::{Fork, One, Purge, Rename, Several, Undo};
use crate::errors::Error;
use crate::out::{clean, confirmed, line, plural, someone_is_there};

pub(crate) fn clear(cli: &Cli, args: &One) -> Done {
    let id = cli.select(&args.sel)?;
    let seq = cli.handle.call(|sessions| sessions.clear(id))?;
    let session = cli.sessions.get(id)?;
    match cli.global.json {
        true => crate::out::json(&json!({ "session": id, "seq": seq }))?,
        false => line(format_args!(
            "Cleared {}. Its log is kept; `rethread undo {}` brings the context back.",
            shown(&session),
            session.selector()
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn fork(cli: &Cli, args: &Fork) -> Done {
    let id = cli.select(&args.sel)?;
    let name = args.name.as_deref().map(Name::new).transpose()?;
    let fork = sessions::Fork { at: args.at, name, take_keys: false };
    let session = cli.sessions.fork(id, &fork)?;
    match cli.global.json {
        true => crate::out::json(&json!({ "session": session }))?,
        false => line(format_args!(
            "Forked into {} ({}).",
            with_selector(&session),
            plural(session.tally.messages, "message")
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn undo(cli: &Cli, args: &Undo) -> Done {
    let id = match (&args.sel, &args.key) {
        (Some(sel), _) => super::trash::select_anywhere(cli, sel)?,
        (None, Some(key)) => cli.resolve(key)?,
        (None, None) => super::trash::last_deleted(cli)?,
    };
    let before = super::trash::in_trash(cli, id).ok();
    let undone = cli.handle.call(|sessions| sessions.undo(id))?;
    if !cli.global.json {
        line(undone_text(cli, &undone)?)?;
        if let Some(before) = before {
            super::trash::note_taken(&before, &cli.sessions.get(id)?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    crate::out::json(&undone)?;
    Ok(ExitCode::SUCCESS)
}

/// What was undone, in words.
pub(crate) fn undone_text(cli: &Cli, undone: &Undone) -> Result<String, Error> {
    let (session, origin, back_to, archived) = match undone {
        Undone::Delete { session } => {
            return Ok(format!("Undid the delete: {} is back.", label(cli, *session)?));
        }
        Undone::Clear { session } => {
            let name = label(cli, *session)?;
            return Ok(format!(
                "Undid the clear of {name}: the model sees the earlier messages again."
            ));
        }
        Undone::Start { session, origin, back_to, archived } => {
            (session, origin, back_to, archived)
        }
    };
    let what = undone_verb(*origin);
    let back = match back_to {
        Some(id) => label(cli, *id)?,
        None => "nothing".into(),
    };
    let left = match archived {
        true => "it had no messages, so it is archived".to_owned(),
        false => "it is kept".to_owned(),
    };
    let session = label(cli, *session)?;
    Ok(format!("Undid {what}: back in {back}. You left {session}; {left}."))
}

/// What is undone, in a sentence: `the fork`, and `new` as it is typed, because it is not a noun.
pub(crate) fn undone_verb(origin: Origin) -> String {
    match origin {
        Origin::New => "`new`".into(),
        other => format!("the {}", other.as_str()),
    }
}

pub(crate) fn rename(cli: &Cli, args: &Rename) -> Done {
    let id = cli.select(&args.sel)?;
    let session = cli.sessions.rename_to(id, &args.name)?;
    match cli.global.json {
        true => crate::out::json(&json!({ "session": session }))?,
        false => line(format_args!("Renamed to {}.", session.header.name))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn archive(cli: &Cli, args: &Several) -> Done {
    each(cli, &args.sels, "Archived", |id| cli.sessions.archive(id).map(drop))
}

pub(crate) fn unarchive(cli: &Cli, args: &Several) -> Done {
    each(cli, &args.sels, "Brought back", |id| cli.sessions.unarchive(id).map(drop))
}

pub(crate) fn purge(cli: &Cli, args: &Purge) -> Done {
    if args.delete {
        let question = format!("Move all but the {} newest sessions to the trash?", args.keep);
        let agreed = args.yes || someone_is_there() && confirmed(&question)?;
        if !agreed {
            return Err(Error::NotConfirmed);
        }
    }
    let purged = cli.handle.purge(args.keep as usize, args.delete)?;
    let (verb, done) = match args.delete {
        true => ("deleted", "moved to the trash"),
        false => ("archived", "archived"),
    };
    if cli.global.json {
        crate::out::json(&json!({ verb: purged.done, "in_use": purged.in_use }))?;
        return Ok(ExitCode::SUCCESS);
    }
    line(format_args!("{} {done}.", plural(purged.done, "session")))?;
    if purged.in_use > 0 {
        let left = plural(purged.in_use, "session");
        line(format_args!("{left} in use, left alone."))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Does something to each session. All of them are found first, because positions in a list change
/// with the list.
fn each(
    cli: &Cli,
    sels: &[String],
    verb: &str,
    act: impl Fn(SessionId) -> sessions::Result<()>,
) -> Done {
    let ids = sels.iter().map(|sel| cli.select(sel)).collect::<Result<Vec<_>, _>>()?;
    let found = ids.into_iter().map(|id| cli.sessions.get(id));
    for session in found.collect::<Result<Vec<_>, _>>()? {
        act(session.id())?;
        match cli.global.json {
            true => crate::out::json(&receipt(&session))?,
            false => line(format_args!("{verb} {}.", shown(&session)))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The session that was changed, as JSON.
pub(super) fn receipt(session: &Session) -> serde_json::Value {
    json!({
        "session": session.id(), "name": session.shown_name(), "title": session.title(),
    })
}

/// How messages refer to a session: its name, or its title if nobody named it.
pub(crate) fn label(cli: &Cli, id: SessionId) -> Result<String, Error> {
    Ok(shown(&cli.sessions.get(id)?))
}

/// The same for a session that was already read.
pub(crate) fn shown(session: &Session) -> String {
    clean(&session.label())
}

/// The same, with a selector for it if that is something else.
pub(super) fn with_selector(session: &Session) -> String {
    match session.header.name.is_automatic() {
        true if session.title().is_some() => {
            format!("{}, {}", shown(session), session.selector())
        }
        _ => shown(session),
    }
}
