//! `search_sessions`: searches earlier conversations.
//!
//! Instructions are not part of a conversation: nobody said them, and those of another session do
//! not apply in this one. They are never found.

use std::collections::HashMap;

use rethread_core::search::{Hit, Speaker};
use rethread_core::session::Session;
use rethread_core::sessions::{Error, Result as Done};
use rethread_core::world::rfc3339;
use rethread_core::{SessionId, Sessions, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::input::{arguments, schema};
use super::limits::{HITS, HITS_MAX, HITS_PAGES_MAX, HITS_SEEN};
use super::{Spec, Tool, ToolContext, ToolFailure, written};

/// Searches the owner's sessions.
pub struct SearchSessions;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    query: String,
    limit: Option<u64>,
}

#[derive(Serialize)]
struct Found {
    results: Vec<Place>,
}

#[derive(Serialize)]
struct Place {
    session: String,
    id8: String,
    seq: u64,
    at: String,
    role: Speaker,
    text: String,
    #[serde(rename = "ref")]
    reference: String,
}

impl Tool for SearchSessions {
    fn spec(&self) -> Spec {
        Spec {
            name: "search_sessions".into(),
            description: "Finds what was said in this and earlier sessions. All words must be \
                          in one message; \"two words\" in quotes are a phrase; a final * \
                          matches any ending. `recall` returns the whole text of a result by its `ref`."
                .into(),
            input: schema(
                json!({
                    "query": {"type": "string", "description": "Words to look for, in any case."},
                    "limit": {"type": "integer", "description": "Results to return: by default 8, at most 20."},
                }),
                &["query"],
            ),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, input: &str, tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let limit = input.limit.unwrap_or(HITS).clamp(1, HITS_MAX) as usize;
        let failed = |error: Error| ToolFailure(error.to_string());
        let turn = tool_context.sessions.get(tool_context.session).map_err(failed)?.tally.turn;
        let own = |hit: &Hit| {
            hit.place.session == tool_context.session && turn.is_some_and(|at| hit.place.seq >= at)
        };
        // A question would find itself, and the calls it led to.
        let is_said = |hit: &Hit| hit.speaker != Speaker::System && !own(hit);
        let mut known = Known { sessions: &tool_context.sessions, headers: HashMap::new() };
        let mut results = Vec::new();
        for page in 0..HITS_PAGES_MAX {
            let hits = tool_context.sessions.search(&input.query, page * HITS_SEEN, HITS_SEEN);
            let hits = hits.map_err(failed)?;
            let is_last = hits.len() < HITS_SEEN;
            for hit in hits.into_iter().filter(is_said) {
                if tool_context.stop.is_cancelled() {
                    return Err(ToolFailure("stopped".into()));
                }
                if results.len() == limit {
                    break;
                }
                results.extend(known.place(hit).map_err(failed)?);
            }
            if is_last || results.len() == limit {
                break;
            }
        }
        Ok(written(&Found { results }))
    }
}

/// The sessions that were looked up already.
struct Known<'a> {
    sessions: &'a Sessions,
    headers: HashMap<SessionId, (Session, String)>,
}

impl Known<'_> {
    /// The description of a hit; `None` if it was deleted in the meantime.
    fn place(&mut self, hit: Hit) -> Done<Option<Place>> {
        if !self.headers.contains_key(&hit.place.session) {
            let session = match self.sessions.get(hit.place.session) {
                Err(Error::Store(StoreError::NotFound { .. })) => return Ok(None),
                other => other?,
            };
            let short = hit.place.session.short();
            // Sessions started within the same minute share their first digits.
            let name = match self.sessions.select(&short) {
                Ok(id) if id == hit.place.session => short,
                _ => hit.place.session.0.simple().to_string(),
            };
            self.headers.insert(hit.place.session, (session, name));
        }
        let (session, name) = &self.headers[&hit.place.session];
        Ok(Some(Place {
            session: session.header.name.to_string(),
            id8: hit.place.session.short(),
            seq: hit.place.seq,
            at: rfc3339(hit.at),
            role: hit.speaker,
            text: hit.snippet,
            reference: format!("{name}:{}", hit.place.seq),
        }))
    }
}
