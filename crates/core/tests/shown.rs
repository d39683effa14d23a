//! What models are shown of tool results: decided once, by the holder of the lease, and the same
//! whenever and wherever it is built.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::audit::Audit;
use rethread_core::context::{Context, CutEffect, CutReason, Model, Policy, build, explain};
use rethread_core::entry::{Thinned, Thinning};
use rethread_core::shown::{Allowances, ToolKind, decide_alone};
use rethread_core::{
    Block, Body, Fixed, Item, Log, MemoryStore, Message, New, Owner, Raw, Role, SessionId,
    Sessions, Thread,
};
use serde_json::json;

struct Store {
    world: Arc<Fixed>,
    sessions: Sessions,
    id: SessionId,
}

impl Store {
    fn new() -> Store {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world.clone());
        let id = sessions.create(&New::default(), None).expect("created").id();
        Store { world, sessions, id }
    }

    fn held(&self) -> Thread {
        let mut thread = self.sessions.thread(self.id).expect("opened");
        thread.hold("test", Duration::from_secs(60)).expect("there is no other writer");
        thread
    }

    fn log(&self) -> Log {
        Log::new(self.sessions.read(self.id, 0..u64::MAX).expect("read")).expect("no gaps")
    }

    fn findings(&self) -> Vec<String> {
        let mut audit = Audit::new(self.id);
        self.log().entries().iter().for_each(|entry| audit.entry(entry));
        audit.findings().into_iter().map(|finding| finding.what).collect()
    }
}

fn model() -> Model {
    Model::new("openai", "m")
}

/// A file with this many lines, each with a different name.
fn file(name: &str, lines: std::ops::Range<u32>) -> String {
    lines.map(|n| format!("    let {name}_{n} = compute_the_value_of({n});\n")).collect()
}

/// Asks a question for each of these texts, which the model reads in that turn.
fn turn(thread: &mut Thread, question: &str, results: &[String]) {
    let policy = Policy::chat();
    thread.append(Message::user(question)).expect("asked");
    for (index, text) in results.iter().enumerate() {
        thread.context(&policy, &model()).expect("built");
        let id = format!("call_{}_{index}", thread.head());
        let call = Block::tool_use(&id, "read_file", Raw::of(&json!({"path": "a.rs"})));
        thread.append(Message::new(Role::Assistant, vec![call])).expect("replied");
        thread.append(Message::tool_result(id, text)).expect("answered");
    }
    thread.append(Message::assistant("done")).expect("replied");
}

/// The texts of the results in a context.
fn results(context: &Context) -> Vec<String> {
    let results = context.messages.iter().flat_map(Message::results);
    results.map(|result| result.text()).collect()
}

#[test]
fn what_depends_on_earlier_results_is_decided_by_the_holder_of_the_lease_alone() {
    let store = Store::new();
    let read = file("alpha", 0..20);
    let mut held = store.held();
    turn(&mut held, "read it twice", &[read.clone(), read.clone()]);
    held.release("test").expect("released");
    let decided = |log: &Log| -> Vec<bool> {
        let results = log.entries().iter().flat_map(|entry| &entry.measure.results);
        results.map(|result| result.shown.is_some()).collect()
    };
    assert_eq!(decided(&store.log()), [true, true]);
    // Without a lease nothing is decided, whether a context was built before or not.
    let mut free = store.sessions.thread(store.id).expect("opened");
    turn(&mut free, "once more", std::slice::from_ref(&read));
    assert_eq!(decided(&store.log()), [true, true, false]);
    let before = store.sessions.read(store.id, 0..u64::MAX).expect("read");
    let context = store.sessions.context(store.id, &Policy::chat(), &model()).expect("built");
    explain(&context);
    assert_eq!(
        store.sessions.read(store.id, 0..u64::MAX).expect("read"),
        before,
        "nothing written"
    );
    let texts = results(&context);
    assert_eq!(texts[0], read.trim_end());
    assert_eq!(texts[1], "[lines 1-20 as in result 2 above]");
    assert_eq!(texts[2], read.trim_end(), "a result without a decision is shown on its own");
}

