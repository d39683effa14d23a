//! `completions` and `man`: the command line, described for shells and for `man`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::Shell;

use super::Done;
use crate::command_line;

pub(super) fn completions(shell: Shell) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line::full(), "rethread", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn run(out: Option<PathBuf>) -> Done {
    match out {
        Some(folder) => {
            std::fs::create_dir_all(&folder)?;
            clap_mangen::generate_to(command_line::readable(), &folder)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command_line::readable()).render(&mut page)?;
            std::io::stdout().lock().write_all(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
