//! `context`: what a model would be sent, and what was cut.

use std::process::ExitCode;

use rethread_agent::agents::Origin;
use rethread_core::Session;
use rethread_core::context::{Changed, Model, Policy, Report, explain};

use super::{Desk, Done};
use crate::args::{Context, Talk};
use crate::chat::setup;
use crate::errors::Error;
use crate::out::{clean, count, line, note, one_line, plural};

pub(crate) fn run(desk: &Desk, args: &Context) -> Done {
    let id = desk.select(&args.sel)?;
    let session = desk.sessions.get_at(id, args.at)?;
    let (policy, model) = shape(desk, &session, args)?;
    let mut policy = policy.for_session(&session.header);
    if let Some(messages) = args.max_history {
        policy.keep_recent = Some(messages);
    }
    let context = desk.sessions.build(session, &policy, &model)?;
    if desk.global.json {
        crate::out::json(&Report { policy: &policy, model: &model, context: &context })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.explain {
        let mut context = context.clone();
        for cut in &mut context.cuts {
            // It quotes what the log says, which may have lines of its own.
            if let Changed::LeftOut { what } = &mut cut.change {
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
        if context.cuts.is_empty() || args.explain { "" } else { " (--explain shows them)" },
        context.hash()
    ));
    Ok(ExitCode::SUCCESS)
}

/// The policy and the model: as the flags say, or as the chat would have them.
fn shape(desk: &Desk, session: &Session, args: &Context) -> Result<(Policy, Model), Error> {
    let (policy, model) = match (&args.policy, &args.model) {
        (Some(policy), Some(model)) => (preset(policy), super::model_named(model)?),
        (policy, model) => {
            let (chats, model) = as_in_the_chat(desk, session, model.as_deref())?;
            (policy.as_deref().map_or(chats, preset), model)
        }
    };
    Ok((policy, seeing(model, args.window.or(desk.config.number("window")))))
}

/// The policy and the model the chat would go on with in a session, unless another model is named.
pub(super) fn as_in_the_chat(
    desk: &Desk,
    session: &Session,
    model: Option<&str>,
) -> Result<(Policy, Model), Error> {
    let talk = Talk::default();
    let agents = setup::agents(desk)?;
    let agent = setup::agent(desk, &talk, &agents, Some(session))?;
    let policy = preset(agent.policy.as_deref().unwrap_or(desk.config.text("policy")));
    if let Some(name) = model {
        return Ok((policy, super::model_named(name)?));
    }
    match setup::runner(desk, &talk, &agents, agent.clone()) {
        Ok(runner) => Ok((runner.policy, runner.model)),
        // There is no key to ask it with; what it would be sent can be looked at all the same.
        Err(Error::Provider(_)) => {
            let wanted = agent.model.as_deref().filter(|_| agent.origin != Origin::Project);
            let named = wanted.or(desk.config.given("model")).unwrap_or("offline/offline");
            Ok((policy, seeing(super::model_named(named)?, desk.config.number("window"))))
        }
        Err(error) => Err(error),
    }
}

/// The model with another window, where one is given.
fn seeing(mut model: Model, window: Option<u64>) -> Model {
    model.window = window.unwrap_or(model.window);
    model.reply = model.reply.min(model.window / 4);
    model
}

fn preset(name: &str) -> Policy {
    Policy::preset(name).expect("checked when it was read")
}
