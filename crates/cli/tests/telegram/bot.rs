//! A bot that runs: the real binary, a store of its own, and the API it talks to.

use std::io::Read;
use std::process::{Child, Command};
use std::thread::JoinHandle;

use rethread_agent::scripted::{Answer, Server};
use serde_json::Value;

use crate::fake::{Fake, TOKEN};
use crate::home::Home;

/// A folder with a store, an API, and a model that repeats the question.
pub(crate) struct Place {
    pub(crate) home: Home,
    pub(crate) fake: Fake,
    pub(crate) model: Server,
}

/// A process.
pub(crate) struct Bot {
    child: Child,
    out: JoinHandle<String>,
    err: JoinHandle<String>,
}

impl Place {
    pub(crate) fn new() -> Place {
        let model = Server::start([]);
        model.fallback(|body| Answer::text(format!("answer to {}", last_question(body))));
        Place { home: Home::new(), fake: Fake::start(), model }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command =
            self.home.command(&[&["telegram", "--model", "openai/gpt-5"], args].concat());
        command.env("TELEGRAM_BOT_TOKEN", TOKEN).env("TELEGRAM_API_URL", &self.fake.url);
        command.envs(self.model.vars());
        command
    }

    /// Starts a bot that the person 7 may talk to.
    pub(crate) fn start(&self) -> Bot {
        self.start_with(&["--allow-user", "7"])
    }

    pub(crate) fn start_with(&self, args: &[&str]) -> Bot {
        Bot::of(self.command(args))
    }

    /// The sessions of an owner, newest first.
    pub(crate) fn sessions(&self, owner: &str) -> Vec<Value> {
        let list = self.home.json(&["list", "--all", "--owner", owner]);
        list["sessions"].as_array().expect("a list").clone()
    }

    /// What was said in the sessions of an owner, as `role: text`, oldest session first.
    pub(crate) fn said(&self, owner: &str) -> Vec<String> {
        let mut said = Vec::new();
        for session in self.sessions(owner).iter().rev() {
            let id = session["id"].as_str().expect("an id");
            let shown = self.home.json(&["show", id, "--all", "--owner", owner]);
            for entry in shown["entries"].as_array().expect("entries") {
                let text = match &entry["content"] {
                    Value::String(text) => text.clone(),
                    Value::Array(blocks) => {
                        blocks.iter().filter_map(|block| block["text"].as_str()).collect()
                    }
                    _ => continue,
                };
                if let Some(role @ ("user" | "assistant")) = entry["role"].as_str() {
                    said.push(format!("{role}: {text}"));
                }
            }
        }
        said
    }
}

impl Bot {
    pub(crate) fn of(mut command: Command) -> Bot {
        let mut child = command.spawn().expect("it starts");
        let out = reading(child.stdout.take().expect("its output"));
        let err = reading(child.stderr.take().expect("its errors"));
        Bot { child, out, err }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, as a service manager does.
    pub(crate) fn terminate(&self) {
        let kill = format!("kill -TERM {}", self.pid());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    }

    /// Waits for its end: its code, and everything it wrote.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("it ends");
        let out = self.out.join().expect("read");
        let err = self.err.join().expect("read");
        (status.code(), format!("{out}{err}"))
    }

    /// Stops it, and checks that it succeeded and did not print the token.
    pub(crate) fn stop(self) -> String {
        self.terminate();
        let (code, wrote) = self.end();
        assert_eq!(code, Some(0), "{wrote}");
        assert!(!wrote.contains("s3cret"), "{wrote}");
        wrote
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.end();
    }
}

/// Everything a process writes; it must not wait for a reader.
fn reading(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("text");
        text
    })
}

/// What a person asked last, in the wire of OpenAI.
pub(crate) fn last_question(body: &Value) -> String {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let last = messages.iter().rev().find(|message| message["role"] == "user");
    match last.map(|message| &message["content"]) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect()
        }
        _ => String::new(),
    }
}
