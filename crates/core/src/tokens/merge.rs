//! Byte pair encoding: how many tokens a piece of text is.
//!
//! A piece starts as single bytes. Of all neighbours that are a token together, the pair with the
//! lowest rank is merged, the leftmost first, until no such pair is left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::vocabulary::{NO_RANK, pair_rank, rank};

/// Bytes of a piece whose next merge is found by scanning all parts. Longer pieces are rare and use
/// a heap, because scanning takes quadratic time.
const SHORT_BYTES_MAX: usize = 64;

/// Counts the tokens of the piece `text[from..to]`.
#[inline]
pub(super) fn count(text: &[u8], from: usize, to: usize) -> usize {
    if to - from == 1 || rank(text, from, to) != NO_RANK {
        return 1;
    }
    match to - from {
        ..=SHORT_BYTES_MAX => count_short(text, from, to),
        _ => count_long(&text[from..to]),
    }
}

/// Merges by scanning. Takes the whole text, because a token with more bytes after it is read faster.
fn count_short(text: &[u8], from: usize, to: usize) -> usize {
    // Where each part begins, and the rank of it and its right neighbour together.
    let mut starts = [0_u8; SHORT_BYTES_MAX + 1];
    let mut ranks = [NO_RANK; SHORT_BYTES_MAX];
    let mut parts = to - from;
    for (start, place) in starts[..=parts].iter_mut().zip(0..) {
        *start = place;
    }
    for part in 0..parts - 1 {
        ranks[part] = pair_rank(text[from + part], text[from + part + 1]);
    }
    let together = |start: u8, end: u8| rank(text, from + start as usize, from + end as usize);
    while let Some(part) = lowest(&ranks[..parts]) {
        starts.copy_within(part + 2..=parts, part + 1);
        ranks.copy_within(part + 2..parts.max(part + 2), part + 1);
        parts -= 1;
        ranks[part] =
            if part + 1 < parts { together(starts[part], starts[part + 2]) } else { NO_RANK };
        if part > 0 {
            ranks[part - 1] = together(starts[part - 1], starts[part + 1]);
        }
    }
    parts
}

/// The index of the lowest rank, the first if there are several.
#[inline]
fn lowest(ranks: &[u32]) -> Option<usize> {
    let (mut lowest, mut first) = (NO_RANK, None);
    for (part, &rank) in ranks.iter().enumerate() {
        if rank < lowest {
            (lowest, first) = (rank, Some(part));
        }
    }
    first
}

/// Merges with a heap of candidates and a linked list of parts.
fn count_long(piece: &[u8]) -> usize {
    let end = piece.len();
    let index = |at: usize| u32::try_from(at).expect("a piece is shorter than 4 GiB");
    // All three are indexed by the offset of a part: the offsets of its neighbours, and its rank
    // together with the right one. A part that was merged into its left neighbour has no rank.
    let mut left: Vec<u32> = (0..end).map(|at| index(at.saturating_sub(1))).collect();
    let mut right: Vec<u32> = (0..end).map(|at| index(at + 1)).collect();
    let mut ranks = vec![NO_RANK; end];
    let mut candidates = BinaryHeap::with_capacity(end);
    let offer = |candidates: &mut BinaryHeap<_>, at: usize, rank: u32| {
        if rank != NO_RANK {
            candidates.push(Reverse((rank, index(at))));
        }
        rank
    };
    for at in 0..end - 1 {
        ranks[at] = offer(&mut candidates, at, pair_rank(piece[at], piece[at + 1]));
    }
    let mut parts = end;
    while let Some(Reverse((lowest, at))) = candidates.pop() {
        let at = at as usize;
        if ranks[at] != lowest {
            continue; // One of the two has been merged with another part since.
        }
        let merged = right[at] as usize;
        let next = right[merged] as usize;
        parts -= 1;
        right[at] = index(next);
        ranks[merged] = NO_RANK;
        ranks[at] = NO_RANK;
        if next < end {
            left[next] = index(at);
            ranks[at] = offer(&mut candidates, at, rank(piece, at, right[next] as usize));
        }
        if at > 0 {
            let before = left[at] as usize;
            ranks[before] = offer(&mut candidates, before, rank(piece, before, next));
        }
    }
    parts
}

/// The counts by scanning and by heap, for a piece that is short enough for both.
#[cfg(test)]
pub(super) fn both_ways(piece: &[u8]) -> (usize, usize) {
    (count_short(piece, 0, piece.len()), count_long(piece))
}
