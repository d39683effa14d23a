//! Parses and writes messages as JSON without losing anything.
//!
//! A block is first parsed strictly: with exactly the fields of its type. A block that fits only
//! loosely keeps its JSON in addition to its meaning; a block that does not fit at all is kept as
//! JSON only.

use std::collections::BTreeMap;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Block, BlockKind, Call, Message, Role, Thinking, ToolResult, Usage};
use crate::raw::{Raw, without_lone_surrogates};

impl Block {
    fn read(raw: &RawValue) -> Block {
        let block = Block::read_as_written(raw);
        if block.kind != BlockKind::Unknown || !raw.get().contains("\\u") {
            return block;
        }
        // Half a surrogate pair, left by programs that cut a text inside an emoji, is not a
        // character; the rest of the block is still valid.
        let mended = RawValue::from_string(without_lone_surrogates(raw.get()));
        let kind = mended.map_or(BlockKind::Unknown, |mended| Block::read_as_written(&mended).kind);
        Block { kind, ..block }
    }

    fn read_as_written(raw: &RawValue) -> Block {
        let kind = serde_json::from_str::<Tag>(raw.get()).ok().and_then(|tag| tag.kind);
        let keep = || Some(Raw::from(raw));
        let (kind, raw) = match kind.as_deref() {
            Some("text") => match strict_or_loose::<TextShape, LooseText>(raw) {
                Some((text, exact)) => (BlockKind::Text(text), exact),
                None => (BlockKind::Unknown, false),
            },
            Some("prefix") => match strict_or_loose::<TextShape, LooseText>(raw) {
                Some((text, exact)) => (BlockKind::Prefix(text), exact),
                None => (BlockKind::Unknown, false),
            },
            Some("tool_use") => match strict_or_loose::<CallShape, LooseCall>(raw) {
                Some((call, exact)) => (BlockKind::ToolUse(call), exact),
                None => (BlockKind::Unknown, false),
            },
            Some("tool_result") => match strict_or_loose::<ResultShape, LooseResult>(raw) {
                Some((result, exact)) => (BlockKind::ToolResult(result), exact),
                None => (BlockKind::Unknown, false),
            },
            Some("image") => match strict_or_loose::<ImageShape, LooseImage>(raw) {
                Some((source, exact)) => (BlockKind::Image { source }, exact),
                None => (BlockKind::Unknown, false),
            },
            // Thinking is sent back to its provider byte for byte, so its JSON is always kept.
            Some("thinking" | "redacted_thinking") => {
                match serde_json::from_str::<ThinkingShape>(raw.get()) {
                    Ok(shape) => (BlockKind::Thinking(shape.into()), false),
                    Err(_) => (BlockKind::Unknown, false),
                }
            }
            _ => (BlockKind::Unknown, false),
        };
        Block { raw: if raw { None } else { keep() }, kind }
    }
}

/// The `type` of a block; other fields are ignored.
#[derive(Deserialize)]
pub(super) struct Tag {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
}

/// Parses `raw` as exactly the known shape; failing that, as the known shape with more in it. The
/// flag says whether writing the meaning alone reproduces everything.
fn strict_or_loose<'a, S, L>(raw: &'a RawValue) -> Option<(S::Meaning, bool)>
where
    S: Deserialize<'a> + Shape,
    L: Deserialize<'a> + Shape<Meaning = S::Meaning>,
{
    if let Ok(strict) = serde_json::from_str::<S>(raw.get()) {
        return strict.meaning().map(|meaning| (meaning, true));
    }
    let loose = serde_json::from_str::<L>(raw.get()).ok()?;
    loose.meaning().map(|meaning| (meaning, false))
}

