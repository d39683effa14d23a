//! Going back to an earlier turn, with the files; and another model in the middle of a session.

use rethread_agent::scripted::{Answer, Server};
use serde_json::{Value, json};

use crate::home::Home;
use crate::screens::{at_prompt, finished, from, open};
use crate::window::Window;

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": path, "content": content}))
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("edit_file", json!({"path": path, "old": old, "new": new}))
}

fn text(home: &Home, name: &str) -> Option<String> {
    std::fs::read_to_string(home.path().join(name)).ok()
}

/// A session of three turns: the first writes `a.txt`, the second edits it and makes `b.txt`, the
/// third edits `a.txt` again and runs a command.
fn worked(home: &Home, more: Vec<Answer>) -> (Server, Window) {
    worked_with(home, more, &[])
}

fn worked_with(home: &Home, more: Vec<Answer>, args: &[&str]) -> (Server, Window) {
    let mut script = vec![
        Answer::calls([write("a.txt", "one\ntwo\n")]),
        Answer::text("First."),
        Answer::calls([edit("a.txt", "two", "2"), write("b.txt", "new\n")]),
        Answer::text("Second."),
        Answer::calls([edit("a.txt", "one", "1"), ("run", json!({"command": "touch made"}))]),
        Answer::text("Third."),
    ];
    script.extend(more);
    let server = Server::start(script);
    let args = [&["--allow", "write_file,edit_file,run", "--name", "work"], args].concat();
    let mut window = open(home, &server, (80, 60), &args);
    for (question, answer) in [("write a", "First."), ("more", "Second."), ("again", "Third.")] {
        window.say(question);
        finished(&window, answer);
    }
    assert_eq!(text(home, "a.txt").as_deref(), Some("1\n2\n"));
    (server, window)
}

#[test]
fn going_back_restores_files_and_loses_nothing() {
    let home = Home::new();
    let (server, mut window) = worked(&home, vec![Answer::text("Another way.")]);
    window.say("/rewind");
    let shown = window.shows(&["   1  now", "`/rewind N`"]);
    let list = "   1  now       write a · 1 file\n   2  now       more · 2 files\n   \
                3  now       again · 1 file\n";
    assert!(shown.contains(list), "{shown}");
    at_prompt(&window);
    window.say("/rewind 2");
    let shown = window.until("the question", |shown| shown.ends_with("? (y/n/c)"));
    let expected = "\
Going back to before turn 2: more
These ran since. What commands changed, a subagent's too, is not restored:
  touch made
The agent changed these files since:
  a.txt  (restoring it: +2 −2)
  b.txt  (restoring removes it: it was not there)
y restore them · n leave them as they are · c cancel, and stay here
? (y/n/c)";
    assert_eq!(from(&shown, "Going back"), expected);
    window.say("what");
    window.until("again", |shown| shown.matches("? (y/n/c)").count() == 2);
    window.say("y");
    let shown = window.until("the prompt", |shown| shown.ends_with("\nYou: more"));
    assert!(
        shown.contains("\n  restored a.txt\n  removed b.txt\nYou are now in work-fork, before"),
        "{shown}"
    );
    assert_eq!(text(&home, "a.txt").as_deref(), Some("one\ntwo\n"));
    assert_eq!(text(&home, "b.txt"), None);
    assert!(home.path().join("made").exists(), "what commands did is not undone");
    window.say(", but differently");
    finished(&window, "Another way.");
    let sent = server.requests().last().expect("a request").body["messages"].to_string();
    assert!(sent.contains("more, but differently") && sent.contains("First."), "{sent}");
    assert!(!sent.contains("Second."), "{sent}");
    // The other branch is unchanged.
    let before = home.json(&["show", "work"])["entries"].to_string();
    assert!(before.contains("Third.") && before.contains("file_changed"), "{before}");
    window.say("/undo");
    window.shows(&["work"]);
}

#[test]
fn an_undo_right_after_it_brings_the_conversation_and_the_files_back() {
    let home = Home::new();
    let (_server, mut window) = worked(&home, vec![]);
    let before = (text(&home, "a.txt"), text(&home, "b.txt"));
    window.say("/rewind 2");
    window.until("the question", |shown| shown.ends_with("? (y/n/c)"));
    window.say("y");
    window.until("the prompt", |shown| shown.ends_with("\nYou: more"));
    assert_ne!((text(&home, "a.txt"), text(&home, "b.txt")), before);
    window.press("\x15/undo\r");
    let shown = window.shows(&["Undid the fork: back in work."]);
    assert!(shown.contains("  restored a.txt\n  restored b.txt\n"), "{shown}");
    assert_eq!((text(&home, "a.txt"), text(&home, "b.txt")), before);
    // Changes that someone else made in between are kept.
    at_prompt(&window);
    window.say("/rewind 2");
    window.until("the question", |shown| shown.ends_with("? (y/n/c)"));
    window.say("y");
    window.until("the prompt", |shown| shown.ends_with("\nYou: more"));
    std::fs::write(home.path().join("a.txt"), "mine\n").expect("written");
    window.press("\x15/undo\r");
    window.shows(&["  a.txt was changed since, and stays as it is\n  restored b.txt"]);
    assert_eq!(text(&home, "a.txt").as_deref(), Some("mine\n"));
    assert_eq!(text(&home, "b.txt"), before.1);
}

