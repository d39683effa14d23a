//! Processes racing for one directory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rethread_core::{Incoming, Message, Name, Owner, Sessions};
use rethread_store::{System, connect};

use crate::fixture::{Fixture, findings, named, say};

const RIVALS: usize = 8;
const EACH: usize = 50;

/// What a rival writes before each text that was acknowledged.
const ACKNOWLEDGED: &str = "acknowledged ";

/// Another process: this test, run again with the directory in its environment.
fn rival(fixture: &Fixture, number: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "rivals::a_rival", "--nocapture"]);
    command.env("RIVAL_STORE", fixture.url()).env("RIVAL_NUMBER", number.to_string());
    command.stdout(Stdio::null());
    command
}

/// What a rival does. Without a directory it does nothing.
#[test]
fn a_rival() {
    let Ok(url) = std::env::var("RIVAL_STORE") else { return };
    let number = std::env::var("RIVAL_NUMBER").expect("a number");
    for index in 0..EACH {
        // Opened again now and then, as commands do.
        let store = connect(&url, Arc::new(System)).expect("a store");
        let sessions = Sessions::new(store, Owner::local(), Arc::new(System));
        let id = sessions.select("race").expect("there");
        for part in 0..2 {
            let text = format!("{number}-{index}-{part}");
            let message = Message::user(text.clone());
            sessions.append(id, vec![Incoming::from(message)]).expect("appended");
            println!("{ACKNOWLEDGED}{text}");
        }
    }
}

#[test]
fn eight_processes_on_one_session_lose_nothing() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "race", &[]);
    drop(sessions);
    let children: Vec<_> = (0..RIVALS).map(|n| rival(&fixture, n).spawn().expect("run")).collect();
    for mut child in children {
        assert!(child.wait().expect("ended").success(), "a rival failed");
    }
    let sessions = fixture.sessions();
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
    let shown = fixture.json("race.json")["messages"].as_array().map(Vec::len);
    assert_eq!(shown, Some(RIVALS * EACH * 2));
    assert_eq!(fixture.seed2(&["check"]), "");
}

#[test]
fn a_process_that_is_killed_blocks_nobody_and_loses_nothing_it_acknowledged() {
    let fixture = Fixture::new();
    let sessions = fixture.sessions();
    let id = say(&sessions, "race", &[]);
    drop(sessions);
    for round in 0..10 {
        let mut child = rival(&fixture, round).stdout(Stdio::piped()).spawn().expect("run");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut told = lines.map_while(Result::ok).filter_map(|line| {
            // The frame of tests may have begun the line.
            Some(line.split_once(ACKNOWLEDGED)?.1.to_owned())
        });
        let mut acknowledged: Vec<String> = told.by_ref().take(1 + 3 * round).collect();
        child.kill().expect("killed");
        child.wait().expect("gone");
        // What it still said before it was gone.
        acknowledged.extend(told);
        assert!(acknowledged.len() > 3 * round, "round {round}: {acknowledged:?}");
        let sessions = fixture.sessions();
        assert_eq!(named(&sessions, "race"), id);
        let log = sessions.read(id, 0..u64::MAX).expect("read");
        let texts = log.iter().filter_map(|entry| entry.body.message()).map(Message::plain_text);
        let own = format!("{round}-");
        let stored: Vec<String> = texts.filter(|text| text.starts_with(&own)).collect();
        assert!(stored.starts_with(&acknowledged), "round {round}: {acknowledged:?} {stored:?}");
        assert!(stored.len() <= acknowledged.len() + 1, "one may be stored and not yet told");
        let name = Name::new(&format!("round-{round}")).expect("a name");
        say(&sessions, name.as_str(), &["still here"]);
        assert_eq!(findings(&sessions), [], "round {round}");
        drop(sessions);
        assert_eq!(fixture.seed2(&["check"]), "", "round {round}");
    }
}
