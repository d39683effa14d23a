//! Asking a person about a call: what they are shown, what they can say, and what is remembered.

use rethread_agent::scripted::Answer;
use rethread_agent::tool::FileChange;
use rethread_agent::{Event, Events, Grant, PermissionAnswer, TurnOptions};
use rethread_core::Message;
use rethread_core::store::Change;
use serde_json::{Value, json};

use crate::bench::{Bench, run};

/// Runs a turn in which the questions get these answers in order. Returns the questions.
fn asked(
    bench: &mut Bench,
    answers: impl IntoIterator<Item = PermissionAnswer>,
) -> Vec<(Value, Option<FileChange>)> {
    let (events, mut receiver) = Events::channel();
    let options = TurnOptions { can_ask: true, ..TurnOptions::default() };
    let turn =
        bench.runner.run_turn(bench.session, Message::user("go"), &options, &events, &bench.stop);
    let mut answers = answers.into_iter();
    run(async {
        tokio::pin!(turn);
        let mut asked = Vec::new();
        loop {
            tokio::select! {
                biased;
                Some(event) = receiver.recv() => if let Event::Permission(request) = event {
                    let input = serde_json::from_str(request.call.input.get()).expect("JSON");
                    asked.push((input, request.change.clone()));
                    request.answer(answers.next().expect("one more question than expected"));
                },
                done = &mut turn => {
                    done.expect("answered");
                    return asked;
                }
            }
        }
    })
}

#[test]
fn a_person_is_shown_what_a_file_holds_and_what_it_would_hold() {
    let edit = json!({"path": "a.txt", "old": "two", "new": "2"});
    let write = json!({"path": "b.txt", "content": "new"});
    let script = [Answer::calls([("edit_file", edit), ("write_file", write)]), Answer::text("ok")];
    let mut bench = Bench::new("openai", script);
    bench.file("a.txt", "one two three");
    let asked = asked(&mut bench, [PermissionAnswer::Once, PermissionAnswer::No]);
    let change = |path: &str, before: Option<&str>, after: &str| {
        let (before, after) = (before.map(|text| text.as_bytes().to_vec()), after.to_owned());
        Some(FileChange { path: path.into(), before, after })
    };
    assert_eq!(asked[0].1, change("a.txt", Some("one two three"), "one 2 three"));
    assert_eq!(asked[1].1, change("b.txt", None, "new"));
    let read = |name: &str| std::fs::read_to_string(bench.path(name));
    assert_eq!(read("a.txt").expect("there"), "one 2 three");
    assert!(read("b.txt").is_err(), "it was declined");
}

#[test]
fn an_edit_that_cannot_be_made_is_never_asked_about() {
    let edit = json!({"path": "a.txt", "old": "four", "new": "4"});
    let script = [Answer::calls([("edit_file", edit)]), Answer::text("ok")];
    let mut bench = Bench::new("openai", script);
    bench.file("a.txt", "one two three");
    assert_eq!(asked(&mut bench, []), []);
    assert!(bench.results()[0].contains("does not occur"), "{:?}", bench.results());
}

#[test]
fn a_command_that_cannot_run_is_never_asked_about() {
    let calls = [
        (json!({}), "`command` is missing"),
        (json!({"command": 5}), "`command` must be a string, not 5"),
        (json!({"command": " "}), "`command` must not be empty"),
        (json!({"command": "a\0b"}), "`command` must not be empty or contain a NUL"),
        (json!({"command": "ls", "network": true, "shell": "sh"}), "there is no argument `shell`"),
    ];
    let runs = calls.iter().map(|(input, _)| ("run", input.clone()));
    let mut bench = Bench::new("openai", [Answer::calls(runs), Answer::text("ok")]);
    assert_eq!(asked(&mut bench, []), []);
    for ((_, expected), result) in calls.iter().zip(bench.results()) {
        assert!(result.contains(expected), "{result}");
    }
}

#[test]
fn a_write_that_changes_nothing_is_never_asked_about() {
    let write = |content: &str| ("write_file", json!({"path": "a.txt", "content": content}));
    let script = [Answer::calls([write("same\n"), write("same")]), Answer::text("ok")];
    let mut bench = Bench::new("openai", script);
    bench.file("a.txt", "same\n");
    let asked = asked(&mut bench, [PermissionAnswer::No]);
    assert_eq!(asked.len(), 1, "a line ending is a change: {asked:?}");
    assert_eq!(bench.results()[0], "`a.txt` has this content already");
}

