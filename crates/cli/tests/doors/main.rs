//! One decision at every door: whether a session can be answered, by whom, and with which tools.
//!
//! The same situations, set up in a real store, are tried with the real binary as a terminal, as an
//! HTTP server and as a bot. Each door has its own wording; the decision is the same.

#[path = "../../../telegram/src/markup/checker.rs"]
mod checker;
#[path = "../telegram/fake.rs"]
#[allow(dead_code, reason = "these tests need less of it")]
mod fake;
#[path = "../cli/home.rs"]
#[allow(dead_code, reason = "these tests need less of it")]
mod home;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use rethread_agent::scripted::{Answer, Server};
use rethread_core::{Message, New, Owner, Profile, ProfileChange, SessionId, Sessions, Thread};
use rethread_store::System;
use serde_json::{Value, json};

use fake::{Fake, TOKEN};
use home::Home;

/// What a door decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    /// The session's agent answers; with or without tools.
    Answers { tools: bool },
    /// The user has to agree to a changed agent.
    AgentChanged,
    /// It waits for the running turn.
    Waits,
    /// There is no such session.
    NotFound,
    /// The session cannot be read.
    Damaged,
}

/// The state of a session.
#[derive(Clone, Copy, Debug)]
enum Situation {
    Plain,
    ChangedAgentFile,
    Imported,
    HeldByALivingProcess,
    HeldByADeadProcess,
    OfAnotherOwner,
    Archived,
    Damaged,
}

const TABLE: [(Situation, Decided); 8] = [
    (Situation::Plain, Decided::Answers { tools: true }),
    (Situation::ChangedAgentFile, Decided::AgentChanged),
    (Situation::Imported, Decided::Answers { tools: false }),
    (Situation::HeldByALivingProcess, Decided::Waits),
    (Situation::HeldByADeadProcess, Decided::Answers { tools: true }),
    (Situation::OfAnotherOwner, Decided::NotFound),
    (Situation::Archived, Decided::Answers { tools: true }),
    (Situation::Damaged, Decided::Answers { tools: true }),
];

/// A store with one session in some situation, and a model that answers.
struct Scene {
    home: Home,
    model: Server,
    id: SessionId,
    /// Who holds the session, while it is held.
    held: Option<Thread>,
}

const ALIVE: &str = "someone alive";

impl Scene {
    fn new(situation: Situation) -> Scene {
        let (home, model) = (Home::new(), Server::start([]));
        model.fallback(|_| Answer::text("here is the answer"));
        let config = home.path().join(".config/rethread/config.toml");
        std::fs::create_dir_all(config.parent().expect("a folder")).expect("made");
        let owners = "[features]\nauto_save = false\n[telegram]\nowners = [\"7=local\"]\n";
        std::fs::write(config, owners).expect("written");
        let mut scene = Scene { home, model, id: SessionId(Default::default()), held: None };
        scene.set(situation);
        scene
    }

    fn sessions(&self, owner: &str) -> Sessions {
        let url = format!("sqlite:{}", self.home.store().display());
        let store = rethread_store::connect(&url, Arc::new(System)).expect("a store");
        Sessions::new(store, Owner::new(owner).expect("valid"), Arc::new(System))
    }

    fn set(&mut self, situation: Situation) {
        let owner = if matches!(situation, Situation::OfAnotherOwner) { "ada" } else { "local" };
        let sessions = self.sessions(owner);
        let profile = Profile {
            agent: Some("build".into()),
            agent_path: Some("builtin:build".into()),
            ..Profile::default()
        };
        let new = New { profile, system: Some("Be brief.".into()), ..New::default() };
        self.id = sessions.create(&new, None).expect("created").id();
        let said = [Message::user("hello"), Message::assistant("hello to you")];
        sessions.append(self.id, said.map(Into::into).to_vec()).expect("appended");
        match situation {
            Situation::Plain | Situation::OfAnotherOwner => {}
            Situation::ChangedAgentFile => {
                let path = Some(Some("/elsewhere/build.md".into()));
                let change = ProfileChange { agent_path: path, ..ProfileChange::default() };
                sessions.update(self.id, &change.into()).expect("changed");
            }
            Situation::Imported => self.import(),
            Situation::HeldByALivingProcess => {
                let mut thread = sessions.thread(self.id).expect("opened");
                thread.hold(ALIVE, Duration::from_secs(300)).expect("held");
                self.held = Some(thread);
            }
            Situation::HeldByADeadProcess => self.die_in_a_turn(),
            Situation::Archived => drop(sessions.archive(self.id).expect("archived")),
            Situation::Damaged => {
                let database = rusqlite::Connection::open(self.home.store()).expect("opened");
                let damage = "UPDATE entries SET body = x'0badf00d', size = 99 WHERE seq = 1";
                assert_eq!(database.execute(damage, []).expect("damaged"), 1);
            }
        }
    }

