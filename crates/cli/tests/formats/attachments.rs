//! Attachments, kinds, sources, titles and usage: what is new in format 2 is preserved wherever a
//! session is copied.

use std::process::Stdio;
use std::sync::Arc;

use rethread_core::{BlobId, Owner};
use rethread_store::testing::Cluster;
use rethread_store::{System, connect};
use serde_json::{Value, json};

use crate::Place;

/// A picture of one pixel, and where its bytes are.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A session with everything that is new in it, as another store would export it.
fn lines() -> Vec<String> {
    let bytes = base64_decoded(PIXEL);
    let blob = BlobId::of(&bytes).to_string();
    let header = json!({
        "rethread": 1,
        "session": {
            "id": "01a1e405-c848-77dd-aab9-bea3a0b1f300", "owner": "local", "name": "pictured",
            "title": "A picture of the garden", "created_at": "2026-11-16T11:02:26.632Z",
            "archived": false, "kind": "recorded", "source": "some-editor",
        },
        "keys": [],
    });
    let image = json!({ "type": "blob", "sha256": blob, "media_type": "image/png" });
    let said =
        json!([{ "type": "text", "text": "what is this?" }, { "type": "image", "source": image }]);
    let at = "2026-11-16T11:02:27.000Z";
    let usage = json!({ "input": 7, "output": 2, "cache_read": 0, "cache_write": 0 });
    let entry = |id: &str, kind: &str, body: Value| {
        json!({ "id": id, "at": at, "kind": kind, "body": body }).to_string()
    };
    vec![
        header.to_string(),
        json!({ "blob": blob, "base64": PIXEL }).to_string(),
        entry("q", "message", json!({ "role": "user", "content": said })),
        entry("future", "of_a_newer_version", json!({ "what": [1, 2.50, "three"] })),
        entry(
            "a",
            "message",
            json!({ "role": "assistant", "content": "A pixel.", "model": "a/b", "usage": usage }),
        ),
    ]
}

fn base64_decoded(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::new());
    for symbol in text.bytes().filter(|symbol| *symbol != b'=') {
        let value = alphabet.iter().position(|known| *known == symbol).expect("base64");
        bits = bits << 6 | u32::try_from(value).expect("below 64");
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).expect("a byte"));
        }
    }
    bytes
}

fn import(place: &Place, lines: &[String]) -> Value {
    let file = place.folder.path().join("session.jsonl");
    std::fs::write(&file, lines.join("\n")).expect("written");
    place.json(&["import", file.to_str().expect("text")])
}

/// The lines without the source and the time of the import.
fn exported(place: &Place, name: &str) -> Vec<Value> {
    let text = place.run(&["export", name, "--format", "rethread"]);
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines[0]["session"].as_object_mut().expect("a header").remove("imported");
    lines
}

#[test]
fn everything_new_survives_import_copies_between_all_stores_forks_and_export() {
    let cluster = Cluster::start();
    let first = Place::new(|folder| format!("sqlite:{}", folder.join("a.db").display()));
    let given = lines();
    import(&first, &given);
    let before = exported(&first, "pictured");
    assert_eq!(before.len(), given.len(), "{before:#?}");
    for (line, given) in before.iter().zip(&given).skip(1) {
        assert_eq!(*line, serde_json::from_str::<Value>(given).expect("JSON"));
    }
    let header = &before[0]["session"];
    assert_eq!(
        (&header["kind"], &header["source"], &header["title"]),
        (&json!("recorded"), &json!("some-editor"), &json!("A picture of the garden"))
    );
    // Through all kinds of stores, and back into the first one under another name.
    let second = Place::new(|folder| format!("files:{}", folder.join("b").display()));
    let third = Place::new(|_| cluster.database());
    let fourth = Place::new(|folder| format!("sqlite:{}", folder.join("d.db").display()));
    for (from, to) in [(&first, &second), (&second, &third), (&third, &fourth)] {
        from.run(&["copy", "--to", &to.store]);
        assert_eq!(exported(to, "pictured"), before, "{}", to.store);
        let doctor = to.json(&["doctor", "--check"]);
        assert_eq!(doctor["damaged"].as_u64().unwrap_or_default(), 0, "{doctor}");
        let listed = to.json(&["list", "--all"]);
        assert_eq!(listed["sessions"][0]["usage"]["a/b"]["input"], 7, "{listed}");
        assert_eq!(listed["sessions"][0]["title"], "A picture of the garden");
        // What a newer version wrote is ignored.
        assert!(to.run(&["show", "pictured"]).contains("A pixel."));
        to.run(&["context", "pictured"]);
    }
    fourth.run(&["fork", "pictured", "--name", "forked"]);
    let fork = exported(&fourth, "forked");
    assert_eq!(fork[1], before[1], "the fork has the picture as well");
    fourth.run(&["delete", "pictured", "-y"]);
    assert_eq!(exported(&fourth, "forked")[1], before[1], "and keeps it");
}

