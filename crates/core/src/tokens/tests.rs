//! Counts are compared with the `tiktoken` crate, pieces with the regular expression that defines
//! them.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::class::{CASELESS, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, UPPER};
use super::piece_cache::PieceCache;
use super::vocabulary::{NO_RANK, pair_rank, rank};
use super::{count, count_slice, merge, slices, split};
use crate::limits::COUNT_SLICE_BYTES;

/// The pattern of o200k, without the lookahead of its last alternatives.
static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",
    ))
    .unwrap()
});

fn tiktoken() -> &'static tiktoken::CoreBpe {
    tiktoken::get_encoding("o200k_base").unwrap()
}

/// The piece of `text` that begins at `from`, found by the pattern.
fn piece_by_pattern(text: &str, from: usize) -> &str {
    let found = PATTERN.find_at(text, from).unwrap();
    assert_eq!(found.start(), from, "every character belongs to a piece");
    let piece = found.as_str();
    // `\s+(?!\S)|\s+`: the last space is left to what follows, unless it is the only one.
    let followed = found.end() < text.len() && !piece.ends_with(['\r', '\n']);
    match piece.char_indices().next_back() {
        Some((last, _)) if last > 0 && followed && piece.trim().is_empty() => &piece[..last],
        _ => piece,
    }
}

#[track_caller]
fn assert_split_by_the_pattern(text: &str) {
    let mut at = 0;
    while at < text.len() {
        let piece = &text[at..split::piece_end(text, at)];
        assert_eq!(piece, piece_by_pattern(text, at), "at {at} in {text:?}");
        at += piece.len();
    }
}

/// Counts twice with one cache, so that the second count comes from the cache.
#[track_caller]
fn assert_counted_by_tiktoken(text: &str) {
    let (expected, mut cache) = (tiktoken().count(text), PieceCache::new());
    assert_eq!(count_slice(text, &mut cache), expected, "{text:?}");
    assert_eq!(count_slice(text, &mut cache), expected, "again: {text:?}");
}

/// The same choices for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn up_to(&mut self, max: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % (max as u64 + 1)) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.up_to(from.len() - 1)]
    }

    /// A character of a script, of a plane, or any at all.
    fn char(&mut self) -> char {
        let (first, last) = self.pick(&[
            (0x00, 0x7F),
            (0x20, 0x7E),
            (0x80, 0x24F),
            (0x2B0, 0x36F),
            (0x370, 0x52F),
            (0x590, 0x6FF),
            (0x900, 0xDFF),
            (0x1E00, 0x206F),
            (0x3000, 0x30FF),
            (0x4E00, 0x9FFF),
            (0xAC00, 0xD7A3),
            (0xFE00, 0xFFFF),
            (0x1_F300, 0x1_FAFF),
            (0, 0x10_FFFF),
        ]);
        char::from_u32((first + self.up_to(last - first)) as u32).unwrap_or('\u{FFFD}')
    }

    fn text(&mut self) -> String {
        const PARTS: &[&str] = &[
            " ",
            "  ",
            "\t",
            "\n",
            "\r\n",
            "\n\n  ",
            " \n",
            "\u{85}",
            "\u{A0}",
            "\u{2028}",
            "\u{3000}",
            "'s",
            "'T",
            "'rE",
            "'VE",
            "'m",
            "'ll",
            "'D",
            "'x",
            "'",
            "\u{2019}s",
            "don't",
            "WE'RE",
            "1",
            "22",
            "333",
            "4444",
            "\u{661}\u{662}",
            "\u{BD}",
            "\u{2167}",
            "the",
            "The",
            "THE",
            "camelCase",
            "HTTPServer",
            "\u{C9}t\u{E9}",
            "e\u{301}",
            "\u{301}",
            "\u{1C5}",
            "\u{2B0}",
            "\u{4F60}\u{597D}",
            "\u{304B}\u{306A}",
            "\u{D55C}\u{AE00}",
            "\u{440}\u{443}\u{441}",
            "\u{1F980}",
            "\u{1F468}\u{200D}\u{1F469}",
            "\u{1F1E9}\u{1F1EA}",
            "\u{FE0F}",
            "\u{FFFD}",
            "\u{0}",
            "\u{1F}",
            "/",
            "//\n/",
            ".\n/",
            "!!",
            "->",
            "{\"",
            "\":",
            "<|endoftext|>",
            "aaaaaaaaaaaaaaaaaaaaaaaa",
            "f3A9c0",
        ];
        let mut text = String::new();
        for _ in 0..self.up_to(30) {
            match self.up_to(3) {
                0 => text.push(self.char()),
                1 => text.extend((0..self.up_to(8)).map(|_| self.char())),
                _ => text.push_str(self.pick(PARTS)),
            }
        }
        text
    }
}

/// The documents, sources and seeds of this repository.
fn real_texts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs"), root.join("crates"), root.join("fuzz/seeds")];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                texts.push(String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
            }
        }
    }
    texts
}

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

