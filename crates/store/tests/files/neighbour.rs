//! Another program on the same directory, in turns with us.

use rethread_core::entry::Summarized;
use rethread_core::message::Usage;
use rethread_core::store::At;
use rethread_core::{Body, EntryId, Key, NewEntry, Owner, Role};

use crate::fixture::{Fixture, add, all, findings, named, now, say, texts, tool_round};

#[test]
fn its_directory_opens_lists_and_continues() {
    let fixture = Fixture::new();
    let first = fixture.seed2(&["save", "", "where is the key?", "under the mat"]);
    fixture.seed2(&["save", "Rate Limiter", "which bucket?", "a token bucket", "why?", "bursts"]);
    let before = std::fs::read(fixture.path().join(format!("{first}.json"))).expect("its file");

    let sessions = fixture.sessions();
    let listed = all(&sessions);
    assert_eq!(listed.len(), 2);
    let limiter = named(&sessions, "rate-limiter");
    assert_eq!(listed[0].id(), limiter, "the newest first");
    assert_eq!(listed[0].header.profile.provider.as_deref(), Some("acme"));
    assert_eq!(listed[1].first_message, "where is the key?");
    assert_eq!(texts(&sessions, limiter), ["which bucket?", "a token bucket", "why?", "bursts"]);
    assert_eq!(sessions.search("mat", 0, 9).expect("searched").len(), 1);
    add(&sessions, limiter, &["how many?", "a hundred"]);
    drop(sessions);

    assert_eq!(fixture.seed2(&["check"]), "");
    let shown: serde_json::Value =
        serde_json::from_str(&fixture.seed2(&["show", "rate-limiter"])).expect("JSON");
    assert_eq!(shown["messages"][5]["content"], "a hundred");
    assert_eq!(shown["metadata"]["name"], "Rate Limiter", "its name for it is kept");
    assert_eq!(fixture.seed2(&["last"]), "rate-limiter");
    let after = std::fs::read(fixture.path().join(format!("{first}.json"))).expect("its file");
    assert_eq!(after, before, "what nobody continued is not written again");
}

#[test]
fn our_directory_satisfies_it() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "Ünïcode 🦀 plan", &["x".repeat(300).as_str(), "ok 🦀"]);
    sessions.append(id, tool_round()).expect("appended");
    say(&sessions, "empty", &[]);
    drop(sessions);
    assert_eq!(fixture.seed2(&["check"]), "");
    let shown: serde_json::Value =
        serde_json::from_str(&fixture.seed2(&["show", "n-code-plan"])).expect("JSON");
    let contents: Vec<&str> = shown["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .skip(1)
        .filter_map(|m| m["content"].as_str())
        .collect();
    assert_eq!(contents, ["ok 🦀", "[tool call: grep]", "found it", "It is in line 7."]);
}

#[test]
fn what_it_drops_stays_in_our_log_and_what_it_adds_is_new() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["where?"]);
    sessions.append(id, tool_round()).expect("appended");
    add(&sessions, id, &["thanks", "any time", "thanks", "any time"]);
    drop(sessions);
    fixture.seed2(&["continue", "plan", "one more thing", "yes?"]);

    let sessions = fixture.sessions();
    let said = texts(&sessions, id);
    let thanks = ["thanks", "any time", "thanks", "any time", "one more thing", "yes?"];
    assert_eq!(said[said.len() - 6..], thanks);
    let roles: Vec<Role> = sessions
        .read(id, 0..99)
        .expect("read")
        .iter()
        .filter_map(|entry| entry.body.message())
        .map(|message| message.role)
        .collect();
    assert_eq!(roles.iter().filter(|role| **role == Role::Tool).count(), 1, "it is whole");
    assert_eq!(all(&sessions).len(), 1);
    add(&sessions, id, &["and now?"]);
    drop(sessions);
    assert_eq!(fixture.seed2(&["check"]), "");
    assert_eq!(fixture.json("plan.json")["messages"].as_array().map(Vec::len), Some(11));
}

