//! Who has access, and how much they may use.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use rethread_agent::scripted::Answer;
use rethread_http::{AccessTokens, Limits, ListenError, Rules};
use rethread_store::System;
use serde_json::json;

use crate::client;
use crate::site::{JSON, Setup, Site};

const CHAT: &[u8] = br#"{"message":"hello","session_id":null,"active_file":null}"#;

fn nothing_is_stored(site: &Site) {
    let page = site.sessions("local").list(&Default::default(), None, 9).expect("listed");
    assert!(page.sessions.is_empty(), "{page:?}");
    assert!(site.model.requests().is_empty());
}

#[test]
fn a_page_that_lets_its_own_name_point_here_is_refused_on_every_route() {
    let site = Site::new([]);
    let rebinding = ("host", "evil.example");
    for (method, path) in [("POST", "/chat"), ("GET", "/v1/sessions"), ("GET", "/healthz")] {
        let body = if method == "POST" { CHAT } else { b"" };
        site.request(method, path, &[rebinding, JSON], body).is_problem(403, "host");
    }
    site.request("GET", "/nowhere", &[rebinding], b"").is_problem(403, "host");
    nothing_is_stored(&site);
}

#[test]
fn a_cross_site_form_a_foreign_page_and_a_foreign_preflight_are_refused() {
    let site = Site::new([]);
    let form = ("content-type", "text/plain");
    let evil = ("origin", "https://evil.example");
    let cross = ("sec-fetch-site", "cross-site");
    for headers in [
        &[form, evil, cross][..],
        &[JSON, evil][..],
        &[JSON, ("origin", "null")][..],
        &[form, cross][..],
        &[JSON, cross][..],
    ] {
        let refused = site.request("POST", "/chat", headers, CHAT);
        refused.is_problem(403, "origin");
        assert_eq!(refused.header("access-control-allow-origin"), None);
    }
    let preflight = [evil, ("access-control-request-method", "POST")];
    site.request("OPTIONS", "/chat", &preflight, b"").is_problem(403, "origin");
    // A form without an origin, as an old browser sends it, is not JSON.
    site.request("POST", "/chat", &[form], CHAT).is_problem(415, "content-type");
    nothing_is_stored(&site);
}

