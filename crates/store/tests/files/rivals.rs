//! Processes racing for one directory.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rethread_core::{Incoming, Message, Name, Owner, Sessions};
use rethread_store::{System, connect};

use crate::desk::{Desk, findings, named, say};

const RIVALS: usize = 8;
const EACH: usize = 50;

/// Another process: this test, run again with the directory in its environment.
fn rival(desk: &Desk, number: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "rivals::a_rival", "--nocapture"]);
    command.env("RIVAL_STORE", desk.url()).env("RIVAL_NUMBER", number.to_string());
    command.stdout(Stdio::null());
    command
}

/// What a rival does. Without a directory it does nothing.
#[test]
fn a_rival() {
    let Ok(url) = std::env::var("RIVAL_STORE") else { return };
    let number = std::env::var("RIVAL_NUMBER").expect("a number");
    for index in 0..EACH {
        // Opened anew now and then, as commands do.
        let store = connect(&url, Arc::new(System)).expect("a store");
        let sessions = Sessions::new(store, Owner::local(), Arc::new(System));
        let id = sessions.select("race").expect("there");
        for part in 0..2 {
            let message = Message::user(format!("{number}-{index}-{part}"));
            sessions.append(id, vec![Incoming::from(message)]).expect("appended");
        }
    }
}

#[test]
fn eight_processes_on_one_session_lose_nothing() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "race", &[]);
    drop(sessions);
    let children: Vec<_> = (0..RIVALS).map(|n| rival(&desk, n).spawn().expect("run")).collect();
    for mut child in children {
        assert!(child.wait().expect("ended").success(), "a rival failed");
    }
    let sessions = desk.sessions();
    let entries = sessions.read(id, 0..u64::MAX).expect("read");
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in &entries {
        let text = entry.body.message().expect("a message").plain_text();
        let (rival, rest) = text.split_once('-').expect("rival-index-part");
        of.entry(rival.to_owned()).or_default().push(rest.to_owned());
    }
    assert_eq!(entries.len(), RIVALS * EACH * 2, "lost or doubled");
    let in_order: Vec<String> =
        (0..EACH).flat_map(|index| (0..2).map(move |part| format!("{index}-{part}"))).collect();
    assert!(of.values().all(|texts| *texts == in_order), "each rival's stand in its order");
    assert_eq!(findings(&sessions), []);
    drop(sessions);
    let shown = desk.json("race.json")["messages"].as_array().map(Vec::len);
    assert_eq!(shown, Some(RIVALS * EACH * 2));
    assert_eq!(desk.seed2(&["check"]), "");
}

#[test]
fn a_process_that_is_killed_blocks_nobody_and_loses_nothing_it_acknowledged() {
    let desk = Desk::new();
    let sessions = desk.sessions();
    let id = say(&sessions, "race", &[]);
    drop(sessions);
    for round in 0..10 {
        let mut child = rival(&desk, round).spawn().expect("run");
        std::thread::sleep(std::time::Duration::from_millis(20 + 15 * round as u64));
        child.kill().expect("killed");
        child.wait().expect("gone");
        let sessions = desk.sessions();
        assert_eq!(named(&sessions, "race"), id);
        let name = Name::new(&format!("round-{round}")).expect("a name");
        say(&sessions, name.as_str(), &["still here"]);
        assert_eq!(findings(&sessions), [], "round {round}");
        drop(sessions);
        assert_eq!(desk.seed2(&["check"]), "", "round {round}");
    }
}
