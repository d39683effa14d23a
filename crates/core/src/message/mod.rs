//! Messages: a role and a list of blocks.
//!
//! On the wire a message is `{"role": "user", "content": …}`, where the content is a string, one
//! block or a list of blocks. Unknown fields of a block are kept byte for byte (see [`Block`]),
//! because a log that drops what it does not understand is not the truth.

mod wire;

use serde::{Deserialize, Serialize};

use crate::blob::BlobId;
use crate::raw::Raw;
pub use crate::raw::without_lone_surrogates;
use wire::Tag;

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions for the whole conversation.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool, with the result of a call.
    Tool,
}

impl Role {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// Token usage, as reported by a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens, without those read from or written to the provider's cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
}

impl Usage {
    /// All input tokens, cached or not.
    pub fn read(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// All input and output tokens.
    pub fn total(&self) -> u64 {
        self.read().saturating_add(self.output)
    }
}

impl std::ops::AddAssign for Usage {
    /// Adds usage, saturating: a provider that reports absurd numbers must not stop a conversation.
    fn add_assign(&mut self, other: Usage) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its role.
    pub role: Role,
    /// Its blocks, in order.
    pub content: Vec<Block>,
    /// The model that wrote it, as `provider/model`.
    pub model: Option<String>,
    /// What the provider charged for it.
    pub usage: Option<Usage>,
    /// The reply was stopped before its end; this is the part that arrived.
    pub interrupted: bool,
    /// Unknown fields, kept byte for byte.
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

    /// A user message.
    pub fn user(text: impl Into<String>) -> Message {
        Message::text(Role::User, text)
    }

    /// An assistant message.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message::text(Role::Assistant, text)
    }

    /// A system message.
    pub fn system(text: impl Into<String>) -> Message {
        Message::text(Role::System, text)
    }

    /// A tool message with the result of the call `tool_use_id`.
    pub fn tool_result(tool_use_id: impl Into<String>, text: impl Into<String>) -> Message {
        Message::new(Role::Tool, vec![Block::tool_result(tool_use_id, text)])
    }

    /// The tool calls in this message.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.content.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolUse(call) => Some(call),
            _ => None,
        })
    }

    /// The tool results in this message.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.content.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// The attachments it refers to: blobs of its session.
    pub fn blobs(&self) -> Vec<BlobId> {
        fn add(blocks: &[Block], blobs: &mut Vec<BlobId>) {
            for block in blocks {
                match &block.kind {
                    BlockKind::ToolResult(result) => add(&result.content, blobs),
                    _ => blobs.extend(block.blob()),
                }
            }
        }
        let mut blobs = Vec::new();
        add(&self.content, &mut blobs);
        blobs
    }

    /// Whether this opens a turn: a user message that contains more than tool results.
    pub fn opens_turn(&self) -> bool {
        self.role == Role::User
            && (self.content.is_empty()
                || self.content.iter().any(|b| !matches!(b.kind, BlockKind::ToolResult(_))))
    }

    /// An upper bound of its size as JSON.
    pub(crate) fn bytes_at_most(&self) -> usize {
        // A character is escaped in at most six bytes, and a block has few fields of its own.
        const FIELDS: usize = 256;
        let extra: usize =
            self.extra.iter().map(|(key, raw)| key.len() * 6 + raw.get().len() + FIELDS).sum();
        let model = self.model.as_ref().map_or(0, |model| model.len() * 6);
        FIELDS + extra + model + self.content.iter().map(Block::bytes_at_most).sum::<usize>()
    }

    /// Its text, one paragraph per block, without the prefix that a client added.
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

/// One block of a message.
///
/// `kind` is its meaning. If a block that was read contained more than that (unknown fields), its
/// JSON is kept and written again byte for byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it means.
    pub kind: BlockKind,
    raw: Option<Raw>,
}

/// The type of a source that is a blob of the session.
const BLOB: &str = "blob";

/// The type of a block that is a document.
const DOCUMENT: &str = "document";

/// The media type of documents that providers read.
const PDF: &str = "application/pdf";

/// The location of an attachment's bytes, if they are stored with the session.
#[derive(Serialize, Deserialize)]
struct BlobSource {
    #[serde(rename = "type")]
    kind: String,
    sha256: BlobId,
    #[serde(default)]
    media_type: String,
}

/// The meaning of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockKind {
    /// Text.
    Text(String),
    /// Text that a client put before the user's own, such as `[Active file: …]`. A model sees it as
    /// text; previews and search leave it out.
    Prefix(String),
    /// The model's thinking; only its own provider accepts it back.
    Thinking(Thinking),
    /// A tool call.
    ToolUse(Call),
    /// The result of a call.
    ToolResult(ToolResult),
    /// A picture; `source` as the provider's API writes it.
    Image {
        /// The location of the picture: a URL, its bytes in base64, or a blob of the session.
        source: Raw,
    },
    /// Any other kind.
    Unknown,
}

