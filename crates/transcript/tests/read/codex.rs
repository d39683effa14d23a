//! Codex's rollouts.

use rethread_core::message::Usage;
use rethread_transcript::read::Format;
use serde_json::{Value, json};

use crate::support::{Collected, read_as};

fn line(kind: &str, payload: Value) -> Value {
    json!({"timestamp": "2026-05-31T10:46:36.474Z", "type": kind, "payload": payload})
}

fn item(payload: Value) -> Value {
    line("response_item", payload)
}

fn said(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    item(json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}))
}

fn count(input: u64, output: u64) -> Value {
    let total = json!({"input_tokens": input, "cached_input_tokens": 10, "output_tokens": output});
    let info = json!({"total_token_usage": total, "last_token_usage": total});
    line("event_msg", json!({"type": "token_count", "info": info}))
}

fn rollout() -> Vec<Value> {
    vec![
        line("session_meta", json!({"id": "t-1", "cwd": "/work", "model_provider": "openai"})),
        line("session_meta", json!({"id": "t-0", "cwd": "/elsewhere"})),
        said("developer", "obey"),
        said("user", "<environment_context>\n</environment_context>"),
        line("event_msg", json!({"type": "user_message", "message": "list"})),
        said("user", "list"),
        item(json!({"type": "reasoning", "summary": [], "encrypted_content": "x"})),
        item(
            json!({"type": "function_call", "name": "ls", "arguments": "{\"p\":1}", "call_id": "c1"}),
        ),
        item(json!({"type": "function_call_output", "call_id": "c1", "output": "a.txt"})),
        count(100, 5),
        item(
            json!({"type": "custom_tool_call", "name": "patch", "input": "*** Begin", "call_id": "c2"}),
        ),
        item(
            json!({"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "ok"}]}),
        ),
        said("assistant", "Done."),
        count(250, 9),
        line("compacted", json!({"message": "", "replacement_history": []})),
    ]
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn check(collected: &Collected) {
    assert_eq!(
        collected.said(0),
        [
            "user: list",
            "assistant: ls({\"p\":1})",
            "tool: = a.txt",
            "assistant: patch({\"input\":\"*** Begin\"})",
            "tool: = ok",
            "assistant: Done."
        ]
    );
    let usage = Usage { input: 240, output: 9, cache_read: 10, cache_write: 0 };
    assert_eq!(collected.account.tokens, usage, "counts are cumulative");
    assert_eq!((collected.account.calls, collected.account.pairs), (2, 2));
}

#[test]
fn messages_that_occur_twice_are_imported_once_and_instructions_never() {
    let collected = read_as("rollout.jsonl", text(&rollout()), Format::Codex);
    check(&collected);
    assert_eq!(collected.found(0).identity, "t-1");
    assert_eq!(collected.found(0).profile.workspace.as_deref(), Some("/work"));
    assert!(
        collected.account.notes.iter().any(|note| note.contains("encrypted")),
        "{:?}",
        collected.account
    );
}

#[test]
fn a_packed_rollout_is_the_same() {
    let packed = zstd::encode_all(text(&rollout()).as_bytes(), 3).expect("packed");
    check(&read_as("rollout.jsonl.zst", packed, Format::Codex));
}

#[test]
fn a_file_that_begins_in_the_middle_is_named_by_its_file() {
    let name = "rollout-2026-05-31T10-46-34-019e7da4-83bc-7dc1-93d3-a435cb5c9100.jsonl";
    let collected = read_as(name, text(&rollout()[7..]), Format::Codex);
    assert_eq!(collected.found(0).identity, "019e7da4-83bc-7dc1-93d3-a435cb5c9100");
    assert_eq!(collected.said(0)[0], "assistant: ls({\"p\":1})");
}

#[test]
fn a_readable_compaction_starts_the_context_again() {
    let lines = [said("user", "a"), line("compacted", json!({"message": "so far: a"}))];
    let collected = read_as("r.jsonl", text(&lines), Format::Codex);
    assert_eq!(collected.said(0), ["user: a", "user: so far: a"]);
    assert_eq!(collected.kinds(0), ["imported/codex/compacted", "cleared"]);
}

fn event(payload: Value) -> Value {
    line("event_msg", payload)
}

#[test]
fn a_rollout_of_events_alone_says_what_they_say() {
    let meta = line("session_meta", json!({"id": "t-1", "cwd": "/work"}));
    let legacy = [
        meta.clone(),
        event(json!({"type": "task_started", "turn_id": "1"})),
        event(json!({"type": "user_message", "message": "list", "images": []})),
        event(json!({"type": "agent_reasoning", "text": "I look"})),
        event(
            json!({"type": "exec_command_end", "call_id": "c", "command": ["ls"], "aggregated_output": "a.txt"}),
        ),
        event(json!({"type": "agent_message", "message": "One file."})),
        count(100, 5),
    ];
    let collected = read_as("r.jsonl", text(&legacy), Format::Codex);
    assert_eq!(
        collected.said(0),
        [
            "user: list",
            "assistant: exec_command({\"command\":[\"ls\"]})",
            "tool: = a.txt",
            "assistant: One file."
        ]
    );
    assert_eq!((collected.account.calls, collected.account.pairs), (1, 1));
    assert_eq!(collected.account.tokens.total(), 105);
    let words = |text: &str| json!([{"type": "Text", "text": text}]);
    let turn_items = [
        meta,
        event(
            json!({"type": "item_completed", "item": {"type": "UserMessage", "id": "1", "content": [{"type": "text", "text": "list"}]}}),
        ),
        event(
            json!({"type": "item_completed", "item": {"type": "AgentMessage", "id": "2", "content": words("One file.")}}),
        ),
    ];
    let collected = read_as("r.jsonl", text(&turn_items), Format::Codex);
    assert_eq!(collected.said(0), ["user: list", "assistant: One file."]);
    assert_eq!((collected.account.records, collected.account.raw), (3, 1));
}

#[test]
fn turns_that_were_taken_back_are_a_fork() {
    let lines = [
        line("session_meta", json!({"id": "t-1"})),
        said("user", "one"),
        said("assistant", "first"),
        said("user", "two"),
        said("assistant", "second"),
        event(json!({"type": "thread_rolled_back", "num_turns": 1})),
        said("user", "three"),
        said("assistant", "third"),
    ];
    let collected = read_as("r.jsonl", text(&lines), Format::Codex);
    assert_eq!(
        collected.said(0),
        ["user: one", "assistant: first", "user: three", "assistant: third"]
    );
    assert_eq!(
        collected.said(1),
        ["user: one", "assistant: first", "user: two", "assistant: second"]
    );
    let parent = collected.found(1).parent.as_ref().expect("a parent");
    assert_eq!(parent.identity, "t-1");
    assert_eq!((collected.account.records, collected.account.stored), (8, 6));
}

#[test]
fn a_compaction_that_lists_what_is_left_starts_the_context_again_with_all_of_it() {
    let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]});
    let summary = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "so far: b"}]});
    let sealed = json!({"type": "compaction", "encrypted_content": "x"});
    let lines = [
        said("user", "a"),
        said("assistant", "b"),
        line("compacted", json!({"message": "", "replacement_history": [user, summary, sealed]})),
        said("user", "c"),
    ];
    let collected = read_as("r.jsonl", text(&lines), Format::Codex);
    let all = ["user: a", "assistant: b", "user: a", "user: so far: b", "user: c"];
    assert_eq!(collected.said(0), all, "and nothing of it twice");
    assert_eq!(collected.after_the_clear(0), all[2..]);
    assert_eq!(collected.kinds(0), ["imported/codex/compacted", "cleared"]);
    assert_eq!(
        (collected.account.records, collected.account.stored, collected.account.raw),
        (4, 3, 1)
    );
    assert!(collected.account.notes.iter().any(|note| note.contains("encrypted")));
}

#[test]
fn a_rollout_says_where_it_came_from() {
    for (meta, identity) in [
        (json!({"id": "t-2", "forked_from_id": "t-1"}), "t-1"),
        (
            json!({"id": "t-3", "source": {"subagent": {"thread_spawn": {"parent_thread_id": "t-0", "depth": 1}}}}),
            "t-0",
        ),
    ] {
        let lines = [line("session_meta", meta), said("user", "a")];
        let collected = read_as("r.jsonl", text(&lines), Format::Codex);
        assert_eq!(collected.found(0).parent.as_ref().expect("a parent").identity, identity);
    }
}