#[test]
fn a_hundred_messages_it_keeps_are_the_end_of_what_we_have() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let many: Vec<String> = (0..250).map(|number| format!("message {number}")).collect();
    let id = say(&sessions, "long", &many.iter().map(String::as_str).collect::<Vec<_>>());
    drop(sessions);
    for turn in 0..3 {
        fixture.seed2(&[
            "continue",
            "long",
            &format!("question {turn}"),
            &format!("answer {turn}"),
        ]);
        let sessions = fixture.sessions();
        assert_eq!(texts(&sessions, id).len(), 250 + 2 * (turn + 1));
        assert_eq!(all(&sessions).len(), 1);
    }
    let sessions = fixture.sessions();
    assert_eq!(texts(&sessions, id)[..250], many);
    assert_eq!(findings(&sessions), []);
}

#[test]
fn it_and_we_continue_at_once_and_neither_loses() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    drop(sessions);
    let sessions = fixture.sessions();
    add(&sessions, id, &["ours", "ours too"]);
    fixture.seed2(&["continue", "plan", "theirs", "theirs too"]);
    drop(sessions);
    let sessions = fixture.sessions();
    let expected = ["one", "two", "ours", "ours too", "theirs", "theirs too"];
    assert_eq!(texts(&sessions, id), expected);
    drop(sessions);
    assert_eq!(fixture.json("plan.json")["messages"].as_array().map(Vec::len), Some(6));
    assert_eq!(fixture.seed2(&["check"]), "");
}

#[test]
fn what_it_renames_is_the_same_session() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    let key = Key::new("file:plan.md").expect("a key");
    sessions.bind(&key, id).expect("bound");
    drop(sessions);
    fixture.seed2(&["rename", "plan", "Better Plan"]);
    let sessions = fixture.sessions();
    let listed = all(&sessions);
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id(), id, "its id stays");
    assert_eq!(listed[0].header.name.as_str(), "Better Plan");
    assert_eq!(listed[0].keys, [key]);
    assert_eq!(texts(&sessions, id), ["one", "two"]);
    drop(sessions);
    assert!(!fixture.path().join("plan.json").exists());
    assert_eq!(fixture.seed2(&["check"]), "");
}

#[test]
fn what_it_deletes_is_in_the_trash_and_comes_back_with_its_file() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    let key = Key::new("file:plan.md").expect("a key");
    sessions.bind(&key, id).expect("bound");
    let before = sessions.get(id).expect("there");
    say(&sessions, "other", &["three"]);
    drop(sessions);
    fixture.seed2(&["delete", "plan"]);
    for _ in 0..2 {
        let sessions = fixture.sessions();
        assert_eq!(all(&sessions).len(), 1);
        assert!(sessions.get(id).is_err());
        assert_eq!(sessions.search("one", 0, 9).expect("searched"), []);
        assert_eq!(sessions.resolve(&key).expect("resolved"), None);
        assert_eq!(sessions.trashed().expect("listed").len(), 1);
    }
    assert!(!fixture.path().join("plan.json").exists());
    assert_eq!(fixture.seed2(&["check"]), "");
    assert_eq!(fixture.seed2(&["last"]), "other");
    let sessions = fixture.sessions();
    assert_eq!(sessions.restore_from_trash(id).expect("restored"), before);
    drop(sessions);
    assert!(fixture.path().join("plan.json").exists());
    assert_eq!(fixture.seed2(&["check"]), "");
    assert_eq!(texts(&fixture.sessions(), id), ["one", "two"]);
}

