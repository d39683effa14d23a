//! The last step: makes the result acceptable to every provider, regardless of the log.
//!
//! After this step the roles alternate, starting with a user message; every call has exactly one
//! result right after it; ids and names have a form that all providers accept; nothing is empty;
//! and thinking is only sent to the model that wrote it: in the unfinished turn, and in earlier
//! ones if the policy keeps it.

use std::borrow::Cow;
use std::collections::HashSet;

use super::draft::{Draft, DraftMessage, DraftResult, Round, Turn};
use super::{Context, Cut, CutEffect, Model, Step, steps};
use crate::log::INTERRUPTED;
use crate::message::{Block, BlockKind, Call, Message, Role, ToolResult};
use crate::raw::Raw;

/// Used instead of an empty user message.
const EMPTY: &str = "[empty message]";
/// Used as the user's message before a reply that has none.
const CONTINUES: &str = "[the conversation continues here]";
/// Used instead of an empty tool result.
const NO_OUTPUT: &str = "[no output]";

/// The longest id of a call that every provider accepts.
const CALL_ID_CHARS_MAX: usize = 40;
/// The longest name of a tool that every provider accepts.
const TOOL_NAME_CHARS_MAX: usize = 64;

/// Writes the messages for a provider.
pub(super) fn finish(draft: Draft<'_>, model: &Model) -> Context {
    let mut out = Out::new(model, Vec::new(), 0, draft.cuts, HashSet::new());
    out.system(draft.system);
    out.turns(draft.turns);
    out.finish().0
}

/// The messages for a provider, while they are written.
pub(super) struct Out {
    messages: Vec<Message>,
    tokens: u64,
    cuts: Vec<Cut>,
    ids: HashSet<String>,
    new_ids: Vec<String>,
    model: String,
    signed_thinking: bool,
    /// Messages at the end that the next entry of the turn may change.
    unstable: usize,
}

/// A position in the messages.
pub(super) struct Mark {
    /// The messages before it, and their tokens.
    pub(super) messages: usize,
    pub(super) tokens: u64,
    /// How many ids were new before it.
    pub(super) ids: usize,
    /// A reply that is added here is merged with the message before it.
    merges: bool,
}

impl Out {
    /// Continues after existing messages, with the ids of the calls in them.
    pub(super) fn new(
        model: &Model,
        messages: Vec<Message>,
        tokens: u64,
        cuts: Vec<Cut>,
        ids: HashSet<String>,
    ) -> Out {
        Out {
            messages,
            tokens,
            cuts,
            ids,
            new_ids: Vec::new(),
            model: model.id(),
            signed_thinking: model.provider == "anthropic",
            unstable: 0,
        }
    }

    /// How many messages there are.
    pub(super) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// How many tokens they have.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// From here on ids count as new.
    pub(super) fn forget_which_ids_are_new(&mut self) {
        self.new_ids.clear();
    }