#[test]
fn what_is_allowed_always_is_asked_about_once() {
    let runs = |command: &str| ("run", json!({ "command": command }));
    let script = [
        Answer::calls([runs("echo one")]),
        Answer::calls([runs("echo two"), runs("echo three; touch x")]),
        Answer::text("ok"),
    ];
    let mut bench = Bench::new("openai", script);
    let always = PermissionAnswer::Always(Grant::command("echo").expect("a prefix"));
    let asked = asked(&mut bench, [always, PermissionAnswer::No]);
    let commands: Vec<&Value> = asked.iter().map(|(input, _)| &input["command"]).collect();
    assert_eq!(commands, ["echo one", "echo three; touch x"], "two commands in one fit no grant");
    assert!(bench.results()[1].starts_with("two\n"), "{:?}", bench.results());
    assert!(!bench.path("x").exists());
}

#[test]
fn a_reason_to_decline_goes_back_to_the_model() {
    let write = json!({"path": "b.txt", "content": "new"});
    let script = [Answer::calls([("write_file", write)]), Answer::text("ok")];
    let mut bench = Bench::new("openai", script);
    let why = PermissionAnswer::NoBecause("use the other folder".into());
    asked(&mut bench, [why]);
    let told = bench.server.requests()[1].text.clone();
    assert!(told.contains("use the other folder"), "{told}");
}

#[test]
fn what_reaches_the_network_or_runs_by_itself_is_asked_about_each_time() {
    let fetch = || ("run", json!({"command": "echo fetched", "network": true}));
    let rc = |text: &str| ("write_file", json!({"path": ".vscode/tasks.json", "content": text}));
    let script = [
        Answer::calls([("run", json!({"command": "echo plain"})), fetch(), fetch()]),
        Answer::calls([
            ("write_file", json!({"path": "a.txt", "content": "x"})),
            rc("{}"),
            rc("[]"),
        ]),
        Answer::text("ok"),
    ];
    let mut bench = Bench::new("openai", script);
    let echo = || PermissionAnswer::Always(Grant::command("echo").expect("a prefix"));
    let write = || PermissionAnswer::Always(Grant::tool("write_file"));
    let asked =
        asked(&mut bench, [echo(), echo(), PermissionAnswer::No, write(), write(), write()]);
    assert_eq!(asked.len(), 6, "{asked:?}");
    let results = bench.results();
    assert!(results[1].starts_with("fetched"), "{results:?}");
    assert!(results[2].contains("declined"), "{results:?}");
}

#[test]
fn where_nobody_can_be_asked_such_a_call_is_refused() {
    let script = [
        Answer::calls([
            ("run", json!({"command": "touch fetched", "network": true})),
            ("write_file", json!({"path": ".vscode/tasks.json", "content": "{}"})),
            ("run", json!({"command": "touch plain"})),
        ]),
        Answer::text("ok"),
    ];
    let mut bench = Bench::new("openai", script);
    bench.runner.responder.allow = ["write_file", "run"].map(Grant::tool).to_vec();
    let (options, events) = (TurnOptions::default(), Events::none());
    let turn =
        bench.runner.run_turn(bench.session, Message::user("go"), &options, &events, &bench.stop);
    run(turn).expect("answered");
    let results = bench.results();
    assert!(results[0].contains("nobody can be asked here"), "{results:?}");
    assert!(results[1].contains("nobody can be asked here"), "{results:?}");
    assert!(!bench.path("fetched").exists() && !bench.path(".vscode").exists());
    assert!(bench.path("plain").exists(), "an ordinary command needs no consent");
}

#[test]
fn tools_are_off_if_text_from_elsewhere_arrives_after_the_runner_was_made() {
    let bench = Bench::new("openai", [Answer::text("one"), Answer::text("two"), Answer::text("3")]);
    let tools_in = |turn: usize| bench.server.requests()[turn].body["tools"].is_array();
    run(bench.turn("before")).expect("answered");
    assert!(tools_in(0));
    let change = Change { imported: Some(Some("files".into())), ..Change::default() };
    bench.handle.sessions().update(bench.session, &change).expect("another program wrote");
    run(bench.again("after")).expect("answered");
    assert!(!tools_in(1));
    bench.handle.trust(bench.session);
    run(bench.again("trusted")).expect("answered");
    assert!(tools_in(2));
}
