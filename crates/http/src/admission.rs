//! The middleware that every request passes before its handler, and before its body is read. It
//! checks, in this order: the length of the head, the host, the origin, the owner, the rate, the
//! content type and encoding, and the size. (Connections are counted before that, in `serve.rs`;
//! streams by the handlers that open them.)

use std::sync::Arc;
use std::time::Instant;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rethread_agent::blocking;
use rethread_core::Owner;
use rethread_core::world::rfc3339;
use serde_json::json;

use crate::health::{METRICS_PATHS, PUBLIC};
use crate::input::{content_length, has_body, is_encoded, says_json, too_large};
use crate::limits::{BODY_BYTES_MAX, FRAME_BYTES, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::problem::{Cause, Problem};
use crate::quotas::InProgress;
use crate::state::{Caller, ServerState};
use crate::tokens::{Watched, is_only_for_metrics};
use crate::{incoming, outgoing};

/// Identifies a request in the response and in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How long a browser may cache the response to a preflight, in seconds. Two hours is the most that
/// browsers accept.
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("7200");

/// Admits a request or refuses it, and logs it.
pub(crate) async fn admit(
    State(state): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id: Arc<str> = state.world.uuid().hyphenated().to_string().into();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let (request, unread) = incoming::watch(request);
    let (owner, response) = answered(&state, request, next, id.clone()).await;
    let mut response = unread.drained(response);
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    let status = response.status().as_u16();
    state.metrics.request(status);
    let mut line = json!({
        "at": rfc3339(state.world.now()),
        "request": &*id,
        "owner": owner.as_ref().map(Owner::as_str),
        "method": method.as_str(),
        "path": path,
        "status": status,
        "ms": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    if let Some(Cause(cause)) = response.extensions().get() {
        line["cause"] = cause.as_str().into();
    }
    state.log.line(&line);
    response
}

/// The response, and the owner, if it is known.
async fn answered(
    state: &Arc<ServerState>,
    request: Request,
    next: Next,
    id: Arc<str>,
) -> (Option<Owner>, Response) {
    let headers = request.headers();
    if let Err(problem) = short_head(&request) {
        return (None, problem.into_response());
    }
    let host = match state.gate.host(headers, request.uri()) {
        Ok(host) => host,
        Err(problem) => return (None, problem.into_response()),
    };
    let origin = match state.gate.origin(headers, &host) {
        Ok(origin) => origin,
        Err(problem) => return (None, problem.into_response()),
    };
    if origin.is_some() && is_preflight(&request) {
        let response = preflight(headers);
        return (None, allowing(response, origin.as_deref()));
    }
    if PUBLIC.contains(&request.uri().path()) && !headers.contains_key(header::AUTHORIZATION) {
        let response = match state.quotas.spend(state.quotas.anybody(), Instant::now()) {
            Ok(()) => outgoing::sent(next.run(request).await, None, None),
            Err(wait) => too_often(state, wait).into_response(),
        };
        return (None, allowing(response, origin.as_deref()));
    }
    let (owner, response) = match admitted(state, headers, id).await {
        Ok(admitted) => {
            let owner = admitted.caller.handle.owner().clone();
            (Some(owner), handled(admitted, request, next).await)
        }
        Err(problem) => (None, problem.into_response()),
    };
    (owner, allowing(response, origin.as_deref()))
}

/// The response of the handler, which ends early if the token is revoked.
async fn handled(admitted: Admitted, mut request: Request, next: Next) -> Response {
    let Admitted { caller, watched, progress } = admitted;
    if is_only_for_metrics(caller.handle.owner()) && !METRICS_PATHS.contains(&request.uri().path())
    {
        let what = "a token of `rethread:metrics` can only read the metrics";
        return Problem::forbidden(what).into_response();
    }
    let reads = request.method() == Method::GET;
    request.extensions_mut().insert(caller.clone());
    let response = match &watched {
        None => next.run(request).await,
        Some(watched) => tokio::select! {
            response = next.run(request) => response,
            () = watched.revoked_owned() => {
                return Problem::unauthorized("the token was revoked").into_response();
            }
        },
    };
    // A small response is sent at once, and not cut off.
    let watched = watched.filter(|_| bytes_of(&response).is_none_or(|bytes| bytes > FRAME_BYTES));
    outgoing::sent(counted(&caller, response, reads).await, watched, Some(progress))
}

/// The length of a response, if it is known.
fn bytes_of(response: &Response) -> Option<usize> {
    response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok())
}

/// Counts the memory of a response. A response that only shows something is refused if there is no
/// room; one that confirms a change is always sent.
async fn counted(caller: &Caller, response: Response, reads: bool) -> Response {
    let Some(bytes) = bytes_of(&response).filter(|bytes| *bytes > FRAME_BYTES) else {
        return response;
    };
    if outgoing::is_kept(&response) {
        return response;
    }
    match caller.room_for(bytes).await {
        Ok(room) => outgoing::keep(response, room),
        Err(problem) if reads => problem.into_response(),
        Err(_) => response,
    }
}

fn short_head(request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    match headers.len() > HEADERS_MAX || bytes + target > HEAD_BYTES_MAX {
        true => Err(Problem::head_too_large(format!(
            "a request has at most {HEADERS_MAX} headers and {HEAD_BYTES_MAX} bytes of them"
        ))),
        false => Ok(()),
    }
}

/// The caller, and what is held while the request is answered.
struct Admitted {
    caller: Caller,
    watched: Option<Watched>,
    progress: InProgress,
}

/// The caller, if the request is allowed now.
async fn admitted(
    state: &Arc<ServerState>,
    headers: &HeaderMap,
    id: Arc<str>,
) -> Result<Admitted, Problem> {
    let (owner, watched) = owner(state, headers).await?;
    let caller = Caller::new(state.clone(), owner, id);
    let local = state.gate.open && !headers.contains_key(header::AUTHORIZATION);
    if state.limits.count_local || !local {
        let spent = state.quotas.spend(&caller.account, Instant::now());
        spent.map_err(|wait| too_often(state, wait))?;
    }
    let progress = state.quotas.begin(&caller.account).ok_or_else(|| {
        let most = state.limits.owner_requests;
        Problem::too_many(format!("{most} of your requests are still open"))
    })?;
    if has_body(headers) {
        if !says_json(headers) {
            return Err(Problem::not_json("the Content-Type is not application/json"));
        }
        if is_encoded(headers) {
            return Err(Problem::encoded("the body has a Content-Encoding"));
        }
        if content_length(headers).is_some_and(|length| length > BODY_BYTES_MAX as u64) {
            return Err(too_large());
        }
    }
    Ok(Admitted { caller, watched, progress })
}

fn too_often(state: &ServerState, wait: u64) -> Problem {
    let rate = state.limits.rate;
    Problem::too_many(format!("at most {rate} requests a second")).retry_after(wait)
}

/// The owner: determined by the token, or `local` if no token is required. Never by anything else.
async fn owner(
    state: &Arc<ServerState>,
    headers: &HeaderMap,
) -> Result<(Owner, Option<Watched>), Problem> {
    let given: Vec<_> = headers.get_all(header::AUTHORIZATION).iter().collect();
    let secret = match given.as_slice() {
        [] if state.gate.open => return Ok((Owner::local(), None)),
        [] => return Err(Problem::unauthorized("no token was sent")),
        [one] => one.to_str().ok().and_then(|text| {
            let (scheme, secret) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim().to_owned())
        }),
        _ => None,
    };
    let unknown = || Problem::unauthorized("the token is not valid here");
    let secret = secret.ok_or_else(unknown)?;
    // Watched before it is checked, so that a token that is revoked right afterwards is noticed.
    let watched = Some(state.tokens.watch(&secret));
    if let Some(owner) = state.tokens.remembered(&secret) {
        return Ok((owner, watched));
    }
    let asked = state.clone();
    let owner = blocking(move || asked.tokens.looked_up(&secret)).await?.ok_or_else(unknown)?;
    Ok((owner, watched))
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// What an allowed page may send.
fn preflight(headers: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answer = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let allowed =
        HeaderValue::from_static("content-type, authorization, idempotency-key, last-event-id");
    answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS);
    // Browsers with Private Network Access send another preflight header; the origin was checked by
    // now.
    if headers.contains_key("access-control-request-private-network") {
        let name = HeaderName::from_static("access-control-allow-private-network");
        answer.insert(name, HeaderValue::from_static("true"));
    }
    response
}

/// Adds the CORS headers that let the page read this response, including errors.
fn allowing(mut response: Response, origin: Option<&str>) -> Response {
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(origin) = origin.and_then(|origin| HeaderValue::from_str(origin).ok()) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let exposed = HeaderValue::from_static("retry-after, x-request-id");
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
    response
}
