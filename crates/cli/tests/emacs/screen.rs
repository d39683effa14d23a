//! A person at an Emacs in a terminal.

use std::time::Duration;

use rethread_agent::scripted::{Answer, Server};
use serde_json::json;

use crate::terminal::{Terminal, quoted};
use crate::{client, grid, new_home, variables};

const ASK: &str = "\x03op"; // C-c o p
const LIST: &str = "\x03ol"; // C-c o l
const QUIT: &str = "\x07"; // C-g
const EXIT: &str = "\x18\x03"; // C-x C-c

/// Starts Emacs in a terminal, with the client in its configuration.
fn start(home: &crate::Home, variables: &[(&str, String)]) -> Terminal {
    let client = client().display().to_string();
    let set_up = format!(
        "(progn (require 'rethread) (setq rethread-server-url nil rethread-program {:?}) \
         (add-hook 'rethread-turn-ended-hook (let ((words (list \"alfa!\" \"beta!\" \"gama!\"))) \
         (lambda (_) (message \"%s\" (pop words))))) \
         (rethread-mode 1) (message \"ready-%s\" 1))",
        env!("CARGO_BIN_EXE_rethread")
    );
    let words = ["emacs", "-nw", "-Q", "-L", &client, "--eval", &set_up];
    let line = format!("stty rows {} cols {}; exec {}", grid::ROWS, grid::COLUMNS, quoted(&words));
    let terminal = Terminal::run(home, &line, variables);
    see(&terminal, "ready-1");
    terminal
}

fn ask(terminal: &mut Terminal, question: &str) {
    terminal.press(ASK);
    see(terminal, "\nAsk build:");
    terminal.press(format!("{question}\r"));
}

/// Waits until the screen shows this text.
fn see(terminal: &Terminal, text: &str) {
    terminal.wait(&format!("`{text}`"), |bytes| shown(bytes, text));
}

fn shown(bytes: &[u8], text: &str) -> Result<(), String> {
    let shown = grid::shown(bytes);
    if shown.contains(text) { Ok(()) } else { Err(shown) }
}

/// Presses a key, and again if nothing happens: while Emacs shows an error, it discards
/// input. A user would notice that, too.
fn press_until(terminal: &mut Terminal, key: &str, text: &str) {
    for _ in 0..5 {
        terminal.press(key);
        if terminal.look(Duration::from_secs(10), |bytes| shown(bytes, text)).is_ok() {
            return;
        }
    }
    see(terminal, text);
}

#[test]
fn a_person_asks_and_looks_at_the_list_without_a_key() {
    let home = new_home();
    let mut terminal = start(&home, &[]);
    ask(&mut terminal, "where does the deploy key live?");
    see(&terminal, "> The deploy key lives in the vault.");
    see(&terminal, "alfa!");
    terminal.press(LIST);
    see(&terminal, "Tokens Agent       First message");
    see(&terminal, "build       where does the deploy key live?");
    terminal.press(EXIT);
    assert_eq!(terminal.end().1, 0);
    let list = home.json(&["list"]);
    assert_eq!(list["sessions"][0]["queries"], json!(1));
    assert_eq!(list["sessions"][0]["first_message"], "where does the deploy key live?");
}

#[test]
fn a_person_stops_a_reply_with_c_g_and_continues() {
    let home = new_home();
    let story = "Once upon a time there was a heron, and it lived happily ever after.";
    let server = Server::start([
        Answer::text("Salutations."),
        Answer::text(story).slowly(4),
        Answer::text("Finis."),
    ]);
    let mut terminal = start(&home, &variables(&server));
    ask(&mut terminal, "greet me");
    see(&terminal, "build: Salutations.");
    see(&terminal, "alfa!");
    ask(&mut terminal, "tell me a story");
    see(&terminal, "build: Once upon a");
    // Another question has to wait; Emacs does not.
    terminal.press(ASK);
    see(&terminal, "still arriving");
    press_until(&mut terminal, QUIT, "that arrived is kept");
    see(&terminal, "beta!");
    ask(&mut terminal, "go on");
    see(&terminal, "build: Finis.");
    see(&terminal, "gama!");
    terminal.press(EXIT);
    assert_eq!(terminal.end().1, 0);
    let shown = home.json(&["show", "last"]);
    let said = shown.to_string();
    assert!(said.contains("Once upon") && !said.contains("ever after"), "{said}");
    assert!(said.contains("\"interrupted\":true"), "{said}");
}
