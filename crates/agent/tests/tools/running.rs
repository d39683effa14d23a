//! What `run` runs, and which processes it kills.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rethread_agent::tool::{Confinement, RunSettings, limits};
use serde_json::json;

use crate::fixture::Fixture;

#[test]
fn a_command_gives_its_output_in_order_and_its_exit_code() {
    let fixture = Fixture::new();
    let run = |command: &str| fixture.run("run", json!({"command": command}));
    assert_eq!(run("echo one; echo two >&2; echo three"), "one\ntwo\nthree\n[exit code 0]");
    assert_eq!(run("printf x; exit 3"), "x\n[exit code 3]");
    assert_eq!(run("true"), "[exit code 0]");
    assert_eq!(run("kill -9 $$"), "[killed by signal 9]");
    assert_eq!(run("cat"), "[exit code 0]", "it gets no input");
    let here = fixture.work().canonicalize().unwrap().display().to_string();
    assert_eq!(run("pwd"), format!("{here}\n[exit code 0]"));
}

#[test]
fn a_long_output_keeps_its_beginning_and_its_end() {
    let fixture = Fixture::new();
    let half = limits::OUTPUT_BYTES_MAX / 2;
    for extra in [0, 1] {
        let command = format!(
            "printf begin; head -c {} /dev/zero | tr '\\0' x; printf end",
            2 * half - 8 + extra
        );
        let answer = fixture.run("run", json!({"command": command}));
        assert!(answer.starts_with("beginx") && answer.ends_with("xend\n[exit code 0]"));
        assert_eq!(answer.contains("\n[1 byte left out]\n"), extra == 1);
    }
}

