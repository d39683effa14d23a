//! The loop against a scripted model, for the wires people use most.

use std::sync::Arc;

use crate::bench::{Bench, WIRES, run};

use rethread_agent::scripted::Answer;
use rethread_agent::tool::{Spec, Tool, ToolContext, ToolFailure};
use rethread_agent::{End, Event, Grant, NOT_RUN, PermissionAnswer, TurnError};
use rethread_core::log::INTERRUPTED;
use rethread_core::message::Usage;
use rethread_core::{Body, Message, Role};
use serde_json::json;

#[test]
fn a_question_is_answered_and_every_step_is_in_the_log() {
    for wire in WIRES {
        let bench = Bench::new(
            wire,
            [
                Answer::text("Let me look.").and_calls([("list_dir", json!({"path": "."}))]),
                Answer::text("There is one file."),
            ],
        );
        bench.file("notes.md", "hello");
        let answer = run(bench.turn("what is here?")).expect("answered");
        assert_eq!((answer.text.as_str(), answer.end), ("There is one file.", End::Answered));
        assert_eq!(answer.rounds, 2);
        assert_eq!(
            bench.roles(),
            ["system", "user", "assistant", "tool", "assistant", "finished"],
            "{wire}"
        );
        let result = bench.results().remove(0);
        assert!(result.contains("notes.md"), "{result}");
    }
}

#[test]
fn the_question_is_on_disk_before_the_model_is_asked() {
    let bench = Bench::new("openai", [Answer::text("slow").slowly(0)]);
    run(async {
        let turn = bench.turn("remember me");
        tokio::pin!(turn);
        tokio::select! {
            biased;
            _ = &mut turn => panic!("the model has not answered yet"),
            () = bench.asked(1) => {}
        }
        assert_eq!(bench.roles(), ["system", "user"]);
        bench.server.release();
        turn.await.expect("answered");
    });
}

#[test]
fn results_are_stored_in_the_order_of_their_calls_and_reported_after_them() {
    for wire in WIRES {
        let bench = Bench::new(
            wire,
            [
                Answer::calls([
                    ("read_file", json!({"path": "a.txt"})),
                    ("read_file", json!({"path": "b.txt"})),
                    ("nosuch", json!({})),
                ]),
                Answer::text("done"),
            ],
        );
        bench.file("a.txt", "first");
        bench.file("b.txt", "second");
        let answer = run(bench.turn("read both")).expect("answered");
        assert_eq!(answer.text, "done");
        let results = bench.results();
        assert_eq!(results[..2], ["1\tfirst", "1\tsecond"]);
        assert!(results[2].contains("there is no tool `nosuch`"), "{results:?}");
        let events = bench.events();
        let place = |wanted: &dyn Fn(&Event) -> Option<String>, id: &str| {
            events.iter().position(|event| wanted(event).is_some_and(|name| name == id))
        };
        let call = |event: &Event| match event {
            Event::Call(call) => Some(call.id.clone()),
            _ => None,
        };
        let result = |event: &Event| match event {
            Event::Result { call, success, .. } => {
                assert_eq!(*success, call.name == "read_file");
                Some(call.id.clone())
            }
            _ => None,
        };
        let ids: Vec<String> = events.iter().filter_map(call).collect();
        assert_eq!(ids.len(), 3);
        for id in ids {
            assert!(place(&call, &id) < place(&result, &id), "{events:?}");
        }
    }
}

#[test]
fn stopping_keeps_what_arrived_and_marks_it() {
    for wire in WIRES {
        let bench = Bench::new(
            wire,
            [Answer::text("one two three four five six seven").slowly(3), Answer::text("again")],
        );
        run(async {
            let turn = bench.turn("count");
            tokio::pin!(turn);
            tokio::select! {
                _ = &mut turn => panic!("the model has not finished"),
                () = bench.received_text() => {}
            }
            bench.stop.cancel();
            let answer = turn.await.expect("stopped");
            assert_eq!(answer.end, End::Stopped);
        });
        bench.server.release();
        let partial =
            bench.messages().into_iter().find(|m| m.role == Role::Assistant).expect("kept");
        assert!(partial.interrupted && partial.plain_text().starts_with("one"), "{partial:?}");
        // The session continues.
        let answer = run(bench.again("and now?")).expect("answered");
        assert_eq!(answer.text, "again", "{wire}");
    }
}

#[test]
fn what_passes_by_itself_is_asked_again() {
    for wire in WIRES {
        let bench = Bench::new(
            wire,
            [
                Answer::status(429).retry_after(0),
                Answer::status(500),
                Answer::text("half of a rep").cut_after(2),
                Answer::text("here I am"),
            ],
        );
        let answer = run(bench.turn("are you there?")).expect("answered");
        assert_eq!(answer.text, "here I am", "{wire}");
        assert_eq!(bench.server.requests().len(), 4);
        let retries = bench.events().iter().filter(|e| matches!(e, Event::Retry { .. })).count();
        assert_eq!(retries, 3);
        assert_eq!(bench.roles(), ["system", "user", "assistant", "finished"]);
    }
}

