//! Extractors: JSON from the body, parameters from the query, ids from the path.
//!
//! Everything is validated before anything is done; errors say what is wrong and where.

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rethread_agent::HeldBytes;
use rethread_core::{Key, SessionId};
use serde::de::DeserializeOwned;

use crate::limits::{BODY_BYTES_MAX, BODY_TIME_MAX, NESTING_MAX};
use crate::problem::Problem;
use crate::state::Caller;

/// The memory of a body, reserved until the request is answered.
pub(crate) type BodyRoom = Option<HeldBytes>;

/// A body of JSON.
pub(crate) struct Json<T>(pub(crate) T, pub(crate) BodyRoom);

/// An optional JSON body: if it is missing, all defaults apply.
pub(crate) struct MaybeJson<T>(pub(crate) T, pub(crate) BodyRoom);

/// Query parameters.
pub(crate) struct Params<T>(pub(crate) T);

/// The session in a path.
pub(crate) struct Id(pub(crate) SessionId);

/// The key in a path.
pub(crate) struct KeyPath(pub(crate) Key);

/// A header that may occur only once: a duplicate is refused as ambiguous.
pub(crate) fn once<'a>(
    headers: &'a axum::http::HeaderMap,
    name: &str,
) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (first, None) => Ok(first),
        _ => Err(Problem::bad_request(format!("`{name}` is given more than once"))),
    }
}

/// Whether a request has a body.
pub(crate) fn has_body(headers: &axum::http::HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).map(|length| length.as_bytes());
    headers.contains_key(header::TRANSFER_ENCODING) || length.is_some_and(|length| length != b"0")
}

/// The declared length of a body.
pub(crate) fn content_length(headers: &axum::http::HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the body is compressed.
pub(crate) fn is_encoded(headers: &axum::http::HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Whether the headers say that the body is JSON.
pub(crate) fn says_json(headers: &axum::http::HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Json<T>, Problem> {
        if !has_body(request.headers()) {
            return Err(Problem::bad_request("a JSON body is required"));
        }
        let (bytes, room) = read(request).await?;
        Ok(Json(parse(&bytes)?, room))
    }
}

impl<S: Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<MaybeJson<T>, Problem> {
        if !has_body(request.headers()) {
            return Ok(MaybeJson(T::default(), None));
        }
        let (bytes, room) = read(request).await?;
        Ok(MaybeJson(parse(&bytes)?, room))
    }
}

/// The whole body, within its limits of size and time, and the memory reserved for it.
async fn read(request: Request) -> Result<(Vec<u8>, BodyRoom), Problem> {
    let caller = request.extensions().get::<Caller>().cloned();
    let time = caller.as_ref().map_or(BODY_TIME_MAX, |caller| caller.state.limits.body_time);
    // For a body of unknown length, memory is reserved as it arrives.
    let length = content_length(request.headers()).unwrap_or(0);
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(BODY_BYTES_MAX);
    let room =
        caller.map(|caller| caller.state.quotas.bytes.try_take(caller.handle.owner(), length));
    let room = room.transpose()?;
    match tokio::time::timeout(time, collect(request.into_body(), length, room)).await {
        Ok(read) => read,
        Err(_) => {
            Err(Problem::timeout(format!("the body did not arrive within {} s", time.as_secs())))
        }
    }
}

async fn collect(
    body: Body,
    length: usize,
    mut room: BodyRoom,
) -> Result<(Vec<u8>, BodyRoom), Problem> {
    let mut body = Limited::new(body, BODY_BYTES_MAX);
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
            true => too_large(),
            false => Problem::bad_request("the body is incomplete"),
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let whole = bytes.len() + data.len();
        if let Some(room) = &mut room {
            room.grow_to(whole)?;
        }
        // Memory is allocated as the body arrives, and shrunk to its size at the end.
        if whole > bytes.capacity() {
            let twice = (2 * whole).min(length.max(whole));
            bytes.reserve_exact(twice - bytes.len());
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, room))
}

pub(crate) fn too_large() -> Problem {
    Problem::too_large(format!("a body has at most {BODY_BYTES_MAX} bytes"))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Problem::bad_request(format!("the body is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    // Every body here is an object; serde would accept a list as an object without names.
    if !text.trim_start().starts_with('{') {
        return Err(Problem::bad_request("the body is not a JSON object"));
    }
    if nesting(text) > NESTING_MAX {
        let what = format!("the body is nested more than {NESTING_MAX} levels deep");
        return Err(Problem::bad_request(what));
    }
    serde_json::from_str(text).map_err(|error| Problem::bad_request(format!("the body: {error}")))
}

/// The nesting depth of a text that may be JSON.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params<T>, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Params(params)),
            Err(error) => Err(Problem::bad_request(error.body_text())),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::nothing_here())?;
        // A malformed id gets the same response as an unknown one.
        text.parse().map(|id| Id(SessionId(id))).map_err(|_| Problem::nothing_here())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for KeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<KeyPath, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::bad_request("the key in the path is not UTF-8"))?;
        Ok(KeyPath(Key::new(text)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_counted_outside_of_strings() {
        assert_eq!(nesting(r#"{"a": [1, {"b": "[[[[ \" ]]]"}]}"#), 3);
        assert_eq!(nesting(&"[".repeat(1_000_000)), 1_000_000);
        assert_eq!(nesting("]]]][[\"\\\"[[["), 2);
    }
}
