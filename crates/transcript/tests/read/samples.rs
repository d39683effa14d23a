//! One conversation as each program writes it: any of its turns, with a header that may be written
//! again.

use std::ops::Range;
use std::path::Path;

use rethread_transcript::read::Format;
use rusqlite::Connection;
use serde_json::{Value, json};

/// Writes some turns of a conversation as a program would. A header that is written again differs
/// in what that program changes: a title, a count, a time.
pub(crate) type Write = fn(&Path, Range<usize>, header: u32);

/// What a question says. Some are asked again and again.
pub(crate) fn question(turn: usize) -> String {
    if turn % 2 == 1 { "yes".into() } else { format!("question {turn}") }
}

pub(crate) fn answer(turn: usize) -> String {
    format!("answer {turn}")
}

pub(crate) fn said(turns: Range<usize>) -> Vec<String> {
    turns.flat_map(|turn| [question(turn), answer(turn)]).collect()
}

pub(crate) fn time(turn: usize, part: usize) -> String {
    format!("2026-01-01T10:{turn:02}:{part:02}.000Z")
}

fn seconds(turn: usize) -> u64 {
    1_767_261_600 + 60 * turn as u64
}

pub(crate) fn lines(path: &Path, lines: impl IntoIterator<Item = Value>) {
    let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(path, text).expect("written");
}

fn document(path: &Path, value: &Value) {
    std::fs::write(path, value.to_string()).expect("written");
}

/// Messages in the formats of APIs.
fn messages(turns: Range<usize>) -> Vec<Value> {
    let both = |turn| {
        [
            json!({"role": "user", "content": question(turn)}),
            json!({"role": "assistant", "content": answer(turn)}),
        ]
    };
    turns.flat_map(both).collect()
}

