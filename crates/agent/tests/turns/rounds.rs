//! The limits of a turn: its rounds, repetitions, and parallel calls.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rethread_agent::limits::ROUNDS_MAX;
use rethread_agent::scripted::Answer;
use rethread_agent::tool::{Spec, Tool, ToolContext, ToolFailure};
use rethread_agent::{End, Events, Grant, PermissionAnswer, TurnMode, TurnOptions};
use rethread_core::Message;
use rethread_core::entry::{Body, RoundLimit};
use rethread_core::message::BlockKind;
use serde_json::{Value, json};

use crate::bench::{Bench, run};

/// Replies that each call something else.
fn different_calls(rounds: u32) -> impl Iterator<Item = Answer> {
    (0..rounds).map(|n| {
        let path = format!("none-{n}");
        Answer::text(format!("try {n}")).and_calls([("list_dir", json!({ "path": path }))])
    })
}

fn limits(bench: &Bench) -> Vec<RoundLimit> {
    let limit = |body: Body| match body {
        Body::RoundLimit(limit) => Some(limit),
        _ => None,
    };
    bench.entries().into_iter().filter_map(|entry| limit(entry.body)).collect()
}

#[test]
fn a_turn_that_reaches_the_configured_limit_says_so_after_its_last_text() {
    for rounds in [9, 10] {
        let mut bench = Bench::new("anthropic", different_calls(rounds));
        bench.server.push(Answer::text("done"));
        bench.runner.responder.limits.rounds = Some(10);
        let answer = run(bench.turn("go on for ever")).expect("answered");
        assert_eq!((answer.rounds, bench.server.requests().len()), (10, 10));
        if rounds == 9 {
            assert_eq!((answer.end, answer.text.as_str()), (End::Answered, "done"));
            continue;
        }
        assert_eq!(answer.text, "try 9\n\n[Tool call limit reached]");
        assert_eq!(answer.end, End::RoundLimit);
        assert_eq!(limits(&bench), [RoundLimit::default()]);
        // Any message continues the session.
        let answer = run(bench.again("continue")).expect("answered");
        assert_eq!((answer.end, answer.text.as_str()), (End::Answered, "done"));
    }
}

#[test]
fn a_turn_takes_two_hundred_rounds_where_nobody_set_another_number() {
    let bench = Bench::new("anthropic", different_calls(ROUNDS_MAX + 1));
    let answer = run(bench.turn("a long job")).expect("answered");
    assert_eq!((answer.end, answer.rounds), (End::RoundLimit, 200));
}

#[test]
fn the_question_of_an_editor_takes_ten_rounds_repeated_or_not() {
    let calls = (0..11).map(|_| Answer::calls([("list_dir", json!({}))]));
    let bench = Bench::new("openai", calls);
    let options = TurnOptions { mode: TurnMode::Editor, ..TurnOptions::default() };
    let (question, events) = (Message::user("look"), Events::none());
    let turn = bench.runner.run_turn(bench.session, question, &options, &events, &bench.stop);
    let answer = run(turn).expect("answered");
    assert_eq!((answer.end, answer.rounds), (End::RoundLimit, 10));
    assert_eq!(answer.text, "[Tool call limit reached]");
}

#[test]
fn a_model_that_gets_the_same_result_for_the_same_call_three_times_is_stopped_and_reported() {
    let call = |text: &str| Answer::text(text).and_calls([("list_dir", json!({"path": "."}))]);
    let texts = ["one", "two", "three", "four", "five", "six", "seven"];
    let bench = Bench::new("anthropic", texts.map(call));
    bench.file("a.txt", "here");
    let answer = run(bench.turn("look")).expect("answered");
    assert_eq!((answer.end, answer.rounds), (End::Repeated, 3));
    let notice = "three\n\n[Stopped: the same call of `list_dir` gave the same result three times]";
    assert_eq!(answer.text, notice);
    assert_eq!(limits(&bench), [RoundLimit { repeated: Some("list_dir".into()) }]);
    assert_eq!(bench.results().len(), 3, "the last result is stored too");
    let answer = run(bench.again("try something else")).expect("answered");
    assert_eq!(answer.rounds, 3, "the next turn begins to count again");
    assert!(answer.text.starts_with("six\n\n[Stopped: "), "{}", answer.text);
}

