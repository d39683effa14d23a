//! SQLite databases of other programs.

use std::path::Path;

use rethread_core::message::Usage;
use rethread_transcript::read::{Format, recognise};
use rusqlite::Connection;

use crate::support::read_file;

fn database(folder: &Path, sql: &str) -> std::path::PathBuf {
    let path = folder.join("data.db");
    let connection = Connection::open(&path).expect("opened");
    connection.execute_batch(sql).expect("filled");
    path
}

const GOOSE: &str = r#"
    CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, working_dir TEXT, created_at TIMESTAMP,
        accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER, newer TEXT);
    CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT,
        content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
    INSERT INTO sessions VALUES ('20260101_1', 'A talk', '/w', '2026-01-01 10:00:00', 90, 10, 'x');
    INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json) VALUES
      ('20260101_1', 'user', '[{"type":"text","text":"list"}]', 1767261600, '{"agentVisible":false}'),
      ('20260101_1', 'assistant', '[{"type":"toolRequest","id":"c","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"ls"}}}}]', 1767261601, '{"agentVisible":false}'),
      ('20260101_1', 'user', '[{"type":"toolResponse","id":"c","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"a"}],"isError":false}}}]', 1767261602, '{"agentVisible":false}'),
      ('20260101_1', 'user', '[{"type":"text","text":"what was said"}]', 1767261603, '{"userVisible":false}'),
      ('20260101_1', 'assistant', '[{"type":"toolRequest","id":"d","toolCall":{"status":"error","error":"no such tool"}}]', 1767261604, NULL),
      ('20260101_1', 'user', '[{"type":"toolResponse","id":"d","toolResult":{"status":"error","error":"gone"}}]', 1767261605, NULL),
      ('20260101_1', 'robot', '[]', 1767261606, NULL),
      ('gone', 'user', '[{"type":"text","text":"alone"}]', 1767261607, NULL);
"#;

#[test]
fn goose_is_read_with_calls_compaction_and_tokens() {
    let folder = tempfile::tempdir().expect("a folder");
    let collected = read_file(&database(folder.path(), GOOSE), Format::Goose).expect("it is read");
    assert_eq!(
        collected.said(0),
        [
            "user: list",
            "assistant: shell({\"command\":\"ls\"})",
            "tool: = a",
            "user: what was said",
            "assistant: unknown({\"input\":\"no such tool\"})",
            "tool: = gone",
        ]
    );
    assert_eq!(collected.kinds(0), ["imported/goose/session", "cleared", "imported/goose/robot"]);
    assert_eq!(collected.said(1), ["user: alone"], "messages whose session is gone");
    assert_eq!(collected.account.records, 9);
    assert_eq!((collected.account.calls, collected.account.pairs), (2, 2));
    assert_eq!(collected.account.tokens, Usage { input: 90, output: 10, ..Usage::default() });
    assert_eq!(collected.found(0).created_at.expect("a time").to_string(), "2026-01-01T10:00:00Z");
}

const LLM: &str = r#"
    CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT);
    CREATE TABLE responses (id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, response TEXT,
        conversation_id TEXT, datetime_utc TEXT, input_tokens INTEGER, output_tokens INTEGER, reasoning TEXT);
    CREATE TABLE tool_calls (id INTEGER PRIMARY KEY, response_id TEXT, name TEXT, arguments TEXT, tool_call_id TEXT);
    CREATE TABLE tool_results (id INTEGER PRIMARY KEY, response_id TEXT, name TEXT, output TEXT, tool_call_id TEXT, exception TEXT);
    CREATE TABLE fragments (id INTEGER PRIMARY KEY, content TEXT);
    CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
    INSERT INTO conversations VALUES ('c1', 'Versions', 'gpt-x');
    INSERT INTO responses VALUES ('r1', 'gpt-x', 'which version?', 'obey', '', 'c1', '2026-01-01T10:00:00', 20, 5, 'I look');
    INSERT INTO tool_calls VALUES (1, 'r1', 'llm_version', '{}', 'k');
    INSERT INTO responses VALUES ('r2', 'gpt-x', '', NULL, '0.27', 'c1', '2026-01-01T10:00:01', 30, 6, NULL);
    INSERT INTO tool_results VALUES (1, 'r2', 'llm_version', '0.27', 'k', NULL);
    INSERT INTO responses VALUES ('r3', 'gpt-x', 'alone', NULL, 'yes', NULL, '2026-01-02T10:00:00', NULL, NULL, NULL);
    INSERT INTO fragments VALUES (1, 'a long text');
    INSERT INTO prompt_fragments VALUES ('r3', 1, 0);
