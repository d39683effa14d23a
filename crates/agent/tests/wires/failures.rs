//! Failures are reported so that the loop knows what to do.

use std::time::Duration;

use rethread_agent::provider::{Env, Failure, connect, describe};
use rethread_agent::scripted::{Answer, KEY, Server};
use serde_json::json;

use crate::support::{PROVIDERS, SSE, ask, ask_in, failure, hello};

#[test]
fn a_provider_that_cannot_be_used_is_said_before_anything_is_sent() {
    let fail = |provider: &str, env: &Env| match connect(&describe(provider, "m"), env) {
        Err(failure) => failure.to_string(),
        Ok(_) => panic!("{provider} can be used"),
    };
    let mut env = Env::default();
    let unknown = "no provider `acme`; the providers are offline, anthropic, openai, ollama";
    assert_eq!(fail("acme", &env), unknown);
    assert_eq!(fail("anthropic", &env), "no API key for anthropic");
    assert_eq!(fail("openai", &env), "no API key for openai");
    env.openai_base = Some("localhost:8080".into());
    let address = "openai cannot be reached at OPENAI_BASE_URL: it is not an http or https address";
    assert_eq!(fail("openai", &env), address);
    env.openai_base = Some("http://localhost:8080/v1".into());
    assert!(connect(&describe("openai", "m"), &env).is_ok());
    assert!(connect(&describe("ollama", "m"), &env).is_ok());
}

#[test]
fn nobody_there_is_said_with_scheme_host_and_port_only() {
    // A port that no program uses.
    let url = "http://127.0.0.1:1";
    let base = "http://user:secret@127.0.0.1:1/some/path".to_owned();
    let env = Env {
        anthropic_base: Some(base.clone()),
        openai_base: Some(base.clone()),
        ollama_host: Some(base),
        ..Server::start([]).env()
    };
    for provider in PROVIDERS {
        let failure = ask_in(&env, provider, &hello(), 2).0.unwrap_err();
        match &failure {
            Failure::Unreachable { address, .. } => assert_eq!(*address, url),
            other => panic!("{provider}: {other:?}"),
        }
        let said = format!("{failure} {failure:?}");
        assert!(!said.contains("secret") && !said.contains("path"), "{said}");
    }
}

