//! The HTTP API under load: a server and its clients in one process, over real connections.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rethread_agent::provider::{Listener, Provider, Reply, Request, connect, describe};
use rethread_agent::scripted::{Answer, Server};
use rethread_agent::{HostLimits, HostSettings, Roster, RosterSettings, Workspaces};
use rethread_core::{Key, Message, Owner, Sessions};
use rethread_http::{Limits, Rules, ServerSettings};
use rethread_store::System;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::append::{fill, raw_append, raw_file};
use crate::run::{Report, Setting, Target, median, prose, quantile, timed, us};

/// A model that measures its own time, so that it can be subtracted.
struct Timed {
    model: Arc<dyn Provider>,
    nanos: AtomicU64,
}

impl Provider for Timed {
    fn ask<'a>(&'a self, request: Request<'a>, listener: Listener<'a>) -> Reply<'a> {
        Box::pin(async move {
            let began = Instant::now();
            let reply = self.model.ask(request, listener).await;
            let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.nanos.fetch_add(nanos, Ordering::Relaxed);
            reply
        })
    }
}

/// A model that remembers nothing of what it was asked, for measuring memory.
struct Forgetful;

impl Provider for Forgetful {
    fn ask<'a>(&'a self, _: Request<'a>, _: Listener<'a>) -> Reply<'a> {
        Box::pin(std::future::ready(Ok(Message::assistant("done"))))
    }
}

/// A server, and what its clients run on.
struct Site {
    address: SocketAddr,
    sessions: Sessions,
    clients: Runtime,
    _server: Runtime,
}

impl Site {
    fn new(setting: &Setting, name: &str, provider: Arc<dyn Provider>) -> Site {
        let store = setting.store(name);
        let sessions = Sessions::new(store.clone(), Owner::local(), Arc::new(System));
        let model = describe("openai", "scripted-1");
        let settings = HostSettings {
            roster: Roster::with_provider(RosterSettings::default(), model, provider),
            workspaces: Workspaces::only(&setting.folder).expect("a folder"),
            limits: HostLimits::default(),
            transcripts: None,
        };
        // The server is measured, not its timeouts.
        let limits = Limits {
            rate: u32::MAX,
            burst: u32::MAX,
            connections: 4_096,
            owner_requests: 4_096,
            streams: 4_096,
            turns: 4_096,
            owner_turns: 4_096,
            ..Limits::default()
        };
        let (world, rules) = (Arc::new(System), Rules::default());
        let door = ServerSettings { store, world, settings, rules, limits, log: None };
        let runtime = || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            runtime.worker_threads(2).enable_all().build().expect("a runtime")
        };
        let (server, clients) = (runtime(), runtime());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listening = server.block_on(door.listen(address)).expect("it listens");
        let address = listening.address();
        server.spawn(listening.serve(std::future::pending()));
        Site { address, sessions, clients, _server: server }
    }

    /// Sends requests on this many connections; each sends the next when it has the last response.
    fn load(&self, connections: usize, each: usize, request: Make) -> Load {
        let times = Arc::new(Mutex::new(Vec::new()));
        let began = Instant::now();
        self.clients.block_on(async {
            let tasks: Vec<_> = (0..connections)
                .map(|number| {
                    let (times, request, address) = (times.clone(), request.clone(), self.address);
                    tokio::spawn(async move {
                        let mut client = Client::connect(address).await;
                        let mut mine = Vec::with_capacity(each);
                        for round in 0..each {
                            let (path, body) = request(number, round);
                            let start = Instant::now();
                            client.post(&path, &body).await;
                            mine.push(start.elapsed());
                        }
                        times.lock().expect("not poisoned").extend(mine);
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("every request is answered");
            }
        });
        let took = began.elapsed();
        let mut times = std::mem::take(&mut *times.lock().expect("not poisoned"));
        let rate = times.len() as f64 / took.as_secs_f64();
        Load { rate, p50: median(&mut times), p99: quantile(&mut times, 0.99) }
    }
}

/// What a connection sends in a round: path and body.
type Make = Arc<dyn Fn(usize, usize) -> (String, String) + Send + Sync>;

struct Load {
    /// Requests a second.
    rate: f64,
    p50: Duration,
    p99: Duration,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} a second, p50 {}, p99 {}", self.rate, us(self.p50), us(self.p99))
    }
}

