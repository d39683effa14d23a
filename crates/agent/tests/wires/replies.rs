//! What comes back is what the model said.

use rethread_agent::provider::{Delta, Request, connect, describe};
use rethread_agent::scripted::{Answer, Server};
use rethread_core::Message;
use rethread_core::message::Usage;
use serde_json::{Value, json};

use crate::support::{PROVIDERS, SSE, ask, ask_in, calls, continued, hello, joined, run};

/// With characters of two, three and four bytes.
const TEXT: &str = "Grüße: a token bucket — 100 requests a minute 🦀.";

#[test]
fn text_arrives_in_pieces_and_is_whole_in_the_end() {
    for provider in PROVIDERS {
        let server = Server::start([Answer::text(TEXT)]);
        let (reply, deltas) = ask_in(&server.env(), provider, &hello(), 2);
        let mut expected = Message::assistant(TEXT);
        expected.model = Some(format!("{provider}/model"));
        expected.usage = Some(Usage { input: 10, output: 5, ..Usage::default() });
        assert_eq!(reply.unwrap(), expected, "{provider}");
        assert!(deltas.len() > 5, "{provider}: {deltas:?}");
        assert_eq!(joined(&deltas), (String::new(), TEXT.to_owned()), "{provider}");
    }
}

#[test]
fn text_is_reported_before_the_reply_has_ended() {
    for provider in PROVIDERS {
        let server = Server::start([Answer::text("One two three").slowly(2)]);
        let model = describe(provider, "model");
        let (mut heard, messages) = (String::new(), hello());
        run(async {
            let provider = connect(&model, &server.env()).unwrap();
            let (messages, session, keep_longer) = (&messages[..], None, false);
            let (model, stable, tools) = (&model, 2, &[]);
            let request = Request { model, messages, stable, tools, session, keep_longer };
            let mut listener = |delta| {
                let Delta::Text(more) = delta else { return };
                heard.push_str(&more);
                // The server continues only because this was received.
                if heard == "One two " {
                    server.release();
                }
            };
            provider.ask(request, &mut listener).await.unwrap();
        });
        assert_eq!(heard, "One two three", "{provider}");
    }
}

#[test]
fn parallel_calls_keep_their_order_and_their_results_go_back() {
    for provider in PROVIDERS {
        let server = Server::start([Answer::text("Let me look.").and_calls([
            ("read", json!({"path": "ü.rs", "n": 1})),
            ("list", json!({})),
            ("read", json!({"path": "b.rs"})),
        ])]);
        let reply = ask(&server, provider, &hello());
        let expected =
            [("read", r#"{"path":"ü.rs","n":1}"#), ("list", "{}"), ("read", r#"{"path":"b.rs"}"#)];
        assert_eq!(calls(&reply), expected, "{provider}");
        assert_eq!(reply.plain_text(), "Let me look.", "{provider}");
        let mut ids: Vec<&str> = reply.calls().map(|call| call.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 3, "{provider}");
        // The server refuses calls without results and results without calls.
        let mut messages = continued(reply);
        ask(&server, provider, &messages);
        // Also for a turn that was abandoned.
        messages.push(Message::user("Never mind."));
        ask(&server, provider, &messages);
    }
}

#[test]
fn blocks_nobody_knows_and_hidden_thinking_keep_their_bytes() {
    let hidden = r#"{"type": "redacted_thinking",  "data": "EmwKAhgB"}"#;
    let other = r#"{"type":"server_tool_use", "id":"s1","n":1.0e3}"#;
    let start = |n: usize, block: &str| {
        format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{n},\"content_block\":{block}}}\n\n"
        )
    };
    let stop = "data: {\"type\":\"message_stop\"}\n\n".to_owned();
    let server = Server::start([Answer::raw(SSE, [start(0, hidden), start(1, other), stop])]);
    let reply = ask(&server, "anthropic", &hello());
    let kept: Vec<&str> = reply.content.iter().map(|block| block.raw().unwrap().get()).collect();
    assert_eq!(kept, [hidden, other]);
}

#[test]
fn usage_counts_cached_tokens_separately() {
    let usage = Usage { input: 100, output: 20, cache_read: 7_000, cache_write: 300 };
    let used = |provider| {
        let server = Server::start([Answer::text("Hm.").usage(usage)]);
        ask(&server, provider, &hello()).usage.unwrap()
    };
    assert_eq!(used("anthropic"), usage);
    assert_eq!(used("openai"), usage);
    assert_eq!(used("ollama"), Usage { input: 7_400, output: 20, ..Usage::default() });
}

#[test]
fn calls_without_an_index_or_an_id_are_distinguished() {
    let event = |calls: Value| {
        let chunk = json!({"id": "r-1", "choices": [{"delta": {"tool_calls": calls}}]});
        format!("data: {chunk}\n\n")
    };
    let server = Server::start([Answer::raw(
        SSE,
        [
            event(json!([{"id": "a", "function": {"name": "read", "arguments": "{\"path\""}}])),
            event(json!([{"function": {"arguments": ":\"x\"}"}}])),
            event(json!([{"function": {"name": "list", "arguments": "{}"}},
                {"function": {"name": "read", "arguments": {"path": "y"}}}])),
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n".into(),
        ],
    )]);
    let reply = ask(&server, "openai", &hello());
    let expected = [("read", "{\"path\":\"x\"}"), ("list", "{}"), ("read", "{\"path\":\"y\"}")];
    assert_eq!(calls(&reply), expected);
    let ids: Vec<&str> = reply.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["a", "call_r1_1", "call_r1_2"]);
}

#[test]
fn one_plain_document_is_a_reply_too() {
    let document = json!({
        "id": "r-1",
        "choices": [{"finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Look:", "reasoning_content": "Hm.",
            "tool_calls": [{"id": "a", "type": "function",
                "function": {"name": "read", "arguments": "{\"path\":\"x\"}"}}],
        }}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    });
    let kind = "application/json; charset=utf-8";
    let server = Server::start([Answer::raw(kind, [document.to_string()])]);
    let (reply, deltas) = ask_in(&server.env(), "openai", &hello(), 2);
    let reply = reply.unwrap();
    assert_eq!(joined(&deltas), ("Hm.".into(), "Look:".into()));
    assert_eq!(calls(&reply), [("read", "{\"path\":\"x\"}")]);
    assert_eq!(reply.usage, Some(Usage { input: 9, output: 3, ..Usage::default() }));
}

#[test]
fn arguments_that_are_not_json_become_a_string_the_tool_can_refuse() {
    let call = json!([{"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"pa"}}]);
    let chunk = json!({"choices": [{"delta": {"tool_calls": call}, "finish_reason": "length"}]});
    let openai = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let block = json!({"type": "tool_use", "id": "a", "name": "read", "input": {}});
    let anthropic: String = [
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": {
            "type": "input_json_delta", "partial_json": "{\"pa"}}),
        json!({"type": "message_stop"}),
    ]
    .iter()
    .map(|event| format!("data: {event}\n\n"))
    .collect();
    for (provider, events) in [("openai", openai), ("anthropic", anthropic)] {
        let server = Server::start([Answer::raw(SSE, [events])]);
        let reply = ask(&server, provider, &hello());
        assert_eq!(calls(&reply), [("read", r#""{\"pa""#)], "{provider}");
    }
}
