//! Searching, names in any script, and costs.

use serde_json::{Value, json};

use crate::home::{Home, Said};

fn user(text: &str) -> String {
    json!({"role": "user", "content": text}).to_string()
}

/// A session with a question, a call, its result and an answer with usage.
fn with_costs(home: &Home, name: &str, question: &str) {
    let usage = json!({"input": 1_000, "output": 500, "cache_read": 3_000, "cache_write": 0});
    let lines = [
        user(question),
        json!({"role": "assistant", "model": "anthropic/claude-sonnet-4-5", "usage": usage, "content": [
            {"type": "tool_use", "id": "c1", "name": "grep", "input": {"pattern": "token bucket"}},
            {"type": "tool_use", "id": "c2", "name": "run", "input": {"command": "false"}},
        ]})
        .to_string(),
        json!({"role": "tool", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "src/limit.rs: token bucket"},
            {"type": "tool_result", "tool_use_id": "c2", "content": "exit code 1", "is_error": true},
        ]})
        .to_string(),
        json!({"role": "assistant", "model": "some/model", "usage": {"output": 7}, "content": "A token bucket."})
            .to_string(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    home.session(name, &lines);
}

fn places(said: &Said) -> Vec<String> {
    let heads = said.out.lines().filter(|line| !line.starts_with("  "));
    heads.map(|line| line.split("  ").next().expect("a place").to_owned()).collect()
}

#[test]
fn search_shows_who_said_it_and_when_with_the_words_marked() {
    let home = Home::new();
    with_costs(&home, "limits", "how does the token-bucket limiter work?");
    let said = home.run(&["search", "token", "buck*"]);
    assert_eq!(places(&said), ["limits:3", "limits:0", "limits:2", "limits:1"], "{said:?}");
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("limits:3  assistant · now"), "{said:?}");
    assert_eq!(lines[1], "  A token bucket.");
    assert!(lines[2].starts_with("limits:0  user · now · ~"), "{said:?}");
    let found = home.json(&["search", "buck*", "--from", "user"]);
    let hit = &found["hits"][0];
    assert_eq!((&hit["from"], &hit["seq"]), (&json!("user"), &json!(0)));
    let snippet: Vec<char> = hit["snippet"].as_str().expect("text").chars().collect();
    let marks: Vec<[usize; 2]> = serde_json::from_value(hit["marks"].clone()).expect("marks");
    let marked: Vec<String> = marks.iter().map(|[a, b]| snippet[*a..*b].iter().collect()).collect();
    assert_eq!(marked, ["bucket"]);
    let colours =
        home.command(&["search", "bucket", "--from", "user"]).env("CLICOLOR_FORCE", "1").output();
    let colours = Said::from(colours.expect("it runs")).out;
    assert!(colours.contains("token-\x1b[1;33mbucket\x1b[0m"), "{colours:?}");
}

#[test]
fn search_takes_phrases_beginnings_and_scripts_without_spaces() {
    let home = Home::new();
    home.session("one", &[&user("a bucket of tokens"), &user("日本語の質問です")]);
    for (query, found) in [
        ("buck* tok*", vec!["one:0"]),
        ("\"bucket of\"", vec!["one:0"]),
        ("\"of bucket\"", vec![]),
        ("質問", vec!["one:1"]),
        ("語", vec!["one:1"]),
    ] {
        assert_eq!(places(&home.run(&["search", query])), found, "{query}");
    }
    let nothing = home.run(&["search", "buck"]);
    assert!(nothing.err.contains("`wor*`"), "{nothing:?}");
}

#[test]
fn search_keeps_to_a_time_and_a_folder() {
    let home = Home::new();
    home.session("here", &[&user("a zebra")]);
    let other = home.path().join("other");
    std::fs::create_dir(&other).expect("made");
    let other = other.to_str().expect("a path");
    let said = home
        .feed(&["append", "--new", "--name", "there", "--workspace", other], user("another zebra"));
    assert_eq!(said.code, 0, "{said:?}");
    let count = |args: &[&str]| places(&home.run(&[&["search", "zebra"], args].concat())).len();
    assert_eq!(count(&[]), 2);
    assert_eq!(count(&["--since", "1h"]), 2);
    assert_eq!(count(&["--since", "2999-01-01"]), 0);
    assert_eq!(places(&home.run(&["search", "zebra", "--workspace", other])), ["there:0"]);
    let wrong = home.run(&["search", "zebra", "--since", "soon"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("such as `7d`"), "{wrong:?}");
}

#[test]
fn names_have_letters_of_any_script() {
    let home = Home::new();
    for (name, typed) in [("Café für Ärzte", "café-für-ÄRZTE"), ("日本語", "日本語")] {
        home.session(name, &[&user("hello")]);
        assert_eq!(home.json(&["show", name])["session"]["name"], name);
        assert_eq!(home.json(&["show", typed])["session"]["name"], name);
        assert_eq!(home.json(&["list"])["sessions"][0]["name"], name);
        assert!(home.run(&["list"]).out.contains(name));
    }
    assert_eq!(home.run(&["show", "日本"]).code, 1);
    let renamed = home.run(&["rename", "日本語", "Ελληνικά"]);
    assert!(renamed.out.contains("Ελληνικά"), "{renamed:?}");
    let again = home.session("ελληνικά", &[&user("hello")]);
    assert_eq!(home.json(&["show", "ελληνικά-2"])["session"]["name"], "ελληνικά-2", "{again:?}");
    assert_eq!(home.run(&["show", "ΕΛΛΗΝΙΚΆ"]).code, 0);
}

fn near(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-9)
}

