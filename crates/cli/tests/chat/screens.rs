//! What a user sees: whole screens, at several widths. Tests wait for a screen instead of sleeping.

use rethread_agent::scripted::{Answer, Server};
use serde_json::json;

use crate::home::Home;
use crate::window::{Window, without_times};

const REPLY: &str = "## The limiter

It is a **token bucket**, in `src/limit.rs`; [the paper](https://example.org/bucket) explains why \
a bucket needs one number and a time for each key.

1. Each address gets 10 tokens.
2. A token comes back every second:
   - which is enough for people,
   - and too little for programs.

```rust
fn take(&mut self) -> bool {
    self.tokens > 0
}
```

| key | limit |
|-----|------:|
| ip  |    10 |
| 利用者 | 5 |

> Done. 👍";

/// The reply as it is rendered without colours, from its list on.
const RENDERED_END: &str = "\
1. Each address gets 10 tokens.
2. A token comes back every second:
   ◦ which is enough for people,
   ◦ and too little for programs.

```rust
fn take(&mut self) -> bool {
    self.tokens > 0
}
```

key    │ limit
───────┼──────
ip     │    10
利用者 │     5

│ Done. 👍";

pub(crate) fn open(home: &Home, server: &Server, size: (u16, u16), args: &[&str]) -> Window {
    let args = [&["--model", "openai/scripted-1"], args].concat();
    let window = Window::open(home, size, &args, &server.vars());
    at_prompt(&window);
    window
}

/// Waits for an empty prompt, and returns what is above it.
pub(crate) fn at_prompt(window: &Window) -> String {
    let shown = window.until("the prompt", |shown| shown.ends_with("\nYou:"));
    shown.trim_end_matches("You:").to_owned()
}

/// Waits until a turn with this reply is over, and returns what is above the next prompt.
pub(crate) fn finished(window: &Window, text: &str) -> String {
    let over = |shown: &str| shown.contains(text) && shown.ends_with("\nYou:");
    window.until(text, over).trim_end_matches("You:").to_owned()
}

/// The part of a screen from this text on.
pub(crate) fn from<'s>(shown: &'s str, text: &str) -> &'s str {
    let at = shown.find(text).unwrap_or_else(|| panic!("`{text}` is not in:\n{shown}"));
    &shown[at..]
}

