//! `stats` without a session: totals by session, folder or day.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::tz::TimeZone;
use rethread_agent::provider::PRICES_AS_OF;
use rethread_core::Session;
use rethread_core::sessions::{Group, GroupBy, Survey, Surveyed, ToolStats, Totals};
use rethread_core::store::Filter;
use rethread_core::usage::UsageByModel;
use rethread_render::terminal::line_width;
use serde_json::{Value, json};

use super::session_rows::shown_title;
use super::{Cli, Done};
use crate::args::{By, Stats};
use crate::chat::{cached, folder, lasted, money};
use crate::errors::Error;
use crate::out::{
    clean, columns, fit, fit_end, line, note, one_line, pad, plural, prose, short_count,
};

/// The numbers of a row: their names, their columns, and which of them a narrow window drops first.
const NUMBERS: [(&str, usize, u8); 6] = [
    ("sessions", 8, 3),
    ("input", 7, 0),
    ("cached", 7, 2),
    ("output", 7, 0),
    ("time", 11, 1),
    ("cost", 8, 0),
];

/// Columns of what a row is about, for which numbers are dropped.
const TITLE_COLUMNS: usize = 15;

pub(crate) fn run(cli: &Cli, args: &Stats) -> Done {
    let workspace = cli.workspace_filter()?;
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
    let groups = rows(cli, sums).into_iter().rev().map(|Row { group, session, totals }| {
        let mut sum = with(totals);
        match group {
            Group::Session(id) => {
                sum["session"] = json!(id);
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
    let mut rows = rows(cli, sums);
    if args.by != By::Folder {
        // The latest first.
        rows.reverse();
    }
    let all = rows.len();
    if args.by == By::Session {
        rows.retain(Row::has_usage);
    }
    let left_out = (all - rows.len()) as u64;
    let titles: Vec<(String, &Totals)> = rows.iter().map(|row| (row.title(), row.totals)).collect();
    let table = Table::new(columns(), titles.iter().map(|(title, _)| line_width(title)).max());
    line(table.row(args.by.as_str(), &NUMBERS.map(|(name, ..)| name.to_owned())))?;
    for (title, totals) in &titles {
        // The end of a path says more than its beginning.
        let title = match args.by {
            By::Folder => fit_end(title, table.title),
            By::Session | By::Day => fit(title, table.title),
        };
        line(table.row(&title, &numbers(cli, totals)))?;
        if args.tools && totals.calls().0 > 0 {
            line(format_args!("  {}", calls(totals)))?;
        }
    }
    line(table.row("all", &numbers(cli, &sums.all)))?;
    if !sums.all.models.is_empty() {
        line("Models:")?;
    }
    for (model, spent) in &sums.all.models {
        let one = UsageByModel::from([(model.clone(), *spent)]);
        let cost = dollars(cli, &one).map(|dollars| format!(", {}", money(dollars)));
        // Other programs do not note how long a reply took.
        let time = (spent.ms > 0).then(|| format!(", {}", lasted(Duration::from_millis(spent.ms))));
        prose(format_args!(
            "  {}: {} in ({} % cached), {} out{}{}",
            one_line(model),
            short_count(spent.usage.read()),
            cached(&spent.usage),
            short_count(spent.usage.output),
            time.unwrap_or_default(),
            cost.unwrap_or_default()
        ))?;
    }
    let called = |tool: &ToolStats| tool.calls + tool.errors > 0;
    if sums.all.tools.values().any(called) {
        line("Tools:")?;
        for (name, tool) in sums.all.tools.iter().filter(|(_, tool)| called(tool)) {
            let failed = format!("{} failed", crate::out::count(tool.errors));
            prose(format_args!("  {}: {}, {failed}", one_line(name), plural(tool.calls, "call")))?;
        }
    }
    if left_out > 0 {
        let (sessions, are) =
            (plural(left_out, "session"), if left_out == 1 { "is" } else { "are" });
        note(format_args!("{sessions} without usage {are} not listed."));
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

/// The numbers of a row, in the order of [`NUMBERS`].
fn numbers(cli: &Cli, totals: &Totals) -> [String; NUMBERS.len()] {
    let spent = totals.usage();
    let time = if spent.ms > 0 { lasted(Duration::from_millis(spent.ms)) } else { String::new() };
    let cost = dollars(cli, &totals.models).map(money).unwrap_or_default();
    [
        totals.sessions.to_string(),
        short_count(spent.usage.read()),
        short_count(spent.usage.cache_read),
        short_count(spent.usage.output),
        time,
        cost,
    ]
}

/// A table that fits the window.
struct Table {
    /// Columns of what a row is about.
    title: usize,
    /// Numbers that are dropped up to this one have no room.
    dropped: u8,
}

impl Table {
    fn new(columns: usize, widest: Option<usize>) -> Table {
        let room = |dropped: u8| {
            let shown = NUMBERS.iter().filter(|(.., drop)| *drop == 0 || *drop > dropped);
            columns.saturating_sub(shown.map(|(_, columns, _)| columns + 1).sum())
        };
        let dropped = (0..3).find(|dropped| room(*dropped) >= TITLE_COLUMNS).unwrap_or(3);
        let title = widest.unwrap_or(0).clamp(8, room(dropped).clamp(8, 60));
        Table { title, dropped }
    }

    fn row(&self, title: &str, numbers: &[String; NUMBERS.len()]) -> String {
        let mut row = pad(title, self.title);
        for ((_, columns, drop), number) in NUMBERS.iter().zip(numbers) {
            if *drop == 0 || *drop > self.dropped {
                row += &format!(" {number:>columns$}");
            }
        }
        row
    }
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

/// A group, with its session if it is one.
struct Row<'a> {
    group: &'a Group,
    session: Option<Session>,
    totals: &'a Totals,
}

/// The groups: sessions least recently active first, folders by path, days in order.
fn rows<'a>(cli: &Cli, sums: &'a Surveyed) -> Vec<Row<'a>> {
    let row = |(group, totals): (&'a Group, &'a Totals)| {
        let session = match group {
            // A session that was deleted in the meantime still counts.
            Group::Session(id) => cli.sessions.get(*id).ok(),
            Group::Folder(_) | Group::Day(_) => None,
        };
        Row { group, session, totals }
    };
    let mut rows: Vec<Row<'a>> = sums.groups.iter().map(row).collect();
    // The order of groups that are not sessions stays.
    rows.sort_by_key(|row| row.session.as_ref().map(|session| session.last_activity_at));
    rows
}

impl Row<'_> {
    fn title(&self) -> String {
        let home = std::env::var_os("HOME");
        let home = home.as_deref().map(Path::new);
        let title = match (self.group, &self.session) {
            (_, Some(session)) => shown_title(session),
            (Group::Session(id), None) => id.to_string(),
            (Group::Folder(Some(path)), _) => folder(Path::new(path), home),
            (Group::Folder(None), _) => "no folder".into(),
            (Group::Day(day), _) => day.to_string(),
        };
        one_line(&title)
    }

    /// Whether a model was charged, or took time, or a tool was called.
    fn has_usage(&self) -> bool {
        let spent = self.totals.usage();
        spent.usage.total() > 0 || spent.ms > 0 || self.totals.calls() != (0, 0)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_is_wider_than_the_window_and_the_costs_stay() {
        let numbers = ["264", "100.1M", "93.0M", "202.8K", "123 h 4 min", "~$164.04"];
        let numbers = numbers.map(str::to_owned);
        for columns in [40, 60, 80, 200] {
            let table = Table::new(columns, Some(90));
            let row = table.row(&fit(&"word ".repeat(20), table.title), &numbers);
            assert!(line_width(&row) <= columns, "{columns}: {row}");
            for part in ["100.1M", "202.8K", "~$164.04"] {
                assert!(row.contains(part), "{columns}: {row}");
            }
            assert_eq!(row.contains("93.0M"), columns >= 60, "{columns}: {row}");
            assert!(table.title >= TITLE_COLUMNS, "{columns}: {row}");
        }
    }
}