#[test]
fn stats_add_up_tokens_time_models_and_money() {
    let home = Home::new();
    with_costs(&home, "one", "first");
    with_costs(&home, "two", "second");
    let one = home.json(&["stats", "one"]);
    assert_eq!(one["usage"]["cache_read"], 3_000);
    let text = home.run(&["stats", "one"]).out;
    assert!(text.contains("Charged:   4,000 in (3,000 cached), 507 out"), "{text}");
    assert!(
        text.contains("anthropic/claude-sonnet-4-5 4,000 in (3,000 cached), 500 out, ~$"),
        "{text}"
    );

    let cost = one["cost"]["dollars"].as_f64().expect("a price");
    for by in ["day", "folder", "session"] {
        let sums = home.json(&["stats", "--by", by]);
        let total = &sums["total"];
        assert_eq!(
            (&total["sessions"], &sums["logs_read"]),
            (&json!(2), &json!(0)),
            "{by}: {sums}"
        );
        assert_eq!(total["usage"]["input"], 2_000);
        assert_eq!(total["usage"]["output"], 1_014);
        assert!(near(&total["cost"], 2.0 * cost), "{sums}");
        assert_eq!(sums["unpriced"], json!(["some/model"]));
        let groups = sums["groups"].as_array().expect("groups").len();
        assert_eq!(groups, if by == "session" { 2 } else { 1 }, "{sums}");
    }
    assert_eq!(home.json(&["stats", "--since", "2999-01-01"])["groups"], json!([]));
    let tools = home.json(&["stats", "--tools"]);
    assert_eq!(tools["logs_read"], 2);
    assert_eq!(tools["total"]["tools"]["run"]["errors"], 2);
    assert_eq!(tools["total"]["tools"]["grep"]["calls"], 2);
    assert_eq!(tools["total"]["usage"]["input"], 2_000, "the same from the logs");
    let table = home.run(&["stats", "--tools"]);
    for part in ["all", "8.0K", "4 calls, 2 failed", "run: 2 calls, 2 failed", "some/model: "] {
        assert!(table.out.contains(part), "{part}: {table:?}");
    }
    assert!(table.err.contains("without some/model"), "{table:?}");
}

#[test]
fn stats_by_session_are_ordered_by_activity_and_have_the_titles_of_the_list() {
    let home = Home::new();
    with_costs(&home, "early", "first");
    with_costs(&home, "late", "second");
    home.session("free", &[&user("nobody was charged")]);
    let line =
        json!({"role": "assistant", "model": "some/model", "usage": {"output": 9}, "content": "x"});
    home.feed(&["append", "--new"], format!("{}\n{line}", user("How long is a parcel?")));
    // Whoever was used last comes first, whichever began first.
    assert_eq!(home.feed(&["append", "early"], user("and then?")).code, 0);
    let said = home.run(&["stats", "--by", "session"]);
    let rows: Vec<&str> =
        said.out.lines().skip(1).take_while(|row| !row.starts_with("all ")).collect();
    let titles: Vec<&str> =
        rows.iter().map(|row| row.split("  ").next().expect("a title").trim()).collect();
    assert_eq!(titles, ["early", "How long is a parcel?", "late"], "{said:?}");
    assert!(said.err.contains("1 session without usage is not listed."), "{said:?}");
    let sums = home.json(&["stats", "--by", "session"]);
    let names = sums["groups"].as_array().expect("groups").iter().map(|group| &group["title"]);
    let names: Vec<&Value> = names.collect();
    assert_eq!(names[..2], [&json!("early"), &json!("How long is a parcel?")], "{sums}");
    assert_eq!(names.len(), 4, "programs get all of them: {sums}");
}

#[test]
fn sessions_are_found_by_a_folder_that_is_gone() {
    let home = Home::new();
    let folder = home.path().join("gone");
    std::fs::create_dir(&folder).expect("a folder");
    let args = ["append", "--new", "--name", "plan", "--workspace", "gone"];
    assert_eq!(home.feed(&args, user("hello zebra")).code, 0);
    std::fs::remove_dir(&folder).expect("removed");
    for path in ["gone", "./gone/", "gone/../gone", folder.to_str().expect("text")] {
        let listed = home.json(&["list", "--workspace", path]);
        assert_eq!(listed["sessions"][0]["name"], "plan", "{path}: {listed}");
        let found = home.json(&["search", "zebra", "--workspace", path]);
        assert_eq!(found["hits"][0]["name"], "plan", "{path}: {found}");
        let sums = home.json(&["stats", "--workspace", path]);
        assert_eq!(sums["total"]["sessions"], 1, "{path}: {sums}");
    }
    assert_eq!(home.json(&["list", "--workspace", "elsewhere"])["sessions"], json!([]));
    // A chat or an append works in a folder, so it has to be there.
    assert_eq!(home.feed(&args, user("hello")).code, 2);
}