#[test]
fn what_it_changes_further_in_front_is_a_fork_with_the_file_and_the_keys() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two", "three", "four"]);
    let key = Key::new("file:plan.md").expect("a key");
    sessions.bind(&key, id).expect("bound");
    drop(sessions);
    fixture.seed2(&["edit", "plan", "1", "TWO"]);
    let sessions = fixture.sessions();
    let fork = named(&sessions, "plan");
    assert_ne!(fork, id);
    assert_eq!(texts(&sessions, fork), ["one", "TWO", "three", "four"]);
    assert_eq!(texts(&sessions, id), ["one", "two", "three", "four"], "our log is whole");
    assert_eq!(sessions.resolve(&key).expect("resolved"), Some(fork));
    assert_eq!(sessions.get(id).expect("there").header.name.as_str(), "plan-2");
    drop(sessions);
    assert_eq!(fixture.seed2(&["check"]), "");
    assert_eq!(fixture.json("plan.json")["messages"][1]["content"], "TWO");
    assert_eq!(fixture.json("plan-2.json")["messages"][1]["content"], "two");
}

#[test]
fn half_an_emoji_is_carried_both_ways() {
    let fixture = Fixture::new();
    let crab = format!("{}🦀 and more", "x".repeat(199));
    let id = fixture.seed2(&["save", "crab", &crab, "half \u{1f980}"]);
    let text = std::fs::read_to_string(fixture.path().join("index.json")).expect("an index");
    assert!(text.contains("\\ud83e\""), "its preview ends in half a crab");
    let sessions = fixture.sessions();
    let session = named(&sessions, "crab");
    assert_eq!(texts(&sessions, session)[0], crab);
    add(&sessions, session, &["go on"]);
    assert_eq!(findings(&sessions), []);
    drop(sessions);
    assert_eq!(fixture.seed2(&["check"]), "");
    fixture.seed2(&["continue", &id, "and on"]);
    assert_eq!(texts(&fixture.sessions(), session).len(), 4);

    // Half an emoji in what was said: read as one unreadable character, written as it was.
    let file = fixture.path().join("lone.json");
    let lone = r#"{"metadata":{"id":"lone","name":"lone","createdAt":"2025-01-04T14:32:15.000Z","lastActivityAt":"2025-01-04T14:32:15.000Z","messageCount":1,"firstMessage":"cut \ud83d","provider":"","model":""},"messages":[{"role":"user","content":"cut \ud83d"}]}"#;
    std::fs::write(&file, lone).expect("written");
    let sessions = fixture.sessions();
    let id = named(&sessions, "lone");
    assert_eq!(texts(&sessions, id), ["cut \u{fffd}"]);
    add(&sessions, id, &["more"]);
    drop(sessions);
    let written = std::fs::read_to_string(&file).expect("its file");
    assert!(written.contains(r#""content":"cut \ud83d""#), "{written}");
    assert_eq!(texts(&fixture.sessions(), id), ["cut \u{fffd}", "more"]);
    assert_eq!(fixture.seed2(&["check"]), "");
}

/// Changes a file as another program does: reads it, changes it, writes it whole.
fn change(fixture: &Fixture, file: &str, change: impl FnOnce(&mut serde_json::Value)) {
    let mut json = fixture.json(file);
    change(&mut json);
    std::fs::write(fixture.path().join(file), json.to_string()).expect("written");
}

#[test]
fn its_summary_stays_until_there_is_a_newer_one() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    drop(sessions);
    change(&fixture, "plan.json", |json| json["contextSummary"] = "theirs".into());
    let sessions = fixture.sessions();
    add(&sessions, id, &["three"]);
    drop(sessions);
    assert_eq!(fixture.json("plan.json")["contextSummary"], "theirs");
    let (by, usage) = ("extractive".to_owned(), Usage::default());
    let body = Body::Summary(Summarized { text: "ours".into(), by, usage });
    let summary = NewEntry::new(EntryId::new("summary").expect("an id"), now(), body);
    fixture.store().append(&Owner::local(), id, At::END, &[summary]).expect("appended");
    assert_eq!(fixture.json("plan.json")["contextSummary"], "ours");
}

#[test]
fn when_it_was_last_active_is_what_either_of_us_says() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let first = say(&sessions, "first", &["one"]);
    let second = say(&sessions, "second", &["one"]);
    drop(sessions);
    let later = "2099-12-01T00:00:00.000Z";
    change(&fixture, "first.json", |json| json["metadata"]["lastActivityAt"] = later.into());
    let sessions = fixture.sessions();
    let listed: Vec<_> = all(&sessions).iter().map(|session| session.id()).collect();
    assert_eq!(listed, [first, second]);
    add(&sessions, first, &["two"]);
    drop(sessions);
    assert_eq!(fixture.json("first.json")["metadata"]["lastActivityAt"], later);
}

