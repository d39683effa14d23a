//! The memory layout of the vocabulary, shared by the build script that writes it and the code that
//! reads it.
//!
//! It is a perfect hash table. A token's hash selects one of [`BUCKETS`] buckets; the byte stored
//! for that bucket, its pilot, turns the hash into one of [`SLOTS`] slots; and no two tokens have
//! the same slot. A slot is a `u32`: the offset of the token's record in the low bits, a tag taken
//! from the hash in the high bits. A record is the length of the token (one byte), its rank (three
//! bytes) and the token itself. So a lookup reads one slot and never probes, and the tag rejects
//! almost everything that is not a token before its record is read.

/// Buckets of the perfect hash: about three tokens each, so that a byte is enough for a pilot.
pub(crate) const BUCKETS: usize = 1 << 16;

/// Slots of the perfect hash. A quarter of them is empty, so pilots are found quickly.
pub(crate) const SLOTS: usize = 1 << 18;

/// Bits of a slot that are the offset of the record; the others are the tag.
pub(crate) const OFFSET_BITS: u32 = 22;

/// Entries of the table of two-byte tokens, which merging looks up most: it is indexed by the bytes.
pub(crate) const PAIRS: usize = 1 << 16;

/// Bytes of a token that are hashed and compared at once. Few tokens are longer.
pub(crate) const HEAD_BYTES: usize = 16;

/// The first bytes of a token, with zeros after its end, and how long it is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Head {
    pub(crate) bytes: u128,
    pub(crate) len: usize,
}

impl Head {
    /// The head of the `len` bytes of `text` that begin at `from`.
    #[inline]
    pub(crate) fn of(text: &[u8], from: usize, len: usize) -> Head {
        let rest = &text[from..];
        let bytes = u128::from_le_bytes(match rest.first_chunk() {
            Some(bytes) => *bytes,
            None => {
                let mut bytes = [0; HEAD_BYTES];
                bytes[..rest.len()].copy_from_slice(rest);
                bytes
            }
        });
        Head { bytes: bytes & MASKS[len.min(HEAD_BYTES)], len }
    }

    /// A hash of the first bytes only.
    #[inline]
    pub(crate) fn mixed(self) -> u64 {
        let (low, high) = (self.bytes as u64, (self.bytes >> 64) as u64);
        fold(low ^ 0x9E37_79B9_7F4A_7C15, high ^ 0xD1B5_4A32_D192_ED03)
    }

    /// The hash of the token whose bytes after this head are `rest`.
    #[inline]
    pub(crate) fn hash(self, rest: &[u8]) -> Hash {
        let mut hash = self.mixed();
        for part in rest.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            hash = fold(hash ^ u64::from_le_bytes(bytes), 0xA24B_AED4_963E_E407);
        }
        Hash(fold(hash ^ self.len as u64, 0x8CB9_2BA7_2F3D_8DD7))
    }
}

/// By length: ones where a token has bytes.
const MASKS: [u128; HEAD_BYTES + 1] = {
    let mut masks = [u128::MAX; HEAD_BYTES + 1];
    let mut len = 0;
    while len < HEAD_BYTES {
        masks[len] = (1 << (len * 8)) - 1;
        len += 1;
    }
    masks
};

/// The hash of a token.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    /// The bucket whose pilot leads to the slot.
    #[inline]
    pub(crate) fn bucket(self) -> usize {
        (self.0 >> (u64::BITS - BUCKETS.ilog2())) as usize
    }

    /// The slot of the token, given the pilot of its bucket.
    #[inline]
    pub(crate) fn slot(self, pilot: u8) -> usize {
        let mixed = self.0 ^ u64::from(pilot).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        (mixed.wrapping_mul(0xC4CE_B9FE_1A85_EC53) >> (u64::BITS - SLOTS.ilog2())) as usize
    }

    /// The tag of the token, in the bits of a slot that hold it.
    #[inline]
    pub(crate) fn tag(self) -> u32 {
        (self.0 as u32) << OFFSET_BITS
    }
}

/// Multiplies, and mixes both halves of the product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
