//! `/cost`: what each turn cost.

use rethread_agent::provider::{Models, PRICES_AS_OF, Price};
use rethread_core::entry::Finished;
use rethread_core::message::Usage;
use rethread_render::terminal::line_width;

use super::tool_line::lasted;
use crate::out::{count, fit, pad};

/// Turns that are listed one by one: the latest.
const TURNS_SHOWN: usize = 50;

/// Columns of a window that is wide enough for a table; in a narrower one, a turn is a few lines.
const TABLE_FROM_COLUMNS: usize = 66;

/// A turn: its question, and its cost.
pub(super) struct TurnCost {
    pub(super) question: String,
    pub(super) finished: Finished,
}

/// Lines with the cost of each turn, and the total.
pub(super) fn lines(turns: &[TurnCost], models: &Models, columns: usize) -> Vec<String> {
    let is_table = columns >= TABLE_FROM_COLUMNS;
    let rows = |number: &str, usage: &Usage, ms, dollars, what: &str| match is_table {
        true => {
            let row = row(number, usage, ms, dollars);
            let left = columns.saturating_sub(row.len() + 2).max(8);
            vec![format!("{row}  {}", fit(what, left))]
        }
        false => {
            let mut rows = vec![format!("{number} {}", fit(what, columns.saturating_sub(3)))];
            rows.extend(parts(usage, ms, dollars, columns));
            rows
        }
    };
    let mut lines = Vec::new();
    if is_table {
        lines.push(" #     input  cached   output    time     cost  question".to_owned());
    }
    let mut sum = Finished::default();
    let (mut dollars, mut unpriced) = (None, false);
    let shown = turns.len().saturating_sub(TURNS_SHOWN);
    if shown > 0 {
        lines.push(format!("    … {} earlier turns", count(shown as u64)));
    }
    for (index, turn) in turns.iter().enumerate() {
        let usage = turn.finished.usage;
        let price = turn.finished.model.as_deref().and_then(|model| models.price(model));
        let cost = price.map(|price: Price| price.of(&usage));
        unpriced |= cost.is_none() && usage.total() > 0;
        dollars = match (dollars, cost) {
            (all, None) => all,
            (all, Some(cost)) => Some(all.unwrap_or(0.0) + cost),
        };
        sum.usage += usage;
        sum.ms = sum.ms.saturating_add(turn.finished.ms);
        if index >= shown {
            let number = format!("{:>2}", index + 1);
            lines.extend(rows(&number, &usage, turn.finished.ms, cost, &turn.question));
        }
    }
    lines.extend(rows("  ", &sum.usage, sum.ms, dollars, "in all"));
    if dollars.is_some() {
        let without = if unpriced { ", without models whose price is unknown" } else { "" };
        lines.push(format!("Cost is an estimate, at the prices of {PRICES_AS_OF}{without}."));
    }
    lines
}

fn row(number: &str, usage: &Usage, ms: u64, dollars: Option<f64>) -> String {
    let time = lasted(std::time::Duration::from_millis(ms));
    let cost = dollars.map(money).unwrap_or_default();
    format!(
        "{number} {:>9} {:>6}% {:>8} {} {}",
        count(usage.read()),
        cached(usage),
        count(usage.output),
        right(&time, 8),
        right(&cost, 8)
    )
}

/// What a turn cost, in indented lines of so many columns. A number stays with its unit.
fn parts(usage: &Usage, ms: u64, dollars: Option<f64>, columns: usize) -> Vec<String> {
    let mut parts = vec![
        format!("{} in ({} % cached)", count(usage.read()), cached(usage)),
        format!("{} out", count(usage.output)),
        lasted(std::time::Duration::from_millis(ms)),
    ];
    parts.extend(dollars.map(money));
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line_width(line) + ", ".len() + line_width(&part) <= columns => {
                *line += &format!(", {part}");
            }
            _ => lines.push(format!("   {part}")),
        }
    }
    lines
}

fn right(text: &str, columns: usize) -> String {
    let filled = pad(text, columns);
    let spaces = filled.len() - text.len();
    format!("{}{text}", " ".repeat(spaces))
}

/// The share of the input that came from the provider's cache, in percent.
pub(crate) fn cached(usage: &Usage) -> u64 {
    usage.cache_read.saturating_mul(100) / usage.read().max(1)
}

/// An estimate in dollars.
pub(crate) fn money(dollars: f64) -> String {
    match dollars {
        small if small < 0.01 && small > 0.0 => format!("~${small:.4}"),
        dollars => format!("~${dollars:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(question: &str, model: &str) -> TurnCost {
        let usage = Usage { input: 1_000, output: 500, cache_read: 3_000, cache_write: 0 };
        let finished = Finished { rounds: 1, ms: 61_000, usage, model: Some(model.into()) };
        TurnCost { question: question.into(), finished }
    }

    #[test]
    fn each_turn_and_the_sum_are_shown_with_what_they_cost() {
        let turns =
            [turn("first", "anthropic/claude-sonnet-4-5"), turn("second", "ollama/llama3.2")];
        assert_eq!(
            lines(&turns, &Models::default(), 80).join("\n"),
            " #     input  cached   output    time     cost  question
 1     4,000     75%      500 1 min 1 s   ~$0.01  first
 2     4,000     75%      500 1 min 1 s           second
       8,000     75%    1,000 2 min 2 s   ~$0.01  in all
Cost is an estimate, at the prices of 2026-11, without models whose price is unknown."
        );
    }

    #[test]
    fn in_a_narrow_window_a_turn_is_a_few_short_lines() {
        let turns = [turn(&"a long question ".repeat(9), "anthropic/claude-sonnet-4-5")];
        assert_eq!(
            lines(&turns, &Models::default(), 40)[..6],
            [
                " 1 a long question a long question a lo…",
                "   4,000 in (75 % cached), 500 out",
                "   1 min 1 s, ~$0.01",
                "   in all",
                "   4,000 in (75 % cached), 500 out",
                "   1 min 1 s, ~$0.01",
            ]
        );
    }

    #[test]
    fn an_estimate_is_marked_as_one() {
        assert_eq!([money(0.0), money(0.0012), money(1.234)], ["~$0.00", "~$0.0012", "~$1.23"]);
    }
}
