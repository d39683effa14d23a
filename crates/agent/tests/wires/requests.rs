//! What is sent is what a provider accepts.

use rethread_agent::provider::Failure;
use rethread_agent::scripted::{Answer, ReceivedRequest, Server};
use rethread_core::{Block, Message, Raw, Role};
use serde_json::{Value, json};

use crate::support::{PROVIDERS, ask, ask_in, ask_to_keep_longer, continued, hello, joined};

#[test]
fn a_request_says_what_its_wire_asks_for() {
    let server = Server::start([]);
    let messages = continued(Message::new(
        Role::Assistant,
        vec![Block::tool_use("a", "list", Raw::of(&json!({"path": "."})))],
    ));
    for provider in PROVIDERS {
        ask(&server, provider, &messages);
    }
    let bodies: Vec<Value> = server.requests().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies[0]["max_tokens"], 8_192);
    assert_eq!(bodies[0]["system"][0]["text"], "Be brief.");
    assert_eq!(bodies[0]["tools"][0]["input_schema"]["type"], "object");
    assert_eq!(bodies[0]["messages"][2]["content"][0]["tool_use_id"], "a");
    let said = &bodies[1]["messages"];
    assert_eq!(said[0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(said[2]["tool_calls"][0]["function"]["arguments"], "{\"path\":\".\"}");
    assert_eq!(said[3], json!({"role": "tool", "tool_call_id": "a", "content": "done"}));
    assert_eq!(bodies[1]["tools"][0]["function"]["name"], "list");
    assert_eq!(bodies[2]["options"], json!({"num_ctx": 8_192, "num_predict": 2_048}));
    let said = &bodies[2]["messages"];
    assert_eq!(said[2]["tool_calls"][0]["function"]["arguments"], json!({"path": "."}));
    assert_eq!(said[3], json!({"role": "tool", "content": "done", "tool_name": "list"}));
}

#[test]
fn signed_thinking_goes_back_byte_for_byte_and_in_order() {
    let signature = "EqQB/+a\"\\u00e9==";
    let server = Server::start([Answer::text("I see.")
        .thinking("Why \"not\"?\nλ </think>", signature)
        .and_calls([("list", json!({"path": "."}))])]);
    let (reply, deltas) = ask_in(&server.env(), "anthropic", &hello(), 2);
    assert_eq!(joined(&deltas), ("Why \"not\"?\nλ </think>".into(), "I see.".into()));
    let reply = reply.unwrap();
    let kept = reply.content[0].raw().expect("thinking is kept as it came").get().to_owned();
    let expected = json!({"type": "thinking", "thinking": "Why \"not\"?\nλ </think>",
        "signature": signature});
    assert_eq!(kept, expected.to_string());
    let messages = continued(reply.clone());
    assert_eq!(messages[2], reply);
    ask(&server, "anthropic", &messages);
    let asked = server.requests().pop().unwrap();
    assert!(asked.text.contains(&kept), "{}", asked.text);
    let types: Vec<&Value> = asked.body["messages"][1]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| &b["type"])
        .collect();
    assert_eq!(types, ["thinking", "text", "tool_use"]);
}

#[test]
fn unsigned_thinking_is_reported_and_kept_but_not_sent_back() {
    for provider in ["openai", "ollama"] {
        let answer = Answer::text("Yes.").thinking("Is it so?", "");
        let server = Server::start([answer.and_calls([("list", json!({}))])]);
        let (reply, deltas) = ask_in(&server.env(), provider, &hello(), 2);
        assert_eq!(joined(&deltas), ("Is it so?".into(), "Yes.".into()), "{provider}");
        let messages = continued(reply.unwrap());
        assert_eq!(messages[2].content[0].type_name(), "thinking");
        ask(&server, provider, &messages);
        let asked = server.requests().pop().unwrap();
        assert!(!asked.text.contains("Is it so?"), "{provider}: {}", asked.text);
    }
}

