//! A tool call on one line: what it does, and its result.
//!
//! `read src/limit.rs 1–40`, `grep RateLimiter · 3 matches`, `run cargo test · exit 0 · 12 s`. Text
//! of a model or a tool is made visible here; the lines contain no escape sequences and are not
//! cut.

use std::time::Duration;

use rethread_agent::tool::FileChange;
use rethread_agent::{DECLINED, NOT_RUN};
use rethread_core::message::Call;
use rethread_render::Diff;
use rethread_render::terminal::{fit_line, line_width};
use serde_json::{Map, Value};

use crate::out::{clean, count, one_line, plural};

/// Columns of an argument. What a call does is readable then, in a wide window too.
const ARGUMENT_COLUMNS: usize = 60;

/// Columns that are left for what a call does, if its result is to be on the same line.
const WHAT_COLUMNS_MIN: usize = 16;

/// Steps of a `todo` list that are shown.
const TODO_LINES: usize = 50;

/// Columns of the reason why a call failed.
const REASON_COLUMNS: usize = 100;

/// What a call does: `read src/limit.rs 1–40`.
pub(crate) fn what(call: &Call) -> String {
    what_within(call, ARGUMENT_COLUMNS)
}

/// The same, with this many columns for each argument.
pub(crate) fn what_within(call: &Call, columns: usize) -> String {
    let short = |text: &str| crate::out::fit(text, columns);
    let input = input(call);
    let text = |name: &str| input.get(name).and_then(Value::as_str).map(short);
    let number = |name: &str| input.get(name).and_then(Value::as_u64);
    let path = || text("path").unwrap_or_else(|| ".".into());
    let glob = |name: &str| {
        input.get(name).and_then(Value::as_str).map(|glob| short(&readable_glob(glob)))
    };
    // The first argument that is a text; all of them if none is.
    let any_text = || match input.values().find_map(Value::as_str) {
        Some(text) => short(text),
        None if input.is_empty() => String::new(),
        None => short(&Value::Object(input.clone()).to_string()),
    };
    // Leaving files out says little about where it looked.
    let place = || text("path").or_else(|| glob("glob").filter(|glob| !glob.starts_with('!')));
    let within = || place().map(|at| format!(" in {at}")).unwrap_or_default();
    match call.name.as_str() {
        "read_file" => match (number("offset"), number("limit")) {
            (None, None) => format!("read {}", path()),
            (from, None) => format!("read {} {}–", path(), from.unwrap_or(1)),
            (from, Some(limit)) => {
                let from = from.unwrap_or(1);
                format!("read {} {from}–{}", path(), from.saturating_add(limit).saturating_sub(1))
            }
        },
        "list_dir" => format!("list {}", path()),
        "glob" => format!("glob {}{}", glob("pattern").unwrap_or_default(), within()),
        "grep" => {
            let pattern = input.get("pattern").and_then(Value::as_str).unwrap_or_default();
            format!("grep {}{}", short(&readable_pattern(pattern)), within())
        }
        "write_file" => format!("write {}", path()),
        "edit_file" => format!("edit {}", path()),
        "run" if input.get("background").and_then(Value::as_bool) == Some(true) => {
            format!("run in background {}", text("command").unwrap_or_default())
        }
        "run" => format!("run {}", text("command").unwrap_or_default()),
        "run_output" => format!("output of {}", text("id").unwrap_or_default()),
        "todo" => "todo".to_owned(),
        "recall" => {
            let reference = input.get("ref").map(|value| match value {
                Value::String(text) => short(text),
                other => short(&other.to_string()),
            });
            format!("recall {}", reference.unwrap_or_default())
        }
        "task" => {
            let prompt = text("prompt").unwrap_or_default();
            format!("task {}: {prompt}", text("agent").unwrap_or_default())
        }
        "search_sessions" => format!("search sessions {}", any_text()),
        name => format!("{} {}", one_line(name), any_text()).trim_end().to_owned(),
    }
}

