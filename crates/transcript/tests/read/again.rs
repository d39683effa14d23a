//! Files that are imported again after they changed: whatever became of the file, there is one
//! session, with everything in it that was ever in the file, once.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rethread_core::store::Filter;
use rethread_core::{Fixed, MemoryStore, Message, Owner, Session, Sessions};
use rethread_transcript::import::{Receipt, import};
use rethread_transcript::read::{Format, recognise};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::desk::options;

/// Writes some turns of a conversation as a program would. A header that is written again differs
/// in whatever that program changes: a title, a count, a time.
type Write = fn(&Path, Range<usize>, header: u32);

/// What a question says. Some are asked again and again.
fn question(turn: usize) -> String {
    if turn % 2 == 1 { "yes".into() } else { format!("question {turn}") }
}

fn answer(turn: usize) -> String {
    format!("answer {turn}")
}

fn said(turns: Range<usize>) -> Vec<String> {
    turns.flat_map(|turn| [question(turn), answer(turn)]).collect()
}

fn time(turn: usize, part: usize) -> String {
    format!("2026-01-01T10:{turn:02}:{part:02}.000Z")
}

fn seconds(turn: usize) -> u64 {
    1_767_261_600 + 60 * turn as u64
}

fn lines(path: &Path, lines: impl IntoIterator<Item = Value>) {
    let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(path, text).expect("written");
}

fn document(path: &Path, value: &Value) {
    std::fs::write(path, value.to_string()).expect("written");
}

/// Messages as APIs take them.
fn messages(turns: Range<usize>) -> Vec<Value> {
    let both = |turn| {
        [
            json!({"role": "user", "content": question(turn)}),
            json!({"role": "assistant", "content": answer(turn)}),
        ]
    };
    turns.flat_map(both).collect()
}

fn claude_code(path: &Path, turns: Range<usize>, header: u32) {
    let title = json!({"type": "custom-title", "customTitle": format!("title {header}"), "sessionId": "s-1"});
    let mut all = vec![title];
    for turn in turns {
        let parent = turn.checked_sub(1).map(|before| format!("b{before}"));
        let of = |id: String, parent: Option<String>, part: usize, kind: &str, message: Value| {
            json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s-1", "cwd": "/w",
                "timestamp": time(turn, part), "message": message})
        };
        all.push(of(
            format!("u{turn}"),
            parent,
            0,
            "user",
            json!({"role": "user", "content": question(turn)}),
        ));
        // A reply is spread over two lines, with a record without an id between them.
        let reply = |text: &str| {
            json!({"role": "assistant", "id": format!("m{turn}"), "model": "opus",
                "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 5, "output_tokens": 2}})
        };
        all.push(of(format!("a{turn}"), Some(format!("u{turn}")), 1, "assistant", reply("ans")));
        all.push(json!({"type": "queue-operation", "operation": "enqueue", "sessionId": "s-1"}));
        let end = format!("wer {turn}");
        all.push(of(format!("b{turn}"), Some(format!("a{turn}")), 2, "assistant", reply(&end)));
    }
    lines(path, all);
}

fn codex(path: &Path, turns: Range<usize>, header: u32) {
    let of = |at: String, kind: &str, payload: Value| json!({"timestamp": at, "type": kind, "payload": payload});
    let meta = json!({"id": "019e7da4-83bc-7dc1-93d3-a435cb5c9100", "cwd": "/w", "cli_version": format!("0.{header}")});
    let mut all = vec![of(time(0, 0), "session_meta", meta)];
    for turn in turns {
        let item = |role: &str, kind: &str, text: String| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
        all.push(of(time(turn, 1), "response_item", item("user", "input_text", question(turn))));
        all.push(of(
            time(turn, 2),
            "response_item",
            item("assistant", "output_text", answer(turn)),
        ));
        let usage = json!({"input_tokens": 10 * (turn + 1), "output_tokens": turn + 1});
        let count = json!({"type": "token_count", "info": {"total_token_usage": usage}});
        all.push(of(time(turn, 3), "event_msg", count));
    }
    lines(path, all);
}

fn gemini_message(turn: usize) -> [Value; 2] {
    [
        json!({"id": format!("u{turn}"), "timestamp": time(turn, 0), "type": "user", "content": question(turn)}),
        json!({"id": format!("g{turn}"), "timestamp": time(turn, 1), "type": "gemini", "content": answer(turn)}),
    ]
}

fn gemini_lines(path: &Path, turns: Range<usize>, header: u32) {
    let head = json!({"sessionId": "g", "projectHash": "h", "startTime": time(0, 0), "lastUpdated": time(header as usize, 0)});
    lines(path, std::iter::once(head).chain(turns.flat_map(gemini_message)));
}