#[test]
fn an_attachment_that_is_not_what_it_says_is_reported_and_the_rest_is_taken() {
    let place = Place::new(|folder| format!("sqlite:{}", folder.join("a.db").display()));
    let mut lines = lines();
    lines[1] = lines[1].replace("iVBORw0KGgo", "iVBORw0KGgp");
    let file = place.folder.path().join("session.jsonl");
    std::fs::write(&file, lines.join("\n")).expect("written");
    let output = place.command(&["import", "session.jsonl"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("its bytes are not what its hash says"), "{said}");
    let shown = place.json(&["show", "pictured"]);
    assert_eq!(shown["entries"].as_array().map(Vec::len), Some(3), "{shown}");
    let output = place.command(&["doctor", "--check"]).stdin(Stdio::null()).output().expect("runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("is missing"), "{told}");
}

#[test]
fn an_attachment_longer_than_a_line_may_be_is_carried_in_parts() {
    let place = Place::new(|folder| format!("files:{}", folder.join("a").display()));
    import(&place, &lines());
    let owner = Owner::local();
    let open = |place: &Place| connect(&place.store, Arc::new(System)).expect("a store");
    let (_, id) = open(&place).everything().expect("listed")[0].clone();
    let large: Vec<u8> =
        (0u32..5 << 20).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let blob = open(&place).put_blob(&owner, id, &large).expect("kept");
    let file = place.folder.path().join("large.jsonl");
    place.run(&["export", "pictured", "--format", "rethread", "-o", file.to_str().expect("text")]);
    let longest = std::fs::read_to_string(&file).expect("read").lines().map(str::len).max();
    assert!(longest < Some(16 << 20), "{longest:?}");
    let other = Place::new(|folder| format!("files:{}", folder.join("b").display()));
    other.run(&["import", file.to_str().expect("text")]);
    assert!(open(&other).blob(&owner, id, blob).expect("it arrived") == large);
}

#[test]
fn doctor_names_the_damaged_attachment() {
    let place = Place::new(|folder| format!("files:{}", folder.join("b").display()));
    import(&place, &lines());
    let path = place.folder.path().join("b/.rethread/sessions.db");
    let database = rusqlite::Connection::open(path).expect("the database");
    let name: String = database
        .query_row("SELECT lower(hex(hash)) FROM blobs", [], |row| row.get(0))
        .expect("an attachment");
    database.execute("UPDATE blobs SET body = CAST(body || x'21' AS BLOB)", []).expect("damaged");
    drop(database);
    let output = place.command(&["doctor", "--check"]).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains(&format!("the attachment {name} is not what was stored")), "{told}");
    let output =
        place.command(&["export", "pictured", "--format", "rethread"]).output().expect("runs");
    assert!(output.status.success(), "the conversation is not the worse for it");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("1 damaged attachment"), "{said}");
}
