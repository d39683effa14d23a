//! Codex's rollouts.

use rethread_core::message::Usage;
use rethread_transcript::read::Format;
use serde_json::{Value, json};

use crate::desk::{Heap, read_as};

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

fn check(heap: &Heap) {
    assert_eq!(
        heap.said(0),
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
    assert_eq!(heap.account.tokens, usage, "counts are cumulative");
    assert_eq!((heap.account.calls, heap.account.pairs), (2, 2));
}

#[test]
fn what_stands_twice_is_said_once_and_instructions_never() {
    let heap = read_as("rollout.jsonl", text(&rollout()), Format::Codex);
    check(&heap);
    assert_eq!(heap.found(0).identity, "t-1");
    assert_eq!(heap.found(0).workspace.as_deref(), Some("/work"));
    assert!(heap.account.notes.iter().any(|note| note.contains("encrypted")), "{:?}", heap.account);
}

#[test]
fn a_packed_rollout_is_the_same() {
    let packed = zstd::encode_all(text(&rollout()).as_bytes(), 3).expect("packed");
    check(&read_as("rollout.jsonl.zst", packed, Format::Codex));
}

#[test]
fn a_file_that_begins_in_the_middle_is_named_by_its_file() {
    let name = "rollout-2026-05-31T10-46-34-019e7da4-83bc-7dc1-93d3-a435cb5c9100.jsonl";
    let heap = read_as(name, text(&rollout()[7..]), Format::Codex);
    assert_eq!(heap.found(0).identity, "019e7da4-83bc-7dc1-93d3-a435cb5c9100");
    assert_eq!(heap.said(0)[0], "assistant: ls({\"p\":1})");
}

#[test]
fn a_compaction_that_can_be_read_starts_the_context_anew() {
    let lines = [said("user", "a"), line("compacted", json!({"message": "so far: a"}))];
    let heap = read_as("r.jsonl", text(&lines), Format::Codex);
    assert_eq!(heap.said(0), ["user: a", "user: so far: a"]);
    assert_eq!(heap.kinds(0), ["imported/codex/compacted", "cleared"]);
}
