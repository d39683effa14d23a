//! Keys: how clients find their sessions.

use axum::http::StatusCode;
use axum::response::Response;
use rethread_core::{Key, SessionId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{json, shapes};
use crate::input::{Json, KeyPath};
use crate::problem::Problem;
use crate::state::Caller;

/// The session to bind a key to.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bind {
    /// The session.
    #[schema(value_type = uuid::Uuid)]
    session: SessionId,
}

/// Show the session of a key
#[utoipa::path(get, path = "/v1/keys/{key}", tag = "keys", params(("key" = String, Path, description = "The key, percent-encoded")),
    responses((status = 200, description = "The session", body = shapes::Bound)))]
pub(crate) async fn resolve(caller: Caller, KeyPath(key): KeyPath) -> Result<Response, Problem> {
    let asked = key.clone();
    let found = caller.with(move |sessions| sessions.resolve(&asked)).await?;
    bound(&caller, key, found.ok_or_else(Problem::nothing_here)?).await
}

/// Bind a key to a session
#[utoipa::path(put, path = "/v1/keys/{key}", tag = "keys", params(("key" = String, Path, description = "The key, percent-encoded")),
    request_body = Bind, responses((status = 200, description = "The key is bound", body = shapes::Bound)))]
pub(crate) async fn bind(
    caller: Caller,
    KeyPath(key): KeyPath,
    Json(bind, _room): Json<Bind>,
) -> Result<Response, Problem> {
    let (pointed, id) = (key.clone(), bind.session);
    caller.with(move |sessions| sessions.bind(&pointed, id)).await?;
    bound(&caller, key, id).await
}

/// Remove a key; the session is kept
#[utoipa::path(delete, path = "/v1/keys/{key}", tag = "keys", params(("key" = String, Path, description = "The key, percent-encoded")),
    responses((status = 204, description = "The key is removed")))]
pub(crate) async fn unbind(caller: Caller, KeyPath(key): KeyPath) -> Result<StatusCode, Problem> {
    let seen = caller.with(move |sessions| sessions.unbind(&key)).await?;
    seen.map(|_| StatusCode::NO_CONTENT).ok_or_else(Problem::nothing_here)
}

async fn bound(caller: &Caller, key: Key, id: SessionId) -> Result<Response, Problem> {
    let session = caller.with(move |sessions| sessions.get(id)).await?;
    Ok(json(&serde_json::json!({ "key": key, "session": session })))
}
