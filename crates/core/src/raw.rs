//! JSON kept byte for byte.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value exactly as it was written: spacing, key order and digits included.
///
/// Data that this project does not understand is kept like this, so that a newer version or another
/// program finds it intact.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// Wraps text that must be one JSON value.
    ///
    /// # Errors
    ///
    /// The parser's error if the text is not valid JSON.
    pub fn parse(text: String) -> Result<Raw, serde_json::Error> {
        RawValue::from_string(text).map(Raw)
    }

    /// Serialises any value as JSON.
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

    /// Its text, if it is a string. Half a surrogate pair, left by programs that cut a text by
    /// UTF-16 units, becomes U+FFFD.
    pub fn as_text(&self) -> Option<String> {
        let json = self.get();
        let read = |json: &str| serde_json::from_str::<String>(json).ok();
        json.starts_with('"')
            .then(|| read(json).or_else(|| read(&without_lone_surrogates(json))))
            .flatten()
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

/// The fields of a JSON object in their order, each as it was written. If several have the same
/// name, the last one counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(pub Vec<(String, Raw)>);

impl Fields {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// The parser's error if the text is not a JSON object.
    pub fn parse(json: &str) -> Result<Fields, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Raw> {
        self.0.iter().rfind(|(key, _)| key == name).map(|(_, raw)| raw)
    }

    /// Removes a field.
    pub fn take(&mut self, name: &str) -> Option<Raw> {
        let value = self.get(name).cloned();
        self.0.retain(|(key, _)| key != name);
        value
    }

    /// Removes a field, if it is a string.
    pub fn take_text(&mut self, name: &str) -> Option<String> {
        let text = self.get(name).and_then(Raw::as_text)?;
        self.take(name);
        Some(text)
    }

    /// The object.
    pub fn json(&self) -> String {
        Raw::of(self).get().to_owned()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, raw)| (name, raw)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some(field) = map.next_entry()? {
                    fields.0.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// JSON with every escape of half a surrogate pair replaced by U+FFFD.
pub fn without_lone_surrogates(json: &str) -> String {
    // The four digits after a `\u` at this position, if it is one.
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::with_capacity(json.len());
    let mut at = 0;
    while let Some(offset) = json[at..].find('\\') {
        mended.push_str(&json[at..at + offset]);
        at += offset;
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                mended.push_str("\\ufffd");
                at += 6;
                continue;
            }
            (Some(_), _) => 6,
            // A backslash and what it escapes, so that an escaped backslash starts no escape.
            (None, _) => 1 + json[at + 1..].chars().next().map_or(0, char::len_utf8),
        };
        mended.push_str(&json[at..at + length]);
        at += length;
    }
    mended.push_str(&json[at..]);
    mended
}
