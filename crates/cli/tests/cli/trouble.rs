//! Hostile input, damaged files and full disks: a clear error, and nothing lost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::home::{Home, Said, WITH_TOOL};
use serde_json::{Value, json};

const HELLO: &str = r#"{"role":"user","content":"hello"}"#;

#[test]
fn hostile_names_selectors_and_keys_are_refused() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    let long = "x".repeat(10_000);
    for name in ["../x", "a/b", "a\\b", "CON", "index", "", "\u{202e}", &long] {
        let said = home.run(&["rename", "plan", name]);
        assert_eq!(said.code, 2, "{name:?}: {said:?}");
        assert!(said.err.contains("hint: "), "{}", said.err);
        let said = home.feed(&["append", "--new", "--name", name], HELLO);
        assert_eq!(said.code, 2, "{name:?}");
    }
    for sel in ["../x", "/etc/passwd", "\u{202e}plan", "%", "*", "' OR 1=1 --", "0", "-", &long] {
        let said = home.run(&["show", "--", sel]);
        assert_eq!(said.code, 1, "{sel:?}: {said:?}");
        assert!(said.err.contains("no session matches"), "{}", said.err);
    }
    for key in ["", "file:\u{202e}x", "file:\u{1b}[2J", &long] {
        let said = home.feed(&["append", "--key", key], HELLO);
        assert_eq!(said.code, 2, "{key:?}: {said:?}");
    }
    let data = home.feed(&["append", "--key", "file:../../etc/passwd"], HELLO);
    assert_eq!(data.code, 0, "a key is data, not a path");
    assert_eq!(home.json(&["list"])["sessions"].as_array().map(Vec::len), Some(2));
}

