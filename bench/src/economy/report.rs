//! The scores of a rule as a row, and rows as tables.

use std::fmt::Write as _;

use rethread_core::context::CutReason;

use super::rules::{Group, Rule};
use super::score::{Scored, WHYS};
use super::what::What;

/// Bootstrap samples: how far a figure depends on which sessions there are.
const SAMPLES: usize = 400;

/// The result of a rule over all sessions. Shares are in percent.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) group: Group,
    pub(super) cost: f64,
    /// The same, from the fifth to the ninety-fifth percentile of bootstrap samples of sessions.
    pub(super) cost_spread: (f64, f64),
    pub(super) plus_edit: f64,
    pub(super) plus_all: f64,
    pub(super) plus_all_spread: (f64, f64),
    pub(super) recall: f64,
    pub(super) recall_spread: (f64, f64),
    pub(super) line_recall: f64,
    pub(super) edit: f64,
    pub(super) edl: f64,
    pub(super) edl_spread: (f64, f64),
    pub(super) breaks: usize,
    pub(super) breaks_in_turn: usize,
    pub(super) rewritten: f64,
    pub(super) peak: f64,
    pub(super) sessions: usize,
    pub(super) calls: usize,
    pub(super) edits: u64,
    /// Of what the cost is made up, in percent of the cost of everything.
    pub(super) parts: [f64; What::ALL.len()],
    /// Names that are out of view, by what they were last seen in, in percent of all.
    pub(super) missed: [f64; What::ALL.len()],
    /// What the parts of the rule save, in percent of the cost of everything.
    pub(super) saved: [f64; WHYS.len()],
}

/// The sums of one session.
#[derive(Clone, Copy, Default)]
struct Sums {
    full: f64,
    cost: f64,
    all: f64,
    names: f64,
    names_seen: f64,
    edits: f64,
    edits_seen: f64,
}

impl Row {
    /// Adds up the calls of every session, and what sending everything would have cost.
    pub(super) fn new(rule: &Rule, scored: &[&[Scored]], whole: &[&[Scored]]) -> Row {
        let calls = || scored.iter().copied().flatten();
        let sum = |of: fn(&Scored) -> f64| calls().map(of).sum::<f64>();
        let share = |part: f64, all: f64| if all > 0.0 { 100.0 * part / all } else { 100.0 };
        let full: f64 = whole.iter().copied().flatten().map(|scored| scored.cost).sum();
        let names_needed = sum(|s| s.names.into());
        let (cost, edits) = (sum(|s| s.cost), sum(|s| s.edits.into()));
        let (again, names) = (sum(|s| s.refetch_edits), sum(|s| s.refetch_names));
        let sums: Vec<Sums> = scored
            .iter()
            .zip(whole)
            .map(|(scored, whole)| Sums {
                full: whole.iter().map(|s| s.cost).sum(),
                cost: scored.iter().map(|s| s.cost).sum(),
                all: scored.iter().map(|s| s.cost + s.refetch_edits + s.refetch_names).sum(),
                names: scored.iter().map(|s| f64::from(s.names)).sum(),
                names_seen: scored.iter().map(|s| f64::from(s.names_seen)).sum(),
                edits: scored.iter().map(|s| f64::from(s.edits)).sum(),
                edits_seen: scored.iter().map(|s| f64::from(s.edits_seen)).sum(),
            })
            .collect();
        Row {
            name: rule.name.clone(),
            group: rule.group,
            sessions: scored.len(),
            calls: calls().count(),
            edits: calls().map(|s| u64::from(s.edits)).sum(),
            parts: std::array::from_fn(|at| share(calls().map(|s| s.parts[at]).sum(), full)),
            missed: std::array::from_fn(|at| {
                share(calls().map(|s| f64::from(s.missed[at])).sum(), names_needed.max(1.0))
            }),
            saved: std::array::from_fn(|at| share(calls().map(|s| s.saved[at]).sum(), full)),
            cost: share(cost, full),
            cost_spread: spread(&sums, |sums| (sums.cost, sums.full)),
            plus_edit: share(cost + again, full),
            plus_all: share(cost + again + names, full),
            plus_all_spread: spread(&sums, |sums| (sums.all, sums.full)),
            recall: share(sum(|s| s.names_seen.into()), names_needed),
            recall_spread: spread(&sums, |sums| (sums.names_seen, sums.names)),
            line_recall: share(sum(|s| s.lines_seen.into()), sum(|s| s.lines.into())),
            edit: share(sum(|s| s.edits_verbatim.into()), edits),
            edl: share(sum(|s| s.edits_seen.into()), edits),
            edl_spread: spread(&sums, |sums| (sums.edits_seen, sums.edits)),
            breaks: calls().filter(|s| s.broke).count(),
            breaks_in_turn: calls().filter(|s| s.broke_in_turn).count(),
            rewritten: sum(|s| s.rewritten),
            peak: calls().map(|s| s.context).fold(0.0, f64::max),
        }
    }
}

