//! Splits text into terms for a search index.
//!
//! A term is a word: consecutive letters and digits, in lowercase, without accents. `Naïve` and
//! `naive` are the same term. Scripts that are written without spaces have no words to split at;
//! there, each pair of neighbouring characters is a term, and the last character of a run is
//! another. So each character begins exactly one term, and two characters are found wherever they
//! are neighbours.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Bytes of a word that count. Longer ones are keys and encoded data, which nobody types
/// completely.
const TERM_BYTES_MAX: usize = 128;

/// A term of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The term as stored in an index: letters, digits and marks in lowercase, never empty.
    pub text: String,
    /// Its byte range in the text.
    pub range: Range<usize>,
}

/// The terms of a text, in order.
pub fn terms(text: &str) -> impl Iterator<Item = Term> {
    runs(text).flat_map(Run::into_terms)
}

/// The terms of a text on one line, separated by spaces: the input of a full-text index that splits
/// at spaces.
pub fn line_of_terms(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 16);
    for (range, unspaced) in spans(text) {
        let given = &text[range.clone()];
        if given.is_ascii() {
            // Almost all are, and need no allocation.
            line.extend(given.bytes().take(TERM_BYTES_MAX).map(|b| b.to_ascii_lowercase() as char));
            line.push(' ');
        } else if let Some(run) = Run::of(text, range, unspaced) {
            for term in run.into_terms() {
                line += &term.text;
                line.push(' ');
            }
        }
    }
    line
}

/// The words of a text, in lowercase and without accents; a run of a script without spaces counts
/// as one.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    runs(text).map(|run| run.folded)
}

/// A run of characters that belong together.
pub(super) struct Run {
    /// Its position in the text.
    pub(super) range: Range<usize>,
    /// The folded form that is looked up.
    folded: String,
    /// The position in the text of each character of `folded`.
    chars: Option<Vec<Range<usize>>>,
}

impl Run {
    fn of(text: &str, range: Range<usize>, unspaced: bool) -> Option<Run> {
        let given = &text[range.clone()];
        let folded = fold(given);
        let chars = unspaced.then(|| {
            let ranges: Vec<Range<usize>> = given
                .char_indices()
                .map(|(at, c)| range.start + at..range.start + at + c.len_utf8())
                .collect();
            match ranges.len() == folded.chars().count() {
                true => ranges,
                // If several characters became one, or one became several, the whole run is shown.
                false => vec![range.clone(); folded.chars().count()],
            }
        });
        (!folded.is_empty()).then_some(Run { range, folded, chars })
    }

    /// Whether its terms are pairs of characters.
    pub(super) fn is_unspaced(&self) -> bool {
        self.chars.is_some()
    }

    pub(super) fn into_terms(self) -> Vec<Term> {
        let Some(places) = self.chars else {
            let mut text = self.folded;
            text.truncate(text.floor_char_boundary(TERM_BYTES_MAX));
            return vec![Term { text, range: self.range }];
        };
        let chars: Vec<char> = self.folded.chars().collect();
        let pair = |at: usize| {
            let last = (at + 1).min(chars.len() - 1);
            Term {
                text: chars[at..=last].iter().collect(),
                range: places[at].start..places[last].end,
            }
        };
        (0..chars.len()).map(pair).collect()
    }
}

/// The class of a character for search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Unspaced,
    /// An accent or vowel sign: part of the character before it.
    Mark,
    Other,
}

fn class(c: char) -> Class {
    match c {
        _ if c.is_ascii_alphanumeric() => Class::Word,
        _ if c.is_ascii() => Class::Other,
        _ if is_combining_mark(c) => Class::Mark,
        _ if !c.is_alphanumeric() => Class::Other,
        _ if is_unspaced(c) => Class::Unspaced,
        _ => Class::Word,
    }
}

/// Whether a letter belongs to a script that is written without spaces, or, as Korean, with
/// particles attached to its words.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c,
        // Thai and Lao, Burmese, Hangul letters, Khmer.
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}'
        | '\u{1780}'..='\u{17ff}'
        // Kana, Bopomofo, Hangul, and the ideographs with their iteration marks.
        | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ffdc}' | '\u{16f00}'..='\u{18fff}'
        | '\u{1aff0}'..='\u{1b2ff}' | '\u{20000}'..='\u{3ffff}')
}

