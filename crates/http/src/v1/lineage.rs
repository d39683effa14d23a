//! Starting over, branching off, going on from a summary, and taking it back; and the transcript.

use std::io::{self, Write};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use rethread_agent::{Compacted, How};
use rethread_core::{Key, Name, sessions};
use serde::Deserialize;
use serde_json::json as object;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::{json, shapes};
use crate::input::{Id, MaybeJson};
use crate::problem::Problem;
use crate::state::Caller;

/// Say what compacting a session would save
#[utoipa::path(get, path = "/v1/sessions/{id}/compact", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "About so many tokens", body = shapes::Preview)))]
pub(crate) async fn preview(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let runner = caller.viewer(id).await?;
    Ok(json(&caller.blocking(move || Ok(runner.preview(id)?)).await?))
}

/// Summarise a session and go on in a new one, which takes over its keys
#[utoipa::path(post, path = "/v1/sessions/{id}/compact", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 201, description = "It goes on in a new session", body = shapes::GoesOn)))]
pub(crate) async fn compact(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let runner = caller.handle.runner_for(id).await?;
    let work = async move { runner.compact(id, How::Model, |_| {}).await };
    match caller.handle.in_queue(id, work).await? {
        Compacted::Done(receipt) => Ok((StatusCode::CREATED, json(&receipt)).into_response()),
        Compacted::Nothing => Err(Problem::nothing_to_do("nothing was said in this session yet")),
    }
}

/// How a session is resumed.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Resume {
    /// A key that points at the new session from now on.
    key: Option<String>,
}

/// Start a new session from the summary of another
#[utoipa::path(post, path = "/v1/sessions/{id}/resume", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Resume, responses((status = 201, description = "The new session", body = shapes::GoesOn)))]
pub(crate) async fn resume(
    caller: Caller,
    Id(id): Id,
    MaybeJson(resume): MaybeJson<Resume>,
) -> Result<Response, Problem> {
    let keys: Vec<Key> = resume.key.map(Key::new).transpose()?.into_iter().collect();
    let runner = caller.handle.runner_for(id).await?;
    let work = async move { runner.resume(id, keys).await };
    match caller.handle.in_queue(id, work).await? {
        Compacted::Done(receipt) => Ok((StatusCode::CREATED, json(&receipt)).into_response()),
        Compacted::Nothing => Err(Problem::nothing_to_do("nothing was said in this session yet")),
    }
}

/// How a fork is to be made.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fork {
    /// The last entry to copy; all of them when none is given.
    at: Option<u64>,
    /// The name of the copy.
    name: Option<String>,
    /// Whether the keys move to the copy.
    take_keys: bool,
}

/// Copy a session into a new one, up to an entry, in whole rounds
#[utoipa::path(post, path = "/v1/sessions/{id}/fork", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Fork, responses((status = 201, description = "The copy", body = shapes::One)))]
pub(crate) async fn fork(
    caller: Caller,
    Id(id): Id,
    MaybeJson(fork): MaybeJson<Fork>,
) -> Result<Response, Problem> {
    let name = fork.name.as_deref().map(Name::new).transpose()?;
    let fork = sessions::Fork { at: fork.at, name, take_keys: fork.take_keys };
    let session = caller.with(move |sessions| sessions.fork(id, &fork)).await?;
    Ok((StatusCode::CREATED, json(&object!({ "session": session }))).into_response())
}

/// Take back the latest clear, or the compact, resume, fork or new that started the session
#[utoipa::path(post, path = "/v1/sessions/{id}/undo", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "What was taken back", body = shapes::Undone)))]
pub(crate) async fn undo(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let undone = caller.with(move |sessions| sessions.undo(id)).await?;
    Ok(json(&undone))
}

/// Start the context anew; the log stays
#[utoipa::path(post, path = "/v1/sessions/{id}/clear", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "Where the clear stands", body = shapes::Cleared)))]
pub(crate) async fn clear(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let seq = caller.with(move |sessions| sessions.clear(id)).await?;
    Ok(json(&object!({ "session": id, "seq": seq })))
}

/// Parts of a transcript that may wait for a slow client.
const PARTS_MAX: usize = 4;

/// Bytes of such a part.
const PART_BYTES: usize = 64 << 10;

/// Export a session as a transcript people can read
#[utoipa::path(get, path = "/v1/sessions/{id}/export", tag = "lineage", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "Markdown", body = String, content_type = "text/markdown")))]
pub(crate) async fn export(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let runner = caller.viewer(id).await?;
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(PARTS_MAX);
    tokio::task::spawn_blocking(move || {
        let mut out = io::BufWriter::with_capacity(PART_BYTES, Pipe(sender.clone()));
        let written = runner.transcript(id, &mut out).map_err(io::Error::other);
        if let Err(error) = written.and_then(|_| out.flush()) {
            // A transcript that breaks off must not look like one that is complete.
            drop(sender.blocking_send(Err(error)));
        }
    });
    let parts = unfold(receiver, |mut receiver| async move {
        let part = receiver.recv().await?;
        Some((part, receiver))
    });
    let headers = [
        ("content-type", "text/markdown; charset=utf-8".to_owned()),
        ("content-disposition", format!("attachment; filename=\"{id}.md\"")),
    ];
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// Writes to whoever reads the other end, and waits for them.
struct Pipe(mpsc::Sender<io::Result<Bytes>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = Ok(Bytes::copy_from_slice(bytes));
        self.0.blocking_send(part).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
