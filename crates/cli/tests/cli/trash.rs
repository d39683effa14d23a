//! Deleting, restoring, erasing: nothing is erased unless the user says so.

use serde_json::json;

use crate::home::Home;
use crate::terminal::Terminal;

const HELLO: &str = r#"{"role":"user","content":"hello zebra"}"#;

#[test]
fn deleting_without_a_terminal_moves_to_the_trash() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    // As in a script: nobody can answer, and the selector may mean another session later.
    let said = home.feed(&["delete", "last"], "n\n");
    assert_eq!((said.code, said.out.as_str()), (0, "Moved plan to the trash.\n"), "{said:?}");
    assert!(
        said.err.contains("`rethread undo` brings it back now, `rethread undo plan` for 30 days."),
        "{said:?}"
    );
    assert_eq!(home.run(&["show", "plan"]).code, 1);
    assert_eq!(home.json(&["list", "--all"])["sessions"], json!([]));
    assert_eq!(home.json(&["search", "zebra"])["hits"], json!([]));
    let trash = home.json(&["trash", "list"]);
    assert_eq!(trash["sessions"][0]["name"], "plan");
    assert!(trash["sessions"][0]["deleted_at"].is_string(), "{trash}");
    assert!(home.run(&["trash", "list"]).out.contains("plan"));
    let undone = home.json(&["undo", "plan"]);
    assert_eq!(undone["undone"], "delete");
    assert!(home.run(&["show", "plan"]).out.contains("hello zebra"));
    assert_eq!(home.json(&["search", "zebra"])["hits"][0]["name"], "plan");
    assert_eq!(home.json(&["trash", "list"])["sessions"], json!([]));
}

#[test]
fn a_restored_session_has_the_keys_that_are_still_free() {
    let home = Home::new();
    for key in ["file:a", "file:b"] {
        assert_eq!(home.feed(&["append", "--key", key, "--name", "plan"], HELLO).code, 0);
    }
    let first = home.json(&["show", "plan"])["session"]["id"].clone();
    assert_eq!(home.run(&["delete", "plan"]).code, 0);
    // The name and the key are reused in the meantime.
    assert_eq!(home.feed(&["append", "--key", "file:a", "--name", "plan"], HELLO).code, 0);
    let said = home.run(&["trash", "restore", "1"]);
    assert_eq!(said.out, "Restored plan-3.\n");
    let taken = "Other sessions have these now: name `plan`, key `file:a`";
    assert!(said.err.starts_with(taken), "{said:?}");
    let restored = home.json(&["show", "plan-3"]);
    assert_eq!(restored["session"]["id"], first);
    assert_eq!(restored["session"]["keys"], json!([]));
    assert_eq!(home.json(&["show", "plan"])["session"]["keys"], json!(["file:a"]));
    assert_eq!(home.run(&["delete", "plan-2"]).code, 0);
    assert_eq!(home.run(&["trash", "restore", "plan-2"]).code, 0);
    assert_eq!(home.json(&["show", "plan-2"])["session"]["keys"], json!(["file:b"]));
}

#[test]
fn erasing_without_a_terminal_takes_yes_and_a_name_or_a_full_id() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    let id = home.json(&["show", "plan"])["session"]["id"].as_str().expect("an id").to_owned();
    for (args, why) in [
        (&["delete", "--now", "plan"][..], "nothing was done"),
        (
            &["delete", "--now", "-y", "1"],
            "`1` is not an exact name: it may select another session tomorrow",
        ),
        (&["delete", "--now", "-y", "last"], "(now it is plan)"),
        (&["delete", "--now", "-y", &id[..8]], "may select another session tomorrow"),
    ] {
        let said = home.feed(args, "y\n");
        assert!(said.code == 1 && said.err.contains(why), "{args:?}: {said:?}");
        assert_eq!(home.run(&["show", "plan"]).code, 0, "{args:?}");
    }
    assert_eq!(home.run(&["delete", "--now", "-y", &id]).out, "Erased plan.\n");
    assert_eq!(home.json(&["trash", "list"])["sessions"], json!([]));
    assert_eq!(home.run(&["undo", "plan"]).code, 1);

    home.session("again", &[HELLO]);
    assert_eq!(home.run(&["delete", "again"]).code, 0);
    assert_eq!(home.run(&["trash", "empty"]).code, 1, "there was nobody to ask");
    assert_eq!(home.json(&["trash", "empty", "-y"]), json!({ "erased": 1, "in_use": 0 }));
    assert_eq!(home.json(&["trash", "list"])["sessions"], json!([]));
}

#[test]
fn a_question_is_asked_before_erasing_at_a_terminal() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    // Typed when the question appears, as a user would.
    let answer = |answer: &str| {
        let mut terminal = Terminal::start(&home, &["delete", "--now", "1"], &[]);
        terminal.expect("Erase plan and everything in it? This cannot be undone. (y/n)");
        terminal.say(answer);
        terminal.end()
    };
    let (no, code) = answer("n");
    assert!(no.contains("nothing was done") && code == 1, "{code}: {no}");
    assert_eq!(home.run(&["show", "plan"]).code, 0);
    let (yes, code) = answer("y");
    assert!(yes.contains("Erased plan.") && code == 0, "{code}: {yes}");
    assert_eq!(home.run(&["show", "plan"]).code, 1);
}