#[test]
fn further_names_and_pages_can_be_let_in() {
    let rules = Rules {
        allow_hosts: vec!["box.example.org".into()],
        allow_origins: vec!["https://notes.example.org".into()],
        ..Rules::default()
    };
    let site = Site::of(Setup { rules, ..Setup::default() }, []);
    let headers = [("host", "box.example.org"), ("origin", "https://notes.example.org")];
    let answer = site.request("GET", "/v1/sessions", &headers, b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://notes.example.org"));
}

#[test]
fn an_address_others_can_reach_is_not_listened_on_without_a_token() {
    let site = Site::new([]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for address in ["0.0.0.0:0", "[::]:0"] {
        let listening = site.door(site.store()).listen(address.parse().expect("an address"));
        let refused = runtime.block_on(listening).err();
        assert!(matches!(refused, Some(ListenError::NoToken { .. })), "{address}");
    }
    site.token("laptop", "ada");
    let listening = site.door(site.store()).listen("0.0.0.0:0".parse().expect("an address"));
    runtime.block_on(listening).map(drop).expect("with a token it may");
}

#[test]
fn beyond_the_loopback_everybody_needs_a_token() {
    let mut site = Site::new([]);
    let bearer = format!("Bearer {}", site.token("laptop", "ada"));
    site.stop();
    site.listen_on("0.0.0.0:0");
    let host = format!("127.0.0.1:{}", site.address().port());
    let host = ("host", host.as_str());
    site.request("GET", "/v1/sessions", &[host], b"").is_problem(401, "unauthorized");
    let known = [host, ("authorization", bearer.as_str())];
    assert_eq!(site.request("GET", "/v1/sessions", &known, b"").status, 200);
}

#[test]
fn a_token_identifies_an_owner_and_a_revoked_one_nobody() {
    let rules = Rules { require_token: true, ..Rules::default() };
    let site = Site::of(Setup { rules, ..Setup::default() }, []);
    let none = site.get("/v1/sessions");
    none.is_problem(401, "unauthorized");
    assert_eq!(none.header("www-authenticate"), Some("Bearer"));
    let bearer = format!("Bearer {}", site.token("laptop", "ada"));
    let with = |value: &str| site.request("POST", "/chat", &[JSON, ("authorization", value)], CHAT);
    assert_eq!(with(&bearer).status, 200);
    for wrong in ["Bearer rt_wrong", "Bearer", "Basic YTpi", &bearer[..bearer.len() - 1]] {
        with(wrong).is_problem(401, "unauthorized");
    }
    let page = |owner: &str| {
        site.sessions(owner).list(&Default::default(), None, 9).expect("listed").sessions.len()
    };
    assert_eq!((page("ada"), page("local")), (1, 0));
    let tokens = AccessTokens::new(site.store(), Arc::new(System));
    tokens.revoke(&rethread_core::Name::new("laptop").expect("valid")).expect("revoked");
    // A server may accept a revoked token as long as it caches tokens, and no longer.
    let deadline = std::time::Instant::now() + 5 * rethread_http::limits::TOKEN_FRESH;
    while with(&bearer).status == 200 {
        assert!(std::time::Instant::now() < deadline, "still let in");
    }
    with(&bearer).is_problem(401, "unauthorized");
}

#[test]
fn on_the_loopback_a_wrong_token_is_refused_rather_than_taken_for_nobody() {
    let site = Site::new([]);
    let wrong = [("authorization", "Bearer rt_wrong")];
    site.request("GET", "/v1/sessions", &wrong, b"").is_problem(401, "unauthorized");
}

#[test]
fn a_large_body_is_refused_before_it_is_sent() {
    let site = Site::new([]);
    // Only the head is sent: the response cannot depend on the body.
    let headers = [JSON, ("content-length", "1073741824")];
    site.request("POST", "/chat", &headers, b"").is_problem(413, "too-large");
    // If the length is not given, reading stops at the limit.
    let mut chunked = b"1200000\r\n".to_vec();
    chunked.extend(vec![b' '; 0x120_0000]);
    let headers = [JSON, ("transfer-encoding", "chunked")];
    site.request("POST", "/chat", &headers, &chunked).is_problem(413, "too-large");
    nothing_is_stored(&site);
}

#[test]
fn a_body_that_does_not_come_is_given_up() {
    let limits = Limits { body_time: std::time::Duration::from_millis(50), ..Limits::default() };
    let site = Site::of(Setup { limits, ..Setup::default() }, []);
    let headers = [JSON, ("content-length", "100")];
    site.request("POST", "/chat", &headers, b"{").is_problem(408, "timeout");
}

#[test]
fn headers_that_are_too_long_or_too_many_are_refused() {
    let site = Site::new([]);
    let long = "x".repeat(21 << 10);
    site.request("GET", "/healthz", &[("x-long", &long)], b"").is_problem(431, "headers");
    let many = vec![("x-many", "1"); 101];
    site.request("GET", "/healthz", &many, b"").is_problem(431, "headers");
    let endless = "x".repeat(100 << 10);
    site.request("GET", "/healthz", &[("x-long", &endless)], b"").is_problem(431, "headers");
    site.request("GET", &format!("/{endless}"), &[], b"").is_problem(431, "headers");
    let flood = vec![("x-many", "1"); 1_000];
    site.request("GET", "/healthz", &flood, b"").is_problem(431, "headers");
}

#[test]
fn turns_of_everybody_are_bounded_and_one_that_ends_makes_room() {
    let limits = Limits { turns: 2, ..Limits::default() };
    let slow = || Answer::text("slow").slowly(0);
    let site = Site::of(Setup { limits, ..Setup::default() }, [slow(), slow()]);
    let ask = |file: &str| json!({"message": "hello", "session_id": null, "active_file": file});
    let running: Vec<_> =
        ["a.md", "b.md"].map(|file| site.stream("/chat/stream", &ask(file))).into_iter().collect();
    site.model.wait_for_requests(2);
    let refused = site.post("/chat", &ask("c.md"));
    refused.is_problem(503, "busy");
    assert!(refused.header("retry-after").is_some());
    assert!(refused.json()["detail"].as_str().is_some_and(|text| text.starts_with("2 turns")));
    // Requests that are not turns are still served.
    assert_eq!(site.get("/v1/sessions").status, 200);
    site.model.release();
    site.model.release();
    for events in running {
        assert_eq!(events.count(), 2);
    }
    // A stream ends a moment before its turn releases its slot.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while site.post("/chat", &ask("c.md")).status != 200 {
        assert!(std::time::Instant::now() < deadline, "there is still no room");
    }
}

#[test]
fn an_owner_has_a_share_of_the_turns_and_leaves_the_rest_to_others() {
    let rules = Rules { require_token: true, ..Rules::default() };
    let limits = Limits { turns: 4, owner_turns: 2, ..Limits::default() };
    let slow = || Answer::text("slow").slowly(0);
    let site = Site::of(Setup { limits, rules, ..Setup::default() }, [slow(), slow()]);
    let bearer = |name: &str| format!("Bearer {}", site.token(name, name));
    let (ada, bob) = (bearer("ada"), bearer("bob"));
    let open = |bearer: &str, path: &str, file: &str| {
        let ask = json!({"message": "hello", "session_id": null, "active_file": file});
        let headers = [JSON, ("authorization", bearer)];
        site.open_request("POST", path, &headers, ask.to_string().as_bytes())
    };
    let running = ["a.md", "b.md"].map(|file| open(&ada, "/chat/stream", file).events());
    site.model.wait_for_requests(2);
    let refused = open(&ada, "/chat", "c.md").whole();
    refused.is_problem(429, "turns");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(open(&bob, "/chat", "c.md").whole().status, 200, "others are still served");
    site.model.release();
    site.model.release();
    for events in running {
        assert_eq!(events.count(), 2);
    }
    // A stream ends a moment before its turn releases its slot.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while open(&ada, "/chat", "c.md").whole().status != 200 {
        assert!(std::time::Instant::now() < deadline, "there is still no room");
    }
}

