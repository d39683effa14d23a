//! The offline model, through the same tools and contexts as any other.

mod fixture;

use std::path::Path;

use rethread_agent::provider::offline::{MODEL, Offline};
use rethread_agent::provider::{Delta, Provider, Request};
use rethread_agent::tool::{Spec, ToolContext, Toolbox, Workspace};
use rethread_core::context::{Model, Policy};
use rethread_core::message::ToolResult;
use rethread_core::sessions::Incoming;
use rethread_core::{Block, BlockKind, Message, New, Role, Sessions, Thread};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Rounds a turn may take; what the loop allows.
const ROUNDS_MAX: usize = 10;

/// A conversation with the offline model in a folder.
struct Talk {
    sessions: Sessions,
    thread: Thread,
    toolbox: Toolbox,
    specs: Vec<Spec>,
}

/// The outcome of one turn.
struct Told {
    text: String,
    streamed: Vec<String>,
    rounds: usize,
    calls: Vec<String>,
    failures: usize,
    last: Message,
}

impl Talk {
    fn new(folder: &Path, sessions: Sessions) -> Talk {
        let toolbox = Toolbox::new(Workspace::open(folder).expect("a workspace"));
        let specs = toolbox.specs(|_| false);
        let id = sessions.create(&New::default(), None).expect("a session").id();
        let thread = sessions.thread(id).expect("a thread");
        Talk { sessions, thread, toolbox, specs }
    }

    /// Asks, and runs the tools the model calls, as the loop does.
    fn ask(&mut self, question: &str) -> Told {
        self.ask_with(Message::user(question))
    }

    fn ask_with(&mut self, question: Message) -> Told {
        self.thread.append(question).expect("an append");
        let mut calls = Vec::new();
        let mut failures = 0;
        for rounds in 0..ROUNDS_MAX {
            let model = Model::new("offline", "offline");
            let context = self.thread.context(&Policy::chat(), &model).expect("a context");
            let mut streamed = Vec::new();
            let mut listener = |delta: Delta| match delta {
                Delta::Text(text) => streamed.push(text),
                Delta::Thinking(_) => panic!("it does not think"),
            };
            let request = Request {
                model: &model,
                messages: &context.messages,
                stable: context.stable,
                tools: &self.specs,
                session: None,
                keep_longer: false,
            };
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let reply = runtime.block_on(Offline.ask(request, &mut listener)).expect("a reply");
            self.thread.append(reply.clone()).expect("an append");
            if reply.calls().next().is_none() {
                let text = reply.plain_text();
                return Told { text, streamed, rounds, calls, failures, last: reply };
            }
            let answers = reply.calls().map(|call| {
                calls.push(call.id.clone());
                self.answer(&call.id, &call.name, call.input.get())
            });
            let answers: Vec<Message> = answers.collect();
            let results = answers.iter().flat_map(Message::results);
            failures += results.filter(|result| result.is_error).count();
            let answers = answers.into_iter().map(Incoming::from).collect();
            self.thread.append_all(answers).expect("an append");
        }
        panic!("no answer in {ROUNDS_MAX} rounds");
    }

    fn answer(&self, id: &str, name: &str, input: &str) -> Message {
        let tool_context = ToolContext {
            sessions: self.sessions.clone(),
            session: self.thread.session().id(),
            stop: CancellationToken::new(),
            progress: Default::default(),
        };
        let tool = self.toolbox.find(name).unwrap_or_else(|| panic!("there is a tool {name}"));
        assert!(self.specs.iter().any(|spec| spec.name == name), "{name} was offered");
        let answer = tool.run(input, &tool_context);
        let is_error = answer.is_err();
        let text = answer.unwrap_or_else(|failure| failure.0);
        let content = vec![Block::text(text)];
        let result = ToolResult { tool_use_id: id.into(), content, is_error };
        Message::new(Role::Tool, vec![Block::of(BlockKind::ToolResult(result))])
    }
}

fn talk() -> (TempDir, Talk) {
    let folder = tempfile::tempdir().expect("a folder");
    fixture::project(folder.path());
    let talk = Talk::new(folder.path(), fixture::history());
    (folder, talk)
}

