//! `append`: every line is acknowledged when it is on disk, and bad input stores nothing.

use std::io::{BufRead, BufReader, Write};

use crate::home::{Home, Said, WITH_TOOL};
use serde_json::{Value, json};

const HELLO: &str = r#"{"role":"user","content":"hello"}"#;

#[test]
fn content_is_a_string_a_block_or_blocks() {
    let home = Home::new();
    let lines = [
        HELLO,
        r#"{"role":"user","content":{"type":"text","text":"one block"}}"#,
        r#"{"role":"user","content":[{"type":"text","text":"two"},{"type":"hologram","x":1.0}]}"#,
        "",
        r#"{"content":"order does not matter","role":"user"}"#,
    ];
    assert_eq!(home.session("forms", &lines).seqs(), [0, 1, 2, 3]);
    let shown = home.run(&["show", "forms", "--json"]).out;
    assert!(shown.contains(r#"{"type":"hologram","x":1.0}"#), "kept byte for byte: {shown}");
}

#[test]
fn a_byte_order_mark_and_unknown_fields_are_accepted() {
    let home = Home::new();
    let line = r#"{"role":"user","content":"hello \ud83d","at":"2001-01-01","n":1.0e2}"#;
    home.session("foreign", &[&format!("\u{feff}{line}")]);
    let shown = home.run(&["show", "foreign", "--json"]).out;
    assert!(shown.contains(r#""content":"hello \ud83d""#), "{shown}");
    assert!(shown.contains(r#""foreign":{"at":"2001-01-01"}"#), "{shown}");
    assert!(shown.contains(r#""n":1.0e2"#), "{shown}");
    let context = home.json(&["context", "foreign"]);
    assert_eq!(context["messages"][0]["content"], "hello \u{fffd}");
    let again = home.feed(&["append", "--key", "k", "--name", "one"], HELLO);
    assert_eq!((again.code, again.err.as_str()), (0, ""));
    let ignored = home.feed(&["append", "--key", "k", "--name", "two"], HELLO);
    assert!(ignored.err.contains("warning: `k` has a session already"), "{}", ignored.err);
}

#[test]
fn a_malformed_line_is_named_and_the_lines_before_it_stay() {
    let home = Home::new();
    for bad in [
        "{not json",
        r#"{"role":"wizard","content":"x"}"#,
        r#"{"role":"user"}"#,
        r#"{"role":"user","content":7}"#,
        r#"{"role":"user","content":"x","id":7}"#,
    ] {
        let input = [HELLO, HELLO, bad, HELLO].join("\n");
        let said = home.feed(&["append", "--new"], input);
        assert_eq!(said.code, 1, "{bad}");
        assert_eq!(said.seqs(), [0, 1], "{bad}");
        assert!(said.err.starts_with("error: line 3 is not a message: "), "{}", said.err);
        assert_eq!(home.json(&["show", "last"])["entries"].as_array().map(Vec::len), Some(2));
    }
    let mut bytes = HELLO.as_bytes().to_vec();
    bytes.extend_from_slice(b"\n{\"role\":\"user\",\"content\":\"\xff\"}\n");
    let said = home.feed(&["append", "--new"], bytes);
    assert_eq!((said.code, said.seqs()), (1, vec![0]));
    assert!(said.err.contains("line 2") && said.err.contains("utf-8"), "{}", said.err);
}

#[test]
fn a_batch_is_all_or_nothing() {
    let home = Home::new();
    let said = home.feed(&["append", "--new", "--batch"], [HELLO, "oops"].join("\n"));
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert_eq!(home.json(&["list"])["sessions"], json!([]), "not even an empty session");
    let said = home.feed(&["append", "--new", "--batch"], WITH_TOOL.join("\n"));
    assert_eq!(said.seqs(), [0, 1, 2, 3]);
}

#[test]
fn an_error_names_one_line_and_it_is_the_right_one() {
    let home = Home::new();
    let half = r#"{"role":"user","content":"#;
    let said = home.feed(&["append", "--new"], [HELLO, "", half, ""].join("\n"));
    assert!(said.err.starts_with("error: line 3 is not a message: EOF while parsing"), "{said:?}");
    assert_eq!(said.err.matches("line ").count(), 1, "{said:?}");
    let wizard = r#"{"role":"wizard","content":"x"}"#;
    let said = home.feed(&["append", "--new"], [HELLO, wizard].join("\n"));
    assert!(said.err.starts_with("error: line 2 is not a message: "), "{said:?}");
    assert!(!said.err.contains(" at line "), "{said:?}");
    let named =
        |id: &str, text: &str| json!({"role": "user", "content": text, "id": id}).to_string();
    home.session("plan", &[&named("m-1", "one")]);
    let taken = [HELLO, "", &named("m-1", "other")].join("\n");
    let said = home.feed(&["append", "plan", "--batch"], taken);
    assert!(said.err.starts_with("error: line 3: ") && said.err.contains("`m-1`"), "{said:?}");
    let twice = [HELLO, &named("m-2", "one"), &named("m-2", "two")].join("\n");
    let said = home.feed(&["append", "plan", "--batch"], twice);
    assert!(said.err.starts_with("error: line 3: "), "{said:?}");
    let long = named("m-3", &"x".repeat(16 << 20));
    let said = home.feed(&["append", "plan", "--batch"], [HELLO, &long, HELLO].join("\n"));
    assert!(said.err.starts_with("error: line 2: a message is "), "{said:?}");
}

#[test]
fn a_refused_append_leaves_no_session_and_no_key() {
    let home = Home::new();
    let named = r#"{"role":"user","content":"hello","id":"m-1"}"#;
    let twice = [named, &named.replace("hello", "bye")].join("\n");
    // {"role":"user","content":""} takes 28 bytes.
    let long = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat((16 << 20) + 1 - 28));
    for store in ["sqlite:data/a.db", "files:data/b"] {
        for place in [&["--new"][..], &["--key", "file:a"]] {
            for (batch, input) in
                [(&["--batch"][..], &twice), (&["--batch"][..], &long), (&[][..], &long)]
            {
                let args = [&["append", "--store", store], place, batch].concat();
                let said = home.feed(&args, input);
                assert_eq!((said.code, said.out.as_str()), (1, ""), "{args:?}: {}", said.err);
                let left = home.json(&["list", "--all", "--store", store]);
                assert_eq!(left["sessions"], json!([]), "{args:?}");
            }
        }
        let said = home.feed(&["append", "--key", "file:a", "--store", store], HELLO);
        assert_eq!(said.seqs(), [0], "the key is free");
    }
}

#[test]
fn a_session_is_there_with_its_first_message_or_not_at_all() {
    let home = Home::new();
    home.session("other", &[HELLO]);
    for pause in 0..12 {
        let mut child = home.spawn(&["append", "--new"]);
        let mut input = child.stdin.take().expect("its input");
        writeln!(input, "{HELLO}").expect("written");
        // Somewhere between its start and its acknowledgement.
        std::thread::sleep(std::time::Duration::from_millis(pause * 2));
        child.kill().expect("killed");
        child.wait().expect("gone");
        let sessions = home.json(&["list", "-n", "100"])["sessions"].clone();
        let sessions = sessions.as_array().expect("sessions").clone();
        assert!(sessions.iter().all(|session| session["messages"] == 1), "{sessions:?}");
    }
}

#[test]
fn a_line_sent_twice_is_stored_once() {
    let home = Home::new();
    let line = r#"{"role":"user","content":"hello","id":"m-1"}"#;
    home.session("once", &[line]);
    let again = home.feed(&["append", "once"], line);
    assert_eq!((again.code, again.seqs()), (0, vec![0]));
    let other = home.feed(&["append", "once"], line.replace("hello", "bye"));
    assert_eq!(other.code, 1);
    assert!(other.err.contains("the id `m-1` is already used"), "{}", other.err);
    let shown = home.json(&["show", "once"]);
    assert_eq!(shown["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(shown["entries"][0]["id"], "m-1");
}

#[test]
fn a_result_nobody_asked_for_is_kept_and_flagged_and_left_out_of_contexts() {
    let home = Home::new();
    let orphan = r#"{"role":"tool","content":{"type":"tool_result","tool_use_id":"nobody","content":"lost"}}"#;
    let said = home.session("orphan", &[HELLO, orphan]);
    assert_eq!(said.seqs(), [0, 1]);
    assert!(said.err.contains("warning: entry 1: the result for `nobody`"), "{}", said.err);
    assert!(home.run(&["show", "orphan"]).out.contains("    (answers no call)\n    lost\n"));
    let context = home.json(&["context", "orphan"]);
    assert_eq!(context["messages"], json!([{"role": "user", "content": "hello"}]));
    assert_eq!(context["cuts"][0]["by"], "validity");
    let noted = home.json(&["doctor"]);
    assert_eq!(noted["findings"][0]["state"], "noted");
    let twice = home.session("twice", &[WITH_TOOL[0], WITH_TOOL[1], WITH_TOOL[2], WITH_TOOL[2]]);
    assert!(twice.err.contains("warning: entry 3: the result for `call_123`"), "{}", twice.err);
    let bare = r#"{"role":"tool","tool_call_id":"c1","content":"text"}"#;
    let bare = home.session("bare", &[HELLO, bare]);
    assert!(bare.err.contains("warning: entry 1: a tool message without"), "{}", bare.err);
}

#[test]
fn a_call_without_a_result_is_answered_as_interrupted() {
    let home = Home::new();
    home.session("crash", &[WITH_TOOL[0], WITH_TOOL[1]]);
    let context = home.json(&["context", "crash"]);
    let answer = &context["messages"][2]["content"][0];
    assert_eq!((&answer["tool_use_id"], &answer["is_error"]), (&json!("call_123"), &json!(true)));
    assert!(answer["content"].as_str().expect("a text").starts_with("[interrupted"));
}

#[test]
fn a_message_may_have_16_mib_and_no_more() {
    let home = Home::new();
    // {"role":"user","content":""} takes 28 bytes.
    let message =
        |bytes: usize| format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(bytes - 28));
    let max = 16 << 20;
    for (bytes, code) in [(max - 1, 0), (max, 0), (max + 1, 1)] {
        let said = home.feed(&["append", "--new"], message(bytes));
        assert_eq!(said.code, code, "{bytes}: {}", said.err);
        if code == 1 {
            assert!(
                said.err.contains("a message is 16777217 bytes long; at most 16777216"),
                "{}",
                said.err
            );
        }
    }
    let endless = home.feed(&["append", "--new"], vec![b'x'; 40 << 20]);
    assert_eq!(endless.code, 1);
    assert!(endless.err.contains("error: line 1 is longer than 16 MiB"), "{}", endless.err);
}

#[test]
fn a_line_that_is_too_large_does_not_undo_the_lines_before_it() {
    let hint = "the lines before this one were stored (with --batch, none were)";
    let too_large = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat((16 << 20) - 27));
    for (what, line) in [("a message", too_large), ("a line", "x".repeat(17 << 20))] {
        let home = Home::new();
        let input = format!("{HELLO}\n{line}\n");
        let said = home.feed(&["append", "--new", "--name", "plan"], input.as_str());
        assert_eq!((said.code, said.seqs()), (1, vec![0]), "{what}: {}", said.err);
        assert!(said.err.contains("line 2"), "{what}: {}", said.err);
        let words: Vec<&str> = said.err.split_whitespace().collect();
        assert!(words.join(" ").contains(hint), "{what}: {}", said.err);
        assert_eq!(home.json(&["show", "plan"])["entries"].as_array().map(Vec::len), Some(1));
        let all = home.feed(&["append", "--new", "--name", "batch", "--batch"], input.as_str());
        assert_eq!(all.code, 1, "{what}: {}", all.err);
        assert_eq!(home.run(&["show", "batch"]).code, 1, "{what}: nothing of a batch is stored");
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let home = Home::new();
    home.session("crash", &[HELLO]);
    for round in 0..5 {
        let mut child = home.spawn(&["append", "crash"]);
        let mut input = child.stdin.take().expect("its input");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let writer = std::thread::spawn(move || {
            let mut number = 0;
            let line =
                |n| format!("{}\n", json!({"role": "user", "content": format!("r{round} m{n}")}));
            while input.write_all(line(number).as_bytes()).is_ok() {
                number += 1;
            }
        });
        // Kill it right after an acknowledgement, while more lines are being written.
        let mut last = Value::Null;
        for _ in 0..20 + round * 7 {
            let mut line = String::new();
            output.read_line(&mut line).expect("an acknowledgement");
            last = serde_json::from_str(&line).expect("JSON");
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        writer.join().expect("the writer noticed");
        let acknowledged = last["seq"].as_u64().expect("a seq");
        let entries = home.json(&["show", "crash"])["entries"].as_array().expect("entries").clone();
        assert!(
            entries.len() as u64 > acknowledged,
            "{} entries, {acknowledged} acknowledged",
            entries.len()
        );
        assert_eq!(home.json(&["doctor"])["findings"], json!([]));
        let more = home.feed(&["append", "crash"], HELLO);
        assert_eq!(more.seqs(), [entries.len() as u64]);
    }
}

#[test]
fn all_is_stored_though_nobody_reads_the_acknowledgements() {
    let home = Home::new();
    let mut child = home.spawn(&["append", "--new", "--name", "plan"]);
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("its input");
    for _ in 0..20 {
        writeln!(input, "{HELLO}").expect("it keeps reading");
    }
    drop(input);
    let said = Said::from(child.wait_with_output().expect("it ends"));
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert_eq!(home.json(&["show", "plan"])["entries"].as_array().map(Vec::len), Some(20));
}

#[test]
fn eight_processes_on_one_session_lose_nothing() {
    let home = Home::new();
    home.session("busy", &[HELLO]);
    let children: Vec<_> = (0..8)
        .map(|writer| {
            let mut child = home.spawn(&["append", "busy"]);
            let mut input = child.stdin.take().expect("its input");
            for n in 0..50 {
                let line = json!({"role": "user", "content": format!("w{writer} m{n}"), "id": format!("{writer}-{n}")});
                writeln!(input, "{line}").expect("written");
            }
            child
        })
        .collect();
    let mut acknowledged = Vec::new();
    for child in children {
        let said = Said::from(child.wait_with_output().expect("it ends"));
        assert_eq!(said.code, 0, "{}", said.err);
        let seqs = said.seqs();
        assert!(seqs.is_sorted() && seqs.len() == 50);
        acknowledged.extend(seqs);
    }
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, (1..=400).collect::<Vec<u64>>());
    assert_eq!(home.json(&["show", "busy"])["entries"].as_array().map(Vec::len), Some(401));
    assert_eq!(home.json(&["list"])["sessions"][0]["messages"], 401);
    assert_eq!(home.json(&["doctor"])["findings"], json!([]));
}

#[test]
fn six_processes_that_append_under_a_new_key_share_one_session() {
    let home = Home::new();
    for round in 0..5 {
        let key = format!("file:{round}.md");
        let line = r#"{"role":"user","content":"hello"}"#;
        std::thread::scope(|scope| {
            for _ in 0..6 {
                let (home, key) = (&home, key.as_str());
                scope.spawn(move || {
                    let said = home.feed(&["append", "--key", key], line);
                    assert_eq!(said.code, 0, "{said:?}");
                });
            }
        });
    }
    let sessions = home.json(&["list", "--all"])["sessions"].clone();
    let sessions = sessions.as_array().expect("a list");
    assert_eq!(sessions.len(), 5, "{sessions:?}");
    assert!(sessions.iter().all(|session| session["messages"] == 6), "{sessions:?}");
}

#[test]
fn lines_that_arrive_together_are_acknowledged_up_to_the_one_that_is_refused() {
    let home = Home::new();
    home.session("plan", &[r#"{"role":"user","content":"first","id":"taken"}"#]);
    let lines = [
        r#"{"role":"user","content":"one","id":"one"}"#,
        r#"{"role":"user","content":"first","id":"taken"}"#,
        r#"{"role":"user","content":"two"}"#,
        r#"{"role":"user","content":"not the first","id":"taken"}"#,
        r#"{"role":"user","content":"never"}"#,
    ];
    let said = home.feed(&["append", "plan"], lines.join("\n") + "\n");
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("line 4"), "{said:?}");
    let seqs: Vec<u64> = said
        .out
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["seq"].as_u64().expect("a seq")
        })
        .collect();
    assert_eq!(seqs, [1, 0, 2], "what was there already is where it was");
    let shown = home.json(&["show", "plan"]);
    let texts: Vec<&str> = shown["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|entry| entry["content"].as_str())
        .collect();
    assert_eq!(texts, ["first", "one", "two"], "{shown}");
}
