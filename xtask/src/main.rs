//! The development tasks of this repository, as `cargo xtask <task>`.
//!
//! A task prints each step before it runs it, as a command that anybody could type, and how long it
//! took. Nothing here is part of the installed program, and nothing here knows how a test works.

mod fuzz;
mod schemathesis;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Instant;

/// A task.
struct Task {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), Failure>,
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        arguments: "[ARGS]",
        about: "get what the tests need, then run all of them; with ARGS only `cargo test ARGS`",
        run: test,
    },
    Task {
        name: "schemathesis",
        arguments: "[ARGS]",
        about: "ask the real server everything its OpenAPI document allows; part of `test`",
        run: schemathesis::task,
    },
    Task {
        name: "lint",
        arguments: "",
        about: "formatting, clippy, the docs, and the licences of the dependencies",
        run: lint,
    },
    Task {
        name: "faults",
        arguments: "damage|power|postgres|unread",
        about: "longer runs: flipped bits, kills, power cuts, servers cut off, clients that do not read",
        run: faults,
    },
    Task {
        name: "bench",
        arguments: "[ARGS]",
        about: "measure; ARGS go to the benchmark, which lists what it can do with --help",
        run: bench,
    },
    Task {
        name: "picture",
        arguments: "",
        about: "draw the picture in the README again, from a screen of the real program",
        run: picture,
    },
    Task {
        name: "fuzz",
        arguments: "[--seconds N] [TARGET]",
        about: "see a planted fault found, then run every fuzz target for N seconds (30)",
        run: fuzz::run,
    },
];

/// A program the tests call, or a file they read, by its path.
struct Need {
    program: &'static str,
    /// The Debian package that brings it.
    package: &'static str,
    purpose: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        program: "cc",
        package: "build-essential",
        purpose: "compiles the bundled SQLite, and links",
    },
    Need {
        program: "python3",
        package: "python3",
        purpose: "runs the other program in the tests of the files store",
    },
    Need {
        program: "chromium",
        package: "chromium",
        purpose: "opens the pages that must not get in at the HTTP door, and its own",
    },
    Need {
        program: "script",
        package: "bsdutils",
        purpose: "makes the pseudo-terminals the chat is tried in",
    },
    Need {
        program: "emacs",
        package: "emacs-nox",
        purpose: "is the other end of the Emacs client",
    },
    Need {
        program: "/usr/lib/emacsen-common/packages/install/elpa-package-lint",
        package: "elpa-package-lint",
        purpose: "looks at the Emacs client as its package archive does",
    },
    Need {
        program: "curl",
        package: "curl",
        purpose: "asks the two servers of the worked example in docs/scale.md",
    },
    Need {
        program: "initdb",
        package: "postgresql",
        purpose: "makes the private databases of the tests of the PostgreSQL store",
    },
    Need {
        program: "openssl",
        package: "openssl",
        purpose: "makes the certificate of such a database",
    },
    Need { program: "strace", package: "strace", purpose: "kills a writer at its sync" },
    Need {
        program: "setpriv",
        package: "util-linux",
        purpose: "runs PostgreSQL as another user where the tests are run by root",
    },
];

/// Where Debian keeps the programs of PostgreSQL: in a folder for each version, not on the path.
const POSTGRES_FOLDERS: &str = "/usr/lib/postgresql";

/// Why a task failed, what to do about it, and the exit code.
#[derive(Debug, PartialEq)]
struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.message);
            if let Some(hint) = failure.hint {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), Failure> {
    match arguments.split_first() {
        None => print!("{}", usage()),
        Some((first, _)) if ["help", "-h", "--help"].contains(&first.as_str()) => {
            print!("{}", usage());
        }
        Some((name, rest)) => (task(name)?.run)(rest)?,
    }
    Ok(())
}