/// A question, where its answer is (one of these), and what must be in it.
type Case = (&'static str, &'static [&'static str], &'static str);

const QUESTIONS: [Case; 10] = [
    (
        "How many times is a failed delivery attempted before we stop?",
        &["src/retry.rs"],
        "ATTEMPTS_MAX: u32 = 7",
    ),
    (
        "When do the nightly database backups happen and how long are they kept?",
        &["docs/operations.md"],
        "35 days",
    ),
    (
        "Why don't we use a message broker?",
        &["docs/architecture.md", "session queue-choice"],
        "SKIP LOCKED",
    ),
    (
        "Which company did we choose for SMS / text messages?",
        &["session sms-provider"],
        "MessageBird",
    ),
    ("What port does the server listen on?", &["config/default.toml"], "127.0.0.1:7070"),
    ("How are duplicate parcels detected?", &["docs/architecture.md"], "fingerprint"),
    (
        "What was the reason customers received repeated emails in May?",
        &["session incident-may"],
        "clock",
    ),
    ("How do clients authenticate against the API?", &["docs/api.md"], "bearer token"),
    ("What columns does the monthly report have?", &["scripts/report.py"], "\"shop\", \"channel\""),
    (
        "What colour palette did we settle on for the dashboard?",
        &["session dashboard-colours"],
        "Okabe-Ito",
    ),
];

/// Questions that must be answered from the right place.
const RIGHT_MIN: usize = 8;

#[test]
fn most_questions_are_answered_from_the_right_place() {
    let mut misses = Vec::new();
    for (question, sources, phrase) in QUESTIONS {
        let (_folder, mut talk) = talk();
        let told = talk.ask(question);
        assert_eq!(told.failures, 0, "it calls tools as they want to be called");
        let named = sources.iter().any(|source| told.text.contains(&format!("— {source}")));
        if !named || !told.text.contains(phrase) {
            misses.push(format!("{question}\nwanted {sources:?}: {phrase}\n{}\n", told.text));
        }
    }
    let right = QUESTIONS.len() - misses.len();
    let told = format!("{right} of {} right; missed:\n\n{}", QUESTIONS.len(), misses.join("\n"));
    assert!(right >= RIGHT_MIN, "{told}");
    if !misses.is_empty() {
        eprintln!("{told}");
    }
}

#[test]
fn a_greeting_is_answered_without_tools_and_says_what_this_is() {
    let (_folder, mut talk) = talk();
    for (text, phrase) in [("hello", "Ask me about this folder"), ("thanks!", "You are welcome")] {
        let told = talk.ask(text);
        assert!(told.text.contains(phrase), "{}", told.text);
        assert_eq!((told.rounds, told.calls.len()), (0, 0));
    }
    let told = talk.ask("what can you do?");
    assert!(told.text.contains("\"list files\""), "{}", told.text);
}

#[test]
fn the_first_answer_says_at_length_what_this_is_and_later_ones_in_short() {
    let (_folder, mut talk) = talk();
    let first = talk.ask("hello").text;
    assert!(first.ends_with("OLLAMA_HOST for a real one)"), "{first}");
    let second = talk.ask("How are duplicate parcels detected?").text;
    assert!(second.ends_with("\n\n(offline)"), "{second}");
}

#[test]
fn what_is_found_nowhere_is_said_to_be_found_nowhere() {
    let (_folder, mut talk) = talk();
    let told = talk.ask("Where is the zebra enclosure described?");
    for phrase in ["I found nothing", "zebra", "enclosure", "Try other words"] {
        assert!(told.text.contains(phrase), "{}", told.text);
    }
    let told = talk.ask("find xylophone");
    assert!(told.text.contains("`xylophone` does not occur in any file here"), "{}", told.text);
}

#[test]
fn a_restored_session_is_acknowledged_with_its_topics_and_decisions() {
    let (_folder, mut talk) = talk();
    let summary = "**Background Context:** Initial session.\n\n**Topics Discussed:**\n- rate limits\n\
                   - Redis\n\n**Decisions Made:**\n- token bucket, 100 a minute.\n\n**Pending:**\n- tests\n";
    let block = rethread_core::summary::block(summary);
    let told = talk.ask(&format!("CONTEXT RESTORATION: we continue.\n\n{block}\n\nAcknowledge."));
    for phrase in
        ["rate limits; Redis.", "token bucket, 100 a minute.", "tests.", "ready to continue"]
    {
        assert!(told.text.contains(phrase), "{}", told.text);
    }
    let (acknowledgment, _) = told.text.split_once("\n\n").unwrap();
    assert!((2..=6).contains(&acknowledgment.matches(['.', '!']).count()), "{acknowledgment}");
    let told = talk.ask("CONTEXT RESTORATION: nothing here");
    assert!(told.text.contains("ready to continue"), "{}", told.text);
}

#[test]
fn a_request_for_a_summary_is_not_taken_for_a_question() {
    let (_folder, mut talk) = talk();
    let told = talk.ask("Generate a progressive session summary: include parcels");
    assert_eq!(told.rounds, 0);
    assert!(told.text.contains("I do not write summaries"), "{}", told.text);
}

#[test]
fn the_same_conversation_gets_the_same_answers() {
    let answers = || {
        let (_folder, mut talk) = talk();
        ["hello", "How are duplicate parcels detected?", "more", "list files"].map(|question| {
            let told = talk.ask(question);
            (told.text, told.calls)
        })
    };
    assert_eq!(answers(), answers());
}

#[test]
fn without_tools_it_says_that_it_cannot_search() {
    let (_folder, mut talk) = talk();
    talk.specs.clear();
    for question in
        ["How are duplicate parcels detected?", "list files", "read README.md", "find x"]
    {
        let told = talk.ask(question);
        assert!(told.text.contains("are not offered"), "{}", told.text);
    }
}

#[test]
fn each_single_tool_is_enough_to_answer_and_to_fail_politely() {
    let (_folder, mut talk) = talk();
    let all = talk.specs.clone();
    for spec in all {
        talk.specs = vec![spec];
        talk.ask("How are duplicate parcels detected?");
        talk.ask("find Bucket");
    }
}

#[test]
fn call_ids_never_repeat_in_a_session() {
    let (_folder, mut talk) = talk();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.extend(talk.ask("How are duplicate parcels detected?").calls);
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(ids.iter().all(|id| id.starts_with("offline_") && id.len() <= 40), "{ids:?}");
}

#[test]
fn text_is_streamed_unchanged_and_usage_is_counted() {
    let (_folder, mut talk) = talk();
    let told = talk.ask("How are duplicate parcels detected?");
    assert!(told.streamed.len() > 1);
    assert_eq!(told.streamed.concat(), told.text);
    assert_eq!(told.last.model.as_deref(), Some(MODEL));
    let usage = told.last.usage.unwrap();
    assert_eq!(usage.output, u64::from(rethread_core::tokens::count(&told.text)));
    assert!(usage.input > 0);
}

#[test]
fn files_are_listed_and_read_by_name() {
    let (_folder, mut talk) = talk();
    let told = talk.ask("what files are here?");
    assert!(told.text.contains("- docs/") && told.text.contains("- README.md"), "{}", told.text);
    let told = talk.ask("list files in docs");
    assert!(told.text.contains("- docs/api.md"), "{}", told.text);
    let told = talk.ask("read README");
    assert!(told.text.contains("This is `README.md`") && told.text.contains("make dev"));
    let told = talk.ask("show me retry.rs");
    assert!(told.text.contains("This is `src/retry.rs`"), "{}", told.text);
    let told = talk.ask("read ../secret.txt");
    assert!(told.text.contains("There is no file"), "{}", told.text);
}

#[test]
fn find_lists_every_place() {
    let (_folder, mut talk) = talk();
    let told = talk.ask("find messagebird");
    assert!(told.text.contains("session sms-provider, entry 3"), "{}", told.text);
    let told = talk.ask("grep Bucket");
    assert!(told.text.contains("src/limiter.rs:4: pub struct Bucket {"), "{}", told.text);
}

#[test]
fn more_shows_other_passages_until_there_are_none() {
    let (_folder, mut talk) = talk();
    let mut seen = Vec::new();
    let mut told = talk.ask("How are parcels delivered?");
    let mut turns = 0;
    while !told.text.contains("I found nothing more") {
        let sources: Vec<String> =
            told.text.lines().filter(|line| line.starts_with("— ")).map(str::to_owned).collect();
        assert!(sources.iter().all(|source| !seen.contains(source)), "{}", told.text);
        seen.extend(sources);
        told = talk.ask("more");
        turns += 1;
        assert!(turns < 30, "it ends");
    }
    assert!(seen.len() >= 3, "{seen:?}");
    assert!(Talk::new(_folder.path(), fixture::history()).ask("more").text.contains("no question"));
}

#[test]
fn long_results_that_were_truncated_still_lead_to_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    fixture::project(folder.path());
    let noise =
        "The parcel and its duplicate are mentioned here at length, for no reason. ".repeat(4);
    for n in 0..50 {
        let text = format!("{noise}\n").repeat(20);
        std::fs::write(folder.path().join(format!("noise-{n:02}.txt")), text).unwrap();
    }
    let mut talk = Talk::new(folder.path(), fixture::history());
    let told = talk.ask("What is the fingerprint of a parcel made of?");
    assert!(told.text.contains("recipient, template and the hour"), "{}", told.text);
}

