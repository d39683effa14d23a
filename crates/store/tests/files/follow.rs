//! What the files say, and when they follow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread_core::entry::Summarized;
use rethread_core::message::Usage;
use rethread_core::store::{At, LeaseChange};
use rethread_core::{
    Body, EntryId, Incoming, Message, Name, New, NewEntry, Owner, SessionKind, Sessions,
};
use rethread_store::{System, connect};

use crate::fixture::{Fixture, add, all, named, now, say, texts, tool_round};

/// Waits until a file says this much.
fn wait_for(fixture: &Fixture, file: &str, messages: usize) -> serde_json::Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = std::fs::read_to_string(fixture.path().join(file)).unwrap_or_default();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        if json["messages"].as_array().is_some_and(|said| said.len() == messages) {
            return json;
        }
        assert!(Instant::now() < deadline, "{file} does not follow: {text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_file_appears_after_the_question_and_after_tool_results_while_the_turn_runs() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &[]);
    let lease = LeaseChange::Take { holder: "me".into(), ttl: Duration::from_secs(300) };
    let at = At { lease, ..At::END };
    sessions.append_at(id, at, vec![Message::user("where?").into()]).expect("appended");
    let shown = wait_for(&fixture, "plan.json", 1);
    assert_eq!(shown["messages"][0]["content"], "where?");
    let fence = At { fence: Some(1), ..At::END };
    let round: Vec<Incoming> = tool_round().into_iter().take(2).collect();
    sessions.append_at(id, fence, round).expect("appended");
    let shown = wait_for(&fixture, "plan.json", 3);
    assert_eq!(shown["messages"][2]["content"], "found it");
    // As another process sees it, should this one die now.
    assert_eq!(fixture.seed2(&["check"]), "");
    assert_eq!(fixture.seed2(&["last"]), "plan");
}

#[test]
fn a_session_whose_file_is_renamed_or_moved_during_a_turn_stays_one_session() {
    for (command, to) in
        [(&["rename", "plan", "scheme"][..], "scheme.json"), (&[], "archive/plan.json")]
    {
        let fixture = Fixture::new();
        let sessions = fixture.sessions();
        let id = say(&sessions, "plan", &["one", "two"]);
        let lease = LeaseChange::Take { holder: "me".into(), ttl: Duration::from_secs(300) };
        let at = At { lease, ..At::END };
        sessions.append_at(id, at, vec![Message::user("where?").into()]).expect("appended");
        wait_for(&fixture, "plan.json", 3);
        let path = fixture.path().join(to);
        if command.is_empty() {
            std::fs::create_dir(fixture.path().join("archive")).expect("a folder");
            std::fs::rename(fixture.path().join("plan.json"), &path).expect("moved");
        } else {
            fixture.seed2(command);
        }
        let others = fixture.sessions();
        assert_eq!(all(&others).len(), 1, "{to}: no second session");
        drop(others);
        let at = At { fence: Some(1), lease: LeaseChange::GiveBack, ..At::END };
        sessions.append_at(id, at, vec![Message::assistant("there").into()]).expect("appended");
        wait_for(&fixture, to, 4);
        let listed = all(&sessions);
        assert_eq!(listed.iter().map(|it| it.id()).collect::<Vec<_>>(), [id], "{to}");
        assert_eq!(texts(&sessions, id), ["one", "two", "where?", "there"]);
        assert!(!fixture.path().join("plan.json").exists(), "{to}");
    }
}

#[test]
fn the_summary_in_the_file_is_ours_until_something_is_said_after_it() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one", "two"]);
    let (by, usage) = ("extractive".to_owned(), Usage::default());
    let body = Body::Summary(Summarized { text: "ours".into(), by, usage });
    let summary = NewEntry::new(EntryId::new("summary").expect("an id"), now(), body);
    fixture.store().append(&Owner::local(), id, At::END, &[summary]).expect("appended");
    drop(sessions);
    assert_eq!(fixture.json("plan.json")["contextSummary"], "ours");
    add(&fixture.sessions(), id, &["three"]);
    let shown = fixture.json("plan.json");
    let shown = shown["contextSummary"].as_str().expect("a text");
    assert!(shown.contains("Total messages: 3 (2 from user, 1 from assistant)"), "{shown}");
}

