//! `/context` at a terminal: what fills the model's context window.

use std::collections::HashMap;

use rethread_agent::tool::Spec;
use rethread_core::context::{Context, Cut, CutEffect, Model};
use rethread_core::entry::Restored;
use rethread_core::message::{Block, BlockKind, Role};
use rethread_core::tokens;

use crate::out::{count, one_line, pad, plural};

/// Columns of the longest bar.
const BAR_COLUMNS_MAX: usize = 40;

/// Columns next to a bar: its name, its tokens and its share.
const BESIDE_COLUMNS: usize = 28;

/// Cuts that are listed one by one.
const CUTS_SHOWN: usize = 12;

/// The parts of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    System,
    Tools,
    Summary,
    Files,
    Turns,
    Free,
}

const SHARES: [(Share, &str); 6] = [
    (Share::System, "system"),
    (Share::Tools, "tools"),
    (Share::Summary, "summary"),
    (Share::Files, "files"),
    (Share::Turns, "turns"),
    (Share::Free, "free"),
];

/// Lines that show the parts of a context.
pub(super) fn lines(
    context: &Context,
    (model, specs): (&Model, &[Spec]),
    restored: Option<&Restored>,
    (columns, plain): (usize, bool),
) -> Vec<String> {
    let budget = model.budget();
    let spent = spent(context, specs, restored);
    let used: u64 = spent.iter().map(|(_, tokens)| tokens).sum();
    let mut lines = vec![format!(
        "{}: about {} of {} tokens ({} %); {} are kept for the reply",
        one_line(&model.id()),
        count(used),
        count(budget),
        percent(used, budget),
        count(model.window.saturating_sub(budget))
    )];
    let bar = columns.saturating_sub(BESIDE_COLUMNS).min(BAR_COLUMNS_MAX);
    for (share, name) in SHARES {
        let of = |(known, _): &&(Share, u64)| *known == share;
        let tokens = match share {
            Share::Free => budget.saturating_sub(used),
            _ => spent.iter().filter(of).map(|(_, tokens)| tokens).sum(),
        };
        if tokens == 0 && share != Share::Free {
            continue;
        }
        let shade = match (plain, share) {
            (true, Share::Free) => ".",
            (true, _) => "#",
            (false, Share::Free) => "░",
            (false, _) => "█",
        };
        // What is there is seen, however little it is.
        let filled = (tokens * bar as u64).div_ceil(budget.max(1)) as usize;
        let bar = pad(&shade.repeat(filled.min(bar)), bar);
        lines.push(format!(
            "  {name:<8} {bar} {:>9} {:>3} %",
            count(tokens),
            percent(tokens, budget)
        ));
    }
    lines.extend(cuts(&context.cuts));
    lines
}

fn percent(tokens: u64, budget: u64) -> u64 {
    tokens.saturating_mul(100) / budget.max(1)
}

fn spent(context: &Context, specs: &[Spec], restored: Option<&Restored>) -> Vec<(Share, u64)> {
    let mut spent = vec![(Share::Tools, specs.iter().map(Spec::tokens).sum())];
    let mut tools: HashMap<&str, &str> = HashMap::new();
    for message in &context.messages {
        tools.extend(message.calls().map(|call| (call.id.as_str(), call.name.as_str())));
        let is_restored = restored.is_some_and(|restored| {
            let text = message.plain_text();
            text == restored.prompt || text == restored.acknowledgment
        });
        for block in &message.content {
            let share = match (&block.kind, message.role) {
                (_, Role::System) => Share::System,
                _ if is_restored => Share::Summary,
                (BlockKind::ToolResult(result), _)
                    if tools.get(result.tool_use_id.as_str()) == Some(&"read_file") =>
                {
                    Share::Files
                }
                _ => Share::Turns,
            };
            spent.push((share, block_tokens(block)));
        }
    }
    // The overhead around the blocks of a message, so that the sum matches the total.
    let counted: u64 = spent[1..].iter().map(|(_, tokens)| tokens).sum();
    spent.push((Share::Turns, context.tokens.saturating_sub(counted)));
    spent
}

fn block_tokens(block: &Block) -> u64 {
    let text = match &block.kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => return u64::from(tokens::count(text)),
        BlockKind::Thinking(thinking) => thinking.text.clone(),
        BlockKind::ToolUse(call) => format!("{} {}", call.name, call.input.get()),
        BlockKind::ToolResult(result) => result.text(),
        _ => String::new(),
    };
    u64::from(tokens::count(&text))
}

/// The cuts: a line for each, and the sum of the rest.
fn cuts(cuts: &[Cut]) -> Vec<String> {
    if cuts.is_empty() {
        return vec!["Nothing was cut.".to_owned()];
    }
    let mut lines = vec![format!("{}:", plural(cuts.len() as u64, "cut"))];
    for cut in cuts.iter().take(CUTS_SHOWN) {
        let place = match cut.seq == cut.through {
            true => format!("entry {}", cut.seq),
            false => format!("entries {} to {}", cut.seq, cut.through),
        };
        let what = match &cut.change {
            CutEffect::Dropped { messages, tokens } => {
                format!("{}, {}", plural(*messages, "message"), plural(*tokens, "token"))
            }
            CutEffect::Shortened { from_chars, to_chars } => {
                format!("{} → {} characters", count(*from_chars), count(*to_chars))
            }
            CutEffect::Trimmed { from_chars, to_chars, from_lines, to_lines, why } => format!(
                "{} → {} characters, {to_lines} of {from_lines} lines ({}); recall {}",
                count(*from_chars),
                count(*to_chars),
                why.as_str(),
                cut.reference
            ),
            CutEffect::LeftOut { what } => one_line(what),
        };
        lines.push(format!("  {:<16} {place}: {what}", cut.by.as_str()));
    }
    if cuts.len() > CUTS_SHOWN {
        lines.push(format!("  … {} more; `rethread context --explain` lists all", {
            cuts.len() - CUTS_SHOWN
        }));
    }
    lines
}

#[cfg(test)]
mod tests {
    use rethread_core::Message;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_token_of_a_context_is_in_one_share_and_the_rest_is_free() {
        let message = |json: serde_json::Value| -> Message {
            serde_json::from_str(&json.to_string()).unwrap()
        };
        let call = message(json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "read_file", "input": {"path": "a"}}]}));
        let result = message(json!({"role": "tool", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "word ".repeat(100)}]}));
        let messages = vec![Message::system("Be brief."), Message::user("hello"), call, result];
        let context = Context { messages, tokens: 150, cuts: Vec::new(), stable: 0 };
        let model = Model { window: 1_000, reply: 200, ..Model::new("openai", "m") };
        let spent = spent(&context, &[], None);
        let sum: u64 = spent.iter().map(|(_, tokens)| tokens).sum();
        assert_eq!(sum, 150);
        let shown = lines(&context, (&model, &[]), None, (80, true)).join("\n");
        assert!(shown.contains("150 of 800 tokens (18 %); 200 are kept for the reply"), "{shown}");
        for name in ["system", "files", "turns", "free"] {
            assert!(shown.contains(&format!("\n  {name}")), "{name}: {shown}");
        }
        assert!(!shown.contains("\n  tools") && shown.ends_with("Nothing was cut."), "{shown}");
        let narrow = lines(&context, (&model, &[]), None, (40, true));
        assert!(narrow[1..5].iter().all(|line| line.len() <= 40), "{narrow:?}");
    }
}