    /// A session that came from a file.
    fn import(&mut self) {
        let file = self.home.path().join("old.jsonl");
        let line = |uuid: &str, parent: Option<&str>, role: &str, text: &str| {
            json!({"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "s1",
                "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/w",
                "message": {"role": role, "content": text}})
            .to_string()
        };
        let lines = [
            line("u1", None, "user", "an old question"),
            line("a1", Some("u1"), "assistant", "an old answer"),
        ];
        std::fs::write(&file, lines.join("\n")).expect("written");
        let said = self.home.run(&["import", "old.jsonl", "--from", "claude-code"]);
        assert_eq!(said.code, 0, "{said:?}");
        let list = self.home.json(&["list", "--all"]);
        let sessions = list["sessions"].as_array().expect("sessions");
        let old = sessions.iter().find(|s| s["first_message"] == "an old question");
        let id = old.expect("imported")["id"].as_str().expect("an id");
        self.id = SessionId(id.parse().expect("an id"));
    }

    /// A server that is killed while its turn waits for the model.
    fn die_in_a_turn(&self) {
        self.model.push(Answer::text("never").slowly(0));
        let server = Served::start(self);
        let asking = server.ask_in_background(self.id);
        self.model.wait_for_requests(1);
        server.kill();
        drop(asking.join().expect("the connection broke"));
        self.model.release();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(&[&["--model", "openai/gpt-5"], args].concat());
        command.envs(self.model.vars());
        command
    }

    /// The last request to the model, reduced to what shows the decision.
    fn answered(&self) -> Decided {
        let requests = self.model.requests();
        let asked = requests.iter().rev().find(|asked| asked.text.contains("what now?"));
        let body = &asked.unwrap_or_else(|| panic!("nobody asked the model")).body;
        Decided::Answers { tools: body["tools"].as_array().is_some_and(|tools| !tools.is_empty()) }
    }

    /// The holder releases it.
    fn let_go(&mut self) {
        self.held.take().expect("it is held").release(ALIVE).expect("released");
    }
}

fn terminal(scene: &mut Scene) -> Decided {
    let waits = scene.held.is_some();
    let mut child = scene.command(&[]).stdin(std::process::Stdio::piped()).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("its input");
    write!(stdin, "/open {}\nn\nwhat now?\n", scene.id).expect("typed");
    if waits {
        let mut err = BufReader::new(child.stderr.take().expect("its errors"));
        let mut line = String::new();
        while !line.contains("waiting for another turn") {
            line.clear();
            assert!(err.read_line(&mut line).expect("text") > 0, "it ended without waiting");
        }
        scene.let_go();
        drop(stdin);
        std::io::copy(&mut err, &mut std::io::sink()).expect("read");
        child.wait_with_output().expect("it ends");
        assert!(matches!(scene.answered(), Decided::Answers { .. }), "then it is answered");
        return Decided::Waits;
    }
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    match text {
        text if text.contains("Session created with /elsewhere/build.md") => Decided::AgentChanged,
        text if text.contains("no session matches") => Decided::NotFound,
        text if text.contains("is damaged at entry") => Decided::Damaged,
        _ => scene.answered(),
    }
}

/// A server on a free port.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(scene: &Scene) -> Served {
        let mut command = scene.home.command(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--json",
            "--model",
            "openai/gpt-5",
        ]);
        let mut child = command.envs(scene.model.vars()).spawn().expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("output")).read_line(&mut line).expect("read");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let url = said["listening"].as_str().expect("an address").to_owned();
        Served { child, address: url.trim_start_matches("http://").to_owned() }
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    fn ask_in_background(&self, id: SessionId) -> std::thread::JoinHandle<std::io::Result<String>> {
        let (address, path) = (self.address.clone(), format!("/v1/sessions/{id}/turns/stream"));
        std::thread::spawn(move || {
            let mut stream = post(&address, &path)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        })
    }
}

fn post(address: &str, path: &str) -> std::io::Result<TcpStream> {
    let body = json!({ "content": "what now?" }).to_string();
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    Ok(stream)
}

fn http(scene: &mut Scene) -> Decided {
    let server = Served::start(scene);
    let path = format!("/v1/sessions/{}/turns/stream", scene.id);
    let mut stream = BufReader::new(post(&server.address, &path).expect("connected"));
    let mut answer = String::new();
    let mut waited = false;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).expect("text") == 0 {
            break;
        }
        if line.contains(r#""type":"waiting""#) && !std::mem::replace(&mut waited, true) {
            scene.let_go();
        }
        answer.push_str(&line);
    }
    server.kill();
    match answer {
        _ if waited => {
            assert!(matches!(scene.answered(), Decided::Answers { .. }), "then it is answered");
            Decided::Waits
        }
        answer if answer.contains("/problems/agent") => Decided::AgentChanged,
        answer if answer.contains("/problems/not-found") => Decided::NotFound,
        answer if answer.contains("is damaged at entry") => Decided::Damaged,
        _ => scene.answered(),
    }
}

