//! Permission for changes: what is shown, each answer, and what is remembered.

use rethread_agent::scripted::{Answer, Server};
use serde_json::{Value, json};

use crate::home::Home;
use crate::screens::{at_prompt, finished, from, open};
use crate::terminal::Terminal;
use crate::window::Window;

const SOURCE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";

fn home() -> Home {
    let home = Home::new();
    std::fs::write(home.path().join("a.txt"), SOURCE).expect("written");
    home
}

fn text(home: &Home, name: &str) -> String {
    std::fs::read_to_string(home.path().join(name)).unwrap_or_default()
}

fn edit(old: &str, new: &str) -> (&'static str, Value) {
    ("edit_file", json!({"path": "a.txt", "old": old, "new": new}))
}

fn run(command: &str) -> (&'static str, Value) {
    ("run", json!({ "command": command }))
}

/// The last request's tools, by name.
fn offered(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let tools = requests.last().expect("a request").body["tools"].clone();
    let names = tools.as_array().into_iter().flatten();
    names.filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned)).collect()
}

/// The last message of the last request to the model.
fn last_request(server: &Server) -> String {
    let requests = server.requests();
    let messages = requests.last().expect("a request").body["messages"].clone();
    messages.as_array().and_then(|all| all.last()).map(Value::to_string).unwrap_or_default()
}

/// Waits for a question that shows all of this. What is typed before it appears is not an answer.
pub(crate) fn asks(window: &Window, texts: &[&str]) -> String {
    window.until(&format!("{texts:?} and a question"), |shown| {
        shown.ends_with("/e)") && texts.iter().all(|text| shown.contains(text))
    })
}

#[test]
fn an_edit_is_shown_as_a_diff_and_made_when_the_answer_is_yes() {
    for (width, choices) in [
        (
            40,
            "y yes · n no · a always, in this\n  session: edit_file · e say what to do\n  instead\n",
        ),
        (80, "y yes · n no · a always, in this session: edit_file · e say what to do instead\n"),
    ] {
        let home = home();
        let server = Server::start([Answer::calls([edit("five", "FIVE")]), Answer::text("Done.")]);
        let mut window = open(&home, &server, (width, 40), &[]);
        window.say("shout");
        let shown = asks(&window, &[]);
        let expected = format!(
            "Allow edit_file a.txt\n+1 -1\n2   two\n3   three\n4   four\n5 - five\n5 + FIVE\n\
             6   six\n7   seven\n8   eight\n{choices}? (y/n/a/e)"
        );
        assert_eq!(from(&shown, "Allow"), expected);
        assert_eq!(text(&home, "a.txt"), SOURCE, "nothing is written before the answer");
        window.say("y");
        let shown = finished(&window, "Done.");
        let after = format!("{expected} y\n\n  edit a.txt · +1 −1\n\nDone.\n");
        assert!(from(&shown, "Allow").starts_with(&after), "{shown}");
        assert_eq!(text(&home, "a.txt"), SOURCE.replace("five", "FIVE"));
    }
}

#[test]
fn the_line_of_an_edit_has_the_numbers_of_the_diff_that_was_approved_also_later() {
    let home = Home::new();
    std::fs::write(home.path().join("a.txt"), "x 1\nx 2\nx 3\nx 4\n").expect("written");
    let all = json!({"path": "a.txt", "old": "x", "new": "y", "all": true});
    let server = Server::start([Answer::calls([("edit_file", all)]), Answer::text("Done.")]);
    let mut window = open(&home, &server, (80, 40), &[]);
    window.say("rename");
    asks(&window, &["Allow edit_file a.txt\n+4 -4\n"]);
    window.say("y");
    let shown = finished(&window, "Done.");
    assert!(shown.contains("  edit a.txt · +4 −4\n"), "{shown}");
    window.say("/history");
    window.until("the same line", |shown| shown.matches("  edit a.txt · +4 −4\n").count() == 2);
}

