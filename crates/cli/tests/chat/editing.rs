//! Editing a line before it is sent, with the keys of a real pseudo-terminal.

use rethread_agent::scripted::{Answer, Server};
use serde_json::Value;

use crate::home::Home;
use crate::terminal::{Terminal, signal};

const UP: &str = "\x1b[A";
const LEFT: &str = "\x1b[D";
const ALT_ENTER: &str = "\x1b\r";

/// The last question sent to the model.
fn asked(server: &Server) -> String {
    asked_in(&server.requests().pop().expect("a request").body)
}

/// The question in a request.
fn asked_in(body: &Value) -> String {
    let last = body["messages"].as_array().and_then(|all| all.last()).expect("a message");
    match &last["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().expect("text").to_owned(),
    }
}

fn start(home: &Home, server: &Server, args: &[&str]) -> Terminal {
    let args = [&["--model", "openai/m"], args].concat();
    let mut terminal = Terminal::start(home, &args, &server.vars());
    terminal.expect("You: ");
    terminal
}

/// A shell with job control. Its prompt is `shell> `.
fn shell(home: &Home, server: &Server) -> Terminal {
    let mut terminal = Terminal::run(home, "PS1='shell> ' bash --norc --noediting", &server.vars());
    terminal.expect("shell> ");
    terminal
}

/// Waits until the chat is stopped, checks that the shell has its terminal back, and continues the
/// chat until this is shown.
fn continue_when_stopped(terminal: &mut Terminal, shown: &str) {
    terminal.expect("Stopped");
    terminal.expect("shell> ");
    terminal.say("stty -a");
    let settings = terminal.expect("shell> ");
    assert!(settings.contains(" icanon") && settings.contains(" echo "), "{settings}");
    terminal.say("fg");
    terminal.expect(shown);
}

#[test]
fn a_line_is_changed_with_the_arrow_keys() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let mut terminal = start(&home, &server, &[]);
    terminal.say(&format!("fix the tst{LEFT}{LEFT}e"));
    terminal.expect("done");
    assert_eq!(asked(&server), "fix the test");
}

#[test]
fn what_is_pasted_is_one_message_and_keeps_its_lines() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let mut terminal = start(&home, &server, &[]);
    terminal.press("why?\n".trim_end());
    terminal.press(format!(
        "{ALT_ENTER}\x1b[200~  File \"a.py\", line 3\r\n\tin f\rValueError\x1b[201~"
    ));
    terminal.expect("ValueError");
    terminal.press("\r");
    terminal.expect("done");
    assert_eq!(asked(&server), "why?\n  File \"a.py\", line 3\n\tin f\nValueError");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_line_longer_than_a_terminal_keeps_is_sent_whole() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let mut terminal = start(&home, &server, &[]);
    let long = "0123456789".repeat(2_000);
    terminal.press(format!("\x1b[200~{long}\x1b[201~\r"));
    terminal.expect("done");
    assert_eq!(asked(&server), long);
}

#[test]
fn the_arrow_up_calls_back_what_was_asked_even_of_a_session_before() {
    let (home, server) = (Home::new(), Server::start(["one", "two", "three"].map(Answer::text)));
    let mut terminal = start(&home, &server, &["--name", "first"]);
    terminal.say("what is in the vault?");
    terminal.expect("one");
    terminal.expect("You: ");
    terminal.press(UP);
    terminal.expect("what is in the vault?");
    terminal.say(" And who put it there?");
    terminal.expect("two");
    assert_eq!(asked(&server), "what is in the vault? And who put it there?");
    drop(terminal);

    let mut terminal = start(&home, &server, &["--continue"]);
    // Both turns are shown before the prompt.
    terminal.expect("You: ");
    terminal.expect("You: ");
    terminal.press(format!("{UP}{UP}"));
    terminal.expect("what is in the vault?");
    terminal.press("\r");
    terminal.expect("three");
    assert_eq!(asked(&server), "what is in the vault?");
}

#[test]
fn what_cannot_be_shown_as_it_is_is_not_called_back() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let lines = r#"{"role":"user","content":"plain"}
{"role":"user","content":"clear\u001b[2Jed \u001b]0;title\u0007 odd"}
{"role":"assistant","content":"hm"}"#;
    home.feed(&["append", "--new", "--name", "odd"], lines);
    let mut terminal = start(&home, &server, &[]);
    terminal.say("/open odd");
    // Both questions are shown before the prompt.
    (0..3).for_each(|_| drop(terminal.expect("You: ")));
    terminal.press(UP);
    terminal.expect("plain");
    terminal.say(", please");
    terminal.expect("done");
    assert_eq!(asked(&server), "plain, please");
    assert!(!terminal.all().contains("\x1b[2J"), "{:?}", terminal.all());
    assert!(!terminal.all().contains("\x1b]0;"), "{:?}", terminal.all());
}

