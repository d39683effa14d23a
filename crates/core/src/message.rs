//! Something said: a role and the blocks it is made of.
//!
//! On the wire a message is `{"role": "user", "content": …}` where content is a string, one block
//! or a list of blocks. Whatever a block carries beyond what is known here is kept byte for byte
//! (see [`Block`]), because a log that drops what it does not understand is not the truth.

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::raw::Raw;

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions that hold for the whole conversation.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool, answering a call of the model.
    Tool,
}

impl Role {
    /// The word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// Tokens a provider says it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens read, without those read from or written to the provider's cache.
    pub input: u64,
    /// Tokens written by the model.
    pub output: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
}

/// Something said.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What it is made of, in order.
    pub content: Vec<Block>,
    /// The model that wrote it, as `provider/model`.
    pub model: Option<String>,
    /// What the provider charged for it.
    pub usage: Option<Usage>,
    /// The reply was stopped before its end; this is the part that arrived.
    pub interrupted: bool,
    /// Fields nobody here knows, kept as they came.
    pub extra: Vec<(String, Raw)>,
}

impl Message {
    /// A message made of these blocks.
    pub fn new(role: Role, content: Vec<Block>) -> Message {
        Message { role, content, model: None, usage: None, interrupted: false, extra: Vec::new() }
    }

    /// A message of plain text.
    pub fn text(role: Role, text: impl Into<String>) -> Message {
        Message::new(role, vec![Block::text(text)])
    }

    /// Something the person said.
    pub fn user(text: impl Into<String>) -> Message {
        Message::text(Role::User, text)
    }

    /// Something the model said.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message::text(Role::Assistant, text)
    }

    /// Instructions for the model.
    pub fn system(text: impl Into<String>) -> Message {
        Message::text(Role::System, text)
    }

    /// A tool's answer to the call `tool_use_id`.
    pub fn tool_result(tool_use_id: impl Into<String>, text: impl Into<String>) -> Message {
        Message::new(Role::Tool, vec![Block::tool_result(tool_use_id, text)])
    }

    /// The calls this message makes.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.content.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolUse(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results this message carries.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// Whether this opens a turn: a user message that is more than an envelope for tool results.
    pub fn opens_turn(&self) -> bool {
        self.role == Role::User
            && (self.content.is_empty()
                || self.content.iter().any(|b| !matches!(b.kind, BlockKind::ToolResult(_))))
    }

    /// How many bytes it can have as JSON, at the most.
    pub(crate) fn bytes_at_most(&self) -> usize {
        // A character is escaped in at most six bytes, and a block has few fields of its own.
        const FIELDS: usize = 256;
        let extra: usize =
            self.extra.iter().map(|(key, raw)| key.len() * 6 + raw.get().len() + FIELDS).sum();
        let model = self.model.as_ref().map_or(0, |model| model.len() * 6);
        FIELDS + extra + model + self.content.iter().map(Block::bytes_at_most).sum::<usize>()
    }

    /// What a person said or read in it: its texts, one paragraph each, without the prefix a door
    /// put before them.
    pub fn plain_text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|block| match &block.kind {
                BlockKind::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n\n")
    }
}

/// One part of a message.
///
/// `kind` is what it means. When a block was read that held more than its meaning (fields nobody
/// here knows), its text is kept and written again exactly as it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it means.
    pub kind: BlockKind,
    raw: Option<Raw>,
}

/// What a block means.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockKind {
    /// Text.
    Text(String),
    /// Text a door put before what the person wrote, such as `[Active file: …]`. A model sees it
    /// as text; previews and search leave it out.
    Prefix(String),
    /// What the model thought before it spoke; only its own provider accepts it back.
    Thinking(Thinking),
    /// A call of a tool.
    ToolUse(Call),
    /// The answer to a call.
    ToolResult(ToolResult),
    /// A picture; `source` as the provider's API writes it.
    Image {
        /// Where the picture is: a URL or its bytes in base64.
        source: Raw,
    },
    /// Any other kind.
    Unknown,
}

/// What a model thought.
#[derive(Clone, Debug, PartialEq)]
pub struct Thinking {
    /// The text; empty when the provider hid it.
    pub text: String,
    /// Whether the provider signed it. Without a signature no provider takes it back.
    pub signed: bool,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What the result will refer to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, as the model wrote them.
    pub input: Raw,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The call it answers.
    pub tool_use_id: String,
    /// What the tool said.
    pub content: Vec<Block>,
    /// The tool failed.
    pub is_error: bool,
}

impl ToolResult {
    /// Its texts, joined by newlines.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Block::as_text).collect();
        texts.join("\n")
    }
}