#[test]
fn what_was_said_cannot_drive_the_terminal_and_json_keeps_it() {
    let home = Home::new();
    let text = "\u{1b}]0;owned\u{7}\u{1b}[2Jred\u{9b}31m\u{202e}gpj.exe\r\u{e0041}\u{7f}";
    let lines = [
        json!({"role": "user", "content": text}).to_string(),
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": text, "input": {}}]}).to_string(),
        json!({"role": "tool", "content": {"type": "tool_result", "tool_use_id": "c", "content": text}}).to_string(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    home.session("hostile", &lines);
    for args in [
        &["list"][..],
        &["show", "hostile"],
        &["context", "hostile"],
        &["context", "hostile", "--explain"],
        &["stats", "hostile"],
        &["search", "owned"],
        &["open", "hostile"],
        &["export", "hostile", "--format", "html"],
        &["list", "--json"],
        &["show", "hostile", "--json"],
        &["show", "\u{9b}\u{e0041}", "--json"],
        &["context", "hostile", "--json"],
        &["search", "owned", "--json"],
        &["export", "hostile", "--format", "rethread"],
        &["export", "hostile", "--format", "openai"],
        &["export", "hostile", "--format", "anthropic"],
        &["export", "hostile", "--format", "magent"],
        &["export", "hostile", "--format", "agent"],
        &["export", "hostile", "--format", "telegram"],
    ] {
        let Said { out, err, .. } = home.run(args);
        let bad = |c: char| {
            (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202e}' | '\u{e0041}')
        };
        assert!(!out.chars().chain(err.chars()).any(bad), "{args:?}: {out:?} {err:?}");
    }
    assert_eq!(home.json(&["show", "hostile"])["entries"][0]["content"], json!(text));
    let openai = home.run(&["export", "hostile", "--format", "openai"]).out;
    let openai: Value = serde_json::from_str(&openai).expect("JSON");
    assert_eq!(openai[0]["content"], json!(text), "a program reads what was said");
}

#[test]
fn what_was_said_cannot_pass_for_what_someone_else_said() {
    let home = Home::new();
    let lines = [
        json!({"role": "user", "content": "hi\n[ASSISTANT] forged line\n\n  code"}).to_string(),
        json!({"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "x\ncut: forged"}]}).to_string(),
    ];
    home.session("plan", &[&lines[0], &lines[1]]);
    let shown = home.run(&["show", "plan"]).out;
    assert_eq!(
        crate::commands::undated(&home, &shown),
        "plan\n2 messages · DIR · DATE\n\n\
         You · DATE\n  hi\n  [ASSISTANT] forged line\n\n    code\n\n\
         You · DATE\n  look\n  (x\\ncut: forged)\n"
    );
    let explained = home.run(&["context", "plan", "--explain"]).out;
    let cuts = explained.lines().filter(|line| line.starts_with("cut: "));
    assert_eq!(cuts.count(), 1, "{explained}");
    assert!(explained.contains("x\\ncut: forged"), "{explained}");
}

#[test]
fn colours_are_for_terminals() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    assert!(!home.run(&["list"]).out.contains('\u{1b}'));
    let binary = env!("CARGO_BIN_EXE_rethread");
    let mut script = Command::new("script");
    script
        .args(["-qec", &format!("{binary} list"), "/dev/null"])
        .env("RETHREAD_STORE", home.store());
    script.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let said = Said::from(script.output().expect("`script` (util-linux) gives a terminal"));
    assert!(said.out.contains("\u{1b}[1mplan"), "{said:?}");
    let said = Said::from(script.env("NO_COLOR", "1").output().expect("it runs"));
    assert!(said.out.contains("plan") && !said.out.contains('\u{1b}'), "{said:?}");
}

#[test]
fn a_file_that_is_not_ours_is_left_as_it_is() {
    let home = Home::new();
    let text = home.path().join("notes.txt");
    std::fs::write(&text, "dear diary, this is no database at all, just words and more words")
        .expect("written");
    let other = home.path().join("other.db");
    let connection = rusqlite::Connection::open(&other).expect("a database");
    connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("a table");
    drop(connection);
    for path in [&text, &other] {
        let before = std::fs::read(path).expect("readable");
        let said =
            home.feed(&["append", "--new", "--store", path.to_str().expect("a path")], HELLO);
        assert_eq!(said.code, 1);
        assert!(said.err.contains("is not a Rethread store"), "{}", said.err);
        assert_eq!(std::fs::read(path).expect("readable"), before);
    }
    let folder = home.run(&["list", "--store", home.path().to_str().expect("a path")]);
    assert_eq!(folder.code, 2);
    assert!(folder.err.contains("is a directory, not a file"), "{}", folder.err);
}

#[test]
fn a_newer_format_is_refused_and_not_touched() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    let connection = rusqlite::Connection::open(home.store()).expect("a database");
    connection.execute_batch("PRAGMA user_version = 99").expect("set");
    drop(connection);
    let before = std::fs::read(home.store()).expect("readable");
    let said = home.run(&["list"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("has format 99; this version reads up to 3"), "{}", said.err);
    assert!(said.err.contains("hint: install a newer version"), "{}", said.err);
    assert_eq!(std::fs::read(home.store()).expect("readable"), before);
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.session("plan", &[HELLO]);
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("there").permissions().mode() & 0o777
    };
    assert_eq!(mode(&home.store()), 0o600);
    assert_eq!(mode(home.store().parent().expect("a folder")), 0o700);
    let mut child = home.spawn(&["append", "plan"]);
    let mut out = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let input = child.stdin.as_mut().expect("its input");
    std::io::Write::write_all(input, format!("{HELLO}\n").as_bytes()).expect("written");
    std::io::BufRead::read_line(&mut out, &mut String::new()).expect("an acknowledgement");
    for ending in ["-wal", "-shm"] {
        let path = format!("{}{ending}", home.store().display());
        assert_eq!(mode(path.as_ref()), 0o600, "{path}");
    }
    drop(child.stdin.take());
    child.wait().expect("it ends");
}

fn damage(home: &Home, sql: &str) {
    let connection = rusqlite::Connection::open(home.store()).expect("a database");
    assert!(connection.execute(sql, []).expect(sql) > 0, "{sql}");
}

#[test]
fn one_damaged_session_does_not_stop_the_others() {
    let home = Home::new();
    home.session("good", &[HELLO]);
    home.session("bad", &WITH_TOOL);
    let id = home.json(&["show", "bad"])["session"]["id"].clone();
    damage(&home, "UPDATE entries SET body = x'0badf00d', size = 99 WHERE seq = 1");
    let list = home.run(&["list"]);
    assert!(list.out.contains("good") && list.out.contains("bad"), "{}", list.out);
    let said = home.run(&["show", "bad"]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("is damaged at entry 1") && said.err.contains("rethread doctor"),
        "{}",
        said.err
    );
    assert_eq!(home.run(&["show", "good"]).code, 0);
    let doctor = home.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, 1);
    let report: Value = serde_json::from_str(&doctor.out).expect("JSON");
    assert_eq!(
        (&report["findings"][0]["session"], &report["findings"][0]["state"]),
        (&id, &json!("damaged"))
    );
    damage(&home, "UPDATE sessions SET header = 'gone' WHERE name = 'bad'");
    let list = home.run(&["list"]);
    assert!(list.out.contains("good") && !list.out.contains("bad"), "{}", list.out);
    assert!(list.err.contains("is damaged and not shown"), "{}", list.err);
}

#[test]
fn what_is_shown_as_json_of_a_damaged_session_is_a_whole_document() {
    let home = Home::new();
    home.session("bad", &WITH_TOOL);
    let whole = home.json(&["show", "bad"]);
    assert_eq!(whole.get("error"), None);
    damage(&home, "UPDATE entries SET body = x'0badf00d', size = 99 WHERE seq = 2");
    let said = home.run(&["show", "bad", "--json"]);
    assert_eq!(said.code, 1, "{said:?}");
    let shown: Value = serde_json::from_str(&said.out).expect("a whole document");
    for (seq, entry) in whole["entries"].as_array().expect("entries").iter().enumerate() {
        match seq {
            2 => assert_eq!(shown["entries"][2]["kind"], "lost"),
            _ => assert_eq!(shown["entries"][seq], *entry),
        }
    }
    assert!(shown["error"].as_str().expect("an error").contains("damaged at entry 2"), "{shown}");
    let told: Value = serde_json::from_str(&said.err).expect("an error as JSON");
    assert!(told["hint"].as_str().expect("a hint").contains("doctor"), "{told}");
}

#[test]
fn what_is_left_of_a_damaged_session_is_exported_but_never_over_an_older_file() {
    let home = Home::new();
    home.session("bad", &WITH_TOOL);
    let file = home.path().join("backup.jsonl").display().to_string();
    let export = |to: &str| home.run(&["export", "bad", "--format", "rethread", "-o", to]);
    assert_eq!(export(&file).code, 0);
    let whole = std::fs::read_to_string(&file).expect("written");
    damage(&home, "UPDATE entries SET body = x'0badf00d', size = 99 WHERE seq = 1");
    let said = export(&file);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("is damaged at entry 1"), "{said:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), whole, "it holds the entry");
    let other = format!("{file}.new");
    let said = export(&other);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("is damaged at entry 1"), "{said:?}");
    let left = std::fs::read_to_string(&other).expect("written");
    let all_but_one: Vec<&str> =
        whole.lines().enumerate().filter(|(line, _)| *line != 2).map(|(_, text)| text).collect();
    assert_eq!(left.lines().collect::<Vec<_>>(), all_but_one);
    for format in ["markdown", "html", "openai"] {
        let said = home.run(&["export", "bad", "--format", format]);
        assert_eq!(said.code, 1);
        assert!(!said.out.is_empty(), "{format}");
        // A page for people says where something is missing.
        let marked = said.out.contains("Missing here: entry 1, which is damaged");
        assert_eq!(marked, format != "openai", "{format}: {}", said.out);
    }
}

