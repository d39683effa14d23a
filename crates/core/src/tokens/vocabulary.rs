//! Which byte strings are tokens of o200k, and their ranks.
//!
//! The tables are part of the executable and need no loading: the operating system maps the pages
//! that a lookup touches. The build script writes them; `layout` describes them.

use super::layout::{BUCKETS, HEAD_BYTES, Head, OFFSET_BITS, PAIRS, SLOTS};

static PILOTS: &[u8; BUCKETS] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.pilots"));
static SLOT_BYTES: &[u8; SLOTS * 4] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.slots"));
static RECORDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.records"));
static PAIR_BYTES: &[u8; PAIRS * 4] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.pairs"));

/// The rank of anything that is not a token. It is higher than every rank, so it is never merged.
pub(super) const NO_RANK: u32 = u32::MAX;

/// The rank of the token `text[from..to]`, or [`NO_RANK`] if that is not a token.
#[inline]
pub(super) fn rank(text: &[u8], from: usize, to: usize) -> u32 {
    let head = Head::of(text, from, to - from);
    let rest = if head.len > HEAD_BYTES { &text[from + HEAD_BYTES..to] } else { &[] };
    let hash = head.hash(rest);
    let slot = u32::from_le_bytes(SLOT_BYTES.as_chunks().0[hash.slot(PILOTS[hash.bucket()])]);
    if (slot ^ hash.tag()) >> OFFSET_BITS != 0 {
        return NO_RANK;
    }
    let record = &RECORDS[(slot & ((1 << OFFSET_BITS) - 1)) as usize..];
    let Some((&[len, rank @ ..], token)) = record.split_first_chunk::<4>() else { return NO_RANK };
    if usize::from(len) != head.len
        || Head::of(token, 0, head.len) != head
        || (!rest.is_empty() && token[HEAD_BYTES..head.len] != *rest)
    {
        return NO_RANK;
    }
    let [low, middle, high] = rank;
    u32::from_le_bytes([low, middle, high, 0])
}

/// The rank of the token of these two bytes, or [`NO_RANK`] if they are not a token.
#[inline]
pub(super) fn pair_rank(first: u8, second: u8) -> u32 {
    u32::from_le_bytes(PAIR_BYTES.as_chunks().0[usize::from(u16::from_be_bytes([first, second]))])
}
