//! Clients that request much and read nothing, or announce a body and do not send it, while another
//! client wants to be served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread_agent::{HostSettings, Roster, RosterSettings, Workspaces};
use rethread_core::{Incoming, Message, Name, Owner, Sessions};
use rethread_http::{AccessTokens, Limits, Rules, ServerSettings};
use rethread_store::System;

use crate::found;
use crate::served::Served;

/// Clients of each kind: about as many as an attacker can have open.
const EXPORTS: usize = 540;
const ENTRIES: usize = 150;
const BODIES: usize = 60;

/// The session they request: this many messages of 64 KiB, 14 MB.
const MESSAGES: usize = 220;

/// Bytes of a body, all but one of which are sent.
const BODY_BYTES: usize = 16 << 20;

/// How long another client may have to wait. The machine may be busy.
const ANSWER_TIME: Duration = Duration::from_secs(3);

/// The additional memory the server may use at its peak, and after all of them are gone.
const PEAK_MIB: u64 = 400;
const AFTER_MIB: u64 = 64;

/// How long clients that read nothing may stay connected: half a minute, and the time to notice.
const STAY: Duration = Duration::from_secs(40);

/// The argument that makes this program the server of the control run.
pub(crate) const CARELESS: &str = "careless-server";

pub(crate) fn protected() -> Result<String, String> {
    run(|home, store| Served::start(home, store, &[], &["--require-token"]))
}

/// The same server without effective limits.
pub(crate) fn control() -> Result<String, String> {
    found(run(|home, store| {
        let own = std::env::current_exe().expect("this program");
        let mut server = Command::new(own);
        server.args([CARELESS, store]).current_dir(home).env_clear().env("HOME", home);
        server.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Served::begin(server)
    }))
}

/// Serves like `rethread serve`, without limits.
pub(crate) fn serve_carelessly(store: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let store = rethread_store::connect(store, Arc::new(System)).expect("a store");
    let folder = std::env::current_dir().expect("a folder");
    let settings = HostSettings {
        roster: Roster::new(RosterSettings::default()),
        workspaces: Workspaces::only(&folder).expect("it opens"),
        limits: Default::default(),
        transcripts: None,
    };
    let ever = Duration::from_secs(3_600);
    let limits = Limits {
        owner_requests: usize::MAX,
        streams: usize::MAX,
        bytes: u32::MAX,
        owner_bytes: u32::MAX,
        send_time: ever,
        body_time: ever,
        ..Limits::default()
    };
    let rules = Rules { require_token: true, ..Rules::default() };
    let door =
        ServerSettings { store, world: Arc::new(System), settings, rules, limits, log: None };
    runtime.expect("a runtime").block_on(async {
        let listening = door.listen(([127, 0, 0, 1], 0).into()).await.expect("it listens");
        println!("{{\"listening\":\"http://{}\"}}", listening.address());
        listening.serve(std::future::pending()).await;
    });
}

/// A server with two owners, and its memory use.
struct Victim {
    server: Served,
    greedy: String,
    other: String,
    session: String,
    /// Memory before the first client, in MiB.
    base: u64,
    peak: u64,
    slowest: Duration,
    wrong: Vec<String>,
}

fn run(start: impl Fn(&Path, &str) -> Served) -> Result<String, String> {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let url = format!("sqlite:{}", home.path().join("rethread.db").display());
    let (session, greedy, other) = filled(&url).map_err(|error| error.to_string())?;
    let server = start(home.path(), &url);
    let (base, peak) = (server.memory_mib(), 0);
    let mut victim = Victim {
        server,
        greedy,
        other,
        session,
        base,
        peak,
        slowest: Duration::ZERO,
        wrong: Vec::new(),
    };
    victim.look("before");
    victim.base = victim.server.memory_mib();
    let mut said = vec![format!("{} MiB before", victim.base)];

    let exports: Vec<TcpStream> = (0..EXPORTS).map(|_| victim.unread("export")).collect();
    said.push(victim.phase("unread exports", EXPORTS));
    let began = Instant::now();
    while victim.connections() > 8 && began.elapsed() < STAY {
        std::thread::sleep(Duration::from_millis(500));
    }
    let left = victim.connections();
    if left > 8 {
        victim.wrong.push(format!("{left} connections after {} s unread", STAY.as_secs()));
    }
    said.push(format!("cut off after {} s", began.elapsed().as_secs()));
    drop(exports);

    let entries: Vec<TcpStream> = (0..ENTRIES).map(|_| victim.unread("entries")).collect();
    said.push(victim.phase("unread entries", ENTRIES));
    drop(entries);

    let bodies: Vec<TcpStream> = (0..BODIES).map(|_| victim.stalled()).collect();
    said.push(victim.phase("stalled bodies", BODIES));
    drop(bodies);

    let began = Instant::now();
    let bound = victim.base + AFTER_MIB;
    while victim.server.memory_mib() > bound && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(500));
    }
    let after = victim.server.memory_mib();
    if after > bound {
        victim.wrong.push(format!("{after} MiB are kept afterwards"));
    }
    if victim.peak > victim.base + PEAK_MIB {
        victim.wrong.push(format!("{} MiB at its peak", victim.peak));
    }
    said.push(format!("{after} MiB afterwards"));
    said.push(format!("others waited at most {} ms", victim.slowest.as_millis()));
    match victim.wrong.is_empty() {
        true => Ok(said.join("; ")),
        false => Err(format!("{} ({})", victim.wrong.join("; "), said.join("; "))),
    }
}

