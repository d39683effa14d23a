//! `search`: words in everything that was said.

use std::collections::HashMap;
use std::process::ExitCode;

use serde_json::json;

use super::{Cli, Done};
use crate::args::Search;
use crate::out::{columns, fit, line, note};

pub(crate) fn run(cli: &Cli, args: &Search) -> Done {
    print(cli, &args.words.join(" "), args.limit as usize, args.skip as usize)
}

/// Prints where these words were said.
pub(crate) fn print(cli: &Cli, query: &str, limit: usize, skip: usize) -> Done {
    let mut hits = cli.sessions.search(query, skip, limit + 1)?;
    let more = hits.len() > limit;
    hits.truncate(limit);
    let mut names = HashMap::new();
    for hit in &hits {
        if let std::collections::hash_map::Entry::Vacant(place) = names.entry(hit.place.session) {
            // A session whose header is damaged has no name to show, but its text was found.
            let name =
                cli.sessions.get(hit.place.session).map(|session| session.header.name.to_string());
            place.insert(name.unwrap_or_else(|_| hit.place.session.to_string()));
        }
    }
    if cli.global.json {
        let hits: Vec<_> = hits
            .iter()
            .map(|hit| {
                json!({"session": hit.place.session, "name": names[&hit.place.session], "seq": hit.place.seq, "snippet": hit.snippet})
            })
            .collect();
        let next = more.then_some(skip + limit);
        crate::out::json(&json!({"hits": hits, "next": next}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for hit in &hits {
        let place = format!("{}:{}", names[&hit.place.session], hit.place.seq);
        let left = columns().saturating_sub(place.len() + 2).max(20);
        line(format_args!("\x1b[1m{place}\x1b[0m  {}", fit(&hit.snippet, left)))?;
    }
    if hits.is_empty() {
        note("Nothing was found. All words must stand in the same message.");
    } else if more {
        note(format_args!("There are more: --skip {}", skip + limit));
    }
    Ok(ExitCode::SUCCESS)
}
