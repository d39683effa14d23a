//! A private PostgreSQL server for tests.
//!
//! It is in a temporary folder and listens on a free loopback port; a PostgreSQL server that runs
//! on this machine is never touched. It ends with the process that started it, however that ends,
//! because a shell waits for a pipe to close.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use crate::postgres::testing::Faults;
pub use proxy::Proxy;

mod proxy;

/// How long a server may take to start or stop on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server.
pub struct Cluster {
    folder: PathBuf,
    port: u16,
    postmaster: u32,
    /// Ends the server and removes the folder when its input ends.
    watchdog: Child,
    databases: AtomicU32,
}

/// How a server is set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings<'a> {
    /// Whether a commit waits for the disk.
    pub fsync: bool,
    /// More settings, `name=value`.
    pub more: &'a [&'a str],
}

impl Cluster {
    /// Starts a server that does not sync: for tests of everything but durability.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed, or does not start; the message says which.
    pub fn start() -> Cluster {
        Cluster::with(Settings::default())
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// As [`start`](Cluster::start).
    pub fn with(settings: Settings<'_>) -> Cluster {
        let folder = folder();
        let data = folder.join("data");
        let made = as_nobody(&binary("initdb"))
            .args(["--username=rethread", "--auth=trust", "--locale=C", "--encoding=UTF8"])
            .args(["--no-sync", "--no-instructions", "--pgdata"])
            .arg(&data)
            .output()
            .expect("initdb can be started");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        Cluster::run(folder, settings)
    }

    /// A standby of this server, which replays what this one writes.
    ///
    /// # Panics
    ///
    /// As [`start`](Cluster::start).
    pub fn standby(&self, name: &str, settings: Settings<'_>) -> Cluster {
        let folder = folder();
        let source =
            format!("host=127.0.0.1 port={} user=rethread application_name={name}", self.port);
        let made = as_nobody(&binary("pg_basebackup"))
            .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--dbname", &source])
            .arg("--pgdata")
            .arg(folder.join("data"))
            .output()
            .expect("pg_basebackup can be started");
        assert!(made.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&made.stderr));
        Cluster::run(folder, settings)
    }

    fn run(folder: PathBuf, settings: Settings<'_>) -> Cluster {
        let began = Instant::now();
        loop {
            let port = free_port();
            let mut cluster = Cluster::spawn(folder.clone(), port, settings);
            match cluster.is_up() {
                true => return cluster,
                // Another process may have taken the port in the meantime.
                false if began.elapsed() < PATIENCE => cluster.end(false),
                false => panic!("PostgreSQL does not start:\n{}", cluster.log()),
            }
        }
    }

    fn spawn(folder: PathBuf, port: u16, settings: Settings<'_>) -> Cluster {
        const SCRIPT: &str = "exec 3<&0; \"$@\" </dev/null >>log 2>&1 & pid=$!; echo $pid; \
            read -r word <&3; kill -QUIT $pid 2>/dev/null; wait $pid 2>/dev/null; \
            case \"$word\" in keep) ;; *) rm -rf \"$PWD\" ;; esac";
        let on = |yes: bool| if yes { "on" } else { "off" };
        let mut command = as_nobody(Path::new("sh"));
        command.args(["-c", SCRIPT, "sh"]).arg(binary("postgres"));
        command.args(["-D", "data", "-p", &port.to_string(), "-k", "."]);
        let fsync = on(settings.fsync);
        let mut all = vec![
            "listen_addresses=127.0.0.1".to_owned(),
            "max_connections=200".to_owned(),
            "shared_buffers=64MB".to_owned(),
            "autovacuum_naptime=10s".to_owned(),
            format!("fsync={fsync}"),
            format!("full_page_writes={fsync}"),
        ];
        all.extend(settings.more.iter().map(|setting| (*setting).to_owned()));
        for setting in all {
            command.args(["-c", &setting]);
        }
        command.current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut watchdog = command.spawn().expect("a shell");
        let mut line = String::new();
        let out = watchdog.stdout.as_mut().expect("its output is a pipe");
        BufReader::new(out).read_line(&mut line).expect("the number of a process");
        let postmaster = line.trim().parse().unwrap_or_default();
        Cluster { folder, port, postmaster, watchdog, databases: AtomicU32::new(0) }
    }

