//! `run`: a command of the shell.
//!
//! A command reads what this program can read. It writes only the workspace, the temporary folder
//! and what the settings name, and opens no TCP connection unless a person agreed (`sandbox.rs`); it
//! gets the variables on a list (`run_env.rs`), and what it leaves running is ended with it
//! (`launcher.rs`). That is a net for accidents and for a model that was talked into something;
//! whoever can read the files of a user and change a workspace can still do harm.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use serde_json::json;

use super::input::{arguments, schema};
use super::launcher::{self, Launch, Report};
use super::limits::{
    OUTPUT_BYTES_MAX, RUN_END_WAIT, RUN_LOOK, RUN_OUTPUT_WAIT, RUN_SECONDS, RUN_SECONDS_MAX,
};
use super::run_env::passed_on;
use super::sandbox::{self, Confinement, Reach};
use super::{Site, Spec, Tool, ToolFailure, Workspace};

/// What commands get, and how far they reach, besides what every command does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSettings {
    /// Variables that are passed on besides the usual ones. A `*` at the end of a name stands for
    /// any rest.
    pub env: Vec<String>,
    /// Folders and files that may be written besides the workspace and the temporary folder.
    pub writable: Vec<PathBuf>,
    /// Whether every command may open TCP connections. Otherwise a person is asked when one wants to.
    pub network: bool,
    /// The program that starts commands, so that nothing they leave running outlives them: one
    /// that calls [`launcher::run_if_asked`]. Without one, what leaves its process group does.
    pub launcher: Option<PathBuf>,
}

/// Runs commands.
pub struct Run {
    workspace: Arc<Workspace>,
    settings: Arc<RunSettings>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    command: String,
    timeout_s: Option<u64>,
    #[serde(default)]
    network: bool,
}

/// Why a command is no longer waited for.
enum End {
    Exited,
    TimedOut,
    Stopped,
}

impl Run {
    /// Runs commands in this workspace.
    pub fn new(workspace: Arc<Workspace>, settings: Arc<RunSettings>) -> Run {
        Run { workspace, settings }
    }

