//! Longer runs with real servers, real databases and real faults: `cargo xtask faults`.
//!
//! Each run records what was acknowledged and compares it with what is there in the end. Each has a
//! control run with the protection taken away, and the control must fail: a check that cannot fail
//! says nothing.

mod history;
mod power;
#[path = "../postgres/served.rs"]
mod served;
mod shared;
mod standby;
mod unread;

use std::process::ExitCode;
use std::time::Instant;

/// A run: what it is about, what it is called, and what it does. It gives what it counted, or what
/// went wrong.
type Run = (&'static str, &'static str, fn() -> Result<String, String>);

const RUNS: [Run; 8] = [
    ("power", "a writer killed at a sync, a retry, and then a power cut", power::protected),
    ("power", "the same, and the retry syncs nothing (control)", power::control),
    ("unread", "clients that do not read, and bodies that do not come", unread::protected),
    ("unread", "the same clients, and every limit out of reach (control)", unread::control),
    ("postgres", "two servers and 64 writers, killed, paused and cut off", shared::protected),
    ("postgres", "the same writers, each try with another id (control)", shared::control),
    (
        "postgres",
        "a synchronous standby promoted after the primary is killed, 20 times",
        standby::protected,
    ),
    ("postgres", "a standby that nobody waits for (control)", standby::control),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [unread::CARELESS, store] = wanted.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        unread::serve_carelessly(store);
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (about, name, run) in RUNS {
        let is_meant = |word: &String| about == word || name.contains(word.as_str());
        if !wanted.iter().all(is_meant) {
            continue;
        }
        let began = Instant::now();
        println!("{name}");
        let outcome = run();
        let seconds = began.elapsed().as_secs_f64();
        match outcome {
            Ok(said) => println!("    ok in {seconds:.0} s: {said}"),
            Err(said) => {
                failed += 1;
                println!("    FAILED after {seconds:.0} s: {said}");
            }
        }
    }
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// What a control run says: it must have found something.
fn found(outcome: Result<String, String>) -> Result<String, String> {
    match outcome {
        Err(said) => Ok(format!("found as it should: {said}")),
        Ok(said) => Err(format!("nothing was found without the protection ({said})")),
    }
}
