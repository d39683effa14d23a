//! How o200k splits a text into pieces before it looks for tokens.
//!
//! No token spans two pieces. The encoding defines them by a regular expression, whose alternatives
//! are tried in this order:
//!
//! ```text
//! 1  [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! 2  [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! 3  \p{N}{1,3}
//! 4   ?[^\s\p{L}\p{N}]+[\r\n/]*
//! 5  \s*[\r\n]+
//! 6  \s+(?!\S)
//! 7  \s+
//! ```
//!
//! This is the same, written by hand: compiling the expression takes longer than counting a message,
//! and the lookahead needs a backtracking engine. Every character matches one of the alternatives,
//! so a piece starts where the previous one ends.

use super::class::{CASELESS, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, UPPER};

/// The block of [`CLASSES`] for every 256 characters.
static BLOCKS: &[u8; 0x1100] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.blocks"));
static CLASSES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.classes"));

/// The class of each ASCII character; none for the bytes of other characters.
static ASCII: [u8; 256] = {
    let mut ascii = [0; 256];
    let (classes, _) = ascii.split_at_mut(128);
    classes.copy_from_slice(CLASSES.split_at(128).0);
    ascii
};

/// The characters of the first half of a word, and of the second.
const UPPERS: u8 = UPPER | CASELESS | MARK;
const LOWERS: u8 = LOWER | CASELESS | MARK;
const LETTERS: u8 = UPPER | LOWER | CASELESS;
/// Characters that belong to the word after them.
const LEADS: u8 = MARK | SPACE | OTHER;
const SYMBOLS: u8 = MARK | OTHER;
const SPACES: u8 = SPACE | NEWLINE;

/// The end of the piece that starts at `from`, which is not the end of the text.
#[inline]
pub(super) fn piece_end(text: &str, from: usize) -> usize {
    let (class, len) = class_at(text, from);
    if class & (LETTERS | LEADS) != 0
        && let Some(end) = words_end(text, from, class, len)
    {
        return contraction_end(text.as_bytes(), end);
    }
    if class & NUMBER != 0 {
        return number_end(text, from + len);
    }
    let symbols = if text.as_bytes()[from] == b' ' { from + 1 } else { from };
    let end = run_end(text, symbols, SYMBOLS);
    if end > symbols {
        let tail = &text.as_bytes()[end..];
        return end + tail.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b'/')).count();
    }
    space_end(text, from)
}

/// Alternatives 1 and 2 without the contraction. `len` is the length of the first character.
#[inline]
fn words_end(text: &str, from: usize, class: u8, len: usize) -> Option<usize> {
    let mut letters = from;
    if class & LEADS != 0 {
        letters += len;
        // A mark is a leading character or part of the word.
        let end = word_end(text, letters)
            .or_else(|| if class & MARK != 0 { word_end(text, from) } else { None });
        if end.is_some() {
            return end;
        }
    } else if let Some(end) = word_end(text, from) {
        return Some(end);
    }
    // Only words in capitals are left for alternative 2: anything else matched alternative 1.
    let end = run_end(text, letters, UPPER);
    (end > letters).then_some(end)
}

/// The end of `UPPERS*LOWERS+`. Both are greedy: if no lowercase letter follows the first, it
/// backtracks to the last character that the second matches too.
#[inline]
fn word_end(text: &str, from: usize) -> Option<usize> {
    let (mut at, mut end) = (from, None);
    loop {
        let (class, len) = class_at(text, at);
        if class & UPPERS == 0 {
            return if class & LOWER != 0 { Some(run_end(text, at + len, LOWERS)) } else { end };
        }
        at += len;
        if class & LOWERS != 0 {
            end = Some(at);
        }
    }
}

/// The end of the contraction at `at`, or `at` if there is none. Case is ignored by the rules of
/// Unicode: the long s is an s.
#[inline]
fn contraction_end(text: &[u8], at: usize) -> usize {
    if text.get(at) != Some(&b'\'') {
        return at;
    }
    let letter = |place: usize| text.get(at + place).map(u8::to_ascii_lowercase);
    match (letter(1), letter(2)) {
        (Some(b's' | b't' | b'm' | b'd'), _) => at + 2,
        (Some(b'r' | b'v'), Some(b'e')) | (Some(b'l'), Some(b'l')) => at + 3,
        (Some(first), Some(second)) if "ſ".as_bytes() == [first, second] => at + 3,
        _ => at,
    }
}

/// The end of a number whose second digit would be at `second`: at most three digits.
#[inline]
fn number_end(text: &str, second: usize) -> usize {
    let mut at = second;
    for _ in 0..2 {
        let (class, len) = class_at(text, at);
        if class & NUMBER == 0 {
            break;
        }
        at += len;
    }
    at
}

/// Alternatives 5 to 7: white space up to its last line break; if there is none, all but the last
/// character, which belongs to what follows; all of it at the end of the text.
#[inline]
fn space_end(text: &str, from: usize) -> usize {
    let (mut at, mut last, mut line) = (from, from, None);
    loop {
        let (class, len) = class_at(text, at);
        if class & SPACES == 0 {
            break;
        }
        last = at;
        at += len;
        if class & NEWLINE != 0 {
            line = Some(at);
        }
    }
    match line {
        Some(line) => line,
        None if at == text.len() || last == from => at,
        None => last,
    }
}

/// The end of the run of characters of these classes that starts at `from`.
#[inline]
fn run_end(text: &str, from: usize, classes: u8) -> usize {
    let mut at = from;
    loop {
        while let Some(&byte) = text.as_bytes().get(at)
            && ASCII[usize::from(byte)] & classes != 0
        {
            at += 1;
        }
        let (class, len) = class_at(text, at);
        if class & classes == 0 {
            return at;
        }
        at += len;
    }
}

/// The class of the character at `at` and its length in bytes; no class at the end of the text.
#[inline]
pub(super) fn class_at(text: &str, at: usize) -> (u8, usize) {
    match text.as_bytes().get(at) {
        Some(&byte) if byte.is_ascii() => (ASCII[usize::from(byte)], 1),
        Some(_) => wide_class_at(text, at),
        None => (0, 0),
    }
}

#[inline(never)]
fn wide_class_at(text: &str, at: usize) -> (u8, usize) {
    let Some(char) = text[at..].chars().next() else { return (0, 0) };
    let code = char as usize;
    let block = usize::from(BLOCKS[code >> 8]);
    (CLASSES[block << 8 | code & 0xFF], char.len_utf8())
}