#[test]
fn a_restored_session_says_that_its_id_is_taken() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    home.session("rival", &[HELLO]);
    let id = home.json(&["show", "plan"])["session"]["readable_id"].clone();
    let id = id.as_str().expect("a readable id");
    assert_eq!(home.run(&["delete", "plan"]).code, 0);
    // As if a session with this id had been imported from another program meanwhile.
    let connection = rusqlite::Connection::open(home.store()).expect("a store");
    let sql = "UPDATE keys SET key = ?1 WHERE key LIKE 'readable-id:%'";
    assert_eq!(connection.execute(sql, [format!("readable-id:{id}")]).expect("changed"), 1);
    let said = home.run(&["undo"]);
    assert_eq!(said.err, format!("Other sessions have these now: id `{id}`.\n"), "{said:?}");
    assert_eq!(home.json(&["show", "plan"])["session"]["readable_id"], json!(null));
}

#[test]
fn a_question_breaks_between_words() {
    let home = Home::new();
    let name = "a-name-that-is-long-enough-for-it";
    home.session(name, &[HELLO]);
    let rethread = env!("CARGO_BIN_EXE_rethread");
    let line = format!("stty cols 80 rows 20; exec {rethread} delete --now {name}");
    let mut terminal = Terminal::run(&home, &line, &[]);
    let shown = terminal.expect("undone. (y/n) ");
    terminal.say("n");
    terminal.end();
    let question = shown.lines().find(|line| line.contains("Erase ")).expect("a question");
    assert!(question.trim_end().len() <= 80, "{question:?}");
}

/// Backdates the deletion of a session.
fn deleted_long_ago(home: &Home, name: &str) {
    let connection = rusqlite::Connection::open(home.store()).expect("a store");
    let sql = "SELECT n, header FROM sessions WHERE header LIKE '%\"' || ?1 || '\"%'";
    let (n, header): (i64, String) =
        connection.query_row(sql, [name], |row| Ok((row.get(0)?, row.get(1)?))).expect("a session");
    let mut header: serde_json::Value = serde_json::from_str(&header).expect("JSON");
    header["trash"]["at"] = json!("2020-01-01T00:00:00Z");
    let set = "UPDATE sessions SET header = ?2, trashed = 1577836800000 WHERE n = ?1";
    connection.execute(set, rusqlite::params![n, header.to_string()]).expect("changed");
}

fn names_in_trash(home: &Home) -> Vec<String> {
    let trash = home.json(&["trash", "list"]);
    let all = trash["sessions"].as_array().expect("a list").clone();
    all.iter().map(|session| session["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn what_is_thirty_days_old_is_erased_by_the_next_command_that_writes() {
    let home = Home::new();
    for name in ["old", "young"] {
        home.session(name, &[HELLO]);
        assert_eq!(home.run(&["delete", name]).code, 0);
    }
    deleted_long_ago(&home, "old");
    assert_eq!(names_in_trash(&home), ["young", "old"]);
    home.run(&["list"]);
    assert_eq!(names_in_trash(&home), ["young", "old"], "reading erases nothing");
    home.session("new", &[HELLO]);
    assert_eq!(names_in_trash(&home), ["young"]);
    let transcript = home.path().join("chat.json");
    std::fs::write(&transcript, r#"[{"role":"user","content":"imported"}]"#).expect("written");
    let transcript = transcript.to_str().expect("a path");
    home.session("other", &[HELLO]);
    for (index, args) in [
        &["clear", "new"][..],
        &["undo", "new"],
        &["rename", "new", "newer"],
        &["import", transcript],
        &["delete", "other"],
    ]
    .into_iter()
    .enumerate()
    {
        let old = format!("old-{index}");
        home.session(&old, &[HELLO]);
        assert_eq!(home.run(&["delete", &old]).code, 0);
        deleted_long_ago(&home, &old);
        let said = home.run(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        assert!(!names_in_trash(&home).contains(&old), "{args:?}");
    }
}

#[test]
fn a_session_named_twice_goes_once_and_comes_back_once() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    assert_eq!(home.run(&["delete", "plan", "1", "plan"]).out, "Moved plan to the trash.\n");
    assert_eq!(home.run(&["trash", "restore", "plan", "1"]).out, "Restored plan.\n");
    let missing = home.run(&["trash", "restore", "plan"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains("no session in the trash matches `plan`"), "{missing:?}");
    assert!(missing.err.contains("`rethread trash list`"), "{missing:?}");
    assert_eq!(home.run(&["delete", "--now", "-y", "plan", "plan"]).out, "Erased plan.\n");
}

#[test]
fn doctor_looks_at_what_is_in_the_trash() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    assert_eq!(home.run(&["delete", "plan"]).code, 0);
    assert_eq!(home.json(&["doctor", "--check"])["findings"], json!([]));
    let connection = rusqlite::Connection::open(home.store()).expect("a store");
    connection.execute("UPDATE entries SET t_messages = 99", []).expect("changed");
    drop(connection);
    let said = home.run(&["doctor", "--check"]);
    assert!(said.code == 1 && said.out.contains("wrong counts"), "{said:?}");
    assert_eq!(home.run(&["doctor"]).code, 0);
    assert_eq!(home.json(&["trash", "list"])["sessions"][0]["messages"], 1);
}

#[test]
fn a_chat_brings_back_what_it_just_deleted() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    let said = home.feed(
        &["--plain"],
        "/delete plan\n/undo\nhow are you?\n/delete\n/stats\n/undo\n/history\n",
    );
    assert_eq!(said.code, 0, "{said:?}");
    for text in [
        "Moved plan to the trash; /undo brings it back",
        "Undid the delete: plan is back.",
        "Your next message starts a new session.",
        "this chat has no messages yet",
    ] {
        assert!(said.err.contains(text), "{text}: {said:?}");
    }
    assert!(said.out.contains("how are you?"), "the history of what came back: {said:?}");
    assert_eq!(home.json(&["trash", "list"])["sessions"], json!([]));
}
