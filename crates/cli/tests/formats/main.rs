//! Stores that earlier versions made: this version opens them, and nothing in them is lost.
//!
//! `1/` was made by the last version that wrote format 1, with its own commands: a session with
//! tools, usage and a key, cleared and continued; a fork of it that was compacted; one that was
//! archived, one that was undone, one that the offline model answered in, and one of another owner.
//! What that version exported of each is in `1/expected`.
//!
//! `2/files` is a directory as the last version left it that kept journals of its own in it: a
//! session with tools, usage and a key, cleared and continued; a fork of it, one that was archived,
//! one with an attachment, one of another owner, and one that another program wrote. `2/expected`
//! has what that version exported of the first four.

mod attachments;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rethread_store::testing::{Cluster, as_nobody};
use serde_json::Value;

const SESSIONS: [&str; 6] = ["garden", "garden-fork", "garden-fork-2", "asked", "attic", "undone"];

/// A place with a store in it, and a home.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: String,
}

impl Place {
    pub(crate) fn new(store: impl FnOnce(&Path) -> String) -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        Place { folder, store }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rethread"));
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("HOME", self.folder.path()).env("RETHREAD_STORE", &self.store);
        command
    }

    /// What a command prints, which must go well.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(args).output().expect("it runs");
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success(), "{args:?} on {}: {said}", self.store);
        String::from_utf8(stdout).expect("text")
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[args, &["--json"]].concat())).expect("JSON")
    }
}

fn made_by_format_1(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/1").join(name)
}

/// A file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::copy(from, to).expect("copied");
        return;
    }
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        copy(&path, &to.join(path.file_name().expect("a name")));
    }
}

fn sqlite() -> Place {
    Place::new(|folder| {
        copy(&made_by_format_1("store.db"), &folder.join("store.db"));
        format!("sqlite:{}", folder.join("store.db").display())
    })
}

fn files() -> Place {
    Place::new(|folder| {
        copy(&made_by_format_1("files"), &folder.join("files"));
        format!("files:{}", folder.join("files").display())
    })
}

fn journals() -> Place {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/2/files");
    Place::new(|folder| {
        copy(&made, &folder.join("files"));
        format!("files:{}", folder.join("files").display())
    })
}

/// Everything in it is unchanged.
fn journals_are_whole(place: &Place, _: &str) {
    for name in ["garden", "garden-fork", "attic", "picture"] {
        let expected = format!("tests/formats/2/expected/{name}.jsonl");
        let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join(expected);
        let expected = std::fs::read_to_string(expected).expect("an expectation");
        assert_eq!(place.run(&["export", name, "--format", "rethread"]), expected, "{name}");
    }
    let theirs = place.run(&["export", "2025-01-02-03-04-05-006-aB_9", "--format", "rethread"]);
    for said in [
        "where is the key?",
        "under the mat",
        r#"["metadata.name","Their Plan!"]"#,
        r#"["metadata.cut","\ud83d"]"#,
        r#"["tags",["a",  1.50]]"#,
        r#""imported":"files""#,
    ] {
        assert!(theirs.contains(said), "{said}: {theirs}");
    }
    let hers = place.json(&["list", "--owner", "alice"]);
    assert_eq!(hers["sessions"][0]["keys"][0], "chat:7", "{hers}");
    let doctor = place.json(&["doctor", "--check"]);
    assert_eq!(doctor["findings"], serde_json::json!([]), "{doctor}");
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/2/files");
    for name in ["2025-01-02-03-04-05-006-aB_9.json", "garden.json", "archive/attic.json"] {
        let now = std::fs::read(place.folder.path().join("files").join(name)).expect(name);
        assert_eq!(now, std::fs::read(made.join(name)).expect(name), "{name} is unchanged");
    }
}

fn database(url: &str) -> &str {
    url.rsplit('/').next().expect("a name")
}

fn postgres(cluster: &Cluster) -> Place {
    let url = cluster.database();
    let dump = std::fs::read_to_string(made_by_format_1("store.sql")).expect("a dump");
    cluster.sql(database(&url), &dump);
    Place::new(|_| url)
}

/// Everything is unchanged and intact.
fn is_whole(place: &Place, kind: &str) {
    for name in SESSIONS {
        let expected = made_by_format_1(&format!("expected/{kind}-{name}.jsonl"));
        let expected = std::fs::read_to_string(expected).expect("an expectation");
        let exported = place.run(&["export", name, "--format", "rethread"]);
        assert_eq!(exported, expected, "{kind}: {name}");
    }
    let doctor = place.json(&["doctor", "--check"]);
    assert_eq!(doctor["damaged"].as_u64().unwrap_or_default(), 0, "{kind}: {doctor}");
    assert_eq!(doctor["repairable"].as_u64().unwrap_or_default(), 0, "{kind}: {doctor}");
    let hers = place.json(&["list", "--owner", "alice"]);
    assert_eq!(hers["sessions"][0]["keys"][0], "chat:7", "{kind}: {hers}");
}

