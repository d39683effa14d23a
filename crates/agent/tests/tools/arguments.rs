//! The arguments models send, and the tools they are offered.

use rethread_agent::tool::{CHANGING, Spec};
use serde_json::{Value, json};

use crate::fixture::Fixture;

#[test]
fn wrong_arguments_are_named_with_what_was_expected() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "x\n");
    for (tool, input, said) in [
        ("read_file", "{}", "`path` is missing: a string is expected"),
        ("read_file", "", "`path` is missing: a string is expected"),
        ("read_file", r#"{"path":1}"#, "`path` must be a string, not 1"),
        (
            "read_file",
            r#"{"path":"a.txt","limit":"ten"}"#,
            "`limit` must be a whole number (0 or more), not the string \"ten\"",
        ),
        ("read_file", r#"{"path":"a.txt","limit":-1}"#, "`limit` must be a whole number"),
        ("read_file", r#"{"file":"a.txt"}"#, "there is no argument `file`; there are `path`"),
        ("read_file", "[]", "the arguments must be a JSON object, not a list"),
        ("read_file", r#"{"path""#, "the arguments are not valid JSON"),
        ("read_file", r#"{"path":""}"#, "the path is empty"),
        ("read_file", r#"{"path":"a\u0000b"}"#, "contains a NUL character"),
        ("read_file", r#"{"path":"none.txt"}"#, "there is no `none.txt` in the workspace"),
        (
            "edit_file",
            r#"{"path":"a.txt","old":"x","new":"y","all":"yes"}"#,
            "`all` must be true or false",
        ),
        (
            "edit_file",
            r#"{"path":"a.txt","edits":[{"old":"x","new":"y"},{"old":"x"}]}"#,
            "in `edits`, item 2: `new` is missing: a string is expected",
        ),
        (
            "edit_file",
            r#"{"path":"a.txt","edits":["x"]}"#,
            "in `edits`, item 1: an object is expected, not the string \"x\"",
        ),
        ("edit_file", r#"{"path":"a.txt","edits":"x"}"#, "`edits` must be a list of objects"),
        ("edit_file", r#"{"path":"a.txt","edits":[]}"#, "give either `old` and `new`, or `edits`"),
        ("edit_file", r#"{"path":"a.txt","old":"x"}"#, "give either `old` and `new`, or `edits`"),
        ("recall", r#"{"ref":[]}"#, "`ref` is empty; it is the `ref` of a cut"),
        (
            "recall",
            r#"{"ref":{}}"#,
            "`ref` must be a string or a whole number (0 or more) or a list",
        ),
        ("recall", r#"{"ref":[{}]}"#, "in `ref`, item 1: a string or a whole number"),
        ("search_sessions", r#"{"query":"?"}"#, "a query needs at least one word"),
        ("run", r#"{"command":" "}"#, "`command` must not be empty"),
    ] {
        let answer = fixture.raw(tool, input);
        assert!(answer.starts_with("error: ") && answer.contains(said), "{input}: {answer}");
    }
}

#[test]
fn arguments_in_a_string_and_empty_ones_are_understood() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "x\n");
    let inner = json!({"path": "a.txt", "limit": null}).to_string();
    assert_eq!(fixture.raw("read_file", &Value::String(inner).to_string()), "1\tx\n");
    assert!(fixture.raw("list_dir", "").contains("a.txt"));
}

#[test]
fn changing_tools_are_offered_only_where_that_is_said() {
    let fixture = Fixture::new();
    let names = |specs: Vec<Spec>| -> Vec<String> {
        specs.into_iter().map(|spec| spec.name.into_owned()).collect()
    };
    let looking = ["read_file", "list_dir", "glob", "grep", "recall", "search_sessions"];
    assert_eq!(names(fixture.tools.specs(|_| false)), [&looking[..], &["todo"]].concat());
    let some = names(fixture.tools.specs(|tool| tool == "run"));
    assert_eq!(some, [&looking[..], &["run", "run_output", "todo"]].concat());
    for name in CHANGING {
        assert!(fixture.tools.find(name).unwrap().changes());
    }
    let few = fixture.tools.clone().only(&["grep", "write_file"]);
    assert_eq!(names(few.specs(|_| true)), ["grep", "write_file"]);
    assert!(few.find("run").is_none());
}
