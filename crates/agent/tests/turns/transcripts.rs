//! Transcripts on disk: their names, and the index that another program reads.

use std::fs;

use rethread_agent::scripted::Answer;
use serde_json::{Value, json};

use crate::bench::{Bench, run};

fn said(text: &str) -> Bench {
    let bench = Bench::new("openai", [Answer::text("Use a token bucket.")]);
    run(bench.turn(text)).expect("answered");
    bench
}

fn index(bench: &Bench) -> Value {
    let text = fs::read_to_string(bench.transcripts().join(".index.json")).expect("an index");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_index_lists_ours_newest_first_and_keeps_those_of_others() {
    let bench = said("How do we\nlimit the rate?");
    let folder = bench.transcripts();
    fs::create_dir_all(&folder).expect("a folder");
    let theirs = |id: &str, updated: &str| {
        json!({
            "session_id": id, "agent_name": "Sally", "agent_path": "/s.py",
            "created": updated, "last_updated": updated, "query_count": 1, "total_tokens": 2.5,
            "preview": "hi", "pinned": true,
        })
    };
    let (old, new) = (theirs("old", "2020-01-01T00:00:00"), theirs("new", "2999-01-01T00:00:00"));
    let before = json!({ "sessions": [old, new], "last_updated": "2020-01-01", "version": 3 });
    fs::write(folder.join(".index.json"), before.to_string()).expect("written");
    for _ in 0..2 {
        bench.runner.save_transcript(bench.session).expect("saved");
    }
    let index = index(&bench);
    let sessions = index["sessions"].as_array().expect("a list");
    let ids: Vec<&str> = sessions.iter().filter_map(|entry| entry["session_id"].as_str()).collect();
    let session = bench.handle.sessions().get(bench.session).expect("there");
    let shown = session.shown_id();
    assert_eq!(ids, ["new", shown.as_str(), "old"], "ours is there once");
    assert_eq!((&sessions[0], &sessions[2], &index["version"]), (&new, &old, &json!(3)));
    let ours = sessions[1].as_object().expect("an object");
    let fields = [
        "session_id",
        "agent_name",
        "agent_path",
        "created",
        "last_updated",
        "query_count",
        "total_tokens",
        "preview",
    ];
    assert_eq!(ours.keys().collect::<Vec<_>>(), fields);
    assert_eq!(ours["preview"], "How do we limit the rate?");
    assert_eq!((&ours["query_count"], &ours["total_tokens"]), (&json!(1), &json!(15)));
    let created = ours["created"].as_str().expect("a time");
    assert!(
        created.parse::<jiff::civil::DateTime>().is_ok() && !created.ends_with('Z'),
        "{created}"
    );
    assert!(folder.join(format!("{shown}.md")).is_file());
}

#[test]
fn an_index_that_is_damaged_stays_as_it_is_and_the_transcript_is_written() {
    let bench = said("hello");
    let folder = bench.transcripts();
    fs::create_dir_all(&folder).expect("a folder");
    for broken in ["{\"sessions\": [", "[]", "{\"sessions\": 7}"] {
        fs::write(folder.join(".index.json"), broken).expect("written");
        let path = bench.runner.save_transcript(bench.session).expect("saved").expect("a file");
        assert!(path.is_file());
        assert_eq!(fs::read_to_string(folder.join(".index.json")).expect("read"), broken);
    }
}

#[test]
fn a_transcript_never_replaces_that_of_another_session() {
    let bench = said("hello");
    let shown = bench.handle.sessions().get(bench.session).expect("there").shown_id();
    let folder = bench.transcripts();
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("{shown}.md"));
    let theirs = [
        format!(
            "# Sally Conversation\n\n**Session ID:** {shown}\n**Date:** 2025-01-01T10:00:07.500\n\n---\n"
        ),
        "# My notes\n".into(),
    ];
    for theirs in theirs {
        fs::write(&path, &theirs).expect("written");
        let saved = bench.runner.save_transcript(bench.session).expect("saved").expect("a file");
        assert_eq!(saved, folder.join(format!("{}.md", bench.session)));
        assert_eq!(fs::read_to_string(&path).expect("read"), theirs);
        assert!(!folder.join(".index.json").exists(), "the index names readable ids only");
    }
    fs::remove_file(&path).expect("removed");
    for _ in 0..2 {
        let saved = bench.runner.save_transcript(bench.session).expect("saved").expect("a file");
        assert_eq!(saved, path, "its own is replaced");
    }
}
