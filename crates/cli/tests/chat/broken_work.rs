//! The job of `work.rs`, interrupted while someone watches: the chat is killed while it asks and
//! while a command runs, and the network is gone for longer than anyone retries.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rethread_agent::limits::RETRIES_MAX;
use rethread_agent::scripted::{Answer, Server};

use crate::home::{Home, Said};
use crate::screens::open;
use crate::window::Window;
use crate::work::{ASK, REQUESTS, command, next, passes, repository};

const DONE: &str = "The area has its unit now.";

/// Questions of the whole job: three edits, the tests, the fix, the tests again.
const QUESTIONS: usize = 6;

fn model(folder: &Path) -> Server {
    let (server, place) = (Server::start([]), folder.to_owned());
    server.fallback(move |body| next(body, &place));
    server
}

/// Agrees to everything until the job is done, or `most` questions were answered and the next one
/// is on the screen. Returns whether it is done.
fn agree(window: &mut Window, most: usize) -> bool {
    for answered in 0..=most {
        let shown = window.until("a question, or the end", |shown| {
            let asked = shown.matches("\nAllow ").count() > answered && shown.ends_with("/e)");
            asked || (shown.contains(DONE) && shown.ends_with("\nYou:"))
        });
        if shown.ends_with("You:") {
            return true;
        }
        if answered < most {
            window.say("y");
        }
    }
    false
}

/// Continues the folder's last chat and has the job finished.
fn comes_back(home: &Home, server: &Server, folder: &Path, why: &str) {
    let mut window = open(home, server, (80, 200), &["-c"]);
    let shown = window.shows(&["Continuing ", ASK]);
    assert!(!shown.contains("error"), "{why}: {shown}");
    window.say("continue");
    assert!(agree(&mut window, QUESTIONS), "{why}: it asks for more than there is to do");
    assert!(passes(folder), "{why}");
}

#[test]
fn a_chat_that_is_killed_at_any_question_can_be_continued() {
    for question in 1..=QUESTIONS {
        let home = Home::new();
        let folder = repository(&home);
        let server = model(&folder);
        let mut window = open(&home, &server, (80, 200), &[]);
        window.say(ASK);
        assert!(!agree(&mut window, question - 1), "{question}");
        window.kill();
        comes_back(&home, &server, &folder, &format!("question {question}"));
    }
}

#[test]
fn a_chat_that_is_killed_while_a_command_runs_can_be_continued() {
    let home = Home::new();
    let folder = repository(&home);
    let test = std::fs::read_to_string(folder.join("test.sh")).expect("there");
    std::fs::write(folder.join("test.sh"), format!("[ ! -p gate ] || cat gate\n{test}"))
        .expect("written");
    // Nobody writes to it, so the command waits until it is killed.
    let made = Command::new("mkfifo").arg(folder.join("gate")).status();
    assert!(made.expect("mkfifo is there").success());
    let server = model(&folder);
    let args = ["--allow", "edit_file", "--allow", "run"];
    let mut window = open(&home, &server, (80, 200), &args);
    window.say(ASK);
    window.shows(&["• running sh test.sh"]);
    window.kill();
    std::fs::remove_file(folder.join("gate")).expect("removed");
    comes_back(&home, &server, &folder, "a command ran");
    let shown = home.json(&["show", "last"]).to_string();
    assert!(shown.contains("interrupted"), "{shown}");
}

#[test]
fn a_network_that_stays_away_at_any_step_leaves_a_job_that_can_be_continued() {
    for step in 1..=REQUESTS {
        let home = Home::new();
        let folder = repository(&home);
        let (server, place) = (Server::start([]), folder.clone());
        let requests = Arc::new(AtomicUsize::new(0));
        let gone = step..=step + RETRIES_MAX as usize;
        server.fallback(move |body| match requests.fetch_add(1, Ordering::SeqCst) + 1 {
            request if gone.contains(&request) => Answer::status(503).retry_after(0),
            _ => next(body, &place),
        });
        let said = Said::from(command(&home, &server, false).output().expect("it runs"));
        // A subagent that fails is a failed call, which the model can handle.
        let is_subagent = (3..=4).contains(&step);
        assert_eq!(said.code == 0, is_subagent, "{step}: {said:?}");
        if !is_subagent {
            assert!(said.err.contains("hint: your message is kept"), "{step}: {said:?}");
            let said = Said::from(command(&home, &server, true).output().expect("it runs"));
            assert_eq!(said.code, 0, "{step}: {said:?}");
            assert!(said.out.contains(DONE), "{step}: {said:?}");
        }
        assert!(passes(&folder), "{step}");
    }
}