#[test]
fn its_sessions_are_found_by_the_ids_and_names_it_gives_them() {
    let fixture = Fixture::new();
    let at = now();
    let write = |id: &str, name: &str| {
        let text = format!(
            r#"{{"metadata":{{"id":"{id}","name":"{name}","createdAt":"{at}","lastActivityAt":"{at}","messageCount":1,"firstMessage":"{id}","provider":"p","model":"m"}},"messages":[{{"role":"user","content":"{id}","id":"1","timestamp":"{at}"}}]}}"#
        );
        std::fs::create_dir_all(fixture.path()).expect("the directory");
        std::fs::write(fixture.path().join(format!("{id}.json")), text).expect("written");
    };
    for (id, name) in [
        ("2025-01-02-03-04-05-006-aB_9", "Notes"),
        ("2025-01-02-03-04-05-006-ab_9", "notes of mine"),
        ("2025-01-02-03-04-05-007-A--B", "Twice"),
        ("2025-01-02-03-04-05-008-_x__", "Twice"),
        ("Old.Plan_2", "Old plan, 2nd"),
        ("AbC", "AbC"),
        ("abc", "abc"),
    ] {
        write(id, name);
    }
    let sessions = fixture.sessions();
    let said = |selector: &str| {
        let id = sessions.select(selector);
        id.map(|id| texts(&sessions, id).concat()).map_err(|error| error.to_string())
    };
    for id in [
        "2025-01-02-03-04-05-006-aB_9",
        "2025-01-02-03-04-05-006-ab_9",
        "2025-01-02-03-04-05-007-A--B",
        "2025-01-02-03-04-05-008-_x__",
        "Old.Plan_2",
        "AbC",
        "abc",
    ] {
        assert_eq!(said(id).as_deref(), Ok(id));
    }
    assert_eq!(said("Old plan, 2nd").as_deref(), Ok("Old.Plan_2"), "as it is shown");
    assert_eq!(said("NOTES").as_deref(), Ok("2025-01-02-03-04-05-006-aB_9"), "ours, in any case");
    assert_eq!(said("twice").as_deref(), Ok("2025-01-02-03-04-05-007-A--B"), "the name here");
    for wrong in ["Old.Plan", "2025-01-02-03-04-05-007-a--b", "Twice ,"] {
        assert!(said(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_it_says_goes_along_from_directory_to_directory_and_through_a_database() {
    let fixture = Fixture::new();
    let at = "2025-01-02T03:04:05.006Z";
    let id = "2025-01-02-03-04-05-006-aB_9";
    let text = format!(
        r#"{{"metadata":{{"id":"{id}","name":"My Plan!","createdAt":"{at}","lastActivityAt":"2025-01-02T04:00:00.000Z","messageCount":1,"firstMessage":"hi","provider":"p","model":"m","stars":5,"cut":"\ud83d"}},"messages":[{{"role":"user","content":"hi","id":"1","timestamp":"{at}"}}],"contextSummary":"it began","tags":["a",  1.50]}}"#
    );
    std::fs::create_dir_all(fixture.path()).expect("the directory");
    std::fs::write(fixture.path().join(format!("{id}.json")), text).expect("written");
    let folder = tempfile::tempdir().expect("a folder");
    let open = |url: &str| {
        let world = std::sync::Arc::new(rethread_store::System);
        let store = rethread_store::connect(url, world.clone()).expect("a store");
        rethread_core::Sessions::new(store, Owner::local(), world)
    };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (db, there) = (format!("sqlite:{}", path("a.db")), format!("files:{}", path("there")));
    let from = fixture.sessions();
    let session = all(&from).remove(0).id();
    let copied = from.copy_to(session, &open(&db), |_| {}).expect("copied");
    assert_eq!(copied.left_behind, [""; 0]);
    let copied = open(&db).copy_to(session, &open(&there), |_| {}).expect("copied");
    assert_eq!(copied.left_behind, [""; 0]);
    let file = std::fs::read_to_string(folder.path().join(format!("there/{id}.json")));
    let file = file.expect("called as before");
    for kept in [
        r#""name":"My Plan!""#,
        r#""stars":5"#,
        r#""cut":"\ud83d""#,
        r#""tags":["a",  1.50]"#,
        r#""contextSummary":"it began""#,
        r#""lastActivityAt":"2025-01-02T04:00:00.000Z""#,
    ] {
        assert!(file.contains(kept), "{kept} in {file}");
    }
    // Under another name in between, it is called by that.
    let other = Owner::new("other").expect("an owner");
    let through = open(&db);
    through
        .rename(session, &rethread_core::Name::new("renamed").expect("a name"))
        .expect("renamed");
    let elsewhere = open(&format!("files:{}", path("elsewhere"))).of_owner(other);
    through.copy_to(session, &elsewhere, |_| {}).expect("copied");
    assert_eq!(elsewhere.get(session).expect("there").header.name.as_str(), "renamed");

    // A place that has the session without them says what is missing there.
    let bare = rethread_core::Header {
        extra: Default::default(),
        ..from.get(session).expect("there").header
    };
    let store = rethread_store::connect(
        &format!("sqlite:{}", path("b.db")),
        std::sync::Arc::new(rethread_store::System),
    );
    store.expect("a store").create(&bare, &[], &[]).expect("created");
    let lost = from.copy_to(session, &open(&format!("sqlite:{}", path("b.db"))), |_| {});
    let lost = lost.expect("copied").left_behind;
    let all_of_it = [
        "metadata.id",
        "metadata.lastActivityAt",
        "metadata.stars",
        "metadata.cut",
        "tags",
        "contextSummary",
    ];
    assert_eq!(lost, all_of_it);
}

#[test]
fn what_it_said_to_an_earlier_version_goes_into_its_file_again() {
    let fixture = Fixture::new();
    let id = rethread_core::SessionId(rethread_core::World::uuid(&rethread_store::System));
    let header = rethread_core::Header::new(id, Owner::local(), now());
    let mut json = serde_json::to_value(&header).expect("JSON");
    json["foreign"] = serde_json::json!({
        "id": "Its_Own", "name": "Plan / B", "active_at": "2031-01-02T03:04:05.006Z",
        "kept": {
            "top": [["tags", ["a"]]], "metadata": [["stars", 5]], "summary": {"text": "it began"},
        },
    });
    let header: rethread_core::Header = serde_json::from_value(json).expect("a header");
    let store = fixture.store();
    store.create(&header, &[], &[]).expect("created");
    assert_eq!(store.get(&Owner::local(), id).expect("there").shown_name(), "Plan / B");
    drop(store);
    let file = fixture.json("Its_Own.json");
    assert_eq!(file["metadata"]["name"], "Plan / B");
    assert_eq!(file["metadata"]["lastActivityAt"], "2031-01-02T03:04:05.006Z");
    assert_eq!(file["metadata"]["stars"], 5);
    assert_eq!((&file["tags"][0], &file["contextSummary"]), (&"a".into(), &"it began".into()));
}