/// A pattern for files, with the first two of many alternatives: `{README*,CONTRIBUTING*,…}`.
fn readable_glob(pattern: &str) -> String {
    const SHOWN: usize = 2;
    let mut shown = String::new();
    let mut alternatives = None;
    for c in pattern.strip_prefix("./").unwrap_or(pattern).chars() {
        match (c, alternatives) {
            ('{', _) => alternatives = Some(1),
            ('}', _) => alternatives = None,
            (',', Some(n)) => {
                alternatives = Some(n + 1);
                if n == SHOWN {
                    shown.push_str(",…");
                }
            }
            _ => {}
        }
        if alternatives.is_none_or(|n| n <= SHOWN) {
            shown.push(c);
        }
    }
    shown
}

/// The result of a call: `3 matches`, `exit 0`, `12 s`. `change` is what it did to a file, if that
/// was recorded.
pub(super) fn outcome(
    call: &Call,
    success: bool,
    text: &str,
    change: Option<&FileChange>,
    took: Duration,
) -> Vec<String> {
    let mut parts = Vec::new();
    match success {
        true => parts.extend(change.and_then(counts).or_else(|| found(call, text))),
        false => parts.push(format!("✗ {}", crate::out::fit(&reason(text), REASON_COLUMNS))),
    }
    if took.as_secs() >= 1 {
        parts.push(lasted(took));
    }
    parts
}

/// The whole line: the call, and its result. The call is cut where both do not fit into so many columns,
/// unless too little of it would be left.
pub(super) fn line(
    call: &Call,
    success: bool,
    text: &str,
    change: Option<&FileChange>,
    (took, columns): (Duration, usize),
) -> String {
    let outcome: String = outcome(call, success, text, change, took)
        .iter()
        .map(|part| format!(" · {part}"))
        .collect();
    let (what, room) = (what(call), columns.saturating_sub(line_width(&outcome)));
    match room >= WHAT_COLUMNS_MIN {
        true => fit_line(&what, room) + &outcome,
        false => what + &outcome,
    }
}

/// The verb of a call, by which many are counted together.
pub(super) fn verb(call: &Call) -> String {
    what(call).split(' ').next().unwrap_or_default().to_owned()
}

