//! The scores of a rule as a row, a table of rows, and a picture of the front.

use std::fmt::Write as _;

use super::score::Scored;

/// Times the sessions are drawn again to see how far a figure depends on which ones they are.
const DRAWS: usize = 400;

/// What a rule came to over all sessions. Shares are in percent.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) cost: f64,
    /// The same, from the fifth to the ninety-fifth percentile over sessions drawn again.
    pub(super) cost_spread: (f64, f64),
    pub(super) plus_edit: f64,
    pub(super) plus_all: f64,
    pub(super) plus_all_spread: (f64, f64),
    pub(super) recall: f64,
    pub(super) line_recall: f64,
    pub(super) edit: f64,
    pub(super) edl: f64,
    pub(super) breaks: usize,
    pub(super) breaks_in_turn: usize,
    pub(super) rewritten: f64,
    pub(super) peak: f64,
}

/// The sums of one session.
#[derive(Clone, Copy, Default)]
struct Sums {
    full: f64,
    cost: f64,
    all: f64,
}

impl Row {
    /// Adds up the calls of every session, beside what sending everything cost.
    pub(super) fn new(name: &'static str, scored: &[Vec<Scored>], whole: &[Vec<Scored>]) -> Row {
        let calls = || scored.iter().flatten();
        let sum = |of: fn(&Scored) -> f64| calls().map(of).sum::<f64>();
        let share = |part: f64, all: f64| if all > 0.0 { 100.0 * part / all } else { 100.0 };
        let full: f64 = whole.iter().flatten().map(|scored| scored.cost).sum();
        let (cost, edits) = (sum(|s| s.cost), sum(|s| s.edits.into()));
        let (again, names) = (sum(|s| s.refetch_edits), sum(|s| s.refetch_names));
        let sums: Vec<Sums> = scored
            .iter()
            .zip(whole)
            .map(|(scored, whole)| Sums {
                full: whole.iter().map(|s| s.cost).sum(),
                cost: scored.iter().map(|s| s.cost).sum(),
                all: scored.iter().map(|s| s.cost + s.refetch_edits + s.refetch_names).sum(),
            })
            .collect();
        Row {
            name,
            cost: share(cost, full),
            cost_spread: spread(&sums, |sums| sums.cost),
            plus_edit: share(cost + again, full),
            plus_all: share(cost + again + names, full),
            plus_all_spread: spread(&sums, |sums| sums.all),
            recall: share(sum(|s| s.names_seen.into()), sum(|s| s.names.into())),
            line_recall: share(sum(|s| s.lines_seen.into()), sum(|s| s.lines.into())),
            edit: share(sum(|s| s.edits_verbatim.into()), edits),
            edl: share(sum(|s| s.edits_seen.into()), edits),
            breaks: calls().filter(|s| s.broke).count(),
            breaks_in_turn: calls().filter(|s| s.broke_in_turn).count(),
            rewritten: sum(|s| s.rewritten),
            peak: calls().map(|s| s.context).fold(0.0, f64::max),
        }
    }
}

/// A share of the cost of everything, over sessions drawn again and again.
fn spread(sums: &[Sums], of: fn(&Sums) -> f64) -> (f64, f64) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sums[(state % sums.len() as u64) as usize]
    };
    let mut shares: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn: Vec<Sums> = (0..sums.len()).map(|_| draw()).collect();
            let full: f64 = drawn.iter().map(|sums| sums.full).sum();
            100.0 * drawn.iter().map(of).sum::<f64>() / full.max(1.0)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    (shares[DRAWS / 20], shares[DRAWS - 1 - DRAWS / 20])
}

/// The rows as a Markdown table.
pub(super) fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| rule | cost | +edit | +all | recall | line recall | edit | edl | breaks (in a turn) | rewritten | peak |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let range = |(low, high): (f64, f64)| format!("{low:.0}–{high:.0}");
        writeln!(
            out,
            "| {} | {:.1} ({}) | {:.1} | {:.1} ({}) | {:.2} | {:.1} | {:.1} | {:.1} | {} ({}) | {:.0}k | {:.0}k |",
            row.name,
            row.cost,
            range(row.cost_spread),
            row.plus_edit,
            row.plus_all,
            range(row.plus_all_spread),
            row.recall,
            row.line_recall,
            row.edit,
            row.edl,
            row.breaks,
            row.breaks_in_turn,
            row.rewritten / 1e3,
            row.peak / 1e3,
        )
        .expect("memory takes every write");
    }
    out
}

/// What the person pays against what the model still sees: one dot for each rule.
pub(super) fn picture(rows: &[Row]) -> String {
    let (width, height, left, bottom) = (760.0, 420.0, 60.0, 370.0);
    let costs = rows.iter().map(|row| row.plus_all);
    let low = (costs.clone().fold(100.0, f64::min) / 10.0).floor() * 10.0;
    let high = (costs.fold(100.0, f64::max).min(130.0) / 10.0).ceil() * 10.0;
    let floor = rows.iter().map(|row| row.recall).fold(100.0, f64::min).floor();
    let x = |cost: f64| left + (cost.min(high) - low) / (high - low) * (width - left - 160.0);
    let y = |recall: f64| bottom - (recall - floor) / (100.0 - floor) * (bottom - 40.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"{left}\" y=\"20\">recall (%) against +all (% of sending everything); further up and to the left is better</text>\n\
         <path d=\"M{left} 30V{bottom}H{width}\" fill=\"none\" stroke=\"#888\"/>\n"
    );
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let mut tick = low;
    while tick <= high {
        line(format!(
            "<text x=\"{:.0}\" y=\"{:.0}\" fill=\"#555\" text-anchor=\"middle\">{tick:.0}</text>",
            x(tick),
            bottom + 18.0
        ));
        tick += 10.0;
    }
    for recall in [floor, f64::midpoint(floor, 100.0).round(), 100.0] {
        line(format!(
            "<text x=\"{:.0}\" y=\"{:.0}\" fill=\"#555\" text-anchor=\"end\">{recall:.0}</text>",
            left - 8.0,
            y(recall) + 4.0
        ));
    }
    let mut labels: Vec<f64> = Vec::new();
    for row in rows {
        let (cx, cy) = (x(row.plus_all), y(row.recall));
        // Labels move down until they are clear of each other.
        let mut at = cy + 4.0;
        while labels.iter().any(|other| (other - at).abs() < 12.0) {
            at += 12.0;
        }
        labels.push(at);
        let (fill, weight) = if row.name == "chat" { ("#c30", "bold") } else { ("#36c", "normal") };
        line(format!("<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" fill=\"{fill}\"/>"));
        line(format!(
            "<text x=\"{:.1}\" y=\"{at:.1}\" font-weight=\"{weight}\">{}</text>",
            cx + 8.0,
            row.name
        ));
    }
    out.push_str("</svg>\n");
    out
}