#[test]
fn a_diff_has_colours_where_the_terminal_has() {
    let home = home();
    let server = Server::start([Answer::calls([edit("five", "FIVE")]), Answer::text("Done.")]);
    let mut variables = server.vars().to_vec();
    variables.extend([("TERM", "xterm-256color".into()), ("NO_COLOR", String::new())]);
    let mut window = Window::open(&home, (80, 40), &["--model", "openai/scripted-1"], &variables);
    at_prompt(&window);
    window.say("shout");
    asks(&window, &[]);
    let bytes = window.bytes();
    let emulated = window.emulated(&bytes);
    let screen = emulated.screen();
    let colour = |sign: &str| {
        let rows: Vec<String> = screen.rows(0, 80).collect();
        let row = rows.iter().position(|row| row.starts_with(sign)).expect(sign);
        let cell = screen.cell(u16::try_from(row).expect("small"), 2).expect("a cell");
        cell.fgcolor()
    };
    let (gone, new, same) = (colour("5 - "), colour("5 + "), colour("6   "));
    assert!(gone != new && new != same && gone != same, "{gone:?} {new:?} {same:?}");
}

#[test]
fn a_declined_edit_changes_nothing_and_the_model_gets_the_comment() {
    let home = home();
    let server = Server::start([
        Answer::calls([edit("five", "FIVE")]),
        Answer::calls([edit("five", "Five")]),
        Answer::calls([edit("five", "fiVe")]),
        Answer::text("As you like."),
    ]);
    let mut window = open(&home, &server, (80, 60), &[]);
    window.say("shout");
    asks(&window, &["5 + FIVE"]);
    window.say("n");
    let shown = asks(&window, &["5 + Five", "✗ you declined"]);
    assert!(shown.contains("? (y/n/a/e) n\n\n  edit a.txt · ✗ you declined\n"), "{shown}");
    assert!(
        last_request(&server).contains("the user declined this call\""),
        "{}",
        last_request(&server)
    );
    window.say("e use b.txt instead");
    asks(&window, &["5 + fiVe", "✗ you declined: use b.txt instead"]);
    assert!(
        last_request(&server).contains("the user declined this call: use b.txt"),
        "{}",
        last_request(&server)
    );
    window.say("e");
    window.until("the line", |shown| shown.ends_with("\nWhat to do instead:"));
    window.say("");
    asks(&window, &["The line was empty. The question is still:"]);
    window.say("e");
    window.until("the second", |shown| shown.matches("What to do instead:").count() == 2);
    window.say("leave it alone");
    finished(&window, "As you like.");
    assert!(last_request(&server).contains("the user declined this call: leave it alone"));
    assert_eq!(text(&home, "a.txt"), SOURCE);
}

#[test]
fn an_unclear_answer_is_asked_again() {
    let home = home();
    let server = Server::start([Answer::calls([run("touch made")]), Answer::text("Done.")]);
    let mut window = open(&home, &server, (80, 40), &[]);
    window.say("go");
    asks(&window, &["  command: touch made\n", "a always, in this session: run:touch"]);
    for (times, line) in ["", "maybe", "yes please", "ye", "v"].iter().enumerate() {
        window.say(line);
        let again = |shown: &str| {
            shown.ends_with("/e)")
                && shown.matches("Please answer one of these").count() == times + 1
        };
        window.until(line, again);
    }
    assert!(!home.path().join("made").exists());
    window.say("YES");
    finished(&window, "Done.");
    assert!(home.path().join("made").exists());
}

#[test]
fn always_holds_for_commands_that_begin_alike_in_this_session_and_in_no_fork() {
    let home = home();
    let server = Server::start([
        Answer::calls([run("touch one")]),
        Answer::calls([run("touch two"), run("touch three; touch four")]),
        Answer::text("Three are there."),
        Answer::calls([run("touch five")]),
        Answer::text("Nothing more."),
    ]);
    let mut window = open(&home, &server, (80, 60), &[]);
    window.say("go");
    asks(&window, &["command: touch one"]);
    window.say("a");
    let exactly = "a always: exactly this command · e";
    let shown = asks(&window, &["command: touch three; touch four", exactly]);
    assert!(!shown.contains("command: touch two"), "{shown}");
    window.say("n");
    finished(&window, "Three are there.");
    let there = ["one", "two", "three", "four"].map(|name| home.path().join(name).exists());
    assert_eq!(there, [true, true, false, false]);
    window.say("/permissions");
    window.shows(&["These run without asking:\n  1  run:touch ", "in this session\n"]);
    window.say("/fork");
    window.shows(&["You are now in"]);
    window.say("/permissions");
    window.shows(&["Nothing is allowed without asking.\nYou are asked about every change.\n"]);
    at_prompt(&window);
    window.say("more");
    asks(&window, &["command: touch five"]);
    window.say("n");
    finished(&window, "Nothing more.");
    assert!(!home.path().join("five").exists());
}

