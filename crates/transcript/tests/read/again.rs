//! Files that are imported again after a change: there is always one session, with everything
//! that was ever in the file, once.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rethread_core::store::Filter;
use rethread_core::{Fixed, MemoryStore, Message, Owner, Session, Sessions};
use rethread_transcript::import::{ImportReceipt, import};
use rethread_transcript::read::{Format, recognise};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::samples::{
    SAMPLES, Write, aider, claude_code, gemini_document, goose_with_ids, is_nameless, lines,
    magent, said, specstory, time,
};
use crate::support::options;

struct Place {
    sessions: Sessions,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        Place { sessions, folder: tempfile::tempdir().expect("a folder") }
    }

    /// Replaces a file and imports it.
    fn import(&self, file: &str, format: Format, write: impl FnOnce(&Path)) -> ImportReceipt {
        let path = self.folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        if path.is_dir() {
            std::fs::remove_dir_all(&path).expect("removed");
        }
        write(&path);
        assert_eq!(recognise(&path).expect("it is looked at"), Some(format), "{file}");
        let done = import(Some(&self.sessions), format, &path, &options(), &mut |_| {});
        done.expect("imported")
    }

    /// The only session.
    fn session(&self, what: &str) -> Session {
        let mut all = Vec::new();
        for owner in [Owner::local(), Owner::new("telegram:42").expect("an owner")] {
            let sessions = self.sessions.of_owner(owner);
            let page = sessions.list(&Filter::default(), None, 100).expect("listed");
            all.extend(page.sessions);
        }
        assert_eq!(all.len(), 1, "{what}: sessions");
        all.remove(0)
    }

    /// Its messages. Consecutive parts of a reply are joined.
    fn said(&self, what: &str) -> Vec<String> {
        let session = self.session(what);
        let sessions = self.sessions.of_owner(session.header.owner.clone());
        let mut said: Vec<(Message, String)> = Vec::new();
        for entry in sessions.entries(session.id(), 0..session.tally.entries) {
            let entry = entry.expect("read");
            let Some(message) = entry.body.message() else { continue };
            let text: String = message.content.iter().filter_map(|block| block.as_text()).collect();
            match said.last_mut() {
                Some((last, words))
                    if last.role == message.role && entry.id.as_str().contains('+') =>
                {
                    words.push_str(&text);
                }
                _ => said.push((message.clone(), text)),
            }
        }
        said.into_iter().map(|(_, text)| text).collect()
    }
}

#[test]
fn a_file_that_changed_gives_one_session_that_grew() {
    let mut wrong = Vec::new();
    for (name, format, file, write) in SAMPLES {
        let check = || {
            let place = Place::new();
            let go = |file: &str, turns: Range<usize>, header: u32| {
                place.import(file, format, |path| write(path, turns, header))
            };
            let holds = |what: &str, turns: Range<usize>| {
                assert_eq!(place.said(what), said(turns), "{name}, {what}");
            };
            go(file, 0..2, 0);
            holds("at first", 0..2);
            assert_eq!(go(file, 0..2, 0).added, 0, "{name}, again");
            go(file, 0..4, 0);
            holds("when it grew", 0..4);
            assert_eq!(go(file, 0..2, 0).added, 0, "{name}, without its newest part");
            assert_eq!(go(file, 2..4, 0).added, 0, "{name}, without its oldest part");
            go(file, 3..7, 0);
            holds("when it lost its oldest part and grew", 0..7);
            go(file, 3..7, 1);
            holds("when its header was written again", 0..7);
            assert!(go(file, 3..7, 1).added == 0, "{name}, with that header");
            // A file without an id is identified by its path, or by its beginning.
            let turns = if is_nameless(name) { 0..7 } else { 3..7 };
            let elsewhere = format!("elsewhere/{}", file.replace("s-1", "renamed"));
            go(&elsewhere, turns.clone(), 1);
            holds("when it was renamed", 0..7);
            go(&elsewhere, turns.start..9, 2);
            holds("when it was renamed and grew", 0..9);
        };
        if let Err(error) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)) {
            let text = error.downcast_ref::<String>().cloned().unwrap_or_default();
            wrong.push(text);
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), SAMPLES.len(), wrong.join("\n\n"));
}

