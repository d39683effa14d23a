//! `compact`: a session is summarised and goes on in a new one.

use std::process::ExitCode;

use rethread_agent::{Compacted, How};

use super::{Desk, Done};
use crate::args::{Compact, Talk};
use crate::chat::{past, setup};
use crate::errors::Error;
use crate::out::{count, line, note, plural};

pub(super) fn run(desk: &Desk, args: &Compact) -> Done {
    let id = desk.select(&args.sel)?;
    let talk = Talk { model: args.model.clone(), ..Talk::default() };
    let agents = setup::agents(desk)?;
    let session = desk.sessions.get(id)?;
    let agent = setup::agent(desk, &talk, &agents, Some(&session))?;
    let runner = setup::runner(desk, &talk, &agents, agent)?;
    if args.preview {
        let preview = runner.preview(id)?;
        match desk.global.json {
            true => crate::out::json(&preview)?,
            false => line(format_args!(
                "About {} tokens in the context now, about {} after; {} carried over word for word.",
                count(preview.before),
                count(preview.after),
                plural(preview.carried as u64, "turn")
            ))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let quiet = desk.global.json;
    let compacted = setup::runtime()?.block_on(runner.compact(id, How::Model, |stage| {
        if !quiet {
            past::tell_stage(&stage, note);
        }
    }))?;
    match compacted {
        Compacted::Nothing => Err(Error::Word {
            what: "nothing was said in this session yet".into(),
            hint: "there is nothing to compact",
        }),
        Compacted::NoSummary { why } => Err(Error::Word {
            what: format!("{}: {why}", past::SUMMARY_FAILED),
            hint: "the session is as it was; try again, or choose another --model",
        }),
        Compacted::Done(receipt) if quiet => {
            crate::out::json(&receipt)?;
            Ok(ExitCode::SUCCESS)
        }
        Compacted::Done(receipt) => {
            for text in past::receipt(
                &receipt,
                &format!("rethread undo {}", receipt.on.session.header.name),
            ) {
                line(text)?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
