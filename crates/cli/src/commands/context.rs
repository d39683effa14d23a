//! `context`: what a model would be sent, and what was cut.

use std::process::ExitCode;

use rethread_agent::tool::Spec;
use rethread_agent::{NextCall, ProjectFile, project_files};
use rethread_core::context::{CutEffect, Model, Policy, Report, explain};
use rethread_core::{Session, Sessions};
use serde::Serialize;

use super::{Cli, Done, next_call};
use crate::args::Context;
use crate::errors::Error;
use crate::hosting::Answering;
use crate::out::{clean, count, line, note, one_line, plural};

pub(crate) fn run(cli: &Cli, args: &Context) -> Done {
    let id = cli.select(&args.sel)?;
    let session = cli.sessions.get_at(id, args.at)?;
    let (model, window) = (args.model.clone(), args.window);
    let roster = cli.roster(Answering { model, window, ..Answering::default() })?;
    let (policy, model) = roster.shape(&session.header)?;
    let policy = args.policy.as_deref().map_or(policy, preset);
    let tools = cli.tools_offered(roster, &session);
    print(cli, session, (policy, model, tools), args.max_history, args.explain)
}

/// Prints what a model would be sent for a session.
pub(crate) fn print(
    cli: &Cli,
    session: Session,
    (policy, model, tools): (Policy, Model, Vec<Spec>),
    max_history: Option<u32>,
    explained: bool,
) -> Done {
    let mut policy = policy.for_session(&session.header);
    if let Some(messages) = max_history {
        policy.keep_recent = Some(messages);
    }
    let project = project_line(&cli.sessions, &session)?;
    let context = cli.sessions.build(session.clone(), &policy, &model)?;
    let shape = (&model, &context, &tools[..]);
    let next = NextCall::new(&cli.sessions, &session, shape, &cli.config.models, cli.now());
    if cli.global.json {
        let report = Report { policy: &policy, model: &model, context: &context };
        crate::out::json(&Explained { report, next_call: next })?;
        return Ok(ExitCode::SUCCESS);
    }
    if explained {
        let mut context = context.clone();
        for cut in &mut context.cuts {
            // It quotes the log, which may contain line breaks.
            if let CutEffect::LeftOut { what } = &mut cut.change {
                *what = one_line(what);
            }
        }
        line(clean(&explain(&context)))?;
    } else {
        for message in &context.messages {
            let content = match message.content.as_slice() {
                [block] if block.as_text().is_some() => message.plain_text(),
                blocks => serde_json::to_string(blocks).map_err(std::io::Error::other)?,
            };
            let content = clean(&content);
            line(format_args!("\x1b[1m{}\x1b[0m\n{content}\n", message.role.as_str()))?;
        }
    }
    note(format_args!(
        "{}, about {} of {} tokens, policy {}, {}{}\nhash {}",
        plural(context.messages.len() as u64, "message"),
        count(context.tokens),
        count(model.budget()),
        policy.name,
        plural(context.cuts.len() as u64, "cut"),
        if context.cuts.is_empty() || explained { "" } else { " (--explain shows them)" },
        context.hash()
    ));
    if explained {
        next_call::lines(&next, cli.now()).into_iter().for_each(note);
    }
    if let Some(project) = project {
        note(project);
    }
    Ok(ExitCode::SUCCESS)
}

/// A context as programs read it, and what sending it costs.
#[derive(Serialize)]
struct Explained<'a> {
    #[serde(flatten)]
    report: Report<'a>,
    next_call: NextCall,
}

/// The project files in a session's system message, on one line.
pub(crate) fn project_line(
    sessions: &Sessions,
    session: &Session,
) -> Result<Option<String>, Error> {
    let shown = |file: &ProjectFile| {
        let size = match file.of > file.bytes {
            true => format!("{} of {} bytes", count(file.bytes), count(file.of)),
            false => format!("{} bytes", count(file.bytes)),
        };
        format!("{} ({size})", one_line(&file.path))
    };
    let files: Vec<String> = project_files(sessions, session)?.iter().map(shown).collect();
    let line = format!("instructions of the project: {}", files.join(", "));
    Ok(Some(line).filter(|_| !files.is_empty()))
}

fn preset(name: &str) -> Policy {
    Policy::preset(name).expect("checked when it was read")
}
