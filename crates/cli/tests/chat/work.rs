//! A whole job in a small repository: find, delegate, edit three files, test, fix, finish. On a
//! screen, and again with the network cut and the process killed at every step.
//!
//! The model is not a list of answers. It looks at the conversation it is sent and at the files, as
//! a real one would, and decides what to do next; so it also knows how to continue.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rethread_agent::scripted::{Answer, Server};
use serde_json::{Value, json};

use crate::home::{Home, Said};
use crate::screens::{at_prompt, finished, from};
use crate::terminal::kill;
use crate::window::{Window, without_times};

pub(crate) const FILES: [(&str, &str); 6] = [
    ("AGENTS.md", "Run `sh test.sh` after every change.\n"),
    ("README.md", "Prints an area.\n"),
    ("lib/area.sh", "area() { echo $(($1 * $2)); }\n"),
    ("lib/label.sh", "label() { echo \"area: $1\"; }\n"),
    ("main.sh", ". ./lib/area.sh\n. ./lib/label.sh\nlabel \"$(area \"$1\" \"$2\")\"\n"),
    (
        "test.sh",
        "got=$(sh main.sh 2 3)\nif [ \"$got\" = 'area: 6 m²' ]; then echo passed; exit; fi\n\
         echo \"FAILED: $got\"\nexit 1\n",
    ),
];

/// The edits the model makes first, of which the last one is wrong.
const EDITS: [(&str, &str, &str); 3] = [
    ("README.md", "Prints an area.", "Prints an area, with its unit."),
    ("main.sh", "label \"$(area", "label m2 \"$(area"),
    ("lib/label.sh", "label() { echo \"area: $1\"; }", "label() { echo \"area: $2 $1\"; }"),
];

/// The edit that makes the test pass.
const FIX: (&str, &str, &str) = ("main.sh", "label m2", "label m²");

/// Makes the repository, with everything committed.
pub(crate) fn repository(home: &Home) -> PathBuf {
    let folder = home.path();
    std::fs::create_dir_all(folder.join("lib")).expect("made");
    git(&folder, &["init", "-q"]);
    for (path, text) in FILES {
        std::fs::write(folder.join(path), text).expect("written");
        git(&folder, &["add", path]);
    }
    git(&folder, &["commit", "-q", "-m", "Prints an area"]);
    folder
}

/// Runs git without anyone's configuration, and gives what it prints.
fn git(folder: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(args);
    git.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null")]);
    let done = git.current_dir(folder).output().expect("git is installed");
    assert!(done.status.success(), "{args:?}: {done:?}");
    String::from_utf8(done.stdout).expect("text")
}

/// The committed files that were changed since, as git sees it.
pub(crate) fn changed(folder: &Path) -> Vec<String> {
    git(folder, &["diff", "--name-only"]).lines().map(str::to_owned).collect()
}

fn has(folder: &Path, path: &str, text: &str) -> bool {
    std::fs::read_to_string(folder.join(path)).is_ok_and(|content| content.contains(text))
}

/// The names of the tools that were called, and the latest results if they are the latest message:
/// as OpenAI's wire has them, and as Anthropic's does.
fn seen(body: &Value) -> (Vec<String>, Option<String>) {
    let messages = body["messages"].as_array().expect("messages");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_openai = messages.iter().flat_map(|message| list(&message["tool_calls"]));
    let of_openai = of_openai.map(|call| call["function"]["name"].clone());
    let blocks = messages.iter().flat_map(|message| list(&message["content"]));
    let of_anthropic = blocks.filter(|block| block["type"] == "tool_use");
    let names = of_openai.chain(of_anthropic.map(|block| block["name"].clone()));
    let names = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    let last = messages.last().filter(|message| {
        let blocks = list(&message["content"]);
        message["role"] == "tool" || blocks.iter().any(|block| block["type"] == "tool_result")
    });
    (names, last.map(|message| message["content"].to_string()))
}

/// The instructions, which are the first message or beside the messages.
fn instructions(body: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let blocks = body["system"].as_array().into_iter().flatten();
    let beside: String = blocks.filter_map(|block| text(&block["text"])).collect();
    let first = &body["messages"][0]["content"];
    text(&body["system"])
        .or(Some(beside).filter(|text| !text.is_empty()))
        .unwrap_or_else(|| text(first).unwrap_or_default())
}

/// What the model does next.
pub(crate) fn next(body: &Value, folder: &Path) -> Answer {
    let (called, last) = seen(body);
    let was = |tool: &str| called.iter().any(|name| name == tool);
    let edit = |(path, old, new): (&str, &str, &str)| {
        ("edit_file", json!({"path": path, "old": old, "new": new}))
    };
    let system = instructions(body);
    if system.starts_with("You find things") {
        return match was("grep") {
            false => Answer::calls([("grep", json!({"pattern": "label"}))]),
            true => Answer::text("`main.sh` calls `label`, which is in `lib/label.sh`."),
        };
    }
    assert!(system.contains("Run `sh test.sh` after every change."), "{system}");
    if !was("todo") {
        let step = |text: &str| json!({"text": text, "status": "pending"});
        let steps = json!({"items": [step("find the label"), step("add the unit"), step("test")]});
        return Answer::text("Let me look.")
            .and_calls([("todo", steps), ("glob", json!({"pattern": "*.sh"}))]);
    }
    if !was("task") {
        let prompt = "Where is the area printed?";
        return Answer::calls([("task", json!({"agent": "explore", "prompt": prompt}))]);
    }
    let open: Vec<_> = EDITS.into_iter().filter(|(path, old, _)| has(folder, path, old)).collect();
    if !open.is_empty() {
        return Answer::calls(open.into_iter().map(edit));
    }
    match last {
        Some(result) if result.contains("passed") => Answer::text("The area has its unit now."),
        Some(result) if result.contains("FAILED") && has(folder, FIX.0, FIX.1) => {
            Answer::text("The unit is wrong.").and_calls([edit(FIX)])
        }
        _ => Answer::calls([("run", json!({"command": "sh test.sh"}))]),
    }
}