#[test]
fn an_unreachable_model_leaves_the_question_and_a_session_that_can_continue() {
    let bench = Bench::new("openai", [Answer::status(401), Answer::text("back")]);
    let error = run(bench.turn("hello?")).expect_err("denied");
    assert!(matches!(error, TurnError::Provider(_)), "{error}");
    assert_eq!(bench.server.requests().len(), 1, "a wrong key does not get better by asking again");
    assert_eq!(bench.roles(), ["system", "user"]);
    let answer = run(bench.again("hello again")).expect("answered");
    assert_eq!(answer.text, "back");
}

#[test]
fn what_arrived_before_the_last_failure_is_kept() {
    let bench =
        Bench::new("openai", (0..4).map(|_| Answer::text("one two three four").cut_after(3)));
    run(bench.turn("hello?")).expect_err("broken");
    let partial = bench.messages().pop().expect("a message");
    assert!(partial.interrupted && partial.plain_text().starts_with("one"), "{partial:?}");
}

#[test]
fn an_empty_reply_is_retried_and_then_reported_as_such() {
    let bench = Bench::new("openai", (0..4).map(|_| Answer::text("")));
    let error = run(bench.turn("hello?")).expect_err("nonsense");
    assert!(error.to_string().contains("empty reply"), "{error}");
}

#[test]
fn calls_left_open_by_a_crash_are_answered_before_the_next_question() {
    let bench = Bench::new("anthropic", [Answer::text("fine")]);
    let call = serde_json::from_value::<Message>(json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "toolu_lost", "name": "list_dir", "input": {}}]}));
    bench.write(Message::user("before the crash"));
    bench.write(call.expect("a message"));
    run(bench.turn("after the crash")).expect("answered");
    assert_eq!(bench.results(), [INTERRUPTED]);
    let sent = &bench.server.requests()[0].body["messages"];
    assert!(sent.to_string().contains("toolu_lost"), "{sent}");
}

#[test]
fn usage_is_kept_with_each_message_and_added_up_for_the_turn() {
    let usage =
        |input, output, cache_read, cache_write| Usage { input, output, cache_read, cache_write };
    let bench = Bench::new(
        "anthropic",
        [
            Answer::calls([("list_dir", json!({}))]).usage(usage(10, 5, 900, 100)),
            Answer::text("done").usage(usage(3, 7, 1_000, 0)),
        ],
    );
    let answer = run(bench.turn("count")).expect("answered");
    assert_eq!(answer.usage, usage(13, 12, 1_900, 100));
    let kept: Vec<Usage> = bench.messages().iter().filter_map(|message| message.usage).collect();
    assert_eq!(kept, [usage(10, 5, 900, 100), usage(3, 7, 1_000, 0)]);
    let finished = bench.entries().into_iter().find_map(|entry| match entry.body {
        Body::Finished(finished) => Some(finished),
        _ => None,
    });
    assert_eq!(finished.expect("finished").usage, answer.usage);
}

