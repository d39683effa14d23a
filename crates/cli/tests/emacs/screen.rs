//! A person at an Emacs in a terminal.

use rethread_agent::scripted::{Answer, Server};
use serde_json::json;

use crate::terminal::{Terminal, quoted};
use crate::{client, new_desk, variables};

const ASK: &str = "\x03op"; // C-c o p
const LIST: &str = "\x03ol"; // C-c o l
const QUIT: &str = "\x07"; // C-g
const EXIT: &str = "\x18\x03"; // C-x C-c

/// Starts Emacs in a terminal, as someone would who has the client in their configuration.
fn start(desk: &crate::Desk, variables: &[(&str, String)]) -> Terminal {
    let client = client().display().to_string();
    let set_up = format!(
        "(progn (require 'rethread) (setq rethread-server-url nil rethread-program {:?}) \
         (rethread-mode 1) (message \"ready-%s\" 1))",
        env!("CARGO_BIN_EXE_rethread")
    );
    let words = ["emacs", "-nw", "-Q", "-L", &client, "--eval", &set_up];
    let line = format!("stty rows 40 cols 120; exec {}", quoted(&words));
    let mut terminal = Terminal::run(desk, &line, variables);
    terminal.expect("ready-1");
    terminal
}

// Emacs writes only what differs from what stands on the screen already, and a reply arrives in
// pieces of four characters. So a test waits for words that appear where nothing was, at once.

#[test]
fn a_person_asks_and_looks_at_the_list_without_a_key() {
    let desk = new_desk();
    let mut terminal = start(&desk, &[]);
    terminal.press(ASK);
    terminal.expect("build:");
    terminal.press("where does the deploy key live?\r");
    terminal.expect("grep");
    terminal.expect("vault");
    terminal.press(LIST);
    terminal.expect("Tokens");
    terminal.expect("deploy");
    terminal.press(EXIT);
    assert_eq!(terminal.end().1, 0);
    let list = desk.json(&["list"]);
    assert_eq!(list["sessions"][0]["queries"], json!(1));
    assert_eq!(list["sessions"][0]["first_message"], "where does the deploy key live?");
}

#[test]
fn a_person_stops_a_reply_with_c_g_and_goes_on() {
    let desk = new_desk();
    let story = "Once upon a time there was a heron, and it lived happily ever after.";
    let server =
        Server::start([Answer::text("Ciao"), Answer::text(story).slowly(4), Answer::text("Fini")]);
    let mut terminal = start(&desk, &variables(&server));
    for (question, answer) in [("greet me", "Ciao"), ("tell me a story", "Once")] {
        terminal.press(ASK);
        terminal.expect("build:");
        terminal.press(&format!("{question}\r"));
        terminal.expect(answer);
    }
    terminal.press(QUIT);
    terminal.expect("until then is kept");
    terminal.press(ASK);
    terminal.expect("build:");
    terminal.press("go on\r");
    terminal.expect("Fini");
    terminal.press(EXIT);
    assert_eq!(terminal.end().1, 0);
    let shown = desk.json(&["show", "last"]);
    let said = shown.to_string();
    assert!(said.contains("Once upon") && !said.contains("ever after"), "{said}");
    assert!(said.contains("\"interrupted\":true"), "{said}");
}
