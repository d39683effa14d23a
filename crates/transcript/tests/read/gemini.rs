//! Gemini CLI's lines: a journal of a list that is extended, replaced and truncated.

use rethread_core::entry::Origin;
use rethread_transcript::read::Format;
use serde_json::{Value, json};

use crate::support::{Collected, read_as};

fn header() -> Value {
    json!({"sessionId": "g", "projectHash": "h", "startTime": "2026-09-28T10:00:00Z", "kind": "main"})
}

fn message(id: &str, kind: &str, content: Value) -> Value {
    json!({"id": id, "timestamp": "2026-09-28T10:00:01Z", "type": kind, "content": content})
}

fn calls(id: &str, result: Option<&str>) -> Value {
    let mut call = json!({"id": "c1", "name": "ls", "args": {"d": "."}, "status": "executing"});
    if let Some(result) = result {
        call["status"] = "success".into();
        call["result"] = json!([{"functionResponse": {"response": {"output": result}}}]);
    }
    let mut reply = message(id, "gemini", "".into());
    reply["toolCalls"] = json!([call]);
    reply
}

fn read(lines: &[Value]) -> Collected {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read_as("session.jsonl", text, Format::Gemini)
}

#[test]
fn a_message_has_its_first_position_and_its_last_text() {
    let answer =
        json!([{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a"}}}]);
    let collected = read(&[
        header(),
        message("u1", "user", json!([{"text": "q"}])),
        calls("g1", None),
        message("u2", "user", answer),
        calls("g1", Some("a.txt")),
        message("g2", "gemini", json!([{"text": "hm", "thought": true}, {"text": "one file"}])),
    ]);
    assert_eq!(
        collected.said(0),
        ["user: q", "assistant: ls({\"d\":\".\"})", "tool: = a.txt", "assistant: one file"]
    );
    let account = &collected.account;
    assert_eq!((account.calls, account.pairs, account.orphans), (1, 1, 0));
    assert_eq!((account.records, account.stored, account.raw), (6, 3, 3));
}

#[test]
fn what_was_rewound_is_a_fork_and_the_rest_the_session() {
    let collected = read(&[
        header(),
        message("u1", "user", "keep".into()),
        message("g1", "gemini", "kept".into()),
        message("u2", "user", "rewound".into()),
        message("g2", "gemini", "rewound answer".into()),
        json!({"$rewindTo": "u2"}),
        message("u3", "user", "after".into()),
    ]);
    assert_eq!(collected.said(0), ["user: keep", "assistant: kept", "user: after"]);
    let fork = ["user: keep", "assistant: kept", "user: rewound", "assistant: rewound answer"];
    assert_eq!(collected.said(1), fork);
    let parent = collected.found(1).parent.clone().expect("a parent");
    assert_eq!((parent.identity.as_str(), parent.origin), ("g", Origin::Fork));
    assert_eq!((collected.account.records, collected.account.stored), (7, 5));
    assert_eq!(collected.account.notes, ["1 abandoned by going back, kept as forks"]);
}

#[test]
fn a_rewind_to_an_unknown_message_starts_the_context_again_and_loses_nothing() {
    let lines = [header(), message("u1", "user", "still here".into()), json!({"$rewindTo": "x"})];
    let collected = read(&lines);
    assert_eq!(collected.said(0), ["user: still here"]);
    assert_eq!(
        collected.kinds(0),
        ["imported/gemini/session", "imported/gemini/$rewindTo", "cleared"]
    );
}

#[test]
fn a_compression_starts_the_context_again_with_its_own_list() {
    let snapshot = message("x1", "user", json!([{"text": "<state_snapshot>so far"}]));
    let mut reply = message("g1", "gemini", "first answer".into());
    reply["tokens"] = json!({"input": 7, "output": 3, "total": 10});
    let collected = read(&[
        header(),
        json!({"$set": {"messages": [message("s0", "user", json!([{"text": "<session_context>"}]))]}}),
        message("u1", "user", "first question".into()),
        reply.clone(),
        message("i1", "info", "compressed".into()),
        json!({"$set": {"messages": [snapshot, reply], "summary": "A talk"}}),
        message("u2", "user", "second question".into()),
    ]);
    assert_eq!(
        collected.said(0),
        [
            "user: first question",
            "assistant: first answer",
            "user: <state_snapshot>so far",
            "assistant: first answer",
            "user: second question"
        ]
    );
    assert_eq!(collected.after_the_clear(0), collected.said(0)[2..]);
    assert!(collected.kinds(0).contains(&"cleared"), "{:?}", collected.kinds(0));
    assert_eq!(collected.account.tokens.total(), 10, "repeated records are counted once");
    assert_eq!(collected.found(0).profile.description.as_deref(), Some("A talk"));
    assert_eq!(collected.sessions.len(), 1);
}

#[test]
fn a_turn_that_was_given_up_is_a_fork() {
    let collected = read(&[
        header(),
        message("u1", "user", "cancel me".into()),
        json!({"$set": {"messages": []}}),
        message("u2", "user", "again".into()),
    ]);
    assert_eq!(
        (collected.said(0), collected.said(1)),
        (vec!["user: again".into()], vec!["user: cancel me".into()])
    );
}

#[test]
fn a_header_that_holds_messages_hides_no_lines() {
    let mut head = header();
    head["messages"] = json!([message("u0", "user", "in the header".into())]);
    head["directories"] = json!(["/w"]);
    let lines = [head, message("g1", "gemini", "in a line".into())];
    let collected = read(&lines);
    assert_eq!(collected.said(0), ["user: in the header", "assistant: in a line"]);
    assert_eq!((collected.account.records, collected.account.unreadable), (2, 0));
    assert_eq!(collected.found(0).profile.workspace.as_deref(), Some("/w"));
}

#[test]
fn calls_in_the_content_are_calls() {
    let call = json!({"functionCall": {"id": "f1", "name": "read", "args": {"p": "x"}}});
    let answer =
        json!({"functionResponse": {"id": "f1", "name": "read", "response": {"output": "y"}}});
    let collected = read(&[
        header(),
        message("g1", "gemini", json!([{"text": "checking"}, call])),
        message("g1_response", "user", json!([answer])),
        json!({"id": "g2", "type": "gemini", "content": "x", "toolCalls": ["nope", null]}),
    ]);
    assert_eq!(
        collected.said(0),
        ["assistant: checking read({\"p\":\"x\"})", "tool: = y", "assistant: x"]
    );
    assert_eq!((collected.account.calls, collected.account.pairs), (1, 1));
}