fn telegram(scene: &mut Scene) -> Decided {
    let fake = Fake::start();
    let mut command =
        scene.home.command(&["telegram", "--model", "openai/gpt-5", "--allow-user", "7"]);
    command.env("TELEGRAM_BOT_TOKEN", TOKEN).env("TELEGRAM_API_URL", &fake.url);
    let mut bot = command.envs(scene.model.vars()).spawn().expect("starts");
    fake.says(7, &format!("/open {}", scene.id));
    let opened = fake.wait("an answer", |fake| fake.chat(7).pop());
    let decided = if opened.text.contains("No session matches") {
        Decided::NotFound
    } else if opened.text.contains("is damaged at entry") {
        Decided::Damaged
    } else {
        fake.says(7, "what now?");
        if scene.held.is_some() {
            // Nothing is shown while it waits; the model is asked when the other one releases the
            // session.
            fake.wait("typing", |fake| {
                let typing = |asked: &fake::Asked| asked.method == "sendChatAction";
                fake.asked().iter().any(typing).then_some(())
            });
            assert!(!scene.model.requests().iter().any(|asked| asked.text.contains("what now?")));
            scene.let_go();
            fake.wait_for(7, "here is the answer");
            Decided::Waits
        } else {
            let said = fake.wait("an answer", |fake| {
                let last = fake.chat(7).into_iter().skip(1).next_back();
                last.filter(|seen| !seen.text.is_empty())
            });
            match said.text {
                text if text.contains("was answered by /elsewhere/build.md") => {
                    Decided::AgentChanged
                }
                _ => {
                    fake.wait_for(7, "here is the answer");
                    scene.answered()
                }
            }
        }
    };
    bot.kill().expect("killed");
    bot.wait().expect("gone");
    decided
}

/// A door: what it does with the session of a scene.
type Door = fn(&mut Scene) -> Decided;

#[test]
fn every_door_makes_the_same_decision_about_a_session() {
    let doors: [(&str, Door); 3] = [("terminal", terminal), ("http", http), ("telegram", telegram)];
    for (situation, expected) in TABLE {
        for (name, door) in doors {
            let mut scene = Scene::new(situation);
            assert_eq!(door(&mut scene), expected, "{name}: {situation:?}");
        }
    }
}

#[test]
fn a_damaged_entry_is_reported_and_the_session_continues() {
    let scene = Scene::new(Situation::Damaged);
    let typed = format!("/open {}\nwhat now?\n", scene.id);
    let mut child = scene.command(&[]).stdin(std::process::Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("its input").write_all(typed.as_bytes()).expect("typed");
    let output = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("entry 1 of this session is left out, what is damaged"), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("here is the answer"), "{output:?}");

    let scene = Scene::new(Situation::Damaged);
    let server = Served::start(&scene);
    let answer = server.ask_in_background(scene.id).join().expect("asked").expect("answered");
    server.kill();
    assert!(answer.contains(r#""type":"damaged""#) && answer.contains(r#""seq":1"#), "{answer}");
    assert!(answer.contains("here is the answer"), "{answer}");
    let asked = scene.model.requests();
    let asked = asked.iter().find(|asked| asked.text.contains("what now?")).expect("asked");
    assert!(asked.text.contains("hello to you"), "the rest is there: {}", asked.text);
    assert!(asked.text.contains("[this message is damaged and cannot be read]"), "{}", asked.text);
}

#[test]
fn a_session_of_another_agent_file_continues_once_someone_agreed() {
    let scene = Scene::new(Situation::ChangedAgentFile);
    let typed = format!("/open {}\ny\nwhat now?\n", scene.id);
    let mut child = scene.command(&[]).stdin(std::process::Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("its input").write_all(typed.as_bytes()).expect("typed");
    let output = child.wait_with_output().expect("it ends");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("here is the answer"), "{output:?}");

    let scene = Scene::new(Situation::ChangedAgentFile);
    let fake = Fake::start();
    let mut command =
        scene.home.command(&["telegram", "--model", "openai/gpt-5", "--allow-user", "7"]);
    command.env("TELEGRAM_BOT_TOKEN", TOKEN).env("TELEGRAM_API_URL", &fake.url);
    let mut bot = command.envs(scene.model.vars()).spawn().expect("starts");
    fake.says(7, &format!("/open {}", scene.id));
    fake.wait("an answer", |fake| fake.chat(7).pop());
    fake.says(7, "what now?");
    let question = fake.wait_for(7, "was answered by");
    fake.presses(7, &question, "Continue");
    fake.wait_for(7, "answers from now on");
    fake.says(7, "what now?");
    fake.wait_for(7, "here is the answer");
    bot.kill().expect("killed");
    bot.wait().expect("gone");
}