fn usage() -> String {
    let mut text =
        "The development tasks of this repository.\n\nUsage: cargo xtask <TASK>\n\n".to_owned();
    for Task { name, arguments, about, .. } in TASKS {
        text.push_str(&format!("  {:<22}{about}\n", format!("{name} {arguments}")));
    }
    text
}

fn task(name: &str) -> Result<&'static Task, Failure> {
    TASKS.iter().find(|task| task.name == name).ok_or_else(|| Failure {
        message: format!("there is no task `{name}`"),
        hint: Some("`cargo xtask` lists them".to_owned()),
        code: 2,
    })
}

/// Unit tests, integration tests, examples (compiled) and doc tests. Not `--all-targets`: that
/// would run the benches, and leave the doc tests out.
fn test(arguments: &[String]) -> Result<(), Failure> {
    provide(NEEDS)?;
    let mut command = cargo(&["test", "--release", "--workspace", "--locked"]);
    run(command.args(arguments).current_dir(root()))?;
    match arguments.is_empty() {
        true => schemathesis::after_the_tests(),
        false => Ok(()),
    }
}

/// Every check is made even if one before it failed, so that one run reports everything.
fn lint(arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure {
            message: format!("`lint` takes no arguments, and was given `{argument}`"),
            hint: None,
            code: 2,
        });
    }
    let mut checks = vec![
        cargo(&["fmt", "--all", "--check"]),
        cargo(&[
            "clippy",
            "--release",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ]),
        cargo(&["doc", "--release", "--workspace", "--no-deps", "--locked"]),
    ];
    checks[2].env("RUSTDOCFLAGS", "-D warnings");
    let deny = cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"]);
    let mut left_out = None;
    if answers(cargo(&["deny", "--version"])) {
        // `deny` reads the crates of all platforms, and a build fetches only those of one.
        checks.push(cargo(&["fetch", "--locked"]));
        checks.push(deny);
    } else {
        left_out = Some(deny);
    }

    let mut failed = Vec::new();
    for check in &mut checks {
        if run(check.current_dir(root())).is_err() {
            failed.push(format!("`{}`", shown(check)));
        }
    }
    if let Some(deny) = left_out {
        eprintln!("\n==> left out: `{}`, because cargo-deny is not installed", shown(&deny));
        eprintln!("    The licences and sources of the dependencies were not checked.");
        eprintln!("    To check them too: cargo install --locked cargo-deny");
    }
    match failed.is_empty() {
        true => Ok(()),
        false => {
            Err(Failure { message: format!("failed: {}", failed.join(", ")), hint: None, code: 1 })
        }
    }
}

/// The faults a test injects by itself come first, then the runs with real processes.
fn faults(arguments: &[String]) -> Result<(), Failure> {
    let about = arguments.first().map(String::as_str);
    if !matches!(about, Some("damage" | "power" | "postgres" | "unread")) {
        return Err(Failure {
            message: "there are faults for `damage`, `power`, `postgres` and `unread`".to_owned(),
            hint: Some("`cargo xtask faults power`; words after it choose runs".to_owned()),
            code: 2,
        });
    }
    provide(NEEDS)?;
    let test = ["test", "--release", "--locked", "--package"];
    if about == Some("postgres") {
        let injected = ["rethread-store", "--test", "postgres", "--", "faults::"];
        run(cargo(&test).args(injected).current_dir(root()))?;
    }
    let real = ["rethread", "--test", "faults", "--"];
    run(cargo(&test).args(real).args(arguments).current_dir(root()))
}

/// Runs where the caller is, because the arguments may be paths. Some benchmarks measure the program
/// itself, so everything is built.
fn bench(arguments: &[String]) -> Result<(), Failure> {
    let build = ["build", "--release", "--workspace", "--bins", "--locked"];
    run(cargo(&build).current_dir(root()))?;
    let own = std::env::current_exe().ok();
    let target = own.as_deref().and_then(Path::parent).and_then(Path::parent);
    let folder = target.map_or_else(|| root().join("target"), Path::to_owned);
    run(Command::new(folder.join("release/rethread-bench")).args(arguments))
}