fn gemini_document(path: &Path, turns: Range<usize>, header: u32) {
    let messages: Vec<Value> = turns.flat_map(gemini_message).collect();
    document(
        path,
        &json!({"sessionId": "g", "projectHash": "h", "lastUpdated": time(header as usize, 0), "messages": messages}),
    );
}

fn gemini_checkpoint(path: &Path, turns: Range<usize>, _: u32) {
    let of = |role: &str, text: String| json!({"role": role, "parts": [{"text": text}]});
    let all = turns.flat_map(|turn| [of("user", question(turn)), of("model", answer(turn))]);
    document(path, &all.collect());
}

fn opencode_export(path: &Path, turns: Range<usize>, header: u32) {
    let of = |turn: usize, role: &str, text: String| {
        let id = format!("msg_{turn}_{role}");
        let created = 1_000 * seconds(turn) + u64::from(role == "assistant");
        json!({"info": {"id": id, "role": role, "time": {"created": created}},
            "parts": [{"id": format!("prt_{id}"), "type": "text", "text": text}]})
    };
    let all = turns
        .flat_map(|turn| [of(turn, "user", question(turn)), of(turn, "assistant", answer(turn))]);
    let info = json!({"id": "ses_1", "title": format!("title {header}"), "time": {"created": 1_000 * seconds(0)}});
    document(path, &json!({"info": info, "messages": all.collect::<Vec<_>>()}));
}

fn opencode_storage(path: &Path, turns: Range<usize>, header: u32) {
    let write = |name: String, value: Value| {
        let path = path.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        document(&path, &value);
    };
    write(
        "session/p/ses_1.json".into(),
        json!({"id": "ses_1", "title": format!("title {header}")}),
    );
    for turn in turns {
        for (role, text) in [("user", question(turn)), ("assistant", answer(turn))] {
            let id = format!("msg_{turn}_{role}");
            let created = 1_000 * seconds(turn) + u64::from(role == "assistant");
            write(
                format!("message/ses_1/{id}.json"),
                json!({"id": id, "role": role, "time": {"created": created}}),
            );
            write(format!("part/{id}/prt_{id}.json"), json!({"type": "text", "text": text}));
        }
    }
}

fn pi(path: &Path, turns: Range<usize>, header: u32) {
    let mut all = vec![
        json!({"type": "session", "version": 3, "id": "d7", "timestamp": time(0, 0), "cwd": format!("/w{header}")}),
    ];
    for turn in turns {
        let parent = turn.checked_sub(1).map(|before| format!("{before}b"));
        let of = |id: String, parent: Option<String>, part, role: &str, text: String| {
            json!({"type": "message", "id": id, "parentId": parent, "timestamp": time(turn, part),
                "message": {"role": role, "content": [{"type": "text", "text": text}]}})
        };
        all.push(of(format!("{turn}a"), parent, 0, "user", question(turn)));
        all.push(of(format!("{turn}b"), Some(format!("{turn}a")), 1, "assistant", answer(turn)));
    }
    lines(path, all);
}

/// The first versions of pi wrote a plain list.
fn pi_list(path: &Path, turns: Range<usize>, header: u32) {
    let mut all = vec![
        json!({"type": "session", "id": "d7", "timestamp": time(0, 0), "cwd": format!("/w{header}")}),
    ];
    for turn in turns {
        for (part, role, text) in [(0, "user", question(turn)), (1, "assistant", answer(turn))] {
            all.push(json!({"type": "message", "timestamp": time(turn, part),
                "message": {"role": role, "content": [{"type": "text", "text": text}]}}));
        }
    }
    lines(path, all);
}

fn aider(path: &Path, turns: Range<usize>, header: u32) {
    let mut text =
        format!("\n# aider chat started at 2026-01-01 10:00:00\n\n> Aider v0.{header}  \n\n");
    for turn in turns {
        text += &format!(
            "#### {}  \n\n{}\n\n> Tokens: 5,244 sent, 604 received.  \n\n",
            question(turn),
            answer(turn)
        );
    }
    std::fs::write(path, text).expect("written");
}

fn specstory_of(path: &Path, turns: Range<usize>, head: &str) {
    let mut text = format!("<!-- Generated by SpecStory -->\n\n{head}\n\n");
    for turn in turns {
        text += &format!("_**User ({})**_\n\n{}\n\n---\n\n", time(turn, 0), question(turn));
        text += &format!("_**Agent (opus {})**_\n\n{}\n\n---\n\n", time(turn, 1), answer(turn));
    }
    std::fs::write(path, text).expect("written");
}

fn specstory(path: &Path, turns: Range<usize>, header: u32) {
    specstory_of(
        path,
        turns,
        &format!("# Title {header}\n\n<!-- Claude Code Session 3db9 (2026-01-31 15:19:39Z) -->"),
    );
}

