//! A door in a hundred lines: what CONTRIBUTING promises about adding one.
//!
//! It speaks a line protocol over a Unix socket. Each connection says who it is, then asks; one
//! line is one question. Everything else (whose sessions, who answers, in which order, stopping)
//! is the host's.

use std::path::Path;
use std::sync::Arc;

use rethread_agent::host::Refusal;
use rethread_agent::scripted::{Answer, Server};
use rethread_agent::{
    Event, Events, Handle, Host, HostLimits, HostSettings, Roster, RosterSettings, Target,
    TurnError, TurnOptions, Workspaces,
};
use rethread_core::{Fixed, Key, MemoryStore, Message, Owner};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// The door: takes connections for as long as it is polled.
async fn serve(host: Host, listener: UnixListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(host.clone(), stream));
    }
}

/// One connection. Its first line is its credential: here, a name that is trusted.
async fn connection(host: Host, stream: UnixStream) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let Some(name) = lines.next_line().await? else { return Ok(()) };
    let Ok(owner) = Owner::new(name) else { return writer.write_all(b"! who?\n").await };
    let handle = host.handle(owner);
    while let Some(line) = lines.next_line().await? {
        let reply = match line.split_once(": ") {
            Some((key, question)) => ask(&handle, key, question).await,
            None => "! KEY: QUESTION".into(),
        };
        writer.write_all(format!("{reply}\n").as_bytes()).await?;
    }
    Ok(())
}

/// One question, in this door's protocol.
async fn ask(handle: &Handle, key: &str, question: &str) -> String {
    let Ok(key) = Key::new(key) else { return "! that is not a key".into() };
    let (events, mut receiver) = Events::channel();
    let (target, options) = (Target::Key(key), TurnOptions::default());
    let started = match handle.start_turn(target, Message::user(question), options, events).await {
        Ok(started) => started,
        Err(error) => return format!("! {error}"),
    };
    let mut tools = 0;
    while let Some(event) = receiver.recv().await {
        tools += u32::from(matches!(event, Event::Call(_)));
    }
    match started.ended().await.outcome {
        Ok(answer) => format!("{} ({tools} calls)", answer.text),
        Err(TurnError::Refused(Refusal::AgentChanged(changed))) => format!("! {changed}"),
        Err(error) => format!("! {error}"),
    }
}

fn host(folder: &Path, model: &Server) -> Host {
    let world = Arc::new(Fixed::default());
    let settings = HostSettings {
        roster: Roster::new(RosterSettings {
            model: Some("openai/scripted-1".into()),
            env: model.env(),
            ..RosterSettings::default()
        }),
        workspaces: Workspaces::only(folder).expect("opened"),
        limits: HostLimits::default(),
        transcripts: None,
    };
    Host::new(Arc::new(MemoryStore::new(world.clone())), world, settings)
}

/// A client of the door.
async fn talk(socket: &Path, lines: &[&str]) -> Vec<String> {
    let (reader, mut writer) = UnixStream::connect(socket).await.expect("connected").into_split();
    let mut replies = BufReader::new(reader).lines();
    writer.write_all(format!("{}\n", lines[0]).as_bytes()).await.expect("sent");
    let mut said = Vec::new();
    for line in &lines[1..] {
        writer.write_all(format!("{line}\n").as_bytes()).await.expect("sent");
        said.push(replies.next_line().await.expect("read").expect("a reply"));
    }
    said
}

#[tokio::test]
async fn a_door_of_a_hundred_lines_keeps_owners_apart_runs_tools_and_remembers() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("notes.md"), "the key is under the mat\n").expect("written");
    let model = Server::start([
        Answer::calls([("grep", serde_json::json!({"pattern": "key"}))]),
        Answer::text("Under the mat."),
        Answer::text("As I said, under the mat."),
        Answer::text("I do not know."),
    ]);
    let host = host(folder.path(), &model);
    let socket = folder.path().join("door");
    let listener = UnixListener::bind(&socket).expect("bound");
    tokio::spawn(serve(host.clone(), listener));

    let ada = talk(&socket, &["ada", "notes: where is the key?", "notes: where?"]).await;
    assert_eq!(ada, ["Under the mat. (1 calls)", "As I said, under the mat. (0 calls)"]);
    let bob = talk(&socket, &["bob", "notes: where is the key?"]).await;
    assert_eq!(bob, ["I do not know. (0 calls)"]);
    let last = model.requests().pop().expect("asked");
    assert!(!last.text.contains("the mat"), "nothing of Ada's reaches Bob's model: {}", last.text);

    // The file of Ada's agent changed: nobody can be asked here, so the door refuses.
    let sessions = host.handle(Owner::new("ada").expect("valid")).sessions().clone();
    let id = sessions.resolve(&Key::new("notes").expect("valid")).expect("read").expect("there");
    let change = rethread_core::ProfileChange {
        agent_path: Some(Some("/elsewhere/build.md".into())),
        ..Default::default()
    };
    sessions.update(id, &change.into()).expect("changed");
    let refused = talk(&socket, &["ada", "notes: and now?", "nonsense"]).await;
    assert!(refused[0].starts_with("! the session was answered by /elsewhere/build.md"));
    assert_eq!(refused[1], "! KEY: QUESTION");
}
