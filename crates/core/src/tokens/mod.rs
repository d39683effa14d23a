//! How many tokens a text is.
//!
//! Counted with o200k, exactly for the models that use it and as an estimate for the others; what
//! a provider reports is kept next to it, and takes precedence if it exists.
//!
//! Nothing is loaded before the first count: the vocabulary is part of the executable, in a layout
//! that is used as it is. A text is split into pieces (`split`); a piece that is not a token itself
//! (`vocabulary`) is merged from its bytes (`merge`). Only the count is returned, not the tokens.
//!
//! The vocabulary comes from the `tiktoken` crate, see `build.rs`; the tests compare with that
//! crate.

mod class;
mod layout;
mod merge;
mod piece_cache;
mod split;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::cell::RefCell;

use piece_cache::PieceCache;

use crate::limits::COUNT_SLICE_BYTES;

/// Counts the tokens of a text.
pub fn count(text: &str) -> u32 {
    thread_local! {
        static CACHE: RefCell<PieceCache> = RefCell::new(PieceCache::new());
    }
    let count: usize =
        CACHE.with_borrow_mut(|cache| slices(text).map(|slice| count_slice(slice, cache)).sum());
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The text in pieces of bounded length, cut between characters.
fn slices(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (slice, tail) = rest.split_at(rest.floor_char_boundary(COUNT_SLICE_BYTES));
        rest = tail;
        Some(slice)
    })
}

fn count_slice(text: &str, cache: &mut PieceCache) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < text.len() {
        let end = split::piece_end(text, at);
        count += cache.count(text.as_bytes(), at, end);
        at = end;
    }
    count
}