/// A project in which a newcomer's words also occur in all the wrong places.
fn small_project(readme: &str) -> (TempDir, Talk) {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, text) in [
        ("README.md", readme),
        ("Cargo.toml", "[package]\nname = \"parcelo\"\ndescription = \"Parcels, on time\"\n"),
        ("CHANGELOG.md", "- This project does more, and the tests run faster.\n"),
        ("agents/build.md", "You build this project. Run the tests before you say it works.\n"),
        ("AGENTS.md", "This project is about parcels. Run the tests, always.\n"),
        ("src/lib.rs", "// How do I run the tests? The order of the steps is in steps.rs.\n"),
        ("src/steps.rs", "// The order of the steps is decided here.\nconst STEPS: [Step; 2];\n"),
    ] {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let talk = Talk::new(folder.path(), fixture::history());
    (folder, talk)
}

const README: &str = "[![build](x.svg)](y)\n\n# Parcelo\n\nParcelo keeps parcels on time: a queue, a \
    scheduler\nand a small API.\n\n```console\n$ ask 'what does this project do?'\n$ ask 'how do I run \
    the tests?'\n$ ask 'where is the order of the steps decided?'\n```\n\n## Development\n\nRun the \
    tests with `make check`; they need PostgreSQL.\n";

#[test]
fn what_a_project_is_comes_from_its_readme_and_its_manifest() {
    for question in ["what does this project do?", "What is this repository about?"] {
        let (_folder, mut talk) = small_project(README);
        let told = talk.ask(question);
        for part in ["> # Parcelo", "keeps parcels on time", "— README.md:3", "Parcels, on time"]
        {
            assert!(told.text.contains(part), "{part}: {}", told.text);
        }
        for part in ["$ ask", "AGENTS.md", "agents/", "CHANGELOG", "build.svg"] {
            assert!(!told.text.contains(part), "{part}: {}", told.text);
        }
        assert_eq!(told.failures, 0);
    }
    let (folder, mut talk) = small_project("");
    std::fs::remove_file(folder.path().join("README.md")).expect("removed");
    assert!(talk.ask("what is this project?").text.contains("— Cargo.toml:3"));
    std::fs::remove_file(folder.path().join("Cargo.toml")).expect("removed");
    assert!(talk.ask("what is this project?").text.contains("no README"));
}