"#;

#[test]
fn llm_keeps_results_before_the_prompt_that_sent_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let collected = read_file(&database(folder.path(), LLM), Format::Llm).expect("it is read");
    assert_eq!(
        collected.said(0),
        ["user: which version?", "assistant: llm_version({})", "tool: = 0.27", "assistant: 0.27"]
    );
    assert_eq!(collected.said(1), ["user: a long text\n\nalone", "assistant: yes"]);
    assert_eq!((collected.account.records, collected.account.pairs), (6, 1));
    assert_eq!(collected.account.tokens, Usage { input: 50, output: 11, ..Usage::default() });
}

const LLM_THREADS: &str = r#"
    CREATE TABLE fragments (id INTEGER PRIMARY KEY, content TEXT);
    CREATE TABLE attachments (id TEXT PRIMARY KEY, type TEXT, content BLOB);
    CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
    CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT, payload TEXT);
    CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT, datetime_utc TEXT);
    CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT, model TEXT,
        input_tokens INTEGER, output_tokens INTEGER, datetime_utc TEXT, response_json TEXT);
    INSERT INTO fragments VALUES (1, 'a long text');
    INSERT INTO messages VALUES ('s', NULL, 'system', NULL), ('u1', 's', 'user', NULL), ('a1', 'u1', 'assistant', NULL),
      ('t1', 'a1', 'tool', NULL), ('a2', 't1', 'assistant', '{"p":1}'), ('u2', 'a2', 'user', NULL), ('a3', 'u2', 'assistant', NULL),
      ('u3', 'a2', 'user', NULL), ('a4', 'u3', 'assistant', NULL), ('u4', NULL, 'user', NULL), ('a5', 'u4', 'assistant', NULL);
    INSERT INTO parts (message_hash, position, type, tool_name, text, payload) VALUES
      ('s', 0, 'text', NULL, 'obey', NULL),
      ('u1', 0, 'text', NULL, NULL, '{"text_ref":[{"fragment":1},{"literal":"\nwhich?"}]}'),
      ('u1', 1, 'attachment', NULL, NULL, '{"attachment_id":"x"}'),
      ('a1', 0, 'reasoning', NULL, 'I look', NULL),
      ('a1', 1, 'tool_call', 'llm_version', NULL, '{"arguments":{"v":1},"tool_call_id":"k"}'),
      ('t1', 0, 'tool_result', 'llm_version', NULL, '{"output":"0.32","tool_call_id":"k"}'),
      ('a2', 0, 'text', NULL, 'It is 0.32.', NULL), ('u2', 0, 'text', NULL, 'thanks', NULL), ('a3', 0, 'text', NULL, 'Sure.', NULL),
      ('u3', 0, 'text', NULL, 'other', NULL), ('a4', 0, 'text', NULL, 'way', NULL),
      ('u4', 0, 'text', NULL, 'alone', NULL), ('a5', 0, 'text', NULL, 'yes', NULL), ('gone', 0, 'text', NULL, 'lost', NULL);
    INSERT INTO threads VALUES ('c1', 'Which?', 'a3', NULL, '2026-01-01 10:00:00'), ('c2', 'Fork', 'a4', 'c1', '2026-01-01 11:00:00');
    INSERT INTO turns VALUES ('1', 'c1', 'u1', 'a1', 'gpt-x', 20, 5, '2026-01-01T10:00:00+00:00', NULL),
      ('2', 'c1', 't1', 'a2', 'gpt-x', 30, 6, '2026-01-01T10:00:01+00:00', NULL), ('3', 'c1', 'u2', 'a3', 'gpt-x', 40, 7, '2026-01-01T10:00:02+00:00', '{}'),
      ('4', 'c2', 'u3', 'a4', 'gpt-x', 1, 1, '2026-01-01T11:00:00+00:00', NULL), ('5', NULL, 'u4', 'a5', 'gpt-x', NULL, NULL, '2026-01-02T10:00:00+00:00', NULL);
