//! Makes the context fit the model's window.
//!
//! Old turns are dropped first, oldest first. The log is divided into pages, each a quarter of the
//! budget long in the running count of tokens, and turns are dropped by whole pages: so the
//! beginning of a context stays the same until the next page has to be dropped. If the newest turn
//! that is dropped is a long one, it may have been most of the conversation: its question and its
//! last rounds stay, with stubs, in up to half of the budget. If the last turn alone is too long,
//! its older rounds are stubbed, then left out; and if what must stay is still too long, every long
//! text is cut.

use std::borrow::Cow;

use super::draft::{Draft, DraftMessage, DraftResult, Round, Turn};
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
    /// Tokens that it, or what would stay of it, needs.
    pub(super) tokens: u64,
}

/// Reduces a context to `budget` tokens. The end of a long turn stays only if `was_read` completely: a
/// step that limits the number of messages does not need the rest of it.
pub(super) fn apply(mut draft: Draft<'_>, budget: u64, was_read: bool) -> (Draft<'_>, Fit) {
    if draft.tokens() <= budget {
        return (draft, Fit::Turns(None));
    }
    let page = (budget / 4).max(1);
    let (older, thinned) = drop_pages(&mut draft, budget, page, was_read);
    if draft.tokens() <= budget {
        return (draft, if thinned { Fit::Less } else { Fit::Turns(older) });
    }
    let rest: u64 = draft.tokens() - draft.turns.last().map_or(0, |turn| turn.tokens());
    if let Some(turn) = draft.turns.last_mut().filter(|turn| !turn.pinned) {
        let dropped = thin_turn(turn, budget.saturating_sub(rest), page);
        draft.report_rounds(dropped);
    }
    if draft.tokens() > budget {
        cut_texts(&mut draft, budget);
    }
    (draft, Fit::Less)
}

/// Leaves out turns by whole pages until the rest fits. The last turn stays, finished or not: a
/// context without it would be useless. Returns the newest page that was left out, and whether a
/// turn of it stays in part.
fn drop_pages(
    draft: &mut Draft<'_>,
    budget: u64,
    page: u64,
    was_read: bool,
) -> (Option<Older>, bool) {
    let last = draft.turns.len().saturating_sub(1);
    let stays = |(index, turn): &(usize, &Turn<'_>)| turn.pinned || *index == last;
    let (fixed, old): (Vec<_>, Vec<_>) = draft.turns.iter().enumerate().partition(stays);
    let mut total = draft.system.as_ref().map_or(0, |said| said.tokens)
        + fixed.iter().map(|(_, turn)| turn.tokens()).sum::<u64>();
    // Pages from the newest backwards: each whole page that still fits stays.
    let (mut first, mut older, mut long) = (None, None, None);
    let page_of = |turn: &Turn<'_>| turn.before.tokens / page;
    for group in old.chunk_by(|(_, a), (_, b)| page_of(a) == page_of(b)).rev() {
        let (number, tokens) =
            (page_of(group[0].1), group.iter().map(|(_, turn)| turn.tokens()).sum::<u64>());
        if total + tokens > budget {
            older = Some(Older { end: (number + 1) * page, tokens });
            let newest = group.last().filter(|(_, turn)| was_read && turn.is_whole());
            long =
                newest.map(|(index, _)| *index).filter(|index| draft.said_in(*index) > budget / 2);
            break;
        }
        total += tokens;
        first = Some(number);
    }
    let mut dropped = None;
    let long = long.filter(|index| {
        let turn = &mut draft.turns[*index];
        dropped = keep_end(turn, budget / 2, page);
        let tokens = turn.tokens();
        if let Some(older) = older.as_mut().filter(|_| tokens <= budget / 2) {
            // So much less room than for the page is enough for it to come back.
            older.tokens = older.tokens.min(tokens);
        }
        tokens <= budget / 2 && total + tokens <= budget
    });
    let long = long.map(|index| draft.turns[index].seq);
    let newest = draft.turns.last().map(|turn| turn.seq);
    draft.drop_turns(Step::FIT_BUDGET, |turn| {
        let stays = Some(turn.seq) == newest || Some(turn.seq) == long;
        stays || first.is_some_and(|first| page_of(turn) >= first)
    });
    draft.report_rounds(dropped.filter(|_| long.is_some()));
    (older, long.is_some())
}

/// Rounds of a turn that were left out.
struct DroppedRounds {
    seq: u64,
    through: u64,
    messages: u64,
    tokens: u64,
}

impl Draft<'_> {
    /// Tokens of what was said in a turn, in whatever form it is shown.
    fn said_in(&self, index: usize) -> u64 {
        let next = self.turns.get(index + 1).map(|turn| turn.before.tokens);
        let end = next.unwrap_or_else(|| self.log.tally().tokens);
        end.saturating_sub(self.turns[index].before.tokens)
    }

    fn report_rounds(&mut self, dropped: Option<DroppedRounds>) {
        if let Some(DroppedRounds { seq, through, messages, tokens }) = dropped {
            self.cut_range(Step::FIT_BUDGET, seq, through, CutEffect::Dropped { messages, tokens });
        }
    }
}

