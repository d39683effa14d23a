//! What `recall` and `search_sessions` return.

use std::sync::Arc;

use rethread_agent::tool::ToolContext;
use rethread_core::context::{Model, Policy};
use rethread_core::entry::{Origin, Restored};
use rethread_core::sessions::Fork;
use rethread_core::{Fixed, MemoryStore, Message, New, Owner, Role, Sessions};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, call};

/// All pages of a text, put together again.
fn all_pages(fixture: &Fixture, reference: Value, limit: u64) -> String {
    let mut text = String::new();
    let mut offset = 0;
    loop {
        let input = json!({"ref": reference, "offset": offset, "limit": limit});
        let answer = fixture.run("recall", input);
        let Some((page, note)) = answer.rsplit_once("\n[characters ") else {
            return text + &answer;
        };
        text.push_str(page);
        match note.split_once("offset=") {
            Some((_, next)) => offset = next.trim_end_matches(']').parse().expect("a number"),
            None => return text,
        }
    }
}

#[test]
fn what_was_cut_is_recalled_whole_by_each_kind_of_reference() {
    let fixture = Fixture::new();
    let original: String = (0..9_000).map(|n| ['a', 'é', '漢', '🦀', '\n'][n % 5]).collect();
    let other = fixture.named("other");
    fixture.say(other, Message::user("a question"));
    let there = fixture.say(other, Message::assistant(original.clone()));
    fixture.say(fixture.tool_context.session, call("toolu_1", "grep"));
    let here = fixture
        .say(fixture.tool_context.session, Message::tool_result("toolu_1", original.clone()));
    fixture.say(fixture.tool_context.session, call("toolu_2", "recall"));
    for reference in [
        json!(here.to_string()),
        json!(here),
        json!("toolu_1"),
        json!(format!("{}:{there}", other.short())),
        json!(format!("{other}:{there}")),
    ] {
        for limit in [1_000, 8_999, 9_000, 9_001] {
            assert_eq!(all_pages(&fixture, reference.clone(), limit), original, "{reference}");
        }
    }
    let first = fixture.run("recall", json!({"ref": "toolu_1"}));
    assert!(first.ends_with("\n[characters 1-8000 of 9000; recall with offset=8000]"));
    let call = fixture.run("recall", json!({"ref": "toolu_2"}));
    assert_eq!(call, "error: the call `toolu_2` has no result");
}

#[test]
fn ranges_of_lines_and_several_references_are_recalled_at_once() {
    let fixture = Fixture::new();
    let text: String = (1..=50).map(|n| format!("line {n}\n")).collect();
    fixture.say(fixture.tool_context.session, call("toolu_1", "grep"));
    let here = fixture.say(fixture.tool_context.session, Message::tool_result("toolu_1", text));
    let recall = |reference: String| fixture.run("recall", json!({"ref": reference}));
    assert_eq!(recall(format!("{here}#3-4")), "line 3\nline 4");
    assert_eq!(recall(format!("{here}#50")), "line 50");
    assert_eq!(recall(format!("{here}#49-99")), "line 49\nline 50");
    let both = recall(format!("{here}#1, toolu_1#7-8"));
    assert_eq!(both, format!("[{here}#1]\nline 1\n\n[toolu_1#7-8]\nline 7\nline 8"));
    assert_eq!(recall(format!("{here}#1, toolu_1#7-8,")), both, "a comma at the end is nothing");
    let listed = json!({"ref": [format!("{here}#1"), "toolu_1#7-8"]});
    assert_eq!(fixture.run("recall", listed), both, "a list is the same");
    let ranges = recall(format!("{here}#3-4, 49-"));
    let expected = format!("[{here}#3-4]\nline 3\nline 4\n\n[{here}#49-]\nline 49\nline 50");
    assert_eq!(ranges, expected, "a range after a range is of the same result");
    for (reference, wrong) in [
        (format!("{here}#51"), "has 50 lines; there are no lines 51"),
        (format!("{here}#4-3"), "there are no lines 4-3"),
        (format!("{here}#all"), "`all` is not a range of lines such as `38-74`"),
        (["0"; 17].join(","), "17 references; at most 16 at once"),
    ] {
        let answer = recall(reference);
        assert!(answer.starts_with("error: ") && answer.contains(wrong), "{answer}");
    }
}

