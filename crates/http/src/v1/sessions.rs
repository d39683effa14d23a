//! Sessions: list, create, get, patch, archive, unarchive, delete.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rethread_core::name::is_invisible;
use rethread_core::store::{Change, Filter};
use rethread_core::{Key, Name, New, Profile, ProfileChange, Sessions};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{json, present, shapes};
use crate::input::{Id, MaybeJson, Params};
use crate::outgoing::keep;
use crate::problem::Problem;
use crate::state::Caller;

/// Sessions in a page when nobody asks for a number: what a screen shows.
const PAGE_SESSIONS: u32 = 20;

/// Which sessions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// How many, at most 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Continue after this cursor: `next` of the previous page.
    after: Option<String>,
    /// Only sessions of this folder.
    workspace: Option<String>,
    /// `true`: only archived sessions; `false` (the default): only others.
    archived: Option<bool>,
    /// Include archived sessions, and every session of a chain.
    all: Option<bool>,
}

/// List sessions, newest activity first
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(Which),
    responses((status = 200, description = "A page", body = shapes::Sessions)))]
pub(crate) async fn list(
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Response, Problem> {
    let limit = which.limit.unwrap_or(PAGE_SESSIONS);
    if !(1..=1_000).contains(&limit) {
        return Err(Problem::bad_request("`limit` is from 1 to 1000"));
    }
    let after = which.after.as_deref().map(str::parse).transpose()?;
    let filter = match (which.all, which.archived) {
        (Some(true), archived) => Filter { archived, ..Filter::default() },
        (_, Some(true)) => Filter { archived: Some(true), ..Filter::default() },
        _ => Sessions::default_filter(),
    };
    let filter = Filter { workspace: which.workspace, ..filter };
    let room = caller.room().await?;
    let page = caller.with(move |sessions| sessions.list(&filter, after, limit as usize)).await?;
    let next = page.next.map(|cursor| cursor.to_string());
    let mut object = serde_json::json!({ "sessions": page.sessions, "next": next });
    if !page.damaged.is_empty() {
        object["damaged"] = serde_json::json!(page.damaged);
    }
    Ok(keep(json(&object), room))
}

/// What a new session is to be.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Create {
    /// Its name; made from the time when none is given. A number is added if it is taken.
    name: Option<String>,
    /// What it is about.
    description: Option<String>,
    /// The folder it is about.
    workspace: Option<String>,
    /// Messages its context keeps, where the policy counts them.
    #[schema(minimum = 1)]
    max_history: Option<u32>,
    /// Its agent, one of `/v1/agents`; the server's default agent if none is given.
    agent: Option<String>,
    /// The system message it begins with; that of its agent when none is given.
    system: Option<String>,
    /// A key that points at it from now on.
    key: Option<String>,
}

/// Start a session
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = Create,
    responses((status = 201, description = "The new session", body = shapes::One)))]
pub(crate) async fn create(
    caller: Caller,
    MaybeJson(create, _room): MaybeJson<Create>,
) -> Result<Response, Problem> {
    let key = create.key.map(Key::new).transpose()?;
    folder(create.workspace.as_deref())?;
    let template = caller.runner(create.agent).await?.responder.new_session();
    let new = New {
        name: create.name.as_deref().map(Name::new).transpose()?,
        profile: Profile {
            description: create.description,
            max_history: positive(create.max_history)?,
            workspace: create.workspace.or(template.profile.workspace),
            ..template.profile
        },
        system: create.system.or(template.system),
        kind: template.kind,
        source: template.source,
        parent: None,
        readable_id: None,
        ..New::default()
    };
    let session = caller.with(move |sessions| sessions.create(&new, key.as_ref())).await?;
    // The keys of a session are stored beside it; the created session is read back as it is.
    let id = session.id();
    let session = caller.with(move |sessions| sessions.get(id)).await?;
    let body = json(&serde_json::json!({ "session": session }));
    let place = [("location", format!("/v1/sessions/{id}"))];
    Ok((StatusCode::CREATED, place, body).into_response())
}

/// The folder a session is about is shown in lists, so nothing in it may drive a terminal.
fn folder(given: Option<&str>) -> Result<(), Problem> {
    match given.is_some_and(|folder| folder.chars().any(is_invisible)) {
        true => Err(Problem::bad_request("`workspace` contains invisible characters")),
        false => Ok(()),
    }
}

