//! What `glob` and `grep` find.

use serde_json::json;

use crate::fixture::{Fixture, paths};

#[test]
fn ignored_and_hidden_files_are_left_out_also_without_git() {
    let fixture = Fixture::new();
    fixture.write(".gitignore", "target/\n*.log\n");
    fixture.write("sub/.gitignore", "private.txt\n");
    for path in [
        "a.txt",
        "target/b.txt",
        "c.log",
        "sub/private.txt",
        "sub/d.txt",
        ".hidden/e.txt",
        ".git/f",
    ] {
        fixture.write(path, "needle\n");
    }
    let found = ["a.txt", "sub/d.txt"];
    assert_eq!(paths(&fixture.json("grep", json!({"pattern": "needle"})), "matches"), found);
    assert_eq!(paths(&fixture.json("glob", json!({"pattern": "**/*"})), "files"), found);
    assert_eq!(paths(&fixture.json("glob", json!({"pattern": "*.log"})), "files"), [""; 0]);
    let sub = fixture.json("grep", json!({"pattern": "needle", "path": "sub"}));
    assert_eq!(paths(&sub, "matches"), ["sub/d.txt"]);
    let named = fixture.json("grep", json!({"pattern": "needle", "path": "c.log"}));
    assert_eq!(paths(&named, "matches"), ["c.log"], "what is named is searched");
}

#[test]
fn in_a_folder_of_a_repository_the_rules_of_its_root_hold() {
    let fixture = Fixture::new();
    let above = |path: &str, content: &str| {
        std::fs::write(fixture.outer.path().join(path), content).expect("a file");
    };
    above(".gitignore", "*.log\nnode_modules/\n/work/only-here.txt\n");
    fixture.write("a.log", "needle");
    fixture.write("only-here.txt", "needle");
    fixture.write("src/node_modules/m/a.js", "needle");
    fixture.write("src/a.txt", "needle");
    let found = || paths(&fixture.json("glob", json!({"pattern": "*"})), "files");
    assert_eq!(found().len(), 4, "without a repository, what is above does not matter");
    std::fs::create_dir(fixture.outer.path().join(".git")).expect("a folder");
    assert_eq!(found(), ["src/a.txt"]);
    let lines = paths(&fixture.json("grep", json!({"pattern": "needle"})), "matches");
    assert_eq!(lines, ["src/a.txt"]);
    // Someone who works in an ignored folder wants to see its files.
    above(".gitignore", "*\n");
    assert_eq!(found().len(), 4);
    for rule in ["work/".to_owned(), format!("/{}/", "work")] {
        above(".gitignore", &format!("{rule}\n"));
        assert_eq!(found().len(), 4, "{rule}");
    }
}

#[test]
fn an_ignored_folder_is_searched_when_it_is_named() {
    let fixture = Fixture::new();
    fixture.write(".gitignore", "target/\n");
    fixture.write("target/debug/.gitignore", "*.o\n");
    fixture.write("target/debug/out.txt", "needle");
    fixture.write("target/debug/out.o", "needle");
    fixture.write("a.txt", "needle");
    let grep = |input| paths(&fixture.json("grep", input), "matches");
    assert_eq!(grep(json!({"pattern": "needle"})), ["a.txt"]);
    for path in ["target", "target/debug"] {
        assert_eq!(
            grep(json!({"pattern": "needle", "path": path})),
            ["target/debug/out.txt"],
            "{path}: its own rules hold where they can"
        );
    }
}

#[test]
fn globs_fit_at_any_depth_or_where_they_say() {
    let fixture = Fixture::new();
    for path in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.ts", "docs/e.md"] {
        fixture.write(path, "x\n");
    }
    for (pattern, found) in [
        ("*.rs", vec!["a.rs", "src/b.rs", "src/deep/c.rs"]),
        ("src/*.rs", vec!["src/b.rs"]),
        ("src/**/*.{rs,ts}", vec!["src/b.rs", "src/d.ts", "src/deep/c.rs"]),
        ("./docs/*", vec!["docs/e.md"]),
        ("docs/", vec!["docs/e.md"]),
        ("*.zig", vec![]),
    ] {
        assert_eq!(paths(&fixture.json("glob", json!({"pattern": pattern})), "files"), found);
    }
    let below = fixture.json("glob", json!({"pattern": "deep/*", "path": "src"}));
    assert_eq!(paths(&below, "files"), ["src/deep/c.rs"]);
    assert!(
        fixture.run("glob", json!({"pattern": "a{b"})).contains("`pattern` is not a valid glob")
    );
    let others = fixture.json("grep", json!({"pattern": "x", "glob": "!*.rs"}));
    assert_eq!(paths(&others, "matches"), ["docs/e.md", "src/d.ts"]);
}