#[test]
fn one_of_several_results_in_an_entry_is_recalled_by_its_lines() {
    let fixture = Fixture::new();
    let result = |id: &str, text: &str| {
        let lines: String = (1..=400).map(|n| format!("{text} line of many {n}\n")).collect();
        Message::tool_result(id, lines).content
    };
    fixture.say(fixture.tool_context.session, Message::user("look"));
    let calls = ["toolu_a", "toolu_b"].map(|id| call(id, "read_file").content).concat();
    fixture.say(fixture.tool_context.session, Message::new(Role::Assistant, calls));
    let both = [result("toolu_a", "one"), result("toolu_b", "other")].concat();
    let here = fixture.say(fixture.tool_context.session, Message::new(Role::Tool, both));
    let model = Model::new("openai", "m");
    let context = fixture.tool_context.sessions.context(
        fixture.tool_context.session,
        &Policy::chat(),
        &model,
    );
    let results = context.expect("built").messages;
    let results: Vec<String> =
        results.iter().flat_map(|message| message.results()).map(|r| r.text()).collect();
    for (index, (shown, text)) in results.iter().zip(["one", "other"]).enumerate() {
        let reference = format!("{here}.{}", index + 1);
        assert!(shown.contains(&format!("-400 cut; recall {reference}]")), "{shown}");
        let lines = fixture.run("recall", json!({"ref": format!("{reference}#399-400")}));
        assert_eq!(lines, format!("{text} line of many 399\n{text} line of many 400"));
    }
    assert_eq!(results.len(), 2);
}

#[test]
fn what_cannot_be_recalled_is_said_to_be_missing() {
    let fixture = Fixture::new();
    fixture.say(fixture.tool_context.session, Message::user("hello"));
    for (reference, said) in [
        ("7", "there is no entry 7; the session has 1"),
        ("ffffffff:0", "no session matches `ffffffff`"),
        ("toolu_9", "`toolu_9` is neither an entry"),
        ("", "`ref` is empty"),
        ("0.1", "entry 0 has no result 1"),
        ("0.0", "`0.0` is neither an entry"),
    ] {
        let answer = fixture.run("recall", json!({"ref": reference}));
        assert!(answer.contains(said), "{answer}");
    }
    let answer = fixture.run("recall", json!({"ref": "0", "offset": 5}));
    assert_eq!(answer, "error: `offset` is 5, but there are 5 characters");
}

#[test]
fn a_call_of_a_parent_is_found_and_an_ambiguous_id_means_the_parent() {
    let fixture = Fixture::new();
    let parent = fixture.named("parent");
    fixture.say(parent, Message::user("q"));
    fixture.say(parent, call("toolu_1", "grep"));
    let at = fixture.say(parent, Message::tool_result("toolu_1", "found long ago"));
    fixture.say(parent, Message::assistant("done"));
    let fork = Fork { at: Some(0), ..Default::default() };
    let child = fixture.tool_context.sessions.fork(parent, &fork).unwrap().id();
    assert_eq!(child.short(), parent.short(), "they were started in the same minute");
    let tool_context = ToolContext {
        sessions: fixture.tool_context.sessions.clone(),
        session: child,
        stop: CancellationToken::new(),
        progress: Default::default(),
    };
    let tool = fixture.tools.find("recall").unwrap();
    for reference in ["toolu_1".to_owned(), format!("{}:{at}", parent.short())] {
        let answer = tool.run(&json!({"ref": reference}).to_string(), &tool_context);
        assert_eq!(answer.unwrap(), "found long ago");
    }
}

#[test]
fn in_a_fork_an_ambiguous_id_means_what_was_compacted() {
    let fixture = Fixture::new();
    let sessions = &fixture.tool_context.sessions;
    let first = fixture.named("first");
    fixture.say(first, Message::user("long ago"));
    let restored: Restored = serde_json::from_value(json!({
        "started": {"origin": "compact", "from": first, "keys": []},
        "summary": "short", "prompt": "continue", "acknowledgment": "ready",
    }))
    .expect("an entry");
    let compacted = sessions
        .restore(Some(first), Origin::Compact, &New::default(), &[], restored)
        .expect("compacted")
        .id();
    fixture.say(compacted, Message::user("since then"));
    let fork = sessions.fork(compacted, &Fork::default()).expect("forked").id();
    assert_eq!(fork.short(), first.short(), "they were started in the same minute");
    let tool_context = ToolContext { session: fork, ..fixture.tool_context.clone() };
    let recall = fixture.tools.find("recall").expect("a tool");
    let reference = format!("{}:0", first.short());
    let answer = recall.run(&json!({"ref": reference}).to_string(), &tool_context);
    assert_eq!(answer.expect("recalled"), "long ago");
}

