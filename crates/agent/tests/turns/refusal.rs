//! A turn that a provider refuses never blocks its session.

use rethread_agent::Event;
use rethread_agent::scripted::{Answer, ReceivedRequest};
use rethread_core::context::{Policy, explain};
use rethread_core::{Body, Place};

use crate::bench::{Bench, WIRES, run};

const FILTERED: &str = "blocked by the content filter";

fn refused(saying: &str) -> Answer {
    Answer::status(400).saying(saying)
}

/// The turns that are left out, by the message that opened them.
fn left_out(bench: &Bench) -> Vec<u64> {
    let entries = bench.entries().into_iter();
    entries
        .filter_map(|entry| match entry.body {
            Body::LeftOut(left_out) => Some(left_out.turn),
            _ => None,
        })
        .collect()
}

/// Whether a request contained these words.
fn says(asked: &ReceivedRequest, words: &str) -> bool {
    asked.body.to_string().contains(words)
}

#[test]
fn a_turn_that_was_refused_for_its_content_is_left_out_and_the_session_continues() {
    for wire in WIRES {
        let answers = [Answer::text("Hello."), refused(FILTERED), Answer::text("Gladly.")];
        let bench = Bench::new(wire, answers);
        run(bench.turn("good morning")).expect("answered");
        let error = run(bench.turn("something awful")).expect_err("refused").to_string();
        assert!(error.ends_with("stays in the log and is not sent to the model again"), "{error}");
        assert_eq!(run(bench.turn("and the weather?")).expect("answered").text, "Gladly.");
        let requests = bench.server.requests();
        assert_eq!(requests.len(), 3, "there is no useless retry");
        assert!(says(&requests[1], "something awful") && !says(&requests[2], "something awful"));
        assert!(says(&requests[2], "good morning") && says(&requests[2], "weather"));
        let [turn] = left_out(&bench)[..] else { panic!("{:?}", left_out(&bench)) };
        let sessions = bench.handle.sessions();
        let entry = sessions.entry_at(Place { session: bench.session, seq: turn }).expect("kept");
        assert_eq!(entry.body.message().expect("said").plain_text(), "something awful");
        let model = &bench.runner.responder.model;
        let context = sessions.context(bench.session, &Policy::chat(), model).expect("built");
        let explained = explain(&context);
        assert!(explained.contains(&format!("cut: left_out from {turn} to ")), "{explained}");
        assert!(explained.contains("(1 messages, "), "{explained}");
    }
}

#[test]
fn after_a_bare_400_the_next_question_is_sent_with_the_failed_one_and_then_without_it() {
    for wire in WIRES {
        let answers = [
            Answer::text("Hello."),
            refused("Bad Request"),
            refused("Bad Request"),
            Answer::text("Gladly."),
            Answer::text("And again."),
        ];
        let bench = Bench::new(wire, answers);
        run(bench.turn("good morning")).expect("answered");
        run(bench.turn("something odd")).expect_err("refused");
        assert!(left_out(&bench).is_empty(), "it is not clear yet what was refused");
        assert_eq!(run(bench.turn("and the weather?")).expect("answered").text, "Gladly.");
        let told = bench.events().iter().any(|e| matches!(e, Event::LeftOut { turns: 1 }));
        assert!(told, "it is reported");
        run(bench.turn("thank you")).expect("answered");
        let requests = bench.server.requests();
        let odd: Vec<bool> = requests.iter().map(|asked| says(asked, "something odd")).collect();
        assert_eq!(odd, [false, true, true, false, false]);
        assert!(requests[2..].iter().all(|asked| says(asked, "weather")));
        assert_eq!(left_out(&bench).len(), 1);
    }
}

#[test]
fn a_question_is_not_dropped_where_the_next_one_is_refused_by_itself() {
    let answers = [
        Answer::status(401),
        refused("Bad Request"),
        refused("Bad Request"),
        refused("Bad Request"),
        Answer::text("All of it."),
    ];
    let bench = Bench::new("openai", answers);
    run(bench.turn("a good question")).expect_err("the key was wrong");
    run(bench.turn("something odd")).expect_err("refused, with and without the one before");
    assert!(left_out(&bench).is_empty());
    run(bench.turn("what now?")).expect("answered");
    assert_eq!(left_out(&bench).len(), 1);
    let last = bench.server.requests().pop().expect("asked");
    assert!(says(&last, "a good question") && !says(&last, "something odd"));
}

#[test]
fn a_refusal_that_is_not_about_what_was_said_leaves_nothing_out() {
    for saying in [
        "This model's maximum context length is 8192 tokens",
        "Invalid schema for function 'x'",
        "Your credit balance is too low",
        "The model `x` does not exist",
    ] {
        let bench = Bench::new("openai", [refused(saying), refused(saying), Answer::text("Yes.")]);
        run(bench.turn("first")).expect_err("refused");
        run(bench.turn("second")).expect_err("refused");
        assert_eq!(bench.server.requests().len(), 2, "{saying}: asking again would not help");
        run(bench.turn("third")).expect("answered");
        assert!(left_out(&bench).is_empty(), "{saying}");
        let last = bench.server.requests().pop().expect("asked");
        assert!(says(&last, "first") && says(&last, "second"), "{saying}");
    }
}

#[test]
fn a_question_is_asked_again_without_what_came_of_it() {
    let bench = Bench::new("openai", [Answer::text("Nonsense."), Answer::text("Sense.")]);
    run(bench.turn("make sense")).expect("answered");
    let sessions = bench.handle.sessions();
    let question = sessions.withdraw_turn(bench.session).expect("taken back").expect("asked");
    assert_eq!(run(bench.turn(&question.plain_text())).expect("answered").text, "Sense.");
    let last = bench.server.requests().pop().expect("asked");
    assert!(!says(&last, "Nonsense"));
    assert_eq!(last.body.to_string().matches("make sense").count(), 1);
}

#[test]
fn a_refused_question_that_comes_again_under_its_id_is_asked_again() {
    let bench = Bench::new("openai", [refused(FILTERED), Answer::text("Gladly.")]);
    let question = || rethread_core::Incoming {
        id: Some(rethread_core::EntryId::new("q-1").expect("an id")),
        message: rethread_core::Message::user("something awful"),
    };
    let ask = || {
        let (events, stop) = (rethread_agent::Events::none(), Default::default());
        let options = rethread_agent::TurnOptions::default();
        run(bench.runner.run_turn(bench.session, question(), &options, &events, &stop))
    };
    ask().expect_err("refused");
    assert_eq!(ask().expect("answered").text, "Gladly.");
    let last = bench.server.requests().pop().expect("asked");
    assert_eq!(last.body.to_string().matches("something awful").count(), 1);
}

#[test]
fn what_was_left_out_stays_out_when_the_session_is_compacted() {
    let answers = [
        Answer::text("Hello."),
        Answer::text("Nonsense."),
        Answer::text("Sense."),
        Answer::text(rethread_core::summary::block("a greeting")),
        Answer::text("Ready!"),
    ];
    let bench = Bench::new("openai", answers);
    run(bench.turn("good morning")).expect("answered");
    run(bench.turn("make sense")).expect("answered");
    bench.handle.sessions().withdraw_turn(bench.session).expect("taken back");
    run(bench.turn("make sense")).expect("answered");
    let how = rethread_agent::SummaryMethod::Model;
    run(bench.runner.compact(bench.session, how, |_| {})).expect("compacted");
    for asked in &bench.server.requests()[2..] {
        assert!(!says(asked, "Nonsense"), "{}", asked.text);
    }
}
