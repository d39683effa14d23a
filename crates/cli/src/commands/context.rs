//! `context`: what a model would be sent, and what was cut.

use std::process::ExitCode;

use rethread_core::context::{Model, Policy, Report, explain};

use super::{Desk, Done};
use crate::args::Context;
use crate::errors::Error;
use crate::out::{clean, count, line, note, plural};

pub(crate) fn run(desk: &Desk, args: &Context) -> Done {
    let id = desk.select(&args.sel)?;
    let name = args.policy.as_deref().unwrap_or(desk.config.text("policy"));
    let session = desk.sessions.get(id)?;
    let mut policy = Policy::preset(name).expect("checked when it was read");
    policy = policy.for_session(&session.header);
    if let Some(messages) = args.max_history {
        policy.keep_recent = Some(messages);
    }
    let model = model(args)?;
    let context = desk.sessions.build(id, &policy, &model)?;
    if desk.global.json {
        crate::out::json(&Report { policy: &policy, model: &model, context: &context })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.explain {
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
        if context.cuts.is_empty() || args.explain { "" } else { " (--explain shows them)" },
        context.hash()
    ));
    Ok(ExitCode::SUCCESS)
}

fn model(args: &Context) -> Result<Model, Error> {
    let mut model = match &args.model {
        None => Model::new("offline", "offline"),
        Some(text) => super::model_named(text)?,
    };
    if let Some(window) = args.window {
        model.window = window;
        model.reply = model.reply.min(window / 4);
    }
    Ok(model)
}
