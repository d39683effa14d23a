//! Writes the tables that `src/tokens` counts with, so that the program has nothing to parse.
//!
//! The vocabulary is the one embedded in the `tiktoken` crate (published by OpenAI under the MIT
//! licence), and the classes of characters are those of `regex-syntax`, which that crate splits
//! texts with. The lock file pins both, and the output depends on nothing else.

use std::path::Path;
use std::{env, fs};

use regex_syntax::hir::{Class, HirKind};

#[path = "src/tokens/class.rs"]
mod class;
#[path = "src/tokens/layout.rs"]
mod layout;

use layout::{BUCKETS, HEAD_BYTES, Hash, Head, OFFSET_BITS, PAIRS, SLOTS};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/tokens/class.rs");
    println!("cargo::rerun-if-changed=src/tokens/layout.rs");
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(Path::new(&folder).join(name), bytes).expect("OUT_DIR can be written to");
    };

    let tokens = tokens();
    let (records, offsets) = records(&tokens);
    let (pilots, slots) = perfect_hash(&tokens, &offsets);
    write("o200k.records", &records);
    write("o200k.pilots", &pilots);
    write("o200k.slots", &le_bytes(&slots));
    write("o200k.pairs", &le_bytes(&pairs(&tokens)));

    let (blocks, classes) = blocks(&classes());
    write("o200k.blocks", &blocks);
    write("o200k.classes", &classes);
}

/// All tokens, by rank.
fn tokens() -> Vec<Vec<u8>> {
    let encoding = tiktoken::get_encoding("o200k_base").expect("tiktoken is built with o200k_base");
    (0..encoding.vocab_size() as u32).map(|rank| encoding.decode(&[rank])).collect()
}

/// The records of all tokens by rank, and the offset of each. Frequent tokens have low ranks, so
/// they share pages. At 0 is a record of length zero: empty slots point to it.
fn records(tokens: &[Vec<u8>]) -> (Vec<u8>, Vec<u32>) {
    let mut records = vec![0; 4];
    let mut offsets = Vec::with_capacity(tokens.len());
    for (rank, token) in (0_u32..).zip(tokens) {
        assert!(rank < 1 << 24 && !token.is_empty(), "token {rank} does not fit a record");
        offsets.push(u32::try_from(records.len()).expect("records are a few megabytes"));
        records.push(u8::try_from(token.len()).expect("a token has at most 255 bytes"));
        records.extend_from_slice(&rank.to_le_bytes()[..3]);
        records.extend_from_slice(token);
    }
    assert!(records.len() < 1 << OFFSET_BITS, "{} bytes of records", records.len());
    (records, offsets)
}

/// The pilots and the slots. Large buckets choose first; each takes the first pilot that leads all
/// its tokens to free slots.
fn perfect_hash(tokens: &[Vec<u8>], offsets: &[u32]) -> (Vec<u8>, Vec<u32>) {
    let mut buckets: Vec<Vec<(Hash, u32)>> = vec![Vec::new(); BUCKETS];
    for (token, offset) in tokens.iter().zip(offsets) {
        let rest = token.get(HEAD_BYTES..).unwrap_or_default();
        let hash = Head::of(token, 0, token.len()).hash(rest);
        buckets[hash.bucket()].push((hash, *offset));
    }
    let mut order: Vec<usize> = (0..BUCKETS).collect();
    order.sort_by_key(|bucket| std::cmp::Reverse(buckets[*bucket].len()));

    let (mut pilots, mut slots) = (vec![0; BUCKETS], vec![0; SLOTS]);
    for bucket in order {
        let tokens = &buckets[bucket];
        let fits = |pilot: &u8| {
            let mut taken: Vec<usize> = tokens.iter().map(|(hash, _)| hash.slot(*pilot)).collect();
            taken.sort_unstable();
            taken.is_sorted_by(|a, b| a < b) && taken.iter().all(|slot| slots[*slot] == 0)
        };
        let pilot = (0..=u8::MAX).find(fits).expect("a quarter of the slots is free");
        pilots[bucket] = pilot;
        for (hash, offset) in tokens {
            slots[hash.slot(pilot)] = hash.tag() | offset;
        }
    }
    (pilots, slots)
}

/// The ranks of the tokens of two bytes; all ones where two bytes are not a token.
fn pairs(tokens: &[Vec<u8>]) -> Vec<u32> {
    let mut pairs = vec![u32::MAX; PAIRS];
    for (rank, token) in (0..).zip(tokens) {
        if let [first, second] = token[..] {
            pairs[usize::from(u16::from_be_bytes([first, second]))] = rank;
        }
    }
    pairs
}

/// The class of every character.
fn classes() -> Vec<u8> {
    let mut classes = vec![class::OTHER; 0x11_0000];
    for (pattern, class) in [
        (r"[\p{Lu}\p{Lt}]", class::UPPER),
        (r"\p{Ll}", class::LOWER),
        (r"[\p{Lm}\p{Lo}]", class::CASELESS),
        (r"\p{M}", class::MARK),
        (r"\p{N}", class::NUMBER),
        (r"\s", class::SPACE),
        (r"[\r\n]", class::NEWLINE),
    ] {
        let parsed = regex_syntax::parse(pattern).expect("a class of characters");
        let HirKind::Class(Class::Unicode(ranges)) = parsed.kind() else {
            panic!("{pattern} is not a class of characters");
        };
        for range in ranges.iter() {
            classes[range.start() as usize..=range.end() as usize].fill(class);
        }
    }
    classes
}

/// For every 256 characters the number of their block, and the blocks: most are the same.
fn blocks(classes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut numbers, mut distinct) = (Vec::new(), Vec::<&[u8]>::new());
    for block in classes.chunks(256) {
        let number = distinct.iter().position(|known| *known == block).unwrap_or_else(|| {
            distinct.push(block);
            distinct.len() - 1
        });
        numbers.push(u8::try_from(number).expect("at most 256 different blocks"));
    }
    (numbers, distinct.concat())
}

fn le_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