/// A duration in words: `12 s`, `2 min 5 s`, `1 h 2 min`.
pub(crate) fn lasted(took: Duration) -> String {
    let seconds = took.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// The result in a word, if possible.
fn found(call: &Call, text: &str) -> Option<String> {
    let listed = |name: &str, one: &str| {
        let answer: Map<String, Value> = serde_json::from_str(text).ok()?;
        let rows = answer.get(name)?.as_array()?.len() as u64;
        Some(match answer.get("more").and_then(Value::as_bool) {
            Some(true) => format!("more than {}", plural(rows, one)),
            _ => plural(rows, one),
        })
    };
    match call.name.as_str() {
        "read_file" => match text.rsplit_once("\n[lines ") {
            Some((_, rest)) => {
                let range = rest.split(|c: char| !c.is_ascii_digit() && c != '-').next()?;
                Some(format!("lines {}", range.replace('-', "–")))
            }
            None => Some(plural(text.lines().count() as u64, "line")),
        },
        "list_dir" => listed("files", "entry"),
        "glob" => listed("files", "file"),
        "grep" => listed("matches", "match"),
        "search_sessions" => listed("results", "result"),
        "run" | "run_output" => ended(text),
        "task" => rounds(text),
        "todo" => text.split(';').next().map(short),
        "edit_file" | "write_file" => changed(call).or_else(|| Some(short(text))),
        _ => None,
    }
}

/// How a command ended, from the last line of its result: `[exit code 0]`.
fn ended(text: &str) -> Option<String> {
    let last = text.lines().last()?.strip_prefix('[')?.strip_suffix(']')?;
    Some(match last.strip_prefix("exit code ") {
        Some(code) => format!("exit {}", clean(code)),
        None => clean(last),
    })
}

/// How long a subagent worked, from the last line of its result.
fn rounds(text: &str) -> Option<String> {
    let (_, rounds) = text.lines().last()?.strip_suffix(']')?.rsplit_once(": ")?;
    Some(clean(rounds))
}

/// What belongs below the line of a call: the list of `todo`.
pub(super) fn details(call: &Call) -> Vec<String> {
    if call.name != "todo" {
        return Vec::new();
    }
    let input = input(call);
    let items = input.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let line = |item: &Value| {
        let mark = match item["status"].as_str() {
            Some("done") => "☑",
            Some("in_progress") => "▸",
            _ => "☐",
        };
        format!("{mark} {}", one_line(item["text"].as_str().unwrap_or_default()))
    };
    items.iter().take(TODO_LINES).map(line).collect()
}

/// The text that an `edit_file` removes and inserts, edit by edit, according to the call.
pub(super) fn edits(call: &Call) -> Vec<(String, String)> {
    if call.name != "edit_file" {
        return Vec::new();
    }
    let both = |edit: &Map<String, Value>| {
        let text = |name: &str| edit.get(name).and_then(Value::as_str).map(str::to_owned);
        Some((text("old")?, text("new")?))
    };
    let input = input(call);
    match input.get("edits").and_then(Value::as_array) {
        Some(edits) => edits.iter().filter_map(Value::as_object).filter_map(both).collect(),
        None => both(&input).into_iter().collect(),
    }
}

/// How many lines a change to an existing file adds and removes: the numbers of the diff that was
/// shown with the question.
fn counts(change: &FileChange) -> Option<String> {
    let diff = Diff::new(change.before.as_deref()?, change.after.as_bytes());
    // The lines of a very large file are not counted.
    let counted = diff.added() + diff.removed() > 0;
    counted.then(|| added_and_removed(diff.added(), diff.removed()))
}

fn added_and_removed(added: usize, removed: usize) -> String {
    format!("+{} −{}", count(added as u64), count(removed as u64))
}

/// How many lines an edit adds and removes, according to the call.
fn changed(call: &Call) -> Option<String> {
    let input = input(call);
    if call.name == "write_file" {
        let content = input.get("content")?.as_str()?;
        return Some(plural(content.lines().count() as u64, "line"));
    }
    let edits = edits(call);
    if edits.is_empty() && !input.contains_key("edits") {
        return None;
    }
    let (mut added, mut removed) = (0, 0);
    for (old, new) in &edits {
        let diff = Diff::of_excerpts(old.as_bytes(), new.as_bytes());
        (added, removed) = (added + diff.added(), removed + diff.removed());
    }
    Some(added_and_removed(added, removed))
}

/// The line of a failure with the reason. A command's output comes before it.
fn reason(text: &str) -> String {
    // The model reads "the user declined"; here the reader is that user.
    if let Some(said) = text.strip_prefix(DECLINED) {
        return format!("you declined{said}");
    }
    if text == NOT_RUN {
        return "not run: you stopped the turn".to_owned();
    }
    let last = text.lines().last().unwrap_or_default();
    match last.starts_with('[') && last.ends_with(']') {
        true => last.trim_matches(['[', ']']).to_owned(),
        false => text.to_owned(),
    }
}

/// A pattern for people. A machine-made alternation is shown as the words it searches for; the
/// pager has all of it.
fn readable_pattern(pattern: &str) -> String {
    if !pattern.contains("(?") {
        return pattern.to_owned();
    }
    let mut plain = String::new();
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            // `\b` is not a letter, `\.` is a full stop.
            '\\' => plain.extend(chars.next().filter(|c| !c.is_alphanumeric())),
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '(' if chars.peek() == Some(&'?') => {
                // Up to the end of the flags: `(?i:`, `(?:`.
                while chars.next_if(|c| !matches!(c, ':' | ')')).is_some() {}
                plain.push(' ');
            }
            c if c.is_alphanumeric() || matches!(c, '_' | '-') => plain.push(c),
            _ => plain.push(' '),
        }
    }
    let mut words: Vec<String> = Vec::new();
    for word in plain.split_whitespace() {
        let word = word.to_lowercase();
        // The same word in another spelling, or a part of one that is there, says nothing more.
        if word.chars().count() > 1 && !words.iter().any(|known| known.contains(&word)) {
            words.push(word);
        }
    }
    match words.is_empty() {
        true => pattern.to_owned(),
        false => words.join(", "),
    }
}

