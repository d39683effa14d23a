//! Memory that a server no longer needs goes back to the system.
//!
//! The C library's allocator learns from the largest thing that was ever freed: after a few bodies
//! of 16 MiB it keeps up to twice as much for each of its arenas, for good. Fixed thresholds turn
//! that off, but they are read once, when a process starts, from its environment; the calls that
//! set them later would be unsafe code. So a process that is to live long starts over with them.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// What is at least this large is mapped by itself, and unmapped when it is freed; what is free at
/// the end of an arena is given back when it is as much. Smaller would cost a call to the system
/// for every part of an answer.
const BYTES: &str = "1048576";

/// The environment variable of the allocator, and its value. Few arenas, because each keeps
/// something.
const SETTINGS: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", BYTES),
    ("MALLOC_TRIM_THRESHOLD_", BYTES),
    ("MALLOC_ARENA_MAX", "4"),
];

/// Says that the process was started over. The settings themselves do not: the loader removes them
/// for a program with capabilities of its own.
const STARTED_OVER: &str = "RETHREAD_STARTED_OVER";

/// Starts this process over so that it gives memory back, unless somebody set that otherwise. If it
/// cannot, it continues as it is.
pub(crate) fn give_back_what_is_freed() {
    let set = |name: &str| std::env::var_os(name).is_some();
    let is_set =
        set(STARTED_OVER) || set("GLIBC_TUNABLES") || SETTINGS.iter().any(|(name, _)| set(name));
    if cfg!(not(target_env = "gnu")) || is_set {
        return;
    }
    let Ok(own) = std::env::current_exe() else { return };
    let mut args = std::env::args_os();
    let mut same = Command::new(own);
    if let Some(name) = args.next() {
        same.arg0(name);
    }
    // This returns only where it failed, and then nothing has happened.
    drop(same.args(args).envs(SETTINGS).env(STARTED_OVER, "1").exec());
}