#[test]
fn lines_that_a_terminal_sends_in_one_go_are_all_said() {
    let (home, server) = (Home::new(), Server::start(["1", "2", "3"].map(Answer::text)));
    let mut terminal = start(&home, &server, &[]);
    terminal.press("one\rtwo\rthree\r");
    let requests = server.wait_for_requests(3);
    let all: Vec<String> = requests.iter().map(|request| asked_in(&request.body)).collect();
    assert_eq!(all, ["one", "two", "three"]);
}

#[test]
fn a_byte_that_is_not_text_costs_the_line_and_not_the_chat() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let mut terminal = start(&home, &server, &[]);
    terminal.press(b"caf\xe9\r");
    terminal.expect("not valid UTF-8; it was not sent");
    terminal.expect("You: ");
    terminal.say("coffee");
    terminal.expect("done");
    assert_eq!(asked(&server), "coffee");
}

#[test]
fn a_paste_of_any_length_is_sent_in_a_window_of_any_width() {
    let (home, server) = (Home::new(), Server::start(["one", "two"].map(Answer::text)));
    let rethread = env!("CARGO_BIN_EXE_rethread");
    let line = format!("stty cols 2; exec {rethread} --model openai/m");
    let mut terminal = Terminal::run(&home, &line, &server.vars());
    terminal.expect("\x1b[?2004h");
    let long = "x".repeat(200_000);
    terminal.press(format!("\x1b[200~{long}\x1b[201~\r"));
    server.wait_for_requests(1);
    assert!(asked(&server) == long, "{} characters came", asked(&server).len());
    terminal.press("fewer\r");
    server.wait_for_requests(2);
    assert_eq!(asked(&server), "fewer");
}

#[test]
fn fifty_kilobytes_that_are_typed_at_once_take_no_longer_than_others() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let mut terminal = start(&home, &server, &[]);
    let long = "0123456789".repeat(5_000);
    let began = std::time::Instant::now();
    terminal.press(format!("{long}\r"));
    terminal.expect("done");
    assert!(asked(&server) == long, "{} characters came", asked(&server).len());
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_paste_may_end_with_an_escape_character() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let mut terminal = start(&home, &server, &[]);
    terminal.press("\x1b[200~colour: \x1b\x1b[201~\r");
    terminal.expect("done");
    assert_eq!(asked(&server), "colour: \x1b");
}

#[test]
fn a_paste_that_comes_while_a_turn_ends_is_whole() {
    let (home, server) =
        (Home::new(), { Server::start([Answer::text("one").slowly(0), Answer::text("two")]) });
    let mut terminal = start(&home, &server, &[]);
    terminal.say("first");
    server.wait_for_requests(1);
    terminal.press("\x1b[200~the beginning\n");
    server.release();
    terminal.expect("one");
    terminal.expect("You: ");
    terminal.press("and the end\x1b[201~\r");
    terminal.expect("two");
    assert_eq!(asked(&server), "the beginning\nand the end");
}

#[test]
fn control_z_stops_the_chat_and_the_line_is_there_when_it_continues() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let rethread = env!("CARGO_BIN_EXE_rethread");
    let mut terminal = shell(&home, &server);
    terminal.say(&format!("{rethread} --model openai/m"));
    terminal.expect("You: ");
    terminal.press("half a li\x1a");
    continue_when_stopped(&mut terminal, "You: half a li");
    terminal.say("ne");
    terminal.expect("done");
    assert_eq!(asked(&server), "half a line");
}

#[test]
fn control_z_works_in_the_pager_and_while_compacting() {
    let home = Home::new();
    let server = Server::start([
        Answer::calls([("list_dir", serde_json::json!({}))]),
        Answer::text("Found."),
        Answer::text("A summary.").slowly(0),
        Answer::text("I know."),
    ]);
    let rethread = env!("CARGO_BIN_EXE_rethread");
    let mut terminal = shell(&home, &server);
    terminal.say(&format!("{rethread} --model openai/m"));
    terminal.expect("You: ");
    terminal.say("look");
    terminal.expect("Found.");
    terminal.expect("You: ");
    terminal.press("\x0f");
    let stop_and_continue = |terminal: &mut Terminal, shown: &str| {
        terminal.expect(shown);
        terminal.press("\x1a");
        continue_when_stopped(terminal, shown);
    };
    stop_and_continue(&mut terminal, "q closes");
    terminal.press("q");
    terminal.expect("You: ");
    terminal.say("compact");
    // A question is asked again: the shell has written since.
    stop_and_continue(&mut terminal, "Compact it anyway? (y/n) ");
    terminal.say("y");
    server.wait_for_requests(3);
    stop_and_continue(&mut terminal, "compacting");
    server.release();
    terminal.expect("Compacted into");
    terminal.expect("You: ");
}