/// A connection that is kept.
struct Client {
    stream: TcpStream,
    address: SocketAddr,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("set");
        Client { stream, address, buffer: Vec::new() }
    }

    async fn post(&mut self, path: &str, body: &str) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.exchange(&head).await;
    }

    async fn get(&mut self, path: &str) {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address)).await;
    }

    async fn send(&mut self, request: &str) {
        self.stream.write_all(request.as_bytes()).await.expect("sent");
        self.buffer.clear();
    }

    /// Sends a request and reads the whole response, which must be a success.
    async fn exchange(&mut self, request: &str) {
        self.send(request).await;
        let length = loop {
            self.more().await;
            let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
            assert!(head.starts_with("HTTP/1.1 2"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            break end + 4 + length.and_then(|text| text.parse().ok()).unwrap_or(0);
        };
        while self.buffer.len() < length {
            self.more().await;
        }
    }

    async fn more(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await.expect("an answer");
        assert!(read > 0, "the server hung up");
    }
}

fn append_to(ids: Vec<String>) -> Make {
    Arc::new(move |connection, round| {
        let path = format!("/v1/sessions/{}/entries", ids[connection % ids.len()]);
        let text = prose(connection * 1_000 + round, 1_000);
        (path, json!({ "messages": [{ "role": "user", "content": text }] }).to_string())
    })
}

fn ask_about(files: usize) -> Make {
    Arc::new(move |connection, _| {
        let file = format!("{}.md", connection % files);
        let ask = json!({ "message": "go on", "session_id": null, "active_file": file });
        ("/chat".into(), ask.to_string())
    })
}

/// The three loads of one kind of request, and how they compare.
fn loads(name: [&'static str; 2], setting: &Setting, site: &Site, request: &Make) -> Vec<Report> {
    let load = |connections: usize, requests: usize| {
        let each = (setting.size(requests, requests / 10) / connections).max(1);
        site.load(connections, each, request.clone())
    };
    load(64, 640);
    let (one, many, most) = (load(1, 1_000), load(64, 6_400), load(512, 10_240));
    vec![
        Report {
            name: name[0],
            against: "the rate of one connection".into(),
            figure: many.rate / one.rate,
            unit: "×",
            target: Target::AtLeast(2.0),
            detail: format!("64: {many}; one: {one}"),
        },
        Report {
            name: name[1],
            against: "the rate of 64".into(),
            figure: most.rate / many.rate,
            unit: "×",
            target: Target::AtLeast(0.8),
            detail: format!("512: {most}"),
        },
    ]
}

/// `append` and `/chat` at 1, 64 and 512 connections; what the server adds to a model's time; and
/// memory.
pub(crate) fn door(setting: &Setting) -> Vec<Report> {
    // First, because the scripted model remembers everything it was asked.
    let memory = memory(setting);
    let model = Server::start([]);
    model.fallback(|_| Answer::text("The answer."));
    let wire = connect(&describe("openai", "scripted-1"), &model.env()).expect("a provider");
    let timed = Arc::new(Timed { model: wire, nanos: AtomicU64::new(0) });
    let site = Site::new(setting, "http.db", timed.clone());
    let ids: Vec<String> = (0..512)
        .map(|_| site.sessions.create(&Default::default(), None).expect("created").id().to_string())
        .collect();
    let request = append_to(ids);
    let mut reports = vec![one_append(setting, &site, &request)];
    reports.extend(loads(
        ["append at 64 connections", "append at 512 connections"],
        setting,
        &site,
        &request,
    ));
    let names = ["/chat at 64 connections", "/chat at 512 connections"];
    reports.extend(loads(names, setting, &site, &ask_about(512)));
    reports.push(own_time(setting, &site, &timed));
    reports.extend(memory);
    reports
}

/// One append over one connection, against a trivial response and a sync of the same bytes.
fn one_append(setting: &Setting, site: &Site, request: &Make) -> Report {
    let mut file = raw_file(setting);
    let (mut ours, mut bare, mut raws) = (Vec::new(), Vec::new(), Vec::new());
    let mut client = site.clients.block_on(Client::connect(site.address));
    for round in 0..setting.size(1_000, 100) {
        let (path, body) = request(0, round);
        ours.push(timed(|| site.clients.block_on(client.post(&path, &body))).0);
        bare.push(timed(|| site.clients.block_on(client.get("/healthz"))).0);
        raws.push(timed(|| raw_append(&mut file, &body)).0);
    }
    let (ours, bare, raw) = (median(&mut ours), median(&mut bare), median(&mut raws));
    Report {
        name: "append of 1 KB over HTTP, p50",
        against: "an answer of /healthz and a write + fdatasync of the same bytes".into(),
        figure: ours.as_secs_f64() / (bare + raw).as_secs_f64(),
        unit: "×",
        target: Target::AtMost(2.0),
        detail: format!("{} against {} and {}", us(ours), us(bare), us(raw)),
    }
}

/// What the server adds to the time of the model, with a long log.
fn own_time(setting: &Setting, site: &Site, model: &Timed) -> Report {
    let key = Key::new("file:0.md").expect("valid");
    let id = site.sessions.open(&key, &Default::default()).expect("opened").session().id();
    let entries = setting.size(10_000, 1_000);
    fill(&site.sessions, id, entries, 400);
    let request = ask_about(1);
    let mut client = site.clients.block_on(Client::connect(site.address));
    let mut file = raw_file(setting);
    let (mut times, mut syncs) = (Vec::new(), Vec::new());
    for round in 0..setting.size(300, 30) {
        let (path, body) = request(0, round);
        syncs.push(timed(|| raw_append(&mut file, &body)).0);
        let before = model.nanos.load(Ordering::Relaxed);
        let (took, ()) = timed(|| site.clients.block_on(client.post(&path, &body)));
        let asked = Duration::from_nanos(model.nanos.load(Ordering::Relaxed) - before);
        if round >= 3 {
            times.push(took.saturating_sub(asked));
        }
    }
    let own = median(&mut times);
    Report {
        name: "the server's own time per /chat, p50",
        against: format!("the model's time, taken off; {entries} entries in the session"),
        figure: own.as_secs_f64() * 1e3,
        unit: "ms",
        target: Target::AtMost(3.0),
        detail: format!(
            "p50 {}, p99 {}, while a write + fdatasync takes {}",
            us(own),
            us(quantile(&mut times, 0.99)),
            us(median(&mut syncs))
        ),
    }
}

/// Memory that this process has, in KiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("read from /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}

/// The memory of idle streams, and what finished requests do not free.
fn memory(setting: &Setting) -> Vec<Report> {
    let site = Site::new(setting, "memory.db", Arc::new(Forgetful));
    let sessions = (0..100).map(|_| {
        site.sessions.create(&Default::default(), None).expect("created").id().to_string()
    });
    let ids: Vec<String> = sessions.collect();
    let (append, ask) = (append_to(ids.clone()), ask_about(512));
    // Every other one is a turn.
    let mixed: Make = Arc::new(move |connection, round| match round % 2 {
        0 => ask(connection * 64 + round, round),
        _ => append(connection + round, round),
    });
    let request = |count: usize| site.load(8, setting.size(count, count / 20) / 8, mixed.clone());
    // By then every cache is full, including that of open threads.
    request(50_000);
    let early = resident();
    request(50_000);
    let late = resident();
    let streams = setting.size(1_000, 100);
    let before = resident();
    let open: Vec<Client> = site.clients.block_on(async {
        let mut open = Vec::new();
        for number in 0..streams {
            let mut client = Client::connect(site.address).await;
            let id = &ids[number % ids.len()];
            let request =
                format!("GET /v1/sessions/{id}/events HTTP/1.1\r\nhost: {}\r\n\r\n", site.address);
            client.send(&request).await;
            client.more().await;
            open.push(client);
        }
        open
    });
    let each = (resident() - before) / streams as f64;
    drop(open);
    vec![
        Report {
            name: "memory after 100,000 finished requests",
            against: "after 50,000".into(),
            figure: late / early,
            unit: "×",
            target: Target::AtMost(1.25),
            detail: format!("{:.0} MiB against {:.0} MiB", late / 1024.0, early / 1024.0),
        },
        Report {
            name: "memory of an idle stream, both ends",
            against: "nothing".into(),
            figure: each,
            unit: "KiB",
            target: Target::AtMost(64.0),
            detail: format!("{streams} streams of live events"),
        },
    ]
}