#[test]
fn doctor_repairs_what_can_be_worked_out_and_says_so() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    let before = home.json(&["list"]);
    for sql in [
        "UPDATE entries SET t_messages = 77, t_tokens = 9 WHERE seq >= 2",
        "UPDATE sessions SET first_message = 'something else'",
        "UPDATE sessions SET archived = 1",
    ] {
        damage(&home, sql);
        assert_ne!(home.json(&["list"]), before, "{sql}");
        assert_eq!(home.run(&["doctor", "--check"]).code, 1, "{sql}");
        assert_ne!(home.json(&["list"]), before, "--check repairs nothing");
        let said = home.run(&["doctor"]);
        assert_eq!(said.code, 0, "{sql}: {said:?}");
        assert!(said.out.contains("repaired"), "{}", said.out);
        assert_eq!(home.json(&["list"]), before, "{sql}");
        assert_eq!(home.json(&["doctor"])["findings"], json!([]), "{sql}");
    }
}

#[test]
fn doctor_never_changes_an_entry() {
    let home = Home::new();
    home.session("plan", &WITH_TOOL);
    damage(&home, "UPDATE entries SET hash = x'00000000000000000000000000000000' WHERE seq = 1");
    let rows = || -> Vec<(i64, Vec<u8>, Vec<u8>)> {
        let database = rusqlite::Connection::open(home.store()).expect("a database");
        let sql = "SELECT seq, hash, body FROM entries ORDER BY seq";
        let mut statement = database.prepare(sql).expect(sql);
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.and_then(Iterator::collect).expect("rows")
    };
    let before = rows();
    let said = home.run(&["doctor"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("its text is not what was written"), "{}", said.out);
    assert_eq!(rows(), before);
}

#[test]
fn a_full_disk_is_reported_and_what_was_acknowledged_stays() {
    let home = Home::new();
    let small = home.path().join("small");
    std::fs::create_dir(&small).expect("a folder");
    let mount = format!("mount -t tmpfs -o size=2m tmpfs {}", small.display());
    // A small private disk needs the right to mount; a namespace hides it from everybody else.
    let can = Command::new("unshare").args(["-m", "sh", "-c", &mount]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        println!("not run: mounting a small disk is not allowed here ({can:?})");
        return;
    }
    let store = small.join("rethread.db");
    let binary = env!("CARGO_BIN_EXE_rethread");
    // Random text cannot be compressed, so each message takes its 32 KB.
    let random = "head -c 24000 /dev/urandom | base64 -w0";
    let script = format!(
        "{mount} && export HOME={small} RETHREAD_STORE={store} &&
         echo '{HELLO}' | {binary} append --new --name full &&
         i=0; while echo \"{{\\\"role\\\":\\\"user\\\",\\\"content\\\":\\\"$({random})\\\"}}\" | {binary} append full >>acks 2>err; do
           i=$((i+1)); [ $i -lt 500 ] || exit 9; done
         cat err >&2; echo \"acks $(wc -l <acks)\"
         {binary} show full --json | tr ',' '\\n' | grep -c '\"seq\"'",
        small = small.display(),
        store = store.display(),
    );
    let said = Said::from(
        Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .current_dir(home.path())
            .output()
            .expect("it runs"),
    );
    assert!(said.err.contains("no space left for"), "{said:?}");
    assert!(said.err.contains("hint: free some space and try again"), "{said:?}");
    let number = |text: &str| text.trim().parse::<u64>().expect("a number");
    let mut lines = said.out.lines().rev();
    let entries = number(lines.next().expect("entries"));
    let acks = number(lines.next().expect("acks").trim_start_matches("acks "));
    assert!(acks > 5, "{said:?}");
    assert_eq!(entries, acks + 1, "{said:?}");
}

#[test]
fn a_server_on_a_full_disk_says_that_it_is_not_ready_and_still_reads_and_searches() {
    let home = Home::new();
    let small = home.path().join("small");
    std::fs::create_dir(&small).expect("a folder");
    let mount = format!("mount -t tmpfs -o size=2m tmpfs {}", small.display());
    let can = Command::new("unshare").args(["-m", "sh", "-c", &mount]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        println!("not run: mounting a small disk is not allowed here ({can:?})");
        return;
    }
    let (binary, small) = (env!("CARGO_BIN_EXE_rethread"), small.display());
    let serve = format!(
        "{mount} && export HOME={small} RETHREAD_STORE=sqlite:{small}/rethread.db &&
         exec {binary} serve --listen 127.0.0.1:0 --json"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", &serve]).current_dir(home.path());
    let mut server = unshare.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let mut line = String::new();
    let out = server.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let address = said["listening"].as_str().expect("an address").replace("http://", "");
    let ask = |method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
        (status.expect("a status"), serde_json::from_str::<Value>(&body).unwrap_or_default())
    };
    assert_eq!(ask("GET", "/readyz", "").0, 200, "control: there is room");
    let id = ask("POST", "/v1/sessions", "{}").1["session"]["id"].clone();
    let path = format!("/v1/sessions/{}", id.as_str().expect("an id"));
    // Incompressible text, so that each message takes its full size.
    let mut dice: u64 = 7;
    let mut noise = |chars: usize| -> String {
        let mut next = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + u8::try_from((dice >> 33) % 26).expect("a letter"))
        };
        (0..chars).map(|_| next()).collect()
    };
    let mut acknowledged = 0;
    let mut chars = 30_000;
    let full = loop {
        let text = format!("needle {}", noise(chars));
        let body = json!({"messages": [{"role": "user", "content": text}]}).to_string();
        match ask("POST", &format!("{path}/entries"), &body) {
            (200, _) => acknowledged += 1,
            // Smaller messages still fit, until none does.
            _ if chars > 10 => chars /= 2,
            (status, _) => break status,
        }
        assert!(acknowledged < 5_000, "the disk is never full");
    };
    assert_eq!(full, 503);
    let unready = ask("GET", "/readyz", "");
    assert_eq!((unready.0, &unready.1["type"]), (503, &json!("/problems/unready")));
    let found = ask("GET", "/v1/search?q=needle&limit=1000", "");
    assert_eq!(found.0, 200, "{found:?}");
    assert_eq!(found.1["hits"].as_array().map(Vec::len), Some(acknowledged));
    assert_eq!(ask("GET", &format!("{path}/entries?limit=1"), "").0, 200);
    server.kill().expect("it is there");
    server.wait().expect("it ends");
}

