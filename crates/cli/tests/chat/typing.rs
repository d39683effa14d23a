//! Typing: the menu, completion, attachments, history, custom commands. Whole screens.

use rethread_agent::scripted::{Answer, Server};
use serde_json::Value;

use crate::home::Home;
use crate::window::Window;

const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";

/// The smallest possible picture: one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

fn open(home: &Home, server: &Server, size: (u16, u16), args: &[&str]) -> Window {
    let args = [&["--model", "openai/gpt-5"], args].concat();
    let window = Window::open(home, size, &args, &server.vars());
    at_prompt(&window);
    window
}

fn at_prompt(window: &Window) -> String {
    window.until("the prompt", |shown| shown.ends_with("\nYou:"))
}

/// Waits until a turn with this reply is over.
fn finished(window: &Window, text: &str) -> String {
    window.until(text, |shown| shown.contains(text) && shown.ends_with("\nYou:"))
}

/// The parts of the last message to the model, in order: texts, and others.
fn asked(server: &Server) -> Vec<String> {
    let body = server.requests().pop().expect("a request").body;
    let last = body["messages"].as_array().and_then(|all| all.last()).expect("a message");
    match &last["content"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => blocks
            .iter()
            .map(|block| match block["text"].as_str() {
                Some(text) => text.to_owned(),
                None => block.to_string(),
            })
            .collect(),
        other => panic!("{other}"),
    }
}

fn write(home: &Home, path: &str, content: impl AsRef<[u8]>) {
    let path = home.path().join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, content).expect("written");
}

#[test]
fn a_menu_under_the_slash_says_what_each_command_does() {
    for width in [40, 80, 200] {
        let (home, server) = (Home::new(), Server::start([]));
        let mut window = open(&home, &server, (width, 24), &[]);
        window.press("/co");
        let shown = window.shows(&["You: /co\n  /compact  summarise", "\n  /cost     show tokens"]);
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= usize::from(width), "{shown}");
        window.press(format!("{DOWN}{DOWN}"));
        window.shows(&["\n› /context  show what fills"]);
        // Esc closes it, and the typed text is unchanged.
        window.press("\x1b");
        window.until("no menu", |shown| shown.ends_with("\nYou: /co"));
        window.press("s\t");
        window.until("completed", |shown| shown.ends_with("\nYou: /cost"));
        window.press("\x15/sess");
        window.shows(&["  /sessions  pick a session"]);
        window.press(format!("\x15/stat{DOWN}\r"));
        window.shows(&["this chat has no messages yet"]);
        let shown = at_prompt(&window);
        assert!(shown.contains("\nYou: /stats\n"), "{shown}");
        assert!(!shown.contains("count messages"), "the menu is gone: {shown}");
    }
}

