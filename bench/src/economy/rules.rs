//! The rules that are compared: what each shows of a session.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use rethread_core::context::Policy;
use rethread_core::identifiers::identifiers;
use rethread_core::message::{Block, BlockKind, Message, ToolResult};
use rethread_core::shown::Allowances;

use super::view::readable;

/// A rule by its name.
pub(super) struct Rule {
    /// What it is called on the command line and in the table.
    pub(super) name: String,
    /// Which of the groups of the picture it belongs to.
    pub(super) group: Group,
    /// The policy its contexts are built with by the core.
    pub(super) policy: Policy,
    /// What is done to them afterwards, for rules that the core does not have.
    pub(super) change: Change,
}

/// Kinds of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Everything.
    Whole,
    /// One of our presets.
    Ours,
    /// The rule of `chat` with other allowances.
    Curve,
    /// What other programs do.
    Others,
    /// A control or a bound.
    Control,
}

/// What is done to a context by a rule the core does not have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    Nothing,
    /// Every result but so many of the last becomes a placeholder.
    Mask {
        keep: usize,
    },
    /// Once results before the last so many tokens come to at least this many, they go.
    Prune {
        protect: f64,
        least: f64,
    },
    /// Once the context has so many tokens, all results but the last few go.
    Clear {
        at: f64,
        keep: usize,
    },
    /// No results at all.
    NoResults,
    /// Of each result only the lines with names that nothing before it shows: a control, for a rule
    /// that looks good only because of how recall is measured.
    NewNames,
    /// Of each result so many characters of random lines: the control that a rule must beat.
    Random {
        chars: usize,
    },
}

/// The text that replaces a result.
const PLACEHOLDER: &str = "[result removed]";

/// Every rule, in the order of the table. The first one sends everything.
pub(super) fn all() -> Vec<Rule> {
    let everything = Policy::cli;
    let rule = |name: &str, group, policy| {
        let (name, change) = (name.to_owned(), Change::Nothing);
        Rule { name, group, policy, change }
    };
    let changed = |name: &str, group, change| Rule { change, ..rule(name, group, everything()) };
    let cap = |chars| Policy { truncate_results: Some(chars), ..everything() };
    let prune = Change::Prune { protect: 40_000.0, least: 20_000.0 };
    vec![
        rule("everything", Group::Whole, everything()),
        rule("chat", Group::Ours, Policy::chat()),
        rule("chat, never thinned", Group::Ours, Policy { thin_turns: false, ..Policy::chat() }),
        rule("editor", Group::Ours, Policy::editor()),
        rule("emacs", Group::Ours, Policy::emacs()),
        rule("bot", Group::Ours, Policy::bot()),
        rule("cli", Group::Ours, Policy::cli()),
        rule("cap 8,000", Group::Others, cap(8_000)),
        rule("cap 4,000", Group::Others, cap(4_000)),
        rule("stubs", Group::Others, Policy { stub_tools: true, ..everything() }),
        changed("mask 10", Group::Others, Change::Mask { keep: 10 }),
        changed("prune 40k/20k", Group::Others, prune),
        changed("clear 3 at 100k", Group::Others, Change::Clear { at: 100_000.0, keep: 3 }),
        changed("new names only", Group::Control, Change::NewNames),
        changed("random lines", Group::Control, Change::Random { chars: 2_000 }),
        changed("no results", Group::Control, Change::NoResults),
    ]
}

/// The rule of `chat` with smaller and larger allowances.
pub(super) fn curve() -> Vec<Rule> {
    let scaled = |percent: usize| {
        let of = |chars: usize| chars * percent / 100;
        let Allowances { read, range, shell, search, agent, other, names, thin_head, thin_names } =
            Allowances::default();
        let allowances = Allowances {
            read: of(read),
            range: of(range),
            shell: of(shell),
            search: of(search),
            agent: of(agent),
            other: of(other),
            names: of(names),
            thin_head: of(thin_head),
            thin_names: of(thin_names),
        };
        let policy = Policy { trim_results: Some(allowances), ..Policy::chat() };
        let name = format!("chat × {}", percent as f64 / 100.0);
        Rule { name, group: Group::Curve, policy, change: Change::Nothing }
    };
    [25, 50, 75, 100, 150, 250, 400].map(scaled).into()
}

/// A custom rule: `read=6000,range=12000,…`, the rest as in `chat`.
///
/// # Errors
///
/// What is wrong with the text.
pub(super) fn with_allowances(text: &str) -> Result<Rule, String> {
    let mut allowances = Allowances::default();
    let mut policy = Policy::chat();
    for part in text.split(',') {
        let (name, chars) = part.split_once('=').ok_or_else(|| format!("`{part}` has no `=`"))?;
        let chars = chars.parse().map_err(|_| format!("`{chars}` is not a number"))?;
        *match name {
            "read" => &mut allowances.read,
            "range" => &mut allowances.range,
            "shell" => &mut allowances.shell,
            "search" => &mut allowances.search,
            "agent" => &mut allowances.agent,
            "other" => &mut allowances.other,
            "names" => &mut allowances.names,
            "thin_head" => &mut allowances.thin_head,
            "thin_names" => &mut allowances.thin_names,
            _ => return Err(format!("`{name}` is not an allowance")),
        } = chars;
    }
    policy.trim_results = Some(allowances);
    Ok(Rule { name: text.to_owned(), group: Group::Curve, policy, change: Change::Nothing })
}

