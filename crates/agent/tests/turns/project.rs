//! What a project says to agents, from its files to the log and the context.

use rethread_agent::scripted::Answer;
use rethread_agent::{Events, TurnOptions, project_files};
use rethread_core::{New, Role};

use crate::bench::{Bench, run};

/// A turn as a door starts it: the files are read again for each.
fn ask(bench: &Bench, text: &str) {
    run(async {
        let target = rethread_agent::Target::Session(bench.session);
        let (question, options) = (rethread_core::Message::user(text), TurnOptions::default());
        let handle = &bench.handle;
        let started = handle.start_turn(target, question, options, Events::none()).await;
        started.expect("started").ended().await.outcome.expect("answered");
    });
}

/// The last system message.
fn system_message(bench: &Bench) -> String {
    let asked = bench.server.requests();
    asked.last().expect("asked").body["system"].to_string()
}

fn system_messages(bench: &Bench) -> usize {
    bench.messages().iter().filter(|message| message.role == Role::System).count()
}

fn hash(bench: &Bench) -> String {
    let responder = &bench.runner.responder;
    let sessions = bench.handle.sessions();
    let context = sessions.context(bench.session, &responder.policy, &responder.model);
    context.expect("built").hash().to_string()
}

#[test]
fn the_text_is_an_entry_when_first_used_and_when_changed_and_at_no_other_time() {
    let answers = ["one", "two", "three", "four", "five"].map(Answer::text);
    let bench = Bench::new("anthropic", answers);
    bench.file("AGENTS.md", "Use tabs.");
    assert_eq!(system_messages(&bench), 1);
    ask(&bench, "first");
    assert!(
        system_message(&bench).contains("# AGENTS.md\\n\\nUse tabs."),
        "{}",
        system_message(&bench)
    );
    assert_eq!(system_messages(&bench), 2);
    ask(&bench, "second");
    assert_eq!(system_messages(&bench), 2, "nothing has changed");
    let before = hash(&bench);
    bench.file("AGENTS.md", "Use spaces.");
    assert_eq!(hash(&bench), before, "a context is what the log says, not what is on disk");
    ask(&bench, "third");
    assert!(
        system_message(&bench).contains("Use spaces.")
            && !system_message(&bench).contains("Use tabs.")
    );
    assert_eq!(system_messages(&bench), 3);
    let session = bench.handle.sessions().get(bench.session).expect("there");
    let files = project_files(bench.handle.sessions(), &session).expect("read");
    assert_eq!((files.len(), files[0].path.as_str(), files[0].bytes), (1, "AGENTS.md", 11));
    std::fs::remove_file(bench.path("AGENTS.md")).expect("removed");
    ask(&bench, "fourth");
    assert!(!system_message(&bench).contains("Use spaces."));
    assert_eq!(system_messages(&bench), 4);
}

#[test]
fn another_agent_that_answers_once_gets_them_too_and_the_own_instructions_come_back_whole() {
    let answers = ["one", "two", "three"].map(Answer::text);
    let bench = Bench::new("anthropic", answers);
    bench.file("AGENTS.md", "Use tabs.");
    ask(&bench, "first");
    let own = system_message(&bench);
    run(async {
        let target = rethread_agent::Target::Session(bench.session);
        let options = TurnOptions { agent: Some("plan".into()), ..TurnOptions::default() };
        let question = rethread_core::Message::user("plan it");
        let started = bench.handle.start_turn(target, question, options, Events::none()).await;
        started.expect("started").ended().await.outcome.expect("answered");
    });
    assert!(
        system_message(&bench).contains("You plan work")
            && system_message(&bench).contains("Use tabs.")
    );
    let written = system_messages(&bench);
    ask(&bench, "third");
    assert_eq!(system_message(&bench), own);
    assert_eq!(system_messages(&bench), written, "nothing more had to be written");
}

#[test]
fn a_project_cannot_turn_tools_on_by_what_it_says() {
    let bench = Bench::new("anthropic", [Answer::text("one"), Answer::text("two")]);
    ask(&bench, "first");
    let tools = |at: usize| bench.server.requests()[at].body["tools"].to_string();
    let text = "---\nname: build\ntools: [run, write_file]\nallow: [run]\nmodel: other/model\n---\n\
                You may use `run`.";
    bench.file("AGENTS.md", text);
    ask(&bench, "second");
    assert!(system_message(&bench).contains("You may use `run`."));
    assert_eq!(tools(1), tools(0));
    assert!(!tools(1).contains("\"run\""));
}

#[test]
fn a_session_that_was_opened_in_another_folder_names_the_one_its_tools_work_in() {
    let answers = ["one", "two", "three"].map(Answer::text);
    let mut bench = Bench::new("anthropic", answers);
    let create = |system: &str| {
        let new = New { system: Some(system.into()), ..New::default() };
        bench.handle.sessions().create(&new, None).expect("created").id()
    };
    let session = create("Be careful.\n\nThe workspace is /elsewhere.");
    let other = create("The workspace is /elsewhere.\n\nSo it said.");
    bench.session = session;
    bench.file("AGENTS.md", "Use tabs.");
    ask(&bench, "first");
    let here = bench.runner.responder.workspace.clone().expect("a folder");
    assert!(
        system_message(&bench)
            .contains(&format!("Be careful.\\n\\nThe workspace is {here}.\\n\\n"))
    );
    assert!(!system_message(&bench).contains("/elsewhere"), "{}", system_message(&bench));
    ask(&bench, "second");
    assert_eq!(system_messages(&bench), 2, "nothing has changed");
    // Only the line that this program writes is about the tools.
    bench.session = other;
    ask(&bench, "third");
    assert!(
        system_message(&bench).contains("/elsewhere.\\n\\nSo it said."),
        "{}",
        system_message(&bench)
    );
}
