//! Hashes of names and lines, so that what was shown can be remembered without its text.
//!
//! The hashes are kept in memory only. Collisions by chance are practically impossible; someone who
//! constructs one hides a line of their own output from the model.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map and a set keyed by such hashes.
pub(super) type HashedMap<T> = HashMap<u64, T, BuildHasherDefault<IdentityHasher>>;
pub(super) type HashedSet = HashSet<u64, BuildHasherDefault<IdentityHasher>>;

const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03];

/// The hash of a text. Every result is hashed line by line and name by name when it is appended, so
/// this processes eight bytes at a time.
pub(super) fn hash_of(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut state = FACTORS[0] ^ bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = mix(state ^ u64::from_le_bytes(*word), FACTORS[1]);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(state ^ u64::from_le_bytes(last), FACTORS[0])
}

/// Both halves of the product, so that every bit of the input reaches every bit of the result.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// The hasher for maps whose keys are already hashes.
#[derive(Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// The hasher for maps whose keys are a few numbers.
#[derive(Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number ^ FACTORS[0], FACTORS[1]);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_texts_have_different_hashes() {
        let mut all: HashedSet = HashedSet::default();
        let mut texts = 0;
        for length in 0..40 {
            for at in 0..=length {
                let text = format!("{}x{}", "a".repeat(at), "a".repeat(length - at));
                all.insert(hash_of(&text));
                texts += 1;
            }
            // Trailing zeros make a difference.
            all.insert(hash_of(&"\0".repeat(length)));
            texts += 1;
        }
        for n in 0..100_000 {
            all.insert(hash_of(&format!("name_{n}")));
            texts += 1;
        }
        assert_eq!(all.len(), texts);
    }
}