/// What a rule remembers from call to call.
#[derive(Default)]
pub(super) struct Memory {
    /// Results that are gone, counted from the first.
    gone: usize,
    /// Results there were.
    results: usize,
    /// Names that were shown, and what was left of each result.
    names: HashSet<String>,
    left: Vec<String>,
    /// Messages that were looked at.
    looked: usize,
}

/// Changes a context as the rule says.
pub(super) fn change(messages: &mut [Message], change: Change, memory: &mut Memory) {
    match change {
        Change::NewNames => return keep_lines(messages, memory, None),
        Change::Random { chars } => return keep_lines(messages, memory, Some(chars)),
        _ => {}
    }
    let tokens = |message: &Message| {
        message.content.iter().map(|block| written(block) as f64 / 4.0).sum::<f64>()
    };
    let all: f64 = messages.iter().map(tokens).sum();
    let results: Vec<usize> = messages
        .iter()
        .enumerate()
        .filter(|(_, message)| message.results().next().is_some())
        .map(|(index, _)| index)
        .collect();
    // After a clear there are fewer, and nothing of them is gone.
    if results.len() < memory.results {
        memory.gone = 0;
    }
    memory.results = results.len();
    memory.gone = match change {
        Change::Nothing | Change::NewNames | Change::Random { .. } => 0,
        Change::NoResults => results.len(),
        Change::Mask { keep } => results.len().saturating_sub(keep),
        Change::Prune { protect, least } => {
            let (mut after, mut first) = (0.0, results.len());
            while first > 0 && after < protect {
                first -= 1;
                after += tokens(&messages[results[first]]);
            }
            let old = memory.gone.min(first)..first;
            let freed: f64 = old.map(|index| tokens(&messages[results[index]])).sum();
            if freed >= least { first } else { memory.gone }
        }
        Change::Clear { at, keep } => {
            let gone = &results[..memory.gone.min(results.len())];
            let freed: f64 = gone.iter().map(|index| tokens(&messages[*index])).sum();
            match all - freed >= at {
                true => results.len().saturating_sub(keep).max(memory.gone),
                false => memory.gone,
            }
        }
    };
    for index in &results[..memory.gone.min(results.len())] {
        remove(&mut messages[*index]);
    }
}

/// Keeps some lines of each result, decided once: those with new names, or a random choice.
fn keep_lines(messages: &mut [Message], memory: &mut Memory, random: Option<usize>) {
    if messages.len() < memory.looked {
        *memory = Memory::default();
    }
    let mut result = 0;
    for (index, message) in messages.iter_mut().enumerate() {
        for block in &mut message.content {
            let BlockKind::ToolResult(found) = &block.kind else {
                if index >= memory.looked {
                    memory.names.extend(identifiers(&readable(block)).map(str::to_owned));
                }
                continue;
            };
            if result == memory.left.len() {
                let text = found.text();
                let left = match random {
                    Some(chars) => random_lines(&text, chars),
                    None => with_new_names(&text, &mut memory.names),
                };
                memory.left.push(left);
            }
            let content = vec![Block::text(memory.left[result].as_str())];
            let (tool_use_id, is_error) = (found.tool_use_id.clone(), found.is_error);
            *block =
                Block::of(BlockKind::ToolResult(ToolResult { tool_use_id, content, is_error }));
            result += 1;
        }
    }
    memory.looked = messages.len();
}

fn with_new_names(text: &str, shown: &mut HashSet<String>) -> String {
    let mut kept = Vec::new();
    for line in text.lines() {
        let new: Vec<&str> = identifiers(line).filter(|name| !shown.contains(*name)).collect();
        if !new.is_empty() {
            kept.push(line);
            shown.extend(new.into_iter().map(str::to_owned));
        }
    }
    kept.join("\n")
}

/// Random lines in their order; the same text gives the same lines.
fn random_lines(text: &str, chars: usize) -> String {
    let mut order: Vec<(u64, usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(index, line)| {
            let mut hasher = DefaultHasher::new();
            (index, line).hash(&mut hasher);
            (hasher.finish(), index, line)
        })
        .collect();
    order.sort_unstable();
    let mut left = chars;
    order.retain(|(_, _, line)| match left.checked_sub(line.chars().count() + 1) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    });
    order.sort_unstable_by_key(|(_, index, _)| *index);
    order.into_iter().map(|(_, _, line)| line).collect::<Vec<_>>().join("\n")
}

fn written(block: &Block) -> usize {
    match &block.kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => text.len(),
        BlockKind::ToolUse(call) => call.name.len() + call.input.get().len(),
        BlockKind::ToolResult(result) => result.text().len(),
        _ => 0,
    }
}

fn remove(message: &mut Message) {
    for block in &mut message.content {
        if let BlockKind::ToolResult(result) = &block.kind {
            let (tool_use_id, is_error) = (result.tool_use_id.clone(), result.is_error);
            let content = vec![Block::text(PLACEHOLDER)];
            *block =
                Block::of(BlockKind::ToolResult(ToolResult { tool_use_id, content, is_error }));
        }
    }
}