#[test]
fn the_file_says_who_answered_last_if_a_later_reply_does_not() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["question"]);
    let used = |model: Option<&str>| {
        let reply = Message { model: model.map(Into::into), ..Message::assistant("there") };
        let sessions = fixture.sessions();
        sessions.append(id, vec![reply.into()]).expect("appended");
        drop(sessions);
        let shown = fixture.json("plan.json")["metadata"].clone();
        [&shown["provider"], &shown["model"]].map(|it| it.as_str().expect("a text").to_owned())
    };
    assert_eq!(used(None), ["unknown", "unknown"]);
    assert_eq!(used(Some("acme/one")), ["acme", "one"]);
    assert_eq!(used(None), ["acme", "one"]);
    assert_eq!(used(Some("two")), ["unknown", "two"]);
    // Another program asked another model, and was not answered yet.
    let mut file = fixture.json("plan.json");
    let said = file["messages"].as_array_mut().expect("a list");
    said.push(serde_json::json!({"role": "user", "content": "and now?"}));
    (file["metadata"]["provider"], file["metadata"]["model"]) = ("x".into(), "y".into());
    std::fs::write(fixture.path().join("plan.json"), file.to_string()).expect("written");
    let sessions = fixture.sessions();
    add(&sessions, id, &["hello?"]);
    drop(sessions);
    let shown = fixture.json("plan.json")["metadata"].clone();
    assert_eq!((&shown["provider"], &shown["model"]), (&"x".into(), &"y".into()));
    assert_eq!(used(Some("acme/three")), ["acme", "three"]);
}

#[test]
fn the_file_says_who_answered_last_and_what_there_is_to_resume() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["where is\nthe key?"]);
    drop(sessions);
    let shown = fixture.json("plan.json");
    assert_eq!(shown["metadata"]["provider"], "unknown");
    let summary = shown["contextSummary"].as_str().expect("a text");
    assert!(
        summary.starts_with("You are resuming a previous conversation session.\nSession: plan\n")
    );
    assert!(summary.contains("Total messages: 1 (1 from user, 0 from assistant)"), "{summary}");
    assert!(summary.contains("First topic: where is the key?"), "{summary}");
    let sessions = fixture.sessions();
    for model in ["acme/one", "other/two"] {
        let reply = Message { model: Some(model.into()), ..Message::assistant("there") };
        sessions.append(id, vec![reply.into()]).expect("appended");
    }
    drop(sessions);
    let shown = fixture.json("plan.json");
    let used = (&shown["metadata"]["provider"], &shown["metadata"]["model"]);
    assert_eq!(used, (&"other".into(), &"two".into()));
    let summary = shown["contextSummary"].as_str().expect("a text");
    assert!(summary.contains("Total messages: 3 (1 from user, 2 from assistant)"), "{summary}");
    assert_eq!(fixture.seed2(&["check"]), "");
}

#[test]
fn what_another_program_wrote_is_imported_under_its_own_id_and_name() {
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.path()).expect("the directory");
    let text = "\u{feff}{\"metadata\":{\"id\":\"Its_Own\",\"name\":\"My Plan, 2nd\"},\"messages\":\
                [{\"role\":\"user\",\"content\":\"hello\"}]}";
    std::fs::write(fixture.path().join("Its_Own.json"), text).expect("written");
    let sessions = fixture.sessions();
    let session = all(&sessions).remove(0);
    assert_eq!(texts(&sessions, session.id()), ["hello"], "a byte order mark does no harm");
    assert_eq!(session.header.imported.as_deref(), Some("files"), "its tools are off");
    assert_eq!(session.shown_name(), "My Plan, 2nd");
    assert_eq!(session.shown_id(), "Its_Own");
    let shown = serde_json::to_value(&session).expect("JSON");
    assert_eq!(
        (&shown["name"], &shown["readable_id"]),
        (&"My Plan, 2nd".into(), &"Its_Own".into())
    );

    // Ours are imported once another program has a say in them.
    let ours = say(&sessions, "ours", &["one", "two"]);
    drop(sessions);
    assert_eq!(fixture.sessions().get(ours).expect("there").header.imported, None);
    fixture.seed2(&["continue", "ours", "and you there"]);
    let imported = fixture.sessions().get(ours).expect("there").header.imported;
    assert_eq!(imported.as_deref(), Some("files"));
}

