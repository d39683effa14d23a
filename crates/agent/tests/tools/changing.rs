//! What `write_file` and `edit_file` do, and do not.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::desk::Desk;

#[test]
fn a_file_is_written_whole_with_its_folders_and_keeps_its_mode() {
    let desk = Desk::new();
    let write = |path: &str, content: &str| {
        desk.run("write_file", json!({"path": path, "content": content}))
    };
    assert_eq!(write("a/b/c.txt", "one"), "created `a/b/c.txt`: 3 bytes");
    let file = desk.work().join("a/b/c.txt");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(write("a/b/c.txt", "zwei"), "replaced `a/b/c.txt`: 4 bytes");
    assert_eq!(desk.text("a/b/c.txt"), "zwei");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(std::fs::read_dir(desk.work().join("a/b")).unwrap().count(), 1, "nothing is left");
    assert!(write("a/b", "x").starts_with("error: `a/b` is not a file"));
    assert!(write("a/b/c.txt/d", "x").starts_with("error: "));
    assert!(write(".", "x").starts_with("error: "));
}

#[test]
fn an_edit_fits_exactly_once_or_not_at_all() {
    let desk = Desk::new();
    desk.write("a.txt", "x = 1\n  x = 1\ny = 2\n");
    let edit = |old: &str, new: &str, all: bool| {
        desk.run("edit_file", json!({"path": "a.txt", "old": old, "new": new, "all": all}))
    };
    let twice = edit("x = 1", "x = 3", false);
    assert!(twice.starts_with("error: `old` occurs 2 times in `a.txt`"), "{twice}");
    let none = edit("y  = 2", "y = 3", false);
    assert!(none.starts_with("error: `old` does not occur in `a.txt`"), "{none}");
    assert!(edit("", "x", false).starts_with("error: `old` is empty"));
    assert!(edit("y", "y", false).starts_with("error: `old` and `new` are the same"));
    assert_eq!(desk.text("a.txt"), "x = 1\n  x = 1\ny = 2\n");
    assert_eq!(edit("  x = 1", "\tx = 1", false), "replaced once in `a.txt`");
    assert_eq!(edit("x = 1", "x = 3", true), "replaced 2 times in `a.txt`");
    assert_eq!(desk.text("a.txt"), "x = 3\n\tx = 3\ny = 2\n");
}