    /// What a command may reach.
    fn reach(&self, input: &Input) -> Reach {
        let mut writable = vec![self.workspace.root().to_owned(), std::env::temp_dir()];
        writable.extend(self.settings.writable.iter().cloned());
        // The loop has asked a person before a command with `network` comes here.
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
                          running in the background is ended with it. It writes only the workspace \
                          and the temporary folder, and reaches no network unless `network` is set."
                .into(),
            input: schema(
                json!({
                    "command": {"type": "string", "description": "The command."},
                    "timeout_s": {"type": "integer", "description": "Seconds it may take: 60 when left out, 600 at the most."},
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
        asks.then(|| "the command would reach the network (`run.network` allows it to all)".into())
    }

    /// A command says itself how long it may take, and is ended here; the loop waits a little longer.
    fn time(&self, input: &str) -> Option<Duration> {
        let asked = arguments::<Input>(&self.spec().input, input).ok().and_then(|i| i.timeout_s);
        let seconds = asked.unwrap_or(RUN_SECONDS).clamp(1, RUN_SECONDS_MAX);
        Some(Duration::from_secs(seconds + 5))
    }

    fn run(&self, input: &str, site: &Site) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        if input.command.trim().is_empty() || input.command.contains('\0') {
            let what = "`command` must not be empty or contain a NUL character";
            return Err(ToolFailure(what.into()));
        }
        let seconds = input.timeout_s.unwrap_or(RUN_SECONDS).clamp(1, RUN_SECONDS_MAX);
        let failed = |error: io::Error| ToolFailure(format!("the command failed: {error}"));
        let (started, reader) = self.start(&input).map_err(failed)?;
        let output = Arc::new(Mutex::new(Output::default()));
        let ended = collect(reader, output.clone(), site.clone());
        let end = wait(&started.child, Duration::from_secs(seconds), site);
        let report = started.end().map_err(failed)?;
        // Its end, or that nobody will tell it.
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
                let mut answer = format!("{text}[{}]", told(code, signal));
                if code != Some(0) && confinement != Confinement::None && looks_refused(&text) {
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

impl Run {
    /// What the sandbox keeps a command from, for a model that ran into it.
    fn refusal(&self, input: &Input) -> String {
        let reach = self.reach(input);
        let folders: Vec<String> =
            reach.writable.iter().map(|path| format!("`{}`", path.display())).collect();
        let network = match reach.network {
            true => "",
            false => "; it reaches no network unless `network` is set, and then the user is asked",
        };
        format!(
            "\n[this may be a refusal by the sandbox: a command writes only below {}, and what the \
             user names in the setting `run.writable`{network}]",
            folders.join(", ")
        )
    }
}

/// Whether a failed command says what programs say when the sandbox refuses something. Programs
/// report the kernel's answer in their own words, and some not at all.
fn looks_refused(text: &str) -> bool {
    const SIGNS: [&str; 8] = [
        "permission denied",
        "operation not permitted",
        "eacces",
        "os error 13",
        "errno 13",
        "failed to connect",
        "could not connect",
        "couldn't connect",
    ];
    let text = text.to_lowercase();
    SIGNS.iter().any(|sign| text.contains(sign))
}

/// A command that runs.
struct Started {
    child: Child,
    /// Where the child is a launcher: what it waits for the end of.
    lifeline: Option<ChildStdin>,
    /// Where it is not: how far the kernel confines it.
    confinement: Confinement,
}

impl Started {
    fn here(
        launch: Launch,
        env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
        output: PipeWriter,
    ) -> io::Result<Started> {
        // One pipe for both, so that they are in the order they were written.
        let mut shell = launch.shell(output.try_clone()?, output);
        shell.env_clear().envs(env);
        let (child, confinement) = sandbox::spawn(shell, launch.reach)?;
        Ok(Started { child, lifeline: None, confinement })
    }

    fn by_launcher(
        program: &std::path::Path,
        launch: &Launch,
        env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
        output: PipeWriter,
    ) -> io::Result<Started> {
        let mut launcher = Command::new(program);
        launcher.arg(launcher::ARGUMENT).env_clear().envs(env);
        launcher.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(output);
        let mut child = launcher.spawn()?;
        let mut lifeline = child.stdin.take().expect("it was piped");
        let line = serde_json::to_string(launch).expect("plain data is always valid JSON");
        // One that died before it read this is found out when it is waited for.
        writeln!(lifeline, "{line}").ok();
        Ok(Started { child, lifeline: Some(lifeline), confinement: Confinement::None })
    }

    /// Ends what is still running.
    fn end(mut self) -> io::Result<Report> {
        let Some(lifeline) = self.lifeline.take() else {
            // The shell is not reaped yet, so its number still means this group and no other. A
            // group in which nobody is left cannot be killed, and need not be.
            if let Some(group) = pid(&self.child) {
                kill_process_group(group, Signal::KILL).ok();
            }
            let status = self.child.wait()?;
            let (code, signal) = (status.code(), status.signal());
            return Ok(Report::Ended { code, signal, confinement: self.confinement });
        };
        drop(lifeline);
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > RUN_END_WAIT {
                self.child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut line = String::new();
        let report = self.child.stdout.take().expect("it was piped");
        report.take(REPORT_BYTES_MAX).read_to_string(&mut line)?;
        let lost = |_| io::Error::other("the process that started it was ended");
        serde_json::from_str(&line).map_err(lost)
    }
}

/// Bytes of a report: some numbers, or an error's text.
const REPORT_BYTES_MAX: u64 = 16 << 10;

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Waits for the child to exit, without reaping it.
fn wait(child: &Child, limit: Duration, site: &Site) -> End {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    loop {
        let Some(pid) = pid(child) else { return End::Exited };
        match waitid(WaitId::Pid(pid), options) {
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Ok(Some(_)) | Err(_) => return End::Exited,
        }
        if site.stop.is_cancelled() {
            return End::Stopped;
        }
        if start.elapsed() >= limit {
            return End::TimedOut;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(RUN_LOOK);
    }
}

fn told(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// The beginning and the end of what a command wrote.
#[derive(Default)]
struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    lost: u64,
}

impl Output {
    const HALF: usize = OUTPUT_BYTES_MAX / 2;

    fn push(&mut self, bytes: &[u8]) {
        let (head, tail) = bytes.split_at(bytes.len().min(Self::HALF - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let over = self.tail.len().saturating_sub(Self::HALF);
        self.tail.drain(..over);
        self.lost += over as u64;
    }

    fn text(&self) -> String {
        let (a, b) = self.tail.as_slices();
        let bytes = |lost: &[u8]| [&self.head, lost, a, b].concat();
        let bytes = match self.lost {
            0 => bytes(&[]),
            lost => bytes(format!("\n[{lost} bytes left out]\n").as_bytes()),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Reads on a thread of its own, because a pipe that stays open must not keep us waiting.
fn collect(mut reader: PipeReader, output: Arc<Mutex<Output>>, site: Site) -> Receiver<()> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(n @ 1..) = reader.read(&mut buffer) {
            match output.lock() {
                Ok(mut output) => output.push(&buffer[..n]),
                Err(_) => break,
            }
            site.progress.report(String::from_utf8_lossy(&buffer[..n]));
        }
        // Whoever no longer waits need not be told.
        sender.send(()).ok();
    });
    receiver
}
