//! Claude Code's lines.

use rethread_core::message::Usage;
use rethread_transcript::read::Format;
use serde_json::{Value, json};

use crate::support::{Collected, read_as};

fn record(kind: &str, uuid: &str, parent: Option<&str>, message: Value) -> Value {
    json!({
        "parentUuid": parent, "isSidechain": false, "cwd": "/work", "sessionId": "s-1", "type": kind,
        "message": message, "uuid": uuid, "timestamp": "2026-01-23T14:21:43.537Z",
    })
}

fn user(uuid: &str, parent: Option<&str>, text: &str) -> Value {
    record("user", uuid, parent, json!({"role": "user", "content": text}))
}

fn reply(uuid: &str, parent: &str, id: &str, block: Value, output: u64) -> Value {
    let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": output});
    let message =
        json!({"model": "m", "id": id, "role": "assistant", "content": [block], "usage": usage});
    record("assistant", uuid, Some(parent), message)
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Read", "input": {"n": 1}})
}

fn result(uuid: &str, parent: &str, id: &str) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": id, "content": "done"});
    record("user", uuid, Some(parent), json!({"role": "user", "content": [block]}))
}

fn read(records: &[Value]) -> Collected {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    read_as("s-1.jsonl", lines.join("\n"), Format::ClaudeCode)
}

#[test]
fn a_reply_of_several_lines_is_one_message_and_counted_once() {
    let collected = read(&[
        user("u", None, "go"),
        reply("a1", "u", "m1", text("I look."), 1),
        reply("a2", "a1", "m1", call("c1"), 1),
        result("r1", "a2", "c1"),
        reply("a3", "a2", "m1", call("c2"), 40),
        result("r2", "a3", "c2"),
        reply("b", "r2", "m2", text("Found."), 9),
    ]);
    assert_eq!(collected.account.sessions, 1, "parallel tool calls are not a fork");
    assert_eq!(
        collected.said(0),
        [
            "user: go",
            "assistant: I look. Read({\"n\":1}) Read({\"n\":1})",
            "tool: = done",
            "tool: = done",
            "assistant: Found."
        ]
    );
    let usage = Usage { input: 10, output: 49, cache_read: 200, cache_write: 14 };
    assert_eq!(collected.account.tokens, usage);
    assert_eq!((collected.account.calls, collected.account.pairs), (2, 2));
}

#[test]
fn words_beside_an_answer_come_after_all_answers() {
    let mut mixed = result("r1", "a1", "c1");
    mixed["message"]["content"].as_array_mut().expect("a list").push(text("stop"));
    let collected = read(&[
        user("u", None, "go"),
        reply("a1", "u", "m1", call("c1"), 1),
        reply("a2", "a1", "m1", call("c2"), 1),
        mixed,
        result("r2", "a2", "c2"),
    ]);
    assert_eq!(collected.said(0)[2..], ["tool: = done", "tool: = done", "user: stop"]);
}

#[test]
fn an_abandoned_branch_is_a_fork_with_what_came_before() {
    let collected = read(&[
        user("u", None, "go"),
        reply("a", "u", "m1", text("first"), 1),
        user("v", Some("a"), "left"),
        reply("b", "v", "m2", text("gone"), 1),
        user("w", Some("a"), "again"),
        reply("c", "w", "m3", text("kept"), 1),
    ]);
    assert_eq!(
        collected.said(0),
        ["user: go", "assistant: first", "user: again", "assistant: kept"]
    );
    assert_eq!(
        collected.said(1),
        ["user: go", "assistant: first", "user: left", "assistant: gone"]
    );
    assert_eq!(collected.account.stored, 6, "a copy is not a record");
    let parent = collected.found(1).parent.as_ref().expect("a parent");
    assert_eq!(parent.identity, collected.found(0).identity);
}

#[test]
fn a_compaction_starts_the_context_again_in_the_same_session() {
    let boundary = json!({
        "parentUuid": null, "logicalParentUuid": "a", "type": "system", "subtype": "compact_boundary",
        "uuid": "k", "sessionId": "s-1", "timestamp": "2026-01-23T15:00:00Z",
    });
    let mut summary = user("s", Some("k"), "This session is being continued");
    summary["isCompactSummary"] = json!(true);
    let collected = read(&[
        user("u", None, "go"),
        reply("a", "u", "m1", text("first"), 1),
        boundary,
        summary,
        reply("b", "s", "m2", text("on"), 1),
    ]);
    assert_eq!(collected.account.sessions, 1);
    assert_eq!(collected.kinds(0), ["imported/claude-code/system/compact_boundary", "cleared"]);
    assert_eq!(collected.said(0).len(), 4);
}

