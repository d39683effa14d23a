//! `run`: a command of the shell.
//!
//! A command is not confined: it may do whatever this program may. That is why it is offered only
//! where someone allowed it by name.

use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use serde_json::json;

use super::input::{arguments, schema};
use super::limits::{OUTPUT_BYTES_MAX, RUN_LOOK, RUN_OUTPUT_WAIT, RUN_SECONDS, RUN_SECONDS_MAX};
use super::{Site, Spec, Tool, ToolFailure, Workspace};

/// What a variable's name contains when its value is not for a model to see.
const SECRET: [&str; 8] =
    ["KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "DATABASE_URL", "DSN", "AUTH"];

/// What our own variables begin with. Where the store is, is no matter of a command, and its URL may
/// hold a password.
const OURS: &str = "RETHREAD_";

/// Whether a variable is kept from commands, because its name or its value tells a secret.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_uppercase();
    // Programs take a proxy without its scheme, too.
    let skipped = usize::from(!name.ends_with("_PROXY"));
    name.starts_with(OURS)
        || SECRET.iter().any(|word| name.contains(word))
        || value.split("://").skip(skipped).any(has_password)
}

/// Whether what stands behind the scheme of a URL begins with `user:password@`.
fn has_password(rest: &str) -> bool {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    rest[..end].rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// Runs commands.
pub struct Run {
    workspace: Arc<Workspace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    command: String,
    timeout_s: Option<u64>,
}

/// Why a command is no longer waited for.
enum End {
    Exited,
    TimedOut,
    Stopped,
}

impl Run {
    /// Runs commands in this workspace.
    pub fn new(workspace: Arc<Workspace>) -> Run {
        Run { workspace }
    }

    fn spawn(&self, command: &str) -> std::io::Result<(Child, PipeReader)> {
        let (reader, writer) = std::io::pipe()?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).current_dir(self.workspace.root()).stdin(Stdio::null());
        // One pipe for both, so that they stand in the order they were written.
        shell.stdout(writer.try_clone()?).stderr(writer).process_group(0);
        for (name, value) in std::env::vars_os() {
            if is_secret(&name.to_string_lossy(), &value.to_string_lossy()) {
                shell.env_remove(name);
            }
        }
        Ok((shell.spawn()?, reader))
    }
}

impl Tool for Run {
    fn spec(&self) -> Spec {
        Spec {
            name: "run".into(),
            description: "Runs a command with `sh -c` in the workspace and gives its output, \
                          errors included, and its exit code. It gets no input. What it leaves \
                          running in the background is ended with it."
                .into(),
            input: schema(
                json!({
                    "command": {"type": "string", "description": "The command."},
                    "timeout_s": {"type": "integer", "description": "Seconds it may take: 60 when left out, 600 at the most."},
                }),
                &["command"],
            ),
        }
    }

    fn changes(&self) -> bool {
        true
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
        let failed = |error: std::io::Error| ToolFailure(format!("the command failed: {error}"));
        let (mut child, reader) = self.spawn(&input.command).map_err(failed)?;
        let output = Arc::new(Mutex::new(Output::default()));
        let ended = collect(reader, output.clone(), site.clone());
        let end = wait(&child, Duration::from_secs(seconds), site);
        // The shell is not reaped yet, so its number still means this group and no other. A group
        // in which nobody is left cannot be killed, and need not be.
        if let Some(group) = pid(&child) {
            kill_process_group(group, Signal::KILL).ok();
        }
        let status = child.wait().map_err(failed)?;
        // Its end, or that nobody will tell it.
        ended.recv_timeout(RUN_OUTPUT_WAIT).ok();
        let mut text = output.lock().map_or_else(|e| e.into_inner().text(), |out| out.text());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        match end {
            End::Exited => Ok(format!("{text}[{}]", told(status))),
            End::TimedOut => {
                Err(ToolFailure(format!("{text}[killed, because {seconds} s had passed]")))
            }
            End::Stopped => Err(ToolFailure(format!("{text}[stopped]"))),
        }
    }
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Waits for the shell to exit, without reaping it.
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

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
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
