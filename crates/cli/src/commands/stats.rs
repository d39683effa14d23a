//! `stats`: statistics of a session.

use std::process::ExitCode;

use rethread_agent::StatsReport;
use rethread_agent::provider::PRICES_AS_OF;
use rethread_core::SessionId;
use rethread_core::context::{Model, Policy};
use rethread_core::sessions::Stats;

use super::{Cli, Done, stats_totals};
use crate::chat::{lasted, money};
use crate::hosting::Answering;
use crate::out::{count, one_line, plural, prose};

pub(crate) fn run(cli: &Cli, args: &crate::args::Stats) -> Done {
    let Some(sel) = &args.sel else { return stats_totals::run(cli, args) };
    let session = cli.sessions.get(cli.select(sel)?)?;
    let shape = cli.roster(Answering::default())?.shape(&session.header)?;
    print(cli, session.id(), shape)
}

/// Prints the statistics of a session.
pub(crate) fn print(cli: &Cli, id: SessionId, shape: (Policy, Model)) -> Done {
    let report = StatsReport::new(&cli.sessions, id, shape, &cli.config.models)?;
    if cli.global.json {
        crate::out::json(&report.json())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (stats, profile) = (&report.stats, &report.session.header.profile);
    if let Some(path) = &profile.agent_path {
        let agent = profile.agent.as_deref().unwrap_or("unnamed");
        prose(format_args!("Agent:     {} ({})", one_line(agent), one_line(path)))?;
    }
    prose(format_args!(
        "Messages:  {} user, {} assistant, {} tool, {} system",
        stats.user, stats.assistant, stats.tool, stats.system
    ))?;
    prose(format_args!("Queries:   {}", count(stats.queries)))?;
    prose(format_args!(
        "Tokens:    {} said, about {} in the next context (policy {})",
        count(stats.tokens),
        count(report.tokens),
        report.policy.name
    ))?;
    for text in economy(&report) {
        prose(text)?;
    }
    for text in tokens_block(stats) {
        prose(text)?;
    }
    if stats.usage.total() > 0 {
        prose(format_args!(
            "Charged:   {} in ({} cached), {} out",
            count(stats.usage.read()),
            count(stats.usage.cache_read),
            count(stats.usage.output)
        ))?;
    }
    if !report.took().is_zero() {
        prose(format_args!("Time:      {}", lasted(report.took())))?;
    }
    if stats.from_running_totals > 0 {
        prose("Counts:    the source wrote running totals; each turn counts what it added")?;
    }
    if let Some(cost) = &report.cost {
        let without = match cost.unpriced.is_empty() {
            true => String::new(),
            false => format!(", without {}", one_line(&cost.unpriced.join(", "))),
        };
        prose(format_args!(
            "Cost:      about ${:.4} at the prices of {PRICES_AS_OF}{without}",
            cost.dollars
        ))?;
    }
    if !stats.models.is_empty() {
        prose("Models:")?;
        for (model, usage) in &stats.models {
            let price = cli.config.models.price(model);
            let cost = price.map(|price| format!(", {}", money(price.of(usage))));
            prose(format_args!(
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
        prose("Tools:")?;
        for (name, tool) in &stats.tools {
            prose(format_args!(
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

/// What sending less than everything saved, and what it cost.
fn economy(report: &StatsReport) -> Vec<String> {
    let stats = &report.stats;
    let mut lines = Vec::new();
    if let Some(replayed) = &report.economy
        && let Some(percent) = replayed.sent().percent()
    {
        let saved = match report.saved {
            Some(saved) if saved < 0.0 => format!(", {} more", money(-saved)),
            Some(saved) => format!(", {} saved", money(saved)),
            None => String::new(),
        };
        lines.push(format!("Contexts:  {percent} % of the cost of sending everything{saved}"));
        let (cold, rewrites) = (replayed.cold_starts, replayed.rewrites);
        let happened = cold + rewrites > 0;
        lines.extend(happened.then(|| {
            format!(
                "Cache:     {} and {} ({} tokens written again) in {}",
                plural(cold, "cold start"),
                plural(rewrites, "rewrite"),
                count(replayed.rewritten),
                plural(replayed.calls, "call")
            )
        }));
    }
    if stats.thinned.cold + stats.thinned.warm > 0 || stats.recalls() > 0 {
        lines.push(format!(
            "Results:   thinned {} at a cold start, {} while warm; {:.1} recalls per 100 calls",
            plural(stats.thinned.cold, "time"),
            plural(stats.thinned.warm, "time"),
            stats.recalls_per_100()
        ));
    }
    lines
}

/// The cost of a session, without the cost of restoring it. `None` if no provider charged anything.
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
