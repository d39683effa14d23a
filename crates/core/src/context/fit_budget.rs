//! Makes the context fit the model's window.
//!
//! Old turns are dropped first, oldest first. The log is divided into pages, each a quarter of the
//! budget long in the running count of tokens, and turns are dropped by whole pages: so the
//! beginning of a context stays the same until the next page has to be dropped. If the last turn
//! alone is too long, its older rounds are stubbed, then left out; and if what must stay is still
//! too long, every long text is cut.

use std::borrow::Cow;

use super::draft::{Draft, DraftMessage, Round, Turn};
use super::stub_tools::stub;
use super::{Cut, CutEffect, Step};
use crate::limits::TRUNCATED_MARK;
use crate::measure::block_tokens;
use crate::message::{Block, BlockKind, Call};
use crate::raw::Raw;
use crate::tokens::count;

/// The longest text, in characters, that the last resort starts with, and the shortest that it goes
/// down to.
const TEXT_CHARS: std::ops::RangeInclusive<usize> = 32..=131_072;

/// What was necessary to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Whole turns were left out, or nothing.
    Turns(Option<Older>),
    /// The remaining turns had to be shortened as well.
    Less,
}

impl Fit {
    /// What it took in all, where `later` is what it took to make the rest fit.
    pub(super) fn then(self, later: Fit) -> Fit {
        match (self, later) {
            (Fit::Less, _) => Fit::Less,
            (first, Fit::Turns(None)) => first,
            (_, later) => later,
        }
    }
}

/// The newest page that was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Older {
    /// Its end, in the running count of tokens.
    pub(super) end: u64,
    /// Tokens it would need.
    pub(super) tokens: u64,
}

/// Reduces a context to `budget` tokens.
pub(super) fn apply(mut draft: Draft<'_>, budget: u64) -> (Draft<'_>, Fit) {
    if draft.tokens() <= budget {
        return (draft, Fit::Turns(None));
    }
    let page = (budget / 4).max(1);
    let older = drop_pages(&mut draft, budget, page);
    if draft.tokens() <= budget {
        return (draft, Fit::Turns(older));
    }
    thin_last_turn(&mut draft, budget, page);
    if draft.tokens() > budget {
        cut_texts(&mut draft, budget);
    }
    (draft, Fit::Less)
}