/// A compaction that leaves the last question and its answer as they were. What follows continues
/// from the record `next`.
fn compacted(metadata: &Value, next: &str) -> Collected {
    let boundary = json!({
        "parentUuid": null, "logicalParentUuid": "r", "type": "system", "subtype": "compact_boundary",
        "uuid": "k", "sessionId": "s-1", "timestamp": "2026-01-23T15:00:00Z", "compactMetadata": metadata,
    });
    let mut summary = user("s", Some("k"), "so far");
    summary["isCompactSummary"] = json!(true);
    read(&[
        user("u", None, "go"),
        reply("a", "u", "m1", text("first"), 1),
        user("v", Some("a"), "look"),
        reply("b1", "v", "m2", text("I look."), 1),
        reply("b2", "b1", "m2", call("c1"), 1),
        result("r", "b2", "c1"),
        boundary,
        summary,
        user("w", Some(next), "on"),
        reply("d", "w", "m3", text("ok"), 1),
    ])
}

#[test]
fn what_a_compaction_preserved_is_in_the_context_after_it() {
    let kept = ["user: look", "assistant: I look. Read({\"n\":1})", "tool: = done"];
    let ids = json!(["v", "b1", "b2", "r"]);
    for (metadata, next, is_first) in [
        (
            json!({"preservedMessages": {"anchorUuid": "s", "uuids": ids, "allUuids": ids}}),
            "r",
            false,
        ),
        (
            json!({"preservedSegment": {"headUuid": "v", "anchorUuid": "s", "tailUuid": "r"}}),
            "r",
            false,
        ),
        (
            json!({"preservedSegment": {"headUuid": "v", "anchorUuid": "s", "tailUuid": "r"}}),
            "s",
            false,
        ),
        (
            json!({"preservedSegment": {"headUuid": "v", "anchorUuid": "k", "tailUuid": "r"}}),
            "s",
            true,
        ),
    ] {
        let collected = compacted(&metadata, next);
        assert_eq!(
            collected.account.sessions, 1,
            "{metadata}, {next}: {:?}",
            collected.account.notes
        );
        let mut context = vec!["user: so far"];
        let at = if is_first { 0 } else { 1 };
        context.splice(at..at, kept);
        context.extend(["user: on", "assistant: ok"]);
        assert_eq!(collected.after_the_clear(0), context, "{metadata}, {next}");
        assert_eq!(collected.said(0).len(), 5 + context.len(), "and what was said before it");
        assert_eq!(collected.account.tokens.output, 3, "what it cost is counted once");
        assert_eq!((collected.account.calls, collected.account.pairs), (1, 1));
    }
    // If nothing of it is in the file, nothing is added.
    let gone = json!({"preservedSegment": {"headUuid": "x", "anchorUuid": "s", "tailUuid": "y"}});
    assert_eq!(
        compacted(&gone, "s").after_the_clear(0),
        ["user: so far", "user: on", "assistant: ok"]
    );
}

#[test]
fn helpers_are_sessions_of_their_own() {
    let mut side = user("x", Some("u"), "look there");
    side["isSidechain"] = json!(true);
    side["agentId"] = json!("a7");
    let collected = read(&[user("u", None, "go"), side, reply("a", "u", "m", text("ok"), 1)]);
    assert_eq!(collected.said(0), ["user: go", "assistant: ok"]);
    assert_eq!(collected.said(1), ["user: look there"]);
    assert!(collected.found(1).identity.starts_with("s-1/"));
}

#[test]
fn unknown_records_are_kept_byte_for_byte() {
    let odd = r#"{"type":"hologram", "n": 1.0e2,"sessionId":"s-1","x":"\ud83d"}"#;
    let text = format!("{}\n{odd}\nnot json\n", user("u", None, "go"));
    let collected = read_as("s.jsonl", text, Format::ClaudeCode);
    assert_eq!(collected.kinds(0), ["imported/claude-code/hologram"]);
    assert_eq!(collected.sessions[0].1[1].body.json(), odd);
    assert_eq!((collected.account.raw, collected.account.unreadable), (1, 1));
}

