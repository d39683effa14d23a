//! The launcher: a process between this program and a command, so that nothing the command starts
//! outlives it.
//!
//! Killing a process group misses processes that left it (`setsid`). The launcher is the program
//! itself, started once more: it becomes the parent of orphaned processes (a subreaper), and when
//! the command has ended it ends all of them. It also ends them when the program that requested the
//! command dies, because its standard input is then closed.
//!
//! It is given a `Launch` as one line on standard input, which then stays open for as long as the
//! command may run. The output of the command goes to standard error; standard output carries one
//! line, the `Report`.

use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use super::sandbox::{self, Confinement, Reach};

/// The one argument of a launcher.
pub(super) const ARGUMENT: &str = "--launch-command";

/// Bytes of a `Launch`: a command line is at most 128 KiB, and JSON may write six bytes for one.
const LAUNCH_BYTES_MAX: u64 = 2 << 20;

/// A command to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Launch {
    /// The command line for the shell.
    pub(super) command: String,
    /// Its working directory.
    pub(super) folder: PathBuf,
    /// Its sandbox.
    pub(super) reach: Reach,
}

impl Launch {
    /// The command as it is started; both outputs go to one pipe, in order.
    pub(super) fn shell(&self, out: impl Into<Stdio>, err: impl Into<Stdio>) -> Command {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&self.command).current_dir(&self.folder);
        shell.stdin(Stdio::null()).stdout(out).stderr(err);
        shell
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// It ran.
    Ended {
        /// Its exit code, if it exited.
        code: Option<i32>,
        /// The signal that ended it, if one did.
        signal: Option<i32>,
        /// How far the kernel confined it.
        confinement: Confinement,
    },
    /// It could not be started.
    Failed(String),
}

/// The path of this program, for [`super::RunSettings::launcher`], even if its file has been
/// replaced since it was started. `None` if the system has no subreapers.
pub fn this_program() -> Option<PathBuf> {
    cfg!(target_os = "linux").then(|| "/proc/self/exe".into())
}

/// Runs as a launcher, if this process was started as one. A program that is named in
/// [`super::RunSettings::launcher`] calls this before anything else.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT || arguments.next().is_some() {
        return None;
    }
    let report = launch().unwrap_or_else(|error| Report::Failed(error.to_string()));
    let line = serde_json::to_string(&report).expect("plain data is always valid JSON");
    // If nobody listens any more, the report is not needed.
    writeln!(io::stdout(), "{line}").ok();
    Some(ExitCode::SUCCESS)
}

#[cfg(not(target_os = "linux"))]
fn launch() -> io::Result<Report> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn launch() -> io::Result<Report> {
    let mut line = String::new();
    io::stdin().lock().take(LAUNCH_BYTES_MAX).read_line(&mut line)?;
    let launch: Launch = serde_json::from_str(&line)?;
    family::adopt()?;
    let output = || io::stderr().as_fd().try_clone_to_owned();
    let (child, confinement) = sandbox::spawn(launch.shell(output()?, output()?), launch.reach)?;
    std::thread::spawn(move || {
        let mut rest = [0; 64];
        while matches!(io::stdin().lock().read(&mut rest), Ok(1..)) {}
        family::kill_children();
    });
    let (code, signal) = family::wait_for(child)?;
    Ok(Report::Ended { code, signal, confinement })
}

/// Children, and the processes they leave running.
#[cfg(target_os = "linux")]
mod family {
    use std::io;
    use std::process::Child;
    use std::time::{Duration, Instant};

    use rustix::io::Errno;
    use rustix::process::{
        Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, setsid, wait,
    };

    /// How long leftover processes are killed. If a command starts processes faster than they die,
    /// this gives up.
    const END: Duration = Duration::from_secs(2);

    /// Makes this process the subreaper of its descendants, and detaches them from the terminal.
    pub(super) fn adopt() -> io::Result<()> {
        setsid()?;
        Ok(set_child_subreaper(Some(getpid()))?)
    }

    /// Waits for the command, then ends everything it left running.
    pub(super) fn wait_for(child: Child) -> io::Result<(Option<i32>, Option<i32>)> {
        let ended = loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status)))
                    if pid.as_raw_nonzero().get().unsigned_abs() == child.id() =>
                {
                    break (status.exit_status(), status.terminating_signal());
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let start = Instant::now();
        while start.elapsed() < END {
            match wait(WaitOptions::NOHANG) {
                Err(Errno::CHILD) => break,
                Ok(Some(_)) | Err(_) => {}
                Ok(None) => {
                    kill_children();
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(ended)
    }

    /// Kills every child. Their children become ours.
    pub(super) fn kill_children() {
        let me = getpid().as_raw_nonzero().get();
        let Ok(processes) = std::fs::read_dir("/proc") else { return };
        for process in processes.flatten() {
            let name = process.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            if parent_of(pid) == Some(me)
                && let Some(pid) = Pid::from_raw(pid)
            {
                // One that has exited by now need not be killed.
                kill_process(pid, Signal::KILL).ok();
            }
        }
    }

    /// The second field after the name; the name may contain anything.
    fn parent_of(pid: i32) -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    }
}
