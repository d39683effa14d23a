//! The space a log takes, against the JSON it came from.

use rethread_core::{Block, Incoming, Message, New, Raw, Role};

use crate::run::{Report, Setting, Target, prose};

/// A conversation with tools, as agents have them: short questions, file contents, answers.
pub(crate) fn on_disk(setting: &Setting) -> Vec<Report> {
    let messages: Vec<Message> = (0..setting.size(4_000, 200)).flat_map(turn).collect();
    let json: Vec<String> =
        messages.iter().map(|message| serde_json::to_string(message).expect("JSON")).collect();
    let raw: u64 = json.iter().map(|line| line.len() as u64 + 1).sum();

    let sessions = setting.sessions("size.db");
    let id = sessions.create(&New::default(), None).expect("a session").id();
    for batch in messages.chunks(1_000) {
        let batch = batch.iter().cloned().map(Incoming::from).collect();
        sessions.append(id, batch).expect("appended");
    }
    // Lossless, in the same run: what is read back is what was written, byte for byte.
    let read = sessions.read(id, 0..u64::MAX).expect("entries");
    let back: Vec<String> = read.iter().map(|entry| entry.body.json()).collect();
    assert_eq!(back, json, "what was read back is not what was written");
    let found = sessions.search("limiter", 0, 1).expect("searched");
    assert_eq!(found.len(), 1);
    let searched = size_of(setting);
    // Without the search index, which is made by the first search.
    let plain = setting.folder.join("size.db");
    drop(sessions);
    let with_index = std::fs::metadata(&plain).expect("the file").len().max(searched);

    let sessions = setting.sessions("plain.db");
    let id = sessions.create(&New::default(), None).expect("a session").id();
    for batch in messages.chunks(1_000) {
        let batch = batch.iter().cloned().map(Incoming::from).collect();
        sessions.append(id, batch).expect("appended");
    }
    drop(sessions);
    let without = std::fs::metadata(setting.folder.join("plain.db")).expect("the file").len();
    let report = |name, bytes: u64| Report {
        name,
        against: format!("the {} KB of JSON lines it came from, read back the same", raw / 1_024),
        figure: bytes as f64 / raw as f64,
        unit: "×",
        target: Target::AtMost(1.0),
        detail: format!("{} KB on disk", bytes / 1_024),
    };
    vec![
        report("database of a conversation with tools", without),
        report("the same, with its search index", with_index),
    ]
}

fn size_of(setting: &Setting) -> u64 {
    std::fs::metadata(setting.folder.join("size.db")).map_or(0, |file| file.len())
}

fn turn(number: usize) -> Vec<Message> {
    let id = format!("call_{number:08}");
    let input = Raw::of(&serde_json::json!({ "path": format!("src/part_{}.rs", number % 50) }));
    let call = vec![Block::text(prose(number, 120)), Block::tool_use(&id, "read_file", input)];
    vec![
        Message::user(prose(number * 4, 200)),
        Message::new(Role::Assistant, call),
        Message::tool_result(&id, prose(number * 4 + 2, 500 + (number * 977) % 6_000)),
        Message::assistant(prose(number * 4 + 3, 800)),
    ]
}
