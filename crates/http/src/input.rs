//! What a request brings: JSON in its body, words in its query, ids in its path.
//!
//! Everything is checked before anything is done, and refused with what is wrong and where.

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rethread_core::{Key, SessionId};
use serde::de::DeserializeOwned;

use crate::limits::{BODY_BYTES_MAX, NESTING_MAX};
use crate::problem::Problem;
use crate::state::Caller;

/// A body of JSON.
pub(crate) struct Json<T>(pub(crate) T);

/// A body of JSON that may be missing: then everything is as it is by default.
pub(crate) struct MaybeJson<T>(pub(crate) T);

/// The words of a query.
pub(crate) struct Params<T>(pub(crate) T);

/// The session a path names.
pub(crate) struct Id(pub(crate) SessionId);

/// The key a path names.
pub(crate) struct KeyPath(pub(crate) Key);

/// A header that means something once: twice it is refused, because nobody could say which counts.
pub(crate) fn once<'a>(
    headers: &'a axum::http::HeaderMap,
    name: &str,
) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (first, None) => Ok(first),
        _ => Err(Problem::bad_request(format!("there is more than one `{name}`"))),
    }
}

/// Whether a request has a body.
pub(crate) fn has_body(headers: &axum::http::HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).map(|length| length.as_bytes());
    headers.contains_key(header::TRANSFER_ENCODING) || length.is_some_and(|length| length != b"0")
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
            return Err(Problem::bad_request("a body of JSON is needed"));
        }
        Ok(Json(parse(&read(request).await?)?))
    }
}

impl<S: Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<MaybeJson<T>, Problem> {
        if !has_body(request.headers()) {
            return Ok(MaybeJson(T::default()));
        }
        Ok(MaybeJson(parse(&read(request).await?)?))
    }
}

/// The whole body, within its size and its time.
async fn read(request: Request) -> Result<Vec<u8>, Problem> {
    let time = request.extensions().get::<Caller>().map(|caller| caller.state.limits.body_time);
    let body: Body = request.into_body();
    let collected = Limited::new(body, BODY_BYTES_MAX).collect();
    let time = time.unwrap_or(crate::limits::BODY_TIME_MAX);
    match tokio::time::timeout(time, collected).await {
        Ok(Ok(body)) => Ok(body.to_bytes().into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::bad_request("the body broke off")),
        Err(_) => Err(Problem::timeout(format!("no whole body within {} s", time.as_secs()))),
    }
}

pub(crate) fn too_large() -> Problem {
    Problem::too_large(format!("a body has at most {BODY_BYTES_MAX} bytes"))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Problem::bad_request(format!("the body is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    // Every body here is an object; a list would be read as one without names.
    if !text.trim_start().starts_with('{') {
        return Err(Problem::bad_request("the body is not a JSON object"));
    }
    if nesting(text) > NESTING_MAX {
        let what = format!("the body is nested more than {NESTING_MAX} levels deep");
        return Err(Problem::bad_request(what));
    }
    serde_json::from_str(text).map_err(|error| Problem::bad_request(format!("the body: {error}")))
}

/// How deep lists and objects are nested in a text that may be JSON.
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
        // What is no id names nothing, and is told apart from nothing else.
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
