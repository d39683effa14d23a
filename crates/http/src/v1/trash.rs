//! The trash: deleted sessions, and restoring them.

use axum::response::Response;

use super::{json, shapes};
use crate::input::Id;
use crate::problem::Problem;
use crate::state::Caller;

/// List deleted sessions, most recently deleted first
#[utoipa::path(get, path = "/v1/trash", tag = "sessions",
    responses((status = 200, description = "The sessions, with the names and keys they had", body = shapes::Trash)))]
pub(crate) async fn list_trash(caller: Caller) -> Result<Response, Problem> {
    let sessions = caller.with(|sessions| sessions.trashed()).await?;
    Ok(json(&serde_json::json!({ "sessions": sessions })))
}

/// Erase everything in the trash
#[utoipa::path(delete, path = "/v1/trash", tag = "sessions",
    responses((status = 200, description = "The number of erased sessions", body = shapes::Emptied)))]
pub(crate) async fn empty_trash(caller: Caller) -> Result<Response, Problem> {
    let purged = caller.with(|sessions| sessions.empty_trash(None)).await?;
    Ok(json(&serde_json::json!({ "erased": purged.done, "in_use": purged.in_use })))
}

/// Restore a session from the trash
///
/// If its name is taken by now, a number is added; keys that are taken are not moved.
#[utoipa::path(post, path = "/v1/trash/{id}/restore", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "The session after the change", body = shapes::OneSession)))]
pub(crate) async fn restore_from_trash(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let session = caller.with(move |sessions| sessions.restore_from_trash(id)).await?;
    Ok(json(&serde_json::json!({ "session": session })))
}