/// Imports the first lines of a file, then all of it, and returns the messages.
fn in_two_steps(format: Format, file: &str, all: &[Value], first: usize) -> Vec<String> {
    let place = Place::new();
    place.import(file, format, |path| lines(path, all[..first].to_vec()));
    place.import(file, format, |path| lines(path, all.to_vec()));
    assert_eq!(place.import(file, format, |path| lines(path, all.to_vec())).added, 0, "{file}");
    let session = place.session(file);
    let mut said = Vec::new();
    for entry in place.sessions.entries(session.id(), 0..session.tally.entries) {
        let entry = entry.expect("read");
        let Some(message) = entry.body.message() else { continue };
        said.push(message.plain_text());
        said.extend(message.calls().map(|call| format!("calls {}", call.id)));
        said.extend(message.results().map(|result| format!("gets {}", result.text())));
    }
    said.retain(|text| !text.is_empty());
    said
}

#[test]
fn a_reply_that_was_imported_while_it_was_written_is_whole_in_the_end() {
    let claude = |id: &str, parent: &str, kind: &str, content: Value| {
        json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s", "cwd": "/w", "timestamp": time(0, 1),
            "message": {"role": kind, "id": if kind == "assistant" { Some("m") } else { None }, "content": content}})
    };
    let all = [
        claude("u", "", "user", json!("list")),
        claude("a1", "u", "assistant", json!([{"type": "text", "text": "I look."}])),
        claude(
            "a2",
            "a1",
            "assistant",
            json!([{"type": "tool_use", "id": "c", "name": "ls", "input": {}}]),
        ),
        claude(
            "r",
            "a2",
            "user",
            json!([{"type": "tool_result", "tool_use_id": "c", "content": "a.txt"}]),
        ),
    ];
    let said = in_two_steps(Format::ClaudeCode, "s.jsonl", &all, 2);
    assert_eq!(said, ["list", "I look.", "calls c", "gets a.txt"]);

    let head = json!({"sessionId": "g", "projectHash": "h", "startTime": time(0, 0)});
    let gemini = |content: &str, more: Value| {
        let mut message =
            json!({"id": "g1", "timestamp": time(0, 1), "type": "gemini", "content": content});
        message
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().unwrap_or_default());
        message
    };
    let call = json!({"toolCalls": [{"id": "c", "name": "ls", "args": {},
        "result": [{"functionResponse": {"response": {"output": "a.txt"}}}]}]});
    let user = json!({"id": "u1", "timestamp": time(0, 0), "type": "user", "content": "list"});
    let all = [head, user, gemini("I lo", json!({})), gemini("I look.", call)];
    let said = in_two_steps(Format::Gemini, "g.jsonl", &all, 3);
    assert_eq!(said, ["list", "I lo", "ok.", "calls c", "gets a.txt"]);

    let codex = |part, payload: Value| json!({"timestamp": time(0, part), "type": "response_item", "payload": payload});
    let all = [
        json!({"timestamp": time(0, 0), "type": "session_meta", "payload": {"id": "t-1", "cwd": "/w"}}),
        codex(
            1,
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list"}]}),
        ),
        codex(
            2,
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}),
        ),
        codex(3, json!({"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"})),
        codex(4, json!({"type": "function_call_output", "call_id": "c", "output": "a.txt"})),
    ];
    let said = in_two_steps(Format::Codex, "rollout.jsonl", &all, 3);
    assert_eq!(said, ["list", "I look.", "calls c", "gets a.txt"]);
}

