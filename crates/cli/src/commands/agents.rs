//! `agents`: who can answer.

use std::process::ExitCode;

use serde_json::json;

use super::{Desk, Done};
use crate::chat::setup::agents;
use crate::out::{clean, fit, line, pad};

pub(super) fn run(desk: &Desk) -> Done {
    let agents = agents(desk)?;
    if desk.global.json {
        let all: Vec<_> = agents.iter().collect();
        crate::out::json(&json!({ "agents": all }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = agents.iter().map(|agent| agent.name.len()).max().unwrap_or(0);
    for agent in agents.iter() {
        line(format_args!(
            "\x1b[1m{}\x1b[0m  {}  \x1b[2m{}\x1b[0m",
            pad(&agent.name, width),
            fit(&agent.description, 90),
            clean(&agent.path)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
