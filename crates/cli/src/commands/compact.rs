//! `compact`: a session is summarised and continues in a new one.

use std::process::ExitCode;

use rethread_agent::{Compacted, Preview, SummaryMethod};

use super::{Cli, Done};
use crate::args::Compact;
use crate::chat::exit_and_resume;
use crate::errors::Error;
use crate::hosting::{Answering, runtime};
use crate::out::{count, line, note, plural};

pub(super) fn run(cli: &Cli, args: &Compact) -> Done {
    let id = cli.select(&args.sel)?;
    let answering = Answering { model: args.model.clone(), ..Answering::default() };
    let handle = cli.host(answering)?.handle(cli.sessions.owner().clone());
    let preview =
        || -> Result<Preview, Error> { Ok(handle.viewer(&cli.sessions.get(id)?)?.preview(id)?) };
    if args.preview {
        let preview = preview()?;
        match cli.global.json {
            true => crate::out::json(&preview)?,
            false => line(format_args!(
                "About {} in the context now, about {} after; {} carried over word for word.",
                plural(preview.before, "token"),
                count(preview.after),
                plural(preview.carried as u64, "turn")
            ))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.force && cli.sessions.get(id)?.tally.queries > 0 {
        let preview = preview()?;
        if !preview.saves() {
            return Err(Error::TooShort { now: preview.before, after: preview.after });
        }
    }
    let quiet = cli.global.json;
    let compacted = runtime()?.block_on(async {
        let runner = handle.runner_for(id).await?;
        let tell = |stage| {
            if !quiet {
                exit_and_resume::show_stage(&stage, note);
            }
        };
        runner.compact(id, SummaryMethod::Model, tell).await
    })?;
    match compacted {
        Compacted::Nothing => Err(Error::Word {
            what: "this session has no messages yet".into(),
            hint: "nothing to compact",
        }),
        Compacted::Done(receipt) if quiet => {
            crate::out::json(&receipt)?;
            Ok(ExitCode::SUCCESS)
        }
        Compacted::Done(receipt) => {
            for text in exit_and_resume::receipt(
                &receipt,
                &format!("rethread undo {}", receipt.on.session.selector()),
            ) {
                line(text)?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
