//! Attachments in a request: logs and contexts refer to them, requests contain their bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rethread_core::context::ModelInputs;
use rethread_core::{Block, BlockKind, Message, SessionId, Sessions};

use crate::limits::ATTACHED_BYTES_MAX;

/// Whether there are attachments to insert.
pub(crate) fn has_any(messages: &[Message]) -> bool {
    messages.iter().any(|message| !message.blobs().is_empty())
}

/// The messages with the bytes of their attachments. Attachments that the model cannot read, that
/// are missing or damaged, or that do not fit into one request are replaced by a note; the newest
/// have priority.
pub(crate) fn put_in(
    sessions: &Sessions,
    id: SessionId,
    mut messages: Vec<Message>,
    sees: ModelInputs,
) -> Vec<Message> {
    let mut room = ATTACHED_BYTES_MAX;
    // A prefix is text for the model, but not part of the user's message.
    let put = |block: &mut Block, room: &mut u64, instead: fn(String) -> Block| {
        let Some(blob) = block.blob() else { return };
        let picture = matches!(block.kind, BlockKind::Image { .. });
        let what = if picture { "picture" } else { "document" };
        let takes = |size: u64| match picture {
            true => sees.takes_image(size),
            false => sees.takes_document(size),
        };
        *block = match takes(0).then(|| sessions.blob(id, blob)) {
            None => instead(format!("[a {what} that this model cannot read]")),
            Some(Err(_)) => instead(format!("[a {what} that is missing]")),
            Some(Ok(bytes)) => {
                let size = bytes.len() as u64;
                let fits = takes(size) && size <= *room;
                let whole = fits.then(|| block.with_bytes(&BASE64.encode(&bytes))).flatten();
                *room -= if whole.is_some() { size } else { 0 };
                whole.unwrap_or_else(|| instead(format!("[a {what} that is too large]")))
            }
        };
    };
    for message in messages.iter_mut().rev() {
        for block in message.content.iter_mut().rev() {
            match &mut block.kind {
                BlockKind::ToolResult(result) => {
                    result
                        .content
                        .iter_mut()
                        .rev()
                        .for_each(|block| put(block, &mut room, Block::text));
                }
                _ => put(block, &mut room, Block::prefix),
            }
        }
    }
    messages
}
