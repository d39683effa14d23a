//! A running command: starting it, reading its output, waiting for it and ending it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio_util::sync::CancellationToken;

use super::launcher::{self, Launch, Report};
use super::limits::{OUTPUT_BYTES_MAX, RUN_END_WAIT, RUN_LOOK};
use super::sandbox::{self, Confinement};
use crate::events::Progress;

/// Why waiting for a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Exited,
    TimedOut,
    Stopped,
}

/// A command that runs.
pub(super) struct Started {
    child: Child,
    /// If the child is a launcher: the pipe whose end it waits for.
    lifeline: Option<ChildStdin>,
    /// Otherwise: how far the kernel confines it.
    confinement: Confinement,
}

impl Started {
    pub(super) fn here(
        launch: Launch,
        env: Vec<(OsString, OsString)>,
        output: PipeWriter,
    ) -> io::Result<Started> {
        // One pipe for both, so that they are in the order they were written.
        let mut shell = launch.shell(output.try_clone()?, output);
        shell.env_clear().envs(env);
        let (child, confinement) = sandbox::spawn(shell, launch.reach)?;
        Ok(Started { child, lifeline: None, confinement })
    }

    pub(super) fn by_launcher(
        program: &Path,
        launch: &Launch,
        env: Vec<(OsString, OsString)>,
        output: PipeWriter,
    ) -> io::Result<Started> {
        let mut launcher = Command::new(program);
        launcher.arg(launcher::ARGUMENT).env_clear().envs(env);
        launcher.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(output);
        let mut child = launcher.spawn()?;
        let mut lifeline = child.stdin.take().expect("it was piped");
        let line = serde_json::to_string(launch).expect("plain data is always valid JSON");
        // If it died before it read this, waiting for it reports that.
        writeln!(lifeline, "{line}").ok();
        Ok(Started { child, lifeline: Some(lifeline), confinement: Confinement::None })
    }

    /// Ends what is still running.
    pub(super) fn end(mut self) -> io::Result<Report> {
        let Some(lifeline) = self.lifeline.take() else {
            // The shell is not reaped yet, so its pid still identifies this group. An empty group
            // cannot be killed, and need not be.
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

impl Started {
    /// Waits for the command to exit, without reaping it.
    pub(super) fn wait(&self, limit: Duration, stop: &CancellationToken) -> End {
        wait(&self.child, limit, stop)
    }
}

fn wait(child: &Child, limit: Duration, stop: &CancellationToken) -> End {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    loop {
        let Some(pid) = pid(child) else { return End::Exited };
        match waitid(WaitId::Pid(pid), options) {
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Ok(Some(_)) | Err(_) => return End::Exited,
        }
        if stop.is_cancelled() {
            return End::Stopped;
        }
        if start.elapsed() >= limit {
            return End::TimedOut;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(RUN_LOOK);
    }
}

/// How a command ended, in words.
pub(super) fn exit_text(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// The beginning and the end of a command's output.
#[derive(Default)]
pub(super) struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    lost: u64,
}

impl Output {
    const HALF: usize = OUTPUT_BYTES_MAX / 2;

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (head, tail) = bytes.split_at(bytes.len().min(Self::HALF - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let over = self.tail.len().saturating_sub(Self::HALF);
        self.tail.drain(..over);
        self.lost += over as u64;
    }

    pub(super) fn text(&self) -> String {
        let (a, b) = self.tail.as_slices();
        let bytes = |lost: &[u8]| [&self.head, lost, a, b].concat();
        let bytes = match self.lost {
            0 => bytes(&[]),
            1 => bytes(b"\n[1 byte left out]\n"),
            lost => bytes(format!("\n[{lost} bytes left out]\n").as_bytes()),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Reads on a separate thread, because a pipe that stays open must not block us.
pub(super) fn collect(
    mut reader: PipeReader,
    output: Arc<Mutex<Output>>,
    progress: Progress,
) -> Receiver<()> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(n @ 1..) = reader.read(&mut buffer) {
            output.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..n]);
            progress.report(String::from_utf8_lossy(&buffer[..n]));
        }
        // If the receiver is gone, it is not needed.
        sender.send(()).ok();
    });
    receiver
}