fn specstory_without_id(path: &Path, turns: Range<usize>, header: u32) {
    specstory_of(path, turns, &format!("# Title {header}"));
}

fn swe_agent(path: &Path, turns: Range<usize>, header: u32) {
    let steps: Vec<Value> = turns.clone().map(|turn| json!({"action": answer(turn)})).collect();
    let mut history = vec![json!({"role": "system", "content": format!("obey {header}")})];
    history.extend(messages(turns));
    document(
        path,
        &json!({"trajectory": steps, "history": history, "info": {"exit_status": header}}),
    );
}

fn openai(path: &Path, turns: Range<usize>, header: u32) {
    let mut all = vec![json!({"role": "system", "content": format!("obey {header}")})];
    all.extend(messages(turns));
    document(path, &json!({"model": "gpt-x", "temperature": header, "messages": all}));
}

fn openai_lines(path: &Path, turns: Range<usize>, _: u32) {
    lines(path, messages(turns));
}

fn anthropic(path: &Path, turns: Range<usize>, header: u32) {
    let block = |message: Value| {
        let thought = json!({"type": "thinking", "thinking": "hm", "signature": "x"});
        let text = json!({"type": "text", "text": message["content"]});
        let content = if message["role"] == "user" { vec![text] } else { vec![thought, text] };
        json!({"role": message["role"], "content": content})
    };
    let all: Vec<Value> = messages(turns).into_iter().map(block).collect();
    document(
        path,
        &json!({"model": "claude-x", "system": format!("obey {header}"), "messages": all}),
    );
}

fn magent(path: &Path, turns: Range<usize>, header: u32) {
    document(
        path,
        &json!({"id": "session-20260101-100000", "timestamp": time(header as usize, 0), "messages": messages(turns)}),
    );
}

fn agent(path: &Path, turns: Range<usize>, header: u32) {
    let metadata = json!({"id": "a-1", "name": format!("name {header}"), "createdAt": time(0, 0), "lastActivityAt": time(header as usize, 0)});
    document(
        path,
        &json!({"metadata": metadata, "messages": messages(turns), "contextSummary": format!("summary {header}")}),
    );
}

fn telegram(path: &Path, turns: Range<usize>, header: u32) {
    let mut history = Vec::new();
    for (index, message) in messages(turns.clone()).into_iter().enumerate() {
        let at = time(turns.start + index / 2, index % 2);
        history
            .push(json!({"role": message["role"], "content": message["content"], "timestamp": at}));
    }
    document(
        path,
        &json!({"42": {"user_id": 42, "created_at": time(0, 0), "last_activity": time(header as usize, 0),
        "history": history, "current_workspace": "/srv"}}),
    );
}

fn ours(path: &Path, turns: Range<usize>, header: u32) {
    let id = "0198f000-0000-7000-8000-000000000001";
    let head = json!({"id": id, "owner": "local", "name": format!("name-{header}"), "created_at": time(0, 0)});
    let mut all = vec![json!({"rethread": 1, "session": head, "keys": []})];
    for turn in turns {
        for (part, role, text) in [(0, "user", question(turn)), (1, "assistant", answer(turn))] {
            let body = json!({"role": role, "content": [{"type": "text", "text": text}]});
            all.push(json!({"id": format!("{turn}-{part}"), "at": time(turn, part), "kind": "message", "body": body}));
        }
    }
    lines(path, all);
}

fn database(path: &Path, sql: &str) {
    let _ = std::fs::remove_file(path);
    let connection = Connection::open(path).expect("opened");
    connection.execute_batch(sql).expect("filled");
}

fn goose(path: &Path, turns: Range<usize>, header: u32) {
    let mut sql = format!(
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, created_at TIMESTAMP);
         CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
             created_timestamp INTEGER, metadata_json TEXT);
         INSERT INTO sessions VALUES ('20260101_1', 'title {header}', '2026-01-01 10:00:00');"
    );
    for turn in turns {
        for (part, role, text) in [(0, "user", question(turn)), (1, "assistant", answer(turn))] {
            sql += &format!(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp)
                 VALUES ('20260101_1', '{role}', '[{{\"type\":\"text\",\"text\":\"{text}\"}}]', {});",
                seconds(turn) + part
            );
        }
    }
    database(path, &sql);
}

fn llm(path: &Path, turns: Range<usize>, header: u32) {
    let mut sql = format!(
        "CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
         CREATE TABLE responses (id TEXT PRIMARY KEY, prompt TEXT, response TEXT, conversation_id TEXT, datetime_utc TEXT);
         INSERT INTO conversations VALUES ('c1', 'title {header}', 'gpt');"
    );
    for turn in turns {
        let (question, answer, at) = (question(turn), answer(turn), time(turn, 0));
        sql += &format!(
            "INSERT INTO responses VALUES ('r{turn}', '{question}', '{answer}', 'c1', '{at}');"
        );
    }
    database(path, &sql);
}

