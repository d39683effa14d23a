//! Long output goes through the person's pager, at a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

/// Where output goes.
pub(super) enum Out {
    /// To standard output.
    Direct(anstream::Stdout),
    /// To a pager, with colours where the person wants them.
    Paged {
        /// The pager.
        child: Child,
        /// Whether it gets colours.
        colours: bool,
    },
}

/// The pager, where somebody reads: `RETHREAD_PAGER` or `PAGER`, else `less`, which leaves alone
/// what fits the window. An empty variable, or one that says `cat`, means none.
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
    // Quit if it fits, pass colours on and nothing else, leave what was read on the screen.
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
    /// Waits until the person has read it.
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
                    // Who has read enough leaves the pager, and the rest is of no use.
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