/// A model's thinking.
#[derive(Clone, Debug, PartialEq)]
pub struct Thinking {
    /// The text; empty if the provider hid it.
    pub text: String,
    /// Whether the provider signed it. Without a signature, no provider accepts it back.
    pub signed: bool,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The id that the result refers to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, as the model wrote them.
    pub input: Raw,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The call it answers.
    pub tool_use_id: String,
    /// The tool's output.
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
    /// A block with this meaning and nothing else.
    pub fn of(kind: BlockKind) -> Block {
        Block { kind, raw: None }
    }

    /// A block of text.
    pub fn text(text: impl Into<String>) -> Block {
        Block::of(BlockKind::Text(text.into()))
    }

    /// A prefix added by a client.
    pub fn prefix(text: impl Into<String>) -> Block {
        Block::of(BlockKind::Prefix(text.into()))
    }

    /// A tool call.
    pub fn tool_use(id: impl Into<String>, name: impl Into<String>, input: Raw) -> Block {
        Block::of(BlockKind::ToolUse(Call { id: id.into(), name: name.into(), input }))
    }

    /// A tool result with text.
    pub fn tool_result(tool_use_id: impl Into<String>, text: impl Into<String>) -> Block {
        Block::of(BlockKind::ToolResult(ToolResult {
            tool_use_id: tool_use_id.into(),
            content: vec![Block::text(text)],
            is_error: false,
        }))
    }

    /// The text, if it is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            BlockKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A picture whose bytes are stored with the session.
    pub fn image(blob: BlobId, media_type: &str) -> Block {
        let source = BlobSource { kind: BLOB.into(), sha256: blob, media_type: media_type.into() };
        Block::of(BlockKind::Image { source: Raw::of(&source) })
    }

    /// A document whose bytes are stored with the session, and which may be sent to a model.
    pub fn document(blob: BlobId, media_type: &str, title: Option<&str>) -> Block {
        Block::attached(DOCUMENT, blob, media_type, title)
    }

    /// A file whose bytes are stored with the session, and which is never sent to a model.
    pub fn file(blob: BlobId, media_type: &str, title: Option<&str>) -> Block {
        Block::attached("file", blob, media_type, title)
    }

    fn attached(kind: &str, blob: BlobId, media_type: &str, title: Option<&str>) -> Block {
        #[derive(Serialize)]
        struct Attached<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            source: BlobSource,
            #[serde(skip_serializing_if = "Option::is_none")]
            title: Option<&'a str>,
        }
        let source = BlobSource { kind: BLOB.into(), sha256: blob, media_type: media_type.into() };
        let raw = Raw::of(&Attached { kind, source, title });
        Block { kind: BlockKind::Unknown, raw: Some(raw) }
    }

    /// Whether it is a document that is stored with the session, of a type that providers read.
    pub fn is_document(&self) -> bool {
        #[derive(Deserialize)]
        struct Attached {
            source: BlobSource,
        }
        let is_pdf = |raw: &Raw| {
            let attached = serde_json::from_str::<Attached>(raw.get());
            attached.is_ok_and(|attached| attached.source.media_type == PDF)
        };
        self.kind == BlockKind::Unknown
            && self.type_name() == DOCUMENT
            && self.blob().is_some()
            && self.raw.as_ref().is_some_and(is_pdf)
    }

    /// The same block with its bytes inline, in base64, as providers expect them. `None` if it is
    /// not an attachment.
    pub fn with_bytes(&self, base64: &str) -> Option<Block> {
        #[derive(Deserialize)]
        struct Attached {
            source: BlobSource,
            title: Option<String>,
        }
        self.blob()?;
        let inline = |source: BlobSource| {
            let media_type = source.media_type;
            serde_json::json!({ "type": "base64", "media_type": media_type, "data": base64 })
        };
        match (&self.kind, &self.raw) {
            (BlockKind::Image { source }, _) => {
                let source = inline(serde_json::from_str(source.get()).ok()?);
                Some(Block::of(BlockKind::Image { source: Raw::of(&source) }))
            }
            (_, Some(raw)) => {
                let attached: Attached = serde_json::from_str(raw.get()).ok()?;
                let mut block = serde_json::json!({ "type": self.type_name(), "source": inline(attached.source) });
                if let Some(title) = attached.title {
                    block["title"] = title.into();
                }
                Some(Block { kind: BlockKind::Unknown, raw: Some(Raw::of(&block)) })
            }
            _ => None,
        }
    }

    /// The blob of the session with its bytes, if it is an attachment.
    pub fn blob(&self) -> Option<BlobId> {
        #[derive(Deserialize)]
        struct Attached {
            source: BlobSource,
        }
        let source = match (&self.kind, &self.raw) {
            (BlockKind::Image { source }, _) => serde_json::from_str(source.get()).ok()?,
            (BlockKind::Unknown, Some(raw)) => {
                serde_json::from_str::<Attached>(raw.get()).ok()?.source
            }
            _ => return None,
        };
        (source.kind == BLOB).then_some(source.sha256)
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

    /// The original JSON, if it contained more than the meaning.
    pub fn raw(&self) -> Option<&Raw> {
        self.raw.as_ref()
    }

    /// Its `type` on the wire.
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
}
