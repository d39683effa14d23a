//! `search`: full-text search in all sessions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::process::ExitCode;

use rethread_core::search::{Hit, Query, Scope};
use rethread_core::session::Session;
use rethread_core::world::rfc3339;
use rethread_render::terminal::wrap_line;
use serde_json::json;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Cli, Done};
use crate::args::Search;
use crate::chat::folder;
use crate::errors::Error;
use crate::out::{ago, clean, columns, fit, line, note};

/// Hits that the chat shows.
const CHAT_HITS: usize = 20;

/// The minimum width of a title next to other columns, and the width for which a folder is
/// shortened.
const TITLE_COLUMNS_MIN: usize = 12;
const TITLE_COLUMNS_WANTED: usize = 24;

pub(crate) fn run(cli: &Cli, args: &Search) -> Done {
    let workspace = cli.workspace_filter()?;
    let since = args.since.as_ref().map(|since| since.time(cli.now));
    let query = Query::new(&args.words.join(" "))?;
    let query = query.within(Scope { since, workspace, from: args.from, ..Scope::default() });
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

/// Prints a hit: where it is, and its text.
fn show(cli: &Cli, hit: &Hit, session: Option<&Session>) -> Result<(), Error> {
    let profile = session.map(|session| &session.header.profile);
    let home = std::env::var_os("HOME");
    let workspace = profile.and_then(|profile| profile.workspace.as_deref());
    let folder = workspace.map(|path| folder(Path::new(path), home.as_deref().map(Path::new)));
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
    let heading = Heading {
        place: clean(&format!("{id}:{}", hit.place.seq)),
        place_first: is_named || title.is_none(),
        title,
        said: format!("{} · {}", hit.speaker.as_str(), ago(hit.at, cli.now)),
        folder: folder.as_deref().map(clean),
    };
    let columns = columns();
    for part in heading.lines(columns) {
        line(part)?;
    }
    line(format_args!("  {}", marked(hit, columns.saturating_sub(2))))
}

/// What is said about a hit: where it is, who said it, and when.
struct Heading {
    /// What can be typed for it.
    place: String,
    place_first: bool,
    title: Option<String>,
    /// Who said it, and when.
    said: String,
    folder: Option<String>,
}

impl Heading {
    /// One line if it fits, else several, broken between the facts. All but the title is whole: the
    /// title is cut, and of the folder only its last part is kept.
    fn lines(&self, columns: usize) -> Vec<String> {
        let full = self.folder.as_deref();
        let last = full.and_then(|folder| folder.rsplit('/').find(|part| !part.is_empty()));
        let title = self.title.as_deref().unwrap_or_default();
        for (folder, wanted) in [(full, TITLE_COLUMNS_WANTED), (last, TITLE_COLUMNS_MIN)] {
            let facts = [Some(self.said.as_str()), folder];
            let facts = facts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
            let beside = facts.width() + self.place.width() + 2;
            let room = columns.saturating_sub(beside + if title.is_empty() { 0 } else { 3 });
            if beside > columns || room < wanted.min(title.width()) {
                continue;
            }
            let (first, rest) = match (title.is_empty(), self.place_first) {
                (true, _) => (self.place.clone(), facts),
                (_, true) => (self.place.clone(), format!("{} · {facts}", fit(title, room))),
                (_, false) => (fit(title, room), format!("{facts} · {}", self.place)),
            };
            return vec![format!("\x1b[1m{first}\x1b[0m  \x1b[2m{rest}\x1b[0m")];
        }
        let mut lines = match title.is_empty() {
            true => wrap_line(&self.place, columns, 0),
            false => vec![fit(title, columns)],
        };
        lines.iter_mut().for_each(|line| *line = format!("\x1b[1m{line}\x1b[0m"));
        let place = Some(self.place.as_str()).filter(|_| !title.is_empty());
        let mut below: Vec<String> = Vec::new();
        for fact in [place, Some(&self.said), last].into_iter().flatten() {
            match below.last_mut() {
                Some(line) if line.width() + 3 + fact.width() <= columns.saturating_sub(2) => {
                    *line += &format!(" · {fact}");
                }
                _ => below.extend(wrap_line(fact, columns.saturating_sub(2), 0)),
            }
        }
        lines.extend(below.iter().map(|line| format!("  \x1b[2m{line}\x1b[0m")));
        lines
    }
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

#[cfg(test)]
mod tests {
    use rethread_render::terminal::line_width;

    use super::*;

    #[test]
    fn a_heading_fits_any_window_and_says_where_the_hit_is() {
        let place = "claude-code_20260130_154357:105";
        for (title, place_first) in
            [(Some("I am currently getting this error in"), false), (None, true)]
        {
            let heading = Heading {
                place: place.into(),
                place_first,
                title: title.map(str::to_owned),
                said: "assistant · 2026-01-30".into(),
                folder: Some("/home/you/work/company/devenv/cli".into()),
            };
            for columns in [40, 60, 80, 120, 200] {
                let lines = heading.lines(columns);
                for line in &lines {
                    assert!(line_width(line) <= columns, "{columns}: {line}");
                }
                let all = lines.join("\n");
                assert!(all.contains(place), "{columns}: {all}");
                let known = ["assistant · 2026-01-30", "cli"];
                assert!(known.iter().all(|part| all.contains(part)), "{columns}: {all}");
                assert_eq!(lines.len() == 1, columns >= 80, "{columns}: {all}");
                assert!(lines.len() <= 3, "{columns}: {all}");
                assert_eq!(all.contains("I am currently"), title.is_some(), "{columns}: {all}");
            }
        }
        // A name that is longer than the window is broken, and the number after it is seen.
        let name = "the-name-of-a-session-that-nobody-can-type-without-a-mistake:12345";
        let heading = Heading {
            place: name.into(),
            place_first: true,
            title: None,
            said: "user · 3d ago".into(),
            folder: None,
        };
        let all = heading.lines(40).join("\n");
        assert!(all.contains(":12345") && all.contains("user · 3d ago"), "{all}");
    }
}
