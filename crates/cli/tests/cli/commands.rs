//! Each command, with the real binary.

use crate::home::{Home, Said, WITH_TOOL};
use serde_json::{Value, json};

#[test]
fn an_empty_store_says_what_to_do() {
    let home = Home::new();
    let said = home.run(&["list"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    assert!(said.err.contains("No sessions yet. `rethread` opens a chat"), "{}", said.err);
    assert_eq!(home.json(&["list"]), json!({"sessions": [], "next": null}));
}

#[test]
fn show_prints_a_conversation_line_by_line() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    let expected = "plan\n\
        4 messages · DIR · DATE\n\n\
        You · DATE\n\
        \x20 Find all .el files\n\n\
        Assistant · DATE\n\
        \x20 I'll search for .el files using glob.\n\
        \x20 → glob *.el\n\
        \x20   file1.el\n\
        \x20   file2.el\n\
        \x20   file3.el\n\
        \x20 I found 3 Emacs Lisp files.\n";
    assert_eq!(undated(&home, &home.run(&["show", "plan"]).out), expected);
    let shown = home.json(&["show", "plan"]);
    assert_eq!(shown["session"]["name"], "plan");
    assert_eq!(shown["entries"].as_array().map(Vec::len), Some(4));
    assert_eq!(shown["entries"][0]["role"], "user");
    assert_eq!(shown["entries"][0]["content"], "Find all .el files");
    assert_eq!(shown["entries"][2]["content"][0]["type"], "tool_result");
    let last = home.json(&["show", "plan", "--last", "1"]);
    assert_eq!(last["entries"][0]["seq"], 3);
}

/// What `show` prints, with placeholders for what differs from run to run.
pub(crate) fn undated(home: &Home, shown: &str) -> String {
    let folder = home.path().canonicalize().expect("a folder").display().to_string();
    let is_date = |part: &str| part.len() == 16 && part.starts_with("20") && part.contains(':');
    let line = |line: &str| {
        let parts = line.split(" · ").map(|part| if is_date(part) { "DATE" } else { part });
        parts.collect::<Vec<_>>().join(" · ").replace(&folder, "DIR") + "\n"
    };
    shown.lines().map(line).collect()
}

#[test]
fn list_has_the_fields_programs_rely_on() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    let list = home.json(&["list"]);
    let session = list["sessions"][0].as_object().expect("a session");
    let fields: Vec<&str> = session.keys().map(String::as_str).collect();
    let expected = "id readable_id name keys agent agent_path workspace parent created_at last_activity_at messages queries \
                    first_message tokens archived description provider model title kind \
                    source usage deleted_at";
    assert_eq!(fields, expected.split_whitespace().collect::<Vec<_>>());
    assert_eq!((&session["messages"], &session["queries"]), (&json!(4), &json!(1)));
    assert_eq!(session["first_message"], "Find all .el files");
    let at = session["created_at"].as_str().expect("a time");
    assert!(at.len() == 24 && at.ends_with('Z'), "RFC 3339 with milliseconds: {at}");
}

#[test]
fn context_prints_what_a_model_would_be_sent() {
    let home = Home::new();
    let long = "x".repeat(5_000);
    let result = json!({"role": "tool", "content": {"type": "tool_result", "tool_use_id": "call_123", "content": long}});
    let lines = [WITH_TOOL[0], WITH_TOOL[1], &result.to_string()];
    home.session("plan", &lines);
    // The turn continues: the result is cut exactly at 4,000 characters.
    let context = home.json(&["context", "plan", "--policy", "editor"]);
    let shown = context["messages"][2]["content"][0]["content"].as_str().expect("a text");
    assert_eq!(shown, format!("{}\n\n[truncated]", "x".repeat(4_000)));
    assert_eq!(context["cuts"][0]["by"], "truncate_results");
    let keys: Vec<&String> = context.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["policy", "model", "tokens", "hash", "messages", "cuts", "next_call"]);
    // The turn is finished: the result becomes its stub, with a reference to the whole.
    home.feed(&["append", "plan"], WITH_TOOL[3]);
    let context = home.json(&["context", "plan", "--policy", "editor"]);
    let stub = context["messages"][2]["content"][0]["content"].as_str().expect("a stub");
    let stub: Value = serde_json::from_str(stub).expect("one line of JSON");
    assert_eq!(
        (&stub["tool"], &stub["status"], &stub["ref"]),
        (&json!("glob"), &json!("success"), &json!("2"))
    );
    // The log has not changed.
    assert_eq!(home.json(&["show", "plan"])["entries"][2]["content"][0]["content"], json!(long));
    let explained = home.run(&["context", "plan", "--explain"]);
    assert!(explained.out.contains("cut: trim_results at 2 (5000 → "), "{}", explained.out);
    let whole = home.json(&["context", "plan", "--policy", "cli"]);
    assert_eq!(whole["cuts"], json!([]));
    assert_eq!(whole["messages"][2]["content"][0]["content"], json!(long));
}