/// Runs one test once more, in another environment: a test must not change its own.
fn again(test: &str, variables: &[(&str, &str)]) {
    let mut again = Command::new(std::env::current_exe().expect("this program"));
    again.args(["--exact", test]).env("AGAIN", "1").envs(variables.iter().copied());
    let output = again.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

#[test]
fn a_command_gets_the_variables_on_the_list_and_no_others() {
    const SECRET: [(&str, &str); 27] = [
        ("GH_PAT", "hush"),
        ("GITHUB_PAT", "hush"),
        ("MYSQL_PWD", "hush"),
        ("BORG_PASSPHRASE", "hush"),
        ("SSHPASS", "hush"),
        ("DOCKER_PASS", "hush"),
        ("MAVEN_PASS", "hush"),
        ("SMTP_PW", "hush"),
        ("JWT", "hush"),
        ("COOKIE", "hush"),
        ("SESSION", "hush"),
        ("OP_SESSION_x", "hush"),
        ("STRIPE_SK", "hush"),
        ("SLACK_WEBHOOK_URL", "https://hooks.example/hush"),
        ("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=hush"),
        ("A_KEY", "hush"),
        ("my_token_2", "hush"),
        ("TheSecret", "hush"),
        ("PASSWORDS", "hush"),
        ("RETHREAD_STORE", "hush"),
        ("PG", "postgres://me:hush@db/rethread"),
        ("SSH_AUTH_SOCK", "/hush"),
        ("A_WORD", "hush"),
        ("https_proxy", "me:hush@proxy:3128"),
        ("ALL_PROXY", "socks5h://me:hush@proxy"),
        ("GOPROXY", "https://me:hush@proxy"),
        ("NAMED_NOT", "hush"),
    ];
    const OPEN: [(&str, &str); 5] = [
        ("LC_ALL", "C"),
        ("HTTP_PROXY", "http://proxy:3128"),
        ("CARGO_HOME", "/somewhere"),
        ("NAMED", "open secret"),
        ("APP_URL", "postgres://me:open@db"),
    ];
    if std::env::var_os("AGAIN").is_none() {
        let all = [&SECRET[..], &OPEN[..]].concat();
        return again("running::a_command_gets_the_variables_on_the_list_and_no_others", &all);
    }
    let settings = RunSettings { env: vec!["NAMED".into(), "APP_*".into()], ..Default::default() };
    let answer = Fixture::with(settings).run("run", json!({"command": "env"}));
    assert!(answer.contains("PATH="), "{answer}");
    for (name, value) in OPEN {
        assert!(answer.contains(&format!("{name}={value}\n")), "{name}: {answer}");
    }
    assert!(!answer.contains("hush"), "{answer}");
    // Without a list, not even the variables that the user could name.
    let plain = Fixture::new().run("run", json!({"command": "env"}));
    assert!(!plain.contains("NAMED") && !plain.contains("APP_URL"), "{plain}");
}

/// Whether the kernel can do what a test of the sandbox needs. Without it there is nothing to test,
/// and the test says so.
fn confined() -> bool {
    let here = Confinement::here();
    if here != Confinement::Full {
        eprintln!("not tested: this kernel confines commands {here:?}");
    }
    here == Confinement::Full
}

#[test]
fn a_command_writes_the_workspace_and_the_temporary_folder_and_nothing_else() {
    const NAME: &str =
        "running::a_command_writes_the_workspace_and_the_temporary_folder_and_nothing_else";
    if !confined() {
        return;
    }
    // The workspaces of tests are in the temporary folder, so what is outside of both has to be
    // outside of a temporary folder of their own.
    if std::env::var_os("AGAIN").is_none() {
        let temporary = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let shown = |folder: &tempfile::TempDir| folder.path().display().to_string();
        let (temporary, outside) = (shown(&temporary), shown(&outside));
        return again(NAME, &[("TMPDIR", &temporary), ("OUTSIDE", &outside)]);
    }
    let folder = std::path::PathBuf::from(std::env::var_os("OUTSIDE").unwrap());
    let file = folder.join("file");
    std::fs::write(&file, "as it was").unwrap();
    let shown = file.display();
    let fixture = Fixture::new();
    let run = |fixture: &Fixture, command: String| fixture.run("run", json!({"command": command}));
    for command in [
        format!("echo changed > {shown}"),
        format!("rm {shown}"),
        format!("mv {shown} ."),
        format!("touch {shown}-new"),
        format!("mkdir {shown}-folder"),
        format!("ln {shown} here && echo changed > here"),
        format!("ln -s {shown} there; echo changed > there"),
        format!("mv {} {}", fixture.work().join("mine").display(), folder.display()),
    ] {
        fixture.write("mine", "x");
        let answer = run(&fixture, command.clone());
        assert!(!answer.contains("[exit code 0]"), "{command}: {answer}");
        assert!(answer.contains("may be a refusal by the sandbox"), "{command}: {answer}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "as it was", "{command}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    // Reading is allowed everywhere, and everything is allowed where it may write.
    for command in [
        format!("cat {shown} > copy"),
        "echo x > /dev/null".into(),
        "t=$(mktemp) && echo x > $t && rm $t".into(),
        "mkdir -p d/e && mv copy d/e/moved && ln d/e/moved linked".into(),
        "echo out > /dev/stdout; echo err > /dev/stderr".into(),
    ] {
        let answer = run(&fixture, command.clone());
        assert!(answer.contains("[exit code 0]"), "{command}: {answer}");
    }
    // Failures with another cause are not blamed on the sandbox.
    let answer = run(&fixture, "false".into());
    assert_eq!(answer, "[exit code 1]");
    // A refusal is named even if the last part of a command succeeds, or nobody waits for it.
    let piped = run(&fixture, format!("touch {shown}-new 2>&1 | tail -n 1"));
    assert!(piped.contains("[exit code 0]\n[this may be a refusal by the sandbox"), "{piped}");
    let later = fixture.run("run", json!({"command": format!("rm {shown}"), "background": true}));
    let job = later.split('`').nth(1).expect("its name").to_owned();
    let end = fixture.run("run_output", json!({"id": job, "wait_s": 20}));
    assert!(end.contains("[exit code 1]\n[this may be a refusal by the sandbox"), "{end}");
    // A folder must exist before it can be made writable.
    let writable = vec![folder.join("cache")];
    let missing = Fixture::with(RunSettings { writable, ..Default::default() });
    let answer = run(&missing, format!("mkdir {}/cache", folder.display()));
    assert!(answer.contains("/cache` would be writable too, but does not exist"), "{answer}");
    let settings = RunSettings { writable: vec![folder.clone()], ..Default::default() };
    let answer = run(&Fixture::with(settings), format!("echo changed > {shown}"));
    assert_eq!(answer, "[exit code 0]");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed\n");
}

#[test]
fn a_command_reaches_no_network_unless_that_was_allowed() {
    const NAME: &str = "running::a_command_reaches_no_network_unless_that_was_allowed";
    // The command is this test again: it connects to the address it is given.
    if let Ok(address) = std::env::var("CONNECT_TO") {
        match std::net::TcpStream::connect(address) {
            Ok(_) => return,
            Err(error) => panic!("connect: {error}"),
        }
    }
    if !confined() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let program = std::env::current_exe().unwrap();
    let command = format!("CONNECT_TO={address} {} --exact {NAME}", program.display());
    let run = |fixture: &Fixture, network: bool| {
        fixture.run("run", json!({"command": command, "network": network}))
    };
    let answer = run(&Fixture::new(), false);
    assert!(answer.contains("ermission denied") && answer.contains("[exit code 101]"), "{answer}");
    assert!(answer.contains("reaches no network unless `network` is set"), "{answer}");
    // Some programs report it with their exit code alone.
    let silent = Fixture::new().run("run", json!({"command": "curl() { return 7; }; curl -s x"}));
    assert!(silent.contains("reaches no network unless `network` is set"), "{silent}");
    // By then, the loop has asked the user.
    let answer = run(&Fixture::new(), true);
    assert!(answer.ends_with("[exit code 0]"), "{answer}");
    let settings = RunSettings { network: true, ..Default::default() };
    let answer = run(&Fixture::with(settings), false);
    assert!(answer.ends_with("[exit code 0]"), "{answer}");
}

#[test]
fn a_command_cannot_look_into_or_end_the_program_that_started_it() {
    if !confined() {
        return;
    }
    let fixture = Fixture::new();
    let me = std::process::id();
    let link = format!("readlink /proc/{me}/exe");
    let answer = fixture.run("run", json!({"command": link}));
    assert_eq!(answer, "[exit code 1]");
    assert!(Command::new("sh").args(["-c", &link]).status().unwrap().success(), "else it can");
    let answer = fixture.run("run", json!({"command": format!("kill -0 {me}")}));
    assert!(answer.contains("ermitted") && answer.contains("sandbox"), "{answer}");
}

/// Whether a process exists and is not a zombie.
fn lives(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")) else {
        return false;
    };
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    !matches!(state, Some(b'Z' | b'X'))
}

/// Waits until a killed process is gone: the kernel may deliver the signal later.
fn dies(pid: &str) -> bool {
    let start = std::time::Instant::now();
    while lives(pid) && start.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    !lives(pid)
}

#[test]
fn a_time_out_ends_the_whole_group() {
    let fixture = Fixture::new();
    let command = "sleep 300 & echo $! > child; (sleep 300 & echo $! > grandchild; wait) & wait";
    let answer = fixture.run("run", json!({"command": command, "timeout_s": 1}));
    assert_eq!(answer, "error: [killed, because 1 s had passed]");
    for file in ["child", "grandchild"] {
        assert!(dies(fixture.text(file).trim()), "{file}");
    }
}

#[test]
fn what_a_command_leaves_in_the_background_ends_with_it() {
    let fixture = Fixture::new();
    let answer = fixture.run("run", json!({"command": "sleep 300 & echo $!"}));
    let (pid, rest) = answer.split_once('\n').unwrap();
    assert_eq!(rest, "[exit code 0]");
    assert!(dies(pid));
}

#[test]
fn a_command_nobody_waits_for_is_ended() {
    let fixture = Fixture::new();
    let stop = fixture.tool_context.stop.clone();
    let file = fixture.work().join("pid");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while std::fs::read_to_string(&file).unwrap_or_default().trim().is_empty() {
                std::thread::yield_now();
            }
            stop.cancel();
        });
        let command = "sleep 300 & echo $! > pid; wait";
        assert_eq!(fixture.run("run", json!({"command": command})), "error: [stopped]");
    });
    assert!(dies(fixture.text("pid").trim()));
}
