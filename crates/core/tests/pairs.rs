//! Calls and their results, however they were stored: a context keeps what belongs together.

use std::sync::Arc;

use rethread_core::context::{Context, CutEffect, Follower, Model, Policy, build};
use rethread_core::{
    Block, Fixed, Log, MemoryStore, Message, New, Owner, Raw, Role, SessionId, Sessions,
};

fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| {
        Block::tool_use(*id, format!("tool_{id}"), Raw::of(&serde_json::json!({ "for": id })))
    };
    Message::new(Role::Assistant, ids.iter().map(call).collect())
}

fn result(id: &str) -> Message {
    Message::tool_result(id, format!("answer {id}"))
}

fn stored(messages: Vec<Message>) -> (Sessions, SessionId, Log) {
    let world = Arc::new(Fixed::default());
    let sessions = Sessions::new(Arc::new(MemoryStore::new(world.clone())), Owner::local(), world);
    let id = sessions.create(&New::default(), None).expect("created").id();
    // One by one, like a program that returns results as they finish.
    for message in messages {
        sessions.append(id, vec![message.into()]).expect("appended");
    }
    let log = Log::new(sessions.read(id, 0..99).expect("read")).expect("no gaps");
    (sessions, id, log)
}

fn context(log: &Log) -> Context {
    build(log, &Policy::cli(), &Model::new("openai", "m"))
}

/// The results a model sees, each with the call it claims to answer.
fn answers(context: &Context) -> Vec<(String, String)> {
    let results = context.messages.iter().flat_map(Message::results);
    results.map(|result| (result.tool_use_id.clone(), result.text())).collect()
}

fn answered(ids: &[&str]) -> Vec<(String, String)> {
    ids.iter().map(|id| ((*id).to_owned(), format!("answer {id}"))).collect()
}

#[test]
fn calls_made_at_once_and_stored_as_one_message_each_keep_all_results() {
    for results in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let mut said = vec![Message::user("q"), calls(&["a"]), calls(&["b"]), calls(&["c"])];
        said.extend(results.map(result));
        said.push(Message::assistant("done"));
        let (sessions, id, log) = stored(said);
        let context = context(&log);
        assert_eq!(answers(&context), answered(&["a", "b", "c"]), "{results:?}");
        assert_eq!(context.cuts, [], "{results:?}");
        // Each result is right after its call, and knows its tool.
        for pair in context.messages.windows(2) {
            for result in pair[1].results() {
                assert!(pair[0].calls().any(|call| call.id == result.tool_use_id), "{pair:?}");
            }
        }
        let tools: Vec<Option<String>> =
            log.entries()[4..7].iter().map(|entry| entry.measure.results[0].tool.clone()).collect();
        assert_eq!(tools, results.map(|id| Some(format!("tool_{id}"))));
        assert_eq!(sessions.doctor(false, |_, _| {}).expect("checked"), (1, Vec::new()), "{id}");
    }
}

#[test]
fn an_answer_that_came_too_late_stays_out() {
    let said = vec![
        Message::user("q"),
        calls(&["a"]),
        calls(&["b"]),
        result("b"),
        // The model has continued, and was sent an interrupted result for `a`.
        calls(&["c"]),
        result("a"),
        result("c"),
    ];
    let (sessions, _, log) = stored(said);
    let context = context(&log);
    let shown = answers(&context);
    assert!(shown[0].1.starts_with("[interrupted"), "{shown:?}");
    assert_eq!(shown[1..], answered(&["b", "c"]));
    assert!(matches!(&context.cuts[..], [cut] if cut.seq == 5
        && matches!(&cut.change, CutEffect::LeftOut { what } if what.contains("no call waits"))));
    let (_, findings) = sessions.doctor(false, |_, _| {}).expect("checked");
    let seqs: Vec<Option<u64>> = findings.iter().map(|finding| finding.seq).collect();
    assert_eq!(seqs, [Some(1), Some(5)], "{findings:?}");
}

#[test]
fn a_reply_without_calls_ends_what_can_be_answered() {
    let said =
        vec![Message::user("q"), calls(&["a"]), Message::assistant("never mind"), result("a")];
    let (_, _, log) = stored(said);
    assert!(answers(&context(&log))[0].1.starts_with("[interrupted"));
    assert_eq!(log.unanswered(), []);
}

#[test]
fn a_result_answers_the_latest_call_of_its_id_and_that_once() {
    let said = vec![Message::user("q"), calls(&["a"]), calls(&["a"]), result("a"), result("a")];
    let (_, _, log) = stored(said);
    let context = context(&log);
    let texts: Vec<String> = answers(&context).into_iter().map(|(_, text)| text).collect();
    assert!(texts[0].starts_with("[interrupted") && texts[1] == "answer a", "{texts:?}");
    assert_eq!(context.cuts.len(), 1, "{:?}", context.cuts);
}

#[test]
fn all_of_the_calls_that_a_crash_left_open_are_answered_by_repair() {
    let (sessions, id, log) =
        stored(vec![Message::user("q"), calls(&["a", "b"]), calls(&["c"]), result("b")]);
    let names =
        |open: Vec<(String, String)>| open.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(names(log.unanswered()), ["a", "c"]);
    let mut thread = sessions.thread(id).expect("opened");
    assert_eq!(thread.repair().expect("repaired"), 2);
    assert_eq!(names(thread.log().unanswered()), [] as [&str; 0]);
    let (_, findings) = sessions.doctor(false, |_, _| {}).expect("checked");
    assert_eq!(findings, []);
}

#[test]
fn what_was_sent_while_results_come_in_stays_as_it_was() {
    let said = vec![
        Message::user("q"),
        calls(&["a"]),
        calls(&["b"]),
        calls(&["c"]),
        result("c"),
        result("a"),
        result("b"),
        Message::assistant("done"),
    ];
    let (_, _, log) = stored(said);
    let (policy, model) = (Policy::cli(), Model::new("openai", "m"));
    let mut follower = Follower::new(policy.clone(), model.clone());
    let mut before: Option<Context> = None;
    for end in 1..=log.entries().len() {
        let part = Log::new(log.entries()[..end].to_vec()).expect("no gaps");
        let now = build(&part, &policy, &model);
        let followed = match follower.extend(&part) {
            Some(context) => context,
            None => follower.build(&part),
        };
        assert_eq!(*followed, now, "{end}");
        if let Some(before) = before {
            let stable = before.stable;
            assert_eq!(before.messages[..stable], now.messages[..stable], "{end}");
        }
        before = Some(now);
    }
}
