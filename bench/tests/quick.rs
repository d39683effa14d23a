//! Checks that every benchmark runs. The figures are not checked here.

use std::process::Command;

#[test]
fn every_benchmark_runs_in_its_quick_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_rethread-bench"))
        .args(["--quick", "--folder"])
        .arg(folder.path())
        .output()
        .expect("it runs");
    let (said, wrong) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{wrong}");
    assert!(said.contains("durable append of 1 KB"), "{said}");
}

/// What `bench economy` prints for the sessions in the repository.
fn economy(args: &[&str]) -> std::process::Output {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rethread-bench"));
    command.args(["economy", "--corpus", corpus]).args(args).output().expect("it runs")
}

/// The cells of a rule in the first table.
fn cells(printed: &str, rule: &str) -> Vec<String> {
    let row = printed.lines().find(|line| line.starts_with(&format!("| {rule} |")));
    row.expect("a row").split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn the_default_costs_less_and_forgets_less_and_no_turn_rewrites_its_cache() {
    for ttl in ["none", "300"] {
        let output = economy(&["--ttl", ttl, "--rule", "chat", "--rule", "editor"]);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{printed}");
        // +all, recall and edl of a rule.
        let figures = |rule: &str| -> [f64; 3] {
            let cells = cells(&printed, rule);
            [4, 5, 8].map(|cell| {
                let number = cells[cell].split(' ').next().expect("a number");
                number.parse().expect("a number")
            })
        };
        let ([cost, recall, edl], [before, recalled, edited]) =
            (figures("chat"), figures("editor"));
        assert!(cost < before && recall > recalled && edl > edited, "{printed}");
        for rule in ["chat", "editor"] {
            let breaks = &cells(&printed, rule)[9];
            assert!(breaks.ends_with("(0)"), "{rule} rewrote a warm cache inside a turn: {breaks}");
        }
    }
}

#[test]
fn a_rule_that_rewrites_its_cache_inside_turns_is_seen() {
    let output = economy(&["--rule", "mask 10"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let breaks = &cells(&printed, "mask 10")[9];
    assert!(!breaks.ends_with("(0)"), "{breaks}");
}

#[test]
fn a_small_window_makes_contexts_smaller() {
    let peak = |window: &str| -> f64 {
        let output = economy(&["--rule", "chat", "--window", window]);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{printed}");
        let peak = cells(&printed, "chat")[11].trim_end_matches('k').to_owned();
        peak.parse().expect("a number")
    };
    // Instructions and tools come on top of what is in the window.
    let (small, large) = (peak("8000"), peak("200000"));
    assert!(small <= 18.0 + 8.0 && small < large, "{small}k, {large}k");
}

#[test]
fn a_compaction_keeps_more_names_than_a_summary_alone() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let output = Command::new(env!("CARGO_BIN_EXE_rethread-bench"))
        .args(["economy", "--compact", "--corpus", corpus])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    // Names that survive and recall, row by row.
    let rows: Vec<[f64; 2]> = said
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("names that survive"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            [2, 3].map(|cell| cells[cell].parse().expect("a number"))
        })
        .collect();
    let [log, nothing, extract, _, with_names, model, _, model_with_names] = rows[..] else {
        panic!("{said}")
    };
    for (before, now) in [(extract, with_names), (model, model_with_names)] {
        assert!(nothing[0] <= before[0] && before[0] + 10.0 < now[0], "{said}");
        assert!(before[1] < now[1] && now[1] <= log[1], "{said}");
    }
}

#[test]
fn a_rule_that_does_not_exist_is_named_with_those_that_do() {
    let output = economy(&["--rule", "best"]);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(wrong.contains("unknown rule `best`") && wrong.contains("everything, chat"), "{wrong}");
    let output = economy(&["--allowances", "read=many"]);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && wrong.contains("`many` is not a number"), "{wrong}");
}