#[test]
fn only_chats_count_towards_the_limit_and_are_pushed_out() {
    let fixture = Fixture::new();
    let url = format!("{}?max_sessions=2", fixture.url());
    let store = connect(&url, Arc::new(System)).expect("a store");
    let sessions = Sessions::new(store, Owner::local(), Arc::new(System));
    let make = |name: &str, kind: SessionKind| {
        let name = Some(Name::new(name).expect("a name"));
        let id =
            sessions.create(&New { name, kind, ..New::default() }, None).expect("created").id();
        // Children are put away from the start.
        sessions.unarchive(id).expect("brought back");
    };
    let active = || -> Vec<String> {
        let mut names: Vec<String> = all(&sessions)
            .into_iter()
            .filter(|session| !session.header.archived)
            .map(|session| session.header.name.to_string())
            .collect();
        names.sort();
        names
    };
    make("imported", SessionKind::Imported);
    make("chat-1", SessionKind::Chat);
    make("chat-2", SessionKind::Chat);
    make("recorded", SessionKind::Recorded);
    make("child", SessionKind::Subagent);
    let five = ["chat-1", "chat-2", "child", "imported", "recorded"];
    assert_eq!(active(), five);
    make("chat-3", SessionKind::Chat);
    assert_eq!(active(), ["chat-2", "chat-3", "child", "imported", "recorded"]);
}

#[test]
fn nobody_waits_while_the_files_are_written() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["one"]);
    wait_for(&fixture, "plan.json", 1);
    let lock = std::fs::File::options().write(true).open(fixture.path().join(".rethread/lock"));
    let lock = lock.expect("the lock");
    lock.lock().expect("another process has it");
    let began = Instant::now();
    for number in 0..20 {
        add(&sessions, id, &[&format!("more {number}")]);
        assert_eq!(sessions.get(id).expect("there").tally.messages, number + 2);
        assert_eq!(named(&sessions, "plan"), id);
        assert_eq!(sessions.search("more", 0, 99).expect("searched").len() as u64, number + 1);
    }
    // One of these calls used to wait for 20 seconds.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    drop(lock);
    drop(sessions);
    assert_eq!(fixture.json("plan.json")["messages"].as_array().map(Vec::len), Some(21));
}

