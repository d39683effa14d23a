//! Photos and documents that are sent to the bot.
//!
//! They become attachments of the session even if the current model cannot read them: another may
//! later. The kind of a file is determined from its bytes, not from what its sender says.

use rethread_agent::media::FileKind;
use rethread_core::{Block, SessionId};

use crate::api::ApiError;
use crate::handle_update::{UpdateError, UpdateHandler};
use crate::limits::{FILE_BYTES_MAX, TEXT_FILE_BYTES_MAX};
use crate::markup::Rich;
use crate::send::Waits;
use crate::update::SentFile;

/// The result of fetching a file.
pub(crate) enum Taken {
    /// It is stored with the session, and these are the blocks of its message.
    Stored {
        blocks: Vec<Block>,
        /// Why the model is not sent it.
        unseen: Option<Rich>,
    },
    /// It is not available, for this reason.
    Refused(Rich),
}

impl UpdateHandler {
    /// Fetches a file and stores it with a session.
    pub(crate) async fn take_file(
        &self,
        session: SessionId,
        file: &SentFile,
    ) -> Result<Taken, UpdateError> {
        if file.size.is_some_and(|size| size > FILE_BYTES_MAX) {
            return Ok(Taken::Refused(too_large(file)));
        }
        let mut waits = Waits::default();
        let bytes = loop {
            let failed = match self.state.api.file(&file.id).await {
                Ok(bytes) => break bytes,
                Err(failed) => failed,
            };
            match failed {
                ApiError::TooLarge => return Ok(Taken::Refused(too_large(file))),
                ApiError::Refused { code: 400 | 404, .. } if failed.says("too big") => {
                    return Ok(Taken::Refused(too_large(file)));
                }
                ApiError::Refused { code: 400..=428, .. } | ApiError::Nonsense { .. } => {
                    (self.state.warn)(&format!("a file was not fetched: {failed}"));
                    let text = "Telegram did not deliver the file. Your message was not stored; send it again.";
                    return Ok(Taken::Refused(Rich::plain(text)));
                }
                _ => {}
            }
            tokio::select! {
                () = self.state.stopping.cancelled() => return Err(UpdateError::Stopping),
                () = tokio::time::sleep(waits.next(&failed)) => {}
            }
        };
        let kind = FileKind::of(&bytes);
        let (stored, size) = (bytes.clone(), bytes.len() as u64);
        let blob = self.with(move |sessions| sessions.put_blob(session, &stored)).await?;
        let session = self.with(move |sessions| sessions.get(session)).await?;
        let model = self.viewer(Some(&session)).await?.responder.model;
        let name = file.name.as_deref();
        let (what, seen) = match kind {
            FileKind::Picture(_) => ("pictures", model.sees.takes_image(size)),
            FileKind::Pdf => ("PDFs", model.sees.takes_document(size)),
            FileKind::Text => ("", true),
            FileKind::Other => ("files of this kind", false),
        };
        let unseen = (!seen).then(|| {
            let shown = Rich::default().bold(name.unwrap_or("The picture"));
            let why = match kind {
                FileKind::Picture(_) if model.sees.images => "it is too large for the model".into(),
                FileKind::Pdf if model.sees.documents => "it is too large for the model".into(),
                _ => format!("{} cannot read {what}", model.id()),
            };
            shown.and(format!(" is kept with this session, but {why}."))
        });
        let blocks = match kind {
            FileKind::Picture(media_type) => vec![Block::image(blob, media_type)],
            FileKind::Pdf => vec![Block::document(blob, "application/pdf", name)],
            FileKind::Text => {
                let text = String::from_utf8_lossy(&bytes);
                vec![Block::file(blob, "text/plain", name), quoted(name, &text)]
            }
            FileKind::Other => {
                let media_type = file.media_type.as_deref().unwrap_or("application/octet-stream");
                let told = format!("[File: {}, {size} bytes, not readable here]\n\n", named(name));
                vec![Block::file(blob, media_type, name), Block::prefix(told)]
            }
        };
        Ok(Taken::Stored { blocks, unseen })
    }
}

fn named(name: Option<&str>) -> &str {
    name.filter(|name| !name.is_empty()).unwrap_or("without a name")
}

/// A text file as the model sees it: before the person's text.
fn quoted(name: Option<&str>, text: &str) -> Block {
    let shown = &text[..text.floor_char_boundary(TEXT_FILE_BYTES_MAX)];
    let cut = match shown.len() < text.len() {
        true => format!("\n[cut: {} of {} bytes]", shown.len(), text.len()),
        false => String::new(),
    };
    Block::prefix(format!("[File: {}]\n\n{shown}{cut}\n\n[End of file]\n\n", named(name)))
}

fn too_large(file: &SentFile) -> Rich {
    let (name, most) = (file.name.as_deref().unwrap_or("The file"), FILE_BYTES_MAX >> 20);
    let size = match file.size {
        Some(size) => format!("has {} MB", size >> 20),
        None => "is too large".into(),
    };
    Rich::default().bold(name).and(format!(
        " {size}; a bot can read at most {most} MB. Your message was not stored: send a smaller file, or only the text."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_file_is_determined_from_its_bytes() {
        assert_eq!(FileKind::of(b"\x89PNG\r\n\x1a\n"), FileKind::Picture("image/png"));
        assert_eq!(FileKind::of(b"\xff\xd8\xff\xe0"), FileKind::Picture("image/jpeg"));
        assert_eq!(FileKind::of(b"GIF89a"), FileKind::Picture("image/gif"));
        assert_eq!(FileKind::of(b"RIFF\x01\x02\x03\x04WEBPVP8 "), FileKind::Picture("image/webp"));
        assert_eq!(FileKind::of(b"%PDF-1.7"), FileKind::Pdf);
        assert_eq!(FileKind::of("fn main() {} // é".as_bytes()), FileKind::Text);
        assert_eq!(FileKind::of(b""), FileKind::Text);
        assert_eq!(FileKind::of(b"PK\x03\x04\x00"), FileKind::Other);
        assert_eq!(FileKind::of(b"\xc3("), FileKind::Other);
    }

    #[test]
    fn a_long_text_file_is_cut_between_characters_and_says_so() {
        for (length, cut) in [(TEXT_FILE_BYTES_MAX, false), (TEXT_FILE_BYTES_MAX + 1, true)] {
            let text = "x".repeat(length - 2) + "é";
            let block = serde_json::to_string(&quoted(Some("a.txt"), &text)).expect("JSON");
            assert_eq!(block.contains("[cut: "), cut, "{length}");
            assert_eq!(block.contains('é'), !cut, "{length}");
        }
    }
}