#[test]
fn a_stop_signal_from_outside_gives_the_terminal_back_as_control_z_does() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let rethread = env!("CARGO_BIN_EXE_rethread");
    let mut terminal = shell(&home, &server);
    terminal.say(&format!("sh -c 'echo \"pid $$.\"; exec {rethread} --model openai/m'"));
    terminal.expect("pid ");
    terminal.expect("pid ");
    let pid = terminal.expect(".");
    terminal.expect("You: ");
    terminal.press("half a li");
    terminal.expect("half a li");
    signal(&pid, "TSTP");
    continue_when_stopped(&mut terminal, "You: half a li");
    terminal.say("ne");
    terminal.expect("done");
    assert_eq!(asked(&server), "half a line");
}

#[test]
fn the_tab_key_completes_a_command() {
    let (home, server) = (Home::new(), Server::start([]));
    let mut terminal = start(&home, &server, &[]);
    terminal.say("/sess\t");
    terminal.expect("/sessions");
    terminal.expect("No other sessions yet.");
    terminal.press("\x1b");
    terminal.expect("You: ");
}

#[test]
fn control_c_forgets_the_line_and_twice_it_leaves() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let mut terminal = start(&home, &server, &[]);
    terminal.press("never mind\x03");
    terminal.expect("(`exit` or Ctrl-C again leaves)");
    terminal.expect("You: ");
    terminal.say("this");
    terminal.expect("done");
    assert_eq!(asked(&server), "this");
    terminal.expect("You: ");
    terminal.press("\x03");
    terminal.expect("You: ");
    // Something was typed since: this clears it, and does not leave.
    terminal.press("another thought\x03");
    terminal.expect("(`exit` or Ctrl-C again leaves)");
    terminal.expect("You: ");
    terminal.press("\x03");
    terminal.expect("Goodbye!");
    assert_eq!(terminal.end().1, 0);
}

#[test]
fn lines_typed_during_a_turn_are_said_after_it_and_a_part_of_one_can_be_finished() {
    let home = Home::new();
    let answers =
        [Answer::text("one").slowly(0), Answer::text("two").slowly(0), Answer::text("three")];
    let server = Server::start(answers);
    let mut terminal = start(&home, &server, &[]);
    terminal.say("first");
    server.wait_for_requests(1);
    terminal.say("second");
    terminal.expect("You: second");
    server.release();
    server.wait_for_requests(2);
    assert_eq!(asked(&server), "second");
    terminal.press("thi");
    terminal.expect("thi");
    server.release();
    terminal.expect("two");
    terminal.expect("You: ");
    terminal.say("rd");
    terminal.expect("three");
    assert_eq!(asked(&server), "third");
}

#[test]
fn a_chat_that_is_terminated_restores_the_terminal() {
    let (home, server) = (Home::new(), Server::start([]));
    let rethread = env!("CARGO_BIN_EXE_rethread");
    let line = format!(
        "stty -a; sh -c 'echo \"pid $$.\"; exec {rethread} --model openai/m'; echo over; stty -a; echo end"
    );
    let mut terminal = Terminal::run(&home, &line, &server.vars());
    let before = terminal.expect("pid ");
    let pid = terminal.expect(".");
    terminal.expect("You: ");
    terminal.press("half a li");
    terminal.expect("half a li");
    signal(&pid, "TERM");
    terminal.expect("\x1b[?2004l");
    terminal.expect("Goodbye!");
    terminal.expect("over\n");
    let after = terminal.expect("end");
    assert!(before.contains(" icanon") && before.contains(" echo "), "{before}");
    assert_eq!(after.trim(), before.trim());
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_is_read_line_by_line() {
    let (home, server) = (Home::new(), Server::start([Answer::text("done")]));
    let variables = [&server.vars()[..], &[("TERM", "dumb".to_owned())]].concat();
    let mut terminal = Terminal::start(&home, &["--model", "openai/m"], &variables);
    terminal.expect("You: ");
    terminal.say("plain");
    terminal.expect("done");
    assert_eq!(asked(&server), "plain");
    let long = "x".repeat(4_095);
    terminal.expect("You: ");
    terminal.say(&long);
    terminal.expect("a terminal keeps only 4095 bytes of a line; this one was not sent");
    assert!(!terminal.all().contains("\x1b[?2004h"));
}
