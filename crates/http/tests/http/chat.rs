//! Seed 0's contract, sentence by sentence.

use rethread_agent::scripted::Answer;
use rethread_core::{Body, Key};
use serde_json::{Value, json};

use crate::client::Event;
use crate::site::{JSON, Setup, Site};

const OBSIDIAN: (&str, &str) = ("origin", "app://obsidian.md");

fn ask(message: &str, file: Option<&str>) -> Value {
    json!({ "message": message, "session_id": null, "active_file": file })
}

fn types(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.json()["type"].as_str().expect("a type").to_owned()).collect()
}

/// The texts of the messages that the model was sent last.
fn sent(site: &Site) -> Vec<(String, String)> {
    let asked = site.model.requests();
    let body = &asked.last().expect("a request").body;
    let text = |content: &Value| match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().map(|block| block["text"].as_str().unwrap_or_default()).collect()
        }
        _ => String::new(),
    };
    let messages = body["messages"].as_array().expect("messages").iter();
    messages
        .map(|m| (m["role"].as_str().expect("a role").to_owned(), text(&m["content"])))
        .collect()
}

#[test]
fn a_question_is_answered_with_the_response_and_a_uuid() {
    let site = Site::new([Answer::text("It is about auth.")]);
    let said = site.post("/chat", &ask("what is this?", Some("Notes/foo.md")));
    assert_eq!(said.status, 200, "{said:?}");
    let body = said.json();
    assert_eq!(body["response"], "It is about auth.");
    assert_eq!(body.as_object().map(|fields| fields.len()), Some(2), "{body}");
    let id = body["session_id"].as_str().expect("a session id");
    assert!(id.len() == 36 && id.matches('-').count() == 4, "{id}");
}

#[test]
fn a_new_session_is_the_system_prompt_and_the_question_with_its_prefix() {
    let site = Site::new([Answer::text("one"), Answer::text("two")]);
    site.post("/chat", &ask("what is this?", Some("Notes/foo.md")));
    let messages = sent(&site);
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[0].0, "system");
    assert_eq!(messages[1], ("user".into(), "[Active file: Notes/foo.md]\n\nwhat is this?".into()));
    site.post("/chat", &ask("and without a file?", None));
    assert_eq!(sent(&site)[1], ("user".into(), "and without a file?".into()));
}

#[test]
fn the_same_file_continues_another_starts_again_and_going_back_resumes_also_after_a_restart() {
    let mut site = Site::new([]);
    site.model.fallback(|body| {
        Answer::text(format!("{} messages", body["messages"].as_array().map_or(0, Vec::len)))
    });
    let say = |site: &Site, file: Option<&str>| {
        let body = site.post("/chat", &ask("hello", file)).json();
        (body["response"].as_str().expect("a response").to_owned(), body["session_id"].clone())
    };
    let (first, foo) = say(&site, Some("foo.md"));
    assert_eq!(first, "2 messages");
    assert_eq!(say(&site, Some("foo.md")), ("4 messages".into(), foo.clone()));
    let (other, bar) = say(&site, Some("bar.md"));
    assert_eq!(other, "2 messages");
    assert_ne!(foo, bar);
    let (none, nothing) = say(&site, None);
    assert_eq!(none, "2 messages");
    assert!(nothing != foo && nothing != bar);
    site.restart();
    assert_eq!(say(&site, Some("foo.md")), ("6 messages".into(), foo));
    assert_eq!(say(&site, Some("bar.md")), ("4 messages".into(), bar));
    assert_eq!(say(&site, None), ("4 messages".into(), nothing));
}

#[test]
fn the_session_id_of_a_request_is_not_looked_at() {
    let site = Site::new([]);
    let foo = site.post("/chat", &ask("hello", Some("foo.md"))).json();
    for given in [foo["session_id"].clone(), json!("not a uuid"), json!(null)] {
        let body = json!({ "message": "hello", "session_id": given, "active_file": "bar.md" });
        let bar = site.post("/chat", &body).json();
        assert_ne!(bar["session_id"], foo["session_id"]);
    }
    // A plugin that leaves fields out means null.
    let short = site.post("/chat", &json!({ "message": "hello" }));
    assert_eq!(short.status, 200, "{short:?}");
}

#[test]
fn a_file_whose_name_looks_like_a_path_or_a_key_is_only_a_name() {
    let site = Site::new([]);
    let mut seen = Vec::new();
    for file in ["../../etc/passwd", "/etc/passwd", "none", "file:x", "a b\"c", "日本.md", ""] {
        let said = site.post("/chat", &ask("hello", Some(file)));
        assert_eq!(said.status, 200, "{file}: {said:?}");
        seen.push(said.json()["session_id"].clone());
        let key = Key::new(format!("file:{file}")).expect("valid");
        assert!(site.sessions("local").resolve(&key).expect("read").is_some(), "{file}");
    }
    seen.push(site.post("/chat", &ask("hello", None)).json()["session_id"].clone());
    let count = seen.len();
    seen.sort_by_key(Value::to_string);
    seen.dedup();
    assert_eq!(seen.len(), count, "each is a session of its own");
}

