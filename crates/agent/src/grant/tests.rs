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
fn commands_like_a_known_one_begin_with_the_words_that_say_what_it_does() {
    for (command, expected) in [
        ("ls -la src", "run:ls (in this folder)"),
        ("touch a b", "run:touch (in this folder)"),
        ("'grep' -rn 'fn main' src", "run:grep (in this folder)"),
        ("grep -c x src/*.rs ./a", "run:grep (in this folder)"),
        ("grep '.*x' src", "run:grep (in this folder)"),
        (
            "cargo test -p core -- --nocapture a::b",
            "run:cargo test (usual options, in this folder)",
        ),
        (
            "cargo clippy --all-targets -- -D warnings",
            "run:cargo clippy (usual options, in this folder)",
        ),
        ("git status --short", "run:git status (usual options, in this folder)"),
        ("git log --oneline -5 -p -- src/a.rs", "run:git log (usual options, in this folder)"),
        ("git diff -U10 HEAD~1..HEAD", "run:git diff (usual options, in this folder)"),
        ("go test -run=TestA -v ./...", "run:go test (usual options, in this folder)"),
        ("pytest -xvs tests/test_a.py -k 'a and b'", "run:pytest (usual options, in this folder)"),
        ("rg -n 'a.*b' -g '*.rs' src", "run:rg (usual options, in this folder)"),
    ] {
        assert_eq!(like(command).as_deref(), Some(expected), "{command}");
        let grant = Grant::like(RUN, Some(command)).expect("a grant");
        assert!(grant.fits(RUN, Some(command)), "{command}");
    }
    assert_eq!(Grant::like("edit_file", None), Some(Grant::tool("edit_file")));
    let tests = Grant::like(RUN, Some("cargo test")).expect("a grant");
    assert!(tests.fits(RUN, Some("cargo test --workspace some_test")));
    assert!(!tests.fits(RUN, Some("cargo build")) && !tests.fits("edit_file", Some("cargo test")));
}

/// Commands that run another program, or write a file, because of their arguments.
const TRAPS: &[&str] = &[
    "sed '1e touch PWNED' f",
    "sed -n 1p f",
    "fd -x touch PWNED",
    "find . -exec touch PWNED ';'",
    "rg --pre ./x a",
    "rg --pre=./x a",
    "rg -z a",
    "rg --hostname-bin ./x a",
    "tar xf a.tar --to-command ./x",
    "sort -o f f",
    "awk 'BEGIN { system(1) }'",
    "perl -e 1",
    "deno eval 1",
    "pypy3 x",
    "julia x",
    "Rscript x",
    "ts-node x",
    "ip netns exec a b",
    "make SHELL=./x",
    "dotnet fsi x",
    "docker compose exec a b",
    "npm test --script-shell=./x",
    "git submodule foreach touch PWNED",
    "git bisect run touch PWNED",
    "git -c core.pager=./x log",
    "git config alias.x '!touch PWNED'",
    "git grep -O./x a",
    "git diff --output=f",
    "git diff --outpu=f",
    "git log -p --ext-diff",
    "git show --textconv",
    "git diff *",
    "cargo test --config build.rustc-wrapper=x",
    "cargo test --conf build.rustc-wrapper=x",
    "cargo test --manifest-path /tmp/x/Cargo.toml",
    "cargo clippy --fix",
    "cargo test -- --logfile f",
    "cargo run",
    "cargo +nightly test",
    "go test -exec ./x",
    "go test --exec=./x",
    "go vet -vettool=./x",
    "pytest -p x",
    "pytest -vpx",
    "pytest ../x",
    "cat /etc/passwd",
    "cat ~/.ssh/id",
    "cat a/../../b",
    "cat .*/b",
    "grep -f/etc/passwd a",
    "wc --files0-from=/etc/x",
    "rg a ~",
    "git diff --no-index a /etc/passwd",
];

#[test]
fn any_other_command_is_allowed_word_for_word() {
    let more = [
        "/bin/ls",
        "./ls",
        "A=1 ls",
        "ls | sh",
        "ls; rm x",
        "cat a > b",
        "echo $(rm x)",
        "sh test.sh",
        "git",
        "npm test",
        "a\nb",
    ];
    for command in TRAPS.iter().chain(&more) {
        let grant = Grant::like(RUN, Some(command)).expect("a grant");
        assert_eq!(grant, Grant::Exactly((*command).to_owned()));
        assert!(grant.fits(RUN, Some(&format!(" {command}\n"))), "{command}");
        assert!(!grant.fits(RUN, Some(&format!("{command} x"))) && !grant.fits(RUN, None));
        assert!(!grant.fits("edit_file", Some(command)), "{command}");
    }
}

#[test]
fn nothing_that_is_allowed_always_lets_arguments_run_a_program_or_write_a_file() {
    let harmless = ["rg a", "git diff", "git log", "git show", "git status", "cargo test"];
    let more = ["cargo clippy", "cargo build", "cargo fmt", "go test", "go vet", "pytest", "cat a"];
    for command in harmless.iter().chain(&more) {
        let grant = Grant::like(RUN, Some(command)).expect("a grant");
        assert!(!matches!(grant, Grant::Exactly(_)), "{command}");
        for trap in TRAPS {
            assert!(!grant.fits(RUN, Some(trap)), "{grant}: {trap}");
        }
    }
}

#[test]
fn a_grant_is_written_as_it_is_shown() {
    for text in ["write_file", "edit_file", "run", "run:cargo test", "run:ls", "run=a | b, 'c'"] {
        let grant: Grant = text.parse().expect(text);
        assert_eq!(grant.to_string(), text);
    }
    assert_eq!("run: cargo   test ".parse(), Grant::command("cargo test"));
    for (text, expected) in [
        ("read_file", "is not a tool that changes anything"),
        ("running", "is not a tool that changes anything"),
        ("", "is not a tool that changes anything"),
        ("run=", "is not a tool that changes anything"),
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
