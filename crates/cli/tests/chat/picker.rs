//! The picker: whole screens, and what each key does to the sessions in the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread_agent::scripted::{Answer, Server};
use rethread_core::{Incoming, Message, New, Owner, Profile, Sessions};
use rethread_store::System;

use crate::home::Home;
use crate::window::Window;

fn session_with(home: &Home, name: &str, question: &str, answer: &str) {
    let line =
        |role: &str, text: &str| serde_json::json!({ "role": role, "content": text }).to_string();
    let (asked, answered) = (line("user", question), line("assistant", answer));
    home.session(name, &[&asked, &answered]);
}

/// Three sessions; `garden` is the newest.
fn three() -> Home {
    let home = Home::new();
    session_with(&home, "caching", "How should we cache?", "With **Redis**, and an umbrella.");
    session_with(&home, "limits", "Write a rate limiter", "It is a token bucket.");
    session_with(&home, "garden", "Which roses grow in the shade?", "# Roses\n\n- Tuscany\n- Alba");
    home
}

/// A chat at its first prompt, then in the picker.
fn open_picker(home: &Home, size: (u16, u16)) -> Window {
    let mut window = Window::open(home, size, &[], &[]);
    window.until("the prompt", |shown| shown.ends_with("\nYou:"));
    window.say("sessions");
    window.shows(&["3 sessions", "›   1  garden", "Alba"]);
    window
}

#[test]
fn the_list_is_filtered_as_one_types_also_by_what_was_said() {
    let home = three();
    let mut window = open_picker(&home, (80, 24));
    window.press("umbrel");
    let shown = window.shows(&["1 of 3", "›   3  caching", "found: With **Redis**"]);
    assert!(!shown.contains("roses"), "{shown}");
    // Ctrl-U empties it, and Ctrl-W takes a word.
    window.press("\x15");
    window.shows(&["3 sessions", "roses"]);
    window.press("rate nonsense");
    window.shows(&["No matches: Ctrl-U clears the filter."]);
    window.press("\x17");
    window.shows(&["1 of 3", "›   2  limits"]);
    window.press("\x1b");
    window.until("the chat", |shown| shown.ends_with("\nYou:") && !shown.contains("Filter:"));
}

#[test]
fn the_preview_shows_the_last_turns_rendered_below_or_beside_the_list() {
    for size in [(60, 24), (80, 24), (140, 30)] {
        let home = three();
        let mut window = open_picker(&home, size);
        let shown = window.shows(&["garden · 2 messages", "You: Which roses", "# Roses"]);
        assert!(shown.contains("• Tuscany"), "{size:?}: {shown}");
        let first = shown.lines().nth(1).expect("a first row");
        assert_eq!(first.contains("│"), size.0 == 140, "{first}");
        window.press("\x1b[B");
        let shown = window.shows(&["limits · 2 messages", "It is a token bucket."]);
        assert!(!shown.contains("Tuscany"), "{shown}");
        // After a resize, it is rendered again.
        window.resize(50, 20);
        window.shows(&["›   2  limits", "It is a token bucket."]);
    }
}

#[test]
fn enter_opens_the_session_whole_and_shows_its_last_turns() {
    let home = three();
    let server = Server::start([Answer::text("By the minute.")]);
    let args = ["--model", "openai/scripted-1", "resume"];
    let mut window = Window::open(&home, (80, 24), &args[2..], &model(&server));
    window.shows(&["3 sessions", "Enter continues it"]);
    window.press("token buck");
    window.shows(&["1 of 3", "found: It is a token bucket."]);
    window.press("\r");
    window.until("the session", |shown| {
        let opened = "Continuing limits · 1 turn, last active just now\n\njust now\nYou: Write a \
                      rate limiter\n\nassistant:\nIt is a token bucket.\n";
        shown.contains(opened) && shown.ends_with("\nYou:")
    });
    window.say("per what?");
    window.shows(&["By the minute."]);
    let asked = server.requests()[0].text.clone();
    assert!(asked.contains("Write a rate limiter"), "the model sees all of it: {asked}");
    let session = home.json(&["show", "limits"]);
    assert_eq!(session["session"]["queries"], 2);
}

/// Selects the scripted model with a variable, because no flag is given.
fn model(server: &Server) -> Vec<(&'static str, String)> {
    let mut variables = server.vars().to_vec();
    variables.push(("RETHREAD_MODEL", "openai/scripted-1".into()));
    variables
}

#[test]
fn s_starts_from_the_summary_and_says_how_to_continue_the_whole_conversation() {
    let home = three();
    let mut window = Window::open(&home, (80, 40), &["open"], &[]);
    window.shows(&["3 sessions"]);
    window.press("umbr\t");
    window.shows(&["s starts from its summary · r rename"]);
    window.press("\x15umbrella\t");
    window.shows(&["1 of 3", "found:"]);
    window.press("s");
    let id = home.json(&["show", "caching"])["session"]["readable_id"].clone();
    let line = format!("open {} continues the whole conversation", id.as_str().expect("an id"));
    window.shows(&["📋 Loading session...", "✓ Found: ", "🔄 Restoring context...\n\nbuild: "]);
    window.shows(&[&line]);
    window.until("the prompt", |shown| shown.ends_with("\nYou:"));
    // The command in the line works as printed.
    window.say(line.split(" continues").next().expect("a command"));
    window.shows(&["Continuing caching · 1 turn"]);
}