"#;

#[test]
fn llm_threads_are_sessions_and_shared_messages_are_in_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let collected =
        read_file(&database(folder.path(), LLM_THREADS), Format::Llm).expect("it is read");
    let shared = [
        "user: a long text\nwhich?",
        "assistant: llm_version({\"v\":1})",
        "tool: = 0.32",
        "assistant: It is 0.32.",
    ];
    assert_eq!(collected.said(0), [&shared[..], &["user: thanks", "assistant: Sure."]].concat());
    assert_eq!(collected.said(1), [&shared[..], &["user: other", "assistant: way"]].concat());
    assert_eq!(collected.said(2), ["user: alone", "assistant: yes"]);
    assert_eq!(collected.kinds(0), ["imported/llm/thread", "imported/llm/system"]);
    let fork = collected.found(1).parent.as_ref().expect("a parent");
    assert_eq!(fork.identity, "c1");
    let account = &collected.account;
    assert_eq!((account.records, account.unreadable), (2 + 5 + 11 + 14, 1), "{account:?}");
    assert_eq!((account.calls, account.pairs), (1, 1));
    assert_eq!(account.tokens, Usage { input: 91, output: 19, ..Usage::default() });
}

#[test]
fn an_llm_thread_continues_the_conversation_it_repeats() {
    let folder = tempfile::tempdir().expect("a folder");
    let both = format!(
        "{} {LLM}
        INSERT INTO messages VALUES ('p1', NULL, 'user', NULL), ('p2', 'p1', 'assistant', NULL), ('p3', 'p2', 'user', NULL), ('p4', 'p3', 'assistant', NULL);
        INSERT INTO parts (message_hash, position, type, text) VALUES ('p1', 0, 'text', 'which version?'), ('p2', 0, 'text', '0.27'),
          ('p3', 0, 'text', 'and now?'), ('p4', 0, 'text', 'the same');
        INSERT INTO threads VALUES ('c1', 'Versions', 'p4', NULL, '2026-01-03 10:00:00');
        INSERT INTO turns (id, thread_id, parent_message_hash, tip_message_hash) VALUES ('9', 'c1', 'p3', 'p4');",
        LLM_THREADS.split("INSERT").next().unwrap_or_default().replace("CREATE TABLE fragments (id INTEGER PRIMARY KEY, content TEXT);", "")
    );
    let collected = read_file(&database(folder.path(), &both), Format::Llm).expect("it is read");
    let said = collected.said(0);
    assert_eq!(said.iter().filter(|line| line.contains("which version?")).count(), 1, "{said:?}");
    assert_eq!(said[said.len() - 2..], ["user: and now?", "assistant: the same"]);
    assert_eq!(collected.sessions.iter().filter(|(found, _)| found.identity == "c1").count(), 1);
}

const AGENTS: &str = r#"
    CREATE TABLE my_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);
    CREATE TABLE my_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TIMESTAMP);
    CREATE TABLE turn_usage (id INTEGER PRIMARY KEY, session_id TEXT, input_tokens INTEGER, output_tokens INTEGER, input_tokens_details TEXT);
    INSERT INTO my_sessions VALUES ('talk', '2026-01-01 10:00:00', '2026-01-01 10:00:00');
    INSERT INTO my_messages (session_id, message_data, created_at) VALUES
      ('talk', '{"content":"list","role":"user"}', '2026-01-01 10:00:00'),
      ('talk', '{"id":"rs","summary":[],"type":"reasoning"}', '2026-01-01 10:00:01'),
      ('talk', '{"arguments":"{\"d\":1}","call_id":"c","name":"ls","type":"function_call"}', '2026-01-01 10:00:01'),
      ('talk', '{"call_id":"c","output":"a","type":"function_call_output"}', '2026-01-01 10:00:02'),
      ('talk', '{"content":[{"type":"output_text","text":"One file."}],"role":"assistant","type":"message"}', '2026-01-01 10:00:03'),
      ('talk', 'not json', '2026-01-01 10:00:04');
    INSERT INTO turn_usage VALUES (1, 'talk', 50, 9, '{"cached_tokens":20}');