    /// Adds turns.
    pub(super) fn turns<'a>(&mut self, turns: impl IntoIterator<Item = Turn<'a>>) {
        for turn in turns {
            self.turn(turn);
        }
    }

    /// Adds a turn. Returns what was there before its first round whose calls may still get
    /// results: if the turn is unfinished, it will not change. `None` if that round is merged with
    /// what comes before it.
    pub(super) fn turn(&mut self, turn: Turn<'_>) -> Option<Mark> {
        let (current, waiting) = (!turn.finished, turn.waiting());
        let thinks = current || turn.keeps_thinking;
        match turn.user {
            _ if turn.continued => {}
            Some(user) => self.user(user),
            None if !turn.rounds.is_empty() && !self.speaks(Role::User) => {
                self.say(Role::User, CONTINUES)
            }
            None => {}
        }
        let mut mark = turn.rounds.is_empty().then(|| self.mark());
        for (index, round) in turn.rounds.into_iter().enumerate() {
            if index == waiting {
                mark = Some(self.mark());
            }
            self.round(round, thinks, current && index >= waiting);
        }
        mark.filter(|mark| !mark.merges)
    }

    fn mark(&self) -> Mark {
        let merges = self.speaks(Role::Assistant);
        let ids = self.new_ids.len();
        Mark { messages: self.messages.len(), tokens: self.tokens, ids, merges }
    }

    /// The context, the ids that are used, and which of them are new.
    pub(super) fn finish(mut self) -> (Context, HashSet<String>, Vec<String>) {
        if self.speaks(Role::Assistant) {
            // Another reply without a user message in between would be merged with this one.
            self.unstable = 1;
        }
        self.cuts.sort_by_key(|cut| (cut.seq, steps::order(cut.by)));
        let stable = self.messages.len() - self.unstable;
        let Out { messages, tokens, cuts, ids, new_ids, .. } = self;
        (Context { messages, tokens, cuts, stable }, ids, new_ids)
    }

    /// Adds the instructions.
    pub(super) fn system(&mut self, said: Option<DraftMessage<'_>>) {
        let Some(mut said) = said else { return };
        let blocks: Vec<Block> = said
            .blocks
            .iter()
            .filter(|block| block.as_text().is_some_and(|text| !text.trim().is_empty()))
            .map(|block| Block::text(block.as_text().unwrap_or_default()))
            .collect();
        if !blocks.is_empty() {
            self.tokens += said.tokens;
            self.cuts.extend(said.cut.take().map(|cut| *cut));
            self.messages.push(Message::new(Role::System, blocks));
        }
    }

    /// Whether the last message has this role.
    pub(super) fn speaks(&self, role: Role) -> bool {
        self.messages.last().is_some_and(|message| message.role == role)
    }

    fn say(&mut self, role: Role, text: &str) {
        self.add(role, vec![Block::text(text)]);
        self.tokens += text.len().div_ceil(4) as u64;
    }

    /// Adds a message; two consecutive ones of one role are merged.
    fn add(&mut self, role: Role, mut blocks: Vec<Block>) {
        match self.messages.last_mut() {
            Some(last) if last.role == role && role != Role::Tool => {
                last.content.append(&mut blocks)
            }
            _ => self.messages.push(Message::new(role, blocks)),
        }
    }

    fn left_out(&mut self, said: &DraftMessage<'_>, what: String) {
        self.cuts.push(Cut {
            by: Step::VALIDITY,
            seq: said.seq,
            through: said.seq,
            reference: said.reference(),
            change: CutEffect::LeftOut { what },
        });
    }

    fn user(&mut self, mut said: DraftMessage<'_>) {
        let mut blocks = Vec::new();
        for block in said.blocks.iter() {
            match &block.kind {
                BlockKind::Text(text) | BlockKind::Prefix(text) if text.trim().is_empty() => {}
                BlockKind::Text(text) | BlockKind::Prefix(text) => blocks.push(Block::text(text)),
                BlockKind::Image { source } => match picture(source) {
                    Some(block) => blocks.push(block),
                    None => self.left_out(&said, "an image without a usable source".into()),
                },
                BlockKind::Unknown if block.is_document() => blocks.push(block.clone()),
                // Results were assigned to their calls before.
                BlockKind::ToolResult(_) => {}
                BlockKind::Thinking(_) | BlockKind::ToolUse(_) | BlockKind::Unknown => {
                    let what = format!("a `{}` block in a user message", block.type_name());
                    self.left_out(&said, what);
                }
            }
        }
        self.tokens += said.tokens - said.thinking;
        self.cuts.extend(said.cut.take().map(|cut| *cut));
        match blocks.is_empty() {
            true => self.say(Role::User, EMPTY),
            false => self.add(Role::User, blocks),
        }
    }

    /// Adds a round. Calls of one that is `waiting` may still get results.
    fn round(&mut self, mut round: Round<'_>, thinks: bool, waiting: bool) {
        let joins = self.speaks(Role::Assistant);
        let keeps_thinking = thinks
            && !joins
            && self.signed_thinking
            && round.reply.model == Some(self.model.as_str());
        let mut blocks = Vec::new();
        let mut thinking = Vec::new();
        let mut calls: Vec<(String, String)> = Vec::new();
        for block in round.reply.blocks.iter() {
            match &block.kind {
                BlockKind::Text(text) | BlockKind::Prefix(text) if text.trim().is_empty() => {}
                BlockKind::Text(text) | BlockKind::Prefix(text) => blocks.push(Block::text(text)),
                BlockKind::Thinking(thought) if keeps_thinking && thought.signed => {
                    thinking.push(block.clone());
                }
                BlockKind::Thinking(_) => {
                    let what = "thinking, which is only sent back to the model that wrote it";
                    self.left_out(&round.reply, what.into());
                }
                BlockKind::ToolUse(call) if calls.iter().any(|(id, _)| *id == call.id) => {
                    let what = format!("a second call with the id `{}`", call.id);
                    self.left_out(&round.reply, what);
                }
                BlockKind::ToolUse(call) => {
                    let id = self.call_id(&call.id, round.reply.seq, calls.len());
                    blocks.push(call_block(call, &id));
                    calls.push((call.id.clone(), id));
                }
                BlockKind::ToolResult(_) | BlockKind::Image { .. } | BlockKind::Unknown => {
                    let what = format!("a `{}` block in a reply", block.type_name());
                    self.left_out(&round.reply, what);
                }
            }
        }
        self.cuts.extend(round.reply.cut.take().map(|cut| *cut));
        if blocks.is_empty() {
            return;
        }
        if thinking.is_empty() {
            self.tokens += round.reply.tokens - round.reply.thinking;
        } else {
            self.tokens += round.reply.tokens;
        }
        thinking.append(&mut blocks);
        self.add(Role::Assistant, thinking);
        if self.unstable > 0 {
            self.unstable += 1;
        }
        for (original, id) in calls {
            let found = round.answers.iter().position(|a| a.result.tool_use_id == original);
            match found {
                Some(index) => self.answer(round.answers.swap_remove(index), id),
                None => self.interrupted(id),
            }
            if waiting && (found.is_none() || self.unstable > 0) {
                self.unstable += 1;
            }
        }
    }

    fn answer(&mut self, mut answer: DraftResult<'_>, tool_use_id: String) {
        let blocks: Vec<Cow<'_, Block>> = match answer.content.take() {
            Some(blocks) => blocks.into_iter().map(Cow::Owned).collect(),
            None => answer.result.content.iter().map(Cow::Borrowed).collect(),
        };
        let mut content = Vec::with_capacity(blocks.len());
        for block in blocks {
            // A text that was shortened already belongs to us.
            let is_ours = matches!(block, Cow::Owned(_)) && block.raw().is_none();
            if is_ours && block.as_text().is_some_and(|text| !text.trim().is_empty()) {
                content.push(block.into_owned());
                continue;
            }
            match &block.kind {
                BlockKind::Text(text) if text.trim().is_empty() => {}
                BlockKind::Text(text) => content.push(Block::text(text)),
                BlockKind::Image { source } if picture(source).is_some() => {
                    content.extend(picture(source));
                }
                _ => self.cuts.push(Cut {
                    by: Step::VALIDITY,
                    seq: answer.seq,
                    through: answer.seq,
                    reference: answer.reference(),
                    change: CutEffect::LeftOut {
                        what: format!("a `{}` block in a tool result", block.type_name()),
                    },
                }),
            }
        }
        if content.is_empty() {
            content.push(Block::text(NO_OUTPUT));
        }
        self.tokens += answer.tokens;
        self.cuts.extend(answer.cut.map(|cut| *cut));
        let result = ToolResult { tool_use_id, content, is_error: answer.result.is_error };
        self.add(Role::Tool, vec![Block::of(BlockKind::ToolResult(result))]);
    }

    fn interrupted(&mut self, tool_use_id: String) {
        let content = vec![Block::text(INTERRUPTED)];
        self.tokens += INTERRUPTED.len().div_ceil(4) as u64;
        let result = ToolResult { tool_use_id, content, is_error: true };
        self.add(Role::Tool, vec![Block::of(BlockKind::ToolResult(result))]);
    }

    /// An id that every provider accepts, unique in the whole context. Some models number their
    /// calls from the start in every reply; those are distinguished by their position in the log.
    fn call_id(&mut self, id: &str, seq: u64, index: usize) -> String {
        let allowed = (1..=CALL_ID_CHARS_MAX).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        let mut unique = if allowed { id.to_owned() } else { format!("call_{seq}_{index}") };
        let mut tries = 0;
        while !self.ids.insert(unique.clone()) {
            tries += 1;
            unique = format!("call_{seq}_{index}_{tries}");
        }
        self.new_ids.push(unique.clone());
        unique
    }
}

