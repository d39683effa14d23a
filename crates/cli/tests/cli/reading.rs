//! What people read: lists that fit the window, readable conversations, and no store that a
//! typing mistake creates.

use rusqlite::Connection;
use serde_json::json;

use crate::home::{Home, WITH_TOOL};
use crate::terminal::Terminal;

/// What the pager adds to each line.
const PAGED: &str = "\x1b[m";

/// What a command shows in a window of this many columns.
fn in_window(home: &Home, columns: usize, args: &str) -> String {
    let rethread = env!("CARGO_BIN_EXE_rethread");
    let line = format!("stty cols {columns} rows 60; exec {rethread} {args}");
    let (shown, code) = Terminal::run(home, &line, &[]).end();
    assert_eq!(code, 0, "{shown}");
    shown
}

#[test]
fn a_list_fits_its_window_and_has_titles() {
    let home = Home::new();
    let long = json!({"role": "user", "content": "Why does the rate limiter let 日本語 requests \
        through when the bucket is empty and nobody has asked for a refill?"});
    for key in ["file:a", "file:b"] {
        assert_eq!(home.feed(&["append", "--key", key], long.to_string()).code, 0);
    }
    home.session("plan", &WITH_TOOL);
    for columns in [40, 60, 80] {
        let shown = in_window(&home, columns, "list");
        for line in shown.lines() {
            let width = rethread_render::terminal::line_width(line);
            assert!(width <= columns, "{columns}: {width} of {line:?}");
        }
        for text in ["plan", "Why does the rate", "~", "append", "now", "4"] {
            assert!(shown.contains(text), "{columns}: {text} in {shown}");
        }
        assert!(!shown.contains("2026-") && !shown.contains("-0"), "no timestamps: {shown}");
    }
    let titles = home.json(&["list"]);
    assert_eq!(titles["sessions"][0]["title"], "plan");
    let title = titles["sessions"][1]["title"].as_str().expect("a title");
    assert_eq!(title, "Why does the rate limiter let 日本語 requests through when…");
}

#[test]
fn a_session_in_which_nothing_was_said_is_hidden_and_has_no_number() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    assert_eq!(home.feed(&["append", "--new", "--name", "empty"], "").code, 1);
    let system = r#"{"role":"system","content":"Be brief."}"#;
    home.session("unused", &[system]);
    let names = |args: &[&str]| -> Vec<String> {
        let all = home.json(args)["sessions"].as_array().expect("a list").clone();
        all.iter().map(|session| session["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(&["list"]), ["plan"]);
    assert_eq!(names(&["list", "--all"]), ["unused", "plan"]);
    assert_eq!(home.json(&["show", "1"])["session"]["name"], "plan");
    assert_eq!(home.json(&["show", "last"])["session"]["name"], "plan");
}

#[test]
fn a_rename_is_the_title_from_then_on() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    assert_eq!(home.run(&["rename", "plan", "Finding Lisp Files"]).code, 0);
    let session = home.json(&["list"])["sessions"][0].clone();
    assert_eq!(session["name"], "Finding Lisp Files");
    assert_eq!(session["title"], "Finding Lisp Files");
    assert_eq!(home.run(&["rename", "1", "lisp"]).code, 0);
    assert_eq!(home.json(&["list"])["sessions"][0]["title"], "lisp");
}

#[test]
fn show_folds_long_results_and_full_does_not() {
    let home = Home::new();
    let result: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    let lines = [
        r#"{"role":"user","content":"count"}"#.to_owned(),
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "run",
            "input": {"command": "seq 40", "why": "to see"}}]})
        .to_string(),
        json!({"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "1",
            "content": result}]})
        .to_string(),
    ];
    home.session("plan", &[&lines[0], &lines[1], &lines[2]]);
    let folded = home.run(&["show", "plan"]).out;
    assert!(folded.contains("  → run seq 40\n    line 1\n"), "{folded}");
    assert!(folded.contains("    line 5\n    … 35 more lines\n"), "{folded}");
    assert!(!folded.contains("line 6") && !folded.contains("to see"), "{folded}");
    let full = home.run(&["show", "plan", "--full"]).out;
    assert!(full.contains("    line 40\n"), "{full}");
    assert!(full.contains("  → run\n    command: seq 40\n    why: to see\n"), "{full}");
}