"#;

#[test]
fn a_database_of_the_agents_sdk_is_read_under_any_table_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let collected =
        read_file(&database(folder.path(), AGENTS), Format::OpenAiAgents).expect("it is read");
    assert_eq!(
        collected.said(0),
        ["user: list", "assistant: ls({\"d\":1})", "tool: = a", "assistant: One file."]
    );
    assert_eq!((collected.account.records, collected.account.raw), (8, 3));
    let tokens = Usage { input: 30, output: 9, cache_read: 20, cache_write: 0 };
    assert_eq!(collected.account.tokens, tokens);
}

#[test]
fn an_opencode_database_is_read_like_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let sql = r#"
        CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, title TEXT, time_created INTEGER);
        CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
        INSERT INTO session VALUES ('s', '/w', 'T', 1730000000000);
        INSERT INTO message VALUES ('m1', 's', 1730000000001, '{"role":"user"}');
        INSERT INTO part VALUES ('p1', 'm1', 's', '{"type":"text","text":"hi"}');
    "#;
    let collected = read_file(&database(folder.path(), sql), Format::OpenCode).expect("it is read");
    assert_eq!(collected.said(0), ["user: hi"]);
    assert_eq!(collected.account.records, 3);
}

const OPENCODE_ROWS: &str = r#"
    CREATE TABLE session_v2 (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, model TEXT, time_created INTEGER);
    CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER, data TEXT);
    INSERT INTO session_v2 VALUES ('s', NULL, '/w', 'T', '{}', 1730000000000);
    INSERT INTO session_message VALUES
      ('m2', 's', 'assistant', 2, 1730000000002, '{"model":{"id":"m","providerID":"p"},"tokens":{"input":9,"output":2,"reasoning":1,"cache":{"read":4,"write":0}},"content":[{"type":"reasoning","text":"hm"},{"type":"tool","id":"c","name":"shell","state":{"status":"completed","input":{"command":"ls"},"content":[{"type":"text","text":"a"}]}},{"type":"tool","id":"d","name":"read","state":{"status":"error","input":{},"error":{"type":"unknown","message":"no such file"}}},{"type":"text","text":"One."}]}'),
      ('m1', 's', 'user', 1, 1730000000001, '{"text":"list","files":[]}'),
      ('m3', 's', 'model-switched', 3, 1730000000003, '{"model":{"id":"n"}}'),
      ('m4', 's', 'compaction', 4, 1730000000004, '{"status":"completed","summary":"so far"}'),
      ('m5', 's', 'user', 5, 1730000000005, '{"text":"more"}'),
      ('m6', 'gone', 'user', 1, 1730000000006, '{"text":"alone"}');
"#;

#[test]
fn the_newest_tables_of_opencode_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let collected =
        read_file(&database(folder.path(), OPENCODE_ROWS), Format::OpenCode).expect("read");
    assert_eq!(
        collected.said(0),
        [
            "user: list",
            "assistant: One. shell({\"command\":\"ls\"}) read({})",
            "tool: = a = no such file",
            "user: so far",
            "user: more"
        ]
    );
    assert_eq!(collected.said(1), ["user: alone"]);
    let account = &collected.account;
    assert_eq!((account.records, account.calls, account.pairs), (7, 2, 2));
    assert_eq!(account.tokens, Usage { input: 9, output: 3, cache_read: 4, cache_write: 0 });
    assert_eq!(collected.found(0).profile.workspace.as_deref(), Some("/w"));
}

