//! The chat in a pseudo-terminal, against a scripted model.

use rethread_agent::scripted::{Answer, Server};
use rethread_core::summary::block;
use serde_json::{Value, json};

use crate::home::Home;
use crate::terminal::{Terminal, kill, signal};

const MODELS: [&str; 2] = ["openai/scripted-1", "anthropic/scripted-1"];

fn variables(server: &Server) -> Vec<(&'static str, String)> {
    server.vars().to_vec()
}

/// The last message a model was sent.
fn last(body: &Value) -> String {
    body["messages"].as_array().and_then(|all| all.last()).map(Value::to_string).unwrap_or_default()
}

#[test]
fn a_first_run_in_a_terminal_needs_no_key() {
    let home = Home::new();
    std::fs::write(home.path().join("notes.md"), "The deploy key lives in the vault.\n")
        .expect("written");
    let mut terminal = Terminal::start(&home, &[], &[]);
    terminal.expect("offline/offline");
    terminal.expect("You: ");
    terminal.say("where does the deploy key live?");
    terminal.expect("build:");
    terminal.expect("in the vault");
    terminal.expect("You: ");
    terminal.say("exit");
    terminal.expect("Generating session summary... ✓");
    terminal.expect("Goodbye!");
    terminal.expect("✓ Conversation saved successfully!");
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn a_conversation_with_tools_a_summary_and_a_resume_on_each_wire() {
    for model in MODELS {
        let home = Home::new();
        std::fs::write(home.path().join("a.txt"), "forty-two").expect("written");
        let server = Server::start([
            Answer::text("Let me read it.").and_calls([("read_file", json!({"path": "a.txt"}))]),
            Answer::text("It says forty-two."),
            Answer::text(block(
                "**Background Context:** Initial session.\n\n- a.txt says forty-two",
            )),
            Answer::text("I have reviewed it. Ready to continue!"),
            Answer::text("Still forty-two."),
            Answer::text(block("**Background Context:** a.txt says forty-two.\n\n- asked again")),
        ]);
        let variables = variables(&server);
        let mut terminal =
            Terminal::start(&home, &["--model", model, "--name", "numbers"], &variables);
        terminal.expect("You: ");
        terminal.say("what does a.txt say?");
        terminal.expect("build:");
        terminal.expect("Let me read it.");
        terminal.expect("read a.txt");
        terminal.expect("It says forty-two.");
        terminal.expect("You: ");
        terminal.say("exit");
        terminal.expect("summary... ✓");
        terminal.expect("Queries: 1");
        assert_eq!(terminal.end().1, 0);

        let mut terminal = Terminal::start(&home, &["--model", model], &variables);
        terminal.expect("You: ");
        terminal.say("resume 1");
        terminal.expect("📋 Loading session...");
        terminal.expect("✓ Found: build - ");
        terminal.expect("🔄 Restoring context...");
        terminal.expect("build:");
        terminal.expect("I have reviewed it. Ready to continue!");
        terminal.expect("You: ");
        terminal.say("and now?");
        terminal.expect("Still forty-two.");
        terminal.expect("You: ");
        terminal.say("exit");
        terminal.expect("Restoration: ");
        terminal.expect("Combined Total: ");
        assert_eq!(terminal.end().1, 0);
        let asked = server.requests();
        let last = &asked[4].body.to_string();
        assert!(last.contains("CONTEXT RESTORATION") && last.contains("and now?"), "{last}");
    }
}

#[test]
fn a_chain_of_three_loads_only_the_session_before() {
    let home = Home::new();
    let server = Server::start([]);
    server.fallback(|body| {
        let text = last(body);
        match () {
            () if text.contains("Generate a progressive session summary:") => {
                let background =
                    if text.contains("FIRST-SUMMARY") { "SECOND-SUMMARY" } else { "FIRST-SUMMARY" };
                Answer::text(block(&format!("**Background Context:** {background}")))
            }
            () if text.contains("CONTEXT RESTORATION") => Answer::text("Ready!"),
            () => Answer::text("An answer."),
        }
    });
    let variables = variables(&server);
    let mut terminal =
        Terminal::start(&home, &["--model", "openai/m", "--name", "chain"], &variables);
    terminal.expect("You: ");
    terminal.say("a first question");
    terminal.expect("An answer.");
    for _ in 0..2 {
        terminal.expect("You: ");
        terminal.say("compact");
        terminal.expect("Compact it anyway? (y/n) ");
        terminal.say("y");
        terminal.expect("💾 Saved session: ");
        terminal.expect("🔄 Starting new session with summary...");
        terminal.expect("build:");
        terminal.expect("Ready!");
        terminal.expect("✓ Compacted into chain-");
        terminal.expect("You: ");
        terminal.say("go on");
        terminal.expect("An answer.");
    }
    terminal.expect("You: ");
    terminal.say("exit");
    terminal.end();
    let restored: Vec<String> = server
        .requests()
        .iter()
        .filter(|asked| last(&asked.body).contains("CONTEXT RESTORATION"))
        .map(|asked| asked.body["messages"].to_string())
        .collect();
    let third = restored.last().expect("a third session");
    assert!(third.contains("SECOND-SUMMARY") && !third.contains("FIRST-SUMMARY"), "{third}");
    assert!(!third.contains("a first question"), "{third}");
}

#[test]
fn control_c_stops_the_reply_keeps_it_and_leaves_the_chat_alive() {
    for model in MODELS {
        let home = Home::new();
        let server = Server::start([
            Answer::text("one two three four five six").slowly(3),
            Answer::text("hello again"),
        ]);
        let mut terminal =
            Terminal::start(&home, &["--model", model, "--name", "stopped"], &variables(&server));
        terminal.expect("You: ");
        terminal.say("count");
        terminal.expect("build:");
        terminal.expect("one");
        terminal.press("\x03");
        terminal.expect("(stopped; the part that arrived is kept)");
        server.release();
        terminal.expect("You: ");
        terminal.say("are you there?");
        terminal.expect("hello again");
        let shown = home.json(&["show", "stopped"]);
        let partial =
            shown["entries"].as_array().expect("entries").iter().find(|e| e["interrupted"] == true);
        assert!(partial.expect("kept")["content"].to_string().contains("one"), "{shown}");
    }
}

#[test]
fn killed_in_mid_turn_nothing_is_lost_and_continue_sends_no_dangling_call() {
    for model in MODELS {
        let home = Home::new();
        let server = Server::start([
            Answer::calls([("list_dir", json!({"path": "."}))]),
            Answer::text("never heard").slowly(0),
            Answer::text("where were we"),
        ]);
        let mut terminal =
            Terminal::start(&home, &["--model", model, "--name", "killed"], &variables(&server));
        let pid = terminal.pid();
        terminal.expect("You: ");
        terminal.say("look around");
        server.wait_for_requests(2);
        kill(&pid);
        drop(terminal);
        server.release();
        let mut terminal = Terminal::start(&home, &["-c", "--model", model], &variables(&server));
        terminal.expect("Continuing killed");
        terminal.expect("You: look around");
        terminal.expect("You: ");
        terminal.say("go on");
        terminal.expect("where were we");
        let shown = home.json(&["show", "killed"]);
        let text = shown["entries"].to_string();
        assert!(text.contains("look around") && text.contains("tool_result"), "{text}");
        assert_eq!(shown["session"]["queries"], 2);
    }
}

#[test]
fn the_lease_of_a_killed_chat_keeps_nobody_from_the_session() {
    for verb in ["clear", "append", "delete", "/clear"] {
        let home = Home::new();
        let server = Server::start([Answer::text("never heard").slowly(0)]);
        let start = |args: &[&str]| {
            let args = [&["--model", "openai/m"], args].concat();
            Terminal::start(&home, &args, &variables(&server))
        };
        let mut terminal = start(&["--name", "killed"]);
        let pid = terminal.pid();
        terminal.expect("You: ");
        terminal.say("look around");
        server.wait_for_requests(1);
        kill(&pid);
        drop(terminal);
        server.release();
        match verb {
            "/clear" => {
                let mut terminal = start(&["-c"]);
                terminal.expect("You: ");
                terminal.say("/clear");
                terminal.expect("The context is empty");
            }
            "append" => {
                let said = "{\"role\":\"user\",\"content\":\"go on\"}\n";
                let told = home.feed(&["append", "killed"], said);
                assert_eq!(told.code, 0, "{}", told.err);
            }
            verb => {
                let told = home.run(&[verb, "killed"]);
                assert_eq!(told.code, 0, "{verb}: {}", told.err);
            }
        }
    }
}

#[test]
fn killed_while_the_model_has_an_open_call_the_call_is_answered_as_interrupted() {
    let home = Home::new();
    let server = Server::start([
        Answer::calls([("run", json!({"command": "echo $PPID > started; exec sleep 600"}))]),
        Answer::text("fine"),
    ]);
    let mut terminal =
        Terminal::start(&home, &["--model", "anthropic/m", "--name", "open"], &variables(&server));
    let pid = terminal.pid();
    terminal.expect("You: ");
    terminal.say("sleep");
    terminal.expect("Allow run");
    terminal.expect("/e) ");
    kill(&pid);
    drop(terminal);
    let mut terminal =
        Terminal::start(&home, &["-c", "--model", "anthropic/m"], &variables(&server));
    terminal.expect("You: ");
    terminal.say("go on");
    terminal.expect("fine");
    let sent = server.requests()[1].body["messages"].to_string();
    assert!(sent.contains("interrupted"), "{sent}");
}

#[test]
fn a_tool_that_changes_things_is_asked_for_at_the_terminal() {
    let home = Home::new();
    let write = || Answer::calls([("write_file", json!({"path": "new.txt", "content": "hi"}))]);
    let server =
        Server::start([write(), Answer::text("refused"), write(), Answer::text("written")]);
    let mut terminal = Terminal::start(&home, &["--model", "openai/m"], &variables(&server));
    terminal.expect("You: ");
    terminal.say("write");
    terminal.expect("Allow write_file");
    terminal.expect("/e) ");
    terminal.say("n");
    terminal.expect("refused");
    assert!(!home.path().join("new.txt").exists());
    terminal.expect("You: ");
    terminal.say("write, please");
    terminal.expect("/e) ");
    terminal.say("y");
    terminal.expect("written");
    assert_eq!(std::fs::read_to_string(home.path().join("new.txt")).expect("there"), "hi");
}

#[test]
fn what_a_model_says_cannot_drive_the_terminal() {
    let home = Home::new();
    let server = Server::start([Answer::text("a\x1b[2Jb\x1b]0;title\x07c")]);
    let mut terminal = Terminal::start(&home, &["--model", "openai/m"], &variables(&server));
    terminal.expect("You: ");
    terminal.say("hello");
    terminal.expect("build:");
    terminal.expect("a");
    terminal.expect("You: ");
    let all = terminal.all();
    assert!(!all.contains("\x1b[2J") && !all.contains("\x1b]0;"), "{all:?}");
}

#[test]
fn a_failed_summary_is_reported_and_an_extract_is_saved_in_its_place() {
    let home = Home::new();
    let server = Server::start([Answer::text("hello"), Answer::text("no"), Answer::text("no")]);
    let mut terminal =
        Terminal::start(&home, &["--model", "openai/m", "--name", "kept"], &variables(&server));
    terminal.expect("You: ");
    terminal.say("hi");
    terminal.expect("hello");
    terminal.expect("You: ");
    terminal.say("exit");
    terminal.expect("⚠️ Summary generation failed - saved with an extract instead");
    terminal.expect("Goodbye!");
    terminal.expect("✓ Conversation saved successfully!");
    assert_eq!(terminal.end().1, 0);
    let shown = home.json(&["show", "kept"]);
    assert_eq!(shown["session"]["queries"], 1);
    let id = shown["session"]["readable_id"].as_str().expect("an id");
    let path = home.path().join(".local/share/rethread/transcripts").join(format!("{id}.md"));
    let text = std::fs::read_to_string(path).expect("saved");
    assert!(text.contains("<!-- SESSION_SUMMARY_START -->"), "it can be resumed: {text}");
}

#[test]
fn a_full_window_suggests_compact_and_then_compacts_by_itself() {
    let home = Home::new();
    let config = home.path().join("config.toml");
    std::fs::write(&config, "window = 4000\n").expect("written");
    let server = Server::start([]);
    server.fallback(|body| {
        let text = last(body);
        match () {
            () if text.contains("Generate a progressive") => {
                Answer::text(block("**Background Context:** short"))
            }
            () if text.contains("CONTEXT RESTORATION") => Answer::text("Ready!"),
            () => Answer::text("word ".repeat(700)),
        }
    });
    let args =
        ["--model", "openai/m", "--config", config.to_str().expect("a path"), "--name", "full"];
    let mut terminal = Terminal::start(&home, &args, &variables(&server));
    for _ in 0..6 {
        terminal.expect("You: ");
        terminal.say("more");
        terminal.expect("word word");
        if terminal.all().contains("it is compacted first.") {
            break;
        }
    }
    terminal.expect("You: ");
    let all = terminal.all();
    assert!(all.contains("`compact` makes room"), "{all}");
    assert!(
        all.contains("it is compacted first.") && all.contains("✓ Compacted into full-2"),
        "{all}"
    );
}

#[test]
fn terminated_it_saves_an_extractive_summary_and_goes() {
    let home = Home::new();
    let server = Server::start([Answer::text("hello")]);
    let mut terminal =
        Terminal::start(&home, &["--model", "openai/m", "--name", "ended"], &variables(&server));
    let pid = terminal.pid();
    terminal.expect("You: ");
    terminal.say("We decided to use Redis.");
    terminal.expect("hello");
    terminal.expect("You: ");
    signal(&pid, "TERM");
    terminal.expect("✓ Conversation saved successfully!");
    terminal.end();
    let shown = home.json(&["show", "ended"]);
    let summary =
        shown["entries"].as_array().expect("entries").iter().find(|e| e["kind"] == "summary");
    assert_eq!(summary.expect("a summary")["by"], "extractive");
    assert_eq!(server.requests().len(), 1, "nobody is asked on the way out");
}

#[test]
fn control_c_while_leaving_does_not_wait_for_the_model() {
    let home = Home::new();
    let server = Server::start([Answer::text("hello"), Answer::text("never").slowly(0)]);
    let mut terminal =
        Terminal::start(&home, &["--model", "openai/m", "--name", "hasty"], &variables(&server));
    terminal.expect("You: ");
    terminal.say("We decided to use Redis.");
    terminal.expect("hello");
    terminal.expect("You: ");
    terminal.say("exit");
    terminal.expect("Generating session summary...");
    server.wait_for_requests(2);
    terminal.press("\x03");
    terminal.expect("skipped; saved with an extract instead");
    terminal.expect("✓ Conversation saved successfully!");
    assert_eq!(terminal.end().1, 0);
    server.release();
}

#[test]
fn control_c_stops_a_compaction_and_the_session_is_as_it_was() {
    let home = Home::new();
    let server = Server::start([
        Answer::text("hello"),
        Answer::text("never").slowly(0),
        Answer::text("still here"),
    ]);
    let mut terminal =
        Terminal::start(&home, &["--model", "openai/m", "--name", "same"], &variables(&server));
    terminal.expect("You: ");
    terminal.say("hi");
    terminal.expect("hello");
    terminal.expect("You: ");
    terminal.say("compact");
    terminal.expect("Compact it anyway? (y/n) ");
    terminal.say("y");
    server.wait_for_requests(2);
    terminal.press("\x03");
    terminal.expect("(stopped; the session is unchanged)");
    server.release();
    terminal.expect("You: ");
    terminal.say("and?");
    terminal.expect("still here");
    assert_eq!(home.json(&["show", "same"])["session"]["queries"], 2);
}

#[test]
fn a_call_is_shown_whole_and_what_was_typed_before_does_not_answer_it() {
    let home = Home::new();
    let command = format!("echo {}; touch hidden", "a".repeat(300));
    let server = Server::start([
        Answer::calls([("run", json!({"command": command}))]).slowly(0),
        Answer::text("refused"),
        Answer::text("you said y"),
    ]);
    let mut terminal = Terminal::start(&home, &["--model", "openai/m"], &variables(&server));
    terminal.expect("You: ");
    terminal.say("do it");
    server.wait_for_requests(1);
    terminal.say("y");
    // The line is echoed once it is read.
    terminal.expect("You: y");
    server.release();
    terminal.expect("Allow run");
    terminal.expect("; touch hidden");
    terminal.expect("/e) ");
    terminal.say("n");
    terminal.expect("refused");
    terminal.expect("you said y");
    assert!(!home.path().join("hidden").exists());
}

#[test]
fn a_person_is_asked_even_if_standard_error_is_redirected() {
    let home = Home::new();
    let server = Server::start([
        Answer::calls([("run", json!({"command": "touch hidden"}))]),
        Answer::text("refused"),
    ]);
    let rethread = env!("CARGO_BIN_EXE_rethread");
    let line = format!("{rethread} --model openai/m 2>errors");
    let mut terminal = Terminal::run(&home, &line, &variables(&server));
    terminal.expect("You: ");
    terminal.say("do it");
    terminal.expect("/e) ");
    terminal.say("n");
    terminal.expect("refused");
    assert!(!home.path().join("hidden").exists());
}

#[test]
fn what_was_typed_far_ahead_of_a_question_does_not_answer_it() {
    let home = Home::new();
    let server = Server::start([
        Answer::calls([("run", json!({"command": "touch hidden"}))]).slowly(0),
        Answer::text("refused"),
        Answer::text("you said y"),
    ]);
    let mut terminal =
        Terminal::start(&home, &["--model", "openai/m", "--name", "far"], &variables(&server));
    terminal.expect("You: ");
    terminal.say("do it");
    server.wait_for_requests(1);
    // More keys than are read ahead: the last ones wait in the terminal.
    terminal.say(&"\n".repeat(9_000));
    terminal.say("y");
    terminal.expect("You: y");
    server.release();
    terminal.expect("/e) ");
    terminal.say("n");
    terminal.expect("refused");
    terminal.expect("you said y");
    assert!(!home.path().join("hidden").exists());
    terminal.expect("You: ");
    terminal.say("exit");
    terminal.expect("Goodbye!");
    // The first was the answer, and the `y` became a message.
    assert_eq!(home.json(&["show", "far"])["session"]["queries"], 2);
}

#[test]
fn a_terminal_that_goes_away_loses_nothing() {
    let home = Home::new();
    let server = Server::start([Answer::text("hello")]);
    let mut terminal =
        Terminal::start(&home, &["--model", "openai/m", "--name", "gone"], &variables(&server));
    let pid = terminal.pid();
    terminal.expect("You: ");
    terminal.say("We decided to use Redis.");
    terminal.expect("hello");
    terminal.expect("You: ");
    drop(terminal);
    // The chat saves the session when its terminal is gone; wait until the process has ended.
    while std::path::Path::new(&format!("/proc/{pid}")).exists() {
        std::thread::yield_now();
    }
    let shown = home.json(&["show", "gone"]);
    assert!(shown["entries"].to_string().contains("\"kind\":\"summary\""), "{shown}");
    let id = shown["session"]["readable_id"].as_str().expect("an id");
    let path = home.path().join(".local/share/rethread/transcripts").join(format!("{id}.md"));
    assert!(path.exists(), "the transcript is written");
}
