//! A session as a Markdown transcript.

use std::io;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use rethread_agent::{HeldBytes, TranscriptSteps};

use crate::input::Id;
use crate::limits::PART_BYTES;
use crate::problem::Problem;
use crate::quotas::Stream;
use crate::state::Caller;

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
