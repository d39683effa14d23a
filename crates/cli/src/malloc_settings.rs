//! Returns memory that a server no longer needs to the system.
//!
//! The C library's allocator adapts to the largest block that was ever freed: after a few bodies of
//! 16 MiB it keeps up to twice as much for each of its arenas, permanently. Fixed thresholds turn
//! that off, but they are read once, when a process starts, from its environment; setting them
//! later would need unsafe code. So a long-running process restarts itself with them.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Blocks of at least this size are mapped separately, and unmapped when they are freed; free space
/// of this size at the end of an arena is returned. A smaller threshold would cost a system call
/// for every part of a response.
const BYTES: &str = "1048576";

/// The environment variable of the allocator, and its value. Few arenas, because each keeps some
/// memory.
const SETTINGS: [(&str, &str); 3] = [
    ("MALLOC_MMAP_THRESHOLD_", BYTES),
    ("MALLOC_TRIM_THRESHOLD_", BYTES),
    ("MALLOC_ARENA_MAX", "4"),
];

/// Marks a process that was restarted. The settings themselves do not: the loader removes them for
/// a program with its own capabilities.
const STARTED_OVER: &str = "RETHREAD_STARTED_OVER";

/// Restarts this process with settings that return memory, unless the user set them. If that fails,
/// it continues unchanged.
pub(crate) fn return_freed_memory() {
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
    // This returns only if it failed, and then nothing has happened.
    drop(same.args(args).envs(SETTINGS).env(STARTED_OVER, "1").exec());
}
