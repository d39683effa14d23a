//! The list of agents.

use axum::response::Response;
use serde_json::json as object;

use super::{json, shapes};
use crate::state::Caller;

/// List agents
#[utoipa::path(get, path = "/v1/agents", tag = "search",
    responses((status = 200, description = "The agents", body = shapes::Agents)))]
pub(crate) async fn agents(caller: Caller) -> Response {
    let all: Vec<_> = caller.state.host.agents().iter().collect();
    json(&object!({ "agents": all }))
}