#[test]
fn the_beginning_of_a_readme_is_quoted_in_every_format() {
    let html = "<p align=\"center\">\n  <img src=\"logo.svg\">\n</p>\n<h1 align=\"center\">Parcelo</h1>\n\
                <p align=\"center\"><b>Parcels</b>, on time.</p>\n\n## Install\n\n    make install\n";
    let rst =
        "Parcelo\n=======\n\nParcels, on time.\n\nInstall\n-------\n\nRun ``make install``.\n";
    for (path, text) in [("README.md", html), ("README.rst", rst)] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(path), text).expect("written");
        let told = Talk::new(folder.path(), fixture::history()).ask("what does this project do?");
        assert!(told.text.contains("> # Parcelo\n"), "{}", told.text);
        assert!(told.text.contains("> Parcels, on time."), "{}", told.text);
        assert!(!told.text.contains("nstall"), "{}", told.text);
    }
}

#[test]
fn a_description_is_found_in_a_manifest_of_one_line() {
    for (path, text, quoted) in [
        (
            "package.json",
            r#"{"name":"x","description":"Say \"hi\"","version":"1"}"#,
            r#"> "description":"Say \"hi\"""#,
        ),
        (
            "setup.py",
            "setup(name='x', description='Parcels', version='1')",
            "> description='Parcels'\n",
        ),
        (
            "pom.xml",
            "<project><description>Parcels</description></project>",
            "> <description>Parcels\n",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(path), text).expect("written");
        let told = Talk::new(folder.path(), fixture::history()).ask("what does this project do?");
        assert!(told.text.contains(quoted), "{}", told.text);
    }
}

