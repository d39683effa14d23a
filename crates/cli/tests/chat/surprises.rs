//! What happens when something around the chat goes wrong: two windows on one session, a terminal
//! that disconnects, a full disk, a model that cannot be reached. Each is reported, and nothing is
//! lost.

use std::process::Command;
use std::time::{Duration, Instant};

use rethread_agent::scripted::{Answer, Server};

use crate::home::Home;
use crate::terminal::{Terminal, quoted};
use crate::window::Window;

fn open(home: &Home, server: &Server, args: &[&str]) -> Window {
    let args = [&["--model", "openai/scripted-1"], args].concat();
    let window = Window::open(home, (80, 40), &args, &server.vars());
    at_prompt(&window);
    window
}

fn at_prompt(window: &Window) -> String {
    window.until("the prompt", |shown| shown.ends_with("\nYou:"))
}

/// Says something and waits for the answer and the next prompt.
fn say(window: &mut Window, text: &str, answer: &str) -> String {
    window.say(text);
    window.until(answer, |shown| shown.contains(answer) && shown.ends_with("\nYou:"))
}

#[test]
fn what_was_said_in_another_window_is_shown_before_the_next_turn() {
    let home = Home::new();
    let answers = ["One.", "Two.", "Three.", "Four."].map(Answer::text);
    let server = Server::start(answers);
    let mut first = open(&home, &server, &["--name", "shared"]);
    say(&mut first, "first question", "One.");
    let mut second = open(&home, &server, &["-c"]);
    let shown = say(&mut second, "second question", "Two.");
    assert!(!shown.contains("elsewhere)"), "all of it was shown when it was opened: {shown}");
    let shown = say(&mut first, "third question", "Three.");
    let order = [
        "(1 turn was added to this session elsewhere)\nYou: second question",
        "build:\nTwo.",
        "build:\nThree.",
    ];
    let at = order.map(|text| shown.find(text).unwrap_or_else(|| panic!("{text}: {shown}")));
    assert!(at.is_sorted(), "{shown}");
    // It is shown once, and this window's own turns never.
    let shown = say(&mut first, "fourth question", "Four.");
    assert_eq!(shown.matches("elsewhere)").count(), 1, "{shown}");
}

#[test]
fn what_was_added_while_a_turn_waited_is_shown_after_it() {
    let home = Home::new();
    let slow = Answer::text("Two, at last.").slowly(0);
    let server = Server::start([Answer::text("One."), slow, Answer::text("Three.")]);
    let mut first = open(&home, &server, &["--name", "shared"]);
    say(&mut first, "first question", "One.");
    let mut second = open(&home, &server, &["-c"]);
    second.say("second question");
    server.wait_for_requests(2);
    first.say("third question");
    first.shows(&["waiting for another turn in this session"]);
    server.release();
    let shown =
        first.until("the answer", |shown| shown.contains("Three.") && shown.ends_with("\nYou:"));
    let order = [
        "(1 turn was added to this session elsewhere)\nYou: second question",
        "Three.",
        "(the rest of the turn from elsewhere)\n",
        "Two, at last.",
    ];
    let at = order.map(|text| shown.find(text).unwrap_or_else(|| panic!("{text}: {shown}")));
    assert!(at.is_sorted(), "{shown}");
    assert_eq!(shown.matches("elsewhere)").count(), 2, "it is announced once: {shown}");
}

#[test]
fn a_message_that_stops_waiting_for_another_turn_is_back_in_the_prompt() {
    let home = Home::new();
    let slow = Answer::text("Two, at last.").slowly(0);
    let server = Server::start([Answer::text("One."), slow, Answer::text("Three.")]);
    let mut first = open(&home, &server, &["--name", "shared"]);
    say(&mut first, "first question", "One.");
    let mut second = open(&home, &server, &["-c"]);
    second.say("second question");
    server.wait_for_requests(2);
    first.say("third question");
    first.shows(&["waiting for another turn in this session"]);
    first.press("\x1b");
    let shown = first.until("the text in the prompt", |shown| {
        shown.contains("(stopped waiting; your message was not sent)")
            && shown.ends_with("\nYou: third question")
    });
    assert!(!shown.contains("error:") && !shown.contains("in use"), "{shown}");
    // Elsewhere the error names the holder, and nothing about how leases are stored.
    let said = home.run(&["clear", "shared"]);
    assert!(said.err.contains("in use by another process (pid "), "{said:?}");
    assert!(!said.err.contains('@') && !said.err.contains('#'), "{said:?}");
    server.release();
    second.until("the answer", |shown| shown.contains("Two, at last."));
    first.press("\r");
    first.until("the answer", |shown| shown.contains("Three.") && shown.ends_with("\nYou:"));
}