fn call_block(call: &Call, id: &str) -> Block {
    let input = match call.input.get().trim_start().as_bytes().first() {
        Some(b'{') => call.input.clone(),
        Some(b'n') | None => Raw::of(&serde_json::Map::new()),
        _ => Raw::parse(format!("{{\"input\":{}}}", call.input.get()))
            .expect("valid JSON in an object is valid JSON"),
    };
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = call
        .name
        .chars()
        .map(|c| if valid(c) { c } else { '_' })
        .take(TOOL_NAME_CHARS_MAX)
        .collect();
    let name = if name.is_empty() { "unknown".into() } else { name };
    Block::of(BlockKind::ToolUse(Call { id: id.into(), name, input }))
}

/// A picture in the only form that can be sent. One that is stored with the session stays a blob:
/// the caller inserts its bytes, which are not part of the log.
fn picture(source: &Raw) -> Option<Block> {
    let value: serde_json::Value = serde_json::from_str(source.get()).ok()?;
    let text = |key: &str| value.get(key).and_then(|v| v.as_str()).filter(|v| !v.is_empty());
    const KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let clean = match text("type")? {
        "base64" => {
            let kind = text("media_type").filter(|kind| KINDS.contains(kind))?;
            serde_json::json!({"type": "base64", "media_type": kind, "data": text("data")?})
        }
        "url" => {
            let url = text("url").filter(|url| url.starts_with("https://"))?;
            serde_json::json!({"type": "url", "url": url})
        }
        "blob" => {
            let kind = text("media_type").filter(|kind| KINDS.contains(kind))?;
            return Some(Block::image(text("sha256")?.parse().ok()?, kind));
        }
        _ => return None,
    };
    Some(Block::of(BlockKind::Image { source: Raw::of(&clean) }))
}
