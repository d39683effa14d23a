//! What `run` runs, and what it ends.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rethread_agent::tool::limits;
use serde_json::json;

use crate::desk::Desk;

#[test]
fn a_command_gives_its_output_in_order_and_its_exit_code() {
    let desk = Desk::new();
    let run = |command: &str| desk.run("run", json!({"command": command}));
    assert_eq!(run("echo one; echo two >&2; echo three"), "one\ntwo\nthree\n[exit code 0]");
    assert_eq!(run("printf x; exit 3"), "x\n[exit code 3]");
    assert_eq!(run("true"), "[exit code 0]");
    assert_eq!(run("kill -9 $$"), "[killed by signal 9]");
    assert_eq!(run("cat"), "[exit code 0]", "it gets no input");
    let here = desk.work().canonicalize().unwrap().display().to_string();
    assert_eq!(run("pwd"), format!("{here}\n[exit code 0]"));
}

#[test]
fn a_long_output_keeps_its_beginning_and_its_end() {
    let desk = Desk::new();
    let half = limits::OUTPUT_BYTES_MAX / 2;
    for extra in [0, 1] {
        let command = format!(
            "printf begin; head -c {} /dev/zero | tr '\\0' x; printf end",
            2 * half - 8 + extra
        );
        let answer = desk.run("run", json!({"command": command}));
        assert!(answer.starts_with("beginx") && answer.ends_with("xend\n[exit code 0]"));
        assert_eq!(answer.contains("\n[1 bytes left out]\n"), extra == 1);
    }
}

#[test]
fn secrets_in_the_environment_stay_there() {
    const NAMES: [&str; 5] = ["A_KEY", "my_token_2", "TheSecret", "PASSWORDS", "RETHREAD_STORE"];
    const URLS: [(&str, &str); 5] = [
        ("PG", "postgres://me:hush@db/rethread"),
        ("TWO", "http://plain/ http://:hush@proxy:3128/x"),
        ("BASE", "https://me:hu%40sh@hush@host?q"),
        ("https_proxy", "me:hush@proxy:3128"),
        ("ALL_PROXY", "socks5h://me:hush@proxy"),
    ];
    const OPEN: [(&str, &str); 4] = [
        ("A_WORD", "open"),
        ("REMOTE", "ssh://git@host:22/a"),
        ("REGISTRY", "http://localhost:4873/@scope"),
        ("HTTP_PROXY", "http://proxy:3128"),
    ];
    // A test must not change its own environment, so it runs itself once more in another.
    if std::env::var_os(NAMES[0]).is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "running::secrets_in_the_environment_stay_there"]);
        let output = again.envs(OPEN).envs(URLS).envs(NAMES.map(|name| (name, "hush"))).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
        return;
    }
    let answer = Desk::new().run("run", json!({"command": "env"}));
    assert!(answer.contains("PATH="), "{answer}");
    for (name, value) in OPEN {
        assert!(answer.contains(&format!("{name}={value}\n")), "{name}: {answer}");
    }
    assert!(!answer.contains("hush"), "{answer}");
}

/// Whether a process is there and not merely waiting to be reaped.
fn lives(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")) else {
        return false;
    };
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    !matches!(state, Some(b'Z' | b'X'))
}

/// Waits for a killed process to be gone: the signal is sent, but the kernel takes its time.
fn dies(pid: &str) -> bool {
    let start = std::time::Instant::now();
    while lives(pid) && start.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    !lives(pid)
}

#[test]
fn a_time_out_ends_the_whole_group() {
    let desk = Desk::new();
    let command = "sleep 300 & echo $! > child; (sleep 300 & echo $! > grandchild; wait) & wait";
    let answer = desk.run("run", json!({"command": command, "timeout_s": 1}));
    assert_eq!(answer, "error: [killed, because 1 s had passed]");
    for file in ["child", "grandchild"] {
        assert!(dies(desk.text(file).trim()), "{file}");
    }
}

#[test]
fn what_a_command_leaves_in_the_background_ends_with_it() {
    let desk = Desk::new();
    let answer = desk.run("run", json!({"command": "sleep 300 & echo $!"}));
    let (pid, rest) = answer.split_once('\n').unwrap();
    assert_eq!(rest, "[exit code 0]");
    assert!(dies(pid));
}

#[test]
fn a_command_nobody_waits_for_is_ended() {
    let desk = Desk::new();
    let stop = desk.site.stop.clone();
    let file = desk.work().join("pid");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while std::fs::read_to_string(&file).unwrap_or_default().trim().is_empty() {
                std::thread::yield_now();
            }
            stop.cancel();
        });
        let command = "sleep 300 & echo $! > pid; wait";
        assert_eq!(desk.run("run", json!({"command": command})), "error: [stopped]");
    });
    assert!(dies(desk.text("pid").trim()));
}
