//! What a command may reach: the file system for reading, some folders for writing, and the network
//! only where that was allowed. The kernel enforces it (Landlock), for everything the command
//! starts as well.
//!
//! The restriction holds for a thread and for what it starts, so a command is started from a thread
//! of its own, which ends right after. Reading is not restricted: compilers and package managers
//! read all over a home folder. Neither are UDP and sockets that are files.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use serde::{Deserialize, Serialize};

/// What a command may change and reach.
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
    /// Not at all: there is no Landlock here, and a command may do everything this program may.
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

/// Starts a command that can do no more than `reach` says, in a process group of its own.
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

/// Restricts this thread, for good.
#[cfg(target_os = "linux")]
fn confine(reach: &Reach) -> io::Result<Confinement> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
        Scope, path_beneath_rules,
    };
    // The latest whose rules are tested here. What an older kernel lacks of it is left out.
    const KNOWN: ABI = ABI::V6;
    let all = AccessFs::from_all(KNOWN);
    // A device made in the workspace would be a way around everything else.
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
