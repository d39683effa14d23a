//! Bytes that belong to a session and are not text: attachments, and earlier versions of files that
//! a tool changed.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The id of a blob: its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(pub [u8; 32]);

/// Text that is not a valid SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a SHA-256: 64 hexadecimal digits")]
pub struct BadBlobId {
    /// The text.
    pub given: String,
}

/// A blob of a session, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct BlobInfo {
    pub id: BlobId,
    /// Its size in bytes.
    pub size: u64,
}

impl BlobId {
    /// The id of these bytes.
    pub fn of(bytes: &[u8]) -> BlobId {
        BlobId(Sha256::digest(bytes).into())
    }
}

impl std::fmt::Display for BlobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for BlobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlobId({self})")
    }
}

impl std::str::FromStr for BlobId {
    type Err = BadBlobId;

    fn from_str(text: &str) -> Result<BlobId, BadBlobId> {
        let bad = || BadBlobId { given: text.chars().take(80).collect() };
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut id = [0; 32];
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| bad())?;
        }
        Ok(BlobId(id))
    }
}

impl Serialize for BlobId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlobId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<BlobId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_as_64_digits_and_read_back() {
        let id = BlobId::of(b"");
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(id.to_string(), text);
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(text.to_uppercase().parse(), Ok(id));
        for bad in ["", "e3b0", &text[1..], &text.replace('e', "g"), &format!("{}é", &text[2..])] {
            assert!(bad.parse::<BlobId>().is_err(), "{bad}");
        }
    }
}