#[test]
fn folded_results_keep_their_columns() {
    let home = Home::new();
    let rows = "NAME      AGE   SIZE\nbackup    3d    12M\nx\t1\nlonger\t2\n\tend";
    let lines = [
        json!({"role": "user", "content": "list them"}),
        json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "run", "input": {"command": "ls"}},
        ]}),
        json!({"role": "tool", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": rows},
        ]}),
    ];
    let lines = lines.map(|line| line.to_string());
    home.session("plan", &lines.each_ref().map(String::as_str));
    let rows = ["NAME      AGE   SIZE", "backup    3d    12M", "x       1", "longer  2", "    end"];
    let paged = in_window(&home, 80, "show plan").replace(PAGED, "");
    for shown in [home.run(&["show", "plan"]).out, paged] {
        let shown: Vec<&str> = shown.lines().map(str::trim_end).collect();
        for row in rows {
            assert!(shown.contains(&format!("    {row}").as_str()), "{row:?}: {shown:#?}");
        }
    }
}

#[test]
fn the_line_of_a_call_is_as_long_as_the_window_and_whole_in_a_pipe() {
    let home = Home::new();
    let words: Vec<String> = (1..=60).map(|n| format!("word-{n}")).collect();
    let command = words.join(" ");
    let call = |name: &str, input: serde_json::Value| {
        let call = json!({"type": "tool_use", "id": "1", "name": name, "input": input});
        json!({"role": "assistant", "content": [call]}).to_string()
    };
    let asked = json!({"role": "user", "content": "do it"}).to_string();
    home.session("plan", &[&asked, &call("run", json!({"command": command}))]);
    let piped = home.run(&["show", "plan"]).out;
    assert!(piped.contains(&format!("  → run {command}\n")), "{piped}");
    for columns in [60, 120] {
        let shown = in_window(&home, columns, "show plan").replace(PAGED, "");
        let line = shown.lines().find(|line| line.contains('→')).expect("a call").trim_end();
        assert!(line.ends_with('…'), "{line}");
        assert_eq!(rethread_render::terminal::line_width(line), columns, "{line}");
    }
    let full = in_window(&home, 60, "show plan --full");
    assert!(words.iter().all(|word| full.contains(word.as_str())), "{full}");
    assert!(!full.contains('{') && !full.contains('…'), "{full}");
    // Of an edit, the text that it removes and inserts.
    let edit = call("edit_file", json!({"path": "a.rs", "edits": [{"old": "a\nb", "new": "c"}]}));
    home.session("edit", &[&asked, &edit]);
    let full = home.run(&["show", "edit", "--full"]).out;
    assert!(full.ends_with("  → edit a.rs\n    - a\n    - b\n    + c\n"), "{full}");
}