/// The runs of a text, in order. A run of nothing but marks folds to nothing, and is left out.
pub(super) fn runs(text: &str) -> impl Iterator<Item = Run> {
    spans(text).filter_map(|(range, unspaced)| Run::of(text, range, unspaced))
}

/// The positions of the runs of a text, and whether they are of a script without spaces.
fn spans(text: &str) -> impl Iterator<Item = (Range<usize>, bool)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, first) = next_letter(text, at)?;
        at = run_end(text, start, first);
        Some((start..at, first == Class::Unspaced))
    })
}

fn next_letter(text: &str, from: usize) -> Option<(usize, Class)> {
    let mut rest = text[from..].char_indices().map(|(at, c)| (from + at, class(c)));
    rest.find(|(_, class)| matches!(class, Class::Word | Class::Unspaced))
}

fn run_end(text: &str, start: usize, first: Class) -> usize {
    let mut rest = text[start..].char_indices();
    let end = rest.find(|(_, c)| !matches!(class(*c), Class::Mark) && class(*c) != first);
    end.map_or(text.len(), |(at, _)| start + at)
}

/// The folded form of a run: compatibility forms unified, accents removed, in lowercase.
fn fold(given: &str) -> String {
    if given.is_ascii() {
        return given.to_ascii_lowercase();
    }
    let accent = |c: &char| matches!(c, '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}');
    given
        .nfkd()
        .filter(|c| !accent(c) && !matches!(class(*c), Class::Other))
        .flat_map(char::to_lowercase)
        .map(|c| if c == 'ς' { 'σ' } else { c })
        .nfc()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        terms(text).map(|term| term.text).collect()
    }

    #[test]
    fn words_are_letters_and_digits_in_lowercase_without_accents() {
        assert_eq!(all("Where is foo_bar.rs?"), ["where", "is", "foo", "bar", "rs"]);
        assert_eq!(
            all("Naïve CAFE\u{301} ÆRØ Ｒｕｓｔ ﬁne"),
            ["naive", "cafe", "ærø", "rust", "fine"]
        );
        assert_eq!(all("ΟΔΟΣ οδος İstanbul"), ["οδοσ", "οδοσ", "istanbul"]);
        assert_eq!(all("❤\u{fe0f} ½ \u{301}"), ["12"], "marks alone are nothing");
        assert_eq!(all("क्या हिन्दी").len(), 2, "vowel signs and viramas belong to the word");
    }

    #[test]
    fn scripts_without_spaces_become_pairs_and_the_last_character() {
        assert_eq!(all("日本語"), ["日本", "本語", "語"]);
        assert_eq!(all("猫"), ["猫"]);
        assert_eq!(all("Rust言語、3日"), ["rust", "言語", "語", "3", "日"]);
        assert_eq!(all("검색을"), ["검색", "색을", "을"]);
        assert_eq!(all("ｶﾞﾗｽ"), all("ガラス"), "half-width kana are kana");
    }

    #[test]
    fn the_range_of_a_term_is_where_it_was_written() {
        for text in ["a Naïve 日本語 ＡＢ", "x\u{0301}y 가나\u{1100}\u{1161}"] {
            for term in terms(text) {
                let again = all(&text[term.range.clone()]);
                assert!(again.concat().contains(&term.text), "{term:?} in {text}");
            }
        }
        let ranges: Vec<_> = terms("日本語").map(|term| term.range).collect();
        assert_eq!(ranges, [0..6, 3..9, 6..9]);
    }

    #[test]
    fn the_line_of_an_index_has_the_same_terms() {
        let long = format!("É{0} {0} 日本語 Rust", "X".repeat(300));
        let line = line_of_terms(&long);
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), all(&long));
    }

    #[test]
    fn a_term_is_never_longer_than_the_limit_and_never_empty() {
        let long = format!("{} {}", "é".repeat(300), "x".repeat(TERM_BYTES_MAX + 1));
        let all = all(&long);
        assert_eq!(all.iter().map(String::len).collect::<Vec<_>>(), [128, TERM_BYTES_MAX]);
        assert!(terms("a \u{301}\u{20d0} ⑴ ﷺ").all(|term| !term.text.is_empty()));
    }
}
