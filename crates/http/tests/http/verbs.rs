//! Every verb over HTTP.

use std::sync::Arc;

use rethread_agent::scripted::Answer;
use rethread_core::summary::block;
use rethread_core::{Message, Owner, Sessions};
use rethread_store::System;
use serde_json::{Value, json};

use crate::client::Whole;
use crate::site::{JSON, Site, another_process};

fn created(site: &Site, body: &Value) -> String {
    let created = site.post("/v1/sessions", body);
    assert_eq!(created.status, 201, "{created:?}");
    let id = created.json()["session"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(created.header("location"), Some(format!("/v1/sessions/{id}").as_str()));
    id
}

fn append(site: &Site, id: &str, key: Option<&str>, body: &Value) -> Whole {
    let mut headers = vec![JSON];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    let path = format!("/v1/sessions/{id}/entries");
    site.request("POST", &path, &headers, body.to_string().as_bytes())
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[test]
fn sessions_are_created_shown_changed_archived_and_deleted() {
    let site = Site::new([]);
    let id = created(&site, &json!({"name": "Auth Work", "description": "tokens", "key": "k:1"}));
    let path = format!("/v1/sessions/{id}");
    let session = site.get(&path).json()["session"].clone();
    assert_eq!(session["name"], "Auth Work");
    assert_eq!(session["keys"], json!(["k:1"]));
    assert_eq!(session["agent"], "build");
    let spelt = site.json("PATCH", &path, &json!({"name": "AUTH work"})).json();
    assert_eq!(spelt["session"]["name"], "AUTH work", "another spelling of its own name");
    let patched = site.json("PATCH", &path, &json!({"name": "auth", "description": null})).json();
    assert_eq!(patched["session"]["name"], "auth");
    assert_eq!(patched["session"]["description"], Value::Null);
    assert_eq!(patched["session"]["title"], "auth");
    let titled = site.json("PATCH", &path, &json!({"title": "Tokens that expire"})).json();
    assert_eq!(titled["session"]["title"], "Tokens that expire");
    let named = site.json("PATCH", &path, &json!({"name": "tokens"})).json();
    assert_eq!(named["session"]["title"], "tokens", "a new name is the title");
    site.json("PATCH", &path, &json!({"name": "auth", "title": null}));
    assert_eq!(
        site.post(&format!("{path}/archive"), &json!({})).json()["session"]["archived"],
        true
    );
    assert_eq!(site.get("/v1/sessions").json()["sessions"], json!([]));
    let archived = site.get("/v1/sessions?archived=true").json();
    assert_eq!(archived["sessions"][0]["id"], id.as_str());
    let back = site.request("POST", &format!("{path}/unarchive"), &[], b"").json();
    assert_eq!(back["session"]["archived"], false);
    assert_eq!(site.request("DELETE", &path, &[], b"").status, 204);
    site.get(&path).is_problem(404, "not-found");
    site.request("DELETE", &path, &[], b"").is_problem(404, "not-found");
}

#[test]
fn what_is_deleted_is_in_the_trash_until_it_is_erased() {
    let site = Site::new([]);
    let id = created(&site, &json!({"name": "auth", "key": "k:1"}));
    let path = format!("/v1/sessions/{id}");
    let delete = |path: &str| site.request("DELETE", path, &[], b"");
    assert_eq!(delete(&path).status, 204);
    site.get(&path).is_problem(404, "not-found");
    site.get("/v1/keys/k%3A1").is_problem(404, "not-found");
    site.post(&format!("{path}/entries"), &json!({"messages": [user("late")]}))
        .is_problem(404, "not-found");
    let trash = site.get("/v1/trash").json();
    assert_eq!(trash["sessions"][0]["name"], "auth");
    assert_eq!(trash["sessions"][0]["keys"], json!(["k:1"]));
    assert!(trash["sessions"][0]["deleted_at"].is_string(), "{trash}");
    let restored = site.post(&format!("/v1/trash/{id}/restore"), &json!({})).json();
    assert_eq!(restored["session"]["keys"], json!(["k:1"]));
    assert_eq!(restored["session"]["deleted_at"], Value::Null);
    site.post(&format!("/v1/trash/{id}/restore"), &json!({})).is_problem(404, "not-found");
    assert_eq!(delete(&path).status, 204);
    assert_eq!(site.post(&format!("{path}/undo"), &json!({})).json()["undone"], "delete");
    assert_eq!(delete(&path).status, 204);
    assert_eq!(delete("/v1/trash").json(), json!({"erased": 1, "in_use": 0}));
    assert_eq!(site.get("/v1/trash").json()["sessions"], json!([]));
    let id = created(&site, &json!({}));
    assert_eq!(delete(&format!("/v1/sessions/{id}?now=true")).status, 204);
    assert_eq!(site.get("/v1/trash").json()["sessions"], json!([]));
}

#[test]
fn a_list_pages_without_gaps() {
    let site = Site::new([]);
    let made: Vec<String> = (0..7).map(|_| created(&site, &json!({}))).collect();
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = site.get(&format!("/v1/sessions?limit=3{after}")).json();
        let sessions = page["sessions"].as_array().expect("sessions").iter();
        seen.extend(sessions.map(|session| session["id"].as_str().expect("an id").to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    seen.reverse();
    assert_eq!(seen, made);
}

#[test]
fn appends_are_repeatable_pinned_and_refused_as_one() {
    let site = Site::new([]);
    let id = created(&site, &json!({"system": "Be brief."}));
    let two = json!({"messages": [user("one"), user("two")]});
    let first = append(&site, &id, Some("req-1"), &two);
    assert_eq!(first.json(), json!({"session": id, "seqs": [1, 2], "head": 3}));
    assert_eq!(append(&site, &id, Some("req-1"), &two).json()["seqs"], json!([1, 2]));
    let other = json!({"messages": [user("one"), user("three")]});
    append(&site, &id, Some("req-1"), &other).is_problem(409, "id-reused");
    let stale = append(&site, &id, None, &json!({"messages": [user("x")], "head": 2}));
    stale.is_problem(409, "conflict");
    assert_eq!(stale.json()["head"], 3);
    let fresh = append(&site, &id, None, &json!({"messages": [user("three")], "head": 3}));
    assert_eq!(fresh.json()["seqs"], json!([3]));
    let read = site.get(&format!("/v1/sessions/{id}/entries?from=1&limit=2")).json();
    let contents: Vec<&Value> =
        read["entries"].as_array().expect("entries").iter().map(|e| &e["content"]).collect();
    assert_eq!(contents, [&json!("one"), &json!("two")]);
    assert_eq!((&read["next"], &read["head"]), (&json!(3), &json!(4)));
    let rest = site.get(&format!("/v1/sessions/{id}/entries?from=3")).json();
    assert_eq!((rest["entries"].as_array().map(Vec::len), &rest["next"]), (Some(1), &Value::Null));
    let beyond = site.get(&format!("/v1/sessions/{id}/entries?from=99")).json();
    assert_eq!(beyond["entries"], json!([]));
}

#[test]
fn what_nobody_here_knows_comes_back_byte_for_byte() {
    let site = Site::new([]);
    let id = created(&site, &json!({}));
    let odd = r#"{"messages":[{"role":"user","content":[{"type":"hologram","n":1.50e+3}]}]}"#;
    let path = format!("/v1/sessions/{id}/entries");
    assert_eq!(site.request("POST", &path, &[JSON], odd.as_bytes()).status, 200);
    assert!(site.get(&path).body.contains(r#"{"type":"hologram","n":1.50e+3}"#));
}

#[test]
fn a_turn_is_run_followed_and_stopped() {
    let site = Site::new([Answer::text("forty-two"), Answer::text("one two three four").slowly(2)]);
    let id = created(&site, &json!({}));
    let path = format!("/v1/sessions/{id}/turns");
    let turn = site.post(&path, &json!({"content": "what is it?"})).json();
    assert_eq!((&turn["answer"], &turn["end"]), (&json!("forty-two"), &json!("answered")));
    let kinds: Vec<&Value> =
        turn["entries"].as_array().expect("entries").iter().map(|e| &e["kind"]).collect();
    assert_eq!(kinds, ["message", "message", "finished"]);
    let idle = site.request("POST", &format!("{path}/stop"), &[], b"").json();
    assert_eq!(idle, json!({"stopped": false}));
    let mut events = site.stream(&format!("{path}/stream"), &json!({"content": "count"}));
    let pieces: String = events
        .by_ref()
        .take(2)
        .map(|event| event.json()["text"].as_str().expect("text").to_owned())
        .collect();
    assert_eq!(pieces, "one two ");
    // While a turn is running, the conflict names the holder.
    let held = append(&site, &id, None, &json!({"messages": [user("x")]}));
    held.is_problem(409, "held");
    assert!(held.json()["holder"].as_str().is_some_and(|holder| !holder.is_empty()));
    assert!(held.json()["until"].as_str().is_some());
    let stopped = site.request("POST", &format!("{path}/stop"), &[], b"").json();
    assert_eq!(stopped, json!({"stopped": true}));
    let rest: Vec<Value> = events.map(|event| event.json()).collect();
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert_eq!((&rest[0]["type"], &rest[0]["end"]), (&json!("answer"), &json!("stopped")));
    assert_eq!(rest[1], json!({"type": "done", "session": id}));
}

#[test]
fn a_context_is_shown_and_explained() {
    let site = Site::new([]);
    let id = created(&site, &json!({"system": "Be brief."}));
    append(&site, &id, None, &json!({"messages": [user("hello")]}));
    let path = format!("/v1/sessions/{id}/context");
    let plain = site.get(&path).json();
    assert_eq!(plain["policy"], "chat");
    assert_eq!(plain["messages"][1], user("hello"));
    assert!(plain.get("explain").is_none());
    let bot = site.get(&format!("{path}?policy=bot&model=openai/gpt-5&explain=true")).json();
    assert_eq!((&bot["policy"], &bot["model"]), (&json!("bot"), &json!("openai/gpt-5")));
    assert!(bot["explain"].as_str().is_some_and(|text| text.contains("hello")), "{bot}");
    assert_eq!(plain["hash"], bot["hash"], "the same bytes");
}

#[test]
fn clear_undo_fork_compact_and_resume_lose_nothing() {
    let site = Site::new([
        Answer::text("We use a token bucket."),
        Answer::text(block("**Background Context:** A rate limiter.\n\n- token bucket")),
        Answer::text("I have read it."),
        Answer::text("I have read it again."),
    ]);
    let id = created(&site, &json!({"key": "file:a.md"}));
    let at = |id: &str, verb: &str| format!("/v1/sessions/{id}/{verb}");
    site.post(&at(&id, "compact"), &json!({})).is_problem(409, "nothing-to-do");
    site.post(&at(&id, "undo"), &json!({})).is_problem(409, "nothing-to-do");
    site.post(&at(&id, "turns"), &json!({"content": "how do we limit?"}));
    let cleared = site.request("POST", &at(&id, "clear"), &[], b"").json();
    assert_eq!(cleared, json!({"session": id, "seq": 4}));
    let undone = site.request("POST", &at(&id, "undo"), &[], b"").json();
    assert_eq!(undone, json!({"undone": "clear", "session": id}));
    let fork = site.post(&at(&id, "fork"), &json!({"at": 1, "name": "side"}));
    assert_eq!(fork.status, 201, "{fork:?}");
    assert_eq!(fork.json()["session"]["messages"], 1);
    assert!(site.get(&at(&id, "compact")).json()["before"].as_u64().is_some_and(|n| n > 0));
    let compacted = site.post(&at(&id, "compact"), &json!({}));
    assert_eq!(compacted.status, 201, "{compacted:?}");
    let compacted = compacted.json();
    assert_eq!(
        (&compacted["from"], &compacted["acknowledgment"]),
        (&json!(id), &json!("I have read it."))
    );
    let child = compacted["session"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(site.get("/v1/keys/file:a.md").json()["session"]["id"], child.as_str());
    let undone = site.request("POST", &at(&child, "undo"), &[], b"").json();
    assert_eq!((&undone["undone"], &undone["back_to"]), (&json!("compact"), &json!(id)));
    let resumed = site.post(&at(&id, "resume"), &json!({"key": "file:b.md"}));
    assert_eq!(resumed.status, 201, "{resumed:?}");
    let resumed = resumed.json();
    assert_eq!(resumed["acknowledgment"], "I have read it again.");
    assert_eq!(site.get("/v1/keys/file:b.md").json()["session"]["id"], resumed["session"]["id"]);
}

#[test]
fn a_session_is_found_by_its_words_and_exported_as_a_transcript() {
    let site = Site::new([Answer::text("In the vault.")]);
    let id = created(&site, &json!({"name": "keys"}));
    let question = json!({"content": "where is the deploy key?"});
    site.post(&format!("/v1/sessions/{id}/turns"), &question);
    let hits = site.get("/v1/search?q=deploy%20KEY").json();
    assert_eq!(hits["hits"][0]["session"], id.as_str());
    assert_eq!(hits["hits"][0]["name"], "keys");
    let hit = &site.get("/v1/search?q=depl*&from=user").json()["hits"][0];
    assert_eq!((&hit["from"], &hit["marks"]), (&json!("user"), &json!([[13, 19]])));
    for (narrowed, count) in [
        ("from=assistant", 0),
        ("since=2999-01-01T00:00:00Z", 0),
        ("since=2001-01-01T00:00:00Z", 1),
        ("workspace=/nowhere", 0),
    ] {
        let found = site.get(&format!("/v1/search?q=deploy&{narrowed}")).json();
        assert_eq!(found["hits"].as_array().map(Vec::len), Some(count), "{narrowed}");
    }
    let phrase = site.get("/v1/search?q=%22the%20vault%22").json();
    assert_eq!(phrase["hits"][0]["from"], "assistant");
    for bad in ["since=yesterday", "from=nobody"] {
        site.get(&format!("/v1/search?q=x&{bad}")).is_problem(400, "bad-request");
    }
    let export = site.get(&format!("/v1/sessions/{id}/export"));
    assert_eq!(export.header("content-type"), Some("text/markdown; charset=utf-8"));
    assert!(
        export.body.contains("where is the deploy key?") && export.body.contains("In the vault.")
    );
    let agents = site.get("/v1/agents").json();
    assert_eq!(agents["agents"][0]["name"], "build");
}

#[test]
fn a_compaction_while_a_question_waits_takes_the_question_along() {
    let site = Site::new([
        Answer::text("first"),
        Answer::text(block("**Background Context:** x\n\n- first")).slowly(0),
        Answer::text("I have read it."),
        Answer::text("in the child"),
    ]);
    let ask = json!({"message": "hello", "session_id": null, "active_file": "a.md"});
    let first = site.post("/chat", &ask).json();
    let id = first["session_id"].as_str().expect("an id");
    std::thread::scope(|scope| {
        let compacting =
            scope.spawn(|| site.post(&format!("/v1/sessions/{id}/compact"), &json!({})));
        site.model.wait_for_requests(2);
        let events = site.stream("/chat/stream", &ask);
        site.model.release();
        let done: Vec<Value> = events.map(|event| event.json()).collect();
        let child = compacting.join().expect("it ran").json()["session"]["id"].clone();
        assert_eq!(done[0], json!({"type": "response", "content": "in the child"}));
        assert_eq!(done[1]["session_id"], child);
    });
}

#[test]
fn a_turn_of_another_program_is_not_stopped_from_here_and_the_answer_names_it() {
    let site = Site::new([]);
    let id = created(&site, &json!({}));
    let stop = format!("/v1/sessions/{id}/turns/stop");
    assert_eq!(site.post(&stop, &json!({})).json(), json!({"stopped": false}));
    // Another program on the same store takes the session.
    let sessions = Sessions::new(site.store(), Owner::local(), Arc::new(System));
    let mut thread =
        sessions.thread(sessions.select(&id.to_string()).expect("it")).expect("opened");
    thread.hold("telegram:7", std::time::Duration::from_secs(60)).expect("held");
    let refused = site.post(&stop, &json!({}));
    refused.is_problem(409, "elsewhere");
    assert_eq!(refused.json()["holder"], "telegram:7");
    assert!(refused.json()["until"].as_str().is_some_and(|until| until.ends_with('Z')));
    // Its content is unchanged.
    thread.append(Message::user("still mine")).expect("appended");
    thread.release("telegram:7").expect("released");
    assert_eq!(site.post(&stop, &json!({})).json(), json!({"stopped": false}));
    // The lease of a dead process is ignored.
    let (mut child, holder) = another_process();
    thread.hold(&holder, std::time::Duration::from_secs(60)).expect("held");
    site.post(&stop, &json!({})).is_problem(409, "elsewhere");
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert_eq!(site.post(&stop, &json!({})).json(), json!({"stopped": false}));
}

#[test]
fn a_client_that_waits_stops_its_own_turn_and_never_somebody_elses() {
    let site = Site::new([Answer::text("one two").slowly(1), Answer::text("three")]);
    let id = created(&site, &json!({}));
    let path = format!("/v1/sessions/{id}/turns");
    let stop = |which: &Value| site.post(&format!("{path}/stop"), which);
    let runs = site.stream(&format!("{path}/stream"), &json!({"content": "a", "turn": "mine"}));
    site.model.wait_for_requests(1);
    let ask = json!({"content": "b"}).to_string();
    let open = |body: &str| {
        let path = format!("{path}/stream");
        site.open_request("POST", &path, &[JSON], body.as_bytes())
    };
    let waits = open(&ask);
    let name = waits.headers.iter().find(|(name, _)| name == "x-request-id");
    let name = name.expect("every answer has one").1.clone();
    let other = open(&json!({"content": "c", "turn": "theirs"}).to_string()).events();
    // Without a name, it could be any of the three.
    stop(&json!({})).is_problem(409, "which-turn");
    assert_eq!(stop(&json!({"turn": "nobody's"})).json(), json!({"stopped": false}));
    assert_eq!(stop(&json!({"turn": name})).json(), json!({"stopped": true}));
    let waits: Vec<Value> = waits.events().map(|event| event.json()).collect();
    assert_eq!(waits[0]["type"], "error", "{waits:?}");
    // A client may repeat what an overloaded server refused, but not what somebody stopped.
    assert_eq!(waits[0]["problem"]["type"], "/problems/stopped", "{waits:?}");
    site.model.release();
    for (events, answer) in [(runs, "one two"), (other, "three")] {
        let events: Vec<Value> = events.map(|event| event.json()).collect();
        let last = &events[events.len() - 2];
        assert_eq!((&last["answer"], &last["end"]), (&json!(answer), &json!("answered")));
    }
    let said = site.get(&format!("/v1/sessions/{id}/entries")).body;
    assert!(!said.contains("\"content\":\"b\""), "what was not asked is not stored: {said}");
    let long = json!({"content": "x", "turn": "x".repeat(101)});
    site.post(&path, &long).is_problem(400, "bad-request");
}

#[test]
fn no_answer_holds_characters_that_drive_a_terminal_or_cannot_be_seen() {
    let hostile = "a\u{9b}2J\u{7f}b\u{202e}c\u{e0041}d\u{2028}é日";
    let site = Site::new([Answer::text(hostile), Answer::text(hostile)]);
    let id = created(&site, &json!({"description": hostile}));
    assert_eq!(append(&site, &id, None, &json!({"messages": [user(hostile)]})).status, 200);
    let path = format!("/v1/sessions/{id}");
    let ask = json!({"message": hostile, "session_id": null, "active_file": null});
    let answers = [
        site.get(&path),
        site.get("/v1/sessions"),
        site.get(&format!("{path}/entries")),
        site.get(&format!("{path}/context?explain=true")),
        site.get(&format!("/v1/search?q={}", "%C3%A9%E6%97%A5")),
        site.post("/chat", &ask),
        site.post("/chat/stream", &ask),
        site.json("PATCH", &path, &json!({"agent": hostile})),
    ];
    for answer in &answers {
        let hidden = |c: char| c > '\u{7e}' && rethread_core::name::is_hidden(c);
        assert!(!answer.body.contains(hidden), "{answer:?}");
        assert!(answer.body.contains("\\u009b2J\\u007fb\\u202ec\\udb40\\udc41"), "{answer:?}");
    }
    // For a program, it is the same text.
    assert_eq!(answers[2].json()["entries"][1]["content"], hostile);
    assert_eq!(answers[5].json()["response"], hostile);
}
