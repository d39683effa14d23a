//! Ctrl-G: opens the line in the user's editor, `$VISUAL` or `$EDITOR`.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Chat;
use super::screen::Screen;
use crate::errors::Error;

/// The default editor.
const USUAL: &str = "vi";

/// Bytes of a text that is read back: as many as a line may have.
const BYTES_MAX: u64 = 4 << 20;

/// Names that are tried for the file.
const TRIES: u32 = 100;

/// A temporary file, removed when this is dropped.
struct Draft(PathBuf);

impl Draft {
    /// A file that only the user can read, with this text.
    fn new(text: &str) -> std::io::Result<Draft> {
        let mut failed = None;
        for number in 0..TRIES {
            let name = format!("rethread-{}-{number}.md", std::process::id());
            let path = std::env::temp_dir().join(name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    let draft = Draft(path);
                    file.write_all(text.as_bytes())?;
                    return Ok(draft);
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| std::io::ErrorKind::AlreadyExists.into()))
    }

    fn text(&self) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        fs::File::open(&self.0)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(std::io::Error::other("the text is longer than 4 MiB"));
        }
        let text = String::from_utf8(bytes).map_err(std::io::Error::other)?;
        // Editors end the last line.
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // An editor may have renamed it.
        fs::remove_file(&self.0).ok();
    }
}

impl Chat {
    /// Opens the line in an editor, and reads back the result.
    pub(super) async fn open_editor(&mut self, screen: &mut Screen) -> Result<(), Error> {
        let named = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
        let program = named.filter(|program| !program.trim().is_empty()).unwrap_or(USUAL.into());
        let draft = Draft::new(&self.editor.buffer.text())?;
        screen.end("")?;
        self.input.give_away();
        let (shell, path) = (format!("{program} \"$1\""), draft.0.clone());
        let ended = tokio::task::spawn_blocking(move || run(&shell, &path)).await;
        self.input.prompt();
        // A Ctrl-C in the editor was meant for it.
        tokio::select! {
            biased;
            _ = self.signals.interrupt.recv() => {}
            () = std::future::ready(()) => {}
        }
        let failed = |what: String| Error::Word {
            what: format!("the editor `{program}` {what}; the line is unchanged"),
            hint: "set $VISUAL or $EDITOR to your editor",
        };
        match ended {
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(status)) => return Err(failed(format!("exited with {status}"))),
            Ok(Err(error)) => return Err(failed(format!("could not be started: {error}"))),
            Err(error) => return Err(failed(error.to_string())),
        }
        let text = draft.text().map_err(|error| failed(format!("left no text: {error}")))?;
        self.editor.buffer = self.editor.buffer.changed_to(&text);
        Ok(())
    }
}

fn run(shell: &str, path: &Path) -> std::io::Result<std::process::ExitStatus> {
    Command::new("sh").args(["-c", shell, "sh"]).arg(path).status()
}