#[test]
fn how_a_project_is_tested_comes_from_its_readme_or_its_manifest() {
    let (_folder, mut talk) = small_project(README);
    let told = talk.ask("how do I run the tests?");
    assert!(
        told.text.contains("`make check`") && told.text.contains("— README.md"),
        "{}",
        told.text
    );
    assert!(!told.text.contains("agents/") && !told.text.contains("$ ask 'how"), "{}", told.text);
    let (_folder, mut talk) = small_project("# Parcelo\n\nParcels.\n");
    let told = talk.ask("how do I run the tests?");
    assert!(told.text.contains("`Cargo.toml`, so `cargo test`"), "{}", told.text);
    assert_eq!(told.failures, 0);
}

#[test]
fn a_line_that_repeats_the_question_is_not_an_answer() {
    let (_folder, mut talk) = small_project(README);
    let told = talk.ask("where is the order of the steps decided?");
    assert!(told.text.contains("— src/steps.rs:1"), "{}", told.text);
    assert!(!told.text.contains("$ ask"), "{}", told.text);
}

#[test]
fn a_question_that_was_asked_before_is_not_quoted_as_an_answer() {
    let (folder, mut first) = small_project(README);
    let questions = ["who feeds the zebras at night?", "how is the order of the steps changed?"];
    for question in questions {
        first.ask(question);
    }
    for question in questions {
        let told = Talk::new(folder.path(), first.sessions.clone()).ask(question);
        assert!(!told.text.contains(&format!("> {question}")), "{}", told.text);
        assert!(
            !told.text.contains("> [lines ") && !told.text.contains("> I found"),
            "{}",
            told.text
        );
        assert!(!told.text.contains("— session"), "{}", told.text);
    }
    // What a person or another model answered earlier is worth quoting.
    let mut earlier = Talk::new(folder.path(), first.sessions.clone());
    earlier.thread.append(Message::user(questions[0])).expect("an append");
    let reply = Message::new(Role::Assistant, vec![Block::text("Ada does, at ten.")]);
    earlier.thread.append(reply).expect("an append");
    let told = Talk::new(folder.path(), first.sessions.clone()).ask(questions[0]);
    assert!(told.text.contains("> Ada does, at ten."), "{}", told.text);
}

#[test]
fn instructions_are_never_quoted() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("README.md"), "# Widget\n\nA widget.").expect("written");
    let sessions = fixture::history();
    let careful = "You are a careful engineer. Run the tests before you say that it works.";
    let new = New { system: Some(careful.into()), ..New::default() };
    let id = sessions.create(&new, None).expect("a session").id();
    // A turn that failed, after which another agent took over.
    for message in [Message::user("how do I run the tests?"), Message::system(careful)] {
        sessions.append(id, vec![message.into()]).expect("an append");
    }
    for question in ["how do I run the tests?", "who runs the tests, a careful engineer?"] {
        let told = Talk::new(folder.path(), sessions.clone()).ask(question);
        assert!(!told.text.contains("You are a careful"), "{}", told.text);
    }
    let told = Talk::new(folder.path(), sessions).ask("find careful engineer");
    assert!(!told.text.contains("You are a careful"), "{}", told.text);
}

#[test]
fn what_was_read_earlier_in_a_conversation_is_quoted_whole_again() {
    let (_folder, mut talk) = small_project(README);
    talk.ask("what does this project do?");
    let told = talk.ask("how do I run the tests?");
    assert!(told.text.contains("`make check`"), "{}", told.text);
    let first = talk.ask("read README.md").text;
    let again = talk.ask("read README.md").text;
    assert_eq!(again, first);
    assert!(again.contains("they need PostgreSQL"), "{again}");
}

