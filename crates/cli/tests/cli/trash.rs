//! Deleting, bringing back, erasing: nothing goes for good unless someone said so.

use serde_json::json;

use crate::desk::Desk;
use crate::terminal::Terminal;

const HELLO: &str = r#"{"role":"user","content":"hello zebra"}"#;

#[test]
fn deleting_without_a_terminal_moves_to_the_trash() {
    let desk = Desk::new();
    desk.session("plan", &[HELLO]);
    // As scripts do it: nobody can answer, and the selector is one that moves.
    let said = desk.feed(&["delete", "last"], "n\n");
    assert_eq!((said.code, said.out.as_str()), (0, "Moved plan to the trash.\n"), "{said:?}");
    assert!(said.err.contains("`rethread undo plan` brings it back for 30 days"), "{said:?}");
    assert_eq!(desk.run(&["show", "plan"]).code, 1);
    assert_eq!(desk.json(&["list", "--all"])["sessions"], json!([]));
    assert_eq!(desk.json(&["search", "zebra"])["hits"], json!([]));
    let trash = desk.json(&["trash", "list"]);
    assert_eq!(trash["sessions"][0]["name"], "plan");
    assert!(trash["sessions"][0]["deleted_at"].is_string(), "{trash}");
    assert!(desk.run(&["trash", "list"]).out.contains("plan"));
    let undone = desk.json(&["undo", "plan"]);
    assert_eq!(undone["undone"], "delete");
    assert!(desk.run(&["show", "plan"]).out.contains("hello zebra"));
    assert_eq!(desk.json(&["search", "zebra"])["hits"][0]["name"], "plan");
    assert_eq!(desk.json(&["trash", "list"])["sessions"], json!([]));
}

#[test]
fn a_restored_session_has_the_keys_that_are_still_free() {
    let desk = Desk::new();
    for key in ["file:a", "file:b"] {
        assert_eq!(desk.feed(&["append", "--key", key, "--name", "plan"], HELLO).code, 0);
    }
    let first = desk.json(&["show", "plan"])["session"]["id"].clone();
    assert_eq!(desk.run(&["delete", "plan"]).code, 0);
    // The name and the key are taken again meanwhile.
    assert_eq!(desk.feed(&["append", "--key", "file:a", "--name", "plan"], HELLO).code, 0);
    assert_eq!(desk.run(&["trash", "restore", "1"]).out, "Restored plan-3.\n");
    let restored = desk.json(&["show", "plan-3"]);
    assert_eq!(restored["session"]["id"], first);
    assert_eq!(restored["session"]["keys"], json!([]));
    assert_eq!(desk.json(&["show", "plan"])["session"]["keys"], json!(["file:a"]));
    assert_eq!(desk.run(&["delete", "plan-2"]).code, 0);
    assert_eq!(desk.run(&["trash", "restore", "plan-2"]).code, 0);
    assert_eq!(desk.json(&["show", "plan-2"])["session"]["keys"], json!(["file:b"]));
}

#[test]
fn erasing_without_a_terminal_takes_yes_and_a_name_or_a_full_id() {
    let desk = Desk::new();
    desk.session("plan", &[HELLO]);
    let id = desk.json(&["show", "plan"])["session"]["id"].as_str().expect("an id").to_owned();
    for (args, why) in [
        (&["delete", "--now", "plan"][..], "nothing was done"),
        (&["delete", "--now", "-y", "1"], "`1` may mean another session tomorrow"),
        (&["delete", "--now", "-y", "last"], "today it is plan"),
        (&["delete", "--now", "-y", &id[..8]], "may mean another session tomorrow"),
    ] {
        let said = desk.feed(args, "y\n");
        assert!(said.code == 1 && said.err.contains(why), "{args:?}: {said:?}");
        assert_eq!(desk.run(&["show", "plan"]).code, 0, "{args:?}");
    }
    assert_eq!(desk.run(&["delete", "--now", "-y", &id]).out, "Erased plan.\n");
    assert_eq!(desk.json(&["trash", "list"])["sessions"], json!([]));
    assert_eq!(desk.run(&["undo", "plan"]).code, 1);

    desk.session("again", &[HELLO]);
    assert_eq!(desk.run(&["delete", "again"]).code, 0);
    assert_eq!(desk.run(&["trash", "empty"]).code, 1, "nobody was there to be asked");
    assert_eq!(desk.json(&["trash", "empty", "-y"]), json!({ "erased": 1, "in_use": 0 }));
    assert_eq!(desk.json(&["trash", "list"])["sessions"], json!([]));
}

