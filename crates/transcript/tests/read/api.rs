//! Messages in the formats of APIs.

use rethread_transcript::read::Format;

use crate::support::read_as;

#[test]
fn messages_of_openai_are_read_and_instructions_kept_aside() {
    let text = r#"[{"role":"system","content":"obey"},{"role":"user","content":"hi"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c","content":"a"},{"role":"assistant","content":"done"}]"#;
    let collected = read_as("chat.json", text, Format::OpenAi);
    assert_eq!(
        collected.said(0),
        ["user: hi", "assistant: ls({})", "tool: = a", "assistant: done"]
    );
    assert_eq!(collected.kinds(0), ["imported/openai/system"]);
    assert_eq!((collected.account.calls, collected.account.pairs), (1, 1));
}

#[test]
fn messages_of_anthropic_are_read() {
    let text = r#"{"model":"m","system":"obey","messages":[{"role":"user","content":"hi"},
        {"role":"assistant","content":[{"type":"tool_use","id":"c","name":"ls","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"a"}]}]}"#;
    let collected = read_as("chat.json", text, Format::Anthropic);
    assert_eq!(collected.said(0), ["user: hi", "assistant: ls({})", "tool: = a"]);
    assert_eq!(collected.kinds(0), ["imported/anthropic/request"]);
}

#[test]
fn a_list_that_was_cut_off_keeps_what_is_whole() {
    let collected =
        read_as("c.json", r#"[{"role":"user","content":"hi"},{"role":"us"#, Format::OpenAi);
    assert_eq!(collected.said(0), ["user: hi"]);
    assert_eq!(collected.account.unreadable, 1);
}

#[test]
fn a_message_a_line_is_a_conversation() {
    let text =
        "{\"role\":\"user\",\"content\":\"hi\"}\n{\"role\":\"assistant\",\"content\":\"yes\"}\n";
    assert_eq!(read_as("c.jsonl", text, Format::OpenAi).said(0), ["user: hi", "assistant: yes"]);
}