/// Requests of the whole job: six rounds and a last word, and two of the subagent.
pub(crate) const REQUESTS: usize = 9;

pub(crate) fn passes(folder: &Path) -> bool {
    let tested = Command::new("sh").arg("test.sh").current_dir(folder).output().expect("a shell");
    tested.status.success()
}

pub(crate) const ASK: &str = "show the unit of the area";

#[test]
fn a_job_is_done_from_finding_to_testing_and_can_be_followed_on_either_wire() {
    job_on("openai/scripted-1");
    job_on("anthropic/scripted-1");
}

fn job_on(model: &str) {
    let home = Home::new();
    let folder = repository(&home);
    let server = Server::start([]);
    let place = folder.clone();
    server.fallback(move |body| next(body, &place));
    let flags = ["--model", model, "--allow", "edit_file", "--allow", "run"];
    let mut window = Window::open(&home, (80, 60), &flags, &server.vars());
    at_prompt(&window);
    window.say(ASK);
    let shown = finished(&window, "The area has its unit now.");
    assert_eq!(server.requests().len(), REQUESTS);
    assert!(passes(&folder));
    assert_eq!(changed(&folder), ["README.md", "lib/label.sh", "main.sh"]);
    let shown = without_times(from(&shown, "build:\n"));
    let work = "\
build:
Let me look.

  todo · 0 of 3 done
    ☐ find the label
    ☐ add the unit
    ☐ test
  glob *.sh · 4 files
    grep label · 3 matches
  task explore: Where is the area printed? · 2 rounds
  edit README.md · +1 −1
  edit main.sh · +1 −1
  edit lib/label.sh · +1 −1
";
    assert!(shown.starts_with(work), "{shown}");
    assert!(shown.contains("    FAILED: area: 6 m2\n"), "{shown}");
    // A model that asks the same again and again.
    let again = Arc::new(AtomicUsize::new(0));
    let count = again.clone();
    let place = folder.clone();
    server.fallback(move |body| match count.fetch_add(1, Ordering::SeqCst) {
        0..3 => Answer::calls([("grep", json!({"pattern": "unit"}))]),
        _ => next(body, &place),
    });
    window.say("is the unit anywhere else?");
    let shown = finished(&window, "(any message continues)");
    let notice = "[Stopped: the same call of `grep` gave the same result three times]";
    assert!(shown.replace('\n', " ").contains(notice), "{shown}");
    assert_eq!(again.load(Ordering::SeqCst), 3);
    server.push(Answer::text("It is not."));
    window.say("go on");
    finished(&window, "It is not.");
}

/// Asks, or continues, without a user to answer questions.
pub(crate) fn command(home: &Home, server: &Server, go_on: bool) -> Command {
    let question = if go_on { "continue" } else { ASK };
    let flags = ["-p", question, "--model", "openai/m", "--allow", "edit_file", "--allow", "run"];
    let flags = [if go_on { &["-c"][..] } else { &[] }, &flags].concat();
    let mut command = home.command(&flags);
    command.envs(server.vars()).env("PATH", "/usr/bin:/bin");
    command
}

#[test]
fn a_process_that_is_killed_at_any_step_leaves_a_job_that_can_be_continued() {
    for step in 1..=REQUESTS {
        let home = Home::new();
        let folder = repository(&home);
        let server = Server::start([]);
        let (place, requests) = (folder.clone(), AtomicUsize::new(0));
        server.fallback(move |body| {
            let answer = next(body, &place);
            // The process dies while it waits for this reply, or in the middle of it.
            match requests.fetch_add(1, Ordering::SeqCst) + 1 == step {
                true => answer.slowly(step % 2),
                false => answer,
            }
        });
        let mut child = command(&home, &server, false).spawn().expect("it starts");
        server.wait_for_requests(step);
        kill(&child.id().to_string());
        child.wait().expect("it is over");
        let said = Said::from(command(&home, &server, true).output().expect("it runs"));
        assert_eq!(said.code, 0, "{step}: {said:?}");
        assert!(said.out.contains("The area has its unit now."), "{step}: {said:?}");
        assert!(passes(&folder), "{step}");
        let shown = home.json(&["show", "last"]).to_string();
        assert!(shown.contains("The area has its unit now."), "{step}: {shown}");
        let hash = |home: &Home| home.run(&["context", "last"]).err;
        assert_eq!(hash(&home), hash(&home), "{step}: a context is what the log says");
    }
}

#[test]
fn a_network_that_is_cut_at_every_step_stops_nothing() {
    let home = Home::new();
    let folder = repository(&home);
    let server = Server::start([]);
    let (place, requests) = (folder.clone(), AtomicUsize::new(0));
    server.fallback(move |body| {
        let answer = next(body, &place);
        match requests.fetch_add(1, Ordering::SeqCst) % 2 == 0 {
            true => answer.cut_after(1),
            false => answer,
        }
    });
    let said = Said::from(command(&home, &server, false).output().expect("it runs"));
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("The area has its unit now."), "{said:?}");
    assert_eq!(server.requests().len(), 2 * REQUESTS, "each was asked twice");
    assert!(passes(&folder));
}
