//! `stats` without a session: totals by session, folder or day.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::tz::TimeZone;
use rethread_agent::provider::PRICES_AS_OF;
use rethread_core::Session;
use rethread_core::sessions::{Group, GroupBy, Survey, Surveyed, Totals};
use rethread_core::store::Filter;
use rethread_core::usage::UsageByModel;
use serde_json::{Value, json};

use super::{Cli, Done};
use crate::args::{By, Stats};
use crate::chat::{cached, folder, lasted, money};
use crate::errors::Error;
use crate::out::{clean, columns, fit, line, note, one_line, pad, plural, short_count};

/// Columns of the numbers in a row.
const NUMBERS: usize = 51;

pub(crate) fn run(cli: &Cli, args: &Stats) -> Done {
    let workspace = cli.global.workspace.as_ref().map(|_| cli.workspace()).transpose()?;
    let survey = Survey {
        filter: Filter { workspace, ..Filter::default() },
        since: args.since.as_ref().map(|since| since.time(cli.now)),
        by: match args.by {
            By::Session => GroupBy::Session,
            By::Folder => GroupBy::Folder,
            By::Day => GroupBy::Day,
        },
        zone: TimeZone::system(),
        tools: args.tools,
    };
    let sums = cli.sessions.survey(&survey)?;
    match cli.global.json {
        true => crate::out::json(&as_json(cli, &sums, args))?,
        false => print(cli, &sums, args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(cli: &Cli, sums: &Surveyed, args: &Stats) -> Value {
    let with = |totals: &Totals| {
        let usage = totals.usage();
        let mut sum = json!({
            "sessions": totals.sessions, "usage": usage.usage, "ms": usage.ms,
            "cost": dollars(cli, &totals.models), "models": totals.models,
        });
        if args.tools {
            sum["tools"] = json!(totals.tools);
        }
        sum
    };
    let groups = sums.groups.iter().rev().map(|(group, totals)| {
        let mut sum = with(totals);
        match group {
            Group::Session(id) => {
                sum["session"] = json!(id);
                let session = cli.sessions.get(*id).ok();
                sum["name"] = json!(session.as_ref().map(Session::shown_name));
                sum["title"] = json!(session.as_ref().and_then(Session::title));
            }
            Group::Folder(folder) => sum["folder"] = json!(folder),
            Group::Day(day) => sum["day"] = json!(day.to_string()),
        }
        sum
    });
    let groups: Vec<Value> = groups.collect();
    json!({
        "groups": groups, "total": with(&sums.all), "logs_read": sums.logs_read,
        "prices_as_of": PRICES_AS_OF, "unpriced": unpriced(cli, &sums.all.models),
    })
}

fn print(cli: &Cli, sums: &Surveyed, args: &Stats) -> Result<(), Error> {
    if sums.groups.is_empty() {
        note("No messages in these sessions.");
        return Ok(());
    }
    let mut titles: Vec<(String, &Totals)> =
        sums.groups.iter().map(|(group, totals)| (title(cli, group), totals)).collect();
    if args.by != By::Folder {
        // The latest first.
        titles.reverse();
    }
    let room = columns().saturating_sub(NUMBERS).clamp(8, 60);
    let width =
        titles.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0).clamp(8, room);
    let first = pad(args.by.as_str(), width);
    line(format_args!("{first} sessions   input  cached  output        time     cost"))?;
    for (title, totals) in &titles {
        line(row(cli, &pad(&fit(title, width), width), totals))?;
        if args.tools && totals.calls().0 > 0 {
            line(format_args!("  {}", calls(totals)))?;
        }
    }
    line(row(cli, &pad("all", width), &sums.all))?;
    if !sums.all.models.is_empty() {
        line("Models:")?;
    }
    for (model, spent) in &sums.all.models {
        let one = UsageByModel::from([(model.clone(), *spent)]);
        let cost = dollars(cli, &one).map(|dollars| format!(", {}", money(dollars)));
        line(format_args!(
            "  {}: {} in ({} % cached), {} out, {}{}",
            one_line(model),
            short_count(spent.usage.read()),
            cached(&spent.usage),
            short_count(spent.usage.output),
            lasted(Duration::from_millis(spent.ms)),
            cost.unwrap_or_default()
        ))?;
    }
    if args.tools {
        line("Tools:")?;
        for (name, tool) in &sums.all.tools {
            let failed = format!("{} failed", crate::out::count(tool.errors));
            line(format_args!("  {}: {}, {failed}", one_line(name), plural(tool.calls, "call")))?;
        }
    }
    let unpriced = unpriced(cli, &sums.all.models);
    if dollars(cli, &sums.all.models).is_some() {
        let without = match unpriced.is_empty() {
            true => String::new(),
            false => format!(", without {}", one_line(&unpriced.join(", "))),
        };
        note(format_args!("Cost is an estimate, at the prices of {PRICES_AS_OF}{without}."));
    }
    Ok(())
}

fn row(cli: &Cli, title: &str, totals: &Totals) -> String {
    let spent = totals.usage();
    let time = if spent.ms > 0 { lasted(Duration::from_millis(spent.ms)) } else { String::new() };
    let cost = dollars(cli, &totals.models).map(money).unwrap_or_default();
    format!(
        "{title} {:>8} {:>7} {:>7} {:>7} {:>11} {:>8}",
        totals.sessions,
        short_count(spent.usage.read()),
        short_count(spent.usage.cache_read),
        short_count(spent.usage.output),
        time,
        cost
    )
}

/// How often each tool was called, the most frequent first.
fn calls(totals: &Totals) -> String {
    let (calls, failed) = totals.calls();
    let mut tools: Vec<_> = totals.tools.iter().filter(|(_, tool)| tool.calls > 0).collect();
    tools.sort_by_key(|(_, tool)| std::cmp::Reverse(tool.calls));
    let tools: Vec<String> =
        tools.iter().map(|(name, tool)| format!("{} {}", clean(name), tool.calls)).collect();
    let said = format!("{}, {failed} failed: {}", plural(calls, "call"), tools.join(", "));
    fit(&said, columns().saturating_sub(2))
}

fn title(cli: &Cli, group: &Group) -> String {
    let home = std::env::var_os("HOME");
    let home = home.as_deref().map(Path::new);
    let title = match group {
        Group::Session(id) => match cli.sessions.get(*id) {
            Ok(session) => session.title().unwrap_or_else(|| session.header.name.to_string()),
            Err(_) => id.to_string(),
        },
        Group::Folder(Some(path)) => folder(Path::new(path), home),
        Group::Folder(None) => "no folder".into(),
        Group::Day(day) => day.to_string(),
    };
    one_line(&title)
}

/// The cost of models, if the price of one of them is known.
fn dollars(cli: &Cli, models: &UsageByModel) -> Option<f64> {
    let priced = models.iter().filter_map(|(model, spent)| {
        cli.config.models.price(model).map(|price| price.of(&spent.usage))
    });
    priced.reduce(|all, one| all + one)
}

/// The models with usage but without a known price.
fn unpriced(cli: &Cli, models: &UsageByModel) -> Vec<String> {
    let unknown = models.iter().filter(|(model, spent)| {
        spent.usage.total() > 0 && cli.config.models.price(model).is_none()
    });
    unknown.map(|(model, _)| model.clone()).collect()
}
