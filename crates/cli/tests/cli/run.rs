//! Commands a model runs through the real binary: what they see, where they write, when they end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rethread_agent::scripted::{Answer, Server};
use serde_json::{Value, json};

use crate::home::{Home, Said};

/// The flags with which a command runs without anyone being asked.
const FLAGS: [&str; 6] = ["-p", "go", "--model", "openai/m", "--allow", "run"];

/// A model that runs this command and then finishes.
fn model(input: Value) -> Server {
    Server::start([Answer::calls([("run", input)]), Answer::text("done")])
}

/// Runs a command; returns the program's output and the result for the model.
fn ran(home: &Home, command: &str, variables: &[(&str, &str)]) -> (Said, String) {
    let server = model(json!({ "command": command }));
    let mut rethread = home.command(&FLAGS);
    rethread.envs(server.vars()).envs(variables.iter().copied());
    let said = Said::from(rethread.output().expect("it runs"));
    assert_eq!(said.code, 0, "{said:?}");
    let requests = server.requests();
    let messages = requests[1].body["messages"].as_array().expect("messages").clone();
    let told = messages.last().expect("a result")["content"].as_str().expect("text").to_owned();
    (said, told)
}

/// The number that a command wrote into a file, once the file exists.
fn pid_in(file: &Path) -> String {
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{} was not written", file.display());
        std::thread::yield_now();
    }
}

/// Whether a process has ended, or ends soon: the kernel may take a moment.
fn ends(pid: &str) -> bool {
    let stat = PathBuf::from("/proc").join(pid).join("stat");
    let lives = || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
        !matches!(state, None | Some(b'Z' | b'X'))
    };
    let start = Instant::now();
    while lives() && start.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    !lives()
}

/// Leaves a process running in a new session (`setsid`), whose parent is gone.
const DAEMON: &str = "(setsid sh -c 'echo $$ > left; exec sleep 302' >/dev/null 2>&1 &); \
                      while ! grep -q . left 2>/dev/null; do :; done";

#[test]
fn what_a_command_leaves_running_in_a_session_of_its_own_is_ended_with_it() {
    let home = Home::new();
    let (_, told) = ran(&home, &format!("{DAEMON}; echo here"), &[]);
    assert_eq!(told, "here\n[exit code 0]");
    assert!(ends(&pid_in(&home.path().join("left"))));
}

#[test]
fn nothing_of_a_command_is_left_when_its_time_is_up() {
    let home = Home::new();
    let server = model(json!({"command": format!("{DAEMON}; sleep 303"), "timeout_s": 1}));
    let said = Said::from(home.command(&FLAGS).envs(server.vars()).output().expect("it runs"));
    assert_eq!(said.code, 0, "{said:?}");
    let told = server.requests()[1].text.clone();
    assert!(told.contains("killed, because 1 s had passed"), "{told}");
    assert!(ends(&pid_in(&home.path().join("left"))));
}

#[test]
fn a_command_ends_when_the_program_that_asked_for_it_is_killed() {
    let home = Home::new();
    let server = model(json!({"command": format!("{DAEMON}; echo $$ > shell; exec sleep 304")}));
    let mut rethread = home.command(&FLAGS).envs(server.vars()).spawn().expect("it starts");
    let shell = pid_in(&home.path().join("shell"));
    let left = pid_in(&home.path().join("left"));
    rethread.kill().expect("killed");
    rethread.wait().expect("gone");
    assert!(ends(&shell) && ends(&left));
}

#[test]
fn a_command_sees_the_variables_that_were_named_and_no_secret() {
    let home = Home::new();
    let folder = home.path().join(".config/rethread");
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(folder.join("config.toml"), "[run]\nenv = [\"APP_*\"]\n").expect("written");
    let variables = [("GH_PAT", "hush"), ("JWT", "hush"), ("APP_MODE", "test")];
    let (_, told) = ran(&home, "env; tr '\\0' '\\n' < /proc/$PPID/environ", &variables);
    assert!(told.contains("APP_MODE=test\n") && told.contains("HOME="), "{told}");
    assert!(!told.contains("hush") && !told.contains("OPENAI_API_KEY"), "{told}");
}

#[test]
fn the_settings_say_where_commands_write() {
    let outside = tempfile::tempdir().expect("a folder");
    let file = outside.path().join("file");
    let command = format!("echo written > {}", file.display());
    let home = Home::new();
    // Otherwise, files outside the workspace would be in the temporary folder.
    let temporary = home.path().display().to_string();
    let (said, told) = ran(&home, &command, &[("TMPDIR", &temporary)]);
    if said.err.contains("cannot confine") {
        eprintln!("not tested: {}", said.err);
        return;
    }
    assert!(told.contains("may be a refusal by the sandbox"), "{told}");
    assert!(!file.exists());
    let folder = home.path().join(".config/rethread");
    std::fs::create_dir_all(&folder).expect("made");
    let config = format!("[run]\nwritable = [{:?}]\n", outside.path());
    std::fs::write(folder.join("config.toml"), config).expect("written");
    assert_eq!(ran(&home, &command, &[("TMPDIR", &temporary)]).1, "[exit code 0]");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "written\n");
}

#[test]
fn a_kernel_that_cannot_confine_commands_is_named_once_and_they_run() {
    let home = Home::new();
    let server = Server::start([
        Answer::calls([("run", json!({"command": "echo one"}))]),
        Answer::calls([("run", json!({"command": "echo two"}))]),
        Answer::text("done"),
    ]);
    let binary = home.command(&FLAGS);
    let mut strace = Command::new("strace");
    let inject = "inject=landlock_create_ruleset:error=EOPNOTSUPP";
    strace.args(["-f", "-qq", "-e", "trace=landlock_create_ruleset", "-e", inject, "-o"]);
    strace.arg(home.path().join("trace")).arg(binary.get_program()).args(binary.get_args());
    strace.current_dir(home.path()).env_clear().env("HOME", home.path());
    strace.env("RETHREAD_STORE", home.store()).envs(server.vars()).stdin(Stdio::null());
    let said = Said::from(strace.output().expect("strace runs"));
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.err.matches("this kernel cannot confine").count(), 1, "{said:?}");
    let told = server.requests()[2].text.clone();
    assert!(told.contains("one") && told.contains("two"), "{told}");
    // If it can, there is no warning.
    let (said, _) = ran(&home, "true", &[]);
    assert!(!said.err.contains("kernel") || said.err.contains("cannot confine"), "{said:?}");
}
