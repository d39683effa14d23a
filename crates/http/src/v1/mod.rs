//! Every verb, one path each. The JSON is the same as with `--json` on the command line.

pub(crate) mod agents;
pub(crate) mod context;
pub(crate) mod entries;
pub(crate) mod events;
pub(crate) mod export;
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

use crate::outgoing::json_text;

/// Responds with JSON, written as it is, so that numbers keep every digit.
pub(crate) fn json(value: &impl Serialize) -> Response {
    ([("content-type", "application/json")], json_text(value)).into_response()
}

/// A field that is present, even if it is null: `null` empties a field, absence leaves it
/// unchanged.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}