#[test]
fn events_come_one_by_one_call_result_call_result_response_done_on_each_wire() {
    for wire in ["openai", "anthropic", "ollama"] {
        let site = Site::of(
            Setup { wire, ..Setup::default() },
            [
                Answer::text("Let me look.").and_calls([
                    ("read_file", json!({"path": "a.md"})),
                    ("read_file", json!({"path": "missing.md"})),
                ]),
                Answer::text("Found it.").slowly(0),
            ],
        );
        site.file("a.md", "forty-two");
        let mut events = site.stream("/chat/stream", &ask("what?", Some("a.md")));
        // The model waits before its second reply: what came before it must be here already.
        let before: Vec<Event> = events.by_ref().take(4).collect();
        assert_eq!(types(&before), ["tool_call", "tool_result", "tool_call", "tool_result"]);
        assert_eq!(
            before[0].json(),
            json!({"type": "tool_call", "tool": "read_file", "args": {"path": "a.md"}})
        );
        assert_eq!(
            before[1].json(),
            json!({"type": "tool_result", "tool": "read_file", "success": true})
        );
        assert_eq!(before[3].json()["success"], false);
        site.model.release();
        let after: Vec<Event> = events.collect();
        assert_eq!(types(&after), ["response", "done"], "{wire}");
        assert_eq!(after[0].json(), json!({"type": "response", "content": "Found it."}));
        let done = after[1].json();
        assert_eq!(done.as_object().map(|fields| fields.len()), Some(2));
        let again = site.post("/chat", &ask("again", Some("a.md"))).json();
        assert_eq!(done["session_id"], again["session_id"]);
    }
}

#[test]
fn a_failing_model_is_an_error_event_then_done_and_the_session_continues() {
    let site = Site::new([Answer::status(401), Answer::status(401), Answer::text("back")]);
    let events: Vec<Event> = site.stream("/chat/stream", &ask("hello", None)).collect();
    assert_eq!(types(&events), ["error", "done"]);
    let error = events[0].json()["error"].as_str().expect("a text").to_owned();
    assert!(error.contains("openai") && !error.contains("sk-scripted"), "{error}");
    site.post("/chat", &ask("hello", None)).is_problem(502, "model");
    let said = site.post("/chat", &ask("again", None)).json();
    assert_eq!(said["response"], "back");
    assert_eq!(said["session_id"], events[1].json()["session_id"]);
}

#[test]
fn a_preflight_from_the_editor_is_answered_and_every_answer_may_be_read_by_it() {
    let site = Site::new([]);
    let preflight = site.request(
        "OPTIONS",
        "/chat/stream",
        &[
            OBSIDIAN,
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type"),
            ("sec-fetch-site", "cross-site"),
        ],
        b"",
    );
    assert!(matches!(preflight.status, 200 | 204), "{preflight:?}");
    let allowed = |name: &str| preflight.header(name).unwrap_or_default().to_ascii_lowercase();
    assert_eq!(allowed("access-control-allow-origin"), "app://obsidian.md");
    assert!(allowed("access-control-allow-methods").contains("post"));
    assert!(allowed("access-control-allow-headers").contains("content-type"));
    let cross = ("sec-fetch-site", "cross-site");
    let good = ask("hello", None).to_string();
    for (path, body, status) in [
        ("/chat", good.as_str(), 200),
        ("/chat/stream", good.as_str(), 200),
        ("/chat", "{", 400),
        ("/nowhere", good.as_str(), 404),
        ("/v1/search", good.as_str(), 405),
    ] {
        let answer = site.request("POST", path, &[OBSIDIAN, cross, JSON], body.as_bytes());
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("app://obsidian.md"));
    }
    let plain = site.request("POST", "/chat", &[OBSIDIAN, ("content-type", "text/plain")], b"{}");
    plain.is_problem(415, "content-type");
    assert_eq!(plain.header("access-control-allow-origin"), Some("app://obsidian.md"));
}

#[test]
fn requests_for_one_file_are_answered_in_the_order_they_came() {
    let site = Site::new([Answer::text("first").slowly(0)]);
    site.model.fallback(|body| {
        let messages = body["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message")["content"].to_string();
        Answer::text(format!("to {last} after {}", messages.len()))
    });
    // The head of a stream is sent when its turn is queued, so they arrive in order.
    let streams: Vec<_> = (0..8)
        .map(|n| site.stream("/chat/stream", &ask(&format!("question {n}"), Some("a.md"))))
        .collect();
    // The first one gets the slow answer before the others ask the model.
    site.model.wait_for_requests(1);
    // Another file does not wait for this one.
    let other = site.post("/chat", &ask("hello", Some("b.md"))).json();
    assert!(other["response"].as_str().is_some_and(|text| text.ends_with("after 2")), "{other}");
    site.model.release();
    let contents: Vec<String> = streams
        .into_iter()
        .map(|events| {
            let events: Vec<Event> = events.collect();
            assert_eq!(types(&events), ["response", "done"]);
            events[0].json()["content"].as_str().expect("text").to_owned()
        })
        .collect();
    assert_eq!(contents[0], "first");
    for (n, content) in contents.iter().enumerate().skip(1) {
        assert!(content.contains(&format!("question {n}")), "{content}");
        assert!(content.ends_with(&format!("after {}", 2 * n + 2)), "{content}");
    }
}

