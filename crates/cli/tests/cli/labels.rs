//! What a session is called in messages: its name, or its title if it was not named.

use crate::home::{Home, WITH_TOOL};

/// Whether a text shows a name that was made from the time (`2026-11-16-05-53-40-043-a6qc`).
fn shows_a_time_as_a_name(text: &str) -> bool {
    let is_made = |word: &str| {
        let parts: Vec<&str> = word.split('-').collect();
        parts.len() >= 8 && parts[..7].iter().all(|part| part.parse::<u32>().is_ok())
    };
    text.split([' ', '`', ':', '\n', '”', ',']).any(is_made)
}

#[test]
fn a_session_nobody_named_is_called_by_its_title_everywhere() {
    let home = Home::new();
    assert_eq!(home.feed(&["append", "--new"], WITH_TOOL.join("\n")).code, 0);
    let title = "Find all .el files";
    for (args, said) in [
        (&["list"][..], title),
        (&["search", "glob"], title),
        (&["open", "1"], "Continuing Find all .el files · 1 turn"),
        (&["stats", "--by", "session", "--tools"], title),
        (&["archive", "1"], "Archived “Find all .el files”."),
    ] {
        let out = home.run(args).out;
        assert!(out.contains(said), "{args:?}: {out}");
        assert!(!shows_a_time_as_a_name(&out), "{args:?}: {out}");
    }
    let name = home.json(&["list", "--all"])["sessions"][0]["name"].as_str().unwrap().to_owned();
    assert!(shows_a_time_as_a_name(&name), "{name}");
    for (args, said) in [
        (&["unarchive", &name][..], "Brought back “Find all .el files”.\n"),
        (&["delete", "1"], "Moved “Find all .el files” to the trash.\n"),
        (&["undo"], "Undid the delete: “Find all .el files” is back.\n"),
        (&["delete", "1"], "Moved “Find all .el files” to the trash.\n"),
        (&["trash", "restore", "1"], "Restored “Find all .el files”.\n"),
    ] {
        let run = home.run(args);
        assert_eq!(run.out, said, "{args:?}");
        assert!(!shows_a_time_as_a_name(&run.err), "{run:?}");
    }
    // If titles are ambiguous, a selector is shown.
    let forked = home.run(&["fork", "1"]).out;
    assert!(forked.contains(&format!("“{title}”, {name}-fork (")), "{forked}");
    let found = home.run(&["search", "glob"]).out;
    let place = found.lines().next().and_then(|line| line.rsplit(' ').next()).expect("a place");
    let id = place.split(':').next().expect("an id");
    assert_eq!(home.run(&["show", id]).code, 0, "{found}");
    // A chosen name is shown as it is.
    home.session("Lisp Files", &WITH_TOOL);
    assert_eq!(home.run(&["archive", "lisp-files"]).out, "Archived Lisp Files.\n");
    let found = home.run(&["search", "glob"]).out;
    let hit = found.lines().find(|line| line.starts_with("Lisp Files  ")).expect("a hit");
    assert!(hit.contains(" · lisp-files:"), "{found}");
}

#[test]
fn undo_without_a_selector_brings_back_what_was_deleted_last() {
    let home = Home::new();
    for name in ["one", "two", "Number three"] {
        home.session(name, &WITH_TOOL);
    }
    assert_eq!(home.run(&["delete", "one"]).code, 0);
    let said = home.run(&["delete", "two", "number-three"]);
    assert!(said.err.contains("`rethread undo` brings back the last one"), "{said:?}");
    for back in ["Number three", "two", "one"] {
        assert_eq!(home.run(&["undo"]).out, format!("Undid the delete: {back} is back.\n"));
    }
    let said = home.run(&["undo"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("there is no deleted session to bring back"), "{said:?}");
    assert!(said.err.contains("`rethread undo SEL`"), "{said:?}");
}
