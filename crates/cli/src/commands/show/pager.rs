//! Sends long output through the user's pager, at a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

/// Where output goes.
pub(super) enum Out {
    /// To standard output.
    Direct(anstream::Stdout),
    /// To a pager, with colours if they are wanted.
    Paged {
        /// The pager.
        child: Child,
        /// Whether it gets colours.
        colours: bool,
    },
}

/// The pager, at a terminal: `RETHREAD_PAGER` or `PAGER`, otherwise `less`, which just prints what
/// fits the window. An empty variable, or `cat`, means none.
pub(super) fn open() -> Out {
    let direct = || Out::Direct(anstream::stdout());
    let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    if !io::stdout().is_terminal() || dumb {
        return direct();
    }
    let chosen = std::env::var("RETHREAD_PAGER").or_else(|_| std::env::var("PAGER"));
    let mut command = match chosen.as_deref().map(str::trim) {
        Ok("" | "cat") => return direct(),
        Ok(chosen) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", chosen]);
            shell
        }
        Err(_) => Command::new("less"),
    };
    // The output is UTF-8 in every locale.
    if std::env::var_os("LESSCHARSET").is_none() {
        command.env("LESSCHARSET", "utf-8");
    }
    // Quit if it fits, pass only colours through, leave the text on the screen.
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    match command.stdin(Stdio::piped()).spawn() {
        Ok(child) => {
            let colours =
                anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
            Out::Paged { child, colours }
        }
        Err(_) => direct(),
    }
}

impl Out {
    /// Waits until the pager is closed.
    pub(super) fn close(self) -> io::Result<()> {
        match self {
            Out::Direct(_) => Ok(()),
            Out::Paged { mut child, .. } => {
                drop(child.stdin.take());
                child.wait().map(drop)
            }
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Direct(out) => out.write(bytes),
            Out::Paged { child: Child { stdin: Some(pager), .. }, colours } => {
                let written = match colours {
                    true => pager.write_all(bytes),
                    false => anstream::adapter::strip_bytes(bytes)
                        .try_for_each(|part| pager.write_all(part)),
                };
                match written {
                    // If the user quits the pager, the rest is not needed.
                    Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
                    _ => Ok(bytes.len()),
                }
            }
            Out::Paged { .. } => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Direct(out) => out.flush(),
            Out::Paged { child: Child { stdin: Some(pager), .. }, .. } => match pager.flush() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                flushed => flushed,
            },
            Out::Paged { .. } => Ok(()),
        }
    }
}
