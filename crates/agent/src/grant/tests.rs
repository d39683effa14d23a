use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::*;

fn like(command: &str) -> Option<String> {
    Grant::like(RUN, Some(command)).map(|grant| grant.to_string())
}

fn fits(prefix: &str, command: &str) -> bool {
    Grant::command(prefix).expect("a prefix").fits(RUN, Some(command))
}

#[test]
fn a_prefix_fits_one_simple_command_and_nothing_else() {
    for command in [
        "cargo test",
        "cargo  test -p core",
        " cargo\ttest ",
        "cargo test -- --skip 'a b'",
        "cargo test \"a; b\"",
        "'cargo' test",
        "cargo test src/*.rs",
        "cargo test --features=x",
    ] {
        assert!(fits("cargo test", command), "{command}");
    }
    for command in [
        "cargo",
        "cargo build",
        "cargo testing",
        "cargo -q test",
        "cargo +nightly test",
        "cargo test; rm -rf .",
        "cargo test ;rm -rf .",
        "cargo test && rm x",
        "cargo test || rm x",
        "cargo test | sh",
        "cargo test $(rm x)",
        "cargo test `rm x`",
        "cargo test \"$(rm x)\"",
        "cargo test \"`rm x`\"",
        "cargo test ${x}",
        "cargo test $HOME",
        "cargo test > /etc/x",
        "cargo test 2>&1",
        "cargo test < x",
        "cargo test <(rm x)",
        "cargo test\nrm x",
        "cargo test\r\nrm x",
        "cargo test 'a\nb'",
        "cargo test & rm x",
        "cargo test &",
        "(cargo test)",
        "{ cargo test; }",
        "! cargo test",
        "cargo test \\\nrm x",
        "cargo test \\; rm x",
        "cargo test 'a",
        "cargo test \"a",
        "cargo test # more",
        "PATH=. cargo test",
        "A=1 cargo test",
        "env cargo test",
        "env A=1 cargo test",
        "sudo cargo test",
        "time cargo test",
        "nohup cargo test",
        "xargs cargo test",
        "sh -c 'cargo test'",
        "exec cargo test",
        "command cargo test",
        "./cargo test",
        "/tmp/cargo test",
        "cargo\u{a0}test",
        "cargo\u{b}test",
        "cargo\\ test",
        "carg? test",
        "cargo te*",
        "\u{feff}cargo test",
        "cargo test \u{0}",
        "",
    ] {
        assert!(!fits("cargo test", command), "{command:?}");
    }
}

#[test]
fn a_command_grant_fits_no_other_tool_and_no_call_without_a_command() {
    let grant = Grant::command("cargo").expect("a prefix");
    assert!(!grant.fits("write_file", Some("cargo test")) && !grant.fits(RUN, None));
    assert!(!Grant::tool("write_file").fits(RUN, Some("write_file")));
    assert!(Grant::tool("write_file").fits("write_file", None));
}

#[test]
fn a_command_like_another_begins_with_its_program_and_its_verb() {
    for (command, expected) in [
        ("ls -la src", "run:ls"),
        ("cargo test -p core", "run:cargo test"),
        ("git status --short", "run:git status"),
        ("npm run test -- --watch", "run:npm run test"),
        ("make check", "run:make check"),
        ("/usr/bin/git status", "run:/usr/bin/git status"),
        ("'rustfmt' src/a.rs", "run:rustfmt"),
    ] {
        assert_eq!(like(command).as_deref(), Some(expected), "{command}");
    }
    assert_eq!(Grant::like("edit_file", None), Some(Grant::tool("edit_file")));
}

#[test]
fn a_program_that_runs_any_command_has_no_prefix() {
    for command in [
        "",
        "git",
        "git -c alias.x=!rm status",
        "cargo +nightly test",
        "uv run pytest",
        "docker run alpine",
        "docker exec x sh",
        "npm exec x",
        "npm run",
        "git submodule; ls",
        "A=1 ls",
        "a=b",
        "ls | sh",
        "$SHELL -c x",
        "~/bin/x",
        "c*t x",
        "sh x.sh",
        "/bin/sh -c x",
        "bash5.2 -c x",
        "python3.12 x.py",
        "python3 -c 'x'",
        "env ls",
        "sudo ls",
        "xargs ls",
        "find . -delete",
        "perl -e x",
        ". ./x",
        "time ls",
        "[[ x ]]",
        "! ls",
    ] {
        assert_eq!(like(command), None, "{command:?}");
    }
}