#[test]
fn lines_that_were_typed_ahead_are_not_sent_after_a_stop() {
    let home = Home::new();
    let server = Server::start([
        Answer::text("one two three").slowly(1),
        Answer::status(503).retry_after(30),
        Answer::text("Done."),
    ]);
    let mut window = open(&home, &server, &[]);
    window.say("count");
    window.shows(&["one"]);
    window.say("then this");
    window.press("and half of th");
    window.shows(&["You: then this", "You: and half of th"]);
    window.press("\x1b");
    window.until("the lines in the prompt", |shown| {
        let words: Vec<&str> = shown.split_whitespace().collect();
        shown.contains("(stopped; the part that arrived is kept)")
            && words.join(" ").ends_with("You: then this and half of th")
    });
    assert_eq!(server.requests().len(), 1);
    server.release();
    // The same while it waits to ask again.
    window.press("\x15\x7f\x15again");
    window.press("\r");
    window.shows(&["retrying in"]);
    window.say("later");
    window.shows(&["You: later"]);
    window.press("\x1b");
    window.until("the line in the prompt", |shown| {
        shown.contains("(stopped before a reply arrived; your message is kept)")
            && shown.trim_end().ends_with("\nYou: later")
    });
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_session_that_was_deleted_in_another_window_gets_no_message_and_comes_back() {
    let home = Home::new();
    let server = Server::start(["One.", "Two."].map(Answer::text));
    let mut window = open(&home, &server, &["--name", "shared"]);
    say(&mut window, "first question", "One.");
    assert_eq!(home.run(&["delete", "shared", "-y"]).code, 0);
    window.say("second question");
    window.shows(&["deleted elsewhere; your message was not sent", "`/undo` brings"]);
    assert_eq!(server.requests().len(), 1);
    window.say("/undo");
    window.shows(&["Undid the delete: shared is back."]);
    say(&mut window, "second question", "Two.");
    assert_eq!(home.json(&["show", "shared"])["session"]["queries"], 2);
}

/// Closes the terminal and waits until the program has ended.
fn hang_up(terminal: Terminal, pid: &str) {
    drop(terminal);
    let began = Instant::now();
    let is_running = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
    };
    while is_running() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it is still running without a terminal"
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_terminal_that_goes_away_ends_the_chat_and_nothing_is_lost() {
    for place in ["prompt", "picker", "turn"] {
        let home = Home::new();
        let server =
            Server::start([Answer::text("Hello."), Answer::text("one two three").slowly(1)]);
        let args = ["--model", "openai/scripted-1", "--name", "left"];
        let mut terminal = Terminal::start(&home, &args, &server.vars());
        let pid = terminal.pid();
        terminal.expect("You: ");
        terminal.say("hi there");
        terminal.expect("Hello.");
        terminal.expect("You: ");
        match place {
            "picker" => {
                terminal.say("sessions");
                terminal.expect("Filter:");
            }
            "turn" => {
                terminal.say("count");
                terminal.expect("one");
            }
            _ => {}
        }
        hang_up(terminal, &pid);
        server.release();
        let shown = home.json(&["show", "left"])["entries"].to_string();
        assert!(shown.contains("hi there") && shown.contains("Hello."), "{place}: {shown}");
        assert_eq!(shown.contains("\"one"), place == "turn", "{place}: {shown}");
        assert!(shown.contains("\"kind\":\"summary\""), "it can be resumed: {place}: {shown}");
        // Nobody holds the session any more.
        assert_eq!(home.run(&["-p", "and now?", "-c"]).code, 0, "{place}");
    }
}

/// A chat whose store is on a small disk, which can be filled and emptied. None where that needs rights
/// that are missing.
struct SmallDisk {
    home: Home,
    terminal: Terminal,
}

impl SmallDisk {
    fn start(server: &Server) -> Option<SmallDisk> {
        let home = Home::new();
        let small = home.path().join("small");
        std::fs::create_dir(&small).expect("made");
        let mount = format!("mount -t tmpfs -o size=2m tmpfs {}", small.display());
        let can = Command::new("unshare").args(["-m", "sh", "-c", &mount]).output();
        if !can.is_ok_and(|tried| tried.status.success()) {
            eprintln!("not tested: mounting needs root, or CAP_SYS_ADMIN");
            return None;
        }
        let program = quoted(&[env!("CARGO_BIN_EXE_rethread"), "--model", "openai/scripted-1"]);
        // A file in the folder makes the shell beside the chat fill the disk, and free space.
        let line = format!(
            "unshare -m sh -c '{mount}; export RETHREAD_STORE={0}/s.db; stty cols 200 rows 50; \
             (while [ ! -e go ]; do sleep 0.05; done; head -c 4000000 /dev/zero >{0}/fill; touch full; \
             while [ ! -e room ]; do sleep 0.05; done; rm {0}/fill; touch empty) 2>/dev/null & exec {1}'",
            small.display(),
            program.replace('\'', ""),
        );
        let mut terminal = Terminal::run(&home, &line, &server.vars());
        terminal.expect("You: ");
        terminal.say("first");
        terminal.expect("One.");
        terminal.expect("You: ");
        Some(SmallDisk { home, terminal })
    }

    fn fill(&self) {
        self.ask_for("go", "full");
    }

    fn empty(&self) {
        self.ask_for("room", "empty");
    }

    fn ask_for(&self, name: &str, done: &str) {
        std::fs::write(self.home.path().join(name), "").expect("written");
        while !self.home.path().join(done).exists() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_full_disk_is_reported_at_the_prompt_and_the_message_can_be_sent_again() {
    let server = Server::start(["One.", "Two."].map(Answer::text));
    let Some(mut disk) = SmallDisk::start(&server) else { return };
    disk.fill();
    disk.terminal.say("!echo noted");
    disk.terminal.expect("6 bytes go with your next question");
    disk.terminal.expect("You: ");
    disk.terminal.say("second");
    disk.terminal.expect("no space left for");
    disk.terminal.expect("free some space and try again");
    // It is in the prompt again.
    disk.terminal.expect("You: second");
    assert_eq!(server.requests().len(), 1, "what is not on disk is not sent");
    disk.empty();
    disk.terminal.press("\r");
    disk.terminal.expect("Two.");
    assert!(server.requests()[1].text.contains("[I ran `echo noted`: exit 0]"));
}

#[test]
fn an_answer_that_could_not_be_stored_is_called_that() {
    for asks_again in [false, true] {
        // Text that takes the space it has: nothing in it repeats.
        let long: Vec<String> = (1..=2_000_u64)
            .map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        let long = format!("{} and so on.", long.join(" "));
        let server = Server::start([
            Answer::text("One."),
            Answer::text(long).slowly(0),
            Answer::text("Two."),
        ]);
        let Some(mut disk) = SmallDisk::start(&server) else { return };
        disk.terminal.say("second");
        server.wait_for_requests(2);
        disk.fill();
        server.release();
        disk.terminal.expect("and so on.");
        disk.terminal.expect("no space left for");
        disk.terminal.expect("(the answer above was not stored; `/retry` asks again)");
        disk.terminal.expect("You: ");
        disk.empty();
        if asks_again {
            disk.terminal.say("/retry");
            disk.terminal.expect("Two.");
            disk.terminal.expect("You: ");
        }
        disk.terminal.say("exit");
        disk.terminal.expect(match asks_again {
            true => "✓ Conversation saved successfully!",
            false => "⚠️ Saved, except for an answer that could not be stored",
        });
        disk.terminal.expect("Session ID:");
    }
}

#[test]
fn a_model_that_cannot_be_reached_is_tried_again_and_the_question_is_kept() {
    let home = Home::new();
    let server = Server::start([Answer::text("Back again.")]);
    let mut variables = server.vars().to_vec();
    for (name, value) in &mut variables {
        if *name == "OPENAI_BASE_URL" {
            *value = "http://127.0.0.1:1/v1".into();
        }
    }
    let args = ["--model", "openai/scripted-1", "--name", "cut"];
    let mut window = Window::open(&home, (80, 24), &args, &variables);
    at_prompt(&window);
    window.say("are you there?");
    window.shows(&["retrying in"]);
    window.shows(&["openai cannot be reached", "your message is kept, and `/retry`"]);
    at_prompt(&window);
    drop(window);
    let mut window = open(&home, &server, &["-c"]);
    window.shows(&["You: are you there?", "(no answer)"]);
    window.say("/retry");
    window.shows(&["Back again."]);
    assert!(server.requests()[0].text.contains("are you there?"));
}