/// The test that compares the picture with the program draws it.
fn picture(arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure {
            message: format!("`picture` takes no arguments, and was given `{argument}`"),
            hint: None,
            code: 2,
        });
    }
    let mut test = cargo(&["test", "--release", "--locked", "--package", "rethread"]);
    test.args(["--test", "chat", "--", "the_picture_shows_what_the_program_shows"]);
    run(test.env("UPDATE_PICTURE", "1").current_dir(root()))
}

/// Installs what is missing, if allowed; otherwise says what to install, and how.
fn provide(needs: &[Need]) -> Result<(), Failure> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let absent = missing(needs, &search);
    if absent.is_empty() {
        return Ok(());
    }
    let apt = found("apt-get", &search);
    if apt && is_root() {
        install(&absent)?;
    }
    match missing(needs, &search) {
        absent if absent.is_empty() => Ok(()),
        absent => Err(asking_for(&absent, apt)),
    }
}

fn install(absent: &[&Need]) -> Result<(), Failure> {
    let still_missing =
        |failure: Failure| Failure { code: failure.code, ..asking_for(absent, true) };
    run(Command::new("apt-get").arg("update")).map_err(still_missing)?;
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages(absent)))
    .map_err(still_missing)
}

fn asking_for(absent: &[&Need], apt: bool) -> Failure {
    let programs: Vec<String> =
        absent.iter().map(|need| format!("`{}` ({})", need.program, need.purpose)).collect();
    let packages = packages(absent).join(" ");
    let hint = match apt {
        true => format!("as root: apt-get install {packages}"),
        false => format!("install what Debian calls: {packages}"),
    };
    let message = format!("the tests need what is not installed: {}", programs.join(", "));
    Failure { message, hint: Some(hint), code: 1 }
}

/// Each package once, in the order of the table.
fn packages(needs: &[&Need]) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for need in needs {
        if !packages.contains(&need.package) {
            packages.push(need.package);
        }
    }
    packages
}

fn missing<'a>(needs: &'a [Need], search: &OsStr) -> Vec<&'a Need> {
    needs.iter().filter(|need| !found(need.program, search)).collect()
}

/// Whether a program is on the search path, or where Debian keeps those of PostgreSQL. An absolute
/// path is checked as it is.
fn found(program: &str, search: &OsStr) -> bool {
    let apart = std::fs::read_dir(POSTGRES_FOLDERS).into_iter().flatten().flatten();
    let apart = apart.map(|version| version.path().join("bin"));
    std::env::split_paths(search).chain(apart).any(|directory| directory.join(program).is_file())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// The cargo that started us, so that a chosen toolchain stays chosen.
///
/// It does not inherit what `cargo xtask` told this program about its own package. Some build
/// scripts depend on those variables: with them, every other build would start over from there.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let ours = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if ours.iter().any(|ours| name.to_str().is_some_and(|name| name.starts_with(ours))) {
            command.env_remove(name);
        }
    }
    command.args(arguments);
    command
}

/// The top of the repository.
fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}

/// Runs one step: prints it, runs it, prints how long it took. Its exit code is the failure's.
fn run(command: &mut Command) -> Result<(), Failure> {
    let step = shown(command);
    eprintln!("\n==> {step}");
    let began = Instant::now();
    let status = command.status().map_err(|error| Failure {
        message: format!("`{step}` could not be started: {error}"),
        hint: None,
        code: 1,
    })?;
    let seconds = began.elapsed().as_secs_f64();
    if status.success() {
        eprintln!("<== done in {seconds:.1} s");
        return Ok(());
    }
    eprintln!("<== failed after {seconds:.1} s ({status})");
    Err(Failure { message: format!("`{step}` failed"), hint: None, code: code(status) })
}

/// The exit code to return. A step that was ended by a signal has none, and one that does not fit
/// into a byte is still a failure.
fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(1)
}

