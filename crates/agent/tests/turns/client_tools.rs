//! Turns whose tools belong to the client, and turns that another program ran.

use std::time::Duration;

use rethread_agent::host::Refusal;
use rethread_agent::scripted::Answer;
use rethread_agent::tool::Spec;
use rethread_agent::{End, Events, TurnError, TurnInput, TurnOptions};
use rethread_core::message::{ToolResult, Usage};
use rethread_core::{Block, Message};
use serde_json::json;

use crate::bench::{Bench, WIRES, run};

fn ask_user() -> TurnOptions {
    let tool = Spec {
        name: "ask_user".into(),
        description: "Asks the person.".into(),
        input: json!({"type": "object"}),
    };
    TurnOptions { client_tools: vec![tool], ..TurnOptions::default() }
}

fn result(id: &str, text: &str) -> ToolResult {
    let content = vec![Block::text(text)];
    ToolResult { tool_use_id: id.into(), content, is_error: false }
}

fn turn(
    bench: &Bench,
    input: impl Into<TurnInput>,
) -> Result<rethread_agent::TurnAnswer, TurnError> {
    let (events, options) = (Events::none(), ask_user());
    run(bench.runner.run_turn(bench.session, input, &options, &events, &bench.stop))
}

#[test]
fn a_turn_ends_at_a_call_of_the_clients_and_continues_with_its_result() {
    for wire in WIRES {
        let usage = Usage { input: 10, output: 5, ..Usage::default() };
        let script = [
            Answer::calls([("ask_user", json!({"question": "which?"}))]).usage(usage),
            Answer::text("The second, then.").usage(usage),
        ];
        let bench = Bench::new(wire, script);
        let waits = turn(&bench, Message::user("choose")).expect("it waits");
        assert_eq!(waits.end, End::ClientCalls, "{wire}");
        assert_eq!(waits.calls.len(), 1);
        assert_eq!(bench.roles(), ["system", "user", "assistant"], "nothing is over");
        let offered = bench.server.requests()[0].body["tools"].to_string();
        assert!(offered.contains("ask_user"), "{offered}");

        let given = TurnInput::Results(vec![result(&waits.calls[0].id, "the second")]);
        let answer = turn(&bench, given).expect("answered");
        assert_eq!((answer.text.as_str(), answer.end), ("The second, then.", End::Answered));
        assert_eq!((answer.seq, answer.rounds), (waits.seq, 2), "it is one turn");
        assert_eq!(answer.usage.output, 10, "and its charges are those of both replies");
        let roles = ["system", "user", "assistant", "tool", "assistant", "finished"];
        assert_eq!(bench.roles(), roles);
        assert!(bench.server.requests()[1].text.contains("the second"), "{wire}");
    }
}

#[test]
fn our_own_calls_of_the_same_reply_run_before_the_client_is_asked() {
    let calls = [("glob", json!({"pattern": "*.md"})), ("ask_user", json!({}))];
    let bench = Bench::new("openai", [Answer::calls(calls), Answer::text("done")]);
    bench.file("notes.md", "x");
    let waits = turn(&bench, Message::user("go")).expect("it waits");
    assert_eq!(waits.calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["ask_user"]);
    assert_eq!(bench.roles(), ["system", "user", "assistant", "tool"]);
    let given = TurnInput::Results(vec![result(&waits.calls[0].id, "yes")]);
    assert_eq!(turn(&bench, given).expect("answered").text, "done");
}

#[test]
fn results_that_are_not_waited_for_are_refused_and_nothing_is_stored() {
    let bench = Bench::new("openai", [Answer::calls([("ask_user", json!({}))])]);
    let none = turn(&bench, TurnInput::Results(vec![result("x", "early")]));
    assert!(matches!(none, Err(TurnError::Refused(Refusal::OtherCalls { .. }))), "{none:?}");
    let waits = turn(&bench, Message::user("go")).expect("it waits");
    let before = bench.entries().len();
    let id = waits.calls[0].id.as_str();
    for wrong in [vec![result("x", "other")], vec![], vec![result(id, "a"), result(id, "b")]] {
        let refused = turn(&bench, TurnInput::Results(wrong));
        let refused = matches!(&refused,
            Err(TurnError::Refused(Refusal::OtherCalls { open })) if open == &[id.to_owned()]);
        assert!(refused, "the calls that wait are named");
    }
    assert_eq!(bench.entries().len(), before);
}

#[test]
fn another_question_instead_of_the_result_answers_the_call_as_interrupted() {
    let script = [Answer::calls([("ask_user", json!({}))]), Answer::text("never mind")];
    let bench = Bench::new("openai", script);
    turn(&bench, Message::user("go")).expect("it waits");
    assert_eq!(turn(&bench, Message::user("forget it")).expect("answered").text, "never mind");
    assert!(bench.results()[0].contains("interrupted"), "{:?}", bench.results());
}

#[test]
fn a_turn_that_another_program_ran_is_recorded_whole_and_is_in_the_next_context() {
    let bench = Bench::new("openai", [Answer::text("I remember.")]);
    let mut reply = Message::assistant("forty-two");
    reply.usage = Some(Usage { input: 7, output: 3, ..Usage::default() });
    let messages = vec![Message::user("what is it?").into(), reply.into()];
    let took = Duration::from_millis(1_200);
    let seqs = run(bench.handle.record_turn(bench.session, messages, took)).expect("recorded");
    assert_eq!(seqs, [1, 2, 3]);
    assert_eq!(bench.roles(), ["system", "user", "assistant", "finished"]);
    let rethread_core::Body::Finished(finished) = &bench.entries()[3].body else { panic!() };
    assert_eq!((finished.rounds, finished.ms, finished.usage.output), (1, 1_200, 3));
    run(bench.turn("and again?")).expect("answered");
    assert!(bench.server.requests()[0].text.contains("forty-two"));
}

#[test]
fn results_are_taken_again_where_the_model_failed_after_them() {
    let script =
        [Answer::calls([("ask_user", json!({}))]), Answer::status(400), Answer::text("ok")];
    let bench = Bench::new("openai", script);
    let waits = turn(&bench, Message::user("go")).expect("it waits");
    let given = || TurnInput::Results(vec![result(&waits.calls[0].id, "yes")]);
    let failed = turn(&bench, given());
    assert!(matches!(failed, Err(TurnError::Provider(_))), "{failed:?}");
    let stored = bench.entries().len();
    assert_eq!(turn(&bench, given()).expect("answered").text, "ok");
    assert_eq!(bench.results(), ["yes"], "they are stored once");
    assert_eq!(bench.entries().len(), stored + 2, "the answer, and that the turn is over");
    let late = turn(&bench, given());
    assert!(matches!(late, Err(TurnError::Refused(Refusal::OtherCalls { .. }))), "{late:?}");
}

#[test]
fn a_tool_of_the_clients_goes_before_one_of_ours_of_the_same_name() {
    let bench = Bench::new("openai", [Answer::calls([("grep", json!({"pattern": "x"}))])]);
    let grep = Spec {
        name: "grep".into(),
        description: "Theirs.".into(),
        input: json!({"type": "object"}),
    };
    let options = TurnOptions { client_tools: vec![grep], ..TurnOptions::default() };
    let (events, ask) = (Events::none(), Message::user("go"));
    let waits = run(bench.runner.run_turn(bench.session, ask, &options, &events, &bench.stop));
    assert_eq!(waits.expect("it waits").end, End::ClientCalls);
    let tools = bench.server.requests()[0].body["tools"].to_string();
    assert_eq!(tools.matches("\"grep\"").count(), 1, "{tools}");
}
