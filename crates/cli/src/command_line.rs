//! The command line as clap parses it, and as `--help` and the manual pages show it.
//!
//! Every command accepts the global options, but only `rethread --help` describes them: the help of
//! a command is about that command, and ends with one line that refers to the others.

use clap::{Command, CommandFactory, FromArgMatches};

use crate::args::Args;

const GLOBAL_OPTIONS: &str =
    "Global options (--store, --owner, --workspace, --config, --json): see `rethread --help`.";

/// The same for commands that describe `--workspace` themselves.
const OTHER_GLOBAL_OPTIONS: &str =
    "Global options (--store, --owner, --config, --json): see `rethread --help`.";

/// Parses the arguments of this process.
///
/// # Errors
///
/// Wrong usage, `--help` and `--version`: the error prints the text to show.
pub(crate) fn parse() -> Result<Args, clap::Error> {
    let mut matches = readable().try_get_matches()?;
    Args::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut readable()))
}

/// With the global options visible in every command, for shell completions.
pub(crate) fn full() -> Command {
    Args::command()
}

/// With the global options visible in the root command only, for people.
pub(crate) fn readable() -> Command {
    let root = full();
    let hidden: Vec<clap::Arg> = root
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .map(|arg| arg.clone().hide(true))
        .collect();
    // clap passes a global option down only if the subcommand does not define one with this name.
    root.mut_subcommands(|command| {
        let filters = FILTER_BY_FOLDER.contains(&command.get_name());
        let command = command.args(&hidden);
        match filters {
            true => point_to_global_options(command, OTHER_GLOBAL_OPTIONS)
                .mut_arg("workspace", |arg| {
                    arg.hide(false).help(ONLY_THIS_FOLDER).help_heading(None::<&str>)
                }),
            false => point_to_global_options(command, GLOBAL_OPTIONS),
        }
    })
}

/// Commands for which `--workspace` means something else than where a new session works.
const FILTER_BY_FOLDER: [&str; 3] = ["list", "search", "stats"];

const ONLY_THIS_FOLDER: &str = "Only sessions of this folder [default: all folders]";

fn point_to_global_options(command: Command, pointer: &'static str) -> Command {
    let more = command.get_after_help().map(|text| format!("\n\n{text}")).unwrap_or_default();
    command
        .after_help(format!("{pointer}{more}"))
        .mut_subcommands(|command| point_to_global_options(command, pointer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command below `command`, with its full name.
    fn below(command: &Command, path: &str) -> Vec<(String, Command)> {
        let children = command.get_subcommands().filter(|child| child.get_name() != "help");
        children
            .flat_map(|child| {
                let path = format!("{path} {}", child.get_name());
                let mut found = below(child, &path);
                found.push((path, child.clone()));
                found
            })
            .collect()
    }

    #[test]
    fn only_the_root_help_describes_the_global_options() {
        let mut root = readable();
        root.build();
        let help = root.render_long_help().to_string();
        assert!(help.contains("Global options:") && help.contains("--store <URL>"), "{help}");
        let commands = below(&root, "rethread");
        assert!(commands.len() > 28, "{}", commands.len());
        for (path, mut command) in commands {
            let help = command.render_long_help().to_string();
            assert!(!help.contains("--store <URL>"), "{path}:\n{help}");
            assert_eq!(help.matches("\nGlobal options (").count(), 1, "{path}:\n{help}");
            assert_eq!(help.matches("--workspace").count(), 1, "{path}:\n{help}");
        }
    }

    #[test]
    fn a_global_option_may_come_before_or_after_any_command() {
        for line in [
            "rethread --store a.db list",
            "rethread list --store a.db",
            "rethread trash --store a.db list",
            "rethread trash list --store a.db",
        ] {
            let matches = readable().try_get_matches_from(line.split(' '));
            let mut matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
            let args = Args::from_arg_matches_mut(&mut matches).expect("arguments");
            assert_eq!(args.global.store.as_deref(), Some("a.db"), "{line}");
        }
    }
}