#[test]
fn every_token_has_its_rank_and_nothing_else_has_one() {
    let tokens: Vec<Vec<u8>> =
        (0..tiktoken().vocab_size() as u32).map(|rank| tiktoken().decode(&[rank])).collect();
    let ranks: std::collections::HashMap<&[u8], u32> =
        tokens.iter().map(Vec::as_slice).zip(0..).collect();
    assert_eq!(ranks.len(), 199_998);
    let expected = |bytes: &[u8]| ranks.get(bytes).copied().unwrap_or(NO_RANK);
    for token in &tokens {
        for (from, to) in [(0, token.len()), (1, token.len()), (0, token.len() - 1)] {
            if from < to {
                assert_eq!(rank(token, from, to), expected(&token[from..to]), "{token:?}");
            }
        }
        for byte in [0, b' ', b's', 0x80] {
            let longer = [token, [byte].as_slice()].concat();
            assert_eq!(rank(&longer, 0, longer.len()), expected(&longer), "{longer:?}");
        }
    }
    for bytes in 0..=u16::MAX {
        let [first, second] = bytes.to_be_bytes();
        assert_eq!(pair_rank(first, second), expected(&[first, second]));
        assert_eq!(rank(&[first, second], 0, 2), expected(&[first, second]));
    }
}

#[test]
fn every_character_has_the_class_the_pattern_gives_it() {
    let classes = [
        (r"[\p{Lu}\p{Lt}]", UPPER),
        (r"\p{Ll}", LOWER),
        (r"[\p{Lm}\p{Lo}]", CASELESS),
        (r"\p{M}", MARK),
        (r"\p{N}", NUMBER),
        (r"[\s--\r\n]", SPACE),
        (r"[\r\n]", NEWLINE),
        (r"[^\s\p{L}\p{M}\p{N}]", OTHER),
    ]
    .map(|(pattern, class)| (Regex::new(pattern).unwrap(), class));
    for char in '\0'..=char::MAX {
        let text = char.to_string();
        let mut expected = classes.iter().filter(|(pattern, _)| pattern.is_match(&text));
        let (class, len) = split::class_at(&text, 0);
        assert_eq!((class, len), (expected.next().unwrap().1, text.len()), "{char:?}");
        assert!(expected.next().is_none(), "{char:?}");
    }
}

/// One character of each class, and those with a meaning of their own.
#[test]
fn every_text_of_five_characters_is_split_as_the_pattern_splits_it() {
    let chars: Vec<char> = "aAǅʰ中\u{301}1² \u{3000}\t\n\r!/'sſ".chars().collect();
    for number in 0..chars.len().pow(5) {
        let digits = (0..5).map(|place| number / chars.len().pow(place) % chars.len());
        assert_split_by_the_pattern(&digits.map(|digit| chars[digit]).collect::<String>());
    }
}

#[test]
fn contractions_belong_to_the_word_before_them_in_any_case() {
    for end in ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'Re", "'lL", "'ſ"] {
        for word in ["it", "IT", "Été", "中"] {
            let text = format!("{word}{end}");
            assert_eq!(split::piece_end(&text, 0), text.len(), "{text}");
            for text in [&text, &format!("{text}x {text}' {text}e")] {
                assert_split_by_the_pattern(text);
                assert_counted_by_tiktoken(text);
            }
        }
    }
    assert_eq!(split::piece_end("it'x", 0), 2);
    assert_eq!(split::piece_end("it'r", 0), 2);
}

/// Each text is made from its number alone, and a failure prints the text. More of them:
/// `RETHREAD_CASES=100000 cargo test --release -p rethread-core random_texts`.
#[test]
fn random_texts_have_the_pieces_of_the_pattern_and_the_count_of_tiktoken() {
    let cases = std::env::var("RETHREAD_CASES").ok().and_then(|cases| cases.parse().ok());
    for seed in 0..cases.unwrap_or(5_000) {
        let text = Dice(seed).text();
        assert_split_by_the_pattern(&text);
        assert_counted_by_tiktoken(&text);
    }
}

#[test]
fn real_texts_have_the_pieces_of_the_pattern_and_the_count_of_tiktoken() {
    let texts = real_texts();
    assert!(texts.iter().map(String::len).sum::<usize>() > 1 << 20);
    for text in &texts {
        assert_split_by_the_pattern(text);
        assert_counted_by_tiktoken(text);
        let sliced: usize = slices(text).map(|slice| tiktoken().count(slice)).sum();
        assert_eq!(count(text) as usize, sliced);
    }
}

#[test]
fn scanning_and_heap_merge_a_piece_alike() {
    for seed in 0..20_000 {
        let mut dice = Dice(seed);
        let text: String = match dice.up_to(2) {
            0 => (0..1 + dice.up_to(20)).map(|_| dice.char()).collect(),
            1 => dice.pick(&["a", "=", "ab", "é", "0"]).repeat(1 + dice.up_to(40)),
            _ => format!("{}x", dice.text()),
        };
        for len in [2, 3, 15, 16, 17, 31, 63, 64] {
            if let Some(piece) = text.as_bytes().get(..len) {
                let (short, long) = merge::both_ways(piece);
                assert_eq!(short, long, "{piece:?}");
            }
        }
    }
}

#[test]
fn pieces_around_the_length_of_a_scan_have_the_count_of_tiktoken() {
    for len in [63, 64, 65, 96, 128, 129] {
        for word in ["a", "é", "ab", "中", "xq", "="] {
            let text: String = word.chars().cycle().take(len).collect();
            assert_counted_by_tiktoken(&text);
            assert_counted_by_tiktoken(&format!("{text} {text}\n"));
        }
    }
}

/// Scanning would take minutes here.
#[test]
fn an_endless_word_takes_no_quadratic_time() {
    for word in ["a", " ", "\n", "é", "中", "aB", "\u{301}", "=", "ʰA"] {
        assert_counted_by_tiktoken(&word.repeat(100_000));
    }
    assert_counted_by_tiktoken(&"a".repeat(1 << 20));
}