#[test]
fn always_holds_for_one_command_where_its_first_words_do_not_say_what_it_does() {
    let home = home();
    let server = Server::start([
        Answer::calls([run("sed -n 1p a.txt")]),
        Answer::calls([run("sed -n 1p a.txt"), run("sed '1e touch pwned' a.txt")]),
        Answer::text("Once more."),
    ]);
    let mut window = open(&home, &server, (80, 60), &[]);
    window.say("go");
    asks(&window, &["command: sed -n 1p a.txt", "exactly this command"]);
    window.say("a");
    let shown = asks(&window, &["command: sed '1e touch pwned' a.txt"]);
    assert_eq!(shown.matches("command: sed -n 1p").count(), 1, "{shown}");
    assert!(!home.path().join("pwned").exists());
    window.say("n");
    finished(&window, "Once more.");
    window.say("/permissions");
    window.shows(&["These run without asking:\n  1  run=sed -n 1p a.txt ", "in this session\n"]);
    window.say("/permissions revoke run=sed -n 1p a.txt");
    window.shows(&["You will be asked about run=sed -n 1p a.txt again."]);
}

#[test]
fn always_holds_for_a_tool_until_it_is_revoked() {
    let home = home();
    let server = Server::start([
        Answer::calls([edit("five", "5")]),
        Answer::calls([edit("six", "6")]),
        Answer::text("Both."),
        Answer::calls([edit("one", "1")]),
        Answer::text("None."),
        Answer::text("Nothing offered."),
    ]);
    let mut window = open(&home, &server, (80, 60), &[]);
    window.say("go");
    asks(&window, &[]);
    window.say("a");
    finished(&window, "Both.");
    assert_eq!(text(&home, "a.txt"), SOURCE.replace("five", "5").replace("six", "6"));
    window.say("/permissions revoke 1");
    window.shows(&["You will be asked about edit_file again."]);
    at_prompt(&window);
    window.say("more");
    asks(&window, &["1 - one"]);
    window.say("n");
    finished(&window, "None.");
    window.say("/permissions read-only");
    window.shows(&["This session is now read-only."]);
    at_prompt(&window);
    window.say("and now?");
    finished(&window, "Nothing offered.");
    assert!(!offered(&server).contains(&"edit_file".to_owned()), "{:?}", offered(&server));
}

#[test]
fn read_only_stays_until_someone_says_otherwise() {
    let home = home();
    let server = Server::start([Answer::text("Hello."), Answer::text("Again.")]);
    let mut window = open(&home, &server, (80, 40), &["--read-only"]);
    window.say("/allow run:ls");
    window.shows(&["this session is read-only", "`/permissions ask` lets the agent ask again"]);
    at_prompt(&window);
    window.say("/permissions");
    window.shows(&["Read-only: no tool that changes anything is offered."]);
    at_prompt(&window);
    window.say("hi");
    finished(&window, "Hello.");
    assert!(!offered(&server).contains(&"run".to_owned()), "{:?}", offered(&server));
    window.say("/permissions ask");
    window.shows(&["You will be asked before anything is changed."]);
    window.say("/allow run:ls");
    window.shows(&["run:ls runs without asking, in this session."]);
    at_prompt(&window);
    window.say("and now?");
    finished(&window, "Again.");
    assert!(offered(&server).contains(&"run".to_owned()), "{:?}", offered(&server));
}

#[test]
fn what_a_flag_or_the_configuration_allows_is_not_asked_about_and_the_rest_is() {
    let home = home();
    let config = home.path().join("config.toml");
    std::fs::write(&config, "allow = [\"run:touch\"]\n").expect("written");
    let server = Server::start([
        Answer::calls([run("touch made"), edit("five", "5"), run("rm made")]),
        Answer::text("Done."),
    ]);
    let args = ["--allow", "edit_file", "--config", config.to_str().expect("a path")];
    let mut window = open(&home, &server, (80, 60), &args);
    window.say("/allow run:echo");
    window.shows(&["run:echo runs without asking, in this session."]);
    window.say("/permissions");
    window.shows(&["1  run:touch", "2  edit_file", "3  run:echo"]);
    at_prompt(&window);
    window.say("go");
    let shown = asks(&window, &["command: rm made"]);
    assert_eq!(shown.matches("Allow ").count(), 1, "{shown}");
    window.say("n");
    finished(&window, "Done.");
    assert!(home.path().join("made").exists());
    assert!(text(&home, "a.txt").contains("\n5\n"));
}

