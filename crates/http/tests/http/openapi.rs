//! The OpenAPI document, its page, and the operational endpoints.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::site::Site;

/// Set to rewrite the document instead of comparing it.
const UPDATE: &str = "UPDATE_OPENAPI";

#[test]
fn the_document_in_the_repository_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let now = rethread_http::openapi();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &now).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == now, "docs/openapi.json is not up to date: run the test with {UPDATE}=1");
}

#[test]
fn the_document_is_served_and_every_reference_in_it_leads_somewhere() {
    let site = Site::new([]);
    let served = site.get("/openapi.json");
    assert_eq!(served.header("content-type"), Some("application/json"));
    let document = served.json();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let mut names = BTreeSet::new();
    references(&document, &mut |reference| {
        let pointer = reference.strip_prefix('#').expect("a reference inside the document");
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        names.insert(reference.to_owned());
    });
    assert!(names.contains("#/components/schemas/Problem"), "{names:?}");
    let mut ids = BTreeSet::new();
    for operations in document["paths"].as_object().expect("paths").values() {
        for operation in operations.as_object().expect("operations").values() {
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            assert!(operation["summary"].as_str().is_some(), "{id} has no description");
            assert!(ids.insert(id.clone()), "{id} is not unique");
        }
    }
}

#[test]
fn the_policies_of_the_document_are_those_there_are() {
    let document: Value = serde_json::from_str(&rethread_http::openapi()).expect("JSON");
    let said = &document["components"]["schemas"]["Preset"]["enum"];
    assert_eq!(said, &json!(rethread_core::context::Policy::PRESETS));
}

fn references(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("$ref", Value::String(reference)) => found(reference),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn what_is_sent_has_the_fields_the_document_says() {
    let site = Site::new([]);
    let document: Value = serde_json::from_str(&rethread_http::openapi()).expect("JSON");
    let fields = |shape: &str| -> BTreeSet<String> {
        let schema = &document["components"]["schemas"][shape];
        schema["properties"].as_object().expect(shape).keys().cloned().collect()
    };
    let sent = |value: &Value| -> BTreeSet<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let created = site.post("/v1/sessions", &json!({"key": "k"})).json();
    assert_eq!(sent(&created["session"]), fields("Session"));
    let id = created["session"]["id"].as_str().expect("an id").to_owned();
    let turn = site.post(&format!("/v1/sessions/{id}/turns"), &json!({"content": "hi"})).json();
    assert_eq!(sent(&turn), fields("Turn"));
    let entries = site.get(&format!("/v1/sessions/{id}/entries")).json();
    assert_eq!(sent(&entries), fields("Entries"));
    let context = site.get(&format!("/v1/sessions/{id}/context?explain=true")).json();
    assert_eq!(sent(&context), fields("Context"));
    let stats = site.get(&format!("/v1/sessions/{id}/stats")).json();
    assert_eq!(sent(&stats), fields("Stats"));
    let agents = site.get("/v1/agents").json();
    assert_eq!(sent(&agents["agents"][0]), fields("Agent"));
    let hits = site.get("/v1/search?q=hi").json();
    assert_eq!(sent(&hits), fields("Hits"));
    assert_eq!(sent(&hits["hits"][0]), fields("Hit"));
    let key = site.get("/v1/keys/k").json();
    assert_eq!(sent(&key), fields("Bound"));
    assert_eq!(sent(&site.get("/healthz").json()), fields("Status"));
    let problem = site.get("/nowhere").json();
    assert!(sent(&problem).is_subset(&fields("Problem")), "{problem}");
}

#[test]
fn the_page_needs_no_network_and_runs_nothing_but_its_own_script() {
    let site = Site::new([]);
    for (path, kind) in [
        ("/docs", "text/html"),
        ("/docs/page.js", "text/javascript"),
        ("/docs/page.css", "text/css"),
    ] {
        let page = site.get(path);
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").is_some_and(|found| found.starts_with(kind)));
        let policy = page.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(!page.body.contains("http://") && !page.body.contains("https://"), "{path}");
        assert!(!page.body.contains("innerHTML") && !page.body.contains("<script>"), "{path}");
    }
}

#[test]
fn health_readiness_and_metrics_say_what_is_so() {
    let site = Site::new([]);
    assert_eq!(site.get("/healthz").json(), json!({"status": "ok"}));
    assert_eq!(site.get("/readyz").json(), json!({"status": "ready"}));
    let ask = json!({"message": "hello", "session_id": null, "active_file": null});
    site.post("/chat", &ask);
    // A closed connection is still counted for a moment.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut metrics = site.get("/metrics");
    while !metrics.body.contains("\nrethread_connections 1\n") {
        assert!(std::time::Instant::now() < deadline, "{}", metrics.body);
        metrics = site.get("/metrics");
    }
    assert!(metrics.header("content-type").is_some_and(|kind| kind.starts_with("text/plain")));
    for line in [
        "rethread_turns_total{end=\"answered\"} 1",
        "rethread_rounds_total 1",
        "rethread_tokens_total{kind=\"input\"} 10",
        "rethread_tokens_total{kind=\"output\"} 5",
        "rethread_open_streams 0",
        "rethread_connections 1",
        "rethread_turns_now 0",
        "rethread_search_lag_entries 4",
    ] {
        assert!(metrics.body.lines().any(|found| found == line), "{line} in\n{}", metrics.body);
    }
    assert!(!metrics.body.contains("rethread_append_seconds_count 0"), "{}", metrics.body);
}