#[test]
fn what_opencode_keeps_in_both_tables_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let sql = format!(
        "{OPENCODE_ROWS}
        CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, title TEXT, time_created INTEGER);
        CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
        INSERT INTO session VALUES ('s', '/w', 'T', 1730000000000);
        INSERT INTO message VALUES ('m1', 's', 1730000000001, '{{\"role\":\"user\"}}');
        INSERT INTO part VALUES ('p1', 'm1', 's', '{{\"type\":\"text\",\"text\":\"list\"}}');"
    );
    let collected = read_file(&database(folder.path(), &sql), Format::OpenCode).expect("read");
    assert_eq!(collected.said(0), ["user: list"]);
    assert_eq!(collected.sessions.len(), 2);
    assert_eq!((collected.account.records, collected.account.raw), (10, 7));
}

#[test]
fn a_database_that_is_being_written_is_read_and_nothing_appears_beside_an_idle_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = database(folder.path(), &format!("PRAGMA journal_mode = WAL; {AGENTS}"));
    let names = || {
        let files = std::fs::read_dir(folder.path()).expect("read");
        files.map(|file| file.expect("a file").file_name()).collect::<Vec<_>>()
    };
    assert_eq!(names().len(), 1, "the writer tidied up");
    let before = std::fs::read(&path).expect("read");
    read_file(&path, Format::OpenAiAgents).expect("it is read");
    assert_eq!(names().len(), 1, "{:?}", names());
    assert_eq!(std::fs::read(&path).expect("read"), before);
    // A writer in the middle of a transaction.
    let writer = Connection::open(&path).expect("opened");
    writer
        .execute_batch(
            "INSERT INTO my_messages (session_id, message_data) VALUES ('talk', '{\"role\":\"user\",\"content\":\"new\"}');
             BEGIN; INSERT INTO my_messages (session_id, message_data) VALUES ('talk', '{\"role\":\"user\",\"content\":\"not yet\"}');",
        )
        .expect("written");
    let collected = read_file(&path, Format::OpenAiAgents).expect("it is read");
    assert_eq!(collected.said(0).last().map(String::as_str), Some("user: new"));
    writer.execute_batch("COMMIT").expect("the reader held nothing up");
}

#[test]
fn a_column_whose_name_is_not_text_is_reported_and_stops_nothing() {
    for column in ["nam_", "made_ TEXT GENERATED ALWAYS AS (id)"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = database(folder.path(), GOOSE);
        let connection = Connection::open(&path).expect("opened");
        let sql = format!("ALTER TABLE messages ADD COLUMN {column}");
        connection.execute_batch(&sql).expect("changed");
        drop(connection);
        let mut bytes = std::fs::read(&path).expect("read");
        let name = &column.as_bytes()[..column.find('_').expect("a place") + 1];
        let at = bytes.windows(name.len()).position(|part| part == name).expect("its name");
        bytes[at + name.len() - 1] = 0x8c;
        std::fs::write(&path, bytes).expect("written");
        let error = recognise(&path).map(drop).expect_err(column).to_string();
        assert_eq!(error, "a column of the table `messages` has a name that is not UTF-8");
    }
}

#[test]
fn a_database_that_is_damaged_or_of_another_program_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = database(folder.path(), "CREATE TABLE songs (id INTEGER, title TEXT);");
    assert_eq!(recognise(&path).expect("it is looked at"), None);
    std::fs::write(&path, [b"SQLite format 3\0", &[0xff; 200][..]].concat()).expect("written");
    assert!(recognise(&path).is_err(), "it says what is wrong");
    // A table with missing pages in the middle.
    std::fs::remove_file(&path).expect("removed");
    let filler = format!(
        "{AGENTS} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) \
         INSERT INTO my_messages (session_id, message_data) SELECT 'talk', '{{\"role\":\"user\",\"content\":\"filler filler filler filler\"}}' FROM n;"
    );
    let path = database(folder.path(), &filler);
    let mut bytes = std::fs::read(&path).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xee);
    std::fs::write(&path, bytes).expect("written");
    let collected = read_file(&path, Format::OpenAiAgents).expect("what is whole is read");
    assert!(
        collected.account.unreadable > 0 && collected.account.stored > 100,
        "{:?}",
        collected.account
    );
}
