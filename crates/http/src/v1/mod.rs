//! Every verb, one path each. Shapes are those the command line prints with `--json`.

pub(crate) mod context;
pub(crate) mod entries;
pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod lineage;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod shapes;
pub(crate) mod stats;
pub(crate) mod trash;
pub(crate) mod turns;

use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer, Serialize};

/// Answers with JSON, written as it is: what was said keeps every digit.
fn json(value: &impl Serialize) -> Response {
    let text = serde_json::to_string(value).expect("plain data is always valid JSON");
    ([("content-type", "application/json")], text).into_response()
}

/// A field that is there, even where it is null: `null` empties a field, absence leaves it.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}
