//! A retry is acknowledged only when what it found is on disk.

use std::process::Command;

use crate::home::Home;

const LINE: &str = r#"{"role":"user","content":"remember this","id":"once"}"#;

/// Runs an append under strace with these arguments; returns the trace.
fn traced(home: &Home, arguments: &[&str], append: &[&str]) -> String {
    let (trace, input) = (home.path().join("trace"), home.path().join("line"));
    std::fs::write(&input, LINE).expect("written");
    let binary = home.command(append);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-o"]).arg(&trace).args(arguments);
    strace.arg(binary.get_program()).args(binary.get_args());
    strace.current_dir(home.path()).env_clear().env("HOME", home.path());
    strace.env("RETHREAD_STORE", home.store());
    strace.stdin(std::fs::File::open(&input).expect("there"));
    strace.output().expect("strace runs");
    std::fs::read_to_string(&trace).expect("a trace")
}

#[test]
fn a_retry_after_a_writer_died_before_its_sync_is_synced_before_it_is_acknowledged() {
    let home = Home::new();
    home.session("plan", &[r#"{"role":"user","content":"first"}"#]);
    let append = ["append", "plan"];
    // The first two syncs are those of a new write-ahead log and its folder, the third is that of
    // the append; the process dies in its place.
    let died = traced(&home, &["-e", "inject=fdatasync:retval=0:signal=KILL:when=3"], &append);
    assert!(died.contains("killed by SIGKILL"), "{died}");
    let retried = traced(&home, &["-e", "trace=fdatasync,write"], &append);
    let told = retried.find("write(1<").expect("it is acknowledged");
    let syncs = retried[..told].matches("rethread.db-wal").count();
    assert_eq!(syncs, 1, "what it found is synced, and nothing was written:\n{retried}");
    let shown = home.json(&["show", "plan"]);
    assert_eq!(shown["entries"].as_array().map(Vec::len), Some(2), "{shown}");
}
