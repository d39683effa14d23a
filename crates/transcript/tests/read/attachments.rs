//! Attached pictures and files: they are stored, or kept as they were written.

use std::path::Path;

use rethread_core::store::BoxError;
use rethread_core::{BlobId, Body};
use rethread_transcript::read::{Format, FoundEntry, FoundSession, Sink, read, recognise};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{options, read_as, written};

/// The bytes of a picture, as every program writes them.
const BYTES: &str = "aVRZUGljdHVyZQ==";

fn lines(all: &[Value]) -> String {
    all.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_picture_is_never_dropped() {
    let url = format!("data:image/png;base64,{BYTES}");
    let anthropic = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BYTES}});
    let openai = json!({"type": "image_url", "image_url": {"url": url}});
    let bare = json!({"type": "image", "data": BYTES, "mimeType": "image/png"});
    let codex = |kind: &str, payload: Value| json!({"timestamp": "2026-01-01T10:00:00Z", "type": kind, "payload": payload});
    let meta = codex("session_meta", json!({"id": "t-1", "cwd": "/w"}));
    let part = json!({"type": "input_image", "image_url": url});
    let samples = [
        (Format::ClaudeCode, lines(&[
            json!({"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": [anthropic]}}),
        ])),
        (Format::ClaudeCode, lines(&[
            json!({"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [anthropic]}]}}),
        ])),
        (Format::Codex, lines(&[
            meta.clone(),
            codex("response_item", json!({"type": "message", "role": "user", "content": [part]})),
        ])),
        (Format::Codex, lines(&[
            meta.clone(),
            codex("event_msg", json!({"type": "user_message", "message": "look", "images": [url]})),
        ])),
        (Format::Codex, lines(&[
            meta.clone(),
            codex("event_msg", json!({"type": "item_completed", "item": {"type": "UserMessage", "content": [
                {"type": "text", "text": "look"}, {"type": "image", "image_url": url}]}})),
        ])),
        (Format::Codex, lines(&[
            meta,
            codex("response_item", json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}]})),
            codex("response_item", json!({"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"})),
            codex("response_item", json!({"type": "function_call_output", "call_id": "c", "output": [part]})),
        ])),
        (Format::OpenAi, json!([{"role": "user", "content": [openai]}]).to_string()),
        (Format::OpenAi, json!([{"type": "message", "role": "user", "content": [part]},
            {"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}]).to_string()),
        (Format::Magent, json!({"id": "m", "messages": [{"role": "user", "content": [anthropic]}]}).to_string()),
        (Format::Agent, json!({"metadata": {"id": "a", "createdAt": "2026-01-01T10:00:00Z"},
            "messages": [{"role": "user", "content": [openai]}]}).to_string()),
        (Format::Gemini, json!({"sessionId": "g", "projectHash": "h", "messages": [
            {"id": "u", "type": "user", "content": [{"inlineData": {"mimeType": "image/png", "data": BYTES}}]}]}).to_string()),
        (Format::Gemini, json!([{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": BYTES}}]}]).to_string()),
        (Format::OpenCode, json!({"info": {"id": "s"}, "messages": [{"info": {"id": "m", "role": "user"},
            "parts": [{"type": "file", "mime": "image/png", "url": url}]}]}).to_string()),
        (Format::Pi, lines(&[
            json!({"type": "session", "version": 3, "id": "d", "cwd": "/w"}),
            json!({"type": "message", "id": "1", "message": {"role": "user", "content": [bare]}}),
        ])),
        (Format::Pi, lines(&[
            json!({"type": "session", "version": 3, "id": "d", "cwd": "/w"}),
            json!({"type": "message", "id": "1", "message": {"role": "user", "content": "look"}}),
            json!({"type": "message", "id": "2", "parentId": "1", "message": {"role": "toolResult", "toolCallId": "c", "content": [bare]}}),
        ])),
        (Format::SweAgent, json!({"history": [{"role": "user", "content": [openai]}], "info": {}}).to_string()),
        (Format::Telegram, json!({"42": {"user_id": 42, "history": [{"role": "user", "content": "look", "photo": url}]}}).to_string()),
    ];
    for (index, (format, text)) in samples.into_iter().enumerate() {
        let collected = read_as("sample", text, format);
        let entries = collected.sessions.iter().flat_map(|(_, entries)| entries);
        let kept = entries.filter(|entry| entry.body.json().contains(BYTES)).count();
        assert_eq!(kept, 1, "sample {index}, {format:?}: {:?}", collected.sessions);
    }
}

/// Keeps attachments too.
#[derive(Default)]
struct Kept {
    entries: Vec<FoundEntry>,
    blobs: Vec<Vec<u8>>,
}

impl Sink for Kept {
    fn session(&mut self, _: FoundSession) -> Result<(), BoxError> {
        Ok(())
    }

    fn entry(&mut self, _: usize, entry: FoundEntry) -> Result<(), BoxError> {
        self.entries.push(entry);
        Ok(())
    }

    fn blob(&mut self, _: usize, bytes: Vec<u8>) -> Result<(), BoxError> {
        self.blobs.push(bytes);
        Ok(())
    }
}

fn read_database(path: &Path, format: Format) -> Kept {
    assert_eq!(recognise(path).expect("it is looked at"), Some(format));
    let mut kept = Kept::default();
    let account = read(format, path, &options(), &mut kept, &mut |_| {}).expect("it is read");
    assert!(account.balances(), "{account:?}");
    kept
}

#[test]
fn goose_keeps_pictures() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sessions.db");
    let part = json!([{"type": "image", "data": BYTES, "mimeType": "image/png"}]);
    let sql = format!(
        "CREATE TABLE sessions (id TEXT); INSERT INTO sessions VALUES ('1');
         CREATE TABLE messages (id INTEGER, session_id TEXT, role TEXT, content_json TEXT);
         INSERT INTO messages VALUES (1, '1', 'user', '{part}');"
    );
    Connection::open(&path).expect("opened").execute_batch(&sql).expect("filled");
    let kept = read_database(&path, Format::Goose);
    assert!(kept.entries.iter().any(|entry| entry.body.json().contains(BYTES)));
}

#[test]
fn attachments_of_llm_are_kept_with_their_prompt() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = written(folder.path(), "logs.db", "");
    let sql = "
        CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
        CREATE TABLE responses (id TEXT PRIMARY KEY, prompt TEXT, response TEXT, conversation_id TEXT, datetime_utc TEXT);
        CREATE TABLE attachments (id TEXT PRIMARY KEY, type TEXT, path TEXT, url TEXT, content BLOB);
        CREATE TABLE prompt_attachments (response_id TEXT, attachment_id TEXT, \"order\" INTEGER);
        INSERT INTO conversations VALUES ('c', 'A talk', 'gpt');
        INSERT INTO responses VALUES ('r', 'look', 'I see', 'c', '2026-01-01T10:00:00');
        INSERT INTO attachments VALUES ('p', 'image/png', NULL, NULL, x'89504e47');
        INSERT INTO attachments VALUES ('d', 'application/pdf', NULL, NULL, x'25504446');
        INSERT INTO attachments VALUES ('u', 'image/png', NULL, 'https://example.com/x.png', NULL);
        INSERT INTO prompt_attachments VALUES ('r', 'p', 0), ('r', 'd', 1), ('r', 'u', 2), ('r', 'gone', 3);";
    Connection::open(&path).expect("opened").execute_batch(sql).expect("filled");
    let kept = read_database(&path, Format::Llm);
    assert_eq!(kept.blobs, [b"\x89PNG".to_vec(), b"%PDF".to_vec()]);
    let asked = kept.entries.iter().find(|entry| entry.id == "r:prompt").expect("the prompt");
    let Body::Message(message) = &asked.body else { panic!("a message") };
    assert_eq!(
        message.blobs(),
        kept.blobs.iter().map(|bytes| BlobId::of(bytes)).collect::<Vec<_>>()
    );
    assert!(asked.body.json().contains("https://example.com/x.png"), "{}", asked.body.json());
}