#[test]
fn a_record_that_occurs_twice_counts_once_and_another_with_its_id_is_kept() {
    let collected = read(&[user("u", None, "go"), user("u", None, "go"), user("u", None, "stop")]);
    let ids: Vec<&str> = collected.sessions[0].1.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["u", "u.2"]);
    assert_eq!(collected.account.kinds["repeated"].stored, 1);
}

#[test]
fn sessions_that_were_put_into_one_file_are_apart() {
    let line = |uuid: &str, parent: Option<&str>, session: &str, text: &str| {
        let kind = if uuid.starts_with('u') { "user" } else { "assistant" };
        json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, "cwd": format!("/{session}"),
            "timestamp": "2026-01-01T10:00:00Z", "message": {"role": kind, "id": format!("m-{uuid}"), "content": text}})
    };
    let lines = [
        json!({"type": "summary", "summary": "T", "leafUuid": "a1"}),
        line("u1", None, "one", "a"),
        line("a1", Some("u1"), "one", "b"),
        line("u2", Some("a1"), "one", "left"),
        line("a2", Some("u2"), "one", "behind"),
        line("u3", Some("a1"), "one", "again"),
        line("u4", None, "two", "c"),
        line("a4", Some("u4"), "two", "d"),
        json!({"type": "queue-operation", "operation": "enqueue", "sessionId": "one", "content": "x"}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let collected = read_as("both.jsonl", text, Format::ClaudeCode);
    let by_identity = |wanted: &str| {
        let at =
            collected.sessions.iter().position(|(found, _)| found.identity.starts_with(wanted));
        at.unwrap_or_else(|| panic!("no {wanted}: {:?}", collected.sessions))
    };
    assert_eq!(collected.said(by_identity("two")), ["user: c", "assistant: d"]);
    assert_eq!(collected.said(by_identity("one")), ["user: a", "assistant: b", "user: again"]);
    assert_eq!(collected.found(by_identity("one")).profile.workspace.as_deref(), Some("/one"));
    assert_eq!(collected.found(by_identity("two")).profile.workspace.as_deref(), Some("/two"));
    let fork = by_identity("one/");
    assert_eq!(
        collected.said(fork),
        ["user: a", "assistant: b", "user: left", "assistant: behind"]
    );
    assert_eq!(collected.sessions.len(), 3);
    assert!(
        collected.account.notes.iter().any(|note| note.starts_with("2 unrelated sessions")),
        "{:?}",
        collected.account
    );
}

#[test]
fn what_was_typed_meanwhile_is_said_and_a_fork_knows_its_origin() {
    let call = json!([{"type": "tool_use", "id": "c", "name": "Bash", "input": {}}]);
    let answer = json!([{"type": "tool_result", "tool_use_id": "c", "content": "r"}]);
    let typed =
        |prompt: &str| json!({"type": "queued_command", "prompt": prompt, "commandMode": "prompt"});
    let from = json!({"sessionId": "origin", "messageUuid": "x"});
    let lines = [
        json!({"type": "user", "uuid": "u", "parentUuid": null, "sessionId": "s", "forkedFrom": from, "message": {"role": "user", "content": "q"}}),
        json!({"type": "assistant", "uuid": "a", "parentUuid": "u", "sessionId": "s", "message": {"id": "m", "role": "assistant", "content": call}}),
        json!({"type": "attachment", "uuid": "t", "parentUuid": "a", "sessionId": "s", "attachment": typed("also this")}),
        json!({"type": "user", "uuid": "r", "parentUuid": "a", "sessionId": "s", "message": {"role": "user", "content": answer}}),
        json!({"type": "attachment", "uuid": "n", "parentUuid": "r", "sessionId": "s", "attachment": typed("<task-notification>x")}),
        json!({"type": "ai-title", "aiTitle": "A title", "sessionId": "s"}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let collected = read_as("s.jsonl", text, Format::ClaudeCode);
    assert_eq!(
        collected.said(0),
        ["user: q", "assistant: Bash({})", "tool: = r", "user: also this"]
    );
    assert_eq!(collected.found(0).name.as_deref(), Some("A title"));
    assert_eq!(collected.found(0).parent.as_ref().expect("a parent").identity, "origin");
    assert_eq!(
        (collected.account.records, collected.account.stored, collected.account.raw),
        (6, 4, 2)
    );
}