fn input(call: &Call) -> Map<String, Value> {
    serde_json::from_str(call.input.get()).unwrap_or_default()
}

fn short(text: &str) -> String {
    crate::out::fit(text, ARGUMENT_COLUMNS)
}

#[cfg(test)]
mod tests {
    use rethread_core::Raw;
    use serde_json::json;

    use super::*;

    fn call(name: &str, input: Value) -> Call {
        Call { id: "1".into(), name: name.into(), input: Raw::of(&input) }
    }

    fn shown(name: &str, input: Value, text: &str, seconds: u64) -> String {
        line(&call(name, input), true, text, None, (Duration::from_secs(seconds), 80))
    }

    #[test]
    fn a_pattern_made_for_a_machine_is_shown_as_its_words() {
        for (pattern, shown) in [
            ("RateLimiter", "RateLimiter"),
            (r"fn \w+\(", r"fn \w+\("),
            (r"(?i:bucket).*(?:(?:\b|_)(?i:token)|[a-z]Token)", "bucket, token"),
            (r"(?i:rate limit)", "rate, limit"),
            ("(?:)", "(?:)"),
        ] {
            assert_eq!(readable_pattern(pattern), shown);
        }
    }

    #[test]
    fn a_todo_list_is_shown_step_by_step_and_drives_no_terminal() {
        let items = json!({"items": [
            {"text": "find \u{1b}[2Jit", "status": "done"},
            {"text": "fix\nit", "status": "in_progress"},
            {"text": "test it", "status": "pending"},
        ]});
        assert_eq!(
            shown("todo", items.clone(), "1 of 3 done; next: fix it", 0),
            "todo · 1 of 3 done"
        );
        let lines = details(&call("todo", items));
        assert!(lines[0].starts_with("☑ find ") && !lines[0].contains('\u{1b}'), "{lines:?}");
        assert!(lines[1].starts_with("▸ fix") && !lines[1].contains('\n'), "{lines:?}");
        assert_eq!(lines[2], "☐ test it");
        assert!(details(&call("run", json!({"command": "true"}))).is_empty());
    }

    #[test]
    fn a_call_is_one_readable_line() {
        let path = "src/limit.rs";
        for (name, input, text, seconds, expected) in [
            ("read_file", json!({"path": path, "offset": 1, "limit": 40}), "a\nb", 0, {
                "read src/limit.rs 1–40 · 2 lines"
            }),
            ("read_file", json!({"path": path}), "a\n[lines 1-2000 of 9000; read on]", 0, {
                "read src/limit.rs · lines 1–2000"
            }),
            (
                "grep",
                json!({"pattern": "RateLimiter"}),
                r#"{"matches":[1,2,3],"more":false}"#,
                0,
                { "grep RateLimiter · 3 matches" },
            ),
            (
                "grep",
                json!({"pattern": "a", "path": "src"}),
                r#"{"matches":[1],"more":true}"#,
                0,
                { "grep a in src · more than 1 match" },
            ),
            (
                "glob",
                json!({"pattern": "./{a*,b*,c*}/{x,y}"}),
                r#"{"files":[],"more":false}"#,
                0,
                { "glob {a*,b*,…}/{x,y} · 0 files" },
            ),
            ("grep", json!({"pattern": "x", "glob": "!{*.lock,*.svg}"}), "", 0, "grep x"),
            ("glob", json!({"pattern": "*.rs"}), r#"{"files":[],"more":false}"#, 0, {
                "glob *.rs · 0 files"
            }),
            ("list_dir", json!({}), r#"{"files":[1,2],"more":false}"#, 0, "list . · 2 entries"),
            ("run", json!({"command": "cargo test"}), "ok\n[exit code 0]", 12, {
                "run cargo test · exit 0 · 12 s"
            }),
            ("edit_file", json!({"path": path, "old": "a\nb", "new": "a\nc\nd"}), "", 0, {
                "edit src/limit.rs · +2 −1"
            }),
            ("write_file", json!({"path": path, "content": "a\n"}), "", 0, {
                "write src/limit.rs · 1 line"
            }),
            ("recall", json!({"ref": 42}), "", 0, "recall 42"),
            ("weather", json!({"days": 2, "town": "Oslo"}), "cold", 0, "weather Oslo"),
            ("clock", json!({}), "noon", 0, "clock"),
        ] {
            assert_eq!(shown(name, input, text, seconds), expected);
        }
    }

