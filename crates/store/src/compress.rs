//! Compression of the bodies of entries, for every database.
//!
//! Most messages are too short to compress well on their own, but their phrases and the JSON around
//! them are common. The dictionary, which is part of the format, contains such phrases. With it, a
//! message of a few hundred bytes shrinks to little more than half, in half the time, because no
//! tables have to be built. A frame names the dictionary it needs; frames without one are read too.
//! A frame ends with a checksum of its content, four bytes, so that changes to data without a
//! fingerprint are detected as well. Older frames have no checksum.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

/// Common phrases of messages. It never changes, because everything compressed with it needs it to
/// be read.
const WORDS: &[u8] = include_bytes!("words.dict");

/// Texts shorter than this are not compressed: it would save less than it costs.
const BYTES_MIN: usize = 64;

/// Texts up to this length are compressed with the dictionary and small tables; clearing large
/// tables takes longer than compressing a short text.
const SHORT_BYTES_MAX: usize = 4 << 10;

/// The fastest level that still halves ordinary text.
const LEVEL: i32 = 1;

/// A text as one frame, if that is shorter.
pub(crate) fn compress(plain: &[u8]) -> Option<Vec<u8>> {
    static SHORT: Tools<Compressor<'static>> = Tools::new();
    static LONG: Tools<Compressor<'static>> = Tools::new();
    if plain.len() < BYTES_MIN {
        return None;
    }
    let short = || {
        let mut new = Compressor::with_dictionary(LEVEL, WORDS)?;
        new.set_parameter(CParameter::HashLog(12))?;
        new.include_checksum(true)?;
        Ok(new)
    };
    let long = || {
        let mut new = Compressor::new(LEVEL)?;
        new.include_checksum(true)?;
        Ok(new)
    };
    let packed = match plain.len() <= SHORT_BYTES_MAX {
        true => SHORT.with(short, |tool| tool.compress(plain)),
        false => LONG.with(long, |tool| tool.compress(plain)),
    };
    packed.ok().filter(|packed| packed.len() < plain.len())
}

/// The text of a frame, of at most `size` bytes.
pub(crate) fn decompress(packed: &[u8], size: usize) -> io::Result<Vec<u8>> {
    static TOOLS: Tools<Decompressor<'static>> = Tools::new();
    TOOLS.with(|| Decompressor::with_dictionary(WORDS), |tool| tool.decompress(packed, size))
}

/// Compressors and decompressors, which take longer to set up than to use once. They are pooled
/// rather than thread-local, because many threads live for one batch only.
struct Tools<T>(Mutex<Vec<T>>);

impl<T> Tools<T> {
    /// How many are pooled; additional threads create their own.
    const KEPT: usize = 8;

    const fn new() -> Tools<T> {
        Tools(Mutex::new(Vec::new()))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(
        &self,
        make: impl FnOnce() -> io::Result<T>,
        work: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let found = self.idle().pop();
        let mut tool = match found {
            Some(tool) => tool,
            None => make()?,
        };
        let done = work(&mut tool);
        let mut idle = self.idle();
        if idle.len() < Self::KEPT {
            idle.push(tool);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_dictionary_is_the_one_that_rows_were_packed_with() {
        let digest: String = Sha256::digest(WORDS).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digest, "e08cacda084744966565a5be4b14eb85af62cd33247508cc4b24dce4dda6b34c");
    }

    #[test]
    fn what_is_packed_is_unpacked_the_same_at_every_length() {
        let text = r#"{"role":"user","content":"Why is it déjà vu? "#.repeat(400);
        let lengths = [0, 1, BYTES_MIN - 1, BYTES_MIN, BYTES_MIN + 1, 255, 256, 1_000];
        let around = [SHORT_BYTES_MAX - 1, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, text.len()];
        for length in lengths.into_iter().chain(around) {
            let plain = &text.as_bytes()[..length];
            match compress(plain) {
                Some(packed) => {
                    assert!(packed.len() < length, "{length} bytes became {}", packed.len());
                    assert_eq!(decompress(&packed, length).expect("unpacked"), plain);
                }
                None => assert!(length < BYTES_MIN, "{length} bytes were not packed"),
            }
        }
    }

    #[test]
    fn what_does_not_get_shorter_stays_as_it_is() {
        let mut state = 7_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(10_000)
        .collect();
        for length in [BYTES_MIN, 1_000, 10_000] {
            assert_eq!(compress(&noise[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_message_of_two_lines_takes_two_thirds_of_its_length_at_most() {
        let plain = b"\n{\"role\":\"user\",\"content\":\"Can you check why the test of the parser \
            fails on the server, and fix it? Do not change the format of the file.\"}";
        let packed = compress(plain).expect("shorter");
        assert!(packed.len() * 3 <= plain.len() * 2, "{} of {}", packed.len(), plain.len());
        let alone = zstd::bulk::compress(plain, LEVEL).expect("packed");
        assert!(packed.len() < alone.len() * 3 / 4, "{} without the dictionary", alone.len());
    }

    #[test]
    fn a_frame_without_the_dictionary_is_read_as_well() {
        let plain = "said before there was a dictionary; ".repeat(20).into_bytes();
        let packed = zstd::bulk::compress(&plain, LEVEL).expect("packed");
        assert_eq!(decompress(&packed, plain.len()).expect("unpacked"), plain);
    }

    #[test]
    fn a_frame_of_another_dictionary_or_none_at_all_is_an_error() {
        let mut other = WORDS.to_vec();
        other[4] ^= 1; // The number of the dictionary.
        let plain = "somebody else's words, and then some more of them; ".repeat(9).into_bytes();
        let mut compressor = Compressor::with_dictionary(LEVEL, &other).expect("a compressor");
        let packed = compressor.compress(&plain).expect("packed");
        assert!(decompress(&packed, plain.len()).is_err());
        assert!(decompress(b"no frame", 100).is_err());
        assert!(decompress(&compress(&plain).expect("packed"), 10).is_err(), "longer than it says");
    }
}