/// Usage totals are known without reading a log, for earlier messages as well.
fn is_counted(place: &Place, kind: &str) {
    let list = place.json(&["list", "--all"]);
    let session = |name: &str| {
        let all = list["sessions"].as_array().expect("sessions");
        all.iter().find(|session| session["name"] == name).cloned().expect(name)
    };
    let usage = session("garden")["usage"].clone();
    let claude = serde_json::json!({
        "input": 1260, "output": 65, "cache_read": 2800, "cache_write": 290, "ms": 0
    });
    assert_eq!(usage["anthropic/claude-sonnet-4-5"], claude, "{kind}: {usage}");
    assert_eq!(usage["openai/gpt-5"]["input"], 300, "{kind}: {usage}");
    assert_eq!(session("garden-fork")["usage"], serde_json::json!({}), "{kind}");
    assert_eq!(session("garden")["kind"], "chat", "{kind}");
}

fn is_brought_up_to_date(place: &Place, kind: &str) {
    is_whole(place, kind);
    is_counted(place, kind);
    let id = place.json(&["show", "garden"])["session"]["id"].clone();
    let mut child = place.command(&["append", "--key", "file:garden/notes.md"]);
    child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = child.spawn().expect("it runs");
    let line = r#"{"role":"assistant","content":"and more","model":"openai/gpt-5","usage":{"input":1,"output":2,"cache_read":3,"cache_write":4}}"#;
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), line.as_bytes())
        .expect("written");
    let told = child.wait_with_output().expect("it ends").stdout;
    let told: Value = serde_json::from_slice(&told).expect("JSON");
    assert_eq!(told["session"], id, "{kind}: the key still points there");
    let shown = place.json(&["list", "--all"]);
    let garden = shown["sessions"].as_array().expect("sessions").iter();
    let garden = garden.clone().find(|session| session["name"] == "garden").expect("there");
    assert_eq!(garden["usage"]["openai/gpt-5"]["input"], 301, "{kind}: {garden}");
}

#[test]
fn a_sqlite_store_of_format_1_is_brought_up_to_date() {
    let place = sqlite();
    is_brought_up_to_date(&place, "sqlite");
    assert!(!place.folder.path().join("store.db.format-1").exists(), "the copy is gone");
}

#[test]
fn a_directory_of_format_1_is_brought_up_to_date() {
    is_brought_up_to_date(&files(), "files");
}

#[test]
fn a_directory_with_journals_gets_a_database_and_loses_nothing_but_them() {
    let place = journals();
    let ours = place.folder.path().join("files/.rethread");
    journals_are_whole(&place, "");
    for name in ["logs", "blobs", "owners", "search.db", "sessions.db.part"] {
        assert!(!ours.join(name).exists(), "{name}");
    }
    // So that an earlier version does not begin again.
    let state = std::fs::read_to_string(ours.join("state")).expect("there");
    assert!(state.ends_with(" {\"ops\":[{\"format\":3}]}\n"), "{state}");
    let id = place.json(&["show", "garden"])["session"]["id"].clone();
    let session = place.json(&["open", "garden", "--key", "file:garden/notes.md"]);
    assert_eq!(session["session"]["id"], id, "the key still points there");
    assert_eq!(session["session"]["usage"]["anthropic/claude-sonnet-4-5"]["input"], 1260);
}

#[test]
fn a_directory_with_journals_that_cannot_be_written_is_read_and_left_as_it_is() {
    let place = journals();
    let folder = place.folder.path().join("files");
    let before = std::fs::read(folder.join(".rethread/state")).expect("there");
    let bind = format!("mount --bind {0} {0} && mount -o remount,ro,bind {0}", folder.display());
    let can = Command::new("unshare").args(["-m", "sh", "-c", &bind]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        println!("not run: mounting a read-only disk is not allowed here ({can:?})");
        return;
    }
    let binary = place.command(&[]).get_program().to_owned();
    let script = format!(
        "{bind} && export RETHREAD_STORE={} && {} export garden --format rethread",
        place.store,
        binary.to_string_lossy()
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
    let output = output.expect("it runs");
    let expected =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/2/expected/garden.jsonl");
    let expected = std::fs::read_to_string(expected).expect("an expectation");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
    assert_eq!(std::fs::read(folder.join(".rethread/state")).expect("there"), before);
    assert!(!folder.join(".rethread/sessions.db").exists());
}

#[test]
fn a_database_of_format_1_is_migrated_by_every_command() {
    let cluster = Cluster::start();
    is_brought_up_to_date(&postgres(&cluster), "postgres");
    // Several servers at once, and one that died after it had added a table.
    let place = postgres(&cluster);
    cluster.sql(database(&place.store), "ALTER TABLE rethread_sessions ADD COLUMN trashed bigint");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| place.run(&["list", "--all"]));
        }
    });
    is_brought_up_to_date(&place, "postgres");
}