trait Shape {
    type Meaning;
    fn meaning(self) -> Option<Self::Meaning>;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextShape {
    #[serde(rename = "type")]
    _kind: de::IgnoredAny,
    text: String,
}

#[derive(Deserialize)]
struct LooseText {
    text: String,
}

impl Shape for TextShape {
    type Meaning = String;
    fn meaning(self) -> Option<String> {
        Some(self.text)
    }
}

impl Shape for LooseText {
    type Meaning = String;
    fn meaning(self) -> Option<String> {
        Some(self.text)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallShape {
    #[serde(rename = "type")]
    _kind: de::IgnoredAny,
    id: String,
    name: String,
    input: Raw,
}

/// Some programs write no `input` for a call without arguments, or an id that is a number.
#[derive(Deserialize)]
struct LooseCall {
    id: Value,
    name: String,
    input: Option<Raw>,
}

impl Shape for CallShape {
    type Meaning = Call;
    fn meaning(self) -> Option<Call> {
        Some(Call { id: self.id, name: self.name, input: self.input })
    }
}

impl Shape for LooseCall {
    type Meaning = Call;
    fn meaning(self) -> Option<Call> {
        let input = self.input.unwrap_or_else(|| Raw::of(&Map::<String, Value>::new()));
        Some(Call { id: id_text(self.id)?, name: self.name, input })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultShape {
    #[serde(rename = "type")]
    _kind: de::IgnoredAny,
    tool_use_id: String,
    #[serde(deserialize_with = "string_or_blocks")]
    content: Vec<Block>,
    #[serde(default, deserialize_with = "only_true")]
    is_error: bool,
}

/// Content may be missing, null, or any JSON that a tool returned instead of text.
#[derive(Deserialize)]
struct LooseResult {
    tool_use_id: Value,
    content: Option<Raw>,
    is_error: Option<Value>,
}

impl Shape for ResultShape {
    type Meaning = ToolResult;
    fn meaning(self) -> Option<ToolResult> {
        Some(ToolResult {
            tool_use_id: self.tool_use_id,
            content: self.content,
            is_error: self.is_error,
        })
    }
}

impl Shape for LooseResult {
    type Meaning = ToolResult;
    fn meaning(self) -> Option<ToolResult> {
        let content = self.content.map_or_else(Vec::new, |raw| match raw.get().trim_start() {
            text if text.starts_with(['"', '[']) || is_block(text) => read_content(raw.inner()),
            "null" => Vec::new(),
            text => vec![Block::text(text)],
        });
        Some(ToolResult {
            tool_use_id: id_text(self.tool_use_id)?,
            content,
            is_error: self.is_error == Some(Value::Bool(true)),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageShape {
    #[serde(rename = "type")]
    _kind: de::IgnoredAny,
    source: Raw,
}

#[derive(Deserialize)]
struct LooseImage {
    source: Raw,
}

impl Shape for ImageShape {
    type Meaning = Raw;
    fn meaning(self) -> Option<Raw> {
        Some(self.source)
    }
}

impl Shape for LooseImage {
    type Meaning = Raw;
    fn meaning(self) -> Option<Raw> {
        Some(self.source)
    }
}

#[derive(Deserialize)]
struct ThinkingShape {
    #[serde(default)]
    thinking: String,
    signature: Option<String>,
    data: Option<String>,
}

impl From<ThinkingShape> for Thinking {
    fn from(shape: ThinkingShape) -> Thinking {
        let given = |field: &Option<String>| field.as_ref().is_some_and(|text| !text.is_empty());
        let signed = given(&shape.signature) || given(&shape.data);
        Thinking { text: shape.thinking, signed }
    }
}

fn id_text(id: Value) -> Option<String> {
    match id {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn is_block(text: &str) -> bool {
    text.starts_with('{') && serde_json::from_str::<Tag>(text).is_ok_and(|tag| tag.kind.is_some())
}

impl Message {
    /// A message from a role and its content as JSON: a string, one block, a list of blocks or
    /// strings, `null`.
    ///
    /// # Errors
    ///
    /// The parser's error if the content is none of these.
    pub fn from_content(role: Role, content: &str) -> serde_json::Result<Message> {
        let raw: &RawValue = serde_json::from_str(content)?;
        match raw.get().as_bytes().first() {
            Some(b'"' | b'[' | b'{' | b'n') => Ok(Message::new(role, read_content(raw))),
            _ => Err(de::Error::custom("content must be a string, a block or a list of blocks")),
        }
    }
}

impl Message {
    /// Drops the original JSON of a block whose meaning has changed.
    pub(crate) fn forget_what_was_changed(&mut self) {
        self.content.iter_mut().for_each(Block::forget_what_was_changed);
    }
}

impl Block {
    fn forget_what_was_changed(&mut self) {
        if let Some(raw) = &self.raw
            && self.kind != BlockKind::Unknown
        {
            let read = serde_json::from_str::<&RawValue>(raw.get()).map(read_content);
            if read.is_ok_and(|blocks| matches!(&blocks[..], [same] if same.kind == self.kind)) {
                return;
            }
            self.raw = None;
        }
        if let BlockKind::ToolResult(result) = &mut self.kind {
            result.content.iter_mut().for_each(Block::forget_what_was_changed);
        }
    }
}

/// Content in any of its forms: a string, one block, a list of blocks (or strings), null.
fn read_content(raw: &RawValue) -> Vec<Block> {
    match raw.get().as_bytes().first() {
        Some(b'"') => match serde_json::from_str::<String>(raw.get()) {
            Ok(text) if text.is_empty() => Vec::new(),
            Ok(text) => vec![Block::text(text)],
            Err(_) => match serde_json::from_str::<String>(&without_lone_surrogates(raw.get())) {
                Ok(text) => vec![Block { kind: BlockKind::Text(text), raw: Some(Raw::from(raw)) }],
                Err(_) => vec![Block::read(raw)],
            },
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            Ok(items) => items
                .into_iter()
                .flat_map(|item| match item.get().as_bytes().first() {
                    Some(b'"') => read_content(item),
                    _ => vec![Block::read(item)],
                })
                .collect(),
            Err(_) => vec![Block::read(raw)],
        },
        Some(b'n') => Vec::new(),
        _ => vec![Block::read(raw)],
    }
}

fn string_or_blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Block>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    match raw.get().as_bytes().first() {
        Some(b'"' | b'[') => Ok(read_content(raw)),
        _ => Err(de::Error::custom("content is a string or a list of blocks")),
    }
}

/// Accepts only what would be written the same way: `is_error` is absent or true.
fn only_true<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match bool::deserialize(deserializer)? {
        true => Ok(true),
        false => Err(de::Error::custom("false is written by leaving it out")),
    }
}

/// One text is written as a string, everything else as a list.
struct Content<'a>(&'a [Block]);

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            [] => serializer.serialize_str(""),
            [Block { kind: BlockKind::Text(text), raw: None }] if !text.is_empty() => {
                serializer.serialize_str(text)
            }
            // A string that could not be decoded completely stays as it was written.
            [Block { raw: Some(raw), .. }] if raw.get().starts_with('"') => {
                raw.serialize(serializer)
            }
            blocks => serializer.collect_seq(blocks),
        }
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(raw) = &self.raw {
            return raw.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &self.type_name())?;
        match &self.kind {
            BlockKind::Text(text) | BlockKind::Prefix(text) => map.serialize_entry("text", text)?,
            BlockKind::Thinking(thinking) => map.serialize_entry("thinking", &thinking.text)?,
            BlockKind::ToolUse(call) => {
                map.serialize_entry("id", &call.id)?;
                map.serialize_entry("name", &call.name)?;
                map.serialize_entry("input", &call.input)?;
            }
            BlockKind::ToolResult(result) => {
                map.serialize_entry("tool_use_id", &result.tool_use_id)?;
                map.serialize_entry("content", &Content(&result.content))?;
                if result.is_error {
                    map.serialize_entry("is_error", &true)?;
                }
            }
            BlockKind::Image { source } => map.serialize_entry("source", source)?,
            BlockKind::Unknown => {}
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Block, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Block::read(&raw))
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role)?;
        map.serialize_entry("content", &Content(&self.content))?;
        if let Some(model) = &self.model {
            map.serialize_entry("model", model)?;
        }
        if let Some(usage) = &self.usage {
            map.serialize_entry("usage", usage)?;
        }
        if self.interrupted {
            map.serialize_entry("interrupted", &true)?;
        }
        // These two were written above; a second one would be read instead.
        let others =
            self.extra.iter().filter(|(key, _)| !matches!(key.as_str(), "role" | "content"));
        for (key, value) in others {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
        deserializer.deserialize_map(MessageVisitor)
    }
}

struct MessageVisitor;

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = Message;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a message: {\"role\": …, \"content\": …}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message, A::Error> {
        let mut role = None;
        let mut content = None;
        let mut message = Message::new(Role::User, Vec::new());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "role" => role = Some(map.next_value::<Role>()?),
                "content" => {
                    let raw = map.next_value::<Box<RawValue>>()?;
                    content = Some(match raw.get().as_bytes().first() {
                        Some(b'"' | b'[' | b'{' | b'n') => read_content(&raw),
                        _ => {
                            return Err(de::Error::custom(
                                "content must be a string, a block or a list of blocks",
                            ));
                        }
                    });
                }
                // A field with one of our names but another meaning is kept as the other program's
                // field.
                _ => {
                    let raw = map.next_value::<Raw>()?;
                    match (key.as_str(), known(&key, &raw)) {
                        ("model", Some(Known::Model(model))) => message.model = Some(model),
                        ("usage", Some(Known::Usage(usage))) => message.usage = Some(usage),
                        ("interrupted", Some(Known::Interrupted)) => message.interrupted = true,
                        _ => message.extra.push((key, raw)),
                    }
                }
            }
        }
        message.role = role.ok_or_else(|| de::Error::missing_field("role"))?;
        message.content = content.ok_or_else(|| de::Error::missing_field("content"))?;
        Ok(message)
    }
}

/// One of our fields, parsed.
enum Known {
    Model(String),
    Usage(Usage),
    Interrupted,
}

/// Parses one of our fields, if writing it again gives the same bytes. Usage is accepted with any
/// spacing and with any of its numbers missing, because programs write it in different ways.
fn known(key: &str, raw: &Raw) -> Option<Known> {
    let (known, written) = match key {
        "model" => {
            let model: String = serde_json::from_str(raw.get()).ok()?;
            let written = Raw::of(&model);
            (Known::Model(model), written)
        }
        "usage" => {
            let given: BTreeMap<String, u64> = serde_json::from_str(raw.get()).ok()?;
            let fields = ["input", "output", "cache_read", "cache_write"];
            let ours =
                !given.is_empty() && given.keys().all(|name| fields.contains(&name.as_str()));
            let [input, output, cache_read, cache_write] =
                fields.map(|name| given.get(name).copied().unwrap_or_default());
            let usage = Usage { input, output, cache_read, cache_write };
            return ours.then_some(Known::Usage(usage));
        }
        "interrupted" => (Known::Interrupted, Raw::of(&true)),
        _ => return None,
    };
    (written == *raw).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(json: &str) -> Message {
        serde_json::from_str(json).expect(json)
    }

    #[test]
    fn what_is_changed_in_a_block_that_was_read_is_written() {
        let json = r#"{"role":"user","content":[{"type":"text","text":"my password","x":1}]}"#;
        let mut said = message(json);
        said.forget_what_was_changed();
        assert_eq!(serde_json::to_string(&said).expect("written"), json, "nothing was changed");
        said.content[0].kind = BlockKind::Text("[redacted]".into());
        said.forget_what_was_changed();
        let written = serde_json::to_string(&said).expect("written");
        assert_eq!(written, r#"{"role":"user","content":"[redacted]"}"#);

        let json = r#"{"role":"tool","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a key","x":1}],"y":2}]}"#;
        let mut said = message(json);
        let BlockKind::ToolResult(result) = &mut said.content[0].kind else { panic!("{said:?}") };
        result.content[0].kind = BlockKind::Text("[redacted]".into());
        said.forget_what_was_changed();
        let written = serde_json::to_string(&said).expect("written");
        assert!(!written.contains("a key") && written.contains("[redacted]"), "{written}");
    }

    #[test]
    fn other_fields_cannot_replace_the_role_or_the_content() {
        let mut said = Message::user("hi");
        for (key, value) in [("role", "system"), ("content", "OTHER"), ("mood", "good")] {
            said.extra.push((key.into(), Raw::of(&value)));
        }
        let written = serde_json::to_string(&said).expect("written");
        assert_eq!(written, r#"{"role":"user","content":"hi","mood":"good"}"#);
    }

    #[test]
    fn what_is_read_is_written_again_byte_for_byte() {
        for json in [
            r#"{"role":"user","content":"hello"}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}"#,
            r#"{"role":"user","content":[{ "type":"hologram",  "n": 1.0e2 },7,null]}"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"n","input":{"a":1e400,"b":"\udc00"}}]}"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"}],"model":"p/m"}"#,
            r#"{"role":"user","content":"cut \ud83d","zebra":1.0e2,"usage":"another program's"}"#,
            r#"{"role":"user","content":[{"type":"text","text":"cut \ud83d"}]}"#,
        ] {
            let written = serde_json::to_string(&message(json)).expect("JSON");
            assert_eq!(written, json);
            assert_eq!(message(&written), message(json));
        }
    }

    #[test]
    fn usage_is_understood_however_it_is_spaced_and_kept_where_it_is_another_programs() {
        let with = |usage: &str| {
            message(&format!(r#"{{"role":"assistant","content":"hi","usage":{usage}}}"#))
        };
        let ours = Usage { input: 7, output: 2, ..Usage::default() };
        for usage in [
            r#"{"input":7,"output":2,"cache_read":0,"cache_write":0}"#,
            r#"{"input": 7, "output": 2, "cache_read": 0, "cache_write": 0}"#,
            r#"{"output": 2, "input": 7}"#,
        ] {
            assert_eq!(with(usage).usage, Some(ours), "{usage}");
            assert!(with(usage).extra.is_empty(), "{usage}");
        }
        for usage in
            ["{}", r#"{"prompt_tokens":7}"#, r#"{"input":7,"cost":1}"#, r#"{"input":7.5}"#, "null"]
        {
            assert_eq!(with(usage).usage, None, "{usage}");
            assert_eq!(with(usage).extra[0].1.get(), usage);
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_one_unreadable_character() {
        for json in [
            r#"{"role":"user","content":"a\ud83d"}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a\ud83d"}]}"#,
        ] {
            assert_eq!(message(json).plain_text(), "a\u{fffd}", "{json}");
        }
        let whole = r#"{"role":"user","content":"\ud83e\udd80 \\ud83d"}"#;
        assert_eq!(
            message(whole).plain_text(),
            "🦀 \\ud83d",
            "an escaped backslash is a backslash"
        );
        assert_eq!(
            without_lone_surrogates(r#""\udd80\ud83e\udd80\ud83e""#),
            r#""\ufffd\ud83e\udd80\ufffd""#
        );
    }

    #[test]
    fn a_message_is_never_longer_than_thought() {
        for json in [
            r#"{"role":"user","content":"\u0001\u0002"}"#,
            r#"{"role":"tool","content":{"type":"tool_result","tool_use_id":"c","content":"\u0001"}}"#,
            r#"{"role":"user","content":[],"x":{"y":[1,2,3]}}"#,
        ] {
            let message = message(json);
            let bytes = serde_json::to_string(&message).expect("JSON").len();
            assert!(message.bytes_at_most() >= bytes, "{json}");
        }
    }
}
