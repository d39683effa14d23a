//! Finds what is new in a message that has grown since it was imported.
//!
//! Programs write a reply to disk while it arrives, and a file may be imported in between. A log is
//! never rewritten, so the new part becomes a separate message, right after the old one.

use rethread_core::Message;
use rethread_core::message::{Block, BlockKind, Usage};

/// What is new in a message.
#[derive(Debug, PartialEq)]
pub(crate) enum Rest {
    /// Nothing is new.
    Nothing,
    /// It has grown.
    More(Message),
    /// It has other text now. Tool calls and results added since are still imported.
    Other(Option<Message>),
}

/// What `new` contains that `old`, its earlier versions in order, does not.
pub(crate) fn rest(old: &[Message], new: &Message) -> Rest {
    let before = joined(old.iter().flat_map(|message| &message.content));
    let after = joined(&new.content);
    let usage = old.iter().filter_map(|message| message.usage).fold(Usage::default(), sum);
    let more = |content: Vec<Block>| Message {
        content,
        usage: new.usage.map(|now| less(now, usage)).filter(|left| *left != Usage::default()),
        ..new.clone()
    };
    let same = before.iter().zip(&after).take_while(|(one, two)| is_same(one, two)).count();
    if same == before.len() {
        return match after.len() == same {
            true => Rest::Nothing,
            false => Rest::More(more(after[same..].to_vec())),
        };
    }
    // The last text may have been cut in the middle.
    if let (true, Some(one), Some(two)) =
        (same + 1 == before.len(), before[same].as_text(), after.get(same).and_then(Block::as_text))
        && let Some(end) = two.strip_prefix(one)
    {
        let mut content = vec![Block::text(end)];
        content.extend_from_slice(&after[same + 1..]);
        return Rest::More(more(content));
    }
    // A shorter version of what is stored adds nothing.
    if after.iter().all(|block| before.iter().any(|other| covers(other, block))) {
        return Rest::Nothing;
    }
    let is_new = |block: &&Block| match &block.kind {
        BlockKind::ToolUse(call) => old.iter().all(|m| m.calls().all(|c| c.id != call.id)),
        BlockKind::ToolResult(result) => {
            old.iter().all(|m| m.results().all(|r| r.tool_use_id != result.tool_use_id))
        }
        _ => false,
    };
    let content: Vec<Block> = after.iter().filter(is_new).cloned().collect();
    Rest::Other((!content.is_empty()).then(|| more(content)))
}

/// Whether a message is a part of another, or all of it.
pub(crate) fn is_part(message: &Message, of: &Message) -> bool {
    let whole = joined(&of.content);
    joined(&message.content).iter().all(|block| whole.iter().any(|other| covers(other, block)))
}

/// Merges adjacent text blocks, because a text may be split anywhere.
fn joined<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    for block in blocks {
        match (all.last_mut().map(|last| &mut last.kind), &block.kind) {
            (Some(BlockKind::Text(text)), BlockKind::Text(more)) => text.push_str(more),
            (_, BlockKind::Text(text)) => all.push(Block::text(text)),
            _ => all.push(block.clone()),
        }
    }
    all
}

/// Whether two blocks mean the same, regardless of how they are written.
fn is_same(one: &Block, two: &Block) -> bool {
    match (&one.kind, &two.kind) {
        (BlockKind::Unknown, BlockKind::Unknown) => one.raw() == two.raw(),
        (BlockKind::ToolUse(one), BlockKind::ToolUse(two)) => {
            (&one.id, &one.name, one.input.get()) == (&two.id, &two.name, two.input.get())
        }
        (BlockKind::ToolResult(one), BlockKind::ToolResult(two)) => {
            one.tool_use_id == two.tool_use_id
                && one.content.len() == two.content.len()
                && one.content.iter().zip(&two.content).all(|(one, two)| is_same(one, two))
        }
        (one, two) => one == two,
    }
}

/// Whether a block contains everything that another one does.
fn covers(block: &Block, other: &Block) -> bool {
    match (block.as_text(), other.as_text()) {
        (Some(text), Some(other)) => text.contains(other),
        _ => is_same(block, other),
    }
}

fn sum(mut one: Usage, two: Usage) -> Usage {
    one += two;
    one
}

fn less(one: Usage, two: Usage) -> Usage {
    Usage {
        input: one.input.saturating_sub(two.input),
        output: one.output.saturating_sub(two.output),
        cache_read: one.cache_read.saturating_sub(two.cache_read),
        cache_write: one.cache_write.saturating_sub(two.cache_write),
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::{Raw, Role};

    use super::*;

    fn call(id: &str) -> Block {
        Block::tool_use(id, "ls", Raw::of(&serde_json::Map::new()))
    }

    fn reply(blocks: &[Block]) -> Message {
        Message::new(Role::Assistant, blocks.to_vec())
    }

    #[test]
    fn a_reply_that_has_grown_gives_the_new_part() {
        let old = [reply(&[Block::text("I lo")])];
        let new = reply(&[Block::text("I look."), call("c")]);
        let more = reply(&[Block::text("ok."), call("c")]);
        assert_eq!(rest(&old, &new), Rest::More(more.clone()));
        let both = [old[0].clone(), more];
        assert_eq!(rest(&both, &new), Rest::Nothing);
        let longer = reply(&[Block::text("I look."), call("c"), call("d")]);
        assert_eq!(rest(&both, &longer), Rest::More(reply(&[call("d")])));
        assert_eq!(rest(&both, &old[0]), Rest::Nothing, "an older state");
        assert_eq!(rest(&[reply(&[])], &new), Rest::More(new.clone()), "it was empty");
    }

    #[test]
    fn what_it_cost_is_counted_once() {
        let usage = |output| Some(Usage { output, ..Usage::default() });
        let old = [Message { usage: usage(3), ..reply(&[Block::text("a")]) }];
        let new = Message { usage: usage(10), ..reply(&[Block::text("ab")]) };
        let Rest::More(more) = rest(&old, &new) else { panic!("it was extended") };
        assert_eq!(more.usage, usage(7));
    }

    #[test]
    fn a_reply_that_was_written_again_loses_no_call() {
        let old = [reply(&[Block::text("one way"), call("c")])];
        let new = reply(&[Block::text("another way"), call("c"), call("d")]);
        assert_eq!(rest(&old, &new), Rest::Other(Some(reply(&[call("d")]))));
        assert_eq!(rest(&old, &reply(&[Block::text("no")])), Rest::Other(None));
    }
}