#[test]
fn a_status_becomes_the_failure_that_says_what_to_do() {
    for provider in PROVIDERS {
        let of = |answer| format!("{:?}", failure(&Server::start([answer]), provider));
        let starts = |answer, expected: &str| {
            let found: String = of(answer);
            assert!(found.starts_with(expected), "{provider}: {found}");
        };
        starts(Answer::status(401), "Denied");
        starts(Answer::status(403), "Denied");
        starts(Answer::status(404).saying("model 'm' not found"), "Refused");
        starts(Answer::status(408), "Trouble");
        starts(Answer::status(409), "Trouble");
        starts(Answer::status(413), "Refused");
        starts(Answer::status(307), "Refused");
        let found = of(Answer::status(400).saying("no such parameter: \"x\""));
        assert!(found.contains(r#"status: 400, message: "no such parameter: \"x\"""#), "{found}");
        let found = of(Answer::status(429).retry_after(7));
        assert!(found.contains(r#"message: "scripted status 429", wait: Some(7s)"#), "{found}");
        let found = of(Answer::status(429).retry_after("Wed, 21 Oct 2026 07:28:00 GMT"));
        assert!(found.starts_with("Limited") && found.contains("wait: None"), "{found}");
        let found = of(Answer::status(529).retry_after(2));
        assert!(found.contains("status: 529") && found.contains("wait: Some(2s)"), "{found}");
        starts(Answer::status(500), "Trouble");
    }
}

#[test]
fn an_error_in_the_middle_of_a_stream_is_that_error() {
    let error = |kind: &str| {
        let event = json!({"type": "error", "error": {"type": kind, "message": "Too much"}});
        let begun = "data: {\"type\":\"message_start\",\"message\":{}}\n\n".to_owned();
        let server = Server::start([Answer::raw(SSE, [begun, format!("data: {event}\n\n")])]);
        failure(&server, "anthropic")
    };
    assert!(matches!(error("overloaded_error"), Failure::Trouble { status: 529, .. }));
    assert!(matches!(error("rate_limit_error"), Failure::Limited { wait: None, .. }));
    let lines = "{\"message\":{\"content\":\"a\"}}\n{\"error\":\"out of memory\"}\n";
    let failure_of =
        failure(&Server::start([Answer::raw("application/x-ndjson", [lines])]), "ollama");
    assert_eq!(failure_of.to_string(), "ollama failed (500): out of memory");
    let events = "data: {\"error\":{\"message\":\"busy\",\"code\":503}}\n\n";
    let failure_of = failure(&Server::start([Answer::raw(SSE, [events])]), "openai");
    assert_eq!(failure_of.to_string(), "openai failed (503): busy");
}

#[test]
fn a_reply_that_is_cut_anywhere_is_broken() {
    for provider in PROVIDERS {
        let answer = || Answer::text("0123456").and_calls([("list", json!({}))]);
        for chunks in 0..=3 {
            let server = Server::start([answer().cut_after(chunks)]);
            let failure = failure(&server, provider);
            assert!(matches!(failure, Failure::Broken { .. }), "{provider} {chunks}: {failure}");
            assert_eq!(failure.retry(), Some(None));
        }
    }
}

#[test]
fn a_stream_that_ends_in_good_order_but_without_its_end_is_broken() {
    let anthropic = "data: {\"type\":\"message_start\",\"message\":{}}\n\n";
    let openai = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let ollama = "{\"message\":{\"content\":\"a\"},\"done\":false}\n";
    for (provider, text) in PROVIDERS.into_iter().zip([anthropic, openai, ollama]) {
        let server = Server::start([Answer::raw(SSE, [text])]);
        let failure = failure(&server, provider);
        assert!(matches!(failure, Failure::Broken { .. }), "{provider}: {failure}");
    }
}

#[test]
fn silence_has_a_bound_before_and_within_a_reply() {
    for provider in PROVIDERS {
        for chunk in [0, 1] {
            let server = Server::start([Answer::text("One two").slowly(chunk)]);
            let idle = Duration::from_millis(100);
            let env = Env { idle: Some(idle), ..server.env() };
            match ask_in(&env, provider, &hello(), 2).0 {
                Err(Failure::Silent { after, .. }) => assert_eq!(after, idle),
                other => panic!("{provider} {chunk}: {other:?}"),
            }
        }
    }
}

#[test]
fn garbage_and_web_pages_are_nonsense() {
    for provider in PROVIDERS {
        for answer in [Answer::garbage(), Answer::raw("text/html", ["<html>Log in</html>"])] {
            let failure = failure(&Server::start([answer]), provider);
            assert!(matches!(failure, Failure::Nonsense { .. }), "{provider}: {failure:?}");
        }
    }
}

#[test]
fn the_key_is_sent_but_never_shown() {
    let server = Server::start([]);
    ask(&server, "anthropic", &hello());
    ask(&server, "openai", &hello());
    let asked = server.wait_for_requests(2);
    assert_eq!(asked[0].header("x-api-key"), Some(KEY));
    assert_eq!(asked[0].header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(asked[1].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    // Where a key that is shortened first would be cut in two; in a long error, that depends on
    // what the wire writes before it.
    let padding = "x".repeat(285);
    let long = |padding| format!("{}{KEY}{}", "x".repeat(padding), "y".repeat(70_000));
    for provider in ["anthropic", "openai"] {
        for answer in [
            Answer::status(401).saying(format!("wrong key {KEY}, again: {KEY}")),
            Answer::status(500).saying(KEY),
            Answer::status(500).saying(long(230)),
            Answer::status(500).saying(long(265)),
            Answer::raw(SSE, [format!("data: {padding}{KEY}\n\n")]),
            Answer::raw(SSE, [format!("data: {{\"error\":{{\"message\":\"{KEY}\"}}}}\n\n")]),
            Answer::raw(SSE, [format!("data: {{\"type\":\"{KEY}\",\"choices\":\"{KEY}\"}}\n\n")])
                .cut_after(1),
        ] {
            let failure = failure(&Server::start([answer]), provider);
            let said = format!("{failure} {failure:?}");
            assert!(!said.contains(&KEY[..8]), "{provider}: {said}");
        }
    }
}

#[test]
fn a_reply_and_a_line_have_a_largest_size() {
    let mebibyte = "x".repeat(1 << 20);
    // Comments in one wire, and blank lines in the other, say nothing, however many there are.
    let comments = vec![format!(":{mebibyte}\n"); 33];
    let blanks = vec![format!("{}\n", " ".repeat(1 << 20)); 33];
    let one_line = vec![mebibyte; 17];
    for (provider, chunks, expected) in [
        ("anthropic", &comments, "a reply of more than 32 MiB"),
        ("openai", &comments, "a reply of more than 32 MiB"),
        ("ollama", &blanks, "a reply of more than 32 MiB"),
        ("anthropic", &one_line, "a line of more than 16 MiB"),
        ("ollama", &one_line, "a line of more than 16 MiB"),
    ] {
        let server = Server::start([Answer::raw(SSE, chunks.iter().map(String::as_str))]);
        match failure(&server, provider) {
            Failure::Nonsense { what, .. } => assert_eq!(what, expected, "{provider}"),
            other => panic!("{provider}: {other:?}"),
        }
    }
}

#[test]
fn of_a_long_error_only_the_beginning_is_shown() {
    for provider in PROVIDERS {
        let server = Server::start([Answer::status(500).saying("ü".repeat(40_000))]);
        match failure(&server, provider) {
            Failure::Trouble { message, .. } => {
                assert_eq!(message.chars().count(), 301, "{provider}");
                assert!(message.ends_with("ü…"), "{provider}: {message}");
            }
            other => panic!("{provider}: {other:?}"),
        }
    }
}