#[test]
fn projects_of_many_kinds_answer_a_newcomer() {
    /// Files with their texts, and questions with what their answers contain.
    type Project<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)]);
    let projects: [Project<'_>; 8] = [
        (
            &[
                ("README.md", "# Widget\n\nA widget."),
                ("requirements.txt", "flask\n"),
                ("test_app.py", "def test_x(): pass\n"),
            ],
            &[
                ("how do I run the tests?", "`test_app.py`, so `pytest` should do it"),
                ("how do I install it?", "`pip install -r requirements.txt`"),
            ],
        ),
        (
            &[("tox.ini", "[tox]\n"), ("test_app.py", "def test_x(): pass\n")],
            &[("how do I run the tests?", "`tox.ini`, so `tox` should do it")],
        ),
        (
            &[("setup.cfg", "[metadata]\nname = shop\n"), ("pytest.ini", "[pytest]\n")],
            &[
                ("how do I run the tests?", "`setup.cfg`, so `pytest` should do it"),
                ("how do I install it?", "`pip install .`"),
            ],
        ),
        (
            &[("pyproject.toml", "[project]\nname = \"shop\"\n"), ("shop.py", "pass\n")],
            &[
                ("how do I run the tests?", "`pyproject.toml`, so `pytest` should do it"),
                ("how do I install it?", "`pip install .`"),
            ],
        ),
        (
            &[("package.json", "{\n  \"scripts\": { \"test\": \"vitest run\" }\n}\n")],
            &[("how do I run the tests?", "`npm test`"), ("how do I build it?", "`npm run build`")],
        ),
        (
            &[("go.mod", "module example.org/queue\n"), ("queue.go", "package queue\n")],
            &[
                ("how do I run the tests?", "`go test ./...`"),
                ("what does this project do?", "- queue.go"),
            ],
        ),
        (&[("notes.txt", "hello\n")], &[("what does this project do?", "- notes.txt")]),
        (
            &[
                ("CONTRIBUTING.md", "## Adding a step\n\nBuilding contexts uses `STEPS`.\n"),
                ("README.md", "# Queue\n\nA queue.\n\n## Start\n\n    cargo run   # builds it\n"),
            ],
            &[("how do I build it?", "cargo run   # builds it")],
        ),
    ];
    for (files, questions) in projects {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            std::fs::write(folder.path().join(path), text).expect("written");
        }
        for (question, expected) in questions {
            let told = Talk::new(folder.path(), fixture::history()).ask(question);
            assert!(told.text.contains(expected), "{question} {files:?}:\n{}", told.text);
            let wrong = told.text.find("STEPS").unwrap_or(usize::MAX);
            assert!(told.text.find(expected) < Some(wrong), "{}", told.text);
        }
    }
}

#[test]
fn what_is_piped_in_is_searched_for_only_where_the_question_names_nothing() {
    let (_folder, mut talk) = talk();
    let piped = |question: &str, input: &str| {
        let input = format!("{}{input}", rethread_agent::STANDARD_INPUT);
        Message::new(Role::User, vec![Block::text(question), Block::text(input)])
    };
    let told = talk.ask_with(piped("explain this", "pub struct Bucket {"));
    assert!(told.text.contains("— src/limiter.rs"), "{}", told.text);
    let told = talk.ask_with(piped("who feeds the zebras?", "pub struct Bucket {"));
    assert!(told.text.contains("I found nothing"), "{}", told.text);
    assert!(!told.text.contains("standard"), "{}", told.text);
}

#[test]
fn a_question_that_fills_the_window_is_answered_all_the_same() {
    let (_folder, mut talk) = talk();
    let log: String = (0..20_000).map(|n| format!("line {n} of a log\n")).collect();
    let input = format!("{}{log}", rethread_agent::STANDARD_INPUT);
    let question = vec![Block::text("how are duplicate parcels detected?"), Block::text(input)];
    let told = talk.ask_with(Message::new(Role::User, question));
    assert!(told.text.contains("— docs/architecture.md"), "{}", told.text);
}