#[test]
fn a_grant_is_written_as_it_is_shown() {
    for text in ["write_file", "edit_file", "run", "run:cargo test", "run:ls"] {
        let grant: Grant = text.parse().expect(text);
        assert_eq!(grant.to_string(), text);
    }
    assert_eq!("run: cargo   test ".parse(), Grant::command("cargo test"));
    for (text, expected) in [
        ("read_file", "is not a tool that changes anything"),
        ("running", "is not a tool that changes anything"),
        ("", "is not a tool that changes anything"),
        ("run:", "is not the start of one simple command"),
        ("run:cargo; rm", "is not the start of one simple command"),
        ("run:A=1 cargo", "is not the start of one simple command"),
        ("run:*", "is not the start of one simple command"),
        ("run:sh", "can run any command"),
        ("run:/usr/bin/env cargo", "can run any command"),
    ] {
        let error = text.parse::<Grant>().expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn what_is_offered_and_what_runs_follow_from_what_was_allowed() {
    let with = |allow: &[&str], read_only: bool, can_ask: bool| Permissions {
        allow: allow.iter().map(|text| text.parse().expect("a grant")).collect(),
        read_only,
        can_ask,
    };
    let test = Some("cargo test");
    let asked = with(&[], false, true);
    assert!(asked.offers("write_file") && asked.offers(RUN));
    assert_eq!(asked.verdict(RUN, test, None), Verdict::Ask);

    let alone = with(&["run:cargo test"], false, false);
    assert!(alone.offers(RUN) && !alone.offers("write_file"));
    assert_eq!(alone.verdict(RUN, test, None), Verdict::Run);
    let Verdict::Refuse(why) = alone.verdict(RUN, Some("cargo build"), None) else { panic!("ran") };
    assert_eq!(why, "only `run:cargo test` is allowed, and nobody can be asked here");
    assert!(matches!(alone.verdict(RUN, test, Some("network")), Verdict::Refuse(_)));

    let both = with(&["run"], false, true);
    assert_eq!(both.verdict(RUN, Some("a; b"), None), Verdict::Run);
    assert_eq!(both.verdict(RUN, test, Some("network")), Verdict::Ask);

    let never = with(&["run", "write_file"], true, true);
    assert!(!never.offers(RUN) && !never.offers("write_file"));
    assert!(matches!(never.verdict(RUN, test, None), Verdict::Refuse(_)));
}

/// The parts of random commands: words, and everything a shell interprets.
const PIECES: [&str; 52] = [
    "ok", "ok", "pwn", "pwn", " ", " ", " ", ";", "&", "&&", "|", "||", "$(", ")", "(", "`", "'",
    "'", "\"", "\"", "\\", "\n", "\r", "<", ">", ">>", "2>&1", "#", "{", "}", "!", "=", "A=1", "*",
    "?", "~", "\t", "$x", "${x}", "$", "-c", "env ", "exec ", "eval ", "sh ", "[", "]", "\u{a0}",
    "é", "<<x", ":", ",",
];

/// A real shell is the reference: a command that matches the prefix `ok` starts `ok` once, and
/// nothing else.
#[test]
fn no_random_command_that_fits_runs_anything_but_its_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bin, work) = (folder.path().join("bin"), folder.path().join("work"));
    let log = folder.path().join("log");
    std::fs::create_dir(&bin).expect("made");
    std::fs::create_dir(&work).expect("made");
    for name in ["ok", "pwn"] {
        let script = format!("#!/bin/sh\necho {name} >> {}\n", log.display());
        std::fs::write(bin.join(name), script).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(bin.join(name), mode).expect("may be run");
    }
    let grant = Grant::command("ok").expect("a prefix");
    let mut state = 19_u64;
    let mut roll = |most: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    let mut tried = 0;
    for _ in 0..60_000 {
        let mut command = if roll(8) == 0 { String::new() } else { "ok ".to_owned() };
        for _ in 0..roll(7) {
            command += PIECES[roll(PIECES.len())];
        }
        if !grant.fits(RUN, Some(&command)) || tried == 400 {
            continue;
        }
        tried += 1;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &command]).current_dir(&work).env_clear().env("PATH", &bin);
        shell.env("HOME", &work).env("x", "; pwn").stdin(Stdio::null());
        shell.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("a shell");
        let ran = std::fs::read_to_string(&log).unwrap_or_default();
        assert_eq!(ran, "ok\n", "{command:?}");
        std::fs::remove_file(&log).expect("removed");
        let made = std::fs::read_dir(&work).expect("read").count();
        assert_eq!(made, 0, "{command:?} wrote a file");
    }
    assert!(tried > 200, "only {tried} commands fit");
}
