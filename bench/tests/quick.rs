//! That every benchmark runs. What it measures is another matter, and not looked at here.

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

#[test]
fn the_economy_of_the_sessions_in_the_repository_is_measured() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let output = Command::new(env!("CARGO_BIN_EXE_rethread-bench"))
        .args(["economy", "--ttl", "300", "--rule", "chat", "--rule", "editor", "--corpus", corpus])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    // +all, recall and edl of a rule.
    let figures = |rule: &str| -> [f64; 3] {
        let row = said.lines().find(|line| line.starts_with(&format!("| {rule} |")));
        let cells: Vec<&str> = row.expect("a row").split('|').map(str::trim).collect();
        [4, 5, 8].map(|cell| {
            let number = cells[cell].split(' ').next().expect("a number");
            number.parse().expect("a number")
        })
    };
    let ([cost, recall, edl], [before, recalled, edited]) = (figures("chat"), figures("editor"));
    assert!(cost < before && recall > recalled && edl > edited, "{said}");
    let row = said.lines().find(|line| line.starts_with("| chat |")).expect("a row");
    assert!(row.contains("(0) |"), "a warm cache was rewritten inside a turn: {row}");
}

#[test]
fn a_rule_that_does_not_exist_is_named_with_those_that_do() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let output = Command::new(env!("CARGO_BIN_EXE_rethread-bench"))
        .args(["economy", "--rule", "best", "--corpus", corpus])
        .output()
        .expect("it runs");
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        wrong.contains("there is no rule `best`") && wrong.contains("everything, chat"),
        "{wrong}"
    );
}