/// Leaves out turns by whole pages until the rest fits. The last turn stays, finished or not: a
/// context without it would be useless.
fn drop_pages(draft: &mut Draft<'_>, budget: u64, page: u64) -> Option<Older> {
    let last = draft.turns.len().saturating_sub(1);
    let stays = |(index, turn): &(usize, &Turn<'_>)| turn.pinned || *index == last;
    let (fixed, old): (Vec<_>, Vec<_>) = draft.turns.iter().enumerate().partition(stays);
    let mut total = draft.system.as_ref().map_or(0, |said| said.tokens)
        + fixed.iter().map(|(_, turn)| turn.tokens()).sum::<u64>();
    // Pages from the newest backwards: each whole page that still fits stays.
    let (mut first, mut older) = (None, None);
    let page_of = |turn: &Turn<'_>| turn.before.tokens / page;
    for group in old.chunk_by(|(_, a), (_, b)| page_of(a) == page_of(b)).rev() {
        let (number, tokens) =
            (page_of(group[0].1), group.iter().map(|(_, turn)| turn.tokens()).sum::<u64>());
        total += tokens;
        if total > budget {
            older = Some(Older { end: (number + 1) * page, tokens });
            break;
        }
        first = Some(number);
    }
    let newest = draft.turns.last().map(|turn| turn.seq);
    draft.drop_turns(Step::FIT_BUDGET, |turn| {
        Some(turn.seq) == newest || first.is_some_and(|first| page_of(turn) >= first)
    });
    older
}

/// Stubs, then leaves out, the older rounds of the last turn, by whole pages.
fn thin_last_turn(draft: &mut Draft<'_>, budget: u64, page: u64) {
    let rest: u64 = draft.tokens() - draft.turns.last().map_or(0, |turn| turn.tokens());
    let Some(turn) = draft.turns.last_mut().filter(|turn| !turn.pinned) else { return };
    let user = turn.user.as_ref().map_or(0, |said| said.tokens);
    let Some(last) = turn.rounds.last().map(|round| page_of(round, page)) else { return };

    let fits = |rounds: &[Round<'_>]| {
        rest + user + rounds.iter().map(|round| round.tokens()).sum::<u64>() <= budget
    };
    let pages = |rounds: &[Round<'_>]| -> Vec<u64> {
        rounds
            .chunk_by(|a, b| page_of(a, page) == page_of(b, page))
            .map(|g| page_of(&g[0], page))
            .collect()
    };
    for old in pages(&turn.rounds) {
        if old == last || fits(&turn.rounds) {
            break;
        }
        let rounds = turn.rounds.iter_mut().filter(|round| page_of(round, page) == old);
        rounds.flat_map(|round| &mut round.answers).for_each(|answer| {
            stub(answer);
            if let Some(cut) = &mut answer.cut {
                cut.by = Step::FIT_BUDGET;
            }
        });
    }
    let all = pages(&turn.rounds);
    let mut kept_from = all[0];
    let mut total: u64 = rest + user + turn.rounds.iter().map(|round| round.tokens()).sum::<u64>();
    for (index, old) in all.iter().enumerate() {
        if *old == last || total <= budget {
            break;
        }
        let gone = turn.rounds.iter().filter(|round| page_of(round, page) == *old);
        total -= gone.map(|round| round.tokens()).sum::<u64>();
        kept_from = all[index + 1];
    }
    // The newest round of the last page stays, however large.
    let newest = turn.rounds.len() - 1;
    let mut index = 0;
    let mut dropped: Option<(u64, u64, u64, u64)> = None;
    turn.rounds.retain(|round| {
        let by_page = page_of(round, page) < kept_from;
        let by_size = page_of(round, page) == last && total > budget && index < newest;
        index += 1;
        if !(by_page || by_size) {
            return true;
        }
        if by_size {
            total -= round.tokens();
        }
        let gone = dropped.get_or_insert((round.reply.seq, round.reply.seq, 0, 0));
        gone.1 = round.through();
        gone.2 += round.messages();
        gone.3 += round.tokens();
        false
    });
    if let Some((seq, through, messages, tokens)) = dropped {
        draft.cut_range(Step::FIT_BUDGET, seq, through, CutEffect::Dropped { messages, tokens });
    }
}

fn page_of(round: &Round<'_>, page: u64) -> u64 {
    round.before.tokens / page
}

/// The last resort: cuts every remaining text to one length, as long as fits.
fn cut_texts(draft: &mut Draft<'_>, budget: u64) {
    let mut max = *TEXT_CHARS.end();
    while draft.tokens() > budget && max >= *TEXT_CHARS.start() {
        if let Some(system) = &mut draft.system {
            cut_said(system, max);
        }
        for turn in &mut draft.turns {
            if let Some(user) = &mut turn.user {
                cut_said(user, max);
            }
            for round in &mut turn.rounds {
                cut_said(&mut round.reply, max);
                for answer in &mut round.answers {
                    let text: String = answer
                        .blocks()
                        .iter()
                        .filter_map(Block::as_text)
                        .collect::<Vec<_>>()
                        .join("\n");
                    let pictures = answer.blocks().iter().any(|block| block.as_text().is_none());
                    if pictures || text.chars().nth(max).is_some() {
                        let short = cut_text(&text, max);
                        let tokens = count(&short).into();
                        answer.shorten(Step::FIT_BUDGET, short, tokens);
                    }
                }
            }
        }
        max /= 2;
    }
}

fn cut_said(said: &mut DraftMessage<'_>, max: usize) {
    let long = |block: &Block| match &block.kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => text.chars().nth(max).is_some(),
        BlockKind::ToolUse(call) => call.input.get().chars().nth(max).is_some(),
        BlockKind::Image { .. } => true,
        _ => false,
    };
    if !said.blocks.iter().any(long) {
        return;
    }
    let length = |blocks: &[Block]| blocks.iter().map(written_chars).sum::<u64>();
    let from_chars = match said.cut.as_deref() {
        Some(Cut { change: CutEffect::Shortened { from_chars, .. }, .. }) => *from_chars,
        _ => length(&said.blocks),
    };
    let blocks: Vec<Block> = said.blocks.iter().map(|block| cut_block(block, max)).collect();
    said.tokens = blocks.iter().map(|block| u64::from(block_tokens(block))).sum();
    said.cut = Some(Box::new(Cut {
        by: Step::FIT_BUDGET,
        seq: said.seq,
        through: said.seq,
        reference: said.reference(),
        change: CutEffect::Shortened { from_chars, to_chars: length(&blocks) },
    }));
    said.blocks = Cow::Owned(blocks);
}

fn written_chars(block: &Block) -> u64 {
    let text = match &block.kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => text,
        BlockKind::ToolUse(call) => call.input.get(),
        BlockKind::Image { source } => source.get(),
        _ => "",
    };
    text.chars().count() as u64
}

fn cut_block(block: &Block, max: usize) -> Block {
    match &block.kind {
        BlockKind::Text(text) => Block::text(cut_text(text, max)),
        BlockKind::Prefix(text) => Block::prefix(cut_text(text, max)),
        BlockKind::ToolUse(call) if call.input.get().chars().nth(max).is_some() => {
            // The beginning of JSON is not JSON, so it is kept as text.
            let input = serde_json::json!({ "truncated": cut_text(call.input.get(), max) });
            let (id, name) = (call.id.clone(), call.name.clone());
            Block::of(BlockKind::ToolUse(Call { id, name, input: Raw::of(&input) }))
        }
        BlockKind::Image { .. } => Block::text("[image left out: no room]"),
        _ => block.clone(),
    }
}

fn cut_text(text: &str, max: usize) -> String {
    // Cutting a text that was cut before must not add another mark.
    let body = text.strip_suffix(TRUNCATED_MARK).unwrap_or(text);
    match body.char_indices().nth(max) {
        Some((end, _)) => format!("{}{TRUNCATED_MARK}", &body[..end]),
        None => text.into(),
    }
}
