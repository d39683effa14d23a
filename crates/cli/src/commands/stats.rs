//! `stats`: a session in numbers.

use std::process::ExitCode;
use std::time::Duration;

use rethread_agent::provider::PRICES_AS_OF;
use rethread_core::SessionId;
use rethread_core::context::{Model, Policy};
use rethread_core::sessions::Stats;
use serde_json::json;

use super::{Cli, Done, survey};
use crate::chat::{lasted, money};
use crate::hosting::Answering;
use crate::out::{count, line, one_line, plural};

pub(crate) fn run(cli: &Cli, args: &crate::args::Stats) -> Done {
    let Some(sel) = &args.sel else { return survey::run(cli, args) };
    let session = cli.sessions.get(cli.select(sel)?)?;
    let shape = cli.roster(Answering::default())?.shape(&session.header)?;
    print(cli, session.id(), shape)
}

/// Prints a session in numbers.
pub(crate) fn print(cli: &Cli, id: SessionId, (policy, model): (Policy, Model)) -> Done {
    let stats = cli.sessions.stats(id)?;
    let session = cli.sessions.get(id)?;
    let (profile, spent) = (session.header.profile, session.usage);
    let ms = spent.values().fold(0_u64, |sum, spent| sum.saturating_add(spent.ms));
    let context = cli.sessions.context(id, &policy, &model)?;
    if cli.global.json {
        crate::out::json(&json!({
            "session": id,
            "agent": profile.agent,
            "agent_path": profile.agent_path,
            "messages": {
                "user": stats.user,
                "assistant": stats.assistant,
                "tool": stats.tool,
                "system": stats.system,
            },
            "queries": stats.queries,
            "tokens": stats.tokens,
            "usage": stats.usage,
            "ms": ms,
            "from_running_totals": stats.from_running_totals,
            "models": stats.models,
            "cost": cost(cli, &stats).map(|(dollars, unpriced)| json!({
                "dollars": dollars, "prices_as_of": PRICES_AS_OF, "unpriced": unpriced,
            })),
            "restoration": stats.restoration,
            "tools": stats.tools,
            "context": { "policy": policy.name, "messages": context.messages.len(), "tokens": context.tokens },
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &profile.agent_path {
        let agent = profile.agent.as_deref().unwrap_or("unnamed");
        line(format_args!("Agent:     {} ({})", one_line(agent), one_line(path)))?;
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
    if stats.usage.total() > 0 {
        line(format_args!(
            "Charged:   {} in ({} cached), {} out",
            count(stats.usage.read()),
            count(stats.usage.cache_read),
            count(stats.usage.output)
        ))?;
    }
    if ms > 0 {
        line(format_args!("Time:      {}", lasted(Duration::from_millis(ms))))?;
    }
    if stats.from_running_totals > 0 {
        line("Counts:    the source wrote running totals; each turn counts what it added")?;
    }
    if let Some((dollars, unpriced)) = cost(cli, &stats) {
        let without = match unpriced.is_empty() {
            true => String::new(),
            false => format!(", without {}", one_line(&unpriced.join(", "))),
        };
        line(format_args!(
            "Cost:      about ${dollars:.4} at the prices of {PRICES_AS_OF}{without}"
        ))?;
    }
    if !stats.models.is_empty() {
        line("Models:")?;
        for (model, usage) in &stats.models {
            let price = cli.config.models.price(model);
            let cost = price.map(|price| format!(", {}", money(price.of(usage))));
            line(format_args!(
                "  {:<24} {} in ({} cached), {} out{}",
                one_line(model),
                count(usage.read()),
                count(usage.cache_read),
                count(usage.output),
                cost.unwrap_or_default()
            ))?;
        }
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

/// What a session cost in dollars, and the models whose price is not known; nothing where that is
/// all of them.
fn cost(cli: &Cli, stats: &Stats) -> Option<(f64, Vec<String>)> {
    let (mut dollars, mut priced, mut unpriced) = (0.0, false, Vec::new());
    for (model, usage) in &stats.models {
        match cli.config.models.price(model) {
            Some(price) => {
                dollars += price.of(usage);
                priced = true;
            }
            None => unpriced.push(model.clone()),
        }
    }
    priced.then_some((dollars, unpriced))
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