#[test]
fn each_key_does_what_the_footer_says() {
    let home = three();
    let mut window = open_picker(&home, (80, 24));
    window.press("\t");
    window.shows(&["r rename · f fork", "d delete", "c chain"]);
    window.press("r");
    window.shows(&["New name: garden", "Enter renames"]);
    // It gets the name that was typed, as with `rename`, and its row shows it.
    window.press("\x15Roses: for v2\r");
    window.shows(&["›   1  Roses: for v2", "Roses: for v2 · 2 messages"]);
    assert_eq!(home.json(&["show", "roses: for V2"])["session"]["name"], "Roses: for v2");
    window.press("r\x15roses\r");
    window.shows(&["Renamed to roses.", "roses · 2 messages"]);
    window.press("f");
    window.shows(&["Forked into roses-fork; Enter opens it.", "4 sessions", "roses-fork · 2"]);
    window.press("c");
    let shown = window.shows(&["chain of 2"]);
    assert!(!shown.contains("rate limiter"), "{shown}");
    window.press("\x1b");
    window.shows(&["4 sessions"]);
    window.press("a");
    window.shows(&["Archived roses-fork;", "3 sessions"]);
    window.press("u");
    window.shows(&["roses-fork is back.", "4 sessions"]);
    window.press("a");
    window.shows(&["Archived roses-fork;", "3 sessions"]);
    window.press("jd");
    window.shows(&["Moved limits to the trash; u brings it back.", "2 sessions"]);
    window.press("q");
    window.until("the chat", |shown| shown.ends_with("\nYou:"));
    let list = home.json(&["list", "--all"]);
    let names: Vec<&str> = list["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|s| s["name"].as_str())
        .collect();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(names, ["caching", "roses", "roses-fork"]);
    assert_eq!(home.json(&["show", "roses-fork"])["session"]["archived"], true);
}

#[test]
fn the_picker_gives_the_terminal_back_as_it_was() {
    let home = three();
    let mut window = Window::open(&home, (80, 24), &["open"], &[]);
    window.shows(&["3 sessions"]);
    window.press("\x03");
    let ended = window.ended();
    let screen = ended.screen();
    assert!(!screen.alternate_screen() && !screen.hide_cursor());
    // Nothing was picked: nothing was opened, and no chat begins.
    assert_eq!(screen.contents().trim(), "", "no chat introduces itself, either");
}

#[test]
fn without_a_terminal_there_is_the_list() {
    let home = three();
    for args in [&["open"][..], &["resume"], &["--resume"]] {
        let said = home.run(args);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.out.contains("garden") && said.out.contains("caching"), "{args:?}: {said:?}");
        assert!(!said.out.contains('\x1b'), "{said:?}");
    }
    let said = home.run(&["-p", "hello", "--resume"]);
    assert!(said.err.contains("with -p, --resume needs a session"), "{said:?}");
}

#[test]
fn ten_thousand_sessions_are_listed_filtered_and_previewed_without_a_pause() {
    let home = Home::new();
    std::fs::create_dir_all(home.store().parent().expect("a folder")).expect("made");
    let url = format!("sqlite:{}", home.store().display());
    let store = rethread_store::connect(&url, Arc::new(System)).expect("a store");
    let sessions = Sessions::new(store, Owner::local(), Arc::new(System));
    for number in 0..10_000 {
        let profile = Profile {
            workspace: Some(format!("/home/you/project-{}", number % 100)),
            ..Profile::default()
        };
        let new = New { profile, ..New::default() };
        let word = if number == 77 { "umbrella" } else { "limiter" };
        let said = [
            Message::user(format!("Question {number} about the parser")),
            Message::assistant(format!("It is a {word}, for all I know.")),
        ];
        sessions.create_with(&new, None, said.map(Incoming::from).to_vec()).expect("created");
    }
    drop(sessions);
    let mut window = Window::open(&home, (80, 24), &["open"], &[]);
    let began = Instant::now();
    window.shows(&["›   1  Question 9999", "It is a limiter"]);
    let first = began.elapsed();
    window.shows(&["10,000 sessions"]);
    let all = began.elapsed();
    let timed = |window: &mut Window, keys: &str, texts: &[&str]| {
        let began = Instant::now();
        window.press(keys);
        window.shows(texts);
        began.elapsed()
    };
    let title = timed(&mut window, "question 4242", &["1 of 10,000", "›5758  Question 4242"]);
    timed(&mut window, "\x15", &["10,000 sessions"]);
    let folder = timed(&mut window, "project-42", &["100 of 10,000"]);
    timed(&mut window, "\x15", &["10,000 sessions"]);
    let said = timed(&mut window, "umbrel", &["1 of 10,000", "found: It is a umbrella"]);
    timed(&mut window, "\x15", &["10,000 sessions"]);
    let end = timed(&mut window, "\x1b[F", &["›10000 Question 0", "It is a limiter"]);
    eprintln!(
        "first {first:?}, all {all:?}, title {title:?}, folder {folder:?}, said {said:?}, end {end:?}"
    );
    // Generous, for a busy machine and a build without optimisation.
    for (what, took) in [("first", first), ("title", title), ("folder", folder), ("end", end)] {
        assert!(took < Duration::from_secs(10), "{what}: {took:?}");
    }
}