#[test]
fn changing_tools_are_offered_only_where_someone_can_be_asked_or_they_are_allowed() {
    let home = home();
    let changing = |server: &Server| -> Vec<String> {
        let names = offered(server).into_iter();
        names.filter(|name| ["write_file", "edit_file", "run"].contains(&name.as_str())).collect()
    };
    let piped = |args: &[&str]| {
        let server = Server::start([Answer::text("Hello.")]);
        let mut rethread = home.command(&[&["-p", "hi", "--model", "openai/m"], args].concat());
        let said = rethread.envs(server.vars()).output().expect("it runs");
        assert!(said.status.success(), "{said:?}");
        changing(&server)
    };
    assert!(piped(&[]).is_empty());
    assert!(piped(&["--read-only"]).is_empty());
    assert_eq!(piped(&["--allow", "write_file,run:cargo test"]), ["write_file", "run"]);
    let typed = |args: &[&str]| {
        let server = Server::start([Answer::text("Hello.")]);
        let mut window = open(&home, &server, (80, 24), args);
        window.say("hi");
        finished(&window, "Hello.");
        changing(&server)
    };
    assert_eq!(typed(&[]), ["write_file", "edit_file", "run"]);
    assert!(typed(&["--read-only"]).is_empty());
    assert!(typed(&["--agent", "plan"]).is_empty());
    // The question would be written to a file.
    let server = Server::start([Answer::text("Hello.")]);
    let line = format!("{} -p hi --model openai/m 2>errors", env!("CARGO_BIN_EXE_rethread"));
    Terminal::run(&home, &line, &server.vars()).expect("Hello.");
    assert!(changing(&server).is_empty());
}

#[test]
fn where_nobody_can_be_asked_only_commands_that_begin_as_allowed_run() {
    let home = home();
    let server = Server::start([
        Answer::calls([run("touch yes"), run("touch no; touch never"), run("mkdir never")]),
        Answer::text("Done."),
    ]);
    let args = ["-p", "go", "--model", "openai/m", "--allow", "run:touch"];
    let said = home.command(&args).envs(server.vars()).output().expect("it runs");
    assert!(said.status.success(), "{said:?}");
    assert!(home.path().join("yes").exists());
    assert!(!home.path().join("no").exists() && !home.path().join("never").exists());
    assert!(
        last_request(&server).contains("only `run:touch` is allowed"),
        "{}",
        last_request(&server)
    );
}

#[test]
fn a_long_diff_is_folded_and_can_be_seen_whole_before_the_answer() {
    let home = home();
    let content: String = (1..=200).map(|n| format!("line {n}\n")).collect();
    let server = Server::start([
        Answer::calls([("write_file", json!({"path": "new.txt", "content": content}))]),
        Answer::text("Written."),
    ]);
    let mut window = open(&home, &server, (60, 24), &[]);
    window.say("write");
    let shown = asks(&window, &["line 15\n", "… 185 more lines · v shows all"]);
    assert!(shown.contains("Allow write_file new.txt (a new file)"), "{shown}");
    for open in ["v\r", "\x0f"] {
        window.press(open);
        window.shows(&["write new.txt", "+200 -0", "  1 + line 1\n", "q closes"]);
        window.press("G");
        window.shows(&["200 + line 200\n"]);
        window.press("q");
        window.until("the question", |shown| shown.ends_with("? (y/n/a/e)"));
    }
    window.say("y");
    finished(&window, "Written.");
    assert_eq!(text(&home, "new.txt"), content);
}

#[test]
fn the_question_says_why_it_is_asked_every_time() {
    let home = home();
    let rc = || ("write_file", json!({"path": ".envrc", "content": "one\n\ntwo\n"}));
    let net = ("run", json!({"command": "echo one\necho two", "network": true}));
    let server = Server::start([Answer::calls([rc(), net]), Answer::text("Declined.")]);
    let mut window = open(&home, &server, (100, 60), &["--allow", "write_file,run"]);
    window.say("go");
    asks(&window, &["+3 -0", "! You are asked every time: "]);
    window.say("a");
    asks(&window, &["You are asked about this every time.\n"]);
    window.say("n");
    let command =
        "  command:\n    echo one\n    echo two\n  network: true\n! You are asked every time: ";
    asks(&window, &[command]);
    window.say("n");
    finished(&window, "Declined.");
    assert!(!home.path().join(".envrc").exists());
}

