//! `serve` and `token`, with the real binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rethread_agent::scripted::{Answer, Server};
use serde_json::{Value, json};

use crate::home::Home;

/// A server on a free port, and where it is.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(home: &Home, args: &[&str]) -> Served {
        let all = [&["serve", "--listen", "127.0.0.1:0", "--json"], args].concat();
        Served::running(home.spawn(&all))
    }

    fn running(mut child: Child) -> Served {
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let url = said["listening"].as_str().expect("an address");
        Served { child, address: url.trim_start_matches("http://").to_owned() }
    }

    fn post(&self, path: &str, token: Option<&str>, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            token.unwrap_or_default(),
            body.len()
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        (status.expect("a status"), serde_json::from_str(body).expect("JSON"))
    }

    /// Asks the server to end, as a service manager does.
    fn stop(self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let kill = format!("kill -TERM {pid}");
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
        let output = self.child.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    }
}

/// The append of the question takes the lease, and that of the answer releases it.
#[test]
fn a_turn_without_tools_is_synced_twice() {
    const TURNS: usize = 5;
    let home = Home::new();
    let model = Server::start((0..=TURNS).map(|turn| Answer::text(format!("answer {turn}"))));
    let trace = home.path().join("trace");
    let served = {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--json", "--model", "openai/scripted-1"];
        let binary = home.command(&serve);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", "trace=fdatasync,fsync", "-o"]).arg(&trace);
        strace.arg(binary.get_program()).args(binary.get_args()).current_dir(home.path());
        strace.env_clear().env("HOME", home.path()).env("RETHREAD_STORE", home.store());
        strace.envs(model.vars()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Served::running(strace.spawn().expect("strace runs"))
    };
    let syncs = || {
        let trace = std::fs::read_to_string(&trace).expect("a trace");
        trace.lines().filter(|line| line.contains("sync(")).count()
    };
    // The first one creates the session.
    served.post("/chat", None, &ask("notes.md"));
    let before = syncs();
    for _ in 0..TURNS {
        let (status, said) = served.post("/chat", None, &ask("notes.md"));
        assert_eq!(status, 200, "{said}");
    }
    let after = syncs();
    let strace = served.child.id();
    let traced = std::fs::read_to_string(format!("/proc/{strace}/task/{strace}/children"));
    let shell = format!("kill -TERM {}", traced.expect("read from /proc").trim());
    assert!(Command::new("sh").args(["-c", &shell]).status().expect("a shell").success());
    served.child.wait_with_output().expect("it ends");
    assert_eq!(after - before, 2 * TURNS);
}

fn ask(file: &str) -> Value {
    json!({ "message": "where does the deploy key live?", "session_id": null, "active_file": file })
}

#[test]
fn a_plugin_is_answered_without_a_key_and_continues_after_a_restart() {
    let home = Home::new();
    std::fs::write(home.path().join("notes.md"), "The deploy key lives in the vault.\n")
        .expect("written");
    let served = Served::start(&home, &[]);
    let (status, first) = served.post("/chat", None, &ask("notes.md"));
    assert_eq!(status, 200, "{first}");
    assert!(first["response"].as_str().is_some_and(|text| text.contains("in the vault")));
    let (code, log) = served.stop();
    assert_eq!(code, Some(0), "{log}");
    // Standard error is not a terminal here, so there is a line for the request, and no secret in
    // it.
    let line: Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&line["path"], &line["status"]), (&json!("/chat"), &json!(200)));
    assert!(!log.contains("deploy"), "{log}");
    let served = Served::start(&home, &[]);
    let (_, second) = served.post("/chat", None, &ask("notes.md"));
    assert_eq!(first["session_id"], second["session_id"]);
    assert_eq!(served.stop().0, Some(0));
    // The command line sees what was said.
    let list = home.json(&["list"]);
    assert_eq!(list["sessions"][0]["keys"], json!(["file:notes.md"]));
    assert_eq!(list["sessions"][0]["queries"], 2);
}

#[test]
fn tokens_are_created_listed_and_revoked_and_belong_to_an_owner() {
    let home = Home::new();
    let refused = home.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("no token exists"), "{refused:?}");
    assert!(refused.err.contains("rethread token create"), "{refused:?}");
    let made = home.run(&["token", "create", "laptop", "--owner", "ada"]);
    let token = made.out.trim().to_owned();
    assert!(token.starts_with("rt_") && token.len() == 67, "{made:?}");
    let listed = home.json(&["token", "list"]);
    assert_eq!(listed["tokens"][0]["name"], "laptop");
    assert_eq!(listed["tokens"][0]["owner"], "ada");
    assert!(!listed.to_string().contains(&token[3..]));
    let again = home.run(&["token", "create", "laptop", "--owner", "bob"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("a token `laptop` exists already"), "{again:?}");

    let served = Served::start(&home, &["--require-token"]);
    assert_eq!(served.post("/chat", None, &ask("a.md")).0, 401);
    assert_eq!(served.post("/chat", Some("rt_wrong"), &ask("a.md")).0, 401);
    assert_eq!(served.post("/chat", Some(&token), &ask("a.md")).0, 200);
    assert_eq!(served.stop().0, Some(0));
    let hers = home.json(&["list", "--owner", "ada"]);
    assert_eq!(hers["sessions"].as_array().map(Vec::len), Some(1));
    assert_eq!(home.json(&["list"])["sessions"], json!([]));
    // The file of the store never saw the token itself.
    let file = std::fs::read(home.store()).expect("read");
    assert!(!file.windows(64).any(|bytes| bytes == &token.as_bytes()[3..]));

    assert_eq!(home.run(&["token", "revoke", "laptop"]).code, 0);
    let served = Served::start(&home, &["--require-token"]);
    assert_eq!(served.post("/chat", Some(&token), &ask("a.md")).0, 401);
    assert_eq!(served.stop().0, Some(0));
    assert_eq!(home.run(&["token", "revoke", "laptop"]).code, 1);
}

#[test]
fn an_address_that_is_taken_and_an_origin_that_is_everybody_are_refused() {
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let taken = home.run(&["serve", "--listen", &served.address]);
    assert_eq!(taken.code, 1, "{taken:?}");
    assert!(taken.err.contains("cannot listen on"), "{taken:?}");
    assert_eq!(served.stop().0, Some(0));
    for origin in ["*", "https://*", "example.org", "https://"] {
        let refused = home.run(&["serve", "--allow-origin", origin]);
        assert_eq!(refused.code, 2, "{origin}: {refused:?}");
    }
}

#[test]
fn memory_is_given_back_once_large_messages_are_stored() {
    const MESSAGES: usize = 6;
    let home = Home::new();
    let served = Served::start(&home, &[]);
    let id = served.post("/v1/sessions", None, &json!({})).1["session"]["id"].clone();
    let path = format!("/v1/sessions/{}/entries", id.as_str().expect("an id"));
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", served.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("the system says how much") << 10
    };
    let say = |n: usize| {
        let text = format!("{n} ").repeat(4 << 20);
        let body = json!({"messages": [{"role": "user", "content": text}]});
        assert_eq!(served.post(&path, None, &body).0, 200);
    };
    let before = memory();
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for n in 0..MESSAGES {
                let say = &say;
                scope.spawn(move || say(n));
            }
        });
    }
    let kept = memory().saturating_sub(before);
    assert!(kept < 48 << 20, "{kept} bytes are kept of {}", 2 * MESSAGES * (8 << 20));
    assert_eq!(served.stop().0, Some(0));
}
