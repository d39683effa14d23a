//! Longer runs with real servers, real databases and real faults: `cargo xtask faults`.
//!
//! Each run records what was acknowledged and compares it with what is there in the end. Each has a
//! control run with the protection taken away, and the control must fail: a check that cannot fail
//! says nothing.

mod history;
#[path = "../postgres/served.rs"]
mod served;
mod shared;
mod standby;

use std::process::ExitCode;
use std::time::Instant;

/// A run: what it is called, and what it does. It gives what it counted, or what went wrong.
type Run = (&'static str, fn() -> Result<String, String>);

const RUNS: [Run; 4] = [
    ("two servers and 64 writers, killed, paused and cut off", shared::protected),
    ("the same writers, each try with another id (control)", shared::control),
    ("a synchronous standby promoted after the primary is killed, 20 times", standby::protected),
    ("a standby that nobody waits for (control)", standby::control),
];

fn main() -> ExitCode {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "postgres").collect();
    let mut failed = 0;
    for (name, run) in RUNS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
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