    /// Waits until the server accepts connections; false if it has exited.
    fn is_up(&self) -> bool {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if self.try_sql("postgres", "SELECT 1").is_ok() {
                return true;
            }
            if !self.is_running() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    fn is_running(&self) -> bool {
        Path::new(&format!("/proc/{}/stat", self.postmaster)).exists()
            && !std::fs::read_to_string(format!("/proc/{}/stat", self.postmaster))
                .is_ok_and(|stat| stat.contains(") Z "))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://rethread@127.0.0.1:{}/{database}", self.port)
    }

    /// A new, empty database: its URL.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    pub fn database(&self) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::SeqCst));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Runs SQL with `psql`, and returns what it prints: rows, with `|` between columns.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.try_sql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The same; an error of the server is returned.
    ///
    /// # Errors
    ///
    /// What `psql` prints.
    pub fn try_sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = Command::new(binary("psql"))
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set=ON_ERROR_STOP=1", "--username=rethread", "--host=127.0.0.1"])
            .args(["--port", &self.port.to_string(), "--dbname", database])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("psql can be started");
        let mut input = psql.stdin.take().expect("its input is a pipe");
        // If it stops reading, the error is reported below.
        drop(input.write_all(sql.as_bytes()));
        drop(input);
        let done = psql.wait_with_output().expect("psql ends");
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        }
    }

    /// The server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Kills the server and all of its processes at once, as a power cut would.
    ///
    /// # Panics
    ///
    /// If it is still running after a long time.
    pub fn kill(&self) {
        let mut pids = vec![self.postmaster.to_string()];
        pids.extend(children(self.postmaster));
        // Some may have exited by themselves.
        drop(Command::new("kill").arg("-KILL").args(&pids).output());
        let began = Instant::now();
        while self.is_running() {
            assert!(began.elapsed() < PATIENCE, "the server cannot be killed");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the server, and starts it again on the same port.
    ///
    /// # Panics
    ///
    /// As [`start`](Cluster::start).
    pub fn restart(&mut self, settings: Settings<'_>) {
        self.end(true);
        let again = Cluster::spawn(self.folder.clone(), self.port, settings);
        let mut old = std::mem::replace(self, again);
        old.folder = PathBuf::new();
        assert!(self.is_up(), "PostgreSQL does not start again:\n{}", self.log());
    }

    /// Promotes a standby.
    ///
    /// # Panics
    ///
    /// If it is not promoted.
    pub fn promote(&self) {
        self.sql("postgres", "SELECT pg_promote(true, 60)");
        let began = Instant::now();
        while self.sql("postgres", "SELECT pg_is_in_recovery()") != "f" {
            assert!(began.elapsed() < PATIENCE, "the standby does not become a primary");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server; its folder is kept only if it will be used again.
    fn end(&mut self, keep: bool) {
        if let Some(mut input) = self.watchdog.stdin.take() {
            drop(input.write_all(if keep { b"keep\n" } else { b"\n" }));
        }
        drop(self.watchdog.wait());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.folder.as_os_str().is_empty() {
            self.end(false);
        }
    }
}

fn children(parent: u32) -> Vec<String> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let is_child = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        fields.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    let names = processes.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.parse::<u32>().is_ok()).filter(is_child).collect()
}

/// A free loopback port, below those that the system gives to connections: one of them could take it
/// before a server does.
///
/// # Panics
///
/// If there is none.
pub fn free_port() -> u16 {
    let any = || 10_000 + (RandomState::new().build_hasher().finish() % 20_000) as u16;
    let mut ports = std::iter::repeat_with(any).take(1_000);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

/// A new folder that belongs to the server's user. The caller removes it.
///
/// # Panics
///
/// If it cannot be created.
pub fn folder() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("rethread-postgres-").tempdir();
    let folder = folder.expect("a temporary folder").keep();
    if let Some(user) = user() {
        let done = Command::new("chown").arg(user).arg(&folder).status();
        assert!(done.is_ok_and(|status| status.success()), "the folder cannot be given to {user}");
    }
    folder
}

/// The user a server runs as, if it cannot be the one who runs the tests: PostgreSQL refuses to run
/// as root.
fn user() -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        return None;
    }
    let known = |user: &&str| {
        Command::new("id").arg(user).output().is_ok_and(|output| output.status.success())
    };
    ["postgres", "nobody"].into_iter().find(known)
}

/// A command run as the user of the test servers: PostgreSQL refuses to run as root.
///
/// # Panics
///
/// If the user does not exist.
pub fn as_nobody(program: &Path) -> Command {
    match user() {
        None => Command::new(program),
        Some(user) => {
            let group = Command::new("id").args(["-gn", user]).output().expect("id prints groups");
            let group = String::from_utf8_lossy(&group.stdout).trim().to_owned();
            let mut command = Command::new("setpriv");
            command.args(["--reuid", user, "--regid", &group, "--clear-groups"]);
            command.arg(program);
            command
        }
    }
}

/// The statement an append sends, for tests that send it in other ways.
pub fn append_statement() -> &'static str {
    crate::postgres::testing::append_statement()
}

/// A program of PostgreSQL. Debian keeps them in a separate folder, by version.
///
/// # Panics
///
/// If there is none.
pub fn binary(name: &str) -> PathBuf {
    let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    folders.sort();
    folders.reverse();
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("`{name}` of PostgreSQL is not installed; Debian calls the package postgresql")
    })
}