#[test]
fn each_result_is_shown_under_its_call() {
    let home = Home::new();
    let call = |id: &str, name: &str, input: serde_json::Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let result =
        |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
    let lines = [
        json!({"role": "user", "content": "look"}),
        json!({"role": "assistant", "content": [
            {"type": "text", "text": "Two at once."},
            call("1", "run", json!({"command": "git status"})),
            call("2", "grep", json!({"pattern": "limit"})),
        ]}),
        json!({"role": "tool", "content": [result("2", "limit.rs"), result("1", "clean tree")]}),
        json!({"role": "assistant", "content": [call("3", "run", json!({"command": "sleep 9"}))]}),
    ];
    let lines = lines.map(|line| line.to_string());
    home.session("plan", &lines.each_ref().map(String::as_str));
    let shown = home.run(&["show", "plan"]).out;
    let expected = "  Two at once.\n  → grep limit\n    limit.rs\n  → run git status\n    \
                    clean tree\n  → run sleep 9\n";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn the_heading_of_a_session_breaks_between_its_facts() {
    let home = Home::new();
    let said = home.feed(&["append", "--new"], r#"{"role":"user","content":"why?"}"#);
    assert_eq!(said.code, 0, "{said:?}");
    let name = home.json(&["list"])["sessions"][0]["name"].as_str().expect("a name").to_owned();
    let rethread = env!("CARGO_BIN_EXE_rethread");
    let line = format!("stty cols 60 rows 60; RETHREAD_PAGER=cat exec {rethread} show 1");
    let (shown, code) = Terminal::run(&home, &line, &[]).end();
    assert_eq!(code, 0, "{shown}");
    let lines: Vec<&str> = shown.lines().take(4).collect();
    assert_eq!(lines[0], "why?");
    assert!(lines[1].starts_with("1 message · ") && lines[1].ends_with(" ·"), "{shown}");
    // Neither a date nor a name is cut in two.
    assert!(lines[2].ends_with(&name) && lines[3].is_empty(), "{shown}");
}

#[test]
fn the_help_of_a_list_says_what_a_workspace_does() {
    let home = Home::new();
    for command in ["list", "search", "stats"] {
        let help = home.run(&[command, "--help"]).out;
        assert!(help.contains("--workspace <DIR>"), "{help}");
        assert!(help.contains("Only sessions of this folder"), "{help}");
        assert!(!help.contains("--store <URL>"), "{help}");
    }
    assert!(!home.run(&["show", "--help"]).out.contains("--workspace <DIR>"));
}

#[test]
fn show_has_colours_and_a_pager_at_a_terminal() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    let rethread = env!("CARGO_BIN_EXE_rethread");
    // The pager leaves a mark.
    let pager = "RETHREAD_PAGER='cat; echo read-in-a-pager' NO_COLOR=";
    let line = format!("stty cols 60 rows 10; {pager} exec {rethread} show plan");
    let (shown, code) = Terminal::run(&home, &line, &[("TERM", "xterm-256color".into())]).end();
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("\x1b[1;32mYou\x1b[0m"), "{shown:?}");
    assert!(shown.ends_with("read-in-a-pager\n"), "{shown:?}");
    let line = format!("stty cols 60 rows 10; RETHREAD_PAGER=cat exec {rethread} show plan");
    let (plain, code) = Terminal::run(&home, &line, &[]).end();
    assert_eq!(code, 0, "{plain}");
    assert!(plain.contains("Find all .el files") && !plain.contains('\x1b'), "{plain:?}");
}

#[test]
fn a_mistyped_store_is_not_made_by_a_command_that_reads() {
    let home = Home::new();
    let path = home.path().join("no/such/folder/x.db");
    let text = path.display().to_string();
    for args in [
        &["list"][..],
        &["show", "1"],
        &["search", "hello"],
        &["delete", "1"],
        &["trash", "list"],
        &["doctor"],
        &["rename", "1", "plan"],
    ] {
        let said = home.run(&[args, &["--store", &text]].concat());
        let told = format!("No store at {text}; nothing was created.");
        assert!(said.err.contains(&told), "{args:?}: {said:?}");
        assert!(!home.path().join("no").exists(), "{args:?}");
    }
    let folder = home.path().join("files");
    let url = format!("files:{}", folder.display());
    assert_eq!(home.run(&["list", "--store", &url]).code, 0);
    assert!(!folder.exists());
    let first = home.feed(&["append", "--new", "--store", &text], WITH_TOOL[0]);
    assert_eq!(first.code, 0, "{first:?}");
    assert!(first.err.contains(&format!("Sessions are kept in {text} from now on.")), "{first:?}");
    let second = home.feed(&["append", "--new", "--store", &text], WITH_TOOL[0]);
    assert_eq!((second.code, second.err.as_str()), (0, ""));
    assert!(Connection::open(&path).is_ok());
}