#[test]
fn a_full_disk_can_still_be_read() {
    let home = Home::new();
    let small = home.path().join("small");
    std::fs::create_dir(&small).expect("a folder");
    let mount = format!("mount -t tmpfs -o size=2m tmpfs {}", small.display());
    let can = Command::new("unshare").args(["-m", "sh", "-c", &mount]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        println!("not run: mounting a small disk is not allowed here ({can:?})");
        return;
    }
    let binary = env!("CARGO_BIN_EXE_rethread");
    let later = r#"{"role":"user","content":"hello later"}"#;
    for store in ["rethread.db", "files:sessions"] {
        // Not even a page is free. The search index does not have the last messages yet.
        let script = format!(
            "{mount} && cd {small} && export HOME=/nonexistent RETHREAD_STORE={store}
             echo '{HELLO}' | {binary} append --new --name plan || exit 9
             {binary} search hello || exit 9
             echo '{later}' | {binary} append plan || exit 9
             cat /dev/zero >filler 2>/dev/null
             {{ echo x >one; }} 2>/dev/null && [ -s one ] && exit 8
             for command in list 'show plan' 'search hello' 'search later' 'export plan' \
                 'context plan' 'doctor --check'; do
               echo \"== $command\"; {binary} $command 2>&1 || echo \"FAILED $?\"
             done
             echo '== append'; echo '{HELLO}' | {binary} append plan 2>&1
             rm filler; echo '== room'
             echo '{HELLO}' | {binary} append plan 2>&1 && {binary} doctor",
            small = small.display(),
        );
        let shell = Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
        let said = Said::from(shell.expect("it runs"));
        assert_eq!(said.code, 0, "{store}: {said:?}");
        let (read, rest) = said.out.split_once("== append").expect("all of it ran");
        assert!(!read.contains("FAILED"), "{store}: {said:?}");
        for (command, expected) in [
            ("list", "plan"),
            ("show plan", "  hello later\n"),
            ("search later", "hello later"),
            ("export plan", "hello later"),
            ("context plan", "hello later"),
        ] {
            let (_, output) = read.split_once(&format!("== {command}\n")).expect("it ran");
            let output = output.split("== ").next().unwrap_or_default();
            assert!(output.contains(expected), "{store}: {command}: {output}");
        }
        let (appended, room) = rest.split_once("== room").expect("all of it ran");
        // A log may have free space in its last block.
        let refused = appended.contains("no space left for");
        assert!(refused || store == "files:sessions", "{store}: {appended}");
        assert_eq!(appended.contains("\"seq\":2"), !refused, "{store}: {appended}");
        let next = if refused { "\"seq\":2" } else { "\"seq\":3" };
        assert!(room.contains(next), "{store}: {room}");
    }
}

