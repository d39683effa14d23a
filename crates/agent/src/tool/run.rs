//! `run`: runs a shell command.
//!
//! A command can read what this program can read. It can write only to the workspace, the temporary
//! folder and the configured folders, and cannot open TCP connections unless the user agreed
//! (`sandbox.rs`); it gets only listed environment variables (`run_env.rs`), and leftover processes
//! are ended with it (`launcher.rs`); background commands are in `background.rs`. This protects
//! against accidents and against a model that was persuaded to do harm; but a command that can read
//! a user's files and change a workspace can still do harm.

use std::io::{self, PipeReader};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::background::BackgroundJobs;
use super::input::{arguments, schema};
use super::launcher::{Launch, Report};
use super::limits::{BACKGROUND_SECONDS_MAX, RUN_OUTPUT_WAIT, RUN_SECONDS, RUN_SECONDS_MAX};
use super::process::{End, Output, Started, collect, exit_text};
use super::run_env::passed_on;
use super::sandbox::{Confinement, Reach};
use super::{Site, Spec, Tool, ToolFailure, Workspace};

/// Settings for commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSettings {
    /// Environment variables that are passed on in addition to the usual ones. A `*` at the end of
    /// a name matches any suffix.
    pub env: Vec<String>,
    /// Folders and files that may be written, in addition to the workspace and the temporary
    /// folder.
    pub writable: Vec<PathBuf>,
    /// Whether every command may open TCP connections. Otherwise the user is asked if one needs to.
    pub network: bool,
    /// The program that starts commands, so that leftover processes do not outlive them: one that
    /// calls [`run_if_asked`](super::launcher::run_if_asked). Without one, processes that leave
    /// their process group survive.
    pub launcher: Option<PathBuf>,
}

/// Runs commands.
pub struct Run {
    workspace: Arc<Workspace>,
    settings: Arc<RunSettings>,
    background: Arc<BackgroundJobs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    command: String,
    timeout_s: Option<u64>,
    #[serde(default)]
    network: bool,
    #[serde(default)]
    background: bool,
}

impl Run {
    /// Runs commands in this workspace, with background commands in `background`.
    pub fn new(
        workspace: Arc<Workspace>,
        settings: Arc<RunSettings>,
        background: Arc<BackgroundJobs>,
    ) -> Run {
        Run { workspace, settings, background }
    }

    /// The sandbox of a command.
    fn reach(&self, input: &Input) -> Reach {
        let mut writable = vec![self.workspace.root().to_owned(), std::env::temp_dir()];
        writable.extend(self.settings.writable.iter().cloned());
        // The loop has asked the user before a command with `network` gets here.
        Reach { writable, network: self.settings.network || input.network }
    }

    fn start(&self, input: &Input) -> io::Result<(Started, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        let launch = Launch {
            command: input.command.clone(),
            folder: self.workspace.root().to_owned(),
            reach: self.reach(input),
        };
        let env = passed_on(&self.settings.env);
        let started = match &self.settings.launcher {
            Some(program) => Started::by_launcher(program, &launch, env, writer)?,
            None => Started::here(launch, env, writer)?,
        };
        Ok((started, reader))
    }
}

impl Tool for Run {
    fn spec(&self) -> Spec {
        Spec {
            name: "run".into(),
            description: "Runs a command with `sh -c` in the workspace and gives its output, \
                          errors included, and its exit code. It gets no input. What it leaves \
                          running is ended with it; for servers and long jobs set `background`, and \
                          read their output with `run_output`. It writes only the workspace and the \
                          temporary folder, and reaches no network unless `network` is set."
                .into(),
            input: schema(
                json!({
                    "command": {"type": "string", "description": "The command."},
                    "timeout_s": {"type": "integer", "description": "Seconds it may take: 60 when left out, 600 at the most; in the background 4 hours."},
                    "background": {"type": "boolean", "description": "Start it and return at once."},
                    "network": {"type": "boolean", "description": "Whether it must reach the network. The user is asked then."},
                }),
                &["command"],
            ),
        }
    }

    fn changes(&self) -> bool {
        true
    }

    fn command(&self, input: &str) -> Option<String> {
        arguments::<Input>(&self.spec().input, input).ok().map(|input| input.command)
    }

    fn must_ask(&self, input: &str) -> Option<String> {
        let input: Input = arguments(&self.spec().input, input).ok()?;
        let asks = input.network && !self.settings.network;
        asks.then(|| {
            "the command needs the network (`run.network = true` allows it for all commands)".into()
        })
    }

    /// A command gives its own timeout, and is ended here; the loop waits a little longer.
    fn time(&self, input: &str) -> Option<Duration> {
        let asked = arguments::<Input>(&self.spec().input, input).ok();
        let seconds = asked.map_or(RUN_SECONDS, |asked| asked.seconds());
        Some(Duration::from_secs(seconds + 5))
    }

