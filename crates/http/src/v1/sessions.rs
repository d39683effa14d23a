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

/// Default number of sessions in a page: what a screen shows.
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

/// A new session.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Create {
    /// Its name; generated from the time if none is given. A number is added if it is taken.
    name: Option<String>,
    /// What it is about.
    description: Option<String>,
    /// The folder it is about.
    workspace: Option<String>,
    /// How many messages its context keeps, if the policy limits them.
    #[schema(minimum = 1)]
    max_history: Option<u32>,
    /// Its agent, one of `/v1/agents`; the server's default agent if none is given.
    agent: Option<String>,
    /// Its system message; that of its agent if none is given.
    system: Option<String>,
    /// A key to bind to it.
    key: Option<String>,
}

/// Start a session
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = Create,
    responses((status = 201, description = "The new session", body = shapes::OneSession)))]
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
    // The keys of a session are stored separately, so the created session is read back.
    let id = session.id();
    let session = caller.with(move |sessions| sessions.get(id)).await?;
    let body = json(&serde_json::json!({ "session": session }));
    let place = [("location", format!("/v1/sessions/{id}"))];
    Ok((StatusCode::CREATED, place, body).into_response())
}

/// The folder of a session is shown in lists, so it must not contain terminal control characters.
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

/// As of when to show a session.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct When {
    /// Its counts right after this entry; after the last one if none is given.
    at: Option<u64>,
}

/// Show a session
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session"), When),
    responses((status = 200, description = "The session", body = shapes::OneSession)))]
pub(crate) async fn get(
    caller: Caller,
    Id(id): Id,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let session = caller.with(move |sessions| sessions.get_at(id, when.at)).await?;
    Ok(json(&serde_json::json!({ "session": session })))
}

/// Changes to a session. Fields that are missing stay unchanged; null empties a field.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Patch {
    /// A new name; a number is added if it is taken. Unless `title` is given, it is the title too.
    name: Option<String>,
    /// A new title; null for the default, derived from the name or the first question.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    title: Option<Option<String>>,
    /// A new description.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    /// A new folder.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    workspace: Option<Option<String>>,
    /// A new agent, one of `/v1/agents`: it answers from now on, with its own instructions.
    agent: Option<String>,
    /// A new history length.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<u32>, minimum = 1)]
    max_history: Option<Option<u32>>,
    /// Whether it is archived.
    archived: Option<bool>,
}

/// Change the name, title, description, folder, agent or history length of a session
#[utoipa::path(patch, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session")),
    request_body = Patch, responses((status = 200, description = "The session after the change", body = shapes::OneSession)))]
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
    responses((status = 200, description = "The session after the change", body = shapes::OneSession)))]
pub(crate) async fn archive(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let session = caller.with(move |sessions| sessions.archive(id)).await?;
    Ok(json(&serde_json::json!({ "session": session })))
}

/// Show an archived session in lists again
#[utoipa::path(post, path = "/v1/sessions/{id}/unarchive", tag = "sessions", params(("id" = uuid::Uuid, Path, description = "The session")),
    responses((status = 200, description = "The session after the change", body = shapes::OneSession)))]
pub(crate) async fn unarchive(caller: Caller, Id(id): Id) -> Result<Response, Problem> {
    let session = caller.with(move |sessions| sessions.unarchive(id)).await?;
    Ok(json(&serde_json::json!({ "session": session })))
}

/// How to delete a session.
#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Delete {
    /// Erase it and its text now, instead of moving it to the trash. It may already be in the
    /// trash.
    now: bool,
}

/// Move a session to the trash, or erase it
///
/// In the trash it is not found, and its name and keys can be used again. It is erased after 30
/// days.
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