/// Whether a command can be started and succeeds.
fn answers(mut command: Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// A command, quoted for a shell.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    variables
        .chain(std::iter::once(quoted(program)))
        .chain(command.get_args().map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_a_line_in_the_usage() {
        let usage = usage();
        for task in TASKS {
            let line = usage.lines().find(|line| line.trim_start().starts_with(task.name));
            assert!(line.is_some_and(|line| line.ends_with(task.about)), "{}", task.name);
        }
    }

    #[test]
    fn an_unknown_task_is_an_error_with_a_hint_and_exit_code_2() {
        let failure = dispatch(&["tset".to_owned()]).unwrap_err();
        let expected = Failure {
            message: "there is no task `tset`".to_owned(),
            hint: Some("`cargo xtask` lists them".to_owned()),
            code: 2,
        };
        assert_eq!(failure, expected);
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_brings_it() {
        let need = |program, package| Need { program, package, purpose: "stores sessions" };
        let needs = [need("no-such-a", "one"), need("no-such-b", "one"), need("cc", "gcc")];
        let missing = missing(&needs, OsStr::new("")); // nothing is found on an empty search path
        let expected = Failure {
            message: "the tests need what is not installed: `no-such-a` (stores sessions), \
                      `no-such-b` (stores sessions), `cc` (stores sessions)"
                .to_owned(),
            hint: Some("as root: apt-get install one gcc".to_owned()),
            code: 1,
        };
        assert_eq!(asking_for(&missing, true), expected);
        let hint = asking_for(&missing, false).hint;
        assert_eq!(hint.as_deref(), Some("install what Debian calls: one gcc"));
    }

    #[test]
    fn what_is_on_the_search_path_is_not_missing() {
        let own = std::env::current_exe().unwrap();
        let name = own.file_name().unwrap().to_str().unwrap();
        let search = std::env::join_paths([Path::new("nowhere"), own.parent().unwrap()]).unwrap();
        assert!(found(name, &search));
        assert!(!found(name, OsStr::new("nowhere")));
        assert!(!found("no-such-program", &search));
        assert!(found(own.to_str().unwrap(), OsStr::new("nowhere")), "a whole path");
    }

    #[test]
    fn faults_say_which_there_are() {
        assert_eq!(faults(&[]).unwrap_err().code, 2);
        assert_eq!(faults(&["sqlite".to_owned()]).unwrap_err().code, 2);
    }

    #[test]
    fn lint_and_picture_take_no_arguments() {
        assert_eq!(lint(&["--fix".to_owned()]).unwrap_err().code, 2);
        assert_eq!(picture(&["--png".to_owned()]).unwrap_err().code, 2);
    }

    #[test]
    fn a_build_does_not_depend_on_whether_this_program_started_it() {
        let command = cargo(&["build"]);
        let removed = |name: &str| command.get_envs().any(|set| set == (OsStr::new(name), None));
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(std::env::var_os(name).is_some() && removed(name), "{name}");
        }
        assert!(!removed("PATH"));
    }

    #[test]
    fn a_step_is_shown_as_one_would_type_it() {
        let mut command = Command::new("bin/cargo");
        command.args(["doc", "it's", ""]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(shown(&command), r"RUSTDOCFLAGS='-D warnings' cargo doc 'it'\''s' ''");
    }

    #[cfg(unix)]
    #[test]
    fn the_exit_code_of_a_step_is_handed_on() {
        let exit = |script| run(Command::new("sh").args(["-c", script]));
        assert_eq!(exit("exit 0"), Ok(()));
        assert_eq!(exit("exit 101").unwrap_err().code, 101);
        assert_eq!(exit("kill -9 $$").unwrap_err().code, 1);
    }

    #[test]
    fn a_step_that_cannot_be_started_says_which() {
        let failure = run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(
            failure.message.starts_with("`no-such-program` could not be started"),
            "{failure:?}"
        );
    }
}