fn positive(number: Option<u32>) -> Result<Option<u32>, Problem> {
    match number {
        Some(0) => Err(Problem::bad_request("`max_history` is at least 1")),
        number => Ok(number),
    }
}

/// When to look at a session.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct When {
    /// Its counts right after this entry; after the last one when none is given.
    at: Option<u64>,
}

/// Show a session
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session"), When),
    responses((status = 200, description = "The session", body = shapes::One)))]
pub(crate) async fn get(
    caller: Caller,
    Id(id): Id,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let session = caller.with(move |sessions| sessions.get_at(id, when.at)).await?;
    Ok(json(&serde_json::json!({ "session": session })))
}

/// Changes to a session. What is not named stays; null empties a field.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Patch {
    /// Another name; a number is added if it is taken. Unless `title` says otherwise, it is the title
    /// too.
    name: Option<String>,
    /// Another title; null for the one that is worked out from the name or the first question.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    title: Option<Option<String>>,
    /// Another description.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    /// Another folder.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    workspace: Option<Option<String>>,
    /// Another agent, one of `/v1/agents`: it answers from now on, with its own
    /// instructions.
    agent: Option<String>,
    /// Another history length.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<u32>, minimum = 1)]
    max_history: Option<Option<u32>>,
    /// Whether it is archived.
    archived: Option<bool>,
}

/// Change the name, title, description, folder, agent or history length of a session
#[utoipa::path(patch, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Patch, responses((status = 200, description = "The session after the change", body = shapes::One)))]
pub(crate) async fn patch(
    caller: Caller,
    Id(id): Id,
    MaybeJson(patch, _room): MaybeJson<Patch>,
) -> Result<Response, Problem> {
    let name = patch.name.as_deref().map(Name::new).transpose()?;
    if let Some(name) = &patch.agent {
        caller.runner(Some(name.clone())).await?;
    }
    positive(patch.max_history.flatten())?;
    folder(patch.workspace.as_ref().and_then(|folder| folder.as_deref()))?;
    let profile = ProfileChange {
        description: patch.description,
        workspace: patch.workspace,
        max_history: patch.max_history,
        ..ProfileChange::default()
    };
    let change = Change { profile, archived: patch.archived, ..Change::default() };
    if let Some(agent) = patch.agent {
        let handle = caller.handle.clone();
        caller.blocking(move || Ok(handle.take_over(id, &agent)?)).await?;
    }
    let title = patch.title;
    let session = caller
        .with(move |sessions| {
            let mut session = sessions.update(id, &change)?;
            if let Some(name) = name.as_ref().filter(|name| **name != session.header.name) {
                session = sessions.rename(id, name)?;
            }
            match &title {
                Some(title) => sessions.set_title(id, title.clone()),
                None => Ok(session),
            }
        })
        .await?;
    Ok(json(&serde_json::json!({ "session": session })))
}

/// Hide a session from lists; it keeps its keys, and search still finds it
#[utoipa::path(post, path = "/v1/sessions/{id}/archive", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "The session after the change", body = shapes::One)))]
pub(crate) async fn archive(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let session = caller.with(move |sessions| sessions.archive(id)).await?;
    Ok(json(&serde_json::json!({ "session": session })))
}

/// Show an archived session in lists again
#[utoipa::path(post, path = "/v1/sessions/{id}/unarchive", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "The session after the change", body = shapes::One)))]
pub(crate) async fn unarchive(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let session = caller.with(move |sessions| sessions.unarchive(id)).await?;
    Ok(json(&serde_json::json!({ "session": session })))
}

/// How a session is deleted.
#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Delete {
    /// Erase it and its text now, instead of moving it to the trash. It may be in the trash.
    now: bool,
}

/// Move a session to the trash, or erase it
///
/// In the trash it is not found, and its name and keys are free. It is erased after 30 days.
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session"), Delete),
    responses((status = 204, description = "Deleted")))]
pub(crate) async fn delete(
    caller: Caller,
    Id(id): Id,
    Params(delete): Params<Delete>,
) -> Result<StatusCode, Problem> {
    let work = move |sessions: &rethread_core::Sessions| match delete.now {
        true => sessions.erase(id),
        false => sessions.trash(id).map(drop),
    };
    caller.with(work).await?;
    Ok(StatusCode::NO_CONTENT)
}
