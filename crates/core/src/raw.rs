//! JSON kept byte for byte.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON value exactly as it was written: spacing, key order and digits included.
///
/// What this project does not understand it keeps like this, so that a newer version or another
/// program finds it unharmed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// Takes over text that must be one JSON value.
    ///
    /// # Errors
    ///
    /// The parser's error when the text is not valid JSON.
    pub fn parse(text: String) -> Result<Raw, serde_json::Error> {
        RawValue::from_string(text).map(Raw)
    }

    /// Writes any value as JSON.
    ///
    /// # Panics
    ///
    /// Never for values made of strings, numbers, lists and maps with string keys, which is all
    /// that this crate writes.
    pub fn of(value: &impl Serialize) -> Raw {
        Raw(serde_json::value::to_raw_value(value).expect("plain data is always valid JSON"))
    }

    /// The text, as it was written.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    pub(crate) fn inner(&self) -> &RawValue {
        &self.0
    }
}

impl From<&RawValue> for Raw {
    fn from(raw: &RawValue) -> Raw {
        Raw(raw.to_owned())
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Raw) -> bool {
        self.get() == other.get()
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.get())
    }
}
