//! Starting and leaving a chat: what is continued, what is undone, what remains.

use rethread_agent::scripted::{Answer, Server};
use serde_json::{Value, json};

use crate::home::{Home, Said};
use crate::terminal::Terminal;

fn chat(home: &Home, args: &[&str], lines: &[&str]) -> Said {
    let said = home.feed(args, lines.join("\n") + "\n");
    assert_eq!(said.code, 0, "{said:?}");
    said
}

fn names(home: &Home, args: &[&str]) -> Vec<String> {
    let all = home.json(args)["sessions"].as_array().expect("a list").clone();
    all.iter().map(|session| session["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn leaving_says_how_to_come_back_and_where_the_transcript_is() {
    let home = Home::new();
    let said = chat(&home, &["--name", "plan"], &["hello", "exit"]);
    let id = home.json(&["show", "plan"])["session"]["readable_id"].clone();
    let file = format!("{}.md", id.as_str().expect("an id"));
    let path = home.path().join(".local/share/rethread/transcripts").join(file);
    assert!(said.err.contains(&format!("  Transcript: {}\n", path.display())), "{said:?}");
    assert!(said.err.ends_with("  Continue: rethread -c\n"), "{said:?}");
    assert!(path.exists());
}

#[test]
fn continuing_goes_where_the_last_chat_of_the_folder_ended() {
    let home = Home::new();
    chat(&home, &["--name", "first"], &["We talk about gardens.", "exit"]);
    chat(&home, &["--name", "second"], &["We talk about boats.", "exit"]);
    // The chat ends in the first, although the second is newer.
    chat(&home, &[], &["/open first", "exit"]);
    assert_eq!(names(&home, &["list"]), ["second", "first"]);
    chat(&home, &["-c"], &["/rename where-i-was", "exit"]);
    assert_eq!(names(&home, &["list"]), ["second", "where-i-was"]);
    // So does `open`.
    assert_eq!(home.run(&["open", "second"]).code, 0);
    chat(&home, &["-c"], &["/rename there", "exit"]);
    assert_eq!(names(&home, &["list"]), ["there", "where-i-was"]);
    // What was deleted is not continued.
    assert_eq!(home.run(&["delete", "there"]).code, 0);
    chat(&home, &["-c"], &["/rename what-is-left", "exit"]);
    assert_eq!(names(&home, &["list"]), ["what-is-left"]);
}

#[test]
fn looking_at_an_old_session_does_not_make_it_new() {
    let home = Home::new();
    home.session("old", &[r#"{"role":"user","content":"We talk about gardens."}"#]);
    let before = home.json(&["show", "old"]);
    chat(&home, &["--name", "new"], &["hello", "exit"]);
    chat(&home, &[], &["/open old", "/history", "exit"]);
    chat(&home, &["-c"], &["exit"]);
    assert_eq!(names(&home, &["list"]), ["new", "old"]);
    let after = home.json(&["show", "old"]);
    assert_eq!(after["session"]["last_activity_at"], before["session"]["last_activity_at"]);
    assert_eq!(after["entries"], before["entries"]);
}

#[test]
fn an_undo_asks_before_it_leaves_a_conversation() {
    let home = Home::new();
    let lines = ["hello", "/new", "how are you?", "/undo", "n", "/rename second", "exit"];
    let said = chat(&home, &["--name", "first"], &lines);
    let question = "This undoes `new` and goes back to first. Leave this conversation? (y/n)";
    assert!(said.err.contains(question), "{said:?}");
    assert!(said.err.contains("Nothing was undone."), "{said:?}");
    assert_eq!(names(&home, &["list"]), ["second", "first"]);
    let said = chat(&home, &["-c"], &["/undo", "y", "/rename back", "exit"]);
    assert!(
        said.err.contains("Undid `new`: back in first. You left second; it is kept."),
        "{said:?}"
    );
    assert_eq!(names(&home, &["list"]), ["second", "back"]);
    // If no message was sent since, undo does not ask.
    let said = chat(&home, &["-c"], &["/fork aside", "/undo", "exit"]);
    assert!(said.err.contains("Undid the fork: back in back."), "{said:?}");
}

#[test]
fn leaving_a_session_that_was_come_back_to_saves_it() {
    let home = Home::new();
    let lines = ["hello", "/new second", "how are you?", "/undo", "y", "exit"];
    let said = chat(&home, &["--name", "first"], &lines);
    assert!(said.err.contains("back in first"), "{said:?}");
    assert!(said.err.contains("✓ Conversation saved successfully!"), "{said:?}");
    assert!(said.err.contains("  Title: first\n"), "{said:?}");
    // Looking at a session does not change it, and the chat still prints how to continue.
    let said = chat(&home, &["-c"], &["exit"]);
    assert!(said.err.ends_with("Goodbye!\n  Continue: rethread -c\n"), "{said:?}");
    let said = chat(&home, &[], &["exit"]);
    assert!(said.err.ends_with("Goodbye!\n"), "{said:?}");
}

#[test]
fn a_chat_that_was_just_started_is_not_undone_into_one_it_never_was_in() {
    let home = Home::new();
    chat(&home, &["--name", "first"], &["hello", "exit"]);
    let said = chat(&home, &["--name", "second"], &["how are you?", "/undo", "exit"]);
    assert!(said.err.contains("to undo"), "{said:?}");
    assert_eq!(home.run(&["-p", "what is this?"]).code, 0);
    let said = home.run(&["show", "last"]);
    assert!(!said.out.contains("(new, from "), "{said:?}");
}

#[test]
fn an_undo_of_new_goes_back_to_where_this_window_was() {
    let home = Home::new();
    let answers = ["One.", "Two.", "Three."].map(Answer::text);
    let server = Server::start(answers);
    let open = |name: &str| {
        let args = ["--model", "openai/scripted-1", "--name", name];
        let mut terminal = Terminal::start(&home, &args, &server.vars());
        terminal.expect("You: ");
        terminal
    };
    let say = |terminal: &mut Terminal, text: &str, answer: &str| {
        terminal.say(text);
        terminal.expect(answer);
        terminal.expect("You: ");
    };
    let mut first = open("alpha");
    say(&mut first, "first question", "One.");
    let mut second = open("beta");
    say(&mut second, "second question", "Two.");
    first.say("/new gamma");
    first.expect("You: ");
    say(&mut first, "third question", "Three.");
    // The folder's key goes to another session of the other window meanwhile.
    second.say("/open alpha");
    second.expect("first question");
    second.expect("You: ");
    first.say("/undo");
    first.expect("goes back to alpha. Leave this conversation? (y/n) ");
    first.say("y");
    first.expect("back in alpha");
}

#[test]
fn a_session_keeps_its_number_when_it_is_continued() {
    let home = Home::new();
    for name in ["sess-49", "sess-50", "issue-100"] {
        home.session(name, &[r#"{"role":"user","content":"We talk about gardens."}"#]);
    }
    let compact = |name: &str| home.json(&["compact", name, "--force"])["session"]["name"].clone();
    assert_eq!(compact("sess-50"), "sess-50-2");
    assert_eq!(compact("issue-100"), "issue-100-2");
    let said = home.feed(&["append", "sess-50-2"], "{\"role\":\"user\",\"content\":\"And?\"}\n");
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(compact("sess-50-2"), "sess-50-3");
    chat(&home, &["--resume", "issue-100"], &["And?", "exit"]);
    assert_eq!(names(&home, &["list"])[0], "issue-100-3");
}

#[test]
fn leaving_in_a_hurry_asks_no_model() {
    let home = Home::new();
    let server = Server::start([]);
    server.fallback(|body| match body.to_string().contains("Generate a progressive") {
        true => Answer::text("never").slowly(0),
        false => Answer::text("Hello."),
    });
    let open = |name: &str| {
        let args = ["--model", "openai/scripted-1", "--name", name];
        let mut terminal = Terminal::start(&home, &args, &server.vars());
        terminal.expect("You: ");
        terminal.say("hi there");
        terminal.expect("Hello.");
        terminal.expect("You: ");
        terminal
    };
    let summary_by = |name: &str| {
        let entries = home.json(&["show", name])["entries"].clone();
        let summary = entries.as_array().expect("entries").iter().rfind(|e| e["kind"] == "summary");
        summary.map(|entry| entry["by"].clone())
    };
    let asked = || server.requests().len();
    // Ctrl-C twice.
    let mut terminal = open("hurried");
    let before = asked();
    terminal.press("\x03");
    terminal.expect("again leaves)");
    terminal.press("\x03");
    terminal.expect("📝 Generating session summary... ✓");
    terminal.expect("Goodbye!");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(asked(), before);
    assert_eq!(summary_by("hurried"), Some(json!("extractive")));
    // `exit` waits for the model and shows for how long; Esc skips it. Typing is not echoed.
    let mut terminal = open("waiting");
    let before = asked();
    terminal.say("exit");
    server.wait_for_requests(before + 1);
    terminal.expect("📝 Generating session summary... · 1 s · Esc skips it");
    terminal.press("typed in vain");
    terminal.press("\x1b");
    let skipped = "📝 Generating session summary... skipped; saved with an extract instead";
    let shown = terminal.expect(skipped);
    assert!(!shown.contains("vain") && !shown.contains('✓'), "{shown}");
    terminal.expect("Goodbye!");
    assert_eq!(terminal.end().1, 0);
    assert_eq!(summary_by("waiting"), Some(json!("extractive")));
    server.release();
    // On a pipe, `exit` does not wait.
    let before = asked();
    let mut command = home.command(&["--model", "openai/scripted-1", "--name", "piped"]);
    let input = home.path().join("input");
    std::fs::write(&input, "hello\n").expect("written");
    command.envs(server.vars()).stdin(std::fs::File::open(input).expect("there"));
    let said = Said::from(command.output().expect("it runs"));
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(asked(), before + 1, "the question alone");
    assert_eq!(summary_by("piped"), Some(json!("extractive")));
}

#[test]
fn a_resume_that_nothing_was_said_after_leaves_the_session_where_it_was() {
    let home = Home::new();
    chat(&home, &["--name", "auth"], &["We use JWT tokens.", "exit"]);
    let before = home.json(&["list"]);
    chat(&home, &["--resume", "auth"], &["exit"]);
    assert_eq!(home.json(&["list"]), before);
    assert_eq!(names(&home, &["list"]), ["auth"]);
    // Writing a summary of an old session does not make it the newest either.
    home.session("later", &[r#"{"role":"user","content":"hello"}"#]);
    home.session("latest", &[r#"{"role":"user","content":"hello"}"#]);
    chat(&home, &["--resume", "later"], &["exit"]);
    assert_eq!(names(&home, &["list"]), ["latest", "later", "auth"]);
    for name in ["later", "latest"] {
        assert_eq!(home.run(&["delete", name]).code, 0);
    }
    // If a message was sent, that session continues.
    chat(&home, &["--resume", "auth"], &["And refresh tokens?", "exit"]);
    let list = home.json(&["list"]);
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["sessions"][0]["parent"], before["sessions"][0]["id"]);
}

#[test]
fn the_summary_at_exit_can_be_switched_off() {
    let home = Home::new();
    let config = home.path().join("config.toml");
    std::fs::write(&config, "[session]\nsummary = false\n").expect("written");
    let config = config.display().to_string();
    let said = chat(&home, &["--name", "plan", "--config", &config], &["hello", "exit"]);
    assert!(!said.err.contains("summary"), "{said:?}");
    assert!(said.err.contains("✓ Conversation saved successfully!"), "{said:?}");
    let entries = home.json(&["show", "plan"])["entries"].as_array().expect("entries").clone();
    assert!(!entries.iter().any(|entry| entry["kind"] == "summary"), "{entries:?}");
}

#[test]
fn what_is_piped_in_goes_with_the_question() {
    let home = Home::new();
    let server = Server::start([Answer::text("A limiter."), Answer::text("Nothing more.")]);
    let run = |args: &[&str], input: &str| {
        let mut command = home.command(&[args, &["--model", "openai/scripted-1"]].concat());
        command.envs(server.vars());
        let file = home.path().join("input");
        std::fs::write(&file, input).expect("written");
        command.stdin(std::fs::File::open(file).expect("a file"));
        Said::from(command.output().expect("it runs"))
    };
    let said = run(&["-p", "explain this"], "pub struct RateLimiter;\n");
    assert_eq!((said.code, said.out.as_str()), (0, "A limiter.\n"), "{said:?}");
    let asked = server.requests().last().expect("a request").body.to_string();
    assert!(asked.contains("explain this"), "{asked}");
    assert!(
        asked.contains("Standard input:") && asked.contains("pub struct RateLimiter;"),
        "{asked}"
    );
    assert_eq!(home.json(&["list"])["sessions"][0]["title"], "explain this");
    let said = run(&["-p", "and this?"], "");
    assert_eq!(said.code, 0, "{said:?}");
    let asked = server.requests().last().expect("a request").body.to_string();
    assert!(!asked.contains("Standard input:"), "{asked}");
}

#[test]
fn one_answer_ends_with_one_newline_and_its_calls_are_readable() {
    let home = Home::new();
    std::fs::write(home.path().join("a.txt"), "forty-two").expect("written");
    let server = Server::start([
        Answer::calls([("read_file", json!({"path": "a.txt", "offset": 1, "limit": 40}))]),
        Answer::text("It says forty-two.\n"),
    ]);
    let mut command = home.command(&["-p", "what does it say?", "--model", "openai/scripted-1"]);
    command.envs(server.vars());
    let said = Said::from(command.output().expect("it runs"));
    assert_eq!((said.code, said.out.as_str()), (0, "It says forty-two.\n"), "{said:?}");
    assert!(said.err.contains("  → read a.txt 1–40\n"), "{said:?}");
}

#[test]
fn a_quota_that_is_used_up_is_reported_at_once() {
    let home = Home::new();
    let used_up = "insufficient_quota: You exceeded your current quota";
    let server = Server::start([Answer::status(429).saying(used_up)]);
    let mut command = home.command(&["-p", "hello", "--model", "openai/scripted-1"]);
    command.envs(server.vars());
    let said = Said::from(command.output().expect("it runs"));
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("the quota at openai is used up: insufficient_quota"), "{said:?}");
    assert_eq!(server.requests().len(), 1, "waiting does not help");
}

#[test]
fn every_event_of_one_question_can_be_read_by_a_program() {
    let home = Home::new();
    std::fs::write(home.path().join("a.txt"), "forty-two").expect("written");
    let server = Server::start([
        Answer::text("Let me read it.").and_calls([("read_file", json!({"path": "a.txt"}))]),
        Answer::text("It says forty-two."),
    ]);
    let mut command = home.command(&[
        "-p",
        "what does a.txt say?",
        "--json-stream",
        "--model",
        "openai/scripted-1",
    ]);
    let said = Said::from(command.envs(server.vars()).output().expect("it runs"));
    assert_eq!(said.code, 0, "{said:?}");
    let lines: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    for kind in ["text", "call", "result"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    let last = lines.last().expect("a line");
    assert_eq!(last["answer"], "It says forty-two.");
    assert_eq!(last["end"], "answered");
}

#[test]
fn a_model_writes_a_better_title_while_nobody_types() {
    let home = Home::new();
    let server = Server::start([
        Answer::text("In src/limit.rs."),
        Answer::text("\"Finding the rate limiter.\""),
    ]);
    let mut terminal =
        Terminal::start(&home, &["--model", "openai/scripted-1"], server.vars().as_ref());
    terminal.expect("You: ");
    terminal.say("hi, could you tell me where it is?");
    terminal.expect("In src/limit.rs.");
    let title = || home.json(&["list"])["sessions"][0]["title"].clone();
    assert_eq!(title(), "hi, could you tell me where it is?");
    // The second request is for the title.
    server.wait_for_requests(2);
    let began = std::time::Instant::now();
    while title() != "Finding the rate limiter" {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{}", title());
    }
    terminal.say("/rename Limits of ours");
    terminal.expect("This session is now called Limits of ours.");
    assert_eq!(title(), "Limits of ours");
}

#[test]
fn hints_in_the_chat_can_be_typed_there() {
    let home = Home::new();
    let said = chat(&home, &[], &["/open nowhere", "exit"]);
    assert!(said.err.contains("no session matches `nowhere`"), "{said:?}");
    assert!(said.err.contains("`sessions`") && !said.err.contains("`rethread list`"), "{said:?}");
    let said = home.run(&["show", "nowhere"]);
    assert!(said.err.contains("`rethread list`"), "{said:?}");
}

#[test]
fn a_session_about_another_folder_says_so_when_it_is_opened() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("elsewhere")).expect("made");
    chat(&home, &["--workspace", "elsewhere", "--name", "far"], &["hello", "exit"]);
    let said = chat(&home, &[], &["/open far", "exit"]);
    assert!(said.err.contains("This session is about "), "{said:?}");
    assert!(said.err.contains("/elsewhere; files and commands are those of "), "{said:?}");
    let said = chat(&home, &["--workspace", "elsewhere"], &["/open far", "exit"]);
    assert!(!said.err.contains("This session is about "), "{said:?}");
}

#[test]
fn a_resume_after_a_resume_leaves_no_empty_session_behind() {
    let home = Home::new();
    for name in ["first", "second"] {
        chat(&home, &["--name", name], &[&format!("about the {name} plan"), "exit"]);
    }
    let before = names(&home, &["list"]);
    assert_eq!(before, ["second", "first"]);
    // No message is sent in any of the new ones.
    for lines in [
        &["resume 1", "resume 1", "exit"][..],
        &["resume 2", "/new", "exit"],
        &["resume 1", "exit"],
    ] {
        chat(&home, &[], lines);
        assert_eq!(names(&home, &["list"]), before, "{lines:?}");
    }
    // `/undo` goes back to the one that was left, and it is listed again.
    let said = chat(&home, &[], &["resume first", "resume second", "/undo", "go on", "exit"]);
    assert!(said.err.contains("Undid the resume"), "{said:?}");
    assert_eq!(names(&home, &["list"]).len(), 2, "{said:?}");
}
