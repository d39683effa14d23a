//! The live tail: every entry once, in order, wherever a client reconnects.

use rethread_core::Message;
use serde_json::{Value, json};

use crate::client::{Event, Events};
use crate::site::Site;

fn created(site: &Site) -> String {
    let session = site.post("/v1/sessions", &json!({})).json()["session"]["id"].clone();
    session.as_str().expect("an id").to_owned()
}

fn follow(site: &Site, id: &str, last: Option<&str>, from: Option<u64>) -> Events {
    let query = from.map(|from| format!("?from={from}")).unwrap_or_default();
    let headers: Vec<(&str, &str)> = last.map(|last| ("last-event-id", last)).into_iter().collect();
    let path = format!("/v1/sessions/{id}/events{query}");
    site.open_request("GET", &path, &headers, b"").events()
}

fn say(site: &Site, id: &str, text: &str) {
    let body = json!({"messages": [{"role": "user", "content": text}]});
    let said = site.post(&format!("/v1/sessions/{id}/entries"), &body);
    assert_eq!(said.status, 200, "{said:?}");
}

/// The number of an event, which is the number of its entry.
fn seq(event: &Event) -> u64 {
    let seq = event.id.as_ref().and_then(|id| id.parse().ok()).expect("a number");
    assert_eq!(event.json()["seq"], seq);
    seq
}

#[test]
fn every_write_is_streamed_as_it_happens() {
    let site = Site::new([]);
    let id = created(&site);
    let mut events = follow(&site, &id, None, None);
    let first = events.next().expect("where it begins");
    assert_eq!((first.id.as_deref(), first.data.as_str()), (Some("0"), ""));
    say(&site, &id, "from here");
    let heard = events.next().expect("an event");
    assert_eq!((seq(&heard), &heard.json()["content"]), (1, &json!("from here")));
    // Another program writes to the same store.
    let other = rethread_core::Sessions::new(
        site.store(),
        rethread_core::Owner::local(),
        std::sync::Arc::new(rethread_store::System),
    );
    let session = other.select(&id).expect("found");
    other.append(session, vec![Message::user("from there").into()]).expect("appended");
    assert_eq!(events.next().expect("an event").json()["content"], "from there");
    // And a turn is streamed entry by entry.
    site.post(&format!("/v1/sessions/{id}/turns"), &json!({"content": "a turn"}));
    let kinds: Vec<Value> =
        events.by_ref().take(3).map(|event| event.json()["kind"].clone()).collect();
    assert_eq!(kinds, [json!("message"), json!("message"), json!("finished")]);
}

#[test]
fn a_client_that_was_cut_off_before_anything_happened_misses_nothing() {
    let site = Site::new([]);
    let id = created(&site);
    let first = follow(&site, &id, None, None).next().expect("where it begins");
    say(&site, &id, "while nobody listened");
    let mut again = follow(&site, &id, first.id.as_deref(), None);
    again.next().expect("where it begins");
    assert_eq!(again.next().expect("an event").json()["content"], "while nobody listened");
    // The position before the first entry is valid, too.
    let mut all = follow(&site, &id, Some("-1"), None);
    assert_eq!(all.next().expect("where it begins").id.as_deref(), Some("-1"));
    assert_eq!(seq(&all.next().expect("an event")), 0);
    for bad in ["-2", "x", "1.5", "9223372036854775807", "99999999999999999999"] {
        let headers = [("last-event-id", bad)];
        let path = format!("/v1/sessions/{id}/events");
        site.request("GET", &path, &headers, b"").is_problem(400, "bad-request");
    }
}

#[test]
fn a_stream_that_breaks_a_thousand_times_has_no_gap_and_no_repeat() {
    let mut site = Site::new([]);
    let id = created(&site);
    let sessions = site.sessions("local");
    let session = sessions.select(&id).expect("found");
    let messages = |n: u64| (0..n).map(|n| Message::user(format!("message {n}")).into()).collect();
    sessions.append(session, messages(300)).expect("appended");
    drop(sessions);
    let (mut last, mut next) = ("-1".to_owned(), 0);
    let mut dice: u64 = 0x2545_F491_4F6C_DD1D;
    for round in 0..1_000 {
        if round % 200 == 100 {
            site.restart();
        }
        if round % 4 == 0 {
            site.sessions("local").append(session, messages(3)).expect("appended");
        }
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let head = site.sessions("local").get(session).expect("read").tally.entries;
        let take = (dice % 4).min(head - next);
        let mut events = follow(&site, &id, Some(&last), None);
        let begins = events.next().expect("where it begins");
        assert_eq!(begins.id.as_deref(), Some(last.as_str()), "round {round}");
        for event in events.take(take as usize) {
            assert_eq!(seq(&event), next, "round {round}");
            last = event.id.clone().expect("an id");
            next += 1;
        }
    }
    assert!(next > 900, "{next}");
}

#[test]
fn a_stream_ends_with_its_session_and_with_the_server() {
    let mut site = Site::new([]);
    let id = created(&site);
    let events = follow(&site, &id, None, Some(0));
    assert_eq!(site.request("DELETE", &format!("/v1/sessions/{id}"), &[], b"").status, 204);
    assert!(events.count() <= 2, "what was there, and then the end");
    let id = created(&site);
    let events = follow(&site, &id, None, Some(0));
    site.stop();
    assert!(events.count() <= 2);
}
