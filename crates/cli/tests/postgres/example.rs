//! The worked example of `docs/scale.md`, to the letter.

use std::path::Path;

use rethread_store::testing::{as_nobody, folder, free_port};
use serde_json::Value;

/// What a person would type.
fn lines(document: &str) -> String {
    let block = document.split("```console\n").nth(1).and_then(|rest| rest.split("```").next());
    let block = block.expect("docs/scale.md has an example");
    let typed = block.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line));
    typed.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_worked_example_of_two_servers_works_word_for_word() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale.md");
    let document = std::fs::read_to_string(document).expect("docs/scale.md");
    let mut script = lines(&document);
    for port in ["5433", "8001", "8002"] {
        assert!(script.contains(port), "{port} in {script}");
        script = script.replace(port, &free_port().to_string());
    }
    let folder = folder();
    // The user of the database cannot look into everybody's folders.
    std::fs::copy(env!("CARGO_BIN_EXE_rethread"), folder.join("rethread")).expect("copied");
    // After any failure, nothing remains.
    let script = format!(
        "set -e\nexport HOME=$PWD PATH=$PWD:$PATH\n\
         trap 'kill $(jobs -p) 2>&-; pg_ctl --pgdata=pg --mode=immediate stop' EXIT\n\
         {script}\ntrap - EXIT\nwait\n"
    );
    let mut shell = as_nobody(Path::new("bash"));
    let done = shell.args(["-c", &script]).current_dir(&folder).env_clear();
    let done = done.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output();
    let done = done.expect("bash can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    std::fs::remove_dir_all(&folder).expect("removed");
    assert!(done.status.success(), "{out}\n{err}");
    let answers = out.split("{\"response\"").skip(1).map(|answer| {
        let answer = format!("{{\"response\"{answer}");
        let mut values = serde_json::Deserializer::from_str(&answer).into_iter::<Value>();
        values.next().expect("an answer").unwrap_or_else(|error| panic!("{error}: {out}"))
    });
    let sessions: Vec<Value> = answers.map(|answer| answer["session_id"].clone()).collect();
    assert_eq!(sessions.len(), 2, "{out}\n{err}");
    assert!(sessions[0].is_string() && sessions[0] == sessions[1], "{out}");
    let mut listed = out.lines().filter(|line| line.trim_start().starts_with("1  "));
    assert!(listed.next_back().is_some_and(|line| line.contains("  hello  ")), "{out}");
}
