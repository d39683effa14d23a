//! Two owners: to each, the other's sessions do not exist.

use std::sync::Arc;

use rethread_core::{Key, Message};
use rethread_http::Rules;
use serde_json::{Value, json};

use crate::client::Whole;
use crate::site::{JSON, Setup, Site};

/// A body that would be valid if the session existed.
fn body(method: &str, path: &str, session: &str) -> Option<Value> {
    match (method, path) {
        ("post", "/v1/sessions/{id}/entries") => {
            Some(json!({"messages": [{"role": "user", "content": "intruder"}]}))
        }
        ("post", "/v1/sessions/{id}/turns" | "/v1/sessions/{id}/turns/stream") => {
            Some(json!({"content": "intruder"}))
        }
        ("post", "/v1/sessions/{id}/turns/results" | "/v1/sessions/{id}/turns/results/stream") => {
            let result = json!({"type": "tool_result", "tool_use_id": "x", "content": "intruder"});
            Some(json!({"results": [result]}))
        }
        ("post", "/v1/sessions/{id}/turns/record") => {
            Some(json!({"messages": [{"role": "user", "content": "intruder"}]}))
        }
        ("patch", _) => Some(json!({"name": "taken-over"})),
        ("put", "/v1/keys/{key}") => Some(json!({"session": session})),
        ("post", "/chat" | "/chat/stream") => {
            Some(json!({"message": "mine", "session_id": session, "active_file": "secret.md"}))
        }
        _ => None,
    }
}

fn send(site: &Site, bearer: &str, method: &str, path: &str, body: Option<&Value>) -> Whole {
    let text = body.map(Value::to_string).unwrap_or_default();
    let mut headers = vec![("authorization", bearer)];
    headers.extend(body.map(|_| JSON));
    site.request(&method.to_uppercase(), path, &headers, text.as_bytes())
}

#[test]
fn on_every_route_another_owners_session_is_one_that_never_existed() {
    let rules = Rules { require_token: true, ..Rules::default() };
    let site = Site::of(Setup { rules, ..Setup::default() }, []);
    let (ada, bob) = (site.token("a", "ada"), site.token("b", "bob"));
    let (ada, bob) = (format!("Bearer {ada}"), format!("Bearer {bob}"));
    // Ada has a session with messages and two keys. Bob asks about the file of the first
    // one, and gets his own session.
    let sessions = site.sessions("ada");
    let key = Key::new("file:secret.md").expect("valid");
    let other = Key::new("file:hers.md").expect("valid");
    let mut thread = sessions.open(&key, &Default::default()).expect("opened");
    thread.append(Message::user("the vault opens at dawn")).expect("appended");
    sessions.bind(&other, thread.session().id()).expect("bound");
    let hers = thread.session().id().to_string();
    let before = sessions.get(thread.session().id()).expect("read");
    let never = "01890000-0000-7000-8000-000000000000";

    let document: Value = serde_json::from_str(&rethread_http::openapi()).expect("JSON");
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for method in operations.as_object().expect("operations").keys() {
            let answer = |session: &str, key: &str| {
                let target = path.replace("{id}", session).replace("{key}", key);
                let target = if path == "/v1/search" { format!("{path}?q=vault") } else { target };
                let body = body(method, path, session);
                send(&site, &bob, method, &target, body.as_ref())
            };
            tried += 1;
            if path.contains("{id}") || method == "put" {
                let (theirs, nobodys) = (answer(&hers, "k"), answer(never, "k"));
                theirs.is_problem(404, "not-found");
                assert_eq!(theirs.body, nobodys.body, "{method} {path}");
                assert_eq!(theirs.status, nobodys.status, "{method} {path}");
            } else if path.contains("{key}") {
                let (theirs, nobodys) = (answer("", "file:hers.md"), answer("", "file:never.md"));
                theirs.is_problem(404, "not-found");
                assert_eq!(theirs.body, nobodys.body, "{method} {path}");
            } else {
                let open = answer(&hers, "k");
                assert!(!open.body.contains(&hers), "{method} {path}: {open:?}");
                assert!(!open.body.contains("dawn"), "{method} {path}: {open:?}");
                assert!(open.status < 500, "{method} {path}: {open:?}");
            }
            // Without a token there is no access at all.
            let target = path.replace("{id}", &hers).replace("{key}", "k");
            let nobody = site.request(&method.to_uppercase(), &target, &[], b"");
            match document["paths"][path][method]["security"] == json!([]) {
                // What is in the source is not a secret.
                true => assert_eq!(nobody.status, 200, "{method} {path}"),
                false => nobody.is_problem(401, "unauthorized"),
            }
        }
    }
    assert!(tried > 30, "the document has {tried} operations");
    let after = sessions.get(thread.session().id()).expect("read");
    assert_eq!(before, after, "nothing of it changed");
    // And she still has access herself.
    let mine = send(&site, &ada, "get", &format!("/v1/sessions/{hers}"), None);
    assert_eq!(mine.status, 200, "{mine:?}");
}

#[test]
fn the_log_of_the_tokens_belongs_to_nobody_who_can_come_in() {
    let site = Site::new([]);
    site.token("laptop", "ada");
    let logs = site.sessions(rethread_http::TOKENS_OWNER);
    let log = logs.list(&Default::default(), None, 1).expect("listed").sessions[0].id();
    site.get(&format!("/v1/sessions/{log}")).is_problem(404, "not-found");
    let tokens = rethread_http::AccessTokens::new(site.store(), Arc::new(rethread_store::System));
    let listed = tokens.list().expect("listed");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].owner.as_str(), "ada");
}
