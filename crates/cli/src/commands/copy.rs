//! `copy`: sessions from one store to another, compared entry by entry.

use std::process::ExitCode;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use rethread_core::limits::PAGE_ROWS_MAX;
use rethread_core::sessions::Copied;
use rethread_core::store::Filter;
use rethread_core::{Owner, Session, Sessions, sessions};
use rethread_store::System;
use serde_json::json;

use super::Done;
use super::store::{self, Missing};
use crate::args::{Copy, Global};
use crate::config::Config;
use crate::errors::Error;
use crate::out::{clean, line, note, plural};

pub(super) fn run(global: &Global, args: &Copy) -> Done {
    let config = Config::load(global)?;
    let from = store::url(args.from.as_deref().unwrap_or(config.text("store")))?;
    // A store to copy from is not created: its path was probably mistyped.
    if let Some(path) = from.path().filter(|path| !path.exists()) {
        return Err(Error::NotThere { place: path.display().to_string() });
    }
    // A copy archives nothing: the limit of a directory applies to new sessions.
    let to = store::url(&args.to)?.keeping(0);
    let owner = Owner::new(config.text("owner"))?;
    let sessions = |store| Sessions::new(store, owner.clone(), Arc::new(System));
    let from = sessions(store::open_url(&config, from)?);
    let chosen = chosen(&from, &args.sels)?;
    let missing = if chosen.is_empty() { Missing::Leave } else { Missing::Make };
    let to = sessions(store::open_copy(global, &config, to, missing)?);
    let bar = ProgressBar::new(chosen.iter().map(|session| session.tally.entries).sum());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} entries, {eta} left") {
        bar.set_style(style);
    }
    let mut copied: Vec<Copied> = Vec::new();
    let mut before = 0;
    let mut failed = None;
    for session in &chosen {
        match from.copy_to(session.id(), &to, |done| bar.set_position(before + done)) {
            Ok(one) => copied.push(one),
            // The error concerns this session only, so the others are still copied.
            Err(error @ sessions::Error::Differs { .. }) => {
                let name = clean(&session.label());
                bar.suspend(|| note(format_args!("warning: {name} was not copied: {error}")));
                failed = failed.or(Some(error));
            }
            Err(error) => return Err(error.into()),
        }
        before += session.tally.entries;
    }
    bar.finish_and_clear();
    report(global, &copied)?;
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The selected sessions, or all, least recently active first, so that the order is the same there.
fn chosen(from: &Sessions, sels: &[String]) -> Result<Vec<Session>, Error> {
    if !sels.is_empty() {
        let named = sels.iter().map(|sel| from.select(sel).and_then(|id| from.get(id)));
        return Ok(named.collect::<Result<_, _>>()?);
    }
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = from.list(&Filter::default(), after, PAGE_ROWS_MAX)?;
        all.extend(page.sessions);
        after = page.next;
        if after.is_none() {
            all.reverse();
            return Ok(all);
        }
    }
}

fn report(global: &Global, copied: &[Copied]) -> Result<(), Error> {
    let added: u64 = copied.iter().map(|copied| copied.added).sum();
    if global.json {
        let sessions: Vec<_> = copied
            .iter()
            .map(|copied| {
                json!({
                    "id": copied.id, "name": copied.name, "entries": copied.entries,
                    "added": copied.added, "attachments": copied.blobs, "keys": copied.keys, "keys_taken": copied.keys_taken,
                    "left_behind": copied.left_behind,
                })
            })
            .collect();
        return crate::out::json(&json!({ "sessions": sessions, "added": added }));
    }
    for copied in copied {
        for key in &copied.keys_taken {
            let key = clean(key.as_str());
            line(format_args!(
                "{}: `{key}` is bound to another session there and was left alone.",
                copied.name
            ))?;
        }
        if !copied.left_behind.is_empty() {
            let fields = clean(&copied.left_behind.join(", "));
            line(format_args!("{}: these fields could not be preserved: {fields}.", copied.name))?;
        }
    }
    let sessions = plural(copied.len() as u64, "session");
    let attachments = match copied.iter().map(|copied| copied.blobs).sum() {
        0 => String::new(),
        blobs => format!(" and {}", plural(blobs, "attachment")),
    };
    line(format_args!("{sessions} compared, {}{attachments} copied.", entries(added)))
}

fn entries(count: u64) -> String {
    match count {
        1 => "1 entry".into(),
        _ => format!("{} entries", crate::out::count(count)),
    }
}
