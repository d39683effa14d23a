//! Suspends the program: Ctrl-Z, and its signal.
//!
//! While keys are read one by one Ctrl-Z is a key, and the signal (`kill -TSTP`, or a shell's
//! `suspend`) is treated as that key, so that the terminal is restored before the program stops.

use rustix::process::{
    Pid, Signal, getpgid, getpid, getppid, getsid, kill_current_process_group, kill_process,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::WeakSender;

use std::time::Instant;

use super::input::Line;
use super::keyboard::ModeWatch;
use super::keys::Key;

/// Processes between this one and the shell that are looked at.
const PARENTS_MAX: usize = 16;

/// Suspends this program and those it was started with. Returns when it continues; at once if
/// nobody could continue it.
pub(super) fn stop() -> bool {
    let can = can_be_continued();
    if can {
        // Not the signal of Ctrl-Z: that one is caught.
        kill_current_process_group(Signal::STOP).ok();
    }
    can
}

/// Takes the signal of Ctrl-Z from now on.
pub(super) fn catch(mode: ModeWatch, lines: WeakSender<(Instant, Line)>) -> std::io::Result<()> {
    let mut signals = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            match lines.upgrade().filter(|_| mode.is_by_key()) {
                Some(lines) => drop(lines.try_send((Instant::now(), Line::Key(Key::Suspend)))),
                None if can_be_continued() => drop(kill_process(getpid(), Signal::STOP)),
                None => {}
            }
        }
    });
    Ok(())
}

/// Waits until the program continues after it was suspended.
pub(super) async fn continued() {
    match signal(SignalKind::from_raw(Signal::CONT.as_raw())) {
        Ok(mut signals) => {
            signals.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// Whether there is a shell that controls this program as a job. Without one it would stay
/// suspended forever: a terminal that was opened only for it has none.
fn can_be_continued() -> bool {
    let (Ok(group), Ok(session)) = (getpgid(None), getsid(None)) else { return false };
    let mut parent = getppid();
    for _ in 0..PARENTS_MAX {
        let Some(pid) = parent else { return false };
        match (getpgid(Some(pid)), getsid(Some(pid))) {
            (Ok(_), Ok(other)) if other != session => return false,
            (Ok(other), Ok(_)) if other != group => return true,
            // It was started with us: a script, or `time`.
            (Ok(_), Ok(_)) => parent = parent_of(pid),
            _ => return false,
        }
    }
    false
}

/// The parent of another process.
fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // Its name comes first, in parentheses, and may hold anything; its state follows.
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
    Pid::from_raw(parent.parse().ok()?)
}
