//! The sandbox of a command: it can read the file system, write some folders, and use the network
//! only if allowed. The kernel enforces it (Landlock), also for child processes.
//!
//! The restriction applies to a thread and its children, so a command is started from a separate
//! thread, which ends right after. Reading is not restricted, because compilers and package
//! managers read all over a home folder. UDP and Unix sockets are not restricted either.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use serde::{Deserialize, Serialize};

/// What a command may write and reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reach {
    /// Folders and files that may be written.
    pub(super) writable: Vec<PathBuf>,
    /// Whether it may open TCP connections, and talk to other programs through abstract sockets.
    pub(super) network: bool,
}

/// How far the kernel confines commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confinement {
    /// All of it.
    Full,
    /// Some: this kernel's Landlock is older than the rules.
    Partial,
    /// Not at all: there is no Landlock here, and a command can do everything this program can.
    None,
}

impl Confinement {
    /// What this kernel can enforce.
    pub fn here() -> Confinement {
        let reach = Reach { writable: Vec::new(), network: false };
        let confined = std::thread::spawn(move || confine(&reach)).join();
        confined.ok().and_then(Result::ok).unwrap_or(Confinement::None)
    }
}

/// Starts a command that is restricted to `reach`, in its own process group.
pub(super) fn spawn(mut command: Command, reach: Reach) -> io::Result<(Child, Confinement)> {
    let thread = std::thread::Builder::new().name("rethread-run".into()).spawn(move || {
        let confinement = confine(&reach)?;
        Ok((command.process_group(0).spawn()?, confinement))
    })?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of the command panicked")))
}

/// Devices a shell expects to write to. The terminal is not among them.
#[cfg(target_os = "linux")]
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"];

/// Restricts this thread, permanently.
#[cfg(target_os = "linux")]
fn confine(reach: &Reach) -> io::Result<Confinement> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
        Scope, path_beneath_rules,
    };
    // The latest version whose rules are tested here. Rules that an older kernel lacks are left
    // out.
    const KNOWN: ABI = ABI::V6;
    let all = AccessFs::from_all(KNOWN);
    // A device created in the workspace would circumvent everything else.
    let write = all & !(AccessFs::MakeBlock | AccessFs::MakeChar);
    let devices = DEVICES.iter().map(PathBuf::from);
    let writable = reach.writable.iter().cloned().chain(devices);
    let status = (|| {
        let mut rules = Ruleset::default().handle_access(all)?.scope(Scope::Signal)?;
        if !reach.network {
            rules = rules.handle_access(AccessNet::from_all(KNOWN))?;
            rules = rules.scope(Scope::AbstractUnixSocket)?;
        }
        let read = path_beneath_rules(["/"], AccessFs::from_read(KNOWN));
        let rules = rules.create()?.add_rules(read)?;
        rules.add_rules(path_beneath_rules(writable, write))?.restrict_self()
    })();
    match status.map_err(io::Error::other)?.ruleset {
        RulesetStatus::FullyEnforced => Ok(Confinement::Full),
        RulesetStatus::PartiallyEnforced => Ok(Confinement::Partial),
        RulesetStatus::NotEnforced => Ok(Confinement::None),
    }
}

/// Restricts nothing: this system has no Landlock.
#[cfg(not(target_os = "linux"))]
fn confine(_reach: &Reach) -> io::Result<Confinement> {
    Ok(Confinement::None)
}