#[test]
fn a_question_is_asked_before_erasing_at_a_terminal() {
    let desk = Desk::new();
    desk.session("plan", &[HELLO]);
    // Typed when the question is there, as a person would.
    let answer = |answer: &str| {
        let mut terminal = Terminal::start(&desk, &["delete", "--now", "1"], &[]);
        terminal.expect("Erase plan and all that was said? This is for good. (y/n)");
        terminal.say(answer);
        terminal.end()
    };
    let (no, code) = answer("n");
    assert!(no.contains("nothing was done") && code == 1, "{code}: {no}");
    assert_eq!(desk.run(&["show", "plan"]).code, 0);
    let (yes, code) = answer("y");
    assert!(yes.contains("Erased plan.") && code == 0, "{code}: {yes}");
    assert_eq!(desk.run(&["show", "plan"]).code, 1);
}

#[test]
fn what_is_thirty_days_old_is_erased_by_the_next_command_that_writes() {
    let desk = Desk::new();
    for name in ["old", "young"] {
        desk.session(name, &[HELLO]);
        assert_eq!(desk.run(&["delete", name]).code, 0);
    }
    // The store itself is told that one of them was deleted a month ago.
    let connection = rusqlite::Connection::open(desk.store()).expect("a store");
    let sql = "SELECT n, header FROM sessions WHERE header LIKE '%\"old\"%'";
    let (n, header): (i64, String) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a session");
    let mut header: serde_json::Value = serde_json::from_str(&header).expect("JSON");
    header["trash"]["at"] = json!("2020-01-01T00:00:00Z");
    let set = "UPDATE sessions SET header = ?2, trashed = 1577836800000 WHERE n = ?1";
    connection.execute(set, rusqlite::params![n, header.to_string()]).expect("changed");
    drop(connection);
    let names = || -> Vec<String> {
        let trash = desk.json(&["trash", "list"]);
        let all = trash["sessions"].as_array().expect("a list").clone();
        all.iter().map(|session| session["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(), ["young", "old"]);
    desk.run(&["list"]);
    assert_eq!(names(), ["young", "old"], "reading erases nothing");
    desk.session("new", &[HELLO]);
    assert_eq!(names(), ["young"]);
}

#[test]
fn doctor_looks_at_what_is_in_the_trash() {
    let desk = Desk::new();
    desk.session("plan", &[HELLO]);
    assert_eq!(desk.run(&["delete", "plan"]).code, 0);
    assert_eq!(desk.json(&["doctor", "--check"])["findings"], json!([]));
    let connection = rusqlite::Connection::open(desk.store()).expect("a store");
    connection.execute("UPDATE entries SET t_messages = 99", []).expect("changed");
    drop(connection);
    let said = desk.run(&["doctor", "--check"]);
    assert!(said.code == 1 && said.out.contains("wrong counts"), "{said:?}");
    assert_eq!(desk.run(&["doctor"]).code, 0);
    assert_eq!(desk.json(&["trash", "list"])["sessions"][0]["messages"], 1);
}

#[test]
fn a_chat_brings_back_what_it_just_deleted() {
    let desk = Desk::new();
    desk.session("plan", &[HELLO]);
    let said = desk.feed(
        &["--plain"],
        "/delete plan\n/undo\nhow are you?\n/delete\n/stats\n/undo\n/history\n",
    );
    assert_eq!(said.code, 0, "{said:?}");
    for text in [
        "Moved plan to the trash; /undo brings it back",
        "Undid the delete: plan is back.",
        "Your next message starts a new session.",
        "nothing was said in this chat yet",
    ] {
        assert!(said.err.contains(text), "{text}: {said:?}");
    }
    assert!(said.out.contains("how are you?"), "the history of what came back: {said:?}");
    assert_eq!(desk.json(&["trash", "list"])["sessions"], json!([]));
}
