//! How many tokens a text is.
//!
//! Counted with o200k, exactly for the models that use it and as an estimate for the others; what
//! a provider reports is kept beside it and is the truth where it exists. The vocabulary takes
//! about 90 ms to load, so it is loaded by the first count and never by programs that count
//! nothing.

use std::sync::OnceLock;

use crate::limits::COUNT_SLICE_BYTES;

/// Counts the tokens of a text.
pub fn count(text: &str) -> u32 {
    static O200K: OnceLock<Option<&'static tiktoken::CoreBpe>> = OnceLock::new();
    if text.is_empty() {
        return 0;
    }
    let count = match O200K.get_or_init(|| tiktoken::get_encoding("o200k_base")) {
        Some(encoding) => slices(text).map(|slice| encoding.count(slice)).sum(),
        None => estimate(text.chars().count()),
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What is assumed where nothing can be counted: four characters a token.
pub fn estimate(chars: usize) -> usize {
    chars.div_ceil(4)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_have_the_counts_openai_publishes() {
        assert_eq!(count(""), 0);
        assert_eq!(count("hello world"), 2);
        assert_eq!(count("tiktoken is great!"), 6);
        assert_eq!(count("<|endoftext|>"), 7, "text that looks like a special token is text");
    }

    #[test]
    fn slices_never_split_a_character_and_give_the_text_back() {
        let text = "é".repeat(COUNT_SLICE_BYTES);
        assert_eq!(slices(&text).collect::<String>(), text);
        assert!(slices(&text).all(|slice| slice.len() <= COUNT_SLICE_BYTES));
    }
}
