//! `stats`: a session in numbers.

use std::process::ExitCode;

use rethread_core::sessions::Stats;
use serde_json::json;

use super::{Desk, Done};
use crate::args::One;
use crate::out::{count, line, one_line, plural};

pub(crate) fn run(desk: &Desk, args: &One) -> Done {
    let id = desk.select(&args.sel)?;
    let stats = desk.sessions.stats(id)?;
    let session = desk.sessions.get(id)?;
    let (policy, model) = super::context::as_in_the_chat(desk, &session, None)?;
    let context = desk.sessions.context(id, &policy, &model)?;
    if desk.global.json {
        crate::out::json(&json!({
            "session": id,
            "messages": {
                "user": stats.user,
                "assistant": stats.assistant,
                "tool": stats.tool,
                "system": stats.system,
            },
            "queries": stats.queries,
            "tokens": stats.tokens,
            "usage": stats.usage,
            "restoration": stats.restoration,
            "tools": stats.tools,
            "context": { "policy": policy.name, "messages": context.messages.len(), "tokens": context.tokens },
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    line(format_args!(
        "Messages:  {} user, {} assistant, {} tool, {} system",
        stats.user, stats.assistant, stats.tool, stats.system
    ))?;
    line(format_args!("Queries:   {}", count(stats.queries)))?;
    line(format_args!(
        "Tokens:    {} said, about {} in the next context (policy {})",
        count(stats.tokens),
        count(context.tokens),
        policy.name
    ))?;
    for text in tokens_block(&stats) {
        line(text)?;
    }
    if !stats.tools.is_empty() {
        line("Tools:")?;
        for (name, tool) in &stats.tools {
            line(format_args!(
                "  {:<24} {}, {}, {}",
                one_line(name),
                plural(tool.calls, "call"),
                plural(tool.errors, "error"),
                plural(tool.tokens, "token")
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a session cost, apart from what it cost to restore it. Nothing where no provider charged.
pub(crate) fn tokens_block(stats: &Stats) -> Vec<String> {
    let session = stats.usage.total();
    let Some(restoration) = stats.restoration else {
        return match session {
            0 => Vec::new(),
            tokens => vec![format!("Session Tokens: {} tokens", count(tokens))],
        };
    };
    vec![
        format!("Total Queries: {} (user queries only)", count(stats.queries)),
        format!(
            "Restoration: {} tokens (in: {}, out: {})",
            count(restoration.total()),
            count(restoration.read()),
            count(restoration.output)
        ),
        format!("Session Tokens: {} tokens", count(session)),
        format!("Combined Total: {} tokens", count(session.saturating_add(restoration.total()))),
    ]
}