/// A store with a long session of one owner, and a token for each of two.
fn filled(url: &str) -> Result<(String, String, String), Box<dyn std::error::Error>> {
    let world = Arc::new(System);
    let store = rethread_store::connect(url, world.clone())?;
    let greedy = Owner::new("greedy")?;
    let sessions = Sessions::new(store.clone(), greedy.clone(), world.clone());
    let id = sessions.create(&Default::default(), None)?.id();
    let said = |n: usize| Incoming::from(Message::user(format!("{n} {}", "words ".repeat(11_000))));
    sessions.append(id, (0..MESSAGES).map(said).collect())?;
    let tokens = AccessTokens::new(store, world);
    let other = tokens.create(&Name::new("other")?, &Owner::new("other")?)?;
    Ok((id.to_string(), tokens.create(&Name::new("greedy")?, &greedy)?, other))
}

impl Victim {
    /// Requests a long response, and reads nothing.
    fn unread(&self, what: &str) -> TcpStream {
        let (address, token) = (&self.server.address, &self.greedy);
        let mut stream = TcpStream::connect(address).expect("it listens");
        let asked = write!(
            stream,
            "GET /v1/sessions/{}/{what} HTTP/1.1\r\nhost: {address}\r\n\
             authorization: Bearer {token}\r\n\r\n",
            self.session
        );
        // A server at its limit may refuse at once.
        drop(asked);
        stream
    }

    /// Announces a body and sends all of it but the end.
    fn stalled(&self) -> TcpStream {
        let (address, token) = (&self.server.address, &self.greedy);
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_write_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let asked = write!(
            stream,
            "POST /v1/sessions/{}/entries HTTP/1.1\r\nhost: {address}\r\n\
             authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {BODY_BYTES}\r\n\r\n",
            self.session
        );
        // A server at its limit closes the connection in the middle.
        drop(asked.and_then(|()| stream.write_all(&vec![b' '; BODY_BYTES - 1])));
        stream
    }

    /// What another client notices in the meantime.
    fn phase(&mut self, what: &str, clients: usize) -> String {
        for _ in 0..10 {
            self.look(what);
            std::thread::sleep(Duration::from_millis(100));
        }
        format!("{clients} {what}: {} MiB", self.server.memory_mib())
    }

    /// Another client sends a request and measures the time.
    fn look(&mut self, when: &str) {
        for path in ["/v1/sessions", "/readyz"] {
            let began = Instant::now();
            let status = self.ask(path);
            self.slowest = self.slowest.max(began.elapsed());
            let said = match status {
                Some(200) => continue,
                Some(status) => format!("{when}: somebody else's {path} was a {status}"),
                None => format!("{when}: somebody else's {path} did not come"),
            };
            if !self.wrong.contains(&said) {
                self.wrong.push(said);
            }
        }
        self.peak = self.peak.max(self.server.memory_mib());
    }

    fn ask(&self, path: &str) -> Option<u16> {
        let (address, token) = (&self.server.address, &self.other);
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(ANSWER_TIME)).ok()?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\n\r\n"
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split(' ').nth(1)?.parse().ok()
    }

    /// The server's connections, according to the kernel.
    fn connections(&self) -> usize {
        self.server.sockets()
    }
}