#[test]
fn another_owner_s_session_is_not_recalled_or_found() {
    let world = Arc::new(Fixed::default());
    let store = Arc::new(MemoryStore::new(world.clone()));
    let theirs = Sessions::new(store.clone(), Owner::new("them").unwrap(), world.clone());
    let secret = theirs.create(&New::default(), None).unwrap().id();
    theirs.append(secret, vec![Message::user("zebra").into()]).unwrap();
    let fixture = Fixture::new();
    let sessions = Sessions::new(store, Owner::local(), world);
    let session = sessions.create(&New::default(), None).unwrap().id();
    let tool_context = ToolContext {
        sessions,
        session,
        stop: CancellationToken::new(),
        progress: Default::default(),
    };
    let recall = fixture.tools.find("recall").unwrap();
    let answer = recall.run(&json!({"ref": format!("{secret}:0")}).to_string(), &tool_context);
    assert!(answer.unwrap_err().0.contains("no session matches"));
    let search = fixture.tools.find("search_sessions").unwrap();
    assert_eq!(search.run(r#"{"query":"zebra"}"#, &tool_context).unwrap(), r#"{"results":[]}"#);
}

#[test]
fn a_search_of_sessions_never_finds_its_own_question() {
    let fixture = Fixture::new();
    let session = fixture.tool_context.session;
    let other = fixture.named("zoo-plans");
    let there = fixture.say(other, Message::assistant("The zebra gets a new stable."));
    let earlier = fixture.say(session, Message::user("zebra, first time"));
    fixture.say(session, Message::assistant("I see."));
    fixture.say(session, Message::user("and where is the zebra now?"));
    fixture.say(session, call("toolu_zebra", "search_sessions"));
    let answer = fixture.json("search_sessions", json!({"query": "ZEBRA"}));
    let results = answer["results"].as_array().unwrap();
    let mut refs: Vec<_> = results.iter().map(|result| result["ref"].as_str().unwrap()).collect();
    refs.sort();
    let mut wanted =
        [format!("{}:{there}", other.short()), format!("{}:{earlier}", session.short())];
    wanted.sort();
    assert_eq!(refs, wanted);
    let found = results.iter().find(|result| result["session"] == "zoo-plans");
    assert_eq!(
        found.unwrap(),
        &json!({
            "session": "zoo-plans", "id8": other.short(), "seq": there,
            "at": "2025-01-01T01:00:00.000Z", "role": "assistant",
            "text": "The zebra gets a new stable.", "ref": format!("{}:{there}", other.short()),
        })
    );
    let first = wanted.iter().find(|r| r.starts_with(&other.short())).unwrap();
    assert_eq!(fixture.run("recall", json!({"ref": first})), "The zebra gets a new stable.");
}

#[test]
fn instructions_of_sessions_are_neither_found_nor_recalled_elsewhere() {
    let fixture = Fixture::new();
    let other = fixture.named("guarded");
    let rules = fixture.say(other, Message::system("Feed the zebra at noon."));
    fixture.say(other, call("c", "grep"));
    let result = fixture.say(other, Message::tool_result("c", "zebra in a result"));
    // More instructions with the word than one page of hits holds, all of them later.
    for n in 0..120 {
        fixture.say(other, Message::system(format!("zebra rule {n}")));
    }
    let answer = fixture.json("search_sessions", json!({"query": "zebra"}));
    let results = answer["results"].as_array().unwrap();
    let found: Vec<_> = results.iter().map(|found| found["seq"].as_u64().unwrap()).collect();
    assert_eq!(found, [result]);
    let answer = fixture.run("recall", json!({"ref": format!("{other}:{rules}")}));
    assert_eq!(answer, format!("error: entry {rules} holds the instructions of that session"));
    // Its own are in the context anyway.
    let own = fixture.say(fixture.tool_context.session, Message::system("Be kind."));
    assert_eq!(fixture.run("recall", json!({"ref": own})), "Be kind.");
}

#[test]
fn what_people_said_comes_before_what_tools_answered_and_limits_hold() {
    let fixture = Fixture::new();
    let other = fixture.named("tools");
    fixture.say(other, call("c", "grep"));
    fixture.say(other, Message::tool_result("c", "zebra in a result"));
    for n in 0..25 {
        fixture.say(other, Message::user(format!("zebra {n}")));
    }
    for (limit, given) in [(19, 19), (20, 20), (21, 20)] {
        let answer = fixture.json("search_sessions", json!({"query": "zebra", "limit": limit}));
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), given);
        assert!(results.iter().all(|result| result["role"] == "user"));
    }
}

#[test]
fn a_call_is_found_under_the_name_the_view_gave_it() {
    let fixture = Fixture::new();
    let session = fixture.tool_context.session;
    fixture.say(session, Message::user("q"));
    for text in ["first", "second"] {
        // Some models restart the numbers of their calls in every reply.
        fixture.say(session, call("0", "grep"));
        fixture.say(session, Message::tool_result("0", text));
    }
    let model = rethread_core::context::Model::new("openai", "gpt-5");
    let policy = rethread_core::context::Policy::chat();
    let context = fixture.tool_context.sessions.context(session, &policy, &model).unwrap();
    let renamed = context.messages.iter().flat_map(|message| message.calls()).last().unwrap();
    assert_ne!(renamed.id, "0");
    assert_eq!(fixture.run("recall", json!({"ref": renamed.id})), "second");
}
