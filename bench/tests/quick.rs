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
