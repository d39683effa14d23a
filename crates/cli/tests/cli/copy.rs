//! Sessions in a directory of files, and copying between stores.

use crate::home::{Home, WITH_TOOL};
use serde_json::Value;

/// What `show` prints for a session in a store.
fn entries(home: &Home, store: &str, name: &str) -> Value {
    home.json(&["show", name, "--all", "--store", store])["entries"].clone()
}

#[test]
fn a_directory_of_files_is_a_store_like_any_other() {
    let home = Home::new();
    let files = "files:sessions";
    let new = ["append", "--new", "--name", "plan", "--store", files];
    let said = home.feed(&new, WITH_TOOL.join("\n"));
    assert_eq!(said.seqs(), [0, 1, 2, 3], "{said:?}");
    let listed = home.json(&["list", "--store", files]);
    assert_eq!(listed["sessions"][0]["name"], "plan");
    assert_eq!(listed["sessions"][0]["messages"], 4);
    let found = home.run(&["search", "Emacs", "--store", files]);
    assert!(found.out.contains("Emacs Lisp"), "{found:?}");
    for args in [
        &["rename", "plan", "scheme"][..],
        &["fork", "scheme"],
        &["clear", "scheme"],
        &["undo", "scheme"],
        &["archive", "scheme-fork"],
        &["unarchive", "scheme-fork"],
        &["stats", "scheme"],
        &["context", "scheme"],
        &["doctor"],
        &["delete", "scheme-fork", "--yes"],
        &["purge", "--keep", "1"],
    ] {
        let said = home.run(&[args, &["--store", files]].concat());
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
    }
    let names: Vec<String> = std::fs::read_dir(home.path().join("sessions"))
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".json"))
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let file = std::fs::read_to_string(home.path().join("sessions/scheme.json")).expect("a file");
    let file: Value = serde_json::from_str(&file).expect("JSON");
    assert_eq!(file["messages"][0]["content"], "Find all .el files");
    let said = home.run(&["list", "--store", "files:sessions?max=3"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("`max=3` is not an option of a store"), "{}", said.err);
    assert!(said.err.contains("hint: options are `files:DIR"), "{}", said.err);
    let said = home.feed(&[&new[..], &["--owner", "ada"]].concat(), WITH_TOOL[0]);
    assert_eq!(said.code, 0, "{said:?}");
    let mine = home.json(&["list", "--store", files, "--owner", "ada"]);
    assert_eq!(mine["sessions"].as_array().map(Vec::len), Some(1), "{mine}");
}

