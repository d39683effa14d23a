//! `--store postgres://…` with every kind of command.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::CLUSTER;
use crate::served::command;

pub(crate) struct Home {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: String,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { folder: tempfile::tempdir().expect("a folder"), store: CLUSTER.database() }
    }

    pub(crate) fn feed(&self, args: &[&str], input: &str) -> (i32, String, String) {
        let mut command = command(self.folder.path(), &self.store, args);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    pub(crate) fn run(&self, args: &[&str]) -> (i32, String, String) {
        self.feed(args, "")
    }

    fn json(&self, args: &[&str]) -> Value {
        let (code, out, err) = self.run(&[args, &["--json"]].concat());
        assert_eq!(code, 0, "{args:?}: {err}");
        serde_json::from_str(&out).expect("JSON")
    }
}

#[test]
fn a_session_is_kept_found_copied_and_checked() {
    let home = Home::new();
    let lines = "{\"role\":\"user\",\"content\":\"where is the zebra?\"}\n\
                 {\"role\":\"assistant\",\"content\":\"in the zoo\"}\n";
    let (code, _, err) = home.feed(&["append", "--key", "file:a.md"], lines);
    assert_eq!(code, 0, "{err}");
    let list = home.json(&["list"]);
    assert_eq!(list["sessions"][0]["keys"], json!(["file:a.md"]));
    assert_eq!(list["sessions"][0]["messages"], 2);
    let name = list["sessions"][0]["name"].as_str().expect("a name");
    assert_eq!(home.json(&["show", "last"])["entries"][1]["content"], "in the zoo");
    assert_eq!(home.json(&["search", "zebra"])["hits"].as_array().map(Vec::len), Some(1));
    assert_eq!(home.run(&["rename", "last", "animals"]).0, 0);
    assert_eq!(home.run(&["fork", "animals"]).0, 0);
    assert_eq!(home.run(&["-p", "hello", "--model", "offline/offline"]).0, 0);

    // Exported to a file and imported into another database; every entry is compared.
    let file = home.folder.path().join("copy.db").display().to_string();
    let copied = home.json(&["copy", "--to", &file]);
    let added = copied["added"].as_u64().expect("a number");
    assert!(added >= 6, "{copied}");
    let other = Home::new();
    let back = other.json(&["copy", "--from", &file, "--to", &other.store]);
    assert_eq!(back["added"], added, "{back}");
    assert_eq!(other.json(&["copy", "--from", &file, "--to", &other.store])["added"], 0);
    let (mine, theirs) = (home.json(&["list", "--all"]), other.json(&["list", "--all"]));
    assert_eq!(mine, theirs);

    // The index lags until a search, and this is reported; then it is up to date.
    let lag = other.json(&["doctor"]);
    let what = lag["findings"][0]["what"].as_str().unwrap_or_default();
    assert!(what.starts_with("search has not indexed"), "{lag}");
    assert_eq!(lag["findings"][0]["state"], "noted");
    other.json(&["search", "zebra"]);
    assert_eq!(other.json(&["doctor"])["findings"], json!([]));
    assert_ne!(name, "animals");
    assert_eq!(home.run(&["delete", "animals", "--yes"]).0, 0);
}

#[test]
fn a_lost_search_index_is_noticed_and_rebuilt() {
    let home = Home::new();
    let (code, _, err) =
        home.feed(&["append", "--key", "file:a"], "{\"role\":\"user\",\"content\":\"zebra\"}\n");
    assert_eq!(code, 0, "{err}");
    home.json(&["search", "zebra"]);
    let database = home.store.rsplit('/').next().expect("a database");
    CLUSTER.sql(database, "DELETE FROM rethread_search");
    assert_eq!(home.json(&["search", "zebra"])["hits"], json!([]));
    let (code, out, _) = home.run(&["doctor", "--check"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("search did not have all of it"), "{out}");
    assert_eq!(home.run(&["doctor"]).0, 0);
    assert_eq!(home.json(&["search", "zebra"])["hits"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_password_is_shown_by_no_command() {
    let home = Home::new();
    let store = home.store.replace("rethread@", "rethread:sesame@");
    let secret = Home { folder: tempfile::tempdir().expect("a folder"), store };
    let nowhere = "postgres://ada:sesame@127.0.0.1:1/chat".to_owned();
    let gone = Home { folder: tempfile::tempdir().expect("a folder"), store: nowhere };
    for args in [&["config"][..], &["config", "--json"], &["list"], &["doctor"]] {
        let (code, out, err) = secret.run(args);
        assert_eq!(code, 0, "{args:?}: {err}");
        assert!(!out.contains("sesame") && !err.contains("sesame"), "{args:?}: {out}{err}");
    }
    let (_, out, _) = secret.run(&["config"]);
    assert!(out.contains("postgres://rethread@127.0.0.1"), "{out}");
    for args in [&["list"][..], &["list", "--json"]] {
        let (code, out, err) = gone.run(args);
        assert_eq!(code, 1, "{out}");
        assert!(err.contains("postgres://ada@127.0.0.1:1/chat cannot be reached"), "{err}");
        assert!(err.contains("check that the server is running"), "{err}");
        assert!(!err.contains("sesame"), "{err}");
    }
}

#[test]
fn access_tokens_live_in_the_database_too() {
    let home = Home::new();
    let (code, token, err) = home.run(&["token", "create", "laptop", "--owner", "ada"]);
    assert_eq!(code, 0, "{err}");
    assert!(token.starts_with("rt_"), "{token}");
    assert_eq!(home.json(&["token", "list"])["tokens"][0]["owner"], "ada");
}