#[test]
fn the_summary_of_a_conversation_that_was_compacted_elsewhere_is_shown_as_one() {
    let home = Home::new();
    let line = |uuid: &str, parent: Option<&str>, role: &str, text: &str| {
        json!({
            "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "s-1", "cwd": "/w",
            "timestamp": "2026-01-23T15:00:00Z", "isCompactSummary": uuid == "s",
            "message": {"role": role, "id": format!("m-{uuid}"), "content": [{"type": "text", "text": text}]},
        })
        .to_string()
    };
    let boundary = json!({
        "parentUuid": null, "logicalParentUuid": "a", "type": "system", "uuid": "k",
        "subtype": "compact_boundary", "sessionId": "s-1", "timestamp": "2026-01-23T15:00:00Z",
    });
    let lines = [
        line("u", None, "user", "How do I water roses?"),
        line("a", Some("u"), "assistant", "In the morning."),
        boundary.to_string(),
        line("s", Some("k"), "user", "This session is being continued: roses."),
        line("b", Some("s"), "assistant", "And tulips?"),
    ];
    std::fs::write(home.path().join("s-1.jsonl"), lines.join("\n") + "\n").expect("written");
    let said = home.run(&["import", "s-1.jsonl"]);
    assert_eq!(said.code, 0, "{said:?}");
    let said = home.run(&["show", "1"]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(
        lines[3].starts_with("(2 messages come before this summary: `rethread show "),
        "{said:?}"
    );
    assert!(lines[3].ends_with(" --all` shows them)"), "{said:?}");
    assert!(
        lines[5].starts_with("Summary of the earlier conversation (from Claude Code) · "),
        "{said:?}"
    );
    assert!(!said.out.contains("You ·") && !said.err.contains("clear"), "{said:?}");
    let all = home.run(&["show", "1", "--all"]);
    assert!(all.out.contains("You · ") && all.out.contains("compacted in Claude Code"), "{all:?}");
}

#[test]
fn an_error_calls_a_session_what_was_typed_for_it() {
    let home = Home::new();
    home.session("sess-6", &WITH_TOOL);
    home.run(&["rename", "sess-6", "Release plan: v2 🎉"]);
    for args in
        [&["undo", "release plan: V2 🎉"][..], &["fork", "release plan: V2 🎉", "--at", "99"]]
    {
        let said = home.run(args);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.starts_with("error: session `release plan: V2 🎉` has "), "{said:?}");
    }
    let said = home.run(&["show", "1", "--from", "99"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.starts_with("error: session `1` has "), "{said:?}");
}

#[test]
fn the_trash_alone_is_listed() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    assert_eq!(home.run(&["delete", "plan"]).code, 0);
    let (alone, list) = (home.run(&["trash"]), home.run(&["trash", "list"]));
    assert_eq!((alone.code, &alone.out), (0, &list.out));
    assert!(alone.out.contains("plan"), "{alone:?}");
}

#[test]
fn an_agent_that_nobody_chooses_is_not_listed() {
    let home = Home::new();
    let said = home.run(&["agents"]);
    assert!(said.out.contains("build") && !said.out.contains("compaction"), "{said:?}");
}

#[test]
fn another_programs_session_is_shown_with_its_name_and_its_id() {
    let home = Home::new();
    let folder = home.path().join("sessions");
    std::fs::create_dir_all(&folder).expect("a folder");
    let id = "2025-01-04-14-32-15-001-AbCd";
    let text = serde_json::json!({
        "metadata": {"id": id, "name": "Fix: Auth / JWT"},
        "messages": [{"role": "user", "content": "how?"}],
    });
    std::fs::write(folder.join(format!("{id}.json")), text.to_string()).expect("written");
    let run = |args: &[&str]| home.run(&[args, &["--store", "files:sessions"]].concat()).out;
    assert!(run(&["list"]).contains("Fix: Auth / JWT"));
    let shown = run(&["show", "Fix: Auth / JWT"]);
    let heading: Vec<&str> = shown.lines().take(2).collect();
    assert_eq!(heading[0], "Fix: Auth / JWT");
    assert!(heading[1].ends_with(id), "{shown}");
}

#[test]
fn no_note_splits_a_word_in_a_narrow_window() {
    let home = Home::new();
    let usage = json!({"input": 1_000, "output": 500, "cache_read": 3_000});
    let lines = [
        json!({"role": "user", "content": "hello"}),
        json!({"role": "assistant", "model": "anthropic/claude-sonnet-4-5", "usage": usage, "content": "hi"}),
    ];
    let lines = lines.map(|line| line.to_string());
    home.session("plan", &lines.each_ref().map(String::as_str));
    assert_eq!(home.run(&["clear", "plan"]).code, 0);
    for args in ["show plan", "stats plan", "stats", "search nothing-of-this", "delete plan"] {
        let shown = in_window(&home, 40, args);
        for line in shown.lines() {
            let width = rethread_render::terminal::line_width(line.trim_end());
            assert!(width <= 40, "{args}: {width} columns in {line:?}");
        }
    }
}