#[test]
fn what_someone_else_changed_is_shown_first_and_can_be_kept() {
    let home = Home::new();
    let (_server, mut window) = worked(&home, vec![]);
    std::fs::write(home.path().join("a.txt"), "1\n2\nmine\n").expect("written");
    window.say("/rewind 2");
    let shown = window.until("the question", |shown| shown.ends_with("? (y/o/n/c)"));
    let meanwhile = "a.txt was changed by someone else after the agent wrote it:\n+1 -0\n1   1\n2   2\n3 + mine\n";
    assert!(shown.contains(meanwhile), "{shown}");
    window.say("c");
    window.shows(&["Nothing was changed."]);
    at_prompt(&window);
    window.say("/rewind 2");
    window.until("the question", |shown| shown.ends_with("? (y/o/n/c)"));
    window.say("o");
    window.until("the prompt", |shown| shown.ends_with("\nYou: more"));
    assert_eq!(text(&home, "a.txt").as_deref(), Some("1\n2\nmine\n"));
    assert_eq!(text(&home, "b.txt"), None);
    // Restoring a file is not a change by the agent: going back once more is about the first turn.
    window.press("\x15/rewind 1\r");
    let shown = window.until("the question", |shown| shown.ends_with("? (y/o/n/c)"));
    assert!(from(&shown, "before turn 1").contains("a.txt  (restoring removes it"), "{shown}");
    assert!(!from(&shown, "before turn 1").contains("b.txt"), "{shown}");
    window.say("y");
    window.until("the prompt", |shown| shown.ends_with("\nYou: write a"));
    assert_eq!(text(&home, "a.txt"), None);
}

#[test]
fn what_someone_else_changed_between_two_turns_is_shown_and_can_be_kept() {
    let home = Home::new();
    let script = [
        Answer::calls([write("a.txt", "one\ntwo\n"), write("b.txt", "new\n")]),
        Answer::text("First."),
        Answer::calls([edit("a.txt", "two", "2")]),
        Answer::text("Second."),
    ];
    let server = Server::start(script);
    let args = ["--allow", "write_file,edit_file", "--name", "work"];
    let mut window = open(&home, &server, (80, 60), &args);
    window.say("write a");
    finished(&window, "First.");
    std::fs::write(home.path().join("a.txt"), "one\ntwo\nmine\n").expect("written");
    window.say("more");
    finished(&window, "Second.");
    window.say("/rewind 1");
    let shown = window.until("the question", |shown| shown.ends_with("? (y/o/n/c)"));
    let meanwhile = "a.txt was changed by someone else after the agent wrote it:\n+1 -0\n\
                     1   one\n2   two\n3 + mine\ny restore all of them";
    assert!(shown.contains(meanwhile), "{shown}");
    window.say("o");
    window.until("the prompt", |shown| shown.ends_with("\nYou: write a"));
    assert_eq!(text(&home, "a.txt").as_deref(), Some("one\n2\nmine\n"));
    assert_eq!(text(&home, "b.txt"), None);
}

#[test]
fn what_an_undo_brought_back_is_still_shown_as_someone_elses() {
    let home = Home::new();
    let (_server, mut window) = worked(&home, vec![]);
    std::fs::write(home.path().join("a.txt"), "1\n2\nmine\n").expect("written");
    window.say("/rewind 2");
    window.until("the question", |shown| shown.ends_with("? (y/o/n/c)"));
    window.say("y");
    window.until("the prompt", |shown| shown.ends_with("\nYou: more"));
    window.press("\x15/undo\r");
    window.shows(&["  restored a.txt\n  restored b.txt\n", "Undid the fork: back in work."]);
    assert_eq!(text(&home, "a.txt").as_deref(), Some("1\n2\nmine\n"));
    at_prompt(&window);
    window.say("/rewind 2");
    let question =
        |shown: &str| shown.ends_with("? (y/o/n/c)") && shown.matches("3 + mine\n").count() == 2;
    window.until("the question with the line, again", question);
}