#[test]
fn the_document_and_its_page_are_for_everybody_who_may_come_to_the_server_at_all() {
    let rules = Rules { require_token: true, ..Rules::default() };
    let limits = Limits { rate: 1, burst: 8, count_local: true, ..Limits::default() };
    let site = Site::of(Setup { rules, limits, ..Setup::default() }, []);
    let pages = ["/openapi.json", "/docs", "/docs/page.js", "/docs/page.css"];
    for page in pages {
        assert_eq!(site.get(page).status, 200, "{page}");
        // A request that sends a token needs a valid one, and the other rules apply here too.
        let wrong = [("authorization", "Bearer rt_wrong")];
        site.request("GET", page, &wrong, b"").is_problem(401, "unauthorized");
        site.request("GET", page, &[("host", "evil.example")], b"").is_problem(403, "host");
        let foreign = [("origin", "https://evil.example")];
        site.request("GET", page, &foreign, b"").is_problem(403, "origin");
    }
    for near in ["/docs/", "/docs/../v1/sessions", "//docs", "/docs/page.js/", "/metrics"] {
        site.get(near).is_problem(401, "unauthorized");
    }
    let answers: Vec<u16> = (0..5).map(|_| site.get("/docs").status).collect();
    assert_eq!(answers.last(), Some(&429), "{answers:?}");
}

