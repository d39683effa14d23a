//! The fields of a JSON object, each as it was written.
//!
//! Records of other programs are examined field by field and kept byte for byte, so they are not
//! parsed into a tree of values first.

use std::borrow::Cow;

use rethread_core::message::without_lone_surrogates;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The fields of a JSON object, in order.
#[derive(Debug, Default)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Parses an object; `None` if the text is not one.
    pub(super) fn of(text: &'a str) -> Option<Fields<'a>> {
        serde_json::from_str(text).ok()
    }

    /// The same, with the error of the parser.
    pub(super) fn parse(text: &'a str) -> Result<Fields<'a>, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// A field, as it was written; `null` counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(key, _)| key == name).map(|(_, raw)| raw.get());
        found.filter(|raw| *raw != "null")
    }

    /// Whether the field exists, even if it is `null`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// A field that is a string.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        string(self.get(name)?)
    }

    /// A field that is a non-empty string.
    pub(super) fn word(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.trim().is_empty()).map(Cow::into_owned)
    }

    /// A field that is a whole number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let raw = self.get(name)?;
        raw.parse().ok().or_else(|| {
            let number: f64 = raw.parse().ok()?;
            (0.0..1e15).contains(&number).then_some(number as u64)
        })
    }

    /// Whether a field is `true`.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// A field that is an object.
    pub(super) fn object(&self, name: &str) -> Option<Fields<'a>> {
        Fields::of(self.get(name)?)
    }

    /// The elements of a field that is a list.
    pub(super) fn list(&self, name: &str) -> Option<Vec<&'a str>> {
        list(self.get(name)?)
    }

    /// All fields, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(key, raw)| (key.as_ref(), raw.get()))
    }

    /// The object without some of its fields and without a list. If the field of the list has
    /// another type, it stays.
    pub(super) fn without_list(&self, list: &str, names: &[&str]) -> String {
        let mut names = names.to_vec();
        if self.get(list).is_none() || self.list(list).is_some() {
            names.push(list);
        }
        self.without(&names)
    }

    /// The object without some of its fields.
    pub(super) fn without(&self, names: &[&str]) -> String {
        let mut text = String::from("{");
        for (key, raw) in self.iter().filter(|(key, _)| !names.contains(key)) {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&quoted(key));
            text.push(':');
            text.push_str(raw);
        }
        text.push('}');
        text
    }
}

/// The elements of a list, each as it was written.
pub(super) fn list(raw: &str) -> Option<Vec<&str>> {
    let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    Some(items.into_iter().map(RawValue::get).collect())
}

/// A JSON string as text. Half of a surrogate pair becomes U+FFFD.
pub(super) fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    match serde_json::from_str::<String>(raw) {
        Ok(text) => Some(Cow::Owned(text)),
        Err(_) => serde_json::from_str(&without_lone_surrogates(raw)).ok().map(Cow::Owned),
    }
}

/// Text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor).map(Fields)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(16);
        while let Some(Key(key)) = map.next_key()? {
            fields.push((key, map.next_value()?));
        }
        Ok(fields)
    }
}

/// A key that is borrowed where it is written plainly.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor).map(Key)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_bytes() {
        let fields = Fields::of(r#"{"a": 1.0e2,"b":null, "c\u0041":"x\ud83d","d":[1, {"e":2}]}"#)
            .expect("an object");
        assert_eq!(fields.get("a"), Some("1.0e2"));
        assert_eq!((fields.get("b"), fields.has("b")), (None, true));
        assert_eq!(fields.text("cA").as_deref(), Some("x\u{fffd}"));
        assert_eq!(fields.list("d"), Some(vec!["1", "{\"e\":2}"]));
        assert_eq!(fields.without(&["b", "d"]), r#"{"a":1.0e2,"cA":"x\ud83d"}"#);
        assert_eq!(fields.number("a"), Some(100));
    }
}
