//! Commands in the background, and the list of steps.

use std::path::Path;
use std::time::{Duration, Instant};

use rethread_agent::tool::limits::BACKGROUND_MAX;
use rethread_core::New;
use rethread_core::entry::Origin;
use rethread_core::session::Parent;
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Starts a command in the background and returns what it is called.
fn start(fixture: &Fixture, command: &str) -> String {
    let said = fixture.run("run", json!({"command": command, "background": true}));
    let name = said.split('`').nth(1).unwrap_or_else(|| panic!("{said}"));
    name.to_owned()
}

fn output(fixture: &Fixture, input: Value) -> String {
    fixture.run("run_output", input)
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

/// Whether a process exists.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    // A zombie is dead.
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_command_in_the_background_is_read_piece_by_piece_until_its_end() {
    let fixture = Fixture::new();
    let name = start(&fixture, "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 3");
    let mut first = String::new();
    wait_for("its first line", || {
        first = output(&fixture, json!({"id": name}));
        first.contains("one")
    });
    assert!(first.starts_with("one\n[running for "), "{first}");
    let nothing = output(&fixture, json!({"id": name}));
    assert!(nothing.starts_with("[running for "), "only what is new is given: {nothing}");
    fixture.write("go", "");
    assert_eq!(output(&fixture, json!({"id": name, "wait_s": 20})), "two\n[exit code 3]");
    assert_eq!(output(&fixture, json!({"id": name})), "[exit code 3]", "its end is remembered");
}

#[test]
fn a_command_in_the_background_is_ended_when_asked_in_time_and_with_the_tools() {
    let fixture = Fixture::new();
    let begun = |file: &str| format!("echo $$ > {file}.new; mv {file}.new {file}; exec sleep 1000");
    let pid = |file: &str| {
        wait_for(file, || fixture.work().join(file).exists());
        fixture.text(file)
    };
    let name = start(&fixture, &begun("a"));
    let first = pid("a");
    assert!(lives(&first));
    assert_eq!(output(&fixture, json!({"id": name, "kill": true})), "[killed]");
    assert!(!lives(&first));
    let late =
        fixture.run("run", json!({"command": begun("b"), "background": true, "timeout_s": 1}));
    let name = late.split('`').nth(1).expect("its name").to_owned();
    assert_eq!(
        output(&fixture, json!({"id": name, "wait_s": 20})),
        "[killed, because 1 s had passed]"
    );
    start(&fixture, &begun("c"));
    let last = pid("c");
    assert!(lives(&last));
    drop(fixture);
    assert!(!lives(&last), "it ended with the tools");
}

#[test]
fn a_command_is_not_reached_from_another_session() {
    let mut fixture = Fixture::new();
    let name = start(&fixture, "echo secret; exec sleep 1000");
    let own = fixture.tool_context.session;
    fixture.tool_context.session = fixture.named("another");
    let other = output(&fixture, json!({"id": name, "kill": true}));
    assert!(other.starts_with("error: there is no command `bg1` in the background"), "{other}");
    assert!(!other.contains("secret"), "{other}");
    fixture.tool_context.session = own;
    let wrong = output(&fixture, json!({"id": "bg7"}));
    assert!(wrong.ends_with("there are `bg1` (echo secret; exec sleep 1000)"), "{wrong}");
    assert!(
        output(&fixture, json!({"id": name})).contains("running"),
        "it was not killed by anyone else"
    );
}

#[test]
fn a_command_is_still_reached_after_a_compaction_and_in_a_fork() {
    let mut fixture = Fixture::new();
    let name = start(&fixture, "exec sleep 1000");
    let own = fixture.tool_context.session;
    let from = |fixture: &Fixture, id, origin| {
        let new = New { parent: Some(Parent { id, origin }), ..New::default() };
        fixture.tool_context.sessions.create(&new, None).expect("a session").id()
    };
    let compacted = from(&fixture, own, Origin::Compact);
    fixture.tool_context.session = from(&fixture, compacted, Origin::Fork);
    assert!(output(&fixture, json!({"id": name})).starts_with("[running for "));
    // A session that was started later, or by a subagent, has its own commands.
    fixture.tool_context.session = from(&fixture, compacted, Origin::New);
    let other = output(&fixture, json!({"id": name, "kill": true}));
    assert!(other.contains("this session has none"), "{other}");
    fixture.tool_context.session = compacted;
    assert_eq!(output(&fixture, json!({"id": name, "kill": true})), "[killed]");
}

#[test]
fn a_session_has_eight_commands_in_the_background_at_the_most() {
    let fixture = Fixture::new();
    let names: Vec<String> =
        (0..BACKGROUND_MAX).map(|_| start(&fixture, "exec sleep 1000")).collect();
    let more = || fixture.run("run", json!({"command": "true", "background": true}));
    assert!(more().starts_with("error: 8 commands of this session"), "{}", more());
    assert_eq!(output(&fixture, json!({"id": names[0], "kill": true})), "[killed]");
    assert!(more().starts_with("started in the background as `bg9`"));
}

#[test]
fn the_output_of_a_background_command_is_offered_where_run_is() {
    let fixture = Fixture::new();
    let offers = |allowed: &[&str]| {
        fixture
            .tools
            .specs(|tool| allowed.contains(&tool))
            .iter()
            .any(|spec| spec.name == "run_output")
    };
    assert!(offers(&["run"]) && !offers(&[]) && !offers(&["write_file"]));
}

#[test]
fn a_todo_list_says_what_is_done_and_what_is_next() {
    let fixture = Fixture::new();
    let todo = |items: Value| fixture.run("todo", json!({ "items": items }));
    let item = |text: &str, status: &str| json!({"text": text, "status": status});
    assert_eq!(
        todo(json!([item("find", "done"), item("fix", "in_progress"), item("test", "pending")])),
        "1 of 3 done; next: fix"
    );
    assert_eq!(todo(json!([item("find", "done")])), "1 of 1 done");
    assert!(todo(json!([item("find", "maybe")])).contains("unknown variant `maybe`"));
    assert!(todo(json!([item(" ", "done")])).contains("step 1 must have 1 to 300 characters"));
    for (count, fits) in [(50, true), (51, false)] {
        let list = vec![item(&"é".repeat(300), "pending"); count];
        assert_eq!(todo(json!(list)).starts_with("0 of 50"), fits);
    }
    assert!(todo(json!([item(&"é".repeat(301), "done")])).starts_with("error: "));
}