#[test]
fn agents_sessions_and_files_are_completed() {
    let (home, server) = (Home::new(), Server::start([]));
    write(&home, "src/limit.rs", "");
    write(&home, "src/deep/other.rs", "");
    write(&home, "built/limit.o", "");
    write(&home, ".gitignore", "built\n");
    home.session("rate-limiter", &[r#"{"role":"user","content":"how does the limiter work?"}"#]);
    let mut window = open(&home, &server, (80, 24), &[]);
    window.press("/agent pl\t");
    window.until("the agent", |shown| shown.ends_with("\nYou: /agent plan"));
    window.press("\x15/model openai/gpt-5-m\t");
    window.until("the model", |shown| shown.ends_with("\nYou: /model openai/gpt-5-mini"));
    window.press("\x15/open ");
    window.shows(&["  rate-limiter  now · how does the limiter work?"]);
    window.press("\t");
    window.until("the session", |shown| shown.ends_with("\nYou: /open rate-limiter"));
    window.press("\x15look at @lim");
    let shown = window.shows(&["\n  src/limit.rs"]);
    assert!(!shown.contains("limit.o"), "it is ignored: {shown}");
    window.press("\t");
    window.until("the file", |shown| shown.ends_with("\nYou: look at @src/limit.rs"));
    window.press("\x15@sr\t");
    window.shows(&["\nYou: @src/\n", "  src/deep/\n", "  src/limit.rs"]);
    // Tab continues into a folder, to the arguments of a command, and after `resume` without its
    // slash.
    window.press("\t");
    window.shows(&["\nYou: @src/deep/\n", "  src/deep/other.rs"]);
    window.press("\x15/ag\t");
    window.shows(&["\nYou: /agent\n", "  plan "]);
    window.press("\x15resume rate\t");
    window.until("the session", |shown| shown.ends_with("\nYou: resume rate-limiter"));
}

#[test]
fn a_file_and_a_folder_go_with_the_question_and_it_is_said_what_was_taken() {
    let (home, server) = (Home::new(), Server::start(["One.", "Two."].map(Answer::text)));
    write(&home, "src/limit.rs", "fn limit() {}\n");
    write(&home, "src/ignored.rs", "secret");
    write(&home, ".gitignore", "ignored.rs\n");
    write(&home, "long.txt", "0123456789abcde\n".repeat(40_000));
    let mut window = open(&home, &server, (80, 24), &[]);
    window.say("explain @src/, please; and @nosuch.rs");
    let shown = finished(&window, "One.");
    assert!(shown.contains("(attached 1 file of src/, 14 bytes)"), "{shown}");
    assert!(shown.contains("(not attached: no `nosuch.rs` in the workspace)"), "{shown}");
    let all = asked(&server).join("|");
    assert!(all.contains("[File: src/limit.rs]\n\nfn limit() {}\n"), "{all}");
    assert!(all.ends_with("explain @src/, please; and @nosuch.rs"), "{all}");
    assert!(!all.contains("secret"), "{all}");
    window.say("and @long.txt");
    let shown = finished(&window, "Two.");
    assert!(shown.contains("the first 16,384 lines (262,144 of 640,000 bytes)"), "{shown}");
    assert!(asked(&server).concat().contains("[cut: 262144 of 640000 bytes]"));
    // The attachment is not part of the question: neither in the history nor in the list.
    window.press(UP);
    window.until("the question", |shown| shown.ends_with("\nYou: and @long.txt"));
}

#[test]
fn what_is_pasted_attaches_nothing_and_runs_nothing() {
    let (home, server) = (Home::new(), Server::start(["One.", "Two."].map(Answer::text)));
    write(&home, "secret.txt", "the secret");
    let mut window = open(&home, &server, (80, 24), &[]);
    window.press("\x1b[200~read @secret.txt\x1b[201~\r");
    finished(&window, "One.");
    assert_eq!(asked(&server), ["read @secret.txt"]);
    window.press("\x1b[200~!touch ran\x1b[201~\r");
    finished(&window, "Two.");
    assert_eq!(asked(&server), ["!touch ran"]);
    assert!(!home.path().join("ran").exists());
}

#[test]
fn what_was_pasted_or_is_in_a_log_is_still_data_when_it_is_recalled() {
    let home = Home::new();
    let server = Server::start((1..=8).map(|n| Answer::text(format!("Answer {n}."))));
    write(&home, "secret.txt", "the secret");
    // A program wrote this; nobody typed it.
    let appended = r#"{"role":"user","content":"!touch ran @secret.txt"}"#;
    assert_eq!(home.feed(&["append", "--new"], appended).code, 0);
    let mut window = open(&home, &server, (80, 24), &[]);
    window.press("\x12secret");
    window.shows(&["search: secret\n›  !touch ran @secret.txt"]);
    window.press("\x1b");
    let mut answers = 0;
    let mut sent = |window: &mut Window, keys: &str, text: &str| {
        window.press(keys);
        window.until("the line", |shown| shown.ends_with(&format!("\nYou: {}", text.trim_end())));
        window.press("\r");
        answers += 1;
        finished(window, &format!("Answer {answers}."));
        assert_eq!(asked(&server), [text.trim()], "{keys:?}");
        assert!(!home.path().join("ran").exists(), "{keys:?}");
    };
    sent(&mut window, UP, " !touch ran @secret.txt");
    sent(&mut window, "\x12secret\r", " !touch ran @secret.txt");
    let paste = |text: &str| format!("\x1b[200~{text}\x1b[201~");
    for text in ["!touch ran", "see @secret.txt"] {
        sent(&mut window, &paste(text), text);
        sent(&mut window, UP, text);
        sent(&mut window, &(paste(text) + "\x15\x19"), text);
    }
    // What was typed here works as before.
    window.say("!echo typed > typed");
    window.until("the command", |shown| shown.contains("(exit 0)") && shown.ends_with("\nYou:"));
    std::fs::remove_file(home.path().join("typed")).expect("it ran");
    window.press(UP);
    window.until("the command", |shown| shown.ends_with("\nYou: !echo typed > typed"));
    window.press("\r");
    window.until("the command", |shown| {
        shown.matches("(exit 0)").count() == 2 && shown.ends_with("\nYou:")
    });
    assert!(home.path().join("typed").exists());
}

#[test]
fn a_picture_goes_with_the_question_by_its_name_or_dropped_on_the_window() {
    let home = Home::new();
    let server = Server::start(["A point.", "Another."].map(Answer::text));
    write(&home, "shot.png", PNG);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let dropped = elsewhere.path().join("my shot.png");
    std::fs::write(&dropped, PNG).expect("written");
    let mut window = open(&home, &server, (120, 24), &["--name", "pictures"]);
    window.say("what is @shot.png?");
    let shown = finished(&window, "A point.");
    assert!(
        shown.contains(&format!("(attached the picture shot.png, {} bytes)", PNG.len())),
        "{shown}"
    );
    let all = asked(&server).concat();
    assert!(
        all.contains("data:image/png;base64,iVBORw0KGgo") && all.contains("what is @shot.png?"),
        "{all}"
    );
    let path = dropped.display().to_string().replace(' ', "\\ ");
    window.press(format!("and \x1b[200~{path}\x1b[201~"));
    window.shows(&[&format!("You: and @\"{}\"", dropped.display())]);
    window.press("\r");
    finished(&window, "Another.");
    assert_eq!(asked(&server).concat().matches("base64").count(), 1);
    let entries = home.json(&["show", "pictures"])["entries"].to_string();
    assert_eq!(entries.matches("\"sha256\"").count(), 2, "they are kept as blobs: {entries}");
    assert!(!entries.contains("iVBOR"), "{entries}");
}

#[test]
fn ctrl_v_attaches_the_picture_in_the_clipboard() {
    use std::os::unix::fs::PermissionsExt;
    let (home, server) = (Home::new(), Server::start([Answer::text("A point.")]));
    let programs = tempfile::tempdir().expect("a folder");
    let clipboard = programs.path().join("picture.png");
    let program = programs.path().join("wl-paste");
    let script = format!("#!/bin/sh\nexec cat {}\n", clipboard.display());
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("changed");
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let variables = [&server.vars()[..], &[("PATH", path)]].concat();
    let mut window = Window::open(&home, (100, 24), &["--model", "openai/gpt-5"], &variables);
    at_prompt(&window);
    window.press("\x16");
    window.shows(&["no picture in the clipboard"]);
    std::fs::write(&clipboard, PNG).expect("written");
    window.press("what is \x16");
    window.shows(&["You: what is @clipboard-1"]);
    window.press("?\r");
    let shown = finished(&window, "A point.");
    assert!(shown.contains("(attached the picture clipboard-1"), "{shown}");
    let all = asked(&server).concat();
    assert!(all.contains("data:image/png;base64,iVBORw0KGgo"), "{all}");
}

#[test]
fn a_long_paste_is_folded_and_sent_whole() {
    let (home, server) = (Home::new(), Server::start([Answer::text("Done.")]));
    let mut window = open(&home, &server, (60, 24), &[]);
    let log: String = (1..=400).map(|n| format!("line {n}\n")).collect();
    window.press(format!("why? \x1b[200~{log}\x1b[201~"));
    window.until("the fold", |shown| shown.ends_with("\nYou: why? [400 lines]"));
    // It is one character: it can be erased, and pasted again.
    window.press("\x7f");
    window.until("nothing", |shown| shown.ends_with("\nYou: why?"));
    window.press(format!("\x1b[200~{log}\x1b[201~ and how?\r"));
    let shown = finished(&window, "Done.");
    assert!(shown.contains("\nYou: why? [400 lines] and how?\n"), "{shown}");
    assert_eq!(asked(&server), [format!("why? {log} and how?")]);
}

#[test]
fn a_long_paste_is_folded_when_it_is_recalled() {
    let (home, server) = (Home::new(), Server::start(["Done.", "Two."].map(Answer::text)));
    let mut window = open(&home, &server, (60, 24), &[]);
    window.say("first");
    finished(&window, "Done.");
    let log: String = (1..=400).map(|n| format!("line {n}\n")).collect();
    window.press(format!("why? \x1b[200~{log}\x1b[201~\x15"));
    window.until("nothing", |shown| shown.ends_with("\nYou:"));
    window.press("\x19");
    window.until("the fold", |shown| shown.ends_with("\nYou: why? [400 lines]"));
    // One more Up leads to the question before, not through its lines.
    window.press("\r");
    finished(&window, "Two.");
    window.press(UP);
    window.until("the fold", |shown| shown.ends_with("\nYou: why? [400 lines]"));
    window.press(UP);
    window.until("the one before", |shown| shown.ends_with("\nYou: first"));
    drop(window);
    // A log does not know what was pasted.
    let mut window = open(&home, &server, (60, 24), &[]);
    window.press("\x12why");
    window.shows(&["search: why\n› why? line 1"]);
    window.press("\r");
    window.until("the fold", |shown| shown.ends_with("\nYou: [400 lines: why? line 1]"));
}

#[test]
fn what_was_asked_in_other_sessions_of_the_folder_is_called_back_and_searched() {
    let home = Home::new();
    let server = Server::start(["One.", "Two.", "Three."].map(Answer::text));
    for (question, answer) in [("fix the failing test", "One."), ("what is a fence?", "Two.")] {
        let mut window = open(&home, &server, (80, 24), &[]);
        window.say(question);
        finished(&window, answer);
    }
    let mut window = open(&home, &server, (80, 24), &[]);
    window.press("half a line\x12test");
    let found = "\nsearch: test\n› fix the failing test";
    window.until("the search", |shown| shown.ends_with(found));
    window.press("\x1b");
    window.until("the line", |shown| shown.ends_with("\nYou: half a line"));
    window.press(UP);
    window.until("the last question", |shown| shown.ends_with("\nYou: what is a fence?"));
    window.press(UP);
    window.until("the one before", |shown| shown.ends_with("\nYou: fix the failing test"));
    window.press("\x12a fence\r");
    window.until("what was found", |shown| shown.ends_with("\nYou: what is a fence?"));
    window.press(" Again.\r");
    finished(&window, "Three.");
    assert_eq!(asked(&server), ["what is a fence? Again."]);
}

#[test]
fn the_output_of_a_command_goes_with_the_next_question() {
    let (home, server) = (Home::new(), Server::start(["One.", "Two."].map(Answer::text)));
    let mut window = open(&home, &server, (80, 24), &[]);
    window.say("!echo hello; echo oops >&2; exit 3");
    let shown = window.until("the command", |shown| {
        shown.contains("(exit 3 · 11 bytes go with your next question)")
            && shown.ends_with("\nYou:")
    });
    assert!(shown.contains("\nhello\noops\n"), "{shown}");
    assert!(server.requests().is_empty());
    window.say("what happened?");
    finished(&window, "One.");
    let all = asked(&server).join("|");
    let told = "[I ran `echo hello; echo oops >&2; exit 3`: exit 3]\n\nhello\noops\n";
    assert!(all.contains(told) && all.ends_with("what happened?"), "{all}");
    window.say("and now?");
    finished(&window, "Two.");
    assert_eq!(asked(&server), ["and now?"], "it is sent once");
}

#[test]
fn a_command_that_does_not_end_is_stopped_with_escape() {
    let (home, server) = (Home::new(), Server::start([]));
    let mut window = open(&home, &server, (80, 24), &[]);
    window.say("!echo begun; sleep 1000");
    window.shows(&["\nbegun\n", "• running echo begun; sleep 1000", "Esc stops"]);
    window.press("typed meanwhile");
    window.shows(&["Esc stops\nYou: typed meanwhile"]);
    window.press("\x1b");
    window.until("its end", |shown| {
        shown.contains("(stopped by a signal") && shown.ends_with("\nYou: typed meanwhile")
    });
    window.press("\x15");
    window.say("!");
    window.shows(&["error: `!` needs a command", "hint: for example `!git status`"]);
    assert!(server.requests().is_empty());
}

#[test]
fn control_g_opens_the_line_in_an_editor() {
    let (home, server) = (Home::new(), Server::start([Answer::text("Done.")]));
    write(
        &home,
        "edit",
        "#!/bin/sh\nstat -c %a \"$2\" > mode\nprintf '%s\\nsecond line\\n' \"$(cat \"$2\")\" > \"$2.new\"\nmv \"$2.new\" \"$2\"\n",
    );
    let path = home.path().join("edit");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("set");
    let editor = format!("{} --wait", path.display());
    let variables = [server.vars().to_vec(), vec![("VISUAL", editor)]].concat();
    let mut window = Window::open(&home, (80, 24), &["--model", "openai/gpt-5"], &variables);
    at_prompt(&window);
    window.press("first line\x07");
    window.until("both lines", |shown| shown.ends_with("\nYou: first line\nsecond line"));
    window.press("\r");
    finished(&window, "Done.");
    assert_eq!(asked(&server), ["first line\nsecond line"]);
    assert_eq!(std::fs::read_to_string(home.path().join("mode")).expect("read"), "600\n");
}

#[test]
fn own_commands_are_used_once_they_are_agreed_to() {
    let (home, server) = (Home::new(), Server::start(["One.", "Two."].map(Answer::text)));
    write(&home, ".config/rethread/commands/greet.md", "Greet $1 in $2.");
    write(
        &home,
        ".rethread/commands/review.md",
        "---\ndescription: Reviews a file\nargument-hint: FILE\n---\nReview @$1 as we do here.",
    );
    write(&home, "a.txt", "the text");
    let args = ["--model", "openai/gpt-5"];
    let mut window = Window::open(&home, (80, 24), &args, &server.vars());
    window.shows(&["its own commands", ".rethread/commands/review.md", "Use them? (y/n)"]);
    window.say("n");
    at_prompt(&window);
    window.say("/review a.txt");
    window.shows(&["no command `/review`"]);
    window.say("/greet Ann \"two words\"");
    finished(&window, "One.");
    assert_eq!(asked(&server), ["Greet Ann in two words."]);
    drop(window);
    // A refusal holds as long as the file is unchanged.
    let window = open(&home, &server, (80, 24), &[]);
    let shown = at_prompt(&window);
    assert!(!shown.contains("its own commands"), "{shown}");
    drop(window);

    assert!(home.run(&["agents"]).err.contains("review.md belongs to this project"));
    let said = home.run(&["agents", "--trust"]);
    assert!(!said.err.contains("review.md"), "{said:?}");
    let mut window = open(&home, &server, (80, 24), &[]);
    window.say("/review");
    window.shows(&["error: /review lacks an argument; usage: /review FILE\n"]);
    at_prompt(&window);
    assert_eq!(server.requests().len(), 1, "nothing is sent");
    window.press("/rev");
    window.shows(&["  /review FILE  Reviews a file"]);
    window.press("\ta.txt\r");
    finished(&window, "Two.");
    let all = asked(&server).join("|");
    assert!(all.contains("the text") && all.ends_with("Review @a.txt as we do here."), "{all}");
    drop(window);

    write(&home, ".rethread/commands/review.md", "Something else.");
    assert!(home.run(&["agents"]).err.contains("review.md belongs to this project"));
}

#[test]
fn copy_archive_and_help_do_what_one_guesses() {
    let (home, server) = (Home::new(), Server::start([Answer::text("**Forty-two**")]));
    let mut window = open(&home, &server, (80, 60), &["--name", "answer"]);
    window.say("/copy");
    window.shows(&["no answer to copy"]);
    window.say("what is six times seven?");
    finished(&window, "Forty-two");
    window.say("/copy");
    window.shows(&["Copied the last answer (13 characters) to the clipboard."]);
    let bytes = String::from_utf8_lossy(&window.bytes()).into_owned();
    assert!(bytes.contains("\x1b]52;c;KipGb3J0eS10d28qKg==\x07"), "{bytes:?}");
    window.say("/archive");
    window.shows(&["Archived answer; /undo or `/open answer` brings it back."]);
    assert_eq!(home.json(&["show", "answer"])["session"]["archived"], true);
    window.say("/undo");
    window.shows(&["Undid the archive: back in answer."]);
    assert_eq!(home.json(&["show", "answer"])["session"]["archived"], false);
    window.say("/export ~/answer.md");
    window.shows(&["Written to ", "/answer.md"]);
    let written = std::fs::read_to_string(home.path().join("answer.md")).expect("written");
    assert!(written.contains("what is six times seven?"), "{written}");
    window.say("/archive");
    window.until("archived again", |shown| {
        shown.matches("Archived answer;").count() == 2 && shown.ends_with("\nYou:")
    });
    window.say("/open answer");
    window.until("the session", |shown| {
        shown.contains("\nYou: /open answer\n") && shown.ends_with("\nYou:")
    });
    assert_eq!(home.json(&["show", "answer"])["session"]["archived"], false);
    window.say("help");
    window.shows(&["/archive", "Examples:", "explain @src/limit.rs", "!cargo test"]);
}

#[test]
fn a_missing_key_is_reported_only_if_there_is_none() {
    let (home, server) = (Home::new(), Server::start([]));
    let window = Window::open(&home, (120, 24), &["--model", "offline/offline"], &server.vars());
    let shown = at_prompt(&window);
    assert!(shown.contains("The offline model answers"), "{shown}");
    assert!(!shown.contains("No key is set"), "{shown}");
    drop(window);
    let shown = at_prompt(&Window::open(&home, (120, 24), &[], &[]));
    assert!(shown.contains("No key is set, so the offline model answers"), "{shown}");
}

#[test]
fn a_light_background_is_learned_from_the_terminal() {
    for (colour, keyword) in [("ffff/ffff/ffff", "38;5;160"), ("0000/0000/0000", "38;5;209")] {
        let (home, server) =
            (Home::new(), Server::start([Answer::text("```rust\nfn a() {}\n```\n\nDone.")]));
        let mut variables = server.vars().to_vec();
        variables.extend([("TERM", "xterm-256color".to_owned()), ("NO_COLOR", String::new())]);
        let mut window = Window::open(&home, (80, 24), &["--model", "openai/gpt-5"], &variables);
        at_prompt(&window);
        let bytes = String::from_utf8_lossy(&window.bytes()).into_owned();
        assert_eq!(bytes.matches("\x1b]11;?").count(), 1, "{bytes:?}");
        window.press(format!("hel\x1b]11;rgb:{colour}\x1b\\lo\r"));
        window.shows(&["You: hello\n", "Done."]);
        assert_eq!(asked(&server), ["hello"]);
        let bytes = String::from_utf8_lossy(&window.bytes()).into_owned();
        assert!(bytes.contains(&format!("\x1b[{keyword}mfn\x1b[0m")), "{colour}: {bytes:?}");
    }
}