/// Keeps the question and the last rounds of a turn, with a stub for each result that is longer. What
/// stays depends on nothing but the turn, so it is the same for every later question.
fn keep_end(turn: &mut Turn<'_>, room: u64, page: u64) -> Option<DroppedRounds> {
    for answer in turn.rounds.iter_mut().flat_map(|round| &mut round.answers) {
        // The stub is compared with the result itself: an excerpt may refer to others.
        (answer.content, answer.cut) = (None, None);
        answer.refers_to.clear();
        answer.tokens = answer.measure.map_or(answer.tokens, |measure| measure.tokens.into());
        stub_to_fit(answer);
    }
    drop_rounds(turn, room, page)
}

/// Stubs, then leaves out, the older rounds of a turn, by whole pages.
fn thin_turn(turn: &mut Turn<'_>, room: u64, page: u64) -> Option<DroppedRounds> {
    let last = turn.rounds.last().map(|round| page_of(round, page))?;
    for old in pages(&turn.rounds, page) {
        if old == last || turn.tokens() <= room {
            break;
        }
        let rounds = turn.rounds.iter_mut().filter(|round| page_of(round, page) == old);
        rounds.flat_map(|round| &mut round.answers).for_each(stub_to_fit);
    }
    drop_rounds(turn, room, page)
}

fn stub_to_fit(answer: &mut DraftResult<'_>) {
    stub(answer);
    if let Some(cut) = &mut answer.cut {
        cut.by = Step::FIT_BUDGET;
    }
}

/// Leaves out rounds of a turn, by whole pages.
fn drop_rounds(turn: &mut Turn<'_>, room: u64, page: u64) -> Option<DroppedRounds> {
    let all = pages(&turn.rounds, page);
    let last = *all.last()?;
    let mut kept_from = all[0];
    let mut total = turn.tokens();
    for (index, old) in all.iter().enumerate() {
        if *old == last || total <= room {
            break;
        }
        let gone = turn.rounds.iter().filter(|round| page_of(round, page) == *old);
        total -= gone.map(|round| round.tokens()).sum::<u64>();
        kept_from = all[index + 1];
    }
    // The newest round of the last page stays, however large.
    let newest = turn.rounds.len() - 1;
    let mut index = 0;
    let mut dropped: Option<DroppedRounds> = None;
    turn.rounds.retain(|round| {
        let by_page = page_of(round, page) < kept_from;
        let by_size = page_of(round, page) == last && total > room && index < newest;
        index += 1;
        if !(by_page || by_size) {
            return true;
        }
        if by_size {
            total -= round.tokens();
        }
        let (seq, through) = (round.reply.seq, round.through());
        let first = DroppedRounds { seq, through, messages: 0, tokens: 0 };
        let gone = dropped.get_or_insert(first);
        gone.through = through;
        gone.messages += round.messages();
        gone.tokens += round.tokens();
        false
    });
    dropped
}

/// The pages in which these rounds begin.
fn pages(rounds: &[Round<'_>], page: u64) -> Vec<u64> {
    let mut pages: Vec<u64> = rounds.iter().map(|round| page_of(round, page)).collect();
    pages.dedup();
    pages
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
