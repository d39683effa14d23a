//! Explains a context: one line per message, and why something is missing.

use super::{Context, Cut, CutEffect};
use crate::message::{BlockKind, Message};

/// Characters of a message shown on its line.
const LINE_CHARS: usize = 72;

/// Shows a context as lines of text.
pub fn explain(context: &Context) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (index, message) in context.messages.iter().enumerate() {
        lines.push(format!("{index:>3} {:<10} {}", message.role.as_str(), one_line(message)));
    }
    lines.extend(context.cuts.iter().map(cut_line));
    lines.join("\n")
}

fn cut_line(cut: &Cut) -> String {
    let place = match cut.seq == cut.through {
        true => format!("at {}", cut.seq),
        false => format!("from {} to {}", cut.seq, cut.through),
    };
    let what = match &cut.change {
        CutEffect::Dropped { messages, tokens } => format!("{messages} messages, {tokens} tokens"),
        CutEffect::Shortened { from_chars, to_chars } => format!("{from_chars} → {to_chars} chars"),
        CutEffect::Trimmed { from_chars, to_chars, from_lines, to_lines, why } => format!(
            "{from_chars} → {to_chars} chars, {to_lines} of {from_lines} lines; {}; recall {}",
            why.as_str(),
            cut.reference
        ),
        CutEffect::LeftOut { what } => what.clone(),
    };
    format!("cut: {} {place} ({what})", cut.by.as_str())
}

fn one_line(message: &Message) -> String {
    let parts: Vec<String> = message
        .content
        .iter()
        .map(|block| match &block.kind {
            BlockKind::Text(text) => text.clone(),
            BlockKind::ToolUse(call) => format!("→ {}({})", call.name, call.input.get()),
            BlockKind::ToolResult(result) => result.text(),
            _ => format!("[{}]", block.type_name()),
        })
        .collect();
    let joined = parts.join(" ");
    let line = joined.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