#[test]
fn a_name_that_cannot_be_ours_and_an_id_with_capitals_are_shown_as_they_are() {
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.path()).expect("the directory");
    let write = |id: &str, name: &str| {
        let text = serde_json::json!({
            "metadata": {"id": id, "name": name},
            "messages": [{"role": "user", "content": format!("in {id}")}],
        });
        std::fs::write(fixture.path().join(format!("{id}.json")), text.to_string()).expect(id);
    };
    let long = "n".repeat(300);
    let theirs = [
        ("2025-01-04-14-32-15-001-AbCd", "Fix: Auth / JWT (v2)"),
        ("2025-01-04-14-32-15-002-XyZ_", long.as_str()),
        ("first", "Same"),
        ("second", "same"),
    ];
    theirs.iter().for_each(|(id, name)| write(id, name));
    let sessions = fixture.sessions();
    let mut shown: Vec<String> =
        all(&sessions).iter().map(|session| session.shown_name()).collect();
    shown.sort();
    assert_eq!(shown, [theirs[0].1, "Same", long.as_str(), "same"]);
    for (id, name) in theirs {
        for selector in [id, name] {
            let found = sessions.select(selector).expect(selector);
            assert_eq!(texts(&sessions, found), [format!("in {id}")], "{selector}");
            let session = sessions.get(found).expect("there");
            assert_eq!(session.title().as_deref(), Some(name));
            assert_eq!((session.shown_name().as_str(), session.shown_id().as_str()), (name, id));
        }
    }
    // Elsewhere it is a title, and what it is renamed to there is its name when it comes back.
    let id = sessions.select("Fix: Auth / JWT (v2)").expect("there");
    let folder = tempfile::tempdir().expect("a folder");
    let open = |url: String| {
        let store = connect(&url, Arc::new(System)).expect("a store");
        Sessions::new(store, Owner::local(), Arc::new(System))
    };
    let there = open(format!("sqlite:{}", folder.path().join("a.db").display()));
    sessions.copy_to(id, &there, |_| {}).expect("copied");
    assert_eq!(there.get(id).expect("there").title().as_deref(), Some("Fix: Auth / JWT (v2)"));
    there.rename(id, &Name::new("Plan C").expect("a name")).expect("renamed");
    let back = open(format!("files:{}", folder.path().join("back").display()));
    there.copy_to(id, &back, |_| {}).expect("copied");
    drop(back);
    assert!(folder.path().join("back/plan-c.json").exists());
    // What was renamed here is called that, in the file as well.
    let id = sessions.select("first").expect("there");
    sessions.rename(id, &Name::new("Plan B").expect("a name")).expect("renamed");
    let id = sessions.select(theirs[0].0).expect("there");
    sessions.rename(id, &Name::new("Plan A").expect("a name")).expect("renamed");
    assert_eq!(sessions.get(id).expect("there").shown_name(), "Plan A");
    drop(sessions);
    assert_eq!(fixture.json("plan-a.json")["metadata"]["name"], "Plan A");
    assert_eq!(fixture.json("plan-b.json")["metadata"]["id"], "plan-b");
    assert!(!fixture.path().join(format!("{}.json", theirs[0].0)).exists());
}

#[test]
fn what_another_program_wrote_and_what_was_imported_neither_counts_nor_goes() {
    let fixture = Fixture::new();
    for name in ["their-1", "their-2", "their-3"] {
        fixture.seed2(&["save", name, "hello", "hi"]);
    }
    let url = format!("{}?max_sessions=2", fixture.url());
    let store = connect(&url, Arc::new(System)).expect("a store");
    let sessions = Sessions::new(store.clone(), Owner::local(), Arc::new(System));
    say(&sessions, "one", &["hello"]);
    say(&sessions, "two", &["hello"]);
    let id = rethread_core::SessionId(rethread_core::World::uuid(&System));
    let mut header = rethread_core::Header::new(id, Owner::local(), crate::fixture::now());
    header.imported = Some("rethread".into());
    store.create(&header, &[], &[]).expect("created");
    let away = || -> Vec<String> {
        let archived = all(&sessions).into_iter().filter(|session| session.header.archived);
        archived.map(|session| session.shown_name()).collect()
    };
    assert_eq!(away(), [""; 0]);
    say(&sessions, "three", &["hello"]);
    assert_eq!(away(), ["one"]);
}

/// Writes a session as another program does.
fn write_theirs(fixture: &Fixture, id: &str, name: &str, said: &[&str]) {
    std::fs::create_dir_all(fixture.path()).expect("the directory");
    let roles = ["user", "assistant"].into_iter().cycle();
    let messages: Vec<_> = said
        .iter()
        .zip(roles)
        .map(|(text, role)| serde_json::json!({"role": role, "content": text}))
        .collect();
    let text = serde_json::json!({
        "metadata": {"id": id, "name": name, "createdAt": "2025-01-04T14:32:15.001Z"},
        "messages": messages,
    });
    std::fs::write(fixture.path().join(format!("{id}.json")), text.to_string()).expect(id);
}

