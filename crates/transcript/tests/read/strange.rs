//! Files that violate their format: truncated, mixed up, newer, or with fields of other
//! types than expected.

use rethread_core::message::Usage;
use rethread_transcript::read::{Format, recognise};

use crate::support::{read_as, written};

#[test]
fn instructions_show_where_an_emacs_file_begins() {
    let file = |messages: &str| format!("{{\"id\":\"s\",\"messages\":[{messages}]}}");
    let system = r#"{"role":"system","content":"obey"}"#;
    let (user, reply) =
        (r#"{"role":"user","content":"q"}"#, r#"{"role":"assistant","content":"a"}"#);
    for messages in [format!("{system},{user},{reply}"), format!("{reply},{user},{system}")] {
        let collected = read_as("s.json", file(&messages), Format::Magent);
        assert_eq!(collected.said(0), ["user: q", "assistant: a"]);
        assert_eq!(collected.kinds(0), ["imported/magent/system"]);
    }
}

#[test]
fn a_value_in_the_place_of_a_list_is_kept() {
    for (text, format) in [
        (r#"{"id":"s","messages":{"0":"x"},"timestamp":"t"}"#, Format::Magent),
        (r#"{"metadata":{"id":"a","createdAt":"x"},"messages":"x"}"#, Format::Agent),
        (r#"{"1":{"user_id":1,"history":{"0":"x"}}}"#, Format::Telegram),
        (r#"{"sessionId":"g","projectHash":"h","messages":"x"}"#, Format::Gemini),
        (r#"{"history":"x","info":{},"messages":[]}"#, Format::SweAgent),
        (r#"{"model":"m","messages":"x"}"#, Format::OpenAi),
    ] {
        let collected = read_as("s.json", text, format);
        let kept = collected.sessions[0].1.iter().any(|entry| entry.body.json().contains("\"x\""));
        assert!(kept, "{format:?}: {:?}", collected.sessions);
    }
}

#[test]
fn a_document_that_was_cut_off_or_continues_after_its_end_gives_what_is_whole() {
    let gemini = r#"{"sessionId":"g","projectHash":"h","messages":[{"id":"1","type":"user","content":"a"},{"id":"2","type":"user","content":"b"}]}"#;
    let agent = r#"{"metadata":{"id":"a","createdAt":"2025-01-04T14:32:15Z"},"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
    let swe = r#"{"info":{"x":1},"history":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
    for (text, format) in
        [(gemini, Format::Gemini), (agent, Format::Agent), (swe, Format::SweAgent)]
    {
        let cut = &text[..text.rfind("\"b\"").expect("there")];
        let collected = read_as("s.json", cut, format);
        assert_eq!(collected.said(0), ["user: a"], "{format:?}");
        assert_eq!(collected.account.unreadable, 1);
        let collected = read_as("s.json", format!("{text}\n{{\"more\""), format);
        assert_eq!(collected.said(0), ["user: a", "user: b"], "{format:?}");
        assert_eq!(collected.account.unreadable, 1);
    }
}

#[test]
fn a_first_line_that_is_damaged_or_foreign_hides_no_format() {
    let line =
        r#"{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"a"}}"#;
    for first in ["{\"type\":\"us", "warning: something", "\u{fffd}\u{fffd}"] {
        let collected = read_as("s.jsonl", format!("{first}\n{line}\n"), Format::ClaudeCode);
        assert_eq!(collected.said(0), ["user: a"]);
        assert_eq!((collected.account.stored, collected.account.unreadable), (1, 1));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let prose = format!("# How records look\n\n    {line}\n");
    let path = written(folder.path(), "notes.md", prose);
    assert_eq!(recognise(&path).expect("it is looked at"), None, "an example is not a record");
}

#[test]
fn items_of_the_newer_api_are_one_reply_with_its_calls() {
    let text = r#"[{"type":"message","role":"user","content":"hi"},
        {"type":"reasoning","summary":[]},{"type":"function_call","call_id":"c","name":"n","arguments":"{}"},
        {"type":"function_call","call_id":"d","name":"n","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":"r"},{"type":"function_call_output","call_id":"d","output":"s"},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]},{"type":"newer_call","x":1}]"#;
    let collected = read_as("r.json", text, Format::OpenAi);
    assert_eq!(
        collected.said(0),
        ["user: hi", "assistant: n({}) n({})", "tool: = r", "tool: = s", "assistant: a"]
    );
    assert_eq!((collected.account.pairs, collected.account.raw), (2, 1));
}

#[test]
fn a_reply_that_occurs_twice_is_counted_once() {
    let line = |uuid: &str, parent: &str, id: &str, text: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"{uuid}","parentUuid":"{parent}","sessionId":"s","message":{{"id":"{id}","role":"assistant","content":[{{"type":"text","text":"{text}"}}],"usage":{{"input_tokens":10,"output_tokens":5}}}}}}"#
        )
    };
    let user = r#"{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"q"}}"#;
    // Another answer comes between two lines of one reply.
    let lines = [
        user.to_owned(),
        line("1", "u", "m", "a"),
        line("x", "u", "n", "other"),
        line("2", "1", "m", "b"),
    ];
    let collected = read_as("s.jsonl", lines.join("\n"), Format::ClaudeCode);
    assert_eq!(collected.account.tokens, Usage { input: 20, output: 10, ..Usage::default() });
}

#[test]
fn every_fork_gets_what_was_said_before_it() {
    let mut lines = vec![
        r#"{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"q"}}"#.to_owned(),
    ];
    for fork in 0..12 {
        lines.push(format!(
            r#"{{"type":"assistant","uuid":"a{fork}","parentUuid":"u","sessionId":"s","message":{{"id":"m{fork}","role":"assistant","content":"{fork}"}}}}"#
        ));
    }
    let collected = read_as("s.jsonl", lines.join("\n"), Format::ClaudeCode);
    assert_eq!(collected.sessions.len(), 12);
    for session in 0..12 {
        assert_eq!(collected.said(session)[0], "user: q", "session {session}");
    }
}

#[test]
fn what_claude_code_prints_for_programs_is_read_too() {
    let lines = r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"s","model":"m"}
{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"c","name":"Bash","input":{}}],"usage":{"input_tokens":1,"output_tokens":2}},"session_id":"s"}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]},"session_id":"s"}
{"type":"result","subtype":"success","session_id":"s"}"#;
    let collected = read_as("out.jsonl", lines, Format::ClaudeCode);
    assert_eq!(collected.said(0), ["assistant: Bash({})", "tool: = r"]);
    assert_eq!(collected.found(0).identity, "s");
    assert_eq!(collected.account.raw, 2);
}

