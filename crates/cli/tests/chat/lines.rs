//! The chat on pipes: plain lines in, plain text out.

use serde_json::{Value, json};

use crate::home::{Home, Said};

/// Pipes these lines into a chat.
fn chat(home: &Home, args: &[&str], lines: &[&str]) -> Said {
    home.feed(args, lines.join("\n") + "\n")
}

fn newest(home: &Home) -> Value {
    home.json(&["list", "--all"])["sessions"][0].clone()
}

#[test]
fn a_first_run_needs_no_key_and_answers() {
    let home = Home::new();
    std::fs::write(
        home.path().join("notes.md"),
        "# Deploy\n\nThe deploy key lives in the vault.\n",
    )
    .expect("written");
    let said = chat(&home, &[], &["where does the deploy key live?"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("in the vault") && said.out.contains("notes.md:"), "{said:?}");
    assert!(said.err.contains("offline") && said.err.contains("ANTHROPIC_API_KEY"), "{said:?}");
    assert!(!said.out.contains('\x1b') && !said.out.contains("You:"), "{said:?}");
    let session = newest(&home);
    assert_eq!(session["queries"], 1);
    assert_eq!(session["agent"], "build");
    assert_eq!(session["provider"], "offline");
}

#[test]
fn leaving_prints_what_was_saved_word_for_word() {
    let home = Home::new();
    let said = chat(&home, &[], &["hello", "exit", "never read"]);
    let session = newest(&home);
    let id = session["readable_id"].as_str().expect("an id");
    assert!(id.starts_with("build_20"), "{id}");
    let (_, exit) = said.err.split_once("📝").expect("a summary");
    let lines: Vec<&str> = exit.lines().collect();
    assert_eq!(lines[0], " Generating session summary... ✓");
    assert_eq!(lines[1], "Goodbye!");
    assert_eq!(lines[2], "✓ Conversation saved successfully!");
    assert_eq!(lines[3], format!("  Session ID: {id}"));
    assert_eq!(lines[4], "  Queries: 1");
    assert!(lines[5].starts_with("  Tokens: "), "{lines:?}");
    assert_eq!(session["queries"], 1, "lines after exit are not read");
    let path = home.path().join(".local/share/rethread/transcripts").join(format!("{id}.md"));
    let text = std::fs::read_to_string(&path).expect("a transcript");
    assert!(text.starts_with("# build Conversation\n\n**Session ID:** "), "{text}");
    assert!(
        text.contains("<!-- SESSION_SUMMARY_START -->\n**Background Context:** Initial session."),
        "{text}"
    );
}

#[test]
fn a_chat_in_which_nothing_was_said_leaves_no_session() {
    let home = Home::new();
    let said = chat(&home, &[], &["", "  ", "help", "exit"]);
    assert_eq!(said.code, 0);
    assert!(said.err.ends_with("Goodbye!\n"), "{said:?}");
    assert_eq!(home.json(&["list"])["sessions"], Value::Array(Vec::new()));
}

#[test]
fn features_auto_save_off_writes_no_summary_and_no_transcript() {
    let home = Home::new();
    let file = home.path().join("config.toml");
    std::fs::write(&file, "[features]\nauto_save = false\n").expect("written");
    let said = chat(&home, &["--config", file.to_str().expect("a path")], &["hello", "exit"]);
    assert!(said.err.ends_with("Goodbye!\n") && !said.err.contains("📝"), "{said:?}");
    assert!(!home.path().join(".local/share/rethread/transcripts").exists());
    assert_eq!(newest(&home)["queries"], 1, "the log is kept");
}

#[test]
fn session_auto_save_off_keeps_nothing_and_says_so() {
    let home = Home::new();
    let file = home.path().join("config.toml");
    std::fs::write(&file, "[session]\nauto_save = false\n[features]\nauto_save = false\n")
        .expect("written");
    let said = chat(&home, &["--config", file.to_str().expect("a path")], &["hello", "exit"]);
    assert!(said.err.contains("this chat is not saved"), "{said:?}");
    assert_eq!(home.json(&["list"])["sessions"], Value::Array(Vec::new()));
    std::fs::write(&file, "[session]\nauto_save = false\n").expect("written");
    let said = chat(
        &home,
        &["--config", file.to_str().expect("a path")],
        &["hello", "compact", "y", "exit"],
    );
    assert!(said.err.ends_with("Goodbye!\n"), "{said:?}");
    assert!(!home.path().join(".local/share/rethread/transcripts").exists());
}

#[test]
fn session_max_sessions_archives_the_oldest_chats_and_nothing_that_was_recorded() {
    let home = Home::new();
    for name in ["one", "two", "three"] {
        chat(&home, &["--name", name], &["hello", "exit"]);
        home.session(&format!("recorded-{name}"), &[r#"{"role":"user","content":"hi"}"#]);
    }
    let file = home.path().join("config.toml");
    std::fs::write(&file, "[session]\nmax_sessions = 2\n").expect("written");
    let said = chat(&home, &["--config", file.to_str().expect("a path")], &["hello", "exit"]);
    assert!(said.err.contains("Archived 2 chats beyond the newest 2."), "{said:?}");
    let listed = home.json(&["list", "--all"]);
    let recorded = listed["sessions"].as_array().expect("a list").iter();
    let recorded = recorded.filter(|it| it["name"].as_str().is_some_and(|n| n.starts_with("rec")));
    assert!(recorded.clone().all(|it| it["archived"] == false), "{listed}");
    assert_eq!(recorded.count(), 3);
}

#[test]
fn continue_opens_the_newest_session_of_this_folder_and_introduces_it() {
    let home = Home::new();
    chat(&home, &["--name", "first"], &["hello", "exit"]);
    chat(&home, &["--name", "second"], &["hello there", "exit"]);
    let other = home.path().join("other");
    std::fs::create_dir(&other).expect("made");
    let args =
        ["append", "--new", "--name", "elsewhere", "--workspace", other.to_str().expect("a path")];
    assert_eq!(home.feed(&args, r#"{"role":"user","content":"not of this folder"}"#).code, 0);
    let said = chat(&home, &["-c"], &["hello again", "exit"]);
    for line in [
        "Continuing second · 1 turn, last active just now\n\njust now\nYou: hello there\n\nbuild:\nHello.",
        "1 other session in this folder",
    ] {
        assert!(said.err.contains(line), "{line}: {said:?}");
    }
    assert!(!said.err.contains("You are resuming"), "that is for directories of files: {said:?}");
    let session = home.json(&["show", "second"]);
    assert_eq!(session["session"]["queries"], 2);
    assert!(!session["entries"].to_string().contains("Continuing"), "it is not sent to the model");
}

#[test]
fn in_a_directory_of_files_the_context_summary_is_printed_before_the_last_turns() {
    let home = Home::new();
    let store = ["--store", "files:sessions"];
    chat(&home, &[&store[..], &["--name", "second"]].concat(), &["hello there", "exit"]);
    let opened = home.run(&[&store[..], &["open", "second"]].concat());
    let chats = [
        opened.out,
        chat(&home, &[&store[..], &["-c"]].concat(), &["exit"]).err,
        chat(&home, &store, &["/open second", "exit"]).err,
    ];
    for said in chats {
        let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}: {said}"));
        let order = [
            "You are resuming a previous conversation session.\nSession: second\nCreated: ",
            "\nLast activity: ",
            "\nTotal messages: 2 (1 from user, 1 from assistant)\nFirst topic: hello there\n\n\
             The conversation history follows. Continue naturally from where you left off.\n\n",
            "\njust now\nYou: hello there\n\nbuild:\nHello.",
        ];
        assert!(order.map(at).is_sorted(), "{said}");
    }
}

#[test]
fn opening_shows_the_last_two_turns_and_where_the_earlier_ones_are() {
    let home = Home::new();
    let lines = ["one", "two", "three", "four"].map(|text| {
        let said =
            |role: &str| format!("{{\"role\":\"{role}\",\"content\":\"{role} says {text}\"}}");
        format!("{}\n{}", said("user"), said("assistant"))
    });
    home.session("long", &lines.each_ref().map(String::as_str));
    for (said, rest) in [
        (chat(&home, &[], &["/open long", "exit"]).err, "2 earlier turns: /history shows them"),
        (home.run(&["open", "long"]).out, "2 earlier turns: `rethread show long`"),
    ] {
        assert!(said.contains("Continuing long · 4 turns, last active just now"), "{said}");
        for text in ["You: user says three", "assistant says three", "You: user says four", rest] {
            assert!(said.contains(text), "{text}: {said}");
        }
        assert!(!said.contains("says two"), "{said}");
    }
    home.run(&["clear", "long"]);
    let said = home.run(&["open", "long"]).out;
    assert!(said.contains("4 earlier turns: `rethread show long --all`"), "{said}");
    assert!(!said.contains("says four"), "what was cleared is not shown: {said}");
}

#[test]
fn continue_without_an_earlier_session_starts_one() {
    let home = Home::new();
    let said = chat(&home, &["-c"], &["hello", "exit"]);
    assert!(said.err.contains("No session in this folder yet"), "{said:?}");
    assert_eq!(newest(&home)["queries"], 1);
}

#[test]
fn compact_reports_what_it_saves_undo_reverts_it_and_compact_works_again() {
    let home = Home::new();
    let said = chat(
        &home,
        &["--name", "limits"],
        &["hello", "compact", "y", "/undo", "compact", "y", "thanks", "exit"],
    );
    assert_eq!(said.code, 0, "{said:?}");
    let order = [
        "This conversation is too short to compact: ",
        "Compact it anyway? (y/n) ",
        "📝 Generating session summary...",
        "💾 Saved session: ",
        "(1 query, ",
        "🔄 Starting new session with summary...",
        "✓ Compacted into limits-2: ",
        "(extractive: made without a model)",
        "recall",
        "Undid the compact: back in limits. You left limits-2; it had no messages, so it is archived.",
        "✓ Compacted into limits-3: ",
        "Restoration: ",
        "Session Tokens: ",
        "Combined Total: ",
    ];
    let mut rest = said.err.as_str();
    for text in order {
        let (_, after) =
            rest.split_once(text).unwrap_or_else(|| panic!("`{text}` in {rest}\nof {said:?}"));
        rest = after;
    }
    let parent = home.json(&["show", "limits"])["session"]["id"].clone();
    let child = home.json(&["show", "limits-3"]);
    assert_eq!(child["session"]["parent"], parent);
    assert_eq!(child["session"]["queries"], 1);
    assert_eq!(child["entries"][0]["kind"], "restored");
}

#[test]
fn resume_takes_a_position_a_name_an_id_and_a_file() {
    let home = Home::new();
    chat(&home, &["--name", "auth"], &["We use JWT tokens.", "exit"]);
    let session = newest(&home);
    let id = session["id"].as_str().expect("an id").to_owned();
    let readable = session["readable_id"].as_str().expect("an id").to_owned();
    let file = home.path().join(".local/share/rethread/transcripts").join(format!("{readable}.md"));
    let file = file.to_str().expect("a path").to_owned();
    for sel in ["1", "auth", &readable, &id[..id.len() - 3], file.as_str()] {
        let said = chat(&home, &["--resume", sel], &["exit"]);
        assert_eq!(said.code, 0, "{sel}: {said:?}");
        for text in
            ["📋 Loading session...", "✓ Found: build - ", "(1 query, ", "🔄 Restoring context..."]
        {
            assert!(said.err.contains(text), "{sel}: {text}: {said:?}");
        }
        assert!(said.out.contains("JWT"), "{sel}: the acknowledgment names the topic: {said:?}");
        let child = newest(&home);
        assert_eq!(child["parent"], id.as_str(), "{sel}");
        // Positions count the newest session of a chain; the child is deleted, so that 1 is `auth`
        // again.
        assert_eq!(home.run(&["delete", child["id"].as_str().expect("id"), "--yes"]).code, 0);
    }
}

#[test]
fn in_a_chat_the_first_session_of_a_list_is_never_the_one_it_is_in() {
    let home = Home::new();
    chat(&home, &["--name", "older"], &["We use JWT tokens.", "exit"]);
    let said =
        chat(&home, &["--name", "mine"], &["hello", "sessions", "/open 1", "thanks", "exit"]);
    let (_, list) = said.out.split_once("TITLE").expect("a list");
    assert!(list.contains("older") && !list.contains("mine"), "{said:?}");
    let older = home.json(&["show", "older"])["session"]["readable_id"].clone();
    let left = format!("Session ID: {}", older.as_str().expect("an id"));
    assert!(said.err.contains(&left), "the chat left from the older one: {said:?}");
}

#[test]
fn a_transcript_is_trusted_only_where_it_matches_the_log() {
    let home = Home::new();
    chat(&home, &["--name", "mine"], &["We decided to use Redis.", "exit"]);
    let shown = home.json(&["show", "mine"]);
    let id = shown["session"]["readable_id"].as_str().expect("an id");
    let saved = home.path().join(format!(".local/share/rethread/transcripts/{id}.md"));
    let text = std::fs::read_to_string(&saved).expect("saved");
    let resume = |name: &str, text: &str| {
        std::fs::write(home.path().join(name), text).expect("written");
        chat(&home, &["--resume", name], &["exit"]).err
    };
    let same = resume("same.md", &text);
    assert!(same.contains("Restoring context") && !same.contains("Tools are off"), "{same}");
    let other = resume("other.md", &text.replace("Redis", "Mallory"));
    assert!(other.contains("Restoring context") && other.contains("Tools are off"), "{other}");
}

#[test]
fn what_cannot_be_resumed_is_said_in_the_words_people_know() {
    let home = Home::new();
    let said = chat(&home, &["--resume", "nosuch"], &["hello", "exit"]);
    assert!(said.err.contains("⚠️ Parent session nosuch not found, starting fresh"), "{said:?}");
    assert_eq!(newest(&home)["queries"], 1, "the chat continues");

    let header = "# Sally Conversation\n\n**Session ID:** s1\n**Date:** 2025-12-30T14:30:22.123456\n\
                  **Agent:** Sally\n**Total Queries:** 1\n\n---\n\n## Query 1 (14:30:45)\n**You:** hi\n\n\
                  **Sally:** hello\n\n---\n";
    let none = home.path().join("none.md");
    std::fs::write(&none, header).expect("written");
    let said = chat(&home, &["--resume", "none.md"], &["exit"]);
    assert!(
        said.err.contains("⚠️ Session can't be resumed (no summary), starting fresh"),
        "{said:?}"
    );

    let broken = format!("{header}\n<!-- SESSION_SUMMARY_START -->\nhalf");
    std::fs::write(home.path().join("broken.md"), broken).expect("written");
    let said = chat(&home, &["--resume", "broken.md"], &["exit"]);
    assert!(said.err.contains("⚠️ Session can't be resumed (invalid summary format)"), "{said:?}");

    std::fs::write(home.path().join("notes.md"), "# My notes").expect("written");
    let said = chat(&home, &["--resume", "notes.md"], &["exit"]);
    assert!(said.err.contains("notes.md is not a transcript: its first line"), "{said:?}");

    let whole = format!(
        "{header}\n<!-- SESSION_SUMMARY_START -->\n**Background Context:** Initial session.\n\n\
        **Current Session Summary:**\n**Topics Discussed:**\n- greetings in Rust\n<!-- SESSION_SUMMARY_END -->\n"
    );
    std::fs::write(home.path().join("whole.md"), whole).expect("written");
    let said = chat(&home, &["--resume", "whole.md"], &["exit"]);
    assert!(said.out.contains("greetings in Rust"), "{said:?}");
    assert!(said.err.contains("Tools are off"), "anyone may have written it: {said:?}");
}

#[test]
fn another_agent_than_before_asks_first() {
    let home = Home::new();
    chat(&home, &["--name", "made"], &["hello", "exit"]);
    let question = "⚠️ Session created with builtin:build, using builtin:plan. Continue? (y/n)";
    let no = chat(&home, &["--agent", "plan", "--resume", "made"], &["n", "exit"]);
    assert!(no.err.contains(question) && !no.err.contains("Restoring"), "{no:?}");
    let yes = chat(&home, &["--agent", "plan", "--resume", "made"], &["y", "exit"]);
    assert!(yes.err.contains(question) && yes.err.contains("Restoring"), "{yes:?}");
}

#[test]
fn a_session_without_a_summary_gets_one_when_it_is_resumed() {
    let home = Home::new();
    home.session(
        "raw",
        &[
            r#"{"role":"user","content":"How should we cache sessions?"}"#,
            r#"{"role":"assistant","content":"We decided to use Redis."}"#,
        ],
    );
    let said = chat(&home, &["--resume", "raw"], &["exit"]);
    assert!(said.err.contains("one was written now, extracted without a model"), "{said:?}");
    assert!(said.out.contains("Redis") || said.out.contains("cache"), "{said:?}");
}

#[test]
fn bad_lines_are_reported_and_the_chat_continues() {
    let home = Home::new();
    let mut input =
        b"hello\n\xff\xfe broken\n/nosuch\n/open\n/open nothing\n/rename ../x\n/agent nobody\n"
            .to_vec();
    input.extend(b"x".repeat(1 << 20));
    input.extend(b"\nresume nosuch\n/history\nexit\n");
    let said = home.feed(&[], input);
    assert_eq!(said.code, 0, "{}", said.err);
    for text in [
        "not valid UTF-8",
        "no command `/nosuch`",
        "/open needs a session",
        "no session matches `nothing`",
        "no agent",
        "no session matches `nosuch`",
    ] {
        assert!(said.err.contains(text), "{text}: {}", said.err);
    }
    assert!(said.out.contains("  hello\n"), "{}", said.out);
    let session = newest(&home);
    assert_eq!(session["queries"], 2, "the megabyte is a message like any other");
}

#[test]
fn the_verbs_work_in_the_chat() {
    let home = Home::new();
    let said = chat(
        &home,
        &["--name", "alpha"],
        &[
            "hello there",
            "/stats",
            "/context",
            "/rename beta",
            "/fork gamma",
            "/undo",
            "/clear",
            "/undo",
            "/search hello",
            "/new delta",
            "hello once more",
            "/open beta",
            "/agent plan",
            "/agent",
            "/history all",
            "/export out.md",
            "sessions",
            "exit",
        ],
    );
    assert_eq!(said.code, 0, "{said:?}");
    for text in [
        "This session is now called beta.",
        "You are now in gamma.",
        "Undid the fork: back in beta. You left gamma; it had no messages",
        "The context is empty",
        "Undid the clear of beta: ",
        "Your next message starts a new session",
        "plan answers from now on.",
        "Written to out.md",
    ] {
        assert!(said.err.contains(text), "{text}: {said:?}");
    }
    for text in ["Messages:  1 user", "  hello there\n", "* plan"] {
        assert!(said.out.contains(text), "{text}: {said:?}");
    }
    assert_eq!(home.json(&["show", "beta"])["session"]["agent"], "plan");
    let text = std::fs::read_to_string(home.path().join("out.md")).expect("written");
    assert!(text.contains("**You:** hello there"), "{text}");
}

#[test]
fn a_prompt_is_answered_once() {
    let home = Home::new();
    std::fs::write(home.path().join("a.md"), "The port is 8000.\n").expect("written");
    let said = home.run(&["-p", "which port is it?"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("8000"), "{said:?}");
    assert!(!said.err.contains("Goodbye"), "{said:?}");
    let turn = home.json(&["-c", "-p", "hello"]);
    assert_eq!(turn["end"], "answered");
    assert_eq!(turn["session"]["queries"], 2);
    assert_eq!(turn["entries"][0]["role"], "user");
    assert!(turn["usage"]["output"].as_u64().is_some_and(|tokens| tokens > 0));
    let from_stdin = home.feed(&["-p", "-"], "which port\nis it?\n");
    assert!(from_stdin.out.contains("8000"), "{from_stdin:?}");
    assert_eq!(home.run(&["-p", " "]).code, 2);
}

#[test]
fn flags_of_the_chat_mean_nothing_beside_a_command() {
    let home = Home::new();
    let said = home.run(&["-c", "list"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("--continue is an option of the chat"), "{said:?}");
    for (args, text) in [
        (vec!["--model", "nonsense"], "is not of the form PROVIDER/MODEL"),
        (vec!["--model", "nobody/x"], "nobody"),
        (vec!["--model", "openai/gpt-5-mini"], "OPENAI_API_KEY"),
        (vec!["--agent", "biuld"], "build"),
    ] {
        let said = home.run(&args);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(text), "{text}: {said:?}");
    }
}

#[test]
fn agents_come_from_files_and_a_broken_one_is_named_with_its_line() {
    let home = Home::new();
    let folder = home.path().join(".rethread/agents");
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(
        folder.join("poet.md"),
        "---\nname: poet\ndescription: Rhymes\ntools: [grep]\n---\nYou rhyme.\n",
    )
    .expect("written");
    std::fs::write(folder.join("bad.md"), "---\nname: bad\nno key here\n---\nBody\n")
        .expect("written");
    let said = home.run(&["agents"]);
    assert!(!said.out.contains("poet") && said.err.contains("poet.md belongs to this project"));
    let said = home.run(&["agents", "--trust"]);
    assert_eq!(said.code, 0);
    assert!(said.out.contains("poet") && said.out.contains("Rhymes"), "{said:?}");
    assert!(said.err.contains("bad.md") && said.err.contains('3'), "{said:?}");
    for name in ["build", "plan", "explore", "general"] {
        assert!(said.out.contains(name), "{name}");
    }
    chat(&home, &["--agent", "poet", "--name", "rhymes"], &["hello", "exit"]);
    let session = home.json(&["show", "rhymes"]);
    assert_eq!(session["session"]["agent"], "poet");
    assert!(session["entries"][0]["content"].to_string().contains("You rhyme."));
    // It is restored without a name.
    chat(&home, &["-c"], &["hello", "exit"]);
    assert_eq!(home.json(&["show", "rhymes"])["session"]["queries"], 2);
}

#[test]
fn compact_is_a_command_too() {
    let home = Home::new();
    chat(&home, &["--name", "long"], &["hello", "exit"]);
    let preview = home.json(&["compact", "long", "--preview"]);
    assert!(preview["before"].as_u64().is_some());
    // It would become larger, so no model is asked unless the user insists.
    let said = home.run(&["compact", "long"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.starts_with("error: this conversation is too short to compact: "), "{said:?}");
    assert!(said.err.contains("--force"), "{said:?}");
    assert_eq!(home.json(&["list", "--all"])["sessions"].as_array().map(Vec::len), Some(1));
    let done = home.json(&["compact", "long", "--force"]);
    assert_eq!(done["session"]["name"], "long-2");
    assert_eq!(done["summary"]["by"], "extractive");
    let said = home.run(&["compact", "long-2", "--force"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("has no messages yet"), "{said:?}");
}

#[test]
fn a_session_that_was_only_resumed_can_be_resumed_again() {
    let home = Home::new();
    chat(&home, &["--name", "auth"], &["We use JWT tokens.", "exit"]);
    for _ in 0..3 {
        let said = chat(&home, &["--resume", "1"], &["exit"]);
        assert!(said.out.contains("JWT"), "{said:?}");
    }
}

#[test]
fn new_is_undone_before_and_after_something_was_said() {
    let home = Home::new();
    let said =
        chat(&home, &["--name", "one"], &["hello", "/new", "/undo", "/rename first", "exit"]);
    assert!(said.err.contains("Undid `new`: back in one."), "{said:?}");
    assert_eq!(newest(&home)["name"], "first");
}

#[test]
fn an_export_never_overwrites_a_file() {
    let home = Home::new();
    std::fs::write(home.path().join("README.md"), "mine").expect("written");
    let said = chat(&home, &[], &["hello", "/export README.md", "exit"]);
    assert!(said.err.contains("the file exists already"), "{said:?}");
    assert_eq!(std::fs::read_to_string(home.path().join("README.md")).expect("there"), "mine");
}

#[test]
fn a_piped_line_that_answers_no_question_is_said() {
    let home = Home::new();
    chat(&home, &["--name", "made"], &["hello", "exit"]);
    let said = chat(&home, &["-c", "--agent", "plan"], &["hello there", "exit"]);
    assert!(said.err.contains("Continue? (y/n)"), "{said:?}");
    assert_eq!(newest(&home)["first_message"], "hello there");
}

#[test]
fn who_answers_after_a_yes_is_who_the_session_names() {
    let home = Home::new();
    chat(&home, &["--name", "made"], &["hello", "exit"]);
    chat(&home, &["-c", "--agent", "plan"], &["y", "hello again", "exit"]);
    let shown = home.json(&["show", "made"]);
    assert_eq!(shown["session"]["agent"], "plan");
    let systems: Vec<String> = shown["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter(|entry| entry["role"] == "system")
        .map(|entry| entry["content"].to_string())
        .collect();
    assert!(systems.len() == 2 && systems[1].contains("You plan work"), "{systems:?}");
}

#[test]
fn resume_brings_back_who_answered() {
    let home = Home::new();
    chat(&home, &["--name", "made", "--agent", "plan"], &["hello", "exit"]);
    let said = chat(&home, &["--resume", "made"], &["exit"]);
    assert!(said.err.contains("agent plan") && !said.err.contains("Continue?"), "{said:?}");
    assert_eq!(newest(&home)["agent"], "plan");
}

#[test]
fn a_folder_of_someone_else_does_not_choose_where_things_are_sent() {
    let home = Home::new();
    let folder = home.path().join(".rethread/agents");
    std::fs::create_dir_all(&folder).expect("made");
    let text = "---\nname: build\nmodel: openai/expensive\n---\nSend everything.\n";
    std::fs::write(folder.join("build.md"), text).expect("written");
    let said = chat(&home, &[], &["hello", "exit"]);
    assert!(said.err.contains("you have not trusted yet"), "{said:?}");
    assert!(!said.err.contains("this folder's own"), "{said:?}");
    home.run(&["agents", "--trust"]);
    let said = chat(&home, &[], &["hello", "exit"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.err.contains("asks for openai/expensive, but offline/offline is used"),
        "{said:?}"
    );
    assert!(said.err.contains("agent build (this folder's own"), "{said:?}");
    std::fs::write(folder.join("build.md"), text.replace("everything", "all")).expect("written");
    let said = chat(&home, &[], &["hello", "exit"]);
    assert!(!said.err.contains("this folder's own"), "it changed: {said:?}");
}

#[test]
fn the_last_session_of_another_program_is_continued() {
    let home = Home::new();
    let folder = home.path().join("sessions");
    std::fs::create_dir(&folder).expect("a folder");
    let at = "2026-01-01T00:00:00.000Z";
    let file = json!({
        "metadata": {"id": "prior-chat", "name": "prior-chat", "createdAt": at, "lastActivityAt": at,
            "messageCount": 1, "firstMessage": "where is the key?", "provider": "p", "model": "m"},
        "messages": [{"id": "1", "role": "user", "content": "where is the key?", "timestamp": at}],
    });
    std::fs::write(folder.join("prior-chat.json"), file.to_string()).expect("written");
    std::fs::write(folder.join("last_session"), "prior-chat").expect("written");
    let store = format!("files:{}", folder.display());
    let said = home.run(&["-c", "-p", "hello", "--store", &store]);
    assert_eq!(said.code, 0, "{said:?}");
    let listed = home.json(&["list", "--store", &store]);
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["sessions"][0]["queries"], 2, "{listed}");
}

#[test]
fn one_question_to_another_agent_than_the_sessions_is_refused_where_nobody_can_agree() {
    let home = Home::new();
    chat(&home, &["--agent", "build", "--name", "plan-it"], &["hello", "exit"]);
    let said = home.run(&["-c", "-p", "hello again", "--agent", "plan"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("was answered by builtin:build"), "{said:?}");
    assert!(said.err.contains("hint: "), "{said:?}");
    assert_eq!(newest(&home)["queries"], 1, "nothing was stored");
    let said = home.run(&["-c", "-p", "hello again"]);
    assert_eq!(said.code, 0, "{said:?}");
}