#[test]
fn one_can_go_back_to_before_a_compaction_and_undo_returns_to_after_it() {
    let home = Home::new();
    let summary = rethread_core::summary::block("**Background Context:** short");
    let more = vec![
        Answer::text(summary),
        Answer::text("Ready!"),
        Answer::calls([edit("a.txt", "1", "uno")]),
        Answer::text("Fourth."),
    ];
    let (_server, mut window) = worked(&home, more);
    window.say("compact");
    window.until("the question", |shown| shown.ends_with("(y/n)"));
    window.say("y");
    finished(&window, "Ready!");
    window.say("once more");
    finished(&window, "Fourth.");
    assert_eq!(text(&home, "a.txt").as_deref(), Some("uno\n2\n"));
    window.say("/rewind");
    window.shows(&["   2  now       more · 2 files\n", "   4  now       once more · 1 file\n"]);
    at_prompt(&window);
    window.say("/rewind 3");
    let shown = window.until("the question", |shown| shown.ends_with("? (y/n/c)"));
    let shown = from(&shown, "before turn 3: again");
    assert!(shown.contains("  touch made\n"), "{shown}");
    assert!(shown.contains("  a.txt  (restoring it: +1 −1)\n"), "{shown}");
    assert!(!shown.contains("b.txt"), "{shown}");
    window.say("y");
    window.until("the prompt", |shown| shown.ends_with("\nYou: again"));
    assert_eq!(text(&home, "a.txt").as_deref(), Some("one\n2\n"));
    window.press("\x15/undo\r");
    window.shows(&["Undid the fork: back in work-2.", "  restored a.txt\n"]);
    assert_eq!(text(&home, "a.txt").as_deref(), Some("uno\n2\n"));
    at_prompt(&window);
    window.say("/history");
    window.shows(&["You: once more"]);
}

#[test]
fn a_directory_of_files_keeps_what_is_needed_to_go_back() {
    let home = Home::new();
    let (_server, mut window) = worked_with(&home, vec![], &["--store", "files:sessions"]);
    window.say("/rewind 2");
    window.until("the question", |shown| shown.ends_with("? (y/n/c)"));
    window.say("y");
    window.until("the prompt", |shown| shown.ends_with("\nYou: more"));
    assert_eq!(text(&home, "a.txt").as_deref(), Some("one\ntwo\n"));
    assert_eq!(text(&home, "b.txt"), None);
}

#[test]
fn a_turn_that_is_not_there_is_an_error_and_nothing_happens() {
    let home = Home::new();
    let (_server, mut window) = worked(&home, vec![]);
    for number in ["0", "4", "x", "-1"] {
        window.say(&format!("/rewind {number}"));
        window.shows(&[&format!("no turn `{number}` in this session")]);
        at_prompt(&window);
    }
    assert_eq!(text(&home, "a.txt").as_deref(), Some("1\n2\n"));
}

#[test]
fn a_link_that_leads_outside_is_not_followed_when_files_are_restored() {
    let home = Home::new();
    let (_server, mut window) = worked(&home, vec![]);
    std::fs::remove_file(home.path().join("a.txt")).expect("removed");
    let outside = tempfile::tempdir().expect("a folder");
    std::fs::write(outside.path().join("a.txt"), "theirs\n").expect("written");
    std::os::unix::fs::symlink(outside.path().join("a.txt"), home.path().join("a.txt"))
        .expect("made");
    window.say("/rewind 2");
    window.until("the question", |shown| shown.ends_with("? (y/n/c)"));
    window.shows(&["a.txt cannot be restored: "]);
    window.say("y");
    window.until("the prompt", |shown| shown.ends_with("\nYou: more"));
    let theirs = std::fs::read_to_string(outside.path().join("a.txt"));
    assert_eq!(theirs.expect("there"), "theirs\n");
}

#[test]
fn another_model_answers_from_the_middle_of_a_session_on() {
    let home = Home::new();
    let server =
        Server::start([Answer::text("One."), Answer::text("Two."), Answer::text("Three.")]);
    let mut window = open(&home, &server, (100, 50), &["--name", "models"]);
    window.say("/model");
    let shown =
        window.shows(&["* openai/scripted-1 ", "  openai/gpt-5 ", "`/model PROVIDER/NAME`"]);
    // Windows are one below the other, with their letters in one column.
    let rows = shown.lines().filter(|row| row.get(2..).is_some_and(|row| row.contains('/')));
    let rows = rows.filter_map(|row| row.split(" · $").next());
    let ends: Vec<usize> = rows.filter(|row| row.ends_with('K')).map(str::len).collect();
    assert!(ends.len() > 3 && ends.iter().all(|end| *end == ends[0]), "{shown}");
    at_prompt(&window);
    window.say("hi");
    finished(&window, "One.");
    window.say("/model nonsense");
    window.shows(&["nonsense", "for example `/model anthropic/claude-sonnet-4-5`"]);
    at_prompt(&window);
    window.say("/model nobody/x");
    window.shows(&["no provider `nobody`", "or `/model offline/offline`"]);
    at_prompt(&window);
    window.say("still?");
    finished(&window, "Two.");
    window.say("/model openai/gpt-5-mini");
    window.shows(&["openai/gpt-5-mini answers from now on.", "build · gpt-5-mini · "]);
    at_prompt(&window);
    window.say("and now?");
    finished(&window, "Three.");
    let requests = server.requests();
    let asked: Vec<&str> =
        requests.iter().map(|request| request.body["model"].as_str().expect("a model")).collect();
    assert_eq!(asked, ["scripted-1", "scripted-1", "gpt-5-mini"]);
    assert!(requests[2].body["messages"].to_string().contains("One."), "it is the same session");
    assert_eq!(home.json(&["show", "models"])["session"]["model"], "gpt-5-mini");
}