    fn run(&self, input: &str, site: &Site) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        if input.command.trim().is_empty() || input.command.contains('\0') {
            let what = "`command` must not be empty or contain a NUL character";
            return Err(ToolFailure(what.into()));
        }
        let seconds = input.seconds();
        let failed = |error: io::Error| ToolFailure(format!("the command failed: {error}"));
        if input.background {
            let time = input.timeout_s.unwrap_or(BACKGROUND_SECONDS_MAX);
            let time = Duration::from_secs(time.clamp(1, BACKGROUND_SECONDS_MAX));
            let start = || self.start(&input).map_err(failed);
            return self.background.start(site, &input.command, time, self.refusal(&input), start);
        }
        let (started, reader) = self.start(&input).map_err(failed)?;
        let output = Arc::new(Mutex::new(Output::default()));
        let ended = collect(reader, output.clone(), site.progress.clone());
        let end = started.wait(Duration::from_secs(seconds), &site.stop);
        let report = started.end().map_err(failed)?;
        // Its exit, or that nobody will report it.
        ended.recv_timeout(RUN_OUTPUT_WAIT).ok();
        let mut text = output.lock().map_or_else(|e| e.into_inner().text(), |out| out.text());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let (code, signal, confinement) = match report {
            Report::Ended { code, signal, confinement } => (code, signal, confinement),
            Report::Failed(why) => return Err(ToolFailure(format!("the command failed: {why}"))),
        };
        match end {
            End::Exited => {
                let mut answer = format!("{text}[{}]", exit_text(code, signal));
                let failed = may_have_failed(&input.command, code);
                let refused = looks_refused(&text)
                    || !self.reach(&input).network
                        && is_silent_network_failure(&input.command, code);
                if failed && confinement != Confinement::None && refused {
                    answer.push_str(&self.refusal(&input));
                }
                Ok(answer)
            }
            End::TimedOut => {
                Err(ToolFailure(format!("{text}[killed, because {seconds} s had passed]")))
            }
            End::Stopped => Err(ToolFailure(format!("{text}[stopped]"))),
        }
    }
}

impl Input {
    /// The timeout of a command in the foreground.
    fn seconds(&self) -> u64 {
        self.timeout_s.unwrap_or(RUN_SECONDS).clamp(1, RUN_SECONDS_MAX)
    }
}

impl Run {
    /// A note about the sandbox, for a model that was restricted by it.
    fn refusal(&self, input: &Input) -> String {
        let reach = self.reach(input);
        let (there, missing): (Vec<_>, Vec<_>) =
            reach.writable.iter().partition(|path| path.exists());
        let listed = |paths: Vec<&PathBuf>| {
            let paths = paths.iter().map(|path| format!("`{}`", path.display()));
            paths.collect::<Vec<_>>().join(", ")
        };
        let missing = match missing.is_empty() {
            true => String::new(),
            false => format!(
                "; {} would be writable too, but does not exist, so the user has to create it",
                listed(missing)
            ),
        };
        let network = match reach.network {
            true => "",
            false => "; it reaches no network unless `network` is set, and then the user is asked",
        };
        format!(
            "\n[this may be a refusal by the sandbox: a command writes only below {}, and what the \
             user names in the setting `run.writable`{missing}{network}]",
            listed(there)
        )
    }
}

/// Whether some part of a command may have failed. The exit code is only that of the last part:
/// `make | tail` succeeds whatever `make` did.
pub(super) fn may_have_failed(command: &str, code: Option<i32>) -> bool {
    code != Some(0) || command.contains(['|', ';', '&', '\n'])
}

/// Whether the exit code alone says that there was no connection: `curl -s` prints nothing.
fn is_silent_network_failure(command: &str, code: Option<i32>) -> bool {
    let calls =
        |program: &str| command.split(|c: char| !c.is_alphanumeric()).any(|word| word == program);
    matches!(code, Some(7)) && calls("curl") || matches!(code, Some(4)) && calls("wget")
}

/// Whether the output of a failed command looks like a refusal by the sandbox. Programs report the
/// kernel's error in their own words, and some not at all.
pub(super) fn looks_refused(text: &str) -> bool {
    const SIGNS: [&str; 9] = [
        "permission denied",
        "operation not permitted",
        "eacces",
        "os error 13",
        "errno 13",
        "failed to connect",
        "could not connect",
        "couldn't connect",
        // What the kernel says of a file that is moved or linked out of the folder it may be in.
        "cross-device link",
    ];
    let text = text.to_lowercase();
    SIGNS.iter().any(|sign| text.contains(sign))
}