/// Runs commands as someone who may read `store.db` and write nothing. The file must be as it was.
fn without_writing(place: &Place, commands: &[&[&str]]) -> Vec<Output> {
    let file = place.folder.path().join("store.db");
    let before = std::fs::read(&file).expect("read");
    let mode = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("changed");
    };
    mode(&file, 0o444);
    mode(place.folder.path(), 0o555);
    // A copy: an account that may write nothing may not reach the original either.
    let tools = tempfile::tempdir().expect("a folder");
    mode(tools.path(), 0o755);
    let binary = tools.path().join("rethread");
    std::fs::copy(env!("CARGO_BIN_EXE_rethread"), &binary).expect("copied");
    let run = |args: &&[&str]| {
        let mut command = as_nobody(&binary);
        command.args(*args).current_dir("/").env("HOME", "/nowhere");
        command.env("RETHREAD_STORE", &place.store);
        command.output().expect("it runs")
    };
    let outputs = commands.iter().map(run).collect();
    mode(place.folder.path(), 0o755);
    assert_eq!(std::fs::read(&file).expect("read"), before);
    outputs
}

#[test]
fn a_file_that_cannot_be_written_is_left_as_it_is_and_said_to_be_old() {
    let output = without_writing(&sqlite(), &[&["list"]]).remove(0);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("has format 1; this version reads 3"), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
}

#[test]
fn a_file_of_format_2_that_cannot_be_written_is_read_and_searched() {
    let place = sqlite();
    let expected = place.run(&["export", "garden", "--format", "rethread"]);
    let path = place.folder.path().join("store.db");
    let database = rusqlite::Connection::open(path).expect("the database");
    let earlier = "DROP TABLE search;
        CREATE VIRTUAL TABLE search USING fts5 (
            owner, text, content = '', tokenize = \"unicode61 remove_diacritics 2\"
        );
        DELETE FROM progress WHERE what = 'searched';
        INSERT OR REPLACE INTO progress VALUES ('indexed', 1000);
        PRAGMA user_version = 2;";
    database.execute_batch(earlier).expect("as it was");
    drop(database);
    let commands: [&[&str]; 3] =
        [&["list"], &["export", "garden", "--format", "rethread"], &["search", "bucket*"]];
    let outputs = without_writing(&place, &commands);
    for output in &outputs {
        assert!(output.status.success(), "{output:?}");
        assert!(!output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(String::from_utf8_lossy(&outputs[1].stdout), expected);
    // If it can be written, it is migrated.
    place.run(&["search", "bucket*"]);
    let database = rusqlite::Connection::open(place.folder.path().join("store.db"));
    let format: i64 = database
        .expect("the database")
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .expect("a format");
    assert_eq!(format, 3);
}

/// Kills the first command at its `n`th call of these, for every `n` until there are no more. After
/// any crash the next command finds everything.
fn killed_at_every(
    calls: &str,
    place: impl Fn() -> Place,
    kind: &str,
    is_whole: fn(&Place, &str),
) -> usize {
    for n in 1.. {
        let place = place();
        let binary = place.command(&["list"]);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-o", "/dev/null", "-e"]);
        strace.arg(format!("inject={calls}:retval=0:signal=KILL:when={n}"));
        strace.arg(binary.get_program()).args(binary.get_args()).env_clear();
        strace.env("HOME", place.folder.path()).env("RETHREAD_STORE", &place.store);
        let output = strace.current_dir(place.folder.path()).output().expect("strace runs");
        is_whole(&place, kind);
        if n % 5 == 1 && !kind.is_empty() {
            is_counted(&place, kind);
        }
        if output.status.success() {
            return n - 1;
        }
    }
    0
}

#[test]
fn a_crash_during_a_migration_loses_nothing() {
    for calls in ["fdatasync", "unlink", "ftruncate"] {
        assert!(killed_at_every(calls, sqlite, "sqlite", is_whole) > 0, "{calls}");
    }
    for calls in ["rename", "unlink"] {
        assert!(killed_at_every(calls, files, "files", is_whole) > 0, "{calls}");
    }
    for calls in ["fdatasync", "rename", "unlinkat"] {
        assert!(killed_at_every(calls, journals, "", journals_are_whole) > 0, "{calls}");
    }
}