impl Block {
    /// A block that means `kind` and nothing else.
    pub fn of(kind: BlockKind) -> Block {
        Block { kind, raw: None }
    }

    /// A block of text.
    pub fn text(text: impl Into<String>) -> Block {
        Block::of(BlockKind::Text(text.into()))
    }

    /// A prefix put there by a door.
    pub fn prefix(text: impl Into<String>) -> Block {
        Block::of(BlockKind::Prefix(text.into()))
    }

    /// A call of a tool.
    pub fn tool_use(id: impl Into<String>, name: impl Into<String>, input: Raw) -> Block {
        Block::of(BlockKind::ToolUse(Call { id: id.into(), name: name.into(), input }))
    }

    /// A tool's answer in text.
    pub fn tool_result(tool_use_id: impl Into<String>, text: impl Into<String>) -> Block {
        Block::of(BlockKind::ToolResult(ToolResult {
            tool_use_id: tool_use_id.into(),
            content: vec![Block::text(text)],
            is_error: false,
        }))
    }

    /// The text, where it is a block of text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            BlockKind::Text(text) => Some(text),
            _ => None,
        }
    }

    fn bytes_at_most(&self) -> usize {
        const FIELDS: usize = 128;
        let own = match &self.kind {
            BlockKind::Text(text) | BlockKind::Prefix(text) => text.len() * 6,
            BlockKind::Thinking(thinking) => thinking.text.len() * 6,
            BlockKind::ToolUse(call) => {
                (call.id.len() + call.name.len()) * 6 + call.input.get().len()
            }
            BlockKind::ToolResult(result) => {
                let content = result.content.iter().map(Block::bytes_at_most).sum::<usize>();
                result.tool_use_id.len() * 6 + content
            }
            BlockKind::Image { source } => source.get().len(),
            BlockKind::Unknown => 0,
        };
        FIELDS + own.max(self.raw.as_ref().map_or(0, |raw| raw.get().len()))
    }

    /// The block as it was written, where it held more than its meaning.
    pub fn raw(&self) -> Option<&Raw> {
        self.raw.as_ref()
    }

    /// The `type` it has on the wire.
    pub fn type_name(&self) -> String {
        match &self.kind {
            BlockKind::Text(_) => "text".into(),
            BlockKind::Prefix(_) => "prefix".into(),
            BlockKind::Thinking(_) => "thinking".into(),
            BlockKind::ToolUse(_) => "tool_use".into(),
            BlockKind::ToolResult(_) => "tool_result".into(),
            BlockKind::Image { .. } => "image".into(),
            BlockKind::Unknown => self
                .raw
                .as_ref()
                .and_then(|raw| serde_json::from_str::<Tag>(raw.get()).ok())
                .and_then(|tag| tag.kind)
                .unwrap_or_else(|| "unknown".into()),
        }
    }

    fn read(raw: &RawValue) -> Block {
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
            // Thinking goes back to its provider byte for byte, so its text is always kept.
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

/// The `type` of a block, whatever else it holds.
#[derive(Deserialize)]
struct Tag {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// Reads `raw` as exactly the known shape; failing that, as the known shape with more in it.
/// The flag says whether writing the meaning alone gives everything back.
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

/// Content may be missing, null, or any JSON a tool returned instead of text.
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

/// Content in any of its forms: a string, one block, a list of blocks (or strings), null.
fn read_content(raw: &RawValue) -> Vec<Block> {
    match raw.get().as_bytes().first() {
        Some(b'"') => match serde_json::from_str::<String>(raw.get()) {
            Ok(text) if text.is_empty() => Vec::new(),
            Ok(text) => vec![Block::text(text)],
            Err(_) => vec![Block::read(raw)],
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

/// Accepts only what would be written again: `is_error` is absent or true.
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
        for (key, value) in &self.extra {
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
                // A field of ours in another program's sense is kept as that program's field.
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

/// A field of ours, read.
enum Known {
    Model(String),
    Usage(Usage),
    Interrupted,
}

/// Reads a field of ours, if writing it again gives the same bytes.
fn known(key: &str, raw: &Raw) -> Option<Known> {
    let (known, written) = match key {
        "model" => {
            let model: String = serde_json::from_str(raw.get()).ok()?;
            let written = Raw::of(&model);
            (Known::Model(model), written)
        }
        "usage" => {
            let usage: Usage = serde_json::from_str(raw.get()).ok()?;
            (Known::Usage(usage), Raw::of(&usage))
        }
        "interrupted" => (Known::Interrupted, Raw::of(&true)),
        _ => return None,
    };
    (written == *raw).then_some(known)
}
