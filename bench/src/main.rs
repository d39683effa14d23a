//! Benchmarks, as ratios within one run.
//!
//! Absolute times say more about the machine, and what else runs on it, than about the program. So
//! each figure is measured in pairs: ours and what it is compared with, alternately, in the same
//! process; the result is the ratio of the medians, with the medians next to it. `cargo xtask
//! bench` runs everything; a name runs one. The exit code says whether the targets were met.

mod append;
mod economy;
mod files;
mod http;
mod list;
mod postgres;
mod process;
mod round;
mod run;
mod size;
mod tail;
mod transcript;
mod trim;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use run::Report;

/// Speed, as ratios in one run.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Only these: append, group, tail, read, context, fork, list, size, files, round, trim,
    /// transcript, http, process, postgres
    names: Vec<String>,
    /// The folder to write in; it decides which disk is measured [default: under target/]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// An older `rethread`, measured in turns with this one where it is run as a process
    #[arg(long)]
    before: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Smaller inputs, to see that everything runs
    #[arg(long)]
    quick: bool,
}

/// Benchmarks in other units than time.
#[derive(Debug, Subcommand)]
enum Other {
    /// What rules for contexts cost and forget, measured by replaying transcripts
    Economy(economy::Args),
}

type Bench = fn(&run::Setting) -> Vec<Report>;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Other::Economy(args)) = &args.other {
        return economy::run(args);
    }
    let folder = args.folder.clone().unwrap_or_else(|| PathBuf::from("target/bench"));
    std::fs::create_dir_all(&folder).expect("a folder to write in");
    let benches: [(&str, Bench); 15] = [
        ("append", append::one_writer),
        ("group", append::many_writers),
        ("tail", tail::last_entries),
        ("read", tail::compared),
        ("context", tail::contexts),
        ("fork", tail::forks),
        ("list", list::newest),
        ("size", size::on_disk),
        ("round", round::overhead),
        ("files", files::directory),
        ("trim", trim::lines),
        ("transcript", transcript::claude_code),
        ("http", http::door),
        ("process", process::processes),
        ("postgres", postgres::appends),
    ];
    let mut met = true;
    for (name, bench) in benches {
        if !args.names.is_empty() && !args.names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let place = tempfile::tempdir_in(&folder).expect("a temporary folder");
        let (folder, before) = (place.path().to_owned(), args.before.clone());
        let setting = run::Setting { folder, quick: args.quick, before };
        for report in bench(&setting) {
            met &= report.met();
            match args.json {
                true => println!("{}", report.json()),
                false => println!("{report}"),
            }
        }
    }
    match met || args.quick {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