#[test]
fn a_reference_is_only_where_the_result_it_names_is_shown() {
    let store = Store::new();
    let read = file("alpha", 0..20);
    let mut thread = store.held();
    turn(&mut thread, "first", std::slice::from_ref(&read));
    let big: Vec<String> = (0..6).map(|n| file(&format!("pad{n}"), 0..60)).collect();
    turn(&mut thread, "much", &big);
    turn(&mut thread, "again", std::slice::from_ref(&read));
    let log = store.log();
    for window in [1_500, 3_000, 6_000, 12_000, 24_000, 100_000] {
        let model = Model { window, reply: 0, ..model() };
        let context = build(&log, &Policy::chat(), &model);
        let texts = results(&context);
        let last = texts.last().expect("the last turn stays");
        let there = texts.len() > 1 && texts[0] == read.trim_end();
        assert_eq!(last.contains("as in result 2"), there, "{window}: {last}");
        // Otherwise the lines are shown where the reference would be.
        assert!(there || *last == read.trim_end(), "{window}: {last}");
        assert!(context.tokens <= window, "{window}: {}", context.tokens);
    }
}

/// One long turn in a full window: what it read first is no longer in the context.
#[test]
fn what_is_read_again_is_shown_where_the_first_time_is_out_of_view() {
    let store = Store::new();
    let mut thread = store.held();
    let model = Model { window: 8_000, reply: 0, ..model() };
    let policy = Policy::chat();
    let read = file("alpha", 0..60);
    thread.append(Message::user("work through these")).expect("asked");
    let mut calls = vec![("read_file", read.clone())];
    calls.extend((0..9).map(|n| ("read_file", file(&format!("pad{n}"), 0..100))));
    // Again, then with `recall`, and some of its lines next to others.
    calls.extend([("read_file", read.clone()), ("recall", read.clone())]);
    calls.push(("read_file", file("beta", 0..40) + &file("alpha", 20..60)));
    let (mut first_is_gone, mut sent): (_, Option<Arc<Context>>) = (false, None);
    let mut rewritten = 0;
    for (index, (tool, text)) in calls.iter().enumerate() {
        let id = format!("call_{index}");
        let call = Block::tool_use(&id, *tool, Raw::of(&json!({"path": "a.rs"})));
        thread.append(Message::new(Role::Assistant, vec![call])).expect("replied");
        thread.append(Message::tool_result(id, text)).expect("answered");
        let context = thread.context(&policy, &model).expect("built");
        assert_eq!(context.hash(), build(&store.log(), &policy, &model).hash());
        assert!(context.tokens <= 8_000, "{}", context.tokens);
        let shown = results(&context);
        let whole = |text: &String| text == read.trim_end();
        if index < 10 {
            first_is_gone |= !shown.iter().any(whole);
        } else {
            let lines = read.lines().skip(20).take(40);
            let there = |line: &str| shown.iter().any(|text| text.contains(line));
            assert!(lines.clone().all(there), "after {index}:\n{}", explain(&context));
        }
        let stays =
            |before: Arc<Context>| context.messages.starts_with(&before.messages[..before.stable]);
        rewritten += u32::from(!sent.take().is_none_or(stays));
        sent = Some(context);
    }
    assert!(first_is_gone, "otherwise this tests nothing");
    assert!(rewritten <= 8, "what goes goes by pages: {rewritten}");
}

#[test]
fn every_line_that_is_shown_is_a_line_of_the_original() {
    for (kind, lines) in [
        (ToolKind::Read, 400),
        (ToolKind::Shell, 300),
        (ToolKind::Search, 90),
        (ToolKind::Other, 200),
    ] {
        let text = file("beta", 0..lines);
        let originals: HashSet<&str> = text.lines().collect();
        let shown = decide_alone(&text, kind);
        let excerpt = rethread_core::shown::excerpt(
            &text,
            kind,
            Some(&shown),
            &Allowances::default(),
            rethread_core::shown::ResultForm::Full,
            "7",
            |_| true,
        );
        assert!(excerpt.chars < excerpt.chars_of, "{kind:?} is cut");
        for line in excerpt.text.lines().filter(|line| !line.starts_with('[')) {
            assert!(originals.contains(line), "{kind:?}: {line}");
        }
        assert!(excerpt.text.contains("recall 7"), "{kind:?}: {}", excerpt.text);
    }
}

#[test]
fn lines_with_names_that_nothing_else_shows_are_kept() {
    let mut text = "the same words again and again\n".repeat(600);
    text.push_str("panicked at src/queue.rs:88 in drain_group\n");
    text.push_str(&"and more of the same words\n".repeat(50));
    let shown = decide_alone(&text, ToolKind::Read);
    let form = rethread_core::shown::ResultForm::Full;
    let allowances = Allowances::default();
    let excerpt = rethread_core::shown::excerpt(
        &text,
        ToolKind::Read,
        Some(&shown),
        &allowances,
        form,
        "7",
        |_| true,
    );
    assert!(excerpt.text.contains("drain_group"), "{}", excerpt.text);
}

