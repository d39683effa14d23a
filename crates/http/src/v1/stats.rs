//! Statistics of a session.

use axum::response::Response;
use rethread_agent::StatsReport;

use super::{json, shapes};
use crate::input::Id;
use crate::outgoing::keep;
use crate::problem::Problem;
use crate::state::Caller;

/// Show statistics of a session
///
/// Counts by role and by tool, what was charged, and what its contexts cost compared with sending
/// everything. Reads the whole log of this session.
#[utoipa::path(get, path = "/v1/sessions/{id}/stats", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "The numbers", body = shapes::Stats)))]
pub(crate) async fn session_stats(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let viewer = caller.viewer(id).await?.responder;
    let models = caller.state.host.roster().models().clone();
    let room = caller.room().await?;
    let report = caller
        .with(move |sessions| {
            let shape = (viewer.policy.clone(), viewer.model.clone());
            StatsReport::new(sessions, id, shape, &models)
        })
        .await?;
    Ok(keep(json(&report.json()), room))
}
