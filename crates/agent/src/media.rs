//! Detects the type of a file from its bytes. Its name and the sender's claims are ignored.

use rethread_core::limits::{DOCUMENT_BYTES_MAX, IMAGE_BYTES_MAX};

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A picture that models accept, and its media type.
    Picture(&'static str),
    /// A PDF.
    Pdf,
    /// Text in UTF-8.
    Text,
    /// Anything else.
    Other,
}

impl FileKind {
    /// What these bytes are.
    pub fn of(bytes: &[u8]) -> FileKind {
        match FileKind::of_start(bytes) {
            Some(kind) => kind,
            None if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() => FileKind::Text,
            None => FileKind::Other,
        }
    }

    /// The kind of a file, if its first bytes identify it.
    pub fn of_start(bytes: &[u8]) -> Option<FileKind> {
        Some(match bytes {
            [0x89, b'P', b'N', b'G', ..] => FileKind::Picture("image/png"),
            [0xff, 0xd8, 0xff, ..] => FileKind::Picture("image/jpeg"),
            [b'G', b'I', b'F', b'8', ..] => FileKind::Picture("image/gif"),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
                FileKind::Picture("image/webp")
            }
            [b'%', b'P', b'D', b'F', b'-', ..] => FileKind::Pdf,
            _ => return None,
        })
    }

    /// The largest size that a model accepts as an attachment; `None` if it accepts it as text or
    /// not at all.
    pub fn bytes_max(self) -> Option<u64> {
        match self {
            FileKind::Picture(_) => Some(IMAGE_BYTES_MAX),
            FileKind::Pdf => Some(DOCUMENT_BYTES_MAX),
            FileKind::Text | FileKind::Other => None,
        }
    }
}
