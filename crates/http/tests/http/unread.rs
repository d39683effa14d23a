//! Clients that do not read, or do not send what they announced: they use little memory, are
//! disconnected, and do not block others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rethread_core::{Incoming, Message, SessionId};
use rethread_http::Limits;
use serde_json::json;

use crate::client;
use crate::site::{JSON, Setup, Site};

/// A session with this many messages of 64 KiB.
fn long_session(site: &Site, owner: &str, messages: usize) -> SessionId {
    let sessions = site.sessions(owner);
    let id = sessions.create(&Default::default(), None).expect("created").id();
    let said = |n: usize| Incoming::from(Message::user(format!("{n} {}", "words ".repeat(11_000))));
    sessions.append(id, (0..messages).map(said).collect()).expect("appended");
    id
}

/// Asks, and reads nothing.
fn unread(site: &Site, path: &str, bearer: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(site.address()).expect("it listens");
    let token = bearer.map(|bearer| format!("authorization: {bearer}\r\n")).unwrap_or_default();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{token}\r\n", site.address());
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

/// The value of a metric.
fn metric(site: &Site, name: &str) -> u64 {
    let page = site.get("/metrics").body;
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name} in {page}"))
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn exports_that_nobody_reads_hold_no_thread_and_count_as_streams() {
    let limits = Limits { streams: 16, ..Limits::default() };
    let threads = Some(2);
    let site = Site::of(Setup { limits, threads, ..Setup::default() }, []);
    let bearer = format!("Bearer {}", site.token("laptop", "ada"));
    let path = format!("/v1/sessions/{}/export", long_session(&site, "ada", 64));
    let open: Vec<TcpStream> = (0..16).map(|_| unread(&site, &path, Some(&bearer))).collect();
    wait_until("all exports run", || metric(&site, "rethread_open_streams") == 16);
    let held = [("authorization", bearer.as_str())];
    site.request("GET", &path, &held, b"").is_problem(429, "streams");
    // There are two threads for blocking work, and neither waits for a client.
    for _ in 0..20 {
        assert_eq!(site.get("/v1/sessions").status, 200);
        assert_eq!(site.get("/readyz").status, 200);
    }
    let held = metric(&site, "rethread_bytes_in_flight");
    assert!(held <= 16 * (1 << 20), "a part for each, and no more: {held}");
    drop(open);
    wait_until("they are noticed to be gone", || metric(&site, "rethread_open_streams") == 0);
    assert_eq!(metric(&site, "rethread_bytes_in_flight"), 0);
}

#[test]
fn a_client_that_takes_nothing_is_cut_off_and_one_that_reads_slowly_is_not() {
    let send_time = Duration::from_millis(400);
    let impatient = Limits { send_time, ..Limits::default() };
    let site = Site::of(Setup { limits: impatient, ..Setup::default() }, []);
    let control = Site::new([]);
    let mut exports = Vec::new();
    for site in [&site, &control] {
        let path = format!("/v1/sessions/{}/export", long_session(site, "local", 64));
        exports.push(unread(site, &path, None));
        wait_until("it runs", || metric(site, "rethread_open_streams") == 1);
    }
    wait_until("it is cut off", || metric(&site, "rethread_open_streams") == 0);
    assert_eq!(metric(&site, "rethread_bytes_in_flight"), 0);
    assert_eq!(metric(&control, "rethread_open_streams"), 1, "this one has half a minute");
    // Each pause is shorter than the timeout; all of them together are much longer.
    let path = format!("/v1/sessions/{}/export", long_session(&site, "local", 64));
    let whole = site.get(&path).body;
    let mut slow = client::answer(unread(&site, &path, None)).body;
    let (began, mut read) = (Instant::now(), Vec::new());
    while slow.by_ref().take(512 << 10).read_to_end(&mut read).expect("it is still sent") > 0 {
        std::thread::sleep(send_time / 4);
    }
    assert!(began.elapsed() > 2 * send_time, "{:?}", began.elapsed());
    assert_eq!(read.len(), whole.len(), "it got everything");
}

#[test]
fn a_long_answer_is_read_as_it_is_sent_and_is_what_it_would_be_at_once() {
    let site = Site::new([]);
    let id = long_session(&site, "local", 200);
    let path = format!("/v1/sessions/{id}/entries");
    let open: Vec<TcpStream> = (0..32).map(|_| unread(&site, &path, None)).collect();
    wait_until("all of them run", || metric(&site, "rethread_open_streams") == 32);
    wait_until("what is read is on its way", || {
        metric(&site, "rethread_bytes_in_flight") <= 32 * (512 << 10)
    });
    drop(open);
    let (mut from, mut seqs) = (0, Vec::new());
    loop {
        let answer = site.get(&format!("{path}?from={from}"));
        let answer = answer.json();
        assert_eq!(answer["head"], 200);
        let entries = answer["entries"].as_array().expect("entries").clone();
        let bytes: usize = entries.iter().map(|entry| entry.to_string().len()).sum();
        assert!(bytes <= 8 << 20, "{bytes}");
        seqs.extend(entries.iter().map(|entry| entry["seq"].as_u64().expect("a number")));
        match answer["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(seqs, (0..200).collect::<Vec<u64>>());
    let two = site.get(&format!("{path}?from=3&limit=2")).json();
    assert_eq!((two["entries"].as_array().map(Vec::len), &two["next"]), (Some(2), &json!(5)));
}

#[test]
fn bodies_in_memory_are_bounded_by_their_bytes_for_each_owner_and_in_all() {
    let (owner_bytes, bytes) = (12 << 20, 20 << 20);
    let limits = Limits { owner_bytes, bytes, ..Limits::default() };
    let site = Site::of(Setup { limits, ..Setup::default() }, []);
    let bearer = |name: &str| format!("Bearer {}", site.token(name, name));
    let (ada, bob) = (bearer("ada"), bearer("bob"));
    let head = |bearer: &str| {
        format!(
            "POST /chat HTTP/1.1\r\nhost: {}\r\nauthorization: {bearer}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{{",
            site.address(),
            4 << 20
        )
    };
    let stalled = |bearer: &str| {
        let mut stream = TcpStream::connect(site.address()).expect("it listens");
        stream.write_all(head(bearer).as_bytes()).expect("sent");
        stream
    };
    let taken = || metric(&site, "rethread_bytes_in_flight");
    let hers: Vec<TcpStream> = (0..3).map(|_| stalled(&ada)).collect();
    wait_until("three are announced", || taken() == 12 << 20);
    let refused = client::send(site.address(), &head(&ada), b"").whole();
    refused.is_problem(429, "bytes");
    assert!(refused.header("retry-after").is_some());
    let his: Vec<TcpStream> = (0..2).map(|_| stalled(&bob)).collect();
    wait_until("five are", || taken() == 20 << 20);
    client::send(site.address(), &head(&bob), b"").whole().is_problem(503, "busy");
    // Requests that need no memory are still served for everyone.
    assert_eq!(site.request("GET", "/healthz", &[("authorization", &ada)], b"").status, 200);
    drop((hers, his));
    wait_until("all are gone", || taken() == 0);
    let chat = json!({"message": "hello", "active_file": null}).to_string();
    let headers = [JSON, ("authorization", ada.as_str())];
    assert_eq!(site.request("POST", "/chat", &headers, chat.as_bytes()).status, 200);
    // For a body of unknown length, memory is reserved as it arrives.
    let mut chunked = format!("{:x}\r\n", 13 << 20).into_bytes();
    chunked.extend(vec![b' '; 13 << 20]);
    let headers = [JSON, ("authorization", &ada), ("transfer-encoding", "chunked")];
    let keeps = stalled(&ada);
    wait_until("one is announced", || taken() == 4 << 20);
    site.request("POST", "/chat", &headers, &chunked).is_problem(429, "bytes");
    drop(keeps);
}

#[test]
fn questions_that_wait_are_bounded_by_their_bytes() {
    let slow = rethread_agent::scripted::Answer::text("slow").slowly(0);
    let limits = Limits { owner_question_bytes: 3 << 20, ..Limits::default() };
    let site = Site::of(Setup { limits, ..Setup::default() }, [slow]);
    let ask = |text: String| json!({"message": text, "session_id": null, "active_file": "a.md"});
    let large = || ask("x".repeat(1 << 20));
    let first = site.stream("/chat/stream", &ask("first".into()));
    site.model.wait_for_requests(1);
    let waiting = [site.stream("/chat/stream", &large()), site.stream("/chat/stream", &large())];
    let refused = site.post("/chat", &large());
    refused.is_problem(429, "bytes");
    let small = site.stream("/chat/stream", &ask("small".into()));
    site.model.release();
    for events in waiting.into_iter().chain([first, small]) {
        assert_eq!(events.count(), 2);
    }
    wait_until("there is room again", || site.post("/chat", &large()).status == 200);
}

#[test]
fn a_client_that_sends_little_is_not_refused_for_responses_being_read() {
    let limits = Limits { owner_bytes: 8 << 20, bytes: 8 << 20, ..Limits::default() };
    let limits = Limits { room_time: Duration::from_millis(100), ..limits };
    let site = Site::of(Setup { limits, ..Setup::default() }, []);
    let id = long_session(&site, "local", 120);
    let path = format!("/v1/sessions/{id}/entries");
    // A complete response that waits to be read: there is no memory left to read another body.
    let context = format!("/v1/sessions/{id}/context?window=100000000");
    let open = unread(&site, &context, None);
    wait_until("it is on its way", || {
        (1..8 << 20).contains(&metric(&site, "rethread_bytes_in_flight"))
    });
    site.get(&path).is_problem(429, "bytes");
    let hello = json!({"messages": [{"role": "user", "content": "hello"}]});
    assert_eq!(site.post(&path, &hello).status, 200);
    drop(open);
    wait_until("it is gone", || metric(&site, "rethread_bytes_in_flight") == 0);
    assert_eq!(site.get(&path).status, 200);
}

#[test]
fn one_owner_leaves_connections_to_the_others() {
    let limits = Limits { connections: 6, owner_requests: 3, ..Limits::default() };
    let site = Site::of(Setup { limits, ..Setup::default() }, []);
    let bearer = format!("Bearer {}", site.token("laptop", "ada"));
    let path = format!("/v1/sessions/{}/export", long_session(&site, "ada", 64));
    let open: Vec<TcpStream> = (0..3).map(|_| unread(&site, &path, Some(&bearer))).collect();
    wait_until("all exports run", || metric(&site, "rethread_open_streams") == 3);
    let ask = || site.request("GET", "/healthz", &[("authorization", &bearer)], b"");
    ask().is_problem(429, "rate");
    assert_eq!(site.get("/healthz").status, 200, "others find one");
    drop(open);
    wait_until("its requests are over", || ask().status == 200);
}
