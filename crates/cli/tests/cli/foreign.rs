//! Imports at a terminal: progress is shown, and the user is asked whom to trust; databases are
//! found where their programs keep them; a lineage is exported as one document.

use std::path::Path;

use serde_json::json;

use crate::home::Home;
use crate::terminal::Terminal;

const FOREIGN: &str = "# Sally Conversation\n\n**Session ID:** s1\n**Date:** 2025-12-30T14:30:22\n**Agent:** Sally\n\
    **Total Queries:** 1\n\n---\n\n## Query 1 (14:30:45)\n**You:** hi\n\n**Sally:** hello\n\n---\n\n\
    <!-- SESSION_SUMMARY_START -->\n**Background Context:** Initial session.\n\n**Current Session Summary:**\n\
    **Topics Discussed:**\n- greetings\n<!-- SESSION_SUMMARY_END -->\n";

#[test]
fn a_transcript_of_someone_else_is_asked_about_at_the_terminal() {
    let home = Home::new();
    std::fs::write(home.path().join("foreign.md"), FOREIGN).expect("written");
    let mut terminal = Terminal::start(&home, &["--resume", "foreign.md"], &[]);
    terminal.expect("imported (markdown)");
    terminal.expect("May the agent use tools in it? (y/n)");
    terminal.say("n");
    terminal.expect("Tools stay off");
    terminal.expect("You: ");
    terminal.say("exit");
    assert_eq!(terminal.end().1, 0);
    let list = home.json(&["list", "--all"]);
    let id = list["sessions"][0]["id"].as_str().expect("an id").to_owned();
    // It is shown again when the session is continued later.
    let said = home.run(&["-c", "-p", "what does foreign.md say?"]);
    assert!(said.err.contains("Tools are off"), "{said:?}");
    let shown = home.json(&["show", &id, "--all"]);
    assert!(!shown.to_string().contains("\"name\":\"read_file\""), "no tool was run: {shown}");
}

#[test]
fn an_imported_session_is_asked_about_and_a_yes_turns_tools_on() {
    let home = Home::new();
    let path = std::fs::canonicalize(home.path()).expect("a path").display().to_string();
    let record = json!({"type": "user", "uuid": "u", "sessionId": "s", "cwd": path, "timestamp": "2026-01-23T14:21:43Z",
        "message": {"role": "user", "content": "look"}});
    std::fs::write(home.path().join("s.jsonl"), format!("{record}\n")).expect("written");
    assert_eq!(home.run(&["import", "s.jsonl"]).code, 0);
    let mut terminal = Terminal::start(&home, &["-c"], &[]);
    terminal.expect("May the agent use tools in it? (y/n)");
    terminal.say("y");
    terminal.expect("You: ");
    terminal.say("what does s.jsonl say?");
    terminal.expect("You: ");
    terminal.say("exit");
    assert_eq!(terminal.end().1, 0);
    let shown = home.json(&["show", "1", "--all"]).to_string();
    assert!(shown.contains("\"type\":\"tool_use\""), "{shown}");
}

#[test]
fn at_a_terminal_an_import_shows_how_far_it_is() {
    let home = Home::new();
    let mut text = String::new();
    for number in 0..4_000 {
        let record = json!({"type": "user", "uuid": format!("u{number}"), "sessionId": "s",
            "message": {"role": "user", "content": "many words ".repeat(60)}});
        text.push_str(&format!("{record}\n"));
    }
    std::fs::write(home.path().join("s.jsonl"), &text).expect("written");
    let terminal = Terminal::start(&home, &["import", "--verbose", "s.jsonl"], &[]);
    let (screen, code) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("MiB of ") && screen.contains(" left"), "bytes and time: {screen}");
    assert!(screen.contains("B/s"), "a rate: {screen}");
    assert!(
        screen.contains("4,000 records = 4,000 stored + 0 kept raw + 0 unreadable"),
        "{screen}"
    );
}

#[test]
fn databases_are_found_where_their_programs_keep_them() {
    let home = Home::new();
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for (tool, seed, place) in [
        ("goose", "goose.goose.db", ".local/share/goose/sessions/sessions.db"),
        ("llm", "llm.llm.db", ".config/io.datasette.llm/logs.db"),
    ] {
        let place = home.path().join(place);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::copy(seeds.join(seed), &place).expect("copied");
        let said = home.json(&["import", "--from", tool]);
        assert_eq!(said["sessions"], 2, "{tool}: {said}");
        assert_eq!(home.json(&["import", "--from", tool])["entries_added"], 0, "{tool}");
    }
}

#[test]
fn a_lineage_leaves_as_one_document_oldest_first() {
    let home = Home::new();
    let second = FOREIGN
        .replace(
            "**Session ID:** s1",
            "**Session ID:** s2\n**Previous Session:** /elsewhere/one.md",
        )
        .replace("**You:** hi", "**You:** again");
    let folder = home.path().join("chain");
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(folder.join("one.md"), FOREIGN).expect("written");
    std::fs::write(folder.join("two.md"), second).expect("written");
    assert_eq!(home.run(&["import", "chain"]).code, 0);
    for format in ["markdown", "rethread", "html"] {
        let said = home.run(&["export", "s2", "--chain", "--format", format]);
        assert_eq!(said.code, 0, "{said:?}");
        let (first, then) = (said.out.find("hi"), said.out.find("again"));
        assert!(first.is_some() && first < then, "{format}: {said:?}");
    }
    let alone = home.run(&["export", "s2"]);
    assert!(!alone.out.contains("**You:** hi"), "{alone:?}");
}
