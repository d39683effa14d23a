//! What `write_file` and `edit_file` do, and do not.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::fixture::Fixture;

#[test]
fn a_file_is_written_whole_with_its_folders_and_keeps_its_mode() {
    let fixture = Fixture::new();
    let write = |path: &str, content: &str| {
        fixture.run("write_file", json!({"path": path, "content": content}))
    };
    assert_eq!(write("a/b/c.txt", "one"), "created `a/b/c.txt`: 3 bytes");
    let file = fixture.work().join("a/b/c.txt");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(write("a/b/c.txt", "zwei"), "replaced `a/b/c.txt`: 4 bytes");
    assert_eq!(write("a/one.txt", "1"), "created `a/one.txt`: 1 byte");
    assert_eq!(fixture.text("a/b/c.txt"), "zwei");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(
        std::fs::read_dir(fixture.work().join("a/b")).unwrap().count(),
        1,
        "nothing is left"
    );
    assert!(write("a/b", "x").starts_with("error: `a/b` is not a file"));
    assert!(write("a/b/c.txt/d", "x").starts_with("error: "));
    assert!(write(".", "x").starts_with("error: "));
}

#[test]
fn an_edit_fits_exactly_once_or_not_at_all() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "x = 1\n  x = 1\ny = 2\n");
    let edit = |old: &str, new: &str, all: bool| {
        fixture.run("edit_file", json!({"path": "a.txt", "old": old, "new": new, "all": all}))
    };
    let twice = edit("x = 1", "x = 3", false);
    assert!(twice.starts_with("error: `old` occurs 2 times in `a.txt`"), "{twice}");
    let none = edit("y  = 2", "y = 3", false);
    assert!(none.starts_with("error: `old` does not occur in `a.txt`"), "{none}");
    assert!(edit("", "x", false).starts_with("error: `old` is empty"));
    assert!(edit("y", "y", false).starts_with("error: `old` and `new` are the same"));
    assert_eq!(fixture.text("a.txt"), "x = 1\n  x = 1\ny = 2\n");
    assert_eq!(edit("  x = 1", "\tx = 1", false), "replaced once in `a.txt`");
    assert_eq!(edit("x = 1", "x = 3", true), "replaced 2 times in `a.txt`");
    assert_eq!(fixture.text("a.txt"), "x = 3\n\tx = 3\ny = 2\n");
}

#[test]
fn several_edits_are_made_in_order_and_all_of_them_or_none() {
    let fixture = Fixture::new();
    fixture.write("a.rs", "fn a() {}\nfn b() {}\nfn c() {}\n");
    let edit = |edits: serde_json::Value| {
        fixture.run("edit_file", json!({"path": "a.rs", "edits": edits}))
    };
    let failed = edit(json!([
        {"old": "fn a", "new": "fn first"},
        {"old": "fn missing", "new": "fn other"},
    ]));
    assert!(failed.starts_with("error: edit 2 of 2: `old` does not occur in `a.rs`"), "{failed}");
    assert!(failed.ends_with("None of the edits was made."), "{failed}");
    assert_eq!(fixture.text("a.rs"), "fn a() {}\nfn b() {}\nfn c() {}\n");
    let done = edit(json!([
        {"old": "fn a", "new": "fn first"},
        {"old": "fn first() {}", "new": "fn first() { b() }", "all": null},
        {"old": "fn ", "new": "pub fn ", "all": true},
    ]));
    assert_eq!(done, "replaced 5 times in `a.rs`");
    assert_eq!(fixture.text("a.rs"), "pub fn first() { b() }\npub fn b() {}\npub fn c() {}\n");
    let back = edit(json!([{"old": "first", "new": "x"}, {"old": "x()", "new": "first()"}]));
    assert_eq!(back, "error: the edits leave `a.rs` as it is");
    let many = |count: usize| edit(json!(vec![json!({"old": "nothing", "new": "x"}); count]));
    assert!(many(100).starts_with("error: edit 1 of 100"));
    assert_eq!(many(101), "error: `edits` may have at most 100 edits");
}

#[test]
fn an_edit_that_does_not_fit_is_shown_the_text_that_is_there() {
    let fixture = Fixture::new();
    fixture.write("a.py", "def one():\n    return 1\n\ndef two():\n\treturn 2\n");
    let edit =
        |old: &str| fixture.run("edit_file", json!({"path": "a.py", "old": old, "new": "x"}));
    let spaces = edit("def two():\n    return 2");
    assert!(spaces.contains("only white space differs"), "{spaces}");
    assert!(spaces.ends_with("at line 4:\n4\tdef two():\n5\t\treturn 2"), "{spaces}");
    let twice = edit("return");
    assert!(twice.ends_with("It begins at:\n2\t    return 1\n5\t\treturn 2"), "{twice}");
    assert!(edit("class Unlike:").ends_with("nothing there is like it; read the file again"));
}

#[test]
fn an_edit_keeps_the_line_endings_and_the_mode_of_a_file() {
    let fixture = Fixture::new();
    fixture.write("dos.txt", "one\r\ntwo\r\nthree\r\n");
    let file = fixture.work().join("dos.txt");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let edit = |old: &str, new: &str| {
        fixture.run("edit_file", json!({"path": "dos.txt", "old": old, "new": new}))
    };
    assert_eq!(edit("one\ntwo", "1\n2"), "replaced once in `dos.txt`");
    assert_eq!(edit("three", "3\n4"), "replaced once in `dos.txt`");
    assert_eq!(fixture.text("dos.txt"), "1\r\n2\r\n3\r\n4\r\n");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
    fixture.write("mixed.txt", "a\r\nb\nc\n");
    fixture.run("edit_file", json!({"path": "mixed.txt", "old": "b\nc", "new": "d\ne"}));
    assert_eq!(fixture.text("mixed.txt"), "a\r\nd\ne\n", "what was not touched stays");
    let lines = |text: &str| {
        fixture.write("mixed.txt", "a\r\nb\r\nc\nd");
        fixture.run(
            "edit_file",
            json!({"path": "mixed.txt", "edits": [{"old": text, "new": "x\ny"}]}),
        );
        fixture.text("mixed.txt")
    };
    assert_eq!(lines("a\nb"), "x\r\ny\r\nc\nd");
    assert_eq!(lines("b"), "a\r\nx\r\ny\r\nc\nd");
    assert_eq!(lines("c"), "a\r\nb\r\nx\ny\nd");
    assert_eq!(lines("d"), "a\r\nb\r\nc\nx\ny");
}