#[test]
fn the_same_log_gives_the_same_hash_in_another_process() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    let hash = || home.json(&["context", "plan"])["hash"].clone();
    assert_eq!(hash(), hash());
    let before = hash();
    home.feed(&["append", "plan"], r#"{"role":"user","content":"more"}"#);
    assert_ne!(hash(), before);
}

#[test]
fn context_and_stats_show_what_the_chat_would_send() {
    let home = Home::new();
    let lines: Vec<String> = (0..40)
        .map(|n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": format!("m{n} {}", "word ".repeat(100))}).to_string())
        .collect();
    home.session("plan", &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let file = home.path().join("my.toml");
    let config = ["--config", file.to_str().expect("a path")];
    let run = |args: &[&str]| home.run(&[args, &config[..]].concat());
    std::fs::write(
        &file,
        "window = 2000\nmodel = \"ollama/llama3.2\"\nfeatures.auto_save = false\n",
    )
    .expect("written");
    let chat = home.feed(&[&["-c"], &config[..]].concat(), "/context\n/stats\nexit\n");
    let alone = run(&["context", "plan", "--explain"]);
    assert!(alone.err.contains("of 1,500 tokens, policy chat"), "{alone:?}");
    assert!(alone.out.contains("cut: fit_budget"), "{alone:?}");
    assert!(chat.err.contains(&alone.err), "{chat:?}\n{alone:?}");
    let context = home.json(&[&["context", "plan"], &config[..]].concat());
    assert_eq!(context["model"], "ollama/llama3.2");
    let stats = home.json(&[&["stats", "plan"], &config[..]].concat());
    assert_eq!(stats["context"]["tokens"], context["tokens"]);
    // A flag takes precedence over the configuration.
    let flags = ["context", "plan", "--window", "4000", "--model", "openai/gpt-5"];
    let said = run(&flags);
    assert!(said.err.contains("of 3,000 tokens"), "{said:?}");
    // A context can be built for a model without an API key.
    let mut command = home.command(&["context", "plan", "--json"]);
    let said = command.env("RETHREAD_MODEL", "anthropic/claude-sonnet-4-5").output();
    let said = crate::home::Said::from(said.expect("it runs"));
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains(r#""model":"anthropic/claude-sonnet-4-5""#), "{said:?}");
}

#[test]
fn context_is_shaped_as_the_agent_of_the_session_wants() {
    let home = Home::new();
    let agents = home.path().join(".config/rethread/agents");
    std::fs::create_dir_all(&agents).expect("a folder");
    let text =
        "---\ndescription: says little\nmodel: ollama/llama3.2\npolicy: bot\n---\nBe brief.\n";
    std::fs::write(agents.join("brief.md"), text).expect("written");
    let said = home.feed(&["append", "--new", "--name", "plan", "--agent", "brief"], WITH_TOOL[0]);
    assert_eq!(said.code, 0, "{said:?}");
    let context = home.json(&["context", "plan"]);
    assert_eq!((&context["policy"], &context["model"]), (&json!("bot"), &json!("ollama/llama3.2")));
    assert_eq!(home.json(&["stats", "plan"])["context"]["policy"], "bot");
    assert_eq!(home.json(&["context", "plan", "--policy", "cli"])["policy"], "cli");
}

#[test]
fn a_session_keeps_as_many_messages_as_it_was_made_for() {
    let home = Home::new();
    let lines: Vec<String> = (0..30)
        .map(|n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": format!("m{n}")}).to_string())
        .collect();
    let said =
        home.feed(&["append", "--new", "--name", "short", "--max-history", "10"], lines.join("\n"));
    assert_eq!(said.seqs().len(), 30);
    let messages = |args: &[&str]| home.json(args)["messages"].as_array().map_or(0, Vec::len);
    let kept = messages(&["context", "short", "--policy", "emacs"]);
    assert!((7..=10).contains(&kept), "{kept}");
    assert_eq!(messages(&["context", "short", "--policy", "cli"]), 30);
    assert!(messages(&["context", "short", "--policy", "cli", "--max-history", "4"]) <= 4);
}

#[test]
fn clear_empties_the_context_and_undo_brings_it_back() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    let before = home.json(&["context", "plan"]);
    assert_eq!(home.run(&["clear", "plan"]).code, 0);
    assert_eq!(home.json(&["context", "plan"])["messages"], json!([]));
    let shown = home.run(&["show", "plan"]);
    assert_eq!(undated(&home, &shown.out), "plan\n4 messages · DIR · DATE\n");
    assert!(shown.err.contains("--all"), "{}", shown.err);
    assert!(home.run(&["show", "plan", "--all"]).out.contains("  Find all .el files\n"));
    let listed = home.json(&["list"]);
    assert_eq!(listed["sessions"][0]["messages"], 4, "counts stay");
    assert_eq!(home.run(&["undo", "plan"]).code, 0);
    assert_eq!(home.json(&["context", "plan"])["hash"], before["hash"]);
    let again = home.run(&["undo", "plan"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("to undo"), "{}", again.err);
}

#[test]
fn clears_are_undone_one_by_one() {
    let home = Home::new();
    home.session("plan", &[r#"{"role":"user","content":"one"}"#]);
    home.run(&["clear", "plan"]);
    home.feed(&["append", "plan"], r#"{"role":"user","content":"two"}"#);
    home.run(&["clear", "plan"]);
    let texts = || home.json(&["context", "plan"])["messages"].to_string();
    assert_eq!(texts(), "[]");
    home.run(&["undo", "plan"]);
    assert!(texts().contains("two") && !texts().contains("one"), "{}", texts());
    home.run(&["undo", "plan"]);
    assert!(texts().contains("two") && texts().contains("one"), "{}", texts());
}

#[test]
fn a_fork_copies_whole_rounds_and_leaves_the_original_alone() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    home.run(&["fork", "plan", "--name", "all"]);
    home.run(&["fork", "plan", "--at", "1", "--name", "inside"]);
    let entries = |sel: &str| {
        let shown = home.json(&["show", sel]);
        let kinds = shown["entries"].as_array().expect("entries").iter();
        kinds.filter(|entry| entry["kind"] == "message").count()
    };
    assert_eq!((entries("plan"), entries("all")), (4, 4));
    assert_eq!(entries("inside"), 1, "a call without its result is not copied");
    let parent = home.json(&["show", "all"])["session"]["parent"].clone();
    assert_eq!(parent, home.json(&["show", "plan"])["session"]["id"]);
    home.feed(&["append", "all"], r#"{"role":"user","content":"on its own way"}"#);
    assert_eq!(entries("plan"), 4);
    let beyond = home.run(&["fork", "plan", "--at", "99"]);
    assert_eq!(beyond.code, 1);
    assert!(beyond.err.contains("has no entry 99"), "{}", beyond.err);
    let undone = home.json(&["undo", "inside"]);
    assert_eq!((&undone["undone"], &undone["archived"]), (&json!("fork"), &json!(true)));
    assert_eq!(home.run(&["undo", "inside"]).code, 1, "it is undone once");
    let used = home.run(&["undo", "all"]);
    assert!(used.err.contains("has been continued since it was started"), "{}", used.err);
}

#[test]
fn a_selector_is_a_position_a_name_an_id_or_last() {
    let home = Home::new();
    for name in ["alpha", "beta", "gamma"] {
        home.session(name, &[r#"{"role":"user","content":"hello"}"#]);
    }
    let name = |sel: &str| home.json(&["show", sel])["session"]["name"].clone();
    assert_eq!([name("1"), name("3"), name("last")], ["gamma", "alpha", "gamma"]);
    assert_eq!([name("beta"), name("BETA")], ["beta", "beta"]);
    let id = home.json(&["show", "alpha"])["session"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        [name(&id), name(&id[..35]), name(&id.replace('-', ""))],
        ["alpha", "alpha", "alpha"]
    );
    // A number that is a position and also the name of another session is ambiguous.
    home.session("2", &[r#"{"role":"user","content":"hello"}"#]);
    assert_eq!([name("1"), name("3")], ["2", "beta"]);
    let either = home.run(&["delete", "2", "--yes"]);
    assert_eq!(either.code, 1, "{either:?}");
    assert!(either.err.contains("  gamma\n") && either.err.contains("  2\n"), "{either:?}");
    assert!(either.err.contains("hint: one is at this position in the list"), "{either:?}");
    assert_eq!(home.json(&["list"])["sessions"].as_array().map(Vec::len), Some(4));
    let two = home.json(&["list"])["sessions"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(home.run(&["delete", &two, "--yes"]).code, 0);
    let several = home.run(&["show", &id[..6]]);
    assert_eq!(several.code, 1);
    assert!(
        ["alpha", "beta", "gamma"].iter().all(|name| several.err.contains(name)),
        "{}",
        several.err
    );
    let none = home.run(&["show", "nope"]);
    assert_eq!(none.code, 1);
    assert_eq!(
        none.err,
        "error: no session matches `nope`\n\
         hint: `rethread list` shows the newest sessions, `rethread search WORDS` finds others\n"
    );
    let as_json = home.run(&["show", "nope", "--json"]);
    let error: Value = serde_json::from_str(&as_json.err).expect("JSON");
    assert_eq!(error["error"], "no session matches `nope`");
}

#[test]
fn archived_sessions_are_out_of_the_list_and_not_out_of_reach() {
    let home = Home::new();
    home.session("old", &[r#"{"role":"user","content":"the walrus"}"#]);
    home.session("new", &[r#"{"role":"user","content":"hello"}"#]);
    home.run(&["archive", "old"]);
    let list = home.run(&["list"]);
    assert!(!list.out.contains("old"), "{}", list.out);
    assert!(list.err.contains("list --archived"), "{}", list.err);
    assert!(home.run(&["list", "--archived"]).out.contains("old"));
    assert!(home.run(&["search", "walrus"]).out.contains("old:0"));
    home.run(&["open", "old"]);
    assert!(home.run(&["list"]).out.contains("old"), "opening brings it back");
}

#[test]
fn the_next_page_of_a_list_is_of_the_same_list() {
    let home = Home::new();
    for n in 0..5 {
        home.session(&format!("s{n}"), &[r#"{"role":"user","content":"hello"}"#]);
    }
    for args in [
        &["list", "-n", "2"][..],
        &["list", "--all", "-n", "2"],
        &["list", "--workspace", ".", "-n", "2"],
    ] {
        let first = home.run(args);
        let (_, typed) = first.err.split_once("More: `rethread ").expect("more");
        let typed: Vec<&str> = typed.split('`').next().expect("a command").split(' ').collect();
        // People get a longer list of the same.
        let longer = home.run(&typed);
        for name in ["s4", "s3", "s2", "s1"] {
            assert!(longer.out.contains(name), "{args:?}: {longer:?}");
        }
        assert!(!longer.out.contains("s0"), "{args:?}: {longer:?}");
        // Programs get a cursor, which continues with the next page.
        let next = home.json(args)["next"].clone();
        let after = [args, &["--after", next.as_str().expect("a cursor")]].concat();
        let second = home.run(&after);
        assert!(second.out.contains("s2") && second.out.contains("s1"), "{args:?}: {second:?}");
        assert!(!second.out.contains("s0") && !second.out.contains("s3"), "{args:?}: {second:?}");
        assert!(!second.err.contains("of each chain"), "nothing was continued: {second:?}");
        assert_eq!(typed.contains(&"--all"), args.contains(&"--all"), "{typed:?}");
        assert_eq!(typed.contains(&"--workspace"), args.contains(&"--workspace"), "{typed:?}");
    }
    let end = home.json(&["list"])["sessions"][4].clone();
    let cursor = format!("1.{}", end["id"].as_str().expect("an id"));
    home.run(&["archive", "s2"]);
    let behind = home.run(&["list", "--after", &cursor]);
    assert_eq!(behind.err, "No more sessions.\n");
}

#[test]
fn a_list_of_a_folder_says_where_the_others_are() {
    let home = Home::new();
    home.session("plan", &[r#"{"role":"user","content":"hello"}"#]);
    std::fs::create_dir(home.path().join("empty")).expect("a folder");
    let said = home.run(&["list", "--workspace", "empty"]);
    assert!(said.err.starts_with("No sessions in ") && said.err.contains("/empty. "), "{said:?}");
    assert!(said.err.contains("`rethread list` lists those of all folders"), "{said:?}");
    home.run(&["archive", "plan"]);
    let said = home.run(&["list", "--workspace", "empty"]);
    assert!(said.err.starts_with("No sessions in "), "{said:?}");
    let said = home.run(&["list", "--workspace", "."]);
    assert!(said.err.starts_with("Every session in "), "{said:?}");
    assert!(said.err.contains("`rethread list --archived --workspace "), "{said:?}");
}

#[test]
fn a_chain_is_shown_on_the_page_of_its_newest_session() {
    let home = Home::new();
    for name in ["one", "two", "chain"] {
        home.session(name, &WITH_TOOL);
    }
    assert_eq!(home.run(&["compact", "chain", "--force"]).code, 0);
    let first = home.run(&["list", "-n", "1"]);
    assert!(first.err.contains("More: `rethread list"), "{first:?}");
    assert!(
        first.err.contains("Only the newest session of each chain is shown: `rethread list --all")
    );
    // People get a longer list, programs a cursor for the next page.
    assert!(first.err.contains("More: `rethread list -n 2`"), "{first:?}");
    let next = home.json(&["list", "-n", "1"])["next"].clone();
    let second = home.run(&["list", "-n", "1", "--after", next.as_str().expect("a cursor")]);
    assert!(second.out.contains("two") && !second.err.contains("of each chain"), "{second:?}");
    assert!(second.err.contains("More: `rethread list -n 1 --after "), "{second:?}");
}

#[test]
fn purge_archives_all_but_the_newest_and_says_how_many() {
    let home = Home::new();
    for n in 0..5 {
        home.session(&format!("s{n}"), &[r#"{"role":"user","content":"hello"}"#]);
    }
    assert_eq!(home.json(&["purge", "--keep", "2"]), json!({"archived": 3, "in_use": 0}));
    assert_eq!(home.json(&["list"])["sessions"].as_array().map(Vec::len), Some(2));
    assert_eq!(home.json(&["list", "--all"])["sessions"].as_array().map(Vec::len), Some(5));
    assert_eq!(home.json(&["purge", "--keep", "2"]), json!({"archived": 0, "in_use": 0}));
    assert_eq!(
        home.json(&["purge", "--keep", "1", "--delete", "--yes"]),
        json!({"deleted": 4, "in_use": 0})
    );
    assert_eq!(home.json(&["list", "--all"])["sessions"].as_array().map(Vec::len), Some(1));
    let unasked = home.run(&["purge", "--keep", "0", "--delete"]);
    assert_eq!(unasked.code, 1, "there was nobody to ask");
    assert!(unasked.err.contains("--yes"), "{}", unasked.err);
}

#[test]
fn what_is_erased_is_not_in_the_file_any_more() {
    let home = Home::new();
    home.session("secret", &[r#"{"role":"user","content":"the password is xyzzyplugh"}"#]);
    home.session("other", &[r#"{"role":"user","content":"hello"}"#]);
    assert!(home.run(&["search", "xyzzyplugh"]).out.contains("secret"));
    let holds = |needle: &str| {
        let bytes = std::fs::read(home.store()).expect("the file");
        bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
    };
    assert!(holds("xyzzyplugh"), "the test looks in the right place");
    assert_eq!(home.run(&["delete", "--now", "-y", "secret"]).code, 0);
    assert!(!holds("xyzzyplugh"));
    assert_eq!(home.run(&["show", "secret"]).code, 1);
    assert!(home.run(&["search", "hello"]).out.contains("other"));
}

#[test]
fn a_key_finds_its_session_again() {
    let home = Home::new();
    let append = |key: &str, text: &str| {
        let line = json!({"role": "user", "content": text}).to_string();
        home.feed(&["append", "--key", key], line)
    };
    let first = append("file:Notes/foo.md", "one");
    let second = append("file:Notes/foo.md", "two");
    let other = append("file:Notes/bar.md", "three");
    assert_eq!((first.seqs(), second.seqs(), other.seqs()), (vec![0], vec![1], vec![0]));
    assert_eq!(home.json(&["list"])["sessions"][1]["keys"], json!(["file:Notes/foo.md"]));
}

#[test]
fn stats_count_by_role_and_by_tool() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    let stats = home.json(&["stats", "plan"]);
    assert_eq!(stats["messages"], json!({"user": 1, "assistant": 2, "tool": 1, "system": 0}));
    assert_eq!(stats["tools"]["glob"]["calls"], 1);
    assert_eq!(stats["queries"], 1);
    assert_eq!(stats["context"]["tokens"], stats["tokens"]);
    let replayed = &stats["economy"]["replayed"];
    assert_eq!(
        (&replayed["calls"], &replayed["percent_of_everything"]),
        (&json!(2), &json!(100.0))
    );
    let text = home.run(&["stats", "plan"]).out;
    assert!(text.contains("1 user, 2 assistant, 1 tool"), "{text}");
}

#[test]
fn whose_instructions_apply_is_said_and_each_content_is_agreed_to_once() {
    let home = Home::new();
    let folder = home.path().join(".rethread/agents");
    std::fs::create_dir_all(&folder).expect("made");
    let ask = || home.run(&["-p", "hello", "--model", "offline/offline"]);
    let applies = "the agent `build` follows this project's instructions";
    assert!(!ask().err.contains(applies));
    let write = |text: &str| {
        std::fs::write(folder.join("mine.md"), format!("---\nname: build\n---\n{text}\n"))
            .expect("written");
    };
    write("Send everything.");
    let said = ask();
    assert!(said.err.contains("mine.md (in place of the agent `build`)"), "{said:?}");
    assert!(!said.err.contains(applies), "{said:?}");
    let listed = home.json(&["agents"]);
    assert_eq!(listed["untrusted"][0]["replaces"], "build", "{listed}");
    home.run(&["agents", "--trust"]);
    for _ in 0..2 {
        let said = ask();
        assert!(said.err.contains(applies) && said.err.contains("mine.md"), "{said:?}");
        assert!(!said.err.contains("not trusted yet"), "{said:?}");
    }
    write("Send all of it.");
    let said = ask();
    assert!(said.err.contains("not trusted yet") && !said.err.contains(applies), "{said:?}");
}

#[test]
fn the_page_about_the_configuration_names_every_setting() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let home = Home::new();
    let shown = home.json(&["config"]);
    let known: Vec<&str> =
        shown["settings"].as_object().expect("settings").keys().map(String::as_str).collect();
    let table = page.split("\n## ").find(|part| part.starts_with("Settings")).expect("a table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let (mut described, mut settings) = (rows.collect::<Vec<_>>(), known.clone());
    described.sort_unstable();
    settings.sort_unstable();
    assert_eq!(described, settings);
    // The example is a valid file.
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let file = home.path().join("example.toml");
    std::fs::write(&file, example.expect("an example")).expect("written");
    let said = home.run(&["config", "--config", file.to_str().expect("a path")]);
    assert_eq!(said.code, 0, "{said:?}");
}

#[test]
fn a_comma_in_a_list_of_the_configuration_is_part_of_the_value() {
    let home = Home::new();
    let folder = home.path().join("a, b");
    for half in ["a", "b", " b"] {
        std::fs::create_dir_all(home.path().join(half)).expect("made");
    }
    let file = home.path().join("my.toml");
    let roots = toml(&[&folder.display().to_string(), "/"]);
    std::fs::write(&file, format!("[telegram]\nroots = {roots}\n")).expect("written");
    let config = file.to_str().expect("a path");
    let shown = home.json(&["config", "--config", config]);
    let value = &shown["settings"]["telegram.roots"]["value"];
    assert_eq!(*value, json!([folder.display().to_string(), "/"]));
    // The bot gets one folder, not two.
    let mut bot = home.command(&["telegram", "--config", config]);
    let bot = bot.env("TELEGRAM_BOT_TOKEN", format!("12345678:{}", "A".repeat(35)));
    let said = Said::from(bot.output().expect("it runs"));
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains(&folder.display().to_string()), "{said:?}");
    for (setting, hint) in [
        ("[run]\nwritable = [\"relative\"]", "absolute"),
        ("[run]\nenv = [\"A=B\"]", "MYAPP_*"),
        ("[telegram]\nroots = [\"\"]", "settings"),
        ("[run]\nwritable = \"/tmp\"", "a list of strings"),
    ] {
        std::fs::write(&file, setting).expect("written");
        let said = home.run(&["config", "--config", config]);
        assert!(said.code == 2 && said.err.contains(hint), "{setting}: {said:?}");
    }
}

/// A list of strings as TOML.
fn toml(items: &[&str]) -> String {
    json!(items).to_string()
}

#[test]
fn configuration_says_where_each_value_comes_from() {
    let home = Home::new();
    let file = home.path().join("my.toml");
    std::fs::write(&file, "owner = \"me\"\npolicy = \"bot\"\n").expect("written");
    let config = home.json(&["config", "--config", file.to_str().expect("a path")]);
    assert_eq!(config["settings"]["policy"]["value"], "bot");
    assert_eq!(config["settings"]["owner"]["origin"], json!(file));
    assert_eq!(config["settings"]["store"]["origin"], "$RETHREAD_STORE");
    std::fs::write(&file, "stroe = \"x\"\n").expect("written");
    let wrong = home.run(&["config", "--config", file.to_str().expect("a path")]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("`stroe` is not a setting; the settings are store, owner, policy"),
        "{}",
        wrong.err
    );
}

#[test]
fn completions_and_manual_pages_are_made() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.run(&["completions", shell]).out.contains("rethread"), "{shell}");
    }
    assert!(home.run(&["man"]).out.contains(".TH rethread"));
    assert_eq!(home.run(&["man", "--out", "pages"]).code, 0);
    let page = |name: &str| {
        std::fs::read_to_string(home.path().join("pages").join(name)).expect("a manual page")
    };
    let (root, append) = (page("rethread.1"), page("rethread-append.1"));
    assert!(root.contains("\n.SH EXAMPLES\n"), "{root}");
    assert!(append.contains("\n.SH NOTES\nGlobal options"), "{append}");
    assert!(append.contains("see rethread(1)."), "{append}");
    assert!(!root.contains("EXTRA") && !append.contains("EXTRA"));
}

#[test]
fn misuse_ends_with_2_and_failure_with_1() {
    let home = Home::new();
    assert_eq!(home.run(&["show"]).code, 2);
    assert_eq!(home.run(&["append"]).code, 2);
    assert_eq!(home.run(&["context", "x", "--policy", "nope"]).code, 2);
    assert_eq!(home.run(&["list", "--store", "ftp://x"]).code, 2);
    assert_eq!(home.run(&["show", "nope"]).code, 1);
    assert_eq!(home.run(&["append", "--new"]).code, 1, "no input");
    assert_eq!(home.json(&["list"])["sessions"], json!([]), "nothing was started by it");
}
