//! Items of OpenAI's Responses API: messages, calls and their results, in order.
//!
//! One reply is several items: reasoning, calls, text. They are merged until results arrive, and
//! the results come after the reply. Codex, the Agents SDK and plain lists use this format.

use rethread_core::Message;
use rethread_core::entry::Body;
use rethread_core::message::{Block, Role, Usage};

use super::Result;
use super::fields::{Fields, quoted};
use super::messages::{arguments, id_text, parts, result_json};
use super::output::{Out, Slot, said};

/// Collects items, and emits each reply when it is complete.
#[derive(Default)]
pub(super) struct Items {
    /// The model that answers.
    pub(super) model: Option<String>,
    prefix: &'static str,
    injected: Option<fn(&Message) -> bool>,
    /// The items are part of a record that is kept, and appeared before.
    again: bool,
    round: Option<Round>,
}

/// A reply and the results of its calls, until its token counts are known.
struct Round {
    slot: Slot,
    message: Message,
    records: u64,
    /// Results arrived, so the next item of the model belongs to another reply.
    answered: bool,
    after: Vec<(Slot, After)>,
}

enum After {
    Message(Message),
    Raw { kind: String, text: String },
}

impl Items {
    /// Starts empty. `prefix` is put before the kinds of records; `injected` says whether a user
    /// message was written by a program.
    pub(super) fn new(prefix: &'static str, injected: Option<fn(&Message) -> bool>) -> Items {
        Items { prefix, injected, ..Items::default() }
    }

    /// The same, for items that are part of a record that is kept, and appeared before: they are
    /// not counted as records.
    pub(super) fn again(&self) -> Items {
        Items {
            model: self.model.clone(),
            prefix: self.prefix,
            injected: self.injected,
            again: true,
            round: None,
        }
    }

    /// Adds an item; `text` is the record it is in.
    pub(super) fn take(
        &mut self,
        out: &mut Out<'_>,
        slot: Slot,
        item: &Fields<'_>,
        kind: String,
        text: &str,
    ) -> Result<()> {
        let role = item.text("role");
        let type_of_item = match item.word("type") {
            Some(name) => name,
            None if role.is_some() => "message".into(),
            None => String::new(),
        };
        let content = item.get("content").unwrap_or("null");
        match (type_of_item.as_str(), role.as_deref()) {
            ("message", Some("assistant")) => match said(Role::Assistant, &parts(content)) {
                Ok(message) => self.reply(out, slot, message.content),
                Err(_) => self.keep(out, slot, kind, text),
            },
            ("message", Some("user")) => match said(Role::User, &parts(content)) {
                Ok(message) if !self.injected.is_some_and(|injected| injected(&message)) => {
                    self.end(out)?;
                    self.hand_over(out, slot, message, "message", 1)
                }
                _ => self.keep(out, slot, kind, text),
            },
            // The item itself becomes the block, because its provider may accept it again.
            ("reasoning" | "web_search_call" | "image_generation_call", _) => {
                match said(Role::Assistant, &format!("[{}]", item.without(&[]))) {
                    Ok(message) => self.reply(out, slot, message.content),
                    Err(_) => self.keep(out, slot, kind, text),
                }
            }
            ("function_call" | "custom_tool_call" | "tool_search_call" | "local_shell_call", _) => {
                self.reply(out, slot, vec![call(item, &type_of_item)])
            }
            (
                "function_call_output"
                | "custom_tool_call_output"
                | "tool_search_output"
                | "local_shell_call_output",
                _,
            ) => match answer(item) {
                Some(message) => match &mut self.round {
                    Some(round) => {
                        round.answered = true;
                        round.after.push((slot, After::Message(message)));
                        Ok(())
                    }
                    None => self.hand_over(out, slot, message, "output", 1),
                },
                None => self.keep(out, slot, kind, text),
            },
            _ => self.keep(out, slot, kind, text),
        }
    }

    /// Adds to a reply, or starts the next one.
    fn reply(&mut self, out: &mut Out<'_>, slot: Slot, mut blocks: Vec<Block>) -> Result<()> {
        if let Some(round) = self.round.as_mut().filter(|round| !round.answered) {
            round.message.content.append(&mut blocks);
            round.records += 1;
            return Ok(());
        }
        self.end(out)?;
        let mut message = Message::new(Role::Assistant, blocks);
        message.model = self.model.clone();
        self.round = Some(Round { slot, message, records: 1, answered: false, after: Vec::new() });
        Ok(())
    }

    /// A record that is kept unchanged, after the current reply.
    pub(super) fn keep(
        &mut self,
        out: &mut Out<'_>,
        slot: Slot,
        kind: String,
        text: &str,
    ) -> Result<()> {
        match &mut self.round {
            Some(_) if self.again => Ok(()),
            Some(round) => {
                round.after.push((slot, After::Raw { kind, text: text.to_owned() }));
                Ok(())
            }
            None if self.again => Ok(()),
            None => out.raw(slot, &kind, text),
        }
    }

    /// Additional cost of the current reply.
    pub(super) fn cost(&mut self, usage: Usage) {
        if let Some(round) = self.round.as_mut().filter(|_| usage != Usage::default()) {
            *round.message.usage.get_or_insert_default() += usage;
        }
    }

    /// The reply is complete.
    pub(super) fn end(&mut self, out: &mut Out<'_>) -> Result<()> {
        let Some(round) = self.round.take() else { return Ok(()) };
        self.hand_over(out, round.slot, round.message, "reply", round.records)?;
        for (slot, after) in round.after {
            match after {
                After::Message(message) => self.hand_over(out, slot, message, "output", 1)?,
                After::Raw { kind, text } => out.raw(slot, &kind, &text)?,
            }
        }
        Ok(())
    }

    fn hand_over(
        &self,
        out: &mut Out<'_>,
        slot: Slot,
        message: Message,
        kind: &str,
        records: u64,
    ) -> Result<()> {
        match self.again {
            true => out.entry(slot, Body::Message(message)),
            false => out.message(slot, message, &self.kind(kind), records),
        }
    }

    fn kind(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// Whether this is an item of that API that is not a message.
pub(super) fn is_item(item: &str) -> bool {
    let Some(fields) = Fields::of(item) else { return false };
    let kind = fields.word("type").unwrap_or_default();
    !fields.has("role") && (kind.ends_with("_call") || kind.ends_with("_output"))
        || kind == "reasoning"
}

fn call(item: &Fields<'_>, kind: &str) -> Block {
    let id = item.get("call_id").or_else(|| item.get("id")).and_then(id_text);
    let name = item.word("name").unwrap_or_else(|| kind.trim_end_matches("_call").to_owned());
    let given = ["arguments", "input", "action"].iter().find_map(|name| item.get(name));
    Block::tool_use(id.unwrap_or_default(), name, arguments(given))
}

/// The result of a tool, in any of its forms.
fn answer(item: &Fields<'_>) -> Option<Message> {
    let id = item.get("call_id").and_then(id_text).unwrap_or_default();
    let output = item.get("output").or_else(|| item.get("tools")).unwrap_or("null");
    let (content, failed) = match Fields::of(output) {
        Some(object) => {
            let failed = object.get("success") == Some("false");
            let text = object.get("content").or_else(|| object.get("text"));
            (text.map_or_else(|| quoted(output), parts), failed)
        }
        None if output.starts_with('[') && !output.contains("\"type\"") => (quoted(output), false),
        None => (parts(output), false),
    };
    let message = said(Role::Tool, &format!("[{}]", result_json(&id, &content, failed))).ok()?;
    let answers = message.results().next().is_some();
    answers.then_some(message)
}
