//! A writer that is killed at a sync, a retry by another process, and then a power cut.
//!
//! What a power cut leaves is computed from what the processes did: `strace` reports every write
//! and every sync, and of each file only what was written before a sync of it is kept. That is the
//! worst a disk may do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINE: &str = r#"{"role":"user","content":"remember this","id":"once"}"#;

/// Syncs of the first attempt at which it is killed: those of opening the store, and that of the
/// append.
const SYNCS: u32 = 6;

pub(super) fn protected() -> Result<String, String> {
    survive(true)
}

/// The syncs of the retry are ignored, as if it had made none.
pub(super) fn control() -> Result<String, String> {
    super::found(survive(false))
}

fn survive(retry_syncs: bool) -> Result<String, String> {
    let mut acknowledged = 0;
    for kind in ["sqlite", "files"] {
        for sync in 1..=SYNCS {
            acknowledged += one(kind, sync, retry_syncs)?;
        }
    }
    Ok(format!("{acknowledged} retries acknowledged, all of them on disk"))
}

/// One attempt, killed at a sync; one retry; one power cut. Returns how many were acknowledged.
fn one(kind: &str, sync: u32, retry_syncs: bool) -> Result<usize, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("disk");
    std::fs::create_dir(&root).expect("a folder");
    let run = |arguments: &[&str], root: &Path, args: &[&str]| traced(kind, arguments, root, args);
    run(&[], &root, &["append", "--new", "--name", "plan"]);
    let mut disk = Image::of(&root);
    let inject = format!("inject=fdatasync:retval=0:signal=KILL:when={sync}");
    let append = ["append", "plan"];
    disk.follow(&run(&["-e", &inject], &root, &append).0, true);
    let (trace, said) = run(&[], &root, &append);
    let told = trace.find("write(1<").ok_or_else(|| format!("no acknowledgement: {trace}"))?;
    assert!(said.contains("\"seq\":1"), "{said}");
    disk.follow(&trace[..told], retry_syncs);
    let after = folder.path().join("after");
    disk.write(&root, &after);
    let (_, shown) = run(&[], &after, &["show", "plan", "--json"]);
    match shown.contains("\"once\"") {
        true => Ok(1),
        false => Err(format!("{kind}: killed at sync {sync}, acknowledged and lost: {shown}")),
    }
}

/// Runs a command under strace; returns the trace and the output.
fn traced(kind: &str, arguments: &[&str], root: &Path, args: &[&str]) -> (String, String) {
    let beside = root.parent().expect("a folder");
    let (trace, input) = (beside.join("trace"), beside.join("line"));
    // The message that creates the session is another one.
    let line = if args.contains(&"--new") { LINE.replace("once", "first") } else { LINE.into() };
    std::fs::write(&input, line).expect("written");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-xx", "-s", "16777216", "-o"]).arg(&trace);
    strace.args(["-e", "trace=pwrite64,write,lseek,fdatasync,fsync,ftruncate,rename"]);
    strace.args(arguments).arg(env!("CARGO_BIN_EXE_rethread")).args(args);
    let store = if kind == "sqlite" { root.join("store.db") } else { root.join("store") };
    strace.current_dir(beside).env_clear().env("HOME", beside);
    strace.env("RETHREAD_STORE", format!("{kind}:{}", store.display()));
    strace.stdin(std::fs::File::open(&input).expect("there"));
    let output = strace.output().expect("strace runs");
    let trace = std::fs::read_to_string(&trace).expect("a trace");
    (trace, String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a power cut leaves of a disk.
struct Image(BTreeMap<PathBuf, File>);

#[derive(Default)]
struct File {
    /// What has been synced.
    synced: Vec<u8>,
    /// What has been written.
    current: Vec<u8>,
}

impl Image {
    /// A disk on which everything is synced.
    fn of(root: &Path) -> Image {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        let synced = std::fs::read(&path).expect("read");
                        files.insert(path, File { current: synced.clone(), synced });
                    }
                }
            }
        }
        Image(files)
    }

    /// Applies the trace of a process, with or without its syncs.
    fn follow(&mut self, trace: &str, syncs: bool) {
        // The write position of each file.
        let mut places: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for line in trace.lines() {
            let Some((_, call)) = line.split_once(' ') else { continue };
            let call = call.trim_start();
            let path = || Some(unhex(between(call, "<", ">")?)).map(PathBuf::from);
            let last = || {
                let inside = call.rsplit_once(") = ").map(|(call, _)| call);
                inside.and_then(|call| call.rsplit(", ").next()?.parse::<usize>().ok())
            };
            if call.starts_with("pwrite64(") || call.starts_with("write(") {
                let (Some(path), Some(data)) = (path(), between(call, "\"", "\"")) else {
                    continue;
                };
                let data = bytes(data);
                let place = places.entry(path.clone()).or_default();
                let at = match call.starts_with("pwrite64(") {
                    true => last().expect("an offset"),
                    false => {
                        let next = *place + data.len();
                        std::mem::replace(place, next)
                    }
                };
                let file = self.0.entry(path).or_default();
                let end = file.current.len().max(at + data.len());
                file.current.resize(end, 0);
                file.current[at..at + data.len()].copy_from_slice(&data);
            } else if call.starts_with("lseek(") {
                let at = call.rsplit_once(") = ").and_then(|(_, at)| at.trim().parse().ok());
                if let (Some(path), Some(at)) = (path(), at) {
                    places.insert(path, at);
                }
            } else if call.starts_with("rename(") {
                let mut names = call.split('"').skip(1).step_by(2).map(unhex);
                let (Some(from), Some(to)) = (names.next(), names.next()) else { continue };
                if let Some(file) = self.0.remove(Path::new(&from)) {
                    self.0.insert(to.into(), file);
                }
            } else if call.starts_with("ftruncate(") {
                let Some(length) = last() else { continue };
                if let Some(file) = path().and_then(|path| self.0.get_mut(&path)) {
                    file.current.resize(length, 0);
                }
            } else if call.starts_with("fdatasync(") || call.starts_with("fsync(") {
                // A sync at which the process was killed did not happen.
                let happened = call.contains(") = 0") && !call.contains("INJECTED");
                if let Some(file) = path().and_then(|path| self.0.get_mut(&path))
                    && happened
                    && syncs
                {
                    file.synced.clone_from(&file.current);
                }
            }
        }
    }

    /// Writes what survived to another folder.
    fn write(&self, root: &Path, to: &Path) {
        for (path, file) in &self.0 {
            // SQLite rebuilds this one.
            if path.to_string_lossy().ends_with("-shm") {
                continue;
            }
            let Ok(inside) = path.strip_prefix(root) else { continue };
            let path = to.join(inside);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, &file.synced).expect("written");
        }
    }
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inside, _)| inside)
}

/// Bytes as strace writes them: `\x41\x42`.
fn bytes(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits.map(|digits| u8::from_str_radix(&digits[..2], 16).expect("two digits")).collect()
}

/// A path, which strace writes as it is or byte by byte.
fn unhex(path: &str) -> String {
    match path.starts_with("\\x") {
        true => String::from_utf8(bytes(path)).expect("text"),
        false => path.to_owned(),
    }
}
