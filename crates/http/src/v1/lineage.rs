//! Clear, fork, compact, resume and undo; and the transcript.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use rethread_agent::{Compacted, HeldBytes, SummaryMethod, TranscriptSteps};
use rethread_core::{Key, Name, sessions};
use serde::Deserialize;
use serde_json::json as object;
use utoipa::ToSchema;

use super::{json, shapes};
use crate::input::{Id, MaybeJson};
use crate::limits::PART_BYTES;
use crate::problem::Problem;
use crate::quotas::Stream;
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

/// Export a session as a transcript people can read
///
/// It is generated while it is sent, and counts as an open stream until then.
#[utoipa::path(get, path = "/v1/sessions/{id}/export", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "Markdown", body = String, content_type = "text/markdown")))]
pub(crate) async fn export(caller: Caller, Id(id): Id, right: Stream) -> Result<Response, Problem> {
    let runner = caller.viewer(id).await?;
    let steps = caller.blocking(move || Ok(runner.transcript_steps(id)?)).await?;
    let export = Export { caller, steps: Some(steps), room: None, right };
    let headers = [
        ("content-type", "text/markdown; charset=utf-8".to_owned()),
        ("content-disposition", format!("attachment; filename=\"{id}.md\"")),
    ];
    let parts = unfold(export, |mut export| async move {
        let part = export.part().await?;
        Some((part, export))
    });
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// A transcript that is being sent. No thread waits for its client.
struct Export {
    caller: Caller,
    /// `None` after a failure.
    steps: Option<TranscriptSteps>,
    /// The memory of the last part.
    room: Option<HeldBytes>,
    #[expect(dead_code, reason = "it is counted while it is held")]
    right: Stream,
}

impl Export {
    /// The next part. A truncated transcript must not look complete, so a failure closes the
    /// connection.
    async fn part(&mut self) -> Option<io::Result<Bytes>> {
        let mut steps = self.steps.take()?;
        // The previous part is sent.
        self.room = None;
        let made = async {
            let mut room = self.caller.room_at_last().await;
            let (part, steps) =
                self.caller.blocking(move || Ok((steps.part(PART_BYTES)?, steps))).await?;
            room.shrink_to(part.as_ref().map_or(0, Vec::len));
            Ok::<_, Problem>((part, steps, room))
        };
        match made.await {
            Ok((part, steps, room)) => {
                (self.steps, self.room) = (Some(steps), Some(room));
                part.map(|part| Ok(part.into()))
            }
            Err(problem) => Some(Err(io::Error::other(problem.detail().to_owned()))),
        }
    }
}
