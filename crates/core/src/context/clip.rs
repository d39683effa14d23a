//! Keeps the current turn, and of the past only the beginnings of the last texts.

use std::borrow::Cow;

use super::draft::{Draft, DraftMessage, Round, Turn};
use super::steps::{Reach, Scope, StepRule};
use super::{Cut, CutEffect, Policy, Step};
use crate::measure::block_tokens;
use crate::message::{Block, BlockKind};

const NAME: Step = Step("clip");

pub(super) const RULE: StepRule = StepRule {
    name: NAME,
    wanted: |policy| policy.clip.is_some(),
    apply,
    scope: Scope::Log(reach),
};

/// Enough was read when it contains as many texts of finished turns as are kept. They are found
/// before anything is measured, however far back they are.
fn reach(draft: &Draft<'_>, policy: &Policy) -> Reach {
    let Some(clip) = policy.clip else { return Reach::Unknown };
    let whole = || draft.turns.iter().filter(|turn| turn.is_whole());
    let texts = |turn: &Turn<'_>| {
        usize::from(turn.user.as_ref().is_some_and(says_something))
            + usize::from(turn.rounds.last().is_some_and(|round| says_something(&round.reply)))
    };
    let there: usize = whole().filter(|turn| turn.finished && !turn.left_out).map(texts).sum();
    match there >= clip.texts && whole().next().is_some() {
        true => Reach::Enough,
        false => Reach::More,
    }
}

/// Keeps the last texts of finished turns, with this many characters of each.
fn apply<'a>(mut draft: Draft<'a>, policy: &Policy) -> Draft<'a> {
    let Some(clip) = policy.clip else { return draft };
    let mut left = clip.texts;
    let mut kept: Vec<Turn<'_>> = Vec::new();
    let mut dropped = false;
    let mut cuts = Vec::new();
    for mut turn in draft.turns.drain(..).rev() {
        if turn.pinned || turn.left_out || !turn.finished {
            kept.push(turn);
            continue;
        }
        let mut answer = turn.rounds.pop().filter(|round| says_something(&round.reply));
        let mut question = turn.user.take().filter(says_something);
        if left == 0 || answer.is_none() && question.is_none() {
            dropped = true;
            continue;
        }
        if let Some(round) = &mut answer {
            left -= 1;
            round.answers.clear();
            shorten(&mut round.reply, clip.chars);
        }
        if left == 0 {
            question = None;
        }
        if let Some(said) = &mut question {
            left -= 1;
            shorten(said, clip.chars);
        }
        dropped |= question.is_none();
        if let (Some(first), Some(last)) = (turn.rounds.first(), turn.rounds.last()) {
            let (seq, through) = (first.reply.seq, last.through());
            let messages = turn.rounds.iter().map(Round::messages).sum();
            let tokens = turn.rounds.iter().map(Round::tokens).sum();
            let change = CutEffect::Dropped { messages, tokens };
            cuts.push(Cut { by: NAME, seq, through, reference: seq.to_string(), change });
        }
        turn.user = question;
        turn.rounds = answer.into_iter().collect();
        kept.push(turn);
    }
    kept.reverse();
    draft.turns = kept;
    cuts.reverse();
    draft.cuts.append(&mut cuts);
    if dropped {
        let oldest = draft.turns.iter().find(|turn| !turn.pinned && !turn.carried);
        let end = match oldest {
            Some(Turn { user: None, rounds, .. }) if !rounds.is_empty() => rounds[0].before,
            Some(turn) => turn.before,
            None => draft.log.tally().into(),
        };
        draft.report_dropped(NAME, end);
    }
    draft
}

fn says_something(said: &DraftMessage<'_>) -> bool {
    said.blocks.iter().any(|block| match block.as_text() {
        Some(text) => !text.trim().is_empty(),
        None => is_attached(block),
    })
}

/// Whether a block is a picture or a document: the next question may be about it.
fn is_attached(block: &Block) -> bool {
    matches!(block.kind, BlockKind::Image { .. }) || block.is_document()
}

/// Keeps the first characters of the text, and the attachments.
fn shorten(said: &mut DraftMessage<'_>, max: usize) {
    let texts: Vec<&str> = said.blocks.iter().filter_map(Block::as_text).collect();
    let text = texts.join("\n\n");
    let short: String = text.chars().take(max).collect();
    if short.len() < text.len() {
        said.cut = Some(Box::new(Cut {
            by: NAME,
            seq: said.seq,
            through: said.seq,
            reference: said.reference(),
            change: CutEffect::Shortened {
                from_chars: text.chars().count() as u64,
                to_chars: short.chars().count() as u64,
            },
        }));
    }
    if said.blocks.len() > 1 || short.len() < text.len() {
        let mut blocks: Vec<Block> =
            said.blocks.iter().filter(|block| is_attached(block)).cloned().collect();
        if blocks.is_empty() || !short.is_empty() {
            blocks.push(Block::text(short));
        }
        said.tokens = blocks.iter().map(|block| u64::from(block_tokens(block))).sum();
        said.thinking = 0;
        said.blocks = Cow::Owned(blocks);
    }
}
