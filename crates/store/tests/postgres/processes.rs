//! Processes racing for one database.

use std::process::{Command, Stdio};
use std::sync::Arc;

use rethread_core::{Incoming, Message, Name, New, Owner, Sessions};
use rethread_store::{System, connect};

use crate::CLUSTER;

const RIVALS: usize = 6;
const EACH: usize = 40;

/// Another process: this test, run again with the database in its environment.
fn rival(url: &str, number: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "processes::a_rival", "--nocapture"]);
    command.env("RIVAL_STORE", url).env("RIVAL_NUMBER", number.to_string());
    command.stdout(Stdio::null());
    command
}

fn sessions(url: &str) -> Sessions {
    let store = connect(url, Arc::new(System)).expect("a store");
    Sessions::new(store, Owner::local(), Arc::new(System))
}

/// What a rival does. Without a database it does nothing.
#[test]
fn a_rival() {
    let Ok(url) = std::env::var("RIVAL_STORE") else { return };
    let number = std::env::var("RIVAL_NUMBER").expect("a number");
    let sessions = sessions(&url);
    let id = sessions.select("race").expect("there");
    for index in 0..EACH {
        let parts = (0..2).map(|part| Message::user(format!("{number}-{index}-{part}")));
        sessions.append(id, parts.map(Incoming::from).collect()).expect("appended");
    }
}

#[test]
fn processes_on_one_session_lose_nothing_and_keep_their_order() {
    let url = CLUSTER.database();
    let sessions = sessions(&url);
    let new = New { name: Some(Name::new("race").expect("a name")), ..New::default() };
    let id = sessions.create(&new, None).expect("created").id();
    let children: Vec<_> = (0..RIVALS).map(|n| rival(&url, n).spawn().expect("run")).collect();
    for mut child in children {
        assert!(child.wait().expect("ended").success(), "a rival failed");
    }
    let entries = sessions.read(id, 0..u64::MAX).expect("read");
    assert_eq!(entries.len(), RIVALS * EACH * 2, "lost or doubled");
    assert!(entries.iter().enumerate().all(|(index, entry)| entry.seq == index as u64), "a gap");
    let text = |index: usize| entries[index].body.message().expect("a message").plain_text();
    let mut next = [0; RIVALS];
    for pair in 0..RIVALS * EACH {
        let first = text(pair * 2);
        let (rival, rest) = first.split_once('-').expect("rival-index-part");
        let rival: usize = rival.parse().expect("a number");
        assert_eq!(
            rest,
            format!("{}-0", next[rival]),
            "the entries of each rival are in its order"
        );
        let second = format!("{rival}-{}-1", next[rival]);
        assert_eq!(text(pair * 2 + 1), second, "no other entry is inside a batch");
        next[rival] += 1;
    }
    sessions.search("0", 0, 1).expect("search has caught up");
    assert_eq!(sessions.doctor(false, |_, _| {}).expect("checked").1, []);
}
