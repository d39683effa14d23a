//! `completions` and `man`: the command line, described for shells and for `man`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::Shell;
use clap_mangen::Man;

use super::Done;
use crate::command_line;
use crate::errors::Error;

pub(super) fn completions(shell: Shell) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line::full(), "rethread", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn run(out: Option<PathBuf>) -> Done {
    let mut root = command_line::readable().disable_help_subcommand(true);
    root.build();
    match out {
        Some(folder) => {
            std::fs::create_dir_all(&folder)?;
            write_pages(root, &folder)?;
        }
        None => std::io::stdout().lock().write_all(page(&Man::new(root))?.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands.
fn write_pages(command: clap::Command, folder: &Path) -> Result<(), Error> {
    for subcommand in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        write_pages(subcommand.clone(), folder)?;
    }
    let man = Man::new(command);
    std::fs::write(folder.join(man.get_filename()), page(&man)?)?;
    Ok(())
}

/// A page. `clap_mangen` puts the text after the options under the heading EXTRA, which readers of
/// manual pages do not know.
fn page(man: &Man) -> Result<String, Error> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    Ok(String::from_utf8_lossy(&page)
        .replace("\n.SH EXTRA\nExamples:\n", "\n.SH EXAMPLES\n")
        .replace("\n.SH EXTRA\n", "\n.SH NOTES\n")
        .replace("see `rethread \\-\\-help`", "see rethread(1)"))
}
