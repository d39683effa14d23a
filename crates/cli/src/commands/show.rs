//! `show`: what was said in a session.

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;

use rethread_agent::FileChanged;
use rethread_core::entry::Thinning;
use rethread_core::sessions::LOST;
use rethread_core::{BlockKind, Body, Entry, Message, Role, Session};
use rethread_transcript::write::visible_json::VisibleJson;

use super::{Cli, Done};
use crate::args::Show;
use crate::errors::Error;
use crate::out::{indented, line, note, one_line, plural};

pub(crate) fn run(cli: &Cli, args: &Show) -> Done {
    let session = cli.sessions.get(cli.select(&args.sel)?)?;
    let range = range(&session, args);
    print(cli, &session, range)
}

/// Prints what was said in a part of a session.
pub(crate) fn print(cli: &Cli, session: &Session, range: Range<u64>) -> Done {
    match cli.global.json {
        true => show_json(cli, session, range)?,
        false => show_text(cli, session, range)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// From the last clear on, unless more or less was asked for.
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

/// Entries are printed as they are read, however many there are. Where one cannot be read the
/// document ends there, whole, and says so itself.
fn show_json(cli: &Cli, session: &Session, range: Range<u64>) -> Result<(), Error> {
    let out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut out = VisibleJson::new(out);
    write!(out, "{{\"session\":{},\"entries\":[", json_of(&session))?;
    let (mut next, mut comma) = (range.start, "");
    let mut broken = None;
    for entry in cli.sessions.entries(session.id(), range) {
        match entry {
            Ok(entry) => {
                write!(out, "{comma}{}", json_of(&entry))?;
                (next, comma) = (entry.seq + 1, ",");
            }
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    // Entries are read several at a time, and those before the damage are there.
    while broken.is_some()
        && let Ok(one) = cli.sessions.read(session.id(), next..next + 1)
        && let Some(entry) = one.first()
    {
        write!(out, "{comma}{}", json_of(entry))?;
        (next, comma) = (entry.seq + 1, ",");
    }
    match &broken {
        Some(error) => writeln!(out, "],\"error\":{}}}", json_of(&error.to_string()))?,
        None => writeln!(out, "]}}")?,
    }
    out.flush()?;
    broken.map_or(Ok(()), |error| Err(error.into()))
}

fn show_text(cli: &Cli, session: &Session, range: Range<u64>) -> Result<(), Error> {
    let profile = &session.header.profile;
    if let Some(path) = &profile.agent_path {
        let agent = profile.agent.as_deref().unwrap_or("unnamed");
        line(format_args!("Agent: {} ({})\n", one_line(agent), one_line(path)))?;
    }
    line("Session Summary:\n")?;
    let from = range.start;
    let mut damaged = None;
    for entry in cli.sessions.entries(session.id(), range).around_damage() {
        let entry = entry?;
        match &entry.body {
            Body::Unknown { kind, .. } if kind == LOST => {
                damaged = damaged.or(Some(entry.seq));
                line(format_args!("[DAMAGED] entry {} cannot be read", entry.seq))?;
            }
            _ => show_entry(&entry)?,
        }
    }
    if let Some(seq) = damaged {
        cli.sessions.read(session.id(), seq..seq + 1)?;
    }
    if from > 0 && from == session.tally.begins() {
        note(format_args!(
            "\n{} before the last clear not shown: `rethread show {} --all`",
            plural(from, "entry"),
            session.header.name
        ));
    }
    Ok(())
}

fn show_entry(entry: &Entry) -> Result<(), Error> {
    match &entry.body {
        Body::Message(message) => show_message(entry, message),
        Body::Cleared { .. } => line("[CLEARED]"),
        Body::Undone { .. } => line("[CLEAR UNDONE]"),
        Body::LeftOut(left_out) => line(format_args!(
            "[LEFT OUT] the model no longer sees the turn at {}: {}",
            left_out.turn,
            one_line(&left_out.why)
        )),
        Body::Thinned(thinned) => line(format_args!(
            "[THINNED] the model sees less of the tool results from {} to {}: {}",
            thinned.from,
            thinned.through,
            match thinned.why {
                Thinning::Cold => "the cache was cold",
                Thinning::Pays => "it pays",
            }
        )),
        Body::RoundLimit(limit) => line(one_line(&limit.notice()).to_uppercase()),
        Body::Summary(summary) => line(format_args!("[SUMMARY] {}", indented(&summary.text))),
        Body::Restored(restored) => {
            line(format_args!("[RESTORED] {}", indented(&restored.acknowledgment)))
        }
        Body::Started(started) => {
            let from = started.from.map(|id| format!(" from {id}")).unwrap_or_default();
            let origin = format!("{:?}", started.origin).to_uppercase();
            line(format_args!("[{origin}]{from}"))
        }
        Body::Finished(_) => Ok(()),
        Body::Unknown { kind, .. } => match FileChanged::of(&entry.body) {
            Some(FileChanged { path, call: Some(_), .. }) => {
                line(format_args!("[FILE CHANGED] {}", one_line(&path)))
            }
            Some(FileChanged { path, .. }) => {
                line(format_args!("[FILE RESTORED] {}", one_line(&path)))
            }
            None => line(format_args!("[{}]", one_line(kind))),
        },
    }
}

fn show_message(entry: &Entry, message: &Message) -> Result<(), Error> {
    let role = match message.role {
        Role::System => "SYSTEM",
        Role::User => "USER",
        Role::Assistant => "ASSISTANT",
        Role::Tool => "TOOL",
    };
    let mut results = entry.measure.results.iter();
    let stopped = if message.interrupted { " [interrupted]" } else { "" };
    if message.content.is_empty() {
        line(format_args!("[{role}]{stopped}"))?;
    }
    for block in &message.content {
        match &block.kind {
            BlockKind::Text(text) => line(format_args!("[{role}] {}{stopped}", indented(text)))?,
            BlockKind::Prefix(text) => {
                line(format_args!("[{role}] {}", indented(text.trim_end())))?
            }
            BlockKind::ToolUse(call) => {
                line(format_args!("[TOOL] tool_use: {}", one_line(&call.name)))?;
            }
            BlockKind::ToolResult(result) => {
                let orphan = results.next().is_some_and(|measure| measure.tool.is_none());
                let orphan = if orphan { " (answers no call)" } else { "" };
                line(format_args!("[TOOL] tool_result{orphan}: {}", one_line(&result.text())))?;
            }
            _ => line(format_args!("[{role}] ({})", one_line(&block.type_name())))?,
        }
    }
    Ok(())
}

fn json_of(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data is always valid JSON")
}
