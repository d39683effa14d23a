//! The Emacs client, in a real Emacs, against the real binary.
//!
//! The tests are in `clients/emacs/test`; this runs them, and reports failures by name.

mod grid;
#[path = "../cli/home.rs"]
#[allow(dead_code, reason = "shared with the tests of the commands")]
mod home;
mod screen;
#[path = "../chat/terminal.rs"]
#[allow(dead_code, reason = "shared with the tests of the chat")]
mod terminal;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rethread_agent::scripted::{Answer, Server};
use serde_json::Value;

use home::Home;

/// How long anything may take before a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The folder of the client.
fn client() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.join("../../clients/emacs").canonicalize().expect("the client is in the repository")
}

fn new_home() -> Home {
    let home = Home::new();
    let notes = home.path().join("notes.md");
    std::fs::write(notes, "The deploy key lives in the vault.\n").expect("written");
    home
}

/// Emacs without this machine's configuration, with the client in its load path.
fn emacs(home: &Home, variables: &[(&str, String)]) -> Command {
    let mut command = Command::new("emacs");
    command.arg("-Q").current_dir(home.path()).env_clear();
    command.env("HOME", home.path()).env("RETHREAD_STORE", home.store());
    command.env("RETHREAD_TEST_PROGRAM", env!("CARGO_BIN_EXE_rethread"));
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8").env("TZ", "UTC");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    for folder in [client(), client().join("test")] {
        command.arg("-L").arg(folder);
    }
    command
}

/// Runs the tests of a file that `selector` names, and wants all of them to succeed.
#[track_caller]
fn ert(home: &Home, file: &str, selector: &str, variables: &[(&str, String)]) {
    let run = format!("(ert-run-tests-batch-and-exit '{selector})");
    let output = emacs(home, variables)
        .args(["--batch", "-l", file, "--eval", &run])
        .output()
        .expect("`emacs` (package emacs-nox) runs");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let named = |word: &str| -> Vec<String> {
        let lines = said.lines().map(str::trim).filter(|line| line.starts_with(word));
        lines.filter_map(|line| line.split_whitespace().last().map(str::to_owned)).collect()
    };
    let failed = named("FAILED");
    assert!(failed.is_empty() && output.status.success(), "failed in Emacs: {failed:?}\n\n{said}");
    let ran = said.lines().find_map(|line| line.strip_prefix("Ran ")).unwrap_or_default();
    let count: usize = ran.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(count > 0, "no test of {file} was run:\n\n{said}");
    assert!(!ran.contains("skipped"), "tests of {file} were skipped:\n\n{said}");
}

#[test]
fn the_files_are_clean() {
    ert(&new_home(), "rethread-lint-test", "t", &[]);
}

#[test]
fn the_examples_people_learnt_from_run_as_they_are() {
    ert(&new_home(), "magent-compat-test", "t", &[]);
}

#[test]
fn sessions_files_and_context() {
    ert(&new_home(), "rethread-session-test", "t", &[]);
}

#[test]
fn turns_chats_and_the_list() {
    ert(&new_home(), "rethread-chat-test", "t", &[]);
}

#[test]
fn errors_say_what_to_do_and_leave_the_session_whole() {
    ert(&new_home(), "rethread-trouble-test", "t", &[]);
}

/// A model that stops in the middle of its first answer, until it is released.
fn slow_model() -> (Server, Vec<(&'static str, String)>) {
    let story = "Once upon a time there was a heron, and it lived happily ever after.";
    let server = Server::start([Answer::text(story).slowly(4), Answer::text("The end.")]);
    let variables = variables(&server);
    (server, variables)
}

fn variables(server: &Server) -> Vec<(&'static str, String)> {
    let mut variables = server.vars().to_vec();
    variables.push(("RETHREAD_MODEL", "openai/scripted-1".into()));
    variables
}

#[test]
fn a_reply_is_stopped_with_its_beginning_kept() {
    let (_server, variables) = slow_model();
    let test = "rethread-a-reply-is-stopped-with-its-beginning-kept";
    ert(&new_home(), "rethread-reply-test", test, &variables);
}

#[test]
fn a_server_that_goes_away_in_a_reply_is_started_again() {
    let (_server, variables) = slow_model();
    let test = "rethread-a-server-that-goes-away-in-a-reply-is-started-again";
    ert(&new_home(), "rethread-reply-test", test, &variables);
}

#[test]
fn two_emacsen_share_a_session() {
    let (_server, variables) = slow_model();
    let test = "rethread-two-emacsen-share-a-session";
    ert(&new_home(), "rethread-reply-test", test, &variables);
}

#[test]
fn a_question_that_waits_is_stopped_and_the_turn_before_it_is_not() {
    let (_server, variables) = slow_model();
    let test = "rethread-a-question-that-waits-is-stopped-and-the-turn-before-it-is-not";
    ert(&new_home(), "rethread-reply-test", test, &variables);
}

#[test]
fn a_reply_that_breaks_off_is_not_run_together_with_the_next() {
    let story = "Once upon a time there was a heron, and it lived happily ever after.";
    let server = Server::start([Answer::text(story).cut_after(4), Answer::text("The end.")]);
    let test = "rethread-a-reply-that-breaks-off-is-not-run-together-with-the-next";
    ert(&new_home(), "rethread-reply-test", test, &variables(&server));
}

#[test]
fn a_model_that_fails_leaves_the_question_in_the_log() {
    let server = Server::start([Answer::status(400), Answer::text("The end.")]);
    let test = "rethread-a-model-that-fails-leaves-the-question-in-the-log";
    ert(&new_home(), "rethread-reply-test", test, &variables(&server));
}

#[test]
fn a_reply_ends_well_when_emacs_exits_in_the_middle_of_it() {
    let (server, variables) = slow_model();
    let home = new_home();
    let test = "rethread-an-emacs-that-exits-lets-the-reply-end";
    ert(&home, "rethread-reply-test", test, &variables);
    // Emacs is gone; its server is still in the turn, and only now receives the rest.
    server.release();
    let began = Instant::now();
    loop {
        let shown = home.json(&["show", "last"]);
        let said = |entry: &Value| entry["content"].to_string().contains("ever after");
        if shown["entries"].as_array().expect("entries").iter().any(said) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "the reply was lost: {shown}");
        std::thread::yield_now();
    }
}
