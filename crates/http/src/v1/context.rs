//! Contexts: what a model would see, and what was cut.

use axum::response::Response;
use rethread_agent::{NextCall, TurnOptions};
use rethread_core::context::{Report, explain};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::turns::policy;
use super::{json, shapes};
use crate::input::{Id, Params};
use crate::outgoing::keep;
use crate::problem::Problem;
use crate::state::Caller;

/// The allowed windows, in tokens: from one that fits a question to one larger than any model has.
const WINDOW: std::ops::RangeInclusive<u64> = 256..=1_000_000_000;

/// How to build the context.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct How {
    /// `chat`, `editor`, `emacs`, `cli` or `bot`; the server's default if none is given.
    #[param(value_type = Option<shapes::Preset>, inline)]
    policy: Option<String>,
    /// Keep at most this many messages.
    #[param(minimum = 1)]
    max_history: Option<u32>,
    /// The model it is for, as `provider/model`; the server's default if none is given.
    #[param(pattern = "^[^/]+/.")]
    model: Option<String>,
    /// Size of the context window in tokens, reply included.
    #[param(minimum = 256, maximum = 1_000_000_000)]
    window: Option<u64>,
    /// The context as it was right after this entry; after the last one if none is given.
    at: Option<u64>,
    /// Add one line per message, and what was cut and why.
    explain: Option<bool>,
}

#[derive(Serialize)]
struct Explained<'a> {
    #[serde(flatten)]
    report: Report<'a>,
    next_call: NextCall,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<String>,
}

/// Show what a model would be sent
#[utoipa::path(get, path = "/v1/sessions/{id}/context", tag = "context", params(("id" = uuid::Uuid, Path, description = "The session"), How),
    responses((status = 200, description = "The context", body = shapes::Context)))]
pub(crate) async fn show(
    caller: Caller,
    Id(id): Id,
    Params(how): Params<How>,
) -> Result<Response, Problem> {
    if how.max_history == Some(0) || how.window.is_some_and(|window| !WINDOW.contains(&window)) {
        let (least, most) = WINDOW.into_inner();
        let what = format!("`max_history` is at least 1, `window` from {least} to {most}");
        return Err(Problem::bad_request(what));
    }
    let runner = caller.viewer(id).await?;
    // As if someone could be asked.
    let options = TurnOptions { can_ask: true, ..TurnOptions::default() };
    let tools = runner.offered(id, &options);
    let viewer = runner.responder;
    let (models, now) = (caller.state.host.roster().models().clone(), caller.state.world.now());
    let shape = how.policy.as_deref().map_or(Ok(viewer.policy), policy)?;
    let mut model = match how.model.as_deref().map(|name| name.split_once('/')) {
        None => viewer.model,
        Some(Some((provider, name))) if !provider.is_empty() && !name.is_empty() => {
            caller.state.host.roster().models().describe(provider, name)
        }
        Some(_) => return Err(Problem::bad_request("`model` is PROVIDER/MODEL")),
    };
    if let Some(window) = how.window {
        model.window = window;
        model.reply = model.reply.min(window / 4);
    }
    let room = caller.room().await?;
    let context = caller
        .with(move |sessions| {
            let session = sessions.get_at(id, how.at)?;
            let mut shape = shape.clone().for_session(&session.header);
            shape.keep_recent = how.max_history.or(shape.keep_recent);
            let context = sessions.build(session.clone(), &shape, &model)?;
            let next_call =
                NextCall::new(sessions, &session, (&model, &context, &tools), &models, now);
            let report = Report { policy: &shape, model: &model, context: &context };
            let explain = how.explain.unwrap_or_default().then(|| explain(&context));
            Ok(json(&Explained { report, next_call, explain }))
        })
        .await?;
    Ok(keep(context, room))
}