    #[test]
    fn a_recorded_change_is_counted_instead_of_the_arguments() {
        let edit = call("edit_file", json!({"path": "a", "old": "x", "new": "y", "all": true}));
        let text = "replaced 4 times in `a`";
        let change = |before: Option<&str>, after: &str| FileChange {
            path: "a".into(),
            before: before.map(|text| text.as_bytes().to_vec()),
            after: after.to_owned(),
        };
        let shown = |call: &Call, change: Option<&FileChange>| {
            outcome(call, true, text, change, Duration::ZERO).concat()
        };
        let four = change(Some("x\nx\nx\nx\n"), "y\ny\ny\ny\n");
        assert_eq!(shown(&edit, Some(&four)), "+4 −4");
        assert_eq!(shown(&edit, Some(&change(Some("x x\nx x\n"), "y y\ny y\n"))), "+2 −2");
        assert_eq!(shown(&edit, None), "+1 −1", "of an old log, only the arguments are known");
        let write = call("write_file", json!({"path": "a", "content": "one\ntwo\n"}));
        assert_eq!(shown(&write, Some(&change(Some("one\n"), "one\ntwo\n"))), "+1 −0");
        assert_eq!(shown(&write, Some(&change(None, "one\ntwo\n"))), "2 lines");
    }

    #[test]
    fn the_result_of_a_call_is_on_its_line_and_the_call_is_cut_instead() {
        let run = call("run", json!({"command": "words of a command ".repeat(9)}));
        let in_columns =
            |columns| line(&run, true, "[exit code 3]", None, (Duration::from_secs(4), columns));
        for (columns, expected) in [
            (78, "run words of a command words of a command words of a command w… · exit 3 · 4 s"),
            (77, "run words of a command words of a command words of a command … · exit 3 · 4 s"),
            (38, "run words of a command… · exit 3 · 4 s"),
            (31, "run words of a … · exit 3 · 4 s"),
        ] {
            assert_eq!(in_columns(columns), expected);
            assert!(line_width(expected) == columns, "{expected}");
        }
        assert!(
            in_columns(20).starts_with("run words of a command words"),
            "nothing would be left"
        );
    }

    #[test]
    fn a_failure_says_why() {
        let run = call("run", json!({"command": "sleep 9"}));
        let text = "a\nb\n[killed, because 60 s had passed]";
        assert_eq!(
            line(&run, false, text, None, (Duration::from_secs(61), 80)),
            "run sleep 9 · ✗ killed, because 60 s had passed · 1 min 1 s"
        );
        let task = call("task", json!({"agent": "explore", "prompt": "look"}));
        let text = "so far\n\n[`explore` worked in session 1: 2 rounds]\n[stopped]";
        assert_eq!(outcome(&task, false, text, None, Duration::ZERO), ["✗ stopped"]);
        let read = call("read_file", json!({"path": "x"}));
        let line = line(&read, false, "`x` is not there", None, (Duration::ZERO, 80));
        assert_eq!(line, "read x · ✗ `x` is not there");
        let declined = |said: &str| outcome(&read, false, said, None, Duration::ZERO).concat();
        assert_eq!(declined(DECLINED), "✗ you declined");
        assert_eq!(declined(&format!("{DECLINED}: use b")), "✗ you declined: use b");
    }

    #[test]
    fn what_a_model_wrote_cannot_drive_the_terminal_or_take_a_second_line() {
        for input in [json!({"command": "echo \u{1b}[2J\nrm x"}), json!("not an object")] {
            let line = what(&call("run", input));
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        assert_eq!(what(&call("e\u{1b}vil", json!({}))), "e\\u{1b}vil");
    }
}