/// A share of something, both given for each session, over bootstrap samples of sessions.
fn spread(sums: &[Sums], of: fn(&Sums) -> (f64, f64)) -> (f64, f64) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut pick = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        of(&sums[(state % sums.len() as u64) as usize])
    };
    let mut shares: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let (mut part, mut all) = (0.0, 0.0);
            for _ in sums {
                let (one, of) = pick();
                (part, all) = (part + one, all + of);
            }
            if all > 0.0 { 100.0 * part / all } else { 100.0 }
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    (shares[SAMPLES / 20], shares[SAMPLES - 1 - SAMPLES / 20])
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
            "| {} | {:.1} ({}) | {:.1} | {:.1} ({}) | {:.2} ({}) | {:.1} | {:.1} | {:.1} ({}) | {} ({}) | {:.0}k | {:.0}k |",
            row.name,
            row.cost,
            range(row.cost_spread),
            row.plus_edit,
            row.plus_all,
            range(row.plus_all_spread),
            row.recall,
            range(row.recall_spread),
            row.line_recall,
            row.edit,
            row.edl,
            range(row.edl_spread),
            row.breaks,
            row.breaks_in_turn,
            row.rewritten / 1e3,
            row.peak / 1e3,
        )
        .expect("memory takes every write");
    }
    out
}

/// The most important columns of some rules, for the sessions they may be chosen by and for the
/// others.
pub(super) fn halves(halves: &[(&str, Vec<Row>)]) -> String {
    let mut out = String::from(
        "| sessions | rule | cost | +all | recall | edl | breaks (in a turn) |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (half, rows) in halves {
        for (index, row) in rows.iter().enumerate() {
            let sessions = match index {
                0 => format!(
                    "{half}: {} sessions, {} calls, {} edits",
                    row.sessions, row.calls, row.edits
                ),
                _ => String::new(),
            };
            writeln!(
                out,
                "| {sessions} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {} ({}) |",
                row.name,
                row.cost,
                row.plus_all,
                row.recall,
                row.edl,
                row.breaks,
                row.breaks_in_turn,
            )
            .expect("memory takes every write");
        }
    }
    out
}

/// What the cost of each rule is made up of, and which kinds of blocks missed names were in.
pub(super) fn breakdown(rows: &[&Row]) -> String {
    let mut out = String::from("| part of the context |");
    for row in rows {
        write!(out, " {}: cost | missed |", row.name).expect("memory takes every write");
    }
    out.push_str("\n|---|");
    out.push_str(&"---|---|".repeat(rows.len()));
    for (at, what) in What::ALL.into_iter().enumerate() {
        if rows.iter().all(|row| row.parts[at] < 0.05 && row.missed[at] < 0.005) {
            continue;
        }
        write!(out, "\n| {} |", what.as_str()).expect("memory takes every write");
        for row in rows {
            write!(out, " {:.1} | {:.2} |", row.parts[at], row.missed[at])
                .expect("memory takes every write");
        }
    }
    out.push('\n');
    out
}

/// What each part of a rule saves.
pub(super) fn savings(row: &Row) -> String {
    let mut out = String::from("| what is left out | saves |\n|---|---|\n");
    for (at, why) in WHYS.into_iter().enumerate() {
        let what = match why {
            CutReason::Tidied => "blanks, colours and line numbers, if nothing else is left out",
            CutReason::Echo => "text that the result of an edit repeats from its call",
            CutReason::Repeated => {
                "lines that an earlier result already shows, and other lines of those results"
            }
            CutReason::Long => "lines beyond the allowance",
            CutReason::Cold => "lines of finished turns, when the cache was cold",
            CutReason::Pays => "lines of finished turns, because that saved more than it cost",
        };
        writeln!(out, "| {what} | {:.1} |", row.saved[at]).expect("memory takes every write");
    }
    out
}