/// A tool that never answers.
struct Hangs(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl Tool for Hangs {
    fn spec(&self) -> Spec {
        Spec {
            name: "hang".into(),
            description: "Never answers.".into(),
            input: json!({"type": "object"}),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, _: &str, _: &ToolContext) -> Result<String, ToolFailure> {
        self.0.lock().expect("whole").recv().ok();
        Ok("too late".into())
    }
}

#[test]
fn a_tool_timeout_is_returned_to_the_model() {
    let mut bench =
        Bench::new("openai", [Answer::calls([("hang", json!({}))]), Answer::text("it hung")]);
    let (_keep, never) = std::sync::mpsc::channel();
    let tools = (*bench.runner.responder.tools).clone().with(Arc::new(Hangs(never.into())));
    bench.runner.responder.tools = Arc::new(tools);
    bench.runner.responder.limits.tool_time = std::time::Duration::from_millis(50);
    let answer = run(bench.turn("hang")).expect("answered");
    assert_eq!(answer.text, "it hung");
    assert!(bench.results()[0].contains("longer than"), "{:?}", bench.results());
}

#[test]
fn a_tool_that_changes_something_is_offered_only_where_it_is_allowed_or_can_be_asked_about() {
    let script = || {
        [
            Answer::calls([("write_file", json!({"path": "x.txt", "content": "new"}))]),
            Answer::text("done"),
        ]
    };
    let not_allowed = Bench::new("openai", script());
    run(not_allowed.turn("write")).expect("answered");
    assert!(not_allowed.results()[0].contains("not allowed"), "{:?}", not_allowed.results());
    let tools = not_allowed.server.requests()[0].body["tools"].to_string();
    assert!(!tools.contains("write_file"), "{tools}");

    for (answer, there) in [(PermissionAnswer::Once, true), (PermissionAnswer::No, false)] {
        let bench = Bench::new("openai", script());
        bench.answer_questions_with(answer);
        run(bench.turn("write")).expect("answered");
        assert_eq!(bench.path("x.txt").exists(), there);
    }
    let mut allowed = Bench::new("openai", script());
    allowed.runner.responder.allow = vec![Grant::tool("write_file")];
    run(allowed.turn("write")).expect("answered");
    assert!(allowed.path("x.txt").exists(), "nobody is asked");
}

#[test]
fn two_turns_of_one_session_come_one_after_the_other() {
    let bench = Bench::new("openai", [Answer::text("first").slowly(0), Answer::text("second")]);
    run(async {
        let one = bench.turn("one");
        tokio::pin!(one);
        tokio::select! {
            _ = &mut one => panic!("the model has not answered yet"),
            () = bench.asked(1) => {}
        }
        let two = bench.again("two");
        tokio::pin!(two);
        tokio::select! {
            _ = &mut one => panic!("the model has not answered yet"),
            _ = &mut two => panic!("the first turn is not over"),
            () = bench.someone_waits() => {}
        }
        bench.server.release();
        let (one, two) = tokio::join!(one, two);
        assert_eq!(
            (one.expect("one").text, two.expect("two").text),
            ("first".into(), "second".into())
        );
    });
    let said: Vec<String> = bench.messages().iter().skip(1).map(Message::plain_text).collect();
    assert_eq!(said, ["one", "first", "two", "second"]);
}

#[test]
fn inside_a_turn_the_bytes_already_sent_stay_the_same() {
    let bench = Bench::new(
        "anthropic",
        [
            Answer::text("looking").thinking("hm", "sig").and_calls([("list_dir", json!({}))]),
            Answer::calls([("read_file", json!({"path": "a.txt"}))]),
            Answer::text("done"),
        ],
    );
    bench.file("a.txt", &"long ".repeat(2_000));
    run(bench.turn("look")).expect("answered");
    let sent: Vec<String> = bench
        .server
        .requests()
        .iter()
        .map(|asked| without_breakpoints(asked.body["messages"].clone()))
        .collect();
    for pair in sent.windows(2) {
        let earlier = pair[0].trim_end_matches(']');
        assert!(pair[1].starts_with(earlier), "{}\n{}", pair[0], pair[1]);
    }
}

/// The messages without the cache breakpoints, which move.
fn without_breakpoints(mut messages: serde_json::Value) -> String {
    for message in messages.as_array_mut().into_iter().flatten() {
        for block in message["content"].as_array_mut().into_iter().flatten() {
            block.as_object_mut().map(|block| block.remove("cache_control"));
        }
    }
    messages.to_string()
}

/// A tool during which the user stops the turn.
struct Stops(tokio_util::sync::CancellationToken);

impl Tool for Stops {
    fn spec(&self) -> Spec {
        Spec {
            name: "stops".into(),
            description: "Stops.".into(),
            input: json!({"type": "object"}),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, _: &str, _: &ToolContext) -> Result<String, ToolFailure> {
        self.0.cancel();
        Ok("done all the same".into())
    }
}

#[test]
fn once_a_turn_is_stopped_none_of_its_further_calls_is_run() {
    let mut bench = Bench::new(
        "openai",
        [Answer::calls([
            ("stops", json!({})),
            ("write_file", json!({"path": "after.txt", "content": "x"})),
        ])],
    );
    bench.runner.responder.allow = vec![Grant::tool("write_file")];
    let tools = (*bench.runner.responder.tools).clone().with(Arc::new(Stops(bench.stop.clone())));
    bench.runner.responder.tools = Arc::new(tools);
    let answer = run(bench.turn("go")).expect("stopped");
    assert_eq!(answer.end, End::Stopped);
    assert!(!bench.path("after.txt").exists());
    assert_eq!(bench.results(), ["done all the same", NOT_RUN], "the log records what happened");
}

#[test]
fn a_reply_that_reached_the_limit_of_the_provider_is_marked() {
    let end = |reason: &str| {
        format!(
            "data: {}\n\ndata: [DONE]\n\n",
            json!({"id": "r", "choices": [{"delta": {"content": "half"}, "finish_reason": reason}]})
        )
    };
    for (reason, cut_off) in [("length", true), ("content_filter", true), ("stop", false)] {
        let bench = Bench::new("openai", [Answer::raw("text/event-stream", [end(reason)])]);
        let answer = run(bench.turn("go")).expect("answered");
        assert_eq!((answer.cut_off, answer.end), (cut_off, End::Answered), "{reason}");
    }
}