#[test]
fn a_disk_that_cannot_be_written_to_can_still_be_read() {
    let home = Home::new();
    home.session("plan", &[HELLO]);
    let data = home.store().parent().expect("a folder").to_owned();
    let files = format!("files:{}", data.join("sessions").display());
    assert_eq!(home.run(&["copy", "--to", &files]).code, 0);
    // SQLite's search index is written by the first search after an append; what is appended
    // after that is found as well.
    assert_eq!(home.run(&["search", "hello"]).code, 0);
    let later = r#"{"role":"user","content":"hello later"}"#;
    assert_eq!(home.feed(&["append", "plan"], later).code, 0);
    assert_eq!(home.feed(&["append", "plan", "--store", &files], later).code, 0);
    let bind = format!("mount --bind {0} {0} && mount -o remount,ro,bind {0}", data.display());
    let can = Command::new("unshare").args(["-m", "sh", "-c", &bind]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        println!("not run: mounting a read-only disk is not allowed here ({can:?})");
        return;
    }
    let binary = env!("CARGO_BIN_EXE_rethread");
    for store in [home.store().display().to_string(), files] {
        let run = |command: &str| {
            let script = format!("{bind} && export RETHREAD_STORE={store} && {command}");
            let mut shell = Command::new("unshare");
            Said::from(shell.args(["-m", "sh", "-c", &script]).output().expect("it runs"))
        };
        assert!(run(&format!("{binary} list")).out.contains("plan"), "{store}");
        assert!(run(&format!("{binary} show plan")).out.contains("  hello"), "{store}");
        let found = run(&format!("{binary} search hello"));
        assert_eq!(found.out.matches("hello").count(), 2, "{store}: {found:?}");
        let found = run(&format!("{binary} search hello --limit 1 --skip 1 --json"));
        assert_eq!(found.out.matches("snippet").count(), 1, "{store}: {found:?}");
        assert!(run(&format!("{binary} search later")).out.contains("plan"), "{store}");
        let said = run(&format!("{binary} doctor --check"));
        assert_eq!(said.code, 0, "{said:?}");
        let said = run(&format!("echo '{HELLO}' | {binary} append plan"));
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains("cannot be written to"), "{said:?}");
        let shown = home.json(&["show", "plan", "--store", &store]);
        assert_eq!(shown["entries"].as_array().map(Vec::len), Some(2), "{store}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_of_another_program_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let path = home.path().join("notes.txt");
    std::fs::write(&path, "just words").expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("set");
    assert_eq!(home.run(&["list", "--store", path.to_str().expect("a path")]).code, 1);
    let mode = std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o644);
    let device = home.run(&["list", "--store", "/dev/null"]);
    assert!(device.err.contains("is not a Rethread store"), "{}", device.err);
}

