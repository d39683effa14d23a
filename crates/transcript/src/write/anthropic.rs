//! A list of messages for Anthropic's API: user and assistant alternate, and tool results are in
//! user messages. System messages have no place in the list.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_core::message::{Block, BlockKind, Role};
use rethread_core::{Entry, Message, Session};

use super::Writer;
use super::pairs::Pairs;
use super::visible_json::VisibleJson;

pub(super) struct Anthropic<'a> {
    out: VisibleJson<&'a mut dyn Write>,
    pairs: Pairs,
    held: Option<Message>,
    first: bool,
}

impl<'a> Anthropic<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Anthropic<'a> {
        Anthropic { out: VisibleJson::new(out), pairs: Pairs::default(), held: None, first: true }
    }

    fn messages(&mut self, messages: Vec<Message>) -> io::Result<()> {
        for message in messages {
            let role = match message.role {
                Role::System => {
                    self.pairs.leave("system message");
                    continue;
                }
                Role::Assistant => Role::Assistant,
                Role::User | Role::Tool => Role::User,
            };
            let content = message.content.into_iter().map(plain);
            match &mut self.held {
                Some(held) if held.role == role => held.content.extend(content),
                _ => {
                    self.write_held()?;
                    self.held = Some(Message::new(role, content.collect()));
                }
            }
        }
        Ok(())
    }

    fn write_held(&mut self) -> io::Result<()> {
        let Some(mut message) = self.held.take() else { return Ok(()) };
        // Results come first: the API requires them right after their calls.
        message.content.sort_by_key(|block| !matches!(block.kind, BlockKind::ToolResult(_)));
        if self.first && message.role == Role::Assistant {
            self.write(&Message::user("(the conversation begins with the assistant)"))?;
        }
        self.write(&message)
    }

    fn write(&mut self, message: &Message) -> io::Result<()> {
        let before = if std::mem::take(&mut self.first) { "[\n" } else { ",\n" };
        let json = serde_json::to_string(message).map_err(io::Error::other)?;
        write!(self.out, "{before}{json}")
    }
}

/// A block with the fields of the API and no others.
fn plain(block: Block) -> Block {
    match block.kind {
        BlockKind::Prefix(text) => Block::text(text),
        kind => Block::of(kind),
    }
}

impl Writer for Anthropic<'_> {
    fn begin(&mut self, _: &Session) -> io::Result<()> {
        let open = self.pairs.finish();
        self.messages(open)
    }

    fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let messages = self.pairs.entry(entry);
        self.messages(messages)
    }

    fn finish(&mut self) -> io::Result<()> {
        let open = self.pairs.finish();
        self.messages(open)?;
        self.write_held()?;
        writeln!(self.out, "{}", if self.first { "[]" } else { "\n]" })?;
        self.out.flush()
    }

    fn left_out(&self) -> &BTreeMap<&'static str, u64> {
        &self.pairs.left_out
    }
}