#[test]
fn a_session_that_another_program_moves_is_found_by_its_new_id_and_keeps_its_name() {
    for by_hand in [false, true] {
        let fixture = Fixture::new();
        write_theirs(&fixture, "Parts", "Spare Parts", &["one", "two"]);
        let id = fixture.sessions().select("Parts").expect("there");
        match by_hand {
            // The file still contains its old id.
            true => std::fs::rename(
                fixture.path().join("Parts.json"),
                fixture.path().join("Moved-Id.json"),
            )
            .expect("moved"),
            false => {
                std::fs::remove_file(fixture.path().join("Parts.json")).expect("removed");
                write_theirs(&fixture, "Moved-Id", "Spare Parts", &["one", "two"]);
            }
        }
        for _ in 0..2 {
            let sessions = fixture.sessions();
            assert_eq!(sessions.select("Moved-Id").expect("by its new id"), id);
            assert!(sessions.select("Parts").is_err());
            let session = sessions.get(id).expect("there");
            let shown = (session.shown_id(), session.shown_name());
            assert_eq!(shown, ("Moved-Id".into(), "Spare Parts".into()), "by hand: {by_hand}");
        }
        assert_eq!(fixture.json("Moved-Id.json")["metadata"]["name"], "Spare Parts");
    }
}

#[test]
fn the_id_of_a_file_leads_to_the_conversation_in_it_after_an_earlier_message_was_changed() {
    let fixture = Fixture::new();
    write_theirs(&fixture, "EditMe", "Edit Me", &["one", "two", "three"]);
    let before = fixture.sessions().select("EditMe").expect("there");
    write_theirs(&fixture, "EditMe", "Edit Me", &["one, changed", "two", "three"]);
    for _ in 0..2 {
        let sessions = fixture.sessions();
        let id = sessions.select("EditMe").expect("there");
        assert_ne!(id, before);
        assert_eq!(texts(&sessions, id), ["one, changed", "two", "three"]);
        assert_eq!(sessions.get(id).expect("there").shown_id(), "EditMe");
        assert_eq!(texts(&sessions, before), ["one", "two", "three"], "nothing is lost");
    }
}

#[test]
fn renaming_or_archiving_a_session_does_not_make_it_the_last_one() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    say(&sessions, "plan", &["one"]);
    let [other, third] = ["other", "third"].map(|name| say(&sessions, name, &["two"]));
    drop(sessions);
    std::fs::write(fixture.path().join("last_session"), "plan").expect("written");
    let sessions = fixture.sessions();
    sessions.rename(other, &Name::new("Renamed").expect("a name")).expect("renamed");
    sessions.archive(third).expect("archived");
    drop(sessions);
    assert_eq!(fixture.seed2(&["last"]), "plan");
    let sessions = fixture.sessions();
    add(&sessions, other, &["three"]);
    drop(sessions);
    assert_eq!(fixture.seed2(&["last"]), "renamed");
}

#[test]
fn the_file_says_who_answered_last_even_if_another_program_asked() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "plan", &["question"]);
    let mut answer = Message::assistant("answer");
    answer.model = Some("anthropic/claude".into());
    sessions.append(id, vec![answer.into()]).expect("appended");
    drop(sessions);
    let mut file = fixture.json("plan.json");
    assert_eq!(file["metadata"]["model"], "claude");
    let said = file["messages"].as_array_mut().expect("a list");
    said.push(serde_json::json!({"role": "user", "content": "and now?"}));
    said.push(serde_json::json!({"role": "assistant", "content": "now me"}));
    file["metadata"]["provider"] = "openai".into();
    file["metadata"]["model"] = "gpt".into();
    std::fs::write(fixture.path().join("plan.json"), file.to_string()).expect("written");
    add(&fixture.sessions(), id, &["thanks"]);
    let file = fixture.json("plan.json");
    assert_eq!(file["messages"].as_array().map(Vec::len), Some(5));
    assert_eq!(file["metadata"]["provider"], "openai");
    assert_eq!(file["metadata"]["model"], "gpt");
}

