//! `doctor`: every session checked, what can be derived repaired, what was done said.

use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use rethread_core::store::{Finding, FindingState};
use serde_json::json;

use super::{Cli, Done};
use crate::args::Doctor;
use crate::out::{clean, count, line, plural};

pub(super) fn run(cli: &Cli, args: &Doctor) -> Done {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} sessions, {eta} left") {
        bar.set_style(style);
    }
    let (sessions, findings) = cli.sessions.doctor(!args.check, |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    let bad = findings
        .iter()
        .any(|finding| matches!(finding.state, FindingState::Damaged | FindingState::Repairable));
    let code = if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if cli.global.json {
        let findings: Vec<_> = findings
            .iter()
            .map(|finding| {
                json!({
                    "session": finding.session,
                    "seq": finding.seq,
                    "what": finding.what,
                    "state": word(finding),
                })
            })
            .collect();
        crate::out::json(&json!({ "sessions": sessions, "findings": findings }))?;
        return Ok(code);
    }
    for finding in &findings {
        let session = finding.session.map(|id| format!("{id} ")).unwrap_or_default();
        let seq = finding.seq.map(|seq| format!("entry {seq}: ")).unwrap_or_default();
        line(format_args!("{:<11} {session}{seq}{}", word(finding), clean(&finding.what)))?;
    }
    let done = |state| findings.iter().filter(|finding| finding.state == state).count() as u64;
    line(format_args!(
        "{} checked. Found: {} damaged, {} repaired, {} to repair, {} noted.",
        plural(sessions as u64, "session"),
        count(done(FindingState::Damaged)),
        count(done(FindingState::Repaired)),
        count(done(FindingState::Repairable)),
        count(done(FindingState::Noted)),
    ))?;
    Ok(code)
}

fn word(finding: &Finding) -> &'static str {
    match finding.state {
        FindingState::Noted => "noted",
        FindingState::Repaired => "repaired",
        FindingState::Repairable => "repairable",
        FindingState::Damaged => "damaged",
    }
}