#[test]
fn grep_gives_lines_with_their_numbers_and_what_is_around_them() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "one\ntwo\nThree\nfour\n");
    assert_eq!(
        fixture.run("grep", json!({"pattern": "^t", "ignore_case": true})),
        r#"{"matches":[{"path":"a.txt","line":2,"text":"two"},{"path":"a.txt","line":3,"text":"Three"}],"more":false}"#
    );
    assert_eq!(
        fixture.run("grep", json!({"pattern": "two", "context": 1})),
        r#"{"matches":[{"path":"a.txt","line":2,"text":"two","before":["one"],"after":["Three"]}],"more":false}"#
    );
    for (max, more) in [(2, true), (3, true), (4, false), (5, false)] {
        let answer = fixture.json("grep", json!({"pattern": ".", "max": max}));
        assert_eq!(answer["matches"].as_array().unwrap().len(), max.min(4));
        assert_eq!(answer["more"], more);
    }
    for (length, shown) in [(299, 299), (300, 300), (301, 300)] {
        fixture.write("a.txt", "é".repeat(length));
        let answer = fixture.json("grep", json!({"pattern": "é"}));
        assert_eq!(answer["matches"][0]["text"].as_str().unwrap().chars().count(), shown);
    }
    fixture.write("a.txt", format!("{}needle", "é".repeat(1_000)));
    let answer = fixture.json("grep", json!({"pattern": "needle"}));
    assert!(answer["matches"][0]["text"].as_str().unwrap().contains("needle"), "{answer}");
}

#[test]
fn a_pattern_that_is_wrong_or_too_costly_is_refused() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "x");
    for pattern in ["(", "(?=x)", r"((\w{50}){50}){50}"] {
        let answer = fixture.run("grep", json!({"pattern": pattern}));
        let said = "error: `pattern` is not a valid regular expression: ";
        assert!(answer.starts_with(said), "{answer}");
    }
}

#[test]
fn a_search_nobody_waits_for_stops() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "x");
    fixture.tool_context.stop.cancel();
    for tool in ["grep", "glob"] {
        assert_eq!(fixture.run(tool, json!({"pattern": "x"})), "error: stopped");
    }
}

#[test]
fn matches_are_in_the_order_of_the_files_however_many_there_are() {
    let fixture = Fixture::new();
    let all: Vec<String> = (0..1_200).map(|n| format!("{:02}/{n:04}.txt", n % 7)).collect();
    for path in &all {
        fixture.write(path, format!("needle in {path}\nhay\n"));
    }
    let mut sorted = all;
    sorted.sort();
    for (max, more) in [(499, true), (500, true)] {
        let found = fixture.json("grep", json!({"pattern": "^needle", "max": max}));
        assert_eq!(paths(&found, "matches"), sorted[..max]);
        assert_eq!(found["more"], more);
    }
    let last = sorted.last().expect("many");
    let found = fixture.json("grep", json!({"pattern": format!("in {last}$"), "max": 1}));
    assert_eq!(
        (paths(&found, "matches"), found["more"].as_bool()),
        (vec![last.clone()], Some(false))
    );
    let here = fixture.json("grep", json!({"pattern": "hay", "path": "03", "max": 171}));
    assert_eq!((paths(&here, "matches").len(), here["more"].as_bool()), (171, Some(false)));
    let here = fixture.json("grep", json!({"pattern": "hay", "path": "03", "max": 170}));
    assert_eq!((paths(&here, "matches").len(), here["more"].as_bool()), (170, Some(true)));
}

#[test]
fn a_pattern_matches_within_a_line_in_every_kind_of_file() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "first\r\nbeta\r\n\r\nlast");
    let lines = |pattern: &str| -> Vec<u64> {
        let found = fixture.json("grep", json!({ "pattern": pattern }));
        let rows = found["matches"].as_array().expect("a list").clone();
        rows.iter().map(|row| row["line"].as_u64().expect("a number")).collect()
    };
    for (pattern, expected) in [
        ("^beta$", vec![2]),
        (r"\Abeta\z", vec![2]),
        ("(?i)BETA$", vec![2]),
        ("^$", vec![3]),
        ("t$", vec![1, 4]),
        (r"first\s+beta", vec![]),
        ("[^x]last", vec![]),
        (".", vec![1, 2, 4]),
    ] {
        assert_eq!(lines(pattern), expected, "{pattern}");
    }
}
