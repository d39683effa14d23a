//! Makes messages valid for an API: every call has a result, and every result a call.

use std::collections::BTreeMap;

use rethread_core::entry::Body;
use rethread_core::log::interrupted_result;
use rethread_core::message::{Block, BlockKind, Role};
use rethread_core::{Entry, Message};

/// Walks through a log.
#[derive(Default)]
pub(super) struct Pairs {
    open: Vec<String>,
    pub(super) left_out: BTreeMap<&'static str, u64>,
}

impl Pairs {
    /// The messages of an entry, preceded by those that have to come first.
    pub(super) fn entry(&mut self, entry: &Entry) -> Vec<Message> {
        match &entry.body {
            Body::Message(message) => self.message(message),
            Body::Restored(restored) => {
                let tail = restored.tail.iter().map(|carried| carried.message.clone());
                let asked = Message::user(&restored.prompt);
                let said = Message::assistant(&restored.acknowledgment);
                let all: Vec<Message> = tail.chain([asked, said]).collect();
                all.iter().flat_map(|message| self.message(message)).collect()
            }
            _ => {
                self.leave("bookkeeping entry");
                Vec::new()
            }
        }
    }

    /// The messages that have to come at the end.
    pub(super) fn finish(&mut self) -> Vec<Message> {
        self.open.drain(..).map(interrupted_result).collect()
    }

    fn message(&mut self, message: &Message) -> Vec<Message> {
        let mut said = Vec::new();
        // A reply or a question closes open calls; tool results do not.
        if message.role == Role::Assistant || message.opens_turn() {
            let answers = |id: &String| message.results().any(|r| r.tool_use_id == *id);
            let (answered, open) = self.open.drain(..).partition(answers);
            self.open = answered;
            said.extend(open.into_iter().map(interrupted_result));
        }
        let mut content: Vec<Block> = Vec::new();
        for block in &message.content {
            match &block.kind {
                BlockKind::ToolResult(result) => {
                    let at = self.open.iter().position(|id| *id == result.tool_use_id);
                    match at {
                        Some(at) => {
                            self.open.remove(at);
                            content.push(block.clone());
                        }
                        None => self.leave("unmatched result"),
                    }
                }
                BlockKind::Text(text) | BlockKind::Prefix(text) if text.is_empty() => {}
                BlockKind::Thinking(_) => self.leave("thinking block"),
                BlockKind::Unknown => self.leave("unknown block"),
                _ => content.push(block.clone()),
            }
        }
        self.open.extend(message.calls().map(|call| call.id.clone()));
        if !content.is_empty() {
            said.push(Message::new(message.role, content));
        }
        said
    }

    pub(super) fn leave(&mut self, what: &'static str) {
        *self.left_out.entry(what).or_default() += 1;
    }
}