#[test]
fn a_first_reply_that_was_imported_while_it_was_written_doubles_nothing() {
    let user = |text: &str| json!({"role": "user", "content": text});
    let reply = |text: &str| json!({"role": "assistant", "content": text});
    let early = [user("what is it?"), reply("It is a")];
    let late = [user("what is it?"), reply("It is a bucket."), user("thanks"), reply("Sure.")];
    for (format, file) in [(Format::Magent, "session-1.json"), (Format::OpenAi, "list.json")] {
        let place = Place::new();
        for messages in [&early[..], &late, &late] {
            let document = match format {
                Format::Magent => json!({"id": "project-foo", "messages": messages,
                    "timestamp": "2025-02-21T14:30:15+0000"}),
                _ => json!(messages),
            };
            place.import(file, format, |path| {
                std::fs::write(path, document.to_string()).expect("written");
            });
        }
        let expected = ["what is it?", "It is a", " bucket.", "thanks", "Sure."];
        assert_eq!(place.said(file), expected, "{format:?}");
    }
}

#[test]
fn a_file_that_begins_in_the_middle_of_a_reply_doubles_nothing() {
    for (format, file, write, middle) in [
        (Format::ClaudeCode, "s-1.jsonl", claude_code as Write, "wer 2"),
        (Format::SpecStory, "h.md", specstory, "answer 2"),
        (Format::Aider, ".aider.chat.history.md", aider, "answer 2"),
    ] {
        let place = Place::new();
        place.import(file, format, |path| write(path, 0..5, 0));
        place.import(file, format, |path| {
            write(path, 0..5, 0);
            let text = std::fs::read_to_string(path).expect("read");
            let at = text.find(middle).expect("it is there");
            let from = match format {
                Format::ClaudeCode => text[..at].rfind('\n').expect("a line") + 1,
                Format::SpecStory => text[..at].rfind("_**").expect("a speaker"),
                _ => at,
            };
            let head = text.lines().take(3).collect::<Vec<_>>().join("\n");
            let head =
                if format == Format::ClaudeCode { String::new() } else { format!("{head}\n\n") };
            let named = if format == Format::SpecStory {
                "<!-- Claude Code Session 3db9 -->\n\n"
            } else {
                ""
            };
            std::fs::write(path, format!("{head}{named}{}", &text[from..])).expect("written");
        });
        assert_eq!(place.said(file), said(0..5), "{format:?}");
    }
}

#[test]
fn a_file_that_begins_between_the_answers_of_a_reply_doubles_nothing() {
    let of = |id: &str, parent: &str, kind: &str, block: Value| {
        json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s", "cwd": "/w", "timestamp": time(0, 1),
            "message": {"role": kind, "id": if kind == "assistant" { Some("m") } else { None }, "content": [block]}})
    };
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "ls", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "ok"});
    let all = [
        of("u", "", "user", json!({"type": "text", "text": "go"})),
        of("a1", "u", "assistant", call("c1")),
        of("r1", "a1", "user", result("c1")),
        of("a2", "r1", "assistant", call("c2")),
        of("r2", "a2", "user", result("c2")),
        of("v", "r2", "user", json!({"type": "text", "text": "on"})),
    ];
    for from in 0..all.len() {
        let place = Place::new();
        place.import("s.jsonl", Format::ClaudeCode, |path| lines(path, all[..5].to_vec()));
        let again =
            place.import("s.jsonl", Format::ClaudeCode, |path| lines(path, all[from..].to_vec()));
        assert_eq!(again.added, 1, "from {from}: what is new");
    }
}

