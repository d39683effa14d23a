//! Bad input gets a precise answer, and nothing is stored.

use serde_json::json;

use crate::site::{JSON, Site};

/// What must be left after every refusal.
fn nothing_is_stored(site: &Site) {
    let page = site.sessions("local").list(&Default::default(), None, 9).expect("listed");
    assert!(page.sessions.is_empty(), "{page:?}");
    assert!(site.model.requests().is_empty());
}

#[test]
fn what_is_not_the_json_that_is_asked_for_is_refused_with_what_is_wrong() {
    let site = Site::new([]);
    let deep = format!("{{\"message\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let long_file = format!("{{\"message\":\"x\",\"active_file\":\"{}\"}}", "a".repeat(5_000));
    for (body, what) in [
        (&b"hello"[..], "not a JSON object"),
        (b"{\"message\":\"x\"", "EOF"),
        (b"[]", "not a JSON object"),
        (br#"["x", null, null]"#, "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "missing field `message`"),
        (br#"{"message":7}"#, "expected a string"),
        (br#"{"message":null}"#, "expected a string"),
        (br#"{"message":"x","active_file":["a"]}"#, "expected a string"),
        (br#"{"message":"x","session_id":{}}"#, "expected a string"),
        (br#"{"message":"x","owner":"ada"}"#, "unknown field `owner`"),
        (br#"{"message":"x","message":"y"}"#, "duplicate field"),
        (br#"{"message":"x"} {"message":"y"}"#, "trailing"),
        (br#"{"message":"   "}"#, "`message` is empty"),
        (b"{\"message\":\"\xff\xfe\"}", "not UTF-8 at byte 12"),
        (br#"{"message":"\ud800"}"#, "the body:"),
        (br#"{"message":"x","active_file":"a\u0000b"}"#, "U+0000"),
        (br#"{"message":"x","active_file":"a\u202eb"}"#, "U+202E"),
        (deep.as_bytes(), "levels deep"),
        (long_file.as_bytes(), "at most 4200"),
    ] {
        for path in ["/chat", "/chat/stream"] {
            let refused = site.request("POST", path, &[JSON], body);
            refused.is_problem(400, "bad-request");
            let detail = refused.json()["detail"].as_str().expect("a detail").to_owned();
            assert!(detail.contains(what), "{detail} should say {what}");
        }
    }
    site.request("POST", "/chat", &[], b"").is_problem(400, "bad-request");
    nothing_is_stored(&site);
}

#[test]
fn other_types_of_content_are_refused() {
    let site = Site::new([]);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json"] {
        let headers = [("content-type", kind)];
        site.request("POST", "/chat", &headers, b"{}").is_problem(415, "content-type");
    }
    site.request("POST", "/chat", &[], b"{}").is_problem(415, "content-type");
    let utf8 = [("content-type", "application/json; charset=utf-8")];
    site.request("POST", "/chat", &utf8, b"{}").is_problem(400, "bad-request");
    nothing_is_stored(&site);
}

#[test]
fn paths_and_methods_that_are_not_there_are_problems_too() {
    let site = Site::new([]);
    for path in [
        "/",
        "/v1",
        "/v1/sessions/",
        "/v1/sessions/../sessions",
        "/chat/",
        "//chat",
        "/v1/keys/",
        "/docs/../../etc/passwd",
        "/docs/%2e%2e/page.js",
    ] {
        site.get(path).is_problem(404, "not-found");
    }
    site.get("/chat").is_problem(405, "method");
    site.request("TRACE", "/chat", &[], b"").is_problem(405, "method");
}

#[test]
fn what_is_said_twice_or_cannot_be_seen_is_refused() {
    let site = Site::new([]);
    let id = site.post("/v1/sessions", &json!({})).json()["session"]["id"].clone();
    let path = format!("/v1/sessions/{}", id.as_str().expect("an id"));
    let keys = [JSON, ("idempotency-key", "a"), ("idempotency-key", "b")];
    let body = json!({"messages": [{"role": "user", "content": "hello"}]}).to_string();
    let twice = site.request("POST", &format!("{path}/entries"), &keys, body.as_bytes());
    twice.is_problem(400, "bad-request");
    let seen = [("last-event-id", "0"), ("last-event-id", "1")];
    site.request("GET", &format!("{path}/events"), &seen, b"").is_problem(400, "bad-request");
    let hidden = json!({"workspace": "/home/you\u{1b}[2J"});
    site.post("/v1/sessions", &hidden).is_problem(400, "bad-request");
    site.json("PATCH", &path, &hidden).is_problem(400, "bad-request");
    let entries = site.get(&format!("{path}/entries")).json();
    assert_eq!(entries["head"], 1, "nothing was stored: {entries}");
}

#[test]
fn tricks_in_keys_are_only_names() {
    let site = Site::new([]);
    let id = site.post("/v1/sessions", &json!({})).json()["session"]["id"].clone();
    for key in [
        "file:..%2F..%2Fetc%2Fpasswd",
        "%2e%2e",
        "a%20b",
        "%25",
        "'%3B%20DROP%20TABLE%20sessions%3B--",
        "%F0%9F%A6%80",
    ] {
        let path = format!("/v1/keys/{key}");
        site.get(&path).is_problem(404, "not-found");
        let bound = site.json("PUT", &path, &json!({ "session": id }));
        assert_eq!(bound.status, 200, "{key}: {bound:?}");
        assert_eq!(site.get(&path).json()["session"]["id"], id);
        assert_eq!(site.request("DELETE", &path, &[], b"").status, 204);
        site.get(&path).is_problem(404, "not-found");
    }
    for bad in ["%00", "%FF", "a%E2%80%AEb", &"x".repeat(4_201)] {
        site.get(&format!("/v1/keys/{bad}")).is_problem(400, "bad-request");
    }
}

#[test]
fn parameters_that_mean_nothing_are_refused() {
    let site = Site::new([]);
    let id = site.post("/v1/sessions", &json!({})).json()["session"]["id"].clone();
    let id = id.as_str().expect("an id");
    for path in [
        "/v1/sessions?limit=0",
        "/v1/sessions?limit=1001",
        "/v1/sessions?limit=-1",
        "/v1/sessions?limit=many",
        "/v1/sessions?after=nonsense",
        "/v1/sessions?archived=perhaps",
        "/v1/sessions?owner=ada",
        "/v1/search",
        "/v1/search?q=",
        "/v1/search?q=...",
        "/v1/search?q=x&skip=100001",
        &format!("/v1/sessions/{id}/entries?from=-1"),
        &format!("/v1/sessions/{id}/entries?limit=0"),
        &format!("/v1/sessions/{id}/context?policy=none"),
        &format!("/v1/sessions/{id}/context?model=x"),
        &format!("/v1/sessions/{id}/context?window=1"),
        &format!("/v1/sessions/{id}/context?max_history=0"),
        &format!("/v1/sessions/{id}/context?window=18446744073709551615"),
        &format!("/v1/sessions/{id}/events?from=x"),
        &format!("/v1/sessions/{id}/events?from=18446744073709551615"),
    ] {
        site.get(path).is_problem(400, "bad-request");
    }
    for (path, body) in [
        ("entries", json!({})),
        ("entries", json!({"messages": []})),
        ("entries", json!({"messages": [{"content": "x"}]})),
        ("entries", json!({"messages": [{"role": "king", "content": "x"}]})),
        ("entries", json!({"messages": [{"role": "user", "content": "x", "id": 7}]})),
        ("entries", json!({"messages": [{"role": "user", "content": "x", "id": ""}]})),
        ("entries", json!({"messages": [{"role": "user", "content": "x"}], "head": -1})),
        ("entries", json!({"messages": [{"role": "user", "content": "x"}], "fence": 1})),
        ("turns", json!({"content": ""})),
        ("turns", json!({"content": 7})),
        ("turns", json!({"content": []})),
        ("turns", json!({"content": "x", "policy": "none"})),
        ("fork", json!({"at": 99})),
        ("fork", json!({"at": u64::MAX})),
        ("fork", json!({"name": "../x"})),
        ("resume", json!({"key": ""})),
    ] {
        let refused = site.post(&format!("/v1/sessions/{id}/{path}"), &body);
        assert_eq!(refused.status, 400, "{path} {body}: {refused:?}");
    }
    let far = site.get(&format!("/v1/sessions/{id}/entries?from={}", u64::MAX));
    assert_eq!(far.json()["entries"], json!([]));
    let body = json!({"messages": [{"role": "user", "content": "x"}], "head": u64::MAX});
    site.post(&format!("/v1/sessions/{id}/entries"), &body).is_problem(409, "conflict");
    let patch = format!("/v1/sessions/{id}");
    for body in [
        json!({"name": "a/b"}),
        json!({"name": null, "id": id}),
        json!({"max_history": 0}),
        json!({"archived": "yes"}),
        json!({"description": 1}),
    ] {
        site.json("PATCH", &patch, &body).is_problem(400, "bad-request");
    }
    let sessions = site.sessions("local");
    let page = sessions.list(&Default::default(), None, 9).expect("listed");
    assert_eq!(page.sessions.len(), 1, "nothing was created");
    assert_eq!(page.sessions[0].tally.messages, 0, "nothing was said");
}