#[test]
fn the_same_call_with_another_result_and_work_between_are_not_repetition() {
    let run_tests = || Answer::calls([("run", json!({"command": "cat a.txt"}))]);
    let edit = |n: u32| {
        let content = if n.is_multiple_of(2) { "fails" } else { "still fails" };
        Answer::calls([("write_file", json!({"path": format!("{n}.txt"), "content": content}))])
    };
    let answers = (0..6).flat_map(|n| [run_tests(), edit(n)]).chain([Answer::text("done")]);
    let mut bench = Bench::new("anthropic", answers);
    bench.file("a.txt", "always the same");
    bench.runner.responder.allow = vec![Grant::tool("run"), Grant::tool("write_file")];
    bench.answer_questions_with(PermissionAnswer::Once);
    let answer = run(bench.turn("fix it")).expect("answered");
    assert_eq!((answer.end, answer.text.as_str()), (End::Answered, "done"));
}

/// A tool whose calls wait for one another, and that notes when each began and ended.
struct Meeting {
    name: &'static str,
    /// How many have to run at the same time.
    wanted: usize,
    there: Arc<(Mutex<usize>, Condvar)>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Tool for Meeting {
    fn spec(&self) -> Spec {
        let input = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        Spec { name: self.name.into(), description: "Meets others.".into(), input }
    }

    fn changes(&self) -> bool {
        self.name == "change"
    }

    fn run(&self, input: &str, _tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let input: Value = serde_json::from_str(input).expect("JSON");
        let note = |what: &str| {
            self.notes.lock().expect("whole").push(format!("{what} {} {}", self.name, input["n"]));
        };
        note("begin");
        let (count, changed) = &*self.there;
        let mut there = count.lock().expect("whole");
        *there += 1;
        changed.notify_all();
        let late = Duration::from_secs(20);
        let enough = |there: &mut usize| *there < self.wanted;
        let (there, timeout) = changed.wait_timeout_while(there, late, enough).expect("whole");
        drop(there);
        note("end");
        match timeout.timed_out() {
            true => Err(ToolFailure("nobody came".into())),
            false => Ok(format!("met {}", input["n"])),
        }
    }
}

#[test]
fn calls_that_only_look_run_at_the_same_time_and_one_that_changes_something_runs_alone() {
    let calls = [("look", 0), ("look", 1), ("look", 2), ("change", 3), ("look", 4)];
    let calls = calls.map(|(name, n)| (name, json!({ "n": n })));
    let mut bench = Bench::new("anthropic", [Answer::calls(calls), Answer::text("done")]);
    let notes = Arc::new(Mutex::new(Vec::new()));
    let meeting =
        |name, wanted| Meeting { name, wanted, there: Arc::default(), notes: notes.clone() };
    let tools = (*bench.runner.responder.tools).clone();
    let tools = tools.with(Arc::new(meeting("look", 3))).with(Arc::new(meeting("change", 1)));
    bench.runner.responder.tools = Arc::new(tools);
    bench.runner.responder.allow = vec![Grant::tool("change")];
    bench.answer_questions_with(PermissionAnswer::Once);
    run(bench.turn("meet")).expect("answered");
    assert_eq!(bench.results(), ["met 0", "met 1", "met 2", "met 3", "met 4"], "in their order");
    let notes = notes.lock().expect("whole").clone();
    assert_eq!(notes[6..], ["begin change 3", "end change 3", "begin look 4", "end look 4"]);
    let results = bench.messages();
    let one_each = |message: &Message| {
        message
            .content
            .iter()
            .filter(|block| matches!(block.kind, BlockKind::ToolResult(_)))
            .count()
            <= 1
    };
    assert!(results.iter().all(one_each), "each result is stored by itself");
}
