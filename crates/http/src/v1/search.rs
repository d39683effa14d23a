//! Finding what was said, and who can answer.

use std::collections::HashMap;

use axum::response::Response;
use rethread_core::SessionId;
use serde::Deserialize;
use serde_json::json as object;
use utoipa::IntoParams;

use super::{json, shapes};
use crate::input::Params;
use crate::outgoing::keep;
use crate::problem::Problem;
use crate::state::Caller;

/// Hits in a page when nobody asks for a number.
const PAGE_HITS: u32 = 20;

/// Hits that can be skipped. Nobody reads further; they would search for something else.
const SKIP_MAX: u32 = 100_000;

/// What to look for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Query {
    /// Words that must all stand in the same message.
    #[param(min_length = 1, max_length = 1024)]
    q: String,
    /// How many hits, at most 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// How many hits to skip: `next` of the page before.
    #[param(minimum = 0, maximum = 100_000)]
    skip: Option<u32>,
}

/// Find words in everything that was said
#[utoipa::path(get, path = "/v1/search", tag = "search", params(Query),
    responses((status = 200, description = "What was found, best first", body = shapes::Hits)))]
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
    let room = caller.room().await?;
    let found = caller.with(move |sessions| {
        // One more than is shown tells whether there are more.
        let mut hits = sessions.search(&query.q, skip, limit + 1)?;
        let next = (hits.len() > limit).then_some(skip + limit);
        hits.truncate(limit);
        let mut names: HashMap<SessionId, String> = HashMap::new();
        for hit in &hits {
            // A session whose header is damaged has no name to show, but its text was found.
            names.entry(hit.place.session).or_insert_with(|| {
                match sessions.get(hit.place.session) {
                    Ok(session) => session.header.name.to_string(),
                    Err(_) => hit.place.session.to_string(),
                }
            });
        }
        let hits: Vec<_> = hits
            .iter()
            .map(|hit| {
                object!({
                    "session": hit.place.session, "name": names[&hit.place.session],
                    "seq": hit.place.seq, "snippet": hit.snippet,
                })
            })
            .collect();
        Ok(object!({ "hits": hits, "next": next }))
    });
    Ok(keep(json(&found.await?), room))
}

/// List who can answer
#[utoipa::path(get, path = "/v1/agents", tag = "search",
    responses((status = 200, description = "The agents", body = shapes::Agents)))]
pub(crate) async fn agents(caller: Caller) -> Response {
    let all: Vec<_> = caller.state.host.agents().iter().collect();
    json(&object!({ "agents": all }))
}