#[test]
fn a_file_that_changed_while_someone_was_asked_is_not_written() {
    let home = home();
    let server = Server::start([Answer::calls([edit("five", "5")]), Answer::text("Changed.")]);
    let mut window = open(&home, &server, (80, 40), &[]);
    window.say("go");
    asks(&window, &[]);
    let meanwhile = SOURCE.replace("one", "ONE");
    std::fs::write(home.path().join("a.txt"), &meanwhile).expect("written");
    window.say("y");
    finished(&window, "Changed.");
    assert_eq!(text(&home, "a.txt"), meanwhile);
    assert!(last_request(&server).contains("the file changed while the user was asked"));
}

#[test]
fn plain_asks_the_same_question_in_lines() {
    let home = home();
    let server = Server::start([
        Answer::calls([edit("five", "5"), edit("six", "6"), edit("one", "1"), edit("two", "2")]),
        Answer::text("Done."),
    ]);
    let args = ["--model", "openai/scripted-1", "--plain"];
    let mut window = Window::open(&home, (80, 80), &args, &server.vars());
    window.until("the prompt", |shown| shown.ends_with("You:"));
    window.say("go");
    asks(&window, &["Allow edit_file a.txt\n+1 -1\n", "5 - five\n5 + 5\n"]);
    window.say("what?");
    asks(&window, &["? (y/n/a/e) what?\nPlease answer one of these"]);
    window.say("y");
    asks(&window, &["6 + 6\n"]);
    window.say("e");
    window.until("the line", |shown| shown.ends_with("? (y/n/a/e) e\nWhat to do instead:"));
    window.say("no numbers");
    asks(&window, &["you declined: no numbers", "1 + 1\n"]);
    window.say("a");
    window.until("the end", |shown| shown.contains("Done.") && shown.ends_with("You:"));
    let expected = SOURCE.replace("five", "5").replace("one", "1").replace("two", "2");
    assert_eq!(text(&home, "a.txt"), expected);
}

#[test]
fn what_is_allowed_is_kept_when_the_conversation_is_compacted_and_not_in_a_new_session() {
    let home = home();
    let summary = rethread_core::summary::block("**Background Context:** short");
    let server = Server::start([
        Answer::calls([run("touch one")]),
        Answer::text("One. ".repeat(400)),
        Answer::text(summary),
        Answer::text("Ready!"),
        Answer::calls([run("touch two")]),
        Answer::text("Two."),
        Answer::calls([run("touch three")]),
        Answer::text("None."),
    ]);
    let mut window = open(&home, &server, (80, 60), &[]);
    window.say("go");
    asks(&window, &["command: touch one"]);
    window.say("a");
    finished(&window, "One.");
    window.say("compact");
    finished(&window, "Ready!");
    window.say("more");
    finished(&window, "Two.");
    assert!(home.path().join("two").exists());
    window.say("/new");
    window.shows(&["Your next message starts a new session"]);
    at_prompt(&window);
    window.say("and more");
    asks(&window, &["command: touch three"]);
    window.say("n");
    finished(&window, "None.");
    assert!(!home.path().join("three").exists());
}

#[test]
fn a_session_that_is_opened_takes_the_flags_of_the_chat_before_and_after_the_command() {
    for flags in [
        &["--allow", "run:touch", "open", "work"][..],
        &["open", "work", "--allow", "run:touch"],
        &["--plain", "--allow", "write_file", "open", "work", "--allow", "run:touch"],
    ] {
        let home = home();
        let server = Server::start([
            Answer::text("Hello."),
            Answer::calls([run("touch made")]),
            Answer::text("Done."),
        ]);
        let mut window = open(&home, &server, (80, 40), &["--name", "work"]);
        window.say("hi");
        finished(&window, "Hello.");
        drop(window);
        let mut window = Window::open(&home, (80, 40), flags, &server.vars());
        window.until("the prompt", |shown| shown.ends_with("You:"));
        window.say("go");
        window.shows(&["Done."]);
        assert!(home.path().join("made").exists(), "{flags:?}");
    }
    let refused = home().run(&["--name", "x", "open", "work"]);
    assert!(refused.err.contains("--name is an option of the chat"), "{}", refused.err);
}
