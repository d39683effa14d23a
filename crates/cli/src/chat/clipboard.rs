//! The clipboard: text is written through the terminal (OSC 52), pictures are read with the
//! desktop's programs.
//!
//! A terminal accepts text for the clipboard, even over a remote connection. It never returns a
//! picture, so the desktop's own programs are used for that.

use std::io::Read;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rethread_agent::media::FileKind;
use rethread_core::limits::IMAGE_BYTES_MAX;

use crate::errors::Error;

/// Bytes of a text that terminals accept.
const TEXT_BYTES_MAX: usize = 74_000;

/// Programs that return a picture from the clipboard.
const PROGRAMS: [&[&str]; 3] = [
    &["wl-paste", "--no-newline", "--type", "image/png"],
    &["xclip", "-selection", "clipboard", "-target", "image/png", "-out"],
    &["pngpaste", "-"],
];

/// The escape sequence that writes a text to the clipboard.
pub(super) fn written(text: &str) -> Result<String, Error> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::Word {
            what: format!(
                "a terminal copies at most {TEXT_BYTES_MAX} bytes; the answer has {}",
                text.len()
            ),
            hint: "`/export FILE` writes the whole conversation",
        });
    }
    Ok(format!("\x1b]52;c;{}\x07", BASE64.encode(text)))
}

/// The picture in the clipboard, if a program for it is installed.
pub(super) fn picture() -> Option<Vec<u8>> {
    PROGRAMS.iter().find_map(|program| {
        let mut child = Command::new(program[0])
            .args(&program[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut bytes = Vec::new();
        let output = child.stdout.take()?;
        let read = output.take(IMAGE_BYTES_MAX + 1).read_to_end(&mut bytes);
        child.kill().ok();
        child.wait().ok()?;
        read.ok()?;
        let is_picture = matches!(FileKind::of_start(&bytes), Some(FileKind::Picture(_)));
        (is_picture && bytes.len() as u64 <= IMAGE_BYTES_MAX).then_some(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_is_text_to_the_terminal_and_cannot_end_the_sequence() {
        assert_eq!(written("a\x07b").expect("short"), "\x1b]52;c;YQdi\x07");
        assert!(written(&"x".repeat(TEXT_BYTES_MAX)).is_ok());
        assert!(written(&"x".repeat(TEXT_BYTES_MAX + 1)).is_err());
    }
}
