//! How many columns of a terminal a text takes.
//!
//! Counted by grapheme clusters, so that a family of four joined emoji takes two columns and not
//! eight. Terminals disagree about a few of them; Unicode's tables decide here.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns of a text without line breaks.
pub(crate) fn width(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => characters(text).map(|(_, columns)| columns).sum(),
    }
}

/// What a person sees as one character, each with its columns.
pub(crate) fn characters(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.graphemes(true).map(|character| {
        let columns = match character.len() {
            1 => 1,
            _ => character.width(),
        };
        (character, columns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_joined_and_combining_characters_take_their_columns() {
        for (text, columns) in [
            ("abc", 3),
            ("naïve", 5),
            ("nai\u{308}ve", 5),
            ("漢字", 4),
            ("한국어", 6),
            ("👍", 2),
            ("👍🏽", 2),
            ("👨‍👩‍👧‍👦", 2),
            ("🇩🇪", 2),
            ("❤\u{fe0f}", 2),
            ("é́", 1),
        ] {
            assert_eq!(width(text), columns, "{text}");
        }
    }
}
