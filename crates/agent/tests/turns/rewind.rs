//! Earlier versions of files: what is saved before a change, and what can be restored.

use rethread_agent::scripted::Answer;
use rethread_agent::{ByOthers, FileChanged, Grant, PastFile};
use rethread_core::{BlobId, Body, Place, Raw};
use serde_json::{Value, json};

use crate::bench::{Bench, run};

fn worked(calls: impl IntoIterator<Item = (&'static str, Value)>) -> Bench {
    let script = [Answer::calls(calls), Answer::text("ok"), Answer::text("again")];
    let mut bench = Bench::new("openai", script);
    bench.runner.responder.allow = ["write_file", "edit_file"].map(Grant::tool).to_vec();
    bench.file("a.txt", "one two\n");
    std::fs::write(bench.path("b.bin"), b"\x00\xff\x01").expect("written");
    run(bench.turn("go")).expect("answered");
    bench
}

/// The beginning of the session.
fn start(bench: &Bench) -> Place {
    Place { session: bench.session, seq: 0 }
}

fn changes(bench: &Bench) -> Vec<FileChanged> {
    bench.entries().iter().filter_map(|entry| FileChanged::of(&entry.body)).collect()
}

#[test]
fn what_a_file_held_is_in_the_log_before_the_result_and_in_no_context() {
    let bench = worked([
        ("edit_file", json!({"path": "a.txt", "old": "two", "new": "2"})),
        ("write_file", json!({"path": "b.bin", "content": "text"})),
        ("write_file", json!({"path": "new/c.txt", "content": "c"})),
        ("edit_file", json!({"path": "a.txt", "old": "nothing", "new": "2"})),
    ]);
    let blob = |bytes: &[u8]| Some(BlobId::of(bytes));
    let found: Vec<_> = changes(&bench)
        .into_iter()
        .map(|c| (c.path, c.before, c.after, c.call.is_some()))
        .collect();
    assert_eq!(
        found,
        [
            ("a.txt".to_owned(), blob(b"one two\n"), blob(b"one 2\n"), true),
            ("b.bin".to_owned(), blob(b"\x00\xff\x01"), blob(b"text"), true),
            ("new/c.txt".to_owned(), None, blob(b"c"), true),
        ],
        "an edit that cannot be made is none"
    );
    let roles = bench.roles();
    let turn = [
        "system",
        "user",
        "assistant",
        "file_changed",
        "tool",
        "file_changed",
        "tool",
        "file_changed",
        "tool",
        "tool",
        "assistant",
        "finished",
    ];
    assert_eq!(roles, turn);
    let kept = bench.handle.sessions().blob(bench.session, BlobId::of(b"\x00\xff\x01"));
    assert_eq!(kept.expect("kept"), b"\x00\xff\x01");
    // The model sees calls and results and nothing between them.
    run(bench.again("more")).expect("answered");
    let sent = &bench.server.requests()[2];
    assert!(!sent.text.contains("file_changed"), "{}", sent.text);
    assert_eq!(sent.body["messages"].as_array().map(Vec::len), Some(9), "{}", sent.text);
}

#[test]
fn a_file_is_put_back_with_every_byte_and_what_it_held_meanwhile_is_kept() {
    let bench = worked([
        ("write_file", json!({"path": "b.bin", "content": "text"})),
        ("write_file", json!({"path": "b.bin", "content": "more"})),
        ("write_file", json!({"path": "new/c.txt", "content": "c"})),
    ]);
    let turns = bench.runner.past_turns(bench.session).expect("read");
    assert_eq!((turns.len(), turns[0].files), (1, 2));
    let done = bench.runner.done_since(bench.session, turns[0].place).expect("read");
    assert_eq!(
        done.files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(),
        ["b.bin", "new/c.txt"]
    );
    assert_eq!(done.files[0].then.as_deref(), Some(&b"\x00\xff\x01"[..]));
    assert!(!done.files.iter().any(PastFile::changed_meanwhile));
    for file in &done.files {
        bench.runner.put_back(bench.session, file).expect("put back");
    }
    assert_eq!(std::fs::read(bench.path("b.bin")).expect("there"), b"\x00\xff\x01");
    assert!(!bench.path("new/c.txt").exists());
    let kept = bench.handle.sessions().blob(bench.session, BlobId::of(b"more"));
    assert_eq!(kept.expect("kept"), b"more");
    // Someone changed the file before the question was answered: their change is not lost.
    bench.file("b.bin", "theirs");
    let error = bench.runner.put_back(bench.session, &done.files[0]).expect_err("changed");
    assert_eq!(error, "it changed just now");
    assert_eq!(std::fs::read(bench.path("b.bin")).expect("there"), b"theirs");
}

#[test]
fn what_a_log_says_about_files_reaches_no_further_than_a_model_does() {
    let bench = worked([]);
    let workspace = bench.runner.responder.workspace.clone().expect("a workspace");
    let outside = bench.path("../outside.txt");
    std::fs::write(&outside, "theirs").expect("written");
    std::os::unix::fs::symlink(&outside, bench.path("link")).expect("made");
    let content = bench.handle.sessions().put_blob(bench.session, b"evil").expect("stored");
    let absolute = outside.to_str().expect("text");
    let hostile = [
        "../outside.txt",
        absolute,
        "link",
        ".git/hooks/pre-commit",
        ".rethread/agents/a.md",
        "",
        "a\0b",
    ];
    let mut thread = bench.handle.sessions().thread(bench.session).expect("opened");
    for (path, folder) in
        hostile.iter().map(|path| (*path, workspace.as_str())).chain([("a.txt", "/")])
    {
        let said = json!({
            "path": path, "workspace": folder, "before": content, "after": null, "call": "1",
        });
        let body = Body::Unknown { kind: "file_changed".into(), raw: Raw::of(&said) };
        thread.note(body).expect("noted");
    }
    let done = bench.runner.done_since(bench.session, start(&bench)).expect("read");
    assert_eq!(done.files, [], "none of them can be restored");
    assert_eq!(done.out_of_reach.len(), hostile.len() + 1, "{:?}", done.out_of_reach);
    for path in hostile {
        let then = Some(b"evil".to_vec());
        let file = PastFile { path: path.into(), then, left: None, others: vec![], now: None };
        assert!(bench.runner.put_back(bench.session, &file).is_err(), "{path}");
    }
    assert_eq!(std::fs::read_to_string(&outside).expect("there"), "theirs");
    assert!(!bench.path(".git").exists() && !bench.path(".rethread").exists());
}

#[test]
fn commands_that_ran_are_named_and_those_that_were_declined_are_not() {
    let script = [Answer::calls([("run", json!({"command": "echo one"}))]), Answer::text("ok")];
    for (answer, expected) in [
        (rethread_agent::PermissionAnswer::Once, vec!["echo one".to_owned()]),
        (rethread_agent::PermissionAnswer::No, vec![]),
    ] {
        let bench = Bench::new("openai", script.clone());
        bench.answer_questions_with(answer);
        run(bench.turn("go")).expect("answered");
        let done = bench.runner.done_since(bench.session, start(&bench)).expect("read");
        assert_eq!(done.commands, expected);
    }
}

#[test]
fn commands_are_named_before_the_tasks_of_subagents() {
    let task = |prompt: &str| ("task", json!({"agent": "explore", "prompt": prompt}));
    let script = [
        Answer::calls([task("look")]),
        Answer::text("Looked."),
        Answer::calls([("run", json!({"command": "echo one"}))]),
        Answer::text("ok"),
    ];
    let bench = Bench::new("openai", script);
    bench.answer_questions_with(rethread_agent::PermissionAnswer::Once);
    run(bench.turn("go")).expect("answered");
    let done = bench.runner.done_since(bench.session, start(&bench)).expect("read");
    assert_eq!(done.commands, ["echo one", "task explore: look"]);
}

#[test]
fn what_a_subagent_changes_can_be_put_back_from_the_session_it_worked_for() {
    let script = [
        Answer::calls([("task", json!({"agent": "build", "prompt": "change a"}))]),
        Answer::calls([("edit_file", json!({"path": "a.txt", "old": "two", "new": "2"}))]),
        Answer::text("Changed."),
        Answer::text("ok"),
    ];
    let mut bench = Bench::new("openai", script);
    bench.runner.responder.allow = vec![Grant::tool("edit_file")];
    bench.file("a.txt", "one two\n");
    run(bench.turn("go")).expect("answered");
    assert_eq!(std::fs::read(bench.path("a.txt")).expect("there"), b"one 2\n");
    let done = bench.runner.done_since(bench.session, start(&bench)).expect("read");
    assert_eq!(done.commands, ["task build: change a"]);
    assert_eq!(done.files.len(), 1, "{done:?}");
    bench.runner.put_back(bench.session, &done.files[0]).expect("put back");
    assert_eq!(std::fs::read(bench.path("a.txt")).expect("there"), b"one two\n");
}

#[test]
fn what_someone_else_changed_between_the_turns_of_an_agent_is_known() {
    let edit = |old: &str, new: &str| {
        Answer::calls([("edit_file", json!({"path": "a.txt", "old": old, "new": new}))])
    };
    let script =
        [edit("one", "1"), Answer::text("First."), edit("two", "2"), Answer::text("Second.")];
    let mut bench = Bench::new("openai", script);
    bench.runner.responder.allow = vec![Grant::tool("edit_file")];
    bench.file("a.txt", "one two\n");
    run(bench.turn("go")).expect("answered");
    bench.file("a.txt", "1 two\nmine\n");
    run(bench.again("more")).expect("answered");
    assert_eq!(std::fs::read(bench.path("a.txt")).expect("there"), b"1 2\nmine\n");

    let turns = bench.runner.past_turns(bench.session).expect("read");
    let since = |turn: usize| {
        let done = bench.runner.done_since(bench.session, turns[turn].place).expect("read");
        done.files.into_iter().next().expect("a file")
    };
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let file = since(0);
    let mine = ByOthers { from: bytes("1 two\n"), to: bytes("1 two\nmine\n") };
    assert_eq!((&file.others, file.changed_meanwhile()), (&vec![mine], true));
    // Before the second turn it was there already: restoring keeps it.
    assert_eq!((since(1).then, since(1).others), (bytes("1 two\nmine\n"), vec![]));
    assert!(!since(1).changed_meanwhile());

    // A restore is not a change by the agent: what it brings back is still someone else's.
    bench.runner.put_back(bench.session, &since(1)).expect("put back");
    let file = since(0);
    assert_eq!((&file.left, file.changed_meanwhile()), (&bytes("1 2\nmine\n"), true));
    let turn = rethread_core::sessions::Fork {
        at: Some(turns[1].place.seq - 1),
        name: None,
        take_keys: false,
    };
    let fork = bench.handle.sessions().fork(bench.session, &turn).expect("forked").id();
    bench.runner.put_back(fork, &file).expect("put back");
    bench.file("a.txt", "1 two\nmine\n");
    let place = bench.runner.past_turns(fork).expect("read")[0].place;
    let done = bench.runner.done_since(fork, place).expect("read");
    assert_eq!(done.files[0].left, bytes("1 two\n"));
    assert!(done.files[0].changed_meanwhile());
}