fn openai_agents(path: &Path, turns: Range<usize>, header: u32) {
    let mut sql = format!(
        "CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);
         CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TIMESTAMP);
         CREATE TABLE turn_usage (id INTEGER PRIMARY KEY, session_id TEXT, input_tokens INTEGER, output_tokens INTEGER);
         INSERT INTO agent_sessions VALUES ('s1', '2026-01-01 10:00:00', '2026-01-0{} 10:00:00');",
        header + 1
    );
    for turn in turns {
        for (part, message) in messages(turn..turn + 1).into_iter().enumerate() {
            sql += &format!(
                "INSERT INTO agent_messages VALUES ({}, 's1', '{message}', '2026-01-01 10:00:00');",
                2 * turn + part
            );
        }
        sql += &format!("INSERT INTO turn_usage VALUES ({turn}, 's1', 5, 2);");
    }
    database(path, &sql);
}

/// What is written, the format it is of, what its file is called, and how often it is there.
const SAMPLES: [(&str, Format, &str, Write); 23] = [
    ("claude-code", Format::ClaudeCode, "s-1.jsonl", claude_code),
    ("codex", Format::Codex, "rollout.jsonl", codex),
    ("gemini lines", Format::Gemini, "session.jsonl", gemini_lines),
    ("gemini document", Format::Gemini, "session.json", gemini_document),
    ("gemini checkpoint", Format::Gemini, "checkpoint.json", gemini_checkpoint),
    ("opencode export", Format::OpenCode, "export.json", opencode_export),
    ("opencode storage", Format::OpenCode, "storage", opencode_storage),
    ("pi", Format::Pi, "2026_d7.jsonl", pi),
    ("pi, a list", Format::Pi, "2026_d7.jsonl", pi_list),
    ("aider", Format::Aider, ".aider.chat.history.md", aider),
    ("specstory", Format::SpecStory, "h.md", specstory),
    ("specstory without an id", Format::SpecStory, "h.md", specstory_without_id),
    ("swe-agent", Format::SweAgent, "x.traj", swe_agent),
    ("openai", Format::OpenAi, "request.json", openai),
    ("openai, a message a line", Format::OpenAi, "chat.jsonl", openai_lines),
    ("anthropic", Format::Anthropic, "request.json", anthropic),
    ("magent", Format::Magent, "session-20260101-100000.json", magent),
    ("agent", Format::Agent, "a-1.json", agent),
    ("telegram", Format::Telegram, "sessions.json", telegram),
    ("rethread", Format::Rethread, "ours.jsonl", ours),
    ("goose", Format::Goose, "sessions.db", goose),
    ("llm", Format::Llm, "logs.db", llm),
    ("openai-agents", Format::OpenAiAgents, "agents.db", openai_agents),
];

/// Those that say nothing about themselves but how they begin.
fn is_nameless(name: &str) -> bool {
    let nameless = [
        "gemini checkpoint",
        "specstory without an id",
        "swe-agent",
        "openai",
        "openai, a message a line",
        "anthropic",
    ];
    nameless.contains(&name)
}

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

    /// Writes a file in the place of what was there, and imports it.
    fn import(&self, file: &str, format: Format, write: impl FnOnce(&Path)) -> Receipt {
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

    /// The only session there is.
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

    /// What is said in it. Parts of a reply that came one after the other are one reply.
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
            // What says nothing about itself is known by where it lies, or by how it begins.
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

/// Imports the first lines of a file, then all of it, and returns what is said.
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
            receipt.account.notes.iter().any(|note| note.contains("something else")),
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

/// Newer versions of goose give messages ids.
fn goose_with_ids(path: &Path, turns: Range<usize>, header: u32) {
    goose(path, turns, header);
    let sql = "ALTER TABLE messages ADD COLUMN message_id TEXT; UPDATE messages SET message_id = 'm' || id;";
    Connection::open(path).expect("opened").execute_batch(sql).expect("changed");
}

#[test]
fn a_session_that_goes_on_under_another_id_in_its_file_is_one() {
    let of = |id: &str, parent: &str, session: &str| {
        json!({"type": "user", "uuid": id, "parentUuid": parent, "sessionId": session, "cwd": "/w",
            "timestamp": time(0, 0), "message": {"role": "user", "content": id}})
    };
    let all = [of("a", "", "s-1"), of("b", "a", "s-1"), of("c", "b", "s-2")];
    let said = in_two_steps(Format::ClaudeCode, "s-1.jsonl", &all, 2);
    assert_eq!(said, ["a", "b", "c"]);
}
