//! `search`: full-text search in all sessions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::process::ExitCode;

use rethread_core::search::{Hit, Query, Scope};
use rethread_core::session::Session;
use rethread_core::world::rfc3339;
use serde_json::json;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Cli, Done};
use crate::args::Search;
use crate::chat::folder;
use crate::errors::Error;
use crate::out::{ago, clean, columns, fit, line, note};

/// Hits that the chat shows.
const CHAT_HITS: usize = 20;

/// Columns a title has at least.
const TITLE_COLUMNS_MIN: usize = 12;

pub(crate) fn run(cli: &Cli, args: &Search) -> Done {
    let workspace = cli.global.workspace.as_ref().map(|_| cli.workspace()).transpose()?;
    let since = args.since.as_ref().map(|since| since.time(cli.now));
    let query = Query::new(&args.words.join(" "))?;
    let query = query.within(Scope { since, workspace, from: args.from });
    let skip = args.skip as usize;
    print(cli, &query, args.limit as usize, skip, |next| {
        format!("More: the same command with `--skip {next}`")
    })
}

/// Prints hits in the chat, which has no second page.
pub(crate) fn print_in_chat(cli: &Cli, words: &str) -> Done {
    print(cli, &Query::new(words)?, CHAT_HITS, 0, |next| {
        let words = words.replace('\'', r"'\''");
        format!("More: add a word, or type `rethread search '{words}' --skip {next}` in a shell")
    })
}

/// Prints hits: position, speaker, time, and the text around the match.
fn print(
    cli: &Cli,
    query: &Query,
    limit: usize,
    skip: usize,
    more_at: impl FnOnce(usize) -> String,
) -> Done {
    let mut hits = cli.sessions.find(query, skip, limit + 1)?;
    let more = hits.len() > limit;
    hits.truncate(limit);
    let mut sessions = HashMap::new();
    for hit in &hits {
        if let Entry::Vacant(place) = sessions.entry(hit.place.session) {
            // A session whose header is damaged has nothing to show, but its text was found.
            place.insert(cli.sessions.get(hit.place.session).ok());
        }
    }
    let found = |hit: &Hit| sessions[&hit.place.session].as_ref();
    let next = more.then_some(skip + limit);
    if cli.global.json {
        let hits: Vec<_> = hits.iter().map(|hit| as_json(hit, found(hit))).collect();
        crate::out::json(&json!({"hits": hits, "next": next}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for hit in &hits {
        show(cli, hit, found(hit))?;
    }
    if hits.is_empty() {
        note(
            "Nothing was found. All words must appear in the same message; `wor*` matches the start of a word.",
        );
    } else if let Some(next) = next {
        note(more_at(next));
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(hit: &Hit, session: Option<&Session>) -> serde_json::Value {
    let header = session.map(|session| &session.header);
    json!({
        "session": hit.place.session,
        "name": session.map_or_else(|| hit.place.session.to_string(), Session::shown_name),
        "title": session.and_then(Session::title),
        "workspace": header.and_then(|header| header.profile.workspace.as_deref()),
        "seq": hit.place.seq,
        "at": rfc3339(hit.at),
        "from": hit.speaker,
        "snippet": hit.snippet,
        "marks": hit.marks_in_chars(),
    })
}

/// Two lines for a hit: its position, and its text.
fn show(cli: &Cli, hit: &Hit, session: Option<&Session>) -> Result<(), Error> {
    let profile = session.map(|session| &session.header.profile);
    let home = std::env::var_os("HOME");
    let workspace = profile.and_then(|profile| profile.workspace.as_deref());
    let workspace = workspace.map(|path| folder(Path::new(path), home.as_deref().map(Path::new)));
    let about = [Some(hit.speaker.as_str().to_owned()), Some(ago(hit.at, cli.now)), workspace];
    let about = about.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    // A name that can be typed comes first; otherwise the title.
    let is_named = session.is_some_and(|session| {
        !session.header.name.is_automatic() && session.shown_name() == session.selector()
    });
    let title = session
        .and_then(Session::title)
        .filter(|title| !is_named || session.is_some_and(|session| session.shown_name() != *title));
    let id = match session {
        Some(session) if session.header.name.is_automatic() => session.shown_id(),
        Some(session) => session.selector().to_owned(),
        None => hit.place.session.to_string(),
    };
    let place = clean(&format!("{id}:{}", hit.place.seq));
    let columns = columns();
    let (first, rest) = match title {
        Some(title) if !is_named => {
            let left = columns.saturating_sub(about.width() + place.width() + 5);
            (fit(&title, left.max(TITLE_COLUMNS_MIN)), format!("{about} · {place}"))
        }
        Some(title) => {
            let left = columns.saturating_sub(place.width() + about.width() + 5);
            let title = fit(&title, left.max(TITLE_COLUMNS_MIN));
            (place, format!("{title} · {about}"))
        }
        None => (place, about),
    };
    let left = columns.saturating_sub(first.width() + 2);
    line(format_args!("\x1b[1m{first}\x1b[0m  \x1b[2m{}\x1b[0m", fit(&rest, left)))?;
    line(format_args!("  {}", marked(hit, columns.saturating_sub(2))))
}

/// The snippet with the matches highlighted, cut to a width in columns so that the first match is
/// visible.
fn marked(hit: &Hit, columns: usize) -> String {
    let wide = |text: &str| text.chars().map(|c| c.width().unwrap_or(0)).sum::<usize>();
    let first = hit.marks.first().map_or(0, |mark| mark.start);
    // The text before the first match may take a third of the line.
    let mut start = 0;
    while start < first && wide(&clean(&hit.snippet[start..first])) > columns / 3 {
        start += hit.snippet[start..].chars().next().map_or(1, char::len_utf8);
    }
    let mut left = columns.saturating_sub(1);
    let mut text = String::new();
    if start > 0 && !hit.snippet[start..].starts_with('…') {
        text.push('…');
        left = left.saturating_sub(1);
    }
    let mut at = 0;
    for (piece, mark) in hit.pieces() {
        let skipped = start.saturating_sub(at).min(piece.len());
        at += piece.len();
        let piece = clean(&piece[skipped..]);
        let shown = piece.chars().scan(left, |left, c| {
            *left = left.checked_sub(c.width().unwrap_or(0))?;
            Some(c)
        });
        let shown: String = shown.collect();
        left -= wide(&shown);
        match mark && !shown.is_empty() {
            true => text += &format!("\x1b[1;33m{shown}\x1b[0m"),
            false => text += &shown,
        }
        if shown.len() < piece.len() {
            text.push('…');
            break;
        }
    }
    text
}