#[test]
fn a_session_is_found_by_the_id_of_its_file() {
    // Without our folder, the file is all there is.
    let fixture = Fixture::new();
    write_theirs(&fixture, "Foo", "Foo Bar", &["one", "two"]);
    let sessions = fixture.sessions();
    let id = sessions.select("Foo").expect("there");
    add(&sessions, id, &["three"]);
    drop(sessions);
    std::fs::remove_dir_all(fixture.path().join(".rethread")).expect("removed");
    assert_eq!(fixture.sessions().select("Foo").expect("there"), id);
    // Another program gave it one.
    say(&fixture.sessions(), "Keep Me", &["one"]);
    let mut file = fixture.json("keep-me.json");
    file["metadata"]["id"] = "kept-2".into();
    std::fs::write(fixture.path().join("kept-2.json"), file.to_string()).expect("written");
    std::fs::remove_file(fixture.path().join("keep-me.json")).expect("removed");
    let sessions = fixture.sessions();
    let id = sessions.select("kept-2").expect("there");
    assert_eq!(sessions.get(id).expect("there").shown_name(), "Keep Me");
}

#[test]
fn a_file_that_is_renamed_by_hand_keeps_the_name_it_shows_unless_that_was_its_id() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let ids = ["My Session", "plan"].map(|name| say(&sessions, name, &["one"]));
    drop(sessions);
    for (from, to) in [("my-session.json", "y.json"), ("plan.json", "z.json")] {
        std::fs::rename(fixture.path().join(from), fixture.path().join(to)).expect("renamed");
    }
    for _ in 0..2 {
        let sessions = fixture.sessions();
        let names = ids.map(|id| sessions.get(id).expect("there").shown_name().to_string());
        assert_eq!(names, ["My Session", "z"]);
        assert_eq!(sessions.select("y").expect("there"), ids[0]);
    }
}

#[test]
fn a_fork_that_is_renamed_by_hand_is_the_same_session() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let first = say(&sessions, "plan", &["one", "two"]);
    drop(sessions);
    let text = std::fs::read_to_string(fixture.path().join("plan.json")).expect("its file");
    let changed = text.replace("\"one\"", "\"1\"");
    std::fs::write(fixture.path().join("plan.json"), changed).expect("written");
    let fork = fixture.sessions().select("plan").expect("there");
    assert_ne!(fork, first);
    std::fs::rename(fixture.path().join("plan.json"), fixture.path().join("moved.json"))
        .expect("renamed");
    let sessions = fixture.sessions();
    assert_eq!(sessions.select("moved").expect("there"), fork);
    assert_eq!(all(&sessions).len(), 2, "nothing is in the trash");
}

#[test]
fn two_sessions_never_have_the_same_id_after_one_was_in_the_trash() {
    let fixture = Fixture::new();
    write_theirs(&fixture, "Twin", "One", &["one"]);
    let sessions = fixture.sessions();
    let one = sessions.select("Twin").expect("there");
    sessions.trash(one).expect("in the trash");
    drop(sessions);
    write_theirs(&fixture, "Twin", "Two", &["two"]);
    let sessions = fixture.sessions();
    let two = sessions.select("Twin").expect("there");
    assert_ne!(one, two);
    sessions.restore_from_trash(one).expect("restored");
    drop(sessions);
    let sessions = fixture.sessions();
    let id = |session| sessions.get(session).expect("there").shown_id();
    assert_eq!(id(two), "Twin");
    assert_ne!(id(one), "Twin");
    assert_eq!(sessions.select(&id(one)).expect("by its id"), one);
    assert_eq!(sessions.select("Twin").expect("by its id"), two);
}
