//! `fuzz`: any bytes through every reader, after a planted fault was found.
//!
//! The targets are in `fuzz/`, a workspace of its own. They run on the stable compiler, without a
//! sanitizer: there is no unsafe code of ours that one could look at.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Failure, cargo, root};

/// The version that is installed where there is none.
const CARGO_FUZZ: &str = "0.13.2";

/// Seconds each target runs if nobody says how long.
const SECONDS: u64 = 30;

/// Seconds in which a planted fault must be found. It takes one or two.
const PLANTED_SECONDS: u64 = 120;

/// Bytes of an input. What is longer is slower, and finds nothing more.
const INPUT_BYTES_MAX: u32 = 16_384;

/// The target that the fault is planted in.
const PLANTED_IN: &str = "read_codex";

pub(super) fn run(arguments: &[String]) -> Result<(), Failure> {
    let (seconds, only) = parsed(arguments)?;
    let tools = provide()?;
    planted(tools.as_deref())?;
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).map_err(of_disk)?;
    let targets = targets(&manifest);
    if let Some(only) = only.as_ref().filter(|only| !targets.contains(only)) {
        return Err(failure(format!(
            "there is no target `{only}`; there are {}",
            targets.join(", ")
        )));
    }
    for target in targets.iter().filter(|target| only.as_ref().is_none_or(|only| only == *target)) {
        let corpus = root().join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus).map_err(of_disk)?;
        let mut command = fuzz(tools.as_deref(), &[], target);
        command.args([&corpus, &root().join("fuzz/seeds")]).arg("--");
        super::run(command.args(limits(seconds)))?;
    }
    Ok(())
}

fn parsed(arguments: &[String]) -> Result<(u64, Option<String>), Failure> {
    let mut seconds = SECONDS;
    let mut only = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seconds" => {
                let given = rest.next().and_then(|text| text.parse().ok());
                seconds = given.ok_or_else(|| failure("`--seconds` wants a number of seconds"))?;
            }
            target => only = Some(target.to_owned()),
        }
    }
    Ok((seconds, only))
}

/// The names of the targets, in the order of their list.
fn targets(manifest: &str) -> Vec<String> {
    let bins = manifest.split("[[bin]]").skip(1);
    let names = bins.filter_map(|bin| {
        let line = bin.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some(line.trim_matches('"').to_owned())
    });
    names.collect()
}

/// Where cargo-fuzz is: on the search path, or in a folder of this chore.
fn provide() -> Result<Option<PathBuf>, Failure> {
    let there = |program: &Path| {
        let asked = Command::new(program).arg("--version").output();
        asked.is_ok_and(|told| told.status.success())
    };
    if there(Path::new("cargo-fuzz")) {
        return Ok(None);
    }
    let folder = root().join("target/tools");
    if !there(&folder.join("bin/cargo-fuzz")) {
        let install = ["install", "cargo-fuzz", "--version", CARGO_FUZZ, "--locked", "--root"];
        super::run(cargo(&install).arg(&folder))?;
    }
    Ok(Some(folder.join("bin")))
}

/// Sees a fault found that is planted in a target, and only there.
fn planted(tools: Option<&Path>) -> Result<(), Failure> {
    let found = root().join("fuzz/target/planted");
    std::fs::create_dir_all(&found).map_err(of_disk)?;
    let mut command = fuzz(tools, &["--features", "planted"], PLANTED_IN);
    command.arg(&found).arg("--").args(limits(PLANTED_SECONDS));
    command.arg(format!("-artifact_prefix={}/", found.display()));
    eprintln!("\n==> a planted fault must be found");
    let told = command.output().map_err(of_disk)?;
    std::fs::remove_dir_all(&found).map_err(of_disk)?;
    let said = String::from_utf8_lossy(&told.stderr);
    match !told.status.success() && said.contains("the planted fault") {
        true => {
            eprintln!("<== found");
            Ok(())
        }
        false => {
            eprintln!("{said}");
            Err(failure("the planted fault was not found, so no other would be"))
        }
    }
}

fn fuzz(tools: Option<&Path>, options: &[&str], target: &str) -> Command {
    let mut command = cargo(&["fuzz", "run", "-s", "none"]);
    if let Some(tools) = tools {
        let search = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(tools.to_owned()).chain(std::env::split_paths(&search));
        if let Ok(search) = std::env::join_paths(paths) {
            command.env("PATH", search);
        }
    }
    command.current_dir(root()).args(options).arg(target);
    command
}

fn limits(seconds: u64) -> [String; 3] {
    [
        format!("-max_total_time={seconds}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        "-timeout=20".to_owned(),
    ]
}

fn failure(message: impl Into<String>) -> Failure {
    Failure { message: message.into(), hint: None, code: 1 }
}

fn of_disk(error: std::io::Error) -> Failure {
    failure(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_has_a_target_and_every_target_a_file() {
        let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("it is read");
        let targets = targets(&read("fuzz/Cargo.toml"));
        for target in &targets {
            assert!(root().join(format!("fuzz/fuzz_targets/{target}.rs")).is_file(), "{target}");
        }
        let formats = read("crates/transcript/src/read/recognise.rs");
        let names = formats.lines().filter_map(|line| {
            let name = line.trim().strip_suffix("\",")?.split_once(" = \"")?.1;
            Some(format!("read_{}", name.replace('-', "_")))
        });
        let names: Vec<String> = names.collect();
        assert!(names.len() >= 18, "{names:?}");
        for name in names {
            assert!(targets.contains(&name), "no target `{name}`");
        }
    }
}