#[test]
fn a_checkpoint_of_gemini_is_a_session() {
    let turns = r#"[{"role":"user","parts":[{"text":"list"}]},{"role":"model","parts":[{"functionCall":{"name":"ls","args":{"d":1}}}]},{"role":"user","parts":[{"functionResponse":{"name":"ls","response":{"output":"a"}}}]},{"role":"model","parts":[{"text":"One."}]}]"#;
    for text in [turns.to_owned(), format!("{{\"history\":{turns},\"authType\":\"x\"}}")] {
        let collected = read_as("checkpoint.json", text, Format::Gemini);
        assert_eq!(
            collected.said(0),
            ["user: list", "assistant: ls({\"d\":1})", "tool: = a", "assistant: One."]
        );
        assert_eq!((collected.account.calls, collected.account.pairs), (1, 1));
    }
}

#[test]
fn what_opencode_exports_is_read_like_its_folder() {
    let text = r#"{"info":{"id":"s","title":"T"},"messages":[{"info":{"id":"m1","role":"user"},"parts":[{"type":"text","text":"hi"}]},
        {"info":{"id":"m2","role":"assistant","tokens":{"input":1,"output":2}},"parts":[{"type":"text","text":"yo"}]},{"odd":1}]}"#;
    let collected = read_as("export.json", text, Format::OpenCode);
    assert_eq!(collected.said(0), ["user: hi", "assistant: yo"]);
    assert_eq!((collected.account.records, collected.account.tokens.total()), (6, 3));
}

#[test]
fn a_transcript_that_is_quoted_in_an_answer_makes_no_turns() {
    let text = "# Sally Conversation\n\n**Session ID:** s\n**Agent:** Sally\n**Total Queries:** 2\n\n---\n\n\
        ## Query 1 (10:00:00)\n**You:** show me the format\n\n**Sally:** It is:\n\n## Query 7 (see below)\n\nand\n\n\
        ## Query 1 (09:00:00)\n**You:** quoted\n\n**Sally:** quoted too\n\n*Time: 1.0s*\n\n---\n\n\
        ## Query 2 (10:00:05)\n**You:** thanks\n\n**Sally:** Sure.\n\n*Time: 1.0s*\n\n---\n";
    let collected = read_as("s.md", text, Format::Markdown);
    let said = collected.said(0);
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[1].contains("## Query 7 (see below)") && said[1].contains("quoted too"));
    assert_eq!(said[2], "user: thanks");
}

#[test]
fn half_a_summary_is_kept_and_said() {
    let text = "# Sally Conversation\n\n**Session ID:** s\n**Agent:** Sally\n\n---\n\n\
        ## Query 1 (10:00:00)\n**You:** q\n\n**Sally:** a\n\n---\n\n<!-- SESSION_SUMMARY_START -->\nhalf";
    let collected = read_as("s.md", text, Format::Markdown);
    assert_eq!(collected.kinds(0), ["imported/markdown/rest"]);
    assert_eq!(collected.account.notes.len(), 1, "{:?}", collected.account.notes);
}

#[test]
fn a_record_that_is_null_comes_home_as_null() {
    let lines = "{\"rethread\":1,\"session\":{\"id\":\"01a1de60-51fe-70cd-b829-d63a8edcab9d\",\"owner\":\"local\",\"name\":\"n\",\"created_at\":\"2025-01-01T00:00:00Z\",\"imported\":\"telegram\"},\"keys\":[]}\n\
        {\"id\":\"e\",\"at\":\"2025-01-01T00:00:00.000Z\",\"kind\":\"imported/telegram/other\",\"body\":null}\n";
    let collected = read_as("e.jsonl", lines, Format::Rethread);
    assert_eq!(collected.kinds(0), ["imported/telegram/other"]);
    assert_eq!(collected.found(0).imported.as_deref(), Some("telegram"));
}

#[test]
fn counts_that_go_back_or_are_absurd_do_no_harm() {
    let turn = |number: usize, reply: &str, input: u64, output: u64| {
        format!(
            "## Query {number} (10:00:0{number})\n**You:** q\n\n**Sally:** {reply}\n\n*Time: 1.0s | Tokens: 1 (in: {input}, out: {output})*\n\n---\n\n"
        )
    };
    let head = "# Sally Conversation\n\n**Session ID:** s\n**Agent:** Sally\n\n---\n\n";
    let words = "word ".repeat(20);
    let back = [turn(1, &words, 90, 20), turn(2, "", 10, 0), turn(3, &words, 95, 41)];
    let absurd = [turn(1, &words, u64::MAX, u64::MAX), turn(2, &words, u64::MAX, u64::MAX)];
    for turns in [back.concat(), absurd.concat()] {
        let collected = read_as("s.md", format!("{head}{turns}"), Format::Markdown);
        assert!(collected.account.tokens.output >= 41, "{:?}", collected.account.tokens);
    }
}
