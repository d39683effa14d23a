//! Who may use the bot, which owner they act as, and which folders they may read.

use serde_json::json;

use crate::bot::Place;

#[test]
fn a_stranger_gets_one_polite_line_and_nothing_is_stored() {
    let place = Place::new();
    let bot = place.start();
    place.fake.says(999, "let me in, my word is plughxyzzy");
    let line = place.fake.wait_for(999, "private bot");
    assert!(line.text.contains("999") && line.text.lines().count() == 1, "{line:?}");
    place.fake.says(999, "please, plughxyzzy");
    place.fake.says(7, "hello");
    place.fake.wait_for(7, "answer to hello");
    bot.stop();
    assert_eq!(place.fake.chat(999).len(), 1, "one line, once");
    assert!(place.sessions("telegram:999").is_empty());
    assert_eq!(place.model.requests().len(), 1, "a stranger costs nothing");
    for file in std::fs::read_dir(place.home.store().parent().expect("a folder")).expect("read") {
        let bytes = std::fs::read(file.expect("a file").path()).expect("read");
        assert!(!bytes.windows(10).any(|window| window == b"plughxyzzy"));
    }
}

#[test]
fn without_a_list_nobody_is_let_in() {
    let place = Place::new();
    let bot = place.start_with(&[]);
    place.fake.says(7, "hello");
    place.fake.wait_for(7, "private bot");
    let wrote = bot.stop();
    assert!(wrote.contains("No user is allowed yet"), "{wrote}");
    assert!(place.sessions("telegram:7").is_empty());
}

#[test]
fn a_stranger_who_presses_a_button_of_others_changes_nothing() {
    let place = Place::new();
    let bot = place.start();
    place.fake.says_in_group(7, -100, "@ThreadBot hello");
    place.fake.wait_for(-100, "answer to");
    place.fake.says_in_group(7, -100, "/delete@ThreadBot");
    let asked = place.fake.wait_for(-100, "It is moved to the trash");
    place.fake.presses(999, &asked, "Delete it");
    place.fake.wait("a reply", |fake| {
        fake.asked().iter().find(|asked| asked.body["text"] == "This is a private bot.").map(drop)
    });
    bot.stop();
    assert_eq!(place.sessions("telegram:-100").len(), 1);
}

#[test]
fn in_a_group_the_bot_answers_only_when_mentioned_in_one_session_for_all() {
    let place = Place::new();
    let bot = place.start_with(&["--allow-user", "7", "--allow-user", "8"]);
    place.fake.says_in_group(7, -100, "not for the bot");
    place.fake.says_in_group(999, -100, "@ThreadBot I am not on the list");
    place.fake.says_in_group(7, -100, "@ThreadBot from seven");
    let seen = place.fake.wait_for(-100, "answer to [From: User7]\n\nfrom seven");
    assert!(seen.reply_to.is_some(), "a reply says whom it answers");
    place.fake.says_in_group(8, -100, "and @threadbot from eight");
    place.fake.wait_for(-100, "from eight");
    bot.stop();
    let sessions = place.sessions("telegram:-100");
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["keys"], json!(["telegram:-100"]));
    assert_eq!(sessions[0]["queries"], 2);
    assert_eq!(sessions[0]["first_message"], "from seven", "the sender is not part of the message");
    assert!(place.sessions("telegram:7").is_empty());
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn a_local_user_continues_in_the_terminal_where_the_phone_left_off() {
    let place = Place::new();
    let config = place.home.path().join("config.toml");
    std::fs::write(&config, "[telegram]\nallow_users = [7, \"8\"]\nowners = [\"7=local\"]\n")
        .expect("written");
    let config = config.display().to_string();
    let bot = place.start_with(&["--config", &config]);
    place.fake.says(7, "from the phone");
    place.fake.wait_for(7, "answer to from the phone");
    bot.stop();
    let mut chat =
        place.home.command(&["-c", "-p", "from the terminal", "--model", "openai/gpt-5"]);
    let said = chat.envs(place.model.vars()).output().expect("it runs");
    assert!(
        String::from_utf8_lossy(&said.stdout).contains("answer to from the terminal"),
        "{said:?}"
    );
    let bot = place.start_with(&["--config", &config]);
    place.fake.says(7, "on the phone again");
    place.fake.wait_for(7, "answer to on the phone again");
    bot.stop();
    let sessions = place.sessions("local");
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
    assert_eq!(sessions[0]["queries"], 3);
    assert!(sessions[0]["keys"].to_string().contains("telegram:7"), "{sessions:#?}");
    assert!(place.sessions("telegram:7").is_empty());
    let asked = place.model.requests().last().expect("asked").text.clone();
    assert!(
        asked.contains("answer to from the terminal"),
        "the phone knows what the terminal heard: {asked}"
    );
}