#[test]
fn a_client_that_goes_away_does_not_stop_the_turn_and_the_next_sees_it_finished() {
    let site = Site::new([Answer::text("the lost answer").slowly(1), Answer::text("I remember")]);
    let events = site.stream("/chat/stream", &ask("first", Some("a.md")));
    site.model.wait_for_requests(1);
    drop(events);
    site.model.release();
    let said = site.post("/chat", &ask("second", Some("a.md"))).json();
    assert_eq!(said["response"], "I remember");
    let texts: Vec<String> = sent(&site).into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        texts[1..],
        ["[Active file: a.md]\n\nfirst", "the lost answer", "[Active file: a.md]\n\nsecond"]
    );
}

#[test]
fn the_editors_policy_holds_cap_ten_results_cut_and_finished_turns_stubbed() {
    let calls = (0..10).map(|_| Answer::calls([("read_file", json!({"path": "long.md"}))]));
    let site = Site::new(calls);
    site.file("long.md", &"word ".repeat(4_000));
    let said = site.post("/chat", &ask("read", Some("long.md"))).json();
    assert_eq!(said["response"], "[Tool call limit reached]");
    let asked = site.model.requests();
    assert_eq!(asked.len(), 10);
    let results = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().expect("messages").iter();
        let tools = messages.filter(|message| message["role"] == "tool");
        tools.map(|message| message["content"].as_str().expect("text").to_owned()).collect()
    };
    let seen = results(&asked[9].body);
    assert_eq!(seen.len(), 9);
    for result in seen {
        assert!(result.ends_with("\n\n[truncated]"), "{}", &result[result.len() - 40..]);
        assert_eq!(result.chars().count(), 4_000 + "\n\n[truncated]".len());
    }
    site.model.push(Answer::text("done"));
    site.post("/chat", &ask("and now?", Some("long.md")));
    let asked = site.model.requests();
    let stubs = results(&asked[10].body);
    assert_eq!(stubs.len(), 10);
    for stub in stubs {
        let stub: Value = serde_json::from_str(&stub).expect("a stub is JSON");
        assert_eq!((&stub["tool"], &stub["status"]), (&json!("read_file"), &json!("success")));
        assert!(stub.get("_compacted").is_none());
    }
}

#[test]
fn the_prefix_is_a_block_of_its_own_and_previews_leave_it_out() {
    let site = Site::new([]);
    site.post("/chat", &ask("where is the key?", Some("Notes/foo.md")));
    let sessions = site.sessions("local");
    let page = sessions.list(&Default::default(), None, 9).expect("listed");
    assert_eq!(page.sessions[0].first_message, "where is the key?");
    assert_eq!(page.sessions[0].keys[0].as_str(), "file:Notes/foo.md");
    assert!(sessions.search("Active", 0, 9).expect("searched").is_empty());
}

#[test]
fn a_server_that_stops_lets_a_turn_finish_or_stops_it_and_keeps_what_was_said() {
    let grace = std::time::Duration::from_millis(1);
    let limits = rethread_http::Limits { grace, ..Default::default() };
    let mut site = Site::of(
        Setup { limits, ..Setup::default() },
        [Answer::text("half of it and the rest").slowly(2)],
    );
    let id = site.post("/v1/sessions", &json!({"key": "k"})).json()["session"]["id"].clone();
    let path = format!("/v1/sessions/{}/turns/stream", id.as_str().expect("an id"));
    let mut events = site.stream(&path, &json!({"content": "hello"}));
    // Two pieces have arrived, and the model waits.
    assert_eq!(types(&events.by_ref().take(2).collect::<Vec<_>>()), ["text", "text"]);
    site.stop();
    let rest: Vec<Event> = events.collect();
    assert_eq!(types(&rest), ["answer", "done"]);
    assert_eq!(rest[0].json()["end"], "stopped");
    site.start().expect("it starts again");
    let sessions = site.sessions("local");
    let id = sessions.select("last").expect("a session");
    let log = sessions.read(id, 0..99).expect("read");
    let said = log.iter().rev().find_map(|entry| entry.body.message()).expect("a message");
    assert!(said.interrupted && said.plain_text() == "half of ", "{said:?}");
    assert!(matches!(log.last().expect("an entry").body, Body::Finished(_)));
}
