//! Who holds a lease, and whether that process is still alive.
//!
//! A lease expires after some seconds. If its holder was a process on this machine and has died,
//! nobody has to wait even that long: the lease is ended and the operation is repeated.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rethread_core::{Sessions, StoreError, sessions};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The name of a holder: this process, distinguished from any other with the same pid, and this
/// turn.
pub(crate) fn holder() -> String {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    static PROCESS: LazyLock<String> = LazyLock::new(|| {
        let pid = std::process::id();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let started = started(&stat).unwrap_or_default();
        format!("{pid}.{started}@{}", machine())
    });
    format!("{}#{}", *PROCESS, TURNS.fetch_add(1, Ordering::Relaxed))
}

/// Whether this holder was a process on this machine and has exited. Its lease is then void.
pub fn is_dead(holder: &str) -> bool {
    let Some((process, rest)) = holder.split_once('@') else { return false };
    let Some((machine_of, _)) = rest.split_once('#') else { return false };
    let Some((pid, began)) = process.split_once('.') else { return false };
    let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) else { return false };
    if began.is_empty() || machine_of != machine() {
        return false;
    }
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => started(&stat).is_none_or(|now| now != began),
        // It may be hidden from this user, or there are too many open files to check.
        Err(_) => test_kill_process(pid) == Err(Errno::SRCH),
    }
}

/// Runs an operation that a lease may forbid. If the holder of the lease is dead, the lease is
/// ended, and the operation is repeated.
///
/// # Errors
///
/// The error of the operation; [`StoreError::Held`] only while the holder is alive.
pub(crate) fn ignoring_dead_holders<T>(
    sessions: &Sessions,
    mut work: impl FnMut(&Sessions) -> sessions::Result<T>,
) -> sessions::Result<T> {
    match work(sessions) {
        Err(sessions::Error::Store(StoreError::Held { id, holder, .. })) if is_dead(&holder) => {
            sessions.release(id, &holder)?;
            work(sessions)
        }
        done => done,
    }
}

/// The boot id of this machine and the pid namespace, as Linux reports them.
fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // Processes in another container have separate pids.
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        format!("{}-{}", boot.trim(), space.display())
    });
    &MACHINE
}

/// When a process was started, as Linux reports it.
fn started(stat: &str) -> Option<&str> {
    // The name is in parentheses and may contain spaces; the start time is the 20th field after it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A zombie does not write any more.
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rethread_core::Owner;

    use super::*;
    use crate::limits::LEASE;

    #[test]
    fn the_lease_of_a_dead_process_forbids_nothing_and_that_of_a_living_one_does() {
        let world = Arc::new(rethread_core::Fixed::default());
        let store = Arc::new(rethread_core::MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let id = sessions.create(&Default::default(), None).expect("created").id();
        let clear = |sessions: &Sessions| sessions.clear(id);
        let mut thread = sessions.thread(id).expect("opened");
        let alive = holder();
        thread.hold(&alive, LEASE).expect("held");
        assert!(ignoring_dead_holders(&sessions, clear).is_err(), "this process lives");
        thread.release(&alive).expect("given back");
        let dead = format!("{}.1@{}#0", std::process::id(), machine());
        thread.hold(&dead, LEASE).expect("held");
        ignoring_dead_holders(&sessions, clear).expect("nobody has it");
    }

    #[test]
    fn a_living_process_holds_and_a_dead_one_does_not() {
        assert!(!is_dead(&holder()), "this process lives");
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        let pid = child.id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let held = format!("{pid}.{}@{}#0", started(&stat).expect("it runs"), machine());
        assert!(!is_dead(&held));
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert!(is_dead(&held));
    }

    #[test]
    fn a_holder_of_another_machine_or_another_form_is_never_taken_for_dead() {
        for other in ["4194304.1@elsewhere#0", "telegram:7", "", "x@y#z", "1@", "999999.@#"] {
            assert!(!is_dead(other), "{other}");
        }
    }
}