#[test]
fn sessions_of_an_earlier_bot_are_continued() {
    let place = Place::new();
    let file = place.home.path().join("sessions.json");
    let old = json!({ "7": {
        "user_id": 7, "created_at": "2025-01-15T10:00:00Z", "last_activity": "2025-01-15T10:30:00Z",
        "history": [
            { "role": "user", "content": "Hello from before", "timestamp": "2025-01-15T10:00:00Z" },
            { "role": "assistant", "content": "Hi, said the old bot", "timestamp": "2025-01-15T10:00:05Z" },
        ],
        "current_workspace": "/nowhere/near",
    } });
    std::fs::write(&file, old.to_string()).expect("written");
    let imported = place.home.run(&["import", "--keys", "sessions.json"]);
    assert_eq!(imported.code, 0, "{imported:?}");
    let bot = place.start();
    place.fake.says(7, "do you remember?");
    place.fake.wait_for(7, "answer to do you remember?");
    place.fake.says(7, "/history");
    let history = place.fake.wait_for(7, "Hello from before");
    assert!(
        history.text.contains("Hi, said the old bot") && history.text.contains("do you remember?"),
        "{history:?}"
    );
    place.fake.says(7, "/workspace");
    let shown = place.fake.wait_for(7, "The workspace is");
    assert!(
        !shown.text.contains("nowhere"),
        "a folder outside of the roots is not used: {shown:?}"
    );
    bot.stop();
    let sessions = place.sessions("telegram:7");
    assert_eq!(sessions.len(), 1, "the same session: {sessions:#?}");
    let asked = place.model.requests().last().expect("asked").clone();
    assert!(asked.text.contains("Hi, said the old bot"), "{}", asked.text);
    assert!(asked.body["tools"].is_null(), "what was imported may be anyone's words: no tools");
}

/// The file of an older bot with one session in it.
fn old_file(place: &Place, key: &str) {
    let old = json!({ key: {
        "user_id": 7, "created_at": "2025-01-15T10:00:00Z", "last_activity": "2025-01-15T10:30:00Z",
        "history": [
            { "role": "user", "content": "Hello from before", "timestamp": "2025-01-15T10:00:00Z" },
            { "role": "assistant", "content": "Hi, said the old bot", "timestamp": "2025-01-15T10:00:05Z" },
        ],
        "current_workspace": null,
    } });
    std::fs::write(place.home.path().join("sessions.json"), old.to_string()).expect("written");
    let imported = place.home.run(&["import", "sessions.json"]);
    assert_eq!(imported.code, 0, "{imported:?}");
}

#[test]
fn the_default_session_of_a_newer_bot_is_continued() {
    let place = Place::new();
    old_file(&place, "7:default");
    let bot = place.start();
    place.fake.says(7, "do you remember?");
    place.fake.wait_for(7, "answer to do you remember?");
    bot.stop();
    let sessions = place.sessions("telegram:7");
    assert_eq!(sessions.len(), 1, "the same session: {sessions:#?}");
    let asked = place.model.requests().last().expect("asked").text.clone();
    assert!(asked.contains("Hi, said the old bot"), "{asked}");
    // And back: the number alone is read by every version.
    let id = sessions[0]["id"].as_str().expect("an id");
    let args = ["export", id, "--owner", "telegram:7", "--format", "telegram"];
    let back: serde_json::Value = serde_json::from_str(&place.home.run(&args).out).expect("JSON");
    assert_eq!(back["7"]["history"].as_array().map(Vec::len), Some(4), "{back}");
}

