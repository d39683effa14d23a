//! `fuzz`: arbitrary bytes through every reader and the renderer, after a planted bug was found.
//!
//! The targets are in `fuzz/`, a separate workspace. They run on the stable compiler, without a
//! sanitizer, because our code contains no unsafe code.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Failure, cargo, root};

/// The version that is installed if it is missing.
const CARGO_FUZZ: &str = "0.13.2";

/// Default number of seconds per target.
const SECONDS: u64 = 30;

/// Seconds in which a planted bug must be found. It takes a few.
const PLANTED_SECONDS: u64 = 120;

/// Bytes of an input. Longer ones are slower, and find nothing more.
const INPUT_BYTES_MAX: u32 = 16_384;

/// The target with the planted bug.
const PLANTED_IN: &str = "read_codex";

pub(super) fn run(arguments: &[String]) -> Result<(), Failure> {
    let (seconds, only) = parsed(arguments)?;
    let tools = provide()?;
    let manifest = std::fs::read_to_string(root().join("fuzz/Cargo.toml")).map_err(of_disk)?;
    let mut targets = targets(&manifest);
    if let Some(only) = only {
        if !targets.contains(&only) {
            let there = targets.join(", ");
            return Err(failure(format!("there is no target `{only}`; there are {there}")));
        }
        targets = vec![only];
    }
    planted(tools.as_deref())?;
    super::run(&mut fuzz(tools.as_deref(), "build", &[]))?;
    let mut inputs = 0;
    for target in &targets {
        inputs += sought(tools.as_deref(), target, seconds)?;
    }
    let count = targets.len();
    eprintln!(
        "\n{count} targets, {seconds} s each: {inputs} inputs, no fault; the planted one was found"
    );
    Ok(())
}

/// Fuzzes one target. Returns the number of inputs.
fn sought(tools: Option<&Path>, target: &str, seconds: u64) -> Result<u64, Failure> {
    let corpus = root().join("fuzz/corpus").join(target);
    std::fs::create_dir_all(&corpus).map_err(of_disk)?;
    let mut command = fuzz(tools, "run", &[target]);
    command.args([&corpus, &root().join("fuzz/seeds")]).arg("--");
    let told = command.args(limits(seconds)).output().map_err(of_disk)?;
    let said = String::from_utf8_lossy(&told.stderr);
    if !told.status.success() {
        eprintln!("{said}");
        let message = format!("`{target}` has a fault; the input that shows it is named above");
        let hint = format!("`cargo fuzz run -s none {target} FILE` shows it again");
        return Err(Failure { message, hint: Some(hint), code: 1 });
    }
    let Some(inputs) = executed(&said) else {
        eprintln!("{said}");
        return Err(failure(format!("`{target}` does not say how many inputs it got")));
    };
    eprintln!("{target}: {inputs} inputs, no fault");
    Ok(inputs)
}

/// The number of inputs, from a target's last output.
fn executed(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    line.and_then(|count| count.trim().parse().ok())
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

/// Where cargo-fuzz is: on the search path, or in the folder of this task.
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

/// Checks that a bug that is planted in a target is found, and only there. The search starts
/// without seeds.
fn planted(tools: Option<&Path>) -> Result<(), Failure> {
    let found = root().join("fuzz/target/planted");
    if found.exists() {
        std::fs::remove_dir_all(&found).map_err(of_disk)?;
    }
    std::fs::create_dir_all(&found).map_err(of_disk)?;
    super::run(&mut fuzz(tools, "build", &["--features", "planted", PLANTED_IN]))?;
    let mut command = fuzz(tools, "run", &["--features", "planted", PLANTED_IN]);
    command.arg(&found).arg("--").args(limits(PLANTED_SECONDS));
    command.arg(format!("-artifact_prefix={}/", found.display()));
    // Bytes that come closer to what they are compared with are kept.
    command.arg("-use_value_profile=1");
    eprintln!("\n==> a fault that is planted in `{PLANTED_IN}` must be found");
    let begun = std::time::Instant::now();
    let told = command.output().map_err(of_disk)?;
    std::fs::remove_dir_all(&found).map_err(of_disk)?;
    let said = String::from_utf8_lossy(&told.stderr);
    match !told.status.success() && said.contains("the planted fault") {
        true => {
            eprintln!("<== found after {} s", begun.elapsed().as_secs());
            Ok(())
        }
        false => {
            eprintln!("{said}");
            Err(failure("the planted fault was not found, so no other would be"))
        }
    }
}

fn fuzz(tools: Option<&Path>, verb: &str, arguments: &[&str]) -> Command {
    let mut command = match tools {
        Some(tools) => Command::new(tools.join("cargo-fuzz")),
        None => cargo(&[]),
    };
    command.args(["fuzz", verb, "-s", "none"]).current_dir(root()).args(arguments);
    command
}

fn limits(seconds: u64) -> [String; 4] {
    [
        format!("-max_total_time={seconds}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        "-timeout=20".to_owned(),
        "-print_final_stats=1".to_owned(),
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
    fn the_count_of_inputs_is_read_from_the_last_words_of_a_target() {
        let said = "Done 7 runs in 1 second(s)\nstat::number_of_executed_units: 7\nstat::new: 1\n";
        assert_eq!(executed(said), Some(7));
        assert_eq!(executed("Done"), None);
    }

    #[test]
    fn every_reader_has_a_target_and_every_target_a_file() {
        let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("it is read");
        let targets = targets(&read("fuzz/Cargo.toml"));
        for target in ["render_terminal", "render_html", "render_stream"] {
            assert!(targets.iter().any(|known| known == target), "no target `{target}`");
        }
        for target in &targets {
            assert!(root().join(format!("fuzz/fuzz_targets/{target}.rs")).is_file(), "{target}");
        }
        let formats = read("crates/transcript/src/read/recognise.rs");
        let names = formats.lines().filter_map(|line| {
            let (name, _) =
                line.trim().strip_suffix("\";")?.split_once(" = \"")?.1.split_once('"')?;
            Some(format!("read_{}", name.replace('-', "_")))
        });
        let names: Vec<String> = names.collect();
        assert!(names.len() >= 18, "{names:?}");
        for name in names {
            assert!(targets.contains(&name), "no target `{name}`");
        }
    }
}