#[test]
fn results_are_thinned_when_the_cache_is_cold_and_the_log_says_so() {
    let store = Store::new();
    let mut thread = store.held();
    let (policy, life) = (Policy::chat(), Duration::from_secs(300));
    turn(&mut thread, "look", &[file("alpha", 0..100)]);
    assert_eq!(
        thread.thinning(&Policy::editor(), thread.last_at(), life),
        None,
        "another policy has no use for it"
    );
    store.world.advance(Duration::from_secs(301));
    let thinned = thread.thinning(&policy, thread.last_at(), life).expect("it is cold");
    let through = thread.head() - 1;
    assert_eq!(thinned, Thinned { from: 0, through, why: Thinning::Cold });
    let before = thread.context(&policy, &model()).expect("built").tokens;
    thread
        .record(vec![Body::Thinned(thinned).into(), Message::user("and?").into()])
        .expect("asked");
    let after = thread.context(&policy, &model()).expect("built");
    assert!(after.tokens * 2 < before, "{before} → {}", after.tokens);
    let cold =
        |change: &CutEffect| matches!(change, CutEffect::Trimmed { why: CutReason::Cold, .. });
    assert!(after.cuts.iter().any(|cut| cold(&cut.change)), "{}", explain(&after));
    // Another process builds the same context, byte for byte.
    let again = store.sessions.context(store.id, &policy, &model()).expect("built");
    assert_eq!(again.hash(), after.hash());
    store.world.advance(Duration::from_secs(301));
    assert_eq!(
        thread.thinning(&policy, thread.last_at(), life),
        None,
        "there is nothing new to thin"
    );
}

#[test]
fn the_cache_of_a_model_that_was_not_asked_is_cold() {
    let store = Store::new();
    let mut thread = store.held();
    let (policy, life) = (Policy::chat(), Duration::from_secs(300));
    turn(&mut thread, "look", &[file("alpha", 0..100)]);
    // Another model replied, or another program appended something, a moment ago.
    assert_eq!(thread.log().last_reply_of("anthropic/never-asked"), None);
    let thinned = thread.thinning(&policy, None, life).expect("it is cold");
    assert_eq!(thinned.why, Thinning::Cold);
    assert_ne!(thread.thinning(&policy, thread.last_at(), life), Some(thinned));
}

#[test]
fn a_warm_context_is_thinned_only_where_that_pays() {
    let store = Store::new();
    let mut thread = store.held();
    let (policy, life) = (Policy::chat(), Duration::from_secs(300));
    // Much was said after the result: writing it again costs more than thinning saves.
    turn(&mut thread, "look", &[file("alpha", 0..40)]);
    turn(&mut thread, &"a long question ".repeat(4_000), &[]);
    assert_eq!(thread.thinning(&policy, thread.last_at(), life), None);
    let head = thread.head();
    let much: Vec<String> = (0..5).map(|n| file(&format!("gamma{n}"), 0..90)).collect();
    turn(&mut thread, "read these", &much);
    let thinned = thread.thinning(&policy, thread.last_at(), life).expect("it pays");
    assert_eq!(
        (thinned.from, thinned.why),
        (head, Thinning::Pays),
        "only the end is written again"
    );
    let items = vec![Body::Thinned(thinned).into(), Message::user("and?").into()];
    thread.record(items).expect("asked");
    let context = thread.context(&policy, &model()).expect("built");
    let pays =
        |change: &CutEffect| matches!(change, CutEffect::Trimmed { why: CutReason::Pays, .. });
    let pays = context.cuts.iter().filter(|cut| pays(&cut.change)).count();
    assert_eq!(pays, much.len(), "{}", explain(&context));
}

#[test]
fn doctor_makes_again_what_was_decided_and_says_where_it_cannot() {
    let store = Store::new();
    let mut thread = store.held();
    turn(&mut thread, "one", &[file("alpha", 0..50), file("alpha", 20..120)]);
    // So much that the first turn is out of reach, and is no longer referred to.
    for n in 0..150 {
        turn(&mut thread, &format!("question {n} about item_{n}"), &[]);
    }
    turn(&mut thread, "two", &[file("alpha", 0..50), file("beta", 0..300)]);
    store.world.advance(Duration::from_secs(400));
    let thinned =
        thread.thinning(&Policy::chat(), thread.last_at(), Duration::from_secs(300)).expect("cold");
    thread.note(Body::Thinned(thinned)).expect("noted");
    drop(thread);
    // Another process continues, and has read only the end of the log.
    let mut thread = store.held();
    turn(&mut thread, "three", &[file("beta", 0..300), file("beta", 0..50)]);
    assert_eq!(store.findings(), [] as [&str; 0]);

    let mut audit = Audit::new(store.id);
    for entry in store.log().entries() {
        let mut entry = entry.clone();
        if let Some(shown) = entry.measure.results.first_mut().and_then(|r| r.shown.as_mut()) {
            shown.parts.truncate(0);
        }
        audit.entry(&entry);
    }
    assert_eq!(audit.findings().len(), 6, "each result whose lines are not those of the rule");
}