#[test]
fn copy_there_and_back_gives_the_same_entries() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    home.session("other", &[r#"{"role":"user","content":"hello","id":"tg:1"}"#]);
    let (db, files) = (home.store().display().to_string(), "files:sessions");
    let copied = home.json(&["copy", "--to", files]);
    assert_eq!(copied["sessions"].as_array().map(Vec::len), Some(2));
    assert_eq!(copied["added"], 5);
    let said = home.run(&["copy", "--from", &db, "--to", files]);
    assert_eq!((said.code, said.out.as_str()), (0, "2 sessions compared, 0 entries copied.\n"));
    for name in ["plan", "other"] {
        assert_eq!(entries(&home, files, name), entries(&home, &db, name));
    }
    let back = home.json(&["copy", "--from", files, "--to", "back.db", "plan"]);
    assert_eq!(back["sessions"][0]["added"], 4);
    assert_eq!(entries(&home, "back.db", "plan"), entries(&home, &db, "plan"));
    let id = |store: &str| home.json(&["show", "plan", "--store", store])["session"]["id"].clone();
    assert_eq!(id("back.db"), id(&db), "ids stay");
}

#[test]
fn copy_takes_what_is_missing_and_reports_when_both_sides_continued() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    home.json(&["copy", "--to", "files:sessions", "plan"]);
    let more = r#"{"role":"user","content":"more"}"#;
    home.feed(&["append", "plan"], more);
    assert_eq!(home.json(&["copy", "--to", "files:sessions", "plan"])["added"], 1);
    home.feed(&["append", "plan"], r#"{"role":"user","content":"here"}"#);
    home.feed(&["append", "plan", "--store", "files:sessions"], more);
    let said = home.run(&["copy", "--to", "files:sessions"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("exists already, and differs from entry 5 on"), "{}", said.err);
}

#[test]
fn a_copy_puts_nothing_away_and_a_session_that_differs_stops_no_other() {
    let home = Home::new();
    let lines: Vec<String> = (0..60).map(|i| format!("s{i}")).collect();
    for name in &lines {
        home.session(name, &[r#"{"role":"user","content":"hello"}"#]);
    }
    let said = home.run(&["copy", "--to", "files:there"]);
    assert_eq!(said.code, 0, "{said:?}");
    let kept = std::fs::read_dir(home.path().join("there")).expect("there").count();
    assert_eq!(kept, 60 + 3, "60 files, the index, last_session and .rethread");
    assert!(!home.path().join("there/archive").exists());

    // One of them was continued in both stores; the others are still copied.
    let hello = r#"{"role":"user","content":"here"}"#;
    home.feed(&["append", "s7"], hello);
    home.feed(&["append", "s7", "--store", "files:there?max_sessions=0"], hello);
    home.feed(&["append", "s8"], hello);
    let said = home.run(&["copy", "--to", "files:there"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("s7 was not copied"), "{said:?}");
    let there = home.json(&["show", "s8", "--store", "files:there?max_sessions=0"]);
    assert_eq!(there["entries"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_store_to_copy_from_is_not_made() {
    let home = Home::new();
    for from in ["sqlite:typo.db", "files:typo", "typo.db"] {
        let said = home.run(&["copy", "--from", from, "--to", "files:there"]);
        assert_eq!(said.code, 2, "{from}: {said:?}");
        assert!(said.err.contains("nothing found at typo"), "{said:?}");
        assert!(!home.path().join("typo").exists() && !home.path().join("typo.db").exists());
    }
}

#[test]
fn a_session_of_another_program_is_named_by_its_file_and_copied_with_all_it_says() {
    let home = Home::new();
    let theirs = home.path().join("theirs");
    std::fs::create_dir(&theirs).expect("a folder");
    let id = "2025-01-02-03-04-05-006-aB_9";
    let at = "2025-01-02T03:04:05.006Z";
    let text = format!(
        r#"{{"metadata":{{"id":"{id}","name":"My Plan!","createdAt":"{at}","lastActivityAt":"{at}","messageCount":1,"firstMessage":"hi","provider":"p","model":"m","stars":5}},"messages":[{{"role":"user","content":"hi","id":"1","timestamp":"{at}"}}],"tags":["a"]}}"#
    );
    std::fs::write(theirs.join(format!("{id}.json")), text).expect("written");
    let from = ["--store", "files:theirs"];
    for args in [&["show", id][..], &["show", "My Plan!"], &["stats", id], &["open", id]] {
        let said = home.run(&[args, &from[..]].concat());
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
    }
    for to in ["files:there", "there.db"] {
        let copied = home.json(&["copy", "--from", "files:theirs", "--to", to, id]);
        assert_eq!(copied["sessions"][0]["added"], 1);
        assert_eq!(copied["sessions"][0]["left_behind"], serde_json::json!([]));
    }
    let said = home.run(&["show", id, "--store", "there.db"]);
    assert_eq!(said.code, 0, "its id is known there as well: {said:?}");
    // Also through an export and an import.
    let lines = home.run(&["export", id, "--format", "rethread", "--store", "there.db"]).out;
    std::fs::write(home.path().join("lines.jsonl"), lines).expect("written");
    assert_eq!(home.run(&["import", "lines.jsonl", "--store", "files:again"]).code, 0);
    let again = std::fs::read_to_string(home.path().join(format!("again/{id}.json")));
    let again: Value = serde_json::from_str(&again.expect("called as before")).expect("JSON");
    assert_eq!(again["metadata"]["name"], "My Plan!");
    assert_eq!((&again["metadata"]["stars"], &again["tags"][0]), (&5.into(), &"a".into()));
    let there = std::fs::read_to_string(home.path().join(format!("there/{id}.json")));
    let there: Value = serde_json::from_str(&there.expect("called as before")).expect("JSON");
    assert_eq!(there["metadata"]["name"], "My Plan!");
    assert_eq!(there["metadata"]["stars"], 5);
    assert_eq!(there["tags"][0], "a");

    // If the file name is taken, it gets another one, which is reported.
    let again = home.run(&["copy", "--from", "files:there", "--to", "files:theirs", id]);
    assert_eq!(again.code, 0, "{again:?}");
    std::fs::create_dir(home.path().join("taken")).expect("a folder");
    std::fs::write(home.path().join(format!("taken/{id}.json")), "{}").expect("written");
    let said = home.run(&["copy", "--from", "files:theirs", "--to", "files:taken"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("these fields could not be preserved: metadata.id"), "{said:?}");
}

#[test]
fn copying_says_that_it_creates_a_store_and_creates_none_for_nothing() {
    let home = Home::new();
    let there = home.path().join("no2");
    home.session("plan", &WITH_TOOL);
    assert_eq!(home.run(&["delete", "plan"]).code, 0);
    let said = home.run(&["copy", "--to", "no2/y.db"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.starts_with("No store at ") && said.err.contains("nothing was created"));
    assert!(!there.exists(), "{said:?}");
    assert_eq!(home.run(&["undo"]).code, 0);
    assert_eq!(home.run(&["copy", "nobody", "--to", "no2/y.db"]).code, 1);
    assert!(!there.exists(), "a mistyped session creates nothing");
    let said = home.run(&["copy", "--to", "no2/y.db"]);
    assert!(
        said.err.starts_with("Created the store ") && said.err.contains("no2/y.db"),
        "{said:?}"
    );
    assert_eq!(home.run(&["copy", "--to", "no2/y.db"]).err, "", "only the first time");
}