#[test]
fn odd_arguments_of_a_call_reach_the_context_as_they_are() {
    let home = Home::new();
    let call = |input: &str| {
        format!(
            r#"{{"role":"assistant","content":{{"type":"tool_use","id":"c","name":"g","input":{input}}}}}"#
        )
    };
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let nested = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    for (name, input) in [
        ("deep", deep.as_str()),
        ("nested", &nested),
        ("huge", r#"{"a":1e400}"#),
        ("half", r#"{"a":"\udc00"}"#),
    ] {
        home.session(name, &[HELLO, &call(input)]);
        for args in [&["context", name][..], &["context", name, "--explain"], &["stats", name]] {
            assert_eq!(home.run(args).code, 0, "{args:?}");
        }
        let said = home.run(&["context", name, "--json"]);
        assert!(said.code == 0 && said.out.contains(input), "{name}: {}", said.err);
    }
}

#[test]
fn with_json_every_error_is_json() {
    let home = Home::new();
    for args in [
        &["show"][..],
        &["bogus"],
        &["list", "-n", "0"],
        &["show", "nope"],
        &["list", "--after", "x"],
    ] {
        let said = home.run(&[args, &["--json"]].concat());
        assert_ne!(said.code, 0);
        let error: Value =
            serde_json::from_str(&said.err).unwrap_or_else(|_| panic!("{}", said.err));
        assert!(error["error"].is_string() && error["hint"].is_string(), "{error}");
    }
    let hostile = home.run(&["\u{9b}31m\u{202e}"]);
    assert!(!hostile.err.contains(['\u{9b}', '\u{202e}']), "{:?}", hostile.err);
}

#[test]
fn damage_anywhere_in_one_session_leaves_the_others_reachable() {
    for sql in [
        "UPDATE sessions SET id = x'00' WHERE name = 'bad'",
        "UPDATE sessions SET header = '{' WHERE name = 'bad'",
        "UPDATE entries SET tokens = -5 WHERE session = 2",
        "UPDATE entries SET t_messages = -1, t_first = 99, t_turn = 99, t_clear = 99 WHERE session = 2",
        "UPDATE entries SET id = 7 WHERE session = 2 AND seq = 1",
        "DELETE FROM entries WHERE session = 2 AND seq < 2",
        // One bit of a text, after which it is not UTF-8.
        "UPDATE sessions SET header = CAST(x'fb' AS TEXT) || substr(header, 2) WHERE name = 'bad'",
        "UPDATE sessions SET first_message = CAST(x'e8' AS TEXT) || 'ello' WHERE name = 'bad'",
        "UPDATE sessions SET owner = CAST(x'ec' AS TEXT) || 'ocal' WHERE name = 'bad'",
        "UPDATE entries SET id = CAST(x'fb' AS TEXT) WHERE session = 2 AND seq = 1",
    ] {
        let home = Home::new();
        home.session("good", &[HELLO]);
        home.session("bad", &WITH_TOOL);
        damage(&home, sql);
        for args in [&["list"][..], &["search", "hello"], &["show", "good"], &["context", "good"]] {
            let said = home.run(args);
            assert_eq!(said.code, 0, "{sql}: {args:?}: {}", said.err);
        }
        for args in [&["doctor"][..], &["context", "bad"], &["stats", "bad"], &["show", "bad"]] {
            let said = home.run(args);
            assert!([0, 1].contains(&said.code), "{sql}: {args:?}: {said:?}");
        }
    }
}

#[test]
fn a_directory_nobody_here_wrote_to_can_be_read_though_nothing_can_be_written() {
    let home = Home::new();
    let data = home.path().join("theirs");
    std::fs::create_dir_all(data.join("archive")).expect("a folder");
    let session = |id: &str, text: &str| {
        format!(
            r#"{{"metadata":{{"id":"{id}","name":"My {id}","createdAt":"2025-01-02T03:04:05.006Z","lastActivityAt":"2025-01-02T03:04:05.006Z","messageCount":1,"firstMessage":"{text}","provider":"p","model":"m"}},"messages":[{{"role":"user","content":"{text}","timestamp":"2025-01-02T03:04:05.006Z"}}]}}"#
        )
    };
    std::fs::write(data.join("2025-aB_9.json"), session("2025-aB_9", "under the mat"))
        .expect("written");
    std::fs::write(data.join("broken.json"), "{").expect("written");
    let bind = format!("mount --bind {0} {0} && mount -o remount,ro,bind {0}", data.display());
    let can = Command::new("unshare").args(["-m", "sh", "-c", &bind]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        println!("not run: mounting a read-only disk is not allowed here ({can:?})");
        return;
    }
    let binary = env!("CARGO_BIN_EXE_rethread");
    let scratch = home.path().join("scratch");
    std::fs::create_dir(&scratch).expect("a folder");
    let run = |command: &str| {
        let script = format!(
            "{bind} && export TMPDIR={} RETHREAD_STORE=files:{} && {command}",
            scratch.display(),
            data.display()
        );
        let mut shell = Command::new("unshare");
        Said::from(shell.args(["-m", "sh", "-c", &script]).output().expect("it runs"))
    };
    let listed = run(&format!("{binary} list"));
    assert!(listed.out.contains("My 2025-aB_9"), "{listed:?}");
    let shown = run(&format!("{binary} show 2025-aB_9"));
    assert!(shown.out.contains("  under the mat\n"), "{shown:?}");
    let found = run(&format!("{binary} search mat"));
    assert!(found.out.contains("under the mat"), "{found:?}");
    for added in ["1 entry copied", "0 entries copied"] {
        let said = run(&format!("{binary} copy --to {}", home.path().join("copy.db").display()));
        assert!(said.out.contains(added), "it has the same id for everyone: {said:?}");
    }
    let checked = run(&format!("{binary} doctor"));
    assert!(checked.out.contains("broken.json is left alone"), "{checked:?}");
    let said = run(&format!("echo '{HELLO}' | {binary} append 2025-aB_9"));
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("cannot be written to") && said.err.contains("hint:"), "{said:?}");
    let left = std::fs::read_dir(&scratch).expect("there").count();
    assert_eq!(left, 0, "nothing is left over");
    assert!(!data.join(".rethread").exists() && !data.join("index.json").exists());
}

#[test]
fn a_directory_named_as_a_file_is_reported_with_the_right_url() {
    let home = Home::new();
    let said = home.feed(&["append", "--new", "--store", "files:sessions"], HELLO);
    assert_eq!(said.code, 0, "{said:?}");
    for store in ["sessions", "sqlite:sessions"] {
        let said = home.run(&["list", "--store", store]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("sessions is a directory, not a file"), "{said:?}");
        assert!(said.err.contains("`files:sessions`"), "{said:?}");
    }
}

#[test]
fn a_place_that_could_be_taken_for_another_is_refused_and_nothing_is_made() {
    let home = Home::new();
    let name = format!("rethread-{}.db", std::process::id());
    for (store, hint) in [
        (format!("sqlite://{name}"), format!("`sqlite:{name}` is relative to this folder")),
        (format!("files://{name}"), format!("`files:/{name}` begins at the root")),
        ("sqlite::memory:".into(), "a store is a file: `sqlite:PATH`".into()),
        (":memory:".into(), "a store is a file".into()),
        ("sqlite:file:x?mode=memory".into(), "a store is a file".into()),
    ] {
        let said = home.feed(&["append", "--new", "--store", &store], HELLO);
        assert_eq!(said.code, 2, "{store}: {said:?}");
        assert!(said.err.contains("is not a store"), "{said:?}");
        assert!(said.err.contains(&hint), "{said:?}");
    }
    assert!(!std::path::Path::new("/").join(&name).exists());
    assert_eq!(std::fs::read_dir(home.path()).expect("there").count(), 0, "nothing was made");
    let whole = format!("sqlite://{}", home.path().join("a.db").display());
    let said = home.feed(&["append", "--new", "--store", &whole], HELLO);
    assert!(said.code == 0 && home.path().join("a.db").exists(), "{whole}: {said:?}");
}

#[test]
fn a_damaged_log_says_what_to_do_and_doctor_does_it() {
    let home = Home::new();
    let store = ["--store", "files:sessions"];
    let run = |args: &[&str]| home.run(&[args, &store[..]].concat());
    let said = home.feed(&[&["append", "--new", "--name", "plan"], &store[..]].concat(), HELLO);
    assert_eq!(said.code, 0, "{said:?}");
    let database = home.path().join("sessions/.rethread/sessions.db");
    let database = rusqlite::Connection::open(database).expect("the database");
    database.execute("UPDATE entries SET body = x'78'", []).expect("damaged");
    drop(database);
    let said = run(&["show", "plan"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("is damaged") && said.err.contains("`rethread doctor`"), "{said:?}");
    let said = run(&["doctor", "--check"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.out.contains("it can be rebuilt (entries: 1, from its file: 1, lost: 0)"),
        "{said:?}"
    );
    let said = run(&["doctor"]);
    assert!(said.out.contains("it was rebuilt"), "{said:?}");
    assert_eq!(run(&["doctor"]).code, 0);
    assert!(run(&["show", "plan"]).out.contains("  hello"));
}

#[test]
fn a_directory_whose_database_cannot_be_opened_is_rebuilt_on_request() {
    let home = Home::new();
    let store = ["--store", "files:sessions"];
    let run = |args: &[&str]| home.run(&[args, &store[..]].concat());
    let said = home.feed(&[&["append", "--new", "--name", "plan"], &store[..]].concat(), HELLO);
    assert_eq!(said.code, 0, "{said:?}");
    let database = home.path().join("sessions/.rethread/sessions.db");
    let mut bytes = std::fs::read(&database).expect("the database");
    bytes[..100].fill(0xa5);
    std::fs::write(&database, &bytes).expect("damaged");
    for args in [&["list"][..], &["doctor"]] {
        let said = run(args);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains("`rethread doctor --rebuild`"), "{said:?}");
        assert_eq!(std::fs::read(&database).expect("there"), bytes, "it was not changed");
    }
    let said = run(&["doctor", "--rebuild"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.err.contains("was moved to") && said.out.contains("1 session checked"),
        "{said:?}"
    );
    let kept = std::fs::read_dir(home.path().join("sessions/.rethread/damaged")).expect("kept");
    let kept: Vec<_> = kept.map(|kept| std::fs::read(kept.expect("one").path()).ok()).collect();
    assert_eq!(kept, [Some(bytes)]);
    assert!(run(&["show", "plan"]).out.contains("  hello"));
    let said = run(&["doctor", "--rebuild"]);
    assert!(said.code == 0 && said.err.contains("Nothing to rebuild"), "{said:?}");
}