#[test]
fn a_button_turns_tools_on_in_an_imported_session_for_good() {
    let place = Place::new();
    old_file(&place, "7");
    let bot = place.start();
    let tools = || place.model.requests().last().expect("asked").body["tools"].clone();
    place.fake.says(7, "do you remember?");
    let offer = place.fake.wait_for(7, "answer to do you remember?");
    assert!(offer.text.contains("Tools are off here"), "{offer:?}");
    assert!(tools().is_null());
    place.fake.says(7, "once more");
    let second = place.fake.wait_for(7, "answer to once more");
    assert!(second.buttons.is_empty(), "it is offered once: {second:?}");
    // A stranger's press, and one for a session that is not theirs, change nothing.
    place.fake.presses(999, &offer, "Turn tools on");
    place.fake.says(7, "still off?");
    place.fake.wait_for(7, "answer to still off?");
    assert!(tools().is_null());
    place.fake.says(7, "/status");
    let status = place.fake.wait_for(7, "Waiting: 0 messages");
    place.fake.presses(7, &status, "Turn tools on");
    place.fake.wait_for(7, "Tools are on in telegram-7");
    place.fake.says(7, "and now?");
    place.fake.wait_for(7, "answer to and now?");
    assert!(tools().to_string().contains("\"read_file\""), "{}", tools());
    bot.stop();
    let bot = place.start();
    place.fake.says(7, "after a restart?");
    let last = place.fake.wait_for(7, "answer to after a restart?");
    assert!(last.buttons.is_empty() && !last.text.contains("Tools are off"), "{last:?}");
    assert!(tools().to_string().contains("\"read_file\""), "{}", tools());
    bot.stop();
    assert_eq!(place.fake.refused(), [""; 0]);
}

#[test]
fn a_workspace_is_remembered_and_must_be_below_the_roots() {
    let place = Place::new();
    for folder in ["projects/alpha", "projects/beta", "private"] {
        std::fs::create_dir_all(place.home.path().join(folder)).expect("made");
    }
    let beta = place.home.path().join("projects/beta/readme.md");
    std::fs::write(beta, "The gate opens at nine o'clock.\n").expect("written");
    let start = || place.start_with(&["--allow-user", "7", "--root", "projects"]);
    let bot = start();
    for outside in ["../private", "/", "private"] {
        place.fake.says(7, &format!("/workspace {outside}"));
    }
    place.fake.says(7, "/workspace");
    let choice = place.fake.wait_for(7, "The workspace is projects.");
    let refused = place
        .fake
        .chat(7)
        .iter()
        .filter(|seen| seen.text.contains("That folder is not allowed"))
        .count();
    assert_eq!(refused, 3);
    place.fake.presses(7, &choice, "beta");
    place.fake.wait_for(7, "The workspace is projects/beta from now on.");
    bot.stop();
    let bot = start();
    place.fake.says(7, "/workspace");
    place.fake.wait_for(7, "The workspace is projects/beta.");
    place.fake.says(7, "/new other");
    place.fake.wait_for(7, "You are in other");
    // The tools of the model see this folder and no other.
    let call = |path: &str| {
        rethread_agent::scripted::Answer::calls([("read_file", json!({ "path": path }))])
    };
    place.model.push(call("readme.md"));
    place.fake.says(7, "when does it open?");
    place.fake.wait_for(7, "answer to when does it open?");
    let asked = place.model.requests().last().expect("asked").text.clone();
    assert!(asked.contains("nine o'clock"), "{asked}");
    place.model.push(call("../../private"));
    place.fake.says(7, "and outside?");
    place.fake.wait_for(7, "answer to and outside?");
    let asked = place.model.requests().last().expect("asked").text.clone();
    assert!(asked.contains("outside the workspace"), "{asked}");
    let tools = place.model.requests().last().expect("asked").body["tools"].to_string();
    assert!(tools.contains("\"read_file\""), "{tools}");
    for tool in ["\"write_file\"", "\"edit_file\"", "\"run\""] {
        assert!(!tools.contains(tool), "nothing is changed unless that is allowed: {tools}");
    }
    bot.stop();
}

#[test]
fn on_a_directory_of_files_everybody_has_sessions_that_no_file_shows() {
    let place = Place::new();
    let folder = place.home.path().join("sessions");
    let files = format!("files:{}", folder.display());
    let run = || place.start_with(&["--store", &files, "--allow-user", "7", "--allow-user", "8"]);
    let bot = run();
    place.fake.says(7, "from seven");
    place.fake.says(8, "from eight");
    place.fake.wait_for(7, "answer to from seven");
    place.fake.wait_for(8, "answer to from eight");
    bot.stop();
    let bot = run();
    place.fake.says(7, "again");
    place.fake.wait_for(7, "answer to again");
    bot.stop();
    for (owner, messages) in [("telegram:7", 4), ("telegram:8", 2)] {
        let list = place.home.json(&["list", "--owner", owner, "--store", &files]);
        assert_eq!(list["sessions"].as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(list["sessions"][0]["messages"], messages, "{list}");
    }
    let seen = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("one"));
    let seen: Vec<_> = seen.map(|entry| entry.file_name()).filter(|n| n != ".rethread").collect();
    for name in &seen {
        let text = std::fs::read_to_string(folder.join(name)).expect("text");
        assert!(!text.contains("seven") && !text.contains("eight"), "{name:?}: {text}");
    }
}
