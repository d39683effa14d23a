//! Messages typed when the conversation is compacted before they are sent.

use rethread_agent::scripted::{Answer, Server};
use rethread_core::summary::block;
use serde_json::Value;

use crate::home::Home;
use crate::terminal::{Terminal, kill};

/// A model that fills the window, and whose summaries are delayed if `slow` is set.
fn model(slow: bool) -> Server {
    let server = Server::start([]);
    server.fallback(move |body| {
        let last = body["messages"].as_array().and_then(|all| all.last());
        let text = last.map(Value::to_string).unwrap_or_default();
        match () {
            () if text.contains("Generate a progressive") && slow => {
                Answer::text("never").slowly(0)
            }
            () if text.contains("Generate a progressive") => {
                Answer::text(block("**Background Context:** short"))
            }
            () if text.contains("CONTEXT RESTORATION") => Answer::text("Ready!"),
            () if text.contains("fill it") => Answer::text("word ".repeat(3_400)),
            () => Answer::text("the answer"),
        }
    });
    server
}

/// Fills the window with one answer, and types a message that needs a compaction. Also returns the
/// process.
fn fill(home: &Home, server: &Server) -> (Terminal, String) {
    let config = home.path().join("config.toml");
    std::fs::write(&config, "window = 4000\n").expect("written");
    let config = config.to_str().expect("a path").to_owned();
    let args = ["--model", "openai/m", "--config", &config, "--name", "full"];
    let mut terminal = Terminal::start(home, &args, &server.vars());
    let pid = terminal.pid();
    terminal.expect("You: ");
    terminal.say("fill it");
    terminal.expect("word word");
    terminal.expect("You: ");
    // The fill level is shown when the next question is sent.
    terminal.say("is it full?");
    terminal.expect("the answer");
    terminal.expect("You: ");
    terminal.say("the last question");
    terminal.expect("it is compacted first.");
    (terminal, pid)
}

/// How often something was asked in a session.
fn asked(home: &Home, name: &str, text: &str) -> usize {
    let shown = home.json(&["show", name, "--all"]);
    let entries = shown["entries"].as_array().expect("entries");
    entries.iter().filter(|entry| entry["role"] == "user" && entry["content"] == text).count()
}

#[test]
fn what_was_typed_is_on_disk_before_the_summary_is_asked_for() {
    let home = Home::new();
    let server = model(true);
    let (terminal, pid) = fill(&home, &server);
    // After the two questions, the summary.
    server.wait_for_requests(3);
    kill(&pid);
    drop(terminal);
    assert_eq!(asked(&home, "full", "the last question"), 1);
}

#[test]
fn what_was_typed_is_asked_once_in_the_session_that_continues() {
    let home = Home::new();
    let server = model(false);
    let (mut terminal, _) = fill(&home, &server);
    terminal.expect("Compacted into full-2");
    terminal.expect("the answer");
    terminal.expect("You: ");
    assert_eq!(asked(&home, "full-2", "the last question"), 1);
}
