//! What is computed about an entry when it is appended, and stored with it.
//!
//! Counting tokens and making stubs takes time, and their results must never change for an entry
//! that was once sent to a model. So both happen once, here, before the entry is stored.

use serde::{Deserialize, Serialize};

use crate::entry::Body;
use crate::limits::{RESULT_CHARS_MAX, TRUNCATED_MARK};
use crate::message::{Block, BlockKind, Message, ToolResult};
use crate::shown::Shown;
use crate::stub::stub;
use crate::tokens::count;

/// The size of an entry, and the stubs of its tool results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// Tokens of everything in it that a model could be sent.
    pub tokens: u32,
    /// Tokens of its thinking, which most contexts leave out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thinking: u32,
    /// One for each tool result, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultMeasure>,
}

/// The size of one tool result, in each form in which a model may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultMeasure {
    /// The tool that was called; none if there was no open call with this id.
    pub tool: Option<String>,
    /// Tokens of the whole result.
    pub tokens: u32,
    /// Tokens when it is truncated at the default length.
    pub truncated: u32,
    /// Its stub, without a reference.
    pub stub: String,
    /// Tokens of the stub.
    pub stubbed: u32,
    /// Which of its lines are shown, if the holder of the lease decided that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
}

/// Measures an entry. `tool` returns the tool that was called under an id.
pub fn measure(body: &Body, tool: impl Fn(&str) -> Option<String>) -> Measure {
    match body {
        Body::Message(message) => measure_message(message, &tool),
        Body::Restored(restored) => {
            let tail: u32 = restored.tail.iter().map(|c| message_tokens(&c.message)).sum();
            let tokens = tail + count(&restored.prompt) + count(&restored.acknowledgment);
            Measure { tokens, ..Measure::default() }
        }
        // The rest is bookkeeping, which is never sent to a model.
        _ => Measure::default(),
    }
}

fn measure_message(message: &Message, tool: &impl Fn(&str) -> Option<String>) -> Measure {
    let results: Vec<ResultMeasure> =
        message.results().map(|result| measure_result(result, tool(&result.tool_use_id))).collect();
    let others: u32 = message
        .content
        .iter()
        .filter(|block| !matches!(block.kind, BlockKind::ToolResult(_)))
        .map(block_tokens)
        .sum();
    let thinking = message
        .content
        .iter()
        .filter(|block| matches!(block.kind, BlockKind::Thinking(_)))
        .map(block_tokens)
        .sum();
    Measure { tokens: others + results.iter().map(|r| r.tokens).sum::<u32>(), thinking, results }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn measure_result(result: &ToolResult, tool: Option<String>) -> ResultMeasure {
    let stub = stub(tool.as_deref().unwrap_or("unknown"), result);
    let tokens = result.content.iter().map(block_tokens).sum();
    let text = result.text();
    let truncated = match text.char_indices().nth(RESULT_CHARS_MAX) {
        Some((end, _)) => count(&text[..end]) + count(TRUNCATED_MARK),
        None => tokens,
    };
    ResultMeasure { tool, tokens, truncated, stubbed: count(&stub), stub, shown: None }
}

/// Tokens of a message that was not measured when it was appended.
pub fn message_tokens(message: &Message) -> u32 {
    message.content.iter().map(block_tokens).sum()
}

/// Tokens of one block.
pub fn block_tokens(block: &Block) -> u32 {
    match &block.kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => count(text),
        BlockKind::Thinking(thinking) => count(&thinking.text),
        BlockKind::ToolUse(call) => count(&call.name) + count(call.input.get()),
        BlockKind::ToolResult(result) => result.content.iter().map(block_tokens).sum(),
        // Providers charge for a picture by its pixels, which are not counted here. This is the
        // cost of a picture of about 1000 × 1000.
        BlockKind::Image { .. } => 1_300,
        // Providers charge for a document by its pages, which are not counted here. This is the
        // cost of one or two.
        BlockKind::Unknown if block.is_document() => 3_000,
        // Never sent, so it costs nothing.
        BlockKind::Unknown => 0,
    }
}