/// Sends bytes as they are, on a new connection, and reads until the end.
fn raw(site: &Site, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(site.address()).expect("it listens");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a timeout");
    // A server that refuses early may close before everything is sent.
    drop(stream.write_all(bytes));
    drop(stream.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    drop(std::io::Read::read_to_end(&mut stream, &mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_malformed_or_ambiguous_request_is_refused_and_nothing_of_it_is_stored() {
    let site = Site::new([]);
    let host = site.address();
    let chat = String::from_utf8_lossy(CHAT).into_owned();
    let inner = format!(
        "POST /chat HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{chat}",
        chat.len()
    );
    let post = |headers: &str, body: &str| {
        format!(
            "POST /chat HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{headers}\r\n\r\n{body}"
        )
    };
    let bare = "transfer-encoding: chunked";
    for (what, bytes) in [
        ("two lengths", post("content-length: 3\r\ncontent-length: 300", &inner)),
        ("a length and chunks", post(&format!("content-length: 3\r\n{bare}"), "not chunks")),
        ("a length with a sign", post("content-length: +5", &inner)),
        ("a length that is not a number", post("content-length: 5, 6", &inner)),
        ("an unknown coding", post("transfer-encoding: gzip", &inner)),
        ("chunked is not last", post("transfer-encoding: chunked, identity", &inner)),
        ("a chunk without a size", post(bare, "zz\r\n{}\r\n0\r\n\r\n")),
        ("a chunk larger than numbers are", post(bare, "fffffffffffffffffff\r\n{}")),
        ("chunks that break off", post(bare, "5\r\n{\"me")),
        ("a body that breaks off", post("content-length: 900", "{\"message\":")),
        ("a space before a colon", post("content-length : 5", &inner)),
        ("a folded header", post("x-a: 1\r\n content-length: 5", &inner)),
        ("a NUL in a header", post("x-a: \0", "")),
        (
            "no host",
            format!(
                "POST /chat HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{chat}",
                chat.len()
            ),
        ),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into()),
        ("TLS", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}".into()),
        ("no HTTP", "hello\r\n\r\n".into()),
        ("a lone line feed in the target", "GET /docs\nx: y HTTP/1.1\r\n\r\n".into()),
    ] {
        let answer = raw(&site, bytes.as_bytes());
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(status.is_empty() || status.starts_with('4'), "{what}: {answer}");
        assert!(what != "HTTP/2" || status == "400", "{what} gets an answer: {answer:?}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), usize::from(!status.is_empty()), "{what}");
        if !status.is_empty() {
            assert!(answer.contains("application/problem+json"), "{what}: {answer}");
        }
        nothing_is_stored(&site);
    }
    assert_eq!(site.request("POST", "/chat", &[JSON], CHAT).status, 200);
}

#[test]
fn a_rate_limited_client_is_given_a_retry_time() {
    let limits = Limits { rate: 1, burst: 3, count_local: true, ..Limits::default() };
    let site = Site::of(Setup { limits, ..Setup::default() }, []);
    let statuses: Vec<u16> = (0..4).map(|_| site.get("/healthz").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    let refused = site.get("/healthz");
    refused.is_problem(429, "rate");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let uncounted =
        Site::of(Setup { limits: Limits { count_local: false, ..limits }, ..Setup::default() }, []);
    assert!((0..9).all(|_| uncounted.get("/healthz").status == 200), "this machine is not counted");
    // Others are not affected.
    let bearer = format!("Bearer {}", site.token("laptop", "ada"));
    assert_eq!(site.request("GET", "/healthz", &[("authorization", &bearer)], b"").status, 200);
}

#[test]
fn streams_are_counted_and_one_that_ends_makes_room() {
    let limits = Limits { streams: 1, ..Limits::default() };
    let site = Site::of(Setup { limits, ..Setup::default() }, []);
    let id = site.post("/v1/sessions", &json!({})).json()["session"]["id"].clone();
    let path = format!("/v1/sessions/{}/events", id.as_str().expect("an id"));
    let open = site.open_request("GET", &path, &[], b"").events();
    site.get(&path).is_problem(429, "streams");
    site.request("POST", "/chat/stream", &[JSON], CHAT).is_problem(429, "streams");
    drop(open);
    // The server notices a client that is gone when it writes to it.
    let message = json!({"messages": [{"role": "user", "content": "hello"}]});
    let entries = format!("/v1/sessions/{}/entries", id.as_str().expect("an id"));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while site.open_request("GET", &path, &[], b"").status != 200 {
        assert!(std::time::Instant::now() < deadline, "the stream is still counted");
        site.post(&entries, &message);
    }
}

#[test]
fn one_connection_too_many_is_turned_away() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let site = Site::of(Setup { limits, ..Setup::default() }, []);
    let idle: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = TcpStream::connect(site.address()).expect("it listens");
            let head = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", site.address());
            stream.write_all(head.as_bytes()).expect("sent");
            // The response shows that the connection was accepted.
            assert_eq!(client::answer(stream.try_clone().expect("a copy")).status, 200);
            stream
        })
        .collect();
    let refused = client::answer(TcpStream::connect(site.address()).expect("it listens")).whole();
    refused.is_problem(503, "busy");
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(idle);
}

#[test]
fn turns_that_wait_for_one_session_are_bounded_and_others_continue() {
    let limits = Limits { waiting: 2, ..Limits::default() };
    let site = Site::of(Setup { limits, ..Setup::default() }, [Answer::text("slow").slowly(0)]);
    let ask = |file: &str| json!({"message": "hello", "session_id": null, "active_file": file});
    let waiting: Vec<_> = (0..3).map(|_| site.stream("/chat/stream", &ask("a.md"))).collect();
    let refused = site.post("/chat", &ask("a.md"));
    refused.is_problem(429, "waiting");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(site.post("/chat", &ask("b.md")).status, 200);
    site.model.release();
    for events in waiting {
        assert_eq!(events.count(), 2);
    }
    assert_eq!(site.post("/chat", &ask("a.md")).status, 200);
}

#[test]
fn every_answer_names_its_request_and_no_content_is_guessed() {
    let site = Site::new([]);
    let (one, two) = (site.get("/healthz"), site.get("/nowhere"));
    for answer in [&one, &two] {
        assert_eq!(answer.header("x-request-id").map(str::len), Some(36), "{answer:?}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
}

#[test]
fn a_body_in_an_encoding_is_refused_rather_than_taken_for_json() {
    let site = Site::new([]);
    for coding in ["gzip", "identity, gzip", "br", ""] {
        let headers = [JSON, ("content-encoding", coding)];
        site.request("POST", "/chat", &headers, CHAT).is_problem(415, "content-encoding");
    }
    nothing_is_stored(&site);
    let plain = [JSON, ("content-encoding", "Identity")];
    assert_eq!(site.request("POST", "/chat", &plain, CHAT).status, 200);
}

#[test]
fn a_connection_whose_request_was_refused_by_its_head_lives_on_or_says_that_it_does_not() {
    let site = Site::new([]);
    let address = site.address();
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = |kind: &str, length: usize| {
        format!(
            "POST /chat HTTP/1.1\r\nhost: {address}\r\ncontent-type: {kind}\r\n\
             content-length: {length}\r\n\r\n"
        )
    };
    let answer = |stream: &TcpStream| client::answer(stream.try_clone().expect("a copy")).whole();
    // The response arrives before the body is sent; then the body and the next request are sent.
    stream.write_all(head("text/plain", CHAT.len()).as_bytes()).expect("sent");
    let refused = answer(&stream);
    refused.is_problem(415, "content-type");
    assert_eq!(refused.header("connection"), None);
    stream.write_all(CHAT).expect("the connection is open");
    stream.write_all(head("application/json", CHAT.len()).as_bytes()).expect("still");
    stream.write_all(CHAT).expect("still");
    assert_eq!(answer(&stream).status, 200);
    // A body that is too large to be discarded: the response closes the connection.
    let large = vec![b' '; 1 << 20];
    stream.write_all(head("text/plain", large.len()).as_bytes()).expect("sent");
    let refused = answer(&stream);
    refused.is_problem(415, "content-type");
    assert_eq!(refused.header("connection"), Some("close"));
    // Control: after a body that was read completely, the connection stays open.
    let mut other = TcpStream::connect(address).expect("it listens");
    other.write_all(head("application/json", 2).as_bytes()).expect("sent");
    other.write_all(b"[]").expect("sent");
    let refused = answer(&other);
    refused.is_problem(400, "bad-request");
    assert_eq!(refused.header("connection"), None);
    // A client that waits for `100 Continue` gets the refusal, and nothing else.
    let waits = head("text/plain", 5).replace("host:", "expect: 100-continue\r\nhost:");
    other.write_all(waits.as_bytes()).expect("sent");
    let refused = answer(&other);
    refused.is_problem(415, "content-type");
    assert_eq!(refused.header("connection"), Some("close"));
}

#[test]
fn a_revoked_token_ends_what_it_had_open_within_a_second_and_others_continue() {
    let slow = || Answer::text("slow").slowly(0);
    let site = Site::of(Setup::default(), [slow(), slow()]);
    let bearer = |name: &str| format!("Bearer {}", site.token(name, "ada"));
    let (gone, stays) = (bearer("gone"), bearer("stays"));
    let id = site.sessions("ada").create(&Default::default(), None).expect("created").id();
    let tail = |bearer: &str| {
        let path = format!("/v1/sessions/{id}/events");
        site.open_request("GET", &path, &[("authorization", bearer)], b"").events()
    };
    let ask = |bearer: &str, path: &str, file: &str| {
        let ask = json!({"message": "hello", "session_id": null, "active_file": file});
        let headers = [JSON, ("authorization", bearer)];
        site.open_request("POST", path, &headers, ask.to_string().as_bytes())
    };
    let (hers, mut others) = (tail(&gone), tail(&stays));
    let turn = ask(&gone, "/chat/stream", "a.md").events();
    site.model.wait_for_requests(1);
    // Waits for its response, which must not come any more.
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| ask(&gone, "/chat", "b.md").whole());
        site.model.wait_for_requests(2);
        let tokens = AccessTokens::new(site.store(), Arc::new(System));
        tokens.revoke(&rethread_core::Name::new("gone").expect("valid")).expect("revoked");
        let revoked = std::time::Instant::now();
        assert_eq!(turn.count(), 0, "nothing of the turn came");
        assert_eq!(hers.count(), 1, "where it begins, and no more");
        let waits = waits.join().expect("it was answered");
        // Twice the documented time, because the machine may be busy.
        let most = 2 * rethread_http::limits::TOKEN_FRESH;
        assert!(revoked.elapsed() < most, "{:?}", revoked.elapsed());
        waits
    });
    waits.is_problem(401, "unauthorized");
    site.sessions("ada").append(id, vec![rethread_core::Message::user("later").into()]).expect("x");
    assert_eq!(others.next().expect("where it begins").data, "");
    assert_eq!(others.next().expect("an event").json()["content"], "later");
    // The turns belong to their owner, and continue.
    site.model.release();
    site.model.release();
    let answered = ask(&stays, "/chat", "a.md").whole();
    assert_eq!(answered.status, 200, "{answered:?}");
}

#[test]
fn the_metrics_are_for_this_machine_and_for_tokens_made_for_them() {
    let site = Site::new([]);
    let get = |owner: &str, path: &str| {
        let bearer = format!(
            "Bearer {}",
            site.token(&format!("{owner}{path}").replace(['/', ':'], "-"), owner)
        );
        site.request("GET", path, &[("authorization", &bearer)], b"")
    };
    assert_eq!(site.get("/metrics").status, 200, "no token, on the loopback");
    assert_eq!(get("local", "/metrics").status, 200);
    get("ada", "/metrics").is_problem(403, "forbidden");
    let counted = get("rethread:metrics", "/metrics");
    assert!(counted.body.contains("rethread_requests_total{class=\"2xx\"}"), "{counted:?}");
    assert_eq!(get("rethread:metrics", "/readyz").status, 200);
    get("rethread:metrics", "/v1/sessions").is_problem(403, "forbidden");
    get("rethread:metrics", "/nowhere").is_problem(403, "forbidden");
}