pub(crate) fn claude_code(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn codex(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn gemini_lines(path: &Path, turns: Range<usize>, header: u32) {
    let head = json!({"sessionId": "g", "projectHash": "h", "startTime": time(0, 0), "lastUpdated": time(header as usize, 0)});
    lines(path, std::iter::once(head).chain(turns.flat_map(gemini_message)));
}

pub(crate) fn gemini_document(path: &Path, turns: Range<usize>, header: u32) {
    let messages: Vec<Value> = turns.flat_map(gemini_message).collect();
    document(
        path,
        &json!({"sessionId": "g", "projectHash": "h", "lastUpdated": time(header as usize, 0), "messages": messages}),
    );
}

pub(crate) fn gemini_checkpoint(path: &Path, turns: Range<usize>, _: u32) {
    let of = |role: &str, text: String| json!({"role": role, "parts": [{"text": text}]});
    let all = turns.flat_map(|turn| [of("user", question(turn)), of("model", answer(turn))]);
    document(path, &all.collect());
}

pub(crate) fn opencode_export(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn opencode_storage(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn pi(path: &Path, turns: Range<usize>, header: u32) {
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
pub(crate) fn pi_list(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn aider(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn specstory(path: &Path, turns: Range<usize>, header: u32) {
    specstory_of(
        path,
        turns,
        &format!("# Title {header}\n\n<!-- Claude Code Session 3db9 (2026-01-31 15:19:39Z) -->"),
    );
}

pub(crate) fn specstory_without_id(path: &Path, turns: Range<usize>, header: u32) {
    specstory_of(path, turns, &format!("# Title {header}"));
}

pub(crate) fn swe_agent(path: &Path, turns: Range<usize>, header: u32) {
    let steps: Vec<Value> = turns.clone().map(|turn| json!({"action": answer(turn)})).collect();
    let mut history = vec![json!({"role": "system", "content": format!("obey {header}")})];
    history.extend(messages(turns));
    document(
        path,
        &json!({"trajectory": steps, "history": history, "info": {"exit_status": header}}),
    );
}

pub(crate) fn openai(path: &Path, turns: Range<usize>, header: u32) {
    let mut all = vec![json!({"role": "system", "content": format!("obey {header}")})];
    all.extend(messages(turns));
    document(path, &json!({"model": "gpt-x", "temperature": header, "messages": all}));
}

pub(crate) fn openai_lines(path: &Path, turns: Range<usize>, _: u32) {
    lines(path, messages(turns));
}

pub(crate) fn anthropic(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn magent(path: &Path, turns: Range<usize>, header: u32) {
    document(
        path,
        &json!({"id": "session-20260101-100000", "timestamp": time(header as usize, 0), "messages": messages(turns)}),
    );
}

pub(crate) fn agent(path: &Path, turns: Range<usize>, header: u32) {
    let metadata = json!({"id": "a-1", "name": format!("name {header}"), "createdAt": time(0, 0), "lastActivityAt": time(header as usize, 0)});
    document(
        path,
        &json!({"metadata": metadata, "messages": messages(turns), "contextSummary": format!("summary {header}")}),
    );
}

pub(crate) fn telegram(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn ours(path: &Path, turns: Range<usize>, header: u32) {
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
    if path.exists() {
        std::fs::remove_file(path).expect("removed");
    }
    let connection = Connection::open(path).expect("opened");
    connection.execute_batch(sql).expect("filled");
}

pub(crate) fn goose(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn llm(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn openai_agents(path: &Path, turns: Range<usize>, header: u32) {
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

pub(crate) fn opencode_database(path: &Path, turns: Range<usize>, header: u32) {
    let mut sql = format!(
        "CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, title TEXT, time_created INTEGER);
         CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
         CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
         INSERT INTO session VALUES ('ses_1', '/w', 'title {header}', 1);"
    );
    for turn in turns {
        for (part, role, text) in [(0, "user", question(turn)), (1, "assistant", answer(turn))] {
            let (id, at) = (format!("msg_{turn}_{part}"), 1_000 * seconds(turn) + part);
            let part = json!({"type": "text", "text": text});
            let data = json!({"role": role});
            sql += &format!("INSERT INTO message VALUES ('{id}', 'ses_1', {at}, '{data}');");
            sql += &format!("INSERT INTO part VALUES ('prt_{id}', '{id}', 'ses_1', '{part}');");
        }
    }
    database(path, &sql);
}

pub(crate) fn opencode_rows(path: &Path, turns: Range<usize>, header: u32) {
    let mut sql = format!(
        "CREATE TABLE session_v2 (id TEXT PRIMARY KEY, directory TEXT, title TEXT, time_created INTEGER);
         CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER, data TEXT);
         INSERT INTO session_v2 VALUES ('ses_1', '/w', 'title {header}', 1);"
    );
    for turn in turns {
        let (asked, said) = (
            json!({"text": question(turn)}),
            json!({"content": [{"type": "text", "text": answer(turn)}]}),
        );
        for (part, kind, data) in [(0, "user", asked), (1, "assistant", said)] {
            let (seq, at) = (2 * turn + part, 1_000 * seconds(turn));
            sql += &format!(
                "INSERT INTO session_message VALUES ('msg_{seq}', 'ses_1', '{kind}', {seq}, {at}, '{data}');"
            );
        }
    }
    database(path, &sql);
}

pub(crate) fn llm_threads(path: &Path, turns: Range<usize>, header: u32) {
    let mut sql = format!(
        "CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
         CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, text TEXT, payload TEXT);
         CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, datetime_utc TEXT);
         CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, tip_message_hash TEXT, datetime_utc TEXT);
         INSERT INTO threads VALUES ('t1', 'title {header}', 'a{}', '2026-01-01 10:00:00');",
        turns.end - 1
    );
    for turn in turns.clone() {
        let before = if turn == turns.start { "NULL".into() } else { format!("'a{}'", turn - 1) };
        for (hash, parent, role, text) in [
            (format!("u{turn}"), before, "user", question(turn)),
            (format!("a{turn}"), format!("'u{turn}'"), "assistant", answer(turn)),
        ] {
            sql += &format!("INSERT INTO messages VALUES ('{hash}', {parent}, '{role}', NULL);");
            sql += &format!(
                "INSERT INTO parts (message_hash, position, type, text) VALUES ('{hash}', 0, 'text', '{text}');"
            );
        }
        sql +=
            &format!("INSERT INTO turns VALUES ('{turn}', 't1', 'a{turn}', '{}');", time(turn, 0));
    }
    database(path, &sql);
}

/// What is written, its format, its file name, and the writer.
pub(crate) const SAMPLES: [(&str, Format, &str, Write); 26] = [
    ("claude-code", Format::ClaudeCode, "s-1.jsonl", claude_code),
    ("codex", Format::Codex, "rollout.jsonl", codex),
    ("gemini lines", Format::Gemini, "session.jsonl", gemini_lines),
    ("gemini document", Format::Gemini, "session.json", gemini_document),
    ("gemini checkpoint", Format::Gemini, "checkpoint.json", gemini_checkpoint),
    ("opencode export", Format::OpenCode, "export.json", opencode_export),
    ("opencode storage", Format::OpenCode, "storage", opencode_storage),
    ("opencode database", Format::OpenCode, "opencode.db", opencode_database),
    ("opencode rows", Format::OpenCode, "opencode.db", opencode_rows),
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
    ("llm threads", Format::Llm, "logs.db", llm_threads),
    ("openai-agents", Format::OpenAiAgents, "agents.db", openai_agents),
];

/// Formats without an id, identified by their beginning.
pub(crate) fn is_nameless(name: &str) -> bool {
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

/// Newer versions of goose assign ids to messages.
pub(crate) fn goose_with_ids(path: &Path, turns: Range<usize>, header: u32) {
    goose(path, turns, header);
    let sql = "ALTER TABLE messages ADD COLUMN message_id TEXT; UPDATE messages SET message_id = 'm' || id;";
    Connection::open(path).expect("opened").execute_batch(sql).expect("changed");
}
