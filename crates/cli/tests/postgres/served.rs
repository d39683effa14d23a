//! Real `rethread` processes on one database.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take. Longer than a turn waits for another.
const PATIENCE: Duration = Duration::from_secs(180);

/// The command, without this machine's environment. The store is set in the environment,
/// so that no password is in the process list.
pub(crate) fn command(home: &Path, store: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rethread"));
    command.args(args).current_dir(home).env_clear();
    command.env("HOME", home).env("RETHREAD_STORE", store);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server on a free port.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(
        home: &Path,
        store: &str,
        vars: &[(&str, String)],
        args: &[&str],
    ) -> Served {
        let all = [&["serve", "--listen", "127.0.0.1:0", "--json"], args].concat();
        let mut command = command(home, store, &all);
        command.envs(vars.iter().map(|(name, value)| (name, value))).stderr(Stdio::null());
        Served::begin(command)
    }

    /// A server that prints its address.
    pub(crate) fn begin(mut command: Command) -> Served {
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let url = said["listening"].as_str().expect("an address");
        Served { child, address: url.trim_start_matches("http://").to_owned() }
    }

    /// A server that writes a line about each request into a file.
    #[allow(dead_code, reason = "the longer runs do not look at it")]
    pub(crate) fn logging(home: &Path, store: &str, log: &Path) -> Served {
        let mut command = command(home, store, &["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.stderr(std::fs::File::create(log).expect("a file"));
        Served::begin(command)
    }

    /// Memory it takes at this moment, in MiB.
    #[allow(dead_code, reason = "only one of the longer runs looks at it")]
    pub(crate) fn memory_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("the system says how much") / 1_024
    }

    /// Sockets it has open.
    #[allow(dead_code, reason = "only one of the longer runs looks at it")]
    pub(crate) fn sockets(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs");
        let targets = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(done.expect("kill can be started").success(), "{name} to {pid}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may be paused, or gone.
        drop(Command::new("kill").args(["-KILL", &self.child.id().to_string()]).output());
        drop(self.child.wait());
    }
}

/// Sends a request. Returns nothing if the server died in the meantime.
pub(crate) fn ask(
    address: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Option<(u16, Value)> {
    let mut stream = send(address, method, path, body)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, serde_json::from_str(body).ok()?))
}

/// Sends a request, and leaves the response unread.
pub(crate) fn send(
    address: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Option<TcpStream> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .ok()?;
    Some(stream)
}