#[test]
fn four_places_are_marked_for_the_cache() {
    let server = Server::start([]);
    let mut messages = vec![
        Message::new(Role::System, vec![Block::text("Be brief.")]),
        Message::user("Hi"),
        Message::assistant("Hello."),
    ];
    messages.extend(
        continued(Message::new(
            Role::Assistant,
            vec![
                Block::text("Looking."),
                Block::tool_use("a", "read", Raw::parse("{\"n\": 1.00}".into()).unwrap()),
                Block::tool_use("b", "list", Raw::of(&json!({}))),
            ],
        ))[1..]
            .iter()
            .cloned(),
    );
    let marks = |asked: &ReceivedRequest| -> Vec<String> {
        let mut found = Vec::new();
        find(&asked.body, "", &mut found);
        found
    };
    let before = ["/tools/1", "/system/0", "/messages/1/content/0"];
    let with = |end: &str| -> Vec<String> {
        before.iter().copied().chain([end]).map(str::to_owned).collect()
    };
    // The end of the finished turn, and the end.
    ask_in(&server.env(), "anthropic", &messages, messages.len()).0.unwrap();
    let asked = server.requests().pop().unwrap();
    assert_eq!(marks(&asked), with("/messages/4/content/1"));
    // Only the first of the two results is stable: what follows it is not worth caching.
    ask_in(&server.env(), "anthropic", &messages, messages.len() - 1).0.unwrap();
    let asked = server.requests().pop().unwrap();
    assert_eq!(marks(&asked), with("/messages/4/content/0"));
    // A breakpoint changes nothing in the arguments of a call, and comes after its other fields.
    messages.truncate(messages.len() - 2);
    ask_in(&server.env(), "anthropic", &messages, messages.len()).0.unwrap_err();
    let asked = server.requests().pop().unwrap();
    assert_eq!(marks(&asked), with("/messages/3/content/2"));
    assert!(asked.text.contains("{\"n\": 1.00}"), "{}", asked.text);
    // Without instructions and finished turns there are fewer.
    ask_in(&server.env(), "anthropic", &[Message::user("Hi")], 0).0.unwrap();
    let asked = server.requests().pop().unwrap();
    assert_eq!(marks(&asked), ["/tools/1", "/messages/0/content/0"]);
}

#[test]
fn an_hour_is_asked_for_until_it_is_refused() {
    let refusal = "tools.1.custom.cache_control.ephemeral.ttl: Extra inputs are not permitted";
    let server = Server::start([
        Answer::text("Kept."),
        Answer::status(400).saying(refusal),
        Answer::text("Kept for five minutes."),
        Answer::text("Again."),
    ]);
    let messages = [&hello()[..], &[Message::assistant("Hi."), Message::user("And?")]].concat();
    ask_to_keep_longer(&server, &messages, 3);
    let marks = |asked: &ReceivedRequest| {
        let (all, hour) =
            (r#""cache_control":"#, r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#);
        (asked.text.matches(all).count(), asked.text.matches(hour).count())
    };
    let found: Vec<_> = server.requests().iter().map(marks).collect();
    assert_eq!(found, [(4, 4), (4, 4), (4, 0), (4, 0)], "all of them, or none");
}

#[test]
fn a_cache_key_is_not_sent_to_others_who_speak_the_protocol() {
    let server = Server::start([]);
    ask_in(&server.env(), "openai", &[Message::user("Hi")], 1).0.unwrap();
    let asked = server.requests().pop().unwrap();
    assert_eq!(asked.body.get("prompt_cache_key"), None, "they may refuse what they do not know");
}

fn find(value: &Value, path: &str, found: &mut Vec<String>) {
    if value.get("cache_control") == Some(&json!({"type": "ephemeral"})) {
        found.push(path.to_owned());
    }
    for (n, value) in value.as_array().into_iter().flatten().enumerate() {
        find(value, &format!("{path}/{n}"), found);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        find(value, &format!("{path}/{key}"), found);
    }
}

#[test]
fn the_scripted_server_refuses_what_providers_refuse() {
    let call =
        Message::new(Role::Assistant, vec![Block::tool_use("c", "read", Raw::of(&json!({})))]);
    let user = || Message::user("Hi");
    for messages in [
        vec![user(), call.clone(), user()],
        vec![user(), Message::tool_result("c", "done")],
        vec![user(), Message::assistant("Hm.")],
        vec![Message::assistant("Hm."), user()],
        vec![user(), Message::assistant(""), user()],
        vec![Message::user(" ")],
        vec![],
    ] {
        for provider in PROVIDERS {
            let server = Server::start([]);
            let reply = ask_in(&server.env(), provider, &messages, 0).0;
            let refused = matches!(reply, Err(Failure::Refused { status: 400, .. }));
            assert!(refused, "{provider}: {messages:?} gave {reply:?}");
        }
    }
}

#[test]
fn results_come_before_what_the_user_says_with_them() {
    let call = Block::tool_use("a", "list", Raw::of(&json!({})));
    let messages = [
        Message::user("Hi"),
        Message::new(Role::Assistant, vec![call]),
        Message::new(Role::User, vec![Block::text("Well?"), Block::tool_result("a", "done")]),
    ];
    for provider in PROVIDERS {
        // The server refuses any other order.
        ask(&Server::start([]), provider, &messages);
    }
}
