//! Search.

use std::collections::HashMap;

use axum::response::Response;
use jiff::Timestamp;
use rethread_core::search::{self as core, Hit, Scope, Speaker};
use rethread_core::world::rfc3339;
use rethread_core::{Session, SessionId};
use serde::Deserialize;
use serde_json::{Value, json as object};
use utoipa::IntoParams;

use super::{json, shapes};
use crate::input::Params;
use crate::outgoing::keep;
use crate::problem::Problem;
use crate::state::Caller;

/// Default number of hits in a page.
const PAGE_HITS: u32 = 20;

/// How many hits can be skipped. Nobody reads further; they would search for something else.
const SKIP_MAX: u32 = 100_000;

/// What to search for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Query {
    /// Words to find. All must appear in the same message. `limit*` matches words that start with
    /// `limit`; `"token bucket"` in double quotes matches the phrase.
    #[param(min_length = 1, max_length = 1024)]
    q: String,
    /// Only messages from then or later, in RFC 3339.
    since: Option<String>,
    /// Only sessions of this workspace.
    workspace: Option<String>,
    /// Only messages from this speaker: `user`, `assistant`, `tool` or `system`.
    #[param(value_type = Option<String>, pattern = "^(user|assistant|tool|system)$")]
    from: Option<Speaker>,
    /// How many hits, at most 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// How many hits to skip: `next` of the previous page.
    #[param(minimum = 0, maximum = 100_000)]
    skip: Option<u32>,
}

/// Search all sessions
#[utoipa::path(get, path = "/v1/search", tag = "search", params(Query),
    responses((status = 200, description = "Hits, best first", body = shapes::Hits)))]
pub(crate) async fn search(
    caller: Caller,
    Params(query): Params<Query>,
) -> Result<Response, Problem> {
    let (limit, skip) = (query.limit.unwrap_or(PAGE_HITS), query.skip.unwrap_or(0));
    if !(1..=1_000).contains(&limit) || skip > SKIP_MAX {
        let what = format!("`limit` is from 1 to 1000, `skip` at most {SKIP_MAX}");
        return Err(Problem::bad_request(what));
    }
    let (limit, skip) = (limit as usize, skip as usize);
    let since = query.since.map(|since| since.parse::<Timestamp>()).transpose();
    let since = since.map_err(|_| {
        Problem::bad_request("`since` is a time in RFC 3339, such as 2025-01-04T14:32:15Z")
    })?;
    let scope = Scope { since, workspace: query.workspace, from: query.from, ..Scope::default() };
    let room = caller.room().await?;
    let found = caller.with(move |sessions| {
        let query = core::Query::new(&query.q)?.within(scope.clone());
        // One more than is shown, to know whether there are more.
        let mut hits = sessions.find(&query, skip, limit + 1)?;
        let next = (hits.len() > limit).then_some(skip + limit);
        hits.truncate(limit);
        let mut found: HashMap<SessionId, Option<Session>> = HashMap::new();
        for hit in &hits {
            // A session whose header is damaged has no name to show, but its text was found.
            found.entry(hit.place.session).or_insert_with(|| sessions.get(hit.place.session).ok());
        }
        let hits: Vec<_> =
            hits.iter().map(|hit| as_json(hit, found[&hit.place.session].as_ref())).collect();
        Ok(object!({ "hits": hits, "next": next }))
    });
    Ok(keep(json(&found.await?), room))
}

fn as_json(hit: &Hit, session: Option<&Session>) -> Value {
    let profile = session.map(|session| &session.header.profile);
    let name = session.map(Session::shown_name);
    object!({
        "session": hit.place.session,
        "name": name.unwrap_or_else(|| hit.place.session.to_string()),
        "title": session.and_then(Session::title),
        "workspace": profile.and_then(|profile| profile.workspace.as_deref()),
        "seq": hit.place.seq,
        "at": rfc3339(hit.at),
        "from": hit.speaker,
        "snippet": hit.snippet,
        "marks": hit.marks_in_chars(),
    })
}
