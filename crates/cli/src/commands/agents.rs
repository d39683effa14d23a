//! `agents`: lists the agents.

use std::process::ExitCode;

use serde_json::json;

use super::{Cli, Done};
use crate::args::Agents;
use crate::hosting::files_of;
use crate::out::{clean, fit, line, note, pad};

pub(super) fn run(cli: &Cli, args: &Agents) -> Done {
    let (mut agents, mut untrusted) = cli.agents()?;
    let mut commands = cli.own_commands()?.1;
    if args.trust && !(untrusted.is_empty() && commands.is_empty()) {
        cli.folder_trust().trust(&[files_of(&untrusted), commands].concat())?;
        (agents, untrusted) = cli.agents()?;
        commands = cli.own_commands()?.1;
    }
    if cli.global.json {
        let all: Vec<_> = agents.iter().collect();
        crate::out::json(&json!({
            "agents": all, "untrusted": untrusted, "untrusted_commands": commands,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Agents that only the program uses cannot be chosen.
    let shown = || agents.iter().filter(|agent| !agent.is_internal());
    let width = shown().map(|agent| agent.name.len()).max().unwrap_or(0);
    for agent in shown() {
        line(format_args!(
            "\x1b[1m{}\x1b[0m  {}  \x1b[2m{}\x1b[0m",
            pad(&agent.name, width),
            fit(&agent.description, 90),
            clean(&agent.path)
        ))?;
    }
    for agent in &untrusted {
        note(format_args!(
            "{} belongs to this project and is not trusted yet, so it is not used: `rethread agents --trust`",
            agent.shown()
        ));
    }
    for file in &commands {
        note(format_args!(
            "{} belongs to this project and is not trusted yet, so it is not used: `rethread agents --trust`",
            clean(&file.path.display().to_string())
        ));
    }
    Ok(ExitCode::SUCCESS)
}