#[test]
fn a_retried_append_of_a_result_changes_nothing() {
    let store = Store::new();
    let mut thread = store.held();
    turn(&mut thread, "one", &[file("alpha", 0..50)]);
    let log = store.log();
    let item = |seq: u64| {
        let entry = log.get(seq).expect("there");
        let message = entry.body.message().expect("a message").clone();
        Item::Said(rethread_core::Incoming { id: Some(entry.id.clone()), message })
    };
    assert_eq!(thread.record(vec![item(2)]).expect("repeated"), [2]);
    assert_eq!(store.log().entries(), log.entries());
    turn(&mut thread, "two", &[file("alpha", 0..50)]);
    assert_eq!(store.findings(), [] as [&str; 0]);
}

#[test]
fn the_next_holder_of_the_lease_decides_about_what_nobody_decided_about() {
    let store = Store::new();
    let read = file("alpha", 0..20);
    let policy = Policy::chat();
    // Somebody without a lease reads the same file twice.
    let mut free = store.sessions.thread(store.id).expect("opened");
    turn(&mut free, "read it twice", &[read.clone(), read.clone()]);
    let by_itself = store.sessions.context(store.id, &policy, &model()).expect("built");
    assert_eq!(results(&by_itself), [read.trim_end(), read.trim_end()]);

    let mut thread = store.held();
    let before = thread.context(&policy, &model()).expect("built");
    let decided = thread.undecided(&policy).expect("read").expect("two results");
    assert_eq!((decided.through, decided.results.len()), (4, 1), "the first has nothing before it");
    assert_eq!(thread.undecided(&Policy::editor()).expect("read"), None, "it has no use for it");
    let question = Message::user("once more").into();
    thread.record(vec![Body::Decided(decided).into(), question]).expect("asked");
    let after = thread.context(&policy, &model()).expect("built");
    assert_eq!(results(&after), [read.trim_end(), "[lines 1-20 as in result 2 above]"]);
    assert_eq!(before.messages[..3], after.messages[..3], "only what was decided about changes");
    assert_eq!(thread.undecided(&policy).expect("read"), None, "it is decided once");

    // Later results refer to what is shown, and another process builds the same bytes.
    let call = Block::tool_use("c", "read_file", Raw::of(&json!({"path": "a.rs"})));
    thread.append(Message::new(Role::Assistant, vec![call])).expect("replied");
    thread.append(Message::tool_result("c", &read)).expect("answered");
    let context = thread.context(&policy, &model()).expect("built");
    assert_eq!(results(&context)[2], "[lines 1-20 as in result 2 above]");
    let again = store.sessions.context(store.id, &policy, &model()).expect("built");
    assert_eq!(again.hash(), context.hash());
    assert_eq!(store.findings(), [] as [&str; 0], "doctor finds the same");
}

#[test]
fn doctor_says_where_a_later_decision_is_not_what_the_rule_gives() {
    let store = Store::new();
    let read = file("alpha", 0..20);
    let mut free = store.sessions.thread(store.id).expect("opened");
    turn(&mut free, "read it twice", &[read.clone(), read.clone()]);
    let mut thread = store.held();
    let mut decided = thread.undecided(&Policy::chat()).expect("read").expect("two results");
    decided.results.clear();
    thread.note(Body::Decided(decided)).expect("noted");
    let findings = store.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("not those the rule gives"), "{findings:?}");
}

#[test]
fn results_that_come_before_the_first_context_are_decided_about_too() {
    let store = Store::new();
    let read = file("alpha", 0..20);
    let mut thread = store.held();
    turn(&mut thread, "read it", std::slice::from_ref(&read));
    thread.append(Message::user("again")).expect("asked");
    let call = Block::tool_use("theirs", "read_file", Raw::of(&json!({"path": "a.rs"})));
    thread.append(Message::new(Role::Assistant, vec![call])).expect("replied");
    thread.release("test").expect("released");
    // The turn waited for this result; another process continues it.
    let mut thread = store.held();
    thread.show_by(&Policy::chat());
    thread.append(Message::tool_result("theirs", &read)).expect("answered");
    let log = store.log();
    let last = log.entries().last().expect("an entry");
    assert!(last.measure.results[0].shown.is_some());
}
