//! Longer runs with real servers, real databases and real faults: `cargo xtask faults`.
//!
//! Each run records what was acknowledged and compares it with what is there in the end. Each has a
//! control run with the protection taken away, and the control must fail: a check that cannot fail
//! says nothing.

mod flipped;
mod history;
mod power;
#[path = "../postgres/served.rs"]
mod served;
mod shared;
mod standby;
mod unread;

use std::process::{Command, ExitCode};
use std::time::Instant;

use rethread_core::World;
use rethread_store::System;

/// A run: its topic, its name, and what it does. It returns what it counted, or what
/// went wrong.
type Run = (&'static str, &'static str, fn() -> Result<String, String>);

const RUNS: [Run; 11] = [
    ("damage", "every byte of a SQLite store flipped", || flipped::sqlite(seed(), 1)),
    ("damage", "every byte of the database of a files store flipped", || flipped::files(seed(), 1)),
    ("damage", "every byte of a SQLite store flipped, and nothing compared (control)", || {
        found(flipped::control(seed(), 1))
    }),
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
    println!("{}", circumstances());
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

/// The random seed of a run.
fn seed() -> u64 {
    std::env::var("RETHREAD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// The date, the commit, the machine and the seed of the runs.
fn circumstances() -> String {
    let git = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = git.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let built = if cfg!(debug_assertions) { ", debug assertions" } else { "" };
    format!(
        "{}, commit {}, {cores} cores, {} {}{built}, seed {}",
        System.now().strftime("%Y-%m-%d"),
        commit.as_deref().unwrap_or("unknown"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        seed()
    )
}

/// The result of a control run, which must have found something.
fn found(outcome: Result<String, String>) -> Result<String, String> {
    match outcome {
        Err(said) => Ok(format!("found as it should: {said}")),
        Ok(said) => Err(format!("nothing was found without the protection ({said})")),
    }
}
