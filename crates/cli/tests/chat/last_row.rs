//! A prompt on the last row of the window, where a terminal is most of the time: what is drawn makes
//! room for itself, and nothing that was printed before is lost.

use rethread_agent::scripted::{Answer, Server};
use serde_json::json;

use crate::home::Home;
use crate::screens::{at_prompt, finished};
use crate::window::{Window, without_times};

/// Lines that were printed before the chat, more than a window has.
const PRINTED: usize = 40;

fn open(home: &Home, server: &Server) -> Window {
    let args = ["--model", "openai/scripted-1"];
    let window = Window::open_below(PRINTED, home, (80, 24), &args, &server.vars());
    at_prompt(&window);
    window
}

/// Each line that was printed before is still there, once and in its place.
fn nothing_printed_is_lost(window: &Window) {
    let all = window.everything();
    let rows: Vec<&str> = all.lines().take(PRINTED).collect();
    let expected: Vec<String> = (1..=PRINTED).map(|n| format!("row {n}.")).collect();
    assert_eq!(rows, expected, "{all}");
}

#[test]
fn lines_typed_ahead_on_the_last_row_appear_below_each_other_and_erase_nothing() {
    let (home, server) = (Home::new(), Server::start([Answer::text("First.").slowly(0)]));
    let mut window = open(&home, &server);
    window.say("hello");
    window.shows(&["• asking"]);
    for (line, shown) in [
        ("also this\r", "• asking scripted-1 · Esc stops\nYou: also this"),
        ("and that\r", "stops\nYou: also this\nYou: and that"),
        ("and half", "stops\nYou: also this\nYou: and that\nYou: and half"),
    ] {
        window.press(line);
        let at_bottom = |all: &str| without_times(all).ends_with(shown);
        let all = window.until(shown, at_bottom);
        assert!(all.contains("\nYou: hello\n\n•"), "{all}");
        nothing_printed_is_lost(&window);
    }
    window.press("\x1b");
    window.until("the lines again", |all| all.ends_with("\nYou: also this\nand that\nand half"));
    nothing_printed_is_lost(&window);
}

#[test]
fn lines_added_to_the_prompt_on_the_last_row_scroll_the_window_and_erase_nothing() {
    let (home, server) = (Home::new(), Server::start([Answer::text("Done.")]));
    let mut window = open(&home, &server);
    // Each key is drawn before the next one is pressed.
    for (keys, shown) in
        [("x", "\nYou: x"), ("\x1b\ry", "\nYou: x\ny"), ("\x1b\rz", "\nYou: x\ny\nz")]
    {
        window.press(keys);
        window.until(shown, |all| all.ends_with(shown));
        nothing_printed_is_lost(&window);
    }
    // Rows are added below the cursor too: the menu, and a line in the middle.
    window.press("\x15\x7f\x15\x7f\x15/co");
    window.shows(&["\nYou: /co\n  /compact"]);
    nothing_printed_is_lost(&window);
    window.press("\x1b");
    window.until("no menu", |all| all.ends_with("\nYou: /co"));
    window.press(format!("\x15{}", "word ".repeat(20)));
    let two_rows = "word word\nword word word word word";
    window.until("two rows", |all| all.contains("\nYou: word") && all.ends_with(two_rows));
    nothing_printed_is_lost(&window);
    window.press("\r");
    finished(&window, "Done.");
    nothing_printed_is_lost(&window);
}

#[test]
fn after_the_pager_and_the_picker_on_the_last_row_the_prompt_is_where_it_was() {
    let home = Home::new();
    let server = Server::start([
        Answer::calls([("list_dir", json!({}))]),
        Answer::text("Listed."),
        Answer::calls([("run", json!({"command": "until [ -e go ]; do sleep 0.02; done"}))]),
    ]);
    let mut window = open(&home, &server);
    window.say("list");
    finished(&window, "Listed.");
    let all = window.everything();
    window.press("half\x1b\ra line\x0f");
    window.shows(&["q closes"]);
    window.press("q");
    window.until("the lines", |all| all.ends_with("\nYou: half\na line"));
    assert_eq!(window.everything(), format!("{all} half\na line"));
    window.press("\x1b\rand more");
    window.until("one more", |all| all.ends_with("\nYou: half\na line\nand more"));
    assert_eq!(window.everything(), format!("{all} half\na line\nand more"));
    window.press("\x15\x7f\x15\x7f\x15");
    window.say("/sessions");
    window.shows(&["Filter:"]);
    window.press("\x1b");
    at_prompt(&window);
    assert_eq!(window.everything(), format!("{all} /sessions\nYou:"));
    // In the middle of a turn too.
    window.say("wait");
    window.shows(&["? (y/n/"]);
    window.say("y");
    window.shows(&["• running"]);
    window.press("\x0f");
    window.shows(&["q closes"]);
    window.press("q");
    window.shows(&["• running"]);
    window.press("one\rtwo\r");
    window.until("both", |all| all.ends_with("Esc stops\nYou: one\nYou: two"));
    nothing_printed_is_lost(&window);
}
