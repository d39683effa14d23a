//! `show`: prints the conversation of a session.
//!
//! `conversation.rs` turns entries into readable lines; this module decides which entries, and
//! where the lines go: into a pager at a terminal, or as JSON.

mod conversation;
mod pager;

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;

use rethread_core::sessions;
use rethread_core::{Body, Entry, Session, SessionId};
use rethread_transcript::write::visible_json::VisibleJson;

use super::{Cli, Done, change};
use crate::args::Show;
use crate::errors::Error;
use crate::out::{note, plural};
use conversation::{Conversation, Detail, compacted_by};

pub(crate) fn run(cli: &Cli, args: &Show) -> Done {
    let session = cli.sessions.get(cli.select(&args.sel)?)?;
    let range = range(&session, args);
    if let Some(from) = args.from.filter(|from| *from >= session.tally.entries) {
        return Err(sessions::Error::NoEntry {
            id: session.id(),
            seq: from,
            entries: session.tally.entries,
        }
        .into());
    }
    let detail = if args.full { Detail::Full } else { Detail::Folded };
    match cli.global.json {
        true => show_json(cli, &session, range)?,
        false => {
            let mut out = pager::open();
            show_text(cli, &session, range, detail, &mut out)?;
            out.close()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a part of a session.
pub(crate) fn print(cli: &Cli, session: &Session, range: Range<u64>) -> Done {
    match cli.global.json {
        true => show_json(cli, session, range)?,
        false => show_text(cli, session, range, Detail::Folded, &mut anstream::stdout().lock())?,
    }
    Ok(ExitCode::SUCCESS)
}
/// From the last clear on, unless another range was given.
fn range(session: &Session, args: &Show) -> Range<u64> {
    let end = session.tally.entries;
    let begins = if args.all { 0 } else { session.tally.begins() };
    match args.last {
        Some(last) => end.saturating_sub(last).max(begins)..end,
        None => {
            let to = args.to.map_or(end, |to| to.saturating_add(1).min(end));
            args.from.unwrap_or(begins)..to
        }
    }
}

/// Prints entries as they are read, however many there are. One that cannot be read has the kind
/// `lost`, and the document ends with the error.
fn show_json(cli: &Cli, session: &Session, range: Range<u64>) -> Result<(), Error> {
    let out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut out = VisibleJson::new(out);
    write!(out, "{{\"session\":{},\"entries\":[", json_of(&session))?;
    let (mut comma, mut broken) = ("", None);
    for entry in cli.sessions.entries(session.id(), range).skip_damaged() {
        match entry {
            Ok(entry) => {
                write!(out, "{comma}{}", json_of(&entry))?;
                comma = ",";
                if broken.is_none() && entry.is_lost() {
                    broken = cli.sessions.read(session.id(), entry.seq..entry.seq + 1).err();
                }
            }
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    match &broken {
        Some(error) => writeln!(out, "],\"error\":{}}}", json_of(&error.to_string()))?,
        None => writeln!(out, "]}}")?,
    }
    out.flush()?;
    broken.map_or(Ok(()), |error| Err(error.into()))
}

fn show_text(
    cli: &Cli,
    session: &Session,
    range: Range<u64>,
    detail: Detail,
    out: &mut impl Write,
) -> Result<(), Error> {
    let from = range.start;
    // An erased session has only its id left.
    let label = |id: SessionId| change::label(cli, id).unwrap_or_else(|_| id.short());
    let mut conversation = Conversation::new(session, detail, &label);
    write!(out, "{}", conversation.heading())?;
    let all = format!("rethread show {} --all", session.selector());
    let compacted = match from > 0 && from == session.tally.begins() {
        true => compacted_elsewhere(cli, session)?,
        false => None,
    };
    if let Some((program, messages)) = compacted {
        write!(out, "{}", conversation.begins_with_summary(program, messages, &all))?;
    }
    let mut damaged = None;
    for entry in cli.sessions.entries(session.id(), range).skip_damaged() {
        let entry: Entry = entry?;
        if entry.is_lost() {
            damaged = damaged.or(Some(entry.seq));
        }
        write!(out, "{}", conversation.entry(&entry))?;
    }
    write!(out, "{}", conversation.unanswered())?;
    out.flush()?;
    if let Some(seq) = damaged {
        cli.sessions.read(session.id(), seq..seq + 1)?;
    }
    if from > 0 && from == session.tally.begins() && compacted.is_none() {
        note(format_args!("\n{} before the last clear not shown: `{all}`", plural(from, "entry")));
    }
    Ok(())
}

/// Where another program compacted the conversation: which one, and how many messages come before
/// the summary with which the context begins. There is no clear in this case.
fn compacted_elsewhere(cli: &Cli, session: &Session) -> Result<Option<(&'static str, u64)>, Error> {
    let begins = session.tally.begins();
    let before = cli.sessions.entries(session.id(), begins.saturating_sub(2)..begins);
    let before = before.skip_damaged().collect::<sessions::Result<Vec<Entry>>>()?;
    let [mark, cleared] = before.as_slice() else { return Ok(None) };
    Ok(match (&mark.body, &cleared.body) {
        (Body::Unknown { kind, .. }, Body::Cleared { .. }) => {
            compacted_by(kind).map(|program| (program, cleared.tally.messages))
        }
        _ => None,
    })
}

fn json_of(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data is always valid JSON")
}
