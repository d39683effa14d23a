//! Two real servers that share their sessions.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use rethread_agent::scripted::{Answer, Server};
use serde_json::{Value, json};

use crate::CLUSTER;
use crate::served::{Served, ask, command, send};

/// How long a condition is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

struct Pair {
    home: tempfile::TempDir,
    store: String,
}

impl Pair {
    fn new() -> Pair {
        Pair { home: tempfile::tempdir().expect("a folder"), store: CLUSTER.database() }
    }

    fn server(&self, vars: &[(&str, String)], args: &[&str]) -> Served {
        Served::start(self.home.path(), &self.store, vars, args)
    }

    fn entries(&self) -> Vec<Value> {
        let mut show = command(self.home.path(), &self.store, &["show", "last", "--all", "--json"]);
        let shown: Value =
            serde_json::from_slice(&show.output().expect("it runs").stdout).expect("JSON");
        shown["entries"].as_array().expect("entries").clone()
    }

    fn sql(&self, sql: &str) -> String {
        CLUSTER.sql(self.store.rsplit('/').next().expect("a database"), sql)
    }

    /// Waits until a turn holds the session.
    fn wait_until_held(&self) {
        let began = Instant::now();
        while self.sql("SELECT count(*) FROM rethread_sessions WHERE holder IS NOT NULL") != "1" {
            assert!(began.elapsed() < PATIENCE, "nobody takes the session");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn chat(server: &Served, message: &str) -> Option<(u16, Value)> {
    let body = json!({ "message": message, "session_id": null, "active_file": "a.md" });
    ask(&server.address, "POST", "/chat", Some(&body))
}

#[test]
fn one_turn_at_a_time_across_servers() {
    let pair = Pair::new();
    let servers = [pair.server(&[], &[]), pair.server(&[], &[])];
    std::thread::scope(|scope| {
        let turns: Vec<_> = (0..8)
            .map(|turn| {
                let server = &servers[turn % 2];
                scope.spawn(move || chat(server, &format!("question {turn}")))
            })
            .collect();
        for turn in turns {
            let (status, answer) = turn.join().expect("no panic").expect("an answer");
            assert_eq!(status, 200, "{answer}");
        }
    });
    // A turn begins with its question and ends before the next one begins.
    let entries = pair.entries();
    let mut open = false;
    let (mut questions, mut ends) = (0, 0);
    for entry in &entries {
        if entry["role"] == "user" {
            assert!(!open, "two turns are mixed: {entries:#?}");
            open = true;
            questions += 1;
        }
        if entry["kind"] == "finished" {
            assert!(open, "{entries:#?}");
            open = false;
            ends += 1;
        }
    }
    assert_eq!((questions, ends), (8, 8), "{entries:#?}");
}

#[test]
fn what_one_server_writes_is_followed_at_the_other() {
    let pair = Pair::new();
    let (here, there) = (pair.server(&[], &[]), pair.server(&[], &[]));
    let (_, made) = ask(&here.address, "POST", "/v1/sessions", Some(&json!({}))).expect("made");
    let id = made["session"]["id"].as_str().expect("an id").to_owned();
    let events = send(&there.address, "GET", &format!("/v1/sessions/{id}/events?from=0"), None)
        .expect("sent");
    let mut lines = BufReader::new(events).lines();
    for number in 0..5 {
        let body = json!({ "messages": [{ "role": "user", "content": format!("word {number}") }] });
        let path = format!("/v1/sessions/{id}/entries");
        assert_eq!(ask(&here.address, "POST", &path, Some(&body)).expect("answered").0, 200);
        let heard = lines.by_ref().map(|line| line.expect("the stream continues"));
        let mut heard = heard.filter(|line| line.starts_with("data:") && line.contains("\"word"));
        let line = heard.next().expect("an event");
        assert!(line.contains(&format!("word {number}")), "{line}");
    }
}

/// How many entries are not in the search index yet, according to the metrics.
fn lag(server: &Served) -> String {
    let mut page = String::new();
    let mut answer = send(&server.address, "GET", "/metrics", None).expect("sent");
    answer.read_to_string(&mut page).expect("read");
    let line = page.lines().find_map(|line| line.strip_prefix("rethread_search_lag_entries "));
    line.unwrap_or_else(|| panic!("no lag in\n{page}")).to_owned()
}

#[test]
fn every_server_reports_how_far_the_search_index_lags() {
    let pair = Pair::new();
    let home = tempfile::tempdir().expect("a folder");
    let file = format!("sqlite:{}", home.path().join("one.db").display());
    for store in [&pair.store, &file] {
        let start = || Served::start(home.path(), store, &[], &[]);
        let servers = [start(), start()];
        let lags = || servers.iter().map(lag).collect::<Vec<_>>();
        assert_eq!(lags(), ["0", "0"], "{store}");
        let body = json!({ "messages": [
            { "role": "user", "content": "a zebra" }, { "role": "assistant", "content": "a walrus" }
        ] });
        let (_, made) =
            ask(&servers[0].address, "POST", "/v1/sessions", Some(&json!({}))).expect("made");
        let id = made["session"]["id"].as_str().expect("an id");
        let path = format!("/v1/sessions/{id}/entries");
        let asked = ask(&servers[0].address, "POST", &path, Some(&body)).expect("answered");
        assert_eq!(asked.0, 200, "{asked:?}");
        // The session begins with the system message.
        assert_eq!(lags(), ["3", "3"], "{store}");
        let found = ask(&servers[1].address, "GET", "/v1/search?q=zebra", None).expect("answered");
        assert_eq!(found.0, 200, "{found:?}");
        assert_eq!(lags(), ["0", "0"], "{store}");
    }
}

#[test]
fn database_errors_go_to_the_log_and_not_into_the_response() {
    let pair = Pair::new();
    let log = pair.home.path().join("log");
    let server = Served::logging(pair.home.path(), &pair.store, &log);
    assert_eq!(chat(&server, "hello").expect("an answer").0, 200);
    pair.sql("ALTER TABLE rethread_entries RENAME TO gone");
    let (status, answer) = chat(&server, "hello?").expect("an answer");
    assert_eq!(status, 500, "{answer}");
    assert!(!answer.to_string().contains("rethread_entries"), "{answer}");
    let body = json!({ "message": "hello?", "session_id": null, "active_file": "a.md" });
    let mut stream = send(&server.address, "POST", "/chat/stream", Some(&body)).expect("sent");
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("a stream");
    assert!(told.contains("\"type\":\"error\"") && !told.contains("rethread_entries"), "{told}");
    let began = Instant::now();
    for failed in ["\"path\":\"/chat\"", "\"turn\":\""] {
        let line = loop {
            let text = std::fs::read_to_string(&log).expect("a log");
            let mut lines = text.lines().filter(|line| line.contains("\"status\":500"));
            if let Some(line) = lines.find(|line| line.contains(failed)) {
                break line.to_owned();
            }
            assert!(began.elapsed() < PATIENCE, "{text}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let line: Value = serde_json::from_str(&line).expect("JSON");
        let cause = line["cause"].as_str().unwrap_or_default();
        assert!(cause.contains("relation \"rethread_entries\" does not exist"), "{line}");
    }
}

#[test]
fn the_session_of_a_server_that_was_killed_is_taken_over() {
    let pair = Pair::new();
    let model = Server::start([Answer::text("never said").slowly(1)]);
    let (dying, other) =
        (pair.server(&model.vars(), &["--model", "openai/m"]), pair.server(&[], &[]));
    std::thread::scope(|scope| {
        let lost = scope.spawn(|| chat(&dying, "a question nobody answers"));
        model.wait_for_requests(1);
        pair.wait_until_held();
        dying.signal("KILL");
        assert_eq!(lost.join().expect("no panic"), None, "the server is gone");
    });
    let began = Instant::now();
    let (status, answer) = chat(&other, "and now?").expect("an answer");
    assert_eq!(status, 200, "{answer}");
    assert!(began.elapsed() < PATIENCE, "it took {:?}", began.elapsed());
    let entries = pair.entries();
    let questions: Vec<&Value> = entries.iter().filter(|entry| entry["role"] == "user").collect();
    assert_eq!(questions.len(), 2, "both questions are kept: {entries:#?}");
}

#[test]
fn a_server_that_slept_through_its_lease_is_refused_when_it_wakes() {
    let pair = Pair::new();
    let model = Server::start([Answer::text("said too late").slowly(1)]);
    let (sleeper, other) =
        (pair.server(&model.vars(), &["--model", "openai/m"]), pair.server(&[], &[]));
    std::thread::scope(|scope| {
        let late = scope.spawn(|| chat(&sleeper, "the first question"));
        model.wait_for_requests(1);
        pair.wait_until_held();
        let fence = pair.sql("SELECT fence FROM rethread_sessions");
        sleeper.signal("STOP");
        // The lease runs out.
        pair.sql("UPDATE rethread_sessions SET until = 0");
        let (status, answer) = chat(&other, "the second question").expect("an answer");
        assert_eq!(status, 200, "{answer}");
        assert!(pair.sql("SELECT fence FROM rethread_sessions") > fence, "a higher fence");
        let stood = pair.entries().len();
        model.release();
        sleeper.signal("CONT");
        let (status, answer) = late.join().expect("no panic").expect("an answer");
        assert_eq!(status, 409, "{answer}");
        let entries = pair.entries();
        assert_eq!(entries.len(), stood, "nothing of it was written: {entries:#?}");
        assert!(!entries.iter().any(|entry| entry.to_string().contains("said too late")));
    });
}

/// A file has one conversation, regardless of which server is asked first.
#[test]
fn a_file_that_two_servers_are_asked_about_at_once_gets_one_session() {
    const FILES: usize = 30;
    let pair = Pair::new();
    let servers = [pair.server(&[], &[]), pair.server(&[], &[])];
    for file in 0..FILES {
        let body = json!({
            "message": "hello", "session_id": null, "active_file": format!("notes/{file}.md"),
        });
        let start = std::sync::Barrier::new(servers.len());
        let sessions: Vec<Value> = std::thread::scope(|scope| {
            let asked = servers.each_ref().map(|server| {
                scope.spawn(|| {
                    start.wait();
                    ask(&server.address, "POST", "/chat", Some(&body)).expect("an answer")
                })
            });
            let answers = asked.map(|asked| asked.join().expect("no panic"));
            answers.into_iter().map(|(_, answer)| answer["session_id"].clone()).collect()
        });
        assert!(sessions[0].is_string(), "{sessions:?}");
        assert_eq!(sessions[0], sessions[1], "file {file}");
    }
    let count = pair.sql("SELECT count(*) FROM rethread_sessions WHERE owner = 'local'");
    assert_eq!(count, FILES.to_string());
}
