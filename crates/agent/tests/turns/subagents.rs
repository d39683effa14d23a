//! Subagents: separate sessions, with no permission that their parent lacks.

use rethread_agent::scripted::{Answer, Server};
use rethread_agent::{End, Event, Events, Grant, PermissionAnswer, TurnMode, TurnOptions};
use rethread_core::message::Usage;
use rethread_core::session::SessionKind;
use rethread_core::store::Filter;
use rethread_core::{Message, Session};
use serde_json::json;

use crate::bench::{Bench, run};

fn task(agent: &str, prompt: &str) -> (&'static str, serde_json::Value) {
    ("task", json!({"agent": agent, "prompt": prompt}))
}

/// The sessions subagents worked in, the first one first.
fn children(bench: &Bench) -> Vec<Session> {
    let filter = Filter { archived: Some(true), ..Filter::default() };
    let page = bench.handle.sessions().list(&filter, None, 100).expect("listed");
    let mut children = page.sessions;
    children.sort_by_key(|session| session.header.id);
    children
}

/// The names of the tools a request offers.
fn offered(server: &Server, request: usize) -> Vec<String> {
    let body = server.requests()[request].body.clone();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

fn used(input: u64) -> Usage {
    Usage { input, output: 1, ..Usage::default() }
}

#[test]
fn a_subagent_works_in_a_session_of_its_own_and_its_answer_and_cost_are_the_parents() {
    let grep = ("grep", json!({"pattern": "needle"}));
    let mut bench = Bench::new(
        "anthropic",
        [
            Answer::calls([task("explore", "Where is the needle?\nSay the line.")]).usage(used(1)),
            Answer::calls([grep]).usage(used(10)),
            Answer::text("In a.txt, line 2.").usage(used(100)),
            Answer::text("It is in a.txt.").usage(used(1_000)),
        ],
    );
    bench.file("a.txt", "hay\nneedle\n");
    bench.file("AGENTS.md", "This is a haystack.");
    bench.runner = bench.handle.runner(None, None).expect("it can answer");
    let answer = run(bench.turn("find the needle")).expect("answered");
    assert_eq!((answer.text.as_str(), answer.rounds), ("It is in a.txt.", 2));
    assert_eq!(answer.usage, Usage { input: 1_111, output: 4, ..Usage::default() });
    let child = children(&bench).pop().expect("a child");
    let expected =
        format!("In a.txt, line 2.\n\n[`explore` worked in session {}: 2 rounds]", child.id());
    assert_eq!(bench.results(), [expected]);
    assert_eq!(child.header.kind, SessionKind::Subagent);
    assert_eq!(child.header.parent.map(|parent| parent.id), Some(bench.session));
    assert_eq!(child.header.profile.title.as_deref(), Some("Where is the needle?"));
    assert_eq!(child.header.profile.agent.as_deref(), Some("explore"));
    let spent: u64 = child.usage.values().map(|spent| spent.usage.input).sum();
    assert_eq!(spent, 110, "each session is charged for its own replies");
    let parent = bench.handle.sessions().get(bench.session).expect("there");
    let spent: u64 = parent.usage.values().map(|spent| spent.usage.input).sum();
    assert_eq!(spent, 1_001);
    let said: Vec<String> = bench
        .entries_of(child.id())
        .iter()
        .map(|entry| match entry.body.message() {
            Some(message) => message.role.as_str().to_owned(),
            None => entry.body.kind().to_owned(),
        })
        .collect();
    assert_eq!(said[said.len() - 5..], ["user", "assistant", "tool", "assistant", "finished"]);
    let asked = bench.server.requests()[1].body["system"].to_string();
    assert!(asked.contains("You find things") && asked.contains("This is a haystack."), "{asked}");
    let seen = bench.events().iter().any(|event| {
        matches!(event, Event::Subagent { session, event }
            if *session == child.id() && matches!(**event, Event::Result { .. }))
    });
    assert!(seen, "what it does can be seen while it does it");
}

#[test]
fn a_subagent_that_fails_has_cost_something_too() {
    let look = ("grep", json!({"pattern": "needle"}));
    let script = [
        Answer::calls([task("explore", "Where is the needle?")]).usage(used(1)),
        Answer::calls([look]).usage(used(10)),
        Answer::status(401),
        Answer::text("It failed.").usage(used(1_000)),
    ];
    let bench = Bench::new("openai", script);
    let answer = run(bench.turn("find it")).expect("answered");
    assert!(bench.results()[0].contains("the subagent failed: "), "{:?}", bench.results());
    assert_eq!(answer.usage.input, 1_011);
}

#[test]
fn a_subagent_is_offered_what_both_its_agent_and_its_parent_may_use() {
    let answers = || {
        [Answer::calls([task("build", "do it")]), Answer::text("done"), Answer::text("all done")]
    };
    let bench = Bench::new("anthropic", answers());
    run(bench.turn("go")).expect("answered");
    let (parent, child) = (offered(&bench.server, 0), offered(&bench.server, 1));
    assert!(parent.contains(&"task".into()));
    assert_eq!(child, parent, "the same agent, and no more than its parent");
    assert!(!child.iter().any(|name| name == "run" || name == "write_file"));
    let mut bench = Bench::new("anthropic", answers());
    bench.runner.responder.allow = vec![Grant::tool("run")];
    run(bench.turn("go")).expect("answered");
    let child = offered(&bench.server, 1);
    assert!(child.contains(&"run".into()) && !child.contains(&"write_file".into()), "{child:?}");
    // An agent that may use less makes its subagents use less.
    let mut bench = Bench::new("anthropic", answers());
    bench.runner.responder.allow = vec![Grant::tool("run")];
    bench.runner.responder.agent.tools = Some(vec!["task".into(), "grep".into()]);
    run(bench.turn("go")).expect("answered");
    assert_eq!(offered(&bench.server, 1), ["grep", "task"]);
}

#[test]
fn a_person_is_asked_for_a_subagent_and_what_they_allow_holds_in_the_session_they_talk_in() {
    let write = |path: &str| ("run", json!({"command": format!("touch {path}")}));
    let answers = [
        Answer::calls([task("build", "make them")]),
        Answer::calls([write("a")]),
        Answer::calls([write("b")]),
        Answer::text("made"),
        Answer::calls([write("c")]),
        Answer::text("done"),
    ];
    for (answer, made) in [
        (PermissionAnswer::No, [false, false, false]),
        (PermissionAnswer::Always(Grant::command("touch").expect("a prefix")), [true, true, true]),
    ] {
        let bench = Bench::new("anthropic", answers.clone());
        bench.answer_questions_with(answer.clone());
        run(bench.turn("go")).expect("answered");
        assert_eq!(["a", "b", "c"].map(|name| bench.path(name).exists()), made);
        let times = if answer == PermissionAnswer::No { 3 } else { 1 };
        assert_eq!(bench.questions_asked(), times);
    }
}

#[test]
fn subagents_are_nested_two_deep_at_the_most() {
    let answers = [
        Answer::calls([task("build", "first")]),
        Answer::calls([task("build", "second")]),
        Answer::calls([task("build", "third")]),
        Answer::text("I cannot"),
        Answer::text("it could not"),
        Answer::text("done"),
    ];
    let bench = Bench::new("anthropic", answers);
    run(bench.turn("go")).expect("answered");
    let has = |request: usize| offered(&bench.server, request).contains(&"task".into());
    assert_eq!([has(0), has(1), has(2)], [true, true, false]);
    assert_eq!(children(&bench).len(), 2);
    let third = bench.server.requests()[3].body["messages"].to_string();
    assert!(third.contains("there is no tool `task`"), "{third}");
}

#[test]
fn an_agent_with_a_list_of_tools_and_an_editors_question_are_offered_no_subagents() {
    let mut bench = Bench::new("anthropic", [Answer::text("one"), Answer::text("two")]);
    let options = TurnOptions { mode: TurnMode::Editor, ..TurnOptions::default() };
    let (question, events) = (Message::user("look"), Events::none());
    let turn = bench.runner.run_turn(bench.session, question, &options, &events, &bench.stop);
    run(turn).expect("answered");
    bench.runner = bench.handle.runner(Some("plan"), None).expect("it can answer");
    run(bench.turn("plan")).expect("answered");
    for request in 0..2 {
        assert!(!offered(&bench.server, request).contains(&"task".into()));
    }
}

#[test]
fn a_task_nobody_can_do_is_refused_with_what_there_is() {
    let bench = Bench::new(
        "anthropic",
        [
            Answer::calls([
                task("nobody", "do it"),
                task("compaction", "do it"),
                task("explore", " "),
                ("task", json!({"prompt": "do it"})),
            ]),
            Answer::text("well"),
        ],
    );
    run(bench.turn("go")).expect("answered");
    let results = bench.results();
    let there = "there are build, plan, explore, general";
    assert_eq!(results[0], format!("there is no agent `nobody`; {there}"));
    assert_eq!(results[1], format!("there is no agent `compaction`; {there}"));
    assert_eq!(results[2], "`prompt` is empty; say what is to be done");
    assert_eq!(results[3], "`agent` is missing: a string is expected");
    assert!(children(&bench).is_empty());
}

#[test]
fn subagents_that_only_look_work_at_the_same_time() {
    let tasks = Answer::calls([task("explore", "one"), task("explore", "two")]);
    let bench = Bench::new("anthropic", [tasks]);
    bench.server.push(Answer::text("found").slowly(1));
    bench.server.push(Answer::text("found").slowly(1));
    bench.server.push(Answer::text("done"));
    let answer = run(async {
        let both = async {
            // Both ask before either is answered.
            bench.asked(3).await;
            bench.server.release();
            bench.server.release();
        };
        let (answer, ()) = tokio::join!(bench.turn("look in both"), both);
        answer
    });
    assert_eq!(answer.expect("answered").text, "done");
    assert_eq!(children(&bench).len(), 2);
    // Each result names its own session, although they were started at the same time.
    for (result, child) in bench.results().iter().zip(children(&bench)) {
        let (_, place) = result.rsplit_once("worked in session ").expect("its session");
        let named = place.split(':').next().expect("an id");
        assert_eq!(bench.handle.sessions().select(named).expect("one session"), child.id());
    }
}

#[test]
fn stopping_a_turn_stops_its_subagent_and_keeps_what_both_did() {
    let bench = Bench::new(
        "anthropic",
        [Answer::calls([task("explore", "look")]), Answer::text("so far so good").slowly(2)],
    );
    let answer = run(async {
        let stop = async {
            bench.asked(2).await;
            bench.stop.cancel();
        };
        let (answer, ()) = tokio::join!(bench.turn("go"), stop);
        answer
    });
    assert_eq!(answer.expect("ended").end, End::Stopped);
    assert!(bench.results()[0].ends_with("]\n[stopped]"), "{:?}", bench.results());
    assert_eq!(children(&bench).len(), 1);
}