#[test]
fn a_reply_is_rendered_as_it_comes_at_every_width() {
    let starts = [
        (40, "\
## The limiter

It is a token bucket, in `src/limit.rs`;
the paper explains why a bucket needs
one number and a time for each key.
"),
        (80, "\
## The limiter

It is a token bucket, in `src/limit.rs`; the paper explains why a bucket needs
one number and a time for each key.
"),
        (200, "\
## The limiter

It is a token bucket, in `src/limit.rs`; the paper explains why a bucket needs one number and a time for each key.
"),
    ];
    for (width, start) in starts {
        let home = Home::new();
        let server = Server::start([Answer::text(REPLY).slowly(20)]);
        let mut window = open(&home, &server, (width, 50), &[]);
        window.say("how does the limiter work?");
        let open = window.shows(&["• writing", "It is a token bucket"]);
        assert!(!open.contains("**") && !open.contains("1. Each"), "{width}: {open}");
        server.release();
        let shown = finished(&window, "Done.");
        let shown = from(&shown, "build:\n");
        assert!(
            shown.starts_with(&format!("build:\n{start}\n{RENDERED_END}\n")),
            "{width}: {shown}"
        );
        assert!(!shown.contains("writing"), "the live region is gone: {shown}");
    }
}

#[test]
fn a_resize_in_the_middle_of_a_reply_loses_nothing_and_leaves_no_artefacts() {
    for (before, after) in [(80, 40), (40, 80), (80, 200)] {
        let home = Home::new();
        // The first part is finished, the paragraph after it is open when the window changes.
        let text =
            format!("First of all.\n\n{}end.\n\nLast.", "some words of a sentence, ".repeat(9));
        let server = Server::start([Answer::text(text).slowly(30)]);
        let mut window = open(&home, &server, (before, 24), &[]);
        window.say("hello");
        window.shows(&["First of all.", "some words", "• writing"]);
        window.resize(after, 24);
        window.press("typed");
        window.shows(&["You: typed"]);
        server.release();
        let over = |shown: &str| {
            let is_over = shown.contains("Last.") && !shown.contains("• writing");
            is_over && shown.ends_with("\nYou: typed")
        };
        window.until("the prompt", over);
        let all = window.everything();
        let said = from(&all, "First of all.");
        let words: Vec<&str> = said.split_whitespace().collect();
        let expected =
            format!("First of all. {}end. Last.", "some words of a sentence, ".repeat(9));
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(words[..expected.len()], expected, "{before} → {after}: {all}");
        assert!(!all.contains("writing"), "{before} → {after}: {all}");
        let widest = said.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= usize::from(after), "{before} → {after}: {all}");
    }
}

#[test]
fn an_open_block_takes_a_third_of_the_window_so_that_a_narrower_one_still_holds_it() {
    let home = Home::new();
    let text = "some words of a long sentence, ".repeat(60);
    let server = Server::start([Answer::text(format!("{text}end.")).slowly(50)]);
    let mut window = open(&home, &server, (80, 24), &[]);
    window.say("hello");
    // The label is the first line of it that is left out.
    let is_cut = |shown: &str| !shown.contains("build:") && shown.contains("• writing");
    let shown = window.until("a block that is cut", is_cut);
    let rows = shown.lines().filter(|line| line.contains("words")).count();
    assert!((6..=24 / 3).contains(&rows), "{shown}");
    server.release();
    finished(&window, "end.");
    let all = window.everything();
    let said: Vec<&str> = from(&all, "some words").split_whitespace().collect();
    let expected: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(said[..expected.len()], expected, "{all}");
}

#[test]
fn what_is_finished_while_the_window_changes_is_wrapped_for_the_size_it_gets() {
    let home = Home::new();
    let words = "some words of a sentence, ".repeat(12);
    let text = format!("> {words}\n\n- {words}\n\nThen.");
    let server = Server::start([
        Answer::text(text).and_calls([("list_dir", json!({}))]).slowly(2),
        Answer::text("Last.").slowly(0),
    ]);
    let mut window = open(&home, &server, (100, 40), &[]);
    window.say("hello");
    window.shows(&["• writing", "some"]);
    window.resize(80, 40);
    server.release();
    // When the next request comes, all of the first reply has been read.
    server.wait_for_requests(2);
    window.resize(50, 40);
    server.release();
    let shown = finished(&window, "Last.");
    let said = from(&shown, "│ some");
    let (quote, rest) = said.split_once("\n\n").expect("the list");
    let (item, _) = rest.split_once("\n\n").expect("the end");
    assert!(quote.lines().all(|line| line.starts_with("│ ")), "{shown}");
    assert!(item.lines().skip(1).all(|line| line.starts_with("  ")), "{shown}");
}

#[test]
fn rows_that_are_drawn_again_are_cut_by_a_terminal_that_counts_more_and_finished_ones_wrap() {
    const THUMB: &str = "👍🏽";
    let home = Home::new();
    let thumbs = format!("{THUMB} ").repeat(60);
    let server = Server::start([Answer::text(format!("{thumbs}\n\nDone.")).slowly(30)]);
    let mut window = open(&home, &server, (80, 24), &[]);
    window.say("hello");
    window.shows(&["• writing", THUMB]);
    let wrapping = |window: &Window| -> usize {
        let bytes = String::from_utf8_lossy(&window.bytes()).into_owned();
        let on = bytes.split("\x1b[?7h").map(|part| part.split("\x1b[?7l").next().unwrap_or(""));
        on.map(|part| part.matches(THUMB).count()).sum()
    };
    assert_eq!(wrapping(&window), 0, "only live rows have been written");
    server.release();
    finished(&window, "Done.");
    assert_eq!(wrapping(&window), 60, "each was written once as finished text");
}

#[test]
fn a_slow_first_word_is_waited_for_with_a_clock_and_a_way_out() {
    let home = Home::new();
    let server = Server::start([Answer::text("Hello.").slowly(0)]);
    let mut window = open(&home, &server, (80, 24), &[]);
    window.say("hi");
    let shown = window.shows(&["• asking scripted-1 · 1 s · Esc stops"]);
    assert!(
        without_times(&shown).ends_with("You: hi\n\n• asking scripted-1 · Esc stops"),
        "{shown}"
    );
    server.release();
    let shown = at_prompt(&window);
    assert!(shown.contains("You: hi\n\nbuild:\nHello.\n\nbuild · scripted-1 · "), "{shown}");
}

/// A command that writes two lines, and continues when there is a file.
const WAITING: &str = "echo one; echo two; until [ -e go ]; do sleep 0.02; done; echo three";

#[test]
fn a_long_command_is_seen_running_with_its_output_and_then_in_one_line() {
    for width in [40, 80, 200] {
        let home = Home::new();
        let server = Server::start([
            Answer::calls([("run", json!({"command": WAITING}))]),
            Answer::text("It went well."),
        ]);
        let mut window = open(&home, &server, (width, 24), &[]);
        window.say("do it");
        window.shows(&["Allow run", "? (y/n/"]);
        window.say("y");
        let shown = window.shows(&["    one\n    two\n", "• running echo one", " · Esc stops"]);
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= usize::from(width), "{shown}");
        std::fs::write(home.path().join("go"), "").expect("written");
        let shown = finished(&window, "It went well.");
        let shown = without_times(from(&shown, "/e) y"));
        assert!(shown.contains("\n    one\n    two\n    three\n\nIt went well.\n"), "{shown}");
        // What came of it is on the line of the call, which is cut for that.
        let line = shown.lines().find(|line| line.contains("exit 0")).expect("its line");
        assert!(line.starts_with("  run echo one; "), "{shown}");
        assert!(!shown.contains("running"), "{shown}");
    }
}

#[test]
fn escape_stops_a_command_and_a_reply_and_the_chat_continues() {
    let home = Home::new();
    let server = Server::start([
        Answer::calls([("run", json!({"command": WAITING}))]),
        Answer::text("one two three four five six").slowly(3),
        Answer::text("Still here."),
    ]);
    let mut window = open(&home, &server, (80, 24), &["--name", "stopped"]);
    window.say("do it");
    window.shows(&["? (y/n/"]);
    window.say("y");
    window.shows(&["    two\n", "• running"]);
    window.press("\x1b");
    window.shows(&["✗ stopped", "(stopped; the part that arrived is kept)"]);
    at_prompt(&window);
    window.say("count");
    window.shows(&["one two", "• writing"]);
    window.press("\x1b");
    window.until("the second", |shown| shown.matches("(stopped; the part").count() == 2);
    server.release();
    at_prompt(&window);
    window.say("are you there?");
    window.shows(&["Still here."]);
    let shown = home.json(&["show", "stopped"]);
    assert!(shown["entries"].to_string().contains("one two"), "{shown}");
}

#[test]
fn many_calls_are_grouped_and_a_failure_is_always_seen() {
    let home = Home::new();
    std::fs::write(home.path().join("a.txt"), "one\ntwo\n").expect("written");
    let mut calls = vec![("grep", json!({"pattern": "t.o"}))];
    calls.push(("read_file", json!({"path": "a.txt", "offset": 1, "limit": 1})));
    calls.extend((0..10).map(|_| ("read_file", json!({"path": "a.txt"}))));
    calls.push(("read_file", json!({"path": "nosuch.txt"})));
    let server =
        Server::start([Answer::text("Let me look.").and_calls(calls), Answer::text("Found.")]);
    let mut window = open(&home, &server, (80, 30), &[]);
    window.say("look");
    let shown = finished(&window, "Found.");
    let shown = without_times(from(&shown, "build:"));
    let expected = "\
build:
Let me look.

  grep t.o · 1 match
  read a.txt 1–1 · lines 1–1
  read a.txt · 2 lines
  read a.txt · 2 lines
  read a.txt · 2 lines
  and 7 more: 7 read
  read nosuch.txt · ✗ there is no `nosuch.txt` in the workspace

Found.
";
    assert!(shown.starts_with(expected), "{shown}");
}

#[test]
fn control_o_shows_a_call_in_full_while_it_runs_and_later() {
    let home = Home::new();
    let command = format!("seq 1 100; until [ -e go ]; do sleep 0.02; done; # {}", "x".repeat(90));
    let server = Server::start([
        Answer::calls([("run", json!({"command": command}))]),
        Answer::text("Counted."),
    ]);
    let mut window = open(&home, &server, (60, 20), &[]);
    window.say("count");
    window.shows(&["? (y/n/"]);
    window.say("y");
    window.shows(&["… 94 more lines · Ctrl-O shows all", "    100\n"]);
    window.press("\x0f");
    window.shows(&["command: seq 1 100;", "(it is running)\n1\n2\n", "q closes"]);
    window.press("G");
    window.shows(&["\n99\n100\n"]);
    // The turn continues while the pager is open, and may end there.
    std::fs::write(home.path().join("go"), "").expect("written");
    server.wait_for_requests(2);
    window.press("q");
    finished(&window, "Counted.");
    // A line of several rows leaves nothing on the screen when it comes back.
    let long = "many words ".repeat(8);
    window.press(format!("{long}half a li\x0f"));
    window.shows(&["command: seq 1 100;", "lines 1–19 of "]);
    window.press("G");
    window.shows(&["\n99\n100\n[exit code 0]\n"]);
    window.press("\x1b");
    let shown = window.until("the line", |shown| shown.ends_with("half a li"));
    assert_eq!(shown.matches("many words").count(), 8, "{shown}");
    assert!(!shown.contains("exit code 0"), "{shown}");
}

#[test]
fn thinking_is_one_line_and_can_be_shown() {
    let home = Home::new();
    let server = Server::start([Answer::text("Forty-two.")
        .thinking("First I multiply.\n\nThen I add.", "signature")
        .slowly(8)]);
    let args = ["--model", "anthropic/scripted-1"];
    let mut window = Window::open(&home, (80, 24), &args, &server.vars());
    at_prompt(&window);
    window.say("what is six times seven?");
    window.shows(&["• thinking", "Then I add."]);
    server.release();
    let shown = without_times(&finished(&window, "Forty-two."));
    assert!(
        shown.contains("\n  thought · 6 words · /thinking shows it\n\nForty-two.\n"),
        "{shown}"
    );
    assert!(!shown.contains("multiply"), "{shown}");
    window.say("/thinking");
    window.shows(&["First I multiply.", "Then I add."]);
}

#[test]
fn thinking_is_dimmed_while_it_comes() {
    let home = Home::new();
    let answer = Answer::text("Forty-two.").thinking("First I multiply.", "signature").slowly(5);
    let server = Server::start([answer]);
    let colours = [("TERM", "xterm-256color".to_owned()), ("NO_COLOR", String::new())];
    let variables = [&server.vars()[..], &colours].concat();
    let mut window =
        Window::open(&home, (80, 24), &["--model", "anthropic/scripted-1"], &variables);
    at_prompt(&window);
    window.say("what is six times seven?");
    window.shows(&["• thinking", " · First I multiply."]);
    let emulated = window.emulated(&window.bytes());
    let screen = emulated.screen();
    let rows: Vec<String> = screen.rows(0, 80).collect();
    let row = rows.iter().position(|row| row.contains("multiply")).expect("the row");
    let at = rows[row].chars().take_while(|c| *c != 'F').count();
    let is_dim = |column| screen.cell(row as u16, column as u16).is_some_and(vt100::Cell::dim);
    assert!((at..at + "First I multiply.".len()).all(is_dim), "{}", rows[row]);
    assert!(!is_dim(2), "what is happening is not");
    server.release();
    finished(&window, "Forty-two.");
}

#[test]
fn what_is_typed_ahead_is_shown_and_sent_and_never_answers_a_question() {
    let home = Home::new();
    let server = Server::start([
        Answer::calls([("run", json!({"command": "touch hidden"}))]).slowly(0),
        Answer::text("Refused."),
        Answer::text("You said y."),
    ]);
    let mut window = open(&home, &server, (80, 30), &[]);
    window.say("do it");
    server.wait_for_requests(1);
    window.press("y\rha");
    window.shows(&["\nYou: y\nYou: ha"]);
    server.release();
    window.shows(&["? (y/n/"]);
    window.say("n");
    window.shows(&["/e) n", "Refused.", "You: y\n", "You said y."]);
    let over = |shown: &str| shown.ends_with("\nYou: ha") && !shown.contains("• ");
    window.until("the part", over);
    assert!(!home.path().join("hidden").exists());
}

#[test]
fn of_a_long_line_that_is_typed_ahead_its_end_is_seen() {
    let home = Home::new();
    let server = Server::start([Answer::text("Done.").slowly(0)]);
    let mut window = open(&home, &server, (40, 20), &[]);
    window.say("wait");
    window.shows(&["• asking"]);
    window.press("a line that is much longer than forty columns, and ends here");
    window.shows(&["\nYou: … than forty columns, and ends here"]);
    window.press("\x15");
    server.release();
    finished(&window, "Done.");
}

#[test]
fn the_history_of_a_session_is_rendered_as_it_was_seen() {
    let home = Home::new();
    std::fs::write(home.path().join("a.txt"), "one\ntwo\n").expect("written");
    let server = Server::start([
        Answer::calls([("read_file", json!({"path": "a.txt"}))]),
        Answer::text("It has **two** lines."),
    ]);
    let mut window = open(&home, &server, (80, 24), &[]);
    window.say("how many lines?");
    let shown = finished(&window, "It has two lines.");
    let turn = without_times(from(&shown, "You: how many"));
    let turn = &turn[..turn.find("lines.\n").expect("the answer")];
    window.say("/history");
    let again = window.until("it again", |shown| shown.matches("two lines.").count() == 2);
    let again = without_times(from(from(&again, "You: /history"), "You: how many"));
    assert!(again.starts_with(turn), "{again}\n---\n{turn}");
}

#[test]
fn a_user_who_looks_at_another_window_is_notified_when_a_long_turn_ends() {
    let home = Home::new();
    let server = Server::start([Answer::text("At last.").slowly(0), Answer::text("Soon.")]);
    let mut window = open(&home, &server, (80, 24), &[]);
    let told =
        |window: &Window| String::from_utf8_lossy(&window.bytes()).matches("\x1b]9;").count();
    window.say("take your time");
    window.shows(&["• asking"]);
    window.press("\x1b[O");
    window.shows(&["· 10 s ·"]);
    server.release();
    finished(&window, "At last.");
    assert_eq!(told(&window), 1);
    window.say("and now?");
    finished(&window, "Soon.");
    assert_eq!(told(&window), 1, "a short turn is not worth a call");
}

#[test]
fn plain_only_ever_adds_lines() {
    let colours = vec![("TERM", "xterm-256color".to_owned()), ("NO_COLOR", String::new())];
    for (variables, args) in [
        (vec![], vec!["--plain"]),
        (colours, vec!["--plain"]),
        (vec![("TERM", "dumb".to_owned())], vec![]),
    ] {
        let home = Home::new();
        let server = Server::start([
            Answer::text("# Title\n\nSome *text*.").and_calls([("list_dir", json!({}))]),
            Answer::text("- one\n- two"),
        ]);
        let args = [vec!["--model", "openai/scripted-1"], args].concat();
        let variables = [server.vars().to_vec(), variables].concat();
        let mut window = Window::open(&home, (60, 30), &args, &variables);
        window.until("the prompt", |shown| shown.ends_with("You:"));
        window.say("hello");
        let shown = window.until("the end", |shown| shown.ends_with("- two\n\nYou:"));
        let entries = "  list . · 1 entry\n";
        assert!(
            from(&shown, "build:")
                .starts_with(&format!("build:\n# Title\n\nSome text.\n\n{entries}")),
            "{shown}"
        );
        window.say("/nosuch");
        window.shows(&["error: no command"]);
        let bytes = window.bytes();
        assert!(!bytes.contains(&0x1b), "{:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn plain_says_from_time_to_time_that_it_is_still_working() {
    let home = Home::new();
    let server = Server::start([Answer::text("Done.").slowly(0)]);
    let args = ["--model", "openai/scripted-1", "--plain"];
    let mut window = Window::open(&home, (60, 30), &args, &server.vars());
    window.until("the prompt", |shown| shown.ends_with("You:"));
    window.say("hello");
    window.shows(&["(still working, 10 s; Ctrl-C stops)"]);
    server.release();
    window.shows(&["Done."]);
}

#[test]
fn without_colours_nothing_but_the_cursor_moves() {
    let home = Home::new();
    let server = Server::start([Answer::text(REPLY)]);
    let mut window = open(&home, &server, (60, 50), &[]);
    window.say("hello");
    window.shows(&["Done."]);
    let bytes = String::from_utf8_lossy(&window.bytes()).into_owned();
    let colours = bytes.split("\x1b[").skip(1).filter(|rest| {
        let end = rest.find(|c: char| ('@'..='~').contains(&c)).unwrap_or(0);
        rest[end..].starts_with('m')
    });
    assert_eq!(colours.count(), 0, "{bytes:?}");
}

#[test]
fn with_colours_code_is_highlighted_and_the_background_is_respected() {
    for (background, keyword) in [("15;0", "38;5;209"), ("0;15", "38;5;160"), ("", "31")] {
        let home = Home::new();
        let server = Server::start([Answer::text(REPLY)]);
        let mut variables = server.vars().to_vec();
        variables.extend([
            ("TERM", "xterm-256color".to_owned()),
            ("NO_COLOR", String::new()),
            ("COLORFGBG", background.to_owned()),
        ]);
        let mut window =
            Window::open(&home, (60, 50), &["--model", "openai/scripted-1"], &variables);
        at_prompt(&window);
        window.say("hello");
        window.shows(&["Done."]);
        let bytes = String::from_utf8_lossy(&window.bytes()).into_owned();
        assert!(bytes.contains(&format!("\x1b[{keyword}mfn\x1b[0m")), "{background}: {bytes:?}");
    }
}

#[test]
fn the_status_fits_forty_columns_and_says_what_a_session_cost() {
    for width in [40, 60, 200] {
        let home = Home::new();
        let usage = rethread_core::message::Usage {
            input: 100_000,
            output: 1_000,
            cache_read: 100_000,
            cache_write: 0,
        };
        let server = Server::start([Answer::text("Hello.").usage(usage)]);
        let mut window =
            Window::open(&home, (width, 30), &["--model", "openai/gpt-5"], &server.vars());
        at_prompt(&window);
        window.say("hi");
        let shown = finished(&window, "~$0.15");
        let status = shown.trim_end().lines().last().expect("a status").to_owned();
        assert!(status.contains(" % of 400K"), "{status}");
        assert!(status.chars().count() <= usize::from(width), "{status}");
        assert_eq!(status.contains("50 % cached"), width > 40, "{status}");
        window.say("/cost");
        let share = if width < 66 { "50 % cached" } else { "50%" };
        window.shows(&["200,000", share, "1,000", "an estimate"]);
        window.say("/context");
        window.shows(&["system", "tools", "turns", "free", "Nothing was cut."]);
    }
}

#[test]
fn what_is_waited_for_is_said_another_turn_a_retry_a_compaction() {
    let home = Home::new();
    let server = Server::start([
        Answer::text("First.").slowly(0),
        Answer::text("Second."),
        Answer::status(503).saying("overloaded").retry_after(2),
        Answer::text("Third."),
        Answer::text("never").slowly(0),
        Answer::text("Fourth."),
    ]);
    let mut first = open(&home, &server, (80, 24), &["--name", "shared"]);
    first.say("one");
    server.wait_for_requests(1);
    let mut second =
        Window::open(&home, (100, 30), &["-c", "--model", "openai/scripted-1"], &server.vars());
    at_prompt(&second);
    second.say("two");
    second.shows(&["• waiting for another turn in this session (process ", "· Esc stops"]);
    server.release();
    finished(&first, "First.");
    finished(&second, "Second.");
    second.say("three");
    second.shows(&["overloaded", "asking again in 2.0 s)", "• retrying in "]);
    finished(&second, "Third.");
    second.say("compact");
    second.shows(&["Compact it anyway? (y/n)"]);
    second.say("y");
    second.shows(&["📝 Generating session summary...", "• compacting · Esc stops"]);
    server.wait_for_requests(5);
    second.press("typed in the meantime");
    second.until("what is typed", |shown| {
        without_times(shown).ends_with("• compacting · Esc stops\nYou: typed in the meantime")
    });
    second.press("\x15");
    second.press("\x1b");
    second.shows(&["(stopped; the session is unchanged)"]);
    server.release();
    at_prompt(&second);
    second.say("four");
    finished(&second, "Fourth.");
}

#[test]
fn a_call_that_still_runs_in_another_window_is_not_shown_as_failed() {
    let home = Home::new();
    let server = Server::start([
        Answer::calls([("run", json!({"command": "until [ -e go ]; do sleep 0.02; done"}))]),
        Answer::text("It went well."),
    ]);
    let mut first = open(&home, &server, (80, 24), &["--name", "shared"]);
    first.say("do it");
    first.shows(&["? (y/n/"]);
    first.say("y");
    first.shows(&["• running"]);
    let args = ["-c", "--model", "openai/scripted-1"];
    let mut second = Window::open(&home, (80, 24), &args, &server.vars());
    let running = "  run until [ -e go ]; do sleep 0.02; done · still running\n";
    let shown = finished(&second, running);
    assert!(!shown.contains('✗'), "{shown}");
    second.say("/history");
    second.until("the call again", |shown| shown.matches(running).count() == 2);
    std::fs::write(home.path().join("go"), "").expect("written");
    finished(&first, "It went well.");
    second.until("the prompt", |shown| shown.ends_with("\nYou:"));
    second.say("/history");
    second.shows(&["done · exit 0", "It went well."]);
}

#[test]
fn the_list_of_sessions_never_wraps_at_any_width() {
    let home = Home::new();
    let first = json!({"role": "user", "content": "a question of several words ".repeat(20)});
    // One has a generated name, which is long.
    assert_eq!(home.feed(&["append", "--new"], first.to_string()).code, 0);
    home.session("plan", &[&first.to_string()]);
    for width in [40, 60, 80, 200] {
        let window = Window::open(&home, (width, 20), &["list"], &[]);
        let shown = window.at_the_end();
        for part in ["plan", "a question", "append", "now", "1"] {
            assert!(shown.contains(part), "{width}: {shown}");
        }
        // One line for each below a heading, or two if the window is narrow.
        let lines = if width < 72 { 4 } else { 3 };
        assert_eq!(shown.lines().count(), lines, "{width}: {shown}");
        assert_eq!(shown.contains("TITLE"), width >= 72, "{width}: {shown}");
    }
}
