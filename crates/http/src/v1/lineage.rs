//! Clear, fork, compact, resume and undo.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rethread_agent::{Compacted, SummaryMethod};
use rethread_core::{Key, Name, sessions};
use serde::Deserialize;
use serde_json::json as object;
use utoipa::ToSchema;

use super::{json, shapes};
use crate::input::{Id, MaybeJson};
use crate::problem::Problem;
use crate::state::Caller;

/// Estimate what compacting a session would save
#[utoipa::path(get, path = "/v1/sessions/{id}/compact", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "Estimated tokens before and after", body = shapes::Preview)))]
pub(crate) async fn preview(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let runner = caller.viewer(id).await?;
    Ok(json(&caller.blocking(move || Ok(runner.preview(id)?)).await?))
}

/// Summarise a session and continue in a new one, which takes over its keys
#[utoipa::path(post, path = "/v1/sessions/{id}/compact", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 201, description = "The new session", body = shapes::ContinuedSession)))]
pub(crate) async fn compact(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let runner = caller.handle.runner_for(id).await?;
    let work = async move { runner.compact(id, SummaryMethod::Model, |_| {}).await };
    match caller.handle.in_queue(id, work).await? {
        Compacted::Done(receipt) => Ok((StatusCode::CREATED, json(&receipt)).into_response()),
        Compacted::Nothing => Err(Problem::nothing_to_do("this session has no messages yet")),
    }
}

/// Options of a resume.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Resume {
    /// A key to bind to the new session.
    key: Option<String>,
}

/// Start a new session from the summary of another
#[utoipa::path(post, path = "/v1/sessions/{id}/resume", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Resume, responses((status = 201, description = "The new session", body = shapes::ContinuedSession)))]
pub(crate) async fn resume(
    caller: Caller,
    Id(id): Id,
    MaybeJson(resume, _room): MaybeJson<Resume>,
) -> Result<Response, Problem> {
    let keys: Vec<Key> = resume.key.map(Key::new).transpose()?.into_iter().collect();
    let runner = caller.handle.runner_for(id).await?;
    let work = async move { runner.resume(id, keys).await };
    match caller.handle.in_queue(id, work).await? {
        Compacted::Done(receipt) => Ok((StatusCode::CREATED, json(&receipt)).into_response()),
        Compacted::Nothing => Err(Problem::nothing_to_do("this session has no messages yet")),
    }
}

/// Options of a fork.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fork {
    /// The last entry to copy; all of them if none is given.
    at: Option<u64>,
    /// The name of the copy.
    name: Option<String>,
    /// Whether the keys of the session are moved to the copy.
    take_keys: bool,
}

/// Copy a session into a new one, up to an entry, in complete rounds
#[utoipa::path(post, path = "/v1/sessions/{id}/fork", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Fork, responses((status = 201, description = "The copy", body = shapes::OneSession)))]
pub(crate) async fn fork(
    caller: Caller,
    Id(id): Id,
    MaybeJson(fork, _room): MaybeJson<Fork>,
) -> Result<Response, Problem> {
    let name = fork.name.as_deref().map(Name::new).transpose()?;
    let fork = sessions::Fork { at: fork.at, name, take_keys: fork.take_keys };
    let session = caller.with(move |sessions| sessions.fork(id, &fork)).await?;
    Ok((StatusCode::CREATED, json(&object!({ "session": session }))).into_response())
}

/// Undo a delete, the latest clear, or the compact, resume, fork or new that started the session
#[utoipa::path(post, path = "/v1/sessions/{id}/undo", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "What was undone", body = shapes::Undone)))]
pub(crate) async fn undo(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let undone = caller.with(move |sessions| sessions.undo(id)).await?;
    Ok(json(&undone))
}

/// Reset the context; the log is kept
#[utoipa::path(post, path = "/v1/sessions/{id}/clear", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "The position of the clear in the log", body = shapes::Cleared)))]
pub(crate) async fn clear(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let seq = caller.with(move |sessions| sessions.clear(id)).await?;
    Ok(json(&object!({ "session": id, "seq": seq })))
}