#[test]
fn two_that_begin_alike_are_two_sessions() {
    let mut wrong = Vec::new();
    for (name, format, file, write) in SAMPLES.into_iter().filter(|sample| is_nameless(sample.0)) {
        let check = || {
            let place = Place::new();
            let other = |path: &Path, turns: Range<usize>| {
                write(path, turns, 0);
                let text = std::fs::read_to_string(path).expect("read");
                std::fs::write(path, text.replace("answer", "another answer")).expect("written");
            };
            place.import(file, format, |path| write(path, 0..3, 0));
            let two = format!("two-{file}");
            assert!(
                place.import(&two, format, |path| other(path, 0..3)).sessions[0].created,
                "{name}"
            );
            let grown = place.import(&two, format, |path| other(path, 0..4)).sessions.remove(0);
            assert!(!grown.created && grown.added >= 2, "{name}: {grown:?}");
            let moved = place.import("moved", format, |path| other(path, 0..4)).sessions.remove(0);
            assert_eq!((moved.id, moved.created, moved.added), (grown.id, false, 0), "{name}");
            let page = place.sessions.list(&Filter::default(), None, 100).expect("listed");
            let mut messages: Vec<u64> = page.sessions.iter().map(|s| s.tally.messages).collect();
            messages.sort_unstable();
            assert_eq!(messages, [6, 8], "{name}");
        };
        if let Err(error) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)) {
            wrong.push(error.downcast_ref::<String>().cloned().unwrap_or_default());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn two_that_begin_alike_in_one_file_are_two_sessions() {
    let conversation = |said: [&str; 3]| {
        let messages = ["user", "assistant", "user"].into_iter().zip(said);
        let messages = messages.map(|(role, text)| json!({"role": role, "content": text}));
        json!({"messages": messages.collect::<Vec<_>>()})
    };
    let both = [conversation(["hi", "hello", "rain?"]), conversation(["hi", "good day", "news?"])];
    let place = Place::new();
    for added in [true, false] {
        let done = place.import("two.jsonl", Format::OpenAi, |path| lines(path, both.to_vec()));
        assert_eq!(done.added > 0, added);
        let page = place.sessions.list(&Filter::default(), None, 100).expect("listed");
        let messages: Vec<u64> = page.sessions.iter().map(|s| s.tally.messages).collect();
        assert_eq!(messages, [3, 3]);
    }
}

#[test]
fn a_message_that_was_written_again_is_kept_beside_what_it_said() {
    for (format, file, write) in [
        (Format::Magent, "session-20260101-100000.json", magent as Write),
        (Format::Gemini, "session.json", gemini_document),
        (Format::Goose, "sessions.db", goose_with_ids),
    ] {
        let place = Place::new();
        place.import(file, format, |path| write(path, 0..4, 0));
        let edit = |path: &Path| {
            write(path, 0..5, 0);
            match format {
                Format::Goose => {
                    let sql = "UPDATE messages SET content_json = replace(content_json, 'answer 2', 'no')";
                    Connection::open(path).expect("opened").execute_batch(sql).expect("changed");
                }
                _ => {
                    let text = std::fs::read_to_string(path).expect("read");
                    std::fs::write(path, text.replace("answer 2", "no")).expect("written");
                }
            }
        };
        let receipt = place.import(file, format, edit);
        assert_eq!(receipt.sessions[0].changed, 1, "{format:?}");
        assert!(
            receipt.account.notes.iter().any(|note| note.contains("both versions are kept")),
            "{receipt:?}"
        );
        assert_eq!(place.said(file), said(0..5), "{format:?}: what was imported stays");
        let session = place.session(file);
        let entries = place.sessions.entries(session.id(), 0..session.tally.entries);
        let kinds: Vec<String> =
            entries.map(|entry| entry.expect("read").body.kind().to_owned()).collect();
        let changed = kinds.iter().filter(|kind| kind.ends_with("/changed")).count();
        assert_eq!(changed, 1, "{format:?}: {kinds:?}");
        assert_eq!(place.import(file, format, edit).added, 0, "{format:?}, again");
    }
}

#[test]
fn a_session_that_continues_under_another_id_in_its_file_is_one() {
    let of = |id: &str, parent: &str, session: &str| {
        json!({"type": "user", "uuid": id, "parentUuid": parent, "sessionId": session, "cwd": "/w",
            "timestamp": time(0, 0), "message": {"role": "user", "content": id}})
    };
    let all = [of("a", "", "s-1"), of("b", "a", "s-1"), of("c", "b", "s-2")];
    let said = in_two_steps(Format::ClaudeCode, "s-1.jsonl", &all, 2);
    assert_eq!(said, ["a", "b", "c"]);
}
